"""Copy, check and freeze scales, features and bounds as users give them.

Input: numbers, iterables, mappings, arrays, Series and frames, by feature or for all features.
Output: floats, tuples, read-only mappings and read-only arrays. What depends on the ensemble
(names, number of features) is checked in `carvegbm.limits`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, shown
from carvegbm.instances.columns import column_names, label_text
from carvegbm.instances.frames import frame_numbers
from carvegbm.instances.numbers import as_numbers

__all__ = [
    "LARGEST_BUDGET",
    "are_ordered",
    "as_feature",
    "by_name",
    "called",
    "check_pair",
    "frozen_bounds",
    "frozen_features",
    "frozen_scale",
]

LARGEST_BUDGET = 1e100
"""Budgets and scales beyond 1e±100 have no use and would leave the range of doubles."""


def by_name(given: Any) -> Any:
    """Named values as a mapping by feature name; anything else unchanged.

    Named values are a pandas Series, or the frame of one row that polars returns for `X.std()`. A
    Series with the default index, a RangeIndex from 0, has no names and becomes the list of its
    values. Other integer labels become texts, which stand for positions if the model has no names.

    Examples
    --------
    >>> import pandas
    >>> by_name(pandas.Series({"age": 2.0, "height": 3.0}))
    {'age': 2.0, 'height': 3.0}
    >>> by_name(pandas.Series([2.0, 3.0]))
    [2.0, 3.0]
    """
    if hasattr(given, "columns") and not hasattr(given, "iloc") and len(given) == 1:
        return {name: given[name][0] for name in column_names(given) or ()}
    if not _is_series(given):
        return given
    labels, values = given.index.tolist(), given.tolist()
    if labels and labels == list(range(len(labels))) and hasattr(given.index, "start"):
        return values
    names = [label_text(label) for label in labels]
    if len(set(names)) < len(names):
        raise CarveError("a Series of limits needs a label for each value, and no label twice")
    return dict(zip(names, values, strict=True))


def _is_series(given: Any) -> bool:
    return hasattr(given, "iloc") and not hasattr(given, "columns")


def frozen_scale(given: Any) -> Any:
    """A scale as one float, a tuple of them, or a read-only mapping; all within range.

    A mapping leads to floats, or to pairs (down, up) where the two directions differ.
    """
    given = by_name(given)
    if isinstance(given, Mapping):
        scales = {as_feature(f): _scale_of(f, s) for f, s in given.items()}
        return MappingProxyType(scales)
    numbers = _numbers(given, "scale")
    if isinstance(numbers, float):
        return _check_scale(numbers, None)
    return tuple(_check_scale(number, position) for position, number in enumerate(numbers))


def _scale_of(feature: Any, value: Any) -> float | tuple[float, float]:
    """The scale of one feature: a number, or a pair (down, up) in which 0 closes a direction."""
    what, kind = f"scale of {called(feature)}", "a number or a pair (down, up)"
    if not isinstance(value, list | tuple | np.ndarray) or _ndim(value) == 0:
        return _check_scale(_number(value, what, kind, value), feature)
    if len(value) != 2:
        raise CarveError(f"{what} must be {kind}, got {shown(value)}")
    down, up = (_number(end, what, kind, value) for end in value)
    for end in (down, up):
        if end != 0:
            _check_scale(end, feature)
    return down if down == up != 0 else (abs(down), abs(up))  # no -0


def _check_scale(scale: float, feature: int | str | None) -> float:
    if 1 / LARGEST_BUDGET <= scale <= LARGEST_BUDGET:
        return scale
    of = "" if feature is None else f" of {called(feature)}"
    remedy = ""
    if scale == 0 and feature is not None:
        remedy = "; give 1 if it is constant, a pair (down, up) to close a direction"
    raise CarveError(f"scale{of} must be > 0 and finite (1e-100 to 1e100), got {scale}{remedy}")


def frozen_features(given: Any) -> tuple[int | str, ...] | tuple[bool, ...]:
    """Features by name or position, or a mask of truth values, as a tuple."""
    if _is_series(given) and all(isinstance(value, bool | np.bool_) for value in given):
        mask = by_name(given)
        given = [f for f, chosen in mask.items() if chosen] if isinstance(mask, dict) else mask
    no_list = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if no_list or hasattr(given, "columns") or (isinstance(given, np.ndarray) and given.ndim != 1):
        raise CarveError(f"features must be a list of names or positions, got {shown(given)}")
    features = list(given)
    if features and all(isinstance(feature, bool | np.bool_) for feature in features):
        return tuple(bool(feature) for feature in features)
    return tuple(as_feature(feature) for feature in features)


def frozen_bounds(given: Any) -> Any:
    """A pair (lower, upper), or a read-only mapping to pairs; None if the mapping is empty.

    An end of the pair is a number, a tuple with a number per feature, or an array with a row per
    row of X. In a mapping it is a number, or an array with a number per row of X.
    """
    if _is_series(given):  # of pairs
        pairs = by_name(given)
        given = dict(enumerate(pairs)) if isinstance(pairs, list) else pairs
    if hasattr(given, "columns"):
        raise CarveError("bounds must be a pair (lower, upper) or a mapping, got one frame")
    if isinstance(given, Mapping):
        return _bounds_by_feature(given)
    pair = _pair(given)
    if all(hasattr(end, "iloc") and hasattr(end, "columns") for end in pair):
        _check_index(*pair, "bounds are two frames")
    low, high = (_by_column(by_name(end)) for end in pair)
    if isinstance(low, Mapping) or isinstance(high, Mapping):
        return _bounds_by_feature(_paired(low, high))
    lows, highs = _bound(low, "lower bound"), _bound(high, "upper bound")
    if isinstance(lows, np.ndarray) or isinstance(highs, np.ndarray):
        return _by_row(lows, highs)
    if isinstance(lows, float) and isinstance(highs, float):
        return check_pair(lows, highs, "")
    return lows, highs  # compared where the number of features is known


def _bounds_by_feature(given: Mapping[Any, Any]) -> Mapping[int | str, tuple[Any, Any]] | None:
    """A read-only mapping to pairs; all arrays in it have one length."""
    pairs: dict[int | str, tuple[Any, Any]] = {}
    lengths: dict[int, str] = {}
    indexed: tuple[str, Any] | None = None
    for feature, pair in given.items():
        name = called(as_feature(feature))
        pair = _pair(pair, feature)
        for series in filter(_is_series, pair):
            indexed = indexed or (name, series)
            names = name if indexed[0] == name else f"{indexed[0]} and {name}"
            _check_index(indexed[1], series, f"bounds of {names} are two Series")
        ends = [_end(end, f"bounds of {name}", pair) for end in pair]
        for end in ends:
            if isinstance(end, np.ndarray):
                lengths.setdefault(len(end), name)
        if len(lengths) > 1:
            counts = " and ".join(f"{count} of {of}" for count, of in lengths.items())
            raise CarveError(
                f"bounds by row must have the same number of rows for every feature, got {counts}"
            )
        lower, upper = np.broadcast_arrays(*ends)
        for (*row,) in np.argwhere(~are_ordered(lower, upper))[:1]:
            place = f"{name} in row {row[0]}" if row else name
            check_pair(float(lower[tuple(row)]), float(upper[tuple(row)]), place)
        pairs[as_feature(feature)] = ends[0], ends[1]
    return MappingProxyType(pairs) or None


def _check_index(one: Any, other: Any, what: str) -> None:
    """Refuse pandas objects with different indices: their rows are paired by position."""
    if not one.index.equals(other.index):
        raise CarveError(f"{what} with different indices; align them")


def _end(given: Any, what: str, pair: Any) -> float | npt.NDArray[np.float64]:
    """One number, or a read-only array with a number per row of X."""
    kind = "a pair of numbers, or of a number per row of X"
    if _is_text(given) or not hasattr(given, "__len__"):
        return _number(given, what, kind, pair)
    try:
        array = np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.empty(0)
    if array.ndim == 0:
        return _number(given, what, kind, pair)
    if array.ndim != 1 or len(array) == 0:
        raise CarveError(f"{what} must be {kind}, got {shown(pair)}")
    return _finished(as_numbers(array, what), lambda row: f"{what} in row {row}")


def _by_column(given: Any) -> Any:
    """A frame as a mapping to its columns, or as an array if its columns have no names."""
    if not hasattr(given, "columns"):
        return given
    names = column_names(given) or []
    values = frame_numbers(given, names, "bounds")
    if names == [str(position) for position in range(len(names))]:
        return values
    return dict(zip(names, values.T, strict=True))


def _bound(given: Any, what: str) -> float | tuple[float, ...] | npt.NDArray[np.float64]:
    """One number, one per feature, or a row of them per row of X."""
    rows = isinstance(given, list | tuple) and bool(given) and _ndim(given[0]) == 1
    if not rows and not (isinstance(given, np.ndarray) and given.ndim == 2):
        return _numbers(given, what)
    try:
        array = np.ma.filled(np.ma.asarray(given), np.nan)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim != 2 or array.size == 0 or array.dtype.kind not in "iuf":
        raise CarveError(f"{what} by row must be numbers (rows, features), got {shown(given)}")
    return _finished(array, lambda row, column: f"{what} of {called(column)} in row {row}")


def _finished(array: npt.NDArray[Any], place: Callable[..., str]) -> npt.NDArray[np.float64]:
    """A read-only copy as float64, without NaN; `place` names the entry at a position."""
    for position in np.argwhere(np.isnan(array))[:1].tolist():
        raise CarveError(
            f"{place(*position)} must not be NaN; where a value is missing, give -inf and inf"
        )
    copy = np.array(array, dtype=np.float64, order="C")
    copy.flags.writeable = False
    return copy


def _by_row(low: Any, high: Any) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Both ends with a row per row of X; at least one end has it already."""
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


