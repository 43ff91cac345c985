"""Other leaf scores for a model of someone else's, which stays a model of its kind.

Comes in: a model as `carvegbm.load` takes it, the ensemble that was read from it, other scores.
Goes out: a copy of the model with these scores: a LightGBM or XGBoost Booster, an estimator of
carvegbm's; an `Ensemble` for whatever cannot be written. Each copy is
read again and must be the ensemble with the scores it was given.
"""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble
from carvegbm.errors import ModelError
from carvegbm.readers import lightgbm_text, load, xgboost_json
from carvegbm.training.growing.model import writable

__all__ = ["Rewriter", "rewriter"]

Floats = npt.NDArray[np.float64]


class Rewriter:
    """Writes a copy of a model; this one, of any model as an `Ensemble`."""

    objective = ""
    """What the model was trained to minimise, in its library's words; empty: not known."""

    def __init__(self, ensemble: Ensemble, objective: object = "") -> None:
        self.ensemble = ensemble
        self.objective = objective if isinstance(objective, str) else ""

    def held(self, scores: Floats) -> Floats:
        """The scores as the model's own format holds them; only such ones can be written."""
        return scores

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:  # noqa: ARG002
        """A copy of the model with these scores, checked on the rows of X."""
        return self.ensemble.with_scores(scores)


def rewriter(model: Any, ensemble: Ensemble) -> Rewriter:
    """What writes copies of `model`, which `ensemble` was read from."""
    if hasattr(model, "ensemble_") and hasattr(model, "booster_"):
        return _OwnRewriter(model, ensemble)
    booster = getattr(model, "booster_", model)
    if hasattr(booster, "model_to_string"):
        return _LightGBMRewriter(str(booster.model_to_string()), ensemble)
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(model)
        text = lightgbm_text(path)
        if text is not None:
            return _LightGBMRewriter(text.replace("\r\n", "\n"), ensemble)
        source: Any = xgboost_json(path)
    else:
        source = model.get_booster() if hasattr(model, "get_booster") else model
        source = source if hasattr(source, "save_raw") else None
    if source is None:
        return Rewriter(ensemble, getattr(model, "loss", getattr(model, "criterion", "")))
    from carvegbm.training.refitting.rewriting_xgboost import XGBoostRewriter

    return XGBoostRewriter(source, ensemble)


class _LightGBMRewriter(Rewriter):
    """Writes Boosters of a LightGBM model text."""

    def __init__(self, text: str, ensemble: Ensemble) -> None:
        named = re.search(r"^objective=(.*)", text, re.MULTILINE)
        super().__init__(ensemble, named[1].strip() if named else "")
        self._text = text

    def held(self, scores: Floats) -> Floats:
        return writable(scores)

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:  # noqa: ARG002
        import lightgbm

        ensemble = self.ensemble
        booster = lightgbm.Booster(model_str=self._text)
        leaves = np.bincount(
            ensemble.tree_of_node[ensemble.nodes["feature"] < 0], minlength=ensemble.n_trees
        ).tolist()
        counts = re.findall(r"^num_leaves=(\d+)", self._text, re.MULTILINE)
        if leaves == [int(count) for count in counts]:
            row = 0
            for tree, count in enumerate(leaves):
                own = scores[row : row + count, tree % ensemble.n_outputs].tolist()
                for leaf, score in enumerate(own):
                    booster.set_leaf_output(tree, leaf, score)
                row += count
            labels = None if ensemble.task == "regression" else ensemble.classes.tolist()
            written = load(booster, classes=labels)
            if _is_same(written, ensemble, scores):
                return booster
        raise not_by_leaf()


class _OwnRewriter(_LightGBMRewriter):
    """Writes copies of an estimator of carvegbm's."""

    def __init__(self, model: Any, ensemble: Ensemble) -> None:
        super().__init__(model.booster_.model_to_string(), ensemble)
        self._model = model

    def write(self, scores: Floats, X: npt.NDArray[Any]) -> Any:
        from copy import copy

        fitted = copy(self._model)
        fitted.__dict__.pop("training_report_", None)  # it speaks of other scores
        fitted.booster_ = super().write(scores, X)
        fitted.ensemble_ = self._model.ensemble_.with_scores(scores)
        return fitted


def _is_same(written: Ensemble, ensemble: Ensemble, scores: Floats) -> bool:
    fields = ("nodes", "set_starts", "set_codes")
    return np.array_equal(written.scores, scores) and all(
        np.array_equal(getattr(written, name), getattr(ensemble, name)) for name in fields
    )


def not_by_leaf() -> ModelError:
    """The error where a reader had to lay out a tree anew, see readers.trees.send."""
    return ModelError("its trees cannot be written back leaf by leaf; pass carvegbm.load(model)")
