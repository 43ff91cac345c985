"""What all displays share: axes to draw on, words for norms, text that is shown as it is.

Comes in: numbers, and names that users chose. Goes out: matplotlib's axes, made by pyplot where
none are given, as scikit-learn's displays do; text in which no character means more than itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from carvegbm.errors import CarveError

__all__ = [
    "LINES",
    "SERIES",
    "axes_for",
    "check_drawable",
    "drawn_before",
    "legend_below",
    "literal",
    "merged",
    "mix_of_norms",
    "norm_text",
    "percent_axis",
    "plain_number",
    "text_colour",
    "width_of",
]

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Colours of several models, one after the other; safe for colour-blind eyes."""
LINES = ("-", "--", "-.", ":")
"""Not by colour alone."""

_LONGEST = 40  # characters of a name


def check_drawable(what: str, ax: Any) -> None:
    """Refuse to go on where nothing can be drawn: long work is done for nothing otherwise.

    Raises
    ------
    CarveError
        matplotlib is not installed, which `what` needs; or `ax` is no Axes.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise CarveError(f"{what} needs matplotlib; pip install 'carvegbm[plot]'") from None
    if ax is not None and not (hasattr(ax, "plot") and hasattr(ax, "figure")):
        raise CarveError(f"ax must be matplotlib's Axes, got {type(ax).__name__}; give one of them")


def axes_for(what: str, ax: Any, *, height: float | None = None) -> tuple[Any, Any]:
    """The axes to draw on and their figure; new ones where none are given, `height` inches high."""
    check_drawable(what, ax)
    if ax is None:
        import matplotlib.pyplot as plt

        size = None if height is None else (plt.rcParams["figure.figsize"][0], height)
        _, ax = plt.subplots(figsize=size, layout="constrained")
    return ax, ax.figure


def width_of(ax: Any, *, is_own: bool) -> float:
    """Inches from side to side; of our own figure, once its layout has given them all there is."""
    if is_own:
        return 0.92 * float(ax.figure.get_figwidth())
    return float(ax.get_window_extent().width / ax.figure.dpi)


def literal(name: object, longest: int = _LONGEST) -> str:
    r"""A name as matplotlib shows it as it is, on one line, and shortened if it is long.

    A dollar sign would begin a formula; a leading underscore would keep a line out of the legend,
    and a space before it does not.

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
    """A number in a few digits, as people write it.

    Examples
    --------
    >>> plain_number(0.01254), plain_number(1032.0), plain_number(1e-35), plain_number(123456.7)
    ('0.0125', '1,032', '1e-35', '123,457')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def norm_text(norm: int | float) -> str:
    """A norm as users give it.

    Examples
    --------
    >>> norm_text(math.inf), norm_text(1.0)
    ('norm inf', 'norm 1')
    """
    return f"norm {'inf' if math.isinf(norm) else int(norm)}"


def mix_of_norms(ax: Any, what: str, norm: int | float) -> str:
    """The label of an axis that measures budgets; without a norm where another is drawn already."""
    label = f"{what} ({norm_text(norm)})"
    before = ax.get_xlabel()
    return what if before == what or (before.startswith(f"{what} (") and before != label) else label


def percent_axis(axis: Any) -> None:
    """Ticks of an axis of shares in percent."""
    axis.set_major_formatter(lambda share, _place: f"{round(100 * share, 6):g} %")


def text_colour() -> str:
    """The colour of text in the style in use, in which marks are seen on its background."""
    from matplotlib import rcParams

    return str(rcParams["text.color"])


def drawn_before(ax: Any, mark: str) -> int:
    """How many lines with this mark (their gid) the axes hold: the next one looks different."""
    return sum(line.get_gid() == mark for line in ax.get_lines())


def legend_below(ax: Any, handles: Any, columns: int) -> Any:
    """A legend under the axes and their label, where it hides neither bars nor a title."""
    from matplotlib import rcParams
    from matplotlib.transforms import ScaledTranslation

    # Ticks and label are as high as their lines, whatever the height of the axes.
    lines = 2.6 + 1.3 * (1 + ax.get_xlabel().count("\n"))
    down = lines * rcParams["font.size"] / 72
    moved = ax.transAxes + ScaledTranslation(0, -down, ax.figure.dpi_scale_trans)
    return ax.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=moved,
        ncols=columns,
        frameon=False,
        fontsize="small",
        borderaxespad=0,
        borderpad=0,
        columnspacing=1.2,
        handlelength=1.4,
    )


def merged(own: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options for matplotlib: what a user gives takes the place of ours, by any of its names."""
    short = {"c": "color", "lw": "linewidth", "ls": "linestyle", "ms": "markersize"}
    return {**own, **{short.get(name, name): value for name, value in given.items()}}
