"""What makes arrays an ensemble of trees; the core relies on all that is checked here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.errors import ModelError, shown

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["check_trees", "double", "whole"]


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


def check_trees(ensemble: Ensemble) -> None:
    """Refuse arrays that are not a set of trees; the core relies on what is checked here."""
    if ensemble.task not in ("binary", "multiclass", "regression"):
        raise ModelError(f"task must be binary, multiclass or regression, got {ensemble.task!r}")
    if ensemble.n_outputs != 1 and ensemble.task != "multiclass":
        raise ModelError(
            f"a {ensemble.task} ensemble has one score per leaf, got {ensemble.n_outputs}"
        )
    if ensemble.n_outputs < 2 and ensemble.task == "multiclass":
        raise ModelError("a multiclass ensemble needs at least two scores per leaf")
    if ensemble.link not in ("identity", "logistic", "softmax"):
        raise ModelError(f"link must be identity, logistic or softmax, got {ensemble.link!r}")
    if ensemble.tie not in ("positive", "negative"):
        raise ModelError(f"tie must be positive or negative, got {ensemble.tie!r}")
    if ensemble.compares not in ("raw", "probability"):
        raise ModelError(f"compares must be raw or probability, got {ensemble.compares!r}")
    if ensemble.compares == "probability" and (
        ensemble.link == "identity" or ensemble.threshold != 0
    ):
        raise ModelError(
            "an ensemble that compares probabilities needs the link logistic or softmax, and the "
            f"threshold 0; got {ensemble.link} and {ensemble.threshold}"
        )
    if not 0 < ensemble.link_scale < np.inf:
        raise ModelError(f"link_scale must be > 0 and finite, got {ensemble.link_scale}")
    for precision in (ensemble.input_precision, ensemble.sum_precision):
        if precision not in ("float64", "float32"):
            raise ModelError(f"precision must be float64 or float32, got {precision!r}")
    if not 0 <= ensemble.n_features < 2**31:
        raise ModelError(f"n_features must be >= 0 and < 2^31, got {ensemble.n_features}")
    if ensemble.base_score.shape != (ensemble.n_outputs,):
        raise ModelError(
            f"base_score must be one number or one per output ({ensemble.n_outputs}), "
            f"got {ensemble.base_score.size}"
        )
    if not 1 <= ensemble.average < 2**31:
        raise ModelError(f"average must be >= 1 and < 2^31, got {ensemble.average}")
    if ensemble.feature_names is not None and len(ensemble.feature_names) != ensemble.n_features:
        raise ModelError(
            f"{len(ensemble.feature_names)} feature names for {ensemble.n_features} features"
        )
    if not np.isfinite(ensemble.threshold):
        raise ModelError(f"decision threshold must be finite, got {ensemble.threshold}")
    if not np.isfinite(ensemble.scores).all() or not np.isfinite(ensemble.base_score).all():
        raise ModelError("leaf and base scores must be finite numbers")
    is_leaf = ensemble.nodes["feature"] < 0
    splits, leaves = ensemble.nodes[~is_leaf], ensemble.nodes[is_leaf]
    if len(splits) and splits["feature"].max() >= ensemble.n_features:
        raise ModelError(
            f"a split tests feature {splits['feature'].max()}, "
            f"the ensemble has {ensemble.n_features} features"
        )
    if np.isnan(splits["threshold"]).any():
        raise ModelError("a split has the threshold NaN")
    if (
        ensemble.input_precision == "float32"
        and (splits["threshold"].astype(np.float32) != splits["threshold"]).any()
    ):
        raise ModelError("a float32 ensemble needs float32 thresholds")
    if not np.array_equal(np.sort(leaves["left"]), np.arange(ensemble.n_leaves)):
        raise ModelError("every leaf needs a row of its own in scores")
    # Every node has exactly one way in, and is reached from a root: the nodes are trees.
    entries = np.concatenate([ensemble.roots, splits["left"], splits["right"]])
    if (
        not np.array_equal(np.sort(entries), np.arange(len(ensemble.nodes)))
        or (ensemble.tree_of_node < 0).any()
    ):
        raise ModelError("the nodes do not form trees: a child is shared, missing or cyclic")
    # Sums of scores must not leave the range of doubles, whatever leaves are chosen.
    largest = np.zeros(ensemble.n_trees)
    sizes = np.abs(ensemble.scores * 1e-10).sum(axis=1)[leaves["left"]]
    np.maximum.at(largest, ensemble.tree_of_node[is_leaf], sizes)
    total = largest.sum() + np.abs(ensemble.base_score * 1e-10).sum()
    if total + abs(ensemble.threshold) * 1e-10 * ensemble.average > 1e290:
        raise ModelError("scores, base scores or a threshold beyond 1e300 cannot be added up")
