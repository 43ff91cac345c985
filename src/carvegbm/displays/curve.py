"""Robustness over budget as curves, of one model or of several in one picture.

Comes in: radii, whose curve is known at every budget (a step function), or a `Curve`, which is
known at some. Goes out: a line each, and a band from lower to upper where something is not decided.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.displays import drawing
from carvegbm.errors import CarveError, shown

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.radius import Curve, Radius

__all__ = ["RobustnessCurveDisplay", "curve_of_radii", "model_name"]

Floats = npt.NDArray[np.float64]

_MARK = "carvegbm robustness curve"
_OPEN = "not decided"
_MANY = 5000  # points among which the best place for a legend takes long to find


class RobustnessCurveDisplay:
    """Robustness over budget.

    At budget 0 it is the accuracy. A curve of radii is exact at every budget, and drawn as the step
    function it is. A `Curve` is exact where there are markers; between them robustness falls
    somehow, and the line is a guide for the eye.

    Parameters
    ----------
    curves : sequence of Curve
    names : sequence of str or None
        One per curve; None: not in the legend.
    steps : sequence of bool
        Whether a curve holds all budgets at which it changes.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    lines_, bands_ : list
        Matplotlib's lines (of `lower`), and the bands up to `upper`; None where all is decided.
    line_
        The first line.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> radii = cg.radius(model, [[0.75], [1.5]], [1, 1], cg.Attacker(1))
    >>> (curve,) = cg.RobustnessCurveDisplay.of(radii).curves
    >>> curve.budgets.tolist(), curve.lower.tolist()
    ([0.0, 0.25, 1.0], [1.0, 0.5, 0.0])
    """

    ax_: Any
    figure_: Any
    lines_: list[Any]
    bands_: list[Any]

    def __init__(
        self, *, curves: Sequence[Curve], names: Sequence[str | None], steps: Sequence[bool]
    ) -> None:
        self.curves, self.names, self.steps = tuple(curves), tuple(names), tuple(steps)
        lengths = {len(self.curves), len(self.names), len(self.steps)}
        if len(lengths) > 1 or 0 in lengths:
            raise CarveError("curves, names and steps must have one length, and at least one entry")

    @classmethod
    def of(
        cls,
        found: Radius | Curve | Mapping[Any, Radius | Curve],
        *,
        name: str | None = None,
        budgets: float | Iterable[float] | None = None,
    ) -> RobustnessCurveDisplay:
        """The display of radii or of a curve, or of several by name, not drawn yet.

        Radii give the curve at these budgets; by default at all at which it changes.
        """
        named: Mapping[Any, Any] = found if isinstance(found, Mapping) else {name: found}
        checked = _listed(budgets)
        drawn = [_drawn(each, checked) for each in named.values()]
        return cls(
            curves=[curve for curve, _ in drawn],
            names=[None if key is None else str(key) for key in named],
            steps=[is_step for _, is_step in drawn],
        )

    @classmethod
    def from_curve(
        cls, curve: Curve, *, name: str | None = None, ax: Any = None, **kwargs: Any
    ) -> RobustnessCurveDisplay:
        """Draw what `robustness_curve` found.

        Parameters
        ----------
        curve : Curve
        name : str, optional
            In the legend.
        ax : matplotlib's Axes, optional
            Where to draw, beside curves that are there; by default in a new figure.
        kwargs
            For matplotlib's `plot`.
        """
        return cls.of(curve, name=name).plot(ax, **kwargs)

    @classmethod
    def from_radii(
        cls,
        radii: Radius,
        *,
        budgets: float | Iterable[float] | None = None,
        name: str | None = None,
        ax: Any = None,
        **kwargs: Any,
    ) -> RobustnessCurveDisplay:
        """Draw the curve that radii are: robustness at budget k is the share of radii > k.

        `budgets` are those to show; by default all at which robustness changes, that is, the exact
        step function. The rest is as for `from_curve`.
        """
        return cls.of(radii, name=name, budgets=budgets).plot(ax, **kwargs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        attacker: Attacker | None = None,
        *,
        norm: int | float | str | None = None,
        budgets: float | Iterable[float] | None = None,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> RobustnessCurveDisplay:
        """Measure a model and draw its curve.

        Parameters
        ----------
        estimator : fitted estimator, Ensemble, path or Booster
        X, y, attacker, norm
            As `radius` takes them.
        budgets : iterable of float, optional
            Robustness is measured at these; by default exactly at all.
        name : str, optional
            In the legend; by default that of the class or of the file.
        ax : matplotlib's Axes, optional
            Where to draw, beside curves that are there; by default in a new figure.
        options
            Those of `radius`, such as `timeout` or `max_budget`.

        Examples
        --------
        >>> import carvegbm as cg
        >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
        >>> model = cg.Ensemble.from_trees([stump], n_features=1)
        >>> X, y = [[0.75], [1.5]], [1, 1]
        >>> from matplotlib.figure import Figure
        >>> ax = Figure().subplots()  # by default pyplot makes one, which a notebook shows
        >>> display = cg.RobustnessCurveDisplay.from_estimator(model, X, y, norm=1, ax=ax)
        >>> display.line_.get_ydata().tolist()
        [1.0, 0.5, 0.0, 0.0]
        """
        called = model_name(estimator) if name is None else name
        return cls.from_estimators(
            {called: estimator}, X, y, attacker, norm=norm, budgets=budgets, ax=ax, **options
        )

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[Any, Any],
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        attacker: Attacker | None = None,
        *,
        norm: int | float | str | None = None,
        budgets: float | Iterable[float] | None = None,
        ax: Any = None,
        **options: Any,
    ) -> RobustnessCurveDisplay:
        """Measure several models on the same instances, and draw their curves in one picture.

        `estimators` maps names to models; the rest is as for `from_estimator`.
        """
        from carvegbm.attackers.attacker import Attacker
        from carvegbm.queries import radius, robustness_curve

        drawing.check_drawable(f"{cls.__name__}.from_estimator", ax)
        if not isinstance(estimators, Mapping) or not estimators:
            raise CarveError(
                f"estimators must map names to models, got {shown(estimators)}; "
                'give {"plain": model, …}'
            )
        against = attacker if norm is None else Attacker(norm)
        found: dict[Any, Any] = {}
        at = _listed(budgets)  # once: every model is asked at the same
        for called, model in estimators.items():
            if at is None:
                found[called] = radius(model, X, y, against, **options)
            else:
                found[called] = robustness_curve(model, X, y, against, budgets=at, **options)
        return cls.of(found).plot(ax)

    @property
    def line_(self) -> Any:
        """The first line, once it is drawn."""
        return self.lines_[0]

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> RobustnessCurveDisplay:
        """Draw, beside curves that are on `ax` already.

        `name` calls the curve another name; `kwargs` go to matplotlib's `plot`.
        """
        if name is not None and len(self.curves) > 1:
            raise CarveError(
                f"name is for one curve, this display has {len(self.curves)}; give it names"
            )
        self.ax_, self.figure_ = drawing.axes_for(f"{type(self).__name__}.plot", ax)
        names = self.names if name is None else (name,)
        self.lines_, self.bands_ = [], []
        end = max(_end(curve) for curve in self.curves)
        for curve, called, is_step in zip(self.curves, names, self.steps, strict=True):
            self._draw(curve, called, is_step, end, kwargs)
        self._label()
        return self

    def _draw(
        self, curve: Curve, name: str | None, is_step: bool, end: float, kwargs: Mapping[str, Any]
    ) -> None:
        ax = self.ax_
        before = drawing.drawn_before(ax, _MARK)
        look: dict[str, Any] = {
            "color": drawing.SERIES[before % len(drawing.SERIES)],
            "linestyle": drawing.LINES[before % len(drawing.LINES)],
            "linewidth": 1.8,
            "gid": _MARK,
        }
        if is_step:
            look["drawstyle"] = "steps-post"
        else:
            look |= {"marker": "o", "markersize": 4.5}
        if name is not None:
            look["label"] = drawing.literal(name)
        budgets, lower, upper = _points(curve, end if is_step else None)
        (line,) = ax.plot(budgets, lower, **drawing.merged(look, kwargs))
        band = None
        if np.any(upper > lower):
            band = ax.fill_between(
                budgets,
                lower,
                upper,
                step="post" if is_step else None,
                color=line.get_color(),
                alpha=0.25,
                linewidth=0,
                label=None if _OPEN in ax.get_legend_handles_labels()[1] else _OPEN,
            )
        # At budget 0 robustness is the accuracy, whatever is not decided beyond.
        at_zero = {"color": line.get_color(), "markersize": 6, "clip_on": False}
        (dot,) = ax.plot([0], [curve.accuracy], "o", **at_zero)
        dot.sticky_edges.x.append(0)
        # Autoscaling stays on for curves to come, and leaves no gap before budget 0.
        line.sticky_edges.x.append(0)
        self.lines_.append(line)
        self.bands_.append(band)

    def _label(self) -> None:
        ax = self.ax_
        for norm in dict.fromkeys(curve.norm for curve in self.curves):
            ax.set_xlabel(drawing.mix_of_norms(ax, "budget", norm))
        ax.set_ylabel("robustness")
        ax.set_ylim(0, 1.03)
        drawing.percent_axis(ax.yaxis)
        if ax.get_legend_handles_labels()[1]:
            points = sum(len(line.get_xdata()) for line in ax.get_lines())
            ax.legend(loc="best" if points < _MANY else "upper right")


def curve_of_radii(radii: Radius, budgets: Sequence[float] | None = None) -> Curve:
    """Robustness at these budgets, or at all at which it changes: 0, and the ends of all radii.

    lower[i] = share of radii proved > budgets[i]; upper[i] = share of those that may be. Where the
    largest end is only how far radii were sought, the curve ends at the largest budget before it.
    """
    from carvegbm.radius import Curve, check_budgets

    ends = np.concatenate([[0.0], radii.lower, radii.upper])
    at = np.unique(ends[np.isfinite(ends)])
    sought = at[-1] > 0 and not (radii.upper == at[-1]).any()
    if sought:
        before = at[-1] - 1 if radii.norm == 0 else np.nextafter(at[-1], 0)
        at = np.unique([*at[:-1], before])
    asked = tuple(at.tolist()) if budgets is None else check_budgets(budgets, radii.norm)
    return Curve.of_radii(radii, asked)


def model_name(model: Any) -> str:
    """What a model is called where nobody says: by its file, or by its class."""
    if isinstance(model, str | os.PathLike):
        return Path(model).stem
    return type(model).__name__


def _drawn(found: Any, budgets: Sequence[float] | None) -> tuple[Curve, bool]:
    """What is drawn of a result, and whether it is a step function."""
    from carvegbm.radius import Curve, Radius

    if isinstance(found, Radius):
        return curve_of_radii(found, budgets), budgets is None
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


def _end(curve: Curve) -> float:
    """Where a step function ends on paper: a little beyond its last step."""
    last = float(curve.budgets.max())
    return 1.05 * last if last > 0 else 1.0


def _points(curve: Curve, end: float | None) -> tuple[Floats, Floats, Floats]:
    """Budgets ascending, with lower and upper; from budget 0 on, where robustness is accuracy."""
    order = np.argsort(curve.budgets, kind="stable")
    budgets, lower, upper = curve.budgets[order], curve.lower[order], curve.upper[order]
    if budgets[0] > 0:
        budgets = np.concatenate([[0.0], budgets])
        lower, upper = (np.concatenate([[curve.accuracy], part]) for part in (lower, upper))
    if end is not None:
        budgets = np.concatenate([budgets, [end]])
        lower, upper = (np.concatenate([part, part[-1:]]) for part in (lower, upper))
    return budgets, lower, upper
