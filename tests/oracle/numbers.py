"""Machine numbers, budgets and costs, in exact rationals."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from fractions import Fraction

import numpy as np

LARGEST = {"float64": float(np.finfo(np.float64).max), "float32": float(np.finfo(np.float32).max)}


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


def affords(budget: float, cost: Fraction, norm: float) -> bool:
    """Whether an attack of this cost is within the budget."""
    if budget == math.inf:
        return True
    return cost <= (Fraction(budget) if norm in (0, math.inf) else Fraction(budget) ** int(norm))


def added(cost: Fraction, price: Fraction, norm: float) -> Fraction:
    """The cost of an attack with one more move in it."""
    if norm == 0:
        return cost + (price > 0)
    return max(cost, price) if norm == math.inf else cost + price ** int(norm)


def smallest_budget(cost: Fraction, norm: float) -> float:
    """The smallest double k >= 0 with cost <= k^p (cost <= k for norms 0 and inf).

    Doubles >= 0 are ordered as their bit patterns are, so bisect over these.
    """

    def double(pattern: int) -> float:
        return float(struct.unpack("<d", struct.pack("<q", pattern))[0])

    infinite = struct.unpack("<q", struct.pack("<d", math.inf))[0]
    return double(first(0, infinite, lambda pattern: affords(double(pattern), cost, norm)))


def first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The first whole number in [low, high] of which something holds, high if of no other.

    What holds of a number must hold of all larger ones.
    """
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high


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
