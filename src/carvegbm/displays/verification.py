"""Plot the shares of statuses as bars, one per verification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.displays.base import (
    Display,
    hide_frame,
    legend_below,
    literal,
    merged,
    norm_text,
    percent_axis,
    text_colour,
)
from carvegbm.displays.statistics import Segment, segments
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.statuses import COLOURS, HATCHES, INKS, MEANINGS
from carvegbm.storage.text import percent, percent_interval
from carvegbm.totals import VerificationTotals

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker

__all__ = ["VerificationDisplay"]

_NARROW_SEGMENT = 0.5  # inches; a narrower segment shows no number
_WIDE_AXES = 4.0  # inches; the legend of wider axes has sentences
_CHARACTER = 0.073  # inches of small text
_HEIGHT, _HEIGHT_PER_BAR, _MAX_HEIGHT = 1.6, 0.62, 60.0  # inches


class VerificationDisplay(Display):
    """Shares of statuses, one bar per verification.

    Each bar is divided at the accuracy: correct rows are left of it, with unknown rows that may be
    robust next to the robust ones, so that robustness lies between the two ends of their segment.

    Parameters
    ----------
    result : Verification, its totals, or several of them
        A mapping gives the names of the bars; others are named by their attackers.
    y : array of shape (n_rows,), optional
        Labels of the rows of a single verification: draws one more bar per class.

    Attributes
    ----------
    ax_, figure_
        The Axes and Figure of the last plot.
    bars_ : list of dict
        Per bar, matplotlib's rectangles by status; unknown rows that are wrong are
        "unknown and wrong".
    accuracy_, intervals_
        Matplotlib's marks of the accuracy, and of the interval of robustness where it is open.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> display = cg.VerificationDisplay(result)
    >>> [(part.status, part.count) for part in display.segments()]
    [('robust', 1), ('fragile', 1)]
    >>> from matplotlib.figure import Figure
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()  # by default a new figure of pyplot
    'share of 2 instances'
    """

    bars_: list[dict[str, Any]]
    accuracy_: Any
    intervals_: list[Any]

    def __init__(self, result: Any, *, y: npt.ArrayLike | None = None) -> None:
        named = isinstance(result, Mapping)
        if named:
            given = list(result.values())
        else:
            given = list(result) if isinstance(result, Iterable) else [result]
        if not given:
            raise CarveError("there is no verification to draw; give at least one")
        totals = [_totals(each) for each in given]
        names = list(result) if named else [_attacker_text(each.attacker) for each in totals]
        if y is not None:
            if len(given) > 1:
                raise CarveError(f"y is for one verification, got {len(given)}; leave it out")
            classes = _by_class(given[0], y)
            totals, names = [*totals, *classes.values()], [names[0] if named else "all", *classes]
        self.totals, self.names = tuple(totals), tuple(map(str, names))
        self._is_by_class = y is not None
        self._segments = [segments(each) for each in totals]

    @classmethod
    def _of_model(
        cls, model: Any, X: Any, y: Any, attacker: Any, *, by_class: bool = False, **options: Any
    ) -> VerificationDisplay:
        from carvegbm.queries import verify

        if by_class and y is None:
            raise CarveError("by_class needs labels; give y")
        return cls(verify(model, X, y, attacker, **options), y=y if by_class else None)

    def segments(self, bar: int = 0) -> list[Segment]:
        """Return the non-empty parts of a bar, from the left."""
        return list(self._segments[bar])

    def _prepare(self, name: str | None) -> None:
        if name is not None and len(self.totals) > 1 and not self._is_by_class:
            raise CarveError(f"name is for one bar, this display has {len(self.totals)}")

    def _height(self) -> float:
        return min(_HEIGHT + _HEIGHT_PER_BAR * len(self.totals), _MAX_HEIGHT)

    def _draw(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        ax, ink = self.ax_, text_colour()
        names = self.names if name is None else (name, *self.names[1:])
        self.bars_, self.intervals_ = [], []
        for place, (totals, label) in enumerate(zip(self.totals, names, strict=True)):
            self.bars_.append(self._draw_bar(place, kwargs))
            if totals.open:
                line = {"color": ink, "marker": "|", "markersize": 7, "linewidth": 1.2, "zorder": 3}
                self.intervals_ += ax.plot(totals.robustness, [place + 0.33] * 2, **line)
            # Text above its bar leaves the whole width to the bars.
            left, right = literal(label), f"robustness {percent_interval(*totals.robustness)}"
            room = self._inches / _CHARACTER - len(left)
            longer = f"accuracy {percent(totals.accuracy)}, {right}"
            fitting = next((text for text in (longer, right) if len(text) < room), "")
            text: dict[str, Any] = {"va": "bottom", "fontsize": "small"}
            ax.text(0, place - 0.34, left, ha="left", weight="bold", **text)
            ax.text(1, place - 0.34, fitting, ha="right", **text)
        places = np.arange(len(self.totals))
        self.accuracy_ = ax.vlines(
            [totals.accuracy for totals in self.totals],
            places - 0.3,
            places + 0.3,
            colors=ink,
            linewidth=2.2,
            zorder=3,
            clip_on=False,
        )
        hide_frame(ax)
        ax.set_ylim(len(self.totals) - 0.6, -0.75)
        ax.set_xlim(0, 1)
        percent_axis(ax.xaxis)
        ax.set_xlabel(self._axis_text())
        legend_below(ax, self._handles(ink), columns=2 if self._inches >= _WIDE_AXES else 3)

    def _draw_bar(self, place: int, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        drawn: dict[str, Any] = {}
        for part in self._segments[place]:
            status = part.status
            look = {"color": COLOURS[status], "hatch": HATCHES[status], "height": 0.5}
            look |= {"edgecolor": "white", "linewidth": 0.8}
            (bar,) = self.ax_.barh(place, part.share, left=part.start, **merged(look, kwargs))
            is_wrong = part.start >= self.totals[place].accuracy
            drawn["unknown and wrong" if status == "unknown" and is_wrong else status] = bar
            if part.share * self._inches >= _NARROW_SEGMENT:
                self.ax_.text(
                    part.start + part.share / 2,
                    place,
                    percent(part.share),
                    ha="center",
                    va="center",
                    fontsize="small",
                    color=INKS[status],
                    bbox={"facecolor": COLOURS[status], "edgecolor": "none", "pad": 1.5},
                )
        return drawn

    def _axis_text(self) -> str:
        counts = {each.instances for each in self.totals}
        text = "share of instances"
        if len(counts) == 1:
            count = counts.pop()
            text = "share of 1 instance" if count == 1 else f"share of {count:,} instances"
        attackers = [each.attacker for each in self.totals]
        if len(attackers) > 1 and all(attacker == attackers[0] for attacker in attackers):
            text += f"; {_attacker_text(attackers[0])}"
        return text

    def _handles(self, ink: str) -> list[Any]:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        is_wide = self._inches >= _WIDE_AXES
        drawn = {part.status for parts in self._segments for part in parts}
        handles: list[Any] = [
            Patch(
                facecolor=COLOURS[status],
                hatch=HATCHES[status] * 2,
                edgecolor="white",
                label=f"{status}: {meaning}" if is_wide else status,
            )
            for status, meaning in MEANINGS.items()
            if status in drawn
        ]
        mark: dict[str, Any] = {"color": ink, "linestyle": "none", "marker": "|"}
        handles.append(Line2D([], [], markersize=11, markeredgewidth=2.2, label="accuracy", **mark))
        if self.intervals_:
            label = "robustness lies between" if is_wide else "robustness"
            handles.append(Line2D([], [], color=ink, marker="|", markersize=7, label=label))
        return handles


def _attacker_text(attacker: Attacker) -> str:
    """Return norm and budget, and whether the attacker is limited further."""
    from carvegbm.attackers.options import OPTIONS

    is_limited = any(getattr(attacker, option) is not None for option in OPTIONS)
    return f"{norm_text(attacker.norm)}, budget {attacker.budget:g}" + ", limited" * is_limited


def _totals(given: Any) -> VerificationTotals:
    found = given if isinstance(given, VerificationTotals) else getattr(given, "_totals", None)
    if not isinstance(found, VerificationTotals):
        raise CarveError(f"a Verification is needed, got {shown(given)}; make one by verify")
    return found


def _by_class(verification: Any, y: npt.ArrayLike) -> dict[Any, VerificationTotals]:
    """Return the totals of every class, by its label."""
    if isinstance(verification, VerificationTotals):
        raise CarveError("y needs a Verification: totals do not tell one instance from another")
    labels = np.asarray(y)
    if labels.shape != (len(verification),):
        raise DataError(
            f"y has shape {labels.shape}, {len(verification)} instances were verified; give a "
            "label for each"
        )
    return VerificationTotals.by_label(verification.columns(), labels, verification.attacker)
