"""Text that others chose, made safe to show: escaped, on one line, with nothing hidden in it.

Comes in: names, labels, paths, whatever the document holds. Goes out: HTML. A control character, a
line break or a mark that turns the direction of writing is spelled out, as in JSON; a long name is
shortened in its middle, and its `title` has all of it.
"""

from __future__ import annotations

import re
from html import escape
from typing import Any

from carvegbm.storage.text import on_one_line

__all__ = ["quoted", "said", "short", "shown_name"]

_LONGEST = 48  # characters of a name
_LONGEST_TITLE = 1000

# Spaces at which a line must not break: before a percent sign, after ±, between number and unit.
_TIED = re.compile(r"(?<=±) | (?=[×%])|(?<=L[∞012]) (?=\d)|(?<=\d) (?=m?s\b)")


def said(text: str) -> str:
    """A sentence of ours, escaped, with the spaces that must not break a line.

    >>> said("5 % < 6 %").replace(chr(0xA0), "_")
    '5_% &lt; 6_%'
    """
    return escape(_TIED.sub("\u00a0", text))


def short(text: Any, longest: int = _LONGEST) -> str:
    """At most `longest` characters of what can be seen; both ends stay, as names differ there.

    >>> short("x" * 30 + "17", 12)
    'xxxxxxxx…x17'
    """
    whole = on_one_line(text)
    if len(whole) <= longest:
        return whole
    tail = longest // 4
    return f"{whole[: longest - tail - 1]}…{whole[-tail:]}"


def shown_name(text: Any, longest: int = _LONGEST) -> str:
    """A name as HTML, apart from the direction of what stands around it.

    >>> shown_name("<b>")
    '<bdi>&lt;b&gt;</bdi>'
    """
    whole, some = on_one_line(text), short(text, longest)
    if not whole.strip():
        return '<bdi class="quiet">(empty)</bdi>'
    title = f' title="{escape(whole[:_LONGEST_TITLE])}"' if some != whole else ""
    return f"<bdi{title}>{escape(some)}</bdi>"


def quoted(text: Any) -> str:
    """A label in quotes, as HTML."""
    return f"“{shown_name(text)}”"
