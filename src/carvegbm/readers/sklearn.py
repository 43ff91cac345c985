"""scikit-learn estimators: trees, forests, GradientBoosting and HistGradientBoosting.

The raw score equals, bit for bit,

- `predict_proba` of tree and forest classifiers (a score per class, also for two classes; forests
  with ``n_jobs > 1`` may add up their trees in another order and differ in the last rounding),
- `predict` of tree and forest regressors,
- `decision_function` of boosting classifiers and the raw prediction of boosting regressors, before
  the exponential of the losses gamma and poisson: ranges of outputs are in raw space.

Trees, forests and GradientBoosting round inputs to float32 and compare them with double thresholds,
so the threshold is the largest float32 below or at it. HistGradientBoosting compares doubles. NaN
has a rule if the estimator's own `predict` accepts it.

HistGradientBoosting puts its categorical columns first and numbers the categories of each by an
OrdinalEncoder; a split has 256 bits, and category i goes left iff bit i is 1. A value that the
encoder does not know becomes NaN, so that it goes where missing values go. If all categories of a
feature are whole numbers >= 0, these are the codes here, so that a matrix of numbers is one of
codes; otherwise the code is the encoder's number.

Unsupported models are refused by structure, not by version: an unknown field of a node that is not
0 throughout may change where a row goes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError, shown
from carvegbm.model.categories import MOST_CODES, plain
from carvegbm.model.ensemble import Ensemble
from carvegbm.readers.common import (
    Bools,
    Classes,
    Ints,
    Tree,
    assemble,
    below,
    name_of,
    refuse_override,
    require,
    set_bits,
)

__all__ = ["from_estimator"]

_TREES = ("DecisionTree", "ExtraTree")
_FORESTS = ("RandomForest", "ExtraTrees")
_BOOSTED = ("GradientBoosting",)
_HISTOGRAM = ("HistGradientBoosting",)
_METHODS = (
    "predict",
    "predict_proba",
    "decision_function",
    "_raw_predict",
    "_raw_predict_init",
    "_preprocess_X",
    "_predict_iterations",
    "_validate_X_predict",
)
_STATE = {"max_depth", "node_count", "nodes", "values"}
_NODE = {"left_child", "right_child", "feature", "threshold", "missing_go_to_left", "impurity"}
_NODE |= {"n_node_samples", "weighted_n_node_samples"}
_PREDICTOR = {"nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets"}
_PREDICTOR_NODE = {"value", "feature_idx", "num_threshold", "missing_go_to_left", "left", "right"}
_PREDICTOR_NODE |= {"is_leaf", "is_categorical", "bitset_idx", "bin_threshold"}
_PREDICTOR_NODE |= {"count", "gain", "depth"}
_SHARED = "split_value"  # where scikit-learn 1.10 keeps a threshold, or a set of categories


def from_estimator(model: Any, classes: Classes) -> Ensemble:
    """Read a fitted estimator."""
    family = _family(model)
    if family is None:
        raise ModelError(_refusal(type(model).__name__))
    fitted = {_TREES: "tree_", _HISTOGRAM: "_predictors"}.get(family, "estimators_")
    if not hasattr(model, fitted):
        raise ModelError("the estimator is not fitted; call fit first")
    refuse_override(model, "sklearn", _METHODS)
    if getattr(model, "n_outputs_", 1) != 1:
        raise ModelError(f"predicts {model.n_outputs_} outputs at once; train a model per output")
    if classes is None:
        classes = getattr(model, "classes_", None)
    if family is _HISTOGRAM:
        return _histogram(model, classes)
    if family is _BOOSTED:
        return _boosted(model, classes)
    return _averaged(model, [model] if family is _TREES else model.estimators_, classes)


def _averaged(model: Any, members: list[Any], classes: Classes) -> Ensemble:
    is_classifier = hasattr(model, "classes_")
    n_outputs = len(model.classes_) if is_classifier else 1
    has_rule = members[0]._support_missing_values(np.zeros((1, 1)))
    _check_trees(model, members)
    return assemble(
        [_tree(member.tree_, has_rule, n_outputs if is_classifier else None) for member in members],
        n_outputs=n_outputs,
        task="multiclass" if is_classifier else "regression",
        classes=classes,
        average=len(members),
        input_precision="float32",
        **_features(model),
    )


def _boosted(model: Any, classes: Classes) -> Ensemble:
    start = model.init_
    constant = ("prior", "most_frequent", "constant", "mean", "median", "quantile")
    if not (
        (isinstance(start, str) and start == "zero")
        or (
            type(start).__module__ == "sklearn.dummy"
            and getattr(start, "strategy", None) in constant
        )
    ):
        raise ModelError(
            f"starts from init={type(start).__name__}, whose predictions are not one constant; "
            "train with init='zero' or without init"
        )
    members = np.asarray(model.estimators_)
    _check_trees(model, members.ravel().tolist())
    n_outputs = members.shape[1]
    base = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))[0]
    trees = [
        _tree(member.tree_, False, None, scale=float(model.learning_rate), output=output)
        for stage in members
        for output, member in enumerate(stage)
    ]
    return assemble(
        trees,
        n_outputs=n_outputs,
        classes=classes,
        base_score=base,
        input_precision="float32",
        **_link(model, n_outputs),
        **_features(model),
    )


def _histogram(model: Any, classes: Classes) -> Ensemble:
    fields = _features(model)
    known = None
    if getattr(model, "_is_categorical_remapped", None) is None:
        _refuse_preprocessing(model)
    else:
        known = _encoding(model, fields["feature_names"])
        fields |= {"categories": known.categories, "unknown_category": "missing"}
    trees: list[Tree] = []
    for stage in model._predictors:
        for output, predictor in enumerate(stage):
            _check_fields(len(trees), vars(predictor), _PREDICTOR)
            _check_fields(len(trees), _by_field(predictor.nodes), _PREDICTOR_NODE)
            trees.append(_predictor(len(trees), predictor, output, known))
    n_outputs = int(model.n_trees_per_iteration_)
    return assemble(
        trees,
        n_outputs=n_outputs,
        classes=classes,
        base_score=np.broadcast_to(np.asarray(model._baseline_prediction).ravel(), (n_outputs,)),
        **_link(model, n_outputs),
        **fields,
    )


def _predictor(index: int, predictor: Any, output: int, known: _Encoding | None) -> Tree:
    """Read a tree of HistGradientBoosting."""
    nodes = predictor.nodes
    split = nodes["is_leaf"] == 0
    feature = np.where(split, nodes["feature_idx"], 0).astype(np.int64)
    if known is not None:
        feature = known.columns[feature]
    by_set = np.flatnonzero(split & (nodes["is_categorical"] != 0)).tolist()
    if by_set and known is None:
        _refuse_split(index, str(feature[by_set[0]]))
    bits = predictor.raw_left_cat_bitsets
    return Tree(
        np.where(split, feature, -1),
        nodes["num_threshold"].astype(np.float64),
        nodes["left"].astype(np.int64),
        nodes["right"].astype(np.int64),
        (nodes["missing_go_to_left"] != 0).astype(np.int64),
        nodes["value"].astype(np.float64),
        output,
        {
            node: known.codes_of(int(feature[node]), bits[nodes["bitset_idx"][node]])
            for node in by_set
            if known is not None
        },
    )


def _check_trees(model: Any, members: list[Any]) -> None:
    """Refuse trees whose nodes have unknown fields."""
    _refuse_preprocessing(model)
    names = _features(model)["feature_names"]
    for index, member in enumerate(members):
        refuse_override(member, "sklearn", _METHODS)
        tree = member.tree_
        state = tree.__getstate__()
        fields = _by_field(state["nodes"])
        if _SHARED in fields:
            _refuse_categories(index, tree, names)
            del fields[_SHARED]
        _check_fields(index, state, _STATE)
        _check_fields(index, fields, _NODE)


def _refuse_categories(index: int, tree: Any, names: list[str] | None) -> None:
    """Refuse a categorical split, if one field holds a threshold or categories."""
    categories = np.asarray(getattr(tree, "n_categories", None))  # of numbers there are none
    if categories.shape != (int(tree.n_features),):
        raise ModelError(
            f"tree {index} does not say which of its splits are categorical ({_SHARED!r}); "
            "train it with another version of scikit-learn"
        )
    feature = np.asarray(tree.feature)[np.asarray(tree.children_left) >= 0]
    categorical = categories[feature] > 0
    if categorical.any():
        _refuse_split(index, name_of(int(feature[categorical.argmax()]), names))


def _refuse_split(tree: int, feature: str) -> NoReturn:
    raise ModelError(
        f"tree {tree} has a categorical split on feature {feature!r}, which is not read; encode "
        "the feature as numbers and train again"
    )


def _refuse_preprocessing(model: Any) -> None:
    categorical = getattr(model, "is_categorical_", None)
    if getattr(model, "_preprocessor", None) is not None:
        raise ModelError(
            "changes its inputs before its trees see them (_preprocessor), which is not read; "
            "encode categories as numbers and train again"
        )
    if _family(model) is not _HISTOGRAM and categorical is not None and np.any(categorical):
        first = int(np.argmax(categorical))
        names = _features(model)["feature_names"]
        raise ModelError(
            f"treats feature {name_of(first, names)!r} as categorical, which is not read; "
            "encode it as numbers and train again"
        )


def _by_field(nodes: npt.NDArray[np.void]) -> dict[str, Any]:
    return {name: nodes[name] for name in nodes.dtype.names or ()}


def _check_fields(index: int, fields: Mapping[str, Any], known: set[str]) -> None:
    """Refuse unknown fields unless they are empty or 0."""
    for name in sorted(fields.keys() - known):
        value = np.ascontiguousarray(() if fields[name] is None else fields[name])
        if value.dtype.hasobject or value.view(np.uint8).any():
            raise ModelError(
                f"tree {index} has the unknown field {name!r}, which may change its predictions; "
                "train it with another version of scikit-learn"
            )


def _tree(
    tree: Any, has_rule: bool, n_classes: int | None, *, scale: float = 1.0, output: int = 0
) -> Tree:
    """Read a tree; its leaves hold a score, or for classifiers a probability per class."""
    is_leaf = tree.children_left < 0
    threshold = np.asarray(tree.threshold, dtype=np.float64)
    with np.errstate(over="ignore"):
        rounded = threshold.astype(np.float32).astype(np.float64)
    value = tree.value[:, 0, :]
    rule: Ints = np.full(len(is_leaf), -1)
    if has_rule:
        rule = np.asarray(tree.missing_go_to_left, dtype=np.int64)
    return Tree(
        np.where(is_leaf, -1, tree.feature).astype(np.int64),
        np.where(rounded > threshold, below(rounded, "float32"), rounded),
        np.asarray(tree.children_left, dtype=np.int64),
        np.asarray(tree.children_right, dtype=np.int64),
        rule,
        scale * value[:, 0] if n_classes is None else value[:, :n_classes],
        output,
    )


def _link(model: Any, n_outputs: int) -> dict[str, Any]:
    if not hasattr(model, "classes_"):
        return {"task": "regression"}
    if n_outputs > 1:
        return {"task": "multiclass", "link": "softmax"}
    # The exponential loss fits half the log-odds.
    scale = 2.0 if getattr(model, "loss", None) == "exponential" else 1.0
    tie = "negative" if _family(model) is _HISTOGRAM else "positive"  # raw > 0, raw >= 0
    return {"task": "binary", "link": "logistic", "link_scale": scale, "tie": tie}


def _features(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    return {
        "n_features": int(model.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
    }


def _family(model: Any) -> tuple[str, ...] | None:
    """Return the family of the first known class that the estimator descends from."""
    for ancestor in type(model).__mro__:
        if ancestor.__module__.split(".")[0] == "sklearn":
            name = ancestor.__name__.removesuffix("Classifier").removesuffix("Regressor")
            for family in (_TREES, _FORESTS, _BOOSTED, _HISTOGRAM):
                if name in family and name != ancestor.__name__:
                    return family
    return None


def _refusal(name: str) -> str:
    if name == "Pipeline":
        return "is a pipeline; transform the data yourself and pass its last step"
    if name.endswith("SearchCV"):
        return "is a search; pass its best_estimator_"
    known = ", ".join(f + "*" for f in _FORESTS + _TREES + _BOOSTED + _HISTOGRAM)
    return f"is not a sum of trees that can be read; pass one of {known}"


# ── categories of HistGradientBoosting ───────────────────────────────────────────────────────


class _Encoding(NamedTuple):
    """The columns that an estimator with categorical features passes to its trees."""

    columns: Ints  # columns[i] is the feature that its trees call i
    categories: dict[int, dict[int, Any]]  # labels by code, by feature
    codes: dict[int, Ints]  # by feature: the code of the encoder's category i is codes[i]

    def codes_of(self, feature: int, words: npt.NDArray[np.uint32]) -> Ints:
        """Return the codes of the categories whose bits are 1."""
        categories = set_bits(words)
        known = self.codes[feature]
        is_known = (categories < len(known)).all()
        require(is_known, f"a split on feature {feature} lists a category beyond {len(known)}")
        return np.sort(known[categories])


def _encoding(model: Any, names: list[str] | None) -> _Encoding:
    """Read the encoder of an estimator; refuse any other preprocessing."""
    is_categorical = np.asarray(model.is_categorical_, dtype=bool)
    features = np.flatnonzero(is_categorical)
    found = _encoder_of(model, is_categorical).categories_
    categories, codes = {}, {}
    for feature, values in zip(features.tolist(), found, strict=True):
        labels = [plain(value) for value in np.asarray(values).tolist()]
        if labels and isinstance(labels[-1], float) and math.isnan(labels[-1]):
            labels.pop()  # NaN is always the last
        for label in labels:
            if not isinstance(label, str | bool | int | float):
                raise ModelError(
                    f"has the category {shown(label)} of feature {name_of(feature, names)!r}; "
                    "name categories by texts or numbers, and missing ones by NaN"
                )
        if all(_is_code(label) for label in labels):
            labels = [int(label) for label in labels]
            codes[feature] = np.array(labels, dtype=np.int64)
        else:
            codes[feature] = np.arange(len(labels), dtype=np.int64)
        categories[feature] = dict(zip(codes[feature].tolist(), labels, strict=True))
    columns = np.concatenate([features, np.flatnonzero(~is_categorical)])
    return _Encoding(columns, categories, codes)


def _encoder_of(model: Any, is_categorical: Bools) -> Any:
    """Return the OrdinalEncoder of the categorical columns."""
    preprocessor = getattr(model, "_preprocessor", None)
    steps = getattr(preprocessor, "transformers_", [])
    used = [step for step in steps if step[1] != "drop"]
    kinds = [(step[0], type(step[1]).__name__, type(step[1]).__module__) for step in used]
    encoder: Any = used[0][1] if used else None
    if (
        [kind[:2] for kind in kinds[:1]] != [("encoder", "OrdinalEncoder")]
        or [kind[:2] for kind in kinds[1:]] not in ([], [("numerical", "FunctionTransformer")])
        or not all(module.startswith("sklearn.") for *_, module in kinds)
        or not np.array_equal(np.asarray(used[0][2]), is_categorical)
        or encoder.handle_unknown != "use_encoded_value"
        or not np.isnan([encoder.unknown_value, encoder.encoded_missing_value]).all()
        or encoder.min_frequency is not None
        or encoder.max_categories is not None
    ):
        raise ModelError(
            "changes its inputs before its trees see them (_preprocessor), not by the known "
            "encoder; train it with another version of scikit-learn"
        )
    return encoder


def _is_code(label: Any) -> bool:
    return (
        not isinstance(label, str | bool)
        and 0 <= label < MOST_CODES["label"]
        and label == int(label)
    )
