"""Shares in percent, to one decimal.

Comes in: shares, or counts. Goes out: text. A share is 0 % or 100 % only if it is; the ends of an
interval are rounded outward.
"""

from __future__ import annotations

import math
from fractions import Fraction

__all__ = ["percent", "percent_interval"]


def percent(part: float, whole: float = 1) -> str:
    """A share in percent with one decimal; all and nothing are said only of all and nothing.

    Examples
    --------
    >>> percent(181, 188), percent(5, 5), percent(99_999, 100_000), percent(1, 10_000), percent(0)
    ('96.3 %', '100 %', '> 99.9 %', '< 0.1 %', '0 %')
    """
    if whole == 0:
        return "–"
    share = Fraction(part) / Fraction(whole)
    if share in (0, 1):
        return f"{100 * int(share)} %"
    tenths = round(1000 * share)
    if tenths in (0, 1000):
        return "> 99.9 %" if tenths else "< 0.1 %"
    return f"{tenths / 10:.1f} %"


def percent_interval(lower: float, upper: float) -> str:
    """A share that lies between two, rounded outward; or the one it is.

    Examples
    --------
    >>> percent_interval(0.5, 0.5), percent_interval(0.70001, 0.71002), percent_interval(0, 0.2)
    ('50.0 %', '70.0 % to 71.1 %', '0 % to 20.0 %')
    """
    if lower == upper:
        return percent(lower)
    # A share that was divided in floating point is off by a rounding: no step of a tenth for that.
    low, high = math.floor(1000 * lower + 1e-9), math.ceil(1000 * upper - 1e-9)
    return f"{_tenths(low)} to {_tenths(high)}"


def _tenths(tenths: int) -> str:
    return f"{tenths // 10} %" if tenths in (0, 1000) else f"{tenths / 10:.1f} %"
