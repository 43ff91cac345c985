"""Section 3, where it is weak: features that witnesses change, crowded thresholds, first rows.

Comes in: the document. Goes out: HTML.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from carvegbm.reports.page.attackers import asked_title, distance_title
from carvegbm.reports.page.changes import arrow, by_size
from carvegbm.reports.page.figures import feature_bars
from carvegbm.reports.page.numbers import counted, exactly, number
from carvegbm.reports.page.subjects import Asked, Distance
from carvegbm.reports.page.tables import Table, folded, opened
from carvegbm.reports.page.text import said, short, shown_name
from carvegbm.storage.text import percent

__all__ = ["TRAP", "where_it_is_weak"]

TRAP = "trap"
"""Where it is told."""
_FEATURES = 15


def where_it_is_weak(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    distances = [Distance(document, place) for place in range(len(document["distances"]))]
    asked = [Asked(document, place) for place in range(len(document["attackers"]))]
    crowded = [one for one in asked if one.document["crowds"] is not None]
    parts = [_article(distance) for distance in distances]
    if crowded:
        parts.append(_crowds(crowded))
    return "".join(parts)


def _article(distance: Distance) -> str:
    name = f"weak-{distance.place + 1}"
    heading = f'<h3 id="{name}">{said(distance_title(distance))}</h3>'
    witnesses = distance.document["witnesses"]
    if not witnesses:
        return f"<article>{heading}<p>{said(_none(distance))}</p></article>"
    return (
        f"<article>{heading}<p>{_features_in_words(distance)}</p>"
        f'<div class="figures"><div><h4>Features that the nearest witnesses change</h4>'
        f"{_features(distance, name)}</div>"
        f"<div><h4>{_first_heading(distance)}</h4>{_first(distance, name)}</div></div></article>"
    )


def _none(distance: Distance) -> str:
    missed = int(distance.document["missed"])
    if distance.right == 0:
        return "No row is right, so no witness was sought."
    in_time = "before the work was cut short"
    if not distance.whole["interrupted"]:
        in_time = "within the time limit"
    if missed:
        return f"{counted(missed, 'row')} can be flipped, but no witness was found {in_time}."
    if distance.undecided:
        return f"No witness was found {in_time}."
    return "There is no witness: no change that this attacker can make flips a row that is right."


def _features_in_words(distance: Distance) -> str:
    document, weak = distance.document, distance.document["weak"]
    sentences = [said(_how_many(distance))]
    if weak:
        most, share = weak[0], percent(weak[0]["share"])
        alone = f", in {most['alone']:,} of these as the only change" if most["alone"] else ""
        if most["alone"] == most["rows"] > 1:
            alone = ", always as the only change"
        sentences.append(
            f"{shown_name(most['name'])} {said('is changed most often: in')} "
            f"{said(counted(int(most['rows']), 'witness', 'witnesses'))} "
            f"{said(f'({share}){alone}.')}"
        )
    if document["missed"]:
        missed = counted(int(document["missed"]), "row")
        sentences.append(said(f"For {missed} that can be flipped, no witness was found in time."))
    return " ".join(sentences)


def _how_many(distance: Distance) -> str:
    """Which rows can be flipped, and within which budget: features are counted over these."""
    document = distance.document
    budget, count = document["weak_budget"], int(document["weak_witnesses"])
    rows = "row" if distance.whole["data"]["labels"] == "own" else "right row"
    end = math.inf if budget is None else budget
    some = [witness for witness in document["witnesses"] if witness["distance"] <= end]
    nearest = sum(bool(witness["nearest"]) for witness in some)
    have = f"{'has' if count == 1 else 'have'} a witness"
    if nearest == len(some):
        have = "its nearest witness is known" if count == 1 else "their nearest witnesses are known"
    elif count > 1:
        have += f", of which {nearest:,} {'is' if nearest == 1 else 'are'} proved to be the nearest"
    flip = f"{count:,} of the {counted(distance.right, rows)} can be flipped"
    if count == distance.right:
        flip = (
            f"All {count:,} {rows}s can be flipped" if count > 1 else f"The {rows} can be flipped"
        )
    is_sure = not (distance.undecided or document["missed"])
    if budget is not None:
        at_least = "" if is_sure or count == distance.right else "At least "
        return f"{at_least}{flip} within budget {number(budget, 17)}; {have}."
    asked = "the budget" if len(distance.asked) == 1 else "the budgets"
    nothing = f"No {rows} can be flipped within {asked} asked about."
    if any(one.open or one.counts["fragile"] for one in distance.asked):
        nothing = f"No witness within {asked} asked about was found."
    return f"{nothing} With larger budgets, {flip[0].lower()}{flip[1:]}; {have}."


def _features(distance: Distance, name: str) -> str:
    weak = distance.document["weak"]
    shown, more = weak[:_FEATURES], len(weak) - _FEATURES
    if not shown:
        return f"<p>{said('The witnesses change no feature.')}</p>"
    label = "How many witnesses change which feature: " + "; ".join(
        f"{short(one['name'])} {one['rows']}" for one in shown[:5]
    )
    rest = f" {counted(more, 'more feature')} {'is' if more == 1 else 'are'} changed less often."
    budget = distance.document["weak_budget"]
    within = "" if budget is None else f" within budget {number(budget, 17)}"
    caption = f"Witnesses{within} that change a feature; in full colour: as their only change."
    data = Table(
        f"{name}-features",
        said(
            f"Per feature: witnesses{within} that change it, as the only change, upwards and "
            "downwards; the size of its changes." + (rest if more > 0 else "")
        ),
        ["Feature", "witnesses", "share", "alone", "up", "down", "smallest", "median", "largest"],
        [
            [
                shown_name(one["name"]),
                f"{one['rows']:,}",
                said(percent(one["share"])),
                f"{one['alone']:,}",
                *("–" if one[way] is None else f"{one[way]:,}" for way in ("up", "down")),
                *(_size(one[size]) for size in ("smallest", "median", "largest")),
            ]
            for one in shown
        ],
        has_long_names=True,
    )
    return (
        f"<figure>{feature_bars(shown, label)}<figcaption>"
        f"{said(caption + (rest if more > 0 else ''))}</figcaption></figure>{folded(data)}"
    )


def _size(value: float | None) -> str:
    return "–" if value is None else exactly(value, number(value))


def _first_heading(distance: Distance) -> str:
    if distance.undecided or distance.document["missed"]:  # another row may flip before them
        return "The nearest witnesses found"
    return (
        "The row that flips" if len(distance.document["first"]) == 1 else "The rows that flip first"
    )


def _first(distance: Distance, name: str) -> str:
    document, rows = distance.document, distance.whole["rows"]
    lines = []
    for place in document["first"]:
        witness = document["witnesses"][place]
        row = witness["row"]
        changes = by_size(witness["changes"])
        what = arrow(changes[0]) if changes else "–"
        if len(changes) > 1:
            what += said(f" and {len(changes) - 1:,} more")
        at_most = "" if witness["nearest"] else "≤ "
        lines.append(
            [
                f"{rows['number'][row]:,}",
                at_most + _size(witness["distance"]),
                f"{shown_name(rows['answer'][row], 24)} → {shown_name(witness['answer'], 24)}",
                what,
            ]
        )
    caption = said(_first_caption(distance))
    header = ["Row", "size", "answer", "what changes"]
    return opened(Table(f"{name}-first", caption, header, lines, texts=frozenset({2, 3})))


def _first_caption(distance: Distance) -> str:
    document = distance.document
    sizes = [document["witnesses"][place]["distance"] for place in document["first"]]
    text = "Rows of the data, numbered from 0, with the smallest change that flips them"
    alike = sum(witness["distance"] == sizes[-1] for witness in document["witnesses"])
    more = alike - sizes.count(sizes[-1])
    if more and sizes[0] == sizes[-1]:
        text += f": {len(sizes):,} of {alike:,} rows that share the smallest size"
    elif more:
        text += (
            f"; {counted(more, 'more row')} {'has' if more == 1 else 'have'} the size of the last"
        )
    return f"{text}."


def _crowds(crowded: list[Asked]) -> str:
    intro = said(
        "A tree asks whether a feature lies at or below a threshold. Where many rows lie next to "
        "one threshold, a small change takes all of them across. That alone need not flip a row, "
        "but it is where attacks begin."
    )
    zeros = (one.document["crowds"]["zeros"] for one in crowded)
    traps = list(dict.fromkeys(_zeros(one) for one in zeros if one is not None))  # each said once
    trap = f'<div id="{TRAP}">{"".join(traps)}</div>' if traps else ""
    return (
        '<article><h3 id="crowds">Thresholds that crowds of rows lie next to</h3>'
        f"<p>{intro}</p>{trap}"
        f"{''.join(map(_crowd, crowded))}</article>"
    )


def _crowd(asked: Asked) -> str:
    crowds = asked.document["crowds"]
    near = crowds["near"]
    heading = ""
    if len(asked.whole["attackers"]) > 1:
        heading = f"<h4>{said(asked_title(asked))}</h4>"
    looked = counted(int(crowds["thresholds"]), "threshold")
    if not crowds["thresholds"]:
        text = (
            "No threshold was looked at: features that this attacker cannot change, categories and "
            "one-hot groups are left out."
        )
        return f"{heading}<p>{said(text)}</p>"
    if not near:
        text = f"Of {looked}, this attacker can take no row across any."
        return f"{heading}<p>{said(text)}</p>"
    first = near[0]
    trees, rows = counted(int(first["trees"]), "tree"), counted(int(first["rows"]), "row")
    share = percent(first["share"])
    text = (
        f"{said(f'Of {looked}, the most crowded is')} {shown_name(first['name'])} ≤ "
        f"{_size(first['threshold'])}"
        f"{said(f', used by {trees}: this attacker can take {rows} ({share}) across.')}"
    )
    data = Table(
        f"crowds-{asked.place + 1}",
        said("The most crowded thresholds: rows that this budget lets cross, on either side."),
        ["Feature", "threshold", "trees", "rows", "share"],
        [
            [
                shown_name(one["name"]),
                _size(one["threshold"]),
                f"{one['trees']:,}",
                f"{one['rows']:,}",
                said(percent(one["share"])),
            ]
            for one in near
        ],
        has_long_names=True,
    )
    return f"{heading}<p>{text}</p>{folded(data)}"


def _zeros(zeros: Mapping[str, Any]) -> str:
    thresholds, features, rows = (int(zeros[key]) for key in ("thresholds", "features", "rows"))
    lie = "lies" if thresholds == 1 else "lie"
    have = "has" if rows == 1 else "have"
    text = (
        "LightGBM tells zero from the smallest positive number: "
        f"{counted(thresholds, 'threshold')} of {counted(features, 'feature')} {lie} 1e−35 "
        f"beside zero, and {counted(rows, 'row')} {have} exactly 0 there. Any budget, however "
        "small, takes them across: to such a model, 0 and “next to nothing” are as different as "
        "the trees make them."
    )
    return f'<p class="notice"><b>The trap beside zero.</b> {said(text)}</p>'
