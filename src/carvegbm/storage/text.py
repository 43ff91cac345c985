r"""Percentages, and text from untrusted files made safe to show.

Names, labels and paths may hold characters that are invisible, control a terminal or reverse the
direction of writing. They are spelled out as in JSON: \u001b.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

__all__ = ["on_one_line", "percent", "percent_interval", "visible"]

# Controls, line and paragraph separators, direction marks, zero-width characters, and surrogates
# that UTF-8 cannot hold. The joiners of Arabic and Indic scripts are kept.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)
_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def visible(text: Any) -> str:
    r"""Return the text with hidden characters spelled out; line breaks and tabs stay.

    Examples
    --------
    >>> visible("a\x1b[31m" + chr(0x202E) + "b")
    'a\\u001b[31m\\u202eb'
    """
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", str(text))


def on_one_line(text: Any) -> str:
    r"""Return the text with hidden characters, line breaks and tabs spelled out.

    Examples
    --------
    >>> on_one_line("a\nb\x1b")
    'a\\nb\\u001b'
    """
    return visible(str(text).translate(_BREAKS))


def percent(part: float, whole: float = 1) -> str:
    """Return a share in percent with one decimal; only all and nothing are "100 %" and "0 %".

    Examples
    --------
    >>> percent(181, 188), percent(5, 5), percent(99_999, 100_000), percent(1, 10_000), percent(0)
    ('96.3 %', '100 %', '> 99.9 %', '< 0.1 %', '0 %')
    """
    if whole == 0:
        return "–"
    share = Fraction(part) / Fraction(whole)
    if share in (0, 1):
        return f"{100 * int(share)} %"
    tenths = round(1000 * share)
    if tenths in (0, 1000):
        return "> 99.9 %" if tenths else "< 0.1 %"
    return f"{tenths / 10:.1f} %"


def percent_interval(lower: float, upper: float) -> str:
    """Return an interval of shares in percent, rounded outward, or one share if both are equal.

    Examples
    --------
    >>> percent_interval(0.5, 0.5), percent_interval(0.70001, 0.71002), percent_interval(0, 0.2)
    ('50.0 %', '70.0 % to 71.1 %', '0 % to 20.0 %')
    """
    if lower == upper:
        return percent(lower)
    # The shares are rounded quotients: an error of one rounding must not add a tenth.
    ends = math.floor(1000 * lower + 1e-9), math.ceil(1000 * upper - 1e-9)
    return " to ".join(f"{n // 10} %" if n in (0, 1000) else f"{n / 10:.1f} %" for n in ends)
