"""X and y as Dask holds them: the tasks that compute each partition, checked without computing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import pandas as pd
from dask._task_spec import List, TaskRef

from carvegbm.data.names import column_names, order_of
from carvegbm.errors import DataError
from carvegbm.model.ensemble import Ensemble

__all__ = ["Partitions"]


@dataclass(frozen=True, eq=False)
class Partitions:
    """Rows and labels, partition by partition."""

    tasks: dict[Any, Any]
    """The tasks that compute them, by key."""
    nodes: Sequence[Any]
    """Per partition, the graph node of its pair (X, y)."""
    divisions: tuple[Any, ...]
    """Dask's divisions of the index."""
    starts: Sequence[int | None]
    """Per partition of an array, the position of its first row; None if it is not known."""
    index: pd.Index
    """An empty index of the type of X's."""
    name: str
    """Identifies X and y; part of the keys of all tasks."""

    @classmethod
    def of(cls, X: Any, y: Any, ensemble: Ensemble) -> Partitions:
        """Plan X and y; refuse what does not fit the model, as far as Dask knows it."""
        X, y = _instances(X, ensemble), _labels(y)
        _check_side_by_side(X, y)
        if isinstance(X, dd.DataFrame) and isinstance(y, dd.Series):
            # Together, so that their common inputs are computed once.
            pairs = X.map_partitions(_pair, y, meta=X._meta, enforce_metadata=False)
            tasks, keys, name = _planned(pairs)
            nodes: list[Any] = [TaskRef(key) for key in keys]
        else:
            tasks, keys, name = _planned(X)
            others: list[Any] = [None] * len(keys)
            if y is not None:
                more, of_y, name_of_y = _planned(y)
                tasks, name = {**tasks, **more}, f"{name} {name_of_y}"
                others = [TaskRef(key) for key in of_y]
            nodes = [List(TaskRef(x), other) for x, other in zip(keys, others, strict=True)]
        if isinstance(X, dd.DataFrame):
            starts: list[int | None] = [None] * len(keys)
            return cls(tasks, nodes, tuple(X.divisions), starts, X._meta.index[:0], name)
        starts, divisions = _positions(X.chunks[0])
        return cls(tasks, nodes, divisions, starts, pd.RangeIndex(0), name)

    def __len__(self) -> int:
        return len(self.nodes)


def _pair(X: Any, y: Any) -> tuple[Any, Any]:
    return X, y


def _whole_rows(X: Any) -> Any:
    """Return X with all columns of a row in one chunk."""
    if isinstance(X, da.Array):
        if X.ndim != 2:
            raise DataError(f"X must have two dimensions (rows, features), got {X.ndim}")
        return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
    if not isinstance(X, dd.DataFrame):
        raise DataError(
            f"X must be a Dask DataFrame or Array, got {type(X).__name__}; for data in memory "
            "use the functions of carvegbm"
        )
    return X


def _instances(X: Any, ensemble: Ensemble) -> Any:
    """Return X with all columns of a row in one chunk; refuse a wrong number of columns."""
    X = _whole_rows(X)
    columns = X.shape[1]
    if isinstance(X, dd.DataFrame):
        names = column_names(X._meta) or []
        columns = len(names)
        if ensemble.feature_names is not None:
            order_of(names, ensemble.feature_names, "X")
    if not math.isnan(columns) and columns != ensemble.n_features:
        raise DataError(f"X has {columns} columns, the model has {ensemble.n_features} features")
    return X


def _labels(y: Any) -> Any:
    """Return labels as a Dask Series or an Array of one dimension."""
    if isinstance(y, dd.DataFrame):
        if len(y.columns) != 1:
            raise DataError(f"y must be one value per row, got {len(y.columns)} columns")
        return y[y.columns[0]]
    if isinstance(y, da.Array):
        if y.ndim == 2 and y.shape[1] == 1:
            return y[:, 0]
        if y.ndim != 1:
            raise DataError(f"y must be one value per row, got an array of {y.ndim} dimensions")
    elif y is not None and not isinstance(y, dd.Series):
        raise DataError(
            f"y must be a Dask Series, Array or DataFrame of one column, got {type(y).__name__}"
        )
    return y


def _check_side_by_side(X: Any, y: Any) -> None:
    """Refuse labels with other partitions than X, as far as Dask knows them."""
    if y is None:
        return
    remedy = "cut both alike, with repartition or rechunk"
    if X.npartitions != y.npartitions:
        raise DataError(f"X has {X.npartitions} partitions, y has {y.npartitions}; {remedy}")
    if isinstance(X, da.Array) and isinstance(y, da.Array):
        for number, (rows, labels) in enumerate(zip(X.chunks[0], y.chunks[0], strict=True)):
            if rows != labels and not math.isnan(rows) and not math.isnan(labels):
                raise DataError(f"partition {number}: X has {rows} rows, y has {labels}; {remedy}")
    both_known = all(getattr(one, "known_divisions", False) for one in (X, y))
    if both_known and tuple(X.divisions) != tuple(y.divisions):
        raise DataError(f"X and y have partitions of other divisions; {remedy}")


def _planned(collection: Any) -> tuple[dict[Any, Any], list[Any], str]:
    """Return the tasks of a collection, the keys of its partitions in order, and its name."""
    if isinstance(collection, da.Array):
        (plan,) = dask.optimize(collection)
        keys = [row[0] if plan.ndim == 2 else row for row in plan.__dask_keys__()]
        return dict(plan.__dask_graph__()), keys, plan.name
    # Tuning would join small partitions of files, so that they no longer match those of labels
    # from elsewhere, nor the numbers in messages.
    with dask.config.set({"optimization.tune.active": False}):
        plan = collection.optimize()
    return dict(plan.__dask_graph__()), list(plan.__dask_keys__()), str(plan._name)


def _positions(chunks: Sequence[float]) -> tuple[list[int | None], tuple[Any, ...]]:
    """Return the first rows of an array's chunks, and the divisions of an index of its rows.

    Examples
    --------
    >>> _positions((2, 3, 0))
    ([0, 2, 5], (0, 2, 4, 4))
    >>> _positions((2, float("nan")))
    ([None, None], (None, None, None))
    """
    if any(math.isnan(rows) for rows in chunks):
        return [None] * len(chunks), (None,) * (len(chunks) + 1)
    starts: list[int | None] = []
    total = 0
    for rows in chunks:
        starts.append(total)
        total += int(rows)
    last = max(total - 1, 0)
    return starts, (*(min(start or 0, last) for start in starts), last)
