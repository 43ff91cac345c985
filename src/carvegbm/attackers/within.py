"""Instances within an attacker's bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.instances.rows import first_where
from carvegbm.instances.sparse import Csr, first_absent, first_stored, is_sparse, rows_of

__all__ = ["first_outside"]

Floats = npt.NDArray[np.float64]

_ROWS_AT_ONCE = 1 << 12


def first_outside(
    X: npt.NDArray[Any] | Csr, lower: Floats, upper: Floats, *, absent_is_zero: bool = True
) -> tuple[int, int, float, float] | None:
    """Row and column of the first value out of bounds, and its bounds; None if there is none.

    `lower` and `upper` have a number per feature, or a row of them per row of X. What CSR leaves
    out is 0 or missing, and what is missing is nowhere.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> first_outside(X, X - 1, np.array([[9.0, 9.0], [9.0, 3.5]]))
    (1, 1, 3.0, 3.5)
    """
    if is_sparse(X):
        return _first_in_csr(X, lower, upper, absent_is_zero)
    if lower.ndim == 1:
        found = first_where(X, lambda rows: (rows < lower) | (rows > upper))
        if found is None:
            return None
        row, column = found
        return row, column, float(lower[column]), float(upper[column])
    for start in range(0, len(X), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        outside = np.argwhere((X[part] < lower[part]) | (X[part] > upper[part]))
        for at, column in outside[:1].tolist():
            row = start + at
            return row, column, float(lower[row, column]), float(upper[row, column])
    return None


def _first_in_csr(
    csr: Csr, lower: Floats, upper: Floats, absent_is_zero: bool
) -> tuple[int, int, float, float] | None:
    if lower.ndim == 1:
        places = [first_stored(csr, lambda x, f: (x < lower[f]) | (x > upper[f]))]
        if absent_is_zero:
            places.append(first_absent(csr, (lower > 0) | (upper < 0)))
        found = min((place for place in places if place is not None), default=None)
        return found and (*found, float(lower[found[1]]), float(upper[found[1]]))
    for start in range(0, csr.shape[0], _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        low, high, some = lower[part], upper[part], csr[part]
        outside = (low > 0) | (high < 0) if absent_is_zero else np.zeros(low.shape, dtype=bool)
        at = rows_of(some), some.indices
        outside[at] = (some.data < low[at]) | (some.data > high[at])
        for row, column in np.argwhere(outside)[:1].tolist():
            return start + row, column, float(low[row, column]), float(high[row, column])
    return None
