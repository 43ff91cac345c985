"""Tables in text: LIBSVM.

Comes in: an open file. Goes out: arrays, of all rows or of some at a time, and for every mistake
in the text one line that says where it is, counted from 1.

Two things depend on all rows: whether indices start at 0, and whether labels are whole numbers. So
the text is gone through twice where it is read some rows at a time.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.sparse import Csr
from carvegbm.instances.text import is_number

__all__ = ["is_libsvm", "libsvm_batches", "libsvm_length", "read_libsvm"]

_PAIR = re.compile(rb"(?:[-+]?\d[\w.]*|qid):\S*")  # even if there is a mistake in it
_BYTES_AT_ONCE = 1 << 24
_MOST_COLUMNS = 1 << 24  # of a table, which holds a number for each in every row

Features = npt.NDArray[np.float64] | Csr


def is_libsvm(sample: bytes) -> bool:
    """Whether text that starts like this is "label index:value index:value …"."""
    for line in sample.splitlines():
        tokens = line.partition(b"#")[0].split()
        if len(tokens) > 1:
            return _PAIR.fullmatch(tokens[1]) is not None
    return False


def read_libsvm(
    name: str, file: IO[bytes], n_features: int | None, zero_based: bool | None, as_sparse: bool
) -> tuple[Features, npt.NDArray[Any]]:
    """Features (absent indices are 0) and labels."""
    part = _parsed(name, file)
    if zero_based is None:
        zero_based = part.has_zero
    X, y = part.table(name, n_features, zero_based, part.is_whole, not as_sparse)
    return X if as_sparse else X.toarray(), y


def libsvm_batches(
    name: str, file: IO[bytes], n_features: int | None, zero_based: bool | None, size: int
) -> Iterator[tuple[Csr, npt.NDArray[Any]]]:
    """The same, sparse, at most `size` rows at a time, and about so many that are 16 MB of text."""
    has_zero, is_whole = False, True
    for part in _parts(name, file, size):
        has_zero |= part.has_zero
        is_whole &= part.is_whole
    if zero_based is None:
        zero_based = has_zero
    file.seek(0)
    for part in _parts(name, file, size):
        yield part.table(name, n_features, zero_based, is_whole, False)


def libsvm_length(file: IO[bytes], at_most: int) -> int:
    """How many rows there are, or `at_most` if that is less."""
    found = 0
    for line in file:
        found += _is_row(line)
        if found >= at_most:
            break
    return found


@dataclass(frozen=True)
class _Part:
    """Rows one after the other, as scikit-learn reads them."""

    sparse: Any
    y: npt.NDArray[np.float64]

    @property
    def has_zero(self) -> bool:
        """Whether index 0 occurs."""
        return bool((self.sparse.indices == 0).any())

    @property
    def is_whole(self) -> bool:
        """Whether all labels are whole numbers."""
        return bool(np.isfinite(self.y).all() and (self.y == np.rint(self.y)).all())

    def table(
        self, name: str, n_features: int | None, zero_based: bool, is_whole: bool, is_dense: bool
    ) -> tuple[Any, npt.NDArray[Any]]:
        """Features, in columns from 0 on, and labels."""
        sparse, y = self.sparse, self.y
        if not zero_based:
            if self.has_zero:
                raise DataError(f"{name}: index 0 occurs, so the indices do not start at 1")
            sparse = sparse[:, 1:]
        largest = int(sparse.indices.max(initial=-1)) + 1
        if largest > _MOST_COLUMNS and n_features is None and is_dense:
            raise DataError(
                f"{name}: index {largest - zero_based} asks for more than {_MOST_COLUMNS} "
                "columns; number the features one after another"
            )
        width = largest if n_features is None else n_features
        if largest > width:
            raise DataError(
                f"{name}: index {largest - zero_based} is beyond the model's {width} features"
            )
        sparse.resize(len(y), width)
        return sparse, y.astype(np.int64) if is_whole else y


def _parts(name: str, file: IO[bytes], size: int) -> Iterator[_Part]:
    """At most `size` rows at a time, fewer where they are long."""
    lines: list[bytes] = []
    held, taken, line_number, row = 0, 0, 1, 0
    for line in file:
        if held and (held == size or taken > _BYTES_AT_ONCE) and _is_row(line):
            yield _parsed(name, io.BytesIO(b"".join(lines)), line_number, row)
            line_number, row = line_number + len(lines), row + held
            lines, held, taken = [], 0, 0
        lines.append(line)
        held += _is_row(line)
        taken += len(line)
    if held:
        yield _parsed(name, io.BytesIO(b"".join(lines)), line_number, row)


def _is_row(line: bytes) -> bool:
    return bool(line.partition(b"#")[0].strip())


def _parsed(name: str, file: IO[bytes], line_number: int = 1, first: int = 0) -> _Part:
    """What the text says; it begins with that line and row of the file."""
    from sklearn.datasets import load_svmlight_file

    try:
        sparse, y = load_svmlight_file(file, dtype=np.float64, zero_based=True)
        mistake = _first_mistake(name, file, line_number) if _has_underscore(file) else None
    except (ValueError, OverflowError) as error:
        mistake = _first_mistake(name, file, line_number) or f"{name}: {error}"
    if mistake is not None:
        raise DataError(mistake)
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise DataError(
            f"{name}: the label of row {first + row + 1} is {y[row]}, not a finite number"
        )
    return _Part(sparse, y)


def _has_underscore(file: IO[bytes]) -> bool:
    """Whether there is one anywhere; float() reads 1_0 as 10."""
    file.seek(0)
    while part := file.read(1 << 20):
        if b"_" in part:
            return True
    return False


def _first_mistake(name: str, file: IO[bytes], line_number: int) -> str | None:
    """Where the text stops being LIBSVM, or None if no single line is to blame."""
    file.seek(0)
    for number, line in enumerate(file, line_number):
        last = -1
        tokens = line.partition(b"#")[0].decode("utf-8", "replace").split()
        for i, token in enumerate(tokens):
            index, colon, value = token.partition(":") if i else ("0", ":", token)
            if index == "qid" and i == 1:
                continue
            if not colon or not index.isdecimal() or not is_number(value):
                kind = "index:value" if i else "a numeric label"
                return f"{name}: line {number}, column {i + 1}: {token!r} is not {kind}"
            if len(index.lstrip("0")) > 10 or int(index) >= 1 << 31:
                return (
                    f"{name}: line {number}: index {index[:24]} is beyond 2^31 - 1; renumber them"
                )
            if i and int(index) <= last:
                return f"{name}: line {number}: index {index} comes after {last}; sort them"
            last = int(index) if i else -1
    return None
