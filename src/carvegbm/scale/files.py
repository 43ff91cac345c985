"""Answer one file of any size in bounded memory, block by block."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.data.files import read_batches
from carvegbm.data.table import FileSchema
from carvegbm.errors import DataError
from carvegbm.scale.query import Query, empty_columns
from carvegbm.scale.writing import writing
from carvegbm.totals import Columns, Totals

__all__ = ["Part", "answer_file", "batch_size"]

OnProgress = Callable[[int], object]
"""Gets the number of rows that were answered since the last call."""

_VALUES = 1 << 21
_MOST_ROWS = 1 << 16
_FIRST_ROWS = 256
_SECONDS = 1.0  # per step, so that progress shows and Ctrl-C loses little


@dataclass(frozen=True)
class Part:
    """A file of rows, and where its answers go.

    Attributes
    ----------
    path : str
        As `carvegbm.load_table` takes it.
    target : path or None
        Its suffix is the format; with None, the answers are only counted.
    rows : int or None
        Only the first so many rows.
    """

    path: str
    target: Path | None = None
    rows: int | None = None


def batch_size(n_features: int) -> int:
    """Return how many dense rows to read at once."""
    return max(1, min(_MOST_ROWS, _VALUES // max(1, n_features)))


def answer_file(
    query: Query,
    schema: FileSchema,
    part: Part,
    *,
    threads: int | None = None,
    size: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Totals:
    """Answer all rows of a file, of which `size` are in memory at a time; return their totals."""
    sparse_size = size
    if size is None:
        size = batch_size(query.problem.ensemble.n_features)
        # The columns of witnesses are dense, whatever the rows are.
        sparse_size = size if query.name == "attack" else _MOST_ROWS
    totals = query.totals(empty_columns(query.kinds()))
    steps = _Steps(query, threads, on_progress)
    options = schema.read_options(part.path)
    with (
        writing(part.target, query.kinds()) as write,
        closing(read_batches(part.path, options, size, sparse_size)) as tables,
    ):
        first = 0
        for batch in tables:
            table = batch if part.rows is None else batch.head(part.rows - first)
            X, y = schema.rows(table, part.path)
            try:
                columns = steps.answer(X, y)
            except DataError as error:
                error.file = part.path
                if error.row is not None:
                    error.row += first
                raise
            write(columns)
            totals = totals.plus(query.totals(columns))
            first += X.shape[0]
            if first == part.rows:
                break
    return totals


class _Steps:
    """Answers batches in steps that take about a second each."""

    def __init__(self, query: Query, threads: int | None, on_progress: OnProgress) -> None:
        self._query, self._threads, self._on_progress = query, threads, on_progress
        self._rows = _FIRST_ROWS

    def answer(self, X: Any, y: Any) -> Columns:
        """Return the columns of the answers about these rows."""
        found, start = [], 0
        while start < X.shape[0]:
            step = slice(start, start + self._rows)
            began = time.monotonic()
            try:
                found.append(self._query.answer(X[step], y[step], threads=self._threads))
            except DataError as error:
                if error.row is not None:
                    error.row += start
                raise
            taken = time.monotonic() - began
            self._on_progress(min(self._rows, X.shape[0] - start))
            start = step.stop
            if taken < _SECONDS / 2:
                self._rows *= 2
            elif taken > _SECONDS * 2:
                self._rows = max(_FIRST_ROWS, self._rows // 2)
        if len(found) == 1:
            return found[0]
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}
