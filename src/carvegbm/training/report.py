"""What training tried, what it chose, and why: as values, and as a table.

Comes in: trials of any kind. Goes out: `TrainingReport`, which `fit` leaves behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from carvegbm.training.reporting import aligned
from carvegbm.training.trial import Trial

if TYPE_CHECKING:
    from carvegbm.displays import TrainingDisplay

__all__ = ["TrainingReport"]


@dataclass(frozen=True)
class TrainingReport:
    """Every trial of robust or certified training, what was chosen, and why.

    Attributes
    ----------
    trials : sequence of Trial
        In the order they were trained; what they measure is measured on validation data.
    chosen : Trial
        One of them.
    why : str
        A sentence.
    floor : float or None
        The smallest accuracy that was acceptable; None: any.
    plain_accuracy : float or None
        Accuracy of plain LightGBM on the validation data, where it was trained.
    """

    trials: Sequence[Trial]
    chosen: Trial
    why: str
    floor: float | None = None
    plain_accuracy: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, without the models."""
        return {
            "chosen": self._position,
            "why": self.why,
            "floor": self.floor,
            "plain_accuracy": self.plain_accuracy,
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """The report as a table of text, a heading first; the chosen trial is marked.

        A trial without some parameter has an empty cell there.
        """
        found = [trial.columns() for trial in self.trials]
        headings = _merged([list(columns) for columns in found])
        marks = ["chosen" if trial is self.chosen else trial.note for trial in self.trials]
        lines = [
            (*(columns.get(heading, "") for heading in headings), mark)
            for columns, mark in zip(found, marks, strict=True)
        ]
        return [(*headings, ""), *lines]

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> TrainingDisplay:
        """Draw the trials, see `TrainingDisplay.from_report`."""
        from carvegbm.displays import TrainingDisplay

        return TrainingDisplay.from_report(self, name=name, ax=ax, **kwargs)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import training_html

        return training_html(self)

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), self.why])

    @property
    def _position(self) -> int:
        """Of the chosen trial, which others may equal."""
        return next(i for i, trial in enumerate(self.trials) if trial is self.chosen)


def _merged(lists: Sequence[Sequence[str]]) -> list[str]:
    """All names, each list in its own order: a new one comes after its predecessor.

    Examples
    --------
    >>> _merged([["pull", "trees"], ["pull", "members", "trees"]])
    ['pull', 'members', 'trees']
    """
    found: list[str] = []
    for names in lists:
        place = 0
        for name in names:
            if name not in found:
                found.insert(place, name)
            place = found.index(name) + 1
    return found
