"""Instances from a file: CSV, LIBSVM text, NumPy arrays or Parquet, told apart by content.

Comes in: a path. Goes out: a `Table` of features, labels and names. Knows nothing about models;
the text formats live in `text`, arrays in `arrays`, this file decides which format a file is and
reads Parquet.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from carvegbm.errors import DataError
from carvegbm.instances import arrays
from carvegbm.instances import text as _text
from carvegbm.instances.columns import feature_position
from carvegbm.instances.frames import frame_numbers, is_index
from carvegbm.instances.mixed import Mixed
from carvegbm.instances.table import Table

__all__ = ["Categorical", "Table", "files_of", "is_csv", "load_table"]

Categorical = Callable[[Sequence[str] | None], Collection[int]]
"""From the names of a file's features, or None, to the positions of those that are categorical."""

_MANY = 1 << 31
"""Features of a file without names, before they are counted."""
_NPY, _ZIP, _PARQUET = b"\x93NUMPY", b"PK", b"PAR1"
_SAMPLE = 1 << 16
"""Bytes by which a text is known."""


@dataclass(frozen=True)
class _Reading:
    """How to read a file; the options of `load_table`."""

    label: str | int | None
    n_features: int | None
    zero_based: bool | None
    sparse: bool
    categorical: Categorical


def load_table(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    sparse: bool = False,
    categorical: Iterable[str | int] | Categorical = (),
) -> Table:
    r"""Read instances and their labels from a file.

    Parameters
    ----------
    path : path
        CSV (separated by comma, semicolon, tab or spaces; with or without a header), LIBSVM text,
        ``.npz`` (arrays X and y, or X_test and y_test; or a matrix that `scipy.sparse.save_npz`
        wrote, with y beside it or in it), ``.npy`` (the features; the labels lie in a file beside
        it whose name has y for X, in the file `label` names, or the path is ``"X.npy,y.npy"``) or
        Parquet (needs pyarrow). Any of them may be compressed with gzip.
    label : str or int, optional
        The label column, by name or by position (-1 is the last). Default: the column called
        label, target, class or y, whatever its case; where there is none, the last column.
        For ``.npz`` the name of the array, for ``.npy`` the path of the file.
    n_features : int, optional
        Number of columns of LIBSVM data; default: as many as the largest index asks for.
    zero_based : bool, optional
        Whether LIBSVM indices start at 0. Default: they do iff index 0 occurs.
    sparse : bool, default False
        Keep LIBSVM data and sparse matrices as CSR, and do not make them dense.
    categorical : iterable of str or int, optional
        Features of a CSV or Parquet file that hold labels of categories, by name or by position:
        words, or numbers that mean no quantity. X is then a small frame of columns.

    Returns
    -------
    Table

    Raises
    ------
    DataError
        The file is missing, empty or not a table; the message names the place.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("width,height,label\n0.5,1,yes\n,2,no\n")
    >>> table = load_table(path)
    >>> table.X.tolist(), table.y.tolist(), table.feature_names
    ([[0.5, 1.0], [nan, 2.0]], ['yes', 'no'], ('width', 'height'))
    """
    name, pair = _name_and_labels(os.fspath(path))
    if pair is not None:
        if label is not None:
            raise DataError(f"{name},{pair}: the labels are given twice, here and as {label!r}")
        label = pair
    try:
        with open(name, "rb") as file:
            given = () if callable(categorical) else tuple(categorical)
            chosen = categorical if callable(categorical) else _chooser(name, given)
            table = _read(name, file, _Reading(label, n_features, zero_based, sparse, chosen))
    except FileNotFoundError as error:
        raise DataError(f"{error.filename}: no such file") from None
    except IsADirectoryError:
        raise DataError(f"{name}: is a folder, not a file") from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise DataError(f"{name}: damaged file: {error}") from None
    except MemoryError:
        raise DataError(f"{name}: does not fit into memory") from None
    except OSError as error:
        raise DataError(
            f"{error.filename or name}: cannot be read: {error.strerror or error}"
        ) from None
    if table.X.shape[0] == 0:
        raise DataError(f"{name}: has no rows; give at least one instance")
    _check_categorical(name, given, table)
    return table


