"""The spread of an ensemble, and the large-spread condition, decided in exact arithmetic.

An ensemble is large-spread for an attacker iff no value of a feature can be moved across splits of
two different trees. For two splits of one feature in two trees, `_Pair.first_budget` is the
smallest budget that may do so, and the condition is budget < min(first_budget), also at budget 0:

- thresholds: their distance over (scale down + scale up); norm 0: 0, as any distance is one change;
- thresholds of a feature with a step: the budget that affords more steps, down and up together,
  than there are from one to the other (norm 0: 0);
- categories and one-hot groups: the cost of a change, if both splits separate states.

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

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.attackers.encoding import WHOLE, CoreEncoding, StepGrid
from carvegbm.attackers.limits import Limits
from carvegbm.attackers.options import LARGEST_BUDGET
from carvegbm.errors import NotLargeSpreadError
from carvegbm.model.core import FINITE
from carvegbm.model.ensemble import Ensemble
from carvegbm.readers import load

__all__ = ["is_large_spread", "largest_budget", "require_large_spread", "spread"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Pair:
    """Two splits of one feature, or of one one-hot group, in two different trees.

    `thresholds` are in core coordinates, NaN for finite features.
    """

    feature: int
    trees: tuple[int, int]
    thresholds: tuple[float, float]
    first_budget: Fraction
    kind: Literal["real", "whole", "finite"] = "real"


def spread(model: Any) -> float:
    """Return the smallest distance between thresholds of one feature in two different trees.

    Infinite if no two trees share a feature. Categorical features have no thresholds.

    Examples
    --------
    >>> import carvegbm as cg
    >>> def stump(v):
    ...     return {"feature": 0, "threshold": v, "left": {"score": -1}, "right": {"score": 1}}
    >>> cg.spread(cg.Ensemble.from_trees([stump(0.25), stump(0.75)], n_features=1))
    0.5
    """
    pair = _closest_pair(load(model), None, None)
    if pair is None:
        return math.inf
    try:
        return float(2 * pair.first_budget)
    except OverflowError:  # thresholds at the two ends of the number range
        return math.inf


def is_large_spread(model: Any, attacker: Attacker, limits: Limits | None = None) -> bool:
    """Return whether the ensemble is large-spread for the attacker.

    `limits` are those of the attacker for this ensemble, if known.

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
    return _violation(load(model), attacker, limits) is None


