"""A table as data, and how numbers are written in one. Knows no cells and no markup language."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "DASH",
    "Table",
    "decimals",
    "duration",
    "interval",
    "listing",
    "long_duration",
    "percent",
    "plural",
    "signed",
    "times",
]

DASH = "—"
Align = Literal["left", "right"]


@dataclass(frozen=True)
class Table:
    """Rows of text under a header.

    Attributes
    ----------
    id : str
        Unique in one report, usable as an anchor.
    title, caption : str
        What it is, and how to read it.
    header : tuple of str
        Column names, unique within their group.
    rows : tuple of tuple of str
        As wide as the header; the first `stub` columns name the row.
    notes : tuple of str
        Sentences below the table.
    align : tuple of {"left", "right"}
    groups : tuple of (str, int)
        Names that span several columns ("" for none); their widths add up to the header's.
    stub : int
        With 2, rows with the same first cell belong together.
    paper : frozenset of int
        Columns with the paper's numbers.
    marked : frozenset of (int, int)
        Row and column of the cells to emphasise.
    missing : frozenset of str
        Cells the table asks for that have not been computed.
    """

    id: str
    title: str
    caption: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    align: tuple[Align, ...] = ()
    groups: tuple[tuple[str, int], ...] = ()
    stub: int = 1
    paper: frozenset[int] = frozenset()
    marked: frozenset[tuple[int, int]] = frozenset()
    missing: frozenset[str] = field(default=frozenset())

    def __post_init__(self) -> None:
        width = len(self.header)
        if any(len(row) != width for row in self.rows):
            raise ValueError(f"table {self.id}: a row is not {width} cells wide")
        if self.groups and sum(span for _, span in self.groups) != width:
            raise ValueError(f"table {self.id}: the groups do not span {width} columns")
        if not self.align:
            left: tuple[Align, ...] = ("left",)
            right: tuple[Align, ...] = ("right",)
            sides = left * self.stub + right * (width - self.stub)
            object.__setattr__(self, "align", sides)

    def flat_header(self) -> tuple[str, ...]:
        """Column names with the names of their groups, for a header of one line."""
        spans = self.groups or (("", len(self.header)),)
        names = [group for group, span in spans for _ in range(span)]
        return tuple(
            f"{group}: {name}" if group else name
            for group, name in zip(names, self.header, strict=True)
        )


def decimals(value: float | None, digits: int = 3) -> str:
    """A number with so many decimals, or a dash."""
    return DASH if value is None else f"{value:.{digits}f}"


def interval(lower: float | None, upper: float | None, digits: int = 2) -> str:
    """A value known to lie between two bounds: mid ± half-width, without ± where they meet.

    A half-width too small for the digits is written with its first significant one.

    >>> interval(0.81, 0.81), interval(0.69, 0.93), interval(0.9300, 0.9304)
    ('0.81', '0.81 ± 0.12', '0.93 ± 0.0002')
    """
    if lower is None or upper is None:
        return DASH
    if lower == upper:
        return f"{lower:.{digits}f}"
    half = (upper - lower) / 2
    shown = f"{half:.{digits}f}"
    if float(shown) == 0:
        shown = f"{half:.{1 - math.floor(math.log10(half)) - 1}f}"
    return f"{(lower + upper) / 2:.{digits}f} ± {shown}"


def percent(share: float) -> str:
    """A share as a whole percentage.

    >>> percent(0.508)
    '51 %'
    """
    return f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """A time with two or three significant digits.

    >>> duration(0.00123), duration(4.2), duration(3448), duration(None)
    ('1.2 ms', '4.2 s', '3,448 s', '—')
    """
    if seconds is None:
        return DASH
    if seconds < 0.1:
        return f"{1000 * seconds:.2g} ms"
    return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:,.0f} s"


def long_duration(seconds: float) -> str:
    """A time as people say it, up to hours.

    >>> long_duration(0.3), long_duration(75), long_duration(600), long_duration(9000)
    ('0.3 s', '75 s', '10 min', '2 h 30 min')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def signed(value: float) -> str:
    """A difference with three decimals and its sign; zero has none.

    >>> signed(0.0123), signed(-0.0123), signed(-0.0001)
    ('+0.012', '-0.012', '0.000')
    """
    text = f"{value:+.3f}"
    return text if float(text) else text[1:]


def times(ratio: float | None) -> str:
    """A ratio with two significant digits.

    >>> times(3.456), times(412.3), times(0.077)
    ('3.5 ×', '412 ×', '0.077 ×')
    """
    if ratio is None or math.isnan(ratio):
        return DASH
    return f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:.2g} ×"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun.

    >>> plural(1, "row"), plural(2, "row")
    ('1 row', '2 rows')
    """
    return f"{count:,} {noun if count == 1 else nouns or noun + 's'}"


def listing(parts: Iterable[str]) -> str:
    """Names in a sentence.

    >>> listing(["a", "b", "c"])
    'a, b and c'
    """
    names = list(parts)
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
