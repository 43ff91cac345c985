"""Section 2, how far: robustness over budgets, sizes of the smallest changes, budgets to live with.

Comes in: the document. Goes out: HTML. The curve is drawn from the radii themselves, so that every
step is where it is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from carvegbm.reports.page.attackers import distance_title, limits, measure
from carvegbm.reports.page.figures import curve, histogram
from carvegbm.reports.page.numbers import counted, exactly, number, round_percent
from carvegbm.reports.page.scales import NEXT_TO_NOTHING, scale_for
from carvegbm.reports.page.sections.weak import TRAP
from carvegbm.reports.page.subjects import Distance
from carvegbm.reports.page.tables import Table, folded, opened
from carvegbm.reports.page.text import said
from carvegbm.reports.page.words import budgets_below, how_far, is_sample
from carvegbm.storage.text import percent, percent_interval

__all__ = ["how_far_it_is"]

_MOST_ROWS = 40


def how_far_it_is(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    distances = [Distance(document, i) for i in range(len(document["distances"]))]
    drawn = ""
    if is_sample(distances[0]):
        text = "From here on, rows are those that were judged: others may flip at smaller changes."
        drawn = f"<p>{said(text)}</p>"
    return drawn + "".join(map(_article, distances))


def _article(distance: Distance) -> str:
    title = distance_title(distance)
    name = f"far-{distance.place + 1}"
    held = limits(distance.attacker)
    note = f'<p class="caption">{" ".join(held)}</p>' if held else ""
    figures = [_curve(distance, name)]
    if distance.document["histogram"]:
        figures.append(_histogram(distance, name))
    return (
        f'<article><h3 id="{name}">{said(title)}</h3>{note}<p>{how_far(distance)}</p>'
        f"{_next_to_nothing(distance)}"
        f"{_stays(distance, name)}"
        f'<div class="figures charts">{"".join(figures)}</div></article>'
    )


def _next_to_nothing(distance: Distance) -> str:
    """Why a size is as small as no change that anybody would make."""
    tiny = [lower for lower, upper in distance.bounds if 0 < lower == upper < NEXT_TO_NOTHING]
    if not tiny:
        return ""
    why = said("that is a step from exactly 0 to the smallest number that LightGBM tells from it")
    if any((one.document["crowds"] or {}).get("zeros") for one in distance.asked):
        why += f': <a href="#{TRAP}">{said("the trap beside zero")}</a>'
    rows = f"{counted(len(tiny), 'row')} {'flips' if len(tiny) == 1 else 'flip'}"
    return f"<p>{said(f'{rows} at a size of about {number(min(tiny), 1)}:')} {why}.</p>"


def _stays(distance: Distance, name: str) -> str:
    entries = distance.document["stays"]
    if not entries or distance.right == 0:
        return ""
    own = distance.whole["data"]["labels"] == "own"
    rows = "of the rows" if own else "of the right rows"
    return opened(
        Table(
            f"{name}-stays",
            said(f"How large a budget may be for most {rows} to stay robust."),
            [f"At least so many {rows}", "stay robust at"],
            [
                [said(round_percent(one["share"])), budgets_below(one, distance.norm)]
                for one in entries
            ],
            numeric=2,
            is_narrow=True,
        )
    )


def _curve(distance: Distance, name: str) -> str:
    sure = _shares([lower for lower, _ in distance.bounds])
    possible = _shares([upper for _, upper in distance.bounds])
    marks = [
        (float(asked.document["budget"]), asked.counts["robust"] / asked.rows)
        for asked in distance.asked
    ]
    finite = [end for ends in distance.bounds for end in ends if math.isfinite(end)]
    scale = scale_for(finite, [budget for budget, _ in marks], whole=distance.norm == 0)
    axis = f"budget: {measure(distance.norm)}" + (", logarithmic" if scale.is_log else "")
    asked = "".join(f"; {percent(share)} at {number(budget)}" for budget, share in marks)
    label = (
        f"Robustness over the budget, {measure(distance.norm)}: a line that falls in steps from "
        f"{percent(sure[0][1])} at budget 0{asked}"
    )
    caption = "The share of rows that stay robust, proved, over the budget"
    if marks:
        caption += (
            "; dashed: the budgets asked about"
            if len(marks) > 1
            else ("; dashed: the budget asked about")
        )
    if distance.undecided:
        caption += "; shaded: not decided"
    beyond = sum(value > scale.high for value in finite)
    tail = " The last steps lie further to the right." if beyond else ""
    return (
        '<div><div class="chart-box"><h4>Robustness over the budget</h4><figure>'
        f"{curve(sure, possible, scale, marks, axis, label)}"
        f"<figcaption>{said(caption + '.' + tail)}</figcaption></figure></div>"
        f"{folded(_curve_data(distance, name))}</div>"
    )


def _shares(radii: Sequence[float]) -> list[tuple[float, float]]:
    """The share of radii above every budget, from 0 on: each holds up to the next."""
    ordered = sorted(radii)
    found, count = [(0.0, 1.0)], len(ordered)
    for place, radius in enumerate(ordered):
        if radius == math.inf:
            break
        share = (count - place - 1) / count
        if radius == found[-1][0]:
            found[-1] = (radius, share)
        else:
            found.append((radius, share))
    return found


def _curve_data(distance: Distance, name: str) -> Table:
    points = distance.document["curve"]
    asked = {float(one.document["budget"]) for one in distance.asked}
    steps, has_close = _told_apart(
        list(zip(points["budgets"], points["lower"], points["upper"], strict=True)), asked
    )
    stride = -(-len(steps) // _MOST_ROWS)
    kept = [
        (text, step)
        for place, (text, step) in enumerate(steps)
        if place % stride == 0 or place == len(steps) - 1 or float(step[0]) in asked
    ]
    caption = "Robustness at budgets, exactly; budgets asked about are bold"
    caption += "" if stride == 1 else f"; every {_ordinal(stride)} step of {len(steps):,}"
    caption += "; of steps too close to tell apart, the last" if has_close else ""
    return Table(
        f"{name}-curve",
        said(f"{caption}."),
        ["Budget", "robustness"],
        [
            [
                _bold(exactly(budget, text), float(budget) in asked),
                said(percent_interval(low, high)),
            ]
            for text, (budget, low, high) in kept
        ],
    )


_Step = tuple[float, float, float]


def _told_apart(steps: Sequence[_Step], asked: set[float]) -> tuple[list[tuple[str, _Step]], bool]:
    """Steps with their budgets in six digits, rounded up; of those that would look alike, the last.

    Budgets asked about stay, in full. Also: whether there were such.
    """
    found: list[tuple[str, _Step]] = []
    groups = [
        list(group) for _, group in itertools.groupby(steps, key=lambda step: number(step[0], 6))
    ]
    for alike, after in itertools.zip_longest(groups, groups[1:]):
        some = [step for step in alike[:-1] if float(step[0]) in asked]
        found += [(number(step[0], 17), step) for step in some]
        budget = float(alike[-1][0])
        if budget in asked:
            text = number(budget, 17)
        else:
            text = _above(budget, math.inf if after is None else float(after[0][0]))
        found.append((text, alike[-1]))
    return found, len(found) < len(steps)


def _above(budget: float, end: float) -> str:
    """The shortest number at which what is said of the budget holds: below the next step."""
    for digits in range(6, 17):
        text = number(budget, digits, "up")
        if float(text.replace(",", "").replace("−", "-")) < end:
            return text
    return number(budget, 17)


def _bold(text: str, really: bool) -> str:
    return f"<b>{text}</b>" if really else text


def _ordinal(count: int) -> str:
    return {2: "second", 3: "third"}.get(count, f"{count}th")


def _histogram(distance: Distance, name: str) -> str:
    bars = distance.document["histogram"]
    rows = sum(int(bar["count"]) for bar in bars)
    tallest = max(bars, key=lambda bar: int(bar["count"]))
    label = (
        f"How many rows flip at which size of the change: {counted(rows, 'row')}, the most, "
        f"{tallest['count']:,}, {_span(tallest)}"
    )
    left = [
        f"{count:,} {text}"
        for count, text in (
            (distance.rows - distance.right, "wrong already"),
            (distance.never, "that nothing flips"),
            (distance.undecided, "not decided"),
        )
        if count
    ]
    caption = f"{counted(rows, 'row')} by the size of the smallest change that flips them"
    caption += f"; not shown: {', '.join(left)}." if left else "."
    data = Table(
        f"{name}-radii",
        said("Rows by the smallest budget that flips them (their radius)."),
        ["Radius", "rows"],
        [[said(_span(bar)), f"{bar['count']:,}"] for bar in bars],
    )
    axis = f"radius: {measure(distance.norm)}"
    return (
        '<div><div class="chart-box"><h4>The smallest changes that flip rows</h4><figure>'
        f"{histogram(bars, axis, label)}"
        f"<figcaption>{said(caption)}</figcaption></figure></div>{folded(data)}</div>"
    )


def _span(bar: Mapping[str, Any]) -> str:
    if bar["from"] == bar["to"]:
        return number(bar["from"], 9)
    return f"{number(bar['from'], 6)} to {number(bar['to'], 6)}"
