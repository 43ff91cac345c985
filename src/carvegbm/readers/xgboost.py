"""XGBoost models: JSON and UBJSON files, Boosters and scikit-learn style estimators.

The raw score equals ``Booster.predict(DMatrix(X), output_margin=True)`` bit for bit: a sum of
float32 numbers from the base margin on, in the order of the trees. (`inplace_predict`, which the
estimators use, adds up a dart booster in another order and may differ in the last rounding.)

- Inputs are float32 and x goes left iff x < condition, so the threshold is the next float32 below.
- dart: every leaf is multiplied by its tree's weight, in float32. Nothing is dropped.
- By default, a file is read with the iterations that XGBoost's estimators use: best_iteration + 1,
  if early stopping stored it. `Booster.predict` uses all.
- base_score is stored as the objective's output; its margin is the logit, the logarithm, or itself.
- Objectives that transform the raw score by an increasing function (poisson, gamma, tweedie,
  survival) and rankings are regression on the raw score: ranges of outputs are in raw space.

Categories:

- A split lists codes, and these go right, so its children are swapped here. NaN takes the default
  side; a number below 0 (also -0.5) or from 2^24 on is no code and goes left, like every code that
  is not listed; any other number is truncated.
- Since version 3.1, the labels of a frame's categories are stored beside the trees; a label's
  position is its code. Without labels, the codes of a feature are those that its splits list, and
  the first one that none lists, which represents all others: they go left everywhere. Labels beyond
  ASCII are ignored: versions up to 3.2 at least store the number of characters for that of bytes.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from carvegbm.errors import ModelError
from carvegbm.model.ensemble import Ensemble, IterationRange, Iterations
from carvegbm.readers.common import (
    Bools,
    Classes,
    Ints,
    Tree,
    assemble,
    below,
    codes_by_feature,
    count,
    integers,
    name_of,
    numbers,
    redirect,
    refuse_override,
    require,
)

__all__ = ["decode_ubjson", "from_document", "from_estimator", "is_ubjson"]

_LOGIT = ("binary:logistic", "reg:logistic")
_LOG = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox")
_IDENTITY = (
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

    An estimator's number for missing values (`missing=`) is honoured.
    """
    refuse_override(model, "xgboost", ("predict", "predict_proba", "get_booster", "save_raw"))
    if not hasattr(model, "get_booster"):
        document = decode_ubjson(bytes(model.save_raw("ubj")))
        return from_document(document, classes, iteration_range or "all", is_classifier=False)
    try:
        booster = model.get_booster()
    except (AttributeError, ValueError):
        raise ModelError("the model is not fitted; call fit first") from None
    is_classifier = hasattr(model, "classes_")
    if classes is None and is_classifier:
        classes = model.classes_
    return from_document(
        decode_ubjson(bytes(booster.save_raw("ubj"))),
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

    `is_classifier`: whether an XGBClassifier predicts with it; by default, as the file states.
    """
    is_clear = not {"Model", "learner"} <= document.keys()
    require(is_clear, "has both 'Model' and 'learner', of which XGBoost reads one")
    document = document.get("Model", document)  # a snapshot has the Booster's configuration beside
    learner = document["learner"]
    model, weights = _trees_and_weights(learner["gradient_booster"], document)
    stored = model["trees"]
    require(isinstance(stored, list), "trees must be a list")
    groups = integers(model["tree_info"], len(stored), "tree_info")
    if weights is not None:
        weights = numbers(weights, len(stored), "weight_drop").astype(np.float32)
    parameters = learner["learner_model_param"]
    names = None if _is_empty(learner.get("feature_names")) else learner["feature_names"]
    require(names is None or isinstance(names, list), "feature_names must be a list of names")
    n_outputs = max(1, count(parameters, "num_class", "0"))
    if count(parameters, "num_target", "1") > 1:
        raise ModelError("predicts several targets at once; train a model per target")
    ends = _iteration_ends(model, len(stored), n_outputs)
    attributes = learner.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    if is_classifier is None:
        is_classifier = _is_classifier(attributes)
    best = None
    if "best_iteration" in attributes:
        best = count(attributes, "best_iteration") + 1
        require(best < len(ends), f"best_iteration is {best - 1} of {len(ends) - 1} iterations")
    iterations = Iterations.chosen(iteration_range, len(ends) - 1, best)
    stored = stored[: ends[iterations.used]]
    objective = learner["objective"]["name"]
    if objective == "binary:logitraw" and not _is_at_least(document.get("version"), 2):
        raise ModelError(
            "has the objective binary:logitraw, and versions before 2 disagree on its base_score; "
            "load it with xgboost and pass the Booster"
        )
    fields = _task(objective, n_outputs, is_classifier)
    base = _base_scores(parameters.get("base_score"))
    require(len(base) in (1, n_outputs), f"{len(base)} values of base_score, {n_outputs} outputs")
    if stored or parameters.get("boost_from_average", "1") == "0":
        base = [_margin(value, objective) for value in base]  # else XGBoost uses it as it is
    n_features = count(parameters, "num_feature")
    trees = [
        _tree(i, tree, names, missing, int(groups[i]), None if weights is None else weights[i])
        for i, tree in enumerate(stored)
    ]
    return assemble(
        trees,
        n_outputs=n_outputs,
        n_features=n_features,
        feature_names=names,
        classes=classes,
        base_score=base,
        input_precision="float32",
        sum_precision="float32",
        categories=_categories(trees, learner.get("feature_types"), model.get("cats"), n_features),
        category_rule="nonnegative",
        absent="missing",
        iterations=iterations,
        **fields,
    )


def _trees_and_weights(booster: Any, document: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the object with the trees, and the weights of the trees or None.

    Refuses fields that XGBoost ignores.
    """
    name = booster["name"]
    if name == "gblinear":
        raise ModelError("is a linear model (gblinear), not trees; train with booster='gbtree'")
    require(name in ("gbtree", "dart"), f"unknown booster {str(name)[:40]!r}")
    is_dart = name == "dart"
    is_clear = is_dart or ("gbtree" not in booster and _is_empty(booster.get("weight_drop")))
    require(is_clear, "a gbtree with fields of a dart, which XGBoost ignores")
    model = (booster["gbtree"] if is_dart else booster)["model"]
    weights, own = booster.get("weight_drop"), model.get("weight_drop")
    if _is_empty(own):
        return model, (weights if weights is not None or not is_dart else [])
    # Since version 3.4, dart is called gbtree, and its weights are there; others ignore them.
    is_read = not is_dart and _is_at_least(document.get("version"), 3, 4)
    require(is_read, "weights of trees (weight_drop) that XGBoost ignores")
    return model, own


def _is_classifier(attributes: Mapping[str, Any]) -> bool:
    """Return whether XGBClassifier saved the file, according to its attribute."""
    try:
        saved = json.loads(attributes["scikit_learn"])
        return bool(saved["_estimator_type"] == "classifier")
    except (LookupError, TypeError, ValueError, RecursionError):
        return False


def _iteration_ends(model: Mapping[str, Any], n_trees: int, n_outputs: int) -> Ints:
    """Return the number of trees after 0, 1, … iterations, which XGBoost 2 and later store."""
    if not _is_empty(model.get("iteration_indptr")):
        ends = integers(model["iteration_indptr"], None, "iteration_indptr")
    else:
        parallel = count(model["gbtree_model_param"], "num_parallel_tree", "1")
        ends = np.arange(0, n_trees + 1, n_outputs * max(1, parallel))
    is_whole = ends[0] == 0 and ends[-1] == n_trees and (np.diff(ends) > 0).all()
    require(is_whole, f"{n_trees} trees are no whole number of iterations")
    return ends


def _task(objective: Any, n_outputs: int, is_classifier: bool) -> dict[str, Any]:
    """Return the fields of `Ensemble` that follow from the objective."""
    if objective not in _LOGIT + _LOG + _IDENTITY:
        raise ModelError(
            f"has the unknown objective {str(objective)[:60]!r}, whose base margin is not known; "
            "save it with a standard objective"
        )
    if is_classifier and n_outputs == 1 and objective in _LOG:
        # XGBClassifier.predict compares the exponential with 1/2, as if it were a probability.
        raise ModelError(
            f"is a classifier with the objective {objective!r}, whose output is no probability; "
            "train with objective='binary:logistic'"
        )
    if objective.startswith("multi:"):
        compares = "probability" if objective == "multi:softprob" else "raw"
        return {"task": "multiclass", "link": "softmax", "compares": compares}
    if n_outputs > 1:
        return {"task": "multiclass"}
    if objective in _LOGIT:
        fields = {"task": "binary", "link": "logistic", "tie": "negative"}
        return fields | {"compares": "probability"}
    if objective == "binary:hinge":
        return {"task": "binary", "tie": "negative"}
    fields = {"task": "regression"}
    if objective == "binary:logitraw":
        fields = {"task": "binary", "link": "logistic", "tie": "negative"}
    if is_classifier:  # XGBClassifier.predict returns the second class iff the output is > 0.5
        return fields | {"task": "binary", "threshold": 0.5, "tie": "negative"}
    return fields


def _base_scores(text: Any) -> list[float]:
    """Return the numbers in "5E-1", or since version 3.1 in "[5E-1,2E-1]", one per output."""
    require("_" not in str(text) and str(text).isascii(), "base_score must be numbers")
    found = [float(part) for part in str(text).strip().strip("[]").split(",")]
    require(all(map(math.isfinite, found)), "base_score must be finite")
    return found


def _margin(value: float, objective: str) -> float:
    """Return the margin of a base_score, in float32 as XGBoost computes it."""
    number = np.float32(value)
    if objective in _LOGIT:
        edge = np.float32(1e-6)
        number = min(max(number, edge), np.float32(1) - edge)
        return -_logf(np.float32(1) / number - np.float32(1))
    if objective in _LOG:
        require(number > 0, f"base_score {value} has no logarithm, {objective} needs it")
        return _logf(number)
    return float(number)


def _logf(number: np.float32) -> float:
    """Call the C library's logf, as XGBoost does; it is not always correctly rounded."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):
        return float(np.float32(math.log(number)))
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return float(logf(float(number)))


def _is_at_least(version: Any, *least: int) -> bool:
    if not isinstance(version, list | np.ndarray) or len(version) < len(least):
        return False
    parts = [part for part in version if isinstance(part, (int, np.integer))]
    return len(parts) == len(version) and tuple(parts) >= least


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, list | np.ndarray) and len(value) == 0)


# ── trees ────────────────────────────────────────────────────────────────────────────────────


def _tree(
    index: int,
    tree: Mapping[str, Any],
    names: Sequence[str] | None,
    missing: float,
    output: int,
    weight: np.float32 | None,
) -> Tree:
    """Read a tree; a leaf has no left child, and its score in place of a condition."""
    left = integers(tree["left_children"], None, f"tree {index}: left_children")
    size = len(left)
    if count(tree.get("tree_param") or {}, "size_leaf_vector", "0") > 1:
        raise ModelError(
            f"tree {index} has a vector in every leaf (multi_output_tree), which is not read; "
            "train with multi_strategy='one_output_per_tree'"
        )
    right, feature, default_left = (
        integers(tree[key], size, f"tree {index}: {key}")
        for key in ("right_children", "split_indices", "default_left")
    )
    stored = numbers(tree["split_conditions"], size, f"tree {index}: split_conditions")
    is_leaf = left < 0
    require((left >= -1).all(), f"tree {index} points to a negative node")
    require((feature[~is_leaf] >= 0).all(), f"tree {index} tests a negative feature")
    sets = _listed_codes(index, tree, ~is_leaf)
    if sets and not math.isnan(missing):
        raise ModelError(
            f"takes {missing} for a missing value, and tree {index} has a categorical split on "
            f"feature {name_of(int(feature[min(sets)]), names)!r}; train with missing values as NaN"
        )
    by_set = np.zeros(size, dtype=bool)
    by_set[list(sets)] = True
    with np.errstate(over="ignore"):
        condition = stored.astype(np.float32)
        missing = float(np.float32(missing))
        score = condition if weight is None else condition * weight
    found = Tree(
        np.where(is_leaf, -1, feature),
        below(condition, "float32"),
        np.where(by_set, right, left),
        np.where(by_set, left, right),
        np.where(by_set, default_left == 0, default_left != 0).astype(np.int64),
        score.astype(np.float64),
        output,
        sets,
    )
    if math.isnan(missing):
        return found
    return redirect(found, default_left != 0, low=missing, high=missing, precision="float32")


def _listed_codes(index: int, tree: Mapping[str, Any], is_split: Bools) -> dict[int, Ints]:
    """Return the codes that go right, by node, for every categorical split of a tree."""

    def whole(key: str, size: int | None) -> Ints:
        values = tree.get(key)
        return integers([] if values is None else values, size, f"tree {index}: {key}")

    if _is_empty(tree.get("split_type")):
        return {}
    categorical = (whole("split_type", len(is_split)) != 0) & is_split
    if not categorical.any():
        return {}
    nodes = whole("categories_nodes", None)
    starts = whole("categories_segments", len(nodes))
    sizes = whole("categories_sizes", len(nodes))
    codes = whole("categories", None)
    is_inside = (starts >= 0) & (sizes >= 0) & (starts <= len(codes) - sizes)
    is_apart = sizes.sum() <= len(codes) and (np.diff(nodes) > 0).all()
    require(is_inside.all() and is_apart, f"tree {index}: segments of categories are wrong")
    are_codes = ((codes >= 0) & (codes < 1 << 24)).all()
    require(are_codes, f"tree {index}: categories must be codes below 2^24")
    segments = zip(nodes.tolist(), starts.tolist(), sizes.tolist(), strict=True)
    found = {node: np.unique(codes[start : start + size]) for node, start, size in segments}
    return {node: found[node] for node in np.flatnonzero(categorical).tolist()}


# ── categories ───────────────────────────────────────────────────────────────────────────────


def _categories(
    trees: Sequence[Tree], types: Any, encoder: Any, n_features: int
) -> dict[int, dict[int, Any]]:
    """Return codes and labels of every categorical feature.

    `types` is the document's feature_types, where "c" is a category; `encoder` holds the labels.
    """
    listed, by_threshold = codes_by_feature(trees)
    for feature, kind in enumerate(types[:n_features] if isinstance(types, list) else []):
        if kind == "c" and feature not in by_threshold:
            listed.setdefault(feature, set())
    entries = encoder.get("enc") if isinstance(encoder, Mapping) else None
    has_labels = listed and isinstance(entries, list) and len(entries) == n_features
    labels = dict(enumerate(map(_labels, entries or ()))) if has_labels else {}
    found = {}
    for feature, codes in listed.items():
        known = labels.get(feature, [])
        if len(known) > max(codes, default=0):
            found[feature] = dict(enumerate(known))
        else:
            other = {next(code for code in range(len(codes) + 1) if code not in codes)}
            found[feature] = {code: code for code in sorted(codes | other if codes else codes)}
    return found


def _labels(entry: Any) -> list[Any]:
    """Return the labels of a feature: texts as bytes one after the other, or numbers."""
    if not isinstance(entry, Mapping):
        return []
    values = np.asarray(entry.get("values", ()))
    if "offsets" not in entry:
        found = values.tolist()
    else:
        ends = integers(entry["offsets"], None, "offsets of labels").tolist()
        text = integers(values, None, "bytes of labels")
        if (text < 0).any() or (text > 127).any():
            return list(range(len(ends) - 1))
        require((np.diff([0, *ends, len(text)]) >= 0).all(), "offsets of labels must ascend")
        found = [bytes(text[a:b].tolist()).decode() for a, b in pairwise(ends)]
    return found if len(set(found)) == len(found) else list(range(len(found)))


# ── Universal Binary JSON, as far as XGBoost writes it ───────────────────────────────────────

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"T": True, "F": False, "Z": None}
_DEEPEST = 200


def is_ubjson(data: bytes) -> bool:
    """Return whether the bytes begin an object: a brace, and the type of a key's length."""
    return len(data) > 2 and data[:1] == b"{" and data[1:2] in b"iUIlL$#"


def decode_ubjson(data: bytes) -> Any:
    """Return the first value in the bytes, with NumPy arrays for typed arrays of numbers."""
    return _Decoder(data).value(0)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if not 0 <= size <= len(self.data) - self.at:
            raise self.error("a size does not fit into the file")
        self.at += size
        return self.data[self.at - size : self.at]

    def character(self) -> str:
        return chr(self.take(1)[0])

    def marker(self) -> str:
        kind = "N"  # no operation
        while kind == "N":
            kind = self.character()
        return kind

    def number(self, kind: str) -> Any:
        return np.frombuffer(self.take(np.dtype(_NUMBERS[kind]).itemsize), _NUMBERS[kind])[0].item()

    def length(self) -> int:
        kind = self.marker()
        if kind not in "iUIlL":
            raise self.error(f"a length of type {kind!r}")
        return int(self.number(kind))

    def value(self, depth: int, kind: str | None = None) -> Any:
        kind = kind or self.marker()
        if depth > _DEEPEST:
            raise self.error(f"nested deeper than {_DEEPEST}")
        if kind in _NUMBERS:
            return self.number(kind)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == "C":
            return self.character()
        if kind in "SH":
            return self.take(self.length()).decode("utf-8")
        if kind not in "[{":
            raise self.error(f"unknown type {kind!r}")
        return self.array(depth) if kind == "[" else self.object(depth)

    def container(self) -> tuple[str | None, int | None]:
        """Return the element type and the count that may follow an opening bracket."""
        kind = count = None
        if self.peek() == "$":
            self.take(1)
            kind = self.character()
            if self.peek() != "#":
                raise self.error("a typed container without count")
        if self.peek() == "#":
            self.take(1)
            count = self.length()
            if kind in _CONSTANTS or not 0 <= count <= len(self.data) - self.at:
                raise self.error(f"{count} elements do not fit into the file")
        return kind, count

    def array(self, depth: int) -> Any:
        kind, count = self.container()
        if kind in _NUMBERS and count is not None:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(count * dtype.itemsize), dtype)
        if count is not None:
            return [self.value(depth + 1, kind) for _ in range(count)]
        found = []
        while (element := self.marker()) != "]":
            found.append(self.value(depth + 1, element))
        return found

    def object(self, depth: int) -> dict[str, Any]:
        kind, count = self.container()
        found: dict[str, Any] = {}
        while count is None or len(found) < count:
            if count is None and self.peek() == "}":
                self.take(1)
                break
            key = self.take(self.length()).decode("utf-8")
            if key in found:
                raise self.error(f"{key[:40]!r} occurs twice")
            found[key] = self.value(depth + 1, kind)
        return found

    def peek(self) -> str:
        return chr(self.data[self.at]) if self.at < len(self.data) else ""

    def error(self, what: str) -> ModelError:
        return ModelError(f"UBJSON, byte {self.at}: {what}; the file is damaged")
