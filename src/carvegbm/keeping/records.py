"""Records: finished things as JSON files, there whole or not at all.

Comes in: plain values. Goes out: a file per record, and the record again; one that is missing or
damaged is None, and computed anew. Processes that share a folder may write the same record twice,
but none reads a half.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carvegbm.errors import CarveError
from carvegbm.keeping.files import replacing
from carvegbm.keeping.fingerprint import digest_of

__all__ = ["make_folder", "read_json", "read_record", "write_json", "write_record", "write_text"]


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write plain values, with a digest of them."""
    write_text(path, json.dumps({**record, "digest": digest_of(record)}) + "\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """What `write_record` wrote, to the last bit, or None."""
    record = read_json(path)
    if record is None or record.pop("digest", None) != digest_of(record):
        return None
    return record


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document for people as well, an entry per line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in document.items()
    )
    write_text(path, "{\n " + ",\n ".join(lines) + "\n}\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The document in a file, or None where there is none or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def write_text(path: Path, text: str) -> None:
    """Write a text, and make the folder it is to be in."""
    make_folder(path.parent)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def make_folder(folder: Path) -> None:
    """Make a folder and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CarveError(f"{folder}: cannot make the folder: {error.strerror}") from None