def require_large_spread(ensemble: Ensemble, attacker: Attacker) -> None:
    """Raise `NotLargeSpreadError`, naming the closest pair, unless the condition holds."""
    pair = _violation(ensemble, attacker, None)
    if pair is None:
        return
    largest = _largest_below(pair.first_budget, attacker.norm)
    thresholds = _model_thresholds(ensemble, attacker, pair)
    remedy = ""
    if pair.first_budget > 0:
        remedy = f"; the largest budget that would be allowed is {largest!r}"
    elif attacker.norm != 0:
        remedy = "; no budget would be allowed"
    raise NotLargeSpreadError(
        "the ensemble is not large-spread: "
        f"{_reason(ensemble, attacker, pair, thresholds)}{remedy}",
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
        group = CoreEncoding(ensemble, attacker.limits(ensemble)).groups.get(pair.feature)
        whose = "" if group is None else "the one-hot group of "
        return (
            f"tree {first} and tree {second} both separate values of {whose}{name}, and a change "
            f"costs {float(pair.first_budget):g}, which the budget {attacker.budget:g} affords"
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


def _model_thresholds(ensemble: Ensemble, attacker: Attacker, pair: _Pair) -> tuple[float, float]:
    """Return thresholds as in the model; with a step, the last multiples at or below them."""
    if pair.kind != "whole":
        return pair.thresholds
    grid = CoreEncoding(ensemble, attacker.limits(ensemble)).grids[pair.feature]
    low, high = grid.values(np.array(pair.thresholds)).tolist()
    return low, high


def largest_budget(ensemble: Ensemble, attacker: Attacker, limits: Limits | None = None) -> float:
    """Return the largest budget for which the ensemble is large-spread for such an attacker.

    Infinite if no pair of splits limits it.
    """
    pair = _closest_pair(ensemble, attacker, limits)
    return math.inf if pair is None else _largest_below(pair.first_budget, attacker.norm)


def _largest_below(bound: Fraction, norm: int | float) -> float:
    """Return the largest budget < bound, or 0 if there is none."""
    budget = float(min(bound, Fraction(LARGEST_BUDGET)))
    while budget > 0 and Fraction(budget) >= bound:
        budget = math.nextafter(budget, 0)
    budget = budget if budget >= 1 / LARGEST_BUDGET else 0.0
    return float(math.floor(budget)) if norm == 0 else budget


def _violation(ensemble: Ensemble, attacker: Attacker, limits: Limits | None) -> _Pair | None:
    """Return the closest pair of splits if it violates the condition, else None."""
    pair = _closest_pair(ensemble, attacker, limits)
    return None if pair is None or Fraction(attacker.budget) < pair.first_budget else pair


def _closest_pair(
    ensemble: Ensemble, attacker: Attacker | None, limits: Limits | None
) -> _Pair | None:
    """Return the pair of splits with the smallest `first_budget`.

    It does not depend on the budget and takes .6 s for 379,000 leaves, so the last one is cached.
    """
    cached: tuple[Attacker | None, _Pair | None] | None = ensemble.cache.get("closest pair")
    if cached is None or not _have_same_pair(cached[0], attacker):
        cached = (attacker, _find_closest_pair(ensemble, attacker, limits))
        ensemble.cache["closest pair"] = cached  # other threads may replace it meanwhile
    return cached[1]


def _have_same_pair(one: Attacker | None, other: Attacker | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.norm == 0) == (other.norm == 0) and one.has_limits_of(other)


def _find_closest_pair(
    ensemble: Ensemble, attacker: Attacker | None, limits: Limits | None
) -> _Pair | None:
    if attacker is None:
        attacker = Attacker(math.inf)
        limits = replace(attacker.limits(ensemble), categories={})
    elif limits is None:
        limits = attacker.limits(ensemble)
    encoding = CoreEncoding(ensemble, limits)
    thresholds = _closest_thresholds(encoding, attacker)
    pairs = [thresholds] if thresholds is not None else []
    pairs += _finite_pairs(encoding, attacker)
    return min(pairs, key=lambda pair: pair.first_budget, default=None)


# ── thresholds ───────────────────────────────────────────────────────────────────────────────


class _Splits(NamedTuple):
    """Splits at thresholds that some row can be moved across, sorted by all three columns."""

    feature: npt.NDArray[np.int32]
    threshold: Floats
    tree: npt.NDArray[np.int32]


def _crossable_splits(encoding: CoreEncoding) -> _Splits:
    ensemble, limits, sets = encoding.ensemble, encoding.limits, encoding.sets
    splits = np.flatnonzero(sets.nodes["feature"] >= 0)
    feature, threshold = sets.nodes["feature"][splits], sets.nodes["threshold"][splits]
    # No number lies above the largest double; float32 models read larger numbers as infinity.
    counts = np.isfinite(threshold) & (threshold < np.finfo(np.float64).max)
    counts &= _kinds(encoding)[feature] != FINITE
    if len(limits.changeable):
        counts &= limits.changeable.astype(bool)[feature]
    lower, upper = _reachable(encoding)
    counts &= (lower[feature] <= threshold) & (threshold < upper[feature])
    feature, threshold = feature[counts], threshold[counts]
    tree = ensemble.tree_of_node[splits[counts]]
    order = np.lexsort((tree, threshold, feature))
    return _Splits(feature[order], threshold[order], tree[order])


def _kinds(encoding: CoreEncoding) -> npt.NDArray[np.uint8]:
    """Return the kind of every feature in the core."""
    grid = encoding.sets.grid
    return grid if len(grid) else np.zeros(encoding.ensemble.n_features, dtype=np.uint8)


def _closest_thresholds(encoding: CoreEncoding, attacker: Attacker) -> _Pair | None:
    feature, threshold, tree = splits = _crossable_splits(encoding)
    # The closest two of different trees are neighbours in this order.
    neighbours = np.flatnonzero((feature[1:] == feature[:-1]) & (tree[1:] != tree[:-1]))
    if len(neighbours) == 0:
        return None
    down, up = _scales(encoding.limits, encoding.ensemble.n_features)
    close = neighbours[_may_be_closest(encoding, splits, neighbours)]
    # With a step, many pairs have the same two numbers.
    kind = np.where(_kinds(encoding)[feature[close]] == WHOLE, feature[close], -1)
    numbers = np.column_stack(
        [threshold[close], threshold[close + 1], down[feature[close]], up[feature[close]], kind]
    )
    _, first = np.unique(numbers, axis=0, return_index=True)
    budgets: dict[tuple[int, float], Fraction] = {}

    def pair(i: int) -> _Pair:
        f, values = int(feature[i]), (float(threshold[i]), float(threshold[i + 1]))
        scales = Fraction(float(down[f])), Fraction(float(up[f]))
        grid = encoding.grids.get(f)
        if attacker.norm == 0:
            budget = Fraction(0)
        elif grid is None:
            budget = (Fraction(values[1]) - Fraction(values[0])) / sum(scales)
        else:
            gap = values[1] - values[0]
            if (f, gap) not in budgets:
                budgets[f, gap] = _budget_of_steps(int(gap) + 1, grid, *scales)
            budget = budgets[f, gap]
        trees = int(tree[i]), int(tree[i + 1])
        return _Pair(f, trees, values, budget, "real" if grid is None else "whole")

    return min(map(pair, close[first].tolist()), key=lambda found: found.first_budget)


def _may_be_closest(
    encoding: CoreEncoding, splits: _Splits, neighbours: npt.NDArray[np.intp]
) -> npt.NDArray[np.bool_]:
    """Return a superset of the pairs with the smallest `first_budget`, found in floating point."""
    n_features, feature = encoding.ensemble.n_features, splits.feature[neighbours]
    down, up = _scales(encoding.limits, n_features)
    step = np.ones(n_features)
    for grid, own in encoding.features_of_grid:
        step[own] = float(grid.step)
    whole = _kinds(encoding)[feature] == WHOLE
    with np.errstate(over="ignore", divide="ignore"):
        gaps = splits.threshold[neighbours + 1] - splits.threshold[neighbours]
        # Bounds on `first_budget` up to rounding. Since steps are whole, one to two more than the
        # gap are needed.
        rate = (step / (down + up))[feature]
        least, most = (gaps + whole) * rate, (gaps + 2 * whole) * rate
        return np.asarray(least <= most.min() * (1 + 1e-12))


def _scales(limits: Limits, n_features: int) -> tuple[Floats, Floats]:
    """Return the scales downwards and upwards."""
    down = limits.scale if len(limits.scale) else np.ones(n_features)
    return down, limits.scale_up if len(limits.scale_up) else down


def _reachable(encoding: CoreEncoding) -> tuple[Floats, Floats]:
    """Return the range of core coordinates within the bounds of any row."""
    n, limits = encoding.ensemble.n_features, encoding.limits
    lower, upper = np.full(n, -math.inf), np.full(n, math.inf)
    if len(limits.lower):
        lower, upper = limits.lower, limits.upper
        if limits.by_row:
            lower, upper = lower.min(axis=0), upper.max(axis=0)
        # Splits test values as the model reads them.
        precision = np.dtype(encoding.ensemble.input_precision)
        with np.errstate(over="ignore"):
            rounded = [end.astype(precision).astype(np.float64) for end in (lower, upper)]
    else:
        rounded = [lower.copy(), upper.copy()]
    for grid, features in encoding.features_of_grid:
        low, high = grid.within(lower[features], upper[features])
        rounded[0][features], rounded[1][features] = low, high
    return rounded[0], rounded[1]


def _budget_of_steps(steps: int, grid: StepGrid, down: Fraction, up: Fraction) -> Fraction:
    """Return the smallest budget that affords so many steps, down and up together.

    At that budget, one of the directions affords exactly a whole number of steps: bisect over it.
    """
    rates = [scale / grid.step for scale in (down, up)]

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


def _finite_pairs(encoding: CoreEncoding, attacker: Attacker) -> Iterator[_Pair]:
    """Yield two splits of two trees that separate states, per finite feature."""
    ensemble, limits, sets = encoding.ensemble, encoding.limits, encoding.sets
    down, _ = _scales(limits, ensemble.n_features)
    for feature in (*limits.categories, *encoding.groups):
        if not encoding.allowed_states(feature):
            continue
        reachable = _reachable_states(encoding, feature)
        splits = np.flatnonzero(sets.nodes["feature"] == feature)
        numbers, which = np.unique(sets.nodes["threshold"][splits], return_inverse=True)
        separates = np.array(
            [0 < len(sets.listed(int(n)) & reachable) < len(reachable) for n in numbers],
            dtype=bool,
        )
        trees = np.unique(ensemble.tree_of_node[splits[separates[which.ravel()]]])
        if len(trees) < 2:
            continue
        price = Fraction(1) if attacker.norm == 0 else 1 / Fraction(float(down[feature]))
        two = int(trees[0]), int(trees[1])
        yield _Pair(feature, two, (math.nan, math.nan), price, "finite")


def _reachable_states(encoding: CoreEncoding, feature: int) -> set[int]:
    """Return the states a row may be in, before or after; -1 for an unknown category."""
    if feature in encoding.groups:
        return set(encoding.allowed_states(feature))
    known = set(range(len(encoding.ensemble.categories[feature])))
    return known if encoding.ensemble.unknown_category == "missing" else known | {-1}
