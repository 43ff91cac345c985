"""Random numbers with many ties, and random trees over them.

Comes in: a numpy Generator. Goes out: trees as nested dicts, for `generators`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from oracle import Attacker, Tree, crossable

SMALLEST_BUDGET, LARGEST_BUDGET = 1e-100, 1e100  # that an attacker may have, 0 aside
MOST_COMBINATIONS = 400  # of cells, over all features: what the oracle enumerates per case

# ── numbers ──────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Numbers:
    """A family of numbers: values for features and thresholds, distances for budgets."""

    value: Callable[[np.random.Generator], float]
    distance: Callable[[np.random.Generator], float]


def _lattice(unit: float, low: int = -16, high: int = 16, origin: float = 0.0) -> Numbers:
    return Numbers(
        lambda rng: origin + int(rng.integers(low, high + 1)) * unit,
        lambda rng: int(rng.integers(1, 6)) * unit,
    )


def _fraction(denominator: int, low: int, high: int) -> Numbers:
    """Multiples of 1 / denominator as their nearest doubles, the way pixels are scaled."""
    return Numbers(
        lambda rng: int(rng.integers(low, high + 1)) / denominator,
        lambda rng: int(rng.integers(1, 6)) / denominator,
    )


WIDE_FAMILIES = {
    "eighths": _lattice(0.125),
    "tenths": _fraction(10, -20, 20),
    "pixels": _fraction(255, 0, 20),
    "half pixels": _fraction(510, 0, 40),
    "doubles": Numbers(lambda rng: rng.uniform(-1, 1), lambda rng: rng.uniform(0, 0.2)),
    "neighbours": _lattice(2.0**-52, origin=1.0, low=0),
    "subnormal": Numbers(
        lambda rng: int(rng.integers(-16, 17)) * 5e-324,
        lambda rng: int(rng.integers(1, 6)) * SMALLEST_BUDGET,
    ),
    "tiny": _lattice(4 * SMALLEST_BUDGET),
    "huge": _lattice(LARGEST_BUDGET / 128),
    "mixed": Numbers(
        lambda rng: rng.choice([-1, 1]) * 10.0 ** rng.uniform(-8, 8),
        lambda rng: 10.0 ** rng.uniform(-8, 1),
    ),
}
NARROW_FAMILIES = {
    "eighths": _lattice(0.125),
    "tenths": _fraction(10, -20, 20),
    "pixels": _fraction(255, 0, 20),
    "neighbours": _lattice(2.0**-23, origin=1.0, low=0),
    "tiny": _lattice(2.0**-149),
}
Scores = tuple[Callable[[np.random.Generator], float], ...]
USUAL_SCORES: Scores = (
    lambda rng: int(rng.integers(-8, 9)) / 8,
    lambda rng: int(rng.integers(-10, 11)) / 10,
    lambda rng: rng.normal(),
    lambda rng: rng.normal() * 10.0 ** int(rng.integers(-12, 13)),
    # Sums of these are wrong in floating point unless taken in the right order.
    lambda rng: float(rng.choice([-1e16, 1e16, -1.0, 1.0, 0.5, -(2.0**-60), 2.0**-60])),
)
SCORES: Scores = (
    *USUAL_SCORES,
    lambda rng: int(rng.integers(-8, 9)) * 1e-12,
    lambda rng: int(rng.integers(-8, 9)) * 1e-300,
    lambda rng: int(rng.integers(-8, 9)) * 5e-324,
    lambda rng: int(rng.integers(-8, 9)) * 1e200,
    lambda rng: rng.normal() * 10.0 ** int(rng.integers(-320, 290)),
    lambda rng: float(rng.choice([-1e290, 1e290, -1.0, 1.0, 1e-300, -1e-300, 5e-324])),
)
# Numbers of float32, for models that add up in float32.
NARROW_SCORES: Scores = (
    lambda rng: int(rng.integers(-8, 9)) / 8,
    lambda rng: float(np.float32(int(rng.integers(-10, 11)) / 10)),
    lambda rng: float(np.float32(rng.normal())),
    lambda rng: int(rng.integers(-8, 9)) * 2.0**-27,  # probabilities that round to one half
    lambda rng: int(rng.integers(-8, 9)) * 2.0**-149,
    lambda rng: float(rng.choice([-(2.0**25), 2.0**25, -1.0, 1.0, 0.5, 2.0**-27])),
)
LINK_SCALES = (1.0, 1.0, 1.0, 2.0, 0.5, 0.1, 1e-3, 37.0)


def pick(rng: np.random.Generator, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


# ── trees ────────────────────────────────────────────────────────────────────────────────────


class Planter:
    """Grows random trees, and keeps their thresholds apart if they must be large-spread."""

    def __init__(
        self,
        rng: np.random.Generator,
        numbers: Numbers,
        attacker: Attacker,
        n_features: int,
        *,
        apart: bool,
        narrow: bool,
        missing: bool,
        leaf: Callable[[str], dict[str, Any]],
    ) -> None:
        self.rng, self.numbers, self.attacker = rng, numbers, attacker
        self.apart, self.narrow, self.missing, self.leaf = apart, narrow, missing, leaf
        self.planted: list[list[tuple[int, float]]] = [[] for _ in range(n_features)]

    def tree(self, index: int, depth: int, chain: bool, side: str = "left") -> Tree:
        if depth == 0 or not self.planted:
            return self.leaf(side)
        feature = self._feature(index)
        threshold = self._threshold(index, feature)
        if threshold is None:
            return self.leaf(side)
        self.planted[feature].append((index, threshold))
        node: Tree = {"feature": feature, "threshold": threshold}
        if self.missing:
            node["missing"] = pick(self.rng, ["left", "right"])
        sides = ["left", "right"]
        if chain:
            stopping = pick(self.rng, sides)
            sides.remove(stopping)
            node[stopping] = self.leaf(stopping)
        for side in sides:
            grow = depth - 1 if chain or chance(self.rng, 0.75) else 0
            node[side] = self.tree(index, grow, chain, side)
        return node

    def _feature(self, index: int) -> int:
        """Any feature; where trees must keep apart mostly one that no other tree has taken."""
        each = range(len(self.planted))
        free = [f for f in each if all(tree == index for tree, _ in self.planted[f])]
        return int(pick(self.rng, free if free and self.apart and chance(self.rng, 0.7) else each))

    def _threshold(self, index: int, feature: int) -> float | None:
        """A threshold that fits in, or None after a few failures."""
        for _ in range(6):
            threshold = self._candidate(feature)
            if self._enumerable(feature, threshold) and (
                not self.apart or self._far(index, feature, threshold)
            ):
                return threshold
        return None

    def _candidate(self, feature: int) -> float:
        rng, others = self.rng, self.planted[feature]
        if others and chance(rng, 0.4):
            # Equal to another tree's threshold, or about as far from it as large-spread asks for.
            threshold = pick(rng, others)[1]
            if self.apart or chance(rng, 0.5):
                scale = 1.0 if self.attacker.scale is None else self.attacker.scale[feature]
                threshold += pick(rng, [-2.0, 2.0]) * self.attacker.budget * scale
                threshold = pick(rng, [threshold, math.nextafter(threshold, math.inf)])
        else:
            threshold = self.numbers.value(rng)
            if self.attacker.bounds is not None and chance(rng, 0.2):
                bound = pick(rng, self.attacker.bounds)[feature]
                threshold = bound if math.isfinite(bound) else threshold
        if self.narrow:
            return float(np.float32(threshold))
        # The number just below a lattice point is crossed exactly at the lattice point.
        return math.nextafter(threshold, -math.inf) if chance(rng, 0.2) else threshold

    def _enumerable(self, feature: int, threshold: float) -> bool:
        cells = [len({t for _, t in planted}) + 1 for planted in self.planted]
        if all(threshold != t for _, t in self.planted[feature]):
            cells[feature] += 1
        return math.isfinite(threshold) and math.prod(cells) <= MOST_COMBINATIONS

    def _far(self, index: int, feature: int, threshold: float) -> bool:
        attacker, precision = self.attacker, "float32" if self.narrow else "float64"
        if not crossable(precision, attacker, feature, threshold):
            return True
        others = [
            t
            for tree, t in self.planted[feature]
            if tree != index and crossable(precision, attacker, feature, t)
        ]
        if attacker.norm == 0:
            return not others
        scale = 1.0 if attacker.scale is None else attacker.scale[feature]
        reach = 2 * Fraction(attacker.budget) * Fraction(scale)
        return all(abs(Fraction(threshold) - Fraction(other)) > reach for other in others)
