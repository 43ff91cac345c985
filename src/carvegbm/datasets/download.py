"""One published file: downloaded once, checked, and read from the cache from then on.

The file gets its name only when all of it is there and its checksum is right, so an interruption
leaves nothing behind.
"""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from pathlib import Path

from carvegbm.datasets.cache import cache_folder, check_digest, keeping, record_digest
from carvegbm.datasets.catalogue import Entry
from carvegbm.datasets.folder import DamagedError, read_libsvm
from carvegbm.datasets.preparing import Published
from carvegbm.errors import DataError
from carvegbm.progress import Progress, progress_bar

__all__ = ["TIMEOUT", "fetch", "reason_of"]

TIMEOUT = 30  # seconds without a byte before a server counts as down
_BLOCK = 1 << 18


def fetch(entry: Entry, advice: str, progress: Progress) -> Published:
    """The rows of the file that `entry` names, from the cache or else from its address."""
    url = entry.url or ""
    target = cache_folder() / url.rpartition("/")[2]
    if not target.exists():
        _download(entry, url, target, advice, progress)
    check_digest(target, entry.sha256)
    try:
        rows = read_libsvm(entry, target, url)
    except DamagedError as error:
        target.unlink(missing_ok=True)
        raise DataError(f"{error}; it was removed from the cache, or {advice}") from None
    if len(rows.X) != entry.rows:
        raise DataError(
            f"{entry.name}: {target} has {len(rows.X):,} rows, {entry.rows:,} are expected;"
            f" delete it and try again, or {advice}"
        )
    return rows


def _download(entry: Entry, url: str, target: Path, advice: str, progress: Progress) -> None:
    try:
        with keeping(target) as temporary:
            digest = _receive(entry, url, temporary, progress)
            if entry.sha256 not in (None, digest):
                raise DataError(
                    f"{entry.name}: {url} has the SHA-256 {digest}, {entry.sha256} is expected;"
                    f" nothing is kept, try again or {advice}"
                )
            record_digest(target, digest)
    except (OSError, http.client.HTTPException) as error:
        raise DataError(
            f"{entry.name}: cannot download {url}: {reason_of(error)}; {advice}"
        ) from None


def reason_of(error: Exception) -> str:
    """What went wrong, on one line and without the library's own wrapping."""
    inner = error.reason if type(error) is urllib.error.URLError else error
    text = " ".join(str(inner).split())
    plain = isinstance(error, (OSError, ValueError, http.client.HTTPException))
    return text if text and plain else f"{type(error).__name__} {text}".rstrip()


def _receive(entry: Entry, url: str, path: Path, progress: Progress) -> str:
    """Write what is at `url` to `path`; return its SHA-256."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url, timeout=TIMEOUT) as answer, path.open("wb") as file:
        length = answer.headers.get("Content-Length")
        size = int(length) if length and length.isdecimal() else None
        shown = progress if size is not None else False  # no bar without an end
        done = 0
        with progress_bar(shown, size or 0, entry.title) as update:
            while block := answer.read(_BLOCK):
                file.write(block)
                digest.update(block)
                done += len(block)
                if update is not None:
                    update(done)
            if size is not None and done != size:
                raise http.client.HTTPException(f"it ended after {done:,} of {size:,} bytes")
    return digest.hexdigest()