def files_of(path: str | os.PathLike[str], label: str | int | None = None) -> list[str]:
    """The files that `load_table` reads: the table, and that of the labels if it is another."""
    name, pair = _name_and_labels(os.fspath(path))
    if pair is not None:
        return [name, pair]
    if not Path(name).is_file():
        return [name]
    try:
        with open(name, "rb") as file:
            alone = not arrays.needs_label_file(_unpacked(file), label)
        return [name] if alone else [name, arrays.label_file(name, label)]
    except (OSError, EOFError, zlib.error, DataError):  # `load_table` says what is wrong
        return [name]


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Whether `load_table` takes a file for CSV, or cannot read it at all."""
    try:
        with open(_name_and_labels(os.fspath(path))[0], "rb") as file:
            sample = _unpacked(file).read(_SAMPLE)
    except (OSError, EOFError, zlib.error):
        return True
    return not sample.startswith((_NPY, _ZIP, _PARQUET)) and not _text.is_libsvm(sample)


def _chooser(name: str, given: tuple[str | int, ...]) -> Categorical:
    """The features that a user names, or counts."""

    def chosen(names: Sequence[str] | None) -> Collection[int]:
        n = _MANY if names is None else len(names)
        return _positions(name, given, names, n)

    return chosen


def _check_categorical(name: str, given: tuple[str | int, ...], table: Table) -> None:
    """Refuse features that are not there, and a file that cannot hold categories."""
    _positions(name, given, table.feature_names, table.X.shape[1])
    if given and not isinstance(table.X, Mixed):
        raise DataError(
            f"{name}: its features are numbers, none of them categorical; give CSV or Parquet"
        )


def _positions(
    name: str, given: tuple[str | int, ...], names: Sequence[str] | None, n: int
) -> set[int]:
    try:
        return {feature_position(feature, names, n) for feature in given}
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


def _name_and_labels(given: str) -> tuple[str, str | None]:
    """The two paths of "X.npy,y.npy"; a path that is there is one path, commas or not."""
    if "," not in given or Path(given).exists():
        return given, None
    name, _, pair = given.partition(",")
    return name, pair


def _read(name: str, file: IO[bytes], reading: _Reading) -> Table:
    file = _unpacked(file)
    start = file.read(8)
    file.seek(0)
    if not start:
        raise DataError(f"{name}: empty file")
    if start.startswith(_NPY):
        return arrays.read_npy(name, file, reading.label, _unpacked)
    if start.startswith(_ZIP):
        return arrays.read_npz(name, file, reading.label, _unpacked, reading.sparse)
    if start.startswith(_PARQUET):
        return _parquet(name, file, reading)
    return _text_table(name, file, reading)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The same content without compression."""
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file


def _text_table(name: str, file: IO[bytes], reading: _Reading) -> Table:
    sample = file.read(_SAMPLE)
    file.seek(0)
    if b"\0" in sample:
        raise DataError(f"{name}: not a table; CSV, LIBSVM, .npz, .npy and Parquet are understood")
    if _text.is_libsvm(sample):
        how = reading.n_features, reading.zero_based, reading.sparse
        return Table(*_text.read_libsvm(name, file, *how), absent_is_zero=True)
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
            return Table(*_text.read_csv(name, lines, reading.label, reading.categorical))
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 text: {error.reason}; save it as UTF-8") from None


def _parquet(name: str, file: IO[bytes], reading: _Reading) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f'{name}: reading Parquet needs pyarrow; pip install "carvegbm[parquet]"'
        ) from None
    # Pages carry checksums where the writer was asked for them; before version 13 none are read.
    options = {"page_checksum_verification": True}
    if int(pyarrow.__version__.split(".")[0]) < 13:
        options = {}
    try:
        content = pyarrow.parquet.read_table(file, **options)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{name}: damaged Parquet file: {error}") from None
    places = [place for place, column in enumerate(content.column_names) if not is_index(column)]
    names = [content.column_names[place] for place in places]
    at = _text.label_column(name, names, len(names), reading.label)
    y = content.column(places.pop(at))
    label_name = names.pop(at)
    if y.null_count:
        raise DataError(f"{name}: column {label_name!r}: {y.null_count} labels are missing")
    chosen = [i for i in reading.categorical(names) if i < len(names)]
    numeric = [i for i in range(len(names)) if i not in chosen]
    numbers = frame_numbers(
        content.select([places[i] for i in numeric]), [names[i] for i in numeric], name
    )
    X: Any = numbers
    if chosen:
        column = dict(zip(numeric, numbers.T, strict=True))
        for i in chosen:
            column[i] = np.array([*content.column(places[i]).to_pylist(), None], dtype=object)[:-1]
        X = Mixed(tuple(names), tuple(column[i] for i in range(len(names))))
    return Table(X, np.array(y.to_pylist()), tuple(names), label_name)
