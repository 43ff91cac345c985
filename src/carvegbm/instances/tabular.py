"""Instances from a file: CSV, LIBSVM text, NumPy arrays or Parquet, told apart by content.

Comes in: a path. Goes out: a `Table` of features, labels and names. Knows nothing about models;
the text formats live in `_text`, this file decides which format a file is and reads the others.
"""

from __future__ import annotations

import gzip
import io
import os
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances import text as _text
from carvegbm.instances.columns import is_same_name, order_of
from carvegbm.instances.frames import frame_numbers
from carvegbm.instances.numbers import as_numbers

__all__ = ["Table", "files_of", "load_table"]

_ARRAY_PAIRS = (("X", "y"), ("X_test", "y_test"), ("x", "y"), ("x_test", "y_test"))


@dataclass(frozen=True)
class Table:
    """Instances with their labels.

    Attributes
    ----------
    X : array (n, d) of float64, or of float32 where the file holds that
        Memory-mapped where the file allows it; empty cells are NaN.
    y : array (n,)
        Labels as integers, floats or strings.
    feature_names : tuple of str, or None where the file names no columns
    label_name : str or None
    """

    X: npt.NDArray[Any]
    y: npt.NDArray[Any]
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None

    def __post_init__(self) -> None:
        if self.X.ndim != 2:
            raise DataError(f"X must have two dimensions (rows, features), got {self.X.ndim}")
        if self.y.shape != (len(self.X),):
            raise DataError(f"X has {len(self.X)} rows, y has the shape {self.y.shape}")

    def head(self, rows: int) -> Table:
        """The first `rows` instances."""
        if rows < 1:
            raise DataError(f"rows must be >= 1, got {rows}")
        return replace(self, X=self.X[:rows], y=self.y[:rows])

    def ordered_as(self, names: Sequence[str] | None, what: str = "the data") -> Table:
        """The columns in the order of `names`, see `carvegbm.instances.columns.order_of`.

        Unchanged where the table or the model names no columns. Raises `DataError` where the
        columns of the table, called `what` in the message, do not fit the names.
        """
        if names is None or self.feature_names is None:
            return self
        try:
            order = order_of(self.feature_names, names, what)
        except DataError as error:
            if any(self.label_name and is_same_name(self.label_name, name) for name in names):
                raise DataError(
                    f"{error}; {self.label_name!r} was taken for the label, name it with --label"
                ) from None
            raise
        if order is None:
            return self
        return replace(
            self, X=self.X[:, order], feature_names=tuple(self.feature_names[i] for i in order)
        )


