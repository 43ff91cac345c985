"""Spread, and the large-spread condition, decided in exact arithmetic.

An ensemble is large-spread for an attacker iff no value of a feature can be moved across splits of
two different trees. Two splits of one feature in two trees have *room* for all budgets below a
number of their own, and the least of these numbers decides, also at budget 0:

- thresholds: their distance over (scale down + scale up); norm 0: 0, as any distance is one change;
- thresholds of a feature with a step: the budget that affords more steps, down and up together,
  than there are from one to the other (norm 0: 0);
- categories and one-hot groups: what a change costs, where both splits tell states apart.

Features the attacker cannot change, and thresholds that no value within its bounds can cross, do
not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import LARGEST_BUDGET, Attacker, require_attacker
from carvegbm.axes.lattice import Lattice
from carvegbm.axes.translation import WHOLE, Translation
from carvegbm.ensemble import Ensemble
from carvegbm.errors import NotLargeSpreadError
from carvegbm.limits import Limits
from carvegbm.readers import load
from carvegbm.trees.core import FINITE

__all__ = ["is_large_spread", "largest_budget", "require_large_spread", "spread"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Pair:
    """Two splits of one feature, or of one one-hot group, in two different trees."""

    feature: int
    trees: tuple[int, int]
    thresholds: tuple[float, float]
    """As the core has them: of a feature with a step, in steps; NaN where there are none."""
    room: Fraction
    """The smallest budget at which some value can be moved across either."""
    kind: Literal["real", "whole", "finite"] = "real"


def spread(model: Any) -> float:
    """The smallest distance between two thresholds of one feature in two different trees.

    Infinite if no feature is shared by two trees. Categorical features have no thresholds.

    Examples
    --------
    >>> import carvegbm as cg
    >>> def stump(v):
    ...     return {"feature": 0, "threshold": v, "left": {"score": -1}, "right": {"score": 1}}
    >>> cg.spread(cg.Ensemble.from_trees([stump(0.25), stump(0.75)], n_features=1))
    0.5
    """
    pair = _closest_pair(load(model), None)
    if pair is None:
        return math.inf
    try:
        return float(2 * pair.room)
    except OverflowError:  # thresholds at the two ends of the number range
        return math.inf


def is_large_spread(model: Any, attacker: Attacker) -> bool:
    """Is the ensemble large-spread for the attacker?

    Examples
    --------
    >>> import carvegbm as cg
    >>> def stump(v):
    ...     return {"feature": 0, "threshold": v, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump(0.25), stump(0.75)], n_features=1)
    >>> cg.is_large_spread(model, cg.Attacker("inf", 0.2))
    True
    >>> cg.is_large_spread(model, cg.Attacker("inf", 0.25))
    False
    """
    require_attacker(attacker)
    return _violation(load(model), attacker) is None


def require_large_spread(ensemble: Ensemble, attacker: Attacker) -> None:
    """Raise `NotLargeSpreadError`, naming the closest pair, unless the condition holds."""
    pair = _violation(ensemble, attacker)
    if pair is None:
        return
    largest = _largest_of(pair, attacker)
    thresholds = _named_thresholds(ensemble, attacker, pair)
    raise NotLargeSpreadError(
        f"the ensemble is not large-spread: {_reason(ensemble, attacker, pair, thresholds)}"
        + (
            f"; the largest budget that would be allowed is {largest!r}"
            if pair.room > 0
            else ""
            if attacker.norm == 0
            else "; no budget would be allowed"
        ),
        feature=pair.feature,
        trees=pair.trees,
        thresholds=thresholds,
        largest_budget=largest,
    )


def _reason(
    ensemble: Ensemble, attacker: Attacker, pair: _Pair, thresholds: tuple[float, float]
) -> str:
    name, (first, second) = ensemble.feature_name(pair.feature), pair.trees
    if pair.kind == "finite":
        group = Translation(ensemble, attacker.limits(ensemble)).groups.get(pair.feature)
        whose = "" if group is None else "the one-hot group of "
        return (
            f"tree {first} and tree {second} both tell values of {whose}{name} apart, and a change "
            f"costs {float(pair.room):g}, which the budget {attacker.budget:g} affords"
        )
    low, high = thresholds
    if attacker.norm == 0:
        return (
            f"{name} is used by tree {first} (threshold {low!r}) and tree {second} "
            f"(threshold {high!r}), and norm 0 allows no feature in two trees, whatever the budget"
        )
    apart = float(Fraction(high) - Fraction(low))
    limits = attacker.limits(ensemble)
    scale = float(limits.scale[pair.feature]) if len(limits.scale) else 1.0
    unit, relation = "", "not more than"
    reach = f"what the budget {attacker.budget:g} moves it by, down and up together"
    if pair.kind == "whole":
        apart = float(pair.thresholds[1] - pair.thresholds[0])
        unit, relation = " steps", "less than"
    elif not len(limits.scale_up) or scale == limits.scale_up[pair.feature]:
        apart /= scale
        reach = f"twice the budget {attacker.budget:g}"
    return (
        f"{name} has threshold {low!r} in tree {first} and {high!r} in tree {second}, "
        f"{apart:.6g}{unit} apart, which is {relation} {reach}"
    )


def _named_thresholds(ensemble: Ensemble, attacker: Attacker, pair: _Pair) -> tuple[float, float]:
    """The thresholds as the model has them; of steps, the multiples at which they are."""
    if pair.kind != "whole":
        return pair.thresholds
    lattice = Translation(ensemble, attacker.limits(ensemble)).lattices[pair.feature]
    low, high = lattice.values(np.array(pair.thresholds)).tolist()
    return low, high


def largest_budget(ensemble: Ensemble, attacker: Attacker) -> float:
    """The largest budget for which the ensemble is large-spread for an attacker of this kind.

    Infinite if no feature is shared in a way that matters.
    """
    pair = _closest_pair(ensemble, attacker)
    return math.inf if pair is None else _largest_of(pair, attacker)


def _largest_of(pair: _Pair, attacker: Attacker) -> float:
    """The largest budget of an attacker of this kind that the pair has room for."""
    largest = _largest_below(pair.room)
    return float(math.floor(largest)) if attacker.norm == 0 else largest


def _largest_below(bound: Fraction) -> float:
    """The largest budget < bound; 0 if there is none."""
    budget = float(min(bound, Fraction(LARGEST_BUDGET)))
    while budget > 0 and Fraction(budget) >= bound:
        budget = math.nextafter(budget, 0)
    return budget if budget >= 1 / LARGEST_BUDGET else 0.0


def _violation(ensemble: Ensemble, attacker: Attacker) -> _Pair | None:
    """The closest pair of splits if it violates the condition, else None."""
    pair = _closest_pair(ensemble, attacker)
    return None if pair is None or Fraction(attacker.budget) < pair.room else pair


def _closest_pair(ensemble: Ensemble, attacker: Attacker | None) -> _Pair | None:
    """The pair of splits with the least room, among those that count.

    The budget has no part in it. A forest of 379,000 leaves takes .6 s, and many questions are
    asked about the same attacker: what was found last is kept.
    """
    found: tuple[Attacker | None, _Pair | None] | None = ensemble.known.get("closest pair")
    if found is None or not _are_alike(found[0], attacker):
        # Another thread may put in another attacker's meanwhile.
        found = (attacker, _find_closest_pair(ensemble, attacker))
        ensemble.known["closest pair"] = found
    return found[1]


def _are_alike(one: Attacker | None, other: Attacker | None) -> bool:
    """Whether the two attackers leave the same room between splits."""
    if one is None or other is None:
        return one is other
    return (one.norm == 0) == (other.norm == 0) and one.has_limits_of(other)


def _find_closest_pair(ensemble: Ensemble, attacker: Attacker | None) -> _Pair | None:
    if attacker is None:
        attacker = Attacker(math.inf, 0.0)
        limits = replace(attacker.limits(ensemble), categories={})
    else:
        limits = attacker.limits(ensemble)
    translation = Translation(ensemble, limits)
    pairs = (
        _closest_thresholds(translation, attacker),
        *_states_told_apart(translation, attacker),
    )
    return min((pair for pair in pairs if pair is not None), key=lambda p: p.room, default=None)


# ── thresholds ───────────────────────────────────────────────────────────────────────────────


class _Splits(NamedTuple):
    """Splits by thresholds that some instance can be moved across; in order of all three."""

    feature: npt.NDArray[np.int32]
    threshold: Floats
    tree: npt.NDArray[np.int32]


def _crossable_splits(translation: Translation) -> _Splits:
    ensemble, limits, sets = translation.ensemble, translation.limits, translation.sets
    splits = np.flatnonzero(sets.nodes["feature"] >= 0)
    feature, threshold = sets.nodes["feature"][splits], sets.nodes["threshold"][splits]
    # No number lies beyond the largest double; one beyond the largest float32 is read as infinity.
    counts = np.isfinite(threshold) & (threshold < np.finfo(np.float64).max)
    counts &= _grid(translation)[feature] != FINITE
    if len(limits.changeable):
        counts &= limits.changeable.astype(bool)[feature]
    lower, upper = _reachable(translation)
    counts &= (lower[feature] <= threshold) & (threshold < upper[feature])
    feature, threshold = feature[counts], threshold[counts]
    tree = ensemble.tree_of_node[splits[counts]]
    order = np.lexsort((tree, threshold, feature))
    return _Splits(feature[order], threshold[order], tree[order])


def _grid(translation: Translation) -> npt.NDArray[np.uint8]:
    """Of every feature, what its values are to the core."""
    grid = translation.sets.grid
    return grid if len(grid) else np.zeros(translation.ensemble.n_features, dtype=np.uint8)


def _closest_thresholds(translation: Translation, attacker: Attacker) -> _Pair | None:
    feature, threshold, tree = splits = _crossable_splits(translation)
    # The closest two of different trees are neighbours in this order.
    neighbours = np.flatnonzero((feature[1:] == feature[:-1]) & (tree[1:] != tree[:-1]))
    if len(neighbours) == 0:
        return None
    down, up = _scales(translation.limits, translation.ensemble.n_features)
    close = neighbours[_may_be_closest(translation, splits, neighbours)]
    # On lattice data many of them are the same two numbers.
    kind = np.where(_grid(translation)[feature[close]] == WHOLE, feature[close], -1)
    numbers = np.column_stack(
        [threshold[close], threshold[close + 1], down[feature[close]], up[feature[close]], kind]
    )
    _, first = np.unique(numbers, axis=0, return_index=True)
    rooms: dict[tuple[int, float], Fraction] = {}

    def pair(i: int) -> _Pair:
        f, values = int(feature[i]), (float(threshold[i]), float(threshold[i + 1]))
        scales = Fraction(float(down[f])), Fraction(float(up[f]))
        lattice = translation.lattices.get(f)
        if attacker.norm == 0:
            room = Fraction(0)
        elif lattice is None:
            room = (Fraction(values[1]) - Fraction(values[0])) / sum(scales)
        else:
            gap = values[1] - values[0]
            if (f, gap) not in rooms:
                rooms[f, gap] = _budget_of_steps(int(gap) + 1, lattice, *scales)
            room = rooms[f, gap]
        kind: Literal["real", "whole"] = "real" if lattice is None else "whole"
        return _Pair(f, (int(tree[i]), int(tree[i + 1])), values, room, kind)

    return min(map(pair, close[first].tolist()), key=lambda found: found.room)


def _may_be_closest(
    translation: Translation, splits: _Splits, neighbours: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Which splits may have the least room to the next one, those that have it among them."""
    n_features, feature = translation.ensemble.n_features, splits.feature[neighbours]
    down, up = _scales(translation.limits, n_features)
    step = np.ones(n_features)
    for lattice, those in translation.by_lattice:
        step[those] = float(lattice.step)
    whole = _grid(translation)[feature] == WHOLE
    with np.errstate(over="ignore", divide="ignore"):
        gaps = splits.threshold[neighbours + 1] - splits.threshold[neighbours]
        # About the room: rounding could only confuse pairs as close as this. Of steps, whole
        # numbers of which are afforded, between one and two more than the gap are too many.
        rate = (step / (down + up))[feature]
        least, most = (gaps + whole) * rate, (gaps + 2 * whole) * rate
        return np.asarray(least <= most.min() * (1 + 1e-12))


