"""Answers on their way to a file, some rows at a time; the file is there whole or not at all.

Comes in: the columns of answers, one batch after the other. Goes out: a Parquet or CSV file of them
all, which is that of the same answers at once. Labels of categories are written as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from carvegbm.errors import CarveError
from carvegbm.parts.questions import Kinds
from carvegbm.storage.files import csv_writer, replacing
from carvegbm.totals import Columns

__all__ = ["Format", "check_format", "writing"]

Format = Literal["parquet", "csv"]

Write = Callable[[Columns], None]


def check_format(found: Format) -> None:
    """Refuse, before any work is done, what could not be written in the end."""
    if found == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise CarveError(
                "Parquet needs pyarrow; pip install 'carvegbm[parquet]', or give --format csv"
            ) from None


@contextmanager
def writing(target: Path | None, kinds: Kinds) -> Iterator[Write]:
    """What to call with the columns of every batch; with None nothing is written."""
    if target is None:
        yield lambda _: None
        return
    opened = csv_writer if target.suffix == ".csv" else _parquet
    with replacing(target) as temporary, opened(temporary, kinds) as write:
        yield write


@contextmanager
def _parquet(path: Path, kinds: Kinds) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    of = {str: pyarrow.string(), bool: pyarrow.bool_(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, of.get(kind, of[str])) for name, kind in kinds.items()])
    with parquet.ParquetWriter(path, schema) as writer:

        def write(columns: Columns) -> None:
            arrays = [
                pyarrow.array(_texts(columns[name]) if kind is object else columns[name], of_kind)
                for (name, kind), of_kind in zip(kinds.items(), schema.types, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        yield write


def _texts(labels: Any) -> Any:
    """Labels of any kind as text, so that a column is of one type in all batches."""
    texts = [label if label is None else str(label) for label in labels.tolist()]
    return np.array([*texts, None], dtype=object)[:-1]
