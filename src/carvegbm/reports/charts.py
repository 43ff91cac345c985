"""Charts of the page as inline SVG: curve, histogram, and images before and after an attack.

Charts take their colours from the style sheet, are drawn for the width of a phone and grow with
the page. Bars that are as wide as the page are drawn by the template.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from carvegbm.attackers.options import LARGEST_BUDGET
from carvegbm.reports import statistics
from carvegbm.reports.formats import number

__all__ = ["Axis", "axis_for", "curve", "histogram", "image_pair", "png"]

WIDTH, HEIGHT = 400, 236
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 20, 26, 40
_BASE = HEIGHT - _BOTTOM
_TICK_STEPS = (1, 2, 2.5, 5, 10)
_MOST_DECADES = 12
_SMALLEST_BUDGET = 1 / LARGEST_BUDGET


# ── axes ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Axis:
    """A linear or logarithmic axis from `low` to `high`."""

    low: float
    high: float
    is_log: bool = False
    is_whole: bool = False
    """Ticks are whole numbers."""

    def place(self, value: float) -> float:
        """The place of a value between 0 and 1; values beyond an end are placed at the end.

        >>> Axis(0, 4).place(1), Axis(1, 100, True).place(10), Axis(0, 4).place(9)
        (0.25, 0.5, 1.0)
        """
        if not self.low < value < self.high:
            return float(value >= self.high)
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """At most `most` round numbers on the axis, ascending.

        >>> Axis(0, 1).ticks(), Axis(1e-3, 10, True).ticks()
        ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.001, 0.01, 0.1, 1.0, 10.0])
        """
        if self.is_log:
            first = math.ceil(math.log10(self.low) - 1e-9)
            powers = range(first, math.floor(math.log10(self.high) + 1e-9) + 1)
            return [float(f"1e{power}") for power in powers[:: -(-len(powers) // most)]]
        raw = (self.high - self.low) / (most - 1)
        raw = max(1.0, raw) if self.is_whole else raw
        unit = 10.0 ** math.floor(math.log10(raw))
        steps = [step * unit for step in _TICK_STEPS if not self.is_whole or step * unit % 1 == 0]
        step = next(step for step in steps if step >= raw * (1 - 1e-9))
        places = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [float(f"{step * place:.12g}") for place in places]


def axis_for(radii: Sequence[float], budgets: Sequence[float], *, whole: bool) -> Axis:
    """An axis of budgets that shows all finite radii and all `budgets` of attackers.

    It is logarithmic where one linear axis would squeeze most of them.
    """
    values = np.sort([v for v in (*radii, *budgets) if v >= _SMALLEST_BUDGET and v < math.inf])
    if len(values) == 0:
        return Axis(0, 1)
    largest = float(values[-1])
    if whole:
        return Axis(0, max(largest, 2) + 1, is_whole=True)
    if not statistics.spans_decades(values):
        return Axis(0, 1.05 * largest)
    low = math.floor(math.log10(max(float(values[0]), largest * 10.0**-_MOST_DECADES)))
    high = math.ceil(math.log10(largest))
    return Axis(float(f"1e{low}"), float(f"1e{max(high, low + 1)}"), is_log=True)


# ── charts ───────────────────────────────────────────────────────────────────────────────────


def curve(
    radii: Mapping[str, Sequence[float | None]],
    marks: Sequence[tuple[float, float]],
    whole: bool,
    title: str,
    label: str,
) -> Markup:
    """Robustness over the budget: a step function, with a band where rows are undecided.

    Parameters
    ----------
    radii : mapping
        "lower" and "upper" bounds of the radius of each row; None is infinite.
    marks : sequence of (budget, robustness)
        The attackers' budgets and what is proved there.
    """
    lower, upper = (
        np.array([math.inf if end is None else end for end in radii[side]], dtype=np.float64)
        for side in ("lower", "upper")
    )
    budgets = statistics.curve_budgets(lower, upper)
    axis = axis_for(budgets.tolist(), [budget for budget, _ in marks], whole=whole)
    low, high = (
        _steps(budgets.tolist(), shares.tolist(), axis)
        for shares in statistics.robust_shares(lower, upper, budgets)
    )
    parts = [_rule(tick / 100, f"{tick}\u00a0%") for tick in (0, 25, 50, 75, 100)]
    for tick in axis.ticks():
        x = _x(axis.place(tick))
        parts.append(f'<path d="M{x:.1f} {_BASE}v4" class="axis"/>{_below(x, number(tick, 9))}')
    if low != high:
        parts.append(f'<path d="M{_line(high)}L{_line(low[::-1])}z" class="band"/>')
        parts.append(f'<path d="M{_line(high)}" class="line open"/>')
    parts.append(f'<path d="M{_line(low)}" class="line"/>')
    free = 0.0
    for budget, share in sorted(marks):
        x, text = _x(axis.place(budget)), number(budget)
        parts.append(f'<path d="M{x:.1f} {_TOP}V{_BASE}" class="asked"/>')
        parts.append(f'<circle cx="{x:.1f}" cy="{_y(share):.1f}" r="4" class="point"/>')
        half = 3.5 * len(text)
        at = min(WIDTH - half, max(_LEFT + half - 8, x))
        if at - half >= free:  # else the text would cover the one before
            free = at + half + 4
            parts.append(f'<text x="{at:.1f}" y="{_TOP - 8}" class="tick">{text}</text>')
    title += ", logarithmic" if axis.is_log else ""
    return _chart(parts, title, "robust", label)


def _steps(
    budgets: Sequence[float], shares: Sequence[float], axis: Axis
) -> list[tuple[float, float]]:
    """The corners of the step function with `shares[i]` from `budgets[i]` on, without repeats."""
    found = [(_x(0), _y(shares[0]))]
    for budget, share in zip(budgets, shares, strict=True):
        x, y = round(_x(axis.place(budget)), 1), _y(share)
        if x > found[-1][0]:
            found.append((x, found[-1][1]))
        if len(found) > 1 and found[-2][0] == x == found[-1][0]:
            found[-1] = (x, y)
        else:
            found.append((x, y))
    return [*found, (_x(1), found[-1][1])]


def _line(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def histogram(bars: Sequence[Mapping[str, Any]], title: str, label: str) -> Markup:
    """Counts by radius; all bars have one width, whatever they span."""
    ticks = Axis(0, max(2, *(bar["count"] for bar in bars)), is_whole=True).ticks(5)
    ticks.append(2 * ticks[-1] - ticks[-2])
    parts = [_rule(tick / ticks[-1], number(tick, 9)) for tick in ticks]
    width = (WIDTH - _LEFT - _RIGHT) / len(bars)
    for place, bar in enumerate(bars):
        height = (_BASE - _TOP) * bar["count"] / ticks[-1]
        if height:
            parts.append(
                f'<rect x="{_LEFT + place * width + 0.5:.2f}" y="{_BASE - height:.2f}" '
                f'width="{max(0.5, width - 1):.2f}" height="{height:.2f}" class="series"/>'
            )
    is_whole = bars[0]["from"] == bars[0]["to"]
    edges = [bar["from"] for bar in bars] + ([] if is_whole else [bars[-1]["to"]])
    for place in range(0, len(edges), -(-len(edges) // (10 if is_whole else 6))):
        at = _LEFT + (place + 0.5 * is_whole) * width
        parts.append(_below(at, number(edges[place], 3)))
    return _chart(parts, title, "rows", label)


def _x(place: float) -> float:
    return _LEFT + place * (WIDTH - _LEFT - _RIGHT)


def _y(share: float) -> float:
    return _BASE - share * (_BASE - _TOP)


def _rule(share: float, text: str) -> str:
    y = _y(share)
    return (
        f'<path d="M{_LEFT} {y:.1f}H{WIDTH - _RIGHT}" class="rule"/>'
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" class="end">{text}</text>'
    )


def _below(x: float, text: str) -> str:
    return f'<text x="{x:.1f}" y="{_BASE + 17}" class="tick">{text}</text>'


def _chart(parts: Sequence[str], title: str, side: str, label: str) -> Markup:
    """An SVG of parts, which hold numbers only, between its axis and titles."""
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}'
        '<path d="M{} {}H{}" class="axis"/><text x="{:.1f}" y="{}" class="tick title">{}</text>'
        '<text x="2" y="12" class="title">{}</text></svg>'
    ).format(
        *(WIDTH, HEIGHT, label, Markup("".join(parts)), _LEFT, _BASE, WIDTH - _RIGHT),
        *((WIDTH + _LEFT - _RIGHT) / 2, HEIGHT - 5, title, side),
    )


# ── images ───────────────────────────────────────────────────────────────────────────────────


def image_pair(
    before: Sequence[float],
    changed: Mapping[int, float],
    shape: Sequence[int],
    labels: tuple[str, str],
    caption: str,
    brighter: Mapping[int, bool] | None = None,
) -> Markup:
    """An image and its changed copy side by side, with the changed pixels outlined.

    Parameters
    ----------
    before : sequence of float
        Grey levels from 0 (black) to 1 (white), line by line.
    changed : mapping
        The new level of each changed pixel by its position.
    shape : (height, width)
    labels : (str, str)
        Descriptions of both images for readers who do not see them.
    caption : str or Markup
    brighter : mapping, optional
        Whether each changed pixel is brighter; by default from the levels.
    """
    after = list(before)
    for place, level in changed.items():
        after[place] = level
    if brighter is None:
        brighter = {place: level > before[place] for place, level in changed.items()}
    return Markup(
        '<figure class="pair"><div>{}{}</div><figcaption>{}</figcaption></figure>'
    ).format(
        _image(before, shape, {}, labels[0]), _image(after, shape, brighter, labels[1]), caption
    )


def _image(
    pixels: Sequence[float], shape: Sequence[int], brighter: Mapping[int, bool], label: str
) -> Markup:
    height, width = shape
    outlines: dict[str, list[str]] = {"brighter": [], "darker": []}
    for place, is_brighter in brighter.items():
        square = f"M{place % width}.1 {place // width}.1h.8v.8h-.8z"
        outlines["brighter" if is_brighter else "darker"].append(square)
    paths = "".join(f'<path class="{k}" d="{"".join(d)}"/>' for k, d in outlines.items() if d)
    return Markup(
        '<svg viewBox="0 0 {w} {h}" role="img" aria-label="{label}">'
        '<image href="data:image/png;base64,{data}" width="{w}" height="{h}"/>{paths}</svg>'
    ).format(
        w=width,
        h=height,
        label=label,
        data=base64.b64encode(png(pixels, width, height)).decode(),
        paths=Markup(paths),
    )


def png(pixels: Sequence[float], width: int, height: int) -> bytes:
    """Grey levels from 0 (black) to 1 (white), line by line, as a PNG file."""
    levels = bytes(round(255 * min(1.0, max(0.0, pixel))) for pixel in pixels)
    lines = b"".join(b"\0" + levels[i * width : (i + 1) * width] for i in range(height))

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(lines, 9))
        + chunk(b"IEND", b"")
    )
