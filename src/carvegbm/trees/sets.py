"""Splits by sets of categories: what an ensemble keeps of them.

Comes in: what `Ensemble` is given: features with the codes and the labels of their categories, and
sets of codes. Goes out: both as it keeps them, or a `ModelError` that names the feature.

A split on a categorical feature holds the number of its set in place of a threshold. Sets are kept
once each, in the order of their codes, and only those that a split asks for: so equal ensembles
hold equal arrays, however they came to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError, shown
from carvegbm.trees.wellformed import whole

__all__ = [
    "MOST_CODES",
    "Categories",
    "CategoryRule",
    "Label",
    "Sets",
    "UnknownCategory",
    "check_kinds",
    "flat_sets",
    "kept_categories",
    "kept_sets",
    "plain",
    "spelled",
]

Label = str | bool | int | float
Categories = Mapping[int, Mapping[int, Label]]
"""Categorical features: the label of every code, codes ascending."""
CategoryRule = Literal["truncate", "nonnegative", "label", "text"]
UnknownCategory = Literal["right", "missing"]

MOST_CODES: dict[str, int] = {"truncate": 1 << 31, "nonnegative": 1 << 24}
MOST_CODES |= {"label": 1 << 24, "text": 1 << 24}
"""Codes are below this, by the rule that makes codes of numbers."""
_MOST_DIGITS = 20  # of a text that spells a 64-bit number
_MOST_CATEGORIES = 1 << 24  # of a feature: as many whole numbers has float32


class Sets(NamedTuple):
    """Set i is codes[starts[i] : starts[i + 1]], ascending."""

    starts: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]

    def lists(self) -> list[list[int]]:
        """The codes of every set."""
        starts, codes = self.starts.tolist(), self.codes.tolist()
        return [codes[a:b] for a, b in pairwise(starts)]


def flat_sets(sets: Iterable[Sequence[int] | npt.NDArray[np.int64]]) -> Sets:
    """Sets of codes as two arrays.

    Examples
    --------
    >>> flat_sets([[0, 3], [2]]).starts.tolist()
    [0, 2, 3]
    """
    lists = [np.asarray(codes, dtype=np.int64) for codes in sets]
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return Sets(starts, np.concatenate([np.empty(0, dtype=np.int64), *lists]))


def kept_categories(
    given: Any, n_features: int, rule: Any, precision: Any = "float64"
) -> Categories:
    """Features and codes ascending, labels as plain Python values; nobody can change them.

    `precision` is that in which the ensemble reads numbers: it must tell all of them apart.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise ModelError(
            f"categories must map features to their codes and labels, got {shown(given)}"
        )
    kept: dict[int, Mapping[int, Label]] = {}
    shared: dict[int, Mapping[int, Label]] = {}  # features may share one mapping, however large
    for feature, labels in given.items():
        position = whole(feature, "a categorical feature")
        if not 0 <= position < n_features:
            raise ModelError(
                f"categories has feature {position}, the ensemble has {n_features} features"
            )
        most = 1 << 24 if precision == "float32" else MOST_CODES.get(rule, 1 << 24)
        if id(labels) not in shared:
            shared[id(labels)] = _kept_labels(labels, position, most)
        kept[position] = shared[id(labels)]
        if precision == "float32" and rule not in ("truncate", "nonnegative"):
            _check_float32(kept[position], position)
    return MappingProxyType(dict(sorted(kept.items())))


def _kept_labels(given: Any, feature: int, most: int) -> Mapping[int, Label]:
    if not isinstance(given, Mapping):
        raise ModelError(
            f"the categories of feature {feature} must map codes to labels, got {shown(given)}"
        )
    if len(given) > _MOST_CATEGORIES:
        raise ModelError(f"feature {feature} has {len(given)} categories, more than 2^24")
    kept: dict[int, Label] = {}
    for code, label in given.items():
        number = whole(code, f"a category's code of feature {feature}")
        if not 0 <= number < most:
            raise ModelError(
                f"feature {feature} has the code {number}; codes are from 0 to {most - 1}"
            )
        kept[number] = name = plain(label)
        if (
            not isinstance(name, Label)
            or (isinstance(name, float) and not math.isfinite(name))
            or (isinstance(name, int) and not -(2**63) <= name < 2**64)
        ):
            raise ModelError(
                f"feature {feature} has the category {shown(label)}; name categories by texts, "
                "finite numbers or booleans"
            )
    if len(set(kept.values())) < len(kept):
        raise ModelError(
            f"two categories of feature {feature} have one label: {shown(list(kept.values()))}; "
            "give every code a label of its own"
        )
    return MappingProxyType(dict(sorted(kept.items())))


