"""What training tried and chose, as values and as a table, and its progress meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from carvegbm.ensemble import Ensemble
from carvegbm.progress import Bar, is_shown
from carvegbm.training.evaluation import EvalResult
from carvegbm.training.model import GBDTModel

if TYPE_CHECKING:
    from carvegbm.displays import TrainingDisplay

__all__ = ["Reporter", "TrainingReport", "Trial", "aligned", "print_line", "shown"]

_ROUNDS_PER_LINE = 50


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that training tried, measured on the validation rows.

    `measures` are "accuracy" and "robustness"; for regression "error" and "worst error", root mean
    squares of which the second is at the worse end of the range within the attacker's reach.
    `seconds` count from the start of its fit. A `note` is for example "scout": a small model,
    trained to choose parameters.
    """

    parameters: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, float]
    trees: int
    leaves: int
    seconds: float
    note: str = ""
    model: GBDTModel | None = field(default=None, repr=False)

    @property
    def accuracy(self) -> float:
        """Accuracy on the validation rows."""
        return self.measures["accuracy"]

    @property
    def robustness(self) -> float:
        """Share of the validation rows proven robust."""
        return self.measures["robustness"]

    @property
    def error(self) -> float:
        """Root mean squared error."""
        return self.measures["error"]

    @property
    def worst_error(self) -> float:
        """The same at the worse end of the range within reach."""
        return self.measures["worst error"]

    @property
    def ensemble(self) -> Ensemble:
        """The model, ready to be verified."""
        assert self.model is not None
        return self.model.ensemble

    @property
    def text(self) -> str:
        """The model as LightGBM's text."""
        assert self.model is not None
        return self.model.text()

    def to_dict(self) -> dict[str, Any]:
        """Return the trial as plain values, without the model."""
        size = {"trees": self.trees, "leaves": self.leaves, "seconds": self.seconds}
        return {**self.parameters, **self.measures, **size, "note": self.note}

    def columns(self) -> dict[str, str]:
        """Return the trial as text, by heading."""
        return {
            **{name: shown(value) for name, value in self.parameters.items()},
            "trees": str(self.trees),
            "leaves": str(self.leaves),
            **{name: f"{value:.4f}" for name, value in self.measures.items()},
            "seconds": f"{self.seconds:.1f}",
        }


@dataclass(frozen=True)
class TrainingReport:
    """Every trial of robust or certified training, what was chosen, and why.

    `trials` are in the order they were trained, `why` is a sentence. `floor` is the smallest
    accuracy that was acceptable (None: any), `plain_accuracy` that of plain LightGBM on the
    validation data, if it was trained.
    """

    trials: Sequence[Trial]
    chosen: Trial
    why: str
    floor: float | None = None
    plain_accuracy: float | None = None

    def with_model(self, model: GBDTModel) -> TrainingReport:
        """Return the report with another model of the chosen trial, such as one with row counts."""
        chosen = replace(self.chosen, model=model)
        trials = [chosen if trial is self.chosen else trial for trial in self.trials]
        return replace(self, trials=trials, chosen=chosen)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, without the models."""
        return {
            "chosen": next(i for i, trial in enumerate(self.trials) if trial is self.chosen),
            "why": self.why,
            "floor": self.floor,
            "plain_accuracy": self.plain_accuracy,
            "trials": [trial.to_dict() for trial in self.trials],
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table of text with a heading; trials have empty cells for missing parameters."""
        found = [trial.columns() for trial in self.trials]
        headings: list[str] = []
        for columns in found:  # a new heading comes after its predecessor
            place = 0
            for name in columns:
                if name not in headings:
                    headings.insert(place, name)
                place = headings.index(name) + 1
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


def print_line(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows of a table as lines, every column aligned on its right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def shown(value: Any) -> str:
    """Return the value of a parameter as tables show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


class Reporter:
    """Shows round, first metric and share of open thresholds: a bar on a terminal, or lines."""

    def __init__(self, n_rounds: int, n_open: int, verbose: int) -> None:
        self._n_rounds = n_rounds
        self._n_open = max(1, n_open)
        self._verbose = verbose
        self._bar: Bar | None = None
        self._last = ""

    def __enter__(self) -> Reporter:
        if self._verbose and is_shown():
            self._bar = Bar(self._n_rounds).start()
        return self

    def show(self, done: int, results: Sequence[EvalResult], n_open: int) -> None:
        """Report that `done` rounds are finished."""
        if not self._verbose:
            return
        parts = [f"{metric} {value:.5g} ({name})" for name, metric, value, _ in results[:1]]
        parts.append(f"{100 * n_open / self._n_open:.0f} % of thresholds open")
        self._last = ", ".join(parts)
        if self._bar is not None:
            self._bar.update(done, self._last)
        elif done % _ROUNDS_PER_LINE == 0:
            print_line(f"round {done}: {self._last}")

    def finish(self, reason: str, done: int, kept: int) -> None:
        """Report how training ended."""
        if not self._verbose:
            return
        if self._bar is not None:
            self._bar.stop()
        kept_text = f", kept the first {kept}" if kept != done else ""
        last = f"; {self._last}" if self._last else ""
        print_line(f"stopped after {done} rounds ({reason}){kept_text}{last}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
