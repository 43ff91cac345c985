"""The limits of an attacker, resolved to the features of one ensemble.

The attacker's options go by name, by position or for all features; the ensemble knows names,
numbers and categories. Options that contradict the ensemble are refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.options import check_bounds, check_groups, check_kinds, has_value_between
from carvegbm.data.names import did_you_mean, listed
from carvegbm.data.rows import first_where
from carvegbm.data.sparse import (
    Csr,
    first_absent,
    first_stored,
    is_sparse,
    places_of,
    rows_of,
)
from carvegbm.errors import CarveError, DataError, shown

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.model.ensemble import Ensemble

__all__ = ["Limits", "limits_of"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_ROWS_AT_ONCE = 1 << 12


@dataclass(frozen=True)
class Limits:
    """An attacker's limits for one ensemble; empty arrays and mappings set no limit.

    Features that cannot be changed are in no step, category or group.

    Attributes
    ----------
    scale : array (n_features,)
        Moving down by d costs d / scale, and so does moving up, unless `scale_up` is given.
    scale_up : array (n_features,)
        Moving up by d costs d / scale_up; a 0 in `scale` or `scale_up` closes that direction.
    changeable : uint8 array (n_features,)
        1 where the feature may be changed.
    lower, upper : arrays (n_features,) or (n_rows, n_features)
        -inf and inf for categorical features.
    step : dict from feature to Fraction
    categories : dict from feature to tuple of int
        For every categorical feature the codes that it may be changed to, ascending.
    one_hot : tuple of tuples of features
    """

    scale: Floats
    scale_up: Floats
    changeable: npt.NDArray[np.uint8]
    lower: Floats
    upper: Floats
    step: dict[int, Fraction]
    categories: dict[int, tuple[int, ...]]
    one_hot: tuple[tuple[int, ...], ...]

    @property
    def by_row(self) -> bool:
        """Whether every row has bounds of its own."""
        return self.lower.ndim == 2

    def restricted(self, features: npt.NDArray[np.int64], n_features: int) -> Limits:
        """Return the limits of these features alone, in their new positions.

        `features` are ascending, out of `n_features`, and hold every member of one-hot groups.
        """
        places = places_of(features, n_features).tolist()

        def some(array: Any) -> Any:
            return array[..., features] if array.shape[-1] else array

        return Limits(
            some(self.scale),
            some(self.scale_up),
            some(self.changeable),
            some(self.lower),
            some(self.upper),
            {places[f]: step for f, step in self.step.items() if places[f] >= 0},
            {places[f]: codes for f, codes in self.categories.items() if places[f] >= 0},
            tuple(tuple(places[f] for f in group) for group in self.one_hot),
        )

    def check_rows(self, ensemble: Ensemble, X: npt.NDArray[Any] | Csr) -> None:
        """Refuse rows outside the bounds."""
        if not self.lower.size:
            return
        if self.by_row and len(self.lower) != X.shape[0]:
            raise DataError(
                f"the attacker's bounds have {len(self.lower)} rows, X has {X.shape[0]}; give "
                "a row of bounds per row of X"
            )
        place = self._first_outside(X, ensemble.absent == "zero")
        if place is not None:
            row, column = place
            at = place if self.by_row else column
            raise DataError(
                f"value {X[row, column]} lies outside the attacker's bounds "
                f"[{self.lower[at]}, {self.upper[at]}]; clip it or widen the bounds",
                row=row,
                column=ensemble.feature_name(column),
            )

    def _first_outside(
        self, X: npt.NDArray[Any] | Csr, absent_is_zero: bool
    ) -> tuple[int, int] | None:
        """Return row and column of the first value out of bounds; NaN is within all bounds."""
        lower, upper = self.lower, self.upper
        if is_sparse(X):
            return self._first_outside_in_csr(X, absent_is_zero)
        if not self.by_row:
            return first_where(X, lambda rows: (rows < lower) | (rows > upper))
        for start in range(0, len(X), _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            outside = (X[part] < lower[part]) | (X[part] > upper[part])
            for row, column in np.argwhere(outside)[:1].tolist():
                return start + row, column
        return None

    def _first_outside_in_csr(self, csr: Csr, absent_is_zero: bool) -> tuple[int, int] | None:
        lower, upper = self.lower, self.upper
        if not self.by_row:
            places = [first_stored(csr, lambda x, f: (x < lower[f]) | (x > upper[f]))]
            if absent_is_zero:
                places.append(first_absent(csr, (lower > 0) | (upper < 0)))
            return min((place for place in places if place is not None), default=None)
        for start in range(0, csr.shape[0], _ROWS_AT_ONCE):
            part = slice(start, start + _ROWS_AT_ONCE)
            low, high, some = lower[part], upper[part], csr[part]
            outside = (low > 0) | (high < 0) if absent_is_zero else np.zeros(low.shape, dtype=bool)
            at = rows_of(some), some.indices
            outside[at] = (some.data < low[at]) | (some.data > high[at])
            for row, column in np.argwhere(outside)[:1].tolist():
                return start + row, column
        return None


def limits_of(attacker: Attacker, ensemble: Ensemble) -> Limits:
    """Resolve the options of an attacker to the features of an ensemble."""
    known = ensemble.categories
    groups = _groups(attacker.one_hot, ensemble)
    grouped = dict.fromkeys(feature for group in groups for feature in group)
    check_kinds(_named(attacker, ensemble), known, grouped, ensemble.feature_name)
    scale, scale_up, closed = _scales(attacker.scale, ensemble)
    changeable = _changeable(attacker.features, closed, ensemble)
    _check_groups_move_as_one(groups, scale, changeable, ensemble)
    lower, upper = _bounds(attacker.bounds, ensemble)

    def may_change(feature: int) -> bool:
        return not len(changeable) or bool(changeable[feature])

    allowed = _categories(attacker.categories, ensemble)
    steps = _steps(attacker.step, ensemble)
    return Limits(
        scale,
        scale_up,
        changeable,
        lower,
        upper,
        {f: s for f, s in steps.items() if may_change(f) and f not in known and f not in grouped},
        {f: codes for f, codes in allowed.items() if may_change(f) and codes},
        tuple(group for group in groups if may_change(group[0])),
    )


def _named(attacker: Attacker, ensemble: Ensemble) -> dict[str, dict[int, Any]]:
    """Return the features named by options that categorical features and groups do not take."""
    named = {
        option: _by_position(given, ensemble, option)
        for option in ("scale", "step", "bounds")
        if isinstance(given := getattr(attacker, option), Mapping)
    }
    if "scale" in named:
        named["scale"] = {f: s for f, s in named["scale"].items() if isinstance(s, tuple)}
    return named


def _by_position(given: Mapping[Any, Any], ensemble: Ensemble, what: str) -> dict[int, Any]:
    """Replace the names of features by their positions."""
    taken: dict[int, Any] = {}
    for feature in given:
        index = ensemble.feature_index(feature)
        if index in taken:
            raise CarveError(
                f"{what} names {ensemble.feature_name(index)} twice, as {taken[index]!r} and "
                f"{feature!r}"
            )
        taken[index] = feature
    return {index: given[feature] for index, feature in taken.items()}


def _per_feature(given: Any, ensemble: Ensemble, what: str, default: float) -> Floats:
    """Return one number per feature of the ensemble."""
    n = ensemble.n_features
    if isinstance(given, Mapping):
        values = np.full(n, default)
        for index, value in _by_position(given, ensemble, what).items():
            values[index] = value
        return values
    _check_length(given, n, what)
    return np.array(np.broadcast_to(np.asarray(given, dtype=np.float64), (n,)))


def _check_length(given: Any, n: int, what: str) -> None:
    if isinstance(given, tuple) and len(given) != n:
        items = [str(item) if isinstance(item, Fraction) else item for item in given]
        raise CarveError(
            f"{what} must be one number, one per feature ({n}) or a mapping, got {shown(items)}"
        )


# ── costs, changeable features ────────────────────────────────────────────────────────────────


def _scales(given: Any, ensemble: Ensemble) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Return scales downwards and upwards, and the features with both directions closed.

    Scales upwards are empty if they equal those downwards. Closed features get the unused scale 1.
    """
    none, nowhere = np.array([]), np.array([], dtype=np.intp)
    if given is None:
        return none, none, nowhere
    if not isinstance(given, Mapping):
        return _per_feature(given, ensemble, "scale", default=1.0), none, nowhere
    pairs = {f: s if isinstance(s, tuple) else (s, s) for f, s in given.items()}
    down, up = (
        _per_feature({f: pair[end] for f, pair in pairs.items()}, ensemble, "scale", default=1.0)
        for end in (0, 1)
    )
    closed = np.flatnonzero((down == 0) & (up == 0))
    down[closed] = up[closed] = 1.0
    return down, none if np.array_equal(down, up) else up, closed


