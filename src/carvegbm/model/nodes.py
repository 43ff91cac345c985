"""The layout of tree nodes, nested trees, and the checks that make arrays an ensemble.

A split compares a feature with a threshold, or looks a category up in a set. The array has one
field for both: it holds the threshold, or the number of the set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError, shown

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = [
    "MOST_CHARACTERS",
    "NODE",
    "TreeArrays",
    "arrays_of_trees",
    "check_arrays",
    "class_labels",
    "depth_first",
    "double",
    "nested_trees",
    "tree_of_node",
    "whole",
    "with_plain_leaves",
]

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

MOST_CHARACTERS = 1 << 22
"""Most characters of all class labels together; NumPy stores each as wide as the longest."""

_LEAF = (0.0, -1, -1, -1, -1)
_LEAVE = -1  # in place of a position: all descendants of this split are done


def whole(given: Any, what: str) -> int:
    """Return a whole number as int; refuse anything that int() would round."""
    try:
        number = int(given)
        if isinstance(given, str | bytes) or number != given:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} must be a whole number, got {shown(given)}") from None
    return number


def double(given: Any, what: str) -> float:
    """Return a number as float; refuse a whole number that float() would round."""
    try:
        number = float(given)
        if isinstance(given, str | bytes) or (isinstance(given, int) and int(number) != given):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{what} must be a number that a double holds, got {shown(given)}"
        ) from None
    return number


# ── nested trees ─────────────────────────────────────────────────────────────────────────────


class TreeArrays(NamedTuple):
    """Trees as flat arrays."""

    nodes: npt.NDArray[np.void]
    roots: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64]
    sets: list[list[int]]
    """The codes that go left, by the number of the set."""
    listed: dict[int, set[int]]
    """All codes that splits list, per feature that is split by sets."""
    by_threshold: set[int]
    """The features that are split by thresholds."""


def arrays_of_trees(trees: Sequence[Mapping[str, Any]]) -> TreeArrays:
    """Convert nested trees, in the form that `Ensemble.from_trees` describes."""
    rows: list[tuple[float, int, int, int, int]] = []
    scores: list[list[float]] = []
    roots: list[int] = []
    sets: list[list[int]] = []
    listed: dict[int, set[int]] = {}
    by_threshold: set[int] = set()
    for index, tree in enumerate(trees):
        roots.append(len(rows))
        rows.append(_LEAF)
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
                score = _leaf_scores(node["score"], index)
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
            rows.extend([_LEAF] * 2)
            try:
                feature = _feature(node["feature"])
                if "categories" in node:
                    cut = float(len(sets))
                    sets.append(_split_codes(node))
                    listed.setdefault(feature, set()).update(sets[-1])
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
    return TreeArrays(
        np.array(rows, dtype=NODE),
        np.array(roots, dtype=np.int32),
        np.array(scores, dtype=np.float64),
        sets,
        listed,
        by_threshold,
    )


def nested_trees(
    nodes: npt.NDArray[np.void],
    roots: npt.NDArray[np.int32],
    scores: npt.NDArray[np.float64],
    sets: Sequence[Sequence[int]] = (),
    categorical: Collection[int] = (),
) -> list[dict[str, Any]]:
    """Convert arrays to nested trees, the inverse of `arrays_of_trees`.

    The features in `categorical` are split by `sets`.
    """
    built: list[dict[str, Any]] = []
    for threshold, feature, left, _, missing in nodes.tolist():
        if feature < 0:
            score = scores[left].tolist()
            built.append({"score": score[0] if len(score) == 1 else score})
            continue
        if feature in categorical:
            built.append({"feature": feature, "categories": list(sets[int(threshold)])})
        else:
            built.append({"feature": feature, "threshold": threshold})
        if missing >= 0:
            built[-1]["missing"] = "left" if missing else "right"
    for tree, (_, feature, left, right, _) in zip(built, nodes.tolist(), strict=True):
        if feature >= 0:
            tree["left"], tree["right"] = built[left], built[right]
    return [built[root] for root in roots.tolist()]


def _feature(feature: Any) -> int:
    position = int(feature)
    if position != feature or not 0 <= position < 2**31:
        raise ValueError(f"feature {feature!r} is not a position >= 0")
    return position


def _split_codes(node: Mapping[str, Any]) -> list[int]:
    """Return the codes that a split lists, sorted and without duplicates."""
    if "threshold" in node:
        raise ValueError("it has both a threshold and categories")
    if isinstance(node["categories"], str | bytes):
        raise TypeError(f"categories must be a list of codes, got {node['categories']!r}")
    codes = {whole(code, "a category's code") for code in node["categories"]}
    if codes and not (min(codes) >= 0 and max(codes) < 2**31):
        raise ValueError(f"a category's code is >= 0 and < 2^31, got {min(codes)}…{max(codes)}")
    return sorted(codes)


def _leaf_scores(score: Any, tree: int) -> list[float]:
    try:
        scores = score if isinstance(score, list | tuple) else np.atleast_1d(score).tolist()
        return [double(s, "a score") for s in scores]
    except ModelError as error:
        raise ModelError(f"tree {tree}: {error}") from None
    except (TypeError, ValueError):
        raise ModelError(f"tree {tree}: a score must be a number or a list of numbers") from None


# ── order of nodes ───────────────────────────────────────────────────────────────────────────


def depth_first(nodes: npt.NDArray[np.void], roots: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """Return the positions of all nodes, tree by tree, in preorder, left before right."""
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


def tree_of_node(
    nodes: npt.NDArray[np.void], roots: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Return the tree of each node, or -1 if no root leads to it."""
    splits = np.flatnonzero(nodes["feature"] >= 0)
    ancestor = np.arange(len(nodes))
    for side in ("left", "right"):
        ancestor[nodes[side][splits]] = splits
    for _ in range(len(nodes).bit_length()):  # 1, 2, 4, … steps towards the root
        ancestor = ancestor[ancestor]
    owner = np.full(len(nodes), -1, dtype=np.int32)
    owner[roots] = np.arange(len(roots))
    return owner[ancestor]


