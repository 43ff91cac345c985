"""Plot the trials of a training report: robustness over accuracy, with the chosen one marked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carvegbm.displays.base import SERIES, Display, literal, merged, percent_axis, text_colour
from carvegbm.errors import CarveError, shown

__all__ = ["TrainingDisplay"]


class TrainingDisplay(Display):
    """Trials of training, as measured on validation data: both accuracies, or both errors.

    Parameters
    ----------
    result : TrainingReport or Tuning

    Attributes
    ----------
    ax_, figure_
        The Axes and Figure of the last plot.
    points_ : dict
        Matplotlib's points by note, such as "plain" or "scout"; "" for trials without one.
    chosen_
        The mark of the chosen trial.
    lines_ : dict
        Lines at "floor", the smallest accepted accuracy, and "plain_accuracy", if there are any.

    Examples
    --------
    >>> import carvegbm as cg
    >>> from matplotlib.figure import Figure
    >>> from carvegbm.training.report import TrainingReport, Trial
    >>> measures = {"accuracy": 0.9, "robustness": 0.7}
    >>> trial = Trial(measures=measures, trees=10, leaves=80, seconds=0.1)
    >>> display = cg.TrainingDisplay(TrainingReport([trial], trial, "the only trial"))
    >>> display.plot(Figure().subplots()).ax_.get_ylabel()
    'robustness on validation data'
    """

    points_: dict[str, Any]
    chosen_: Any
    lines_: dict[str, Any]

    def __init__(self, result: Any) -> None:
        trials, chosen = getattr(result, "trials", None), getattr(result, "chosen", None)
        if not trials or chosen is None:
            raise CarveError(
                f"a TrainingReport or a Tuning is needed, got {shown(result)}; fit leaves one in "
                "training_report_, tune returns one"
            )
        self.measures = [dict(trial.measures) for trial in trials]
        self.notes = [trial.note for trial in trials]
        self.chosen = next(i for i, trial in enumerate(trials) if trial is chosen)
        self.floor, self.plain_accuracy = result.floor, result.plain_accuracy
        columns = chosen.columns()
        differing = [f"{name} {columns[name]}" for name in result.varied() if name in columns]
        self.label = ", ".join(differing) or f"trial {self.chosen}"
        if chosen.is_plain:
            self.label = "plain model"

    @classmethod
    def from_estimator(  # type: ignore[override]
        cls, estimator: Any, *, name: str | None = None, ax: Any = None
    ) -> TrainingDisplay:
        """Draw the `training_report_` of a fitted estimator."""
        report = getattr(estimator, "training_report_", None)
        if report is None:
            raise CarveError(
                f"{type(estimator).__name__} has no training_report_; fit it, with robust or "
                "certified training"
            )
        return cls.from_result(report, name=name, ax=ax)

    def _draw(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        ax = self.ax_
        across, up = self.measures[0]
        self.points_, self.lines_ = {}, {}
        for note in sorted(set(self.notes)):
            some = [m for m, own in zip(self.measures, self.notes, strict=True) if own == note]
            look: dict[str, Any] = {"s": 42, "zorder": 3, "label": literal(note or "trial")}
            if note:  # a hollow mark
                look |= {"facecolors": "none", "edgecolors": SERIES[0]}
            else:
                look["color"] = SERIES[0]
            self.points_[note] = ax.scatter(
                [m[across] for m in some], [m[up] for m in some], **merged(look, kwargs)
            )
        best = self.measures[self.chosen]
        self.chosen_ = ax.scatter(
            [best[across]],
            [best[up]],
            s=190,
            facecolors="none",
            edgecolors=SERIES[1],
            linewidths=2.2,
            zorder=4,
            label=literal(f"chosen: {self.label}", 60),
        )
        if across == "accuracy":
            for what, value, style, label in (
                ("floor", self.floor, "--", "smallest accuracy accepted"),
                ("plain_accuracy", self.plain_accuracy, ":", "accuracy of plain LightGBM"),
            ):
                if value is not None:
                    look = {"color": text_colour(), "linestyle": style, "linewidth": 1.2}
                    self.lines_[what] = ax.axvline(value, label=label, **look)
            percent_axis(ax.xaxis)
            percent_axis(ax.yaxis)
        ax.set_xlabel(f"{across} on validation data")
        ax.set_ylabel(f"{up} on validation data")
        ax.margins(0.12)
        ax.locator_params(nbins=6)
        ax.legend(loc="best", fontsize="small")
        if name is not None:
            ax.set_title(literal(name, 80))
