"""Universal Binary JSON, as far as XGBoost writes it.

Comes in: bytes. Goes out: dicts, lists, numbers and strings, with numpy arrays for typed arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from carvegbm.errors import ModelError

__all__ = ["decode", "is_ubjson"]

_NUMBERS = {"i": ">i1", "U": ">u1", "I": ">i2", "l": ">i4", "L": ">i8", "d": ">f4", "D": ">f8"}
_CONSTANTS = {"T": True, "F": False, "Z": None}
_DEEPEST = 200


def is_ubjson(data: bytes) -> bool:
    """Whether the bytes begin an object: a brace, then the type of the first key's length."""
    return len(data) > 2 and data[:1] == b"{" and data[1:2] in b"iUIlL$#"


def decode(data: bytes) -> Any:
    """Decode one value; a `ModelError` says at which byte the text stops making sense."""
    return _Decoder(data).value(0)


class _Decoder:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.at:
            raise ModelError(f"UBJSON ends at byte {len(self.data)}; the file is truncated")
        self.at += size
        return self.data[self.at - size : self.at]

    def marker(self) -> str:
        kind = "N"  # a byte without a meaning
        while kind == "N":
            kind = chr(self.take(1)[0])
        return kind

    def number(self, kind: str) -> Any:
        return np.frombuffer(self.take(np.dtype(_NUMBERS[kind]).itemsize), _NUMBERS[kind])[0].item()

    def length(self) -> int:
        kind = self.marker()
        if kind not in "iUIlL":
            raise self.error(f"a length cannot be of type {kind!r}")
        return int(self.number(kind))

    def text(self) -> str:
        try:
            return self.take(self.length()).decode("utf-8")
        except UnicodeDecodeError:
            raise self.error("a text is not UTF-8") from None

    def value(self, depth: int, kind: str | None = None) -> Any:
        kind = kind or self.marker()
        if depth > _DEEPEST:
            raise self.error(f"nested deeper than {_DEEPEST}")
        if kind in _NUMBERS:
            return self.number(kind)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if kind == "C":
            return self.take(1).decode("latin-1")
        if kind in "SH":
            return self.text()
        if kind == "[":
            return self.array(depth)
        if kind == "{":
            return self.object(depth)
        raise self.error(f"unknown type {kind!r}")

    def container(self) -> tuple[str | None, int | None]:
        """The element type and the count that may follow an opening bracket."""
        kind = count = None
        if self.peek() == "$":
            self.take(1)
            kind = chr(self.take(1)[0])
        if self.peek() == "#":
            self.take(1)
            count = self.length()
        elif kind is not None:
            raise self.error("a typed container needs a count")
        if kind in _CONSTANTS:  # its elements take no bytes, so a count would be all there is of it
            raise self.error(f"a container of the type {kind!r}")
        if count is not None and not 0 <= count <= len(self.data) - self.at:
            raise self.error(f"{count} elements do not fit into the file")
        return kind, count

    def array(self, depth: int) -> Any:
        kind, count = self.container()
        if kind in _NUMBERS and count is not None:
            dtype = np.dtype(_NUMBERS[kind])
            return np.frombuffer(self.take(count * dtype.itemsize), dtype)
        if count is not None:
            return [self.value(depth + 1, kind) for _ in range(count)]
        found = []
        while (element := self.marker()) != "]":
            found.append(self.value(depth + 1, element))
        return found

    def object(self, depth: int) -> dict[str, Any]:
        kind, count = self.container()
        found: dict[str, Any] = {}
        while count is None or len(found) < count:
            if count is None and self.peek() == "}":
                self.take(1)
                break
            key = self.text()
            if key in found:
                raise self.error(f"{key[:40]!r} occurs twice")
            found[key] = self.value(depth + 1, kind)
        return found

    def peek(self) -> str:
        return chr(self.data[self.at]) if self.at < len(self.data) else ""

    def error(self, what: str) -> ModelError:
        return ModelError(f"UBJSON, byte {self.at}: {what}; the file is damaged")
