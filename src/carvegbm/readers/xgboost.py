"""XGBoost models: JSON and UBJSON files, Boosters and scikit-learn style estimators.

Comes in: the parsed document. Goes out: an `Ensemble` whose raw score equals
``Booster.predict(DMatrix(X), output_margin=True)`` bit for bit: a sum of float32 numbers from the
base margin on, in the order of the trees. (`inplace_predict`, which the estimators use, adds up a
dart booster in another order and may differ in the last rounding.)

- Inputs are float32 and x goes left iff x < condition, so the threshold is the next float32 below.
- A categorical split sends the codes it lists to the right, so its children are exchanged here; see
  `carvegbm.readers.xgboost_categories`.
- dart: every leaf is multiplied by its tree's weight, in float32. Nothing is dropped.
- `iteration_range` of a file is by default what XGBoost's estimators use of it: the attribute
  best_iteration + 1, where early stopping wrote it. `Booster.predict` uses all.
- base_score is stored as the objective's output; its margin is the logit, the logarithm, or itself.
- Objectives that transform the raw score by an increasing function (poisson, gamma, tweedie,
  survival) and those that rank are regression on the raw score: ranges of outputs are in raw space.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.checks import (
    Classes,
    count,
    name_of,
    numbers,
    refuse_override,
    whole_numbers,
)
from carvegbm.readers.trees import Tree, assemble, below, send
from carvegbm.readers.ubjson import decode
from carvegbm.readers.xgboost_categories import known_categories, listed_codes
from carvegbm.trees.iterations import IterationRange, Iterations
from carvegbm.trees.sets import Categories

__all__ = ["from_document", "from_estimator"]

_LOGIT = ("binary:logistic", "reg:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox")
_SAME = (
    "binary:hinge",
    "binary:logitraw",
    "multi:softmax",
    "multi:softprob",
    "rank:map",
    "rank:ndcg",
    "rank:pairwise",
    "reg:absoluteerror",
    "reg:linear",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "reg:squarederror",
    "reg:squaredlogerror",
)


def from_estimator(
    model: Any, classes: Classes, iteration_range: IterationRange = None
) -> Ensemble:
    """Read a Booster or a fitted estimator, with the iterations its own `predict` uses.

    A number that stands for missing values (`missing=` of an estimator) is honoured.
    """
    refuse_override(model, "xgboost", ("predict", "predict_proba", "get_booster", "save_raw"))
    if not hasattr(model, "get_booster"):
        return from_document(
            decode(bytes(model.save_raw("ubj"))),
            classes,
            iteration_range or "all",
            is_classifier=False,
        )
    try:
        booster = model.get_booster()
    except (AttributeError, ValueError):
        raise ModelError("the model is not fitted; call fit first") from None
    is_classifier = hasattr(model, "classes_")
    if classes is None and is_classifier:
        classes = model.classes_
    return from_document(
        decode(bytes(booster.save_raw("ubj"))),
        classes,
        iteration_range,
        missing=math.nan if model.missing is None else float(model.missing),
        is_classifier=is_classifier,
    )


def from_document(
    document: Any,
    classes: Classes,
    iteration_range: IterationRange = None,
    *,
    missing: float = math.nan,
    is_classifier: bool | None = None,
) -> Ensemble:
    """Read the content of a JSON or UBJSON model file.

    `is_classifier`: whether an XGBClassifier predicts with it; by default, what the file says.
    """
    if {"Model", "learner"} <= document.keys():
        raise ModelError(
            "has both 'Model' and 'learner', of which XGBoost reads one; it is damaged"
        )
    if "Model" in document:  # a snapshot of a Booster, with its configuration beside the model
        document = _inside(document, "Model")
    learner = _inside(document, "learner")
    model, weights = _trees_and_weights(_inside(learner, "gradient_booster"), document)
    stored = model.get("trees")
    if not isinstance(stored, list) or not all(isinstance(tree, dict) for tree in stored):
        raise ModelError("trees must be a list of trees; the file is damaged")
    groups = whole_numbers(model.get("tree_info"), len(stored), "tree_info")
    if weights is not None:
        weights = numbers(weights, len(stored), "weight_drop")
    parameters = _inside(learner, "learner_model_param")
    names = None if _is_empty(learner.get("feature_names")) else learner["feature_names"]
    if names is not None and not (
        isinstance(names, list) and all(isinstance(name, str) for name in names)
    ):
        raise ModelError("feature_names must be a list of names; the file is damaged")
    n_outputs = max(1, count(parameters, "num_class", "0"))
    if count(parameters, "num_target", "1") > 1:
        raise ModelError("predicts several targets at once; train a model per target")
    ends = _iteration_ends(model, len(stored), n_outputs)
    attributes = learner.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    if is_classifier is None:
        is_classifier = _is_classifier(attributes)
    iterations = chosen_iterations(iteration_range, len(ends) - 1, attributes)
    stored = stored[: ends[iterations.used]]
    objective = _inside(learner, "objective").get("name")
    version = document.get("version")
    if objective == "binary:logitraw" and not _is_at_least(version, 2):
        raise ModelError(
            "has the objective binary:logitraw, and versions before 2 disagree on its base_score; "
            "load it with xgboost and pass the Booster"
        )
    fitted = bool(stored) or parameters.get("boost_from_average", "1") == "0"
    n_features = count(parameters, "num_feature")
    trees = [_tree(i, tree, names, missing) for i, tree in enumerate(stored)]
    return build(
        trees,
        categories=known_categories(
            trees, learner.get("feature_types"), model.get("cats"), n_features
        ),
        groups=groups,
        weights=weights,
        base=_base_scores(parameters.get("base_score")),
        is_margin=not fitted,  # without a tree, XGBoost takes the number as it stands
        objective=objective,
        n_outputs=n_outputs,
        n_features=n_features,
        names=names,
        classes=classes,
        is_classifier=is_classifier,
        iterations=iterations,
    )


def _trees_and_weights(
    booster: Mapping[str, Any], document: Mapping[str, Any]
) -> tuple[dict[str, Any], Any]:
    """The part with the trees, and the weights of the trees, or None; by name, as XGBoost goes."""
    name = booster.get("name")
    if name == "gblinear":
        raise ModelError("is a linear model (gblinear), not trees; train with booster='gbtree'")
    if name not in ("gbtree", "dart"):
        raise ModelError(f"has a booster of the unknown name {str(name)[:40]!r}; it is damaged")
    is_dart = name == "dart"
    if not is_dart and ("gbtree" in booster or not _is_empty(booster.get("weight_drop"))):
        raise ModelError("is a gbtree with fields of a dart, which XGBoost ignores; it is damaged")
    model = _inside(_inside(booster, "gbtree") if is_dart else booster, "model")
    weights, own = booster.get("weight_drop"), model.get("weight_drop")
    if _is_empty(own):
        return model, (weights if weights is not None or not is_dart else [])
    # Since version 3.4, dart is called gbtree, and its weights are there; others ignore them.
    if is_dart or not _is_at_least(document.get("version"), 3, 4):
        raise ModelError("has weights of trees (weight_drop) that XGBoost ignores; it is damaged")
    return model, own


def _is_classifier(attributes: Mapping[str, Any]) -> bool:
    """Whether XGBClassifier saved the file, by the attribute that it writes."""
    try:
        saved = json.loads(attributes["scikit_learn"])
        return bool(saved["_estimator_type"] == "classifier")
    except (LookupError, TypeError, ValueError, RecursionError):
        return False


def _iteration_ends(
    model: Mapping[str, Any], n_trees: int, n_outputs: int
) -> npt.NDArray[np.int64]:
    """Numbers of trees after 0, 1, … iterations; they are stored since XGBoost 2."""
    if not _is_empty(model.get("iteration_indptr")):
        ends = whole_numbers(model["iteration_indptr"], None, "iteration_indptr")
    else:
        parallel = count(_inside(model, "gbtree_model_param"), "num_parallel_tree", "1")
        ends = np.arange(0, n_trees + 1, n_outputs * max(1, parallel))
    if ends[0] != 0 or ends[-1] != n_trees or (np.diff(ends) < 1).any():
        raise ModelError(
            f"has {n_trees} trees, but its iterations have another number; it is damaged"
        )
    return ends


def chosen_iterations(
    requested: IterationRange, total: int, attributes: Mapping[str, Any]
) -> Iterations:
    """Choose iterations of a model with these attributes."""
    if "best_iteration" not in attributes:
        return Iterations.chosen(requested, total)
    best = count(attributes, "best_iteration") + 1
    if best > total:
        raise ModelError(
            f"best_iteration is {best - 1}, and there are {total} iterations; the file is damaged"
        )
    return Iterations.chosen(requested, total, best)


def build(
    trees: Sequence[Tree],
    *,
    groups: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64] | None,
    base: Sequence[float],
    is_margin: bool,
    objective: Any,
    n_outputs: int,
    n_features: int,
    names: Sequence[str] | None,
    classes: Classes,
    iterations: Iterations,
    is_classifier: bool = False,
    categories: Categories | None = None,
) -> Ensemble:
    """Join trees; `base` is what the model stores as base_score, or `is_margin` already."""
    if objective not in _LOGIT + _LOG + _SAME:
        raise ModelError(
            f"has the unknown objective {str(objective)[:60]!r}, whose base margin is not known; "
            "save it with a standard objective"
        )
    if is_classifier and n_outputs == 1 and objective in _LOG:
        # XGBClassifier.predict takes the exponential for a probability and compares it with 1/2.
        raise ModelError(
            f"is a classifier with the objective {objective!r}, whose output is no probability; "
            "train with objective='binary:logistic'"
        )
    if len(base) not in (1, n_outputs):
        raise ModelError(
            f"base_score has {len(base)} values for {n_outputs} outputs; it is damaged"
        )
    fields: dict[str, Any] = {"task": "regression"}
    if n_outputs > 1 or objective.startswith("multi:"):
        fields = {"task": "multiclass"}
        if objective.startswith("multi:"):
            fields["link"] = "softmax"
        if objective == "multi:softprob":
            fields["compares"] = "probability"
    elif objective in _LOGIT:
        fields = {"task": "binary", "link": "logistic", "tie": "negative"}
        fields["compares"] = "probability"
    elif objective == "binary:logitraw":
        fields = {"task": "binary", "link": "logistic", "tie": "negative"}
    elif objective == "binary:hinge":
        fields = {"task": "binary", "tie": "negative"}
    is_multiclass = fields["task"] == "multiclass"
    if is_classifier and not is_multiclass and objective not in (*_LOGIT, "binary:hinge"):
        # XGBClassifier.predict is the second class iff the output is > 0.5.
        fields |= {"task": "binary", "threshold": 0.5, "tie": "negative"}
    scored = [replace(tree, output=int(group)) for tree, group in zip(trees, groups, strict=False)]
    if weights is not None:
        drop = np.float32(weights)
        scored = [
            replace(tree, score=(np.float32(tree.score) * drop[i]).astype(np.float64))
            for i, tree in enumerate(scored)
        ]
    return assemble(
        scored,
        n_outputs=n_outputs,
        n_features=n_features,
        feature_names=names,
        classes=classes,
        base_score=[value if is_margin else _margin(value, objective) for value in base],
        input_precision="float32",
        sum_precision="float32",
        categories=categories,
        category_rule="nonnegative",
        absent="missing",
        iterations=iterations,
        **fields,
    )


def translate(
    index: int,
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
    feature: npt.NDArray[np.int64],
    condition: npt.NDArray[np.float64],
    default_left: npt.NDArray[np.int64],
    *,
    missing: float = math.nan,
) -> Tree:
    """Tree `index` from XGBoost's arrays over nodes; a leaf has no left child, and a score."""
    is_leaf = left < 0
    if (left < -1).any():
        raise ModelError(f"tree {index} points to node {left.min()}; the file is damaged")
    if (feature[~is_leaf] < 0).any():
        raise ModelError(f"tree {index} tests a negative feature; the file is damaged")
    with np.errstate(over="ignore"):
        condition = np.asarray(condition, dtype=np.float32).astype(np.float64)
        missing = float(np.float32(missing))
    tree = Tree(
        np.where(is_leaf, -1, feature),
        below(condition, "float32"),
        left,
        right,
        (default_left != 0).astype(np.int64),
        condition,
    )
    if math.isnan(missing):
        return tree
    return send(tree, default_left != 0, low=missing, high=missing, precision="float32")


