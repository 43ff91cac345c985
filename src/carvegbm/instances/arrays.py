"""Tables in files of arrays: NumPy's .npy and .npz, and the .npz that SciPy writes.

Comes in: an open file. Goes out: a `Table`; arrays on disk that are not compressed are mapped, and
a sparse matrix is CSR, or made dense.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.numbers import as_numbers
from carvegbm.instances.sparse import Csr, as_csr
from carvegbm.instances.table import Table

__all__ = [
    "is_matrix",
    "label_file",
    "needs_label_file",
    "npy_batches",
    "npy_length",
    "read_npy",
    "read_npz",
]

_ARRAY_PAIRS = (("X", "y"), ("X_test", "y_test"), ("x", "y"), ("x_test", "y_test"))
_SPARSE = {"format", "shape", "data"}
_OF_FORMAT = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}

Label = str | int | None
Unpack = Callable[[IO[bytes]], IO[bytes]]


def read_npy(name: str, file: IO[bytes], label: Label, unpacked: Unpack) -> Table:
    """Features, and labels from the file that `label_file` names."""
    y = _labels_beside(name, label, unpacked)
    return Table(_features(name, _array(name, file)), y)


def npy_batches(
    name: str, file: IO[bytes], label: Label, unpacked: Unpack, size: int
) -> Iterator[Table]:
    """The same, at most `size` rows at a time; only these are made numbers of, if they are not."""
    y, X = _labels_beside(name, label, unpacked), _array(name, file)
    if X.ndim == 2 and y.shape != X.shape[:1]:
        raise DataError(f"{name}: X has {X.shape[0]} rows, y has the shape {y.shape}")
    for start in range(0, len(X), size):
        which = slice(start, start + size)
        yield Table(_features(name, X[which]), y[which])


def npy_length(name: str, file: IO[bytes]) -> int:
    """How many rows there are."""
    shape = _array(name, file).shape
    return int(shape[0]) if shape else 0


def label_file(name: str, label: Label) -> str:
    """Path of the labels that belong to the features in the file `name`."""
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


def needs_label_file(file: IO[bytes], label: Label) -> bool:
    """Whether the labels of a file of arrays are in another one."""
    start = file.read(6)
    file.seek(0)
    if not start.startswith(b"PK"):
        return start.startswith(b"\x93NUMPY")
    there = _names(file)
    return there >= _SPARSE and ("y" if label is None else str(label)) not in there


def is_matrix(file: IO[bytes]) -> bool:
    """Whether an archive is what `scipy.sparse.save_npz` wrote."""
    return _names(file) >= _SPARSE


def _names(file: IO[bytes]) -> set[str]:
    try:
        with zipfile.ZipFile(file) as archive:
            return {Path(entry).stem for entry in archive.namelist()}
    except Exception:  # reading it says what is wrong
        return set()


def _labels_beside(name: str, label: Label, unpacked: Unpack) -> npt.NDArray[Any]:
    beside = label_file(name, label)
    with open(beside, "rb") as labels:
        plain = unpacked(labels)
        if plain.read(2) == b"PK":
            raise DataError(f"{beside}: labels of {name} must be in a .npy file, this is a .npz")
        plain.seek(0)
        return _labels(beside, _array(beside, plain))


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


def read_npz(name: str, file: IO[bytes], label: Label, unpacked: Unpack, sparse: bool) -> Table:
    """Features and labels of an archive; a sparse matrix stays one with `sparse`."""
    try:
        with zipfile.ZipFile(file) as archive:
            return _npz_table(_Archive(name, archive, file), label, unpacked, sparse)
    except DataError:
        raise
    except Exception as error:  # zipfile meets damage with half a dozen kinds of error
        raise DataError(f"{name}: damaged file: {error}") from None


class _Archive:
    """The arrays of an archive, by name."""

    def __init__(self, name: str, archive: zipfile.ZipFile, file: IO[bytes]) -> None:
        self.name, self._archive, self._file = name, archive, file
        self.there = {Path(entry).stem: entry for entry in archive.namelist()}

    def __contains__(self, key: str) -> bool:
        return key in self.there

    def __getitem__(self, key: str) -> npt.NDArray[Any]:
        where, info = f"{self.name}, array {key}", self._archive.getinfo(self.there[key])
        if info.compress_type == zipfile.ZIP_STORED and isinstance(self._file, io.BufferedReader):
            # A stored member is the .npy file itself, after a local header of 30 bytes and two
            # fields whose lengths stand at bytes 26 to 29. A map has no checksum, so it is
            # compared before.
            with self._archive.open(info) as member:
                _read_to_the_end(member)
            self._file.seek(info.header_offset + 26)
            lengths = np.frombuffer(self._file.read(4), "<u2")
            self._file.seek(info.header_offset + 30 + int(lengths.sum()))
            return _array(where, self._file)
        with self._archive.open(info) as member:
            return _array(where, member)


def _npz_table(archive: _Archive, label: Label, unpacked: Unpack, sparse: bool) -> Table:
    name = archive.name
    features: Any
    if archive.there.keys() >= _SPARSE:
        features = _matrix(archive, sparse)
        x, y = "the matrix", "y" if label is None else str(label)
        beside = y not in archive
        labels = _labels_beside(name, label, unpacked) if beside else _labels(name, archive[y])
    else:
        pairs = list(_ARRAY_PAIRS)
        if label is not None:
            pairs = [(x, str(label)) for x in (str(label).replace("y", "X", 1), "X", "X_test")]
        found = [(x, y) for x, y in pairs if x in archive and y in archive and x != y]
        if not found:
            needed = "X and y, or X_test and y_test," if label is None else f"X and {label}"
            shown = ", ".join(sorted(archive.there)) or "(none)"
            raise DataError(f"{name}: holds the arrays {shown}; {needed} are needed")
        x, y = found[0]
        features, labels = _features(name, archive[x]), _labels(name, archive[y])
    names = tuple(map(str, archive["feature_names"])) if "feature_names" in archive else None
    if {"success", "distance", "borderline"} <= archive.there.keys():  # of `carvegbm attack`
        attacked = archive["success"]
        if attacked.dtype != np.bool_ or attacked.shape != features.shape[:1]:
            raise DataError(f"{name}: success must be one truth value per row of {x}")
        if not attacked.any():
            raise DataError(f"{name}: holds no attack that succeeded; there is nothing to look at")
        if not attacked.all() and len(labels) == features.shape[0]:
            left_out = int(np.count_nonzero(~attacked))
            warnings.warn(f"{name}: {left_out} rows without an attack are left out", stacklevel=2)
            features, labels = features[attacked], labels[attacked]
    return Table(features, labels, names, y)


def _matrix(archive: _Archive, sparse: bool) -> npt.NDArray[Any] | Csr:
    """The matrix that `scipy.sparse.save_npz` wrote."""
    import scipy.sparse

    kind = archive["format"].item()
    kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
    if kind not in _OF_FORMAT:
        known = ", ".join(_OF_FORMAT)
        raise DataError(f"{archive.name}: a sparse matrix in the format {kind!r}; {known} are read")
    parts = [np.asarray(archive[part]) for part in ("data", *_OF_FORMAT[kind])]
    shape = tuple(int(size) for size in archive["shape"])
    given = (parts[0], (parts[1], parts[2])) if kind == "coo" else tuple(parts)
    try:
        matrix = getattr(scipy.sparse, f"{kind}_matrix")(given, shape=shape)
        if kind in ("csr", "csc", "bsr"):
            matrix.check_format(full_check=True)  # conversions rely on it
        matrix = as_csr(matrix)
    except DataError as error:
        raise DataError(f"{archive.name}: {error}") from None
    return matrix if sparse else matrix.toarray()


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
