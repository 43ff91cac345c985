"""Exact sums of many doubles, without a rational number per double."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["exact_sum", "rounded_down"]

_HALF = 26


def exact_sum(values: npt.NDArray[np.float64]) -> Fraction:
    """The sum of finite doubles, exactly.

    A double is whole · 2^exponent with |whole| < 2^53. Doubles of one exponent are added up in two
    halves of 27 and 26 bits, which 64 bits hold for up to 2^36 of them.

    Examples
    --------
    >>> exact_sum(np.array([1e300, 1.0, -1e300]))
    Fraction(1, 1)
    """
    if len(values) == 0:
        return Fraction(0)
    mantissa, exponent = np.frexp(values)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    least = int(exponent.min())
    at = exponent - least
    high, low = (np.zeros(int(at.max()) + 1, dtype=np.int64) for _ in range(2))
    np.add.at(high, at, whole >> _HALF)
    np.add.at(low, at, whole & ((1 << _HALF) - 1))
    total = 0
    for shift in np.flatnonzero(high | low).tolist():
        total += ((int(high[shift]) << _HALF) + int(low[shift])) << shift
    power = least - 53
    return Fraction(total << power) if power >= 0 else Fraction(total, 1 << -power)


def rounded_down(number: Fraction | float) -> float:
    """The largest double <= number."""
    if isinstance(number, float):
        return number
    nearest = float(number)
    return nearest if Fraction(nearest) <= number else math.nextafter(nearest, -math.inf)
