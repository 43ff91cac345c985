"""Attackers as plain values for JSON and TOML, and files of them.

    from_plain(to_plain(options)) == options, through JSON as well

A key that is a whole number in digits is the position of a feature, any other key its name; a name
that looks like a position, or that stands in quotes itself, is put in double quotes. In lists, text
is a name and a number a position. A step is a whole number or text such as "1/255"; an infinite
bound is None.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.attackers.options import OPTIONS
from carvegbm.errors import CarveError, shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["from_plain", "key_of", "naming_file", "read_document", "to_plain"]

_KEYS = ("norm", "budget", *OPTIONS)
_BY_FEATURE = ("scale", "bounds", "step", "categories")
_POSITION = re.compile(r"-?(0|[1-9][0-9]{0,999})")  # Python converts at most thousands of digits


def to_plain(value: Any) -> Any:
    """Convert an option to what JSON and TOML can hold."""
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
    """Return the arguments of `Attacker`; refuse unknown keys.

    An empty table counts as not given.

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
    found = {key: value for key, value in document.items() if value not in (None, {})}
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
    """Replace None by an infinite bound."""
    if isinstance(given, Mapping):
        return {feature: _bounds(pair) for feature, pair in given.items()}
    if isinstance(given, list | tuple) and len(given) == 2:
        return _infinite(given[0], -math.inf), _infinite(given[1], math.inf)
    return given


def _infinite(given: Any, instead: float) -> Any:
    if isinstance(given, list | tuple):
        return [_infinite(item, instead) for item in given]
    return instead if given is None else given


def key_of(feature: int | str) -> str:
    """Return the key that stands for a feature."""
    if isinstance(feature, int):
        return str(feature)
    return f'"{feature}"' if _feature(feature) != feature else feature


def _feature(key: Any) -> int | str:
    if not isinstance(key, str):
        return key  # type: ignore[no-any-return]  # checked by Attacker
    if len(key) >= 2 and key[0] == key[-1] == '"':
        return key[1:-1]
    return int(key) if _POSITION.fullmatch(key) else key


def read_document(path: str | os.PathLike[str]) -> Any:
    """Read plain values from TOML or JSON, recognised by content."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise CarveError("no such file") from None
    except IsADirectoryError:
        raise CarveError("is a folder, not a file") from None
    except UnicodeDecodeError as error:
        raise CarveError(f"not UTF-8 text: {error.reason}; save it as UTF-8") from None
    except OSError as error:
        raise CarveError(f"cannot be read: {error.strerror or error}") from None
    kind = "JSON" if text.lstrip().startswith("{") else "TOML"  # which never begins with a brace
    try:
        if kind == "JSON":
            return json.loads(text, object_pairs_hook=_once)
        return tomllib.loads(text)
    except RecursionError:
        raise CarveError("not an attacker: too deeply nested") from None
    except ValueError as error:
        raise CarveError(f"not {kind}: {error}") from None


@contextmanager
def naming_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Prefix errors raised in the block with the name of the file."""
    try:
        yield
    except CarveError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object; refuse a key that occurs twice, of which JSON takes the last."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found
