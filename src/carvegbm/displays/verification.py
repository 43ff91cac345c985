"""Verifications as bars: which share of the instances has which status.

Comes in: totals of one verification or of several. Goes out: a bar each. From the left: robust,
what may be robust, fragile; then, beyond the accuracy, what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.displays import drawing
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.statuses import COLOURS, HATCHES, INKS, MEANINGS, in_a_bar
from carvegbm.totals import VerificationTotals
from carvegbm.wording.shares import percent, percent_interval

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker

__all__ = ["Segment", "VerificationDisplay", "segments"]

_NARROWEST = 0.5  # inches of a segment that holds its number
_WIDE = 4.0  # inches of axes that hold sentences side by side
_CHARACTER = 0.073  # inches of small text
_HEIGHT, _PER_BAR, _MOST = 1.6, 0.62, 60.0  # inches


@dataclass(frozen=True)
class Segment:
    """A part of a bar: instances of one status, from `start` on, as shares of all."""

    status: Literal["robust", "fragile", "vulnerable", "broken", "unknown"]
    count: int
    start: float
    share: float


class VerificationDisplay:
    """Shares of statuses, a bar per verification.

    Every bar is cut at the accuracy: what is decided rightly is on its left, with the unknown that
    may be robust beside the robust, so that robustness lies between two ends of segments.

    Parameters
    ----------
    totals : sequence of VerificationTotals
        One per bar.
    names : sequence of str
        What the bars are called.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    bars_ : list of dict
        Per bar, its drawn segments: matplotlib's rectangles by status; of unknown instances those
        decided rightly are "unknown", the others "unknown and wrong".
    accuracy_
        Matplotlib's marks of the accuracy.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> [(part.status, part.count) for part in cg.VerificationDisplay.of([result]).segments()]
    [('robust', 1), ('fragile', 1)]
    """

    ax_: Any
    figure_: Any
    bars_: list[dict[str, Any]]
    accuracy_: Any

    def __init__(self, *, totals: Sequence[VerificationTotals], names: Sequence[str]) -> None:
        self.totals, self.names = tuple(totals), tuple(map(str, names))
        if not self.totals or len(self.totals) != len(self.names):
            raise CarveError(
                f"{len(self.totals)} verifications and {len(self.names)} names were given; give at "
                "least one, and a name for each"
            )
        self._segments = [segments(each) for each in self.totals]

    @classmethod
    def of(cls, verifications: Any, names: Sequence[str] | None = None) -> VerificationDisplay:
        """The display of one verification or several, or of their totals, not drawn yet.

        Those that have no name are called by their attackers.
        """
        if isinstance(verifications, Mapping):
            names = [str(name) for name in verifications]
            verifications = list(verifications.values())
        if not isinstance(verifications, Iterable):  # one alone
            verifications = [verifications]
        totals = [_totals(given) for given in verifications]
        return cls(totals=totals, names=names or [attacker_text(t.attacker) for t in totals])

    @classmethod
    def from_verification(
        cls,
        verification: Any,
        y: npt.ArrayLike | None = None,
        *,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> VerificationDisplay:
        """Draw one verification; with labels y, a bar of all and one of every class.

        Parameters
        ----------
        verification : Verification
            Or its totals, as results on Dask and Spark give them by `summary()`.
        y : array (n,), optional
            The label of every instance.
        name : str, optional
            What the bar is called; by default as the attacker is.
        ax : matplotlib's Axes, optional
            Where to draw; by default in a new figure.
        kwargs
            For matplotlib's `barh`.

        Examples
        --------
        >>> import carvegbm as cg
        >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
        >>> model = cg.Ensemble.from_trees([stump], n_features=1)
        >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()  # by default pyplot makes one, which a notebook shows
        >>> cg.VerificationDisplay.from_verification(result, ax=ax).ax_.get_xlabel()
        'share of 2 instances'
        """
        display = cls.of([verification], None if name is None else [name])
        if y is not None:
            parts = _by_class(verification, y)
            totals, names = [*display.totals, *parts.values()], [name or "all", *parts]
            display = cls(totals=totals, names=names)
        return display.plot(ax, **kwargs)

    @classmethod
    def from_verifications(
        cls,
        verifications: Mapping[Any, Any] | Sequence[Any],
        *,
        ax: Any = None,
        **kwargs: Any,
    ) -> VerificationDisplay:
        """Draw several verifications, a bar each.

        Parameters
        ----------
        verifications : mapping from name to Verification, or sequence of them
            In a sequence they are called by their attackers.
        ax, kwargs
            As for `from_verification`.
        """
        return cls.of(verifications).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        attacker: Attacker | None = None,
        *,
        by_class: bool = False,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> VerificationDisplay:
        """Verify a model and draw the result; `options` are those of `verify`.

        With `by_class`, a bar of all instances and one of every class.
        """
        from carvegbm.queries import verify

        drawing.check_drawable(f"{cls.__name__}.from_estimator", ax)
        if by_class and y is None:
            raise CarveError("by_class needs labels; give y")
        result = verify(estimator, X, y, attacker, **options)
        return cls.from_verification(result, y if by_class else None, name=name, ax=ax)

    def segments(self, bar: int = 0) -> list[Segment]:
        """The parts of a bar that are not empty, from the left."""
        return list(self._segments[bar])

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> VerificationDisplay:
        """Draw; `name` calls the bar another name, `kwargs` go to matplotlib's `barh`."""
        count = len(self.totals)
        if name is not None and count > 1:
            raise CarveError(f"name is for one bar, this display has {count}; give it names")
        height = min(_HEIGHT + _PER_BAR * count, _MOST)
        what = f"{type(self).__name__}.plot"
        self.ax_, self.figure_ = drawing.axes_for(what, ax, height=height)
        self._inches = drawing.width_of(self.ax_, is_own=ax is None)
        self.bars_ = [self._bar(place, kwargs) for place in range(count)]
        self._mark()
        self._label(self.names if name is None else [name])
        return self

    def _bar(self, place: int, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        drawn: dict[str, Any] = {}
        for part in self.segments(place):
            status, start, share = part.status, part.start, part.share
            look = {
                "height": 0.5,
                "color": COLOURS[status],
                "hatch": HATCHES[status],
                "edgecolor": "white",
                "linewidth": 0.8,
            }
            (bar,) = self.ax_.barh(place, share, left=start, **drawing.merged(look, kwargs))
            drawn["unknown and wrong" if status in drawn else status] = bar
            if share * self._inches >= _NARROWEST:
                self.ax_.text(
                    start + share / 2,
                    place,
                    percent(share),
                    ha="center",
                    va="center",
                    fontsize="small",
                    color=INKS[status],
                    bbox={"facecolor": COLOURS[status], "edgecolor": "none", "pad": 1.5},
                )
        if "unknown" in drawn and self.totals[place].open == 0:
            drawn["unknown and wrong"] = drawn.pop("unknown")
        return drawn

    def _mark(self) -> None:
        """The accuracy of every bar, and between which ends robustness lies, if it is open."""
        places = np.arange(len(self.totals))
        self.accuracy_ = self.ax_.vlines(
            [totals.accuracy for totals in self.totals],
            places - 0.3,
            places + 0.3,
            colors=drawing.text_colour(),
            linewidth=2.2,
            zorder=3,
            clip_on=False,
        )
        self.intervals_ = [
            self.ax_.plot(
                totals.robustness,
                [place + 0.33] * 2,
                color=drawing.text_colour(),
                marker="|",
                markersize=7,
                linewidth=1.2,
                zorder=3,
            )[0]
            for place, totals in enumerate(self.totals)
            if totals.open
        ]

    def _label(self, names: Sequence[str]) -> None:
        ax, count = self.ax_, len(self.totals)
        for place, (name, totals) in enumerate(zip(names, self.totals, strict=True)):
            accuracy = percent(totals.accuracy)
            robustness = percent_interval(*totals.robustness)
            called = drawing.literal(name)
            room = self._inches / _CHARACTER - len(called)
            numbers = f"robustness {robustness}"
            ways = (f"accuracy {accuracy}, {numbers}", numbers)
            numbers = next((way for way in ways if len(way) < room), "")
            # Above its bar: a long name takes no room from the bars.
            above: dict[str, Any] = {"va": "bottom", "fontsize": "small"}
            ax.text(0, place - 0.34, called, ha="left", weight="bold", **above)
            ax.text(1, place - 0.34, numbers, ha="right", **above)
        ax.set_yticks([])
        ax.set_ylim(count - 0.6, -0.75)
        ax.set_xlim(0, 1)
        drawing.percent_axis(ax.xaxis)
        ax.set_xlabel(_axis_text(self.totals))
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        drawing.legend_below(ax, self._handles(), columns=2 if self._inches >= _WIDE else 3)

    def _handles(self) -> list[Any]:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        there = {part.status for bar in range(len(self.totals)) for part in self.segments(bar)}
        found: list[Any] = [
            Patch(
                facecolor=COLOURS[status],
                hatch=HATCHES[status] * 2,
                edgecolor="white",
                label=f"{status}: {meaning}" if self._inches >= _WIDE else status,
            )
            for status, meaning in MEANINGS.items()
            if status in there
        ]
        ink = drawing.text_colour()
        mark: dict[str, Any] = {"color": ink, "linestyle": "none", "marker": "|"}
        found.append(Line2D([], [], markersize=11, markeredgewidth=2.2, label="accuracy", **mark))
        if self.intervals_:
            label = "robustness lies between" if self._inches >= _WIDE else "robustness"
            found.append(Line2D([], [], color=ink, marker="|", markersize=7, label=label))
        return found


def segments(totals: VerificationTotals) -> list[Segment]:
    """The statuses of some instances as parts of a bar, see `in_a_bar`."""
    n = totals.instances
    if n == 0:
        raise DataError("there are no instances to draw; verify some")
    found, before = [], 0
    for status, count in in_a_bar(totals.counts, totals.open):
        found.append(Segment(status, count, before / n, count / n))  # type: ignore[arg-type]
        before += count
    return found


def attacker_text(attacker: Attacker) -> str:
    """Norm and budget, and whether there is more to the attacker."""
    from carvegbm.attackers.options import OPTIONS

    limits = any(getattr(attacker, option) is not None for option in OPTIONS)
    text = f"{drawing.norm_text(attacker.norm)}, budget {attacker.budget:g}"
    return text + ", limited" * limits


def _axis_text(totals: Sequence[VerificationTotals]) -> str:
    counts = {each.instances for each in totals}
    text = "share of instances"
    if len(counts) == 1:
        count = counts.pop()
        text = "share of 1 instance" if count == 1 else f"share of {count:,} instances"
    attackers = [each.attacker for each in totals]
    if len(totals) > 1 and all(attacker == attackers[0] for attacker in attackers):
        text += f"; {attacker_text(attackers[0])}"
    return text


def _totals(given: Any) -> VerificationTotals:
    found = given if isinstance(given, VerificationTotals) else getattr(given, "_totals", None)
    if not isinstance(found, VerificationTotals):
        raise CarveError(f"a Verification is needed, got {shown(given)}; make one by verify")
    return found


def _by_class(verification: Any, y: npt.ArrayLike) -> dict[str, VerificationTotals]:
    """The totals of every class, by its label."""
    if isinstance(verification, VerificationTotals):
        raise CarveError("y needs a Verification: totals do not tell one instance from another")
    labels = np.asarray(y)
    if labels.shape != (len(verification),):
        raise DataError(
            f"y has shape {labels.shape}, {len(verification)} instances were verified; give a "
            "label for each"
        )
    found = VerificationTotals.by_label(verification.columns(), labels, verification.attacker)
    return {str(label): totals for label, totals in found.items()}
