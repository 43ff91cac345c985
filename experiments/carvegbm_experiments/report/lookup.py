"""Finding cells: by kind and configuration, one cell per question.

Comes in: any number of cells. Goes out: `Cells`, which holds the cells of one suite and answers
"the result of this kind for this data set, norm and budget". Where two cells answer the same
question under different settings, one counts and the other is left out, so that no table mixes
settings by accident: the one with more rows, then with the longer time limit, then with the smaller
seed, then the later one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from carvegbm import DataError
from carvegbm_experiments.plan.paper import DATASETS, MEASURES, Task
from carvegbm_experiments.plan.suites import NORMS
from carvegbm_experiments.report.tables.table import plural

__all__ = [
    "Asked",
    "Cells",
    "anchor",
    "attacker_text",
    "class_text",
    "is_extra",
    "machine_lines",
    "norm_text",
    "promised",
    "shown",
]

Record = Mapping[str, Any]
"""A stored cell, as its file has it."""
Result = Mapping[str, Any]

_TITLES = {
    "fmnist": "Fashion-MNIST 0 vs 3",
    "mnist": "MNIST 2 vs 6",
    "webspam": "Webspam",
    "breast-cancer": "Breast cancer",
    "digits": "Digits",
    "nsl-kdd": "NSL-KDD",
    "social-honeypot": "Social honeypot",
    "covtype": "Covertype",
}
_CLASSES = {("fmnist", "0"): "T-shirt", ("fmnist", "3"): "dress"}


class Cells:
    """The cells of one suite.

    Parameters
    ----------
    cells : iterable of dict
        Cells as they are stored.
    suite : str, optional
        Which suite to keep; by default "paper" where there is a cell of it, else the only one.

    Attributes
    ----------
    suite : str
        The suite kept ("" if there are no cells).
    left_out : int
        Cells of this suite that were measured under less thorough settings than another cell.

    Examples
    --------
    >>> cell = {"kind": "plain", "configuration": {"suite": "paper", "dataset": "fmnist"},
    ...         "result": {"accuracy": 0.97}}
    >>> Cells([cell]).result("plain", dataset="fmnist")["accuracy"]
    0.97
    >>> Cells([cell]).result("plain", dataset="mnist") is None
    True
    """

    def __init__(self, cells: Iterable[Record], suite: str | None = None) -> None:
        every = list(cells)
        suites = sorted({_suite(cell) for cell in every}, key=lambda name: (name != "paper", name))
        if suite is None and len(suites) > 1 and suites[0] != "paper":
            raise DataError(f"cells of several suites ({', '.join(suites)}); say which one to show")
        self.suite = suite if suite is not None else suites[0] if suites else ""
        chosen: dict[tuple[Any, ...], Record] = {}
        ours = [cell for cell in every if _suite(cell) == self.suite]
        for cell in ours:
            key = _question(cell)
            if key not in chosen or _thoroughness(cell) > _thoroughness(chosen[key]):
                chosen[key] = cell
        self.left_out = len(ours) - len(chosen)
        self._cells = [chosen[key] for key in sorted(chosen, key=repr)]

    def __len__(self) -> int:
        return len(self._cells)

    def cells(self, kind: str | None = None, **configuration: Any) -> list[Record]:
        """Every cell of a kind whose configuration has these values."""
        return [
            cell
            for cell in self._cells
            if kind in (None, cell["kind"])
            and all(
                _same(cell["configuration"].get(name), value)
                for name, value in configuration.items()
            )
        ]

    def result(self, kind: str, **configuration: Any) -> Result | None:
        """The result of the one cell that fits, or None if it has not been computed."""
        found = self.cells(kind, **configuration)
        if len(found) > 1:
            raise DataError(f"{len(found)} {kind} cells fit {configuration}; name more of them")
        return found[0]["result"] if found else None

    def tasks(self, *kinds: str) -> list[Task]:
        """Data set, norm and budget of every cell of these kinds, in reading order."""
        found = set()
        for cell in self._cells:
            setting = cell["configuration"]
            if cell["kind"] in kinds and setting.get("budget") is not None:
                found.add((setting["dataset"], setting["norm"], float(setting["budget"])))
        return sorted(found, key=self.order)

    def datasets(self) -> list[str]:
        """Names of the data sets the paper's evaluation is about, its own first."""
        paper = (cell for cell in self._cells if cell["kind"] not in ("robust", "attackers"))
        found = {str(cell["configuration"]["dataset"]) for cell in paper}
        return sorted(found, key=_dataset_order)

    def order(self, task: Task) -> tuple[Any, ...]:
        """Sort key: the order of the paper's Table 2."""
        dataset, norm, budget = task
        place = NORMS.index(norm) if norm in NORMS else len(NORMS)
        return (*_dataset_order(dataset), place, norm, float(budget))

    def title(self, dataset: str) -> str:
        """What to call a data set in a table."""
        cell = self.result("dataset", dataset=dataset)
        return str(cell["title"]) if cell else _TITLES.get(dataset, dataset)

    def seconds(self) -> float:
        """How long all the cells took together."""
        return float(sum(cell.get("seconds") or 0.0 for cell in self._cells))


