"""The last step of every reader: check trees that are arrays and join them into one ensemble.

Readers give one `Tree` per tree, with thresholds already translated so that x goes left iff
x <= threshold, and sets of categories so that x goes left iff its code is listed. The result is an
`Ensemble`, or a `ModelError` that names the tree. Knows no foreign format.

Files are not trusted. Cycles, shared nodes and NaN thresholds are refused here for all formats,
before anything follows the children of a node. What is allocated is bounded by the number of nodes
that the file holds, whatever counts it states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import NODE, Ensemble, Precision, Task
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes, name_of
from carvegbm.trees.sets import Categories, flat_sets

__all__ = ["Pieces", "Tree", "assemble", "below", "check_size", "send"]

_COPIES = 64  # nodes per node of the file, where subtrees must be copied, see `_spelled_out`
_MOST_COPIES_OF_FEW = 1 << 14
_MOST_FEATURES = 1 << 24
_MOST_OUTPUTS = 1 << 16
_MOST_SCORES = 1 << 28  # of an ensemble: leaves times outputs
_MANY_OUTPUTS = 1 << 10  # more of them are read only where leaves are few
_SCORES_OF_FEW = 1 << 22

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Pieces = Sequence[tuple[float, int]]
"""The line from left to right in pieces (end, side), the last one infinite; 0 is the left child."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree as arrays over its nodes; node 0 is the root, nodes out of its reach are ignored."""

    feature: Ints  # -1 at a leaf
    threshold: Floats
    left: Ints  # positions of the children; without meaning at a leaf
    right: Ints
    missing: Ints  # where NaN goes: 1 left, 0 right, -1 there is no rule
    score: Floats  # a number per node, or a row with a number per output; of leaves only
    output: int = 0  # the output a single number counts for
    sets: Mapping[int, Ints] = field(default_factory=dict)  # by node: the codes that go left
    pieces: Mapping[int, Pieces] = field(default_factory=dict)  # by node: replaces its threshold

    @classmethod
    def leaf(cls, score: float, output: int = 0) -> Tree:
        """The tree that always says `score`."""
        one = np.full(1, -1, dtype=np.int64)
        return cls(one, np.zeros(1), one, one, one, np.array([score]), output)


def assemble(
    trees: Sequence[Tree],
    *,
    n_outputs: int,
    n_features: int,
    task: Task,
    classes: Classes,
    categories: Categories | None = None,
    **fields: Any,
) -> Ensemble:
    """Check trees and join them into an ensemble; `fields` are those of `Ensemble`.

    Two `classes` turn a regression ensemble into a binary one: the second class iff raw score >= 0.
    Codes that splits list and `categories` lack are added to them, labelled by their numbers.
    """
    if not 0 <= n_features <= _MOST_FEATURES:
        raise ModelError(f"the model has {n_features} features; at most {_MOST_FEATURES} are read")
    if task == "regression" and classes is not None:
        task = "binary"
    starts, feature, left, right, threshold, kept = _joined_nodes(trees)
    if any(tree.pieces for tree in trees):
        trees = _spelled_out(trees)
        starts, feature, left, right, threshold, kept = _joined_nodes(trees)
    split = feature >= 0
    if split.any() and feature.max() >= n_features:
        index = _owner(starts, feature.argmax())
        raise ModelError(
            f"tree {index} tests feature {feature.max()}, the model has {n_features} features; "
            "the file is damaged"
        )
    place = np.cumsum(kept) - 1
    leaf = kept & ~split
    n_leaves = int(leaf.sum())
    check_size(n_leaves, n_outputs)
    n_scored = sum(tree.score.shape[1] if tree.score.ndim == 2 else 1 for tree in trees)
    if trees and n_outputs > n_scored:
        raise ModelError(
            f"the model has {n_outputs} outputs, its trees have scores for at most {n_scored}; "
            "the file is damaged"
        )

    nodes = np.zeros(int(kept.sum()), dtype=NODE)
    sets = [
        (int(starts[index]) + node, codes)
        for index, tree in enumerate(trees)
        for node, codes in sorted(tree.sets.items())
    ]
    by_set = np.array([node for node, _ in sets], dtype=np.int64)
    threshold[by_set] = np.arange(len(sets))
    categories = _all_categories(categories or {}, sets, feature)
    _refuse_mixing(feature, by_set, starts, fields.get("feature_names"))
    listed = flat_sets([codes for _, codes in sets])
    nodes["threshold"] = threshold[kept]
    nodes["feature"] = np.where(split, feature, -1)[kept]
    nodes["missing"] = _joined([tree.missing for tree in trees], np.int64)[kept]
    nodes["left"] = np.where(split, place[np.where(split, left, 0)], np.cumsum(leaf) - 1)[kept]
    nodes["right"] = np.where(split, place[np.where(split, right, 0)], -1)[kept]
    nodes["threshold"][nodes["feature"] < 0] = 0.0
    nodes["missing"][nodes["feature"] < 0] = -1

    scores = np.zeros((n_leaves, n_outputs))
    done, largest = 0, float(np.abs(np.asarray(fields.get("base_score", 0.0))).max())
    for index, tree in enumerate(trees):
        own = tree.score[leaf[starts[index] : starts[index + 1]]]
        if tree.score.ndim == 2:
            scores[done : done + len(own)] = own
        elif 0 <= tree.output < n_outputs:
            scores[done : done + len(own), tree.output] = own
        else:
            raise ModelError(
                f"tree {index} counts for output {tree.output}, the model has {n_outputs} outputs; "
                "the file is damaged"
            )
        largest += float(np.abs(own).max(initial=0.0))
        done += len(own)
    ensemble = Ensemble(
        nodes,
        place[starts[:-1]],
        scores,
        n_features=n_features,
        task=task,
        classes=classes,
        categories=categories,
        set_starts=listed.starts,
        set_codes=listed.codes,
        **fields,
    )
    _refuse_overflow(largest, ensemble.sum_precision)
    return ensemble


