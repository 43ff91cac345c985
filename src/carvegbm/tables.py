"""Tables as aligned text and as HTML: rows of cells, and an alignment per column."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

__all__ = ["html_table", "text_table"]

_BORDER = "1px solid rgba(128, 128, 128, 0.35)"
_TABLE = "border-collapse: collapse; margin: 0.4em 0; background: none; color: inherit"
_CELL = f"padding: 0.15em 0.7em; border: 0; border-bottom: {_BORDER}; white-space: nowrap"

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows, align: str, *, indent: str = "") -> list[str]:
    """Return one line per row; `align` holds "<" (left) or ">" (right) for every column.

    Examples
    --------
    >>> text_table([("a", "10"), ("bcd", "9")], "<>")
    ['a    10', 'bcd   9']
    """
    widths = [max(len(row[i]) for row in rows) for i in range(len(align))]
    return [
        indent
        + "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def html_table(
    rows: Rows,
    align: str,
    *,
    header: Sequence[str] | None = None,
    markup: Collection[int] = (),
    bold: Collection[int] = (),
) -> str:
    """Return an HTML table with inline styles, for pages whose style sheets are not ours.

    Cells are escaped, except those of the columns in `markup`, which hold HTML. `bold` are
    positions of rows.

    Examples
    --------
    >>> "<td" in html_table([("a<b", "1")], "<>"), "a&lt;b" in html_table([("a<b", "1")], "<>")
    (True, True)
    """

    def line(tag: str, cells: Sequence[str], weight: str = "") -> str:
        texts = []
        for i, (cell, side) in enumerate(zip(cells, align, strict=True)):
            style = f"{_CELL}; text-align: {'left' if side == '<' else 'right'}{weight}"
            text = cell if tag == "td" and i in markup else escape(cell)
            texts.append(f'<{tag} style="{style}">{text}</{tag}>')
        return f"<tr>{''.join(texts)}</tr>"

    head = "" if header is None else f"<thead>{line('th', header)}</thead>"
    body = "".join(
        line("td", cells, "; font-weight: bold" if i in bold else "")
        for i, cells in enumerate(rows)
    )
    return f'<table style="{_TABLE}">{head}<tbody>{body}</tbody></table>'
