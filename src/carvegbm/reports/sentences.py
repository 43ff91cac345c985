"""The sentences of the page that need more than a count: attackers, answers, changes.

Each function states its facts in one form for any counts. Functions that return `Markup` may hold
names from the model or the data; the page escapes the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from markupsafe import Markup

from carvegbm.reports.formats import (
    counted,
    exactly,
    name,
    number,
    number_pair,
    percent,
    percent_interval,
    quoted,
)
from carvegbm.wording.hidden import on_one_line

__all__ = [
    "answer",
    "before_and_after",
    "change_size",
    "conclusion",
    "date",
    "describe_attacker",
    "describe_norm",
    "how_far",
    "is_limited",
    "largest_first",
    "limits",
    "robustness",
    "units",
    "weakest_classes",
    "witness",
]

Document = Mapping[str, Any]

_NORMS: dict[Any, tuple[str, str]] = {
    "inf": ("each feature by at most {}", "the largest change of a feature"),
    0: ("at most {} to any value", "the number of changed features"),
    1: ("features by at most {} in sum", "the sum of all changes"),
    2: ("features by at most {} in Euclidean length", "the Euclidean length of the change"),
}
_LIMITS = ("features", "bounds", "step", "scale", "categories", "one_hot")
_SOME = 4
"""Number of classes in one sentence."""
_MANY = 8
"""Number of features in one sentence."""
_ROUNDING = 1e-9


# ── attackers ────────────────────────────────────────────────────────────────────────────────


def describe_attacker(attacker: Document) -> str:
    """What an attacker may change; continues "an attacker who changes".

    >>> describe_attacker({"norm": "inf", "budget": 0.02}), describe_attacker({"norm": 0, "budget": 1})
    ('each feature by at most 0.02', 'at most 1 feature to any value')
    """
    norm, budget = attacker["norm"], float(attacker["budget"])
    if norm == 0:
        return _NORMS[0][0].format(counted(int(budget), "feature"))
    unknown = f"features by at most {{}} in norm {norm}", ""
    return _NORMS.get(norm, unknown)[0].format(number(budget, 17))


def describe_norm(norm: Any) -> str:
    """What a budget of this norm measures."""
    return _NORMS.get(norm, ("", f"the length of the change in norm {norm}"))[1]


def is_limited(entry: Document, n_features: int) -> bool:
    """Whether the attacker of a document's entry has limits besides norm and budget."""
    return bool(_limits(entry, n_features))


def _limits(entry: Document, n_features: int) -> dict[str, Any]:
    given = {option: entry["attacker"].get(option) for option in _LIMITS}
    if entry["changeable"] == n_features:  # a list of all features is no limit
        given["features"] = None
    return {option: value for option, value in given.items() if value is not None}


def limits(entry: Document, n_features: int) -> list[Markup]:
    """The limits of an attacker, one phrase per option."""
    found = []
    for option, value in _limits(entry, n_features).items():
        if option == "features":
            chosen = [i for i, allowed in enumerate(value) if allowed is True]
            listed = chosen if any(one is True for one in value) else [one for one in value if one is not False]
            shown = [name(f"feature {one}" if isinstance(one, int) else one) for one in listed[:_MANY]]
            names = _joined(shown, len(listed) - len(shown))
            count = f"{entry['changeable']:,} of {counted(n_features, 'feature')}"
            found.append(Markup("can change {}: {}").format(count, names))
        else:
            label = option.replace("_", "-")
            found.append(Markup("{}: {}").format(label, _option_value(option, value)))
    return found


