"""Scales, features and bounds as a user gives them: copied, checked, frozen.

Comes in: numbers, iterables, mappings, arrays and pandas Series, by feature or for all of them.
Goes out: floats, tuples, read-only mappings and read-only arrays that nothing done to what was
given can change. What only an ensemble can tell (names, how many features there are) is checked in
`carvegbm.limits`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, shown

__all__ = [
    "LARGEST_BUDGET",
    "are_ordered",
    "as_feature",
    "by_label",
    "called",
    "check_pair",
    "frozen_bounds",
    "frozen_features",
    "frozen_scale",
]

LARGEST_BUDGET = 1e100
"""Budgets and scales beyond 1e±100 have no use and would leave the range of doubles."""


def by_label(given: Any) -> Any:
    """A pandas Series as the mapping it is: its values belong to labels, not to places."""
    if not _is_series(given):
        return given
    if not given.index.is_unique:
        raise CarveError("a Series of limits needs a label for each value, and no label twice")
    return dict(given.items())


def _is_series(given: Any) -> bool:
    return hasattr(given, "iloc") and not hasattr(given, "columns")


def frozen_scale(given: Any) -> Any:
    """A scale as one float, a tuple of them, or a read-only mapping; all within range.

    A mapping leads to floats, or to pairs (down, up) where the two directions differ.
    """
    given = by_label(given)
    if isinstance(given, Mapping):
        scales = {as_feature(f): _scale_of(f, s, given) for f, s in given.items()}
        return MappingProxyType(scales)
    numbers = _numbers(given, "scale")
    if isinstance(numbers, float):
        return _check_scale(numbers, None)
    return tuple(_check_scale(number, position) for position, number in enumerate(numbers))


def _scale_of(feature: Any, value: Any, given: Any) -> float | tuple[float, float]:
    """The scale of one feature: a number, or a pair (down, up) in which 0 closes a direction."""
    if not isinstance(value, list | tuple | np.ndarray) or _ndim(value) == 0:
        return _check_scale(_number(value, "scale", given), feature)
    if len(value) != 2:
        raise CarveError(
            f"scale of {called(feature)} must be a number or a pair (down, up), got {shown(value)}"
        )
    down, up = (_number(end, "scale", given) for end in value)
    for end in (down, up):
        if end != 0:
            _check_scale(end, feature)
    return down if down == up != 0 else (abs(down), abs(up))  # no -0


def _check_scale(scale: float, feature: int | str | None) -> float:
    if 1 / LARGEST_BUDGET <= scale <= LARGEST_BUDGET:
        return scale
    of = "" if feature is None else f" of {called(feature)}"
    remedy = "; to close a direction, map the feature to a pair (down, up)" if scale == 0 else ""
    raise CarveError(f"scale{of} must be > 0 and finite (1e-100 to 1e100), got {scale}{remedy}")


def frozen_features(given: Any) -> tuple[int | str, ...] | tuple[bool, ...]:
    """Features by name or position, or a mask of truth values, as a tuple."""
    if _is_series(given) and all(isinstance(value, bool | np.bool_) for value in given):
        given = [label for label, chosen in by_label(given).items() if chosen]
    no_list = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if no_list or hasattr(given, "columns") or (isinstance(given, np.ndarray) and given.ndim != 1):
        raise CarveError(f"features must be a list of names or positions, got {shown(given)}")
    features = list(given)
    if features and all(isinstance(feature, bool | np.bool_) for feature in features):
        return tuple(bool(feature) for feature in features)
    return tuple(as_feature(feature) for feature in features)


def frozen_bounds(given: Any) -> Any:
    """A pair of floats, tuples or arrays, or a read-only mapping to pairs; None if it is empty.

    Two tuples have a number per feature; two arrays have a row per instance.
    """
    given = by_label(given)
    _refuse_frame(given)
    if isinstance(given, Mapping):
        pairs = {}
        for feature, pair in given.items():
            low, high = (_number(end, "bounds", given) for end in _pair(pair, feature))
            pairs[as_feature(feature)] = check_pair(low, high, called(feature))
        return MappingProxyType(pairs) or None
    low, high = map(by_label, _pair(given))
    if isinstance(low, Mapping) or isinstance(high, Mapping):
        return frozen_bounds(_paired(low, high))
    lows, highs = _bound(low, "lower bound"), _bound(high, "upper bound")
    if isinstance(lows, np.ndarray) or isinstance(highs, np.ndarray):
        return _by_row(lows, highs)
    if isinstance(lows, float) and isinstance(highs, float):
        return check_pair(lows, highs, "")
    return lows, highs  # compared where the number of features is known


def _bound(given: Any, what: str) -> float | tuple[float, ...] | npt.NDArray[np.float64]:
    """One number, one per feature, or a row of them per instance."""
    _refuse_frame(given)
    rows = isinstance(given, list | tuple) and bool(given) and _ndim(given[0]) == 1
    if not rows and not (isinstance(given, np.ndarray) and given.ndim == 2):
        return _numbers(given, what)
    try:
        array = np.ma.filled(np.ma.asarray(given), np.nan)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
        raise CarveError(f"{what} by row must be numbers (instances, features), got {shown(given)}")
    for row, column in np.argwhere(np.isnan(array))[:1].tolist():
        raise CarveError(
            f"{what} of {called(column)} in row {row} must not be NaN; where a value is missing, "
            "give -inf and inf"
        )
    return np.array(array, dtype=np.float64, order="C")


def _by_row(low: Any, high: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Both ends with a row per instance, of which one end has them."""
    ends = [np.asarray(end, dtype=np.float64) for end in (low, high)]
    shape = max((end.shape for end in ends), key=len)
    if any(end.shape not in (shape, shape[1:], ()) for end in ends):
        raise CarveError(
            "bounds by row need the same rows and columns for both ends, got "
            f"{' and '.join('x'.join(map(str, end.shape)) for end in ends)}"
        )
    lower, upper = (np.array(np.broadcast_to(end, shape), order="C") for end in ends)
    for row, column in np.argwhere(~are_ordered(lower, upper))[:1]:
        place = f"{called(int(column))} in row {row}"
        check_pair(float(lower[row, column]), float(upper[row, column]), place)
    for end in (lower, upper):
        end.flags.writeable = False
    return lower, upper


