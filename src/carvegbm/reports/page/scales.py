"""Axes: from numbers to places in a drawing, and the ticks that people read.

Comes in: the numbers to show. Goes out: a `Scale`, linear or logarithmic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from carvegbm.attackers.options import LARGEST_BUDGET

__all__ = ["NEXT_TO_NOTHING", "SMALLEST_BUDGET", "Scale", "scale_for"]

_STEPS = (1, 2, 2.5, 5, 10)
_DECADES_AT_MOST = 12
SMALLEST_BUDGET = 1 / LARGEST_BUDGET
"""Above 0; a radius may be smaller."""
NEXT_TO_NOTHING = 1e-30
"""Above what separates LightGBM's zero from the next number."""


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high` at places from 0 to 1; what lies beyond is put at the end."""

    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False
    """Of whole numbers: no tick between them."""

    def place(self, value: float) -> float:
        """Where a number stands.

        >>> Scale(0, 4).place(1), Scale(1, 100, True).place(10), Scale(0, 4).place(9)
        (0.25, 0.5, 1.0)
        """
        if value <= self.low:
            return 0.0
        if value >= self.high:
            return 1.0
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers within, ascending, and not more than that many.

        >>> Scale(0, 1).ticks(), Scale(1e-3, 10, True).ticks()
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.001, 0.01, 0.1, 1.0, 10.0])
        """
        if self.is_log:
            powers = range(
                math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1
            )
            stride = max(1, math.ceil(len(powers) / most))
            return [float(f"1e{power}") for power in powers[::stride]]
        raw = (self.high - self.low) / (most - 1)
        if self.is_whole:
            raw = max(1.0, raw)
        unit = 10.0 ** math.floor(math.log10(raw))
        steps = (step * unit for step in _STEPS if not self.is_whole or step * unit % 1 == 0)
        step = next(step for step in steps if step >= raw * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [float(f"{step * number:.12g}") for number in range(first, last + 1)]


def scale_for(radii: Sequence[float], budgets: Sequence[float], *, whole: bool) -> Scale:
    """An axis of budgets for a curve: most finite radii, and all budgets asked about, are seen.

    Where radii differ by orders of magnitude, the scale is logarithmic; of a long tail, the last
    part is cut off. `whole`: budgets are whole numbers.
    """
    found = sorted(radius for radius in radii if radius >= SMALLEST_BUDGET)
    asked = [budget for budget in budgets if budget > 0]
    if not found and not asked:
        return Scale(0, 1)
    if whole:
        return Scale(0, max([_quantile(found, 0.99), *asked, 2]) + 1, is_whole=True)
    near, far = _quantile(found, 0.1), _quantile(found, 0.9)
    if found and far > 50 * near:
        everything = [*found[:1], _quantile(found, 1), *asked]
        low = max(min(everything), max(everything) * 10.0**-_DECADES_AT_MOST, 1e-290)
        high = max(max(everything), 10 * low)
        return Scale(
            float(f"1e{math.floor(math.log10(low))}"),
            float(f"1e{math.ceil(math.log10(high))}"),
            True,
        )
    return Scale(0, 1.04 * max(_quantile(found, 0.98), 1.15 * max(asked, default=0)))


def _quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest of them that at least that share lie at or below; 0 of none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
