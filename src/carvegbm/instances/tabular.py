"""Instances from a file: CSV, LIBSVM text, NumPy arrays or Parquet, told apart by content.

Comes in: a path. Goes out: a `Table` of features, labels and names. Knows nothing about models;
the formats live in `text`, `libsvm`, `arrays` and `parquet`, this file decides which one a file is.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Literal, cast

from carvegbm.errors import DataError
from carvegbm.instances import arrays
from carvegbm.instances.columns import feature_position
from carvegbm.instances.libsvm import is_libsvm, read_libsvm
from carvegbm.instances.mixed import Mixed
from carvegbm.instances.parquet import read_parquet
from carvegbm.instances.table import Table
from carvegbm.instances.text import Categorical, read_csv

__all__ = [
    "Categorical",
    "Format",
    "Table",
    "Way",
    "as_text",
    "files_of",
    "format_of",
    "is_csv",
    "load_table",
    "opened",
    "unpacked",
]

Format = Literal["csv", "libsvm", "npy", "npz", "parquet"]

_MANY = 1 << 31
"""Features of a file without names, before they are counted."""
_NPY, _ZIP, _PARQUET = b"\x93NUMPY", b"PK", b"PAR1"
_SAMPLE = 1 << 16
"""Bytes by which a text is known."""


def no_columns(_names: Sequence[str] | None) -> Collection[int]:
    """Of a file without categorical features."""
    return ()


@dataclass(frozen=True)
class Way:
    """How to read a file; the options of `load_table`."""

    label: str | int | None = None
    n_features: int | None = None
    zero_based: bool | None = None
    sparse: bool = False
    categorical: Categorical = no_columns

    def to(self, path: str | os.PathLike[str]) -> tuple[str, Way]:
        """The file that `path` names, and how to read that: "X.npy,y.npy" names the labels, too."""
        name, pair = _name_and_labels(os.fspath(path))
        if pair is None:
            return name, self
        if self.label is not None:
            raise DataError(
                f"{name},{pair}: the labels are given twice, here and as {self.label!r}"
            )
        return name, replace(self, label=pair)


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
    given = () if callable(categorical) else tuple(categorical)
    name, way = Way(label, n_features, zero_based, sparse).to(path)
    chosen = categorical if callable(categorical) else _chooser(name, given)
    with opened(name) as file:
        table = _read(name, file, replace(way, categorical=chosen))
    if table.X.shape[0] == 0:
        raise DataError(f"{name}: has no rows; give at least one instance")
    _check_categorical(name, given, table)
    return table


@contextmanager
def opened(name: str) -> Iterator[IO[bytes]]:
    """A file without its compression, for reading; what is wrong with it is a `DataError`."""
    try:
        with open(name, "rb") as file:
            yield unpacked(file)
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


def files_of(path: str | os.PathLike[str], label: str | int | None = None) -> list[str]:
    """The files that `load_table` reads: the table, and that of the labels if it is another."""
    name, pair = _name_and_labels(os.fspath(path))
    if pair is not None:
        return [name, pair]
    if not Path(name).is_file():
        return [name]
    try:
        with open(name, "rb") as file:
            alone = not arrays.needs_label_file(unpacked(file), label)
        return [name] if alone else [name, arrays.label_file(name, label)]
    except (OSError, EOFError, zlib.error, DataError):  # `load_table` says what is wrong
        return [name]


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Whether `load_table` takes a file for CSV, or cannot read it at all."""
    try:
        with open(_name_and_labels(os.fspath(path))[0], "rb") as file:
            sample = unpacked(file).read(_SAMPLE)
    except (OSError, EOFError, zlib.error):
        return True
    return not sample.startswith((_NPY, _ZIP, _PARQUET)) and not is_libsvm(sample)


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


def format_of(name: str, file: IO[bytes]) -> Format:
    """What the content of an open file is; the file stands at its beginning again."""
    sample = file.read(_SAMPLE)
    file.seek(0)
    if not sample:
        raise DataError(f"{name}: empty file")
    starts: dict[bytes, Format] = {_NPY: "npy", _ZIP: "npz", _PARQUET: "parquet"}
    for start, found in starts.items():
        if sample.startswith(start):
            return found
    if b"\0" in sample:
        raise DataError(f"{name}: not a table; CSV, LIBSVM, .npz, .npy and Parquet are understood")
    return "libsvm" if is_libsvm(sample) else "csv"


def unpacked(file: IO[bytes]) -> IO[bytes]:
    """The same content without compression."""
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file


@contextmanager
def as_text(name: str, file: IO[bytes]) -> Iterator[IO[str]]:
    """The lines of an open file."""
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
            yield lines
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 text: {error.reason}; save it as UTF-8") from None


def _read(name: str, file: IO[bytes], way: Way) -> Table:
    found = format_of(name, file)
    if found == "npy":
        return arrays.read_npy(name, file, way.label, unpacked)
    if found == "npz":
        return arrays.read_npz(name, file, way.label, unpacked, way.sparse)
    if found == "parquet":
        return read_parquet(name, file, way.label, way.categorical)
    if found == "libsvm":
        X, y = read_libsvm(name, file, way.n_features, way.zero_based, way.sparse)
        return Table(X, y, absent_is_zero=True)
    with as_text(name, file) as lines:
        return Table(*read_csv(name, lines, way.label, way.categorical))
