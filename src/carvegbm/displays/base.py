"""The base class of all displays, and the matplotlib helpers they share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing as npt

from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker

__all__ = [
    "SERIES",
    "Display",
    "check_matplotlib",
    "hide_frame",
    "legend_below",
    "literal",
    "merged",
    "norm_text",
    "percent_axis",
    "plain_number",
    "text_colour",
]

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of the first, second, … model in one plot; distinct for colour-blind readers."""

_LONGEST = 40  # characters of a name

D = TypeVar("D", bound="Display")


class Display:
    """A result and how to plot it, like scikit-learn's displays.

    `Display(result).plot()` and `Display.from_result(result)` draw a result that exists;
    `Display.from_estimator(model, X, y, attacker)` computes it first.

    Attributes
    ----------
    ax_, figure_
        The Axes and Figure of the last plot.
    """

    ax_: Any
    figure_: Any

    def __init__(self, result: Any, **options: Any) -> None:
        raise NotImplementedError

    @classmethod
    def from_result(
        cls: type[D], result: Any, *, name: str | None = None, ax: Any = None, **options: Any
    ) -> D:
        """Draw a result.

        Parameters
        ----------
        result
            What the class takes.
        name : str, optional
            Name of what is drawn.
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        options
            Other parameters of the class.
        """
        return cls(result, **options).plot(ax, name=name)

    @classmethod
    def from_estimator(
        cls: type[D],
        estimator: Any,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None = None,
        attacker: Attacker | None = None,
        *,
        name: str | None = None,
        ax: Any = None,
        **options: Any,
    ) -> D:
        """Compute the result for a model and draw it.

        Parameters
        ----------
        estimator : fitted estimator, Ensemble, path or Booster
        X, y, attacker
            As the query takes them.
        name, ax
            As for `from_result`.
        options
            Parameters of the class or of the query.
        """
        check_matplotlib(f"{cls.__name__}.from_estimator", ax)
        return cls._of_model(estimator, X, y, attacker, **options).plot(ax, name=name)

    @classmethod
    def _of_model(cls: type[D], model: Any, X: Any, y: Any, attacker: Any, **options: Any) -> D:
        """Compute the result for a model and return its display."""
        raise NotImplementedError

    def plot(self: D, ax: Any = None, *, name: str | None = None, **kwargs: Any) -> D:
        """Draw the result.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Axes to draw on; by default those of a new figure.
        name : str, optional
            Name of what is drawn.
        kwargs
            Options of the matplotlib function that draws.
        """
        check_matplotlib(f"{type(self).__name__}.plot", ax)
        self._prepare(name)
        is_new = ax is None
        if ax is None:
            import matplotlib.pyplot as plt

            height = self._height()
            size = None if height is None else (plt.rcParams["figure.figsize"][0], height)
            _, ax = plt.subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        # The layout of a new figure leaves nearly its whole width to the axes.
        self._inches = (
            0.92 * float(ax.figure.get_figwidth())
            if is_new
            else float(ax.get_window_extent().width / ax.figure.dpi)
        )
        self._draw(name, kwargs)
        return self

    def _prepare(self, name: str | None) -> None:
        """Reject what cannot be drawn, before a figure is opened."""

    def _height(self) -> float | None:
        """Height of a new figure in inches; None for matplotlib's default."""
        return None

    def _draw(self, name: str | None, kwargs: Mapping[str, Any]) -> None:
        """Draw on `ax_`."""
        raise NotImplementedError


def check_matplotlib(what: str, ax: Any) -> None:
    """Raise CarveError if matplotlib is missing, or `ax` is given and not an Axes."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise CarveError(f"{what} needs matplotlib; pip install 'carvegbm[plot]'") from None
    if ax is not None and not (hasattr(ax, "plot") and hasattr(ax, "figure")):
        raise CarveError(f"ax must be a matplotlib Axes, got {type(ax).__name__}")


def literal(name: object, longest: int = _LONGEST) -> str:
    r"""Return a name as text that matplotlib shows unchanged, on one line, shortened if long.

    A dollar sign would start a formula, and a leading underscore would hide a line from the
    legend; a space in front prevents that.

    Examples
    --------
    >>> literal("a $b$"), literal("_x"), literal("no. 1 " * 4, longest=12)
    ('a \\$b\\$', ' _x', 'no. 1 no. 1…')
    """
    text = " ".join(str(name).split())
    if len(text) > longest:
        text = text[: longest - 1].rstrip() + "…"
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def plain_number(value: float) -> str:
    """Return a number in a few digits.

    Examples
    --------
    >>> plain_number(0.01254), plain_number(1032.0), plain_number(1e-35), plain_number(123456.7)
    ('0.0125', '1,032', '1e-35', '123,457')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def norm_text(norm: int | float) -> str:
    """Return a norm as users write it, such as "norm inf" or "norm 1"."""
    return f"norm {'inf' if math.isinf(norm) else int(norm)}"


def percent_axis(axis: Any) -> None:
    """Label the ticks of an axis of shares in percent."""
    axis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g} %")


def text_colour() -> str:
    """Return the text colour of the current style, which is visible on its background."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def hide_frame(ax: Any) -> None:
    """Show the lower spine only, and no ticks on the y axis."""
    ax.set_yticks([])
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)


def legend_below(ax: Any, handles: Any, columns: int) -> None:
    """Add a legend below the axes and their label, where it hides neither bars nor title."""
    from matplotlib import rcParams
    from matplotlib.transforms import ScaledTranslation

    # Ticks and label take a fixed number of lines, whatever the height of the axes.
    lines = 2.6 + 1.3 * (1 + ax.get_xlabel().count("\n"))
    down = lines * rcParams["font.size"] / 72
    ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, -down, ax.figure.dpi_scale_trans),
        ncols=columns,
        frameon=False,
        fontsize="small",
        borderaxespad=0,
        borderpad=0,
        columnspacing=1.2,
        handlelength=1.4,
    )


def merged(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return matplotlib options; given ones override the defaults, also by their short names."""
    short = {"c": "color", "lw": "linewidth", "ls": "linestyle", "ms": "markersize"}
    return {**defaults, **{short.get(name, name): value for name, value in given.items()}}
