"""The slow truth: robustness verification by enumeration, in exact rationals.

Comes in: any ensemble (large-spread or not), an instance, an attacker.
Goes out: status, worst margin, witness, radius, output range, as theorems by brute force;
`oracle_properties` asks what else an attacker cannot do.

The thresholds of all trees cut the line of each feature into cells (l, r]; of categories and
one-hot groups there are few to begin with. All values that take the same path through every tree
are one, so the cheapest of them stands for all (`moves`), and the product over all parts of x is
everything an attacker can do. Its size, and so the cost of everything here, is exponential in the
number of features: for small ensembles only.

Nothing of the product's code is used but `Ensemble.to_trees()` and the ensemble's plain fields.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from oracle.models import (
    NO_CODE,
    UNITS,
    Tree,
    code_of,
    decide,
    goes_left,
    in_units,
    margin,
    raw_score,
    raw_score_in_units,
    seen,
    splits,
    thresholds,
    value_of,
)
from oracle.moves import (
    LARGEST_MULTIPLE,
    Attacker,
    Lattice,
    Part,
    category_values,
    cell_moves,
    is_missing,
    may_become,
    moves,
    one_hot_states,
    parts_of,
    price,
)
from oracle.numbers import (
    LARGEST,
    added,
    affords,
    next_float,
    rounded_down,
    rounded_up,
    routed,
    smallest_budget,
)
from oracle.spread import (
    crossable,
    is_large_spread,
    is_large_spread_at,
    largest_budget,
    room,
    spread,
)

__all__ = [
    "LARGEST",
    "LARGEST_MULTIPLE",
    "NO_CODE",
    "UNITS",
    "Attack",
    "Attacker",
    "Lattice",
    "Part",
    "Tree",
    "affords",
    "allowed",
    "attacks",
    "category_values",
    "cell_moves",
    "code_of",
    "crossable",
    "decide",
    "distance",
    "goes_left",
    "is_large_spread",
    "is_large_spread_at",
    "is_missing",
    "largest_budget",
    "margin",
    "may_become",
    "moves",
    "next_float",
    "one_hot_states",
    "output_range",
    "parts_of",
    "price",
    "radius",
    "raw_score",
    "robustness",
    "room",
    "rounded_down",
    "rounded_up",
    "routed",
    "seen",
    "smallest_budget",
    "splits",
    "spread",
    "status",
    "thresholds",
    "value_of",
    "witness",
    "worst_margin",
]


class Attack(NamedTuple):
    """One z, its raw score (one Fraction per output) and its exact cost.

    cost = max c for norm inf, the number of changed parts for norm 0, and the sum of c^p
    otherwise, where c is the price of a part's move: |z_f - x_f| / scale_f for a number.
    """

    cost: Fraction
    z: list[Any]
    raw: list[Fraction]


# ── what the attacker can do ─────────────────────────────────────────────────────────────────


def attacks(ensemble: Any, x: Sequence[Any], attacker: Attacker) -> Iterator[Attack]:
    """The cheapest attack in each reachable combination of cells; the first is x itself."""
    trees = in_units(ensemble)
    parts = parts_of(ensemble.n_features, attacker)
    choices = [moves(ensemble, x, attacker, part) for part in parts]

    def extend(index: int, z: list[Any], cost: Fraction) -> Iterator[Attack]:
        if not affords(attacker.budget, cost, attacker.norm):
            return
        if index == len(parts):
            yield Attack(cost, z, raw_score_in_units(ensemble, trees, z))
            return
        for values, its_price in choices[index]:
            moved = list(z)
            for feature, value in zip(parts[index], values, strict=True):
                moved[feature] = value
            yield from extend(index + 1, moved, added(cost, its_price, attacker.norm))

    return extend(0, list(x), Fraction(0))


def distance(
    x: Sequence[Any], z: Sequence[Any], attacker: Attacker, ensemble: Any = None
) -> Fraction:
    """The exact cost of moving x to z, as `Attack.cost`; NaN must stay NaN.

    Without an ensemble, no feature is categorical.
    """
    cost = Fraction(0)
    for part in parts_of(len(x), attacker):
        old, new = ([values[feature] for feature in part] for values in (x, z))
        assert not any(a != a and b == b for a, b in zip(old, new, strict=True)), (
            f"{part}: a missing value was touched"
        )
        its_price = price(attacker, part, tuple(old), tuple(new), ensemble)
        cost = added(cost, its_price, attacker.norm)
    return cost


def allowed(ensemble: Any, x: Sequence[Any], z: Sequence[Any], attacker: Attacker) -> bool:
    """Whether the attacker can move x to z: every part by itself, and all within the budget."""
    for part in parts_of(len(x), attacker):
        old, new = (tuple(values[feature] for feature in part) for values in (x, z))
        if not may_become(ensemble, attacker, part, old, new):
            return False
    return affords(attacker.budget, distance(x, z, attacker, ensemble), attacker.norm)


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────


def status(ensemble: Any, x: Sequence[Any], label: int, attacker: Attacker) -> str:
    """robust, fragile, vulnerable or broken."""
    right = decide(ensemble, raw_score(ensemble, x)) == label
    flips = witness(ensemble, x, label, attacker) is not None
    if right:
        return "fragile" if flips else "robust"
    return "broken" if flips else "vulnerable"


def witness(ensemble: Any, x: Sequence[Any], label: int, attacker: Attacker) -> Attack | None:
    """The cheapest attack that makes a right instance wrong, or a wrong one right; None if none."""
    found = list(attacks(ensemble, x, attacker))
    right = decide(ensemble, found[0].raw) == label
    flipping = [a for a in found if (decide(ensemble, a.raw) == label) != right]
    return min(flipping, key=lambda a: a.cost, default=None)


def worst_margin(ensemble: Any, x: Sequence[Any], label: int, attacker: Attacker) -> Fraction:
    """The margin after the best attack: the least if x is right, the greatest if x is wrong."""
    found = list(attacks(ensemble, x, attacker))
    margins = [margin(ensemble, attack.raw, label) for attack in found]
    return min(margins) if decide(ensemble, found[0].raw) == label else max(margins)


def radius(ensemble: Any, x: Sequence[Any], label: int, attacker: Attacker) -> float:
    """The smallest double budget that flips a right instance; 0 if wrong, inf if there is none."""
    if decide(ensemble, raw_score(ensemble, x)) != label:
        return 0.0
    best = witness(ensemble, x, label, attacker._replace(budget=math.inf))
    return math.inf if best is None else smallest_budget(best.cost, attacker.norm)


def robustness(
    ensemble: Any, rows: Sequence[Sequence[Any]], labels: Sequence[int], attacker: Attacker
) -> Fraction:
    """The share of robust instances: one point of a robustness curve."""
    pairs = zip(rows, labels, strict=True)
    robust = sum(status(ensemble, x, label, attacker) == "robust" for x, label in pairs)
    return Fraction(robust, len(rows))


def output_range(
    ensemble: Any, x: Sequence[Any], attacker: Attacker
) -> tuple[list[Fraction], list[Fraction]]:
    """(lowest, highest) reachable raw score, per output."""
    by_output = list(zip(*(attack.raw for attack in attacks(ensemble, x, attacker)), strict=True))
    return [min(values) for values in by_output], [max(values) for values in by_output]
