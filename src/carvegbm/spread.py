"""Spread, and the large-spread condition, decided in exact arithmetic.

An ensemble is large-spread for an attacker iff no value of a feature can be moved across
thresholds of two different trees: thresholds of one feature in two trees are more than
2 * budget * scale apart (norm 0: no feature is used by two trees), also at budget 0. Features the
attacker cannot change, and thresholds that no value within its bounds can cross, do not count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from carvegbm.attacker import LARGEST_BUDGET, Attacker, require_attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import NotLargeSpreadError
from carvegbm.readers import load

__all__ = ["is_large_spread", "largest_budget", "require_large_spread", "spread"]


@dataclass(frozen=True)
class _Pair:
    """Two thresholds of one feature in two different trees."""

    feature: int
    trees: tuple[int, int]
    thresholds: tuple[float, float]
    scale: float

    @property
    def gap(self) -> Fraction:
        """Their distance in units of the feature's scale, exactly."""
        low, high = self.thresholds
        return (Fraction(high) - Fraction(low)) / Fraction(self.scale)


def spread(model: Any) -> float:
    """The smallest distance between two thresholds of one feature in two different trees.

    Infinite if no feature is shared by two trees.

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
        return float(pair.gap)
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
    name = ensemble.feature_name(pair.feature)
    first, second = pair.trees
    if attacker.norm == 0:
        largest = 0.0
        reason = (
            f"{name} is used by tree {first} (threshold {pair.thresholds[0]!r}) and tree {second} "
            f"(threshold {pair.thresholds[1]!r}), and norm 0 allows no feature in two trees, "
            "whatever the budget"
        )
    else:
        largest = _largest_below(pair.gap / 2)
        reason = (
            f"{name} has threshold {pair.thresholds[0]!r} in tree {first} and "
            f"{pair.thresholds[1]!r} in tree {second}, {float(pair.gap):.6g} apart, which is not "
            f"more than twice the budget {attacker.budget:g}; "
            + (
                f"the largest budget that would be allowed is {largest!r}"
                if pair.gap > 0
                else "no budget would be allowed"
            )
        )
    raise NotLargeSpreadError(
        f"the ensemble is not large-spread: {reason}",
        feature=pair.feature,
        trees=pair.trees,
        thresholds=pair.thresholds,
        largest_budget=largest,
    )


def largest_budget(ensemble: Ensemble, attacker: Attacker) -> float:
    """The largest budget for which the ensemble is large-spread for an attacker of this kind.

    Infinite if no feature is shared in a way that matters.
    """
    pair = _closest_pair(ensemble, attacker)
    if pair is None:
        return math.inf
    return 0.0 if attacker.norm == 0 else _largest_below(pair.gap / 2)


def _largest_below(bound: Fraction) -> float:
    """The largest budget < bound; 0 if there is none."""
    budget = float(min(bound, Fraction(LARGEST_BUDGET)))
    while budget > 0 and Fraction(budget) >= bound:
        budget = math.nextafter(budget, 0)
    return budget if budget >= 1 / LARGEST_BUDGET else 0.0


def _violation(ensemble: Ensemble, attacker: Attacker) -> _Pair | None:
    """The closest pair of thresholds if it violates the condition, else None."""
    pair = _closest_pair(ensemble, attacker)
    if pair is None:
        return None
    if attacker.norm != 0 and pair.gap > 2 * Fraction(attacker.budget):
        return None
    return pair


def _closest_pair(ensemble: Ensemble, attacker: Attacker | None) -> _Pair | None:
    """The pair of thresholds that are closest in units of scale, among those that count.

    Norm and budget have no part in it. A forest of 379,000 leaves takes .6 s, and many questions
    are asked about the same attacker: what was found last is kept.
    """
    key = None if attacker is None else (attacker.scale, attacker.features, attacker.bounds)
    found: tuple[Any, _Pair | None] | None = ensemble.known.get("closest pair")
    if found is None or found[0] != key:  # another thread may put in another attacker's meanwhile
        found = (key, _find_closest_pair(ensemble, attacker))
        ensemble.known["closest pair"] = found
    return found[1]


def _find_closest_pair(ensemble: Ensemble, attacker: Attacker | None) -> _Pair | None:
    counts = ensemble.nodes["feature"] >= 0
    feature, threshold = ensemble.nodes["feature"], ensemble.nodes["threshold"]
    # No number lies beyond the largest double; one beyond the largest float32 is read as infinity.
    counts &= np.isfinite(threshold) & (threshold < np.finfo(np.float64).max)
    scale = np.ones(ensemble.n_features)
    if attacker is not None:
        limits = attacker.limits(ensemble)
        if len(limits.changeable):
            counts &= limits.changeable.astype(bool)[feature]
        if len(limits.lower):
            # The values splits look at: instances within the bounds, rounded to the input grid.
            grid = np.dtype(ensemble.input_precision)
            with np.errstate(over="ignore"):
                lower = limits.lower.astype(grid).astype(np.float64)
                upper = limits.upper.astype(grid).astype(np.float64)
            counts &= (lower[feature] <= threshold) & (threshold < upper[feature])
        if len(limits.scale):
            scale = limits.scale
    feature, threshold = feature[counts], threshold[counts]
    tree = ensemble.tree_of_node[counts]
    order = np.lexsort((tree, threshold, feature))
    feature, threshold, tree = feature[order], threshold[order], tree[order]
    # The closest two of different trees are neighbours in this order.
    neighbours = np.flatnonzero((feature[1:] == feature[:-1]) & (tree[1:] != tree[:-1]))
    if len(neighbours) == 0:
        return None
    with np.errstate(over="ignore"):
        gaps = (threshold[neighbours + 1] - threshold[neighbours]) / scale[feature[neighbours]]
        # Rounding could only confuse pairs as close as this.
        close = neighbours[gaps <= gaps.min() * (1 + 1e-12)]
    # On lattice data many of them are the same two numbers.
    numbers = np.column_stack([threshold[close], threshold[close + 1], scale[feature[close]]])
    _, first = np.unique(numbers, axis=0, return_index=True)
    pairs = (
        _Pair(
            int(feature[i]),
            (int(tree[i]), int(tree[i + 1])),
            (float(threshold[i]), float(threshold[i + 1])),
            float(scale[feature[i]]),
        )
        for i in close[first].tolist()
    )
    return min(pairs, key=lambda pair: pair.gap)
