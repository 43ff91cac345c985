"""Files of proofs, byte by byte as docs/proofs.md has them."""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from typing import Any, BinaryIO

__all__ = ["ProofFile", "number"]

_MAGIC = b"carvegbm proof 1\n"
_BLOCK = 1 << 18
"""Bytes of records that are compressed together."""
_LARGEST_PACKING = 50
"""Ratio of compression beyond which the checker refuses a block."""


def number(value: int) -> bytes:
    """A whole number >= 0, seven bits at a time.

    Examples
    --------
    >>> number(5).hex(), number(300).hex()
    ('05', 'ac02')
    """
    if value < 0x80:
        return bytes((value,))
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


class ProofFile:
    """A file that is being written.

    Parameters
    ----------
    stream : binary file
    header : dict
        What the proofs are about.
    """

    def __init__(self, stream: BinaryIO, header: dict[str, Any]) -> None:
        self._stream, self._digest = stream, hashlib.sha256()
        self._count, self._records = 0, bytearray()
        text = json.dumps(header, allow_nan=False).encode()
        self._put(_MAGIC + struct.pack("<I", len(text)) + text)

    def add(self, record: bytes) -> None:
        """Append a record."""
        self._records += number(len(record)) + record
        self._count += 1
        if len(self._records) >= _BLOCK:
            self._flush()

    def close(self) -> None:
        """Write the end; without it the file is refused."""
        self._flush()
        self._put(struct.pack("<IQ", 0, self._count))
        self._stream.write(self._digest.digest())

    def _flush(self) -> None:
        if self._records:
            packed = zlib.compress(bytes(self._records), 6)
            if len(packed) * _LARGEST_PACKING < len(self._records):
                packed = zlib.compress(bytes(self._records), 0)
            self._put(struct.pack("<II", len(packed), zlib.crc32(packed)) + packed)
            self._records.clear()

    def _put(self, data: bytes) -> None:
        self._stream.write(data)
        self._digest.update(data)
