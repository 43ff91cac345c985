"""Instances and options as the core takes them, from what a user gives."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError

__all__ = ["as_rows", "check_threads"]


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


def check_threads(threads: int | None) -> int:
    """Number of threads for the core, where 0 means all cores."""
    if threads is None:
        return 0
    if not isinstance(threads, int | np.integer) or not 1 <= threads < 2**31:
        raise DataError(f"threads must be a whole number >= 1, got {threads!r}")
    return int(threads)