def _all_categories(
    known: Categories, sets: Sequence[tuple[int, Ints]], feature: Ints
) -> Categories:
    """The known categories, and codes that splits list beside them."""
    found: dict[int, Mapping[int, Any]] = dict(known)  # features may share one mapping
    added: dict[int, dict[int, Any]] = {}
    for node, codes in sets:
        name = int(feature[node])
        labels = found.setdefault(name, {})
        new = {code: code for code in codes.tolist() if code not in labels}
        if new:
            if name not in added:
                found[name] = added[name] = dict(labels)
            added[name].update(new)
    return found


def _refuse_mixing(feature: Ints, by_set: Ints, starts: Ints, names: Sequence[str] | None) -> None:
    """Refuse a feature that is compared with a threshold here and split by categories there."""
    numeric = feature >= 0
    numeric[by_set] = False
    both = np.flatnonzero(numeric & np.isin(feature, feature[by_set])) if len(by_set) else by_set
    if len(both):
        first = int(feature[both[0]])
        other = by_set[np.argmax(feature[by_set] == first)]
        by_threshold, by_categories = np.searchsorted(starts, [both[0], other], side="right") - 1
        raise ModelError(
            f"feature {name_of(first, names)!r} is split by a threshold in tree {by_threshold} and "
            f"by categories in tree {by_categories}; train it as one or the other"
        )


def below(values: npt.ArrayLike, precision: Precision = "float64") -> Floats:
    """The next number below each value: on the grid of float32 numbers, or of float64."""
    kind = np.dtype(precision).type
    down = np.nextafter(np.asarray(values, dtype=kind), kind(-np.inf))
    return np.asarray(down, dtype=np.float64)


def send(
    tree: Tree, to_left: Bools, *, low: float, high: float, precision: Precision = "float64"
) -> Tree:
    """The tree, changed so that a value in [low, high] goes left iff `to_left`.

    x outside [low, high] and NaN go where they went before. One threshold says this wherever
    `to_left` agrees with the comparison at one end of the interval. Elsewhere the line is cut into
    `pieces`. Splits by categories stay.
    """
    before = float(below(low, precision))
    split, threshold = tree.feature >= 0, tree.threshold
    split[list(tree.sets)] = False
    inside = (before <= threshold) & (threshold <= high)
    moved = np.where(split & inside, np.where(to_left, high, before), threshold)
    torn = split & np.where(to_left, threshold < before, threshold > high)
    pieces: dict[int, Pieces] = {}
    for node in np.flatnonzero(torn).tolist():
        cut = float(threshold[node])
        if cut > high:
            pieces[node] = [(before, 0), (high, 1), (cut, 0), (np.inf, 1)]
        else:
            pieces[node] = [(cut, 0), (before, 1), (high, 0), (np.inf, 1)]
    return replace(tree, threshold=moved, pieces=pieces)