def _ndim(given: Any) -> int:
    """The number of dimensions; 1 of lists within a list that are not equally long."""
    try:
        return np.ndim(given)
    except ValueError:
        return 1


def _refuse_frame(given: Any) -> None:
    if hasattr(given, "columns"):
        raise CarveError(
            "bounds must be a pair (lower, upper) or a mapping, got a frame; for bounds by row "
            "give arrays with the model's columns, such as frame.to_numpy()"
        )


def _paired(low: Any, high: Any) -> dict[Any, tuple[Any, Any]]:
    """Two ends, one or both of them by label, as a mapping to pairs."""
    labels = list(low if isinstance(low, Mapping) else high)
    for end in (low, high):
        if isinstance(end, Mapping):
            if set(end) != set(labels):
                raise CarveError("bounds by label need the same labels for both ends")
        elif not np.isscalar(end):
            raise CarveError(f"bounds by label need labels for both ends, got {shown(end)}")

    def at(end: Any, label: Any) -> Any:
        return end[label] if isinstance(end, Mapping) else end

    return {label: (at(low, label), at(high, label)) for label in labels}


def check_pair(low: float, high: float, feature: str) -> tuple[float, float]:
    """The pair itself, if lower <= upper."""
    if are_ordered(low, high):
        return low, high
    of = f" of {feature}" if feature else ""
    raise CarveError(
        f"bounds{of} must be lower <= upper, with a number between, got ({low}, {high})"
    )


def are_ordered(low: Any, high: Any) -> Any:
    """Whether some number z has low <= z <= high."""
    return (low <= high) & (low < math.inf) & (high > -math.inf)


def _pair(given: Any, feature: Any = None) -> tuple[Any, Any]:
    try:
        if isinstance(given, Set):  # it has no first and no second
            raise TypeError
        low, high = given
    except (TypeError, ValueError):
        if feature is not None:
            raise CarveError(
                f"bounds of {called(feature)} must be a pair (lower, upper), got {shown(given)}"
            ) from None
        raise CarveError(
            f"bounds must be a pair (lower, upper) or a mapping to such pairs, got {shown(given)}"
        ) from None
    return low, high


def as_feature(given: Any) -> int | str:
    """A feature as a plain name or position."""
    if isinstance(given, str):
        return str(given)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return int(given)
    raise CarveError(f"features must be names or positions, got {given!r}")


def called(feature: int | str) -> str:
    """What a message calls a feature."""
    return feature if isinstance(feature, str) else f"feature {feature}"


def _numbers(given: Any, what: str) -> float | tuple[float, ...]:
    """One number, or as many as an iterable holds."""
    if isinstance(given, str | bytes | Mapping | Set):  # a set has no order
        raise _no_number(given, what)
    if isinstance(given, Iterable) and not (isinstance(given, np.ndarray) and given.ndim == 0):
        items = list(given)
        return tuple(_number(item, what, items) for item in items)
    return _number(given, what, given)


def _number(item: Any, what: str, given: Any) -> float:
    try:
        if isinstance(item, str | bytes | complex | np.complexfloating):  # which float() may read
            raise TypeError
        number = float(item)
    except (TypeError, ValueError, OverflowError):
        raise _no_number(given, what) from None
    if math.isnan(number):
        raise CarveError(f"{what} must not be NaN")
    return number


def _no_number(given: Any, what: str) -> CarveError:
    return CarveError(
        f"{what} must be one number, one per feature or a mapping, got {shown(given)}"
    )
