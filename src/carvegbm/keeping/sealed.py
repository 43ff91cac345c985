"""Files of records that grow line by line, and that tell what was written from what was not.

A line is `<seal> <JSON>`. The seal is a digest of the record and of the seal before it, hence of
all lines so far: a line that was changed, removed, doubled, put elsewhere or written by another
process in between does not fit. The last line may lack its end, where a process was killed; such a
rest says nothing.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from carvegbm.keeping.fingerprint import sha256_of

__all__ = ["Sealed", "next_line", "read_sealed"]


@dataclass(frozen=True)
class Sealed:
    """What a file of sealed lines holds."""

    records: list[dict[str, Any]] = field(default_factory=list)
    """Those before the first line that does not fit."""
    seal: str = ""
    """Of the last record."""
    size: int = 0
    """Bytes up to the end of the last record."""
    damaged: int | None = None
    """The first line that does not fit, from 1 on, or None."""


def next_line(seal: str, record: dict[str, Any]) -> tuple[bytes, str]:
    """The line that follows a seal, and its own seal."""
    body = json.dumps(record).encode()
    own = _seal(seal, body)
    return own.encode() + b" " + body + b"\n", own


def read_sealed(data: bytes) -> Sealed:
    """The records in the bytes of a file.

    Examples
    --------
    >>> line, seal = next_line("", {"row": 0})
    >>> read_sealed(line + next_line(seal, {"row": 1})[0][:-5]).records
    [{'row': 0}]
    >>> read_sealed(line + line).damaged
    2
    """
    records: list[dict[str, Any]] = []
    seal, size = "", 0
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
        given, _, body = line.partition(b" ")
        own = _seal(seal, body)
        if given != own.encode():
            return Sealed(records, seal, size, number)
        records.append(json.loads(body))
        seal = own
        size += len(line) + 1
    return Sealed(records, seal, size)


def _seal(before: str, body: bytes) -> str:
    return sha256_of([before.encode(), b" ", body])[:32]
