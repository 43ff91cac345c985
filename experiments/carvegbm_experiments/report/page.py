"""The report as one HTML file that needs nothing else: style, drawings and images are inside.

Comes in: the cells of one suite. Goes out: a page that opens offline, follows the reader's light
or dark look, scrolls wide tables in their own box, and has the data of every figure in a table.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from html import escape
from importlib import resources

from markupsafe import Markup

from carvegbm.reports.page import base_style, page_of
from carvegbm_experiments.report.comparison import highlights
from carvegbm_experiments.report.figures import Figure, figures
from carvegbm_experiments.report.gallery import gallery
from carvegbm_experiments.report.lookup import Cells, Record, anchor, shown
from carvegbm_experiments.report.markdown import effort
from carvegbm_experiments.report.tables.chapters import Section, as_cells, missing, sections
from carvegbm_experiments.report.tables.table import Table

__all__ = ["html"]

_PAPER = (
    "Stefano Calzavara, Lorenzo Cazzaro, Claudio Lucchese and Giulio Ermanno Pibiri, "
    "“Verifiable Boosted Tree Ensembles”"
)
_TERMS = (
    ("Attacker", "May move an instance by at most the budget. L∞: every feature by that much; L0: "
     "so many features at will; L1: the changes add up to it; L2: Euclidean distance. “L∞ 0.005” "
     "is the attacker with that norm and budget."),
    ("Robustness", "The share of test rows that the model gets right and that no such attacker "
     "can make it get wrong. Proved, not sampled."),
    ("GBDT", "An ordinary LightGBM model, tuned for accuracy. Deciding its robustness is "
     "NP-hard; what a time limit leaves open is written with ±."),
    ("Large-spread", "A model whose trees keep their thresholds apart by more than twice the "
     "budget. Its robustness is decided exactly, without a search."),
    ("Certified", "A large-spread model trained with its proven robustness in view."),
    ("Robust training", "The same aim without the large-spread condition: its models are verified "
     "like any other."),
    ("Paper", "Numbers in italics are copied from the paper, or from the source named. A dash "
     "stands for what has not been computed, or what the paper does not have."),
)  # fmt: skip


def html(cells: Iterable[Record] | Cells) -> str:
    """The page.

    >>> html([]).splitlines()[0]
    '<!doctype html>'
    """
    found = as_cells(cells)
    chapters = sections(found)
    drawings = figures(found)
    pictures = {_gallery_id(cell): gallery(cell) for cell in found.cells("gallery")}
    quick = found.suite == "quick"
    title = "carvegbm: " + ("a quick run" if quick else "the paper's evaluation, and beyond")
    body = [
        f"<header><h1>{said(title)}</h1>",
        '<p class="lead">Can an attacker who changes an input a little change what a model of '
        "boosted trees says about it? For the models below this is decided by proof, row by row. "
        f"The page repeats the evaluation of {said(_PAPER)} with carvegbm, puts the paper's "
        "numbers beside the new ones, and goes on where the paper stops.</p>",
        "<p>This is a quick run on little data that shows that everything works; its numbers are "
        "not those of the full evaluation.</p>"
        if quick
        else "",
        "</header>",
        _glance(found),
        _contents(chapters),
        _terms(),
        '<main id="results">',
        *(_section(chapter, drawings, pictures) for chapter in chapters),
        "</main>",
        _footer(found, missing(chapters)),
    ]
    own = resources.files("carvegbm_experiments.report").joinpath("page.css").read_text("utf-8")
    return page_of(title, base_style() + Markup(own), Markup("\n".join(filter(None, body))))


# Spaces at which no line breaks: before a percent sign, around ±, between norm, number and unit.
_TIED = re.compile(r"(?<=±) | (?=[×%])|(?<=L[∞012]) (?=\d)|(?<=\d) (?=m?s\b)")


def said(text: str) -> str:
    """A sentence, escaped, with spaces that do not break a line."""
    return escape(_TIED.sub("\u00a0", text))


def _glance(cells: Cells) -> str:
    sentences = highlights(cells, shown(cells))
    if not len(cells):
        sentences = ["Nothing has been computed yet: run carvegbm reproduce."]
    items = "".join(f"<li>{said(sentence)}</li>" for sentence in sentences)
    if not items:
        return ""
    return (
        '<section class="glance" aria-labelledby="glance"><h2 id="glance">At a glance</h2>'
        f"<ul>{items}</ul></section>"
    )


def _contents(chapters: list[Section]) -> str:
    entries = [("how-to-read", "How to read this")]
    entries += [(chapter.id, chapter.title) for chapter in chapters]
    entries.append(("how-it-was-made", "How it was made"))
    links = "".join(f'<li><a href="#{name}">{said(text)}</a></li>' for name, text in entries)
    return f'<nav aria-label="Contents"><ol>{links}</ol></nav>'


def _terms() -> str:
    terms = "".join(f"<dt>{said(term)}</dt><dd>{said(text)}</dd>" for term, text in _TERMS)
    return (
        '<section aria-labelledby="how-to-read"><h2 id="how-to-read">How to read this</h2>'
        f"<dl>{terms}</dl></section>"
    )


def _section(chapter: Section, drawings: dict[str, Figure], pictures: dict[str, str]) -> str:
    parts, illustrated = [], False
    for table in chapter.tables:
        hidden = ' class="unseen"' if table.title == chapter.title else ""
        heading = f'<h3 id="{table.id}"{hidden}>{said(table.title)}</h3>'
        drawing = drawings.get(table.id)
        if drawing:
            svg = drawing.svg.replace(' xmlns="http://www.w3.org/2000/svg"', "")
            illustrated = True
            figure = f"<figure>{svg}</figure>"
            parts.append(f"<article>{heading}{figure}{_data(table)}</article>")
        elif table.id in pictures:
            illustrated = True
            images = pictures[table.id]
            parts.append(f'<article class="wide">{heading}{images}{_data(table)}</article>')
        else:
            parts.append(heading + _captioned(table))
    content = "\n".join(parts)
    if illustrated:
        content = f'<div class="figures">{content}</div>'
    return (
        f'<section aria-labelledby="{chapter.id}"><h2 id="{chapter.id}">{said(chapter.title)}'
        f"</h2>\n<p>{said(chapter.text)}</p>\n{content}</section>"
    )


def _data(table: Table) -> str:
    """A figure's data, folded away."""
    count = len(table.rows)
    rows = f"{count} row{'' if count == 1 else 's'}"
    return f"<details><summary>The data ({rows})</summary>{_captioned(table)}</details>"


