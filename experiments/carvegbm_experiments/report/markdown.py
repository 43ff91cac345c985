"""The report as GitHub Markdown: every table, and how long it took on which machine."""

from __future__ import annotations

import html
from collections.abc import Iterable

from carvegbm_experiments.report.comparison import highlights, scoreboard, undecided
from carvegbm_experiments.report.lookup import Cells, Record, machine_lines, shown
from carvegbm_experiments.report.published import tally
from carvegbm_experiments.report.tables.chapters import as_cells, missing, sections
from carvegbm_experiments.report.tables.table import Table, long_duration, plural

__all__ = ["brief", "effort", "markdown", "table_markdown"]


def markdown(cells: Iterable[Record] | Cells, page: str | None = None) -> str:
    """Every table as Markdown; the data of figures is folded. `page` is where they are drawn.

    >>> print(markdown([]))
    # Results
    <BLANKLINE>
    Nothing has been computed yet: run `carvegbm reproduce`.
    <BLANKLINE>
    """
    found = as_cells(cells)
    blocks = ["# Results of a quick run" if found.suite == "quick" else "# Results"]
    if page is not None:
        blocks.append(f"The same with figures is in [one page]({page}).")
    if not len(found):
        blocks.append("Nothing has been computed yet: run `carvegbm reproduce`.")
        return "\n\n".join(blocks) + "\n"
    chapters = sections(found)
    blocks += _bullets([*highlights(found, shown(found)), *effort(found, missing(chapters))])
    for chapter in chapters:
        blocks += [f"## {_escape(chapter.title)}", _escape(chapter.text)]
        for table in chapter.tables:
            text = table_markdown(table)
            if len(chapter.tables) > 1:
                title = f"<details><summary>{html.escape(table.title)}</summary>"
                text = f"{title}\n\n{text}\n\n</details>"
            blocks.append(text)
    return "\n\n".join(blocks) + "\n"


def effort(cells: Cells, n_missing: int = 0) -> list[str]:
    """How much was computed, how long it took, on which machine, and what is missing."""
    lines = [
        f"{plural(len(cells), 'cell')} took {long_duration(cells.seconds())} of computation on "
        + "; ".join(machine_lines(cells))
        + "."
    ]
    if n_missing:
        lines.append(f"Not computed yet: {plural(n_missing, 'cell')}; a dash stands for them.")
    if cells.left_out:
        lines.append(
            f"Left out: {plural(cells.left_out, 'cell')} with less thorough settings (fewer rows, "
            "a shorter time limit or another seed) than one that is shown."
        )
    return lines


def table_markdown(table: Table) -> str:
    r"""One table with its caption and notes.

    >>> print(table_markdown(Table("t", "T", "A caption.", ("name", "a|b"), (("x", "1"),))))
    A caption.
    <BLANKLINE>
    | name | a\|b |
    |:---|---:|
    | x | 1 |
    """
    rules = "|".join(":---" if side == "left" else "---:" for side in table.align)
    lines = [_row(table.flat_header()), f"|{rules}|"]
    for i, row in enumerate(table.rows):
        lines.append(
            _row(f"**{cell}**" if (i, j) in table.marked else cell for j, cell in enumerate(row))
        )
    blocks = [_escape(table.caption), "\n".join(lines), *_bullets(table.notes)]
    return "\n\n".join(blocks)


def brief(cells: Iterable[Record] | Cells) -> str:
    """The run in a few sentences, for a page that links to the report."""
    found = as_cells(cells)
    tasks = shown(found)
    said = (*scoreboard(found, tasks)[:1], undecided(found, tasks), tally(found))
    return " ".join(filter(None, said))


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_escape(cell) for cell in cells) + " |"


def _bullets(sentences: Iterable[str]) -> list[str]:
    lines = [f"- {_escape(sentence)}" for sentence in sentences]
    return ["\n".join(lines)] if lines else []


def _escape(text: str) -> str:
    for sign in ("|", "<"):
        text = text.replace(sign, "\\" + sign)
    return text
