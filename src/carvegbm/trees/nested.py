"""Trees as nested dicts and as flat arrays: the one layout of nodes, and ways through it.

Comes in: nested dicts, or the arrays of an ensemble. Goes out: the other of the two, and in what
order and in which tree the nodes of an ensemble are.

A split is by a threshold or by a set of categories. In the arrays, both have the same field: it
holds the threshold, or the number of the set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.trees.sets import Categories, check_kinds, flat_sets
from carvegbm.trees.wellformed import double, whole

__all__ = ["NODE", "Arrays", "depth_first", "fields_of_trees", "from_arrays", "owners", "to_arrays"]

NODE = np.dtype(
    [
        # x goes left iff x[feature] <= threshold; on a categorical feature: iff its code is in
        # the set of this number
        ("threshold", "<f8"),
        ("feature", "<i4"),  # -1 at a leaf
        ("left", "<i4"),  # index of the left child; at a leaf: the leaf's row in `scores`
        ("right", "<i4"),  # index of the right child; at a leaf: -1
        ("missing", "<i4"),  # where NaN goes: 1 left, 0 right, -1 there is no rule
    ]
)
"""One node of a tree; children are positions in the ensemble's one node array."""


_LEAVE = -1  # in place of a position: the walk leaves this split


class Arrays(NamedTuple):
    """Trees as flat arrays."""

    nodes: npt.NDArray[np.void]
    roots: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    sets: list[list[int]]  # codes that go left, by the number that a node holds
    by_set: frozenset[int]  # the features with a split by categories
    by_threshold: frozenset[int]  # those with a split by a threshold


def to_arrays(trees: Sequence[Mapping[str, Any]]) -> Arrays:
    """The arrays of trees given as `Ensemble.from_trees` describes them."""
    rows: list[tuple[float, int, int, int, int]] = []
    scores: list[list[float]] = []
    roots: list[int] = []
    sets: list[list[int]] = []
    by_set: set[int] = set()
    by_threshold: set[int] = set()
    for index, tree in enumerate(trees):
        roots.append(len(rows))
        rows.append((0.0, -1, -1, -1, -1))
        pending: list[tuple[int, Any]] = [(roots[-1], tree)]
        above: set[int] = set()  # the splits on the path to the node, by identity
        while pending:
            position, node = pending.pop()
            if position == _LEAVE:
                above.remove(node)
                continue
            if not isinstance(node, Mapping):
                raise ModelError(f"tree {index}: a node must be a dict, got {node!r}")
            if "score" in node:
                score = _score_list(node["score"], index)
                if scores and len(score) != len(scores[0]):
                    raise ModelError(
                        f"tree {index}: a leaf has {len(score)} scores, others have "
                        f"{len(scores[0])}; give every leaf one score per class"
                    )
                rows[position] = (0.0, -1, len(scores), -1, -1)
                scores.append(score)
                continue
            if id(node) in above:
                raise ModelError(f"tree {index}: a split is a descendant of itself")
            above.add(id(node))
            pending.append((_LEAVE, id(node)))
            children = (len(rows), len(rows) + 1)
            rows.extend([(0.0, -1, -1, -1, -1)] * 2)
            try:
                feature = _feature(node["feature"])
                if "categories" in node:
                    by_set.add(feature)
                    cut = float(len(sets))
                    sets.append(_codes(node))
                else:
                    by_threshold.add(feature)
                    cut = double(node["threshold"], "a threshold")
                rule = {"left": 1, "right": 0, None: -1}[node.get("missing")]
                rows[position] = (cut, feature, *children, rule)
                pending += [(children[1], node["right"]), (children[0], node["left"])]
            except (KeyError, TypeError, ValueError, OverflowError) as error:
                raise ModelError(
                    f"tree {index}: a split needs 'feature', 'threshold' or 'categories', 'left' "
                    f"and 'right' (and 'missing' must be 'left' or 'right'): {error}"
                ) from None
    return Arrays(
        np.array(rows, dtype=NODE),
        np.array(roots, dtype=np.int32),
        np.array(scores, dtype=np.float64),
        sets,
        frozenset(by_set),
        frozenset(by_threshold),
    )


