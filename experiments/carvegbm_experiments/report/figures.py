"""Cells → figures: SVG text that takes its colours from the page, the same bytes every time.

Every figure belongs to a table, which holds its data; `figures` returns them by the table's id.
Colours are CSS variables with a fallback, so that a figure follows the page's light or dark look
and still shows when it stands alone.
"""

from __future__ import annotations

import contextlib
import html
import io
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from carvegbm import CarveError
from carvegbm_experiments.report.lookup import Cells, Record, anchor, attacker_text, norm_text
from carvegbm_experiments.report.published import title
from carvegbm_experiments.report.tables import robust
from carvegbm_experiments.report.tables.beyond import curves
from carvegbm_experiments.report.tables.chapters import as_cells
from carvegbm_experiments.report.tables.timings import speed_ups
from carvegbm_experiments.report.tables.trade_offs import Tried, trade_offs, tried

__all__ = ["Figure", "alone", "figures"]

# What matplotlib draws with, and what takes its place in the SVG.
_INK, _RULE = "#010203", "#010204"
_SERIES = ("#010211", "#010212", "#010213", "#010214", "#010215", "#010216")
_FALLBACK = ("#1f6aa5", "#b8500f", "#2b7a4b", "#7a4a9e", "#8a6d00", "#5b6670")
_VARIABLES = {
    _INK: "currentColor",
    _RULE: "var(--rule, #d5d9de)",
    **{
        color: f"var(--series-{i}, {fallback})"
        for i, (color, fallback) in enumerate(zip(_SERIES, _FALLBACK, strict=True), 1)
    },
}
_MARKERS = ("o", "s", "^", "D", "v", "P")
_STYLE: dict[str, Any] = {
    "axes.edgecolor": _INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 11,
    "grid.color": _RULE,
    "grid.linewidth": 0.8,
    "legend.fontsize": 10,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 5.5,
    "savefig.facecolor": "none",
    "svg.fonttype": "none",
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}
_FONT = "font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif"


@dataclass(frozen=True)
class Figure:
    """A drawing; `label` says in words what it shows."""

    id: str
    label: str
    svg: str


def figures(cells: Iterable[Record] | Cells) -> dict[str, Figure]:
    """Every figure, by the id of the table that holds its data.

    >>> figures([])
    {}
    """
    found = as_cells(cells)
    drawn: dict[str, Figure] = {}
    if found.cells("speed-up"):
        drawn["speed-up-table"] = _speed_up(found)
    for dataset, norm in curves(found):
        drawn[anchor("curve", dataset, norm)] = _curve(found, dataset, norm)
    for dataset, norm in trade_offs(found):
        drawn[anchor("trade-off", dataset, norm)] = _trade_off(found, dataset, norm)
    for dataset, norm in robust.trade_offs(found):
        drawn[anchor("robust-trade-off", dataset, norm)] = _by_model(found, dataset, norm)
    return drawn


def alone(figure: Figure) -> str:
    r"""The drawing as a file of its own, on white paper.

    >>> alone(Figure("f", "a dot", '<svg id="f" style="stroke-linejoin: round"></svg>'))
    '<svg id="f" style="background: white; color: black; stroke-linejoin: round"></svg>\n'
    """
    return figure.svg.replace('style="', 'style="background: white; color: black; ', 1) + "\n"


def _speed_up(cells: Cells) -> Figure:
    def draw(axes: Any) -> None:
        for number, (dataset, norm, budget) in enumerate(cells.tasks("speed-up")):
            found = cells.cells("speed-up", dataset=dataset, norm=norm, budget=budget)
            for engine, line in enumerate(("-", "--")):
                points = {
                    # Norm 0 may run out of features before it has all the trees.
                    cell["result"].get("trees", cell["configuration"]["trees"]): ratio
                    for cell in found
                    if (ratio := speed_ups(cell["result"])[engine]) is not None
                }
                if points:
                    axes.plot(
                        *zip(*sorted(points.items()), strict=True),
                        color=_SERIES[number % len(_SERIES)],
                        marker=_MARKERS[number % len(_MARKERS)],
                        markerfacecolor="none" if engine else None,
                        linestyle=line,
                        label=f"{attacker_text(norm, budget)}, "
                        + ("mixed-integer program" if engine else "search"),
                    )
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} ×")
        axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("trees")
        axes.set_ylabel("speed-up")
        _legend(axes)

    label = (
        "Speed-up of verifying large-spread ensembles over plain ones, on a logarithmic scale, "
        "over the number of trees; a line per attacker and engine"
    )
    return Figure("speed-up-figure", label, _svg("speed-up-figure", label, draw))


