"""Read tables from files: CSV, LIBSVM text, NumPy arrays or Parquet, recognised by content.

`read_batches` reads any of them some rows at a time; `load_table` reads one batch of all rows.
Joined batches equal that table to the last bit and type.

    CSV, LIBSVM, Parquet   one batch is in memory, compressed or not
    .npy                   memory-mapped; in memory as a whole if compressed
    .npz                   in memory as a whole
"""

from __future__ import annotations

import gzip
import os
import zipfile
import zlib
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Literal, cast

from carvegbm.data.arrays import is_matrix, label_file, npy_batches, npy_length, npz_batches
from carvegbm.data.csv import csv_batches, csv_length
from carvegbm.data.libsvm import is_libsvm, libsvm_batches, libsvm_length
from carvegbm.data.names import feature_position
from carvegbm.data.parquet import parquet_batches, parquet_length
from carvegbm.data.rows import ObjectTable
from carvegbm.data.table import Categorical, ReadOptions, Table
from carvegbm.errors import DataError

__all__ = ["count_rows", "decompressed", "files_of", "is_csv", "known_length", "load_table"]
__all__ += ["read_batches", "sparse_format"]

Format = Literal["csv", "libsvm", "npy", "npz", "parquet"]

_MANY = 1 << 31  # features of a file without names, before they are counted
_NPY, _ZIP, _PARQUET = b"\x93NUMPY", b"PK", b"PAR1"
_SAMPLE = 1 << 16  # bytes by which text is recognised


