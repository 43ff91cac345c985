"""What every reader ends with: trees as arrays, joined into one ensemble.

Comes in: one `Tree` per tree, thresholds already translated so that x goes left iff x <= threshold,
sets of categories so that x goes left iff its code is listed.
Goes out: an `Ensemble`, or a `ModelError` that names the tree. Knows no foreign format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import NODE, Ensemble, Precision, Task
from carvegbm.errors import ModelError
from carvegbm.readers.checks import Classes, name_of
from carvegbm.trees.sets import Categories, flat_sets

__all__ = ["Pieces", "Tree", "assemble", "below", "send", "spell_out"]

_MOST_NODES = 1_000_000  # of a tree whose subtrees must be copied, see `send`
_MOST_FEATURES = 1 << 24
_MOST_OUTPUTS = 1 << 16
_MOST_SCORES = 1 << 28  # of an ensemble: leaves times outputs

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
    """Join trees into an ensemble; `fields` are those of `Ensemble`.

    Two `classes` turn a regression ensemble into a binary one: the second class iff raw score >= 0.
    Codes that splits list and `categories` lack are added to them, by their numbers.
    """
    if not 0 <= n_features <= _MOST_FEATURES:
        raise ModelError(f"the model has {n_features} features; at most {_MOST_FEATURES} are read")
    if n_outputs > _MOST_OUTPUTS:
        raise ModelError(f"the model has {n_outputs} outputs; at most {_MOST_OUTPUTS} are read")
    if task == "regression" and classes is not None:
        task = "binary"
    starts = np.cumsum([0, *(len(tree.feature) for tree in trees)])
    for index, tree in enumerate(trees):
        _check_children(index, tree)
    feature = _joined([tree.feature for tree in trees], np.int64)
    split = feature >= 0
    if split.any() and feature.max() >= n_features:
        index = int(np.searchsorted(starts, feature.argmax(), side="right")) - 1
        raise ModelError(
            f"tree {index} tests feature {feature.max()}, the model has {n_features} features; "
            "the file is damaged"
        )
    offset = np.repeat(starts[:-1], np.diff(starts))
    left = _joined([tree.left for tree in trees], np.int64) + offset
    right = _joined([tree.right for tree in trees], np.int64) + offset
    kept = _reached(starts, split, left, right)
    place = np.cumsum(kept) - 1
    leaf = kept & ~split
    n_leaves = int(leaf.sum())
    if max(n_leaves, 1) * n_outputs > _MOST_SCORES:
        raise ModelError(f"{n_leaves} leaves with {n_outputs} scores each are too many to hold")

    nodes = np.zeros(int(kept.sum()), dtype=NODE)
    threshold = _joined([tree.threshold for tree in trees], np.float64)
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
    done = 0
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
        done += len(own)
    return Ensemble(
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


def _all_categories(
    known: Categories, sets: Sequence[tuple[int, Ints]], feature: Ints
) -> dict[int, dict[int, Any]]:
    found: dict[int, dict[int, Any]] = {name: dict(labels) for name, labels in known.items()}
    for node, codes in sets:
        labels = found.setdefault(int(feature[node]), {})
        labels.update((code, code) for code in codes.tolist() if code not in labels)
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
    index: int,
    tree: Tree,
    to_left: Bools,
    *,
    low: float,
    high: float,
    precision: Precision = "float64",
) -> Tree:
    """Tree `index`, changed so that a value in [low, high] goes left iff `to_left`.

    Returns a tree with `<=` splits only: x outside [low, high] and NaN go where they went before.
    One threshold says it wherever `to_left` agrees with the comparison at one end of the interval.
    Elsewhere three nested splits do, which copies both subtrees. Splits by categories stay.
    """
    before = float(below(low, precision))
    split, threshold = tree.feature >= 0, tree.threshold
    split[list(tree.sets)] = False
    inside = (before <= threshold) & (threshold <= high)
    moved = np.where(split & inside, np.where(to_left, high, before), threshold)
    torn = split & np.where(to_left, threshold < before, threshold > high)
    tree = replace(tree, threshold=moved)
    pieces: dict[int, Pieces] = {}
    for node in np.flatnonzero(torn).tolist():
        cut = float(threshold[node])
        if cut > high:
            pieces[node] = [(before, 0), (high, 1), (cut, 0), (np.inf, 1)]
        else:
            pieces[node] = [(cut, 0), (before, 1), (high, 0), (np.inf, 1)]
    what = "sends a number that stands for a missing value against its thresholds"
    remedy = "train it with missing values as NaN, or with fewer leaves"
    return spell_out(index, tree, pieces, what, remedy) if pieces else tree


def spell_out(index: int, tree: Tree, pieces: Mapping[int, Pieces], what: str, remedy: str) -> Tree:
    """Tree `index` with nested splits in place of those nodes for which there are `pieces`.

    Along each path the interval (low, high] of every feature is known, and whether the feature may
    be NaN there, so that a subtree nothing can reach is not copied. A tree that grows too large is
    refused: `what` it does that needs so many nodes, and the `remedy`.
    """
    source: list[int] = []  # per new node: the node it copies
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    missing: list[int] = []
    sets: dict[int, Ints] = {}

    def add(node: int, cut: float, nan: int, parent: int, is_right: bool) -> int:
        if len(source) >= _MOST_NODES:
            raise ModelError(
                f"tree {index} {what}, which takes more than {_MOST_NODES} nodes to spell out; "
                f"{remedy}"
            )
        if parent >= 0:
            (right if is_right else left)[parent] = len(source)
        source.append(node)
        threshold.append(cut)
        left.append(-1)
        right.append(-1)
        missing.append(nan)
        return len(source) - 1

    nothing_known: dict[int, tuple[float, float, bool]] = {}
    stack = [(0, nothing_known, -1, False)]
    while stack:
        node, known, parent, is_right = stack.pop()
        feature, cut, nan = int(tree.feature[node]), float(tree.threshold[node]), tree.missing[node]
        if feature < 0:
            add(node, 0.0, -1, parent, is_right)
            continue
        if node in tree.sets:
            new = add(node, cut, int(nan), parent, is_right)
            sets[new] = tree.sets[node]
            stack.append((int(tree.right[node]), known, new, True))
            stack.append((int(tree.left[node]), known, new, False))
            continue
        ends = pieces.get(node, [(cut, 0), (np.inf, 1)])
        starts = [-np.inf, *(end for end, _ in ends)]
        line = [(start, end, side) for start, (end, side) in zip(starts, ends, strict=False)]
        lowest, highest, may_be_nan = known.get(feature, (-np.inf, np.inf, True))
        kept = [piece for piece in line if piece[0] < highest and lowest < piece[1]]
        # NaN follows one piece that leads to its side, if need be one that no number reaches.
        nan_piece = None
        if may_be_nan and nan >= 0:
            nan_piece = next(piece for piece in kept + line if piece[2] == 1 - nan)
            kept = [piece for piece in line if piece in kept or piece == nan_piece]
        for i, piece in enumerate(kept):
            start, end, side = piece
            reached = (max(start, lowest), min(end, highest), nan < 0 or piece == nan_piece)
            below_parent, below_right = parent, is_right
            if i < len(kept) - 1:
                rule = -1 if nan < 0 else int(piece == nan_piece)
                parent, is_right = add(node, min(end, highest), rule, parent, is_right), True
                below_parent, below_right = parent, False
            child = int((tree.left, tree.right)[side][node])
            stack.append((child, known | {feature: reached}, below_parent, below_right))
    order = np.array(source)
    children = np.array(left, dtype=np.int64), np.array(right, dtype=np.int64)
    rules = np.array(missing, dtype=np.int64)
    return Tree(
        tree.feature[order],
        np.array(threshold),
        *children,
        rules,
        tree.score[order],
        tree.output,
        sets,
    )


def _joined(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=kind), *parts])


def _check_children(index: int, tree: Tree) -> None:
    size = len(tree.feature)
    split = tree.feature >= 0
    children = np.concatenate([tree.left[split], tree.right[split]])
    outside = children[(children < 0) | (children >= size)]
    if size == 0 or len(outside):
        what = f"points to node {outside[0]}, it has {size} nodes" if size else "has no nodes"
        raise ModelError(f"tree {index} {what}; the file is damaged")


def _reached(starts: Ints, split: Bools, left: Ints, right: Ints) -> Bools:
    """Which nodes are reached from the roots; refuses a node with two ways in."""
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
            index = int(np.searchsorted(starts, again[0], side="right")) - 1
            raise ModelError(
                f"tree {index} is not a tree, two ways lead to a node; the file is damaged"
            )
    return seen
