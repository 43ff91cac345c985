"""A trial of tuning, and what it is worth by a criterion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from carvegbm.training.report import Trial
from carvegbm.training.spec import StopReason

__all__ = ["Criterion", "TuningTrial"]

Criterion = Literal["accuracy", "robustness", "tradeoff"]


@dataclass(frozen=True, kw_only=True)
class TuningTrial(Trial):
    """A trial of tuning: parameters, and the model that was trained with them."""

    parameters: dict[str, Any]
    stopped_because: StopReason
    refit: bool | None = None
    """Certified training: whether the scores are refitted ones."""
    outcome: dict[str, Any] = field(repr=False)
    """How training went: what `fit` sets beside the model."""

    def score(self, criterion: Criterion, weight: float) -> float:
        """What the criterion maximises; `weight` is the share of accuracy in the trade-off."""
        if criterion == "accuracy":
            return self.accuracy
        if criterion == "robustness":
            return self.robustness
        return weight * self.accuracy + (1 - weight) * self.robustness