def _spelled_out(trees: Sequence[Tree]) -> list[Tree]:
    """The trees with nested `<=` splits in place of the nodes that have pieces.

    A node with n pieces becomes n - 1 splits, which copies its subtrees. All trees together may
    grow to `_COPIES` times their size.
    """
    limit = _MOST_COPIES_OF_FEW + _COPIES * sum(len(tree.feature) for tree in trees)
    found = []
    for index, tree in enumerate(trees):
        grown = _spelled_out_tree(tree, limit) if tree.pieces else tree
        if grown is None:
            raise ModelError(
                f"tree {index} treats single numbers as exceptions to its thresholds; written with "
                f"thresholds alone, the model would have more than {_COPIES} times as many nodes; "
                "train it with missing values as NaN or with fewer leaves, convert an ONNX model "
                "with thresholds in place of equalities"
            )
        limit -= len(grown.feature)
        found.append(grown)
    return found


def _spelled_out_tree(tree: Tree, limit: int) -> Tree | None:
    """One tree spelled out, or None if that takes more than `limit` nodes.

    Along each path the interval (low, high] of every feature is known, and whether the feature may
    be NaN there, so that a subtree nothing can reach is not copied.
    """
    source: list[int] = []  # per new node: the node it copies
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    missing: list[int] = []
    sets: dict[int, Ints] = {}

    def add(node: int, cut: float, nan: int, parent: int, is_right: bool) -> int:
        if parent >= 0:
            (right if is_right else left)[parent] = len(source)
        source.append(node)
        threshold.append(cut)
        left.append(-1)
        right.append(-1)
        missing.append(nan)
        return len(source) - 1

    # What is known of features on the path to the node at hand. An entry of the stack with node -1
    # restores what was known before its subtree was entered.
    known: dict[int, tuple[float, float, bool]] = {}
    everything = (-np.inf, np.inf, True)
    stack: list[tuple[int, int, bool, int, tuple[float, float, bool]]] = [
        (0, -1, False, -1, everything)
    ]
    while stack:
        node, parent, is_right, entered, reached = stack.pop()
        if entered >= 0:
            before = known.get(entered, everything)
            known[entered] = reached
            if node < 0:
                continue
            stack.append((-1, -1, False, entered, before))
        if len(source) >= limit:
            return None
        feature, cut, nan = int(tree.feature[node]), float(tree.threshold[node]), tree.missing[node]
        if feature < 0:
            add(node, 0.0, -1, parent, is_right)
            continue
        if node in tree.sets:
            new = add(node, cut, int(nan), parent, is_right)
            sets[new] = tree.sets[node]
            stack.append((int(tree.right[node]), new, True, -1, everything))
            stack.append((int(tree.left[node]), new, False, -1, everything))
            continue
        ends = tree.pieces.get(node, [(cut, 0), (np.inf, 1)])
        starts = [-np.inf, *(end for end, _ in ends)]
        line = [(start, end, side) for start, (end, side) in zip(starts, ends, strict=False)]
        lowest, highest, may_be_nan = known.get(feature, everything)
        is_kept = [start < highest and lowest < end for start, end, _ in line]
        # NaN follows one piece that leads to its side, if need be one that no number reaches.
        nan_piece = -1
        if may_be_nan and nan >= 0:
            sides = [i for i, piece in enumerate(line) if piece[2] == 1 - nan]
            nan_piece = next((i for i in sides if is_kept[i]), sides[0])
            is_kept[nan_piece] = True
        kept = [i for i, wanted in enumerate(is_kept) if wanted]
        for i in kept:
            start, end, side = line[i]
            reached = (max(start, lowest), min(end, highest), nan < 0 or i == nan_piece)
            below_parent, below_right = parent, is_right
            if i != kept[-1]:
                rule = -1 if nan < 0 else int(i == nan_piece)
                parent, is_right = add(node, min(end, highest), rule, parent, is_right), True
                below_parent, below_right = parent, False
            child = int((tree.left, tree.right)[side][node])
            stack.append((child, below_parent, below_right, feature, reached))
    order = np.array(source)
    return Tree(
        tree.feature[order],
        np.array(threshold),
        np.array(left, dtype=np.int64),
        np.array(right, dtype=np.int64),
        np.array(missing, dtype=np.int64),
        tree.score[order],
        tree.output,
        sets,
    )


