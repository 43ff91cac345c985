"""Tables in Parquet files; the type of a column is the same in every batch."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from carvegbm.data.csv import label_column
from carvegbm.data.frames import frame_numbers, is_index
from carvegbm.data.rows import ObjectTable
from carvegbm.data.table import ReadOptions, Table
from carvegbm.errors import DataError

__all__ = ["parquet_batches", "parquet_length"]

_SAFE = (14, 0, 1)  # the first pyarrow that does not run code from Parquet files
_BYTES_AT_ONCE = 1 << 20  # of a column that is read


def parquet_batches(
    name: str, file: IO[bytes], options: ReadOptions, size: int | None
) -> Iterator[Table]:
    """Yield at most `size` rows at a time; all rows if `size` is None."""
    pyarrow, first = _import_pyarrow(name), 0
    with _opened(name, file) as content:
        if size is None:
            yield _table(name, content.read(), options, first)
            return
        for batch in content.iter_batches(batch_size=size):
            if batch.num_rows:
                yield _table(name, pyarrow.Table.from_batches([batch]), options, first)
            first += batch.num_rows


def parquet_length(name: str, file: IO[bytes]) -> int:
    """Return the number of rows without reading them."""
    with _opened(name, file) as content:
        return int(content.metadata.num_rows)


def _import_pyarrow(name: str) -> Any:
    """Return pyarrow.parquet; refuse versions that run code from files."""
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
    return pyarrow


@contextmanager
def _opened(name: str, file: IO[bytes]) -> Iterator[Any]:
    pyarrow = _import_pyarrow(name)
    # Without these buffers and with reading ahead, whole row groups would be in memory.
    options: dict[str, Any] = {"pre_buffer": False, "buffer_size": _BYTES_AT_ONCE}
    reader = pyarrow.parquet.ParquetFile
    if "page_checksum_verification" in inspect.signature(reader.__init__).parameters:
        options["page_checksum_verification"] = True
    try:
        yield reader(file, **options)
    except (pyarrow.ArrowException, OSError) as error:
        raise DataError(f"{name}: damaged Parquet file: {error}") from None


def _table(name: str, content: Any, options: ReadOptions, first: int) -> Table:
    """Convert Arrow data that begins with row `first` of the file."""
    places = [place for place, column in enumerate(content.column_names) if not is_index(column)]
    names = [content.column_names[place] for place in places]
    at = label_column(name, names, len(names), options.label)
    y, label_name = np.zeros(content.num_rows), None
    if at is not None:
        column, label_name = content.column(places.pop(at)), names.pop(at)
        if column.null_count:
            row = first + column.is_null().to_pylist().index(True)
            raise DataError(f"{name} row {row}: the label in column {label_name!r} is missing")
        y = np.array(column.to_pylist())
    chosen = [i for i in options.categorical(names) if i < len(names)]
    numeric = [i for i in range(len(names)) if i not in chosen]
    numbers = frame_numbers(
        content.select([places[i] for i in numeric]), [names[i] for i in numeric], name
    )
    X: Any = numbers
    if chosen:
        columns = dict(zip(numeric, numbers.T, strict=True))
        for i in chosen:
            columns[i] = np.array([*content.column(places[i]).to_pylist(), None], dtype=object)[:-1]
        X = ObjectTable(tuple(names), tuple(columns[i] for i in range(len(names))))
    return Table(X, y, tuple(names), label_name)
