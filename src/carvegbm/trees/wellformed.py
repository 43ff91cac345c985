"""What makes arrays an ensemble of trees; the core relies on all that is checked here.

Comes in: what `Ensemble` is given. Goes out: numbers, labels and nodes as it keeps them, or a
`ModelError` that names what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError, shown

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["MOST_CHARACTERS", "check_trees", "double", "labels_of", "whole", "with_plain_leaves"]

MOST_CHARACTERS = 1 << 22
"""Of all class labels together, as numpy holds them: each as wide as the longest."""


def whole(given: Any, what: str) -> int:
    """A whole number as it is given, not as rounding would make it."""
    try:
        number = int(given)
        if isinstance(given, str | bytes) or number != given:
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ModelError(f"{what} must be a whole number, got {shown(given)}") from None
    return number


def double(given: Any, what: str) -> float:
    """A number that is a double, as it is given."""
    try:
        number = float(given)
        if isinstance(given, str | bytes) or (isinstance(given, int) and int(number) != given):
            raise ValueError
    except (TypeError, ValueError, OverflowError):
        raise ModelError(
            f"{what} must be a number that a double holds, got {shown(given)}"
        ) from None
    return number


def labels_of(
    task: str, n_outputs: int, classes: Sequence[Any] | npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """The labels of an ensemble by output, 0, 1, … where none are given."""
    if task == "regression":
        return np.array([])
    expected = 2 if task == "binary" else n_outputs
    given = np.arange(expected) if classes is None else classes
    longest = max((len(label) for label in given if isinstance(label, str)), default=0)
    if longest * len(given) > MOST_CHARACTERS:
        raise ModelError(f"a class is called by {longest} characters; give it a shorter name")
    labels = np.array(given)
    if labels.dtype.kind == "f":
        labels[np.isnan(labels)] = np.nan  # one of the many, so that equal labels are equal bits
    try:
        if labels.shape == (expected,) and len(np.unique(labels)) == expected:
            return labels
    except TypeError:
        raise ModelError(
            f"classes must be labels that can be put in an order, got {shown(labels.tolist())}; "
            "name them all by texts, or all by numbers"
        ) from None
    raise ModelError(
        f"classes must be {expected} different labels, got {shown(labels.tolist())}; "
        "name them in the order of the model's outputs"
    )


def with_plain_leaves(nodes: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """The same array, in which a leaf's fields without a meaning hold what they always hold."""
    leaf = nodes["feature"] < 0
    for name, value in (("feature", -1), ("threshold", 0.0), ("right", -1), ("missing", -1)):
        nodes[name][leaf] = value
    return nodes


def check_trees(ensemble: Ensemble) -> None:
    """Refuse arrays that are not a set of trees; the core relies on what is checked here."""
    _check_options(ensemble)
    _check_numbers(ensemble)
    _check_nodes(ensemble)
    _check_sums(ensemble)


_OPTIONS = {
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


def _check_options(ensemble: Ensemble) -> None:
    for name, allowed in _OPTIONS.items():
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
            "an ensemble that compares probabilities needs the link logistic or softmax, and the "
            f"threshold 0; got {ensemble.link} and {ensemble.threshold}"
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
    unruly = splits["missing"][~np.isin(splits["missing"], (-1, 0, 1))]
    if len(unruly):
        raise ModelError(
            f"a split sends missing values to {unruly[0]}; give 1 for left, 0 for right, "
            "-1 for no rule"
        )
    if not np.array_equal(np.sort(leaves["left"]), np.arange(ensemble.n_leaves)):
        raise ModelError(
            f"every leaf needs a row of its own in scores: {len(leaves)} leaves refer to "
            f"{len(np.unique(leaves['left']))} different rows, scores has {ensemble.n_leaves}"
        )
    fault = _fault(ensemble, np.concatenate([ensemble.roots, splits["left"], splits["right"]]))
    if fault is not None:
        raise ModelError(
            f"the nodes do not form trees, a child is shared, missing or cyclic: {fault}; let one "
            "way lead to every node, from its parent or as a root"
        )


def _fault(ensemble: Ensemble, entries: npt.NDArray[np.int32]) -> str | None:
    """Which node keeps the nodes from being trees; `entries` are the positions of all ways in."""
    size = len(ensemble.nodes)
    outside = entries[(entries < 0) | (entries >= size)]
    if len(outside):
        return f"a way leads to node {outside[0]} of {size} nodes"
    ways = np.bincount(entries, minlength=size)
    if (ways != 1).any():
        node = int(np.argmax(ways != 1))
        return f"{ways[node]} ways lead to node {node}"
    if (ensemble.tree_of_node < 0).any():
        return f"no root leads to node {np.argmax(ensemble.tree_of_node < 0)}"
    return None


def _check_sums(ensemble: Ensemble) -> None:
    """Sums of scores must not leave the range of doubles, whatever leaves are chosen."""
    is_leaf = ensemble.nodes["feature"] < 0
    largest = np.zeros(ensemble.n_trees)
    sizes = np.abs(ensemble.scores * 1e-10).sum(axis=1)[ensemble.nodes["left"][is_leaf]]
    np.maximum.at(largest, ensemble.tree_of_node[is_leaf], sizes)
    total = largest.sum() + np.abs(ensemble.base_score * 1e-10).sum()
    if total + abs(ensemble.threshold) * 1e-10 * ensemble.average > 1e290:
        raise ModelError("scores, base scores or a threshold beyond 1e300 cannot be added up")
