"""LightGBM models: text files, Boosters and scikit-learn style estimators.

The raw score equals ``Booster.predict(X, raw_score=True)`` bit for bit: a sum of doubles in the
order of the trees. For forests (boosting rf) it is that sum divided by the number of iterations,
as in LightGBM's prediction, but not in its raw score.

Numerical splits:

- A value with |v| <= 1e-35 (as float32) counts as zero before anything is compared, so a threshold
  within that interval moves to one of its ends.
- Missing type None: NaN is zero. NaN: it takes the default side. Zero: NaN and zero do.

Categorical splits:

- A split has a bit per code, in words of 32 bits: code c goes left iff bit c is 1. NaN, codes below
  0 and codes beyond the bits go right. A number is truncated first: 3.7 is 3, -0.5 is 0.
- feature_infos lists the codes that training kept; for numerical features it has a range.
- pandas_categorical lists the labels of each column of dtype category, in column order; a label's
  position is its code. It does not say which columns these are, and ordered ones may be numbers to
  the model. So labels are used only if there are as many lists as categorical features, and as many
  labels as the codes need.

Objectives decide the task. Those that transform the raw score by an increasing function (poisson,
gamma, tweedie, ``reg_sqrt``, cross_entropy_lambda) and rankings are regression on the raw score:
ranges of outputs are in raw space. Without an objective (a custom one) so is a model with one
output, unless two `classes` are given.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from carvegbm.errors import ModelError
from carvegbm.model.categories import Categories
from carvegbm.model.ensemble import Ensemble, IterationRange, Iterations
from carvegbm.readers.common import (
    Classes,
    Floats,
    Ints,
    Tree,
    assemble,
    codes_by_feature,
    count,
    integers,
    numbers,
    redirect,
    refuse_override,
    require,
    set_bits,
)

__all__ = ["from_estimator", "from_text"]

_ZERO = float(np.float32(1e-35))  # LightGBM's kZeroThreshold
_MISSING_AS_ZERO, _MISSING_AS_NAN = 1, 2  # missing types; 0 is None
_MOST_CODES = 1 << 31
# A tree in a text: LightGBM reads its first 22 lines, up to a blank one.
_TREE = re.compile(r"Tree=.*\n(?:[^\n=]+=.*\n){1,22}\n+")
# LightGBM's classifier takes the largest of 1 − p and p, or of the classes' p, the first of equals.
_BINARY = {"task": "binary", "link": "logistic", "tie": "negative", "compares": "probability"}
_LINKS: dict[str, dict[str, Any]] = {
    "binary": _BINARY,
    "cross_entropy": _BINARY,
    "multiclass": {"task": "multiclass", "link": "softmax", "compares": "probability"},
    "multiclassova": {"task": "multiclass", "link": "logistic", "compares": "probability"},
}
# Their prediction is the raw score; a classifier with one of these compares 1 − raw with raw.
_OUTPUTS_RAW = ("regression", "regression_l1", "huber", "fair", "quantile", "mape")


def from_estimator(
    model: Any, classes: Classes, iteration_range: IterationRange = None
) -> Ensemble:
    """Read a Booster or a fitted estimator, with the iterations its own `predict` uses."""
    if type(model).__name__ == "CVBooster":
        raise ModelError("is several models; pass one of its boosters")
    refuse_override(model, "lightgbm", ("predict", "predict_proba", "model_to_string"))
    booster, is_classifier = model, False
    if not hasattr(model, "model_to_string"):
        try:
            booster = model.booster_
        except (AttributeError, ValueError):
            raise ModelError("the model is not fitted; call fit first") from None
        if model.get_params().get("pred_early_stop"):
            raise ModelError(
                "stops before its last tree when it predicts (pred_early_stop); "
                "set pred_early_stop=False"
            )
        is_classifier = hasattr(model, "classes_")
        if classes is None:
            classes = getattr(model, "classes_", None)
    return from_text(
        booster.model_to_string(num_iteration=-1),  # all
        classes,
        iteration_range,
        best=booster.best_iteration if booster.best_iteration > 0 else None,
        is_classifier=is_classifier,
    )


def from_text(
    text: str,
    classes: Classes,
    iteration_range: IterationRange = None,
    *,
    best: int | None = None,
    is_classifier: bool = False,
) -> Ensemble:
    """Read the text of a model file, or of a Booster whose best iteration is number `best`."""
    header, blocks, tail = _sections(text.replace("\r\n", "\n"))
    names = header["feature_names"].split(" ") if header["feature_names"] else []
    n_outputs = count(header, "num_tree_per_iteration", header.get("num_class", "1"))
    is_whole = n_outputs > 0 and len(blocks) % n_outputs == 0
    require(is_whole, f"has {len(blocks)} trees and {n_outputs} trees per iteration")
    iterations = Iterations.chosen(iteration_range, len(blocks) // n_outputs, best)
    trees = [
        _tree(index, block, index % n_outputs)
        for index, block in enumerate(blocks[: iterations.used * n_outputs])
    ]
    averaged = "average_output" in header
    return assemble(
        trees,
        n_outputs=n_outputs,
        n_features=count(header, "max_feature_idx") + 1,
        feature_names=names,
        classes=classes,
        average=max(1, iterations.used) if averaged else 1,
        iterations=iterations,
        categories=_categories(trees, header.get("feature_infos", "").split()[: len(names)], tail),
        category_rule="truncate",
        **_task(header, n_outputs, trees, is_classifier),
    )


def _sections(text: str) -> tuple[dict[str, str], list[dict[str, str]], str]:
    """Return the fields of the header and of every tree, and the text after the trees.

    LightGBM finds trees by the lengths in tree_sizes, if there are any, and joins lines without "="
    to others. Refuse a text in which its trees would differ from those that begin with "Tree=".
    """
    before, found, tail = text.partition("\nend of trees")
    head, *parts = re.split(r"(?<=\n)(?=Tree=)", before + "\n")
    require(found and (parts or "\nTree=" not in tail), "the file ends before its trees do")
    fields = [line.partition("=")[::2] for line in head.split("\n")]
    header = dict(fields)
    is_unclear = "\r" in before or "\0" in before
    is_unclear |= any(
        value[:1] == "=" or (value and not key) or ("=" in value and key != "feature_names")
        for key, value in fields
    )
    require(not is_unclear, "has lines that LightGBM would read differently")
    sizes = header.get("tree_sizes", "").split()
    is_complete = "tree_sizes" not in header or len(sizes) == len(parts)
    require(is_complete, f"has {len(parts)} trees, its header announces {len(sizes)}")
    for i, part in enumerate(parts):
        is_tree = _TREE.fullmatch(part) and part.count("Tree=") == 1
        require(is_tree, f"tree {i} is not up to 22 lines key=value and blank lines after them")
        is_found = not sizes or sizes[i] == str(len(part.encode()))
        require(is_found, f"tree {i} has another size than tree_sizes, where LightGBM looks for it")
    blocks = [dict(line.partition("=")[::2] for line in part.split("\n")) for part in parts]
    return header, blocks, tail


def _task(
    header: Mapping[str, str], n_outputs: int, trees: Sequence[Tree], is_classifier: bool
) -> dict[str, Any]:
    """Return the fields of `Ensemble` that follow from the objective."""
    name, *options = header.get("objective", "").split() or [""]
    fields = dict(_LINKS.get(name, {"task": "regression" if n_outputs == 1 else "multiclass"}))
    if fields.get("link") == "logistic":
        fields["link_scale"] = 1.0 if name == "cross_entropy" else _sigmoid(options)
    if fields["task"] == "binary":
        is_old_forest = "average_output" in header and header.get("version", "") == "v2"
        if is_old_forest and all(((t.score >= 0) & (t.score <= 1)).all() for t in trees):
            # The forests of early versions have probabilities in their leaves.
            return {"task": "binary", "threshold": 0.5, "tie": "negative"}
    elif is_classifier and fields["task"] == "regression" and name not in ("", "custom"):
        if name not in _OUTPUTS_RAW or "sqrt" in options:
            raise ModelError(
                f"is a classifier with the objective {name!r}, whose predict compares a function "
                "of the raw score with 1/2; train with objective='binary', or pass its booster_"
            )
        fields |= {"threshold": 0.5, "tie": "negative"}
    return fields


def _sigmoid(options: Sequence[str]) -> float:
    """Return s of `binary sigmoid:s`, where probability = 1 / (1 + exp(-s * raw score))."""
    given = [option.partition(":")[2] for option in options if option.startswith("sigmoid:")]
    require(len(given) == 1, f"sigmoid is given {len(given)} times")
    (scale,) = _parsed(given[0], float, "sigmoid")
    require(0 < scale < np.inf, f"sigmoid is {scale}, not a number > 0")
    return float(scale)


# ── trees ────────────────────────────────────────────────────────────────────────────────────


def _tree(index: int, block: Mapping[str, str], output: int) -> Tree:
    """Read a tree: inner nodes come first, child ~i is leaf i."""

    def floats(key: str, size: int | None) -> Floats:
        what = f"tree {index}: {key}"
        return numbers(_parsed(block.get(key, ""), float, what), size, what)

    def whole(key: str, size: int | None) -> Ints:
        what = f"tree {index}: {key}"
        return integers(_parsed(block.get(key, ""), int, what), size, what)

    n_leaves = count(block, "num_leaves")
    if block.get("is_linear", "0") != "0":
        raise ModelError(
            f"tree {index} has linear models in its leaves, not scores; train with "
            "linear_tree=false"
        )
    score = floats("leaf_value", n_leaves)
    require(n_leaves, f"tree {index} has no leaves")
    if n_leaves == 1:
        return Tree.leaf(float(score[0]), output)
    n_inner = n_leaves - 1
    feature, left, right = (
        whole(key, n_inner) for key in ("split_feature", "left_child", "right_child")
    )
    kind = whole("decision_type", n_inner) if "decision_type" in block else np.zeros_like(feature)
    threshold = floats("threshold", n_inner)
    require((feature >= 0).all(), f"tree {index} tests a negative feature")
    require(((kind >= 0) & (kind <= 15)).all(), f"tree {index}: decision_type must be 0 … 15")
    sets: dict[int, Ints] = {}
    by_set = np.flatnonzero(kind & 1)
    n_sets = count(block, "num_cat", "0")
    if len(by_set) or n_sets:
        bounds = whole("cat_boundaries", n_sets + 1)
        words = whole("cat_threshold", None)
        number = threshold[by_set]
        is_set = (number >= 0) & (number < n_sets) & (number == np.trunc(number))
        is_right = is_set.all() and len(np.unique(number)) == len(number)
        require(is_right, f"tree {index}: every categorical split needs a set of its own")
        is_right = (np.diff(bounds) >= 0).all() and bounds[0] >= 0 and bounds[-1] <= len(words)
        require(is_right, f"tree {index}: cat_boundaries must ascend to the end of cat_threshold")
        is_right = ((words >= 0) & (words < 1 << 32)).all()
        require(is_right, f"tree {index}: cat_threshold must be words of 32 bits")
        sets = {
            node: set_bits(words[bounds[place] : bounds[place + 1]])
            for node, place in zip(by_set.tolist(), number.astype(np.int64).tolist(), strict=True)
        }
    default_left, missing_type = (kind & 2) != 0, kind >> 2 & 3
    zero_left = np.where(missing_type == _MISSING_AS_ZERO, default_left, threshold >= 0)
    nan_left = np.where(missing_type == _MISSING_AS_NAN, default_left, zero_left)
    nan_left[by_set] = False  # NaN is no category
    none, zeros = np.full(n_leaves, -1, dtype=np.int64), np.zeros(n_leaves)
    tree = Tree(
        np.concatenate([feature, none]),
        np.concatenate([threshold, zeros]),
        np.concatenate([np.where(left < 0, n_inner - 1 - left, left), none]),
        np.concatenate([np.where(right < 0, n_inner - 1 - right, right), none]),
        np.concatenate([nan_left.astype(np.int64), none]),
        np.concatenate([np.zeros(n_inner), score]),
        output,
        sets,
    )
    to_left = np.concatenate([zero_left, zeros.astype(bool)])
    return redirect(tree, to_left, low=-_ZERO, high=_ZERO)


def _parsed(text: str, kind: type, what: str) -> list[Any]:
    """Return the numbers in a text; Python would also read separators and other scripts."""
    require("_" not in text and text.isascii(), f"{what} must be numbers")
    return [kind(part) for part in text.split()]


# ── categories ───────────────────────────────────────────────────────────────────────────────


def _categories(trees: Sequence[Tree], infos: Sequence[str], tail: str) -> Categories:
    """Return codes and labels of every categorical feature.

    A feature is categorical if it has a categorical split; or if it has no split, and its entry in
    feature_infos lists codes ("3:0:17"; that of a numerical feature is "[0.5:2]" or "none").
    """
    listed, by_threshold = codes_by_feature(trees)
    for feature, text in enumerate(infos):
        if re.match(r"-?\d", text) and (feature in listed or feature not in by_threshold):
            codes = {int(code) for code in text.split(":")}
            known = listed.setdefault(feature, set())
            known.update(code for code in codes if 0 <= code < _MOST_CODES)
    labels = _labels(listed, tail)
    return {
        feature: dict(enumerate(labels[feature]))
        if feature in labels
        else {code: code for code in sorted(codes)}
        for feature, codes in sorted(listed.items())
    }


def _labels(codes: Mapping[int, set[int]], tail: str) -> dict[int, list[Any]]:
    """Return the labels of every categorical feature, or {} if they do not fit the codes."""
    match = re.search(r"^pandas_categorical:(.*)$", tail, re.M)
    try:
        lists = json.loads(match[1] if match else "null")
    except ValueError:
        return {}
    if not isinstance(lists, list) or not all(map(_are_labels, lists)):
        return {}
    declared = re.search(r"^\[categorical_feature: ([\d,]*)\]$", tail, re.M)
    candidates = [sorted(codes)]
    if declared is not None:
        candidates.insert(0, sorted({int(part) for part in declared[1].split(",") if part}))
    for features in candidates:
        if len(features) == len(lists):
            pairs = dict(zip(features, lists, strict=True))
            if all(max(codes.get(f, ()), default=-1) < len(names) for f, names in pairs.items()):
                return pairs
    return {}


def _are_labels(labels: Any) -> bool:
    """Return whether a value is a list of different texts and finite numbers."""
    return (
        isinstance(labels, list)
        and all(isinstance(label, str | bool | int | float) for label in labels)
        and all(math.isfinite(label) for label in labels if isinstance(label, float))
        and len(set(labels)) == len(labels)
    )
