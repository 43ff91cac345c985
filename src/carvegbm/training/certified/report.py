"""What certified training tried, what it chose, and why: as values, and as a table."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from carvegbm.training.reporting import aligned, shown
from carvegbm.training.trial import Trial

__all__ = ["CertifiedTrial", "TrainingReport"]


@dataclass(frozen=True, kw_only=True)
class CertifiedTrial(Trial):
    """A trial of certified training."""

    num_leaves: int
    quietness: float | None
    scout: bool
    """Trained with a few rounds only."""
    refit: bool
    """Whether the scores are refitted ones."""

    def to_dict(self) -> dict[str, Any]:
        """The figures, without the model."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "model"}


@dataclass(frozen=True)
class TrainingReport:
    """Every trial of certified training, what was chosen, and why.

    Attributes
    ----------
    trials : list of CertifiedTrial
        In the order they were trained; accuracy and robustness are those on validation data.
    chosen : CertifiedTrial
    why : str
        A sentence.
    floor : float or None
        The smallest accuracy that was acceptable; None: any.
    plain_accuracy : float or None
        Accuracy of plain LightGBM on the validation data, where it was trained.
    """

    trials: list[CertifiedTrial]
    chosen: CertifiedTrial
    why: str
    floor: float | None
    plain_accuracy: float | None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, without the models."""
        return {
            "chosen": self.trials.index(self.chosen),
            "why": self.why,
            "floor": self.floor,
            "plain_accuracy": self.plain_accuracy,
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The report as a table of text, a heading first; the chosen trial is marked."""
        table: list[tuple[str, ...]] = [
            ("quietness", "leaves", "trees", "refit", "accuracy", "robustness", "seconds", "")
        ]
        for trial in self.trials:
            what = "chosen" if trial is self.chosen else "scout" if trial.scout else ""
            table.append(
                (
                    shown(trial.quietness),
                    str(trial.num_leaves),
                    str(trial.trees),
                    "yes" if trial.refit else "no",
                    f"{trial.accuracy:.4f}",
                    f"{trial.robustness:.4f}",
                    f"{trial.seconds:.1f}",
                    what,
                )
            )
        return table

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), self.why])
