"""Trials of training and the chosen one, as values and as a table."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from carvegbm.model.ensemble import Ensemble
from carvegbm.tables import text_table
from carvegbm.training.model import GBDTModel

if TYPE_CHECKING:
    from carvegbm.displays import TrainingDisplay

__all__ = ["TrainingReport", "Trial", "print_line", "shown"]

_WIDTH = 80  # of a table of trials, in characters
_HEADINGS = {
    "n_members": "members",
    "budget_share": "budget",
    "max_crowding": "crowding",
    "min_child_samples": "min rows",
    "learning_rate": "rate",
    "n_estimators": "rounds",
    "num_leaves": "size",
    "robustness": "robust",
    "worst error": "worst",
    "seconds": "sec",
}
_WORDS = {
    "n_members": "{} models averaged",
    "rounds": "{} rounds",
    "n_estimators": "at most {} rounds",
    "num_leaves": "at most {} leaves per tree",
    "min_child_samples": "{} rows per leaf",
    "learning_rate": "learning rate {}",
    "budget_share": "{:.0%} of the budget",
    "radius": "{:.1%} of the budget per feature",
    "ordered": "ordered splits",
    "refit": "refitted leaf scores",
}
_OMITTED = (("n_members", 1), ("budget_share", 1.0), ("budget_share", 0.0))  # the usual values
_OPTIONAL = ("leaves", "seconds", "trees")  # left out, in this order, of a table that is too wide


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A model that training tried, measured on the validation rows.

    `measures` are "accuracy" and "robustness"; for regression "error" and "worst error", root mean
    squares of which the second is at the worse end of the range within the attacker's reach.
    `seconds` count from the start of its fit. `note` is "scout" for a small model that was trained
    to choose parameters, "unfinished" after Ctrl-C or a time limit, "plain" for the plain model
    that the others are compared with, and otherwise empty.
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
    def is_plain(self) -> bool:
        """Whether the trial was grown as if there were no attacker, for comparison."""
        return self.parameters.get("budget_share") == 0

    @property
    def ensemble(self) -> Ensemble:
        """The model, ready to be verified."""
        assert self.model is not None
        return self.model.ensemble

    def to_dict(self) -> dict[str, Any]:
        """Return the trial as plain values, without the model."""
        size = {"trees": self.trees, "leaves": self.leaves, "seconds": self.seconds}
        return {**self.parameters, **self.measures, **size, "note": self.note}

    def describe(self) -> str:
        """Return the parameters in words: 3 models averaged, 40 rounds, leaf_l2 0.001."""
        words = ["plain model"] if self.is_plain else []
        for name, value in self.parameters.items():
            if value is not None and value is not False and (name, value) not in _OMITTED:
                text = _WORDS.get(name, f"{name} {{}}")
                words.append(text.format(value if "%" in text else shown(value)))
        return ", ".join(words) or "the only one"

    def line(self) -> str:
        """Return the trial as one line of text."""
        return ", ".join(f"{name} {text}" for name, text in self.columns().items())

    def columns(self) -> dict[str, str]:
        """Return the trial as text, by name of the column."""
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

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, without the models."""
        return {
            "chosen": next(i for i, trial in enumerate(self.trials) if trial is self.chosen),
            "why": self.why,
            "floor": self.floor,
            "plain_accuracy": self.plain_accuracy,
            "trials": [trial.to_dict() for trial in self.trials],
        }

    @property
    def plain(self) -> Trial | None:
        """The plain model of the same size that the others are compared with, if there is one."""
        return next((trial for trial in self.trials if trial.is_plain), None)

    def _values(self) -> dict[str, set[str]]:
        """Return the values of every parameter as text, the plain model aside."""
        values: dict[str, set[str]] = {}
        for trial in self.trials:
            for name, value in {} if trial.is_plain else trial.parameters.items():
                values.setdefault(name, set()).add(shown(value))
        return values

    def varied(self) -> list[str]:
        """Return the names of the parameters in which trials differ, the plain model aside."""
        return [name for name, values in self._values().items() if len(values) > 1]

    def common(self) -> str:
        """Return the parameters that all trials share, with their values."""
        return ", ".join(f"{n} {min(v)}" for n, v in self._values().items() if len(v) == 1)

    def rows(self) -> list[tuple[str, ...]]:
        """Return a table of text with a heading, at most 80 characters wide where that is possible.

        Parameters in which trials differ are columns, with empty cells for trials without them. The
        last column marks the chosen and the plain model.
        """
        varied = self.varied()
        found = [
            {
                n: text
                for n, text in trial.columns().items()
                if n in varied or n not in trial.parameters
            }
            for trial in self.trials
        ]
        names = [*varied, *(name for name in found[0] if name not in varied)]
        for optional in ("", *_OPTIONAL):
            names = [name for name in names if name != optional]
            table = [(*(_HEADINGS.get(name, name) for name in names), "")]
            for trial, columns in zip(self.trials, found, strict=True):
                marks = ["chosen"] * (trial is self.chosen) + [trial.note] * (trial.note != "")
                table.append((*(columns.get(name, "") for name in names), ", ".join(marks)))
            if max(map(len, text_table(table, ">" * len(table[0])))) <= _WIDTH:
                break
        return table

    def summary(self) -> list[tuple[str, str]]:
        """Return the chosen trial in a few lines, with the figures of the plain model beside it."""
        chosen, plain = self.chosen, self.plain
        size = f"{chosen.trees:,} trees, {chosen.leaves:,} leaves"
        lines = [("chosen", chosen.describe()), ("size", size)]
        names = {"robustness": "proven robustness", "worst error": "worst error within reach"}
        for name, value in chosen.measures.items():
            beside = ""
            if plain is not None and plain is not chosen:
                beside = f" (plain model {plain.measures[name]:.4f})"
            elif plain is None and name == "accuracy" and self.plain_accuracy is not None:
                beside = f" (plain LightGBM {self.plain_accuracy:.4f})"
            lines.append((names.get(name, name), f"{value:.4f}{beside}"))
        return lines

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> TrainingDisplay:
        """Draw the trials, see `TrainingDisplay`."""
        from carvegbm.displays import TrainingDisplay

        return TrainingDisplay(self).plot(ax, name=name, **kwargs)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import training_html

        return training_html(self)

    def __str__(self) -> str:
        common = textwrap.wrap(self.common(), _WIDTH, break_long_words=False)
        rows = self.rows()
        return "\n".join([*common, *text_table(rows, ">" * len(rows[0])), self.why])


def print_line(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def shown(value: Any) -> str:
    """Return the value of a parameter as tables show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
