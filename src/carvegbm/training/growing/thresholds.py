"""Candidate thresholds: where a tree may split a feature, chosen once before the first round.

Comes in: the training rows. Goes out: `Candidates`, at most `max_bin` thresholds per feature, and
the integer codes that stand for the rows from then on.

    code of x = number of thresholds below x, so that   code <= i   iff   x <= threshold i

A missing value (NaN) has the code after all of these, where training has seen one; elsewhere it is
0 to LightGBM. Categorical features have categories in place of thresholds, see `categories`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.growing.categories import encode_categories, kept_categories

__all__ = [
    "ZERO_ZONE",
    "Candidates",
    "find_candidates",
    "for_each_column",
    "for_each_value",
    "lattice_step",
    "with_missing",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ZERO_ZONE = float(np.float32(1e-35))
"""LightGBM reads every input of at most this magnitude as 0, so no threshold may lie in
[-ZERO_ZONE, ZERO_ZONE): the inputs on its two sides would be told apart here and not there."""

_COLUMNS_AT_ONCE = 16  # a block of columns is read from row-major data in one sweep
_FINEST_LATTICE = 1 << 16  # a grid of more steps than this is as good as continuous
_OFF_LATTICE = 1e-3  # how far a value may lie off its lattice point, in steps (float32 inputs do)


@dataclass(frozen=True)
class Candidates:
    """The thresholds trees may use, per feature, in ascending order.

    Attributes
    ----------
    values : tuple of arrays, one per feature
        A feature without thresholds is categorical, or constant in the training rows.
    lower, upper : array (n_features,)
        Smallest and largest value seen in training.
    missing : set of features
        Those of which some value is missing in the training rows; categorical ones are not listed.
    categories : mapping from feature to array
        Of categorical features: the categories that a tree may tell from all others, ascending.
    """

    values: tuple[Floats, ...]
    lower: Floats
    upper: Floats
    missing: frozenset[int] = frozenset()
    categories: Mapping[int, Ints] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.values)

    @property
    def n_codes(self) -> list[int]:
        """Number of codes per feature, that of missing values included."""
        counts = [len(v) + 1 + (f in self.missing) for f, v in enumerate(self.values)]
        for feature, known in self.categories.items():
            counts[feature] = len(known) + 1
        return counts

    @property
    def code_type(self) -> type[np.uint8] | type[np.uint16] | type[np.uint32]:
        """The smallest unsigned integer type that holds every code."""
        most = max(self.n_codes, default=1)
        return np.uint8 if most <= 1 << 8 else np.uint16 if most <= 1 << 16 else np.uint32

    def missing_code(self, feature: int) -> int | None:
        """The code of a missing value, where it has one of its own."""
        return len(self.values[feature]) + 1 if feature in self.missing else None

    def keeping(self, flags: Sequence[npt.NDArray[np.bool_]]) -> Candidates:
        """Only the thresholds with a flag set, one array of flags per feature.

        A categorical feature has one flag for all its categories.
        """
        categories = {f: known for f, known in self.categories.items() if flags[f].all()}
        kept = tuple(
            values if feature in self.categories else values[flags[feature]]
            for feature, values in enumerate(self.values)
        )
        return replace(self, values=kept, categories=categories)

    def encode(self, X: Any, threads: int = 1) -> npt.NDArray[Any]:
        """Codes of the rows of X, one column after the other in memory."""
        codes = np.empty(X.shape, dtype=self.code_type, order="F")

        def encode(feature: int, column: Floats) -> None:
            if feature in self.categories:
                codes[:, feature] = encode_categories(column, self.categories[feature])
                return
            values = self.values[feature]
            missing = np.isnan(column)
            if not missing.any():
                codes[:, feature] = np.searchsorted(values, column, side="left")
                return
            column[missing] = 0.0
            codes[:, feature] = np.searchsorted(values, column, side="left")
            own = self.missing_code(feature)
            if own is not None:
                codes[missing, feature] = own

        for_each_column(X, encode, threads)
        return codes


def find_candidates(
    X: Any,
    *,
    max_bin: int = 255,
    min_data_in_bin: int = 3,
    sample: int = 200_000,
    seed: int = 1,
    categorical: Collection[int] = (),
    lattices: Mapping[int, Fraction] | None = None,
    threads: int = 1,
) -> Candidates:
    """Choose at most `max_bin` thresholds per feature, each between two distinct values of X.

    With more than `max_bin` + 1 distinct values, thresholds are placed so that the bins between
    them hold about equally many rows, and a value frequent enough to fill a bin gets one of its
    own. A bin of fewer than `min_data_in_bin` rows is merged with its neighbour. With more than
    `sample` rows, that many are drawn to choose the thresholds. Of a categorical feature, at most
    `max_bin` categories of at least `min_data_in_bin` rows are kept, the most frequent ones.

    A threshold lies in the middle of the two values it separates, except on lattice data (pixel
    levels, counts, anything measured in steps): there it lies in the middle of the lattice cell
    nearest to that point. A plain middle would fall on a lattice point for every second pair of
    values, and instances not seen in training sit exactly there, at distance 0 of the threshold.
    The steps of features in `lattices` are known; those of the others are found.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 7.0], [2.0, 7.0], [3.0, 7.0]])
    >>> [v.tolist() for v in find_candidates(X, min_data_in_bin=1).values]
    [[0.5, 2.5], []]
    """
    missing = with_missing(X, threads).difference(categorical)
    if X.shape[0] > sample:
        rows = np.random.default_rng(seed).choice(X.shape[0], size=sample, replace=False)
        X = X[np.sort(rows)]
    n_features = X.shape[1]
    below: list[Floats] = [np.empty(0)] * n_features
    above: list[Floats] = [np.empty(0)] * n_features
    steps: list[float | None] = [None] * n_features
    lowest, highest = np.zeros(n_features), np.zeros(n_features)
    categories: dict[int, Ints] = {}

    def choose(feature: int, values: Floats, counts: Ints) -> None:
        if feature in categorical:
            categories[feature] = kept_categories(values, counts, max_bin, min_data_in_bin)
            return
        if len(values) == 0:  # all of them are missing
            return
        cuts = _cuts(counts, max_bin, min_data_in_bin)
        below[feature], above[feature] = values[cuts], values[cuts + 1]
        steps[feature] = lattice_step(values)
        lowest[feature], highest[feature] = values[0], values[-1]

    for_each_value(X, choose, threads)
    common = _common_step(steps)
    best = [common or step for step in steps]
    for feature, known_step in (lattices or {}).items():
        best[feature] = float(known_step)
    places = (
        _place(lower, upper, step) for lower, upper, step in zip(below, above, best, strict=True)
    )
    known = {feature: categories[feature] for feature in sorted(categories)}
    return Candidates(tuple(places), lowest, highest, missing, known)


def with_missing(X: Any, threads: int) -> frozenset[int]:
    """Return the features with a missing value."""
    values = X.data if hasattr(X, "tocsc") else X
    found: list[int] = []

    def look(feature: int, column: Floats) -> None:
        if np.isnan(column).any():
            found.append(feature)

    if values.size and np.isnan(values.min()):  # the smallest is NaN if any is
        for_each_column(X, look, threads)
    return frozenset(found)


def lattice_step(values: Floats) -> float | None:
    """The largest step q such that all `values` are multiples of q, or None.

    `values` are distinct and ascending. Multiples are recognised up to the rounding of float32.

    Examples
    --------
    >>> import numpy as np
    >>> lattice_step(np.array([0.0, 2.0, 5.0]))
    1.0
    >>> lattice_step(np.array([0.1, 0.25, 0.777, 3.14159])) is None
    True
    """
    if len(values) < 2 or len(values) > _FINEST_LATTICE:
        return None
    magnitudes = np.abs(values)
    largest = float(magnitudes.max())
    step = float(min(np.diff(values).min(), magnitudes[magnitudes > 0].min()))
    # Euclid's algorithm on all values at once, with room for rounding.
    while largest / step <= _FINEST_LATTICE:
        even = largest / max(1, round(largest / step))
        if _remainders(magnitudes, even).max() <= _OFF_LATTICE:
            return even
        remainders = _remainders(magnitudes, step)
        remainders = remainders[remainders > 10 * _OFF_LATTICE]
        if len(remainders) == 0:
            return None
        step *= float(remainders.min())
    return None


def _remainders(values: Floats, step: float) -> Floats:
    """Distance of each value from its nearest multiple of `step`, in steps."""
    return np.abs(values / step - np.rint(values / step))


def _common_step(steps: list[float | None]) -> float | None:
    """The finest step of all features, if every feature's step is a multiple of it.

    A pixel seen at two levels only has a coarse step of its own; the image's step is finer.
    """
    known = [step for step in steps if step is not None]
    if len(known) < len(steps) / 2:
        return None
    finest = min(known)
    return finest if _remainders(np.array(known), finest).max() <= _OFF_LATTICE else None


def _cuts(counts: npt.NDArray[np.int64], most: int, least_rows: int) -> npt.NDArray[np.int64]:
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
    if len(cuts) and np.diff(below, prepend=0, append=counts.sum()).min() < least_rows:
        kept: list[int] = []
        rows = 0
        for cut, total in zip(cuts.tolist(), below.tolist(), strict=True):
            if total - rows >= least_rows and counts.sum() - total >= least_rows:
                kept.append(cut)
                rows = total
        cuts = np.array(kept, dtype=np.int64)
    return cuts


def _equal_cuts(
    counts: npt.NDArray[np.int64], heavy: npt.NDArray[np.bool_], size: float
) -> npt.NDArray[np.int64]:
    """Cuts around every heavy value, and after every `size` rows of light ones between them."""
    light = np.where(heavy, 0, counts)
    before = np.cumsum(light) - light
    run = before - np.maximum.accumulate(np.where(heavy, before, 0))
    piece = np.floor(run / size)
    return np.flatnonzero(heavy[1:] | heavy[:-1] | (piece[1:] != piece[:-1]))


def _place(lower: Floats, upper: Floats, step: float | None) -> Floats:
    """One threshold t per pair, lower <= t < upper, outside the zone that LightGBM reads as 0."""
    places = lower / 2 + upper / 2
    if step is not None:
        cells = np.floor((np.rint(lower / step) + np.rint(upper / step) - 1) / 2) + 0.5
        per_unit = round(1 / step)
        exact = per_unit >= 1 and abs(1 / step - per_unit) <= _OFF_LATTICE
        middles = cells / per_unit if exact else cells * step
        places = np.where((lower <= middles) & (middles < upper), middles, places)
    places = np.where(places < upper, places, lower)
    inside = (places >= -ZERO_ZONE) & (places < ZERO_ZONE)
    # A value next to the zone is at least one float outside it, so one of the two ends separates.
    ends = np.where(upper > ZERO_ZONE, ZERO_ZONE, np.nextafter(-ZERO_ZONE, -np.inf))
    return np.where(inside, ends, places)


def for_each_column(X: Any, task: Callable[[int, Floats], None], threads: int) -> None:
    """Call task(feature, column) for every column of X, each as a float64 array of its own.

    A block of columns of a sparse matrix is made dense at a time.
    """
    is_sparse = hasattr(X, "tocsc")
    by_column = X.tocsc() if is_sparse else X

    def blocks() -> Iterator[range]:
        for first in range(0, X.shape[1], _COLUMNS_AT_ONCE):
            yield range(first, min(first + _COLUMNS_AT_ONCE, X.shape[1]))

    def work(block: range) -> None:
        some = by_column[:, block.start : block.stop]
        dense = some.toarray(order="F") if is_sparse else some
        columns = np.array(dense, dtype=np.float64, order="F")
        for offset, feature in enumerate(block):
            task(feature, columns[:, offset])

    if threads == 1:
        for block in blocks():
            work(block)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, blocks()))


def for_each_value(X: Any, task: Callable[[int, Floats, Ints], None], threads: int) -> None:
    """Call task(feature, values, counts) with the distinct values of every column of X.

    `values` are ascending and without missing values; counts[i] rows have values[i]. Numbers that
    LightGBM reads as 0 are 0.
    """

    def look(feature: int, column: Floats) -> None:
        column[np.abs(column) <= ZERO_ZONE] = 0.0
        values, counts = np.unique(column, return_counts=True)
        numbers = np.searchsorted(values, np.inf, side="right")  # NaN, if there is any, is last
        task(feature, values[:numbers], counts[:numbers])

    for_each_column(X, look, threads)
