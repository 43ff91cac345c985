"""Statistics that displays draw, computed from arrays.

Each quantity is defined once: groups and histogram of radii, the budgets at which robustness
changes, parts of a status bar, and what witnesses change per feature.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.statuses import in_a_bar
from carvegbm.totals import VerificationTotals

__all__ = [
    "FeatureChange",
    "Segment",
    "change_budgets",
    "feature_changes",
    "is_skewed",
    "radius_groups",
    "radius_histogram",
    "range_and_median",
    "segments",
]

Floats = npt.NDArray[np.float64]

_MAX_BINS = 40
_OUTLIER = 20  # times the median


def range_and_median(values: Floats) -> tuple[float, float, float]:
    """Return the smallest, the median and the largest of at least one value."""
    return float(values.min()), float(np.median(values)), float(values.max())


def is_skewed(values: Floats) -> bool:
    """Return whether the largest of these values > 0 would squeeze the others on a linear axis."""
    return len(values) > 1 and bool(values.max() > _OUTLIER * np.median(values))


# ── radii ────────────────────────────────────────────────────────────────────────────────────


def radius_groups(radius: Floats) -> dict[str, npt.NDArray[np.bool_]]:
    """Return which rows are wrong (radius 0), flipped by a finite budget, by none, or undecided."""
    return {
        "wrong": radius == 0,
        "finite": np.isfinite(radius) & (radius > 0),
        "infinite": np.isinf(radius),
        "undecided": np.isnan(radius),
    }


def radius_histogram(
    finite: Floats, norm: int | float, *, log: bool = False, bins: Any = None
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return counts and bin edges of finite radii > 0.

    `bins` are those of `numpy.histogram`. By default their width is constant, or with `log` their
    ratio; for norm 0 every bin is centred on whole numbers.
    """
    if len(finite) == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    largest = float(finite.max())
    count = int(np.clip(np.ceil(2 * np.sqrt(len(finite))), 5, _MAX_BINS))
    if bins is None and norm == 0:
        if log:
            bins = np.unique(np.round(np.geomspace(1, largest + 1, count + 1))) - 0.5
        else:
            step = -(-int(largest) // _MAX_BINS)
            bins = np.arange(0.5, largest + step + 0.5, step)
    elif bins is None and log:
        bins = np.unique(np.geomspace(finite.min(), largest, count + 1))
    elif bins is None:
        bins = np.linspace(0, largest, count + 1)
    counts, edges = np.histogram(finite, bins)
    return counts.astype(np.int64), edges


def change_budgets(lower: Floats, upper: Floats, norm: int | float) -> Floats:
    """Return, ascending, 0 and the budgets at which the bounds on robustness change.

    If no radius is known to end at the largest of them, radii were only computed up to it; the
    largest budget before it is returned in its place.
    """
    ends = np.concatenate([[0.0], lower, upper])
    budgets = np.unique(ends[np.isfinite(ends)])
    if budgets[-1] > 0 and not (upper == budgets[-1]).any():
        before = budgets[-1] - 1 if norm == 0 else np.nextafter(budgets[-1], 0)
        budgets = np.unique([*budgets[:-1], before])
    return np.asarray(budgets)


# ── statuses ─────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Segment:
    """A part of a status bar; `start` and `share` are shares of all rows."""

    status: str
    count: int
    start: float
    share: float


def segments(totals: VerificationTotals) -> list[Segment]:
    """Return the non-empty parts of a status bar from the left, see `statuses.in_a_bar`."""
    n = totals.instances
    if n == 0:
        raise DataError("there are no instances to draw; verify some")
    found, before = [], 0
    for status, count in in_a_bar(totals.counts, totals.open):
        found.append(Segment(status, count, before / n, count / n))
        before += count
    return found


# ── witnesses ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class FeatureChange:
    """How many witnesses raise, lower or replace (by another category) one feature.

    `smallest`, `median` and `largest` are sizes of the changes; NaN for a categorical feature.
    """

    feature: int
    name: str
    up: int
    down: int
    other: int
    smallest: float
    median: float
    largest: float

    @property
    def changed(self) -> int:
        """Number of witnesses that change the feature."""
        return self.up + self.down + self.other


def feature_changes(
    features: npt.NDArray[np.int64],
    sizes: Floats,
    names: Sequence[str] | None,
    categorical: Collection[int],
) -> list[FeatureChange]:
    """Return what is changed per feature, the most frequently changed first.

    Change i adds `sizes[i]` to feature `features[i]` of some row.
    """
    order = np.argsort(features, kind="stable")
    changed, first = np.unique(features[order], return_index=True)
    found = []
    for feature, size in zip(changed.tolist(), np.split(sizes[order], first[1:]), strict=False):
        name = f"feature {feature}" if names is None else names[feature]
        if feature in categorical:
            nan = float("nan")
            found.append(FeatureChange(feature, name, 0, 0, len(size), nan, nan, nan))
        else:
            up = int(np.count_nonzero(size > 0))
            sizes_of = range_and_median(np.abs(size))
            found.append(FeatureChange(feature, name, up, len(size) - up, 0, *sizes_of))
    return sorted(found, key=lambda change: (-change.changed, change.feature))
