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

On a lattice, thresholds lie in the middle between two of its points, at most one between the same
two. Missing values are no ends and have no thresholds. A categorical feature has categories, and a
member of a one-hot group the threshold 0.5, unless the attacker could exchange them at will: no
split of these helps against norm inf.

Comes in: rows, and an attacker where it counts. Goes out: `Ends`, which choose `Candidates`: at
most so many thresholds per feature, none of them too crowded; or evenly placed `Candidates`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carvegbm.axes.lattice import Lattice
from carvegbm.training.certified.quiet import crowding
from carvegbm.training.data import Labelled
from carvegbm.training.growing.categories import kept_categories
from carvegbm.training.growing.closing import ClosingRule
from carvegbm.training.growing.thresholds import (
    ZERO_ZONE,
    Candidates,
    for_each_value,
    with_missing,
)

__all__ = ["Ends", "even_candidates", "find_ends"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MOST = 2048  # thresholds per feature that are looked at
_CLOSEST = 1e-6  # ends this close, in ranges of the feature, are taken for one
_MOST_CATEGORIES, _LEAST_ROWS = 255, 3  # of a feature; of a category, to be named in a split
_MOST_BESIDE_MISSING = 254  # thresholds
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
        for feature, (weight, crowded) in enumerate(zip(self.weight, self.crowding, strict=True)):
            if feature in self.candidates.categories:
                flags.append(np.ones(1, dtype=bool))
                continue
            open_ones = np.flatnonzero(crowded <= (1.0 if quietness is None else quietness))
            flag = np.zeros(len(weight), dtype=bool)
            # A code of the 256 is that of missing values.
            able = min(most, _MOST_BESIDE_MISSING) if feature in self.candidates.missing else most
            flag[open_ones[_spread_out(weight[open_ones], able)]] = True
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
    found = _Found(n_features, with_missing(rows.X, threads))
    weights: list[Floats] = [np.empty(0)] * n_features

    def find(feature: int, values: Floats, counts: Ints) -> None:
        if rule.finite.get(feature):  # what can be exchanged at will
            return
        if feature in rule.categorical:
            found.keep_categories(feature, values, counts)
            return
        found.see(feature, values)
        if len(values) <= 1:
            return
        if feature in rule.step:
            lattice = Lattice(rule.step[feature], is_float32=False)
            numbers = np.rint(values / float(rule.step[feature]))
            ends = _ends(rule, feature, numbers)
            place, weight = _between(*ends, counts, numbers[0], numbers[-1])
            last = np.ceil(place) - 1  # between a point and the next
            kept = np.flatnonzero(np.diff(last, prepend=-np.inf) > 0)
            found.places[feature] = lattice.doubles(last[kept] + 0.5)
            weights[feature] = weight[kept]
            return
        ends = _ends(rule, feature, values)
        found.places[feature], weights[feature] = _between(*ends, counts, values[0], values[-1])

    for_each_value(rows.X, find, threads)
    candidates = found.candidates()
    return Ends(candidates, weights, crowding(candidates, rows, rule, threads))


class _Found:
    """What is found of every feature, column by column."""

    def __init__(self, n_features: int, missing: frozenset[int]) -> None:
        self.places: list[Floats] = [np.empty(0)] * n_features
        self.categories: dict[int, Ints] = {}
        self._lowest, self._highest = np.zeros(n_features), np.zeros(n_features)
        self._missing = missing

    def keep_categories(self, feature: int, values: Floats, counts: Ints) -> None:
        self.categories[feature] = kept_categories(values, counts, _MOST_CATEGORIES, _LEAST_ROWS)

    def see(self, feature: int, values: Floats) -> None:
        """The different numbers of a column, ascending."""
        if len(values):
            self._lowest[feature], self._highest[feature] = values[0], values[-1]

    def candidates(self) -> Candidates:
        known = {feature: self.categories[feature] for feature in sorted(self.categories)}
        missing = self._missing.difference(known)
        return Candidates(tuple(self.places), self._lowest, self._highest, missing, known)


def _ends(rule: ClosingRule, feature: int, places: Floats) -> tuple[Floats, Floats]:
    """How far down and up the attacker takes values, which are numbers of steps on a lattice."""
    if not rule.changeable[feature] or feature in rule.finite:
        return places, places
    lower, upper = rule.lower[feature], rule.upper[feature]
    if feature in rule.step:
        down, up = rule.points(feature)
        lattice = Lattice(rule.step[feature], is_float32=False)
        first, last = lattice.within(np.array([lower]), np.array([upper]))
        lower, upper = first[0], last[0]
    else:
        down, up = rule.budget * rule.scale[feature], rule.budget * rule.scale_up[feature]
    low = np.minimum(places, np.maximum(places - down, lower))
    return low, np.maximum(places, np.minimum(places + up, upper))


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


def even_candidates(
    X: npt.NDArray[np.floating],
    most: int,
    threads: int = 1,
    rule: ClosingRule | None = None,
) -> Candidates:
    """At most `most` thresholds per feature, half of them between neighbouring values.

    `rule` knows which features are on lattices, categorical or members of one-hot groups.

    Examples
    --------
    >>> found = even_candidates(np.array([[0.0], [1.0], [1.0], [4.0]]), 4)
    >>> found.values[0].tolist(), found.lower.tolist(), found.upper.tolist()
    ([0.5, 1.3333333333333333, 2.5, 2.6666666666666665], [0.0], [4.0])
    """
    missing = with_missing(X, threads)
    found = _Found(X.shape[1], missing)

    def find(feature: int, values: Floats, counts: Ints) -> None:
        if rule is not None and feature in rule.categorical:
            found.keep_categories(feature, values, counts)
            return
        found.see(feature, values)
        if len(values) == 0:
            return
        able = min(most, _MOST_BESIDE_MISSING) if feature in missing else most
        place = _places(values, able)
        if rule is not None and feature in rule.finite and len(place):
            place = np.array([0.5])
        elif rule is not None and feature in rule.step:
            lattice = Lattice(rule.step[feature], is_float32=False)
            last = np.unique(lattice.last_left(place))
            place = lattice.doubles(last + 0.5)
        found.places[feature] = place

    for_each_value(X, find, threads)
    return found.candidates()


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
