"""Splits by sets of categories, as LightGBM's text writes them.

Comes in: the lines of a tree grown on codes. Goes out: the categories that go left, per split, and
the lines that say so. LightGBM writes a set as bits: category c is in it iff bit c % 32 of its word
c // 32 is set; set i of a tree is words[boundaries[i] : boundaries[i + 1]].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

__all__ = ["CategorySet", "read_sets", "written_sets"]

Ints = npt.NDArray[np.int64]

_WORD = 32


class CategorySet(NamedTuple):
    """The categories that go left at a split."""

    categories: Ints
    """As numbers in the data, ascending."""
    codes: Ints
    """The same as codes, see `categories`."""


def read_sets(
    fields: Mapping[str, str],
    feature: Ints,
    is_set: npt.NDArray[np.bool_],
    numbers: Sequence[int],
    known: Mapping[int, Ints],
) -> dict[int, CategorySet]:
    """The sets of a tree on codes, by split; split i has set numbers[i] where `is_set` says so."""
    if not is_set.any():
        return {}
    bounds = [int(number) for number in fields["cat_boundaries"].split()]
    words = [int(number) for number in fields["cat_threshold"].split()]
    found = {}
    for split in np.flatnonzero(is_set).tolist():
        first, end = bounds[numbers[split]], bounds[numbers[split] + 1]
        codes = np.array(_members(words[first:end]), dtype=np.int64)
        found[split] = CategorySet(known[int(feature[split])][codes - 1], codes)
    return found


def written_sets(sets: Mapping[int, CategorySet]) -> dict[str, str]:
    """The lines of the same sets with categories for codes; set i is that of the i-th split."""
    if not sets:
        return {}
    rows = [_words(sets[split].categories) for split in sorted(sets)]
    bounds = np.cumsum([0, *map(len, rows)]).tolist()
    return {
        "cat_boundaries": " ".join(map(str, bounds)),
        "cat_threshold": " ".join(str(word) for row in rows for word in row),
    }


def _members(words: Sequence[int]) -> list[int]:
    return [
        place * _WORD + bit
        for place, word in enumerate(words)
        for bit in range(_WORD)
        if word >> bit & 1
    ]


def _words(members: Ints) -> list[int]:
    """The shortest row of words with these bits set.

    Examples
    --------
    >>> _words(np.array([0, 33])), _members([1, 2])
    ([1, 2], [0, 33])
    """
    words = np.zeros(int(members[-1]) // _WORD + 1, dtype=np.uint32)
    np.bitwise_or.at(words, members // _WORD, np.uint32(1) << (members % _WORD).astype(np.uint32))
    return [int(word) for word in words]
