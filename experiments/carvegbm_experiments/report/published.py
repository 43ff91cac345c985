"""Robust training against published results: what was reached, and by how much it was missed.

An error of ours is the largest that the proofs leave possible: a row that time left open counts as
not robust. It reaches the published one if it is at or below it, unrounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from carvegbm_experiments.plan.robust import PUBLISHED, ROWS, SOURCES, Row
from carvegbm_experiments.report.lookup import Cells, Result, attacker_text
from carvegbm_experiments.report.tables.table import plural

__all__ = ["Line", "lines", "short_notes", "standing", "tally", "title"]


@dataclass(frozen=True)
class Line:
    """A row of a protocol, and our result where it is computed."""

    row: Row
    result: Result | None

    @property
    def clean(self) -> float | None:
        """Our error without an attacker, in percent."""
        return 100 * (1 - self.result["accuracy"]) if self.result else None

    @property
    def robust(self) -> tuple[float, float] | None:
        """Our error with the attacker, in percent: at least and at most."""
        if self.result is None:
            return None
        lower, upper = self.result["robustness"]
        return 100 * (1 - upper), 100 * (1 - lower)

    @property
    def clean_reached(self) -> bool:
        """Whether ours is at or below the published error; where none is, there is no miss."""
        published = self.row.clean
        return self.clean is not None and (published is None or self.clean <= published)

    @property
    def robust_reached(self) -> bool:
        """The same for the error with the attacker."""
        published = self.row.robust
        return self.robust is not None and (published is None or self.robust[1] <= published)


def lines(cells: Cells, protocol: str) -> list[Line]:
    """The rows of a protocol; none where no cell of it is there."""
    if not cells.cells("robust", protocol=protocol):
        return []
    rows = [row for row in ROWS if row.protocol == protocol]
    return [Line(row, _result(cells, row)) for row in rows]


def title(cells: Cells, dataset: str) -> str:
    """What to call a data set of robust training."""
    return SOURCES[dataset].title if dataset in SOURCES else cells.title(dataset)


def standing(found: list[Line]) -> str | None:
    """How many of the published results are reached."""
    done = [line for line in found if line.result]
    if not done:
        return None
    both = sum(line.robust_reached and line.clean_reached for line in done)
    left = len(found) - len(done)
    open_text = f" ({plural(left, 'row is', 'rows are')} not computed yet)" if left else ""
    return (
        f"{_reached(done)}, and in {both} of them an error without attack that is not above the "
        f"published one either{open_text}."
    )


def tally(cells: Cells) -> str | None:
    """The same of all protocols in one sentence."""
    found = [line for protocol in PUBLISHED for line in lines(cells, protocol) if line.result]
    return f"{_reached(found)} of published results." if found else None


def _reached(done: list[Line]) -> str:
    robust = sum(line.robust_reached for line in done)
    return (
        f"Robust training has an error under attack at or below the published one in {robust} of "
        f"{plural(len(done), 'row')}"
    )


def short_notes(cells: Cells, found: list[Line]) -> list[str]:
    """For every row that is not reached, by how much, and what was tried."""
    return [
        _short(cells, line)
        for line in found
        if line.result and not (line.clean_reached and line.robust_reached)
    ]


def _result(cells: Cells, row: Row) -> Result | None:
    asked = {"dataset": row.dataset, "norm": row.norm, "budget": float(row.budget)}
    return cells.result("robust", protocol=row.protocol, model="robust", **asked)


def _short(cells: Cells, line: Line) -> str:
    row, result = line.row, line.result
    assert result is not None
    parts = []
    if line.clean is not None and row.clean is not None and not line.clean_reached:
        parts.append(f"the error without attack is {line.clean:.2f} %, {row.clean:g} % published")
    if line.robust is not None and row.robust is not None and not line.robust_reached:
        error = line.robust[1]
        parts.append(
            f"the error under attack is {error:.2f} %, {row.robust:g} % published: "
            f"{plural(_rows_short(line), 'test row')} of {result['rows']:,}"
        )
    reports = [part.get("report") for part in result.get("folds", [result])]
    trials = sum(len(report.get("trials") or ()) for report in reports if report)
    judged = f"; {plural(trials, 'trial was', 'trials were')} judged on validation rows"
    tried = judged if trials else ""
    where = f"{title(cells, row.dataset)}, {attacker_text(row.norm, row.budget)}"
    return f"Not reached: {where}: {' and '.join(parts)}{tried}."


def _rows_short(line: Line) -> int:
    """How many more test rows would have to be robust."""
    assert line.result is not None
    assert line.robust is not None
    assert line.row.robust is not None
    share = (line.robust[1] - line.row.robust) / 100
    return math.ceil(share * float(line.result["rows"]))
