"""The attacker A(p, k): how far, and in which features, an instance may be moved.

Comes in: norm, budget and per-feature limits as a user states them.
Goes out: the same, checked, and resolved against an ensemble for the core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, DataError
from carvegbm.instances import first_where

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.ensemble import Ensemble

__all__ = ["LARGEST_BUDGET", "Attacker", "Limits", "require_attacker"]

LARGEST_BUDGET = 1e100
"""Budgets and scales beyond 1e±100 have no use and would leave the range of doubles."""

_LARGEST_NORM = 100


@dataclass(frozen=True)
class Limits:
    """An attacker's per-feature limits for one ensemble; empty arrays where there are none."""

    scale: npt.NDArray[np.float64]
    changeable: npt.NDArray[np.uint8]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Attacker:
    """An attacker that moves x to any z with ‖(z − x) / scale‖_norm ≤ budget.

    Frozen: what is given is copied and checked, so that nothing done to it later, and no iterator
    that can be read only once, changes what the attacker may do.

    Parameters
    ----------
    norm : int, float or str
        p: 0 (number of changed features), 1, 2, 3, … or "inf" (largest change).
    budget : float
        k ≥ 0; a whole number for norm 0.
    scale : float, iterable or mapping, optional
        Distances in a feature are measured in units of its scale; one number for all features,
        one per feature, or a mapping from feature (name or position) to its scale. A pandas Series
        is a mapping from its labels, here and below. Default 1, also of features not named.
    features : iterable, optional
        The features the attacker may change, by name or position, or a mask with a truth value per
        feature. Default: all.
    bounds : (lower, upper) or mapping, optional
        z must stay within; each a number or one per feature, or a mapping from feature to its
        (lower, upper).

    Examples
    --------
    >>> Attacker(norm="inf", budget=0.01)
    Attacker(norm=inf, budget=0.01)
    >>> Attacker(norm=0, budget=3, features=[0, 2], bounds=(0, 1)).norm
    0
    """

    norm: int | float
    budget: float
    scale: Any
    features: Any
    bounds: Any

    def __init__(
        self,
        norm: int | float | str,
        budget: float,
        *,
        scale: float | Iterable[float] | Mapping[Any, float] | None = None,
        features: Iterable[int | str] | None = None,
        bounds: tuple[Any, Any] | Mapping[Any, tuple[float, float]] | None = None,
    ) -> None:
        checked_norm = check_norm(norm)
        frozen = {
            "norm": checked_norm,
            "budget": _check_budget(checked_norm, budget),
            "scale": None if scale is None else _frozen_scale(scale),
            "features": None if features is None else _frozen_features(features),
            "bounds": None if bounds is None else _frozen_bounds(bounds),
        }
        for name, value in frozen.items():
            object.__setattr__(self, name, value)

    def with_budget(self, budget: float) -> Attacker:
        """The same attacker with another budget."""
        return Attacker(
            self.norm, budget, scale=self.scale, features=self.features, bounds=self.bounds
        )

    def limits(self, ensemble: Ensemble) -> Limits:
        """The per-feature limits, as arrays over the ensemble's features."""
        n = ensemble.n_features
        scale = np.array([])
        if self.scale is not None:
            scale = _per_feature(self.scale, ensemble, "scale", default=1.0)
        changeable = np.array([], dtype=np.uint8)
        if self.features is not None:
            changeable = np.zeros(n, dtype=np.uint8)
            for feature in _positions(self.features, n):
                changeable[ensemble.feature_index(feature)] = 1
        lower = upper = np.array([])
        if self.bounds is not None:
            lower, upper = self._bounds(ensemble)
        return Limits(scale, changeable, lower, upper)

    def _bounds(
        self, ensemble: Ensemble
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if isinstance(self.bounds, Mapping):
            low: Any = {feature: pair[0] for feature, pair in self.bounds.items()}
            high: Any = {feature: pair[1] for feature, pair in self.bounds.items()}
        else:
            low, high = self.bounds
        lower = _per_feature(low, ensemble, "lower bound", default=-math.inf)
        upper = _per_feature(high, ensemble, "upper bound", default=math.inf)
        for feature in np.flatnonzero(~(lower <= upper))[:1]:
            _check_pair(
                float(lower[feature]), float(upper[feature]), ensemble.feature_name(int(feature))
            )
        return lower, upper

    def core(self, ensemble: Ensemble) -> _core.Attacker:
        """The attacker as the C++ core holds it, resolved against an ensemble."""
        from carvegbm import _core

        limits = self.limits(ensemble)
        norm = -1 if math.isinf(self.norm) else int(self.norm)
        return _core.Attacker(
            norm, self.budget, limits.scale, limits.changeable, limits.lower, limits.upper
        )

    def check_instances(
        self, ensemble: Ensemble, X: npt.NDArray[np.float64] | npt.NDArray[np.float32]
    ) -> None:
        """Refuse instances that lie outside the bounds themselves."""
        if self.bounds is None:
            return
        limits = self.limits(ensemble)
        outside = first_where(X, lambda rows: (rows < limits.lower) | (rows > limits.upper))
        if outside is not None:
            row, column = outside
            raise DataError(
                f"X row {row}, {ensemble.feature_name(column)}: value "
                f"{X[row, column]} lies outside the attacker's bounds "
                f"[{limits.lower[column]}, {limits.upper[column]}]; clip it or widen the bounds"
            )

    def distance(
        self, ensemble: Ensemble, x: npt.NDArray[np.float64], z: npt.NDArray[np.float64]
    ) -> float:
        """The smallest budget that affords moving x to z, exactly."""
        return float(self.core(ensemble).distance(x, z))

    def to_dict(self) -> dict[str, Any]:
        """The attacker as plain values, ready for JSON; an infinite bound becomes None."""
        return {
            "norm": "inf" if math.isinf(self.norm) else int(self.norm),
            "budget": self.budget,
            "scale": _plain(self.scale),
            "features": _plain(self.features),
            "bounds": _plain(self.bounds),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        # A read-only mapping cannot be pickled; a dict is what it was made of.
        given = (self.scale, self.features, self.bounds)
        plain = (dict(value) if isinstance(value, Mapping) else value for value in given)
        return _rebuild, (self.norm, self.budget, *plain)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attacker):
            return NotImplemented
        return self._key() == other._key()

    def _key(self) -> tuple[Any, ...]:
        return self.norm, self.budget, self.scale, self.features, self.bounds

    def __hash__(self) -> int:
        return hash((self.norm, self.budget))

    def __repr__(self) -> str:
        rest = "".join(
            f", {name}={dict(value) if isinstance(value, Mapping) else value!r}"
            for name in ("scale", "features", "bounds")
            if (value := getattr(self, name)) is not None
        )
        return f"Attacker(norm={self.norm}, budget={self.budget:g}{rest})"


def require_attacker(given: Any) -> None:
    """Refuse what is no `Attacker`, such as a budget alone."""
    if not isinstance(given, Attacker):
        raise CarveError(f"attacker must be an Attacker(norm, budget), got {_shown(given)}")


def check_norm(norm: int | float | str) -> int | float:
    """A norm as 0, 1, 2, … or math.inf."""
    message = f"norm must be 0, 1, 2, … (at most {_LARGEST_NORM}) or inf, got {norm!r}"
    if isinstance(norm, bool | np.bool_):
        raise CarveError(message)
    try:
        value = float(norm)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(message) from None
    if value == math.inf:
        return math.inf
    if not (0 <= value <= _LARGEST_NORM) or value != int(value):
        raise CarveError(message)
    return int(value)


def _check_budget(norm: int | float, budget: Any) -> float:
    try:
        value = float(budget)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"budget must be a number, got {_shown(budget)}") from None
    if not value >= 0:
        raise CarveError(f"budget must be >= 0, got {value:g}")
    if norm == 0 and math.isfinite(value) and value != int(value):
        raise CarveError(
            f"budget {value:g} with norm 0 means {int(value)} changed features; write {int(value)}"
        )
    if value > LARGEST_BUDGET or 0 < value < 1 / LARGEST_BUDGET:
        raise CarveError(f"budget must be 0 or between 1e-100 and 1e100, got {value:g}")
    return value


