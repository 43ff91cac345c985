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
from carvegbm.instances.rows import check_threads
from carvegbm.progress import Progress, progress_bar
from carvegbm.proofs.content import data_hash, model_hash
from carvegbm.proofs.names import names_of
from carvegbm.proofs.writing import ProofFile, number
from carvegbm.statuses import STATUSES
from carvegbm.storage.files import replacing
from carvegbm.trees.categories import in_codes

if TYPE_CHECKING:
    from pathlib import Path

    from carvegbm import _core
    from carvegbm.engines import Decisions, Task
    from carvegbm.limits import Limits
    from carvegbm.problem import Problem, Rows

__all__ = ["Proved", "write_proof"]

_LARGE_SPREAD = ENGINES.index("large-spread")
_UNPROVED = 16
_LONGEST = 1 << 24
"""Bytes of a proof; a block of records may have twice as many."""
_FLIPPED = [STATUSES.index("fragile"), STATUSES.index("broken")]


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
    problem = task.problem
    header = {
        "model": model_hash(problem.ensemble),
        "data": data_hash((part.given, _labels(part)) for _, part in problem.parts(rows)),
        "attacker": attacker_of(problem),
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
        file, names = ProofFile(stream, header), names_of(problem.translation)
        for which, part in problem.parts(rows):
            some = found.take(which)
            proofs = _parts(task, part, some, names)
            for place, changes in _changes(problem, part, some):
                proofs[place] = changes
            for record, is_proved in _records(problem, which, some, proofs):
                file.add(record)
                counts[is_proved] += 1
            if tick is not None:
                tick(which.stop)
        file.close()
    return Proved(counts[True], counts[False])


def _records(
    problem: Problem, which: slice, found: Decisions, proofs: list[bytes]
) -> Iterator[tuple[bytes, bool]]:
    """The records of some rows, and whether they prove what they say."""
    limits, rows = problem.limits, range(which.start, which.stop)
    for row, code, proof in zip(rows, found.status.tolist(), proofs, strict=True):
        bounds = _bounds(limits.lower[row], limits.upper[row]) if limits.by_row else b""
        if 0 < len(proof) <= _LONGEST:
            yield number(row) + bytes((code,)) + bounds + proof, True
        else:
            yield number(row) + bytes((code | _UNPROVED,)) + bounds, False


def _parts(task: Task, rows: Rows, found: Decisions, names: _core.ProofNames) -> list[bytes]:
    """Proofs that nothing changes the rows; empty where it does, or none is found in time."""
    from carvegbm import _core

    options = _core.Options(
        _core.Solver.search,
        np.full(len(rows), task.settings.timeout),
        check_threads(task.settings.threads),
    )
    if rows.bounds is not None:
        options.bound(*rows.bounds)
    large_spread = (found["engine"] == _LARGE_SPREAD).astype(np.uint8)
    return _core.prove(
        task.problem.core, rows.X, _labels(rows), found.status, large_spread, names, options
    )


def _changes(problem: Problem, rows: Rows, found: Decisions) -> Iterator[tuple[int, bytes]]:
    """The rows that something changes, and what."""
    from carvegbm import _core

    flips = np.flatnonzero(np.isin(found.status, _FLIPPED))
    if not len(flips):
        return
    some = rows.take(flips)
    z = _witnesses(problem, some, found["witness"][flips])
    yield from zip(flips.tolist(), _core.changes(problem.ensemble.core, z, some.given), strict=True)


def _witnesses(
    problem: Problem, rows: Rows, found: npt.NDArray[Any]
) -> npt.NDArray[np.float64] | npt.NDArray[np.float32]:
    """The witnesses of the rows, in code space."""
    if found.dtype != object:
        return problem.witnesses(found, rows)
    # Of rows that were sparse: what differs from the rows as they were given.
    z = np.array(rows.source, dtype=np.float64)
    for row, (features, values) in zip(z, found.tolist(), strict=True):
        row[features] = values
    return in_codes(problem.ensemble, z)


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
