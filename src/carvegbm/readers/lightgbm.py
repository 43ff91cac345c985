"""LightGBM models: text files, Boosters and scikit-learn style estimators.

Comes in: the text of a model. Goes out: an `Ensemble` whose raw score equals
``Booster.predict(X, raw_score=True)`` bit for bit: a sum of doubles in the order of the trees.
Only for forests (boosting rf) it is that sum divided by the number of iterations, which LightGBM's
own raw score leaves out and its prediction does not.

How LightGBM decides a numerical split, and what becomes of it:

- A value with |v| <= 1e-35 (as float32) is zero before anything is compared, so a threshold within
  that interval moves to one of its ends.
- missing type None: NaN is zero. NaN: it takes the default side. Zero: NaN and zero do.

How it decides a categorical one is said in `carvegbm.readers.lightgbm_categories`.

Objectives decide the task. Those that transform the raw score by an increasing function (poisson,
gamma, tweedie, ``reg_sqrt``, cross_entropy_lambda) and those that rank are regression on the raw
score: ranges of outputs are in raw space. Without an objective (a custom one) so is a model with
one output, unless two `classes` are given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers.checks import (
    Classes,
    count,
    numbers,
    refuse_override,
    whole_numbers,
)
from carvegbm.readers.lightgbm_categories import (
    codes_of_bits,
    codes_of_infos,
    labelled,
    text_labels,
)
from carvegbm.readers.trees import Tree, assemble, send
from carvegbm.trees.iterations import IterationRange, Iterations
from carvegbm.trees.sets import Categories

__all__ = ["from_estimator", "from_text"]

_ZERO = float(np.float32(1e-35))  # LightGBM's kZeroThreshold
_MISSING = {"None": 0, "Zero": 1, "NaN": 2}
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
    """Read the text of a model file, or of a Booster of `best` iterations."""
    header, blocks, tail = _sections(text.replace("\r\n", "\n"))
    if "feature_names" not in header:
        raise ModelError("has no feature_names; the file is damaged")
    names = header["feature_names"].split(" ") if header["feature_names"] else []
    n_outputs = count(header, "num_tree_per_iteration", header.get("num_class", "1"))
    iterations = _chosen(iteration_range, len(blocks), n_outputs, best)
    blocks = blocks[: iterations.used * n_outputs]
    trees = [_tree_from_block(i, block) for i, block in enumerate(blocks)]
    codes = codes_of_infos(header.get("feature_infos", "").split(), names)
    return _ensemble(
        trees,
        names,
        categories=labelled(trees, codes, *text_labels(tail)),
        n_features=count(header, "max_feature_idx") + 1,
        n_outputs=n_outputs,
        iterations=iterations,
        objective=header.get("objective", ""),
        averaged="average_output" in header,
        version=header.get("version", ""),
        classes=classes,
        is_classifier=is_classifier,
    )


def _sections(text: str) -> tuple[dict[str, str], list[dict[str, str]], str]:
    """The fields of the header and of every tree, and what follows the trees.

    LightGBM finds a tree by the lengths in tree_sizes, if there are any, and reads its first 22
    lines, up to a blank one; other lines are joined if they have no "=". Refuse a text in which
    these trees differ from those that begin with "Tree=".
    """
    before, found, tail = text.partition("\nend of trees")
    head, *parts = re.split(r"(?<=\n)(?=Tree=)", before + "\n")
    if not found or (not parts and "\nTree=" in tail):
        raise ModelError("the file ends before its trees do; it is truncated")
    fields = [line.partition("=")[::2] for line in head.split("\n")]
    header = dict(fields)
    if (
        "\r" in before
        or "\0" in before
        or any(
            value[:1] == "=" or (value and not key) or ("=" in value and key != "feature_names")
            for key, value in fields
        )
    ):
        raise ModelError("has lines that LightGBM would read differently; the file is damaged")
    sizes = header.get("tree_sizes", "").split()
    if "tree_sizes" in header and len(sizes) != len(parts):
        raise ModelError(
            f"has {len(parts)} trees, its header announces {len(sizes)}; it is damaged"
        )
    for i, part in enumerate(parts):
        if not _TREE.fullmatch(part) or part.count("Tree=") > 1:
            raise ModelError(
                f"tree {i}: must be up to 22 lines key=value, followed by blank lines only; the "
                "file is damaged"
            )
        if sizes and sizes[i] != str(len(part.encode())):
            raise ModelError(
                f"tree {i} has {len(part.encode())} bytes, tree_sizes says {sizes[i][:20]}, by "
                "which LightGBM finds its trees; it is damaged"
            )
    blocks = [dict(line.partition("=")[::2] for line in part.split("\n")) for part in parts]
    return header, blocks, tail


def _chosen(
    requested: IterationRange, n_trees: int, n_outputs: int, best: int | None = None
) -> Iterations:
    if n_outputs < 1 or n_trees % n_outputs:
        raise ModelError(
            f"has {n_trees} trees and {n_outputs} trees per iteration; the file is damaged"
        )
    return Iterations.chosen(requested, n_trees // n_outputs, best)


def _ensemble(
    trees: list[Tree],
    names: list[str],
    *,
    categories: Categories,
    n_features: int,
    n_outputs: int,
    iterations: Iterations,
    objective: str,
    averaged: bool,
    version: str,
    classes: Classes,
    is_classifier: bool = False,
) -> Ensemble:
    name, *options = objective.split() or [""]
    fields = dict(_LINKS.get(name, {"task": "regression" if n_outputs == 1 else "multiclass"}))
    if fields.get("link") == "logistic":
        fields["link_scale"] = 1.0 if name == "cross_entropy" else _sigmoid(options)
    if fields["task"] == "binary":
        if averaged and version == "v2" and all(_are_probabilities(tree) for tree in trees):
            # The forests of early versions have probabilities in their leaves.
            fields = {"task": "binary", "threshold": 0.5, "tie": "negative"}
    elif is_classifier and fields["task"] == "regression" and name not in ("", "custom"):
        if name not in _OUTPUTS_RAW or "sqrt" in options:
            raise ModelError(
                f"is a classifier with the objective {name!r}, whose predict compares a function "
                "of the raw score with 1/2; train with objective='binary', or pass its booster_"
            )
        fields |= {"threshold": 0.5, "tie": "negative"}
    return assemble(
        [replace(tree, output=i % n_outputs) for i, tree in enumerate(trees)],
        n_outputs=n_outputs,
        n_features=n_features,
        feature_names=names,
        classes=classes,
        average=max(1, iterations.used) if averaged else 1,
        iterations=iterations,
        categories=categories,
        category_rule="truncate",
        **fields,
    )


def _tree_from_block(index: int, block: Mapping[str, str]) -> Tree:
    """A tree of the text format: inner nodes first, child ~i is leaf i."""
    n_leaves = count(block, "num_leaves", where=f"tree {index}: ")
    if block.get("is_linear", "0") != "0":
        _refuse_linear(index)
    score = numbers(
        _split(block, "leaf_value", float, index), n_leaves, f"tree {index}: leaf_value"
    )
    if n_leaves == 0:
        raise ModelError(f"tree {index} has no leaves; the file is damaged")
    if n_leaves == 1:
        return Tree.leaf(float(score[0]))
    n_inner = n_leaves - 1

    def whole(key: str) -> npt.NDArray[np.int64]:
        return whole_numbers(_split(block, key, int, index), n_inner, f"tree {index}: {key}")

    feature, left, right = whole("split_feature"), whole("left_child"), whole("right_child")
    threshold = _split(block, "threshold", float, index)
    kind = whole("decision_type") if "decision_type" in block else np.zeros(n_inner, np.int64)
    if (feature < 0).any():
        raise ModelError(f"tree {index} tests a negative feature; the file is damaged")
    if ((kind < 0) | (kind > 15)).any():
        raise ModelError(f"tree {index}: decision_type must be 0…15; the file is damaged")
    cut = numbers(threshold, n_inner, f"tree {index}: threshold")
    by_set = np.flatnonzero(kind & 1)
    sets: dict[int, npt.NDArray[np.int64]] = {}
    n_sets = count(block, "num_cat", "0", where=f"tree {index}: ")
    if len(by_set) or n_sets:
        bounds, words = (
            whole_numbers(_split(block, key, int, index), None, f"tree {index}: {key}")
            for key in ("cat_boundaries", "cat_threshold")
        )
        if len(bounds) != n_sets + 1:
            raise ModelError(
                f"tree {index}: cat_boundaries must be {n_sets + 1} numbers, as num_cat says, got "
                f"{len(bounds)}; the file is damaged"
            )
        listed = codes_of_bits(index, cut[by_set], bounds, words)
        sets = dict(zip(by_set.tolist(), listed, strict=True))
    return _tree(
        feature,
        cut,
        *(np.where(side < 0, n_inner - 1 - side, side) for side in (left, right)),
        default_left=(kind & 2) != 0,
        missing_type=kind >> 2 & 3,
        score=score,
        sets=sets,
    )


def _tree(
    feature: npt.NDArray[np.int64],
    threshold: npt.NDArray[np.float64],
    left: npt.NDArray[np.int64],
    right: npt.NDArray[np.int64],
    *,
    default_left: npt.NDArray[np.bool_],
    missing_type: npt.NDArray[np.int64],
    score: npt.NDArray[np.float64],
    sets: Mapping[int, npt.NDArray[np.int64]],
) -> Tree:
    """Translate the splits of inner nodes, and append the leaves behind them."""
    zero_left = np.where(missing_type == _MISSING["Zero"], default_left, threshold >= 0)
    nan_left = np.where(missing_type == _MISSING["NaN"], default_left, zero_left)
    nan_left[list(sets)] = False  # NaN is no category
    n_leaves = len(score)
    none, no = np.full(n_leaves, -1, dtype=np.int64), np.zeros(n_leaves)
    tree = Tree(
        np.concatenate([feature, none]),
        np.concatenate([threshold, no]),
        np.concatenate([left, none]),
        np.concatenate([right, none]),
        np.concatenate([nan_left.astype(np.int64), none]),
        np.concatenate([np.zeros(len(feature)), score]),
        sets=sets,
    )
    to_left = np.concatenate([zero_left, no.astype(bool)])
    return send(tree, to_left, low=-_ZERO, high=_ZERO)


def _split(block: Mapping[str, str], key: str, kind: type, tree: int) -> list[Any]:
    try:
        text = block.get(key, "")
        if "_" in text or not text.isascii():  # Python reads separators of digits, other scripts
            raise ValueError
        return [kind(part) for part in text.split()]
    except ValueError:
        raise ModelError(f"tree {tree}: {key} must be numbers; the file is damaged") from None


def _are_probabilities(tree: Tree) -> bool:
    return bool(((tree.score >= 0) & (tree.score <= 1)).all())


def _refuse_linear(tree: int) -> NoReturn:
    raise ModelError(
        f"tree {tree} has linear models in its leaves, not scores; train with linear_tree=false"
    )


def _sigmoid(options: Sequence[str]) -> float:
    """The scale s of `binary sigmoid:s`, where probability = 1 / (1 + exp(-s * raw score))."""
    given = [option.partition(":")[2] for option in options if option.startswith("sigmoid:")]
    try:
        (scale,) = map(float, given)
        if 0 < scale < np.inf and given[0].isascii() and "_" not in given[0]:
            return scale
    except ValueError:
        pass
    shown = repr(given[0])[:40] if len(given) == 1 else f"given {len(given)} times"
    raise ModelError(f"sigmoid is {shown}, not a number > 0; it is damaged")
