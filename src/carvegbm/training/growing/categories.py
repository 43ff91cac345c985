"""Categories in place of thresholds: how the values of a categorical feature become codes.

Comes in: a column of numbers, in which a category is a whole number >= 0, as in LightGBM: numbers
are cut off at the point, and what is negative or missing is no category. Goes out: the categories
that trees may tell from all others, and the codes that stand for the rows.

    code of x = 1 + position of x's category among those kept, 0 where it is none of them

So code 0 are all that a tree cannot name: a missing value, a rare category, one never seen. It goes
right in every split.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["LARGEST_CATEGORY", "categories_in", "encode_categories", "kept_categories"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LARGEST_CATEGORY = (1 << 24) - 1
"""A set of categories is written as a row of bits, as long as its largest member."""


def categories_in(column: Floats) -> Ints:
    """The categories that a column holds, ascending.

    Examples
    --------
    >>> categories_in(np.array([3.7, 0.0, -0.5, -2.0, np.nan, 3.0])).tolist()
    [0, 3]
    """
    whole = _whole(column)
    return np.unique(whole[whole >= 0])


def kept_categories(values: Floats, rows: Ints, most: int, least_rows: int) -> Ints:
    """At most `most` categories of at least `least_rows` rows, the most frequent ones; ascending.

    `rows` says how many rows have each of the values. The two most frequent categories are kept
    whatever their rows, as LightGBM keeps them.
    """
    whole = _whole(values)
    is_one = whole >= 0
    found, places = np.unique(whole[is_one], return_inverse=True)
    counts = np.bincount(places, rows[is_one], len(found))
    order = np.argsort(-counts, kind="stable")
    frequent = counts[order] >= least_rows
    frequent[:2] = True
    return np.sort(found[order[frequent][:most]])


def encode_categories(column: Floats, known: Ints) -> Ints:
    """The code of every value: 1 + its position among the `known` categories, or 0."""
    whole = _whole(column)
    if len(known) == 0:
        return np.zeros(len(whole), dtype=np.int64)
    place = np.minimum(np.searchsorted(known, whole), len(known) - 1)
    return np.where(known[place] == whole, place + 1, 0)


def _whole(column: Floats) -> Ints:
    """The category of every value, -1 where it has none."""
    with np.errstate(invalid="ignore"):
        is_one = (column > -1) & (column < 1 << 31)  # NaN is neither
        return np.where(is_one, np.trunc(column), -1.0).astype(np.int64)
