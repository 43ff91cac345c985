"""Tables as HTML: headers with a scope, numbers to the right, wide ones scroll in their own box.

Comes in: cells that are HTML already. Goes out: a table that stands open, or folded away as the
data of a figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from carvegbm.reports.page.numbers import counted
from carvegbm.reports.page.text import said

__all__ = ["Table", "folded", "opened"]

_TALL = 11  # rows
_FEW = 5  # columns


@dataclass(frozen=True)
class Table:
    """A table; the first cell of every row names it."""

    id: str
    caption: str
    """What the table holds: a sentence, as HTML."""
    header: Sequence[str]
    """Names of columns, as plain text."""
    rows: Sequence[Sequence[str]]
    """Cells, as HTML."""
    numeric: int = 1
    """The first of the columns that hold numbers, which stand to the right."""
    texts: frozenset[int] = frozenset()
    """Columns after it that hold text all the same."""
    has_long_names: bool = False
    """In the first column, which then breaks its lines."""
    is_narrow: bool = False
    """As wide as its cells, not as the page."""


def opened(table: Table) -> str:
    """The table, with its caption above."""
    box = "scroll narrow" if table.is_narrow else "scroll"
    columns = len(table.header)
    if columns <= _FEW and table.numeric == 1 and not table.texts and len(table.rows) > _TALL:
        box = "scroll tall" if columns == 2 else "scroll tall wide"  # on paper, side by side
    return (
        f'<p class="caption" id="{table.id}-caption">{table.caption}</p>'
        f'<div class="{box}" tabindex="0" role="region" aria-labelledby="{table.id}-caption">'
        f'<table id="{table.id}" aria-describedby="{table.id}-caption">{_head(table)}'
        f"<tbody>{''.join(_row(table, row) for row in table.rows)}</tbody></table></div>"
    )


def folded(table: Table, summary: str = "The data", *, is_open: bool = False) -> str:
    """The table, folded away."""
    rows = counted(len(table.rows), "row")
    return (
        f"<details{' open' if is_open else ''}><summary>{said(f'{summary} ({rows})')}</summary>"
        f"{opened(table)}</details>"
    )


def _head(table: Table) -> str:
    names = "".join(
        f'<th scope="col" class="{_class_of(table, column)}">{said(name)}</th>'
        for column, name in enumerate(table.header)
    )
    return f"<thead><tr>{names}</tr></thead>"


def _row(table: Table, cells: Sequence[str]) -> str:
    first, *others = cells
    text = f'<th scope="row" class="{_class_of(table, 0)}">{first}</th>'
    for column, cell in enumerate(others, 1):
        text += f'<td class="{_class_of(table, column)}">{cell}</td>'
    return f"<tr>{text}</tr>"


def _class_of(table: Table, column: int) -> str:
    is_text = column < table.numeric or column in table.texts
    kind = "text" if is_text else "right"
    if column:
        return kind
    return f"stub long {kind}" if table.has_long_names else f"stub {kind}"
