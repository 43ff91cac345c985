"""Plot the trials of a training report: robustness over accuracy, with the chosen one marked.

Of a regression, both errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from carvegbm.displays import drawing
from carvegbm.errors import CarveError, shown

if TYPE_CHECKING:
    from carvegbm.training.report import TrainingReport, Trial

__all__ = ["TrainingDisplay"]


class TrainingDisplay:
    """Trials of training, as measured on validation data.

    Parameters
    ----------
    measures : sequence of mapping
        Of every trial two numbers by name: "accuracy" and "robustness", or "error" and "worst
        error".
    chosen : int
        The position of the one that was chosen.
    labels : sequence of str
        What was tried, in words.
    notes : sequence of str
        A word about each, such as "plain" or "scout".
    floor, plain_accuracy : float or None
        The smallest accuracy that was acceptable, and that of plain LightGBM.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    points_ : dict
        Matplotlib's points by note; "" for trials without one.
    chosen_
        The mark of the chosen one.
    lines_ : dict
        Lines at "floor" and "plain_accuracy", those that there are.

    Examples
    --------
    >>> from carvegbm import TrainingDisplay
    >>> measures = [{"accuracy": 0.9, "robustness": 0.5}, {"accuracy": 0.8, "robustness": 0.7}]
    >>> display = TrainingDisplay(measures=measures, chosen=1, labels=["a", "b"])
    >>> from matplotlib.figure import Figure
    >>> display.plot(Figure().subplots()).ax_.get_ylabel()
    'robustness on validation data'
    """

    ax_: Any
    figure_: Any
    points_: dict[str, Any]
    chosen_: Any
    lines_: dict[str, Any]

    def __init__(
        self,
        *,
        measures: Sequence[Mapping[str, float]],
        chosen: int,
        labels: Sequence[str],
        notes: Sequence[str] | None = None,
        floor: float | None = None,
        plain_accuracy: float | None = None,
    ) -> None:
        self.measures, self.labels = [dict(each) for each in measures], list(labels)
        self.notes = [""] * len(self.measures) if notes is None else list(notes)
        self.chosen, self.floor, self.plain_accuracy = chosen, floor, plain_accuracy
        if not 0 <= chosen < len(self.measures) or len(self.measures) != len(self.labels):
            raise CarveError(
                f"trial {chosen} is chosen of {len(self.measures)} with {len(self.labels)} labels; "
                "choose one of them, and give a label for each"
            )

    @classmethod
    def of(cls, report: Any) -> TrainingDisplay:
        """The display of a training report, or of a tuning, not drawn yet."""
        trials: Sequence[Trial] | None = getattr(report, "trials", None)
        chosen = getattr(report, "chosen", None)
        if not trials or chosen is None:
            raise CarveError(
                f"a TrainingReport or a Tuning is needed, got {shown(report)}; fit leaves one in "
                "training_report_, tune returns one"
            )
        return cls(
            measures=[trial.measures for trial in trials],
            chosen=next(i for i, trial in enumerate(trials) if trial is chosen),
            labels=_labels(report),
            notes=[trial.mark for trial in trials],
            floor=report.floor,
            plain_accuracy=report.plain_accuracy,
        )

    @classmethod
    def from_report(
        cls, report: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> TrainingDisplay:
        """Draw the trials of a report.

        Parameters
        ----------
        report : TrainingReport or Tuning
        name : str, optional
            The title of the picture.
        ax : matplotlib's Axes, optional
            Where to draw; by default in a new figure.
        kwargs
            For matplotlib's `scatter`.
        """
        return cls.of(report).plot(ax, name=name, **kwargs)

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> TrainingDisplay:
        """Draw the trials of a fitted estimator, those of its `training_report_`."""
        report = getattr(estimator, "training_report_", None)
        if report is None:
            raise CarveError(
                f"{type(estimator).__name__} has no training_report_; fit it, with robust or "
                "certified training"
            )
        return cls.from_report(report, name=name, ax=ax, **kwargs)

    def plot(self, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> TrainingDisplay:
        """Draw; the parameters are those of `from_report`."""
        self.ax_, self.figure_ = ax, _ = drawing.axes_for(f"{type(self).__name__}.plot", ax)
        across, up = self.measures[0]
        self.points_, self.lines_ = {}, {}
        for note in sorted(set(self.notes)):
            these = [m for m, own in zip(self.measures, self.notes, strict=True) if own == note]
            look: dict[str, Any] = {"color": drawing.SERIES[0], "s": 42, "zorder": 3}
            if note:  # such as "plain": a hollow mark
                look |= {"facecolors": "none", "edgecolors": drawing.SERIES[0]}
                look.pop("color")
            look["label"] = drawing.literal(note or "trial")
            self.points_[note] = ax.scatter(
                [m[across] for m in these], [m[up] for m in these], **drawing.merged(look, kwargs)
            )
        best = self.measures[self.chosen]
        self.chosen_ = ax.scatter(
            [best[across]],
            [best[up]],
            marker="o",
            s=190,
            facecolors="none",
            edgecolors=drawing.SERIES[1],
            linewidths=2.2,
            zorder=4,
            label=drawing.literal(f"chosen: {self.labels[self.chosen]}", 60),
        )
        self._draw_lines(across)
        ax.set_xlabel(f"{across} on validation data")
        ax.set_ylabel(f"{up} on validation data")
        if across == "accuracy":
            drawing.percent_axis(ax.xaxis)
            drawing.percent_axis(ax.yaxis)
        ax.margins(0.12)
        ax.locator_params(nbins=6)
        ax.legend(loc="best", fontsize="small")
        if name is not None:
            ax.set_title(drawing.literal(name, 80))
        return self

    def _draw_lines(self, across: str) -> None:
        if across != "accuracy":
            return
        given = {
            "floor": (self.floor, "--", "smallest accuracy accepted"),
            "plain_accuracy": (self.plain_accuracy, ":", "accuracy of plain LightGBM"),
        }
        for what, (value, style, label) in given.items():
            if value is not None:
                self.lines_[what] = self.ax_.axvline(
                    value, color=drawing.text_colour(), linestyle=style, linewidth=1.2, label=label
                )


def _labels(report: TrainingReport) -> list[str]:
    """Return per trial the parameters that distinguish it from the others."""
    varied = report.varied()
    return [
        "plain model"
        if trial.is_plain
        else ", ".join(f"{name} {row[name]}" for name in varied if name in row) or f"trial {i}"
        for i, trial in enumerate(report.trials)
        for row in [trial.columns()]
    ]
