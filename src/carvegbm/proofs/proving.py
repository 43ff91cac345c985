"""Proofs of verdicts: from what the engines decided to a file that anyone can check.

Comes in: a problem, its rows, and decisions with witnesses. Goes out: a file as docs/proofs.md has
it. The engines' word counts for nothing there: the core proves `robust` and `vulnerable` anew, by
rules that a checker knows, and what it cannot prove is marked.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.engines.decisions import ENGINES
from carvegbm.errors import CarveError
from carvegbm.instances.rows import check_threads
from carvegbm.keeping.files import replacing
from carvegbm.progress import Progress, progress_bar
from carvegbm.proofs.content import data_hash, model_hash
from carvegbm.proofs.names import names_of
from carvegbm.proofs.writing import ProofFile, number
from carvegbm.statuses import STATUSES, UNKNOWN

if TYPE_CHECKING:
    from pathlib import Path

    from carvegbm import _core
    from carvegbm.engines import Decisions, Task
    from carvegbm.limits import Limits
    from carvegbm.problem import Problem, Rows

__all__ = ["Proved", "check_provable", "write_proof"]

_LARGE_SPREAD = ENGINES.index("large-spread")
_UNPROVED = 16
_AT_ONCE = 1024
"""Rows that are proved before their proofs are written."""


class Proved(NamedTuple):
    """How many rows of a file have a status that is proved, and how many do not."""

    proved: int
    unproved: int

    def warning(self, path: Path) -> str:
        """What to say where some do not."""
        return (
            f"{path}: {self.unproved} of {self.proved + self.unproved} rows are undecided, or "
            "without a proof; give them more time by a longer timeout"
        )


def check_provable(rows: Rows) -> None:
    """Refuse, before any work is done, rows that proofs cannot speak of."""
    if rows.is_sparse:
        raise CarveError("proofs need dense rows, and X is sparse; give X.toarray(), or fewer rows")


def write_proof(
    path: Path,
    task: Task,
    rows: Rows,
    found: Decisions,
    *,
    own_labels: bool = False,
    progress: Progress = None,
) -> Proved:
    """Prove what was decided, and write it to a file; never half of it.

    `own_labels`: the labels are the model's own answers.
    """
    header = {
        "model": model_hash(task.problem.ensemble),
        "data": data_hash(rows.given, _labels(rows)),
        "attacker": attacker_of(task.problem),
        "labels": "own" if own_labels else "given",
        "rows": len(rows),
        "written_by": _program(),
    }
    counts = [0, 0]
    with (
        replacing(path) as temporary,
        open(temporary, "wb") as stream,
        progress_bar(progress, len(rows), "proving") as tick,
    ):
        file, names = ProofFile(stream, header), names_of(task.problem.translation)
        for begin in range(0, len(rows), _AT_ONCE):
            which = np.arange(begin, min(len(rows), begin + _AT_ONCE))
            for record, is_proved in _records(task, rows, found, which, names):
                file.add(record)
                counts[is_proved] += 1
            if tick is not None:
                tick(int(which[-1]) + 1)
        file.close()
    return Proved(counts[True], counts[False])


def _records(
    task: Task, rows: Rows, found: Decisions, which: npt.NDArray[np.int64], names: _core.ProofNames
) -> Iterator[tuple[bytes, bool]]:
    """The records of some rows, and whether they prove what they say."""
    status = found.status[which]
    stays = np.isin(status, [STATUSES.index("robust"), STATUSES.index("vulnerable")])
    parts = dict(
        zip(which[stays].tolist(), _parts(task, rows, found, which[stays], names), strict=True)
    )
    flips = which[~stays & (status != UNKNOWN)]
    some = rows.take(flips)
    z = task.problem.witnesses(found["witness"][flips], some) if len(flips) else some.given
    witnesses = dict(zip(flips.tolist(), zip(z, some.given, strict=True), strict=True))
    limits = task.problem.limits
    for row, code in zip(which.tolist(), status.tolist(), strict=True):
        bounds = _bounds(limits.lower[row], limits.upper[row]) if limits.by_row else b""
        proof = _changes(*witnesses[row]) if row in witnesses else parts.get(row, b"")
        if proof:
            yield number(row) + bytes([code]) + bounds + proof, True
        else:
            yield number(row) + bytes([code | _UNPROVED]) + bounds, False


def _parts(
    task: Task, rows: Rows, found: Decisions, which: npt.NDArray[np.int64], names: _core.ProofNames
) -> list[bytes]:
    """Proofs that nothing changes these rows; empty where none was found in time."""
    from carvegbm import _core

    problem, settings, some = task.problem, task.settings, rows.take(which)
    options = _core.Options(
        _core.Solver.search,
        np.full(len(some), settings.timeout),
        check_threads(settings.threads),
    )
    if some.bounds is not None:
        options.bound(*some.bounds)
    right = found["right"][which].astype(np.uint8)
    large_spread = (found["engine"][which] == _LARGE_SPREAD).astype(np.uint8)
    return _core.prove(problem.core, some.X, _labels(some), right, large_spread, names, options)


def _changes(z: npt.NDArray[Any], x: npt.NDArray[Any]) -> bytes:
    changed = np.flatnonzero((z != x) & ~np.isnan(x)).tolist()
    pairs = (number(f) + struct.pack("<d", float(z[f])) for f in changed)
    return number(len(changed)) + b"".join(pairs)


def _bounds(lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]) -> bytes:
    bounded = np.flatnonzero(np.isfinite(lower) | np.isfinite(upper)).tolist()
    pairs = (number(f) + struct.pack("<2d", lower[f], upper[f]) for f in bounded)
    return number(len(bounded)) + b"".join(pairs)


def _labels(rows: Rows) -> npt.NDArray[np.int32]:
    assert rows.labels is not None
    return rows.labels


def _program() -> str:
    from carvegbm import __version__

    return f"carvegbm {__version__}"


def attacker_of(problem: Problem) -> dict[str, Any]:
    """The attacker, its limits by position; what is not limited is left out."""
    attacker, limits = problem.attacker, problem.limits
    found: dict[str, Any] = {
        "norm": "inf" if math.isinf(attacker.norm) else int(attacker.norm),
        "budget": float(attacker.budget).hex(),
        **_limited(limits),
    }
    if limits.by_row:
        found["row_bounds"] = True
    return found


def _limited(limits: Limits) -> dict[str, Any]:
    up = limits.scale_up if len(limits.scale_up) else limits.scale
    arrays = {"down": limits.scale, "up": up}
    if not limits.by_row:
        arrays |= {"lower": limits.lower, "upper": limits.upper}
    found: dict[str, Any] = {
        name: {str(f): float(value).hex() for f, value in enumerate(array.tolist())}
        for name, array in arrays.items()
        if len(array)
    }
    if len(limits.changeable):
        found["features"] = np.flatnonzero(limits.changeable).tolist()
    if limits.step:
        found["step"] = {str(f): f"{s.numerator}/{s.denominator}" for f, s in limits.step.items()}
    if limits.categories:
        found["categories"] = {str(f): list(codes) for f, codes in limits.categories.items()}
    if limits.one_hot:
        found["one_hot"] = [list(group) for group in limits.one_hot]
    return found
