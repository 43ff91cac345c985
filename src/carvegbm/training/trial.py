"""A trial: a model that training tries, judged on the validation rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from carvegbm.ensemble import Ensemble
from carvegbm.training.growing.model import Model

__all__ = ["Trial"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that training tried, judged on the validation rows."""

    accuracy: float
    robustness: float
    """Share of the validation rows proven robust."""
    trees: int
    leaves: int
    seconds: float
    """From the start of its training on."""
    model: Model = field(repr=False)

    @property
    def ensemble(self) -> Ensemble:
        """The model, ready to be verified."""
        return self.model.ensemble

    @property
    def text(self) -> str:
        """The model as LightGBM's text, written when it is asked for."""
        return self.model.text()
