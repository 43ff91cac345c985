"""A second, even slower truth about small cases: all that an attacker can do, one by one.

Where the oracle takes the cheapest of the values that no split tells apart, this takes them all:
every lattice point around, every category, every 0/1 vector, and every number at, beside and
between thresholds and bounds. It has formulas of its own for prices and for the way through a
tree, and shares nothing with the oracle but the attacker.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np

from generators import Case
from oracle import Tree

AROUND = 24  # lattice points to either side
Choice = tuple[dict[int, Any], Fraction]  # new values of some features, and the price


def cheapest_by_score(case: Case, most: int) -> dict[tuple[Fraction, ...], Fraction] | None:
    """The least cost of every raw score that the attacker can reach; None if there are too many."""
    norm, budget = case.attacker.norm, Fraction(case.attacker.budget)
    limit = _limit(norm, budget)
    lists = [
        [choice for choice in choices if _cost([choice[1]], norm) <= limit]
        for choices in every_choice(case)
    ]
    if math.prod(map(len, lists)) > most:
        return None
    found: dict[tuple[Fraction, ...], Fraction] = {}
    for combination in product(*lists):
        cost = _cost([price for _, price in combination], norm)
        if cost <= limit:
            z = list(case.x)
            for values, _ in combination:
                for feature, value in values.items():
                    z[feature] = value
            score = raw_score(case.ensemble, z)
            found[score] = min(cost, found.get(score, cost))
    return found


def every_choice(case: Case) -> Iterator[list[Choice]]:
    """For every feature or one-hot group all that it can become; what it is comes first."""
    x, attacker, ensemble = case.x, case.attacker, case.ensemble
    groups = [tuple(group) for group in attacker.one_hot or ()]
    for group in groups:
        yield [({}, Fraction(0)), *_one_hot_choices(case, group)]
    for feature in range(len(x)):
        if any(feature in group for group in groups):
            continue
        choices: list[Choice] = [({}, Fraction(0))]
        fixed = attacker.features is not None and feature not in attacker.features
        if not fixed and not _is_missing(ensemble, feature, x[feature]):
            if feature in ensemble.categories:
                choices += _category_choices(case, feature)
            elif feature in (attacker.step or {}):
                choices += _lattice_choices(case, feature)
            else:
                choices += _number_choices(case, feature)
        yield choices


def _one_hot_choices(case: Case, group: tuple[int, ...]) -> Iterator[Choice]:
    attacker = case.attacker
    if attacker.features is not None and group[0] not in attacker.features:
        return
    price = 1 / Fraction(attacker.scale[group[0]] if attacker.scale else 1)
    for state in _zeros_and_ones(len(group)):
        values = dict(zip(group, state, strict=True))
        if sum(state) == 1 and all(_is_within(case, f, value) for f, value in values.items()):
            changes = any(case.x[f] != value for f, value in values.items())
            yield values, price if changes else Fraction(0)


def _zeros_and_ones(count: int) -> Iterable[tuple[float, ...]]:
    """All vectors of 0 and 1, or of many those with a single 1."""
    if count > 8:
        return [tuple(float(place == hot) for place in range(count)) for hot in range(count)]
    return product([0.0, 1.0], repeat=count)


def _category_choices(case: Case, feature: int) -> Iterator[Choice]:
    attacker, ensemble = case.attacker, case.ensemble
    price = 1 / Fraction(attacker.scale[feature] if attacker.scale else 1)
    for code, label in ensemble.categories[feature].items():
        if code in (attacker.categories or {}).get(feature, [code]):
            value = float(label if ensemble.category_rule == "label" else code)
            yield {feature: value}, price if value != case.x[feature] else Fraction(0)


def _lattice_choices(case: Case, feature: int) -> Iterator[Choice]:
    step = case.attacker.step[feature]
    here = round(Fraction(case.x[feature]) / step)
    around = AROUND if case.attacker.norm != 0 else 3  # for norm 0 all are as near as any
    places = set(range(here - around, here + around + 1))
    for number in _landmarks(case, feature):
        near = math.floor(Fraction(number) / step)
        places |= set(range(near - 3, near + 4))
    for n in places - {here}:
        value = float(n * step)
        if abs(n * step.numerator) <= 2**50 and _is_within(case, feature, value):
            yield from _priced(case, feature, _as_read(case, value), (n - here) * step)


def _number_choices(case: Case, feature: int) -> Iterator[Choice]:
    x, marks = case.x[feature], sorted({*_landmarks(case, feature), case.x[feature]})
    between = [low + (high - low) / 2 for low, high in pairwise(marks)]
    for value in [*marks, *between]:
        read = _as_read(case, value)
        grid = np.float32 if case.ensemble.input_precision == "float32" else np.float64
        with np.errstate(all="ignore"):
            beside = [float(np.nextafter(grid(read), grid(end))) for end in (-np.inf, np.inf)]
        for number in {read, *beside} - {x}:
            if math.isfinite(number) and _is_within(case, feature, number):
                yield from _priced(case, feature, number, Fraction(number) - Fraction(x))


def _priced(case: Case, feature: int, value: float, length: Fraction) -> Iterator[Choice]:
    """The move, unless its direction is closed."""
    scale: Any = 1 if case.attacker.scale is None else case.attacker.scale[feature]
    if isinstance(scale, tuple):
        scale = scale[0] if length < 0 else scale[1]
    if scale > 0:
        yield {feature: value}, abs(length) / Fraction(scale)


def _landmarks(case: Case, feature: int) -> set[float]:
    """The thresholds of a feature and its finite bounds."""
    marks = {
        node["threshold"]
        for tree in case.ensemble.to_trees()
        for node in _nodes(tree)
        if node["feature"] == feature
    }
    if case.attacker.bounds is not None:
        marks |= {side[feature] for side in case.attacker.bounds if math.isfinite(side[feature])}
    return marks


def _nodes(tree: Tree) -> Iterator[Tree]:
    if "score" not in tree:
        yield tree
        yield from _nodes(tree["left"])
        yield from _nodes(tree["right"])


def _is_within(case: Case, feature: int, value: float) -> bool:
    if case.attacker.bounds is None:
        return True
    return bool(case.attacker.bounds[0][feature] <= value <= case.attacker.bounds[1][feature])


def _limit(norm: float, budget: Fraction) -> Fraction:
    return budget if norm in (0, math.inf) else budget ** int(norm)


def _cost(prices: list[Fraction], norm: float) -> Fraction:
    if norm == 0:
        return Fraction(sum(price > 0 for price in prices))
    if norm == math.inf:
        return max(prices, default=Fraction(0))
    return sum((price ** int(norm) for price in prices), Fraction(0))


# ── the large-spread condition ───────────────────────────────────────────────────────────────


def is_discrete(case: Case, part: tuple[int, ...]) -> bool:
    """Whether all values of a part can be tried."""
    feature, steps = part[0], case.attacker.step or {}
    if feature in steps and case.attacker.norm != 0:
        scale = (case.attacker.scale or [1.0] * len(case.x))[feature]
        reach = case.attacker.budget * max(scale if isinstance(scale, tuple) else [scale])
        return reach < AROUND // 4 * steps[feature]
    return len(part) > 1 or feature in case.ensemble.categories or feature in steps


def crosses_two_trees(case: Case, part: tuple[int, ...]) -> bool:
    """Whether some instance has two trees that one affordable move of a part takes elsewhere."""
    return any(_crossed(replace(case, x=x), part) > 1 for x in _every_instance(case, part))


def _crossed(case: Case, part: tuple[int, ...]) -> int:
    """The number of trees of which a split sends the part of x elsewhere after some move of it."""
    norm, budget = case.attacker.norm, Fraction(case.attacker.budget)
    crossed = set()
    for choices in every_choice(case):
        for values, price in choices[1:]:
            if set(values) <= set(part) and _cost([price], norm) <= _limit(norm, budget):
                crossed |= {
                    index
                    for index, tree in enumerate(case.ensemble.to_trees())
                    for node in _nodes(tree)
                    if (f := node["feature"]) in values
                    and side(case.ensemble, node, case.x[f]) != side(case.ensemble, node, values[f])
                }
    return len(crossed)


def _every_instance(case: Case, part: tuple[int, ...]) -> Iterator[list[Any]]:
    """The case's x with every value that a part can have before the attack."""
    x, ensemble = list(case.x), case.ensemble
    if len(part) > 1:
        for state in _zeros_and_ones(len(part)):
            values = dict(zip(part, state, strict=True))
            if sum(state) == 1 and all(_is_within(case, f, v) for f, v in values.items()):
                yield [values.get(feature, value) for feature, value in enumerate(x)]
        return
    (feature,) = part
    if feature in ensemble.categories:
        labels = ensemble.categories[feature]
        spelled = labels.values() if ensemble.category_rule == "label" else labels
        values_of_it = [*map(float, spelled), 54321.0]
    else:
        step = case.attacker.step[feature]
        places = {
            math.floor(Fraction(mark) / step) + n
            for mark in _landmarks(case, feature)
            for n in range(-AROUND // 2, AROUND // 2)
        }
        values_of_it = [
            value
            for n in sorted(places)
            if abs(n * step.numerator) <= 2**50
            and _is_within(case, feature, value := float(n * step))
        ]
    for value in values_of_it:
        x[feature] = value
        yield list(x)


# ── what the ensemble says ───────────────────────────────────────────────────────────────────


def raw_score(ensemble: Any, z: list[Any]) -> tuple[Fraction, ...]:
    """The exact raw score, one Fraction per output."""
    total = [Fraction(float(score)) for score in ensemble.base_score]
    for tree in ensemble.to_trees():
        while "score" not in tree:
            tree = tree[side(ensemble, tree, z[tree["feature"]])]
        scores = tree["score"] if isinstance(tree["score"], list) else [tree["score"]]
        total = [one + Fraction(score) for one, score in zip(total, scores, strict=True)]
    return tuple(one / ensemble.average for one in total)


def side(ensemble: Any, node: Tree, value: Any) -> str:
    """Where a node sends a value: "left" or "right"."""
    feature = node["feature"]
    if _is_missing(ensemble, feature, value):
        return str(node["missing"])
    if feature not in ensemble.categories:
        read = np.float32(value) if ensemble.input_precision == "float32" else value
        return "left" if read <= node["threshold"] else "right"
    if ensemble.category_rule == "label":
        labels = ensemble.categories[feature]
        listed = any(labels[code] == value for code in node["categories"])
    else:
        number = float(np.float32(value)) if ensemble.input_precision == "float32" else value
        least = -1 if ensemble.category_rule == "truncate" else 0
        most = 2.0**31 if ensemble.category_rule == "truncate" else 2.0**24
        within = least < number < most or number == 0
        listed = within and any(int(number) == code for code in node["categories"])
    return "left" if listed else "right"


def _is_missing(ensemble: Any, feature: int, value: Any) -> bool:
    if value != value:
        return True
    treated_so = feature in ensemble.categories and ensemble.unknown_category == "missing"
    return treated_so and value not in ensemble.categories[feature].values()


def _as_read(case: Case, value: float) -> float:
    if case.ensemble.input_precision == "float32":
        with np.errstate(over="ignore"):
            return float(np.float32(value))
    return value
