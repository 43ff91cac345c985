"""Tables in LIBSVM text.

Two things depend on all rows: whether indices start at 0, and whether labels are whole numbers. So
files that are read in batches are read twice.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.table import ReadOptions, Table
from carvegbm.errors import DataError

__all__ = ["is_libsvm", "libsvm_batches", "libsvm_length"]

_PAIR = re.compile(rb"(?:[-+]?\d[\w.]*|qid):\S*")  # also with errors in it
_BYTES_AT_ONCE = 1 << 24
_MOST_COLUMNS = 1 << 24  # of a dense table without a known width


def is_libsvm(sample: bytes) -> bool:
    """Return whether text that starts like this is "label index:value index:value …"."""
    for line in sample.splitlines():
        tokens = line.partition(b"#")[0].split()
        if len(tokens) > 1:
            return _PAIR.fullmatch(tokens[1]) is not None
    return False


def libsvm_batches(
    name: str, file: IO[bytes], options: ReadOptions, size: int | None
) -> Iterator[Table]:
    """Yield at most `size` rows at a time, and about 16 MB of text; all rows if `size` is None."""
    if size is None:
        parts = [_parse(name, file, 0)]
        has_zero, is_whole = parts[0].has_zero, parts[0].is_whole
    else:
        has_zero, is_whole = False, True
        for part in _parts(name, file, size):
            has_zero |= part.has_zero
            is_whole &= part.is_whole
        file.seek(0)
    zero_based = has_zero if options.zero_based is None else options.zero_based
    for part in parts if size is None else _parts(name, file, size):
        yield part.table(name, options, zero_based, is_whole)


def libsvm_length(file: IO[bytes], at_most: int) -> int:
    """Return the number of rows, or `at_most` if that is smaller."""
    found = 0
    for line in file:
        found += _is_row(line)
        if found >= at_most:
            break
    return found


@dataclass(frozen=True)
class _Part:
    """Consecutive rows; indices as in the file."""

    sparse: Any
    y: npt.NDArray[np.float64]

    @property
    def has_zero(self) -> bool:
        """Whether index 0 occurs."""
        return bool((self.sparse.indices == 0).any())

    @property
    def is_whole(self) -> bool:
        """Whether all labels are whole numbers."""
        return bool((self.y == np.rint(self.y)).all())

    def table(self, name: str, options: ReadOptions, zero_based: bool, is_whole: bool) -> Table:
        """Return the rows with columns from 0 on."""
        sparse, y, n_features = self.sparse, self.y, options.n_features
        if not zero_based:
            if self.has_zero:
                raise DataError(f"{name}: index 0 occurs, so the indices do not start at 1")
            sparse = sparse[:, 1:]
        largest = int(sparse.indices.max(initial=-1)) + 1
        if largest > _MOST_COLUMNS and n_features is None and not options.sparse:
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
        X = sparse if options.sparse else sparse.toarray()
        return Table(X, y.astype(np.int64) if is_whole else y, absent_is_zero=True)


def _parts(name: str, file: IO[bytes], size: int) -> Iterator[_Part]:
    lines: list[bytes] = []
    held, taken, row = 0, 0, 0
    for line in file:
        if held and (held == size or taken > _BYTES_AT_ONCE) and _is_row(line):
            yield _parse(name, io.BytesIO(b"".join(lines)), row)
            row += held
            lines, held, taken = [], 0, 0
        lines.append(line)
        held += _is_row(line)
        taken += len(line)
    if held:
        yield _parse(name, io.BytesIO(b"".join(lines)), row)


def _is_row(line: bytes) -> bool:
    return bool(line.partition(b"#")[0].strip())


def _parse(name: str, file: IO[bytes], first: int) -> _Part:
    """Parse text that starts with row `first` of the file."""
    from sklearn.datasets import load_svmlight_file

    rows = f"rows {first + 1} and later"
    try:
        sparse, y = load_svmlight_file(file, dtype=np.float64, zero_based=True)
    except (ValueError, OverflowError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"{name}, {rows}: not LIBSVM text: {reason}") from None
    file.seek(0)
    for line in file:
        if b"_" in line.partition(b"#")[0]:  # float() reads 1_0 as 10
            raise DataError(f"{name}, {rows}: a number contains an underscore: {line[:80]!r}")
    for row in np.flatnonzero(~np.isfinite(y))[:1].tolist():
        raise DataError(
            f"{name}: the label of row {first + row + 1} is {y[row]}, not a finite number"
        )
    return _Part(sparse, y)
