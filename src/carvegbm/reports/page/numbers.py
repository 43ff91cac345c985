"""Numbers as people read them, and exact where it matters.

Comes in: counts, shares, floats. Goes out: text. Bounds are rounded outward; two different numbers
never look the same side by side.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from html import escape

__all__ = [
    "counted",
    "exactly",
    "number",
    "number_pair",
    "round_percent",
    "signed",
]


def counted(count: int, one: str, many: str | None = None) -> str:
    """A count and what is counted.

    >>> counted(1, "row"), counted(1200, "row"), counted(0, "class", "classes")
    ('1 row', '1,200 rows', '0 classes')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def round_percent(share: float) -> str:
    """A share that is round by choice.

    >>> round_percent(0.95), round_percent(0.999)
    ('95 %', '99.9 %')
    """
    return f"{number(100 * share)} %"


_ROUNDINGS = {"nearest": ROUND_HALF_EVEN, "down": ROUND_FLOOR, "up": ROUND_CEILING}


def number(value: float, digits: int = 4, rounding: str = "nearest") -> str:
    """A number in so many significant digits; thousands are set apart, zeros at the end left out.

    `rounding` is that of bounds: "down" for a lower one, "up" for an upper one.

    >>> number(1029.5), number(1029.5, 5), number(1e-35), number(-0.02), number(1234567.0, 7)
    ('1,030', '1,029.5', '1e−35', '−0.02', '1,234,567')
    >>> number(0.29999, 2, "down"), number(1e20), number(-0.0)
    ('0.29', '1e20', '0')
    """
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else "−∞"
    context = Context(prec=digits, rounding=_ROUNDINGS[rounding])
    # The shortest decimal stands for the float, as everywhere: 0.3 is three tenths.
    exact = Decimal(repr(float(value)))
    rounded = context.plus(exact)
    if rounded == 0:
        return "0"
    size = rounded.adjusted()
    sign = "−" if rounded < 0 else ""
    plain = abs(rounded).normalize()
    if -5 < size < 15:
        return f"{sign}{plain:,f}"
    mantissa = plain.scaleb(-size).normalize()
    # A minus sign, at which no line breaks, as a hyphen would let it.
    return f"{sign}{mantissa:f}e{str(size).replace('-', '−')}"


_MOST = 17


def number_pair(before: float, after: float) -> tuple[str, str]:
    """Two numbers in digits that tell them apart, and how far apart: equal only if they are.

    >>> number_pair(1032, 1029.5), number_pair(0, 1.0000000180025095e-35)
    (('1,032', '1,029.5'), ('0', '1e−35'))
    >>> number_pair(0.1, 0.1 + 1e-9), number_pair(1 / 3, 2 / 3)
    (('0.1', '0.100000001'), ('0.33333', '0.66667'))
    """
    if before == after or not (math.isfinite(before) and math.isfinite(after)):
        return number(before, _MOST), number(after, _MOST)
    gap = abs(Decimal(repr(float(after))) - Decimal(repr(float(before))))
    for digits in range(5, _MOST + 1):
        ends = [_rounded(value, digits) for value in (before, after)]
        texts = number(before, digits), number(after, digits)
        if texts[0] != texts[1] and abs(abs(ends[1] - ends[0]) - gap) <= gap / 50:
            return texts
    return number(before, _MOST), number(after, _MOST)


def _rounded(value: float, digits: int) -> Decimal:
    return Context(prec=digits).plus(Decimal(repr(float(value))))


def signed(value: float, digits: int = 5) -> str:
    """A change, with its sign.

    >>> signed(0.02), signed(-2.5)
    ('+0.02', '−2.5')
    """
    return ("+" if value > 0 else "") + number(value, digits)


def exactly(value: float, text: str) -> str:
    """The text as HTML, whose `title` has the whole number where the text has not.

    >>> exactly(0.5, "0.5"), exactly(1 / 3, "0.3333")
    ('0.5', '<span title="0.3333333333333333">0.3333</span>')
    """
    if not math.isfinite(value) or number(value, _MOST) == text:
        return escape(text)
    whole = repr(int(value)) if value == int(value) and abs(value) < 1 << 53 else repr(float(value))
    return f'<span title="{whole}">{escape(text)}</span>'
