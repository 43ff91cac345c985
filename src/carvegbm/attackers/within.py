"""Instances within an attacker's bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.instances.rows import first_where

__all__ = ["first_outside"]

_ROWS_AT_ONCE = 1 << 12


def first_outside(
    X: npt.NDArray[Any], lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]
) -> tuple[int, int, float, float] | None:
    """Row and column of the first value out of bounds, and its bounds; None if there is none.

    `lower` and `upper` have a number per feature, or a row of them per row of X.

    Examples
    --------
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> first_outside(X, X - 1, np.array([[9.0, 9.0], [9.0, 3.5]]))
    (1, 1, 3.0, 3.5)
    """
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
