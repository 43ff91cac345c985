"""The large-spread condition, in exact rationals.

Comes in: an ensemble and an attacker. Goes out: whether no instance can be moved, in one part,
across splits of two trees, and up to which budget. Two splits of two trees on one part have
`room` for budgets below a number of their own; the least of these numbers decides.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any

from oracle.models import NO_CODE, Tree, goes_left, splits
from oracle.moves import (
    Attacker,
    Lattice,
    Part,
    bounds,
    category_values,
    changeable,
    moves,
    one_hot_states,
    parts_of,
    routes,
    scales,
)
from oracle.numbers import LARGEST, added, affords, first, routed


def is_large_spread(ensemble: Any, attacker: Attacker) -> bool:
    """No x can be moved across splits of two trees by changing one part of it within the budget.

    Numbers: thresholds of two trees are more than k (scale down + scale up) apart, or cannot be
    crossed within the bounds; for norm 0 no two trees share a feature that can be crossed. All of
    this at a budget of 0 as well. Multiples of a step: by how many steps the budget affords.
    Categories and one-hot groups: if a change is affordable, only one tree tells states apart.
    """
    return Fraction(attacker.budget) < largest_budget(ensemble, attacker)


def largest_budget(ensemble: Any, attacker: Attacker) -> Fraction | float:
    """The supremum of the budgets with the large-spread property; itself it never has it."""
    return min(
        (room(ensemble, attacker, part, *pair) for part, *pair in _pairs(ensemble, attacker)),
        default=math.inf,
    )


def spread(ensemble: Any) -> Fraction | float:
    """The least distance between two thresholds of one feature in two trees; inf if none."""
    numbers = [f for f in range(ensemble.n_features) if f not in ensemble.categories]
    return 2 * largest_budget(ensemble, Attacker(math.inf, 0.0, features=numbers))


def room(ensemble: Any, attacker: Attacker, part: Part, one: Tree, other: Tree) -> Fraction | float:
    """The smallest budget at which some x can be moved across either of two splits on a part."""
    if not changeable(attacker, part):
        return math.inf
    if len(part) > 1 or part[0] in ensemble.categories:
        both = _tells_apart(ensemble, attacker, part, one) and _tells_apart(
            ensemble, attacker, part, other
        )
        price = Fraction(1) if attacker.norm == 0 else 1 / scales(attacker, part[0])[1]
        return price if both else math.inf
    (feature,) = part
    down, up = scales(attacker, feature)
    cuts = one["threshold"], other["threshold"]
    if down == up == 0 or not all(
        crossable(ensemble.input_precision, attacker, feature, cut) for cut in cuts
    ):
        return math.inf
    if attacker.norm == 0:
        return Fraction(0)
    if attacker.step is None or feature not in attacker.step:
        return abs(Fraction(cuts[0]) - Fraction(cuts[1])) / (down + up)
    lattice = Lattice(attacker.step[feature], ensemble.input_precision)
    gap = abs(lattice.last_left(cuts[0]) - lattice.last_left(cuts[1]))
    return _budget_of_steps(gap + 1, down / lattice.step, up / lattice.step)


def _budget_of_steps(steps: int, down: Fraction, up: Fraction) -> Fraction:
    """The smallest k with floor(k * down) + floor(k * up) >= steps.

    At the smallest, one of the two products is whole.
    """

    def first_of(rate: Fraction) -> Fraction:
        """The smallest such k with k * rate whole; after `steps` of these it is enough."""

        def enough(n: int) -> bool:
            return math.floor(n / rate * down) + math.floor(n / rate * up) >= steps

        return first(1, steps, enough) / rate

    return min(first_of(rate) for rate in (down, up) if rate > 0)


def _tells_apart(ensemble: Any, attacker: Attacker, part: Part, split: Tree) -> bool:
    """Whether a split tells two states of a finite part apart, and the attacker may change it."""
    if len(part) > 1:
        states = one_hot_states(attacker, part)
        ways = {routes(ensemble, part, state, [split]) for state in states}
        return len(ways) > 1
    (feature,) = part
    if not category_values(ensemble, attacker, feature):
        return False
    codes: list[float] = list(ensemble.categories[feature])
    if ensemble.unknown_category != "missing":
        codes.append(NO_CODE)
    return len({goes_left(split, code) for code in codes}) > 1


def crossable(precision: str, attacker: Attacker, feature: int, cut: float) -> bool:
    """Whether values within the bounds, as the model sees them, lie on both sides of a cut."""
    if not changeable(attacker, (feature,)):
        return False
    low, high = bounds(attacker, feature)
    if attacker.step is not None and feature in attacker.step:
        lattice = Lattice(attacker.step[feature], precision)
        lowest, highest = lattice.within(low, high)
        return lowest <= lattice.last_left(cut) < highest
    low, high = (min(max(bound, -LARGEST[precision]), LARGEST[precision]) for bound in (low, high))
    return routed(low, precision) <= cut < routed(high, precision)


def is_large_spread_at(ensemble: Any, x: Sequence[Any], attacker: Attacker) -> bool:
    """No part of x can be moved across splits of two trees within the budget."""
    trees = ensemble.to_trees()
    for part in parts_of(ensemble.n_features, attacker):
        crossed_by = set()
        (here, _), *others = moves(ensemble, x, attacker, part)
        for there, price in others:
            if affords(attacker.budget, added(Fraction(0), price, attacker.norm), attacker.norm):
                crossed_by |= {
                    index
                    for index, tree in enumerate(trees)
                    for tests in [[s for feature in part for s in splits(tree, feature)]]
                    if routes(ensemble, part, here, tests) != routes(ensemble, part, there, tests)
                }
        if len(crossed_by) > 1:
            return False
    return True


def _pairs(ensemble: Any, attacker: Attacker) -> Iterator[tuple[Part, Tree, Tree]]:
    """(part, split, split') for all pairs of splits on one part in two different trees."""
    trees = ensemble.to_trees()
    for part in parts_of(ensemble.n_features, attacker):
        by_tree = [[s for feature in part for s in splits(tree, feature)] for tree in trees]
        for ones, others in combinations(by_tree, 2):
            yield from ((part, one, other) for one in ones for other in others)
