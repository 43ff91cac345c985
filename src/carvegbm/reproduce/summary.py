"""The report as GitHub Markdown: every table, and how long it took on which machine."""

from __future__ import annotations

import html
from collections.abc import Iterable

from carvegbm.reproduce.comparison import best, highlights, reaches
from carvegbm.reproduce.lookup import Cell, Cells, attacker_text, machine_lines, shown
from carvegbm.reproduce.paper import MEASURES
from carvegbm.reproduce.table import DASH, Table, interval, long_duration, plural
from carvegbm.reproduce.tables import as_cells, missing, sections

__all__ = ["body", "effort", "markdown", "overview", "table_markdown"]


def markdown(cells: Iterable[Cell] | Cells) -> str:
    """Every table as Markdown; the data of figures is folded.

    >>> print(markdown([]))
    # Results
    <BLANKLINE>
    Nothing has been computed yet: run `carvegbm reproduce`.
    <BLANKLINE>
    """
    found = as_cells(cells)
    name = " of a quick run" if found.suite == "quick" else ""
    return f"# Results{name}\n\n{body(found)}"


def body(cells: Iterable[Cell] | Cells) -> str:
    """What stands below the heading."""
    found = as_cells(cells)
    if not len(found):
        return "Nothing has been computed yet: run `carvegbm reproduce`.\n"
    chapters = sections(found)
    blocks = _bullets([*highlights(found, shown(found)), *effort(found, missing(chapters))])
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


def overview(cells: Iterable[Cell] | Cells) -> str:
    """The run on half a page: the sentences, and one table of ours against the paper's."""
    found = as_cells(cells)
    if not len(found):
        return body(found)
    rows: list[tuple[str, ...]] = []
    marked: set[tuple[int, int]] = set()
    for attack in shown(found):
        dataset, norm, budget = attack
        model, paper = best(found, attack), MEASURES.get(attack)
        bounds = found.result("plain-robustness", dataset=dataset, norm=norm, budget=budget)
        if model and paper and reaches(model.result["robustness"], paper.robustness):
            marked.add((len(rows), 4))
        rows.append(
            (
                found.title(dataset),
                attacker_text(norm, budget),
                f"{model.result['accuracy']:.2f}" if model else DASH,
                f"{paper.accuracy:.2f}" if paper else DASH,
                f"{model.result['robustness']:.2f}" if model else DASH,
                f"{paper.robustness:.2f}" if paper else DASH,
                interval(*bounds["robustness"]) if bounds else DASH,
                interval(
                    paper.plain_robustness - paper.plain_uncertainty,
                    paper.plain_robustness + paper.plain_uncertainty,
                )
                if paper and paper.plain_robustness is not None
                else DASH,
            )
        )
    table = Table(
        id="overview",
        title="Overview",
        caption="Ours is the best of our large-spread models, chosen on the validation set; bold "
        "where it is at least as robust as the paper's as printed (two decimals). Plain "
        "is an ordinary LightGBM model.",
        header=("data set", "attacker", "ours", "paper", "ours", "paper", "ours", "paper"),
        groups=(("", 2), ("accuracy", 2), ("robustness", 2), ("plain robustness", 2)),
        rows=tuple(rows),
        stub=2,
        marked=frozenset(marked),
    )
    blocks = [
        *_bullets(highlights(found, shown(found))),
        table_markdown(table),
        *_bullets(effort(found, missing(sections(found)))),
    ]
    return "\n\n".join(blocks) + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_escape(cell) for cell in cells) + " |"


def _bullets(sentences: Iterable[str]) -> list[str]:
    lines = [f"- {_escape(sentence)}" for sentence in sentences]
    return ["\n".join(lines)] if lines else []


def _escape(text: str) -> str:
    for sign in ("|", "<"):
        text = text.replace(sign, "\\" + sign)
    return text
