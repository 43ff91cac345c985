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

from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.engines.task import Listen, Task
from carvegbm.instances.sparse import Csr, changed_rows
from carvegbm.problem import Problem, Rows

__all__ = ["decide_in_blocks", "witnesses_of"]

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
    flipped = rows[places]
    some = Rows(part.X[flipped], part.given[flipped])
    witnesses = problem.witnesses(found["witness"][flipped], some)
    moved = (witnesses != some.given) & ~np.isnan(some.given)
    for place, z, changed in zip(places.tolist(), witnesses, moved, strict=True):
        changes[place] = features[changed], z[changed]
    return changes
