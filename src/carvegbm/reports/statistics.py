"""Statistics of results, computed from arrays; shared by reports and displays.

Radii are two arrays with lower <= radius <= upper per row: equal where the radius is known, 0 where
the row is wrong without an attack, infinite where no budget flips it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = [
    "CONFIDENCE",
    "FeatureChanges",
    "budgets_for_shares",
    "changed_features",
    "clopper_pearson",
    "curve_budgets",
    "histogram",
    "known_radii",
    "robust_shares",
    "spans_decades",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

CONFIDENCE = 0.95
"""Confidence level of `clopper_pearson`."""

_BARS = 20
_TINY = 1e-300  # below, equal bars would collapse into one double
_NICE_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def clopper_pearson(part: int, whole: int) -> tuple[float, float]:
    """Confidence interval of a share of which `part` of `whole` drawn rows are an estimate.

    Its coverage is at least `CONFIDENCE` whatever the true share is.

    Examples
    --------
    >>> [round(end, 3) for end in clopper_pearson(9, 10)]
    [0.555, 0.997]
    """
    from scipy.stats import binomtest

    interval = binomtest(part, whole).proportion_ci(CONFIDENCE, method="exact")
    return float(interval.low), float(interval.high)


def known_radii(lower: Floats, upper: Floats) -> Floats:
    """The exactly known, finite radii > 0, ascending."""
    return np.sort(lower[(lower == upper) & np.isfinite(lower) & (lower > 0)])


def curve_budgets(lower: Floats, upper: Floats, most: int | None = None) -> Floats:
    """The budgets at which robustness changes: 0 and the finite ends of all radii, ascending.

    Of more than `most` ends, `most` evenly spaced ones are kept.
    """
    ends = np.concatenate([lower, upper])
    steps = np.unique(ends[np.isfinite(ends) & (ends > 0)])
    if most is not None and len(steps) > most:
        steps = steps[np.linspace(0, len(steps) - 1, most).round().astype(int)]
    return np.concatenate([[0.0], steps])


def robust_shares(lower: Floats, upper: Floats, budgets: Iterable[float]) -> tuple[Floats, Floats]:
    """Robustness at each budget: the share of rows with lower > budget, and with upper > budget."""
    at = np.array(list(budgets), dtype=np.float64)
    n = len(lower)
    low, high = (n - np.searchsorted(np.sort(ends), at, side="right") for ends in (lower, upper))
    return low / n, high / n


def budgets_for_shares(
    lower: Floats, upper: Floats, shares: Sequence[Fraction]
) -> list[tuple[float, float]]:
    """Bounds on the largest budget below which at least a share of the right rows stays robust.

    One pair (lower, upper) per share; no pairs if no row is right.
    """
    right = upper > 0
    count = int(np.count_nonzero(right))
    if count == 0:
        return []
    low, high = np.sort(lower[right]), np.sort(upper[right])
    places = [count - math.ceil(share * count) for share in shares]
    return [(float(low[place]), float(high[place])) for place in places]


def spans_decades(values: Floats) -> bool:
    """Whether values > 0, ascending, differ so much that a linear axis would squeeze most of them.

    Examples
    --------
    >>> spans_decades(np.array([1.0, 2.0, 3.0])), spans_decades(np.array([1.0, 2.0, 3.0, 90.0]))
    (False, True)
    """
    if len(values) == 0:
        return False
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95]).tolist()
    return bool(high > 100 * low or values[-1] > 20 * middle)


def histogram(radii: Floats, whole: bool) -> tuple[Floats | Integers, Integers]:
    """Bin edges and counts of radii > 0, ascending: edge <= radius < next edge.

    The last bin includes its upper edge. The edges are powers of ten (with their 2- and 5-folds if
    these are few) where the radii span decades. For `whole` numbers there is one bin per number,
    and the edges are these numbers: as many as there are counts.
    """
    if len(radii) == 0:
        return np.zeros(0), np.zeros(0, dtype=np.int64)
    if whole:
        numbers = np.arange(1, int(radii[-1]) + 1)
        return numbers, np.bincount(radii.astype(np.int64))[1:]
    edges = _edges(radii)
    places = np.clip(np.searchsorted(edges, radii, side="right") - 1, 0, len(edges) - 2)
    return edges, np.bincount(places, minlength=len(edges) - 1)


def _edges(radii: Floats) -> Floats:
    smallest, largest = float(radii[0]), float(radii[-1])
    if spans_decades(radii):
        low, high = np.quantile(radii, [0.05, 0.95]).tolist()
        # Outliers fall into the first and the last bin.
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(max(high, 10 * low)))
        stride = max(1, math.ceil((last - first) / _BARS))
        digits = (1, 2, 5) if 3 * (last - first) <= _BARS else (1,)
        powers = range(first, last, stride)
        edges = [float(f"{digit}e{power}") for power in powers for digit in digits]
        edges.append(float(f"1e{powers[-1] + stride}"))
        return np.array([min(edges[0], smallest), *edges[1:-1], max(edges[-1], largest)])
    if largest < _TINY:
        return np.array([0.0, largest])
    raw = largest / _BARS
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(nice * unit for nice in _NICE_STEPS if nice * unit >= raw * (1 - 1e-9))
    count = max(1, math.ceil(largest / step - 1e-9))
    edges = [float(f"{step * i:.12g}") for i in range(count + 1)]
    return np.array([*edges[:-1], max(edges[-1], largest)])


class FeatureChanges(NamedTuple):
    """What witnesses change in one feature; directions and sizes are None for categories."""

    feature: int
    rows: int
    """Witnesses that change the feature."""
    alone: int
    """Witnesses that change nothing else."""
    up: int | None
    down: int | None
    smallest: float | None
    median: float | None
    largest: float | None


def changed_features(
    witnesses: Integers, features: Integers, moves: Floats, categorical: Collection[int]
) -> list[FeatureChanges]:
    """Count changes by feature, the most frequently changed feature first.

    Parameters
    ----------
    witnesses, features : int array
        The witness and the feature of each change.
    moves : float array
        after - before of each change.
    categorical : collection of int
        Features whose values are categories.
    """
    counts = np.bincount(witnesses, minlength=1)
    is_alone = counts[witnesses] == 1
    found = []
    for feature in np.unique(features).tolist():
        chosen = features == feature
        by = moves[chosen]
        rows, alone = len(by), int(np.count_nonzero(is_alone[chosen]))
        if feature in categorical:
            found.append(FeatureChanges(feature, rows, alone, *[None] * 5))
            continue
        size = np.abs(by)
        up, down = int(np.count_nonzero(by > 0)), int(np.count_nonzero(by < 0))
        sizes = float(size.min()), float(np.median(size)), float(size.max())
        found.append(FeatureChanges(feature, rows, alone, up, down, *sizes))
    return sorted(found, key=lambda changes: (-changes.rows, changes.feature))
