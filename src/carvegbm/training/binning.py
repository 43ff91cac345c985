"""Candidate thresholds: choose them, map rows to integer codes, measure how crowded they are.

    code of x = number of thresholds < x,    so that    code <= i  iff  x <= threshold[i]

A missing value (NaN) has the largest code of its feature if training data have missing values
there; otherwise it is read as 0, as LightGBM does. A category has the code 1 + its position among
the categories kept; all others (missing, rare, unseen) have code 0 and go right in every split.

Three ways to choose thresholds share one loop over columns:

    quantile_bins  equally filled bins, as LightGBM: large-spread training
    reach_bins     between the ends of what an attacker of norm inf can reach from the rows
    even_bins      evenly spaced: attackers that share a budget among features
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.encoding import StepGrid
from carvegbm.training.categorical import category_numbers
from carvegbm.training.dataset import Dataset

if TYPE_CHECKING:
    from carvegbm.training.large_spread.exclusion import ExclusionRule

__all__ = ["ZERO_ZONE", "BinMapper", "ReachBins", "category_codes", "crowding", "even_bins"]
__all__ += ["lattice_step", "quantile_bins", "reach_bins"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ZERO_ZONE = float(np.float32(1e-35))
"""LightGBM reads inputs of at most this magnitude as 0, so that no threshold may lie in
[-ZERO_ZONE, ZERO_ZONE): it would separate inputs here that LightGBM does not separate."""

_BLOCK_COLUMNS = 16  # columns converted at a time; row-major data are then read in one sweep
_MAX_LATTICE_STEPS = 1 << 16  # a finer grid is as good as continuous
_LATTICE_TOLERANCE = 1e-3  # of a value from its lattice point, in steps (float32 inputs)
_MAX_REACH_BINS = 2048  # per feature, before `ReachBins.choose`
_MERGE_DISTANCE = 1e-6  # ends this close, in ranges of the feature, are taken for one
_HEAVY_SHARE = 0.25  # of the chosen reach bins: those beside the most frequent ends
_CATEGORY_LIMITS = 255, 3  # most categories of a feature, least rows of a category
_MAX_BINS_WITH_MISSING = 254  # one code of a byte is that of missing values


@dataclass(frozen=True)
class BinMapper:
    """Candidate thresholds per feature, ascending, and the codes of rows.

    `lower` and `upper` are the smallest and largest values in the training rows, `missing` the
    numeric features with missing values there. `categories` are those that splits can name, per
    categorical feature, ascending; such features have no thresholds.
    """

    thresholds: tuple[Floats, ...]
    lower: Floats
    upper: Floats
    missing: frozenset[int] = frozenset()
    categories: Mapping[int, Ints] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.thresholds)

    @property
    def n_codes(self) -> list[int]:
        """Number of codes per feature, that of missing values included."""
        known = (self.categories.get(f, t) for f, t in enumerate(self.thresholds))
        return [len(each) + 1 + (f in self.missing) for f, each in enumerate(known)]

    @property
    def code_type(self) -> type[np.uint8] | type[np.uint16] | type[np.uint32]:
        """The smallest unsigned integer type that holds every code."""
        most = max(self.n_codes, default=1)
        return np.uint8 if most <= 1 << 8 else np.uint16 if most <= 1 << 16 else np.uint32

    def missing_code(self, feature: int) -> int | None:
        """Return the code of missing values, or None if they have no code of their own."""
        return len(self.thresholds[feature]) + 1 if feature in self.missing else None

    def keep(self, flags: Sequence[Bools]) -> BinMapper:
        """Return only the flagged thresholds; one flag decides for all categories of a feature."""
        categories = {f: known for f, known in self.categories.items() if flags[f].all()}
        kept = tuple(
            t if f in self.categories else t[flags[f]] for f, t in enumerate(self.thresholds)
        )
        return replace(self, thresholds=kept, categories=categories)

    def encode(self, X: Any, threads: int = 1) -> npt.NDArray[Any]:
        """Return the codes of the rows as a column-major array."""
        codes = np.empty(X.shape, dtype=self.code_type, order="F")

        def encode(feature: int, column: Floats) -> None:
            if feature in self.categories:
                codes[:, feature] = category_codes(column, self.categories[feature])
                return
            missing = np.isnan(column)
            column[missing] = 0.0
            codes[:, feature] = np.searchsorted(self.thresholds[feature], column, side="left")
            if feature in self.missing:
                codes[missing, feature] = self.missing_code(feature)

        _for_each_column(X, encode, threads)
        return codes


def category_codes(column: Floats, known: Ints) -> Ints:
    """Return the code of every value: 1 + its position among the `known` categories, or 0."""
    category = category_numbers(column)
    if len(known) == 0:
        return np.zeros(len(category), dtype=np.int64)
    place = np.minimum(np.searchsorted(known, category), len(known) - 1)
    return np.where(known[place] == category, place + 1, 0)


def _frequent_categories(values: Floats, counts: Ints, most: int, min_rows: int) -> Ints:
    """The most frequent categories, ascending; as in LightGBM, the first two however rare."""
    numbers = category_numbers(values)
    valid = numbers >= 0
    found, places = np.unique(numbers[valid], return_inverse=True)
    rows = np.bincount(places, counts[valid], len(found))
    order = np.argsort(-rows, kind="stable")
    frequent = rows[order] >= min_rows
    frequent[:2] = True
    return np.sort(found[order[frequent][:most]])


def _for_each_column(X: Any, task: Callable[[int, Floats], None], threads: int) -> None:
    """Call task(feature, column) for every column, each a float64 array that may be changed."""
    is_sparse = hasattr(X, "tocsc")
    by_column = X.tocsc() if is_sparse else X

    def work(first: int) -> None:
        block = by_column[:, first : first + _BLOCK_COLUMNS]
        columns = np.array(block.toarray(order="F") if is_sparse else block, np.float64, order="F")
        for offset in range(columns.shape[1]):
            task(first + offset, columns[:, offset])

    with ThreadPoolExecutor(threads) as pool:
        run = map if threads == 1 else pool.map
        list(run(work, range(0, X.shape[1], _BLOCK_COLUMNS)))


def _collect(
    X: Any,
    choose: Callable[[int, Floats, Ints], Floats],
    threads: int,
    *,
    categorical: Collection[int] = (),
    category_limits: tuple[int, int] = _CATEGORY_LIMITS,
    missing: frozenset[int] | None = None,
) -> BinMapper:
    """Build the bins of all columns.

    `choose` returns the thresholds of a numeric feature, given its distinct numbers, ascending, and
    how many rows have each of them.
    `missing` replaces the features with missing values found in X.
    """
    n_features = X.shape[1]
    thresholds: list[Floats] = [np.empty(0)] * n_features
    lower, upper = np.zeros(n_features), np.zeros(n_features)
    categories: dict[int, Ints] = {}
    with_missing: list[int] = []

    def collect(feature: int, column: Floats) -> None:
        column[np.abs(column) <= ZERO_ZONE] = 0.0
        values, counts = np.unique(column, return_counts=True)
        n_numbers = int(np.searchsorted(values, np.inf, side="right"))  # NaN is last
        if n_numbers < len(values):
            with_missing.append(feature)
        values, counts = values[:n_numbers], counts[:n_numbers]
        if feature in categorical:
            categories[feature] = _frequent_categories(values, counts, *category_limits)
        elif n_numbers:
            lower[feature], upper[feature] = values[0], values[-1]
            thresholds[feature] = choose(feature, values, counts)

    _for_each_column(X, collect, threads)
    found = frozenset(with_missing) if missing is None else missing
    ordered = {feature: categories[feature] for feature in sorted(categories)}
    return BinMapper(tuple(thresholds), lower, upper, found.difference(categorical), ordered)


def _outside_zero_zone(thresholds: Floats) -> Floats:
    inside = (thresholds >= -ZERO_ZONE) & (thresholds < ZERO_ZONE)
    return np.where(inside, ZERO_ZONE, thresholds)


def quantile_bins(
    X: Any,
    *,
    max_bin: int = 255,
    min_data_in_bin: int = 3,
    sample: int = 200_000,
    seed: int = 1,
    categorical: Collection[int] = (),
    grids: Mapping[int, Fraction] | None = None,
    threads: int = 1,
) -> BinMapper:
    """Choose at most `max_bin` thresholds per feature, each between two distinct values of X.

    Bins hold about equally many rows; a value that fills a bin gets one of its own. Bins of fewer
    than `min_data_in_bin` rows are merged. With more than `sample` rows, that many are drawn.
    A categorical feature keeps its `max_bin` most frequent categories of that many rows.

    A threshold is the mean of the two values it separates. On a grid (pixel levels, counts) it is
    the middle of the nearest cell: unseen instances would otherwise lie exactly on it. `grids` are
    the steps that are known; the others are detected.
    """
    missing = None
    if X.shape[0] > sample:
        lowest = X.min(axis=0)  # NaN if any value is
        lowest = np.ravel(lowest.toarray() if hasattr(lowest, "toarray") else lowest)
        missing = frozenset(np.flatnonzero(np.isnan(lowest)).tolist())
        rows = np.random.default_rng(seed).choice(X.shape[0], size=sample, replace=False)
        X = X[np.sort(rows)]
    steps: list[float | None] = [None] * X.shape[1]
    above: list[Floats] = [np.empty(0)] * X.shape[1]

    def choose(feature: int, values: Floats, counts: Ints) -> Floats:
        cuts = _cut_positions(counts, max_bin, min_data_in_bin)
        steps[feature] = lattice_step(values)
        above[feature] = values[cuts + 1]
        return values[cuts]

    bins = _collect(
        X,
        choose,
        threads,
        categorical=categorical,
        category_limits=(max_bin, min_data_in_bin),
        missing=missing,
    )
    common = _common_step(steps)
    best = [common or step for step in steps]
    for feature, known_step in (grids or {}).items():
        best[feature] = float(known_step)
    placed = [_between(*each) for each in zip(bins.thresholds, above, best, strict=True)]
    return replace(bins, thresholds=tuple(placed))


def lattice_step(values: Floats) -> float | None:
    """Return the largest q such that all `values` are multiples of q, or None.

    `values` are distinct and ascending. Multiples are recognised up to the rounding of float32.
    """
    if len(values) < 2 or len(values) > _MAX_LATTICE_STEPS:
        return None
    magnitudes = np.abs(values)
    largest = float(magnitudes.max())
    step = float(min(np.diff(values).min(), magnitudes[magnitudes > 0].min()))
    # Euclid's algorithm on all values at once, with a tolerance for rounding.
    while largest / step <= _MAX_LATTICE_STEPS:
        even = largest / max(1, round(largest / step))
        if _remainders(magnitudes, even).max() <= _LATTICE_TOLERANCE:
            return even
        remainders = _remainders(magnitudes, step)
        remainders = remainders[remainders > 10 * _LATTICE_TOLERANCE]
        if len(remainders) == 0:
            return None
        step *= float(remainders.min())
    return None


def _remainders(values: Floats, step: float) -> Floats:
    """Distance of each value from its nearest multiple of `step`, in steps."""
    return np.abs(values / step - np.rint(values / step))


def _common_step(steps: list[float | None]) -> float | None:
    """The finest step, if all are multiples of it: a pixel may show two of an image's levels."""
    known = np.array([step for step in steps if step is not None])
    if len(known) == 0 or len(known) < len(steps) / 2:
        return None
    finest = float(known.min())
    return finest if _remainders(known, finest).max() <= _LATTICE_TOLERANCE else None


