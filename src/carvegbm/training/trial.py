"""Trials: models that training tries, judged on the validation rows.

Every trial says what it was trained with (`parameters`), how it did (`measures`) and how large it
is; a report makes a row of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.training.growing.model import GrownModel
from carvegbm.training.reporting import shown

__all__ = ["ClassifierTrial", "RegressorTrial", "Trial"]


@dataclass(frozen=True, kw_only=True)
class Trial(ABC):
    """A model that training tried, judged on the validation rows."""

    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What tells it from other trials, by name; a column each."""
    trees: int
    leaves: int
    """Of all its trees."""
    seconds: float
    """From the start of its training on."""
    note: str = ""
    """A word about it, such as "scout": trained in a small way, to see what suits the data."""
    model: GrownModel | None = field(default=None, repr=False)
    """None in a `Tuning`, which keeps the estimator of the best trial only."""

    @property
    @abstractmethod
    def measures(self) -> dict[str, float]:
        """How it did on the validation rows, by name: as they are, and at the attacker's best."""

    @property
    def ensemble(self) -> Ensemble:
        """The model, ready to be verified."""
        return self._model.ensemble

    @property
    def text(self) -> str:
        """The model as LightGBM's text, written when it is asked for."""
        return self._model.text()

    @property
    def _model(self) -> GrownModel:
        if self.model is None:
            raise CarveError("the model of this trial is not kept; fit with its parameters")
        return self.model

    def to_dict(self) -> dict[str, Any]:
        """The trial as plain values, without the model."""
        size = {"trees": self.trees, "leaves": self.leaves, "seconds": self.seconds}
        return {**self.parameters, **self.measures, **size, "note": self.note}

    def columns(self) -> dict[str, str]:
        """The trial as a row of text, by heading."""
        return {
            **{name: shown(value) for name, value in self.parameters.items()},
            "trees": str(self.trees),
            "leaves": str(self.leaves),
            **{name: f"{value:.4f}" for name, value in self.measures.items()},
            "seconds": f"{self.seconds:.1f}",
        }


@dataclass(frozen=True, kw_only=True)
class ClassifierTrial(Trial):
    """A trial that tells classes apart."""

    accuracy: float
    robustness: float
    """Share of the validation rows proven robust."""

    @property
    def measures(self) -> dict[str, float]:
        """Accuracy and robustness."""
        return {"accuracy": self.accuracy, "robustness": self.robustness}


@dataclass(frozen=True, kw_only=True)
class RegressorTrial(Trial):
    """A trial that predicts numbers."""

    error: float
    """Root of the mean squared error."""
    worst_error: float
    """The same at the worse end of the range within the attacker's reach; what is not known of
    that range counts against the trial."""

    @property
    def measures(self) -> dict[str, float]:
        """Both errors."""
        return {"error": self.error, "worst error": self.worst_error}