def _check_float32(labels: Mapping[int, Label], feature: int) -> None:
    """Refuse labels that no number is equal to once it is read, as `in_codes` reads them."""
    numbers = [label for label in labels.values() if not isinstance(label, str)]
    if numbers and all(isinstance(label, float) for label in numbers):
        with np.errstate(over="ignore"):
            lost = [label for label in numbers if float(np.float32(label)) != label]
        if lost:
            raise ModelError(
                f"feature {feature} has the category {lost[0]}, which is no float32 number; a "
                "float32 ensemble needs float32 labels"
            )


def plain(label: Any) -> Any:
    """A numpy scalar as the Python value it is; everything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def spelled(label: Any) -> Any:
    """A text that spells a whole number as that number, everything else as it is.

    Examples
    --------
    >>> spelled("-3"), spelled("03"), spelled("red")
    (-3, '03', 'red')
    """
    label = plain(label)
    if isinstance(label, str) and len(label) <= _MOST_DIGITS:
        digits = label.removeprefix("-")
        if digits.isdecimal() and digits.isascii() and str(int(label)) == label:
            return int(label)
    return label


def kept_sets(
    nodes: npt.NDArray[np.void], categories: Categories, starts: Any, codes: Any
) -> tuple[npt.NDArray[np.void], Sets]:
    """The nodes, whose splits on categorical features are renumbered, and the sets as kept."""
    given = _given_sets(starts, codes)
    if not categories:
        return nodes, flat_sets([])
    nodes = nodes.copy()
    categorical = np.isin(nodes["feature"], np.array(list(categories), dtype=np.int64))
    number = nodes["threshold"][categorical]
    wrong = ~((number >= 0) & (number < len(given)) & (number == np.trunc(number)))
    if wrong.any():
        first = int(np.argmax(wrong))
        feature = int(nodes["feature"][categorical][first])
        raise ModelError(
            f"feature {feature} is categorical, and a split on it has {number[first]} in place of "
            f"the number of one of {len(given)} sets; a feature is categorical in all its splits "
            "or in none"
        )
    number = number.astype(np.int64)
    for feature, index in set(
        zip(nodes["feature"][categorical].tolist(), number.tolist(), strict=True)
    ):
        known = categories[feature]
        unknown = [code for code in given[index] if code not in known]  # not all known per split
        if unknown:
            raise ModelError(
                f"a split on feature {feature} lists the code {min(unknown)}, which its categories "
                "lack; add it to them"
            )
    order = sorted({given[index] for index in set(number.tolist())})
    place = {listed: position for position, listed in enumerate(order)}
    renumbered = np.array([place.get(listed, -1) for listed in given], dtype=np.float64)
    nodes["threshold"][categorical] = renumbered[number] if len(given) else 0.0
    return nodes, flat_sets(order)


def _given_sets(starts: Any, codes: Any) -> list[tuple[int, ...]]:
    first = np.zeros(1, dtype=np.int64) if starts is None else np.asarray(starts)
    listed = np.zeros(0, dtype=np.int64) if codes is None else np.asarray(codes)
    if listed.size == 0:
        listed = np.zeros(0, dtype=np.int64)
    if (
        first.ndim != 1
        or listed.ndim != 1
        or first.dtype.kind not in "iu"
        or listed.dtype.kind not in "iu"
        or len(first) == 0
        or first[0] != 0
        or first[-1] != len(listed)
        or (np.diff(first.astype(np.int64)) < 0).any()
    ):
        raise ModelError(
            "set_starts must be whole numbers that ascend from 0 to the number of set_codes, "
            f"{listed.size}; got {shown(first.tolist())}"
        )
    return [tuple(sorted(set(codes))) for codes in Sets(first, listed).lists()]


def check_kinds(by_threshold: Iterable[int], by_set: Iterable[int], categories: Categories) -> None:
    """Refuse a feature that is split by a threshold here and by a set of categories there."""
    for feature in sorted(set(by_threshold) & set(categories)):
        raise ModelError(
            f"feature {feature} is categorical, and a split compares it with a threshold; a "
            "feature is categorical in all its splits or in none"
        )
    for feature in sorted(set(by_set) - set(categories)):
        raise ModelError(
            f"a split on feature {feature} lists categories, and the feature is not in categories; "
            "add it to them"
        )