def _cut_positions(counts: Ints, most: int, min_rows: int) -> Ints:
    """Positions i such that a threshold separates distinct value i from value i + 1."""
    cuts = np.arange(len(counts) - 1)
    if len(cuts) > most:
        heavy = np.zeros(len(counts), dtype=bool)
        while True:
            size = counts[~heavy].sum() / max(1, most + 1 - heavy.sum())
            grown = heavy | (counts >= max(size, 1))
            if grown.sum() == heavy.sum() or grown.all():
                break
            heavy = grown
        while len(cuts := _equal_cuts(counts, heavy, size)) > most and size < counts.sum():
            size *= max(1.02, len(cuts) / most)
        if len(cuts) > most:
            cuts = cuts[np.linspace(0, len(cuts) - 1, most).round().astype(np.int64)]
    below = np.cumsum(counts)[cuts]
    if len(cuts) and np.diff(below, prepend=0, append=counts.sum()).min() < min_rows:
        kept, rows = [], 0
        for cut, total in zip(cuts.tolist(), below.tolist(), strict=True):
            if total - rows >= min_rows and counts.sum() - total >= min_rows:
                kept.append(cut)
                rows = total
        cuts = np.array(kept, dtype=np.int64)
    return cuts


def _equal_cuts(counts: Ints, heavy: Bools, size: float) -> Ints:
    """Cuts around every heavy value, and after every `size` rows of light ones between them."""
    light = np.where(heavy, 0, counts)
    before = np.cumsum(light) - light
    run = before - np.maximum.accumulate(np.where(heavy, before, 0))
    piece = np.floor(run / size)
    return np.flatnonzero(heavy[1:] | heavy[:-1] | (piece[1:] != piece[:-1]))


