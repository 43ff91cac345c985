"""An attacker in a file: TOML, or JSON, told apart by content.

Comes in: a path. Goes out: the document in it, as `carvegbm.attackers.plain` describes it, or the
arguments of `Attacker` that it gives; one line for whatever is wrong with the file.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from carvegbm.attackers.plain import from_plain
from carvegbm.errors import CarveError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["arguments_in", "naming", "read_document"]


def read_document(path: str | os.PathLike[str]) -> Any:
    """What the file holds, as plain values; see `naming` for its errors."""
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
    kind = "JSON" if text.lstrip().startswith("{") else "TOML"  # which begins with no brace
    try:
        if kind == "JSON":
            return json.loads(text, object_pairs_hook=_once)
        return tomllib.loads(text)
    except RecursionError:
        raise CarveError("not an attacker: its values lie too deep") from None
    except ValueError as error:
        raise CarveError(f"not {kind}: {error}") from None


def arguments_in(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of `Attacker` that the file gives; see `naming` for its errors.

    An empty table, as it may be left when its lines are comments, gives nothing.
    """
    found = from_plain(read_document(path))
    return {key: value for key, value in found.items() if value != {}}


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """An error from the block begins with the file that is to blame."""
    try:
        yield
    except CarveError as error:
        raise type(error)(f"{os.fspath(path)}: {error}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys must differ; JSON itself would take the last of two."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} is there twice")
        found[key] = value
    return found
