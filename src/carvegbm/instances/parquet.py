"""Tables in Parquet files.

Comes in: an open file. Goes out: a `Table` of all rows, or of some at a time. What a column holds
is said by its type, so that it is the same in every part.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from carvegbm.errors import DataError
from carvegbm.instances.frames import frame_numbers, is_index
from carvegbm.instances.mixed import Mixed
from carvegbm.instances.table import Table
from carvegbm.instances.text import Categorical, label_column

__all__ = ["parquet_batches", "parquet_length", "read_parquet"]

Label = str | int | None

_SAFE = (14, 0, 1)
"""The first pyarrow that does not open pickles in Parquet files."""

_BYTES_AT_ONCE = 1 << 20
"""Of a column, on the way from disk."""


def read_parquet(name: str, file: IO[bytes], label: Label, categorical: Categorical) -> Table:
    """Features and labels of all rows."""
    with _arrow(name) as parquet:
        content = parquet.read_table(file, **_checksums(parquet.read_table))
    return _table(name, content, label, categorical)


def parquet_batches(
    name: str, file: IO[bytes], label: Label, categorical: Categorical, size: int
) -> Iterator[Table]:
    """The same, at most `size` rows at a time; only the last may have fewer."""
    with _opened(name, file) as content:
        for first, table in _of_size(content, size):
            yield _table(name, table, label, categorical, first)


def parquet_length(name: str, file: IO[bytes]) -> int:
    """How many rows there are; none of them is read."""
    with _opened(name, file) as content:
        return int(content.metadata.num_rows)


@contextmanager
def _opened(name: str, file: IO[bytes]) -> Iterator[Any]:
    with _arrow(name) as parquet:
        # Buffers of their own for the columns, and no reading ahead: else a row group, or all of
        # them, are in memory before the first row is used.
        options = {"pre_buffer": False, "buffer_size": _BYTES_AT_ONCE}
        yield parquet.ParquetFile(file, **options, **_checksums(parquet.ParquetFile.__init__))


@contextmanager
def _arrow(name: str) -> Iterator[Any]:
    """pyarrow.parquet, and what it says of a damaged file in one line."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError(
            f'{name}: reading Parquet needs pyarrow; pip install "carvegbm[parquet]"'
        ) from None
    if tuple(map(int, re.findall(r"\d+", pyarrow.__version__)[:3])) < _SAFE:
        raise DataError(
            f"{name}: pyarrow {pyarrow.__version__} runs code that a Parquet file holds "
            '(CVE-2023-47248); pip install "carvegbm[parquet]"'
        )
    try:
        yield pyarrow.parquet
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{name}: damaged Parquet file: {error}") from None


def _checksums(function: Any) -> dict[str, bool]:
    """Pages carry checksums where the writer was asked for them; earlier versions read none."""
    option = "page_checksum_verification"
    return {option: True} if option in inspect.signature(function).parameters else {}


def _of_size(content: Any, size: int) -> Iterator[tuple[int, Any]]:
    """Tables of that many rows, whatever the row groups are, and the row each begins with."""
    import pyarrow

    first, held, parts = 0, 0, []
    for batch in content.iter_batches(batch_size=size):
        rest = batch
        while held + rest.num_rows >= size:
            parts.append(rest.slice(0, size - held))
            rest = rest.slice(size - held)
            yield first, pyarrow.Table.from_batches(parts)
            first, held, parts = first + size, 0, []
        if rest.num_rows:
            parts.append(rest)
            held += rest.num_rows
    if parts:
        yield first, pyarrow.Table.from_batches(parts)


def _table(
    name: str, content: Any, label: Label, categorical: Categorical, first: int | None = None
) -> Table:
    places = [place for place, column in enumerate(content.column_names) if not is_index(column)]
    names = [content.column_names[place] for place in places]
    at = label_column(name, names, len(names), label)
    y = content.column(places.pop(at))
    label_name = names.pop(at)
    if y.null_count:
        if first is not None:
            row = first + y.is_null().to_pylist().index(True)
            raise DataError(f"{name} row {row}: the label in column {label_name!r} is missing")
        raise DataError(f"{name}: column {label_name!r}: {y.null_count} labels are missing")
    chosen = [i for i in categorical(names) if i < len(names)]
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
