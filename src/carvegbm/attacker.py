"""The attacker A(p, k): how far, and in which features, an instance may be moved.

Comes in: norm, budget and per-feature limits as a user states them.
Goes out: the same, checked, and resolved against an ensemble for the core.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, DataError, shown
from carvegbm.instances.rows import first_where
from carvegbm.limits import (
    LARGEST_BUDGET,
    check_pair,
    frozen_bounds,
    frozen_features,
    frozen_scale,
    per_feature,
    positions,
)

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.ensemble import Ensemble

__all__ = ["LARGEST_BUDGET", "Attacker", "Limits", "require_attacker"]

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
            "scale": None if scale is None else frozen_scale(scale),
            "features": None if features is None else frozen_features(features),
            "bounds": None if bounds is None else frozen_bounds(bounds),
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
            scale = per_feature(self.scale, ensemble, "scale", default=1.0)
        changeable = np.array([], dtype=np.uint8)
        if self.features is not None:
            changeable = np.zeros(n, dtype=np.uint8)
            for feature in positions(self.features, n):
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
        lower = per_feature(low, ensemble, "lower bound", default=-math.inf)
        upper = per_feature(high, ensemble, "upper bound", default=math.inf)
        for feature in np.flatnonzero(~(lower <= upper))[:1]:
            check_pair(
                float(lower[feature]), float(upper[feature]), ensemble.feature_name(int(feature))
            )
        return lower, upper

    def core(self, ensemble: Ensemble, limits: Limits | None = None) -> _core.Attacker:
        """The attacker as the C++ core holds it; `limits` are those for the ensemble, if known."""
        from carvegbm import _core

        limits = self.limits(ensemble) if limits is None else limits
        norm = -1 if math.isinf(self.norm) else int(self.norm)
        return _core.Attacker(
            norm,
            self.budget,
            limits.scale,
            limits.changeable,
            limits.lower,
            limits.upper,
            np.array([]),
            np.array([]),
            np.array([]),
            np.array([], dtype=np.int64),
            np.array([], dtype=np.uint64),
        )

    def check_instances(
        self,
        ensemble: Ensemble,
        X: npt.NDArray[np.float64] | npt.NDArray[np.float32],
        limits: Limits | None = None,
    ) -> None:
        """Refuse instances outside the bounds; `limits` are those for the ensemble, if known."""
        if self.bounds is None:
            return
        limits = self.limits(ensemble) if limits is None else limits
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


def require_attacker(given: Any, y: Any = None) -> Attacker:
    """Refuse what is no `Attacker`, such as a budget alone, or one that stands in place of y."""
    if isinstance(y, Attacker):
        raise CarveError(
            "an Attacker stands where y should; write (model, X, y, attacker), or attacker=… "
            "where there is no y"
        )
    if given is None:
        raise CarveError(
            "attacker is missing; give an Attacker(norm, budget) after X and y, or as attacker=…"
        )
    if not isinstance(given, Attacker):
        raise CarveError(f"attacker must be an Attacker(norm, budget), got {shown(given)}")
    return given


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
        raise CarveError(f"budget must be a number, got {shown(budget)}") from None
    if not value >= 0:
        raise CarveError(f"budget must be >= 0, got {value:g}")
    if norm == 0 and math.isfinite(value) and value != int(value):
        remedy = f"write {int(value)}" if value > 1 else "write 1, or use another norm"
        raise CarveError(
            f"budget {value:g} with norm 0 means {int(value)} changed features; {remedy}"
        )
    if value > LARGEST_BUDGET or 0 < value < 1 / LARGEST_BUDGET:
        raise CarveError(f"budget must be 0 or between 1e-100 and 1e100, got {value:g}")
    return value


def _rebuild(norm: float, budget: float, scale: Any, features: Any, bounds: Any) -> Attacker:
    return Attacker(norm, budget, scale=scale, features=features, bounds=bounds)


def _plain(value: Any) -> Any:
    """Nested plain Python values, for JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and math.isinf(value) else value
