"""How far: what radii say of all rows together.

Comes in: the radii of the judged rows (and the budgets that were asked about). Goes out: a curve, a
histogram and the budgets at which a share of the rows stays robust, as plain values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.radius import Curve, Radius
from carvegbm.results import plain_column

__all__ = ["SHARES", "curve_of", "described", "histogram_of", "stays"]

SHARES = (Fraction(99, 100), Fraction(95, 100), Fraction(90, 100))
"""Of the rows that are right: the budgets that these stay robust at."""

_MOST_STEPS = 200
_BARS = 20
_TINY = 1e-300
"""Below, doubles are too few for bars."""
_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)

Floats = npt.NDArray[np.float64]


def described(radii: Radius, budgets: Iterable[float]) -> dict[str, Any]:
    """All of it; `budgets` are those that were asked about."""
    lower, upper = radii.lower, radii.upper
    found = _known(radii)
    curve = curve_of(radii, budgets)
    return {
        "radius": {"lower": plain_column(lower), "upper": plain_column(upper)},
        "wrong": int(np.count_nonzero(upper == 0)),
        "never": int(np.count_nonzero(np.isinf(lower))),
        "undecided": int(np.count_nonzero(~radii.exact)),
        "smallest": float(found.min()) if len(found) else None,
        "median": float(np.median(found)) if len(found) else None,
        "largest": float(found.max()) if len(found) else None,
        "curve": {
            "budgets": curve.budgets.tolist(),
            "lower": curve.lower.tolist(),
            "upper": curve.upper.tolist(),
        },
        "histogram": histogram_of(radii),
        "stays": stays(radii),
    }


def _known(radii: Radius) -> Floats:
    """The exact, finite radii of right rows."""
    values = radii.radius
    return values[radii.exact & np.isfinite(values) & (values > 0)]


def curve_of(radii: Radius, budgets: Iterable[float]) -> Curve:
    """Robustness at 0, at `budgets` and where it changes; at most some hundred of these places.

    It changes at radii: a row is robust at every budget below its radius, and at none from it on.
    """
    ends = np.concatenate([radii.lower, radii.upper])
    steps = np.unique(ends[np.isfinite(ends) & (ends > 0)])
    if len(steps) > _MOST_STEPS:
        steps = steps[np.linspace(0, len(steps) - 1, _MOST_STEPS).round().astype(int)]
    at = sorted({0.0, *steps.tolist(), *budgets})
    return Curve.of_radii(radii, tuple(at))


def histogram_of(radii: Radius) -> list[dict[str, Any]]:
    """Counts of exact, finite radii > 0: from <= radius < to, in the last bar also radius = to.

    For norm 0 of whole numbers, from = to. Where radii differ by orders of magnitude, so do the
    bars.
    """
    found = np.sort(_known(radii))
    if len(found) == 0:
        return []
    if radii.norm == 0:
        values = range(1, int(found[-1]) + 1)
        return [
            {"from": value, "to": value, "count": int(np.count_nonzero(found == value))}
            for value in values
        ]
    edges = _edges(found)
    places = np.clip(np.searchsorted(edges, found, side="right") - 1, 0, len(edges) - 2)
    counts = np.bincount(places, minlength=len(edges) - 1).tolist()
    return [
        {"from": low, "to": high, "count": count}
        for low, high, count in zip(edges[:-1].tolist(), edges[1:].tolist(), counts, strict=True)
    ]


def _edges(found: Floats) -> Floats:
    """The ends of the bars, ascending, such that all of `found` lie between the first and last."""
    smallest, largest = float(found[0]), float(found[-1])
    low, middle, high = np.quantile(found, [0.05, 0.5, 0.95]).tolist()
    if high > 100 * low or largest > 20 * middle:
        # What is far from all others goes into the first and the last bar.
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
    step = next(nice * unit for nice in _NICE if nice * unit >= raw * (1 - 1e-9))
    count = max(1, math.ceil(largest / step - 1e-9))
    edges = [float(f"{step * i:.12g}") for i in range(count + 1)]
    return np.array([*edges[:-1], max(edges[-1], largest)])


def stays(radii: Radius) -> list[dict[str, Any]]:
    """For every share s: at all budgets below b, at least s of the right rows stay robust.

    b is given as bounds, equal where it is known; both None where any budget will do, the upper
    one where no more is known than the lower. Empty if no row is right.
    """
    right = radii.upper > 0
    count = int(np.count_nonzero(right))
    if count == 0:
        return []
    lower, upper = np.sort(radii.lower[right]), np.sort(radii.upper[right])
    found = []
    for share in SHARES:
        may_fall = count - math.ceil(share * count)
        low, high = plain_column(np.array([lower[may_fall], upper[may_fall]]))
        found.append({"share": float(share), "lower": low, "upper": high})
    return found
