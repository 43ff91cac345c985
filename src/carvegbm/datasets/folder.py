"""Datasets in a local folder: idx files, LIBSVM text or .npz.

Comes in: an entry of the catalogue and a folder. Goes out: the rows as they are published, or
None if the folder does not hold the dataset. What is there but damaged or incomplete is an error,
never a reason to look elsewhere.
"""

from __future__ import annotations

import bz2
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.data.files import load_table
from carvegbm.data.table import Table
from carvegbm.datasets.catalogue import Entry
from carvegbm.datasets.idx import read_idx
from carvegbm.datasets.preparing import Published
from carvegbm.errors import DataError

__all__ = ["DamagedError", "find", "read_libsvm", "read_table", "remedy"]

_IDX_PARTS = ("train", "t10k")
_ENDINGS = ("", ".gz", ".bz2", ".xz")


class DamagedError(DataError):
    """A compressed file that cannot be unpacked, whatever the machine: get it again."""


def find(entry: Entry, folder: Path) -> Published | None:
    """The rows of the dataset if they lie in `folder`."""
    if entry.kind == "images":
        for place in _image_folders(entry, folder):
            if any(_idx_files(place)):
                return _read_images(entry, place)
    if entry.kind == "libsvm":
        path = _first(folder, ("", "webspam", "tabular"), _with_endings(entry, _ENDINGS))
        return read_libsvm(entry, path, f"local file {path.name}") if path else None
    path = _first(folder, ("", "tabular"), _with_endings(entry, (".npz",)))
    if path is None:
        return None
    return _read_parts(path) if entry.kind == "parts" else _read_npz(path)


def remedy(entry: Entry, folder: Path | None) -> str:
    """What to put where, so that `find` finds it."""
    if entry.kind == "images":
        what = f"the four idx files of {entry.names[0]} into {entry.names[0]}/ of"
    elif entry.kind == "libsvm":
        what = f"{entry.names[0]} (or .gz, .bz2, .xz) into"
    else:
        what = f"{entry.names[0]}.npz into"
    if folder is not None:
        return f"put {what} the folder {folder}"
    return f"put {what} a folder and set CARVEGBM_DATA to that folder"


def read_table(path: Path, **options: Any) -> Table:
    """`load_table` for a file that may be unreadable."""
    try:
        return load_table(path, **options)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _first(folder: Path, places: tuple[str, ...], names: list[str]) -> Path | None:
    candidates = (folder / place / name for place in places for name in names)
    return next((path for path in candidates if path.is_file()), None)


def _with_endings(entry: Entry, endings: tuple[str, ...]) -> list[str]:
    return [name + ending for name in entry.names for ending in endings]


# ── Images ───────────────────────────────────────────────────────────────────────────────────


def _image_folders(entry: Entry, folder: Path) -> list[Path]:
    """Where idx files of this set may lie.

    The files of MNIST and Fashion-MNIST have the same names, so only the name of their folder
    tells which of the two they are.
    """
    itself = [folder] if folder.absolute().name.lower() in entry.names else []
    return [*(folder / name for name in entry.names), *itself]


def _idx_file(place: Path, part: str, what: str) -> Path | None:
    name = f"{part}-{what}-ubyte"
    return next((p for p in (place / f"{name}.gz", place / name) if p.is_file()), None)


def _idx_files(place: Path) -> list[Path | None]:
    """Images and labels of each part, None where a file is not there."""
    kinds = ("images-idx3", "labels-idx1")
    return [_idx_file(place, part, kind) for part in _IDX_PARTS for kind in kinds]


def _read_images(entry: Entry, place: Path) -> Published:
    images, labels = [], []
    for part in _IDX_PARTS:
        paths = {kind: _idx_file(place, part, kind) for kind in ("images-idx3", "labels-idx1")}
        for kind, path in paths.items():
            if path is None:
                raise DataError(
                    f"{entry.name}: {place} lacks {part}-{kind}-ubyte(.gz); all four idx files"
                    " are needed"
                )
        pixels, digits = (
            read_idx(path, dimensions)
            for path, dimensions in zip(paths.values(), (3, 1), strict=True)
            if path is not None
        )
        if pixels.shape[1:] != entry.image_shape:
            raise DataError(
                f"{paths['images-idx3']}: images of {pixels.shape[1]} × {pixels.shape[2]} pixels,"
                f" {entry.name} has {entry.features}"
            )
        if len(pixels) != len(digits):
            raise DataError(
                f"{paths['labels-idx1']}: {len(digits):,} labels for {len(pixels):,} images"
            )
        images.append(pixels.reshape(len(pixels), -1))
        labels.append(digits)
    source = f"local idx files of {entry.names[0]}"
    return Published(np.concatenate(images), np.concatenate(labels), source)


def _read_npz(path: Path) -> Published:
    table = read_table(path)
    return Published(table.X, table.y, f"local file {path.name}")


# ── Tables ───────────────────────────────────────────────────────────────────────────────────


def _read_parts(path: Path) -> Published:
    """A file that brings a training and a test set of its own."""
    train, test = (read_table(path, label=label) for label in ("y_train", "y_test"))
    if train.X.shape[1] != test.X.shape[1]:
        raise DataError(
            f"{path}: X_train has {train.X.shape[1]} columns, X_test has {test.X.shape[1]}"
        )
    return Published(
        np.concatenate([train.X, test.X]),
        np.concatenate([train.y, test.y]),
        f"local file {path.name}",
        train.feature_names,
        len(test.X),
    )


def read_libsvm(entry: Entry, path: Path, source: str) -> Published:
    """The rows of a LIBSVM file, compressed or not, with all the columns of the published set."""
    with _uncompressed(path) as plain:
        try:
            table = read_table(plain, zero_based=False)
        except DataError as error:
            raise DataError(str(error).replace(str(plain), str(path))) from None
    missing = entry.features - table.X.shape[1]
    if missing < 0:
        raise DataError(
            f"{path}: has {table.X.shape[1]} columns, {entry.name} has {entry.features};"
            " the unigram file is needed"
        )
    return Published(
        np.pad(table.X, ((0, 0), (0, missing))) if missing else table.X, table.y, source
    )


@contextmanager
def _uncompressed(path: Path) -> Iterator[Path]:
    """A path whose content `load_table` understands: it sees through gzip only."""
    opener: Any = {".bz2": bz2.open, ".xz": lzma.open}.get(path.suffix)
    if opener is None:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="carvegbm-") as folder:
        plain = Path(folder) / path.stem
        try:
            with opener(path, "rb") as packed, plain.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
        except (lzma.LZMAError, EOFError) as error:
            raise DamagedError(f"{path}: damaged file: {error}; get it again") from None
        except OSError as error:
            if error.errno is None:  # bz2 reports damage so
                raise DamagedError(f"{path}: damaged file: {error}; get it again") from None
            raise DataError(f"{path}: cannot be unpacked: {error.strerror}") from None
        yield plain
