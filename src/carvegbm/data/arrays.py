"""Tables in NumPy's .npy and .npz files, and sparse matrices written by `scipy.sparse.save_npz`."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import as_numbers
from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.data.table import ReadOptions, Table
from carvegbm.errors import DataError

__all__ = ["is_matrix", "label_file", "npy_batches", "npy_length", "npz_batches"]

_ARRAY_PAIRS = (("X", "y"), ("X_test", "y_test"), ("x", "y"), ("x_test", "y_test"))
_SPARSE = {"format", "shape", "data"}

Label = str | int | None


def npy_batches(
    name: str, file: IO[bytes], options: ReadOptions, size: int | None
) -> Iterator[Table]:
    """Yield at most `size` rows at a time, with labels from the file that `label_file` names."""
    labels = None if options.label is False else _labels_beside(name, options.label)
    X = _array(name, file)
    y = np.zeros(len(X)) if labels is None else labels
    if X.ndim == 2 and y.shape != X.shape[:1]:
        raise DataError(f"{name}: X has {X.shape[0]} rows, y has the shape {y.shape}")
    for start in range(0, len(X), size or max(1, len(X))):
        which = slice(start, None if size is None else start + size)
        yield Table(_features(name, X[which]), y[which])


def npy_length(name: str, file: IO[bytes]) -> int:
    """Return the number of rows."""
    shape = _array(name, file).shape
    return int(shape[0]) if shape else 0


def npz_batches(
    name: str, file: IO[bytes], options: ReadOptions, size: int | None, sparse_size: int | None
) -> Iterator[Table]:
    """Yield the rows of an archive, which is read whole; a sparse matrix stays one if requested."""
    try:
        table = _npz_table(name, file, options)
    except DataError:
        raise
    except Exception as error:  # damaged archives raise many kinds of errors
        raise DataError(f"{name}: damaged file: {error}") from None
    n, step = table.X.shape[0], sparse_size if is_sparse(table.X) else size
    for start in range(0, n, step or max(1, n)):
        which = slice(start, None if step is None else start + step)
        yield Table(table.X[which], table.y[which], table.feature_names, table.label_name)


def label_file(name: str, file: IO[bytes], label: Label) -> str | None:
    """Return the path of the labels of an open file of arrays; None if it holds them itself."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(b"PK"):
        names = _member_names(file)
        if not names >= _SPARSE or ("y" if label is None else str(label)) in names:
            return None
    elif not start.startswith(b"\x93NUMPY"):
        return None
    return _path_beside(name, label)


def is_matrix(file: IO[bytes]) -> bool:
    """Return whether an archive was written by `scipy.sparse.save_npz`."""
    return _member_names(file) >= _SPARSE


def _member_names(file: IO[bytes]) -> set[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return {Path(entry).stem for entry in archive.namelist()}
    except Exception:  # reading the file reports it
        return set()


def _path_beside(name: str, label: Label) -> str:
    if label is not None:
        return str(label)
    path = Path(name)
    tried = [path.with_name(path.name.replace(x, "y", 1)) for x in "Xx" if x in path.name]
    tried.append(path.with_name("y" + "".join(path.suffixes)))
    tried += [beside.with_suffix(".npy") for beside in tried if beside.suffix == ".npz"]
    for candidate in tried:
        if candidate != path and candidate.is_file():
            return str(candidate)
    raise DataError(f'{name}: no labels beside it; write them as "{name},LABELS.npy"')


def _labels_beside(name: str, label: Label) -> npt.NDArray[Any]:
    from carvegbm.data.files import decompressed

    beside = _path_beside(name, label)
    with open(beside, "rb") as packed:
        file = decompressed(packed)
        if file.read(2) == b"PK":
            raise DataError(f"{beside}: labels of {name} must be in a .npy file, this is a .npz")
        file.seek(0)
        return _labels(beside, _array(beside, file))


def _array(name: str, file: IO[bytes]) -> npt.NDArray[Any]:
    """Return the array in .npy format; memory-mapped unless the file is compressed."""
    try:
        if isinstance(file, io.BufferedReader):
            try:
                return np.asanyarray(np.load(file.name, mmap_mode="r", allow_pickle=False))
            except ValueError:  # empty arrays cannot be mapped
                file.seek(0)
        found = np.lib.format.read_array(file, allow_pickle=False)
        file.read(1)  # the checksum of compressed files is compared at their end
        return np.asarray(found)
    except Exception as error:  # NumPy's header parser raises many kinds of errors
        raise DataError(f"{name}: not a readable array: {error}") from None


def _npz_table(name: str, file: IO[bytes], options: ReadOptions) -> Table:
    label = options.label
    if is_matrix(file):
        import scipy.sparse

        file.seek(0)
        matrix = scipy.sparse.load_npz(file)
        if hasattr(matrix, "check_format"):
            matrix.check_format(full_check=True)
        try:
            X = as_csr(matrix)
        except DataError as error:
            raise DataError(f"{name}: {error}") from None
        file.seek(0)
        with np.load(file, allow_pickle=False) as archive:
            if label is False:
                X = X if options.sparse else X.toarray()
                return Table(X, np.zeros(X.shape[0]), _names(archive))
            key = "y" if label is None else str(label)
            y = _labels(name, archive[key]) if key in archive else _labels_beside(name, label)
            return Table(X if options.sparse else X.toarray(), y, _names(archive), key)
    file.seek(0)
    with np.load(file, allow_pickle=False) as archive:
        if label is False and (known := [x for x, _ in _ARRAY_PAIRS if x in archive]):
            features = _features(name, archive[known[0]])
            return Table(features, np.zeros(len(features)), _names(archive))
        pairs = list(_ARRAY_PAIRS)
        if label:
            pairs = [(x, str(label)) for x in (str(label).replace("y", "X", 1), "X", "X_test")]
        found = [(x, y) for x, y in pairs if x in archive and y in archive and x != y]
        if not found:
            needed = "X and y, or X_test and y_test," if label is None else f"X and {label}"
            shown = ", ".join(sorted(archive)) or "(none)"
            raise DataError(f"{name}: holds the arrays {shown}; {needed} are needed")
        x, key = found[0]
        features, labels = _features(name, archive[x]), _labels(name, archive[key])
        return Table(features, labels, _names(archive), key)


def _names(archive: Any) -> tuple[str, ...] | None:
    return tuple(map(str, archive["feature_names"])) if "feature_names" in archive else None


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
