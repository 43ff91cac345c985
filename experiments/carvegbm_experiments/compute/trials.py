"""Trials: the models trained for one configuration, and which of them was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import carvegbm as cg

if TYPE_CHECKING:
    from carvegbm_experiments.datasets import Split

__all__ = ["Trial", "Trials", "ensemble_of"]


@dataclass(frozen=True, eq=False)
class Trial:
    """One trained model, with its figures on the validation data."""

    num_leaves: int
    ensemble: cg.Ensemble
    seconds: float
    validation_accuracy: float
    validation_robustness: float | None = None
    quietness: float | None = None
    refit: bool | None = None
    """Whether certified training refitted the scores; None: it was not certified."""


@dataclass(frozen=True, eq=False)
class Trials:
    """The models trained for one configuration; `best` is chosen on the validation data."""

    all: list[Trial]
    best: Trial
    floor: float | None = None
    """Certified training: the smallest accuracy that was acceptable."""
    plain_accuracy: float | None = None
    """Certified training: the accuracy of plain LightGBM."""


def ensemble_of(text: str, split: Split) -> cg.Ensemble:
    """The ensemble in the text of a LightGBM model that was trained on the split."""
    import lightgbm

    return cg.load(lightgbm.Booster(model_str=text), classes=np.unique(split.y_train).tolist())
