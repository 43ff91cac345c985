"""Attackers in words: what they may do, for people who do not know norms.

Comes in: an attacker as plain values (`Attacker.to_dict`). Goes out: phrases, as plain text, and
sentences about its limits, as HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from carvegbm.reports.page.numbers import counted, number
from carvegbm.reports.page.subjects import Asked, Distance
from carvegbm.reports.page.text import said, shown_name

__all__ = [
    "asked_title",
    "distance_title",
    "does",
    "in_short",
    "is_limited",
    "limits",
    "listed",
    "measure",
    "options",
]

_LIMITS = ("scale", "features", "bounds", "step", "categories", "one_hot")
_NAMED = 8  # features in one sentence

Attacker = Mapping[str, Any]


def is_limited(attacker: Attacker) -> bool:
    """Whether there is more to the attacker than norm and budget."""
    return any(attacker.get(option) is not None for option in _LIMITS)


def does(attacker: Attacker) -> str:
    """What the attacker does; goes on from "an attacker who".

    >>> does({"norm": "inf", "budget": 0.02}), does({"norm": 0, "budget": 1.0})
    ('changes each feature by at most 0.02', 'changes one feature to any value')
    >>> does({"norm": 1, "budget": 3.0})
    'changes features by at most 3 in sum'
    """
    limited = any(attacker.get(option) is not None for option in _LIMITS if option != "scale")
    return _changes(attacker) + (" within its limits" if limited else "")


def _changes(attacker: Attacker) -> str:
    norm, budget = attacker["norm"], float(attacker["budget"])
    if budget == 0:
        return "changes nothing"
    text = number(budget, 17)
    if norm == 0:
        if budget == 1:
            return "changes one feature to any value"
        return f"changes at most {text} features to any values"
    units = ", in units of its scale" if attacker.get("scale") is not None else ""
    if norm == "inf":
        return f"changes each feature by at most {text}{units}"
    units = units.replace("its scale", "their scales")
    if norm == 1:
        return f"changes features by at most {text} in sum{units}"
    if norm == 2:
        return f"changes features by at most {text} in Euclidean length{units}"
    return f"changes features by at most {text} in norm {norm}{units}"


def options(attacker: Attacker) -> str:
    """Norm and budget as a user gives them."""
    return f"norm {attacker['norm']}, budget {number(float(attacker['budget']), 17)}"


def asked_title(asked: Asked) -> str:
    """The attacker as a heading; a number tells several apart."""
    attacker = asked.attacker
    text = in_short(attacker)
    limited = "; with limits" if is_limited(attacker) else ""
    first = f"Attacker {asked.place + 1}: " if len(asked.whole["attackers"]) > 1 else ""
    return f"{first}{text if first else text[0].upper() + text[1:]}{limited}"


def in_short(attacker: Attacker) -> str:
    """What it may do, in a few words."""
    if attacker["budget"] == 0:
        return "no change at all"
    text = _changes({**attacker, "scale": None}).removeprefix("changes ")
    kinds = {1: "all changes together", 2: "the Euclidean length of the change"}
    if attacker["norm"] in kinds:
        return f"{kinds[attacker['norm']]} at most {number(float(attacker['budget']), 17)}"
    return text


_MEASURES: dict[Any, str] = {
    "inf": "the largest change of a feature",
    0: "the number of changed features",
    1: "the sum of all changes",
    2: "the Euclidean length of the change",
}


def measure(norm: Any) -> str:
    """What a budget of this norm measures."""
    return _MEASURES.get(norm, f"the length of the change in norm {norm}")


_WAYS: dict[Any, str] = {
    "inf": "each feature by at most the budget",
    0: "a number of features, to any value",
    1: "all changes together at most the budget",
}


def distance_title(distance: Distance) -> str:
    """The distance as a heading."""
    title = f"Norm {distance.norm}: {_WAYS.get(distance.norm, measure(distance.norm))}"
    if is_limited(distance.attacker):
        title += "; with limits"
    if distance.alike:
        places = [str(asked.place + 1) for asked in distance.asked]
        if places:
            title += f" (attacker{'s' if len(places) > 1 else ''} {listed(places)})"
    return title


def limits(attacker: Attacker) -> list[str]:
    """What else holds the attacker back: sentences, as HTML."""
    found = []
    if (features := attacker.get("features")) is not None:
        found.append(_features(features))
    if (bounds := attacker.get("bounds")) is not None:
        found.append(said(_bounds(bounds)))
    if (step := attacker.get("step")) is not None:
        found.append(said(_step(step)))
    if (scale := attacker.get("scale")) is not None:
        found.append(said(_scale(scale)))
    if (categories := attacker.get("categories")) is not None:
        some = counted(len(categories), "categorical feature")
        found.append(said(f"Of {some}, only some categories can be chosen."))
    if (groups := attacker.get("one_hot")) is not None:
        some = counted(len(groups), "group")
        found.append(said(f"In {some} of columns exactly one is 1, before and after."))
    return found


def _features(features: Any) -> str:
    if all(isinstance(entry, bool) for entry in features):
        features = [place for place, entry in enumerate(features) if entry]
    if not features:
        return said("It can change no feature.")
    names = [
        shown_name(f"feature {entry}" if isinstance(entry, int) else entry)
        for entry in features[:_NAMED]
    ]
    more = len(features) - len(names)
    if more:
        names.append(f"{more:,} more")
    only = said(f"It can change {counted(len(features), 'feature')} only: ")
    return f"{only}{listed(names)}."


def _bounds(bounds: Any) -> str:
    if isinstance(bounds, Mapping):
        some = counted(len(bounds), "feature")
        return f"Values of {some} stay within bounds of {_own(len(bounds))}."
    low, high = bounds
    if isinstance(low, Sequence) or isinstance(high, Sequence):
        return "Values stay within bounds of their own."
    if low is None and high is None:
        return "Values have no bounds."
    if low is None:
        return f"Values stay at or below {number(high, 17)}."
    if high is None:
        return f"Values stay at or above {number(low, 17)}."
    return f"Values stay between {number(low, 17)} and {number(high, 17)}."


def _own(count: int) -> str:
    return "its own" if count == 1 else "their own"


def _step(step: Any) -> str:
    if isinstance(step, Mapping):
        return f"Values of {counted(len(step), 'feature')} are whole multiples of a step."
    if isinstance(step, list | tuple):
        return "Values are whole multiples of a step per feature."
    return f"Values are whole multiples of {step}."


def _scale(scale: Any) -> str:
    if isinstance(scale, int | float):
        return f"Distances are measured in units of {number(float(scale), 17)}."
    entries = list(scale.values()) if isinstance(scale, Mapping) else list(scale)
    pairs = [entry for entry in entries if isinstance(entry, list | tuple)]
    some, own = counted(len(entries), "feature"), _own(len(entries))
    text = f"Distances in {some} are measured in units of {own}."
    for end, word in ((0, "grow"), (1, "shrink")):
        closed = sum(pair[end] == 0 and pair[1 - end] != 0 for pair in pairs)
        if closed:
            text += f" {counted(closed, 'feature')} can only {word}."
    return text


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["1", "2", "4"])
    '1, 2 and 4'
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
