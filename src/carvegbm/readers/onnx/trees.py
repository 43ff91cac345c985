"""The trees of an ONNX ensemble: six comparisons and membership of a set, as splits by `<=`.

Comes in: the attributes of the operator, in either of its two layouts. Goes out: one `Tree` per
tree, with a row of scores per leaf, or a `ModelError` that names the tree.

With x on the grid of the model's inputs (float32 or float64) and t any double,

    x <= t  iff  x <= the largest number of the grid that is <= t
    x <  t  iff  x <= the largest number of the grid that is <  t
    x >  t, x >= t   are the same with the children exchanged
    x == t, x != t   ask whether x is in a piece of the line between two numbers of the grid

NaN goes to the true child where missing_value_tracks_true says so, and where x != t is asked.
Membership of a set is equality with one of its numbers, of which onnxruntime takes whole ones only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Precision
from carvegbm.errors import ModelError
from carvegbm.readers.checks import numbers, whole_numbers
from carvegbm.readers.trees import Pieces, Tree, below, check_size
from carvegbm.trees.sets import Categories

__all__ = ["Forest", "read_nodes", "read_tables", "translate"]

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)
_MODES = [f"BRANCH_{name}" for name in ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")] + ["LEAF"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass
class Comparisons:
    """A tree as ONNX stores it, as arrays over its nodes; node 0 is the root."""

    mode: Ints
    feature: Ints  # -1 at a leaf
    value: Floats
    true: Ints
    false: Ints
    tracks: Bools  # NaN goes to the true child
    members: Mapping[int, Floats] = field(default_factory=dict)  # of nodes that ask for a set
    score: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    voted: Bools = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))


@dataclass
class Forest:
    """All trees, and their votes: weights of leaves for outputs."""

    trees: list[Comparisons]
    vote_trees: Ints
    vote_nodes: Ints  # positions in their trees
    vote_outputs: Ints
    vote_weights: Floats
    n_outputs: int = 0

    def widen(self, n_outputs: int) -> None:
        """Give every leaf a row of `n_outputs` scores, made of its votes."""
        check_size(sum(len(tree.mode) for tree in self.trees), n_outputs)
        outside = self.vote_outputs[(self.vote_outputs < 0) | (self.vote_outputs >= n_outputs)]
        if len(outside):
            raise ModelError(
                f"a leaf counts for output {outside[0]}, the model has {n_outputs} outputs; "
                "the file is damaged"
            )
        self.n_outputs = n_outputs
        for tree in self.trees:
            tree.score = np.zeros((len(tree.mode), n_outputs))
            tree.voted = np.zeros((len(tree.mode), n_outputs), dtype=bool)
        votes = (self.vote_trees, self.vote_nodes, self.vote_outputs, self.vote_weights)
        for index, node, output, weight in zip(*(v.tolist() for v in votes), strict=True):
            tree = self.trees[index]
            if tree.mode[node] != LEAF:
                raise ModelError(f"tree {index} has a weight at a node that splits; it is damaged")
            if tree.voted[node, output]:
                raise ModelError(
                    f"tree {index} has a leaf with two weights for output {output}, of which "
                    "onnxruntime may take the first alone; add them up"
                )
            tree.score[node, output], tree.voted[node, output] = weight, True

    def check_one_vote(self) -> None:
        """Refuse a leaf without a weight, in a model with one output."""
        for index, tree in enumerate(self.trees):
            if not tree.voted[tree.mode == LEAF].all():
                raise ModelError(f"tree {index} has a leaf without a weight; the file is damaged")


def read_nodes(attributes: Mapping[str, Any], prefix: str) -> Forest:
    """TreeEnsembleClassifier (prefix "class") and TreeEnsembleRegressor (prefix "target")."""
    tree_ids = _ints(attributes, "nodes_treeids", None)
    size = len(tree_ids)
    node_ids = _ints(attributes, "nodes_nodeids", size)
    modes = attributes.get("nodes_modes") or []
    unknown = [mode for mode in modes if mode not in _MODES or mode == "BRANCH_MEMBER"]
    if len(modes) != size or unknown:
        what = f"has {unknown[0][:40]!r}" if unknown else f"must be {size} values, got {len(modes)}"
        raise ModelError(f"nodes_modes {what}; the file is damaged")
    mode = np.array([_MODES.index(name) for name in modes], dtype=np.int64)
    feature = _ints(attributes, "nodes_featureids", size)
    value = _floats(attributes, "nodes_values", size)
    children = [_ints(attributes, f"nodes_{side}nodeids", size) for side in ("true", "false")]
    tracks = _tracks(attributes, size)

    starts = np.flatnonzero(np.diff(tree_ids, prepend=tree_ids[:1] - 1)) if size else np.zeros(0)
    order = tree_ids[starts.astype(np.int64)].tolist()
    if len(set(order)) < len(order):
        raise ModelError("the nodes of a tree do not stand together; list the trees one by one")
    trees, places = [], []
    for index, (start, end) in enumerate(zip(starts, [*starts[1:], size], strict=True)):
        own = slice(int(start), int(end))
        place = {number: i for i, number in enumerate(node_ids[own].tolist())}
        if len(place) < own.stop - own.start:
            raise ModelError(f"tree {index} has two nodes of one number; the file is damaged")
        places.append(place)
        split = mode[own] != LEAF
        true, false = (_positions(index, ids[own], split, place, feature[own]) for ids in children)
        if split.any() and not split[0]:
            raise ModelError(f"tree {index} does not begin with its root; list that node first")
        trees.append(
            Comparisons(
                mode[own], np.where(split, feature[own], -1), value[own], true, false, tracks[own]
            )
        )
    return Forest(trees, *_votes(attributes, prefix, order, places))


def _positions(
    index: int, ids: Ints, split: Bools, place: Mapping[int, int], feature: Ints
) -> Ints:
    missing = [number for number in ids[split].tolist() if number not in place]
    if missing:
        raise ModelError(f"tree {index} points to node {missing[0]}, which it lacks; it is damaged")
    if (feature[split] < 0).any():
        raise ModelError(f"tree {index} tests a negative feature; the file is damaged")
    found = [
        place[number] if inner else -1 for number, inner in zip(ids.tolist(), split, strict=True)
    ]
    if 0 in found:
        raise ModelError(f"tree {index} does not begin with its root; list that node first")
    return np.array(found, dtype=np.int64)


def _votes(
    attributes: Mapping[str, Any],
    prefix: str,
    order: Sequence[int],
    places: Sequence[Mapping[int, int]],
) -> tuple[Ints, Ints, Ints, Floats]:
    tree_ids = _ints(attributes, f"{prefix}_treeids", None)
    size = len(tree_ids)
    node_ids = _ints(attributes, f"{prefix}_nodeids", size)
    index_of = {number: index for index, number in enumerate(order)}
    trees = [index_of.get(number, -1) for number in tree_ids.tolist()]
    nodes = [
        places[index].get(node, -1) if index >= 0 else -1
        for index, node in zip(trees, node_ids.tolist(), strict=True)
    ]
    if -1 in nodes:
        at = nodes.index(-1)
        raise ModelError(
            f"a weight is for node {node_ids[at]} of tree {tree_ids[at]}, which is not there; "
            "the file is damaged"
        )
    return (
        np.array(trees, dtype=np.int64),
        np.array(nodes, dtype=np.int64),
        _ints(attributes, f"{prefix}_ids", size),
        _floats(attributes, f"{prefix}_weights", size),
    )


def read_tables(attributes: Mapping[str, Any]) -> Forest:
    """TreeEnsemble, where splits and leaves are two tables; a leaf may have several parents."""
    mode = whole_numbers(attributes.get("nodes_modes", []), None, "nodes_modes")
    size = len(mode)
    if ((mode < 0) | (mode > MEMBER)).any():
        raise ModelError("nodes_modes must be 0 … 6; the file is damaged")
    feature = _ints(attributes, "nodes_featureids", size)
    value = numbers(attributes.get("nodes_splits", []), size, "nodes_splits")
    sides = [
        (
            _ints(attributes, f"nodes_{side}nodeids", size),
            _ints(attributes, f"nodes_{side}leafs", size),
        )
        for side in ("true", "false")
    ]
    tracks = _tracks(attributes, size)
    members = _members(attributes, mode)
    outputs = _ints(attributes, "leaf_targetids", None)
    weights = numbers(attributes.get("leaf_weights", []), len(outputs), "leaf_weights")
    trees: list[Comparisons] = []
    votes: list[tuple[int, int, int]] = []  # tree, position, leaf
    seen: set[int] = set()  # nodes of all trees: none may be in two
    for index, root in enumerate(_ints(attributes, "tree_roots", None).tolist()):
        if not 0 <= root < size:
            raise ModelError(f"tree {index} begins at node {root} of {size}; the file is damaged")
        kept: list[int] = []  # the node, or -1 - the leaf
        children: list[list[int]] = []
        first = -1 - int(sides[0][0][root]) if _is_leaf(root, sides) else root
        stack = [(first, -1, 0)]
        while stack:
            node, parent, side = stack.pop()
            if node >= size or -1 - node >= len(outputs):
                what, there = ("node", size) if node >= 0 else ("leaf", len(outputs))
                at = node if node >= 0 else -1 - node
                raise ModelError(f"tree {index} points to {what} {at} of {there}; it is damaged")
            if node in seen and node >= 0:
                raise ModelError(
                    f"tree {index} is not a tree: a node has two parents, or there is a cycle; "
                    "the file is damaged"
                )
            seen.add(node)  # a leaf may have several parents
            place = len(kept)
            if parent >= 0:
                children[parent][side] = place
            kept.append(node)
            children.append([-1, -1])
            if node < 0:
                votes.append((index, place, -1 - node))
                continue
            if feature[node] < 0:
                raise ModelError(f"tree {index} tests a negative feature; the file is damaged")
            for way in (1, 0):
                child = int(sides[way][0][node])
                if child < 0:
                    raise ModelError(f"tree {index} points to node {child}; the file is damaged")
                stack.append((-1 - child if sides[way][1][node] else child, place, way))
        source = np.array(kept, dtype=np.int64)
        split, at = source >= 0, np.maximum(source, 0)
        true, false = np.array(children, dtype=np.int64).T
        trees.append(
            Comparisons(
                np.where(split, _taken(mode, at), LEAF),
                np.where(split, _taken(feature, at), -1),
                _taken(value, at).astype(np.float64),
                true,
                false,
                _taken(tracks, at).astype(bool),
                {i: members[node] for i, node in enumerate(kept) if node in members},
            )
        )
    at_leaf = np.array([leaf for _, _, leaf in votes], dtype=np.int64)
    return Forest(
        trees,
        np.array([index for index, _, _ in votes], dtype=np.int64),
        np.array([place for _, place, _ in votes], dtype=np.int64),
        outputs[at_leaf],
        weights[at_leaf],
    )


def _is_leaf(root: int, sides: Sequence[tuple[Ints, Ints]]) -> bool:
    (true, is_true_leaf), (false, is_false_leaf) = sides
    return bool(is_true_leaf[root] and is_false_leaf[root] and true[root] == false[root])


def _taken(values: npt.NDArray[Any], at: Ints) -> npt.NDArray[Any]:
    return values[at] if len(values) else np.zeros(len(at), dtype=values.dtype)


def _members(attributes: Mapping[str, Any], mode: Ints) -> dict[int, Floats]:
    """The set of every node that asks for one: they follow each other, NaN behind each."""
    listed = numbers(attributes.get("membership_values", []), None, "membership_values")
    asking = np.flatnonzero(mode == MEMBER)
    ends = np.flatnonzero(np.isnan(listed))
    if len(listed) and not np.isnan(listed[-1]):  # behind the last one it may be left out
        ends = np.append(ends, len(listed))
    if len(ends) != len(asking):
        raise ModelError(
            f"membership_values has {len(ends)} sets for {len(asking)} nodes; the file is damaged"
        )
    starts = np.concatenate([[0], ends[:-1] + 1]).astype(np.int64)
    return {
        int(node): np.unique(listed[start:end])
        for node, start, end in zip(asking, starts, ends, strict=False)
    }


# ── comparisons as thresholds ────────────────────────────────────────────────────────────────


def translate(forest: Forest, precision: Precision) -> tuple[list[Tree], Categories]:
    """Trees with `<=` splits and sets of categories, and what these categories are.

    A feature that is asked for nothing but membership of sets is categorical. Its labels are the
    members, and the first whole number that is none, which stands for all others. Elsewhere a set
    is a number of pieces of the line.
    """
    members: dict[int, list[Floats]] = {}
    compared: set[int] = set()
    for tree in forest.trees:
        compared |= set(tree.feature[~np.isin(tree.mode, (MEMBER, LEAF))].tolist())
        for node, listed in tree.members.items():
            members.setdefault(int(tree.feature[node]), []).append(listed)
    known: dict[int, Floats] = {}
    for feature, lists in members.items():
        if feature not in compared:
            listed = np.unique(_on_grid(np.concatenate(lists), precision))
            other = np.setdiff1d(np.arange(len(listed) + 1.0), listed)[0]
            known[feature] = np.sort(np.append(listed, other))
    trees = [_translate(index, tree, precision, known) for index, tree in enumerate(forest.trees)]
    return trees, {feature: dict(enumerate(labels.tolist())) for feature, labels in known.items()}


def _translate(
    index: int, tree: Comparisons, precision: Precision, known: Mapping[int, Floats]
) -> Tree:
    mode = tree.mode
    split = mode != LEAF
    if np.isnan(tree.value[split & (mode != MEMBER)]).any():
        raise ModelError(f"tree {index} compares with NaN; the file is damaged")
    with np.errstate(over="ignore", invalid="ignore"):
        grid = tree.value.astype(precision).astype(np.float64)
    down = np.where(grid > tree.value, below(grid, precision), grid)
    strictly = np.where(grid >= tree.value, below(grid, precision), grid)
    swapped = np.isin(mode, (GTE, GT))
    to_true = tree.tracks | (mode == NEQ)
    sets: dict[int, Ints] = {}
    for node, listed in tree.members.items():
        labels = known.get(int(tree.feature[node]))
        if labels is not None:
            sets[node] = np.searchsorted(labels, _on_grid(listed, precision)).astype(np.int64)
    pieces: dict[int, Pieces] = {}
    for node in np.flatnonzero(np.isin(mode, (EQ, NEQ, MEMBER))).tolist():
        if node not in sets:
            listed = tree.members[node] if mode[node] == MEMBER else tree.value[node : node + 1]
            pieces[node] = _points(listed, precision, 1 if mode[node] == NEQ else 0)
    return Tree(
        tree.feature,
        np.where(np.isin(mode, (LT, GTE)), strictly, down),
        np.where(swapped, tree.false, tree.true),
        np.where(swapped, tree.true, tree.false),
        (to_true != swapped).astype(np.int64),
        tree.score,
        sets=sets,
        pieces=pieces,
    )


def _points(listed: Floats, precision: Precision, side: int) -> Pieces:
    """The line in pieces, those numbers of the grid that are listed leading to `side`."""
    points = _on_grid(listed, precision)
    pieces: list[tuple[float, int]] = [(-np.inf, side)]  # for NaN, if there is no such number
    for point, before in zip(points.tolist(), below(points, precision).tolist(), strict=True):
        pieces += [(before, 1 - side), (point, side)]
    return [*pieces, (np.inf, 1 - side)]


def _on_grid(values: Floats, precision: Precision) -> Floats:
    """Those values that an input can have."""
    with np.errstate(over="ignore"):
        kept: Floats = values[values.astype(precision).astype(np.float64) == values]
    return kept


# ── attributes ───────────────────────────────────────────────────────────────────────────────


def _ints(attributes: Mapping[str, Any], key: str, size: int | None) -> Ints:
    return whole_numbers(attributes.get(key, []), size, key)


def _floats(attributes: Mapping[str, Any], key: str, size: int) -> Floats:
    """Floats, or doubles in a tensor."""
    tensor = attributes.get(f"{key}_as_tensor")
    return numbers(attributes.get(key, []) if tensor is None else tensor, size, key)


def _tracks(attributes: Mapping[str, Any], size: int) -> Bools:
    key = "nodes_missing_value_tracks_true"
    given = attributes.get(key)
    return (
        np.zeros(size, bool)
        if given is None or len(given) == 0
        else _ints(attributes, key, size) == 1
    )
