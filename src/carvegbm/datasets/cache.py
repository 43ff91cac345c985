"""The folder in which downloads are kept, and their checksums.

A file is used only if it has the published SHA-256 or, where none is published, the one that was
recorded beside it when it came: `name.sha256`, as the program sha256sum writes it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from carvegbm.errors import CarveError, DataError
from carvegbm.storage.files import replacing
from carvegbm.storage.identity import sha256_of

__all__ = ["cache_folder", "check_digest", "digest_of_file", "keeping", "record_digest"]


def cache_folder() -> Path:
    """CARVEGBM_CACHE, or the folder for it in the user's cache; created if it is not there."""
    folder = _named_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot create the cache {folder}: {error.strerror}; set CARVEGBM_CACHE to a folder"
            " you can write to"
        ) from None
    return folder


def _named_folder() -> Path:
    named = os.environ.get("CARVEGBM_CACHE")
    if named:
        return Path(named).expanduser()
    home = Path("~").expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(base) / "carvegbm"


@contextmanager
def keeping(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path`, a file of the cache, when the block ends well."""
    try:
        with replacing(path) as temporary:
            yield temporary
    except DataError:
        raise
    except CarveError as error:
        raise DataError(f"{error}; set CARVEGBM_CACHE to a folder you can write to") from None


def digest_of_file(path: Path) -> str:
    """SHA-256 of the content, in hexadecimal digits."""
    with path.open("rb") as file:
        return sha256_of(iter(lambda: file.read(1 << 20), b""))


def record_digest(path: Path, digest: str) -> None:
    """Write down the checksum that the file at `path` has, or will have in a moment."""
    with keeping(_record(path)) as temporary:
        temporary.write_text(f"{digest}  {path.name}\n", encoding="ascii")


def check_digest(path: Path, published: str | None) -> None:
    """Refuse, and remove, a file that is not what was downloaded."""
    try:
        expected = published or _recorded(path)
        actual = digest_of_file(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; delete it") from None
    if expected is None:
        record_digest(path, actual)
    elif actual != expected:
        path.unlink(missing_ok=True)
        raise DataError(
            f"{path}: has the SHA-256 {actual}, {expected} is expected; it was removed,"
            " try again to download it anew"
        )


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded(path: Path) -> str | None:
    try:
        return _record(path).read_text(encoding="ascii").split()[0]
    except (FileNotFoundError, IndexError, UnicodeDecodeError):
        return None
