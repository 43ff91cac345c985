"""Section 1, the answer first: a sentence and a bar per attacker, classes, and what to mind.

Comes in: the document. Goes out: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carvegbm.reports.page.attackers import asked_title, limits, options
from carvegbm.reports.page.concluding import alike, conclusion, in_units, weakest
from carvegbm.reports.page.figures import legend, status_bar
from carvegbm.reports.page.numbers import counted, number, round_percent
from carvegbm.reports.page.subjects import Asked
from carvegbm.reports.page.tables import Table, folded, opened
from carvegbm.reports.page.text import said, shown_name
from carvegbm.reports.page.words import answer, is_sample
from carvegbm.statuses import STATUSES
from carvegbm.storage.text import percent, percent_interval
from carvegbm.trees.iterations import Iterations

__all__ = ["notices", "the_answer"]

_FEW_CLASSES = 12


def notices(document: Mapping[str, Any]) -> str:
    """What a reader must know before any number."""
    data, found = document["data"], []
    if iterations := document["model"].get("iterations"):
        note = f"The model {Iterations(**iterations).note}."
        found.append(f"<b>Iterations.</b> {said(note)}")
    if document["interrupted"]:
        found.append(
            "<b>The work was cut short.</b> "
            + said("Rows that were not looked at count as unknown; the intervals allow for them.")
        )
    if data["judged"] < data["rows"]:
        found.append(_sample(document))
    if data["labels"] == "own":
        found.append(
            "<b>No labels were given.</b> "
            + said(
                "The model's own answers count as right: this report says whether an attacker can "
                "change them, and nothing about how often they are true."
            )
        )
    if data["missing"]:
        cells = counted(data["missing"], "cell")
        is_ = "is a missing value" if data["missing"] == 1 else "are missing values"
        found.append(said(f"In the judged rows, {cells} {is_}: no attacker here can touch those."))
    return "".join(f'<p class="notice">{notice}</p>' for notice in found)


def _sample(document: Mapping[str, Any]) -> str:
    data = document["data"]
    seed = "" if data["seed"] is None else f" (seed {data['seed']})"
    confidence = max(
        (one["population"]["confidence"] for one in document["attackers"] if one["population"]),
        default=0.95,
    )
    missed = number(100 - 100 * confidence)
    text = (
        f"{data['judged']:,} of {data['rows']:,} rows, drawn at random{seed}. Each of their "
        "verdicts is a proof; what is said of all rows is an estimate and has an interval "
        f"(Clopper and Pearson's, which misses the true share for at most {missed} % of all "
        "samples that could have been drawn)."
    )
    return f"<b>A sample was judged.</b> {said(text)}"


def the_answer(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    every = [Asked(document, place) for place in range(len(document["attackers"]))]
    statuses = {status for asked in every for status, _ in asked.segments}
    keys = legend(
        sorted(statuses, key=STATUSES.index), with_accuracy=document["data"]["labels"] != "own"
    )
    if len(every) == 1:
        return _article(every[0], 1, keys)
    parts = [f'<p class="conclusion">{conclusion(every)}</p>', _overview(every), alike(every), keys]
    return "".join([*parts, *(_article(asked, len(every)) for asked in every)])


def _overview(every: list[Asked]) -> str:
    own = every[0].whole["data"]["labels"] == "own"
    sampled = is_sample(every[0])
    statuses = ["robust", "fragile", "unknown"]
    header = ["Attacker", *([] if own else ["accuracy"]), "robustness"]
    statuses = [status for status in statuses if any(one.counts[status] for one in every)]
    header += [*statuses, *(["robustness of all rows, 95 %"] if sampled else [])]
    rows = []
    for asked in every:
        cells = [f'<a href="#attacker-{asked.place + 1}">{said(asked_title(asked))}</a>']
        if not own:
            cells.append(said(percent(asked.right, asked.rows)))
        cells.append(said(_robustness(asked)))
        cells += [f"{asked.counts[status]:,}" for status in statuses]
        if sampled:
            cells.append(said(percent_interval(*asked.document["population"]["robustness"])))
        rows.append(cells)
    caption = said(
        "Robustness: the share of "
        + ("rows that keep their answer" if own else "rows that are right and stay right")
        + " whatever the attacker does."
    )
    return opened(Table("overview", caption, header, rows, has_long_names=True))


def _robustness(asked: Asked) -> str:
    robust = asked.counts["robust"]
    if asked.open == 0:
        return percent(robust, asked.rows)
    return percent_interval(robust / asked.rows, (robust + asked.open) / asked.rows)


def _article(asked: Asked, many: int, keys: str = "") -> str:
    name = f"attacker-{asked.place + 1}"
    own = asked.whole["data"]["labels"] == "own"
    told = ", ".join(f"{count:,} {status}" for status, count in _by_status(asked))
    label = f"{asked_title(asked)}: of {counted(asked.rows, 'row')}, {told}"
    if not own:
        label += f"; accuracy {percent(asked.right, asked.rows)}"
    more = [said_of for said_of in (weakest(asked), in_units(asked)) if said_of]
    under = f"<p>{' '.join(more)}</p>" if more else ""
    if many == 1:
        under += alike([asked])
    notes = [f"<p>{_population(asked)}</p>"] if asked.document["population"] else []
    held = limits(asked.attacker)
    given = said(f"This is the attacker with {options(asked.attacker)}.")
    notes.append(f'<p class="caption">{" ".join([given, *held])}</p>')
    is_open = many <= 2 and len(asked.document["classes"]) <= _FEW_CLASSES
    bar = status_bar(asked.segments, None if own else asked.right, label)
    return (
        f'<article><h3 id="{name}">{said(asked_title(asked))}</h3>'
        f'<p class="answer">{answer(asked)}</p>'
        f"{under}{keys}<figure>{bar}</figure>"
        f"{''.join(notes)}{folded(_classes(asked, own), 'By class', is_open=is_open)}</article>"
    )


def _by_status(asked: Asked) -> list[tuple[str, int]]:
    return [(status, asked.counts[status]) for status in STATUSES if asked.counts[status]]


def _population(asked: Asked) -> str:
    population = asked.document["population"]
    accuracy = f"accuracy lies between {_between(population['accuracy'])}, and "
    if asked.whole["data"]["labels"] == "own":
        accuracy = ""
    return said(
        f"For all {asked.whole['data']['rows']:,} rows, {accuracy}robustness lies between "
        f"{_between(population['robustness'])}, with {round_percent(population['confidence'])} "
        "confidence."
    )


def _between(ends: tuple[float, float]) -> str:
    return percent_interval(*ends).replace(" to ", " and ")


def _classes(asked: Asked, own: bool) -> Table:
    document = asked.document
    statuses = [status for status in STATUSES if asked.counts[status]]
    header = ["Class", "rows", *([] if own else ["accuracy"]), "robustness", *statuses]
    everything = {
        "instances": asked.rows,
        "counts": asked.counts,
        "accuracy": asked.right / asked.rows,
        "robustness": document["robustness"],
    }
    rows = [
        [
            name,
            f"{one['instances']:,}",
            *([] if own else [said(percent(one["accuracy"]))]),
            said(percent_interval(*one["robustness"])),
            *(f"{one['counts'][status]:,}" for status in statuses),
        ]
        for name, one in [
            ("all", everything),
            *((shown_name(entry["class"]), entry) for entry in document["classes"]),
        ]
    ]
    by = "the model's answer" if own else "their label"
    caption = said(f"Rows by {by} and by their status.")
    return Table(f"classes-{asked.place + 1}", caption, header, rows)
