"""Image sets from OpenML through scikit-learn, which compares OpenML's own checksum (MD5).

The two classes are kept in the cache as name.npz, because reading OpenML's text takes a minute.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.datasets.cache import (
    cache_folder,
    check_digest,
    digest_of_file,
    keeping,
    record_digest,
)
from carvegbm.datasets.catalogue import Entry
from carvegbm.datasets.download import TIMEOUT, reason_of
from carvegbm.datasets.folder import read_table
from carvegbm.datasets.preparing import Published
from carvegbm.errors import DataError
from carvegbm.progress import Bar, Progress, is_shown

__all__ = ["fetch"]


def fetch(entry: Entry, advice: str, progress: Progress) -> Published:
    """The rows of the two classes, from the cache or else from OpenML."""
    source = f"https://www.openml.org/d/{entry.openml}"
    kept = cache_folder() / f"{entry.name}.npz"
    if not kept.exists():
        X, y = _from_openml(entry, source, advice, progress)
        try:
            with keeping(kept) as temporary:
                with temporary.open("wb") as file:
                    np.savez_compressed(file, X=X, y=y)
                record_digest(kept, digest_of_file(temporary))
        except OSError as error:
            raise DataError(f"cannot write {kept}: {error.strerror}; make room there") from None
    check_digest(kept, None)
    table = read_table(kept)
    return Published(table.X, table.y, source)


def _from_openml(
    entry: Entry, source: str, advice: str, progress: Progress
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    from sklearn.datasets import fetch_openml

    home = cache_folder() / "scikit-learn"
    try:
        with _quietly(), _spinner(entry, source, progress):
            X, y = fetch_openml(
                data_id=entry.openml,
                data_home=str(home),
                return_X_y=True,
                as_frame=False,
                parser="liac-arff",  # the only one that does without pandas
                n_retries=1,
            )
    except Exception as error:  # network, JSON, ARFF and checksum each fail in their own way
        raise DataError(
            f"{entry.name}: cannot download {source}: {reason_of(error)}; {advice}"
        ) from None
    return _checked(entry, source, advice, home, X, y)


def _checked(
    entry: Entry, source: str, advice: str, home: Path, X: Any, y: Any
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """The two classes as bytes, if what came has the shape and the values of the published set."""
    labels = np.asarray(y).astype(np.float64)
    keep = np.isin(labels, entry.labels)
    pixels = np.asarray(X)[keep]
    shape, there = (entry.others, entry.features), int(keep.sum())
    if X.shape != shape or there != entry.rows:
        raise DataError(
            f"{entry.name}: {source} has the shape {X.shape} and {there:,} rows of the two"
            f" classes, {shape} and {entry.rows:,} are expected; delete {home} and try again,"
            f" or {advice}"
        )
    if not np.array_equal(pixels, pixels.astype(np.uint8)):
        raise DataError(
            f"{entry.name}: {source} has pixels that are not whole numbers from 0 to 255;"
            f" delete {home} and try again, or {advice}"
        )
    return pixels.astype(np.uint8), labels[keep].astype(np.uint8)


@contextmanager
def _quietly() -> Iterator[None]:
    """No warnings, and an end to waiting: scikit-learn opens its connections without a limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        socket.setdefaulttimeout(before)


@contextmanager
def _spinner(entry: Entry, source: str, progress: Progress) -> Iterator[None]:
    """A sign of life on a terminal; scikit-learn does not tell how far it is."""
    if callable(progress) or not is_shown(progress):
        yield
        return
    with Bar(None) as bar:
        bar.update(0, f"{entry.title}: downloading {source}, about a minute")
        yield
