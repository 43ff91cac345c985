"""Columns of numbers and of labels in pandas, polars or pyarrow frames, or anything Arrow.

Every number is kept as it is, or refused; `as_numbers` says what a number is. A null is a missing
value (NaN). A column of labels needs an `Encoder`, which converts labels to numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError

__all__ = ["Encoder", "FrameRows", "as_frame", "as_numbers", "frame_numbers", "frame_rows"]
__all__ += ["is_index", "is_missing", "without_index"]

Indices = npt.NDArray[np.int64]

_ALREADY = (np.dtype(np.float64), np.dtype(np.float32))
_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_KINDS = {"U": "text", "S": "text", "T": "text", "M": "dates", "m": "durations", "c": "complex"}
_EXACT = 1 << 53  # every whole number up to here is a double

_ENCODED = ("category", "categorical", "enum", "dictionary")  # values with a code behind them
_TEXT = ("object", "str", "string", "large_string", "utf8", "large_utf8")
_IN_ONE_ARRAY = {"float64", "float32", "float16", "bool", "int8", "int16", "int32"}
_IN_ONE_ARRAY |= {"uint8", "uint16", "uint32"}  # pandas gives a frame of one of these as it is
_SINGLE = ("float32", "float")  # to Arrow, float is single precision
_NARROW = ("float16", "halffloat", "bool", "boolean", "int8", "uint8", "int16", "uint16")


class Encoder(Protocol):
    """Converts the labels of one column to numbers."""

    @property
    def gives_codes(self) -> bool:
        """Whether the numbers are codes, rather than labels that are numbers."""
        ...

    def numbers(self, labels: Sequence[Any], rows: Indices, where: str) -> npt.NDArray[np.float64]:
        """Return a number per label; `rows` are their first occurrences, for errors."""
        ...

    def check_numbers(self, where: str) -> None:
        """Refuse a column of numbers if they may be labels as well as codes."""
        ...


class FrameRows(NamedTuple):
    """The values of a frame, and the positions of the columns whose labels became codes."""

    rows: npt.NDArray[Any]
    encoded: frozenset[int]


def as_frame(X: Any) -> Any:
    """Convert objects that only export Arrow data to pyarrow tables; return others as they are."""
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
    """Return whether pandas stores an unnamed index in a column of this name."""
    return column.startswith("__index_level_")


def without_index(X: Any, features: Sequence[str] | None) -> Any:
    """Drop the stored index of a pandas frame from a pyarrow table, unless it is a feature."""
    columns = getattr(X, "column_names", None)
    if features is None or not isinstance(columns, list) or not hasattr(X, "select"):
        return X
    kept = [i for i, name in enumerate(columns) if not is_index(name) or name in features]
    return X if len(kept) == len(columns) else X.select(kept)


def frame_numbers(X: Any, names: Sequence[str], what: str = "X") -> npt.NDArray[Any]:
    """Return the values of a frame whose columns all hold numbers."""
    return frame_rows(X, names, {}, what).rows


def frame_rows(
    X: Any, names: Sequence[str], encoders: Mapping[int, Encoder], what: str = "X"
) -> FrameRows:
    """Return the values of a frame; column i may hold labels if there is an encoder i."""
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
        raise _refusal(what, f"categories ({re.split('[<(]', kind)[0]})")
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
    """Encode a column of labels; NaN where the label is missing."""
    labels, which = _labels(column, kind, where)
    used, first, which = np.unique(which, return_index=True, return_inverse=True)
    missing = used < 0
    codes = np.full(len(used), np.nan)
    some = [labels[position] for position in used[~missing].tolist()]
    codes[~missing] = encoder.numbers(some, first[~missing], where)
    return codes[which.ravel()]


def _labels(column: Any, kind: str, where: str) -> tuple[Sequence[Any], Indices]:
    """Return distinct labels, and per row the position of its label, negative if missing."""
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
    """Return whether a label is missing: None, NaN, NA or NaT."""
    if label is None:
        return True
    try:
        return bool(label != label)
    except (TypeError, ValueError):  # pandas.NA
        return True


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


def as_numbers(values: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Return float64, or the array itself if it is float64 or float32; `what` names it in errors.

    Examples
    --------
    >>> as_numbers(np.array([1, None], dtype=object), "X").tolist()
    [1.0, nan]
    """
    if values.dtype in _ALREADY:
        return np.asanyarray(values)
    kind = values.dtype.kind
    if kind == "O":
        return _from_objects(values, what)
    if kind not in "biuf" or values.dtype.itemsize > 8:
        raise _refusal(what, f"{_KINDS.get(kind, 'values')} ({str(values.dtype)[:40]})")
    doubles = values.astype(np.float64)
    if values.dtype.itemsize == 8:
        for place in np.argwhere(np.abs(doubles) >= _EXACT).tolist():
            _check_exact(int(values[tuple(place)]), float(doubles[tuple(place)]), what)
    return np.asarray(doubles)


def _from_objects(values: npt.NDArray[Any], what: str) -> npt.NDArray[np.float64]:
    """Convert Python numbers; None and NA are missing values."""
    flat = values.ravel().tolist()
    nulls = {kind for kind in set(map(type, flat)) if kind.__name__ in ("NoneType", "NAType")}
    for kind in set(map(type, flat)) - nulls:
        if issubclass(kind, np.timedelta64) or not issubclass(kind, _NUMBERS):
            raise _refusal(what, f"{kind.__name__} objects")
    doubles = np.empty(len(flat))
    for place, value in enumerate(flat):
        try:
            doubles[place] = np.nan if type(value) in nulls else float(value)
        except OverflowError:
            raise _inexact(value, what) from None
        if isinstance(value, int | np.integer):
            _check_exact(int(value), float(doubles[place]), what)
    return doubles.reshape(values.shape)


def _check_exact(value: int, double: float, what: str) -> None:
    if value != double:  # Python compares int and float exactly
        raise _inexact(value, what)


def _inexact(value: int, what: str) -> DataError:
    shown = "a number beyond 1e30" if value.bit_length() > 100 else str(value)
    return DataError(
        f"{what} must be numbers that a double holds, it holds {shown}; round it yourself"
    )


def _refusal(what: str, kind: str) -> DataError:
    """Return the error for values that are no numbers."""
    return DataError(f"{what} must be numbers, it holds {kind}; turn them into numbers first")
