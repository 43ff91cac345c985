"""Sparse rows: decided in dense blocks of the compact problem, joined into one table.

Comes in: a task and rows that are CSR. Goes out: decisions about all of them. The column `witness`
holds objects: the changes, as positions of features and values, that make a row its witness; None
where there is none. `witnesses_of` puts them into the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.sparse import Csr, changed_rows, rows_of
from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.engines.task import Listen, Task
from carvegbm.problem import Problem, Rows
from carvegbm.trees.labels import as_given

__all__ = ["ZERO", "decide_in_blocks", "end_at_zero", "within_zero", "witnesses_of"]

ZERO = float(np.float32(1e-35))
"""LightGBM reads a number that is no larger than this as 0, but in CSR as the number it is."""

Decide = Callable[[Task, Rows, Listen | None], Decisions]


def decide_in_blocks(task: Task, rows: Rows, listen: Listen | None, decide: Decide) -> Decisions:
    """Decide every row by `decide`, which takes dense ones."""
    known: Decisions | None = None
    chosen = task.problem.compact[1].chosen
    for which, problem, part in task.problem.dense(rows):

        def hear(
            found: Decisions,
            finished: Indices,
            which: slice = which,
            problem: Problem = problem,
            part: Rows = part,
        ) -> None:
            nonlocal known
            if known is None:
                known = _empty(found, len(rows))
            at = which.start + finished
            for name, column in known.columns.items():
                if name == "witness":
                    column[at] = _changes(found, problem, part, finished, chosen)
                else:
                    column[at] = found[name][finished]
            if listen is not None:
                listen(known, at)

        decide(replace(task, problem=problem), part, hear)
    assert known is not None, "there is a row"
    return known


def witnesses_of(rows: Rows, changes: npt.NDArray[Any]) -> Csr:
    """A row per row of CSR: its witness, every change stored, or nothing where there is none."""
    flipped = np.flatnonzero([change is not None for change in changes])
    some = [changes[row] for row in flipped]
    lengths = [len(columns) for columns, _ in some]
    here = np.repeat(np.arange(len(flipped)), lengths)
    columns = np.concatenate([np.array([], dtype=np.int64), *(columns for columns, _ in some)])
    values = np.concatenate([np.array([]), *(values for _, values in some)])
    found = changed_rows(rows.X[flipped], here, columns, values)
    ends = np.zeros(len(rows) + 1, dtype=np.int64)
    ends[flipped + 1] = np.diff(found.indptr)
    return type(found)((found.data, found.indices, np.cumsum(ends)), shape=rows.X.shape)


def end_at_zero(witnesses: Csr) -> npt.NDArray[np.bool_]:
    """Which of the witnesses end at -ZERO, which LightGBM takes for 0 in an array alone."""
    rows = rows_of(witnesses)[witnesses.data == -ZERO]
    return np.bincount(rows, minlength=witnesses.shape[0]) > 0


def _empty(like: Decisions, count: int) -> Decisions:
    """A table with the columns of another, for so many rows."""
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.empty(count, dtype=column.dtype) for name, column in like.columns.items()
    }
    if "witness" in columns:
        columns["witness"] = np.full(count, None, dtype=object)
    return Decisions(columns)


def _changes(
    found: Decisions, problem: Problem, part: Rows, rows: Indices, features: Indices
) -> npt.NDArray[Any]:
    """What makes these rows of a part their witnesses; None where there is none."""
    changes = np.full(len(rows), None, dtype=object)
    places = np.flatnonzero(~np.isnan(found["distance"][rows]))
    places = places[np.argsort(rows[places])]  # rows are finished in any order, taken in theirs
    flipped = rows[places]
    some = part.take(flipped)
    witnesses = problem.witnesses(within_zero(problem, found["witness"][flipped], some), some)
    moved = (witnesses != some.given) & ~np.isnan(some.given)
    told = as_given(problem.ensemble, witnesses, some.given, some.source)
    for place, z, changed in zip(places.tolist(), told, moved, strict=True):
        changes[place] = features[changed], z[changed]
    return changes


def within_zero(problem: Problem, found: npt.NDArray[np.float64], some: Rows) -> Any:
    """Witnesses that end at -ZERO, the first number that LightGBM takes for 0, a number further.

    So they are on the same side however it reads them. Where the budget does not allow it, they
    stay.
    """
    splits = problem.ensemble.nodes[problem.ensemble.nodes["feature"] >= 0]["threshold"]
    ends = found == -ZERO
    if not ends.any() or -ZERO in splits or np.nextafter(-ZERO, -1) not in splits:
        return found
    inside = np.where(ends, np.nextafter(-ZERO, 0), found)
    distance = problem.core_attacker.distance
    for row in np.flatnonzero(ends.any(axis=1)).tolist():
        x = np.asarray(some.X[row], dtype=np.float64)
        if distance(x, inside[row]) > distance(x, found[row]):
            inside[row] = found[row]
    return inside