def _scales(limits: Limits, n_features: int) -> tuple[Floats, Floats]:
    """Downwards and upwards."""
    down = limits.scale if len(limits.scale) else np.ones(n_features)
    return down, limits.scale_up if len(limits.scale_up) else down


def _reachable(translation: Translation) -> tuple[Floats, Floats]:
    """What splits may see of instances within the bounds, whichever row they are in."""
    n, limits = translation.ensemble.n_features, translation.limits
    lower, upper = np.full(n, -math.inf), np.full(n, math.inf)
    if len(limits.lower):
        lower, upper = limits.lower, limits.upper
        if limits.by_row:
            lower, upper = lower.min(axis=0), upper.max(axis=0)
        # The values splits look at: instances within the bounds, rounded as the model reads them.
        precision = np.dtype(translation.ensemble.input_precision)
        with np.errstate(over="ignore"):
            rounded = [end.astype(precision).astype(np.float64) for end in (lower, upper)]
    else:
        rounded = [lower.copy(), upper.copy()]
    for lattice, features in translation.by_lattice:
        low, high = lattice.within(lower[features], upper[features])
        rounded[0][features], rounded[1][features] = low, high
    return rounded[0], rounded[1]


def _budget_of_steps(steps: int, lattice: Lattice, down: Fraction, up: Fraction) -> Fraction:
    """The smallest budget that affords so many steps, down and up together.

    At the smallest, it affords a whole number of steps in one of the two directions: as steps of
    either grow with the budget, it is found by halves among these.
    """
    rates = [scale / lattice.step for scale in (down, up)]

    def affords(budget: Fraction) -> bool:
        return sum(math.floor(budget * rate) for rate in rates) >= steps

    found = []
    for rate in rates:
        if rate == 0:
            continue
        low, high = 0, steps
        while low + 1 < high:
            middle = (low + high) // 2
            low, high = (low, middle) if affords(middle / rate) else (middle, high)
        found.append(high / rate)
    return min(found)


