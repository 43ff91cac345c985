"""The slow truth: robustness verification by enumeration, in exact rationals.

Comes in: any ensemble (large-spread or not), an instance, an attacker.
Goes out: status, worst margin, witness, radius, output range, as theorems by brute force;
`oracle_properties` asks what else an attacker cannot do.

The thresholds of all trees cut the line of each feature into cells (l, r]. All values in one cell
take the same path through every tree, so the cheapest machine number of each cell stands for it,
and the product of the cells over all features is everything an attacker can do. Its size, and so
the cost of everything here, is exponential in the number of features: for small ensembles only.

Nothing of the product's code is used but `Ensemble.to_trees()` and the ensemble's plain fields.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

Tree = dict[str, Any]
UNITS = 2**1074  # to one
LARGEST = {"float64": float(np.finfo(np.float64).max), "float32": float(np.finfo(np.float32).max)}


class Attacker(NamedTuple):
    """Moves x to any z within `bounds` with ||(z - x) / scale||_norm <= budget (k).

    `budget` is a double, or infinite to enumerate everything; `scale` has a number per feature;
    `features` are the positions that may change (None: all); `bounds` is (lows, highs).
    """

    norm: float
    budget: float
    scale: Sequence[float] | None = None
    features: Sequence[int] | None = None
    bounds: tuple[Sequence[float], Sequence[float]] | None = None


class Attack(NamedTuple):
    """One z, its raw score (one Fraction per output) and its exact cost.

    cost = max_f c_f for norm inf, the number of changed features for norm 0, and sum_f c_f^p
    otherwise, where c_f = |z_f - x_f| / scale_f.
    """

    cost: Fraction
    z: list[float]
    raw: list[Fraction]


# ── machine numbers ──────────────────────────────────────────────────────────────────────────


def next_float(value: float, precision: str = "float64") -> float:
    """The smallest number of the grid above `value`, itself a number of the grid."""
    if precision == "float32":
        with np.errstate(all="ignore"):
            return float(np.nextafter(np.float32(value), np.float32(np.inf)))
    return math.nextafter(value, math.inf)


def routed(value: float, precision: str) -> float:
    """The number the model compares with its thresholds when it is given `value`."""
    if precision == "float32":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value


def smallest_budget(cost: Fraction, norm: float) -> float:
    """The smallest double k >= 0 with cost <= k^p (cost <= k for norms 0 and inf).

    Doubles >= 0 are ordered as their bit patterns are, so bisect over these.
    """
    low, high = -1, struct.unpack("<q", struct.pack("<d", math.inf))[0]
    while high - low > 1:
        middle = (low + high) // 2
        if affords(struct.unpack("<d", struct.pack("<q", middle))[0], cost, norm):
            high = middle
        else:
            low = middle
    return float(struct.unpack("<d", struct.pack("<q", high))[0])


def affords(budget: float, cost: Fraction, norm: float) -> bool:
    """Whether an attack of this cost is within the budget."""
    if budget == math.inf:
        return True
    return cost <= (Fraction(budget) if norm in (0, math.inf) else Fraction(budget) ** int(norm))


def rounded_down(value: Fraction) -> float:
    """The largest double <= value."""
    try:
        nearest = value.numerator / value.denominator
    except OverflowError:
        nearest = math.inf if value > 0 else -math.inf
    if nearest == -math.inf or (math.isfinite(nearest) and Fraction(nearest) <= value):
        return nearest
    return math.nextafter(nearest, -math.inf)


def rounded_up(value: Fraction) -> float:
    """The smallest double >= value."""
    return -rounded_down(-value)


# ── what the ensemble says ───────────────────────────────────────────────────────────────────


def raw_score(ensemble: Any, z: Sequence[float]) -> list[Fraction]:
    """The exact raw score of z, one Fraction per output."""
    return _raw_score(ensemble, _in_units(ensemble), z)


def decide(ensemble: Any, raw: Sequence[Fraction]) -> int:
    """Position of the decided class; binary: raw >= threshold, or > where ties are negative.

    Otherwise the first of the largest scores.
    """
    if ensemble.task == "binary":
        above = raw[0] - Fraction(ensemble.threshold)
        return int(above > 0 or (above == 0 and getattr(ensemble, "tie", "positive") == "positive"))
    return list(raw).index(max(raw))


def margin(ensemble: Any, raw: Sequence[Fraction], label: int) -> Fraction:
    """How far the raw score is on the right side, for an instance of class `label`."""
    if ensemble.task == "binary":
        above = raw[0] - Fraction(ensemble.threshold)
        return above if label == 1 else -above
    return raw[label] - max(score for rival, score in enumerate(raw) if rival != label)


def _raw_score(ensemble: Any, trees: list[Tree], z: Sequence[float]) -> list[Fraction]:
    seen = [routed(value, ensemble.input_precision) for value in z]
    leaves = [_leaf(tree, seen)["score"] for tree in trees]
    return [Fraction(sum(parts), UNITS * ensemble.average) for parts in zip(*leaves, strict=True)]


def _in_units(ensemble: Any) -> list[Tree]:
    """The base score as a tree of one leaf, and all trees, with scores as whole numbers of units.

    Every double is a whole multiple of 2^-1074; adding these up is exact, and fast.
    """

    def convert(tree: Tree) -> Tree:
        if "score" in tree:
            scores = tree["score"] if isinstance(tree["score"], list) else [tree["score"]]
            return {"score": [int(Fraction(score) * UNITS) for score in scores]}
        return tree | {"left": convert(tree["left"]), "right": convert(tree["right"])}

    return [
        convert(tree) for tree in [{"score": ensemble.base_score.tolist()}, *ensemble.to_trees()]
    ]


def _leaf(tree: Tree, z: Sequence[float]) -> Tree:
    while "score" not in tree:
        value = z[tree["feature"]]
        if math.isnan(value):
            tree = tree[tree["missing"]]
        else:
            tree = tree["left"] if value <= tree["threshold"] else tree["right"]
    return tree


# ── what the attacker can do ─────────────────────────────────────────────────────────────────


def attacks(ensemble: Any, x: Sequence[float], attacker: Attacker) -> Iterator[Attack]:
    """The cheapest attack in each reachable combination of cells; the first is x itself."""
    trees = _in_units(ensemble)
    moves = [cell_moves(ensemble, x, attacker, f) for f in range(ensemble.n_features)]

    def extend(z: list[float], cost: Fraction) -> Iterator[Attack]:
        if not affords(attacker.budget, cost, attacker.norm):
            return
        if len(z) == len(x):
            yield Attack(cost, z, _raw_score(ensemble, trees, z))
            return
        for value, price in moves[len(z)]:
            yield from extend([*z, value], _add(cost, price, attacker.norm))

    return extend([], Fraction(0))


def cell_moves(
    ensemble: Any, x: Sequence[float], attacker: Attacker, feature: int
) -> list[tuple[float, Fraction]]:
    """(value, |value - x| / scale) for the cheapest value of each cell of a feature; x first."""
    moves = [(float(x[feature]), Fraction(0))]
    if math.isnan(x[feature]) or not _changeable(attacker, feature):
        return moves
    precision = ensemble.input_precision
    largest = LARGEST[precision]
    low, high = _bounds(attacker, feature)
    here = routed(x[feature], precision)
    cuts = sorted({t for tree in ensemble.to_trees() for t in thresholds(tree, feature)})
    for left, right in zip([-math.inf, *cuts], [*cuts, math.inf], strict=True):
        if left < here <= right:
            continue
        value = right if here > right else next_float(left, precision)
        if left < value <= right and low <= value <= high and abs(value) <= largest:
            moves.append((value, _price(x[feature], value, attacker, feature)))
    return moves


def distance(x: Sequence[float], z: Sequence[float], attacker: Attacker) -> Fraction:
    """The exact cost of moving x to z, as `Attack.cost`; NaN must stay NaN."""
    cost = Fraction(0)
    for feature, (old, new) in enumerate(zip(x, z, strict=True)):
        if math.isnan(old):
            assert math.isnan(new), f"feature {feature}: a missing value was touched"
        else:
            cost = _add(cost, _price(old, new, attacker, feature), attacker.norm)
    return cost


def allowed(ensemble: Any, x: Sequence[float], z: Sequence[float], attacker: Attacker) -> bool:
    """Whether the attacker can move x to z: bounds, features, grid, missing values, budget."""
    for feature, (old, new) in enumerate(zip(x, z, strict=True)):
        if new == old or (math.isnan(old) and math.isnan(new)):
            continue
        low, high = _bounds(attacker, feature)
        on_grid = math.isfinite(new) and routed(new, ensemble.input_precision) == new
        if not (on_grid and low <= new <= high and _changeable(attacker, feature)):
            return False
    return affords(attacker.budget, distance(x, z, attacker), attacker.norm)


def _price(old: float, new: float, attacker: Attacker, feature: int) -> Fraction:
    return abs(Fraction(new) - Fraction(old)) / _scale(attacker, feature)


def _add(cost: Fraction, price: Fraction, norm: float) -> Fraction:
    if norm == 0:
        return cost + (price > 0)
    return max(cost, price) if norm == math.inf else cost + price ** int(norm)


def thresholds(tree: Tree, feature: int) -> Iterator[float]:
    """The thresholds of a feature in a tree, dead branches included."""
    if "score" not in tree:
        if tree["feature"] == feature:
            yield tree["threshold"]
        yield from thresholds(tree["left"], feature)
        yield from thresholds(tree["right"], feature)


def _changeable(attacker: Attacker, feature: int) -> bool:
    return attacker.features is None or feature in attacker.features


def _scale(attacker: Attacker, feature: int) -> Fraction:
    return Fraction(1) if attacker.scale is None else Fraction(attacker.scale[feature])


def _bounds(attacker: Attacker, feature: int) -> tuple[float, float]:
    if attacker.bounds is None:
        return -math.inf, math.inf
    return attacker.bounds[0][feature], attacker.bounds[1][feature]


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────


def status(ensemble: Any, x: Sequence[float], label: int, attacker: Attacker) -> str:
    """robust, fragile, vulnerable or broken."""
    right = decide(ensemble, raw_score(ensemble, x)) == label
    flips = witness(ensemble, x, label, attacker) is not None
    if right:
        return "fragile" if flips else "robust"
    return "broken" if flips else "vulnerable"


def witness(ensemble: Any, x: Sequence[float], label: int, attacker: Attacker) -> Attack | None:
    """The cheapest attack that makes a right instance wrong, or a wrong one right; None if none."""
    found = list(attacks(ensemble, x, attacker))
    right = decide(ensemble, found[0].raw) == label
    flipping = [a for a in found if (decide(ensemble, a.raw) == label) != right]
    return min(flipping, key=lambda a: a.cost, default=None)


def worst_margin(ensemble: Any, x: Sequence[float], label: int, attacker: Attacker) -> Fraction:
    """The margin after the best attack: the least if x is right, the greatest if x is wrong."""
    found = list(attacks(ensemble, x, attacker))
    margins = [margin(ensemble, attack.raw, label) for attack in found]
    return min(margins) if decide(ensemble, found[0].raw) == label else max(margins)


def radius(ensemble: Any, x: Sequence[float], label: int, attacker: Attacker) -> float:
    """The smallest double budget that flips a right instance; 0 if wrong, inf if there is none."""
    if decide(ensemble, raw_score(ensemble, x)) != label:
        return 0.0
    best = witness(ensemble, x, label, attacker._replace(budget=math.inf))
    return math.inf if best is None else smallest_budget(best.cost, attacker.norm)


def robustness(
    ensemble: Any, rows: Sequence[Sequence[float]], labels: Sequence[int], attacker: Attacker
) -> Fraction:
    """The share of robust instances: one point of a robustness curve."""
    pairs = zip(rows, labels, strict=True)
    robust = sum(status(ensemble, x, label, attacker) == "robust" for x, label in pairs)
    return Fraction(robust, len(rows))


def output_range(
    ensemble: Any, x: Sequence[float], attacker: Attacker
) -> tuple[list[Fraction], list[Fraction]]:
    """(lowest, highest) reachable raw score, per output."""
    by_output = list(zip(*(attack.raw for attack in attacks(ensemble, x, attacker)), strict=True))
    return [min(values) for values in by_output], [max(values) for values in by_output]


# ── the large-spread condition ───────────────────────────────────────────────────────────────


def is_large_spread(ensemble: Any, attacker: Attacker) -> bool:
    """Any two thresholds of one changeable feature in two trees are more than 2k scale apart.

    For norm 0: no changeable feature is tested in two trees. Thresholds that no value within the
    bounds can cross do not count. All of this at a budget of 0 as well.
    """
    if attacker.norm == 0:
        return not any(True for _ in _shared_thresholds(ensemble, attacker))
    return largest_budget(ensemble, attacker) > Fraction(attacker.budget)


def largest_budget(ensemble: Any, attacker: Attacker) -> Fraction | float:
    """The supremum of the budgets with the large-spread property: least |v - v'| / (2 scale)."""
    return min(
        (
            abs(Fraction(one) - Fraction(other)) / (2 * _scale(attacker, feature))
            for feature, one, other in _shared_thresholds(ensemble, attacker)
        ),
        default=math.inf,
    )


