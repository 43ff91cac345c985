"""Lattices: the multiples of a step, and the whole numbers that stand for them.

z(n) is the double nearest to n times the step. Comes in: numbers of a feature that has a step.
Goes out: which multiple they are, and back; of a threshold, the last multiple that goes left.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_STEPS", "Lattice"]

Floats = npt.NDArray[np.float64]

MOST_STEPS = 2**50
"""A lattice ends where numerator times n reaches this: there every z(n) is a double of its own."""

_SLACK = 3.0
"""Quotients of doubles are within one of the exact ones, and z(n) is within a step of n steps."""


class Lattice:
    """The multiples of one step, as a model of some input precision reads them.

    Examples
    --------
    >>> pixels = Lattice(Fraction(1, 255), is_float32=False)
    >>> pixels.numbers(np.array([0.2, 1.0])).tolist(), pixels.last_left(np.array([0.5])).tolist()
    ([51.0, 255.0], [127.0])
    """

    def __init__(self, step: Fraction, *, is_float32: bool) -> None:
        self.step, self.is_float32 = step, is_float32
        self.end = MOST_STEPS // step.numerator
        """The largest n; -n is the smallest."""

    def doubles(self, n: Floats) -> Floats:
        """z(n): both factors are exact, and the division rounds once."""
        return n * self.step.numerator / self.step.denominator

    def values(self, n: Floats) -> Floats:
        """z(n), rounded to the model's input precision."""
        z = self.doubles(n)
        if not self.is_float32:
            return z
        with np.errstate(over="ignore"):
            return z.astype(np.float32).astype(np.float64)

    def numbers(self, x: npt.NDArray[np.float64] | npt.NDArray[np.float32]) -> Floats:
        """The n of every x; infinite for an x that is not on the lattice, NaN stays.

        On it is z(n), and, where the model reads float32, what that is rounded to.
        """
        values = np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            n = np.rint(values * self.step.denominator / self.step.numerator)
            near = np.clip(n, -self.end, self.end)
            on_it = (self.doubles(near) == values) | (
                self.is_float32 & (self.values(near) == values)
            )
        return np.where(np.isnan(values), np.nan, np.where(on_it & (near == n), n, np.inf))

    def witnesses(self, n: Floats) -> Floats:
        """z(n) for a reader: as the model reads it, unless float32 merges it with another one."""
        values = self.values(n)
        return np.where(self.numbers(values) == n, values, self.doubles(n))

    def last_left(self, thresholds: Floats) -> Floats:
        """The largest n with z(n) <= threshold, as the model reads it; if none, -end - 1."""
        slack = np.inf if self.is_float32 else _SLACK  # float32 merges multiples, many far out
        return self._last(lambda n: self.values(n) <= thresholds, thresholds, slack)

    def within(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """The smallest and the largest n with lower <= z(n) <= upper."""
        return (
            self._last(lambda n: self.doubles(n) < lower, lower, _SLACK) + 1,
            self._last(lambda n: self.doubles(n) <= upper, upper, _SLACK),
        )

    def _last(
        self, is_before: Callable[[Floats], npt.NDArray[np.bool_]], about: Floats, slack: float
    ) -> Floats:
        """The largest n that is before something that all later ones are not; by halves.

        It is looked for no further than `slack` from the multiples nearest to `about`.
        """
        ends = -self.end - 1.0, float(self.end)
        with np.errstate(over="ignore"):
            near = np.rint(about * self.step.denominator / self.step.numerator).clip(*ends)
        low, high = (near - slack).clip(*ends), (near + slack).clip(*ends)
        while (low < high).any():
            middle = np.ceil((low + high) / 2)
            before = is_before(middle)
            low, high = np.where(before, middle, low), np.where(before, high, middle - 1)
        return low
