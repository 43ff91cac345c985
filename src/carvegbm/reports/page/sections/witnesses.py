"""Section 4, what an attack looks like: chosen witnesses in words, in a table, and as images.

Comes in: the document. Goes out: HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carvegbm.reports.page import pictures
from carvegbm.reports.page.attackers import distance_title
from carvegbm.reports.page.changes import before_and_after, by_size, change_size, in_words
from carvegbm.reports.page.numbers import counted, exactly, number
from carvegbm.reports.page.subjects import Distance
from carvegbm.reports.page.tables import Table, folded, opened
from carvegbm.reports.page.text import quoted, said, short, shown_name

__all__ = ["what_an_attack_looks_like"]

_CHANGES = 12


def what_an_attack_looks_like(document: Mapping[str, Any]) -> str:
    """The section's contents."""
    distances = [Distance(document, place) for place in range(len(document["distances"]))]
    shown = [distance for distance in distances if distance.document["shown"]]
    if not shown:
        return f"<p>{said('There is no witness to show.')}</p>"
    intro = said(
        "A witness is a changed row that the model answers differently. Each of these does without "
        "any change that it could do without: take back one, and the answer stays."
    )
    return f"<p>{intro}</p>{''.join(map(_article, shown))}"


def _article(distance: Distance) -> str:
    name = f"witnesses-{distance.place + 1}"
    heading = f'<h3 id="{name}">{said(distance_title(distance))}</h3>'
    gallery = _gallery(distance)
    parts = [_witness(distance, place, name) for place in range(len(distance.document["shown"]))]
    return f'<article>{heading}{gallery}<div class="witnesses">{"".join(parts)}</div></article>'


def _chosen(distance: Distance, place: int) -> Mapping[str, Any]:
    number_ = distance.document["shown"][place]["witness"]
    return distance.document["witnesses"][number_]  # type: ignore[no-any-return]


def _witness(distance: Distance, place: int, name: str) -> str:
    rows, witness = distance.whole["rows"], _chosen(distance, place)
    row = witness["row"]
    title = f"Row {rows['number'][row]:,}"
    changes = by_size(witness["changes"])
    more = len(changes) - _CHANGES
    table = Table(
        f"{name}-{place + 1}",
        said(_caption(changes, more)),
        ["Feature", "before", "after", "change"],
        [
            [shown_name(change["name"]), *before_and_after(change), change_size(change)]
            for change in changes[:_CHANGES]
        ],
        has_long_names=True,
    )
    long = distance.document["images"] is not None and len(changes) > 3
    shown = folded(table, "The changes") if long else opened(table)
    if len(changes) < 2:  # the sentence says it all
        shown = ""
    notes = [_size(distance, witness)]
    if witness["borderline"]:
        notes.append(
            said(
                "Borderline: it is closer to the decision threshold than the model library's own "
                "rounding, which may answer either way."
            )
        )
    return (
        f'<section class="witness" aria-labelledby="{name}-{place + 1}-title">'
        f'<h4 id="{name}-{place + 1}-title">{said(title)}'
        f'<span class="quiet">{_why(distance, place)}</span></h4>'
        f"<p>{in_words(witness, rows['answer'][row])}</p>"
        f'<p class="caption">{" ".join(notes)}</p>{shown}</section>'
    )


def _why(distance: Distance, place: int) -> str:
    """Why this witness is shown: goes on from the number of its row."""
    why, witness = distance.document["shown"][place]["why"], _chosen(distance, place)
    is_first_unsure = distance.undecided or distance.document["missed"]
    if is_first_unsure and why != "typical":  # another row may flip before it
        return said(", the nearest witness found" + (" of its class" if why == "class" else ""))
    if why == "first":
        every = distance.document["witnesses"]
        alike = sum(other["distance"] == witness["distance"] for other in every)
        return said(
            f", one of {alike:,} rows that flip first"
            if alike > 1
            else ", the row that flips first"
        )
    if why == "typical":
        return said(", at the median distance")
    label = distance.whole["rows"]["label"][witness["row"]]
    return f"{said(', the first of class')} {quoted(label)} {said('to flip')}"


def _caption(changes: Sequence[Any], more: int) -> str:
    if more > 0:
        return f"The largest {_CHANGES} of {len(changes):,} changes, and {more:,} more."
    return f"{counted(len(changes), 'change')}; all other features stay as they are."


def _size(distance: Distance, witness: Mapping[str, Any]) -> str:
    if distance.norm == 0:
        return _fewest(distance, witness)
    size = exactly(witness["distance"], number(witness["distance"], 6))
    if witness["nearest"]:
        return f"{said('Size')} {size}{said(': no smaller change flips this row.')}"
    lower = distance.document["radius"]["lower"][witness["row"]]
    known = ""
    if lower:
        least = exactly(lower, number(lower, 6, "down"))
        known = f" {said('No change below')} {least} {said('does.')}"
    return f"{said('Size')} {size}{said(': a smaller change may flip this row, too.')}{known}"


def _fewest(distance: Distance, witness: Mapping[str, Any]) -> str:
    """The same, where features are counted."""
    count = round(witness["distance"])
    size = counted(count, "changed feature")
    if witness["nearest"]:
        fewer = "the fewest there can be" if count == 1 else "no change of fewer features"
        return said(f"{size}: {fewer}{'' if count == 1 else ' flips this row'}.")
    text = f"{size}: a change of fewer features may flip this row, too."
    if lower := distance.document["radius"]["lower"][witness["row"]]:
        text += f" No change of fewer than {counted(round(lower), 'feature')} does."
    return said(text)


def _gallery(distance: Distance) -> str:
    images = distance.document["images"]
    if images is None or not images["pictures"]:
        return ""
    shape = (int(images["height"]), int(images["width"]))
    low, high = _levels(images)
    pairs = []
    for place, picture in enumerate(images["pictures"]):
        witness = _chosen(distance, place)
        rows, row = distance.whole["rows"], witness["row"]
        answers = rows["answer"][row], witness["answer"]
        before, after = picture["before"], picture["after"]
        changed = [i for i, (x, z) in enumerate(zip(before, after, strict=True)) if x != z]
        title = f"Row {rows['number'][row]:,}"
        count = counted(len(changed), "changed pixel")
        pairs.append(
            pictures.pair(
                [_level(x, low, high) for x in before],
                {i: _level(after[i], low, high) for i in changed},
                shape,
                (
                    f"{title}: original, answered {short(answers[0])}",
                    f"{title}: changed, answered {short(answers[1])}; {count} outlined",
                ),
                f"<b>{said(title)}</b> {quoted(answers[0])} → {quoted(answers[1])}, {said(count)}",
                {i: after[i] > before[i] for i in changed},
            )
        )
    return f'{pictures.LEGEND}<div class="gallery">{"".join(pairs)}</div>'


def _levels(images: Mapping[str, Any]) -> tuple[float, float]:
    """The values that stand for black and white."""
    every = [x for picture in images["pictures"] for side in picture.values() for x in side]
    return float(images.get("low", min(every))), float(images.get("high", max(every)))


def _level(value: float, low: float, high: float) -> float:
    return (value - low) / (high - low) if high > low else 0.0