def load_table(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
    sparse: bool = False,
    categorical: Iterable[str | int] | Categorical = (),
) -> Table:
    r"""Read rows and their labels from a file.

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
        label, target, class or y, in any case, else the last column. For ``.npz`` the name of the
        array, for ``.npy`` the path of the file.
    n_features : int, optional
        Number of columns of LIBSVM data. Default: the largest index.
    zero_based : bool, optional
        Whether LIBSVM indices start at 0. Default: they do iff index 0 occurs.
    sparse : bool, default False
        Keep LIBSVM data and sparse matrices as CSR.
    categorical : iterable of str or int, optional
        Features of a CSV or Parquet file that hold labels of categories, by name or by position.
        X is then a small frame of columns.

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
    name, _ = _name_and_labels(os.fspath(path))
    given = () if callable(categorical) else tuple(categorical)

    def positions(names: Sequence[str] | None, n: int) -> set[int]:
        try:
            return {feature_position(feature, names, n) for feature in given}
        except DataError as error:
            raise DataError(f"{name}: {error}") from None

    def chosen(names: Sequence[str] | None) -> Collection[int]:
        return positions(names, _MANY if names is None else len(names))

    choose = categorical if callable(categorical) else chosen
    options = ReadOptions(label, n_features, zero_based, sparse, choose)
    for table in read_batches(path, options):
        positions(table.feature_names, table.X.shape[1])
        if given and not isinstance(table.X, ObjectTable):
            raise DataError(
                f"{name}: its features are numbers, none of them categorical; give CSV or Parquet"
            )
        if table.X.shape[0]:
            return table
    raise DataError(f"{name}: has no rows; give at least one")


def read_batches(
    path: str | os.PathLike[str],
    options: ReadOptions,
    size: int | None = None,
    sparse_size: int | None = None,
) -> Generator[Table, None, None]:
    r"""Yield the table in a file, at most `size` rows at a time; all at once if None.

    Sparse rows are yielded `sparse_size` at a time, if given.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("width,label\n0.5,1\n0.25,2\n1,no\n")
    >>> [(table.X.tolist(), table.y.tolist()) for table in read_batches(path, ReadOptions(), 2)]
    [([[0.5], [0.25]], ['1', '2']), ([[1.0]], ['no'])]
    """
    name, options = _resolved(path, options)
    sparse_size = size if sparse_size is None or not options.sparse else sparse_size
    with _opened(name) as file:
        match _format_of(name, file):
            case "npy":
                yield from npy_batches(name, file, options, size)
            case "npz":
                yield from npz_batches(name, file, options, size, sparse_size)
            case "parquet":
                yield from parquet_batches(name, file, options, size)
            case "libsvm":
                yield from libsvm_batches(name, file, options, sparse_size)
            case "csv":
                yield from csv_batches(name, file, options, size)


def known_length(path: str, options: ReadOptions) -> int | None:
    """Return the number of rows if the file states it; None if it has to be read for that."""
    name, _ = _resolved(path, options)
    with _opened(name) as file:
        return _stated_length(name, file)


def count_rows(path: str, options: ReadOptions, at_most: int) -> int:
    """Return the number of rows, or `at_most` if that is smaller; read no more text than needed."""
    name, options = _resolved(path, options)
    with _opened(name) as file:
        stated = _stated_length(name, file)
        if stated is not None:
            return min(stated, at_most)
        match _format_of(name, file):
            case "libsvm":
                return libsvm_length(file, at_most)
            case "npz":
                (table,) = npz_batches(name, file, options, None, None)
                return min(len(table.y), at_most)
        return csv_length(name, file, options, at_most)


def files_of(path: str | os.PathLike[str], label: str | int | None = None) -> list[str]:
    """Return the files that `load_table` reads: the table, and that of its labels if separate."""
    name, pair = _name_and_labels(os.fspath(path))
    if pair is not None:
        return [name, pair]
    if not Path(name).is_file():
        return [name]
    try:
        with open(name, "rb") as file:
            beside = label_file(name, decompressed(file), label)
        return [name] if beside is None else [name, beside]
    except (OSError, EOFError, zlib.error, DataError):  # reported by `load_table`
        return [name]


def is_csv(path: str | os.PathLike[str]) -> bool:
    """Return whether `load_table` takes a file for CSV, or cannot read it."""
    try:
        with open(_name_and_labels(os.fspath(path))[0], "rb") as file:
            sample = decompressed(file).read(_SAMPLE)
    except (OSError, EOFError, zlib.error):
        return True
    return not sample.startswith((_NPY, _ZIP, _PARQUET)) and not is_libsvm(sample)


def sparse_format(path: str) -> Literal["libsvm", "npz"] | None:
    """Return the format of a file of sparse rows; None if its rows are dense."""
    name, _ = _name_and_labels(path)
    with _opened(name) as file:
        found = _format_of(name, file)
        is_sparse = found == "libsvm" or (found == "npz" and is_matrix(file))
        return cast("Literal['libsvm', 'npz']", found) if is_sparse else None


def decompressed(file: IO[bytes]) -> IO[bytes]:
    """Return the same content without gzip."""
    is_packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if is_packed else file


def _resolved(path: str | os.PathLike[str], options: ReadOptions) -> tuple[str, ReadOptions]:
    """Split "X.npy,y.npy" into the file and the option that names its labels."""
    name, pair = _name_and_labels(os.fspath(path))
    if pair is None:
        return name, options
    if options.label is not None:
        raise DataError(f"{name},{pair}: the labels are given twice, here and as {options.label!r}")
    return name, replace(options, label=pair)


def _name_and_labels(given: str) -> tuple[str, str | None]:
    if "," not in given or Path(given).exists():
        return given, None
    name, _, pair = given.partition(",")
    return name, pair


@contextmanager
def _opened(name: str) -> Iterator[IO[bytes]]:
    try:
        with open(name, "rb") as file:
            yield decompressed(file)
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


def _format_of(name: str, file: IO[bytes]) -> Format:
    """Recognise the format of an open file by its beginning."""
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


def _stated_length(name: str, file: IO[bytes]) -> int | None:
    match _format_of(name, file):
        case "parquet":
            return parquet_length(name, file)
        case "npy":
            return npy_length(name, file)
    return None
