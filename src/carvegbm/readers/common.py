"""Shared by all readers: trees as arrays, their assembly to an `Ensemble`, checks of file content.

Readers convert every split to x <= threshold, or to "the code of x is in a set", goes left.

Files are not trusted. Cycles, shared nodes and NaN thresholds are refused before the children of a
node are followed. Allocated memory is bounded by the number of nodes in the file, whatever counts
the file states. A reader may let damaged content raise any of the exceptions that `carvegbm.load`
turns into a `ModelError`; it checks explicitly what would otherwise be read wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.model.categories import Categories, check_kinds, flat_sets
from carvegbm.model.ensemble import Ensemble, Precision, Task
from carvegbm.model.nodes import NODE

__all__ = [
    "Bools",
    "Classes",
    "Floats",
    "Ints",
    "Pieces",
    "Tree",
    "assemble",
    "below",
    "check_size",
    "codes_by_feature",
    "count",
    "integers",
    "name_of",
    "number",
    "numbers",
    "redirect",
    "refuse_override",
    "require",
    "set_bits",
]

_COPIES = 64  # nodes per node of the file, where subtrees must be copied, see `_expanded`
_COPIES_OF_SMALL = 1 << 14
_MOST_FEATURES = 1 << 24
_MOST_OUTPUTS = 1 << 16
_MOST_SCORES = 1 << 28  # of an ensemble: leaves times outputs
_MANY_OUTPUTS = 1 << 10  # more outputs are only read for few leaves
_SCORES_OF_MANY_OUTPUTS = 1 << 22

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Classes = Sequence[Any] | npt.NDArray[Any] | None
"""Class labels by output, as the user passes them."""
Pieces = Sequence[tuple[float, int]]
"""Intervals (end, side) that partition the reals in ascending order; side 0 is the left child."""


# ── checks of file content ───────────────────────────────────────────────────────────────────


def require(holds: Any, what: str) -> None:
    """Raise `ModelError` with `what` is wrong unless `holds`."""
    if not holds:
        raise ModelError(f"{what}; the file is damaged")


def count(fields: Mapping[str, Any], key: str, default: Any = None, most: int = 1 << 31) -> int:
    """Return a field as a whole number >= 0 and < `most`; it may be spelled as text."""
    value = fields.get(key, default)
    found = -1
    if isinstance(value, str):
        if re.fullmatch(r"\s*\d{1,18}\s*", value, re.ASCII):
            found = int(value)
    elif isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1:
        found = int(value)
    require(0 <= found < most, f"{key} is {str(value)[:40]!r}, not a count")
    return found


def integers(values: Any, size: int | None, what: str) -> Ints:
    """Return a list of whole numbers as int64; `size` None: of any length."""
    return _vector(values, "iub", size, what).astype(np.int64)


def numbers(values: Any, size: int | None, what: str) -> Floats:
    """Return a list of numbers as float64; `size` None: of any length."""
    return _vector(values, "iubf", size, what).astype(np.float64)


def _vector(values: Any, kinds: str, size: int | None, what: str) -> npt.NDArray[Any]:
    array = np.asarray(values)
    is_list = array.ndim == 1 and (size is None or len(array) == size)
    expected = f"{'' if size is None else f'{size} '}{'numbers' if 'f' in kinds else 'integers'}"
    is_right = is_list and (array.size == 0 or array.dtype.kind in kinds)
    require(is_right, f"{what} must be a list of {expected}")
    return array


def number(value: Any, what: str) -> float:
    """Return a value as a float."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    require(is_number, f"{what} must be a number, got {str(value)[:40]!r}")
    return float(value)


def refuse_override(model: Any, package: str, methods: Sequence[str]) -> None:
    """Refuse a model with its own prediction code, which may compute more than its trees do.

    `methods` must be those of `package` or of scikit-learn.
    """
    own = {
        name: getattr(owner, "__name__", "")
        for owner in type(model).__mro__
        if owner.__module__.split(".")[0] not in (package, "sklearn", "builtins")
        for name in vars(owner)
    }
    own |= dict.fromkeys(getattr(model, "__dict__", {}), "the object itself")
    for method in methods:
        if method in own:
            raise ModelError(
                f"has its own {method} (in {own[method]}), which may compute more than its trees "
                f"do; pass a model of {package} itself"
            )


def name_of(feature: int, names: Sequence[str] | None) -> str:
    """Return a feature's name for messages, or its position without names."""
    return names[feature] if names is not None and 0 <= feature < len(names) else str(feature)