def _curve(cells: Cells, dataset: str, norm: str) -> Figure:
    found = curves(cells)[dataset, norm]

    def draw(axes: Any) -> None:
        for number, (name, result) in enumerate(found.items()):
            color = _SERIES[number % len(_SERIES)]
            budgets, lower, upper = result["budgets"], result["lower"], result["upper"]
            middle = [(low + high) / 2 for low, high in zip(lower, upper, strict=True)]
            style = ("-", "--", "-.", ":")[number % 4]
            stepped = {"color": color, "marker": ".", "drawstyle": "steps-pre"}
            axes.plot(budgets, middle, style, **stepped, label=name)
            if lower != upper:
                band = {"color": color, "alpha": 0.2, "linewidth": 0}
                axes.fill_between(budgets, lower, upper, step="pre", **band)
        axes.set_ylim(0, 1.02)
        axes.set_xlim(left=0)
        axes.set_xlabel(f"{norm_text(norm)} budget")
        axes.set_ylabel("robustness")
        _legend(axes)

    name = anchor("figure", "curve", dataset, norm)
    label = (
        f"Robustness over the {norm_text(norm)} budget on {cells.title(dataset)}, "
        "a falling line per model"
    )
    return Figure(name, label, _svg(name, label, draw))


def _trade_off(cells: Cells, dataset: str, norm: str) -> Figure:
    found = tried(cells, dataset, norm)
    budgets = sorted({entry.budget for entry in found})

    def draw(axes: Any) -> None:
        for entry in found:
            _draw_trials(axes, entry, _SERIES[budgets.index(entry.budget) % len(_SERIES)])
        for number, budget in enumerate(budgets):
            color = _SERIES[number % len(_SERIES)]
            axes.plot([], [], color=color, linewidth=5, label=attacker_text(norm, budget))
        for kind in dict.fromkeys(entry.kind for entry in found):
            axes.plot([], [], **_mark(kind), color=_INK, label=kind)
        for criterion in sorted({name for entry in found for name in entry.choices}):
            look = {**_mark(""), **_CHOSEN[criterion], "color": _INK}
            axes.plot([], [], **look, label=f"by {criterion}")
        axes.margins(0.08)
        axes.locator_params(nbins=5)
        axes.set_xlabel("test accuracy")
        axes.set_ylabel("test robustness")
        _legend(axes)

    name = anchor("figure", "trade-off", dataset, norm)
    label = (
        f"Accuracy against robustness of every model tried on {cells.title(dataset)} for "
        f"{norm_text(norm)}; filled marks were chosen by accuracy, ringed ones by robustness, "
        "both labelled with their leaves per tree"
    )
    return Figure(name, label, _svg(name, label, draw))


def _by_model(cells: Cells, dataset: str, norm: str) -> Figure:
    """Plain, certified and robust training, a line each over the budgets."""
    found = robust.trade_off_points(cells, dataset, norm)

    def draw(axes: Any) -> None:
        for number, (model, points) in enumerate(found.items()):
            _, accuracies, shares = zip(*points, strict=True)
            style = {"color": _SERIES[number], "marker": _MARKERS[number], "linewidth": 1.2}
            axes.plot(accuracies, shares, **style, label=model)
        trained = [at for model, points in found.items() if model != "plain" for at in points]
        # A plain model may be robust nowhere: its points leave the drawing, not the table.
        axes.margins(0.12)
        if trained:
            lowest, highest = (end(share for *_, share in trained) for end in (min, max))
            room = max(0.25 * (highest - lowest), 0.01)
            axes.set_ylim(lowest - room, max(highest, *axes.dataLim.intervaly) + room)
        _label_budgets(axes, list(found.values())[-1])
        axes.locator_params(nbins=5)
        axes.set_xlabel("test accuracy")
        axes.set_ylabel("proven robustness")
        _legend(axes)

    name = anchor("figure", "robust-trade-off", dataset, norm)
    label = (
        f"Accuracy against proven robustness on {title(cells, dataset)} for "
        f"{norm_text(norm)}: a line each for plain LightGBM, certified and robust training, a "
        "point per budget"
    )
    return Figure(name, label, _svg(name, label, draw))


