"""What the answer comes to: best and worst attacker, weakest class, what a budget amounts to.

Comes in: what was asked, with its answers. Goes out: sentences, as HTML.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from carvegbm.reports.page.attackers import in_short, listed
from carvegbm.reports.page.numbers import number
from carvegbm.reports.page.subjects import Asked
from carvegbm.reports.page.text import quoted, said, shown_name
from carvegbm.reports.page.words import hedge
from carvegbm.storage.text import percent

__all__ = ["alike", "conclusion", "in_units", "weakest"]

_UNLIKE = 10  # times as wide a range
_FEW = 4  # classes in one sentence


def conclusion(every: Sequence[Asked]) -> str:
    """Of several attackers: how many rows are proved to withstand the one, and the other."""
    first, own = every[0], every[0].whole["data"]["labels"] == "own"
    if not first.right:
        return said(f"The model is right on none of {hedge(first)}: no attacker can do worse.")
    ordered = sorted(every, key=lambda asked: -asked.counts["robust"])  # the first of equals
    best, worst = ordered[0], min(ordered, key=lambda asked: asked.counts["robust"])
    keep = "keep the model's answer" if own else "stay right"
    of = f"of {hedge(first)}" if own else "of them"
    start = ""
    if not own:
        share = percent(first.right, first.rows)
        start = f"Without an attack, the model is right on {first.right:,} of {hedge(first)} "
        start += f"({share}). "
    most, fewest = best.counts["robust"], worst.counts["robust"]
    is_ = "is" if most == 1 else "are"
    if most == fewest:
        some = f"{most:,}" if most else "None"
        is_ = "is" if most < 2 else "are"
        each = f"{'each' if most else 'any'} of the {len(every):,} attackers"
        each = "either attacker" if len(every) == 2 else each
        return said(f"{start}{some} {of} {is_} proved to {keep} against {each}.")
    only = f"only {fewest:,}" if fewest else "none"
    most_and_fewest = "" if len(every) == 2 else ": the most and the fewest of all attackers here"
    return said(
        f"{start}{most:,} {of} {is_} proved to {keep} against {_named(best)}, and {only} against "
        f"{_named(worst)}{most_and_fewest}."
    )


def _named(asked: Asked) -> str:
    return f"attacker {asked.place + 1} ({in_short(asked.attacker)})"


def weakest(asked: Asked) -> str:
    """The class whose rows stay right least often; nothing where that is not known, or all do."""
    classes = asked.document["classes"]
    if len(classes) < 2:
        return ""
    shares = [Fraction(one["counts"]["robust"], one["instances"]) for one in classes]
    least = min(shares)
    found = [one for one, share in zip(classes, shares, strict=True) if share == least]
    if len(found) == len(classes) or asked.open:
        return ""
    one, count, robust = found[0], int(found[0]["instances"]), int(found[0]["counts"]["robust"])
    if len(found) > 1:
        names = listed([quoted(one["class"]) for one in found])
        if len(found) > _FEW:
            names = said(f"{len(found):,} of the {len(classes):,} classes")
        each = f", with a robustness of {percent(robust, count)} each."
        return f"{said('Weakest are')} {names}{said(each)}"
    rows = "the one row" if count == 1 else f"{count:,} rows"
    start = f"{said('Weakest is')} {quoted(one['class'])}{said(': ')}"
    share = percent(robust, count)
    if asked.whole["data"]["labels"] == "own":
        kept = f"{robust:,} {'keeps' if robust == 1 else 'keep'} it" if robust else "none keeps it"
        return start + said(f"of {rows} with this answer, {kept} ({share}).")
    right = round(one["accuracy"] * count)
    its = "its one row" if count == 1 else f"its {count:,} rows"
    if not right:
        return start + said(f"of {its}, the model is right on none.")
    stay = (
        f"{robust:,} {'stays' if robust == 1 else 'stay'} right" if robust else "none stays right"
    )
    if robust == right and right > 1:
        stay = "all of these stay right"
    on = "all" if right == count and count > 1 else f"{right:,}"
    return start + said(f"of {its}, the model is right on {on}, and {stay} ({share}).")


def in_units(asked: Asked) -> str:
    """What the budget is beside the ranges of features."""
    units = asked.document.get("units")
    if units is None or not asked.document["budget"]:
        return ""
    alone = "" if asked.document["norm"] == "inf" else ", spent on one feature alone,"
    smallest, largest = units["smallest"], units["largest"]
    low, middle, high = (
        f"{number(100 * share, 2)} %"  # may be far above 100
        for share in (smallest["share"], units["median"], largest["share"])
    )
    start = f"The budget{alone} is {middle} of the range (largest minus smallest value here) of"
    if units["features"] == 1:
        return f"{said(start)} {shown_name(smallest['name'])}."
    if low == high:
        return said(f"{start} each of {units['features']:,} features.")
    return (
        f"{said(f'{start} the feature in the middle; from {low}')} "
        f"({shown_name(smallest['name'])}) {said(f'to {high}')} ({shown_name(largest['name'])})."
    )


def alike(every: Sequence[Asked]) -> str:
    """A note on attackers that treat features of very different ranges alike."""
    found = [asked for asked in every if _is_unlike(asked)]
    if not found:
        return ""
    if len(every) == 1:
        who, it = "This attacker treats", "it"
    elif len(found) == 1:
        who, it = f"Attacker {found[0].place + 1} treats", "it"
    else:
        who = f"Attackers {listed([str(asked.place + 1) for asked in found])} treat"
        it = "them"
    text = (
        f" {who} features of very different ranges alike: give {it} a scale per feature (scale=, "
        "--scale) if that is not meant."
    )
    return f'<p class="notice"><b>Mind the units.</b>{said(text)}</p>'


def _is_unlike(asked: Asked) -> bool:
    units: Any = asked.document.get("units")
    scale = asked.attacker.get("scale")
    if units is None or not asked.document["budget"]:
        return False
    if scale is not None and not isinstance(scale, int | float):  # is meant
        return False
    return bool(units["largest"]["share"] > _UNLIKE * units["smallest"]["share"])
