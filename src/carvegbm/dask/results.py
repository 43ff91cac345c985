"""The task graph of a query about partitions, and its lazy results.

There is one task per partition. Answers and totals depend on the same tasks, so that computing both
at once answers every partition once. Totals are merged in a tree, on the workers. The query is one
value in the graph.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from operator import getitem
from typing import Any, Generic, TypeVar

import dask
import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
from dask._task_spec import DataNode, Task, TaskRef
from dask.base import tokenize

from carvegbm.dask.partitions import Partitions
from carvegbm.errors import CarveError, DataError
from carvegbm.radius import Curve
from carvegbm.scale.query import ColumnKinds, PickledQuery, Query, empty_columns
from carvegbm.totals import (
    AttackTotals,
    Columns,
    CurveTotals,
    RadiusTotals,
    RangeTotals,
    Totals,
    VerificationTotals,
    merge_totals,
)

__all__ = [
    "DaskAttack",
    "DaskCurve",
    "DaskOutputRange",
    "DaskRadius",
    "DaskResult",
    "DaskVerification",
    "plan",
]

AnyTotals = TypeVar("AnyTotals", bound=Totals)
AnyResult = TypeVar("AnyResult", bound="DaskResult[Any]")

_MERGED_AT_ONCE = 16


@dataclass(frozen=True, eq=False, repr=False)
class DaskResult(Generic[AnyTotals]):
    """Lazy answers; every access computes them again, unless they are kept by `persist`.

    `dask.compute(result.answers, result.totals)` answers every partition once.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> result = cgd.verify(model, X, y, cg.Attacker("inf", 0.1))
    >>> result.answers.npartitions, result.summary().instances
    (2, 2)
    """

    answers: Any
    """Dask DataFrame with a row per row of X, in its partitions and with its index."""
    totals: Any
    """Dask Scalar: the totals of all rows."""

    def summary(self) -> AnyTotals:
        """Compute the totals of all rows, on the workers."""
        found: AnyTotals = self.totals.compute()
        return found

    def write(self, path: Any, **options: Any) -> AnyTotals:
        """Write the answers as Parquet, one file per partition; return the totals.

        Every partition is answered once, and only its totals leave the worker. The folder must be
        empty or new, so that no file of an earlier run is taken for one of these. Labels of
        categories are written as text.

        Parameters
        ----------
        path : path or URL
            A folder that all workers reach.
        options
            Options of `dask.dataframe.to_parquet`, such as `storage_options` or `write_index`.
        """
        target = os.fspath(path)
        files, folder = fsspec.core.url_to_fs(target, **options.get("storage_options") or {})
        if files.exists(folder) and (not files.isdir(folder) or files.ls(folder)):
            raise CarveError(f"{target} exists; write to a folder that is empty or new")
        written = _with_texts(self.answers).to_parquet(target, compute=False, **options)
        _, totals = dask.compute(written, self.totals)
        found: AnyTotals = totals
        return found

    def persist(self: AnyResult) -> AnyResult:
        """Start computing, and keep answers and totals in the workers' memory."""
        answers, totals = dask.persist(self.answers, self.totals)
        return replace(self, answers=answers, totals=totals)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.answers.npartitions} partitions>"


class DaskVerification(DaskResult[VerificationTotals]):
    """Lazy statuses, see `carvegbm.dask.verify`."""

    @property
    def statuses(self) -> Any:
        """Dask DataFrame: status, right, margin, worst_margin and its bounds, engine, seconds."""
        return self.answers


class DaskAttack(DaskResult[AttackTotals]):
    """Lazy witnesses, see `carvegbm.dask.attack`."""

    @property
    def witnesses(self) -> Any:
        """Dask DataFrame: success, distance, status, borderline, and the witness in columns."""
        return self.answers


class DaskRadius(DaskResult[RadiusTotals]):
    """Lazy radii, see `carvegbm.dask.radius`."""

    @property
    def radii(self) -> Any:
        """Dask DataFrame: radius, and its bounds lower and upper."""
        return self.answers


class DaskCurve(DaskResult[CurveTotals]):
    """A lazy robustness curve, see `carvegbm.dask.robustness_curve`."""

    @property
    def radii(self) -> Any:
        """Dask DataFrame: bounds lower and upper of the radius, as close as the budgets."""
        return self.answers

    def compute(self) -> Curve:
        """Compute the curve."""
        return Curve.of(self.summary())


class DaskOutputRange(DaskResult[RangeTotals]):
    """Lazy ranges of raw scores, see `carvegbm.dask.output_range`."""

    @property
    def ranges(self) -> Any:
        """Dask DataFrame: lowest and highest, the bounds of both, and whether they are exact."""
        return self.answers


