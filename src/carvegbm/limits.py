"""The limits of an attacker as a user gives them: copied, checked, frozen.

Comes in: numbers, iterables, mappings and pandas Series, by feature or for all of them. Goes out:
floats, tuples and read-only mappings that nothing done to what was given can change; and, once an
ensemble says how many features there are, one number per feature.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, shown

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = [
    "LARGEST_BUDGET",
    "check_pair",
    "frozen_bounds",
    "frozen_features",
    "frozen_scale",
    "per_feature",
    "positions",
]

LARGEST_BUDGET = 1e100
"""Budgets and scales beyond 1e±100 have no use and would leave the range of doubles."""


def _by_label(given: Any) -> Any:
    """A pandas Series as the mapping it is: its values belong to labels, not to places."""
    if not _is_series(given):
        return given
    if not given.index.is_unique:
        raise CarveError("a Series of limits needs a label for each value, and no label twice")
    return dict(given.items())


def _is_series(given: Any) -> bool:
    return hasattr(given, "iloc") and not hasattr(given, "columns")


def frozen_scale(given: Any) -> Any:
    """A scale as one float, a tuple of them, or a read-only mapping to them; all within range."""
    given = _by_label(given)
    if isinstance(given, Mapping):
        return MappingProxyType(
            {_feature(f): _check_scale(_number(s, "scale", given), f) for f, s in given.items()}
        )
    numbers = _numbers(given, "scale")
    if isinstance(numbers, float):
        return _check_scale(numbers, None)
    return tuple(_check_scale(number, position) for position, number in enumerate(numbers))


def _check_scale(scale: float, feature: int | str | None) -> float:
    if 1 / LARGEST_BUDGET <= scale <= LARGEST_BUDGET:
        return scale
    of = "" if feature is None else f" of {_called(feature)}"
    raise CarveError(f"scale{of} must be > 0 and finite (1e-100 to 1e100), got {scale}")


def frozen_features(given: Any) -> tuple[int | str, ...] | tuple[bool, ...]:
    """Features by name or position, or a mask of truth values, as a tuple."""
    if _is_series(given) and all(isinstance(value, bool | np.bool_) for value in given):
        given = [label for label, chosen in _by_label(given).items() if chosen]
    no_list = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if no_list or hasattr(given, "columns") or (isinstance(given, np.ndarray) and given.ndim != 1):
        raise CarveError(f"features must be a list of names or positions, got {shown(given)}")
    features = list(given)
    if features and all(isinstance(feature, bool | np.bool_) for feature in features):
        return tuple(bool(feature) for feature in features)
    return tuple(_feature(feature) for feature in features)


def positions(features: tuple[int | str, ...] | tuple[bool, ...], n: int) -> list[int | str]:
    """The features, where a mask of n truth values stands for the positions it marks."""
    if features and isinstance(features[0], bool):
        if len(features) != n:
            raise CarveError(f"a mask of features needs {n} entries, got {len(features)}")
        return [position for position, chosen in enumerate(features) if chosen]
    return list(features)


def frozen_bounds(given: Any) -> Any:
    """A pair of floats or of tuples of them, or a read-only mapping to pairs; lower <= upper."""
    given = _by_label(given)
    if hasattr(given, "columns"):
        raise CarveError("bounds must be a pair (lower, upper) or a mapping, got a frame")
    if isinstance(given, Mapping):
        pairs = {}
        for feature, pair in given.items():
            low, high = (_number(end, "bounds", given) for end in _pair(pair))
            pairs[_feature(feature)] = check_pair(low, high, _called(feature))
        return MappingProxyType(pairs)
    low, high = map(_by_label, _pair(given))
    if isinstance(low, Mapping) or isinstance(high, Mapping):
        return frozen_bounds(_paired(low, high))
    lows, highs = _numbers(low, "lower bound"), _numbers(high, "upper bound")
    if isinstance(lows, float) and isinstance(highs, float):
        return check_pair(lows, highs, "")
    return lows, highs  # compared where the number of features is known


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
    if low <= high:
        return low, high
    of = f" of {feature}" if feature else ""
    raise CarveError(f"bounds{of} must be lower <= upper, got ({low}, {high})")


def _pair(given: Any) -> tuple[Any, Any]:
    try:
        if isinstance(given, Set):  # it has no first and no second
            raise TypeError
        low, high = given
    except (TypeError, ValueError):
        raise CarveError(
            f"bounds must be a pair (lower, upper) or a mapping to such pairs, got {shown(given)}"
        ) from None
    return low, high


def _feature(given: Any) -> int | str:
    if isinstance(given, str):
        return str(given)
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return int(given)
    raise CarveError(f"features must be names or positions, got {given!r}")


def _called(feature: int | str) -> str:
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


def per_feature(
    given: Any, ensemble: Ensemble, what: str, default: float
) -> npt.NDArray[np.float64]:
    """One number per feature of the ensemble, from what `Attacker` holds."""
    n = ensemble.n_features
    if isinstance(given, Mapping):
        values = np.full(n, default)
        taken: dict[int, Any] = {}
        for feature, value in given.items():
            index = ensemble.feature_index(feature)
            if index in taken:
                raise CarveError(
                    f"{what} names {ensemble.feature_name(index)} twice, as {taken[index]!r} and "
                    f"{feature!r}"
                )
            taken[index] = feature
            values[index] = value
        return values
    if isinstance(given, tuple) and len(given) != n:
        raise CarveError(
            f"{what} must be one number, one per feature ({n}) or a mapping, "
            f"got {shown(list(given))}"
        )
    return np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), (n,)))
