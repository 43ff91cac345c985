"""Witnesses of sparse rows, stored as changes: positions of features and their new values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.sparse import Csr, changed_rows, rows_of
from carvegbm.engines.query import Decisions, Indices
from carvegbm.model.categories import as_given
from carvegbm.problem import Problem, Rows

__all__ = ["ZERO", "changes_of", "end_at_zero", "within_zero", "witnesses_of"]

ZERO = float(np.float32(1e-35))
"""LightGBM reads |value| <= ZERO as 0 in a dense array, but as the value itself in CSR."""


def changes_of(
    found: Decisions, problem: Problem, part: Rows, rows: Indices, features: Indices
) -> npt.NDArray[Any]:
    """Return (features, values) of the changes that flip each row; None without a witness.

    `part` holds the rows of `problem`, which has only some of the features; `features` maps its
    columns to those of the source model.
    """
    changes = np.full(len(rows), None, dtype=object)
    places = np.flatnonzero(~np.isnan(found["distance"][rows]))
    places = places[np.argsort(rows[places])]  # rows finish in any order; take them in theirs
    flipped = rows[places]
    some = part.take(flipped)
    witnesses = problem.witnesses(within_zero(problem, found["witness"][flipped], some), some)
    changed = (witnesses != some.given) & ~np.isnan(some.given)
    decoded = as_given(problem.ensemble, witnesses, some.given, some.source)
    for place, z, columns in zip(places.tolist(), decoded, changed, strict=True):
        changes[place] = features[columns], z[columns]
    return changes


def witnesses_of(rows: Rows, changes: npt.NDArray[Any]) -> Csr:
    """Build CSR rows from changes: every change is stored; rows without a witness are empty."""
    flipped = np.flatnonzero([change is not None for change in changes])
    some = [changes[row] for row in flipped]
    lengths = [len(columns) for columns, _ in some]
    row_of_change = np.repeat(np.arange(len(flipped)), lengths)
    columns = np.concatenate([np.array([], dtype=np.int64), *(columns for columns, _ in some)])
    values = np.concatenate([np.array([]), *(values for _, values in some)])
    found = changed_rows(rows.X[flipped], row_of_change, columns, values)
    ends = np.zeros(len(rows) + 1, dtype=np.int64)
    ends[flipped + 1] = np.diff(found.indptr)
    return type(found)((found.data, found.indices, np.cumsum(ends)), shape=rows.X.shape)


def end_at_zero(witnesses: Csr) -> npt.NDArray[np.bool_]:
    """Which witnesses hold -ZERO, which LightGBM reads as 0 in dense arrays only."""
    rows = rows_of(witnesses)[witnesses.data == -ZERO]
    return np.bincount(rows, minlength=witnesses.shape[0]) > 0


def within_zero(problem: Problem, found: npt.NDArray[np.float64], some: Rows) -> Any:
    """Move witness values at -ZERO to the next double towards 0.

    LightGBM then routes them alike in dense arrays and CSR. Witnesses for which this would cost
    more stay as they are.
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
