"""One file of instances, of any size: answered some rows at a time, written, totalled.

Comes in: a question, the way from files to rows of its model, and a part: a file and where its
answers go. Goes out: the file of answers, and totals. It needs memory for a batch, and no more; it
can run in any process that sees the files.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from carvegbm.data.files import read_batches
from carvegbm.data.table import FileSchema, Table
from carvegbm.errors import DataError
from carvegbm.parts.questions import Attack, Question
from carvegbm.parts.writing import writing
from carvegbm.totals import Columns, Totals

__all__ = ["Part", "answer_part", "batch_size", "nothing"]

Tell = Callable[[int], object]
"""Gets the number of rows that have been answered since the last call."""

_NUMBERS = 1 << 21
_MOST_ROWS = 1 << 16
_FIRST_STEP = 256
_SECONDS = 1.0
"""That rows answered at once should take, so that progress can be seen and Ctrl-C loses little."""


@dataclass(frozen=True)
class Part:
    """A file of instances, and where its answers go.

    Attributes
    ----------
    path : str
        As `carvegbm.load_table` takes it.
    target : path or None
        Its suffix is the format; None where answers are only counted.
    rows : int or None
        Only the first so many.
    """

    path: str
    target: Path | None = None
    rows: int | None = None

    def absolute(self) -> Part:
        """The same part for a process elsewhere, that sees the same files."""
        path = self.path
        if not Path(path).exists() and "," in path:  # two files, see `load_table`
            path = ",".join(map(os.path.abspath, path.split(",", 1)))
        else:
            path = os.path.abspath(path)
        return replace(self, path=path, target=self.target and self.target.absolute())


def batch_size(n_features: int) -> int:
    """How many rows to read at once."""
    return max(1, min(_MOST_ROWS, _NUMBERS // max(1, n_features)))


def nothing(question: Question) -> Columns:
    """The columns of an answer about no rows."""
    return question.answer(np.empty((0, 0)))


def answer_part(
    question: Question,
    matching: FileSchema,
    part: Part,
    *,
    threads: int | None = None,
    size: int | None = None,
    tell: Tell | None = None,
) -> Totals:
    """Answer a question about all rows of a file, `size` of them in memory at a time."""
    if size is None:
        size = batch_size(question.problem.ensemble.n_features)
        # Columns of witnesses are dense, whatever the rows are.
        sparse_size = size if isinstance(question, Attack) else _MOST_ROWS
    else:
        sparse_size = size
    tell = tell or (lambda _: None)
    totals = question.totals(nothing(question))
    steps = _Steps(question, threads, tell)
    with (
        writing(part.target, question.kinds()) as write,
        closing(_tables(matching, part, size, sparse_size)) as tables,
    ):
        first = 0
        for table in tables:
            X, y = matching.rows(table, part.path)
            try:
                columns = steps.answer(X, y)
            except DataError as error:
                raise _placed(error, question, X, y, part.path, first) from None
            write(columns)
            totals = totals.plus(question.totals(columns))
            first += X.shape[0]
    return totals


def _tables(
    matching: FileSchema, part: Part, size: int, sparse_size: int
) -> Generator[Table, None, None]:
    left = part.rows
    options = matching.read_options(part.path)
    with closing(read_batches(part.path, options, size, sparse_size)) as tables:
        for table in tables:
            if left is not None and len(table.y) >= left:
                yield table.head(left)
                return
            yield table
            left = None if left is None else left - len(table.y)


class _Steps:
    """Batches answered in steps that are as large as can be within about a second."""

    def __init__(self, question: Question, threads: int | None, tell: Tell) -> None:
        self._question, self._threads, self._tell = question, threads, tell
        self._rows = _FIRST_STEP

    def answer(self, X: Any, y: Any) -> Columns:
        """The columns of the answer about these rows."""
        found, start = [], 0
        while start < X.shape[0]:
            which = slice(start, start + self._rows)
            began = time.monotonic()
            found.append(self._question.answer(X[which], y[which], threads=self._threads))
            taken = time.monotonic() - began
            self._tell(min(self._rows, X.shape[0] - start))
            start = which.stop
            if taken < _SECONDS / 2:
                self._rows *= 2
            elif taken > _SECONDS * 2:
                self._rows = max(_FIRST_STEP, self._rows // 2)
        if len(found) == 1:
            return found[0]
        return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _placed(
    error: DataError, question: Question, X: Any, y: Any, path: str, first: int
) -> DataError:
    """The error, with the row of the file that it is about, if it is about one.

    Steps count rows from where they begin; so the first row that is refused is looked for.
    """
    refused: dict[int, DataError] = {}

    def is_refused(which: slice) -> bool:
        try:
            question.problem.rows(X[which], y[which], 1)
        except DataError as found:
            refused[which.stop - which.start] = found
            return True
        return False

    good, bad = 0, X.shape[0]  # the first `good` rows are, the first `bad` are not
    if not is_refused(slice(0, bad)):
        return DataError(f"{path}: {error}")
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if is_refused(slice(0, middle)) else (middle, bad)
    if not is_refused(slice(bad - 1, bad)):
        return DataError(f"{path}: {error}")
    said = str(refused[1])
    without = _OF_ROW.sub("", said, count=1)
    if without == said:
        return DataError(f"{path}: {said}")
    return DataError(f"{path} row {first + bad - 1}: {without}")


_OF_ROW = re.compile(r"^X row 0[,:] | in row 0(?=;)|,? row 0(?=:)")
"""How messages say that they are about the first row of what was given."""