def _between(lower: Floats, upper: Floats, step: float | None) -> Floats:
    """One threshold t per pair, lower <= t < upper, outside LightGBM's zero zone."""
    places = lower / 2 + upper / 2
    if step is not None:
        cells = np.floor((np.rint(lower / step) + np.rint(upper / step) - 1) / 2) + 0.5
        per_unit = round(1 / step)
        exact = per_unit >= 1 and abs(1 / step - per_unit) <= _LATTICE_TOLERANCE
        middles = cells / per_unit if exact else cells * step
        places = np.where((lower <= middles) & (middles < upper), middles, places)
    places = np.where(places < upper, places, lower)
    inside = (places >= -ZERO_ZONE) & (places < ZERO_ZONE)
    # A value beside the zone is at least one float outside it, so that one end separates the pair.
    ends = np.where(upper > ZERO_ZONE, ZERO_ZONE, np.nextafter(-ZERO_ZONE, -np.inf))
    return np.where(inside, ends, places)


@dataclass(frozen=True)
class ReachBins:
    """Thresholds to choose from; `weight` counts rows at the heavier of the ends beside each."""

    bins: BinMapper
    weight: list[Floats]
    crowding: list[Floats]

    def choose(self, most: int, max_crowding: float | None) -> BinMapper:
        """Return at most `most` thresholds per feature, none with more than `max_crowding`."""
        flags = []
        for feature, (weight, crowded) in enumerate(zip(self.weight, self.crowding, strict=True)):
            if feature in self.bins.categories:
                flags.append(np.ones(1, dtype=bool))
                continue
            usable = np.flatnonzero(crowded <= (1.0 if max_crowding is None else max_crowding))
            has_missing = feature in self.bins.missing
            limit = min(most, _MAX_BINS_WITH_MISSING) if has_missing else most
            flag = np.zeros(len(weight), dtype=bool)
            flag[usable[_spread_out(weight[usable], limit)]] = True
            flags.append(flag)
        return self.bins.keep(flags)


