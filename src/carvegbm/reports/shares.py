"""Shares of all rows, from a sample of them: Clopper and Pearson's interval.

Comes in: how many rows of how many. Goes out: an interval that the share of all rows lies in.
"""

from __future__ import annotations

__all__ = ["CONFIDENCE", "interval"]

CONFIDENCE = 0.95
"""Of the intervals."""


def interval(part: int, whole: int) -> tuple[float, float]:
    """Where the share of all rows lies, of which these were drawn; with that confidence at least.

    Examples
    --------
    >>> [round(end, 3) for end in interval(9, 10)]
    [0.555, 0.997]
    """
    from scipy.stats import binomtest

    found = binomtest(part, whole).proportion_ci(CONFIDENCE, method="exact")
    return float(found.low), float(found.high)
