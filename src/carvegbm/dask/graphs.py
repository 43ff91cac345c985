"""Graphs: the tasks that answer a question about partitions.

Comes in: a question and partitions. Goes out: a Dask DataFrame of answers, and a Dask Scalar of
their totals. Both rest on the same tasks, one per partition, which find both; so who computes both
at once asks every partition once. The question is one value in the graph, which every worker gets
and opens once; totals are added up in a tree, on the workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import getitem
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask._task_spec import DataNode, Task, TaskRef
from dask.base import tokenize

from carvegbm.dask.partitions import Partitions
from carvegbm.data.rows import check_threads
from carvegbm.engines import engine_schedule
from carvegbm.errors import CarveError, DataError
from carvegbm.parts.questions import Kinds, Question
from carvegbm.parts.shipping import Shipped
from carvegbm.totals import Columns, Totals, added

__all__ = ["asked"]

_ADDED_AT_ONCE = 16


def asked(question: Question, X: Any, y: Any, threads: int | None) -> tuple[Any, Any]:
    """The answers, a Dask DataFrame, and their totals, a Dask Scalar; nothing is computed.

    `threads` are those of one task; 1 by default, since a worker runs a task per thread.
    """
    threads = 1 if threads is None else check_threads(threads)
    engine_schedule(question.task)  # reject the query here, not on a worker
    partitions = Partitions.of(X, y, question.problem.ensemble)
    shipped = Shipped.of(question)
    verb = type(question).__name__.lower()
    token = tokenize(partitions.name, shipped.token, shipped.version, threads)

    name = f"question-{token}"
    tasks = {**partitions.tasks, name: DataNode(name, shipped)}
    answered = [(f"{verb}-{token}", number) for number in range(len(partitions))]
    for key, node, start in zip(answered, partitions.nodes, partitions.starts, strict=True):
        tasks[key] = Task(key, _answered, TaskRef(name), node, key[1], start, threads)

    frames = {
        (f"{verb}-answers-{token}", number): (_framed, TaskRef(name), TaskRef(key))
        for number, key in enumerate(answered)
    }
    answers = dd.from_graph(
        _Graph(f"answers {token}", tasks, frames),
        _frame(_nothing(question.kinds()), question.kinds(), partitions.index),
        partitions.divisions,
        list(frames),
        f"{verb}-answers",
    )
    sums = _sums(f"{verb}-totals-{token}", answered)
    totals = dd.from_graph(
        _Graph(f"totals {token}", tasks, sums),
        question.totals(_nothing(question.kinds())),
        (None, None),
        [next(reversed(sums))],
        f"{verb}-totals",
    )
    return answers, totals


class _Graph(Mapping[Any, Any]):
    """Tasks that go by a name of their own: to hash thousands of them takes seconds."""

    def __init__(
        self, token: str, base: Mapping[Any, Any], calls: Mapping[Any, tuple[Any, ...]]
    ) -> None:
        self._token = token
        self._tasks = {**base, **{key: Task(key, *call) for key, call in calls.items()}}

    def __getitem__(self, key: Any) -> Any:
        return self._tasks[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    def __dask_tokenize__(self) -> str:
        return self._token


def _sums(name: str, answered: list[Any]) -> dict[Any, tuple[Any, ...]]:
    """Calls that add up the totals of all partitions; the last one's are those of all."""
    calls: dict[Any, tuple[Any, ...]] = {
        (name, 0, number): (getitem, TaskRef(key), 2) for number, key in enumerate(answered)
    }
    level, keys = 0, list(calls)
    while len(keys) > _ADDED_AT_ONCE:
        level += 1
        groups = [keys[i : i + _ADDED_AT_ONCE] for i in range(0, len(keys), _ADDED_AT_ONCE)]
        keys = [(name, level, number) for number in range(len(groups))]
        for key, group in zip(keys, groups, strict=True):
            calls[key] = (_plus, *map(TaskRef, group))
    calls[name, level + 1, 0] = (_all, *map(TaskRef, keys))
    return calls


# ── what workers do ──────────────────────────────────────────────────────────────────────────


def _answered(
    shipped: Shipped, part: tuple[Any, Any], number: int, start: int | None, threads: int
) -> tuple[Columns, pd.Index, Totals]:
    """The answers about one partition, its index, and their totals."""
    question: Question = shipped.opened()
    X, y = part
    try:
        if y is not None and len(y) != X.shape[0]:
            raise DataError(
                f"X has {X.shape[0]} rows, y has {len(y)}; cut both alike, with repartition or "
                "rechunk"
            )
        columns = question.answer(X, y, threads=threads)
    except CarveError as error:
        error.args = (f"partition {number}: {error}", *error.args[1:])
        raise
    index = X.index if hasattr(X, "index") else pd.RangeIndex(X.shape[0]) + (start or 0)
    return columns, index, question.totals(columns)


def _framed(shipped: Shipped, answered: tuple[Columns, pd.Index, Totals]) -> pd.DataFrame:
    """The answers as a frame, which takes a while and is not needed for totals alone."""
    question: Question = shipped.opened()
    return _frame(answered[0], question.kinds(), answered[1])


def _frame(columns: Columns, kinds: Kinds, index: pd.Index) -> pd.DataFrame:
    """The columns, of the same types whatever they hold."""
    return pd.DataFrame(
        {
            # pandas would take labels for text where it meets no others.
            name: pd.Series(columns[name], index=index, dtype=object if kind is object else None)
            for name, kind in kinds.items()
        },
        index=index,
    )


def _nothing(kinds: Kinds) -> Columns:
    return {name: np.empty(0, dtype=kind) for name, kind in kinds.items()}


def _plus(*parts: Totals) -> Totals:
    return reduce(lambda one, other: one.plus(other), parts)


def _all(*parts: Totals) -> Totals:
    return added(parts)
