"""Plot robustness over budget, for one model or several."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.displays.base import SERIES, Display, literal, merged, norm_text, percent_axis
from carvegbm.displays.statistics import change_budgets, is_skewed
from carvegbm.errors import CarveError, shown

if TYPE_CHECKING:
    from carvegbm.radius import Curve, Radius

__all__ = ["RobustnessCurveDisplay"]

Floats = npt.NDArray[np.float64]

_LINES = ("-", "--", "-.", ":")  # models differ by more than colour
_MARK = "carvegbm robustness curve"
_UNDECIDED = "not decided"


class RobustnessCurveDisplay(Display):
    """Robustness over budget; at budget 0 it is the accuracy.

    The curve of radii is exact at every budget and drawn as a step function. A `Curve` is exact at
    its markers; the line between them only guides the eye. Where rows are undecided, a band covers
    the possible values. The axis is logarithmic beyond the smallest budgets if the largest exceeds
    20 times the median.

    Parameters
    ----------
    result : Radius or Curve, or mapping from name to one of them
    budgets : float or iterable of float, optional
        Budgets at which to show the curve of radii; by default all at which it changes.

    Attributes
    ----------
    ax_, figure_
        The Axes and Figure of the last plot. Curves drawn on the same Axes get other colours.
    lines_, bands_ : list
        Per curve, matplotlib's line of the lower bound, and the band up to the upper bound or None.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> radii = cg.radius(model, [[0.75], [1.5]], [1, 1], cg.Attacker(1))
    >>> display = cg.RobustnessCurveDisplay(radii)
    >>> display.curves[0].budgets.tolist(), display.curves[0].lower.tolist()
    ([0.0, 0.25, 1.0], [1.0, 0.5, 0.0])
    >>> from matplotlib.figure import Figure
    >>> display.plot(Figure().subplots()).line_.get_ydata().tolist()  # by default a new figure
    [1.0, 0.5, 0.0, 0.0]
    """

    lines_: list[Any]
    bands_: list[Any]

    def __init__(
        self,
        result: Radius | Curve | Mapping[Any, Radius | Curve],
        *,
        budgets: float | Iterable[float] | None = None,
    ) -> None:
        results: Mapping[Any, Any] = result if isinstance(result, Mapping) else {None: result}
        if not results:
            raise CarveError("there are no curves to draw; give at least one")
        at = _listed(budgets)
        drawn = [_curve(found, at) for found in results.values()]
        self.curves: tuple[Curve, ...] = tuple(curve for curve, _ in drawn)
        self.names = tuple(None if name is None else str(name) for name in results)
        self._is_step = tuple(is_step for _, is_step in drawn)

    @classmethod
    def _of_model(
        cls,
        model: Any,
        X: Any,
        y: Any,
        attacker: Any,
        *,
        budgets: float | Iterable[float] | None = None,
        **options: Any,
    ) -> RobustnessCurveDisplay:
        from carvegbm.queries import radius, robustness_curve

        is_file = isinstance(model, str | os.PathLike)
        name = Path(model).stem if is_file else type(model).__name__
        if budgets is None:
            return cls({name: radius(model, X, y, attacker, **options)})
        return cls({name: robustness_curve(model, X, y, attacker, budgets=budgets, **options)})

    @property
    def line_(self) -> Any:
        """The first line, once it is drawn."""
        return self.lines_[0]

    def _prepare(self, name: str | None) -> None:
        if name is not None and len(self.curves) > 1:
            raise CarveError(
                f"name is for one curve, this display has {len(self.curves)}; give a mapping"
            )

    def _draw(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        ax = self.ax_
        last = max(float(curve.budgets.max()) for curve in self.curves)
        end = 1.05 * last if last > 0 else 1.0
        changes = np.unique(np.concatenate([curve.budgets for curve in self.curves]))
        changes = changes[changes > 0]
        if is_skewed(changes) and ax.get_xscale() == "linear":
            ax.set_xscale("symlog", linthresh=10 ** np.floor(np.log10(np.quantile(changes, 0.05))))
        self.lines_, self.bands_ = [], []
        for curve, own, is_step in zip(self.curves, self.names, self._is_step, strict=True):
            self._draw_curve(curve, own if name is None else name, end if is_step else None, kwargs)
            label = f"budget ({norm_text(curve.norm)})"
            before = ax.get_xlabel()
            # Curves of different norms share an axis without a norm.
            is_mixed = before == "budget" or (before.startswith("budget (") and before != label)
            ax.set_xlabel("budget" if is_mixed else label)
        ax.set_ylabel("robustness")
        ax.set_ylim(0, 1.03)
        percent_axis(ax.yaxis)
        if ax.get_legend_handles_labels()[1]:
            ax.legend(loc="upper right")  # "best" is slow for curves of many points

    def _draw_curve(
        self, curve: Curve, name: str | None, end: float | None, kwargs: Mapping[str, Any]
    ) -> None:
        ax = self.ax_
        before = sum(line.get_gid() == _MARK for line in ax.get_lines())
        look: dict[str, Any] = {
            "color": SERIES[before % len(SERIES)],
            "linestyle": _LINES[before % len(_LINES)],
            "linewidth": 1.8,
            "gid": _MARK,
        }
        look |= {"marker": "o", "markersize": 4.5} if end is None else {"drawstyle": "steps-post"}
        if name is not None:
            look["label"] = literal(name)
        budgets, lower, upper = _points(curve, end)
        (line,) = ax.plot(budgets, lower, **merged(look, kwargs))
        band = None
        if np.any(upper > lower):
            band = ax.fill_between(
                budgets,
                lower,
                upper,
                step=None if end is None else "post",
                color=line.get_color(),
                alpha=0.25,
                linewidth=0,
                label=None if _UNDECIDED in ax.get_legend_handles_labels()[1] else _UNDECIDED,
            )
        # At budget 0 robustness is the accuracy, even if rows are undecided at larger budgets.
        (dot,) = ax.plot(
            [0], [curve.accuracy], "o", color=line.get_color(), markersize=6, clip_on=False
        )
        for artist in (line, dot):  # no margin left of budget 0
            artist.sticky_edges.x.append(0)
        self.lines_.append(line)
        self.bands_.append(band)


def _curve(found: Any, budgets: list[float] | None) -> tuple[Curve, bool]:
    """Return the curve of a result, and whether it is a step function known at every budget."""
    from carvegbm.radius import Curve, Radius, check_budgets

    if isinstance(found, Radius):
        if budgets is not None:
            return Curve.of_radii(found, check_budgets(budgets, found.norm)), False
        at = change_budgets(found.lower, found.upper, found.norm)
        return Curve.of_radii(found, tuple(at.tolist())), True
    if not isinstance(found, Curve):
        raise CarveError(
            f"a Radius or a Curve is needed, got {shown(found)}; make one by radius or "
            "robustness_curve"
        )
    if budgets is not None:
        raise CarveError("budgets are for radii; a Curve has its own")
    return found, False


def _listed(budgets: float | Iterable[float] | None) -> list[float] | None:
    if budgets is None:
        return None
    return list(budgets) if isinstance(budgets, Iterable) else [budgets]


def _points(curve: Curve, end: float | None) -> tuple[Floats, Floats, Floats]:
    """Return ascending budgets from 0 (to `end` if given), and the bounds at each."""
    order = np.argsort(curve.budgets, kind="stable")
    budgets, lower, upper = curve.budgets[order], curve.lower[order], curve.upper[order]
    if budgets[0] > 0:
        budgets = np.concatenate([[0.0], budgets])
        lower, upper = (np.concatenate([[curve.accuracy], part]) for part in (lower, upper))
    if end is not None:
        budgets = np.append(budgets, end)
        lower, upper = (np.append(part, part[-1]) for part in (lower, upper))
    return budgets, lower, upper
