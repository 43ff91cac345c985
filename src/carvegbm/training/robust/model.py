"""From grown trees to a model that LightGBM loads.

Comes in: trees over codes with their scores. Goes out: a `GrownModel`: an `Ensemble` at once,
LightGBM's text and Booster when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.training.growing.grown import GrownTree
from carvegbm.training.growing.model import GrownModel, Kind, writable
from carvegbm.training.growing.thresholds import Candidates
from carvegbm.training.robust.growing import Grown, GrowthSettings

__all__ = ["model_of", "template_of"]

Floats = npt.NDArray[np.float64]

_SPLITS = "2"  # LightGBM's decision type: numerical, and a missing value is read as 0


def model_of(grown: Grown, kind: Kind, template: str, candidates: Candidates) -> GrownModel:
    """The model of trees that split at these candidates; a constant where there are none."""
    folded = grown.folded()
    trees = [
        _written(tree, writable(values), candidates)
        for tree, values in zip(folded.trees, folded.values, strict=True)
    ] or [GrownTree.constant(float(bias), 0) for bias in grown.bias]
    return GrownModel.of(trees, kind, template, candidates)


def template_of(
    objective: Mapping[str, Any], settings: GrowthSettings, n_features: int, n_rounds: int
) -> str:
    """Text of a LightGBM model without a split: header and parameters of the one to be written."""
    import lightgbm

    rows = lightgbm.Dataset(np.zeros((2, n_features)), [0, 1])
    named = {name: value for name, value in asdict(settings).items() if name != "ordered"}
    parameters = {**named, **objective, "verbosity": -1, "num_threads": 1}
    text: str = lightgbm.train(parameters, rows, 1).model_to_string()
    return text.replace("[num_iterations: 1]", f"[num_iterations: {n_rounds}]")


def _written(tree: _core.CodedTree, values: Floats, candidates: Candidates) -> GrownTree:
    """A tree with everything that LightGBM's text says of one."""
    feature, position = tree.feature.astype(np.int64), tree.position.astype(np.int64)
    left, right = tree.left.astype(np.int64), tree.right.astype(np.int64)
    if len(feature) == 0:
        return GrownTree.constant(float(values[0]), int(tree.rows[0]))
    used = zip(feature.tolist(), position.tolist(), strict=True)
    inner = _Inner(left, right)
    count, weight = inner.sums(tree.rows.astype(np.float64)), inner.sums(tree.hessians)
    mean = inner.sums(tree.rows * values) / np.maximum(count, 1)
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
        "leaf_count": _joined(tree.rows),
        "internal_value": " ".join(f"{value:g}" for value in mean),
        "internal_weight": " ".join(f"{value:g}" for value in weight),
        "internal_count": _joined(count.astype(np.int64)),
        "is_linear": "0",
        "shrinkage": "1",
    }
    return GrownTree(
        feature=feature,
        position=position,
        threshold=np.array([candidates.values[f][p] for f, p in used]),
        left=left,
        right=right,
        value=values,
        fields=fields,
    )


class _Inner:
    """Sums over the leaves below every split."""

    def __init__(self, left: npt.NDArray[np.int64], right: npt.NDArray[np.int64]) -> None:
        self._children = list(zip(left.tolist(), right.tolist(), strict=True))

    def sums(self, per_leaf: npt.NDArray[Any]) -> Floats:
        found = np.zeros(len(self._children))
        for node in range(len(self._children) - 1, -1, -1):  # children come after their parent
            for child in self._children[node]:
                found[node] += per_leaf[~child] if child < 0 else found[child]
        return found


def _joined(numbers: npt.NDArray[Any]) -> str:
    return " ".join(map(str, numbers.tolist()))
