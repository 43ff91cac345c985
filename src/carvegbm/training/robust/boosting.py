"""A training specification together with its training rows, for robust training."""

from __future__ import annotations

from dataclasses import dataclass

from carvegbm.attacker import Attacker
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import Evaluation
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.model import ModelSpec
from carvegbm.training.spec import Params, TrainSpec

__all__ = ["Boosting"]


@dataclass(frozen=True)
class Boosting:
    """What to train, and on which rows."""

    spec: TrainSpec
    data: Dataset

    @property
    def attacker(self) -> Attacker:
        """With features by position."""
        return self.spec.attacker

    @property
    def kind(self) -> ModelSpec:
        """Task and features."""
        return self.spec.model

    @property
    def parameters(self) -> Params:
        """LightGBM's parameters."""
        return self.spec.params

    @property
    def n_rounds(self) -> int:
        """Maximum number of rounds."""
        return self.spec.n_rounds

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation sets."""
        return self.spec.evaluation

    @property
    def threads(self) -> int:
        """Number of threads."""
        return self.spec.threads

    def closing_rule(self) -> ExclusionRule:
        """Return the exclusion rule of the attacker."""
        return self.spec.exclusion_rule()
