"""Random changes of nested dicts and lists, and of bytes."""

from __future__ import annotations

import json
import math
import pickle
import random
import re
import struct
from collections.abc import Iterator
from typing import Any

WHOLE = [-1, -2, 0, 1, 2, 3, 7, 31, 32, 255, 256, 65_536, 1 << 24, (1 << 24) + 1, 10**6, 10**9]
WHOLE += [(1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 32, (1 << 53) + 1, 1 << 63, 10**18, 10**40]
REAL = [0.0, -0.0, 0.5, -1.5, 1e-35, 1.0000000180025095e-35, 5e-324, 1e-45, 3.4028235e38, 1e39]
REAL += [1.7e308, -1.7e308, 1e300, math.inf, -math.inf, math.nan]
ODD = [None, True, False, 0, 1, -1, 0.5, math.nan, "", "x", "1", [], {}, [0], [[1]], {"a": 1}]


def places(document: Any) -> Iterator[tuple[Any, Any]]:
    """Every value in a document, as its container and its key."""
    stack = [document]
    while stack:
        container = stack.pop()
        for key in container if isinstance(container, dict) else range(len(container)):
            yield container, key
            if isinstance(container[key], dict | list):
                stack.append(container[key])


def mutated(document: Any, rng: random.Random) -> Any:
    """Change a document in one to four places."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        container, key = _place(document, rng)
        value = container[key]
        what = rng.random()
        if what < 0.5:
            container[key] = _other(value, container, document, rng)
        elif what < 0.6:
            del container[key]
        elif what < 0.7:
            other, there = _place(document if rng.random() < 0.5 else container, rng)
            container[key], other[there] = _copy(other[there]), _copy(value)
        elif what < 0.8:
            other, there = _place(document, rng)
            container[key] = _copy(other[there])
        elif what < 0.9:
            container[key] = _copy(rng.choice(ODD))
        elif isinstance(container, list):
            container.insert(rng.randrange(len(container) + 1), value)
        else:  # the field once more, see `json_bytes`, or under another name
            container[rng.choice((f"{key}\0", f"{key}x", str(key)[:-1]))] = value
        if not document:
            break
    return document


def _copy(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def _place(document: Any, rng: random.Random) -> tuple[Any, Any]:
    """A value: any with the same probability, or one found by a descent, which favours fields."""
    if rng.random() < 0.4:
        return rng.choice(list(places(document)))
    container = document
    while True:
        key = rng.choice(list(container) if isinstance(container, dict) else range(len(container)))
        value = container[key]
        if not value or not isinstance(value, dict | list) or rng.random() < 0.1:
            return container, key
        container = value


def _other(value: Any, container: Any, document: Any, rng: random.Random) -> Any:
    """A value of the same type, mostly."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        near = [value - 1, value + 1, -value, ~value, 2 * value]
        near += [rng.randrange(-2, len(container) + 2), rng.choice(WHOLE), rng.choice(WHOLE)]
        return rng.choice([*near, rng.choice(REAL)])
    if isinstance(value, float):
        near = [-value, 2 * value, value + 1, math.nextafter(value, math.inf)]
        return rng.choice([*near, rng.choice(REAL), rng.choice(REAL), rng.choice(WHOLE)])
    if isinstance(value, str):
        if re.fullmatch(r"-?\d+", value):
            return str(_other(int(value), container, document, rng))
        at = rng.randrange(len(value) + 1)
        odd = rng.choice(['"', "\n", " ", "=", "\u0001", "é", "\ud800", "\U0001f600", "x" * 300])
        return rng.choice(
            [value[:at], value[at:], value[:at] + odd + value[at:], value * 2, "", odd]
        )
    if isinstance(value, list) and value:
        some = rng.randrange(len(value) + 1)
        shuffled = rng.sample(value, len(value))
        repeated = value * (2 if len(value) > 100 else 100)
        parts = [value[:some], value[some:], value[:1]]
        return rng.choice([*parts, value[::-1], value * 2, [value], shuffled, repeated])
    return _copy(rng.choice(ODD))


def with_changed_bytes(data: bytes, rng: random.Random) -> bytes:
    """Change, remove or repeat a few bytes."""
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(data) + 1)
        end = start + rng.choice((0, 1, 2, 8, 40))
        new = rng.choice((b"", data[start:end] * 2, rng.randbytes(rng.randint(1, 4))))
        data = data[:start] + new + data[end:]
    return data


def with_changed_words(data: bytes, rng: random.Random) -> bytes:
    """Change one or two 32-bit words of a binary file, at any position."""
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(4, len(data) - 4)
        layout = rng.choice(["<i", "<f"])
        (value,) = struct.unpack_from(layout, data, at)
        new = _other(value, data, None, rng)
        try:
            word = struct.pack("<i" if isinstance(new, int) else "<f", new)
        except (OverflowError, struct.error):
            word = rng.randbytes(4)
        data = data[:at] + word + data[at + 4 :]
    return data


def json_bytes(document: Any) -> bytes:
    """Write JSON; a name that ends with a null character is written without it."""
    return json.dumps(document).replace('\\u0000"', '"').encode()


class NotWrittenError(ValueError):
    """A format cannot express a document."""