def _captioned(table: Table) -> str:
    notes = "".join(f"<li>{said(note)}</li>" for note in table.notes)
    return (
        f'<p class="caption" id="{table.id}-caption">{said(table.caption)}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{table.id}">'
        f'<table aria-describedby="{table.id}-caption">{_head(table)}{_bodies(table)}</table></div>'
        + (f'<ul class="notes">{notes}</ul>' if notes else "")
    )


def _sectioned(table: Table) -> int:
    """How many leading columns became headings of sections."""
    return 1 if table.stub == 2 else 0


def _firsts(table: Table) -> set[int]:
    """Columns at which a group begins."""
    return set(itertools.accumulate((span for _, span in table.groups), initial=0)) - {0}


def _head(table: Table) -> str:
    cut, groups, names = _sectioned(table), "", ""
    if table.groups:
        first, *others = table.groups
        groups = f'<td class="stub" colspan="{first[1] - cut}"></td>' + "".join(
            f'<th class="group first" scope="colgroup" colspan="{span}">{said(name)}</th>'
            for name, span in others
        )
        groups = f"<tr>{groups}</tr>"
    for column, name in list(enumerate(table.header))[cut:]:
        names += f'<th scope="col"{_classes(table, column)}>{said(name)}</th>'
    return f"<thead>{groups}<tr>{names}</tr></thead>"


def _bodies(table: Table) -> str:
    cut = _sectioned(table)
    numbered = list(enumerate(table.rows))
    if not cut:
        return f"<tbody>{''.join(_row(table, i) for i, _ in numbered)}</tbody>"
    bodies = []
    width = len(table.header) - cut
    for name, rows in itertools.groupby(numbered, key=lambda entry: entry[1][0]):
        heading = (
            f'<tr><th class="section" scope="rowgroup" colspan="{width}">'
            f"<span>{said(name)}</span></th></tr>"
        )
        bodies.append(f"<tbody>{heading}{''.join(_row(table, i) for i, _ in rows)}</tbody>")
    return "".join(bodies)


def _row(table: Table, number: int) -> str:
    cut, row, text = _sectioned(table), table.rows[number], ""
    for column, cell in list(enumerate(row))[cut:]:
        classes = _classes(table, column, marked=(number, column) in table.marked)
        if column == cut:
            text += f'<th scope="row"{classes}>{said(cell)}</th>'
        else:
            text += f"<td{classes}>{said(cell)}</td>"
    return f"<tr>{text}</tr>"


def _classes(table: Table, column: int, *, marked: bool = False) -> str:
    names = [
        *(["stub"] if column == _sectioned(table) else []),
        "right" if table.align[column] == "right" else "text",
        *(["first"] if column in _firsts(table) else []),
        *(["of-paper"] if column in table.paper else []),
        *(["marked"] if marked else []),
    ]
    return f' class="{" ".join(names)}"' if names else ""


def _gallery_id(cell: Record) -> str:
    setting = cell["configuration"]
    return anchor("gallery", setting["dataset"], setting["norm"], float(setting["budget"]))


def _footer(cells: Cells, n_missing: int) -> str:
    lines = effort(cells, n_missing) if len(cells) else []
    items = "".join(f"<p>{said(line)}</p>" for line in lines)
    return (
        '<footer><h2 id="how-it-was-made">How it was made</h2>'
        "<p>The command carvegbm reproduce computes one cell after the other, keeps each as a "
        "JSON file, and draws this page from them. It can be interrupted and started again.</p>"
        f"{items}</footer>"
    )
