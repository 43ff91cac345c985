"""Radii as a histogram, or as the share of instances that each budget flips.

Comes in: radii. Goes out: bars that add up to all instances. Those of radius 0 (wrong already),
those that no budget flips, and those that are not decided have bars of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.displays import drawing
from carvegbm.errors import CarveError, shown
from carvegbm.statuses import COLOURS, HATCHES

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.radius import Radius

__all__ = ["RadiusDisplay"]

Floats = npt.NDArray[np.float64]
Kind = Literal["histogram", "cumulative"]

_MOST_BINS = 40
_WORD = 0.65  # inches that the name of a bar takes
_MARK = "carvegbm radii"
_LOOKS = {
    "wrong": ("wrong\n(0)", "vulnerable"),
    "finite": ("", "fragile"),
    "infinite": ("none\n(∞)", "robust"),
    "undecided": ("not\ndecided", "unknown"),
}


class RadiusDisplay:
    """Radii: the smallest budgets that flip.

    Parameters
    ----------
    radius, lower, upper : array (n,)
        As those of a `Radius`: NaN where it is not decided, infinite where no budget flips.
    norm : int or float

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    bars_ : dict
        Histogram: matplotlib's bars by "wrong", "finite", "infinite" and "undecided"; those that
        there are.
    line_, band_
        Cumulative: matplotlib's line, and the band where something is not decided, or None.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> display = cg.RadiusDisplay.of(cg.radius(model, [[0.75], [0.25]], [1, 1], cg.Attacker(1)))
    >>> display.counts()
    {'wrong': 1, 'finite': 1, 'infinite': 0, 'undecided': 0}
    """

    ax_: Any
    figure_: Any
    bars_: dict[str, Any]
    line_: Any
    band_: Any

    def __init__(self, *, radius: Any, lower: Any, upper: Any, norm: int | float) -> None:
        self.radius, self.lower, self.upper = (np.asarray(a, float) for a in (radius, lower, upper))
        self.norm = norm

    @classmethod
    def of(cls, radii: Radius) -> RadiusDisplay:
        """The display of these radii, not drawn yet."""
        from carvegbm.radius import Radius

        if not isinstance(radii, Radius):
            raise CarveError(f"a Radius is needed, got {shown(radii)}; make one by radius")
        return cls(radius=radii.radius, lower=radii.lower, upper=radii.upper, norm=radii.norm)

    @classmethod
    def from_radii(
        cls,
        radii: Radius,
        *,
        kind: Kind = "histogram",
        bins: Any = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> RadiusDisplay:
        """Draw radii.

        Parameters
        ----------
        radii : Radius
        kind : {"histogram", "cumulative"}
            Instances by radius; or, over the budget, the share of instances whose radius is not
            larger: those that are wrong or can be flipped.
        bins : int, str or sequence, optional
            Of the histogram, as NumPy takes them, for the radii that are finite and not 0.
        name : str, optional
            In the legend.
        ax : matplotlib's Axes, optional
            Where to draw; by default in a new figure.
        kwargs
            For matplotlib's `bar`, or its `plot`.

        Examples
        --------
        >>> import carvegbm as cg
        >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
        >>> model = cg.Ensemble.from_trees([stump], n_features=1)
        >>> radii = cg.radius(model, [[0.75], [0.25]], [1, 1], cg.Attacker(1))
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()  # by default pyplot makes one, which a notebook shows
        >>> cg.RadiusDisplay.from_radii(radii, ax=ax).ax_.get_xlabel()
        'radius (norm 1)'
        """
        return cls.of(radii).plot(ax, kind=kind, bins=bins, name=name, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        attacker: Attacker | None = None,
        *,
        kind: Kind = "histogram",
        bins: Any = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> RadiusDisplay:
        """Measure a model and draw its radii; `options` are those of `radius`."""
        from carvegbm.queries import radius

        drawing.check_drawable(f"{cls.__name__}.from_estimator", ax)
        found = radius(estimator, X, y, attacker, **options)
        return cls.from_radii(found, kind=kind, bins=bins, name=name, ax=ax)

    def counts(self) -> dict[str, int]:
        """How many radii are of which kind."""
        return {kind: int(np.count_nonzero(which)) for kind, which in self._kinds().items()}

    def histogram(self, bins: Any = None) -> tuple[npt.NDArray[np.int64], Floats]:
        """The finite radii other than 0 by size: counts, and the edges of the bins."""
        finite = self.radius[self._kinds()["finite"]]
        if len(finite) == 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        if bins is None and self.norm == 0:  # whole numbers, each in the middle of a bin
            most = int(finite.max())
            step = -(-most // _MOST_BINS)
            bins = np.arange(0.5, most + step + 0.5, step)
        elif bins is None:
            count = int(np.clip(np.ceil(2 * np.sqrt(len(finite))), 5, _MOST_BINS))
            bins = np.linspace(0, finite.max(), count + 1)
        counts, edges = np.histogram(finite, bins)
        return counts.astype(np.int64), edges

    def plot(
        self,
        ax: Any = None,
        *,
        kind: Kind = "histogram",
        bins: Any = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> RadiusDisplay:
        """Draw; the parameters are those of `from_radii`."""
        if kind not in ("histogram", "cumulative"):
            raise CarveError(f"kind must be 'histogram' or 'cumulative', got {kind!r}")
        found = self.histogram(bins)
        self.ax_, self.figure_ = drawing.axes_for(f"{type(self).__name__}.plot", ax)
        if kind == "histogram":
            self._draw_bars(*found, name, kwargs, is_own=ax is None)
        else:
            self._draw_line(name, kwargs)
        if self.ax_.get_legend_handles_labels()[1]:
            self.ax_.legend(loc="upper right" if kind == "histogram" else "lower right")
        return self

    def _kinds(self) -> dict[str, npt.NDArray[np.bool_]]:
        radius = self.radius
        return {
            "wrong": radius == 0,
            "finite": np.isfinite(radius) & (radius > 0),
            "infinite": np.isinf(radius),
            "undecided": np.isnan(radius),
        }

    def _draw_bars(
        self,
        found: npt.NDArray[np.int64],
        edges: Floats,
        name: str | None,
        kwargs: Mapping[str, Any],
        is_own: bool,
    ) -> None:
        ax, counts = self.ax_, self.counts()
        first, last = (edges[0], edges[-1]) if len(edges) else (0.0, 0.0)
        width = float(np.median(np.diff(edges))) if len(edges) else 1.0
        # Bars of their own stand beside the scale, at a distance.
        wide = max(width, (last - first) / 14)
        inches = drawing.width_of(ax, is_own=is_own)
        apart = max(1.5 * width, (last - first) * max(1 / 8, _WORD / inches))
        places = {"wrong": first - apart, "infinite": last + apart}
        places["undecided"] = last + apart * (2 if counts["infinite"] else 1)
        self.bars_ = {}
        labelled = name
        if len(found):
            look = _look("finite", labelled)
            self.bars_["finite"] = ax.bar(
                edges[:-1], found, np.diff(edges), align="edge", **drawing.merged(look, kwargs)
            )
            labelled = None
        whole = self.norm == 0
        ticks: dict[float, str] = {place: f"{place:g}" for place in _ticks(first, last, whole)}
        for kind, place in places.items():
            if not counts[kind]:
                continue
            look = _look(kind, labelled)
            drawn = ax.bar([place], [counts[kind]], wide, **drawing.merged(look, kwargs))
            ax.bar_label(drawn, fontsize="small")
            self.bars_[kind], labelled = drawn, None
            ticks[place] = _LOOKS[kind][0]
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.set_xlabel(f"radius ({drawing.norm_text(self.norm)})")
        ax.set_ylabel("number of instances")
        ax.margins(y=0.1)
        ax.yaxis.get_major_locator().set_params(integer=True)

    def _draw_line(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        from carvegbm.displays.curve import curve_of_radii
        from carvegbm.radius import Radius

        ax = self.ax_
        curve = curve_of_radii(Radius(self.radius, self.lower, self.upper, self.norm))
        last = curve.budgets[-1]
        budgets = np.append(curve.budgets, 1.05 * last if last > 0 else 1.0)
        flipped = 1 - np.append(curve.upper, curve.upper[-1])
        possible = 1 - np.append(curve.lower, curve.lower[-1])
        before = drawing.drawn_before(ax, _MARK)
        look: dict[str, Any] = {
            "color": drawing.SERIES[before % len(drawing.SERIES)],
            "linestyle": drawing.LINES[before % len(drawing.LINES)],
            "drawstyle": "steps-post",
            "gid": _MARK,
        }
        if name is not None:
            look["label"] = drawing.literal(name)
        (self.line_,) = ax.plot(budgets, flipped, **drawing.merged(look, kwargs))
        self.band_ = None
        if np.any(possible > flipped):
            self.band_ = ax.fill_between(
                budgets,
                flipped,
                possible,
                step="post",
                color=self.line_.get_color(),
                alpha=0.25,
                linewidth=0,
                label="not decided",
            )
        ax.set_xlabel(drawing.mix_of_norms(ax, "budget", self.norm))
        ax.set_ylabel("share of instances with radius ≤ budget")
        self.line_.sticky_edges.x.append(0)
        ax.set_ylim(0, 1.03)
        drawing.percent_axis(ax.yaxis)


def _look(kind: str, name: str | None) -> dict[str, Any]:
    status = _LOOKS[kind][1]
    look: dict[str, Any] = {"color": COLOURS[status], "hatch": HATCHES[status]}
    look |= {"edgecolor": "white", "linewidth": 0.6}
    return look if name is None else {**look, "label": drawing.literal(name)}


def _ticks(first: float, last: float, whole: bool) -> list[float]:
    """Round numbers from first to last, a few."""
    from matplotlib.ticker import MaxNLocator

    if first == last:
        return []
    found = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=whole).tick_values(first, last)
    return [float(place) for place in found if first <= place <= last]
