"""Write copies of existing models with other leaf scores.

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

from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, ModelError
from carvegbm.readers import lightgbm_text, load, xgboost_json
from carvegbm.training.dataset import spaced_rows
from carvegbm.training.model import stored_scores

__all__ = ["ScoreWriter", "writer_of"]

Floats = npt.NDArray[np.float64]


class ScoreWriter:
    """Writes copies of a model with other scores; the base class returns an `Ensemble`.

    Attributes
    ----------
    objective : str
        What the model was trained to minimise, in its library's words; empty if unknown.
    """

    def __init__(self, ensemble: Ensemble, objective: object = "") -> None:
        self.ensemble = ensemble
        self.objective = objective if isinstance(objective, str) else ""

    def stored(self, scores: Floats) -> Floats:
        """Return the scores as the model's format stores them."""
        return scores

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:  # noqa: ARG002
        """Return a copy with these scores, checked on the rows of X."""
        return self.ensemble.with_scores(scores)

    def _check(self, written: Any, scores: Floats) -> None:
        """Raise an error unless a reader finds the scores leaf by leaf."""
        ensemble = self.ensemble
        labels = None if ensemble.task == "regression" else ensemble.classes.tolist()
        if load(written, classes=labels) != ensemble.with_scores(scores):
            raise _not_by_leaf()


def _not_by_leaf() -> ModelError:
    """The error if a reader had to lay out a tree anew."""
    return ModelError("its trees cannot be written back leaf by leaf; pass carvegbm.load(model)")


def writer_of(model: Any, ensemble: Ensemble) -> ScoreWriter:
    """Return the writer of copies of `model`, which `ensemble` was read from."""
    if hasattr(model, "ensemble_") and hasattr(model, "booster_"):
        return _EstimatorWriter(model, ensemble)
    booster = getattr(model, "booster_", model)
    if hasattr(booster, "model_to_string"):
        return _LightGBMWriter(str(booster.model_to_string()), ensemble)
    if hasattr(model, "save_raw") or hasattr(model, "get_booster"):
        own = model.get_booster() if hasattr(model, "get_booster") else model
        return _XGBoostWriter(own, ensemble)
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        text = lightgbm_text(path)
        if text is not None:
            return _LightGBMWriter(text.replace("\r\n", "\n"), ensemble)
        data = xgboost_json(path)
        if data is not None:
            return _XGBoostWriter(_open_booster(data), ensemble)
    return ScoreWriter(ensemble, getattr(model, "loss", getattr(model, "criterion", "")))


class _LightGBMWriter(ScoreWriter):
    """Writes Boosters of a LightGBM model text."""

    def __init__(self, text: str, ensemble: Ensemble) -> None:
        named = re.search(r"^objective=(.*)", text, re.MULTILINE)
        super().__init__(ensemble, named[1].strip() if named else "")
        self._text = text

    def stored(self, scores: Floats) -> Floats:
        return stored_scores(scores)

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:  # noqa: ARG002
        import lightgbm

        ensemble = self.ensemble
        leaves = np.bincount(
            ensemble.tree_of_node[ensemble.nodes["feature"] < 0], minlength=ensemble.n_trees
        ).tolist()
        counts = re.findall(r"^num_leaves=(\d+)", self._text, re.MULTILINE)
        if leaves != [int(count) for count in counts]:
            raise _not_by_leaf()
        booster = lightgbm.Booster(model_str=self._text)
        parts = np.split(scores, np.cumsum(leaves)[:-1])
        for tree, own in enumerate(parts):
            for leaf, score in enumerate(own[:, tree % ensemble.n_outputs].tolist()):
                booster.set_leaf_output(tree, leaf, score)
        self._check(booster, scores)
        return booster


class _EstimatorWriter(_LightGBMWriter):
    """Writes copies of an estimator of carvegbm."""

    def __init__(self, model: Any, ensemble: Ensemble) -> None:
        super().__init__(model.booster_.model_to_string(), ensemble)
        self._model = model

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:
        fitted = copy(self._model)
        fitted.__dict__.pop("training_report_", None)  # it describes other scores
        fitted.booster_ = super().write(scores, X)
        fitted.ensemble_ = self._model.ensemble_.with_scores(scores)
        return fitted


class _XGBoostWriter(ScoreWriter):
    """Writes copies of an XGBoost Booster through its JSON; scores are float32."""

    def __init__(self, booster: Any, ensemble: Ensemble) -> None:
        self._booster = booster
        config = json.loads(self._booster.save_config())
        super().__init__(ensemble, config["learner"]["objective"]["name"])

    def stored(self, scores: Floats) -> Floats:
        with np.errstate(over="ignore", under="ignore"):
            return scores.astype(np.float32).astype(np.float64)

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:
        import xgboost

        written = self._booster.copy()
        written.load_model(bytearray(self._document(scores).encode()))
        used = self.ensemble.iterations  # a Booster predicts with all its trees
        written = written if used is None else written[: used.used]
        self._check(written, scores)
        rows = X[spaced_rows(len(X))]
        matrix = xgboost.DMatrix(rows, feature_names=written.feature_names)
        margins = written.predict(matrix, output_margin=True).astype(np.float64)
        if not np.array_equal(margins, self.ensemble.with_scores(scores).raw_score(rows)):
            raise ModelError(
                "xgboost has other raw scores for the rewritten model than its trees; pass "
                "carvegbm.load(model)"
            )
        return written

    def _document(self, scores: Floats) -> str:
        """Return the model's JSON with these scores."""
        document = json.loads(bytes(self._booster.save_raw("json")))
        booster, n_trees = document["learner"]["gradient_booster"], self.ensemble.n_trees
        model = (booster["gbtree"] if booster["name"] == "dart" else booster)["model"]
        for holder in (booster, model):  # the scores contain the weights of dart's trees
            if "weight_drop" in holder:
                holder["weight_drop"][:n_trees] = [1.0] * n_trees
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
        return json.dumps(document)


def _open_booster(data: bytes) -> Any:
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