def reach_bins(rows: Dataset, rule: ExclusionRule, threads: int = 1) -> ReachBins:
    """Place thresholds between the ends of what an attacker of norm inf can reach.

    What a split does to the rows, each anywhere in [x - r, x + r], changes only at these ends. With
    a step, at most one threshold lies between two multiples. Categories and one-hot groups that the
    attacker can exchange get no split.
    """
    weights: list[Floats] = [np.empty(0)] * rows.X.shape[1]

    def choose(feature: int, values: Floats, counts: Ints) -> Floats:
        if len(values) <= 1 or rule.discrete.get(feature):
            return np.empty(0)
        if feature not in rule.step:
            ends = _reach_ends(rule, feature, values)
            thresholds, weights[feature] = _between_ends(*ends, counts, values[0], values[-1])
            return thresholds
        lattice = StepGrid(rule.step[feature], is_float32=False)
        index = np.rint(values / float(rule.step[feature]))
        ends = _reach_ends(rule, feature, index)
        places, weight = _between_ends(*ends, counts, index[0], index[-1])
        last = np.ceil(places) - 1  # the multiple left of each
        kept = np.flatnonzero(np.diff(last, prepend=-np.inf) > 0)
        weights[feature] = weight[kept]
        return lattice.doubles(last[kept] + 0.5)

    categorical = [f for f in rule.categorical if not rule.discrete[f]]
    bins = _collect(rows.X, choose, threads, categorical=categorical)
    return ReachBins(bins, weights, crowding(bins, rows, rule, threads))


