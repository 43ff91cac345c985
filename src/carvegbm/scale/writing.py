"""Write blocks of answers to one Parquet or CSV file, which is complete or not there.

Labels of categories are written as text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.scale.query import ColumnKinds
from carvegbm.storage.files import csv_writer, replacing
from carvegbm.totals import Columns

__all__ = ["Format", "as_texts", "check_format", "writing"]

Format = Literal["parquet", "csv"]

Write = Callable[[Columns], None]


def check_format(found: Format) -> None:
    """Refuse Parquet without pyarrow before any work is done."""
    if found == "parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise CarveError(
                "Parquet needs pyarrow; pip install 'carvegbm[parquet]', or give --format csv"
            ) from None


@contextmanager
def writing(target: Path | None, kinds: ColumnKinds) -> Iterator[Write]:
    """Yield a function that writes the columns of a block; without a target it writes nothing."""
    if target is None:
        yield lambda _: None
        return
    opened = csv_writer if target.suffix == ".csv" else _parquet
    with replacing(target) as temporary, opened(temporary, kinds) as write:
        yield write


@contextmanager
def _parquet(path: Path, kinds: ColumnKinds) -> Iterator[Write]:
    import pyarrow
    from pyarrow import parquet

    types = {str: pyarrow.string(), bool: pyarrow.bool_(), float: pyarrow.float64()}
    schema = pyarrow.schema([(name, types.get(kind, types[str])) for name, kind in kinds.items()])
    with parquet.ParquetWriter(path, schema) as writer:

        def write(columns: Columns) -> None:
            arrays = [
                pyarrow.array(
                    as_texts(columns[name]) if kind is object else columns[name], its_type
                )
                for (name, kind), its_type in zip(kinds.items(), schema.types, strict=True)
            ]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))

        yield write


def as_texts(labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return labels as texts, so that a column has one type in all blocks; None stays."""
    texts = [label if label is None else str(label) for label in labels.tolist()]
    return np.array([*texts, None], dtype=object)[:-1]
