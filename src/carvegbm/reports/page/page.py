"""The page: one HTML file that needs nothing else, the answer first.

Comes in: the document of a report, and nothing but it. Goes out: a page that opens offline, follows
the reader's light or dark look, prints, and has the data of every figure in a table. The same
document gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carvegbm.reports.page.figures import looks, patterns
from carvegbm.reports.page.frame import base_style, page_of, resource
from carvegbm.reports.page.numbers import counted
from carvegbm.reports.page.sections.advice import what_to_do
from carvegbm.reports.page.sections.answer import notices, the_answer
from carvegbm.reports.page.sections.decided import how_it_was_decided, when
from carvegbm.reports.page.sections.far import how_far_it_is
from carvegbm.reports.page.sections.weak import where_it_is_weak
from carvegbm.reports.page.sections.witnesses import what_an_attack_looks_like
from carvegbm.reports.page.text import said, short, shown_name
from carvegbm.storage.text import on_one_line

__all__ = ["html"]

_SECTIONS = (
    ("answer", "The answer", the_answer),
    ("far", "How far an attacker must go", how_far_it_is),
    ("weak", "Where the model is weak", where_it_is_weak),
    ("looks", "What an attack looks like", what_an_attack_looks_like),
    ("advice", "What to do about it", what_to_do),
    ("decided", "How it was decided", how_it_was_decided),
)


def html(document: Mapping[str, Any]) -> str:
    """The page of a report's document (see `carvegbm.reports.document`)."""
    model, version = document["model"], on_one_line(document["carvegbm"])
    made = when(document["times"].get("date"))
    sections = "\n".join(
        f'<section aria-labelledby="{name}"><h2 id="{name}">{said(title)}</h2>\n'
        f"{contents(document)}</section>"
        for name, title, contents in _SECTIONS
    )
    links = "".join(f'<li><a href="#{name}">{said(title)}</a></li>' for name, title, _ in _SECTIONS)
    body = (
        f"{patterns()}<header><h1>{said('How robust is')} {shown_name(model['name'])}?</h1>"
        f'<p class="lead">{_lead(document)}</p><p class="quiet" data-time>'
        f"{said(f'Made {made} with carvegbm {version}.')}</p></header>\n"
        f"{notices(document)}"
        f'<nav aria-label="Contents"><ol>{links}</ol></nav>\n<main>{sections}</main>'
    )
    style = f"{base_style()}{resource(__package__, 'style.css')}{looks()}"
    return page_of(f"How robust is {short(model['name'])}?", style, body)


def _lead(document: Mapping[str, Any]) -> str:
    model, data = document["model"], document["data"]
    kind = {
        "binary": "two classes",
        "multiclass": counted(len(model["classes"]), "class", "classes"),
    }
    trees = said(
        f"An ensemble of {counted(int(model['trees']), 'tree')} that tells "
        f"{kind.get(model['task'], counted(len(model['classes']), 'class', 'classes'))} apart by "
        f"{counted(int(model['features']), 'feature')}, judged on "
    )
    rows = counted(int(data["judged"]), "row")
    if data["judged"] < data["rows"]:
        rows = f"{rows} out of {int(data['rows']):,}"
    question = said(
        " Can an attacker who changes a row a little change what the model says about it? This is "
        "decided by proof, row by row."
    )
    return f"{trees}{said(rows + ' of')} {shown_name(data['name'])}.{question}"