def fields_of_trees(
    trees: Sequence[Mapping[str, Any]], categories: Categories | None
) -> dict[str, Any]:
    """What an `Ensemble` takes; without `categories`, these are the codes that splits list."""
    arrays = to_arrays(trees)
    if categories is None:
        categories = _listed_codes(arrays)
    check_kinds(arrays.by_threshold, arrays.by_set, categories)
    sets = flat_sets(arrays.sets)
    return {
        "nodes": arrays.nodes,
        "roots": arrays.roots,
        "scores": arrays.scores,
        "categories": categories,
        "set_starts": sets.starts,
        "set_codes": sets.codes,
    }


def _listed_codes(arrays: Arrays) -> dict[int, dict[int, int]]:
    found: dict[int, set[int]] = {feature: set() for feature in arrays.by_set}
    for threshold, feature, *_ in arrays.nodes.tolist():
        if feature in found:
            found[feature].update(arrays.sets[int(threshold)])
    return {feature: {code: code for code in sorted(codes)} for feature, codes in found.items()}


def from_arrays(
    nodes: npt.NDArray[np.void],
    roots: npt.NDArray[np.int32],
    scores: npt.NDArray[np.float64],
    sets: Sequence[Sequence[int]] = (),
    by_set: Collection[int] = (),
) -> list[dict[str, Any]]:
    """The inverse of `to_arrays`; the features in `by_set` are split by sets."""
    built: list[dict[str, Any]] = []
    for threshold, feature, left, _, missing in nodes.tolist():
        if feature < 0:
            score = scores[left].tolist()
            built.append({"score": score[0] if len(score) == 1 else score})
            continue
        if feature in by_set:
            built.append({"feature": feature, "categories": list(sets[int(threshold)])})
        else:
            built.append({"feature": feature, "threshold": threshold})
        if missing >= 0:
            built[-1]["missing"] = "left" if missing else "right"
    for tree, (_, feature, left, right, _) in zip(built, nodes.tolist(), strict=True):
        if feature >= 0:
            tree["left"], tree["right"] = built[left], built[right]
    return [built[root] for root in roots.tolist()]


def depth_first(nodes: npt.NDArray[np.void], roots: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The positions of all nodes, tree by tree, a split before its left side before its right."""
    left, right = nodes["left"].tolist(), nodes["right"].tolist()
    split = (nodes["feature"] >= 0).tolist()
    order: list[int] = []
    for root in roots.tolist():
        stack = [root]
        while stack:
            position = stack.pop()
            order.append(position)
            if split[position]:
                stack += [right[position], left[position]]
    return np.array(order, dtype=np.int64)


def owners(nodes: npt.NDArray[np.void], roots: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """The tree of every node; -1 where no root leads to it."""
    splits = np.flatnonzero(nodes["feature"] >= 0)
    ancestor = np.arange(len(nodes))
    for side in ("left", "right"):
        ancestor[nodes[side][splits]] = splits
    for _ in range(len(nodes).bit_length()):  # 1, 2, 4, … steps towards the root
        ancestor = ancestor[ancestor]
    owner = np.full(len(nodes), -1, dtype=np.int32)
    owner[roots] = np.arange(len(roots))
    return owner[ancestor]


def _feature(feature: Any) -> int:
    position = int(feature)
    if position != feature or not 0 <= position < 2**31:
        raise ValueError(f"feature {feature!r} is not a position >= 0")
    return position


def _codes(node: Mapping[str, Any]) -> list[int]:
    """The categories of a split, each once and ascending."""
    if "threshold" in node:
        raise ValueError("it has both a threshold and categories")
    if isinstance(node["categories"], str | bytes):
        raise TypeError(f"categories must be a list of codes, got {node['categories']!r}")
    codes = {whole(code, "a category's code") for code in node["categories"]}
    if codes and not (min(codes) >= 0 and max(codes) < 2**31):
        raise ValueError(f"a category's code is >= 0 and < 2^31, got {min(codes)}…{max(codes)}")
    return sorted(codes)


def _score_list(score: Any, tree: int) -> list[float]:
    try:
        scores = score if isinstance(score, list | tuple) else np.atleast_1d(score).tolist()
        return [double(s, "a score") for s in scores]
    except ModelError as error:
        raise ModelError(f"tree {tree}: {error}") from None
    except (TypeError, ValueError):
        raise ModelError(f"tree {tree}: a score must be a number or a list of numbers") from None
