"""A first attacker as a TOML file with comments, for a user to edit.

Comes in: what was found in data, the features' names, a norm and a budget. Goes out: the arguments
of an `Attacker` that changes features as the data do, and text that reads as the same attacker.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from carvegbm.attackers.finding import Found
from carvegbm.attackers.plain import key_of, to_plain

__all__ = ["arguments_of", "as_toml"]

_WIDTH = 96


def arguments_of(
    found: Found, names: Sequence[str] | None, norm: float | str, budget: float
) -> dict[str, Any]:
    """The arguments of an attacker that may change every feature, within what was found.

    Features go by name, or by position where they have no names of their own.
    """
    n = found.n_features
    is_numbered = names is None or len(set(names)) < n or list(names) == [str(i) for i in range(n)]
    called: Sequence[int | str] = range(n) if is_numbered or names is None else names
    return {
        "norm": norm,
        "budget": budget,
        "features": list(called),
        "one_hot": [[called[f] for f in group] for group in found.one_hot],
        **{
            option: {called[f]: value for f, value in given.items()}
            for option, given in found.by_feature().items()
        },
    }


def as_toml(arguments: Mapping[str, Any], found: Found, source: str) -> str:
    """The attacker of these arguments, in TOML; `source` is what was looked at."""
    return "\n".join([*_head(arguments, source), *_features(arguments, found), *_tables(arguments)])


def _head(arguments: Mapping[str, Any], source: str) -> Iterator[str]:
    yield f"# An attacker, made from {_in_a_comment(source)}: what holds in all of its rows."
    yield "# Edit it, and use it with --attacker; docs/attackers.md explains every option."
    yield ""
    yield (
        "norm = "
        + _value(arguments["norm"])
        + "  # 0: the number of changed features; 1, 2, … or inf"
    )
    yield "budget = " + _value(arguments["budget"])


def _features(arguments: Mapping[str, Any], found: Found) -> Iterator[str]:
    yield ""
    yield "# The features that the attacker can change: delete the lines of the others."
    yield "features = ["
    lines = [f"    {_value(feature)}," for feature in arguments["features"]]
    width = min(40, max(map(len, lines), default=0))
    members = {feature: len(group) for group in found.one_hot for feature in group}
    for feature, line in enumerate(lines):
        size = members.get(feature)
        words = _in_words(feature, found) if size is None else f"one of {size} columns, one-hot"
        yield f"{line:<{width}}  # {words}"
    yield "]"
    if arguments["one_hot"]:
        yield ""
        yield "# Columns of which exactly one is 1, before and after; moving the 1 is one change."
        yield "one_hot = ["
        for group in arguments["one_hot"]:
            yield from _listed("    ", group, ",")
        yield "]"


def _in_words(feature: int, found: Found) -> str:
    """What was found out about a feature."""
    if feature in found.categories:
        return f"{len(found.categories[feature])} categories"
    if feature not in found.range:
        return "without a value"
    low, high = map(_value, found.range[feature])
    step = found.step.get(feature)
    kind = "" if step is None else "whole numbers, " if step == 1 else f"multiples of {step}, "
    return f"always {low}" if low == high else f"{kind}{low} to {high}"


def _tables(arguments: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield "# Moving by one scale costs 1, and every scale is 1 unless it is given here; a pair is"
    yield "# (down, up), 0 closes a direction. A category or a one-hot group changes for 1 / scale."
    yield "[scale]"
    for feature in [*arguments["bounds"], *arguments["features"]][:1]:
        yield f"# {_key(feature)} = [0, 100]  # may only grow, by 100 for a cost of 1"
    for option, meaning in _MEANINGS.items():
        if arguments[option]:
            yield ""
            yield f"# {meaning}"
            yield f"[{option}]"
        for feature, value in arguments[option].items():
            start = f"{_key(feature)} = "
            if isinstance(value, list | tuple):
                yield from _listed(start, value)
            else:
                yield start + _value(value)
    yield ""


_MEANINGS = {
    "step": "Values are whole multiples of the step, before and after.",
    "bounds": "Values stay within; an instance beyond is refused. -inf and inf are no bounds.",
    "categories": "What a feature that the model takes for categorical may be changed to.",
}


def _listed(start: str, items: Sequence[Any], end: str = "") -> Iterator[str]:
    """A list in one line, or in as many as it takes."""
    parts = [_value(item) for item in items]
    line = f"{start}[{', '.join(parts)}]{end}"
    if len(line) <= _WIDTH:
        yield line
        return
    indent = " " * (len(start) - len(start.lstrip()) + 4)
    yield f"{start}["
    line = indent
    for part in parts:
        if len(line) + len(part) >= _WIDTH and line != indent:
            yield line.rstrip()
            line = indent
        line += f"{part}, "
    yield line.rstrip()
    yield f"{indent[4:]}]{end}"


def _value(value: Any) -> str:
    """A number, a text or a fraction in TOML; whole numbers without a point."""
    plain = to_plain(value) if isinstance(value, Fraction) else value
    if isinstance(plain, str):
        return _quoted(plain)
    if isinstance(plain, float) and math.isfinite(plain) and plain == int(plain):
        return str(int(plain)) if abs(plain) < 1 << 53 else repr(plain)
    return str(plain)


def _key(feature: int | str) -> str:
    key = key_of(feature)
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _quoted(key)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _in_a_comment(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)