def load_table(
    path: str | os.PathLike[str],
    *,
    label: str | int | None = None,
    n_features: int | None = None,
    zero_based: bool | None = None,
) -> Table:
    r"""Read instances and their labels from a file.

    Parameters
    ----------
    path : path
        CSV (separated by comma, semicolon, tab or spaces; with or without a header), LIBSVM text,
        ``.npz`` (arrays X and y, or X_test and y_test), ``.npy`` (the features; the labels lie in
        a file beside it whose name has y for X, in the file `label` names, or the path is
        ``"X.npy,y.npy"``) or Parquet (needs pyarrow). Any of them may be compressed with gzip.
    label : str or int, optional
        The label column, by name or by position (-1 is the last). Default: the column called
        label, target, class or y, whatever its case; where there is none, the last column.
        For ``.npz`` the name of the array, for ``.npy`` the path of the file.
    n_features : int, optional
        Number of columns of LIBSVM data; default: as many as the largest index asks for.
    zero_based : bool, optional
        Whether LIBSVM indices start at 0. Default: they do iff index 0 occurs.

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
            table = _read(name, file, label, n_features, zero_based)
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
    if len(table.X) == 0:
        raise DataError(f"{name}: has no rows; give at least one instance")
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
            alone = not _unpacked(file).read(6).startswith(b"\x93NUMPY")
        return [name] if alone else [name, _label_file(name, label)]
    except (OSError, EOFError, zlib.error, DataError):  # `load_table` says what is wrong
        return [name]


def _name_and_labels(given: str) -> tuple[str, str | None]:
    """The two paths of "X.npy,y.npy"; a path that is there is one path, commas or not."""
    if "," not in given or Path(given).exists():
        return given, None
    name, _, pair = given.partition(",")
    return name, pair


def _read(
    name: str, file: IO[bytes], label: str | int | None, n_features: int | None, zero: bool | None
) -> Table:
    file = _unpacked(file)
    start = file.read(8)
    file.seek(0)
    if not start:
        raise DataError(f"{name}: empty file")
    if start.startswith(b"\x93NUMPY"):
        return _npy(name, file, label)
    if start.startswith(b"PK"):
        return _npz(name, file, label)
    if start.startswith(b"PAR1"):
        return _parquet(name, file, label)
    return _text_table(name, file, label, n_features, zero)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    """The same content without compression."""
    packed = file.read(2) == b"\x1f\x8b"
    file.seek(0)
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file)) if packed else file


def _text_table(
    name: str, file: IO[bytes], label: str | int | None, n_features: int | None, zero: bool | None
) -> Table:
    sample = file.read(1 << 16)
    file.seek(0)
    if b"\0" in sample:
        raise DataError(f"{name}: not a table; CSV, LIBSVM, .npz, .npy and Parquet are understood")
    if _text.is_libsvm(sample):
        X, y = _text.read_libsvm(name, file, n_features, zero)
        return Table(X, y)
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
            return Table(*_text.read_csv(name, lines, label))
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 text: {error.reason}; save it as UTF-8") from None


# ── NumPy arrays ─────────────────────────────────────────────────────────────────────────────


def _npy(name: str, file: IO[bytes], label: str | int | None) -> Table:
    beside = _label_file(name, label)
    with open(beside, "rb") as labels:
        y = _labels(beside, _array(beside, _unpacked(labels)))
    return Table(_features(name, _array(name, file)), y)


def _label_file(name: str, label: str | int | None) -> str:
    """Path of the labels that belong to the features in the file `name`."""
    if label is not None:
        return str(label)
    path = Path(name)
    tried = [path.with_name(path.name.replace(x, "y", 1)) for x in "Xx" if x in path.name]
    tried.append(path.with_name("y" + "".join(path.suffixes)))
    for candidate in tried:
        if candidate != path and candidate.is_file():
            return str(candidate)
    raise DataError(f'{name}: no labels beside it; write them as "{name},LABELS.npy"')


def _array(name: str, file: IO[bytes]) -> npt.NDArray[Any]:
    """The array in .npy format that starts where `file` stands; mapped if that is on disk."""
    try:
        if not isinstance(file, io.BufferedReader):
            found = np.asarray(np.lib.format.read_array(file, allow_pickle=False))
            _read_to_the_end(file)
            return found
        version = np.lib.format.read_magic(file)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(file)
        if dtype.hasobject:
            raise ValueError("it holds Python objects")
        if 0 in shape:
            return np.empty(shape, dtype)
        order: Literal["C", "F"] = "F" if fortran else "C"
        return np.memmap(file, dtype, "r", file.tell(), shape, order)
    except Exception as error:  # NumPy's header parser lets the tokenizer's errors through
        raise DataError(f"{name}: not a readable array: {error}") from None


def _read_to_the_end(file: IO[bytes]) -> None:
    """Read what is left, because a checksum is compared only at the end."""
    while file.read(1 << 20):
        pass


def _npz(name: str, file: IO[bytes], label: str | int | None) -> Table:
    try:
        with zipfile.ZipFile(file) as archive:
            return _npz_table(name, archive, file, label)
    except DataError:
        raise
    except Exception as error:  # zipfile meets damage with half a dozen kinds of error
        raise DataError(f"{name}: damaged file: {error}") from None


def _npz_table(
    name: str, archive: zipfile.ZipFile, file: IO[bytes], label: str | int | None
) -> Table:
    there = {Path(entry).stem: entry for entry in archive.namelist()}
    pairs = list(_ARRAY_PAIRS)
    if label is not None:
        pairs = [(x, str(label)) for x in (str(label).replace("y", "X", 1), "X", "X_test")]
    found = [(x, y) for x, y in pairs if x in there and y in there and x != y]
    if not found:
        needed = "X and y, or X_test and y_test," if label is None else f"X and {label}"
        shown = ", ".join(sorted(there)) or "(none)"
        raise DataError(f"{name}: holds the arrays {shown}; {needed} are needed")

    def array(key: str) -> npt.NDArray[Any]:
        return _member(f"{name}, array {key}", archive, there[key], file)

    x, y = found[0]
    names = tuple(map(str, array("feature_names"))) if "feature_names" in there else None
    features, labels = _features(name, array(x)), _labels(name, array(y))
    if {"success", "distance", "borderline"} <= there.keys():  # as `carvegbm attack` writes it
        attacked = array("success")
        if attacked.dtype != np.bool_ or attacked.shape != (len(features),):
            raise DataError(f"{name}: success must be one truth value per row of {x}")
        if not attacked.any():
            raise DataError(f"{name}: holds no attack that succeeded; there is nothing to look at")
        if not attacked.all() and len(labels) == len(features):
            left_out = int(np.count_nonzero(~attacked))
            warnings.warn(f"{name}: {left_out} rows without an attack are left out", stacklevel=2)
            features, labels = features[attacked], labels[attacked]
    return Table(features, labels, names, y)


def _member(name: str, archive: zipfile.ZipFile, entry: str, file: IO[bytes]) -> npt.NDArray[Any]:
    info = archive.getinfo(entry)
    if info.compress_type == zipfile.ZIP_STORED and isinstance(file, io.BufferedReader):
        # A stored member is the .npy file itself, after a local header of 30 bytes and two fields
        # whose lengths stand at bytes 26 to 29. A map has no checksum, so it is compared before.
        with archive.open(info) as member:
            _read_to_the_end(member)
        file.seek(info.header_offset + 26)
        lengths = np.frombuffer(file.read(4), "<u2")
        file.seek(info.header_offset + 30 + int(lengths.sum()))
        return _array(name, file)
    with archive.open(info) as member:
        return _array(name, member)


def _features(name: str, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if X.ndim != 2:
        raise DataError(f"{name}: X has the shape {X.shape}; reshape it to (rows, features)")
    return as_numbers(X, f"{name}: X")


def _labels(name: str, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dtype.kind not in "fiubUS" or y.ndim != 1:
        raise DataError(f"{name}: y holds {y.dtype} of the shape {y.shape}; one label per row")
    return np.char.decode(y, "utf-8") if y.dtype.kind == "S" else y


# ── Parquet ──────────────────────────────────────────────────────────────────────────────────


def _parquet(name: str, file: IO[bytes], label: str | int | None) -> Table:
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
    places = [
        place
        for place, column in enumerate(content.column_names)
        if not column.startswith("__index_level_")
    ]
    names = [content.column_names[place] for place in places]
    at = _text.label_column(name, names, len(names), label)
    y = content.column(places.pop(at))
    label_name = names.pop(at)
    if y.null_count:
        raise DataError(f"{name}: column {label_name!r}: {y.null_count} labels are missing")
    X = frame_numbers(content.select(places), names, name)
    return Table(X, np.array(y.to_pylist()), tuple(names), label_name)
