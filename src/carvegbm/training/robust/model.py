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
from carvegbm.training.data import Labelled
from carvegbm.training.growing.grown import NOTHING_ABOVE, GrownTree
from carvegbm.training.growing.model import GrownModel, Kind, writable
from carvegbm.training.growing.sets import CategorySet, written_sets
from carvegbm.training.growing.thresholds import Candidates
from carvegbm.training.robust.growing import Grown, GrowthSettings

__all__ = ["counted", "model_of", "template_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_OBJECTIVE = ("objective", "num_class")
# Bits of LightGBM's decision types: which kind of split, where a missing value goes, and that it
# goes there, instead of being read as 0.
_CATEGORICAL, _LEFT, _MISSING = 1, 2, 8


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


def counted(model: GrownModel, rows: Labelled, threads: int) -> GrownModel:
    """The same model; its text counts the rows where they are, as LightGBM's would."""
    states = np.ascontiguousarray(model.ensemble.states(rows.X))
    counts = np.asarray(model.ensemble.core.leaf_counts(states, threads))
    ends = np.cumsum([tree.n_leaves for tree in model.trees])[:-1]
    parts = np.split(counts, ends)
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
    sets = {
        split: CategorySet(
            candidates.categories[int(feature[split])][np.array(codes) - 1], np.array(codes)
        )
        for split, codes in enumerate(tree.sets)
        if codes is not None
    }
    threshold = _thresholds(feature, position, candidates, sets)
    # A missing value is read as 0 where training saw none.
    has_missing = np.isin(feature, list(candidates.missing))
    missing_left = np.where(has_missing, tree.missing_left > 0, threshold >= 0)
    missing_left[list(sets)] = False
    kinds = np.where(has_missing, _MISSING + _LEFT * missing_left, _LEFT)
    kinds[list(sets)] = _CATEGORICAL + _MISSING
    fields = {
        "num_leaves": str(len(values)),
        "num_cat": str(len(sets)),
        "split_feature": _joined(feature),
        "split_gain": " ".join(f"{gain:g}" for gain in tree.gain),
        "threshold": "",
        "decision_type": _joined(kinds),
        "left_child": _joined(left),
        "right_child": _joined(right),
        "leaf_value": " ".join(map(repr, values.tolist())),
        "leaf_weight": " ".join(map(repr, tree.hessians.tolist())),
        "leaf_count": "",
        "internal_value": "",
        "internal_weight": " ".join(f"{h:g}" for h in _below(left, right, tree.hessians)),
        "internal_count": "",
        **written_sets(sets),
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
        missing_left=missing_left,
        sets=sets,
    )
    return _with_counts(grown, tree.rows)


def _thresholds(
    feature: Ints, position: Ints, candidates: Candidates, sets: Mapping[int, CategorySet]
) -> Floats:
    """The threshold of every split, or the number of its set."""
    found = np.zeros(len(feature))
    for split, (f, p) in enumerate(zip(feature.tolist(), position.tolist(), strict=True)):
        values = candidates.values[f]
        found[split] = 0.0 if split in sets else values[p] if p < len(values) else NOTHING_ABOVE
    found[sorted(sets)] = np.arange(len(sets))
    return found


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