# ── categories and one-hot groups ────────────────────────────────────────────────────────────


def _states_told_apart(translation: Translation, attacker: Attacker) -> Iterator[_Pair]:
    """Of every finite feature that can be changed, two splits of two trees that tell it apart."""
    ensemble, limits, sets = translation.ensemble, translation.limits, translation.sets
    down, _ = _scales(limits, ensemble.n_features)
    for feature in (*limits.categories, *translation.groups):
        if not translation.states(feature):
            continue
        reachable = _reachable_states(translation, feature)
        here = np.flatnonzero(sets.nodes["feature"] == feature)
        numbers, which = np.unique(sets.nodes["threshold"][here], return_inverse=True)
        # The intersection takes no longer than the smaller set, and those of splits are small.
        tells = np.array(
            [0 < len(sets.listed(int(n)) & reachable) < len(reachable) for n in numbers],
            dtype=bool,
        )
        told = here[tells[which.ravel()]] if len(here) else here
        trees = np.unique(ensemble.tree_of_node[told])
        if len(trees) < 2:
            continue
        price = Fraction(1) if attacker.norm == 0 else 1 / Fraction(float(down[feature]))
        two = int(trees[0]), int(trees[1])
        yield _Pair(feature, two, (math.nan, math.nan), price, "finite")


def _reachable_states(translation: Translation, feature: int) -> set[int]:
    """The states in which an instance may be, before or after; -1 for a category nobody knows."""
    if feature in translation.groups:
        return set(translation.states(feature))
    known = set(range(len(translation.ensemble.categories[feature])))
    return known if translation.ensemble.unknown_category == "missing" else known | {-1}