def _reach_ends(rule: ExclusionRule, feature: int, places: Floats) -> tuple[Floats, Floats]:
    """How far down and up the attacker takes each value (or index on a lattice)."""
    if not rule.changeable[feature] or feature in rule.discrete:
        return places, places
    lower, upper = rule.lower[feature], rule.upper[feature]
    if feature in rule.step:
        down, up = rule.steps_within_budget(feature)
        lattice = StepGrid(rule.step[feature], is_float32=False)
        first, last = lattice.within(np.array([lower]), np.array([upper]))
        lower, upper = first[0], last[0]
    else:
        down, up = rule.budget * rule.scale[feature], rule.budget * rule.scale_up[feature]
    low = np.minimum(places, np.maximum(places - down, lower))
    return low, np.maximum(places, np.minimum(places + up, upper))


def _between_ends(
    low: Floats, high: Floats, counts: Ints, first: float, last: float
) -> tuple[Floats, Floats]:
    """Thresholds t between consecutive ends, first <= t < last; the weight of the heavier end."""
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    ends, rows = ends[order], np.concatenate([counts, counts])[order].astype(np.float64)
    starts = np.r_[True, np.diff(ends) > _MERGE_DISTANCE * (last - first)]
    rows = np.bincount(np.cumsum(starts) - 1, rows).astype(np.float64)
    # Ends that are taken for one extend from the first of them to the last.
    upper = ends[np.r_[np.flatnonzero(starts)[1:] - 1, len(ends) - 1]]
    ends = ends[starts]
    place = _outside_zero_zone(upper[:-1] / 2 + ends[1:] / 2)
    weight = np.maximum(rows[:-1], rows[1:])
    useful = (place >= first) & (place < last) & np.r_[True, np.diff(place) > 0]
    place, weight = place[useful], weight[useful]
    chosen = _spread_out(weight, _MAX_REACH_BINS)
    return place[chosen], weight[chosen]


def _spread_out(weight: Floats, most: int) -> Ints:
    """Positions of at most `most` thresholds: some beside heavy ends, the others evenly spaced."""
    n = len(weight)
    if n <= most:
        return np.arange(n)
    heavy = np.argsort(-weight, kind="stable")[: int(_HEAVY_SHARE * most)]
    heavy = heavy[weight[heavy] > 2 * weight.mean()]
    pieces = most - len(heavy)
    even = ((np.arange(pieces) + 0.5) * n / pieces).astype(np.int64)
    return np.unique(np.concatenate([heavy, even]))


