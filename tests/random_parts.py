"""Random parts of instances: numbers, multiples of a step, categories, one-hot groups.

Comes in: a numpy Generator, and how large a budget is. Goes out: for every part its features, its
limits, splits that look at it, and values of it; for `kinds`, which makes cases of them.

Whatever may be on a boundary often is: thresholds on lattice points, one float beside them and
between them; scales that make a step or a change cost the budget, or a simple part of it, to one
rounding; values as far from a threshold as the budget reaches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from oracle import Attacker, Lattice, Tree, routed
from random_trees import Numbers, chance, pick

STEPS = tuple(
    Fraction(numerator, denominator)
    for numerator, denominator in (
        (1, 1),
        (1, 1),
        (1, 2),
        (1, 10),
        (1, 10),
        (1, 255),
        (1, 255),
        (1, 3),
        (5, 1),
        (3, 7),
        (1, 1000),
        (2**31, 1),
        (1, 2**31),
        (2**31 - 1, 2**31 - 2),
    )
)
EVERYWHERE = (-math.inf, math.inf)
SOME_SCALES = (0.1, 0.25, 0.5, 1.0, 1.0, 2.0, 3.0, 1 / 3)
CODES = (0, 1, 2, 3, 4, 5, 6, 7, 17, 31, 32, 63, 64, 65, 100, 1000)
MEMBER_CUTS = (
    -1.0,
    math.nextafter(0, -1),
    0.0,
    5e-324,
    0.5,
    0.5,
    math.nextafter(1, 0),
    1.0,
    math.nextafter(1, 2),
    2.0,
)


@dataclass
class Ground:
    """What all parts of a case have in common."""

    rng: np.random.Generator
    norm: float
    budget: float
    numbers: Numbers
    precision: str
    category_rule: str = "label"
    unknown_category: str = "right"

    def nudged(self, value: float) -> float:
        """The value as the model reads it, or sometimes the number on either side of it."""
        grid = np.float32 if self.precision == "float32" else np.float64
        with np.errstate(all="ignore"):
            if chance(self.rng, 0.25):
                return float(np.nextafter(grid(value), grid(pick(self.rng, [-np.inf, np.inf]))))
            return float(grid(value))

    def scale_for(self, length: Fraction) -> float:
        """A scale by which a move of this length costs about a simple part of the budget."""
        if chance(self.rng, 0.3) or self.budget == 0 or self.norm == 0:
            return float(pick(self.rng, SOME_SCALES))
        part = pick(self.rng, [Fraction(1), Fraction(1, 2), Fraction(1, 3), Fraction(2, 5)])
        scale = float(length / (part * Fraction(self.budget)))
        if chance(self.rng, 0.3):
            scale = math.nextafter(scale, pick(self.rng, [0.0, math.inf]))
        return min(max(scale, 1e-90), 1e90)


@dataclass
class Part:
    """A plain number; the other kinds of parts say what is different about them."""

    ground: Ground
    features: tuple[int, ...]
    paired: bool  # a scale per direction
    bounded: bool = False
    cuts: list[float] = field(default_factory=list)
    open: bool = True  # the attacker may change it

    def __post_init__(self) -> None:
        self.scale: Any = self._random_scale()
        self.bounds = [self._bounds() if self.bounded else EVERYWHERE for _ in self.features]

    @property
    def rng(self) -> np.random.Generator:
        return self.ground.rng

    def _random_scale(self) -> Any:
        """1 mostly; a pair of scales, either of which may be closed."""
        if not self.paired:
            return float(pick(self.rng, SOME_SCALES)) if chance(self.rng, 0.3) else 1.0
        a, b = (self._one_scale() for _ in range(2))
        return pick(
            self.rng, [(0.0, a), (a, 0.0), (a, b), (a, b), (a, b), (0.0, a), (a, 0.0), (0.0, 0.0)]
        )

    def _one_scale(self) -> float:
        return float(pick(self.rng, SOME_SCALES))

    def scale_towards(self, sign: float) -> float:
        """The scale downwards (sign < 0) or upwards."""
        return self.scale[int(sign > 0)] if isinstance(self.scale, tuple) else self.scale

    def split(self) -> Tree:
        """What a node asks about this part, at random."""
        cut = self._cut()
        self.cuts.append(cut)
        return {"feature": pick(self.rng, self.features), "threshold": cut}

    def _cut(self) -> float:
        """Any number, another threshold, or one as far from that as large-spread asks for."""
        ground = self.ground
        if self.cuts and chance(self.rng, 0.5):
            cut = pick(self.rng, self.cuts)
            if ground.norm != 0 and chance(self.rng, 0.7):
                reach = ground.budget * (self.scale_towards(-1) + self.scale_towards(1))
                cut += pick(self.rng, [-reach, reach])
            return ground.nudged(cut)
        if chance(self.rng, 0.2):
            bound = pick(self.rng, pick(self.rng, self.bounds))
            return ground.nudged(bound if math.isfinite(bound) else 0.0)
        return ground.nudged(ground.numbers.value(self.rng))

    def _bounds(self) -> tuple[float, float]:
        low, high = sorted(self._bound() for _ in range(2))
        return (
            -math.inf if chance(self.rng, 0.25) else low,
            math.inf if chance(self.rng, 0.25) else high,
        )

    def _bound(self) -> float:
        return float(self.ground.numbers.value(self.rng))

    def value(self) -> tuple[Any, ...]:
        """Any within the bounds, or one that just can, or just cannot, be moved to a threshold."""
        value = self.ground.numbers.value(self.rng)
        if self.cuts and chance(self.rng, 0.85):
            sign = pick(self.rng, [-1, 1])
            part = pick(self.rng, [0.0, 0.25, 0.5, 1.0, 1.0])
            reach = 0.0 if self.ground.norm == 0 else self.ground.budget
            value = self.ground.nudged(
                pick(self.rng, self.cuts) - sign * part * reach * self.scale_towards(sign)
            )
        ((low, high),) = self.bounds
        return (float(min(max(value, low), high)),)

    def room_for(self) -> int:
        """The number of moves that its splits tell apart, at most."""
        return len(set(self.cuts)) + 1


class Number(Part):
    """A plain number."""


class Stepped(Part):
    """A multiple of a step."""

    def __post_init__(self) -> None:
        self.step = pick(self.rng, STEPS)
        self.lattice = Lattice(self.step, self.ground.precision)
        self.middle = 0 if chance(self.rng, 0.8) else int(pick(self.rng, [-100, 1000, 10**6]))
        super().__post_init__()

    def _random_scale(self) -> Any:
        if not self.paired and self.ground.budget > 0 and chance(self.rng, 0.7):
            return self._one_scale()
        return super()._random_scale()

    def _one_scale(self) -> float:
        return self.ground.scale_for(self.step * int(self.rng.integers(1, 4)))

    def _somewhere(self) -> int:
        return self.middle + int(self.rng.integers(-10, 11))

    def _cut(self) -> float:
        """On a lattice point, one float beside it, between two, or far from all."""
        n = self._somewhere()
        if self.cuts and chance(self.rng, 0.5):
            n = self.lattice.last_left(pick(self.rng, self.cuts)) + int(self.rng.integers(-4, 5))
        if self.ground.precision == "float32":  # which tells no more multiples apart
            n = min(max(n, -(2**22)), 2**22)
        if chance(self.rng, 0.3):
            return self.ground.nudged(float((n + pick(self.rng, [0.5, 0.25, 0.999])) * self.step))
        if chance(self.rng, 0.03):
            return self.ground.nudged(pick(self.rng, [-1e30, 1e30, 2.0**51, -(2.0**51)]))
        return self.ground.nudged(self.lattice.double(n))

    def _bound(self) -> float:
        n = self._somewhere()
        half = self.step / 2 if chance(self.rng, 0.3) else Fraction(0)
        return float(n * self.step + half)

    def _bounds(self) -> tuple[float, float]:
        low, high = super()._bounds()
        lowest, highest = self.lattice.within(low, high)
        return (low, high) if lowest <= highest else (-math.inf, math.inf)

    def value(self) -> tuple[Any, ...]:
        n = self._somewhere()
        if self.cuts and chance(self.rng, 0.85):
            n = self.lattice.last_left(pick(self.rng, self.cuts))
            n += int(self.rng.integers(-3, 5)) if chance(self.rng, 0.7) else 0
        low, high = self.bounds[0]
        lowest, highest = self.lattice.within(low, high)
        n = min(max(n, lowest, -(2**22)), highest, 2**22)
        exact, read = self.lattice.double(n), self.lattice.value(n)
        # What nobody can change is looked at as it is, and must be within the bounds as it is.
        return (pick(self.rng, [exact, read]) if low <= read <= high or self.open else exact,)


class Category(Part):
    """A category; `labels` maps its codes to what instances hold by the rule "label"."""

    def __post_init__(self) -> None:
        count = pick(self.rng, [1, 2, 2, 3, 3, 4, 5, 6])
        codes = sorted(int(code) for code in self.rng.choice(CODES, size=count, replace=False))
        if chance(self.rng, 0.05):  # more states than a word has bits
            codes = sorted({*codes, *range(2, pick(self.rng, [64, 66, 67, 131]))})
        self.labels: dict[int, Any] = {code: code for code in codes}
        if self.ground.category_rule == "label" and chance(self.rng, 0.7):
            shift = pick(self.rng, [0, 0, 1, -3, 0.5, 10])
            shuffled = [float(code) + shift for code in self.rng.permutation(codes)]
            self.labels = dict(zip(codes, shuffled, strict=True))
        self.sets: set[tuple[int, ...]] = set()
        super().__post_init__()

    def _random_scale(self) -> Any:
        return self.ground.scale_for(Fraction(1)) if chance(self.rng, 0.7) else 1.0

    def split(self) -> Tree:
        codes = list(self.labels)
        size = pick(self.rng, [1, 1, max(len(codes) // 2, 1), len(codes)])
        listed = sorted(int(code) for code in self.rng.choice(codes, size=size, replace=False))
        self.sets.add(tuple(listed))
        return {"feature": self.features[0], "categories": listed}

    def _bounds(self) -> tuple[float, float]:
        """None, or some that the attacker must not heed."""
        return pick(self.rng, [EVERYWHERE, (0.0, 1.0), (-math.inf, 0.5), (2.0, 2.0)])

    def value(self) -> tuple[Any, ...]:
        """One that is known, spelled in any way, or one that is not."""
        code = pick(self.rng, list(self.labels))
        if self.ground.category_rule == "label":
            strange = [1234.0, -1.0, 0.25, *(c for c in CODES if c not in self.labels.values())]
            return (float(self.labels[code] if chance(self.rng, 0.7) else pick(self.rng, strange)),)
        if chance(self.rng, 0.6):
            return (float(code),)
        unknown = pick(self.rng, [4321.0, *(float(c) for c in CODES if c not in self.labels)])
        large = [2.0**24, 2.0**24 - 0.5, 2.0**31, 2.0**31 - 1, 1e30]
        strange = pick(self.rng, [-0.5, -1.0, -7.0, -1e-50, 8.0, 1e-30, *large])
        spelled = [code + 0.7, code + 0.5, math.nextafter(code + 1.0, 0)]
        return (float(pick(self.rng, [*spelled, unknown, strange])),)

    def allowed(self) -> list[int]:
        """Some of its codes, at least one."""
        codes = list(self.labels)
        size = int(self.rng.integers(1, len(codes) + 1))
        return sorted(int(code) for code in self.rng.choice(codes, size=size, replace=False))

    def room_for(self) -> int:
        return min(len(self.labels) + 1, 2 ** len(self.sets))


class OneHot(Part):
    """A group of features of which exactly one is 1."""

    def _random_scale(self) -> Any:
        return self.ground.scale_for(Fraction(1)) if chance(self.rng, 0.7) else 1.0

    def _cut(self) -> float:
        return routed(float(pick(self.rng, MEMBER_CUTS)), self.ground.precision)

    def _bounds(self) -> tuple[float, float]:
        """Of one member: mostly both 0 and 1 are within."""
        return pick(self.rng, [(0.0, 1.0), (0.0, 1.0), EVERYWHERE, (-1.0, 0.5), (0.0, math.inf)])

    def __post_init__(self) -> None:
        super().__post_init__()
        if chance(self.rng, 0.05) and self.bounded:
            self.bounds[0] = (0.5, 1.0)  # it must be this one
            self.bounds[1:] = [(min(low, 0.0), high) for low, high in self.bounds[1:]]
        elif all(high < 1 for _, high in self.bounds):
            self.bounds[-1] = (0.0, 1.0)

    def value(self) -> tuple[Any, ...]:
        """One of the states within the bounds."""
        states = [tuple(float(f == hot) for f in self.features) for hot in self.features]
        fit = [
            state
            for state in states
            if all(
                low <= value <= high for value, (low, high) in zip(state, self.bounds, strict=True)
            )
        ]
        return pick(self.rng, fit)

    def room_for(self) -> int:
        return min(len(self.features), 2 ** len(self.cuts))


def attacker_of(ground: Ground, parts: Sequence[Part]) -> Attacker:
    """An attacker with the limits of these parts."""
    rng = ground.rng
    by_feature = {
        feature: (part.scale, *bounds)
        for part in parts
        for feature, bounds in zip(part.features, part.bounds, strict=True)
    }
    scale, lows, highs = map(list, zip(*(by_feature[f] for f in sorted(by_feature)), strict=True))
    features = None
    if chance(rng, 0.2):
        for part in parts:
            part.open = chance(rng, 0.7)
        features = sorted(f for part in parts if part.open for f in part.features)
    for part in parts:
        part.open &= part.scale != (0.0, 0.0)
    steps = {part.features[0]: part.step for part in parts if isinstance(part, Stepped)}
    categories = {
        part.features[0]: part.allowed()
        for part in parts
        if isinstance(part, Category) and chance(rng, 0.4)
    }
    groups = [list(part.features) for part in parts if isinstance(part, OneHot)]
    return Attacker(
        ground.norm,
        ground.budget,
        scale=None if all(each == 1.0 for each in scale) else scale,
        features=features,
        bounds=(lows, highs) if any(part.bounded for part in parts) else None,
        step=steps or None,
        categories=categories or None,
        one_hot=groups or None,
    )