# ── trees ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree as arrays over its nodes; node 0 is the root, unreachable nodes are ignored."""

    feature: Ints  # -1 at a leaf
    threshold: Floats
    left: Ints  # positions of the children; unused at a leaf
    right: Ints
    missing: Ints  # where NaN goes: 1 left, 0 right, -1 there is no rule
    score: Floats  # a number per node, or a row with a number per output; used at leaves only
    output: int = 0  # the output to which a single number counts
    sets: Mapping[int, Ints] = field(default_factory=dict)  # by node: the codes that go left
    pieces: Mapping[int, Pieces] = field(default_factory=dict)  # by node: replaces its threshold

    @classmethod
    def leaf(cls, score: float, output: int = 0) -> Tree:
        """Return a tree with one leaf."""
        one = np.full(1, -1, dtype=np.int64)
        return cls(one, np.zeros(1), one, one, one, np.array([score]), output)


def below(values: npt.ArrayLike, precision: Precision = "float64") -> Floats:
    """Return the next number below each value among float32 or float64 numbers."""
    kind = np.dtype(precision).type
    down = np.nextafter(np.asarray(values, dtype=kind), kind(-np.inf))
    return np.asarray(down, dtype=np.float64)


def redirect(
    tree: Tree, to_left: Bools, *, low: float, high: float, precision: Precision = "float64"
) -> Tree:
    """Return the tree changed so that x in [low, high] goes left iff `to_left`, per node.

    Other numbers and NaN go where they went before, and so does everything at categorical splits.
    A moved threshold suffices if `to_left` agrees with the comparison at one end of the interval;
    otherwise the split gets `pieces`.
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


def set_bits(words: npt.NDArray[Any]) -> Ints:
    """Return the positions of the bits that are 1, in words of 32 bits."""
    bits = np.unpackbits(words.astype("<u4").view(np.uint8), bitorder="little")
    return np.flatnonzero(bits)


def codes_by_feature(trees: Iterable[Tree]) -> tuple[dict[int, set[int]], set[int]]:
    """Return the codes in the sets of each feature, and the features with thresholds."""
    listed: dict[int, set[int]] = {}
    by_threshold: set[int] = set()
    for tree in trees:
        is_compared = tree.feature >= 0
        for node, codes in tree.sets.items():
            is_compared[node] = False
            listed.setdefault(int(tree.feature[node]), set()).update(codes.tolist())
        by_threshold.update(np.unique(tree.feature[is_compared]).tolist())
    return listed, by_threshold


def check_size(n_leaves: int, n_outputs: int) -> None:
    """Refuse a table of scores that does not fit in memory, or to the number of leaves."""
    most = _MOST_SCORES if n_outputs <= _MANY_OUTPUTS else _SCORES_OF_MANY_OUTPUTS
    if not 0 < n_outputs <= _MOST_OUTPUTS or max(n_leaves, 1) * n_outputs > most:
        raise ModelError(f"{n_leaves} leaves with {n_outputs} scores each cannot be read")


# ── assembly ─────────────────────────────────────────────────────────────────────────────────


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
    """Join trees to an ensemble; `fields` are those of `Ensemble`.

    Two `classes` make a regression ensemble binary: the second class iff raw score >= 0. Codes that
    splits list and `categories` lack are added to it, with their numbers as labels.
    """
    if not 0 <= n_features <= _MOST_FEATURES:
        raise ModelError(f"the model has {n_features} features; at most {_MOST_FEATURES} are read")
    if task == "regression" and classes is not None:
        task = "binary"
    joined = _join(trees)
    if any(tree.pieces for tree in trees):
        trees = _expanded(trees)
        joined = _join(trees)
    starts, feature, left, right, threshold, kept = joined
    split = feature >= 0
    _refuse_where(
        feature >= n_features, starts, f"tests a feature beyond the {n_features} there are"
    )
    place = np.cumsum(kept) - 1
    leaf = kept & ~split
    n_leaves = int(leaf.sum())
    check_size(n_leaves, n_outputs)
    n_scored = sum(tree.score.shape[1] if tree.score.ndim == 2 else 1 for tree in trees)
    enough = not trees or n_outputs <= n_scored
    require(enough, f"{n_outputs} outputs, but scores for at most {n_scored}")

    listed, by_threshold = codes_by_feature(trees)
    known: dict[int, Mapping[int, Any]] = dict(categories or {})  # features may share one mapping
    for name, codes in listed.items():
        added = codes - known.get(name, {}).keys()
        if added or name not in known:
            known[name] = {**known.get(name, {}), **{code: code for code in added}}
    check_kinds(by_threshold, listed, known)
    sets = [
        (int(starts[index]) + node, codes)
        for index, tree in enumerate(trees)
        for node, codes in sorted(tree.sets.items())
    ]
    threshold[[node for node, _ in sets]] = np.arange(len(sets))
    set_starts, set_codes = flat_sets([codes for _, codes in sets])

    nodes = np.zeros(int(kept.sum()), dtype=NODE)
    nodes["threshold"] = threshold[kept]
    nodes["feature"] = np.where(split, feature, -1)[kept]
    nodes["missing"] = _concatenate([tree.missing for tree in trees], np.int64)[kept]
    nodes["left"] = np.where(split, place[np.where(split, left, 0)], np.cumsum(leaf) - 1)[kept]
    nodes["right"] = np.where(split, place[np.where(split, right, 0)], -1)[kept]

    scores = np.zeros((n_leaves, n_outputs))
    done, largest = 0, float(np.abs(np.asarray(fields.get("base_score", 0.0))).max())
    for index, tree in enumerate(trees):
        own = tree.score[leaf[starts[index] : starts[index + 1]]]
        if tree.score.ndim == 2:
            scores[done : done + len(own)] = own
        else:
            require(0 <= tree.output < n_outputs, f"tree {index} counts for output {tree.output}")
            scores[done : done + len(own), tree.output] = own
        largest += float(np.abs(own).max(initial=0.0))
        done += len(own)
    ensemble = Ensemble(
        nodes,
        place[starts[:-1]],
        scores,
        n_features=n_features,
        task=task,
        classes=classes,
        categories=known,
        set_starts=set_starts,
        set_codes=set_codes,
        **fields,
    )
    if not largest <= float(np.finfo(ensemble.sum_precision).max):
        # The library would decide by infinity or NaN.
        raise ModelError(
            f"the scores of the trees may add up to {largest:.3g}, more than "
            f"{ensemble.sum_precision} holds"
        )
    return ensemble


class _Nodes(NamedTuple):
    """The nodes of all trees."""

    starts: Ints  # where each tree begins, and the end
    feature: Ints
    left: Ints  # positions among all nodes
    right: Ints
    threshold: Floats
    kept: Bools  # reachable from the root of its tree


def _join(trees: Sequence[Tree]) -> _Nodes:
    """Concatenate trees; refuse a missing child, a cycle, a shared node or a NaN threshold."""
    sizes = np.array([len(tree.feature) for tree in trees], dtype=np.int64)
    require((sizes > 0).all(), "a tree has no nodes")
    starts = np.concatenate([[0], np.cumsum(sizes)])
    feature = _concatenate([tree.feature for tree in trees], np.int64)
    left = _concatenate([tree.left for tree in trees], np.int64)
    right = _concatenate([tree.right for tree in trees], np.int64)
    threshold = _concatenate([tree.threshold for tree in trees], np.float64)
    split, size = feature >= 0, np.repeat(sizes, sizes)
    for child in (left, right):
        outside = split & ((child < 0) | (child >= size))
        _refuse_where(outside, starts, "has a split whose child does not exist")
    offset = np.repeat(starts[:-1], sizes)
    left, right = left + offset, right + offset
    kept = np.zeros(len(feature), dtype=bool)
    front = starts[:-1]
    while len(front):
        kept[front] = True
        inner = front[split[front]]
        front = np.sort(np.concatenate([left[inner], right[inner]]))
        again = np.append(front[kept[front]], front[1:][front[1:] == front[:-1]])
        if len(again):
            index = int(np.searchsorted(starts, again[0], side="right")) - 1
            require(False, f"tree {index} has a node with two parents, or a cycle")
    for tree, start in zip(trees, starts.tolist(), strict=False):
        for node in (*tree.sets, *tree.pieces):  # their thresholds are unused
            threshold[start + node] = 0.0
    _refuse_where(kept & split & np.isnan(threshold), starts, "compares a feature with NaN")
    return _Nodes(starts, feature, left, right, threshold, kept)


def _refuse_where(bad: Bools, starts: Ints, what: str) -> None:
    """Refuse the first tree with a bad node."""
    if bad.any():
        index = int(np.searchsorted(starts, bad.argmax(), side="right")) - 1
        require(False, f"tree {index} {what}")


def _concatenate(parts: Iterable[npt.NDArray[Any]], kind: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.empty(0, dtype=kind), *parts])


def _expanded(trees: Sequence[Tree]) -> list[Tree]:
    """Replace nodes with n pieces by n - 1 nested `<=` splits, which copies their subtrees.

    All trees together may grow to `_COPIES` times their size.
    """
    limit = _COPIES_OF_SMALL + _COPIES * sum(len(tree.feature) for tree in trees)
    found = []
    for index, tree in enumerate(trees):
        grown = _expanded_tree(tree, limit) if tree.pieces else tree
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


def _expanded_tree(tree: Tree, limit: int) -> Tree | None:
    """Expand one tree; return None if that takes more than `limit` nodes.

    Each path tracks the interval (low, high] of every feature, and whether it may be NaN, so that
    unreachable subtrees are not copied.
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

    # Intervals of features on the path to the current node. A stack entry with node -1 restores the
    # interval from before its subtree was entered.
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
        kept = [i for i, keep in enumerate(is_kept) if keep]
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
