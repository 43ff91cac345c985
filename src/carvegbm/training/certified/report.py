"""The trials of certified training, and the columns of their report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from carvegbm.training.reporting import shown
from carvegbm.training.trial import ClassifierTrial

__all__ = ["CertifiedTrial"]


@dataclass(frozen=True, kw_only=True)
class CertifiedTrial(ClassifierTrial):
    """A trial of certified training; its parameters are its own fields."""

    num_leaves: int
    quietness: float | None
    scout: bool
    """Trained with a few rounds only."""
    refit: bool
    """Whether the scores are refitted ones."""
    parameters: dict[str, Any] = field(init=False, repr=False)
    note: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        named = {"num_leaves": self.num_leaves, "quietness": self.quietness, "refit": self.refit}
        object.__setattr__(self, "parameters", named)
        object.__setattr__(self, "note", "scout" if self.scout else "")

    def to_dict(self) -> dict[str, Any]:
        """The figures, without the model."""
        size = {"trees": self.trees, "leaves": self.leaves, "seconds": self.seconds}
        own = {"num_leaves": self.num_leaves, "quietness": self.quietness}
        return {**self.measures, **size, **own, "scout": self.scout, "refit": self.refit}

    def columns(self) -> dict[str, str]:
        """The trial as a row of text, by heading."""
        return {
            "quietness": shown(self.quietness),
            "num_leaves": str(self.num_leaves),
            "trees": str(self.trees),
            "refit": "yes" if self.refit else "no",
            "accuracy": f"{self.accuracy:.4f}",
            "robustness": f"{self.robustness:.4f}",
            "seconds": f"{self.seconds:.1f}",
        }
