"""JSON documents in files: there whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from carvegbm import CarveError
from carvegbm.files import replacing

__all__ = ["make_folder", "read_json", "write_json", "write_text"]


def read_json(path: Path) -> dict[str, Any] | None:
    """The document in a file, or None where there is none or it is damaged."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a document, an entry per line."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, allow_nan=False, ensure_ascii=False)}"
        for name, value in document.items()
    )
    write_text(path, "{\n " + ",\n ".join(lines) + "\n}\n")


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
