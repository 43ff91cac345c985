"""An attacker as plain values, for JSON and TOML, and back.

    from_plain(to_plain(options)) == options, through JSON as well

A key that is a whole number in digits is the position of a feature, any other key its name; a name
that looks like a position, or that stands in quotes itself, is put in double quotes. In lists, text
is a name and a number a position. A step is a whole number or text such as "1/255"; an infinite
bound is None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from typing import Any

import numpy as np

from carvegbm.errors import CarveError, shown

__all__ = ["OPTIONS", "from_plain", "key_of", "to_plain"]

OPTIONS = ("scale", "features", "bounds", "step", "categories", "one_hot")
"""What an attacker has beside its norm and its budget."""

_KEYS = ("norm", "budget", *OPTIONS)
_BY_FEATURE = ("scale", "bounds", "step", "categories")


def to_plain(value: Any) -> Any:
    """What an option holds, as JSON and TOML can hold it."""
    if isinstance(value, Mapping):
        return {key_of(feature): to_plain(item) for feature, item in value.items()}
    if isinstance(value, np.ndarray):
        return to_plain(value.tolist())
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    return None if isinstance(value, float) and math.isinf(value) else value


def from_plain(document: Any) -> dict[str, Any]:
    """The arguments of `Attacker`, from plain values; unknown keys are refused.

    Examples
    --------
    >>> from_plain({"norm": 1, "budget": 2, "scale": {"0": 3, "age": [0, 1]}, "step": None})
    {'norm': 1, 'budget': 2, 'scale': {0: 3, 'age': [0, 1]}}
    """
    if not isinstance(document, Mapping):
        raise CarveError(
            f"an attacker is a table of norm, budget and limits, got {shown(document)}"
        )
    for key in document:
        if key not in _KEYS:
            raise CarveError(_unknown(str(key)))
    found = {key: value for key, value in document.items() if value is not None}
    for key in _BY_FEATURE:
        if isinstance(found.get(key), Mapping):
            found[key] = _by_feature(key, found[key])
    if "bounds" in found:
        found["bounds"] = _bounds(found["bounds"])
    return found


def _by_feature(key: str, given: Mapping[Any, Any]) -> dict[int | str, Any]:
    for name, value in given.items():
        if isinstance(value, Mapping):
            whole = f"{name}.{next(iter(value), '')}"
            raise CarveError(
                f"{key} of {name} is a table; if the feature is called {whole}, put that in quotes"
            )
    return {_feature(name): value for name, value in given.items()}


def _unknown(key: str) -> str:
    near = get_close_matches(key.lower().replace("-", "_"), _KEYS, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"it may have {', '.join(_KEYS)}"
    return f"unknown key {key!r} of an attacker; {remedy}"


def _bounds(given: Any) -> Any:
    """Bounds in which None stands for no bound."""
    if isinstance(given, Mapping):
        return {feature: _bounds(pair) for feature, pair in given.items()}
    if isinstance(given, list | tuple) and len(given) == 2:
        return _infinite(given[0], -math.inf), _infinite(given[1], math.inf)
    return given


def _infinite(given: Any, instead: float) -> Any:
    if isinstance(given, list | tuple):
        return [_infinite(item, instead) for item in given]
    return instead if given is None else given


_POSITION = re.compile(r"-?(0|[1-9][0-9]{0,999})")  # of thousands of digits, Python makes no number


def key_of(feature: int | str) -> str:
    """The key that stands for a feature."""
    if isinstance(feature, int):
        return str(feature)
    return f'"{feature}"' if _feature(feature) != feature else feature


def _feature(key: Any) -> int | str:
    if not isinstance(key, str):
        return key  # type: ignore[no-any-return]  # judged by Attacker
    if len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1]
    return int(key) if _POSITION.fullmatch(key) else key
