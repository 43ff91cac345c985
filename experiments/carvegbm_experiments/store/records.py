"""Finished results as JSON files that are whole or absent.

A file that is missing or damaged reads as None, and is computed again. Processes that share a
folder may write the same file twice; none reads half of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carvegbm.storage.files import make_folder, replacing
from carvegbm.storage.identity import digest_of

__all__ = ["read_json", "read_record", "write_json", "write_record", "write_text"]


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    """Write plain values, with a digest of them."""
    write_text(path, json.dumps({**record, "digest": digest_of(record)}) + "\n")


def read_record(path: Path) -> dict[str, Any] | None:
    """Return what `write_record` wrote, to the last bit, or None."""
    record = read_json(path)
    if record is None or record.pop("digest", None) != digest_of(record):
        return None
    return record


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, an entry per line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in document.items()
    )
    write_text(path, "{\n " + ",\n ".join(lines) + "\n}\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the document in a file, or None if there is none or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def write_text(path: Path, text: str) -> None:
    """Write a text, and create its folder."""
    make_folder(path.parent)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