def _joined(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=kind), *parts])


def _refuse_overflow(largest: float, precision: Precision) -> None:
    """Refuse scores whose sums the library cannot hold: it would decide by infinity or NaN."""
    if not largest <= float(np.finfo(precision).max):
        raise ModelError(
            f"the scores of the trees may add up to {largest:.3g}, more than {precision} holds"
        )


def check_size(n_leaves: int, n_outputs: int) -> None:
    """Refuse a table of scores that is out of proportion to the leaves of the file."""
    if not 0 < n_outputs <= _MOST_OUTPUTS:
        raise ModelError(f"the model has {n_outputs} outputs; at most {_MOST_OUTPUTS} are read")
    most = _MOST_SCORES if n_outputs <= _MANY_OUTPUTS else _SCORES_OF_FEW
    if max(n_leaves, 1) * n_outputs > most:
        raise ModelError(f"{n_leaves} leaves with {n_outputs} scores each are too many to hold")


class _Nodes(NamedTuple):
    """The nodes of all trees, one after the other."""

    starts: Ints  # where each tree begins, and the end
    feature: Ints
    left: Ints  # positions among all nodes
    right: Ints
    threshold: Floats
    kept: Bools  # reached from the root of its tree


def _joined_nodes(trees: Sequence[Tree]) -> _Nodes:
    """Return all nodes.

    Raise `ModelError` for a missing child, a cycle, a shared node or a NaN threshold.
    """
    starts = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    feature = _joined([tree.feature for tree in trees], np.int64)
    sizes = np.diff(starts)
    if (sizes == 0).any():
        raise ModelError(f"tree {int(sizes.argmin())} has no nodes; the file is damaged")
    offset = np.repeat(starts[:-1], sizes)
    split = feature >= 0
    left = _joined([tree.left for tree in trees], np.int64)
    right = _joined([tree.right for tree in trees], np.int64)
    size = np.repeat(sizes, sizes)
    for child in (left, right):
        outside = split & ((child < 0) | (child >= size))
        if outside.any():
            node = int(outside.argmax())
            raise ModelError(
                f"tree {_owner(starts, node)} points to node {child[node]}, it has {size[node]} "
                "nodes; the file is damaged"
            )
    left, right = left + offset, right + offset
    kept = _reached(starts, split, left, right)
    threshold = _joined([tree.threshold for tree in trees], np.float64)
    for tree, start in zip(trees, starts.tolist(), strict=False):
        for node in (*tree.sets, *tree.pieces):  # which have no threshold
            threshold[start + node] = 0.0
    compares_nan = kept & split & np.isnan(threshold)
    if compares_nan.any():
        index = _owner(starts, compares_nan.argmax())
        raise ModelError(f"tree {index} compares a feature with NaN; the file is damaged")
    return _Nodes(starts, feature, left, right, threshold, kept)


def _owner(starts: Ints, node: Any) -> int:
    """The tree that a node belongs to."""
    return int(np.searchsorted(starts, node, side="right")) - 1


def _reached(starts: Ints, split: Bools, left: Ints, right: Ints) -> Bools:
    """Which nodes are reached from the roots; refuse a node with two parents."""
    seen = np.zeros(len(split), dtype=bool)
    front = starts[:-1]
    while len(front):
        seen[front] = True
        inner = front[split[front]]
        front = np.concatenate([left[inner], right[inner]])
        again = front[seen[front]]
        if len(again) == 0 and len(np.unique(front)) < len(front):
            again = np.sort(front)[:-1][np.diff(np.sort(front)) == 0]
        if len(again):
            raise ModelError(
                f"tree {_owner(starts, again[0])} is not a tree: a node has two parents, or there "
                "is a cycle; the file is damaged"
            )
    return seen
