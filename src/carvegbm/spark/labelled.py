"""Labelled rows of a Spark DataFrame: chosen on the driver, read by the task that trains on them.

Comes in: a DataFrame and the names of its columns; on an executor, the batches of one partition.
Goes out: the columns that tasks need, and what each of them is (`Chosen`); the rows of a partition
as training takes them (`Labelled`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import types as T  # noqa: N812

from carvegbm.errors import DataError
from carvegbm.spark.columns import (
    LABELS_MUST_BE,
    NUMBERS,
    Names,
    array_column,
    as_array,
    called,
    names_of,
    quoted,
    refuse_doubles,
    require_frame,
    require_kind,
)
from carvegbm.spark.partitions import labels_of, matrix
from carvegbm.training.teams.member import Part

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Chosen", "Columns", "Labelled", "choose", "frame", "read"]

_LABELS = (T.IntegralType, T.FloatType, T.DoubleType, T.BooleanType, T.StringType)


@dataclass(frozen=True)
class Columns:
    """What a user calls the columns to train on."""

    features: str | Names
    label: str
    weight: str | None
    validation: str | None


@dataclass(frozen=True)
class Chosen:
    """What the columns are that tasks get: features, label, then weight and validation if any."""

    names: tuple[str, ...]
    """Of the features; or of the column of arrays that holds them all."""
    is_array: bool
    label: str
    label_type: Any
    weight: str | None
    validation: str | None

    @property
    def features(self) -> str | list[str]:
        """As `carvegbm.spark.verify` takes them."""
        return self.names[0] if self.is_array else list(self.names)


def choose(df: Any, columns: Columns) -> tuple[Any, Chosen]:
    """The columns that tasks need, and what they are."""
    require_frame(df)
    there = list(df.columns)
    array = array_column(df, columns.features, "features_col")
    given = names_of(columns.features, "features_col") if array is None else [array]
    names = [called(name, there, "features_col") for name in given]
    label = called(columns.label, there, "label_col")
    weight = None if columns.weight is None else called(columns.weight, there, "weight_col")
    marks = columns.validation
    marks = None if marks is None else called(marks, there, "validation_indicator_col")
    chosen = Chosen(
        tuple(names), array is not None, label, df.schema[label].dataType, weight, marks
    )
    rest = [label, *(name for name in (weight, marks) if name is not None)]
    _check_kinds(df, chosen)
    for name in [*names, *rest]:
        if [*names, *rest].count(name) > 1:
            raise DataError(f"column {name!r} is named twice; it can serve as one thing alone")
    refuse_doubles(df, [*names, *rest])
    used = [as_array(df, array).cast("array<double>")] if array else [quoted(n) for n in names]
    used.append(quoted(label))
    if weight is not None:
        used.append(quoted(weight).cast("double"))
    if marks is not None:
        used.append(quoted(marks))
    # mapInArrow looks columns up by their names, and takes a dot in one for a path.
    return df.select(*(column.alias(f"c{i}") for i, column in enumerate(used))), chosen


def _check_kinds(df: Any, chosen: Chosen) -> None:
    def require(name: str | None, kinds: tuple[type, ...], what: str) -> None:
        if name is not None:
            require_kind(df, name, kinds, what)

    if not chosen.names:
        raise DataError("features_col names no column")
    for name in () if chosen.is_array else chosen.names:
        require(name, (*NUMBERS, T.StringType), "features must be numbers, or texts for categories")
    require(chosen.label, _LABELS, LABELS_MUST_BE)
    require(chosen.weight, NUMBERS, "weights must be numbers")
    require(chosen.validation, (T.BooleanType,), "what marks validation rows must be boolean")


# ── on executors ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Labelled:
    """The rows of a partition."""

    X: Any
    y: npt.NDArray[Any]
    weight: npt.NDArray[np.float64] | None
    is_validation: npt.NDArray[np.bool_]

    @property
    def width(self) -> int:
        """The number of features."""
        return int(self.X.shape[1])

    def labels(self) -> dict[str, list[str]]:
        """The labels of every column that holds categories."""
        if not hasattr(self.X, "iloc"):
            return {}
        kinds = self.X.dtypes.items()
        return {n: kind.categories.tolist() for n, kind in kinds if hasattr(kind, "categories")}

    def relabelled(self, labels: Mapping[str, Sequence[str]]) -> Labelled:
        """The same with these labels for its categories, among which its own are."""
        X = self.X
        for name, known in labels.items():
            X = X.assign(**{name: X[name].cat.set_categories(list(known))})
        return replace(self, X=X)

    def part(self, number: int, *, is_validation: bool) -> Part:
        """The rows to train on, or those to watch."""
        here = np.flatnonzero(self.is_validation == is_validation)
        X = self.X.iloc[here] if hasattr(self.X, "iloc") else self.X[here]
        return Part(number, X, self.y[here], None if self.weight is None else self.weight[here])


def read(chosen: Chosen, batches: Iterable[pa.RecordBatch]) -> Labelled | None:
    """The rows of a partition; None if there are none."""
    import pyarrow as pa

    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return None
    columns = iter(pa.Table.from_batches(held).columns)
    features = [next(columns) for _ in chosen.names]
    if chosen.is_array:
        first = features[0][0].as_py()
        width = 0 if first is None else len(first)
        X: Any = matrix(features[0], width, chosen.names[0], "row 0")
    else:
        X = frame(features, chosen.names, as_categories=True)
    y = labels_of(next(columns))
    weight = None if chosen.weight is None else next(columns).to_numpy()
    marks = np.zeros(len(y), dtype=bool)
    if chosen.validation is not None:
        column = next(columns)
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy()))
            raise DataError(f"{chosen.validation!r} is null in row {row}; say true or false")
        marks = column.to_numpy()
    return Labelled(X, y, weight, marks)


def frame(columns: Sequence[Any], names: Sequence[str], *, as_categories: bool = False) -> Any:
    """A pandas DataFrame of Arrow's columns: numbers, and texts, which may become categories."""
    import pandas as pd
    import pyarrow as pa

    found = {}
    for name, column in zip(names, columns, strict=True):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            texts = np.array([*column.to_pylist(), None], dtype=object)[:-1]
            found[name] = pd.Series(pd.Categorical(texts)) if as_categories else texts
        else:
            numbers = column.cast(pa.float64(), safe=False)  # as scikit-learn would round them
            found[name] = np.asarray(numbers)
    return pd.DataFrame(found)