def _option_value(option: str, value: Any) -> str:
    if option == "one_hot":
        return counted(len(value), "group")
    if isinstance(value, Mapping):
        text = f"given for {counted(len(value), 'feature')}"
        if option == "scale":
            pairs = [pair for pair in value.values() if isinstance(pair, list | tuple)]
            up, down = (sum(pair[end] == 0 != pair[1 - end] for pair in pairs) for end in (0, 1))
            text += f", of which {up:,} can only grow and {down:,} can only shrink" * bool(pairs)
        return text
    if option == "bounds":
        low, high = value
        if not isinstance(low, Sequence) and not isinstance(high, Sequence):
            ends = ("−∞" if low is None else low, "∞" if high is None else high)
            return " to ".join(end if isinstance(end, str) else number(end, 17) for end in ends)
    if isinstance(value, list | tuple):
        return "given per feature or row"
    return number(float(value), 17) if isinstance(value, int | float) else on_one_line(value)


def _joined(names: Iterable[Any], more: int = 0) -> Markup:
    """Names with commas, and how many more there are."""
    return Markup(", ").join([*names, *([f"{more:,} more"] if more > 0 else [])])


# ── answers ──────────────────────────────────────────────────────────────────────────────────


def robustness(entry: Document) -> str:
    """The robust rows, from those proved to those possible, with their share."""
    robust, rows = entry["counts"]["robust"], entry["instances"]
    most = robust + entry["undecided"]
    count = f"{robust:,}" if most == robust else f"{robust:,} to {most:,}"
    share = percent(robust, rows) if most == robust else percent_interval(*entry["robustness"])
    return f"{count} of {counted(rows, 'row')} ({share})"


def answer(entry: Document, limited: bool) -> str:
    """How many rows are right, and how many stay right whatever the attacker does."""
    rows, right = entry["instances"], entry["right"]
    within = " within its limits" if limited else ""
    return (
        f"Without an attack, the model is right on {right:,} of {counted(rows, 'row')} "
        f"({percent(right, rows)}). Whatever an attacker does who changes "
        f"{describe_attacker(entry['attacker'])}{within}, it stays right on {robustness(entry)}; "
        f"not decided: {entry['undecided']:,}. Each verdict is proved."
    )


def conclusion(attackers: Sequence[Document]) -> str:
    """The least and the most rows that are proved to stay right against any of the attackers."""
    by_robust = sorted(range(len(attackers)), key=lambda i: attackers[i]["counts"]["robust"])
    ends = []
    for end in (by_robust[0], by_robust[-1]):
        count = counted(attackers[end]["counts"]["robust"], "row")
        ends.append(f"{count} (attacker {end + 1}, {describe_attacker(attackers[end]['attacker'])})")
    first = attackers[0]
    return (
        f"Without an attack, the model is right on {first['right']:,} of "
        f"{counted(first['instances'], 'row')} ({percent(first['right'], first['instances'])}). "
        f"Proved to stay right: at least {ends[0]}, at most {ends[1]}."
    )


def weakest_classes(entry: Document) -> Markup:
    """The classes with the smallest robustness; empty if all are equal or rows are undecided."""
    found = [one for one in entry["classes"] if one["weakest"]]
    if entry["undecided"] or len(found) == len(entry["classes"]):
        return Markup("")
    names = [
        Markup("{} (right on {:,} of {}, stays right on {:,}: {})").format(
            quoted(one["class"]),
            one["right"],
            counted(one["instances"], "row"),
            one["counts"]["robust"],
            percent(one["counts"]["robust"], one["instances"]),
        )
        for one in found[:_SOME]
    ]
    return Markup("Weakest class: {}.").format(_joined(names, len(found) - len(names)))


def units(entry: Document) -> Markup:
    """What the budget is beside the ranges of features."""
    found = entry["units"]
    if found is None or not entry["budget"]:
        return Markup("")
    smallest, largest = found["smallest"], found["largest"]
    low, median, high = (
        f"{number(100 * share, 2)}\u00a0%"
        for share in (smallest["share"], found["median"], largest["share"])
    )
    return Markup(
        "The budget, spent on one feature, is {} of the feature’s range (largest minus smallest "
        "value here) at the median of {}: from {} ({}) to {} ({})."
    ).format(
        median,
        counted(found["features"], "feature"),
        low,
        name(smallest["name"]),
        high,
        name(largest["name"]),
    )