def _changeable(
    features: Any, closed: npt.NDArray[np.intp], ensemble: Ensemble
) -> npt.NDArray[np.uint8]:
    """Return 1 where the feature is among `features` and not closed in both directions."""
    n = ensemble.n_features
    changeable = np.array([], dtype=np.uint8)
    if features is not None:
        changeable = np.zeros(n, dtype=np.uint8)
        for feature in features:
            changeable[ensemble.feature_index(feature)] = 1
    if len(closed):
        changeable = changeable if len(changeable) else np.ones(n, dtype=np.uint8)
        changeable[closed] = 0
    return changeable


# ── bounds, steps, categories ────────────────────────────────────────────────────────────────


def _bounds(given: Any, ensemble: Ensemble) -> tuple[Floats, Floats]:
    """Return both ends by feature, or by row and feature."""
    if given is None:
        return np.array([]), np.array([])
    n = ensemble.n_features
    if isinstance(given, Mapping):
        pairs = _by_position(given, ensemble, "bounds")
        lengths = [len(end) for pair in pairs.values() for end in pair if np.ndim(end)]
        shape = (lengths[0], n) if lengths else (n,)
        lower, upper = np.full(shape, -math.inf), np.full(shape, math.inf)
        for feature, (low, high) in pairs.items():
            lower[..., feature], upper[..., feature] = low, high
    elif isinstance(given[0], np.ndarray):
        lower, upper = given
        if lower.shape[1] != n:
            raise CarveError(
                f"bounds by row have {lower.shape[1]} columns, the model has {n} features"
            )
    else:
        low, high = given
        lower = _per_feature(low, ensemble, "lower bound", default=-math.inf)
        upper = _per_feature(high, ensemble, "upper bound", default=math.inf)
        for feature in np.flatnonzero(~has_value_between(lower, upper))[:1].tolist():
            name = ensemble.feature_name(feature)
            check_bounds(float(lower[feature]), float(upper[feature]), name)
    categorical = list(ensemble.categories)
    if categorical:
        lower, upper = lower.copy(), upper.copy()
        lower[..., categorical], upper[..., categorical] = -math.inf, math.inf
    return lower, upper


