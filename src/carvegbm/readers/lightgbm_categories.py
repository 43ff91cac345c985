"""Categories in LightGBM models.

Comes in: the parts of a model that speak of categories. Goes out: sets of codes, and the codes and
labels of every categorical feature.

- A split holds a row of bits, 32 to a word: code c goes left iff bit c is set. NaN, codes below 0
  and codes beyond the bits go right. A number is truncated first: 3.7 is 3, -0.5 is 0.
- feature_infos lists the codes that training kept, for numbers it has a range instead.
- pandas_categorical holds the labels of every column of the dtype category, in the order of the
  columns; a label's position is its code. It does not say which columns these are: ordered ones may
  be numbers to the model. So labels are believed only where there are as many lists of them as
  categorical features, and as many labels as codes need.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.readers.trees import Tree
from carvegbm.trees.sets import Categories

__all__ = ["codes_of_bits", "codes_of_infos", "labelled", "text_labels"]

Ints = npt.NDArray[np.int64]
_MOST = 1 << 31


def codes_of_bits(
    tree: int, numbers: npt.NDArray[np.float64], boundaries: Ints, words: Ints
) -> list[Ints]:
    """The codes of the splits whose thresholds are `numbers`: those of their rows of bits."""
    n_sets = max(0, len(boundaries) - 1)
    damaged = f"tree {tree}: {{}}; the file is damaged"
    wrong = (numbers < 0) | (numbers >= n_sets) | (numbers != np.trunc(numbers))
    if wrong.any():
        first = numbers[wrong][0]
        raise ModelError(
            damaged.format(f"a categorical split asks for set {first:g} of {n_sets} sets")
        )
    if len(np.unique(numbers)) < len(numbers):
        raise ModelError(damaged.format("two categorical splits use the same set"))
    if (np.diff(boundaries) < 0).any() or boundaries[0] < 0 or boundaries[-1] > len(words):
        raise ModelError(damaged.format("cat_boundaries must ascend to the end of cat_threshold"))
    if ((words < 0) | (words >= 1 << 32)).any():
        raise ModelError(damaged.format("cat_threshold must be words of 32 bits"))
    found = []
    for number in numbers.astype(np.int64).tolist():
        row = words[boundaries[number] : boundaries[number + 1]].astype("<u4")
        found.append(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")))
    return found


def codes_of_infos(infos: Sequence[str], names: Sequence[str]) -> dict[int, Ints]:
    """Codes of every categorical feature: its entry in feature_infos is "3:0:17".

    The entry of a numerical feature is "[0.5:2]" or "none".
    """
    texts = infos[: len(names)]
    lists = [text.split(":") if re.match(r"-?\d", text) else None for text in texts]
    found = {}
    for feature, codes in enumerate(lists):
        if codes:
            try:
                found[feature] = _codes([int(code) for code in codes])
            except (TypeError, ValueError):
                raise ModelError(
                    f"feature_infos: the categories of {names[feature]!r} must be numbers; "
                    "the file is damaged"
                ) from None
    return found


def text_labels(tail: str) -> tuple[list[list[Any]], list[int] | None]:
    """What follows the trees of a text: lists of labels, and the features declared categorical."""
    match = re.search(r"^pandas_categorical:(.*)$", tail, re.M)
    labels = match[1] if match else "null"
    try:
        lists = json.loads(labels)
    except ValueError:
        lists = None
    declared = re.search(r"^\[categorical_feature: ([\d,]*)\]$", tail, re.M)
    features = None if declared is None else [int(part) for part in declared[1].split(",") if part]
    return _lists(lists), None if features is None else sorted(set(features))


def labelled(
    trees: Iterable[Tree],
    codes: Mapping[int, Ints],
    lists: Any,
    declared: Sequence[int] | None,
) -> Categories:
    """Codes and labels of every categorical feature.

    A feature is categorical if a split says so; if none does, and none is by a threshold, then by
    feature_infos, as `codes`.
    """
    listed: dict[int, set[int]] = {}
    numeric: set[int] = set()
    for tree in trees:
        by_threshold = tree.feature >= 0
        for node, those in tree.sets.items():
            by_threshold[node] = False
            listed.setdefault(int(tree.feature[node]), set()).update(those.tolist())
        numeric.update(np.unique(tree.feature[by_threshold]).tolist())
    found = {
        feature: listed.get(feature, set()) | set(codes.get(feature, np.array([])).tolist())
        for feature in codes.keys() | listed.keys()
        if feature in listed or feature not in numeric
    }
    names = _labels_by_feature(found, _lists(lists), declared)
    return {
        feature: dict(enumerate(names[feature]))
        if feature in names
        else {code: code for code in sorted(known)}
        for feature, known in found.items()
    }


def _labels_by_feature(
    codes: Mapping[int, set[int]], lists: list[list[Any]], declared: Sequence[int] | None
) -> dict[int, list[Any]]:
    for features in (declared, sorted(codes)):
        if features is not None and len(features) == len(lists):
            pairs = dict(zip(features, lists, strict=True))
            if all(max(codes.get(f, ()), default=-1) < len(names) for f, names in pairs.items()):
                return pairs
    return {}


def _lists(value: Any) -> list[list[Any]]:
    """Lists of different labels; none at all where something else is among them."""
    if not isinstance(value, list) or not all(isinstance(labels, list) for labels in value):
        return []
    for labels in value:
        if not all(isinstance(label, str | bool | int | float) for label in labels):
            return []
        if len(set(labels)) < len(labels) or {math.inf, -math.inf} & set(labels):
            return []
        if not all(label == label for label in labels):
            return []
    return value


def _codes(codes: list[int]) -> Ints:
    """Codes from 0 on, ascending; -1 stands for all that has none."""
    return np.array(sorted({code for code in codes if 0 <= code < _MOST}), dtype=np.int64)