# ── what is given, copied and checked ────────────────────────────────────────────────────────


def _by_label(given: Any) -> Any:
    """A pandas Series as the mapping it is: its values belong to labels, not to places."""
    if hasattr(given, "index") and hasattr(given, "items") and not hasattr(given, "columns"):
        if not given.index.is_unique:
            raise CarveError("a Series of limits needs a label for each value, and no label twice")
        return dict(given.items())
    return given


def _frozen_scale(given: Any) -> Any:
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


def _frozen_features(given: Any) -> tuple[int | str, ...] | tuple[bool, ...]:
    """Features by name or position, or a mask of truth values, as a tuple."""
    if hasattr(given, "index") and getattr(getattr(given, "dtype", None), "kind", "") == "b":
        given = [label for label, chosen in _by_label(given).items() if chosen]
    no_list = isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable)
    if no_list or (isinstance(given, np.ndarray) and given.ndim != 1):
        raise CarveError(f"features must be a list of names or positions, got {_shown(given)}")
    features = list(given)
    if features and all(isinstance(feature, bool | np.bool_) for feature in features):
        return tuple(bool(feature) for feature in features)
    return tuple(_feature(feature) for feature in features)


def _positions(features: tuple[int | str, ...] | tuple[bool, ...], n: int) -> list[int | str]:
    """The features, where a mask of n truth values stands for the positions it marks."""
    if features and isinstance(features[0], bool):
        if len(features) != n:
            raise CarveError(f"a mask of features needs {n} entries, got {len(features)}")
        return [position for position, chosen in enumerate(features) if chosen]
    return list(features)


