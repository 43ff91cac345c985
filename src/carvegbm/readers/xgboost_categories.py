"""Categories in XGBoost models.

Comes in: the parts of a document that speak of categories. Goes out: sets of codes, and the codes
and labels of every categorical feature.

- A split holds a list of codes, and these go right. NaN takes the default side; a number below 0
  (also -0.5) or from 2^24 on is no code and goes left, as does every code that is not listed; any
  other number is truncated.
- Since version 3.1, the labels of a frame's categories are kept beside the trees; a label's
  position is its code. Without them, the codes that a model knows are those that its splits list,
  and the first that none lists: it stands for all others, which go left everywhere. Texts beyond
  ASCII are not believed: versions up to 3.2 at least count their characters for bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.readers.checks import whole_numbers
from carvegbm.readers.trees import Tree
from carvegbm.trees.sets import Label

__all__ = ["known_categories", "listed_codes"]

Ints = npt.NDArray[np.int64]


def listed_codes(
    index: int, tree: Mapping[str, Any], is_split: npt.NDArray[np.bool_]
) -> dict[int, Ints]:
    """By node: the codes that go right, for every categorical split of a tree."""
    kinds = tree.get("split_type")
    if kinds is None or (isinstance(kinds, list | np.ndarray) and len(kinds) == 0):
        return {}
    categorical = (_whole(index, tree, "split_type", len(is_split)) != 0) & is_split
    if not categorical.any():
        return {}
    nodes = _whole(index, tree, "categories_nodes", None)
    starts = _whole(index, tree, "categories_segments", len(nodes))
    sizes = _whole(index, tree, "categories_sizes", len(nodes))
    codes = _whole(index, tree, "categories", None)
    if (starts < 0).any() or (sizes < 0).any() or (starts + sizes > len(codes)).any():
        raise ModelError(f"tree {index}: categories end too early; the file is damaged")
    if sizes.sum() > len(codes):
        raise ModelError(f"tree {index}: two splits share categories; the file is damaged")
    if len(codes) and not 0 <= codes.min() <= codes.max() < 1 << 24:
        raise ModelError(f"tree {index}: categories must be codes below 2^24; the file is damaged")
    found = {
        node: np.unique(codes[start : start + size])
        for node, start, size in zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    }
    for node in np.flatnonzero(categorical).tolist():
        if node not in found:
            raise ModelError(f"tree {index}: node {node} lists no categories; the file is damaged")
    if (np.diff(nodes) <= 0).any():
        raise ModelError(f"tree {index}: categories_nodes must ascend; the file is damaged")
    return {node: found[node] for node in np.flatnonzero(categorical).tolist()}


def known_categories(
    trees: Iterable[Tree], types: Any, encoder: Any, n_features: int
) -> dict[int, dict[int, Label]]:
    """Codes and labels of every categorical feature.

    `types` are the document's feature_types, where "c" is a category; `encoder` holds the labels.
    """
    kinds = types if isinstance(types, list) else []
    listed: dict[int, set[int]] = {
        feature: set() for feature, kind in enumerate(kinds[:n_features]) if kind == "c"
    }
    for tree in trees:
        by_threshold = tree.feature >= 0
        for node, codes in tree.sets.items():
            by_threshold[node] = False
            listed.setdefault(int(tree.feature[node]), set()).update(codes.tolist())
        for feature in np.unique(tree.feature[by_threshold]).tolist():
            if not listed.get(feature, True):  # a number to its splits, whatever the types say
                del listed[feature]
    labels = _encoded(encoder, n_features) if listed else {}
    return {
        feature: dict(enumerate(labels[feature]))
        if len(labels.get(feature, ())) > max(codes, default=0)
        else {code: code for code in sorted(codes | ({_first_without(codes)} if codes else set()))}
        for feature, codes in listed.items()
    }


def _first_without(codes: set[int]) -> int:
    """The smallest code that is not listed."""
    return next(code for code in range(len(codes) + 1) if code not in codes)


def _encoded(encoder: Any, n_features: int) -> dict[int, list[Any]]:
    """The labels by feature; none of features that are numbers, or of other versions."""
    entries = encoder.get("enc") if isinstance(encoder, Mapping) else None
    if not isinstance(entries, list) or len(entries) != n_features:
        return {}
    return {feature: _labels(entry) for feature, entry in enumerate(entries)}


def _labels(entry: Any) -> list[Any]:
    """The labels of a feature: texts as bytes one after the other, or numbers."""
    if not isinstance(entry, Mapping):
        return []
    values = np.asarray(entry.get("values", ()))
    if "offsets" not in entry:
        found = values.tolist()
    else:
        ends = whole_numbers(entry["offsets"], None, "offsets of labels").tolist()
        text = whole_numbers(values, None, "bytes of labels")
        if (text < 0).any() or (text > 127).any():
            return list(range(len(ends) - 1))
        if (np.diff([0, *ends, len(text)]) < 0).any():
            raise ModelError("offsets of labels must ascend to their end; the file is damaged")
        found = [bytes(text[a:b].tolist()).decode() for a, b in pairwise(ends)]
    return found if len(set(found)) == len(found) else list(range(len(found)))


def _whole(index: int, tree: Mapping[str, Any], key: str, size: int | None) -> Ints:
    values: Sequence[int] | npt.NDArray[Any] | None = tree.get(key)
    return whole_numbers([] if values is None else values, size, f"tree {index}: {key}")
