"""Sums of doubles that do not depend on who adds what: added up as whole numbers, rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

__all__ = ["UNITS", "exact_sum"]

UNITS = 1 << 1074
"""How many of the smallest positive double make 1."""

_LOW_BITS = 26  # halves of a mantissa, so that sums of 2^26 of them are exact doubles
_AT_ONCE = 1 << 25


def exact_sum(values: npt.NDArray[np.float64]) -> Fraction | float:
    """The sum of doubles: exactly, where they are finite; else infinity or NaN, as it may be.

    Examples
    --------
    >>> float(exact_sum(np.array([1e100, 1.0, -1e100])))
    1.0
    """
    total = 0
    flat = np.ravel(values)
    if not np.isfinite(flat).all():
        return float(flat.sum())
    for first in range(0, len(flat), _AT_ONCE):
        mantissas, exponents = np.frexp(flat[first : first + _AT_ONCE])
        whole = np.ldexp(mantissas, 53).astype(np.int64)
        high, low = whole >> _LOW_BITS, whole & ((1 << _LOW_BITS) - 1)
        lowest = int(exponents.min())
        places = exponents - lowest
        highs, lows = (np.bincount(places, half.astype(np.float64)) for half in (high, low))
        for place in np.flatnonzero((highs != 0) | (lows != 0)).tolist():
            units = (int(highs[place]) << _LOW_BITS) + int(lows[place])
            # Numbers below the smallest normal one have fewer bits: what is shifted out is 0.
            shift = lowest + place - 53 + 1074
            total += units << shift if shift >= 0 else units >> -shift
    return Fraction(total, UNITS)