# ── checks; the core relies on them ──────────────────────────────────────────────────────────

_CHOICES = {
    "task": ("binary", "multiclass", "regression"),
    "link": ("identity", "logistic", "softmax"),
    "tie": ("positive", "negative"),
    "compares": ("raw", "probability"),
    "absent": ("zero", "missing"),
    "input_precision": ("float64", "float32"),
    "sum_precision": ("float64", "float32"),
    "category_rule": ("label", "text", "truncate", "nonnegative"),
    "unknown_category": ("right", "missing"),
}


def with_plain_leaves(nodes: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Set the unused fields of all leaves, in place, so that equal trees are equal arrays."""
    leaf = nodes["feature"] < 0
    for name, value in (("feature", -1), ("threshold", 0.0), ("right", -1), ("missing", -1)):
        nodes[name][leaf] = value
    return nodes


def class_labels(
    task: str, n_outputs: int, classes: Sequence[Any] | npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """Return the class label of each output, 0, 1, … by default; refuse equal labels."""
    if task == "regression":
        return np.array([])
    expected = 2 if task == "binary" else n_outputs
    given = np.arange(expected) if classes is None else classes
    longest = max((len(label) for label in given if isinstance(label, str)), default=0)
    if longest * len(given) > MOST_CHARACTERS:
        raise ModelError(f"a class label has {longest} characters; use a shorter one")
    labels = np.array(given)
    if labels.dtype.kind == "f":
        labels[np.isnan(labels)] = np.nan  # one bit pattern, so that equal labels are equal bits
    try:
        if labels.shape == (expected,) and len(np.unique(labels)) == expected:
            return labels
    except TypeError:
        raise ModelError(
            f"classes must be labels that can be sorted, got {shown(labels.tolist())}; "
            "use only texts, or only numbers"
        ) from None
    raise ModelError(
        f"classes must be {expected} different labels, got {shown(labels.tolist())}; "
        "list them in the order of the model's outputs"
    )


def check_arrays(ensemble: Ensemble) -> None:
    """Raise `ModelError` unless the fields of the ensemble form trees with consistent options."""
    _check_options(ensemble)
    _check_numbers(ensemble)
    _check_nodes(ensemble)
    _check_sums(ensemble)


def _check_options(ensemble: Ensemble) -> None:
    for name, allowed in _CHOICES.items():
        given = getattr(ensemble, name)
        if not isinstance(given, str) or given not in allowed:
            *first, last = allowed
            raise ModelError(f"{name} must be {', '.join(first)} or {last}, got {shown(given)}")
    if ensemble.n_outputs != 1 and ensemble.task != "multiclass":
        raise ModelError(
            f"a {ensemble.task} ensemble has one score per leaf, got {ensemble.n_outputs}"
        )
    if ensemble.n_outputs < 2 and ensemble.task == "multiclass":
        raise ModelError("a multiclass ensemble needs at least two scores per leaf")
    if ensemble.compares == "probability" and (
        ensemble.link == "identity" or ensemble.threshold != 0
    ):
        raise ModelError(
            "compares='probability' needs the link logistic or softmax, and the threshold 0; got "
            f"{ensemble.link} and {ensemble.threshold}"
        )
    if ensemble.unknown_category != "right" and ensemble.category_rule != "label":
        raise ModelError(
            f"unknown_category {ensemble.unknown_category!r} needs the category_rule 'label', got "
            f"{ensemble.category_rule!r}"
        )
    if ensemble.feature_names is not None:
        if len(ensemble.feature_names) != ensemble.n_features:
            raise ModelError(
                f"{len(ensemble.feature_names)} feature names for {ensemble.n_features} features"
            )
        for name in ensemble.feature_names:
            if not isinstance(name, str):
                raise ModelError(f"a feature's name must be a text, got {shown(name)}")


def _check_numbers(ensemble: Ensemble) -> None:
    if not 0 < ensemble.link_scale < np.inf:
        raise ModelError(f"link_scale must be > 0 and finite, got {ensemble.link_scale}")
    if not 0 <= ensemble.n_features < 2**31:
        raise ModelError(f"n_features must be >= 0 and < 2^31, got {ensemble.n_features}")
    if ensemble.base_score.shape != (ensemble.n_outputs,):
        raise ModelError(
            f"base_score must be one number or one per output ({ensemble.n_outputs}), "
            f"got {ensemble.base_score.size}"
        )
    if not 1 <= ensemble.average < 2**31:
        raise ModelError(f"average must be >= 1 and < 2^31, got {ensemble.average}")
    if not np.isfinite(ensemble.threshold):
        raise ModelError(f"decision threshold must be finite, got {ensemble.threshold}")
    if not np.isfinite(ensemble.scores).all() or not np.isfinite(ensemble.base_score).all():
        raise ModelError("leaf and base scores must be finite numbers")


def _check_nodes(ensemble: Ensemble) -> None:
    is_leaf = ensemble.nodes["feature"] < 0
    splits, leaves = ensemble.nodes[~is_leaf], ensemble.nodes[is_leaf]
    if len(splits) and splits["feature"].max() >= ensemble.n_features:
        raise ModelError(
            f"a split tests feature {splits['feature'].max()}, "
            f"the ensemble has {ensemble.n_features} features"
        )
    if np.isnan(splits["threshold"]).any():
        raise ModelError("a split has the threshold NaN")
    with np.errstate(over="ignore"):
        narrow = splits["threshold"].astype(np.float32)
    numeric = ~np.isin(splits["feature"], np.array(list(ensemble.categories), dtype=np.int64))
    rounded = (narrow != splits["threshold"]) & numeric
    if ensemble.input_precision == "float32" and rounded.any():
        raise ModelError("a float32 ensemble needs float32 thresholds")
    rules = splits["missing"][~np.isin(splits["missing"], (-1, 0, 1))]
    if len(rules):
        raise ModelError(
            f"a split sends missing values to {rules[0]}; give 1 for left, 0 for right, "
            "-1 for no rule"
        )
    if not np.array_equal(np.sort(leaves["left"]), np.arange(ensemble.n_leaves)):
        raise ModelError(
            f"every leaf needs a row of its own in scores: {len(leaves)} leaves refer to "
            f"{len(np.unique(leaves['left']))} different rows, scores has {ensemble.n_leaves}"
        )
    size = len(ensemble.nodes)
    entries = np.concatenate([ensemble.roots, splits["left"], splits["right"]])
    outside = entries[(entries < 0) | (entries >= size)]
    fault = f"a reference to node {outside[0]} of {size} nodes" if len(outside) else None
    if fault is None:
        parents = np.bincount(entries, minlength=size)
        if (parents != 1).any():
            node = int(np.argmax(parents != 1))
            fault = f"{parents[node]} references to node {node}"
        elif (ensemble.tree_of_node < 0).any():
            fault = f"no root leads to node {np.argmax(ensemble.tree_of_node < 0)}"
    if fault is not None:
        raise ModelError(
            f"the nodes do not form trees, a child is shared, missing or cyclic: {fault}; every "
            "node must be a root or the child of one split"
        )


def _check_sums(ensemble: Ensemble) -> None:
    """Check that sums of scores stay in the range of doubles, whatever leaves are chosen."""
    is_leaf = ensemble.nodes["feature"] < 0
    largest = np.zeros(ensemble.n_trees)
    sizes = np.abs(ensemble.scores * 1e-10).sum(axis=1)[ensemble.nodes["left"][is_leaf]]
    np.maximum.at(largest, ensemble.tree_of_node[is_leaf], sizes)
    total = largest.sum() + np.abs(ensemble.base_score * 1e-10).sum()
    if total + abs(ensemble.threshold) * 1e-10 * ensemble.average > 1e290:
        raise ModelError("scores, base scores or a threshold beyond 1e300 cannot be added up")
