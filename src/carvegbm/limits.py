"""The limits of an attacker, resolved to the features of one ensemble.

Comes in: an `Attacker`, whose options go by name, by position or for all features, and an ensemble
that knows names, numbers and categories. Goes out: `Limits`, arrays and mappings by position; what
contradicts the ensemble, or itself, is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.discrete import check_groups, check_kinds
from carvegbm.attackers.given import are_ordered, check_pair
from carvegbm.errors import CarveError, shown
from carvegbm.instances.columns import did_you_mean, listed

if TYPE_CHECKING:
    from carvegbm.attacker import Attacker
    from carvegbm.ensemble import Ensemble

__all__ = ["Limits", "limits_of"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """An attacker's limits for one ensemble; empty where there are none.

    Features that cannot be changed are in no step, category or group: nothing is asked of them.
    """

    scale: Floats
    """(n_features,): moving down by d costs d / scale, and so does moving up, unless…"""
    scale_up: Floats
    """(n_features,): …moving up costs d / scale_up. If given, a 0 in one of the two closes that
    direction."""
    changeable: npt.NDArray[np.uint8]
    """(n_features,): 1 where the feature may be changed; empty: all of them."""
    lower: Floats
    """(n_features,), or (n_instances, n_features); -inf for categorical features."""
    upper: Floats
    step: dict[int, Fraction]
    categories: dict[int, tuple[int, ...]]
    """For every categorical feature the codes that it may be changed to, ascending."""
    one_hot: tuple[tuple[int, ...], ...]

    @property
    def by_row(self) -> bool:
        """Whether every instance has bounds of its own."""
        return self.lower.ndim == 2


def limits_of(attacker: Attacker, ensemble: Ensemble) -> Limits:
    """The limits of the attacker, over the ensemble's features."""
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
    """The features that an option says something special of, one by one."""
    named = {
        option: _by_position(given, ensemble, option)
        for option in ("scale", "step", "bounds")
        if isinstance(given := getattr(attacker, option), Mapping)
    }
    if "scale" in named:
        named["scale"] = {f: s for f, s in named["scale"].items() if isinstance(s, tuple)}
    return named


def _by_position(given: Mapping[Any, Any], ensemble: Ensemble, what: str) -> dict[int, Any]:
    """The same mapping from the positions of features."""
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
    """One number per feature of the ensemble."""
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
        told = [str(item) if isinstance(item, Fraction) else item for item in given]
        raise CarveError(
            f"{what} must be one number, one per feature ({n}) or a mapping, got {shown(told)}"
        )


# ── costs, and who may be changed ────────────────────────────────────────────────────────────


def _scales(given: Any, ensemble: Ensemble) -> tuple[Floats, Floats, npt.NDArray[np.intp]]:
    """Scales downwards and upwards, and the features that have both directions closed.

    The second is empty where it is the first. Closed features have the scale 1: it is not used.
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
    """1 where the feature is among `features` and not closed in both directions."""
    n = ensemble.n_features
    changeable = np.array([], dtype=np.uint8)
    if features is not None:
        changeable = np.zeros(n, dtype=np.uint8)
        for feature in _positions(features, n):
            changeable[ensemble.feature_index(feature)] = 1
    if len(closed):
        changeable = changeable if len(changeable) else np.ones(n, dtype=np.uint8)
        changeable[closed] = 0
    return changeable


def _positions(features: tuple[int | str, ...] | tuple[bool, ...], n: int) -> Iterable[int | str]:
    """The features, where a mask of n truth values stands for the positions it marks."""
    if features and isinstance(features[0], bool):
        if len(features) != n:
            raise CarveError(f"a mask of features needs {n} entries, got {len(features)}")
        return [position for position, chosen in enumerate(features) if chosen]
    return features


# ── where values may go ──────────────────────────────────────────────────────────────────────


def _bounds(given: Any, ensemble: Ensemble) -> tuple[Floats, Floats]:
    """Both ends by feature, or by instance and feature; categorical features have none."""
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
        for feature in np.flatnonzero(~are_ordered(lower, upper))[:1].tolist():
            name = ensemble.feature_name(feature)
            check_pair(float(lower[feature]), float(upper[feature]), name)
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
    """The codes that the categorical features may be changed to; by default all known ones."""
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
    """The codes of labels, ascending; a code stands for itself where no label is like it.

    Like a number is a text that spells it, too: a file of instances cannot tell 1 from "1".
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
