"""Figures: SVG that takes its colours from the page and says in words what it shows.

Comes in: numbers. Goes out: SVG elements. Bars are as wide as the page, in percent, so that their
text keeps its size; curves and histograms are drawn for a phone and grow with the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from carvegbm.reports.page.numbers import number
from carvegbm.reports.page.scales import Scale
from carvegbm.reports.page.text import short
from carvegbm.statuses import COLOURS, HATCHES, INKS, MEANINGS
from carvegbm.storage.text import percent

__all__ = ["curve", "feature_bars", "histogram", "legend", "looks", "patterns", "status_bar"]

WIDTH, HEIGHT = 400, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 20, 26, 40
_ROOM_FOR_COUNT, _ROOM_FOR_STATUS = 0.11, 0.3  # of a bar, for text within

_STRIPES = {"//": "M-2 6L6 -2M2 10L10 2", "\\\\": "M2 -2L10 6M-2 2L6 10", "..": ""}


def looks() -> str:
    """The style of the statuses: their colours, and that of text on them."""
    colours = " ".join(f"--{status}: {colour};" for status, colour in COLOURS.items())
    rules = "".join(
        f".fill-{status} {{ fill: var(--{status}); }}\n"
        f"svg text.on-{status} {{ fill: {ink}; stroke: var(--{status}); }}\n"
        for status, ink in INKS.items()
    )
    return f":root {{ {colours} }}\n{rules}"


def patterns() -> str:
    """What the statuses look like, once for all figures."""
    found = ""
    for status, hatch in HATCHES.items():
        inside = f'<rect width="8" height="8" class="fill-{status}"/>'
        if hatch == "..":
            inside += (
                '<circle cx="2" cy="2" r="1" class="dot"/><circle cx="6" cy="6" r="1" class="dot"/>'
            )
        elif hatch:
            inside += f'<path d="{_STRIPES[hatch]}" class="stripe"/>'
        found += (
            f'<pattern id="look-{status}" width="8" height="8" patternUnits="userSpaceOnUse">'
            f"{inside}</pattern>"
        )
    return (
        '<svg class="unseen" width="0" height="0" aria-hidden="true" focusable="false"><defs>'
        f"{found}</defs></svg>"
    )


def legend(statuses: Sequence[str], *, with_accuracy: bool) -> str:
    """The looks of these statuses, and what they mean."""
    items = "".join(
        f'<li><svg class="key" width="16" height="16" aria-hidden="true" focusable="false">'
        f'<rect width="16" height="16" rx="2" fill="url(#look-{status})"/></svg>'
        f"<b>{status}</b> {escape(meaning)}</li>"
        for status, meaning in MEANINGS.items()
        if status in statuses
    )
    accuracy = (
        '<li><svg class="key" width="16" height="16" aria-hidden="true" focusable="false">'
        '<path d="M8 0V16" class="mark"/></svg><b>accuracy</b> right rows end here</li>'
    )
    return f'<ul class="keys">{items}{accuracy if with_accuracy else ""}</ul>'


def status_bar(segments: Sequence[tuple[str, int]], right: int | None, label: str) -> str:
    """One bar of statuses, as wide as the page; a mark where the right rows end, if given."""
    rows = sum(count for _, count in segments)
    before, parts = 0, []
    for status, count in segments:
        start, width = 100 * before / rows, 100 * count / rows
        parts.append(
            f'<rect x="{start:.3f}%" y="8" width="{width:.3f}%" height="34" '
            f'fill="url(#look-{status})"><title>{status}: {count:,} ({percent(count, rows)})'
            "</title></rect>"
        )
        if count >= _ROOM_FOR_COUNT * rows:
            text = f"{count:,} {status}" if count >= _ROOM_FOR_STATUS * rows else f"{count:,}"
            parts.append(
                f'<text x="{start + width / 2:.3f}%" y="30" '
                f'class="within on-{status}">{text}</text>'
            )
        before += count
    if right is not None:
        at = min(99.8, max(0.2, 100 * right / rows))
        parts.append(f'<rect x="{at:.3f}%" y="2" width="3" height="46" class="mark-bar"/>')
    return (
        f'<svg class="bar" width="100%" height="50" role="img" aria-label="{escape(label)}">'
        f"{''.join(parts)}</svg>"
    )


def feature_bars(features: Sequence[Mapping[str, Any]], label: str) -> str:
    """How many witnesses change each feature; the darker part of a bar changes it alone."""
    most = max(int(feature["rows"]) for feature in features)
    parts = []
    for place, feature in enumerate(features):
        top = 36 * place
        rows, alone = int(feature["rows"]), int(feature["alone"])
        name, share = escape(short(feature["name"], 34)), percent(feature["share"])
        parts.append(
            f'<text x="0" y="{top + 13}" class="name">{name}</text>'
            f'<text x="100%" y="{top + 13}" class="end">{rows:,} ({share})</text>'
            f'<rect x="0" y="{top + 19}" width="{100 * rows / most:.3f}%" height="10" '
            'class="series faint"/>'
        )
        if alone:
            parts.append(
                f'<rect x="0" y="{top + 19}" width="{100 * alone / most:.3f}%" height="10" '
                'class="series"/>'
            )
    return (
        f'<svg class="features" width="100%" height="{36 * len(features)}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )


def histogram(bars: Sequence[Mapping[str, Any]], axis: str, label: str) -> str:
    """Counts over sizes; every bar is as wide as the others, whatever it spans."""
    ticks = Scale(0, max(2, *(int(bar["count"]) for bar in bars)), is_whole=True).ticks(5)
    ticks.append(2 * ticks[-1] - ticks[-2])
    most = ticks[-1]
    parts = [_rule(tick / most, number(tick, 9)) for tick in ticks]
    width = (WIDTH - _LEFT - _RIGHT) / len(bars)
    height = HEIGHT - _TOP - _BOTTOM
    for place, bar in enumerate(bars):
        tall = height * int(bar["count"]) / most
        if tall:
            parts.append(
                f'<rect x="{_LEFT + place * width + 0.5:.2f}" y="{HEIGHT - _BOTTOM - tall:.2f}" '
                f'width="{max(0.5, width - 1):.2f}" height="{tall:.2f}" class="series"/>'
            )
    parts += [_below(_LEFT + at * width, text) for at, text in _edges(bars)]
    return _framed(parts, axis, "rows", label)


def _edges(bars: Sequence[Mapping[str, Any]]) -> list[tuple[float, str]]:
    """A few ends of bars to name, in widths of bars; bars of one number are named in the middle."""
    if all(bar["from"] == bar["to"] for bar in bars):
        stride = -(-len(bars) // 10)
        return [(i + 0.5, number(bar["from"])) for i, bar in enumerate(bars) if i % stride == 0]
    ends = [bar["from"] for bar in bars] + [bars[-1]["to"]]
    stride = -(-len(ends) // 6)
    return [(float(i), number(end, 3)) for i, end in enumerate(ends) if i % stride == 0]


def curve(
    lower: Sequence[tuple[float, float]],
    upper: Sequence[tuple[float, float]],
    scale: Scale,
    marks: Sequence[tuple[float, float]],
    axis: str,
    label: str,
) -> str:
    """Robustness over budgets: steps, a band between what is proved and what may be.

    `lower` and `upper` are (budget, share) from the first on, each holding up to the next;
    `marks` are the budgets asked about, with the share that is proved there.
    """
    parts = [_rule(tick / 100, f"{tick} %") for tick in (0, 25, 50, 75, 100)]
    for tick in scale.ticks():
        x = _x(scale.place(tick))
        parts.append(f'<path d="M{x:.1f} {HEIGHT - _BOTTOM}v4" class="axis"/>')
        parts.append(_below(x, number(tick, 9)))
    low, high = _steps(lower, scale), _steps(upper, scale)
    if low != high:
        back = "L".join(f"{x:.1f} {y:.1f}" for x, y in reversed(low))
        there = "L".join(f"{x:.1f} {y:.1f}" for x, y in high)
        parts.append(f'<path d="M{there}L{back}z" class="band"/>')
        parts.append(f'<path d="M{there}" class="line open"/>')
    parts.append(f'<path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in low)}" class="line"/>')
    free = 0.0
    for budget, share in sorted(marks):
        x, y, text = _x(scale.place(budget)), _y(share), number(budget)
        half = 3.5 * len(text)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{HEIGHT - _BOTTOM}" class="asked"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" class="point"/>')
        at = min(WIDTH - half, max(_LEFT + half - 8, x))
        if at - half >= free:
            free = at + half + 4
            parts.append(f'<text x="{at:.1f}" y="{_TOP - 8}" class="tick">{text}</text>')
    return _framed(parts, axis, "robust", label)


def _steps(points: Sequence[tuple[float, float]], scale: Scale) -> list[tuple[float, float]]:
    """The corners of a step function, without those that cannot be told apart."""
    found: list[tuple[float, float]] = []
    height = _y(points[0][1])
    x = _x(0)
    found.append((x, height))
    for budget, share in points:
        if budget > scale.high:
            break
        place, y = round(_x(scale.place(budget)), 1), _y(share)
        if place > found[-1][0]:
            found.append((place, found[-1][1]))
        if len(found) > 1 and found[-2][0] == place and found[-1][0] == place:
            found[-1] = (place, y)
        else:
            found.append((place, y))
    found.append((_x(1), found[-1][1]))
    return found


def _x(place: float) -> float:
    return _LEFT + place * (WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return HEIGHT - _BOTTOM - share * (HEIGHT - _TOP - _BOTTOM)


def _rule(share: float, text: str) -> str:
    y = _y(share)
    return (
        f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" class="rule"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{escape(text)}</text>'
    )


def _below(x: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 17}" class="tick">{escape(text)}</text>'


def _framed(parts: Sequence[str], axis: str, side: str, label: str) -> str:
    base = HEIGHT - _BOTTOM
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(label)}">{"".join(parts)}'
        f'<path d="M{_LEFT} {base}H{WIDTH - _RIGHT}" class="axis"/>'
        f'<text x="{(WIDTH + _LEFT - _RIGHT) / 2:.1f}" y="{HEIGHT - 5}" class="tick title">'
        f'{escape(axis)}</text><text x="2" y="12" class="title">{escape(side)}</text></svg>'
    )
