"""Render a report document as one HTML file that needs no other file, script or network.

Text and tables are in `templates/report.html`. The same document gives the same bytes; elements
with the attribute data-time hold all that differs between two runs on the same inputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from carvegbm import statuses
from carvegbm.model.ensemble import Iterations
from carvegbm.reports import charts, formats
from carvegbm.reports.formats import counted, name, number, quoted, short
from carvegbm.storage.text import on_one_line

__all__ = ["base_style", "html", "page_of"]

Document = Mapping[str, Any]

_CURVE_ROWS = 40
_REASONS = {
    "first": "the nearest witness found",
    "typical": "the witness at the median distance",
    "class": "the nearest witness found of its class",
}


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("carvegbm.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({key: getattr(formats, key) for key in formats.__all__})
    environment.filters["n"] = "{:,}".format
    environment.globals.update(
        percent_interval=formats.percent_interval, curve_rows=_curve_rows, statuses=statuses
    )
    return environment


def base_style() -> Markup:
    """The style sheet of every page: colours, text, tables, print."""
    return Markup(_environment().get_template("base.css").render())


def page_of(title: str, style: Markup, body: Markup) -> str:
    """A page with this style and body."""
    frame = _environment().get_template("frame.html")
    return frame.render(title=on_one_line(title), style=style, body=body)


def html(document: Document) -> str:
    """The page of a document (see `carvegbm.reports.document`)."""
    attackers = [_attacker_view(document, i) for i in range(len(document["attackers"]))]
    distances = [_distance_view(document, i, attackers) for i in range(len(document["distances"]))]
    by_robust = sorted(attackers, key=lambda one: one["counts"]["robust"])
    traps = [one["zero_trap"] for one in attackers]
    iterations = document["model"].get("iterations")
    body = (
        _environment()
        .get_template("report.html")
        .render(
            {
                **document,
                "attackers": attackers,
                "distances": distances,
                "fewest_and_most": (by_robust[0], by_robust[-1]),
                "traps": [one for i, one in enumerate(traps) if one and one not in traps[:i]],
                "note": iterations and Iterations(**iterations).note,
                "facts": _facts(document),
            }
        )
    )
    style = base_style() + Markup(_environment().get_template("report.css").render())
    return page_of(f"How robust is {short(document['model']['name'])}?", style, Markup(body))


def _attacker_view(document: Document, place: int) -> dict[str, Any]:
    """An entry of the document with what only the page needs: titles and a bar."""
    entry = document["attackers"][place]
    limits = formats.limits(entry, document["model"]["features"])
    text = formats.attacker(entry["attacker"])
    units = entry["units"]
    return {
        **entry,
        "number": place + 1,
        "changes": text,
        "title": f"Attacker {place + 1}: {text}" + "; with limits" * bool(limits),
        "limits": limits,
        "mind_units": bool(units and units["very_different"] and entry["budget"]),
        "segments": statuses.in_a_bar(entry["counts"], entry["undecided"]),
        "weakest": [one for one in entry["classes"] if one["weakest"]],
    }


def _distance_view(
    document: Document, place: int, attackers: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """The same of an attacker without its budget, with its charts and the witnesses to show."""
    distance = document["distances"][place]
    limits = formats.limits(distance, document["model"]["features"])
    own = [one for one in attackers if one["distance"] == place]
    numbers = ", ".join(str(one["number"]) for one in own)
    measure = formats.norm_measure(distance["norm"])
    title = f"Norm {distance['norm']}: {measure}" + "; with limits" * bool(limits)
    marks = [(one["budget"], one["robustness"][0]) for one in own]
    label = f"{title}. The data below holds the numbers."
    return {
        **distance,
        "number": place + 1,
        "title": f"{title} (attacker{'s' * (len(own) > 1)} {numbers})",
        "limits": limits,
        "attackers": own,
        "curve_chart": charts.curve(
            distance["radius"], marks, distance["norm"] == 0, f"budget: {measure}", label
        ),
        "radius_chart": charts.histogram(distance["histogram"], f"radius: {measure}", label)
        if distance["histogram"]
        else None,
        "shown": [_witness_view(document, distance, i) for i in range(len(distance["shown"]))],
    }


def _curve_rows(distance: Document) -> Iterator[tuple[Markup, float, float]]:
    """Budgets and robustness up to the next budget; of many steps, some and all attackers'.

    A budget is rounded up to fewer digits, where what is stated of it holds.
    """
    curve, asked = distance["curve"], {one["budget"] for one in distance["attackers"]}
    budgets = [*curve["budgets"], float("inf")]
    stride = -(-len(budgets) // _CURVE_ROWS)
    for i, (low, high) in enumerate(zip(curve["lower"], curve["upper"], strict=True)):
        if i % stride == 0 or i == len(budgets) - 2 or budgets[i] in asked:
            text = formats.number_between(budgets[i], budgets[i + 1])
            shown = formats.exactly(budgets[i], text)
            yield Markup("<b>{}</b>").format(shown) if budgets[i] in asked else shown, low, high


def _witness_view(document: Document, distance: Document, place: int) -> dict[str, Any]:
    entry, rows = distance["shown"][place], document["rows"]
    witness = distance["witnesses"][entry["witness"]]
    row = witness["row"]
    found = {
        **witness,
        "number": rows["number"][row],
        "label": rows["label"][row],
        "answered": rows["answer"][row],
        "why": _REASONS[entry["why"]],
        "lower": distance["radius"]["lower"][row],
        "image": None,
    }
    if distance["images"] is not None:
        found["image"] = _image(distance["images"], place, found)
    return found


def _image(images: Document, place: int, witness: Document) -> Markup:
    low, high = images["low"], images["high"]
    before, after = (images["pictures"][place][side] for side in ("before", "after"))
    changed = [i for i, (x, z) in enumerate(zip(before, after, strict=True)) if x != z]

    def level(value: float) -> float:
        return (value - low) / (high - low) if high > low else 0.0

    title, count = f"Row {witness['number']:,}", counted(len(changed), "changed pixel")
    old, new = witness["answered"], witness["answer"]
    return charts.image_pair(
        [level(x) for x in before],
        {i: level(after[i]) for i in changed},
        (images["height"], images["width"]),
        (
            f"{title}: original, answered {short(old)}",
            f"{title}: changed, answered {short(new)}; {count} outlined",
        ),
        Markup("<b>{}</b> {} → {}, {}").format(title, quoted(old), quoted(new), count),
        {i: after[i] > before[i] for i in changed},
    )


def _facts(document: Document) -> Iterator[tuple[str, Markup]]:
    """Names, sizes, hashes, settings and versions as pairs of a label and a value."""
    for part in ("model", "data", "settings", "versions"):
        for key, value in document[part].items():
            if isinstance(value, int | float):
                yield f"{part}: {key.replace('_', ' ')}", Markup.escape(number(value, 17))
            elif isinstance(value, str):
                yield f"{part}: {key.replace('_', ' ')}", name(value, 200)
