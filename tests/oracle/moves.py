"""What an attacker may do to one part of an instance, and at what price.

A *part* is what moves on its own: one feature (a number, a number on a lattice of steps, or a
category), or the features of a one-hot group together. All values that no split tells apart are
one to the ensemble, so the cheapest of them stands for all: `moves` lists these for a part.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, NamedTuple

from oracle.models import Tree, goes_left, seen, splits, value_of
from oracle.numbers import LARGEST, first, next_float, routed

Part = tuple[int, ...]  # features that move together
Values = tuple[Any, ...]  # one per feature of a part
Move = tuple[Values, Fraction]  # where to, and its price
LARGEST_MULTIPLE = 2**50  # of 1 / denominator: a lattice ends there on both sides


class Attacker(NamedTuple):
    """Moves x to any z within `bounds` with ||(z - x) / scale||_norm <= budget (k).

    `budget` is a double, or infinite to enumerate everything; `scale` has a number, or a pair
    (down, up), per feature; `features` are the positions that may change (None: all); `bounds` is
    (lows, highs). `step` holds the features whose values are multiples of a step, `categories`
    the codes that a categorical feature may be changed to (not named: all that the ensemble
    knows), `one_hot` the groups of features of which exactly one is 1 and all others are 0.
    """

    norm: float
    budget: float
    scale: Sequence[Any] | None = None
    features: Sequence[int] | None = None
    bounds: tuple[Sequence[float], Sequence[float]] | None = None
    step: Mapping[int, Fraction] | None = None
    categories: Mapping[int, Sequence[int]] | None = None
    one_hot: Sequence[Sequence[int]] | None = None


def parts_of(n_features: int, attacker: Attacker) -> list[Part]:
    """What moves on its own: the one-hot groups, and every other feature by itself."""
    groups = [tuple(group) for group in attacker.one_hot or ()]
    grouped = {feature for group in groups for feature in group}
    return [*groups, *((feature,) for feature in range(n_features) if feature not in grouped)]


def moves(ensemble: Any, x: Sequence[Any], attacker: Attacker, part: Part) -> list[Move]:
    """The cheapest of the values that no split tells apart, for all that are allowed; x first."""
    here = tuple(x[feature] for feature in part)
    if is_missing(ensemble, part, here):
        return [(here, Fraction(0))]
    tests = [s for tree in ensemble.to_trees() for feature in part for s in splits(tree, feature)]
    cheapest: dict[tuple[bool, ...], Move] = {}
    for there in [here, *_candidates(ensemble, here, attacker, part, tests)]:
        if may_become(ensemble, attacker, part, here, there):
            move = there, price(attacker, part, here, there, ensemble)
            route = routes(ensemble, part, there, tests)
            if route not in cheapest or move[1] < cheapest[route][1]:
                cheapest[route] = move
    return list(cheapest.values())


def routes(ensemble: Any, part: Part, values: Values, tests: Sequence[Tree]) -> tuple[bool, ...]:
    """Which way each of these splits sends the values of a part."""
    asked = {test["feature"] for test in tests}
    pairs = zip(part, values, strict=True)
    looked_at = {f: seen(ensemble, f, value) for f, value in pairs if f in asked}
    return tuple(goes_left(test, looked_at[test["feature"]]) for test in tests)


def cell_moves(
    ensemble: Any, x: Sequence[float], attacker: Attacker, feature: int
) -> list[tuple[float, Fraction]]:
    """(value, price) for the cheapest value of each cell of a feature; x first."""
    return [(value, cost) for (value,), cost in moves(ensemble, x, attacker, (feature,))]


# ── which values ─────────────────────────────────────────────────────────────────────────────


def may_become(ensemble: Any, attacker: Attacker, part: Part, old: Values, new: Values) -> bool:
    """Whether an attacker with enough budget can move a part from old to new values."""
    if same(old, new):
        return True
    if not changeable(attacker, part) or is_missing(ensemble, part, old):
        return False
    if len(part) > 1:
        return new in one_hot_states(attacker, part)
    (feature,), (here,), (there,) = part, old, new
    if feature in ensemble.categories:
        return there in category_values(ensemble, attacker, feature)
    if not math.isfinite(there) or routed(there, ensemble.input_precision) != there:
        return False
    down, up = scales(attacker, feature)
    if (down if there < here else up) == 0:
        return False
    low, high = bounds(attacker, feature)
    if attacker.step is None or feature not in attacker.step:
        return bool(low <= there <= high)
    lattice = Lattice(attacker.step[feature], ensemble.input_precision)
    n = lattice.number(there)
    on_it = lattice.value(n) == there and n != lattice.number(here)
    return on_it and low <= lattice.double(n) <= high


def one_hot_states(attacker: Attacker, group: Part) -> list[Values]:
    """One member is 1, the others are 0, and all of them are within their bounds."""
    return _one_hot_states(tuple(bounds(attacker, member) for member in group))


@lru_cache(maxsize=256)
def _one_hot_states(limits: tuple[tuple[float, float], ...]) -> list[Values]:
    members = range(len(limits))
    never_off = {member for member, (low, high) in enumerate(limits) if not low <= 0 <= high}
    may_be_on = [member for member, (low, high) in enumerate(limits) if low <= 1 <= high]
    hot = [member for member in may_be_on if never_off <= {member}]
    return [tuple(float(member == one) for member in members) for one in hot]


def category_values(ensemble: Any, attacker: Attacker, feature: int) -> list[Any]:
    """The values that a categorical feature may be changed to, as instances hold them."""
    codes = (attacker.categories or {}).get(feature, tuple(ensemble.categories[feature]))
    return [value_of(ensemble, feature, code) for code in codes]


def _candidates(
    ensemble: Any, here: Values, attacker: Attacker, part: Part, tests: Sequence[Tree]
) -> Iterator[Values]:
    """At least the cheapest of the values that no split tells apart, for all that are allowed."""
    if len(part) > 1:
        yield from one_hot_states(attacker, part)
        return
    (feature,) = part
    if feature in ensemble.categories:
        yield from ((value,) for value in category_values(ensemble, attacker, feature))
        return
    cuts = sorted({test["threshold"] for test in tests})
    if attacker.step is None or feature not in attacker.step:
        values = _nearest_numbers(here[0], cuts, ensemble.input_precision)
    else:
        lattice = Lattice(attacker.step[feature], ensemble.input_precision)
        values = _nearest_multiples(here[0], cuts, lattice, bounds(attacker, feature))
    yield from ((value,) for value in values)


def _nearest_numbers(x: float, cuts: list[float], precision: str) -> Iterator[float]:
    """The number closest to x in each cell (left, right] but its own."""
    here = routed(x, precision)
    for left, right in zip([-math.inf, *cuts], [*cuts, math.inf], strict=True):
        value = right if here > right else next_float(left, precision)
        if not left < here <= right and left < value <= right and abs(value) <= LARGEST[precision]:
            yield value


def _nearest_multiples(
    x: float, cuts: list[float], lattice: Lattice, within: tuple[float, float]
) -> Iterator[float]:
    """The multiple of the step closest to x in each cell (left, right] but its own."""
    here = lattice.number(x)
    lowest, highest = lattice.within(*within)
    ends = [lattice.last_left(cut) for cut in cuts]
    for before, last in zip([lowest - 1, *ends], [*ends, highest], strict=True):
        inside = range(max(before + 1, lowest), min(last, highest) + 1)
        if inside and here not in inside:
            yield lattice.value(inside[0] if here < inside[0] else inside[-1])


class Lattice(NamedTuple):
    """The multiples of a step, as an ensemble reads them: z(n) is the double nearest n * step."""

    step: Fraction
    precision: str

    @property
    def end(self) -> int:
        """The largest n; -n is the smallest."""
        return LARGEST_MULTIPLE // self.step.numerator

    def double(self, n: int) -> float:
        """z(n)"""
        return n * self.step.numerator / self.step.denominator  # rounded once

    def value(self, n: int) -> float:
        """z(n), as the ensemble reads it."""
        return routed(self.double(n), self.precision)

    def number(self, x: float) -> int:
        """The n that x stands for, if x is on the lattice."""
        return round(Fraction(x) / self.step)

    def holds(self, x: float) -> bool:
        """Whether x is on the lattice, as a double or as the ensemble reads it."""
        n = self.number(x)
        return abs(n) <= self.end and x in (self.double(n), self.value(n))

    @cache  # noqa: B019 -- a lattice is a value, not an object that lives on by this
    def last_left(self, cut: float) -> int:
        """The largest n whose value goes left of a threshold; one less than all if none does."""
        return self._last(lambda n: self.value(n) > cut)

    @cache  # noqa: B019
    def within(self, low: float, high: float) -> tuple[int, int]:
        """The smallest and the largest n with low <= z(n) <= high."""
        return (
            self._last(lambda n: self.double(n) >= low) + 1,
            self._last(lambda n: self.double(n) > high),
        )

    def _last(self, beyond: Callable[[int], bool]) -> int:
        return first(-self.end, self.end + 1, beyond) - 1


# ── at what price ────────────────────────────────────────────────────────────────────────────


def price(
    attacker: Attacker, part: Part, old: Values, new: Values, ensemble: Any = None
) -> Fraction:
    """What a move of one part costs; without an ensemble, no feature is categorical."""
    if same(old, new):
        return Fraction(0)
    feature = part[0]
    down, up = scales(attacker, feature)
    if len(part) > 1 or (ensemble is not None and feature in ensemble.categories):
        return 1 / up
    (here,), (there,) = old, new
    scale = down if there < here else up
    if attacker.step is None or feature not in attacker.step:
        return abs(Fraction(there) - Fraction(here)) / scale
    step = attacker.step[feature]
    lattice = Lattice(step, "float64")
    return abs(lattice.number(there) - lattice.number(here)) * step / scale


def same(old: Values, new: Values) -> bool:
    """Whether nothing changes; what is missing stays missing."""
    return all(a == b or (a != a and b != b) for a, b in zip(old, new, strict=True))


def is_missing(ensemble: Any, part: Part, values: Values) -> bool:
    """Whether what the splits on a part look at is missing: nobody can touch that."""
    return any(math.isnan(seen(ensemble, f, value)) for f, value in zip(part, values, strict=True))


def changeable(attacker: Attacker, part: Part) -> bool:
    """Whether the attacker may change a part at all."""
    return attacker.features is None or any(feature in attacker.features for feature in part)


def scales(attacker: Attacker, feature: int) -> tuple[Fraction, Fraction]:
    """The scale downwards and the scale upwards; 0 closes a direction."""
    given = 1 if attacker.scale is None else attacker.scale[feature]
    down, up = given if isinstance(given, tuple) else (given, given)
    return Fraction(down), Fraction(up)


def bounds(attacker: Attacker, feature: int) -> tuple[float, float]:
    """What a feature must stay within."""
    if attacker.bounds is None:
        return -math.inf, math.inf
    return attacker.bounds[0][feature], attacker.bounds[1][feature]