def spread(ensemble: Any) -> Fraction | float:
    """The least distance between two thresholds of one feature in two trees; inf if none."""
    return 2 * largest_budget(ensemble, Attacker(math.inf, 0.0))


def is_large_spread_at(ensemble: Any, x: Sequence[float], attacker: Attacker) -> bool:
    """No feature of x has thresholds of two trees that the attacker can afford to cross."""
    trees = ensemble.to_trees()
    for feature in range(ensemble.n_features):
        here = routed(x[feature], ensemble.input_precision)
        crossed_by = set()
        for value, price in cell_moves(ensemble, x, attacker, feature)[1:]:
            cost = _add(Fraction(0), price, attacker.norm)
            if affords(attacker.budget, cost, attacker.norm):
                crossed_by |= {
                    index
                    for index, tree in enumerate(trees)
                    for cut in thresholds(tree, feature)
                    if (value <= cut) != (here <= cut)
                }
        if len(crossed_by) > 1:
            return False
    return True


def crossable(precision: str, attacker: Attacker, feature: int, cut: float) -> bool:
    """Whether values within the bounds, as the model sees them, lie on both sides of a cut."""
    low, high = (
        min(max(bound, -LARGEST[precision]), LARGEST[precision])
        for bound in _bounds(attacker, feature)
    )
    return _changeable(attacker, feature) and routed(low, precision) <= cut < routed(
        high, precision
    )


def _shared_thresholds(ensemble: Any, attacker: Attacker) -> Iterator[tuple[int, float, float]]:
    """(feature, v, v') for all pairs of thresholds that count, from two different trees."""
    trees = ensemble.to_trees()
    for feature in range(ensemble.n_features):
        by_tree = [
            [
                cut
                for cut in thresholds(tree, feature)
                if crossable(ensemble.input_precision, attacker, feature, cut)
            ]
            for tree in trees
        ]
        for first, second in combinations(by_tree, 2):
            yield from ((feature, one, other) for one in first for other in second)
