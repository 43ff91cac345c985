"""Instances and options as the core takes them, from what a user gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError

__all__ = ["as_rows", "check_threads", "first_where"]


def as_rows(X: npt.ArrayLike) -> npt.NDArray[np.float64] | npt.NDArray[np.float32]:
    """X as a C-ordered array (rows, features) of float64 or float32; not copied if it is one."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        array = np.asanyarray(X)
        if array.dtype.kind == "c":
            raise TypeError("complex numbers have no order")
        if array.dtype not in (np.float64, np.float32):
            array = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"X must be numbers: {error}") from None
    if array.ndim != 2:
        raise DataError(f"X must have two dimensions (rows, features), got {array.ndim}")
    return np.ascontiguousarray(array)


_ROWS_AT_ONCE = 4096


def first_where(
    X: npt.NDArray[Any], test: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]
) -> tuple[int, int] | None:
    """Row and column of the first value that passes the test; a part of X is looked at in turn.

    Examples
    --------
    >>> first_where(np.array([[1.0, 2.0], [3.0, np.nan]]), np.isnan)
    (1, 1)
    """
    for start in range(0, len(X), _ROWS_AT_ONCE):
        found = np.argwhere(test(X[start : start + _ROWS_AT_ONCE]))
        if len(found):
            row, column = (int(position) for position in found[0])
            return start + row, column
    return None


def check_threads(threads: int | None) -> int:
    """Number of threads for the core, where 0 means all cores."""
    if threads is None:
        return 0
    if not isinstance(threads, int | np.integer) or not 1 <= threads < 2**31:
        raise DataError(f"threads must be a whole number >= 1, got {threads!r}")
    return int(threads)
