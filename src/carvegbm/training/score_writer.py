"""Write new leaf scores into copies of existing models.

LightGBM's models are changed leaf by leaf, XGBoost's through their JSON, whose scores are float32
numbers; any other model becomes an `Ensemble`. Every copy is read again, and must be the ensemble
with the scores it was given.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError, ModelError
from carvegbm.model.ensemble import Ensemble
from carvegbm.readers import lightgbm_text, load, xgboost_json
from carvegbm.training.dataset import spaced_rows
from carvegbm.training.model import objective_of, stored_scores

__all__ = ["objective_name", "open_model", "round_scores", "write_scores"]

Floats = npt.NDArray[np.float64]


def open_model(model: Any) -> Any:
    """Return the Booster that a file holds; any other model is returned as it is."""
    if not isinstance(model, (str, os.PathLike)):
        return model
    path = os.fsdecode(model)
    text = lightgbm_text(path)
    if text is not None:
        import lightgbm

        return lightgbm.Booster(model_str=text.replace("\r\n", "\n"))
    data = xgboost_json(path)
    if data is None:
        return model
    try:
        import xgboost
    except ImportError:
        raise CarveError(
            "a refitted XGBoost model needs xgboost; pip install xgboost, or pass "
            "carvegbm.load(model) for an Ensemble"
        ) from None
    try:
        return xgboost.Booster(model_file=bytearray(data))
    except xgboost.core.XGBoostError as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(
            f"xgboost cannot open the model ({reason}); pass carvegbm.load(model) for an Ensemble"
        ) from None


def _booster_of(model: Any) -> Any:
    """Return the Booster of a model of LightGBM, XGBoost or carvegbm, else None."""
    if hasattr(model, "get_booster"):
        return model.get_booster()
    booster = getattr(model, "booster_", model)
    return booster if hasattr(booster, "model_to_string") or _is_xgboost(booster) else None


def _is_xgboost(booster: Any) -> bool:
    return hasattr(booster, "save_raw")


def objective_name(model: Any) -> str:
    """Return what the model was trained to minimise, in its library's words; "" if unknown."""
    booster = _booster_of(model)
    if booster is None:
        name = getattr(model, "loss", getattr(model, "criterion", ""))
        return name if isinstance(name, str) else ""
    if _is_xgboost(booster):
        return str(json.loads(booster.save_config())["learner"]["objective"]["name"])
    return objective_of(booster.model_to_string())


def round_scores(model: Any, scores: Floats) -> Floats:
    """Return the scores as the model's format stores them."""
    booster = _booster_of(model)
    if booster is None:
        return scores
    if not _is_xgboost(booster):
        return stored_scores(scores)
    with np.errstate(over="ignore", under="ignore"):
        return scores.astype(np.float32).astype(np.float64)


def write_scores(model: Any, ensemble: Ensemble, scores: Floats, X: npt.NDArray[Any]) -> Any:
    """Return a copy of `model`, which `ensemble` was read from, with these scores.

    XGBoost's raw scores of the copy are checked on rows of X.
    """
    booster, expected = _booster_of(model), ensemble.with_scores(scores)
    if booster is None:
        return expected
    write = _write_xgboost if _is_xgboost(booster) else _write_lightgbm
    written = write(booster, ensemble, scores)
    labels = None if ensemble.task == "regression" else ensemble.classes.tolist()
    if load(written, classes=labels) != expected:
        raise _not_by_leaf()
    if _is_xgboost(booster):
        _check_margins(written, expected, X[spaced_rows(len(X))])
    if not hasattr(model, "ensemble_"):
        return written
    fitted = copy(model)
    fitted.__dict__.pop("training_report_", None)  # it describes other scores
    fitted.booster_ = written
    fitted.ensemble_ = model.ensemble_.with_scores(scores)
    return fitted


def _not_by_leaf() -> ModelError:
    """The error if a reader had to change the shape of a tree."""
    return ModelError("its trees cannot be written back leaf by leaf; pass carvegbm.load(model)")


def _write_lightgbm(booster: Any, ensemble: Ensemble, scores: Floats) -> Any:
    import lightgbm

    text = booster.model_to_string()
    is_leaf = ensemble.nodes["feature"] < 0
    leaves = np.bincount(ensemble.tree_of_node[is_leaf], minlength=ensemble.n_trees).tolist()
    if leaves != [int(n) for n in re.findall(r"^num_leaves=(\d+)", text, re.MULTILINE)]:
        raise _not_by_leaf()
    written = lightgbm.Booster(model_str=text)
    for tree, own in enumerate(np.split(scores, np.cumsum(leaves)[:-1])):
        for leaf, score in enumerate(own[:, tree % ensemble.n_outputs].tolist()):
            written.set_leaf_output(tree, leaf, score)
    return written


def _write_xgboost(booster: Any, ensemble: Ensemble, scores: Floats) -> Any:
    document, n_trees = json.loads(bytes(booster.save_raw("json"))), ensemble.n_trees
    holder = document["learner"]["gradient_booster"]
    model = (holder["gbtree"] if holder["name"] == "dart" else holder)["model"]
    for weights in (holder, model):  # the scores contain the weights of dart's trees
        if "weight_drop" in weights:
            weights["weight_drop"][:n_trees] = [1.0] * n_trees
    row = 0
    # An estimator that stopped early keeps trees that its ensemble does not use.
    for tree, output in zip(model["trees"][:n_trees], model["tree_info"], strict=False):
        leaves = _reachable_leaves(tree)
        own = scores[row : row + len(leaves), output].astype(np.float32)
        if len(own) < len(leaves):
            raise _not_by_leaf()
        for node, score in zip(leaves, own, strict=True):
            tree["split_conditions"][node] = float(str(score))  # shortest, as XGBoost writes it
        row += len(leaves)
    written = booster.copy()
    written.load_model(bytearray(json.dumps(document).encode()))
    used = ensemble.iterations  # a Booster predicts with all its trees
    return written if used is None else written[: used.used]


def _reachable_leaves(tree: Mapping[str, Any]) -> list[int]:
    """Return the leaves that a row can reach, in the order of the tree's nodes."""
    left, right = tree["left_children"], tree["right_children"]
    found, pending = [], [0]
    while pending:
        node = pending.pop()
        if left[node] < 0:
            found.append(node)
        else:
            pending += [left[node], right[node]]
    return sorted(found)


def _check_margins(booster: Any, expected: Ensemble, rows: npt.NDArray[Any]) -> None:
    import xgboost

    matrix = xgboost.DMatrix(rows, feature_names=booster.feature_names)
    margins = booster.predict(matrix, output_margin=True).astype(np.float64)
    if not np.array_equal(margins, expected.raw_score(rows)):
        raise ModelError(
            "xgboost has other raw scores for the rewritten model than its trees; pass "
            "carvegbm.load(model)"
        )