def even_bins(X: Any, most: int, threads: int = 1, rule: ExclusionRule | None = None) -> BinMapper:
    """Choose at most `most` thresholds per feature, half of them between neighbouring values.

    The others are evenly spaced: an attacker that shares its budget among features gains least from
    small steps of a model spread over the whole range. `rule` names the features that have a step,
    are categorical or belong to one-hot groups.
    """
    has_missing = np.isnan(X.min(axis=0))  # NaN where any value is

    def choose(feature: int, values: Floats, counts: Ints) -> Floats:  # noqa: ARG001
        limit = min(most, _MAX_BINS_WITH_MISSING) if has_missing[feature] else most
        between = values[:-1] / 2 + values[1:] / 2
        half = max(1, limit // 2)
        if len(between) > half:
            between = between[np.linspace(0, len(between) - 1, half).round().astype(np.int64)]
        evenly = np.linspace(values[0], values[-1], limit - len(between) + 2)[1:-1]
        place = np.unique(_outside_zero_zone(np.union1d(between, evenly)))
        place = np.asarray(place[(place >= values[0]) & (place < values[-1])])
        if rule is not None and feature in rule.discrete and len(place):
            return np.array([0.5])
        if rule is not None and feature in rule.step:
            lattice = StepGrid(rule.step[feature], is_float32=False)
            return lattice.doubles(np.unique(lattice.last_left(place)) + 0.5)
        return place

    return _collect(X, choose, threads, categorical=() if rule is None else rule.categorical)


def crowding(bins: BinMapper, rows: Dataset, rule: ExclusionRule, threads: int = 1) -> list[Floats]:
    """Return the crowding of every threshold: an attacker profits from rows that lie close to it.

    The crowding of v is the largest share of a class's rows in [v - w up, v + w down], with
    w = 0.3^(1/p) * budget * scale for norm p; 0 if the attacker cannot cross v. For norm inf it can
    spend the whole budget on every feature, for norm 1 it has to share it: 0.3 did best on
    Fashion-MNIST. A categorical feature has one number, and a member of a one-hot group the same:
    1 if it can be exchanged within this budget, else 0. Regression rows form one class.
    """
    classes = rows.y if rows.y.dtype.kind in "iu" else np.zeros(len(rows), dtype=np.int64)
    members = [classes == label for label in np.unique(classes)]
    near = replace(rule, budget=0.3 ** (1 / rule.norm) * rule.budget)
    found: list[Floats] = [np.zeros(len(t)) for t in bins.thresholds]

    def measure(feature: int, column: Floats) -> None:
        thresholds = bins.thresholds[feature]
        if feature in near.discrete:
            n_flags = 1 if feature in bins.categories else len(thresholds)
            found[feature] = np.full(n_flags, float(len(near.discrete[feature]) > 0))
            return
        column, first_of, last_of = _window(near, feature, column, thresholds)
        for member in members:
            ordered = np.sort(column[member])
            first = np.searchsorted(ordered, first_of, side="left")
            last = np.searchsorted(ordered, last_of, side="right")
            share = np.maximum(last - first, 0) / max(len(ordered), 1)
            found[feature] = np.maximum(found[feature], share)
        found[feature] = found[feature] * rule.crossable(feature, thresholds)

    _for_each_column(rows.X, measure, threads)
    return found


def _window(
    near: ExclusionRule, feature: int, column: Floats, thresholds: Floats
) -> tuple[Floats, Floats, Floats]:
    """The column, and the first and last value from which each threshold can be crossed.

    With a step, all three are indices of multiples.
    """
    if feature in near.step:
        down, up = near.steps_within_budget(feature)
        last = near.coordinates(feature, thresholds)
        return np.rint(column / float(near.step[feature])), last + 1 - up, last + down
    down_by, up_by = (near.budget * scale[feature] for scale in (near.scale, near.scale_up))
    # A value at the threshold is on its left: it crosses upwards.
    first = thresholds - up_by if near.scale_up[feature] > 0 else np.nextafter(thresholds, np.inf)
    return column, first, thresholds + down_by
