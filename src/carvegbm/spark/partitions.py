"""Answer one partition of a Spark DataFrame on an executor, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute
from pyspark import TaskContext

from carvegbm.errors import CarveError, DataError
from carvegbm.scale.query import ColumnKinds, PickledQuery
from carvegbm.scale.writing import as_texts
from carvegbm.spark.columns import Layout

__all__ = ["InlineBroadcast", "SparkJob"]


@dataclass(frozen=True)
class InlineBroadcast:
    """Replaces a broadcast where Spark has none: the value travels with every task."""

    value: PickledQuery


@dataclass(frozen=True)
class SparkJob:
    """A query for `mapInArrow`: takes the batches of a partition, yields batches of answers."""

    broadcast: Any
    """Its value is a `PickledQuery`."""
    layout: Layout
    threads: int | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the kept columns and the answers of every batch."""
        context, first = TaskContext.get(), 0
        assert context is not None
        threads = context.cpus() if self.threads is None else self.threads
        for batch in batches:
            if batch.num_rows == 0:
                continue
            try:
                query = self.broadcast.value.query()
                X, y = _rows(self.layout, batch, query.problem.ensemble.n_features)
                found = query.answer(X, y, threads=threads)
            except CarveError as error:
                error.partition = context.partitionId()
                if isinstance(error, DataError) and error.row is not None:
                    error.row += first
                raise
            kept, kinds = self.layout.kept, query.kinds()
            yield pa.RecordBatch.from_arrays(
                [*(batch.column(place) for place in range(len(kept))), *_arrow(found, kinds)],
                names=[*kept, *kinds],
            )
            first += batch.num_rows


def _rows(layout: Layout, batch: pa.RecordBatch, n_features: int) -> tuple[Any, Any]:
    """Return X and y of a batch; y is None without a label column."""
    y = None if layout.label is None else _labels(batch.column(layout.label))
    columns = [batch.column(place) for place in layout.features]
    if layout.is_array:
        return _matrix(columns[0], n_features, layout.names[0]), y
    return pa.Table.from_arrays(columns, names=list(layout.names)), y


def _labels(column: Any) -> npt.NDArray[Any]:
    """Return a column of labels, none of which may be null."""
    if column.null_count:
        row = int(np.argmax(_to_numpy(column.is_null())))
        raise DataError("the label is null; leave the row out", row=row, what="y")
    return _to_numpy(column)


def _matrix(column: Any, n_features: int, name: str) -> npt.NDArray[Any]:
    """Return a column of arrays as a matrix; a null in an array is a missing value."""
    lengths = pyarrow.compute.list_value_length(column).fill_null(-1).to_numpy()
    if (lengths != n_features).any():
        row = int(np.argmax(lengths != n_features))
        length = "is null" if lengths[row] < 0 else f"has {lengths[row]} values"
        raise DataError(
            f"{name!r} {length}, the model has {n_features} features; leave the row out, or "
            "complete it",
            row=row,
        )
    # Several chunks may hold more values than one Arrow array can.
    values = [_to_numpy(chunk.flatten()) for chunk in getattr(column, "chunks", [column])]
    return np.concatenate(values).reshape(len(column), n_features)


def _to_numpy(column: Any) -> npt.NDArray[Any]:
    """Convert an Arrow array, chunked or not; a null among numbers becomes NaN."""
    is_chunked = hasattr(column, "chunks")
    found: npt.NDArray[Any] = column.to_numpy(**({} if is_chunked else {"zero_copy_only": False}))
    return found


def _arrow(found: dict[str, npt.NDArray[Any]], kinds: ColumnKinds) -> list[pa.Array]:
    """Convert answers; NaN becomes null, since Spark ranks NaN above all numbers."""
    types = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), object: pa.string()}
    return [
        pa.array(
            as_texts(found[name]) if kind is object else found[name],
            types[kind],
            from_pandas=True,
        )
        for name, kind in kinds.items()
    ]
