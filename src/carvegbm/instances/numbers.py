"""Values as doubles: every number a user gives is kept as it is, or refused.

Comes in: an array. Goes out: an array of float64, or of float32 where that is what came in. A
masked or null entry is a missing value (NaN).
What has a number behind it that it is not (a date, a category, a text) is refused, and so is a
number that no double holds (2^53 + 1), because a verdict about its neighbour is not one about it.
"""

from __future__ import annotations

import decimal
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError

__all__ = ["as_numbers", "refusal"]

_ALREADY = (np.dtype(np.float64), np.dtype(np.float32))
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating, decimal.Decimal)
_KINDS = {"U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations", "c": "complex"}
_EXACT = 1 << 53  # every whole number up to here is a double


def as_numbers(values: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """An array as float64, or as it is if it is float64 or float32; `what` is its name in errors.

    Examples
    --------
    >>> as_numbers(np.ma.masked_equal([[1, 2]], 2), "X").tolist()
    [[1.0, nan]]
    """
    if isinstance(values, np.ma.MaskedArray):
        return _unmasked(values, what)
    if values.dtype in _ALREADY:
        return values
    kind = values.dtype.kind
    if kind == "O":
        return _from_objects(values, what)
    if kind not in "biuf":
        raise refusal(what, f"{_KINDS.get(kind, 'values')} ({str(values.dtype)[:40]})")
    with np.errstate(over="ignore"):
        doubles = values.astype(np.float64)
    if values.dtype.itemsize >= 8:
        _refuse_rounding(values, doubles, what)
    return doubles


def _unmasked(values: np.ma.MaskedArray[Any, Any], what: str) -> npt.NDArray[Any]:
    hidden = np.ma.getmaskarray(values)
    plain = values.filled(0) if values.dtype.kind in "biuf" else np.asarray(values.data)
    numbers = as_numbers(plain, what)
    return np.where(hidden, numbers.dtype.type(np.nan), numbers) if hidden.any() else numbers


def _from_objects(values: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    """Python numbers; None, NA and masked entries are missing values."""
    flat = values.ravel().tolist()
    for kind in set(map(type, flat)):
        if issubclass(kind, np.timedelta64) or not (issubclass(kind, _NUMBERS) or _is_null(kind)):
            raise refusal(what, f"{kind.__name__} objects")
    doubles = np.empty(len(flat))
    for place, value in enumerate(flat):
        try:
            doubles[place] = np.nan if _is_null(type(value)) else float(value)
        except (OverflowError, ValueError):
            raise _beyond_doubles(value, what) from None
        exact = isinstance(value, int | np.integer | np.longdouble) and value == value
        if exact and not _is_the_same(value, doubles[place]):
            raise _beyond_doubles(value, what)
    return doubles.reshape(values.shape)


def _is_null(kind: type) -> bool:
    return kind is type(None) or kind is type(np.ma.masked) or kind.__name__ == "NAType"


def _refuse_rounding(values: npt.NDArray[Any], doubles: npt.NDArray[Any], what: str) -> None:
    """Refuse a value that is not the double it became."""
    if values.dtype.kind == "f":
        suspect = (doubles != values) & ~np.isnan(doubles)
    else:
        suspect = np.abs(doubles) >= _EXACT
    for place in np.argwhere(suspect):
        value, double = values[tuple(place)], doubles[tuple(place)]
        if not _is_the_same(value, double):
            raise _beyond_doubles(value, what)


def _is_the_same(value: Any, double: Any) -> bool:
    """Whether a number equals a double, with no rounding on the way to the comparison."""
    if isinstance(value, int | np.integer):
        return int(value) == float(double)  # which Python compares exactly, and numpy does not
    return bool(value == double)


def _beyond_doubles(value: Any, what: str) -> DataError:
    huge = isinstance(value, int) and value.bit_length() > 100
    shown = "a number beyond 1e30" if huge else str(value)
    return DataError(
        f"{what} must be numbers that a double holds, it holds {shown}; round it yourself"
    )


def refusal(what: str, kind: str) -> DataError:
    """What to say of values that are no numbers."""
    return DataError(f"{what} must be numbers, it holds {kind}; turn them into numbers first")