def _paired(low: Any, high: Any) -> dict[Any, tuple[Any, Any]]:
    """Two ends, one or both of them by name, as a mapping to pairs."""
    labels = list(low if isinstance(low, Mapping) else high)
    for end in (low, high):
        if isinstance(end, Mapping):
            if set(end) != set(labels):
                raise CarveError("bounds by name need the same labels for both ends")
        elif not np.isscalar(end):
            raise CarveError(f"bounds by name need names for both ends, got {shown(end)}")

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
    kind = "one number, one per feature or a mapping"
    if _is_text(given) or isinstance(given, Mapping | Set) or hasattr(given, "columns"):
        raise _no_number(what, kind, given)
    if isinstance(given, Iterable) and not (isinstance(given, np.ndarray) and given.ndim == 0):
        items = list(given)
        return tuple(_number(item, what, kind, items) for item in items)
    return _number(given, what, kind, given)


def _number(item: Any, what: str, kind: str, given: Any) -> float:
    """One number; `kind` is what `given`, of which it is a part, should be."""
    try:
        if _is_text(item) or isinstance(item, complex | np.complexfloating):  # float() may read it
            raise TypeError
        number = float(item)
    except (TypeError, ValueError, OverflowError):
        raise _no_number(what, kind, given) from None
    if math.isnan(number):
        raise CarveError(f"{what} must not be NaN")
    return number


def _is_text(given: Any) -> bool:
    return isinstance(given, str | bytes)


def _no_number(what: str, kind: str, given: Any) -> CarveError:
    return CarveError(f"{what} must be {kind}, got {shown(given)}")
