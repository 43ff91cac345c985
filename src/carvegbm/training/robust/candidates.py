"""Candidate thresholds for the robust grower: where they give the attacker least.

Norm inf: between the ends of what the attacker can reach.
A row with value x can be anywhere in [x - r, x + r], r being the attacker's radius for the feature.
What a split does to the rows changes only where a threshold passes one of these ends, so that
thresholds are placed in the middle between consecutive ends, not between consecutive values.

Norms 0, 1, 2, …: evenly. What a move costs an attacker that shares a budget among features grows
with its distance, without a step at some radius. Steps of the model that are spread over a
feature's whole range then cost it most: thresholds lie evenly among the feature's values, and
evenly between the smallest and the largest of them, so that a feature of few values has several
thresholds between two of them.

Comes in: rows, and an attacker where it counts. Goes out: `Ends`, which choose `Candidates`: at
most so many thresholds per feature, none of them too crowded; or evenly placed `Candidates`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carvegbm.training.certified.quiet import crowding
from carvegbm.training.data import Labelled
from carvegbm.training.growing.closing import ClosingRule
from carvegbm.training.growing.thresholds import ZERO_ZONE, Candidates, for_each_column

__all__ = ["Ends", "even_candidates", "find_ends"]

Floats = npt.NDArray[np.float64]

_MOST = 2048  # thresholds per feature that are looked at
_CLOSEST = 1e-6  # ends this close, in ranges of the feature, are taken for one
_HEAVY = 0.25  # share of the thresholds chosen that lie beside the most frequent ends


@dataclass(frozen=True)
class Ends:
    """Every threshold between two ends, with how many rows end beside it and how crowded it is."""

    candidates: Candidates
    weight: list[Floats]
    crowding: list[Floats]

    def choose(self, most: int, quietness: float | None) -> Candidates:
        """At most `most` thresholds per feature, none more crowded than `quietness`."""
        flags = []
        for weight, crowded in zip(self.weight, self.crowding, strict=True):
            open_ones = np.flatnonzero(crowded <= (1.0 if quietness is None else quietness))
            flag = np.zeros(len(weight), dtype=bool)
            flag[open_ones[_spread_out(weight[open_ones], most)]] = True
            flags.append(flag)
        return self.candidates.keeping(flags)


def find_ends(rows: Labelled, rule: ClosingRule, threads: int = 1) -> Ends:
    """The thresholds between the ends of what an attacker of norm inf can reach from `rows`.

    Examples
    --------
    >>> from carvegbm import Attacker
    >>> from carvegbm.training.inputs import blank_ensemble
    >>> rows = Labelled(np.array([[1.0], [2.0], [2.0], [4.0]]), np.array([0, 0, 1, 1]))
    >>> rule = ClosingRule.against(Attacker("inf", 0.25), blank_ensemble(1))
    >>> ends = find_ends(rows, rule)
    >>> ends.candidates.values[0].tolist()
    [1.0, 1.5, 2.0, 3.0]
    >>> ends.weight[0].tolist(), ends.crowding[0].tolist()
    ([1.0, 2.0, 2.0, 2.0], [0.5, 0.0, 0.5, 0.0])
    """
    n_features = rows.X.shape[1]
    places: list[Floats] = [np.empty(0)] * n_features
    weights: list[Floats] = [np.empty(0)] * n_features
    lowest, highest = np.zeros(n_features), np.zeros(n_features)
    radius = np.where(rule.changeable, rule.budget * rule.scale, 0.0)

    def find(feature: int, column: Floats) -> None:
        column[np.abs(column) <= ZERO_ZONE] = 0.0
        values, counts = np.unique(column, return_counts=True)
        lowest[feature], highest[feature] = values[0], values[-1]
        if len(values) == 1:
            return
        low = np.minimum(values, np.maximum(values - radius[feature], rule.lower[feature]))
        high = np.maximum(values, np.minimum(values + radius[feature], rule.upper[feature]))
        places[feature], weights[feature] = _between(low, high, counts, values[0], values[-1])

    for_each_column(rows.X, find, threads)
    candidates = Candidates(tuple(places), lowest, highest)
    return Ends(candidates, weights, crowding(candidates, rows, rule, threads))


def _between(
    low: Floats, high: Floats, counts: npt.NDArray[np.int64], first: float, last: float
) -> tuple[Floats, Floats]:
    """Thresholds t between consecutive ends, first <= t < last; the weight of the heavier end."""
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    ends, rows = ends[order], np.concatenate([counts, counts])[order].astype(np.float64)
    starts = np.r_[True, np.diff(ends) > _CLOSEST * (last - first)]
    rows = np.bincount(np.cumsum(starts) - 1, rows).astype(np.float64)
    # Ends that are taken for one reach from the first of them to the last.
    upper = ends[np.r_[np.flatnonzero(starts)[1:] - 1, len(ends) - 1]]
    ends = ends[starts]
    place = upper[:-1] / 2 + ends[1:] / 2
    weight = np.maximum(rows[:-1], rows[1:])
    place = _outside_zero(place)
    useful = (place >= first) & (place < last) & np.r_[True, np.diff(place) > 0]
    place, weight = place[useful], weight[useful]
    chosen = _spread_out(weight, _MOST)
    return place[chosen], weight[chosen]


def _spread_out(weight: Floats, most: int) -> npt.NDArray[np.int64]:
    """Positions of at most `most` thresholds: some beside heavy ends, the others evenly spaced."""
    n = len(weight)
    if n <= most:
        return np.arange(n)
    heavy = np.argsort(-weight, kind="stable")[: int(_HEAVY * most)]
    heavy = heavy[weight[heavy] > 2 * weight.mean()]
    pieces = most - len(heavy)
    even = ((np.arange(pieces) + 0.5) * n / pieces).astype(np.int64)
    return np.unique(np.concatenate([heavy, even]))


# ── thresholds that lie evenly ───────────────────────────────────────────────────────────────


def even_candidates(X: npt.NDArray[np.floating], most: int, threads: int = 1) -> Candidates:
    """At most `most` thresholds per feature, half of them between neighbouring values.

    Examples
    --------
    >>> found = even_candidates(np.array([[0.0], [1.0], [1.0], [4.0]]), 4)
    >>> found.values[0].tolist(), found.lower.tolist(), found.upper.tolist()
    ([0.5, 1.3333333333333333, 2.5, 2.6666666666666665], [0.0], [4.0])
    """
    n_features = X.shape[1]
    places: list[Floats] = [np.empty(0)] * n_features
    lowest, highest = np.zeros(n_features), np.zeros(n_features)

    def find(feature: int, column: Floats) -> None:
        column = column[~np.isnan(column)]
        column[np.abs(column) <= ZERO_ZONE] = 0.0
        values = np.unique(column)
        if len(values) == 0:
            return
        lowest[feature], highest[feature] = values[0], values[-1]
        places[feature] = _places(values, most)

    for_each_column(X, find, threads)
    return Candidates(tuple(places), lowest, highest)


def _places(values: Floats, most: int) -> Floats:
    """Thresholds t, values[0] <= t < values[-1]."""
    if len(values) == 1:
        return np.empty(0)
    between = values[:-1] / 2 + values[1:] / 2
    half = max(1, most // 2)
    if len(between) > half:
        between = between[np.linspace(0, len(between) - 1, half).round().astype(np.int64)]
    evenly = np.linspace(values[0], values[-1], most - len(between) + 2)[1:-1]
    place = np.unique(_outside_zero(np.union1d(between, evenly)))
    kept: Floats = place[(place >= values[0]) & (place < values[-1])]
    return kept


def _outside_zero(place: Floats) -> Floats:
    """Thresholds outside of the zone that LightGBM reads as 0."""
    inside = (place >= -ZERO_ZONE) & (place < ZERO_ZONE)
    return np.where(inside, ZERO_ZONE, place)