def _label_budgets(axes: Any, points: list[tuple[float, float, float]]) -> None:
    """The budget beside every point that is not too close to one that has its own."""
    height = axes.get_ylim()[1] - axes.get_ylim()[0]
    width = axes.get_xlim()[1] - axes.get_xlim()[0]
    labelled: list[tuple[float, float]] = []
    for budget, *at in reversed(points):
        x, y = at[0] / width, at[1] / height
        if all(abs(x - one) + abs(y - other) > 0.1 for one, other in labelled):
            labelled.append((x, y))
            place = {"xytext": (6, 5), "textcoords": "offset points", "fontsize": 9}
            axes.annotate(f"{budget:g}", at, **place)


_CHOSEN: dict[str, dict[str, Any]] = {
    "accuracy": {"markersize": 8, "markerfacecolor": _INK, "linestyle": "none"},
    "robustness": {"marker": "o", "markersize": 13, "markeredgewidth": 1.4, "linestyle": "none"},
}


def _draw_trials(axes: Any, entry: Tried, color: str) -> None:
    judged = [c for c in entry.trials if c.get("robustness") is not None]
    judged.sort(key=lambda trial: int(trial["num_leaves"]))
    axes.plot(
        [trial["accuracy"] for trial in judged],
        [trial["robustness"] for trial in judged],
        **_mark(entry.kind),
        color=color,
    )
    for trial in judged:
        point = trial["accuracy"], trial["robustness"]
        criteria = entry.chosen_by(trial)
        for criterion in criteria:
            look = {**_mark(entry.kind), **_CHOSEN[criterion]}
            if criterion == "accuracy":
                look["markerfacecolor"] = color
            axes.plot(*point, **look, color=color)
        if criteria:
            axes.annotate(
                f"{trial['num_leaves']}",
                point,
                xytext=(8, 6),
                textcoords="offset points",
                fontsize=9,
            )


def _mark(kind: str) -> dict[str, Any]:
    """Certified trials differ in more than their leaves, so no line joins them."""
    joined = kind == "large-spread"
    return {
        "marker": "s" if kind == "certified" else "o",
        "markerfacecolor": "none",
        "linestyle": "-" if joined else "none",
        "linewidth": 0.8,
    }


def _legend(axes: Any) -> None:
    """Below the axes, where it hides no data."""
    handles, names = axes.get_legend_handles_labels()
    if handles:
        narrow = all(len(name) < 16 for name in names)
        columns = 2 if narrow and len(handles) > 3 else 1
        axes.legend(loc="upper left", bbox_to_anchor=(-0.03, -0.18), ncols=columns)


@contextlib.contextmanager
def _matplotlib(name: str) -> Iterator[Any]:
    try:
        import matplotlib
    except ImportError:
        raise CarveError("drawing needs matplotlib; pip install 'carvegbm[plot]'") from None
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        yield matplotlib


def _svg(name: str, label: str, draw: Callable[[Any], None]) -> str:
    """What `draw` puts on one pair of axes, as an SVG element with ids of its own."""
    with _matplotlib(name):
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas

        canvas = Canvas(figsize=(5.0, 3.5))
        FigureCanvasSVG(canvas)
        draw(canvas.add_subplot())
        stream = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(stream, format="svg", bbox_inches="tight", pad_inches=0.05, metadata=nothing)
    return _inline(stream.getvalue(), name, label)


def _inline(text: str, name: str, label: str) -> str:
    """Ready to stand in a page: no prolog, ids that occur once, the page's colours and font."""
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text[text.index("<svg") :], flags=re.S)
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, flags=re.S)
    text = re.sub(r' xmlns:xlink="[^"]*"', "", text).replace("xlink:href=", "href=")
    used = set(re.findall(r'(?:href="|url\()#([^")]+)', text))
    text = re.sub(
        r' id="([^"]+)"', lambda at: f' id="{name}-{at[1]}"' if at[1] in used else "", text
    )
    text = re.sub(r'(href="|url\()#', rf"\1#{name}-", text)
    for color, variable in _VARIABLES.items():
        text = text.replace(color, variable)
    text = re.sub(r"font-family: ?'DejaVu Sans'[^;\"]*", _FONT, text)
    text = re.sub(r"(font: [^;\"]*?)'DejaVu Sans'[^;\"]*", rf"\1sans-serif; {_FONT}", text)
    text = re.sub(r"\s*\n\s*", "\n", text)
    opening, rest = text[: text.index(">")], text[text.index(">") :].rstrip()
    opening = re.sub(r' (?:width|height)="[^"]*"', "", opening)
    attributes = (
        f'<svg id="{name}" role="img" aria-label="{html.escape(label)}" '
        'style="stroke-linejoin: round; stroke-linecap: butt"'
    )
    return opening.replace("<svg", attributes, 1) + rest
