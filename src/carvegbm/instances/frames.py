"""Frames: the columns of a pandas, polars or pyarrow table, or of anything that speaks Arrow.

Comes in: a frame, and for its columns that hold labels of categories the way from a label to a
number. Goes out: an array of float64, or of float32 where all columns fit into that. A null is a
missing value (NaN). Labels in a column without such a way are refused, as `numbers` refuses what is
no number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.numbers import as_numbers, refusal

__all__ = [
    "Encoder",
    "FrameRows",
    "as_frame",
    "frame_numbers",
    "frame_rows",
    "is_index",
    "is_missing",
    "without_index",
]

Indices = npt.NDArray[np.int64]

_ENCODED = ("category", "categorical", "enum", "dictionary")  # values with a code behind them
_TEXT = ("object", "str", "string", "large_string", "utf8", "large_utf8")
_IN_ONE_ARRAY = {"float64", "float32", "float16", "bool", "int8", "int16", "int32"}
_IN_ONE_ARRAY |= {"uint8", "uint16", "uint32"}  # pandas gives a frame of one of these as it is
_SINGLE = ("float32", "float")  # to Arrow, float is single precision
_NARROW = ("float16", "halffloat", "bool", "boolean", "int8", "uint8", "int16", "uint16")


class Encoder(Protocol):
    """The way from the labels of one column to numbers."""

    @property
    def gives_codes(self) -> bool:
        """Whether the numbers are codes, not labels that are numbers."""
        ...

    def numbers(self, labels: Sequence[Any], rows: Indices, where: str) -> npt.NDArray[np.float64]:
        """A number per label; `rows` are those in which each occurs first, for errors."""
        ...

    def check_numbers(self, where: str) -> None:
        """Refuse a column of numbers, if they could be taken for labels and for codes."""
        ...


class FrameRows(NamedTuple):
    """The values of a frame, and the positions of the columns whose labels became codes."""

    rows: npt.NDArray[Any]
    encoded: frozenset[int]


def as_frame(X: Any) -> Any:
    """X as a frame whose columns can be told; what speaks Arrow and nothing else, as its table."""
    if not hasattr(X, "__arrow_c_stream__") or any(
        hasattr(X, name) for name in ("iloc", "to_series", "column")
    ):
        return X
    try:
        import pyarrow
    except ImportError:
        raise DataError(
            f"X is a {type(X).__name__}, which is read through pyarrow; "
            'pip install "carvegbm[parquet]"'
        ) from None
    return pyarrow.table(X)


def is_index(column: str) -> bool:
    """Whether pandas keeps an index without a name in a column so called, of Arrow or Parquet."""
    return column.startswith("__index_level_")


def without_index(X: Any, features: Sequence[str] | None) -> Any:
    """A pyarrow table without the index of the pandas frame it was, if that is no feature."""
    columns = getattr(X, "column_names", None)
    if features is None or not isinstance(columns, list) or not hasattr(X, "select"):
        return X
    kept = [i for i, name in enumerate(columns) if not is_index(name) or name in features]
    return X if len(kept) == len(columns) else X.select(kept)


def frame_numbers(X: Any, names: Sequence[str], what: str = "X") -> npt.NDArray[Any]:
    """The values of a frame all of whose columns, which have these names, hold numbers."""
    return frame_rows(X, names, {}, what).rows


def frame_rows(
    X: Any, names: Sequence[str], encoders: Mapping[int, Encoder], what: str = "X"
) -> FrameRows:
    """The values of a frame; column i may hold labels if there is an encoder i."""
    kinds = {str(kind) for kind in getattr(X, "dtypes", ())}
    if len(kinds) == 1 and kinds <= _IN_ONE_ARRAY and not encoders:
        return FrameRows(as_numbers(np.asarray(X), what), frozenset())
    columns = list(_columns(X, names))
    of_column = [_kind(column) for column in columns]
    labelled = [
        position
        for position, kind in enumerate(of_column)
        if position in encoders and kind.startswith((*_ENCODED, *_TEXT))
    ]
    single = any(kind in _SINGLE for kind in of_column) and all(
        kind in (*_SINGLE, *_NARROW) or position in labelled
        for position, kind in enumerate(of_column)
    )
    rows = np.empty((_length(X, columns), len(names)), dtype=np.float32 if single else np.float64)
    for position, column in enumerate(columns):
        where = f"{what}, column {names[position]!r},"
        if position in labelled:
            values = _encoded(column, of_column[position], encoders[position], where)
            if single and (values.astype(np.float32) != values).any():
                rows, single = rows.astype(np.float64), False
        else:
            if position in encoders:
                encoders[position].check_numbers(where)
            values = as_numbers(_values(column, of_column[position], where), where)
        rows[:, position] = values
    return FrameRows(rows, frozenset(i for i in labelled if encoders[i].gives_codes))


def _columns(X: Any, names: Sequence[str]) -> Iterator[Any]:
    for position in range(len(names)):
        if hasattr(X, "iloc"):  # pandas
            yield X.iloc[:, position]
        elif hasattr(X, "to_series"):  # polars
            yield X.to_series(position)
        elif hasattr(X, "column"):  # pyarrow
            yield X.column(position)
        else:
            yield X[names[position]]


def _length(X: Any, columns: Sequence[Any]) -> int:
    return len(columns[0]) if columns else len(X)


def _kind(column: Any) -> str:
    return str(getattr(column, "dtype", getattr(column, "type", ""))).lower()


def _values(column: Any, kind: str, what: str) -> npt.NDArray[Any]:
    if kind.startswith(_ENCODED):
        raise refusal(what, f"categories ({re.split('[<(]', kind)[0]})")
    if kind.lstrip("u").startswith("int"):
        # Beside a null, a whole number would become a double unseen.
        nulls = getattr(column, "null_count", None)  # pyarrow's, polars' a method
        if nulls is None:
            nulls = bool(getattr(column, "hasnans", False))  # pandas'
        to_list = getattr(column, "to_pylist", getattr(column, "to_list", None))
        if to_list is not None and (nulls() if callable(nulls) else nulls):
            return np.array(to_list(), dtype=object)
    return np.asarray(column)


# ── labels ───────────────────────────────────────────────────────────────────────────────────


def _encoded(column: Any, kind: str, encoder: Encoder, where: str) -> npt.NDArray[np.float64]:
    """A number for every label; NaN where there is none."""
    labels, which = _labels(column, kind, where)
    used, first, which = np.unique(which, return_index=True, return_inverse=True)
    missing = used < 0
    codes = np.full(len(used), np.nan)
    some = [labels[position] for position in used[~missing].tolist()]
    codes[~missing] = encoder.numbers(some, first[~missing], where)
    return codes[which.ravel()]


def _labels(column: Any, kind: str, where: str) -> tuple[Sequence[Any], Indices]:
    """Labels, and for every row the position of its own; negative where it is missing."""
    if kind == "category" and hasattr(column, "cat"):  # pandas
        return column.cat.categories.tolist(), np.asarray(column.cat.codes, dtype=np.int64)
    if kind.startswith("dictionary") and not hasattr(column, "iloc"):  # pyarrow
        array = column
        if hasattr(array, "chunks"):
            array = array.unify_dictionaries().combine_chunks()
            if hasattr(array, "chunks"):  # an empty column has none to combine
                return [], np.zeros(0, dtype=np.int64)
        labels = array.dictionary.to_pylist()
        which = np.asarray(array.indices.fill_null(-1), dtype=np.int64)
        nulls = np.array([*(label is None for label in labels), True])  # the last for -1
        return labels, np.where(nulls[which], -1, which)
    listed = next(
        getattr(column, name)()
        for name in ("to_pylist", "to_list", "tolist")
        if hasattr(column, name)
    )
    place: dict[Any, int] = {}
    try:
        which = np.array(
            [-1 if is_missing(label) else place.setdefault(label, len(place)) for label in listed],
            dtype=np.int64,
        )
    except TypeError:
        raise DataError(f"{where} must be texts or numbers, it holds lists or the like") from None
    return list(place), which


def is_missing(label: Any) -> bool:
    """Whether a label is none: None, NaN, NA or NaT."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas.NA, which is not even true or false
        return True