def plan(query: Query, X: Any, y: Any) -> tuple[Any, Any]:
    """Return the answers, a Dask DataFrame, and their totals, a Dask Scalar; compute nothing."""
    partitions = Partitions.of(X, y, query.problem.ensemble)
    threads = query.verifier.settings.threads or 1
    pickled, kinds = PickledQuery.of(query), query.kinds()
    token = tokenize(partitions.name, pickled.token, pickled.version, threads)

    shared = f"query-{token}"
    tasks = {**partitions.tasks, shared: DataNode(shared, pickled)}
    answered = [(f"{query.name}-{token}", number) for number in range(len(partitions))]
    for key, node, start in zip(answered, partitions.nodes, partitions.starts, strict=True):
        tasks[key] = Task(key, _answer, TaskRef(shared), node, key[1], start, threads)

    frames = {
        (f"{query.name}-answers-{token}", number): (_to_frame, TaskRef(shared), TaskRef(key))
        for number, key in enumerate(answered)
    }
    answers = dd.from_graph(
        _Graph(f"answers {token}", tasks, frames),
        _frame(empty_columns(kinds), kinds, partitions.index),
        partitions.divisions,
        list(frames),
        f"{query.name}-answers",
    )
    merged = _merge_calls(f"{query.name}-totals-{token}", answered)
    totals = dd.from_graph(
        _Graph(f"totals {token}", tasks, merged),
        query.totals(empty_columns(kinds)),
        (None, None),
        [next(reversed(merged))],
        f"{query.name}-totals",
    )
    return answers, totals


class _Graph(Mapping[Any, Any]):
    """Tasks with a given token, since Dask takes seconds to hash thousands of tasks."""

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


def _merge_calls(name: str, answered: list[Any]) -> dict[Any, tuple[Any, ...]]:
    """Return calls that merge the totals of all partitions; the last one returns the result."""
    calls: dict[Any, tuple[Any, ...]] = {
        (name, 0, number): (getitem, TaskRef(key), 2) for number, key in enumerate(answered)
    }
    level, keys = 0, list(calls)
    while len(keys) > _MERGED_AT_ONCE:
        level += 1
        groups = [keys[i : i + _MERGED_AT_ONCE] for i in range(0, len(keys), _MERGED_AT_ONCE)]
        keys = [(name, level, number) for number in range(len(groups))]
        for key, group in zip(keys, groups, strict=True):
            calls[key] = (_merge, *map(TaskRef, group))
    calls[name, level + 1, 0] = (_merge_all, *map(TaskRef, keys))
    return calls


def _answer(
    pickled: PickledQuery, part: tuple[Any, Any], number: int, start: int | None, threads: int
) -> tuple[Columns, pd.Index, Totals]:
    """Return the answers about one partition, its index, and the totals."""
    query, (X, y) = pickled.query(), part
    try:
        if y is not None and len(y) != X.shape[0]:
            raise DataError(
                f"X has {X.shape[0]} rows, y has {len(y)}; cut both alike, with repartition or "
                "rechunk"
            )
        columns = query.answer(X, y, threads=threads)
    except CarveError as error:
        error.partition = number
        raise
    index = X.index if hasattr(X, "index") else pd.RangeIndex(X.shape[0]) + (start or 0)
    return columns, index, query.totals(columns)


def _to_frame(pickled: PickledQuery, answered: tuple[Columns, pd.Index, Totals]) -> pd.DataFrame:
    """Return the answers as a frame, which totals alone do not need."""
    return _frame(answered[0], pickled.query().kinds(), answered[1])


def _frame(columns: Columns, kinds: ColumnKinds, index: pd.Index) -> pd.DataFrame:
    return pd.DataFrame(
        {
            # Labels stay objects: pandas would otherwise turn columns of texts into strings.
            name: pd.Series(columns[name], index=index, dtype=object if kind is object else None)
            for name, kind in kinds.items()
        },
        index=index,
    )


def _merge(*parts: Totals) -> Totals:
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.plus(part)
    return whole


def _merge_all(*parts: Totals) -> Totals:
    return merge_totals(parts)


def _with_texts(answers: Any) -> Any:
    """Return answers with labels as text, so that Parquet has one type per column."""
    labelled = [name for name, kind in answers.dtypes.items() if kind == np.dtype(object)]
    if not labelled:
        return answers
    return answers.map_partitions(_spell, labelled, meta=_spell(answers._meta, labelled))


def _spell(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    labels = {name: frame[name].map(str, na_action="ignore").astype("string") for name in names}
    return frame.assign(**labels)
