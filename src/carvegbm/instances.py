"""Instances and options as the core takes them, from what a user gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.columns import column_names, order_of
from carvegbm.errors import DataError
from carvegbm.numbers import as_numbers, frame_numbers

__all__ = ["as_rows", "check_threads", "first_where"]


def as_rows(
    X: npt.ArrayLike, features: Sequence[str] | None = None
) -> npt.NDArray[np.float64] | npt.NDArray[np.float32]:
    """X as a C-ordered array (rows, features) of float64 or float32; not copied if it is one.

    A frame's columns are put in the order of `features`, see `carvegbm.columns`. See
    `carvegbm.numbers` for what is a number. An entry that a sparse matrix leaves out is 0.
    """
    names = column_names(X)
    order = None if names is None or features is None else order_of(names, features, "X")
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        array = np.asanyarray(X) if names is None else frame_numbers(X, names)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"X must be numbers: {error}") from None
    if array.ndim != 2:
        raise DataError(f"X must have two dimensions (rows, features), got {array.ndim}")
    rows = as_numbers(array, "X")
    return np.ascontiguousarray(rows if order is None else np.take(rows, order, axis=1))


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