class Asked:
    """Lookups that remember what was not there."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.missing: set[str] = set()

    def note(self, result: Result | None, kind: str, *names: object) -> Result | None:
        """Remember that a result asked for by other means is not there."""
        if result is None and (promised(self._cells) or self._cells.cells(kind)):
            self.missing.add(" ".join(map(str, (kind, *names))))
        return result

    def __call__(self, kind: str, dataset: str, *attacker: Any, **more: Any) -> Result | None:
        """The result for a data set and perhaps a norm and a budget."""
        names = dict(zip(("norm", "budget"), attacker, strict=False)) | more
        result = self._cells.result(kind, dataset=dataset, **names)
        return self.note(result, kind, dataset, *attacker, *more.values())

    def notes(self) -> tuple[str, ...]:
        """A sentence about what is missing, if anything is."""
        count = len(self.missing)
        return (f"Not computed yet: {plural(count, 'cell')} of this table.",) if count else ()


def promised(cells: Cells) -> bool:
    """Whether a dash stands for something a full run computes."""
    return cells.suite == "paper"


def is_extra(task: Task) -> bool:
    """Whether a row is none of the paper's: L2, or another budget for one of its data sets."""
    return task[1] == "2" or (task[0] in DATASETS and task not in MEASURES)


def shown(cells: Cells) -> list[Task]:
    """The rows of Table 2: the paper's for its data sets, every one computed for others.

    A data set no cell is about has no rows. A suite other than the paper's promises nothing, so
    only what has been computed is shown.
    """
    computed = cells.tasks("plain-robustness", "large-spread", "certified", "time")
    others = {task for task in computed if task[0] not in DATASETS and not is_extra(task)}
    papers = {task for task in MEASURES if task[0] in cells.datasets()}
    if not promised(cells):
        papers &= set(computed)
    return sorted(papers | others, key=cells.order)


def norm_text(norm: str) -> str:
    """L∞, L0, L1, L2."""
    return "L∞" if norm == "inf" else f"L{norm}"


def attacker_text(norm: str, budget: float) -> str:
    """An attacker in a few characters.

    >>> attacker_text("inf", 0.005), attacker_text("0", 2.0)
    ('L∞ 0.005', 'L0 2')
    """
    return f"{norm_text(norm)} {float(budget):g}"


def anchor(*parts: object) -> str:
    """An id made of words.

    >>> anchor("curve", "fmnist", "inf", 0.05)
    'curve-fmnist-inf-0-05'
    """
    return re.sub(r"[^a-z0-9]+", "-", "-".join(map(str, parts)).lower()).strip("-")


def class_text(dataset: str, label: object) -> str:
    """What to call a class.

    >>> class_text("fmnist", "3"), class_text("mnist", "6")
    ('dress', '6')
    """
    return _CLASSES.get((dataset, str(label)), str(label))


def machine_lines(cells: Cells) -> list[str]:
    """On what the cells were computed, one line per machine and set of versions."""
    seen: dict[str, list[str]] = {}
    for cell in cells.cells():
        machine = cell.get("machine") or {}
        cores = machine.get("cores")
        parts = [
            str(machine.get("cpu") or "unknown processor"),
            f"{cores} core{'' if cores == 1 else 's'}" if cores else "",
            f"Python {machine['python']}" if machine.get("python") else "",
            f"LightGBM {machine['lightgbm']}" if machine.get("lightgbm") else "",
            f"carvegbm {cell['version']}" if cell.get("version") else "",
        ]
        line = ", ".join(part for part in parts if part)
        seen.setdefault(line, []).append(str(machine.get("finished") or "")[:10])
    return [f"{line}{_between([day for day in days if day])}" for line, days in seen.items()]


def _between(days: list[str]) -> str:
    if not days:
        return ""
    first, last = min(days), max(days)
    return f", {first}" if first == last else f", {first} to {last}"


def _suite(cell: Record) -> str:
    return str(cell["configuration"].get("suite", "paper"))


def _question(cell: Record) -> tuple[Any, ...]:
    """What the cell answers, apart from how thoroughly."""
    setting = cell["configuration"]
    names = ["dataset", "norm", "criterion", "protocol", "model", "limits", "trained"]
    names += ["trees"] if cell["kind"] == "speed-up" else []
    budget = setting.get("budget")
    values = (str(setting.get(name, "")) for name in names)
    return (cell["kind"], *values, None if budget is None else float(budget))


def _thoroughness(cell: Record) -> tuple[Any, ...]:
    setting = cell["configuration"]
    rows = setting.get("rows", setting.get("max_rows"))
    return (
        float("inf") if rows is None else rows,
        setting.get("timeout") or 0.0,
        -(setting.get("seed") or 0),
        str((cell.get("machine") or {}).get("finished") or ""),
        json.dumps(setting, sort_keys=True, default=str),
    )


def _same(found: Any, asked: Any) -> bool:
    if isinstance(asked, float) and isinstance(found, (int, float)):
        return float(found) == asked
    return bool(found == asked)


def _dataset_order(name: str) -> tuple[int, str]:
    known = list(_TITLES)
    return (known.index(name) if name in known else len(known), name)
