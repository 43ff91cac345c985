r"""Text that others chose, with nothing hidden in it.

Comes in: names, labels, paths, from files of strangers. Goes out: text in which a character that
cannot be seen, that steers a terminal or that turns the direction of writing is spelled out, as in
JSON: \u001b.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["on_one_line", "visible"]

# Controls, line and paragraph separators, marks and overrides of direction, marks without width,
# and halves of a pair that UTF-8 cannot hold. The joiners of Arabic and Indic scripts stay.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ufff9-\ufffb\ud800-\udfff]"
)
_BREAKS = str.maketrans({"\n": "\\n", "\r": "\\r", "\t": "\\t"})


def visible(text: Any) -> str:
    r"""The text with what cannot be seen spelled out; lines and tabs stay.

    Examples
    --------
    >>> visible("a\x1b[31m" + chr(0x202E) + "b")
    'a\\u001b[31m\\u202eb'
    """
    return _HIDDEN.sub(lambda at: f"\\u{ord(at[0]):04x}", str(text))


def on_one_line(text: Any) -> str:
    r"""The same on one line.

    Examples
    --------
    >>> on_one_line("a\nb\x1b")
    'a\\nb\\u001b'
    """
    return visible(str(text).translate(_BREAKS))