def _tree(index: int, tree: Mapping[str, Any], names: Sequence[str] | None, missing: float) -> Tree:
    """A tree in a document; refuses what is not a split or a score."""
    left = whole_numbers(tree.get("left_children"), None, f"tree {index}: left_children")
    size = len(left)

    def whole(key: str) -> npt.NDArray[np.int64]:
        return whole_numbers(tree.get(key), size, f"tree {index}: {key}")

    parameters = tree.get("tree_param")
    if isinstance(parameters, Mapping) and count(parameters, "size_leaf_vector", "0") > 1:
        raise ModelError(
            f"tree {index} has a vector in every leaf (multi_output_tree), which is not read; "
            "train with multi_strategy='one_output_per_tree'"
        )
    feature, right = whole("split_indices"), whole("right_children")
    condition = numbers(tree.get("split_conditions"), size, f"tree {index}: split_conditions")
    sets = listed_codes(index, tree, left >= 0)
    if sets and not math.isnan(missing):
        raise ModelError(
            f"takes {missing} for a missing value, and tree {index} has a categorical split on "
            f"feature {name_of(int(feature[min(sets)]), names)!r}; train with missing values as NaN"
        )
    found = translate(
        index, left, right, feature, condition, whole("default_left"), missing=missing
    )
    return _exchanged(found, sets) if sets else found


