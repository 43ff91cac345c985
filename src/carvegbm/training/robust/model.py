"""From grown trees to a model that LightGBM loads.

Comes in: trees over codes with their scores. Goes out: a `GrownModel`: an `Ensemble` at once,
LightGBM's text and Booster when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.training.growing.grown import GrownTree
from carvegbm.training.growing.model import GrownModel, Kind, writable
from carvegbm.training.growing.thresholds import Candidates
from carvegbm.training.robust.growing import Grown, GrowthSettings

__all__ = ["counted", "model_of", "template_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_OBJECTIVE = ("objective", "num_class")
_SPLITS = "2"  # LightGBM's decision type: numerical, and a missing value is read as 0


def model_of(grown: Grown, kind: Kind, template: str, candidates: Candidates) -> GrownModel:
    """The model of trees that split at these candidates; a constant where there are none.

    Its text counts rows where the attacker pushed them while the trees were grown.
    """
    folded = grown.folded()
    trees = [
        _written(tree, writable(values), candidates)
        for tree, values in zip(folded.trees, folded.values, strict=True)
    ] or [GrownTree.constant(float(bias), 0) for bias in grown.bias]
    return GrownModel.of(trees, kind, template, candidates)


def counted(model: GrownModel, X: npt.NDArray[Any], threads: int) -> GrownModel:
    """The same model; its text counts the rows of X where they are, as LightGBM's would."""
    rows = model.ensemble.core.leaf_counts(np.ascontiguousarray(X), threads)
    ends = np.cumsum([tree.n_leaves for tree in model.trees])[:-1]
    parts = np.split(rows, ends)
    trees = [_with_counts(tree, own) for tree, own in zip(model.trees, parts, strict=True)]
    return replace(model, trees=trees)


def template_of(
    parameters: Mapping[str, Any], settings: GrowthSettings, n_features: int, n_rounds: int
) -> str:
    """Text of a LightGBM model without a split: header and parameters of the one to be written.

    Of the parameters only the objective counts; the settings say the rest.
    """
    import lightgbm

    objective = {name: parameters[name] for name in _OBJECTIVE if name in parameters}
    rows = lightgbm.Dataset(np.zeros((2, n_features)), [0, 1])
    named = {name: value for name, value in asdict(settings).items() if name != "ordered"}
    named["bagging_freq"] = 0  # LightGBM refuses a bag without a row, as a share of two rows may be
    told = {**named, **objective, "verbosity": -1, "num_threads": 1}
    text: str = lightgbm.train(told, rows, 1).model_to_string()
    text = text.replace("[bagging_freq: 0]", f"[bagging_freq: {settings.bagging_freq}]")
    return text.replace("[num_iterations: 1]", f"[num_iterations: {n_rounds}]")


def _written(tree: _core.CodedTree, values: Floats, candidates: Candidates) -> GrownTree:
    """A tree with everything that LightGBM's text says of one."""
    feature, position = tree.feature.astype(np.int64), tree.position.astype(np.int64)
    left, right = tree.left.astype(np.int64), tree.right.astype(np.int64)
    if len(feature) == 0:
        return GrownTree.constant(float(values[0]), int(tree.rows[0]))
    used = zip(feature.tolist(), position.tolist(), strict=True)
    threshold = np.array([candidates.values[f][p] for f, p in used])
    fields = {
        "num_leaves": str(len(values)),
        "num_cat": "0",
        "split_feature": _joined(feature),
        "split_gain": " ".join(f"{gain:g}" for gain in tree.gain),
        "threshold": "",
        "decision_type": " ".join([_SPLITS] * len(feature)),
        "left_child": _joined(left),
        "right_child": _joined(right),
        "leaf_value": " ".join(map(repr, values.tolist())),
        "leaf_weight": " ".join(map(repr, tree.hessians.tolist())),
        "leaf_count": "",
        "internal_value": "",
        "internal_weight": " ".join(f"{h:g}" for h in _below(left, right, tree.hessians)),
        "internal_count": "",
        "is_linear": "0",
        "shrinkage": "1",
    }
    grown = GrownTree(
        feature=feature,
        position=position,
        threshold=threshold,
        left=left,
        right=right,
        value=values,
        fields=fields,
        missing_left=threshold >= 0,
    )
    return _with_counts(grown, tree.rows)


def _with_counts(tree: GrownTree, rows: npt.NDArray[np.int64]) -> GrownTree:
    """The same tree, with so many rows in its leaves."""
    if tree.n_leaves == 1:
        return replace(tree, fields={**tree.fields, "leaf_count": str(int(rows[0]))})
    count = _below(tree.left, tree.right, rows)
    mean = _below(tree.left, tree.right, rows * tree.value) / np.maximum(count, 1)
    counts = {
        "leaf_count": _joined(rows),
        "internal_value": " ".join(f"{value:g}" for value in mean),
        "internal_count": _joined(count.astype(np.int64)),
    }
    return replace(tree, fields={**tree.fields, **counts})


def _below(left: Ints, right: Ints, per_leaf: npt.NDArray[Any]) -> Floats:
    """Sums over the leaves below every split."""
    found = np.zeros(len(left))
    for node in range(len(left) - 1, -1, -1):  # children come after their parent
        for child in (int(left[node]), int(right[node])):
            found[node] += per_leaf[~child] if child < 0 else found[child]
    return found


def _joined(numbers: npt.NDArray[Any]) -> str:
    return " ".join(map(str, numbers.tolist()))