def how_far(distance: Document) -> str:
    """Smallest, median and largest radius, and the rows that have none or an unknown one."""
    text = ""
    if distance["known"]:
        first, median, last = (number(distance[key]) for key in ("smallest", "median", "largest"))
        text = (
            f"The smallest budget that turns a right row wrong (its radius) is {first} for the "
            f"first row, {median} at the median and {last} for the last, over "
            f"{counted(distance['known'], 'row')} with an exactly known radius. "
        )
    return text + (
        f"No budget flips {counted(distance['never'], 'row')}; "
        f"not decided in time: {counted(distance['undecided'], 'row')}."
    )


def budget_below(bound: float | None) -> Markup:
    """A budget below which rows stay robust: rounded down, unless it is a rounding below a number.

    0.47 - 0.45 is a double just below 0.02, and 0.02 is what people call it.
    """
    if bound is None:
        return Markup("∞")
    near = number(bound, 6)
    named = float(near.replace(",", "").replace("−", "-"))
    if bound < named <= bound * (1 + _ROUNDING):
        return exactly(bound, f"{near} (up to a rounding)")
    return exactly(bound, number(bound, 6, "down"))


# ── witnesses ────────────────────────────────────────────────────────────────────────────────


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _size(change: Document) -> float | None:
    """after - before in decimal, so that 0.3 - 0.1 is 0.2; None for categories."""
    before, after = change["before"], change["after"]
    if not (_is_number(before) and _is_number(after)):
        return None
    return float(Decimal(repr(float(after))) - Decimal(repr(float(before))))


def largest_first(changes: Sequence[Document]) -> list[Document]:
    """Changes by size; categories, which have none, come first."""

    def key(change: Document) -> tuple[float, int]:
        size = _size(change)
        return -abs(float("inf") if size is None else size), change["feature"]

    return sorted(changes, key=key)


def before_and_after(change: Document) -> tuple[Markup, Markup]:
    """Both values, never rounded until they look alike or equal to the threshold between them."""
    before, after = change["before"], change["after"]
    if not (_is_number(before) and _is_number(after)):
        missing = Markup('<span class="quiet">missing</span>')
        return tuple(missing if value is None else name(value) for value in (before, after))  # type: ignore[return-value]
    first, second = number_pair(before, after)
    if after > before and float(second.replace(",", "").replace("−", "-")) < after:
        # A value just above a threshold must not look like the threshold.
        second = f"{second}…" if after > 0 else number(after, 17)
    return exactly(before, first), exactly(after, second)


def change_size(change: Document) -> Markup:
    """By how much a number changes, with its sign."""
    size = _size(change)
    if size is None:
        return Markup("–")
    return exactly(size, ("+" if size > 0 else "") + number(size, 5))


def _arrow(change: Document) -> Markup:
    before, after = before_and_after(change)
    return Markup('<span class="change">{} {} → {}</span>').format(
        name(change["name"]), before, after
    )


def changes(witness: Document, most: int) -> Markup:
    """The largest changes of a witness, and how many more there are."""
    ordered = largest_first(witness["changes"])
    return _joined(map(_arrow, ordered[:most]), len(ordered) - most) or Markup("no change")


def witness(found: Document, answer: Any) -> Markup:
    """What a witness changes, and that it turns `answer` into another answer."""
    if str(found["answer"]) == str(answer):
        return Markup(
            "{}: takes the exact score across the threshold, so close to it that the library "
            "itself may still answer {}."
        ).format(changes(found, 3), quoted(answer))
    return Markup("{}: turns {} into {}.").format(
        changes(found, 3), quoted(answer), quoted(found["answer"])
    )


def date(text: str | None) -> str:
    """A date as people write it; as given if it is no ISO date."""
    if not text:
        return "at an unknown time"
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return f"on {on_one_line(text)}"
    zone = " UTC" if at.utcoffset() is not None and not at.utcoffset() else ""
    return f"on {at.day} {at:%B %Y} at {at:%H:%M}{zone}"
