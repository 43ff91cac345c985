"""The answer in a sentence, right also where there is nothing, one, or all of something.

Comes in: what was asked, and what is counted of the answer. Goes out: sentences, as HTML.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from carvegbm.reports.page.attackers import does
from carvegbm.reports.page.numbers import counted, exactly, number
from carvegbm.reports.page.scales import SMALLEST_BUDGET
from carvegbm.reports.page.subjects import Asked, Distance
from carvegbm.reports.page.text import said
from carvegbm.storage.text import percent, percent_interval

__all__ = ["answer", "budgets_below", "hedge", "how_far", "is_sample", "lower_bound"]

_ROUNDING = 1e-9  # of a number: what nobody means


def is_sample(asked: Asked | Distance) -> bool:
    """Whether not all rows were judged."""
    data = asked.whole["data"]
    return bool(data["judged"] < data["rows"])


def hedge(asked: Asked | Distance) -> str:
    """The rows that are spoken of."""
    return f"{asked.rows:,} judged rows" if is_sample(asked) else f"{asked.rows:,} rows"


def answer(asked: Asked) -> str:
    """How many rows are right, and how many of them stay right whatever the attacker does."""
    own = asked.whole["data"]["labels"] == "own"
    if asked.rows == 1:
        return said(_one_row(asked, own))
    if own:
        return said(_own_answers(asked))
    if asked.right == 0:
        return said(
            f"Of {hedge(asked)}, the model is right on none: there is nothing that an attacker who "
            f"{does(asked.attacker)} would have to turn wrong."
        )
    if asked.right == asked.rows:
        first = f"The model is right on all {hedge(asked)}".replace("all 2 ", "both ")
    else:
        first = f"Of {hedge(asked)}, the model is right on {asked.right:,} "
        first += f"({percent(asked.right, asked.rows)})"
    return said(f"{first}; {_stay(asked)}")


def _whatever(asked: Asked) -> str:
    return f"whatever an attacker does who {does(asked.attacker)}"


def _proved(asked: Asked) -> str:
    return "proved, row by row" if is_sample(asked) else "proved, not sampled"


def _not_decided(count: int) -> str:
    return f"{count:,} {'is' if count == 1 else 'are'} not decided"


def _stay(asked: Asked) -> str:
    """How many of the right rows, of which there are some, stay right."""
    robust, unknown, right = asked.counts["robust"], asked.open, asked.right
    if unknown == right:
        which = "whether it stays" if right == 1 else "how many of them stay"
        return f"{which} right {_whatever(asked)} is not decided."
    if unknown:
        low, high = robust / asked.rows, (robust + unknown) / asked.rows
        ending = f"{counted(robust, 'row')} {'is' if robust == 1 else 'are'} proved to"
        if robust == 0:
            ending = "none is proved to"
        return (
            f"{robust:,} to {robust + unknown:,} of them ({percent_interval(low, high)} of all) "
            f"stay right {_whatever(asked)}: {ending}, and {_not_decided(unknown)}."
        )
    if robust == right:
        all_ = "this one stays" if right == 1 else "all of them stay"
        return f"{all_} right {_whatever(asked)}: {_proved(asked)}."
    if robust == 0:
        if right == 1:
            return f"an attacker who {does(asked.attacker)} can turn it wrong: there is a witness."
        return (
            f"not one of them stays right against an attacker who {does(asked.attacker)}: for each "
            "there is a witness that turns it wrong."
        )
    return (
        f"{robust:,} of them ({percent(robust, asked.rows)} of all) "
        f"{'stays' if robust == 1 else 'stay'} right {_whatever(asked)}: {_proved(asked)}."
    )


def _own_answers(asked: Asked) -> str:
    robust, unknown, rows = asked.counts["robust"], asked.open, asked.rows
    keep = f"the model's answer {_whatever(asked)}"
    if unknown == rows:
        return f"How many of {hedge(asked)} keep {keep} is not decided."
    if unknown:
        share = percent_interval(robust / rows, (robust + unknown) / rows)
        return (
            f"Of {hedge(asked)}, {robust:,} to {robust + unknown:,} ({share}) keep {keep}: "
            f"{_not_decided(unknown)}."
        )
    if robust == rows:
        return f"All {hedge(asked)} keep {keep}: {_proved(asked)}."
    if robust == 0:
        return (
            f"Of {hedge(asked)}, not one keeps {keep}: for each there is a witness that changes it."
        )
    keeps = "keeps" if robust == 1 else "keep"
    share = percent(robust, rows)
    return f"Of {hedge(asked)}, {robust:,} ({share}) {keeps} {keep}: {_proved(asked)}."


def _one_row(asked: Asked, own: bool) -> str:
    (status,) = asked.document["status"]
    who = "an attacker who " + does(asked.attacker)
    if own:
        return {
            "robust": f"The one row judged keeps the model's answer {_whatever(asked)}: "
            f"{_proved(asked)}.",
            "fragile": f"The one row judged does not keep the model's answer: {who} can change it.",
        }.get(
            status,
            f"Whether the one row judged keeps the model's answer {_whatever(asked)} is not "
            "decided.",
        )
    if not asked.right:
        return (
            f"The model is wrong on the one row judged: there is nothing that {who} would have to "
            "turn wrong."
        )
    return "The model is right on the one row judged" + {
        "robust": f", and it stays right {_whatever(asked)}: {_proved(asked)}.",
        "fragile": f", but {who} can turn it wrong: there is a witness.",
    }.get(status, f"; whether it stays right {_whatever(asked)} is not decided.")


def how_far(distance: Distance) -> str:
    """What radii say of all rows together."""
    document, own = distance.document, distance.whole["data"]["labels"] == "own"
    if distance.right == 0:
        return said("No row is right, so there is no distance to a wrong answer.")
    never, undecided = distance.never, distance.undecided
    known = distance.right - never - undecided
    flips = "changes the answer of a row" if own else "turns a right row wrong"
    sentences = []
    if known and distance.norm == 0:
        sentences.append(
            _fewest(document, flips, _each(known, undecided), _known(known, undecided))
        )
    elif known and document["smallest"] == document["largest"]:
        size, rows = _size(document, "median"), _each(known, undecided)
        sentences.append(f"The smallest change that {flips} has size {size}{rows}.")
    elif known:
        sentences.append(
            f"The smallest change that {flips} has size {_size(document, 'smallest')} for the row "
            f"that flips first, {_size(document, 'median')} for the one in the middle, and "
            f"{_size(document, 'largest')} for the last; {_known(known, undecided)}."
        )
    if never:
        rows = "row" if own else "right row"
        flipped = f"No change that such an attacker can make flips any {rows}."
        if never < distance.right:
            some = f"{never:,} of the {distance.right:,} {rows}s {'is' if never == 1 else 'are'}"
            flipped = f"{some} flipped by no change that such an attacker can make."
        sentences.append(flipped)
    if undecided:
        which = _which(undecided, distance.right, own)
        sentences.append(
            f"For {which[0].lower()}{which[1:]} the exact size was not found in time; the shaded "
            "band shows what this leaves open."
        )
    return said(" ".join(sentences))


def _known(known: int, undecided: int) -> str:
    """Which rows are spoken of: of others, one may flip before the first."""
    if undecided:
        return f"this speaks of the {known:,} rows for which it is known exactly"
    return f"this is known exactly for {counted(known, 'row')}"


def _each(known: int, undecided: int) -> str:
    """The same, where all are alike."""
    if undecided:
        which = "the one row" if known == 1 else f"each of the {known:,} rows"
        return f" for {which} for which it is known exactly"
    return "" if known == 1 else f" for each of {known:,} rows"


def _fewest(document: Mapping[str, Any], flips: str, each: str, known: str) -> str:
    """The same, of counts of features."""
    first, middle, last = (
        _features(document[which]) for which in ("smallest", "median", "largest")
    )
    if first == last:
        return f"The smallest change that {flips} is one of {first}{each}."
    return (
        f"To find a change that {flips}, {first} must change for the row that flips first, "
        f"{middle} for the one in the middle, and {last} for the last; {known}."
    )


def _features(count: float) -> str:
    """So many features; the median of two counts may lie between them."""
    return f"{number(count)} {'feature' if count == 1 else 'features'}"


def _size(document: Mapping[str, Any], which: str) -> str:
    return number(float(document[which]))


def _which(count: int, right: int, own: bool) -> str:
    """So many of the right rows; begins a sentence."""
    rows = "rows" if own else "right rows"
    if count == right:
        return f"All {count:,} {rows}" if count > 1 else f"The one {rows[:-1]}"
    return f"{count:,} of the {right:,} {rows}"


def budgets_below(entry: Mapping[str, Any], norm: Any) -> str:
    """The budgets at which so many rows stay robust: an entry of `stays`."""
    lower, upper = entry["lower"], entry["upper"]
    if lower is None:
        return said("every budget")
    if norm == 0:
        kept = int(lower) - 1
        sure = f"up to {counted(kept, 'changed feature')}"
        if upper == lower:
            return said(sure if kept > 0 else "no budget: one changed feature is too many")
        end = "" if upper is None else f", and not at {number(upper)} or more"
        return said(f"{sure if kept > 0 else 'budget 0'}; what lies above is not decided{end}")
    is_budget = lower >= SMALLEST_BUDGET
    if upper == lower:
        return (
            f"every budget below {lower_bound(lower)}" if is_budget else said("no budget above 0")
        )
    end = "" if upper is None else f", and not from {exactly(upper, number(upper, 6, 'up'))} on"
    sure = f"every budget below {lower_bound(lower)}" if is_budget else said("budget 0")
    return f"{sure}; above, this is not decided{end}"


def lower_bound(bound: float) -> str:
    """A bound that holds: rounded down, unless what is next to it is what people would call it.

    A radius is often a rounding less than the number it stands for: 0.47 - 0.45 is not 0.02.
    """
    near = number(bound, 6)
    named = float(near.replace(",", "").replace("−", "-"))
    if bound < named <= bound * (1 + _ROUNDING):
        return exactly(bound, f"{near} (up to a rounding)")
    return exactly(bound, number(bound, 6, "down"))
