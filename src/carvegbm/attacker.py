"""The attacker A(p, k): how far, and in which features, an instance may be moved.

Comes in: norm, budget and per-feature limits as a user states them.
Goes out: the same, checked, and resolved against an ensemble for the core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, DataError
from carvegbm.instances import first_where

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.ensemble import Ensemble

__all__ = ["LARGEST_BUDGET", "Attacker", "Limits"]

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

    Parameters
    ----------
    norm : int, float or str
        p: 0 (number of changed features), 1, 2, 3, … or "inf" (largest change).
    budget : float
        k ≥ 0; a whole number for norm 0.
    scale : float, sequence or mapping, optional
        Distances in a feature are measured in units of its scale; one number for all features,
        one per feature, or a mapping from feature (name or position) to its scale. Default 1.
    features : sequence, optional
        The features the attacker may change, by name or position. Default: all.
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
    scale: Any = field(default=None)
    features: Any = field(default=None)
    bounds: Any = field(default=None)

    def __init__(
        self,
        norm: int | float | str,
        budget: float,
        *,
        scale: float | Sequence[float] | Mapping[Any, float] | npt.NDArray[Any] | None = None,
        features: Sequence[int | str] | npt.NDArray[Any] | None = None,
        bounds: tuple[Any, Any] | Mapping[Any, tuple[float, float]] | None = None,
    ) -> None:
        object.__setattr__(self, "norm", check_norm(norm))
        object.__setattr__(self, "budget", _check_budget(self.norm, budget))
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "features", features)
        object.__setattr__(self, "bounds", bounds)

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
            for feature in np.flatnonzero(
                ~((scale >= 1 / LARGEST_BUDGET) & (scale <= LARGEST_BUDGET))
            )[:1]:
                raise CarveError(
                    f"scale of {ensemble.feature_name(int(feature))} must be > 0 and finite "
                    f"(1e-100 to 1e100), got {scale[feature]}"
                )
        changeable = np.array([], dtype=np.uint8)
        if self.features is not None:
            changeable = np.zeros(n, dtype=np.uint8)
            for feature in _features(self.features, n):
                changeable[ensemble.feature_index(feature)] = 1
        lower = upper = np.array([])
        if self.bounds is not None:
            lower, upper = self._bounds(ensemble)
        return Limits(scale, changeable, lower, upper)

    def _bounds(
        self, ensemble: Ensemble
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if isinstance(self.bounds, Mapping):
            pairs = {feature: _pair(pair) for feature, pair in self.bounds.items()}
            low: Any = {feature: pair[0] for feature, pair in pairs.items()}
            high: Any = {feature: pair[1] for feature, pair in pairs.items()}
        else:
            low, high = _pair(self.bounds)
        lower = _per_feature(low, ensemble, "lower bound", default=-math.inf)
        upper = _per_feature(high, ensemble, "upper bound", default=math.inf)
        for feature in np.flatnonzero(~(lower <= upper))[:1]:
            raise CarveError(
                f"bounds of {ensemble.feature_name(int(feature))} must be lower <= upper, "
                f"got ({lower[feature]}, {upper[feature]})"
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
        """The attacker as plain values, for results that are written to files."""
        return {
            "norm": "inf" if math.isinf(self.norm) else int(self.norm),
            "budget": self.budget,
            "scale": _plain(self.scale),
            "features": _plain(self.features),
            "bounds": _plain(self.bounds),
        }

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Attacker):
            return NotImplemented
        return self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.norm, self.budget))

    def __repr__(self) -> str:
        rest = "".join(
            f", {name}={value!r}"
            for name in ("scale", "features", "bounds")
            if (value := getattr(self, name)) is not None
        )
        return f"Attacker(norm={self.norm}, budget={self.budget:g}{rest})"


def check_norm(norm: int | float | str) -> int | float:
    """A norm as 0, 1, 2, … or math.inf."""
    message = f"norm must be 0, 1, 2, … (at most {_LARGEST_NORM}) or inf, got {norm!r}"
    if isinstance(norm, bool):
        raise CarveError(message)
    try:
        value = float(norm)
    except (TypeError, ValueError):
        raise CarveError(message) from None
    if value == math.inf:
        return math.inf
    if not (0 <= value <= _LARGEST_NORM) or value != int(value):
        raise CarveError(message)
    return int(value)


def _check_budget(norm: int | float, budget: float) -> float:
    try:
        value = float(budget)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"budget must be a number, got {budget!r}") from None
    if not value >= 0:
        raise CarveError(f"budget must be >= 0, got {value:g}")
    if norm == 0 and math.isfinite(value) and value != int(value):
        raise CarveError(
            f"budget {value:g} with norm 0 means {int(value)} changed features; write {int(value)}"
        )
    if value > LARGEST_BUDGET or 0 < value < 1 / LARGEST_BUDGET:
        raise CarveError(f"budget must be 0 or between 1e-100 and 1e100, got {value:g}")
    return value


def _per_feature(
    given: Any, ensemble: Ensemble, what: str, default: float
) -> npt.NDArray[np.float64]:
    n = ensemble.n_features
    try:
        if isinstance(given, Mapping):
            values = np.full(n, default)
            for feature, value in given.items():
                values[ensemble.feature_index(feature)] = float(value)
        else:
            values = np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), (n,)))
    except CarveError:
        raise
    except (TypeError, ValueError):
        raise CarveError(
            f"{what} must be one number, one per feature ({n}) or a mapping, got {given!r}"
        ) from None
    if np.isnan(values).any():
        raise CarveError(f"{what} must not be NaN")
    return values


def _features(given: Any, n: int) -> list[int | str]:
    """Features by name or position, as a list; a mask of n truth values will do as well."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise CarveError(f"features must be a list of names or positions, got {given!r}")
    features = list(given)
    if features and all(isinstance(feature, bool | np.bool_) for feature in features):
        if len(features) != n:
            raise CarveError(f"a mask of features needs {n} entries, got {len(features)}")
        return [position for position, chosen in enumerate(features) if chosen]
    for feature in features:
        if not isinstance(feature, str | int | np.integer) or isinstance(feature, bool):
            raise CarveError(f"features must be names or positions, got {feature!r}")
    return features


def _pair(given: Any) -> tuple[Any, Any]:
    try:
        low, high = given
    except (TypeError, ValueError):
        raise CarveError(
            f"bounds must be a pair (lower, upper) or a mapping to such pairs, got {given!r}"
        ) from None
    return low, high


def _plain(value: Any) -> Any:
    """Nested plain Python values, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