def _exchanged(tree: Tree, sets: Mapping[int, npt.NDArray[np.int64]]) -> Tree:
    """The tree whose splits by categories, which send these to the right, send them to the left."""
    by_set = np.zeros(len(tree.feature), dtype=bool)
    by_set[list(sets)] = True
    return replace(
        tree,
        left=np.where(by_set, tree.right, tree.left),
        right=np.where(by_set, tree.left, tree.right),
        missing=np.where(by_set, 1 - tree.missing, tree.missing),
        sets=sets,
    )


def _margin(value: float, objective: str) -> float:
    """The margin of a base_score, in float32 as XGBoost computes it."""
    number = np.float32(value)
    if objective in _LOGIT:
        edge = np.float32(1e-6)
        number = min(max(number, edge), np.float32(1) - edge)
        return -_logf(np.float32(1) / number - np.float32(1))
    if objective in _LOG:
        if not number > 0:
            raise ModelError(f"base_score {value} has no logarithm, {objective} needs it; damaged")
        return _logf(number)
    return float(number)


def _logf(number: np.float32) -> float:
    """The C library's logf, which XGBoost calls; it is not always correctly rounded."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):
        return float(np.float32(math.log(number)))
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return float(logf(float(number)))


def _base_scores(text: Any) -> list[float]:
    """The numbers in "5E-1", or since version 3.1 in "[5E-1,2E-1]", one per output."""
    try:
        found = [float(part) for part in str(text).strip().strip("[]").split(",")]
        if "_" in str(text) or not str(text).isascii():
            raise ValueError
    except ValueError:
        found = [math.nan]
    if not all(map(math.isfinite, found)):
        raise ModelError(f"base_score is {str(text)[:60]!r}, not a number; the file is damaged")
    return found


def _inside(document: Any, key: str) -> dict[str, Any]:
    part = document.get(key) if isinstance(document, dict) else None
    if not isinstance(part, dict):
        raise ModelError(f"has no {key!r}; the file is damaged or not an XGBoost model")
    return part


def _is_at_least(version: Any, *least: int) -> bool:
    if not _is_list(version) or len(version) < len(least):
        return False
    parts = [part for part in version if isinstance(part, (int, np.integer))]
    return len(parts) == len(version) and tuple(parts) >= least


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, np.ndarray))


def _is_empty(value: Any) -> bool:
    return value is None or (_is_list(value) and len(value) == 0)