def _frozen_bounds(given: Any) -> Any:
    """A pair of floats or of tuples of them, or a read-only mapping to pairs; lower <= upper."""
    if isinstance(given, Mapping) or hasattr(given, "columns"):
        if not isinstance(given, Mapping):
            raise CarveError("bounds must be a pair (lower, upper) or a mapping, got a frame")
        pairs = {}
        for feature, pair in given.items():
            low, high = (_number(end, "bounds", given) for end in _pair(pair))
            pairs[_feature(feature)] = _check_pair(low, high, _called(feature))
        return MappingProxyType(pairs)
    low, high = map(_by_label, _pair(given))
    if isinstance(low, Mapping) or isinstance(high, Mapping):
        return _frozen_bounds(_paired(low, high))
    lows, highs = _numbers(low, "lower bound"), _numbers(high, "upper bound")
    if isinstance(lows, float) and isinstance(highs, float):
        return _check_pair(lows, highs, "")
    return lows, highs  # compared where the number of features is known


def _paired(low: Any, high: Any) -> dict[Any, tuple[Any, Any]]:
    """Two ends, one or both of them by label, as a mapping to pairs."""
    labels = list(low if isinstance(low, Mapping) else high)
    for end in (low, high):
        if isinstance(end, Mapping):
            if set(end) != set(labels):
                raise CarveError("bounds by label need the same labels for both ends")
        elif not np.isscalar(end):
            raise CarveError(f"bounds by label need labels for both ends, got {_shown(end)}")

    def at(end: Any, label: Any) -> Any:
        return end[label] if isinstance(end, Mapping) else end

    return {label: (at(low, label), at(high, label)) for label in labels}


def _check_pair(low: float, high: float, feature: str) -> tuple[float, float]:
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
            f"bounds must be a pair (lower, upper) or a mapping to such pairs, got {_shown(given)}"
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
        f"{what} must be one number, one per feature or a mapping, got {_shown(given)}"
    )


def _shown(given: Any) -> str:
    """In one line, whatever it is."""
    text = " ".join(repr(given).split())
    return text if len(text) <= 120 else text[:119] + "…"


def _rebuild(norm: float, budget: float, scale: Any, features: Any, bounds: Any) -> Attacker:
    return Attacker(norm, budget, scale=scale, features=features, bounds=bounds)


def _per_feature(
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
        shown = _shown(list(given))
        raise CarveError(
            f"{what} must be one number, one per feature ({n}) or a mapping, got {shown}"
        )
    return np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), (n,)))


def _plain(value: Any) -> Any:
    """Nested plain Python values, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isinf(value) else value
