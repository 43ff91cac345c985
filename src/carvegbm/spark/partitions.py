"""What runs on executors: the batches of one partition in, answers or totals out.

A batch is answered before the next one is taken, so that no partition is ever in memory as a whole.
A row is counted within its partition, a partition as `spark_partition_id` does.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark import TaskContext

from carvegbm.errors import CarveError, DataError
from carvegbm.parts.questions import Kinds, Question
from carvegbm.spark.columns import Layout
from carvegbm.totals import Columns, Totals

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Here", "Sent", "added_up", "answered", "columns_of", "totals_of_answers", "whole"]


@dataclass(frozen=True)
class Here:
    """Stands for a broadcast where there is none: the value travels with the tasks."""

    value: Any


@dataclass(frozen=True)
class Sent:
    """A question on its way to partitions."""

    broadcast: Any
    """Whose value is a `Shipped`."""
    layout: Layout
    threads: int | None

    def opened(self) -> Question:
        """The question; made once in a process, which Spark keeps for many tasks."""
        question: Question = self.broadcast.value.opened()
        return question

    def parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Every batch, with the columns of the answer about it."""
        context, first = TaskContext.get(), 0
        assert context is not None
        threads = context.cpus() if self.threads is None else self.threads
        for batch in batches:
            if batch.num_rows == 0:
                continue
            with _named(context.partitionId(), first):
                question = self.opened()
                X, y = _rows(self.layout, batch, question.problem.ensemble.n_features)
                found = question.answer(X, y, threads=threads)
            yield batch, found
            first += batch.num_rows


def answered(sent: Sent, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What is kept of every batch, and then the answer."""
    import pyarrow as pa

    for batch, found in sent.parts(batches):
        kept, kinds = sent.layout.kept, sent.opened().kinds()
        yield pa.RecordBatch.from_arrays(
            [*(batch.column(place) for place in range(len(kept))), *_arrow(found, kinds)],
            names=[*kept, *kinds],
        )


def totals_of_answers(
    sent: Sent, of: Callable[[Columns], Totals], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """One row for the partition: the totals of its answers, which go no further."""
    answers = (found for _, found in sent.parts(batches))
    return added_up(of, answers, lambda: sent.opened().kinds())


def added_up(
    of: Callable[[Columns], Totals], parts: Iterable[Columns], kinds: Callable[[], Kinds]
) -> Iterator[pa.RecordBatch]:
    """One row: the totals of all these parts; of none, if there are none."""
    whole: Totals | None = None
    for columns in parts:
        found = of(columns)
        whole = found if whole is None else whole.plus(found)
    if whole is None:
        whole = of({name: np.empty(0, dtype=kind) for name, kind in kinds().items()})
    yield _packed(whole)


def whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows with totals in, one row with their sum out; none if there are none."""
    found: Totals | None = None
    for batch in batches:
        for content in batch.column(0).to_pylist():
            one: Totals = pickle.loads(content)
            found = one if found is None else found.plus(one)
    if found is not None:
        yield _packed(found)


def columns_of(batch: pa.RecordBatch) -> dict[str, npt.NDArray[Any]]:
    """The columns of an answer, as they were before they became Arrow's."""
    return {
        name: batch.column(place).to_numpy(zero_copy_only=False)
        for place, name in enumerate(batch.schema.names)
    }


def _packed(totals: Totals) -> pa.RecordBatch:
    import pyarrow as pa

    content = pa.array([pickle.dumps(totals, protocol=5)], pa.binary())
    return pa.RecordBatch.from_arrays([content], names=["totals"])


@contextmanager
def _named(partition: int, first: int) -> Iterator[None]:
    """Errors say which partition they are about, and where the rows they name begin."""
    try:
        yield
    except CarveError as error:
        where = f"partition {partition}" + (f", rows counted from its row {first}" if first else "")
        kind = DataError if isinstance(error, DataError) else CarveError
        raise kind(f"{where}: {error}") from None


def _rows(layout: Layout, batch: pa.RecordBatch, n_features: int) -> tuple[Any, Any]:
    """X and y of a batch; y is None where there are no labels."""
    import pyarrow as pa

    y = None if layout.label is None else _labels_of(batch.column(layout.label))
    columns = [batch.column(place) for place in layout.features]
    if layout.is_array:
        return _matrix(columns[0], n_features, layout.names[0]), y
    return pa.Table.from_arrays(columns, names=list(layout.names)), y


def _labels_of(column: Any) -> npt.NDArray[Any]:
    """A column of labels, each of which must be there."""
    if column.null_count:
        row = int(np.argmax(_to_numpy(column.is_null())))
        raise DataError(f"y has no label in row {row}, it is null; leave the row out")
    return _to_numpy(column)


def _matrix(column: Any, n_features: int, name: str) -> npt.NDArray[Any]:
    """A column of arrays as rows; a null in one is a missing value."""
    import pyarrow.compute

    lengths = pyarrow.compute.list_value_length(column).fill_null(-1).to_numpy()
    if (lengths != n_features).any():
        row = int(np.argmax(lengths != n_features))
        there = "is null" if lengths[row] < 0 else f"has {lengths[row]} values"
        raise DataError(
            f"X row {row}: {name!r} {there}, the model has {n_features} features; "
            "leave the row out, or complete it"
        )
    # Several chunks may hold more values than one of Arrow's arrays can.
    values = [_to_numpy(chunk.flatten()) for chunk in getattr(column, "chunks", [column])]
    return np.concatenate(values).reshape(len(column), n_features)


def _to_numpy(column: Any) -> npt.NDArray[Any]:
    """An array of Arrow's, or a chunked one; a null among numbers is NaN."""
    is_chunked = hasattr(column, "chunks")
    found: npt.NDArray[Any] = column.to_numpy(**({} if is_chunked else {"zero_copy_only": False}))
    return found


def _arrow(found: dict[str, npt.NDArray[Any]], kinds: Kinds) -> list[pa.Array]:
    """The columns of an answer as Spark takes them: null where there is nothing to say.

    To Spark, NaN is larger than all numbers: a radius that is not known would be beyond all limits.
    """
    import pyarrow as pa

    of = {str: pa.string(), bool: pa.bool_(), float: pa.float64(), object: pa.string()}
    columns = []
    for name, kind in kinds.items():
        values = found[name]
        if kind is object:
            texts = [label if label is None else str(label) for label in values.tolist()]
            values = np.array([*texts, None], dtype=object)[:-1]
        columns.append(pa.array(values, of[kind], from_pandas=True))
    return columns
