"""Plot radii as a histogram."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.displays.base import Display, literal, merged, norm_text
from carvegbm.displays.statistics import is_skewed, radius_groups, radius_histogram
from carvegbm.errors import CarveError, shown
from carvegbm.statuses import COLOURS, HATCHES

if TYPE_CHECKING:
    from carvegbm.radius import Radius

__all__ = ["RadiusDisplay"]

_LABEL_WIDTH = 0.65  # inches of the label of a bar
_LOOKS = {
    "wrong": ("wrong\n(0)", "vulnerable"),
    "finite": ("", "fragile"),
    "infinite": ("none\n(∞)", "robust"),
    "undecided": ("not\ndecided", "unknown"),
}


class RadiusDisplay(Display):
    """Histogram of radii, the smallest budgets that flip.

    Rows that are wrong already (radius 0), that no budget flips, or whose radius is not decided
    have separate bars, so that all bars add up to all rows. The axis is logarithmic if the largest
    radius exceeds 20 times the median.

    Parameters
    ----------
    result : Radius
    bins : int, str or sequence, optional
        Bins of the finite radii > 0, as `numpy.histogram` takes them.

    Attributes
    ----------
    ax_, figure_
        The Axes and Figure of the last plot.
    bars_ : dict
        Matplotlib's bars by group: "wrong", "finite", "infinite", "undecided"; non-empty ones only.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> display = cg.RadiusDisplay(cg.radius(model, [[0.75], [0.25]], [1, 1], cg.Attacker(1)))
    >>> display.counts()
    {'wrong': 1, 'finite': 1, 'infinite': 0, 'undecided': 0}
    >>> from matplotlib.figure import Figure
    >>> display.plot(Figure().subplots()).ax_.get_xlabel()  # by default a new figure of pyplot
    'radius (norm 1)'
    """

    bars_: dict[str, Any]

    def __init__(self, result: Radius, *, bins: Any = None) -> None:
        from carvegbm.radius import Radius

        if not isinstance(result, Radius):
            raise CarveError(f"a Radius is needed, got {shown(result)}; make one by radius")
        self.radius, self.norm = result.radius, result.norm
        self._groups = radius_groups(self.radius)
        self._finite = self.radius[self._groups["finite"]]
        self._is_log = bins is None and is_skewed(self._finite)
        self._histogram = radius_histogram(self._finite, self.norm, log=self._is_log, bins=bins)

    @classmethod
    def _of_model(
        cls, model: Any, X: Any, y: Any, attacker: Any, *, bins: Any = None, **options: Any
    ) -> RadiusDisplay:
        from carvegbm.queries import radius

        return cls(radius(model, X, y, attacker, **options), bins=bins)

    def counts(self) -> dict[str, int]:
        """Return the number of rows per group."""
        return {group: int(np.count_nonzero(which)) for group, which in self._groups.items()}

    def histogram(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return counts and bin edges of the finite radii > 0."""
        return self._histogram

    def _draw(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        ax, counts = self.ax_, self.counts()
        heights, edges = self._histogram
        if self._is_log:
            ax.set_xscale("log")
        # Positions are computed in units of the axis: radii, or their decimal logarithms.
        ends = (np.log10(edges) if self._is_log else edges) if len(edges) else np.zeros(1)
        first, last = float(ends[0]), float(ends[-1])
        width = float(np.median(np.diff(ends))) if len(edges) else 1.0
        wide = max(width, (last - first) / 14)
        apart = max(1.5 * width, (last - first) * max(1 / 8, _LABEL_WIDTH / self._inches))
        places = {"wrong": first - apart, "infinite": last + apart}
        places["undecided"] = last + apart * (2 if counts["infinite"] else 1)
        ticks = {place: f"{place:g}" for place in self._ticks(edges)}
        self.bars_ = {}

        def bar(group: str, left: Any, height: Any, wide: Any) -> None:
            status = _LOOKS[group][1]
            look: dict[str, Any] = {"color": COLOURS[status], "hatch": HATCHES[status]}
            look |= {"edgecolor": "white", "linewidth": 0.6, "align": "edge"}
            if name is not None and not self.bars_:
                look["label"] = literal(name)
            self.bars_[group] = ax.bar(left, height, wide, **merged(look, kwargs))

        if len(edges):
            bar("finite", edges[:-1], heights, np.diff(edges))
        for group, place in places.items():
            if counts[group]:
                sides = (place - wide / 2, place, place + wide / 2)
                left, middle, right = map(self._position, sides)
                bar(group, [left], [counts[group]], [right - left])
                ax.annotate(
                    f"{counts[group]:,}",
                    (middle, counts[group]),
                    (0, 3),
                    textcoords="offset points",
                    ha="center",
                    fontsize="small",
                )
                ticks[middle] = _LOOKS[group][0]
        ax.set_xticks(list(ticks), list(ticks.values()))
        ax.minorticks_off()
        ax.set_xlabel(f"radius ({norm_text(self.norm)})")
        ax.set_ylabel("number of instances")
        ax.margins(y=0.1)
        ax.yaxis.get_major_locator().set_params(integer=True)
        if name is not None:
            ax.legend(loc="upper right")

    def _position(self, place: float) -> float:
        """Return the radius at a place on the axis."""
        return max(10.0**place, float(np.finfo(float).tiny)) if self._is_log else place

    def _ticks(self, edges: npt.NDArray[np.float64]) -> list[float]:
        """Return a few round numbers between the first and the last edge."""
        from matplotlib.ticker import LogLocator, MaxNLocator

        if len(edges) == 0:
            return []
        first, last = edges[0], edges[-1]
        if self._is_log:
            locator: Any = LogLocator(
                subs=(1.0,) if last > 1000 * first else (1.0, 3.0), numticks=6
            )
        else:
            locator = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=self.norm == 0)
        return [float(at) for at in locator.tick_values(first, last) if first <= at <= last]