def _steps(given: Any, ensemble: Ensemble) -> dict[int, Fraction]:
    if given is None:
        return {}
    if isinstance(given, Mapping):
        return _by_position(given, ensemble, "step")
    _check_length(given, ensemble.n_features, "step")
    each = given if isinstance(given, tuple) else [given] * ensemble.n_features
    return dict(enumerate(each))


def _categories(given: Any, ensemble: Ensemble) -> dict[int, tuple[int, ...]]:
    """Return the codes that categorical features may be changed to; by default all known ones."""
    found = {feature: tuple(codes) for feature, codes in ensemble.categories.items()}
    for feature, labels in _by_position(given or {}, ensemble, "categories").items():
        name = ensemble.feature_name(feature)
        if feature not in ensemble.categories:
            raise CarveError(
                f"categories of {name}: the model has no categorical split on it; leave it out, "
                "or give step or bounds"
            )
        found[feature] = _codes(labels, ensemble.categories[feature], name)
    return found


def _codes(given: Iterable[Any], known: Mapping[int, Any], name: str) -> tuple[int, ...]:
    """Return the codes of labels, ascending.

    A number first means the label that equals it or is spelled like it, then the code itself.
    """
    place = {label: code for code, label in known.items()}
    codes = set()
    for label in given:
        code = place.get(label)
        if code is None and not isinstance(label, str | bool):
            code = place.get(str(int(label) if label == int(label) else label))
            if code is None and label in known:
                code = int(label)
        if code is None:
            labels = listed([repr(label) for label in place], quote=False)
            raise CarveError(
                f"categories of {name}: unknown category {label!r}; the model knows {labels}"
                + did_you_mean(label, place)
            )
        codes.add(code)
    return tuple(sorted(codes))


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


def _groups(given: Any, ensemble: Ensemble) -> tuple[tuple[int, ...], ...]:
    groups = tuple(tuple(map(ensemble.feature_index, group)) for group in given or ())
    check_groups(groups, ensemble.feature_name)
    return groups


def _check_groups_move_as_one(
    groups: Iterable[tuple[int, ...]],
    scale: Floats,
    changeable: npt.NDArray[np.uint8],
    ensemble: Ensemble,
) -> None:
    """Refuse groups of which a part may be changed, or whose features have different scales."""
    for group in groups:
        first, *others = group
        for feature in others:
            names = ensemble.feature_name(first), ensemble.feature_name(feature)
            if len(changeable) and changeable[first] != changeable[feature]:
                there, missing = names if changeable[first] else names[::-1]
                raise CarveError(
                    f"features lists {there} without {missing}, of the same one-hot group; list "
                    "all of the group or none"
                )
            if len(scale) and scale[first] != scale[feature]:
                raise CarveError(
                    f"scale of {names[0]} and {names[1]} differ ({scale[first]:g}, "
                    f"{scale[feature]:g}); the features of a one-hot group need the same scale"
                )
