"""Convert and check rows, labels and threads that users pass.

Every number is kept as it is or refused: a verdict about a rounded neighbour would not be one about
the row. Integers beyond 2^53, dates, categories and texts are refused. A null is a missing value
(NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import (
    Encoder,
    FrameRows,
    as_frame,
    as_numbers,
    frame_rows,
    without_index,
)
from carvegbm.data.names import column_names, order_of
from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.errors import DataError

__all__ = ["ObjectTable", "as_labels", "as_rows", "check_threads", "coded_rows", "first_where"]
__all__ += ["refuse_masked"]

_VALUES_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class ObjectTable:
    """A small frame of named columns: numbers as float64, labels of categories as objects.

    Examples
    --------
    >>> jobs = np.array(["x", None], dtype=object)
    >>> table = ObjectTable(("age", "job"), (np.array([1.0, 2.0]), jobs))
    >>> table.shape, table[:1].column(1).tolist(), table[:, [1, 0]].columns
    ((2, 2), ['x'], ('job', 'age'))
    """

    columns: tuple[str, ...]
    values: tuple[npt.NDArray[Any], ...]

    ndim = 2

    @classmethod
    def from_objects(cls, X: Any) -> Any:
        """Convert an array of objects, or rows of texts and numbers; return anything else as is."""
        rows: Any = X
        if isinstance(X, list | tuple) and any(
            isinstance(value, str) for row in X if isinstance(row, list | tuple) for value in row
        ):
            rows = np.array(X, dtype=object)
        if not isinstance(rows, np.ndarray) or rows.dtype != object or rows.ndim != 2:
            return X
        columns = [
            values if any(isinstance(value, str) for value in values) else as_numbers(values, "X")
            for values in rows.T
        ]
        return cls(tuple(map(str, range(rows.shape[1]))), tuple(columns))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.values[0]) if self.values else 0, len(self.values)

    def __len__(self) -> int:
        return self.shape[0]

    def column(self, position: int) -> npt.NDArray[Any]:
        """Return one column."""
        return self.values[position]

    def __getitem__(self, which: Any) -> ObjectTable:
        """Return some of the rows, or [:, some of the columns]."""
        if isinstance(which, tuple) and which[1] is Ellipsis:  # as scikit-learn takes rows
            which = which[0]
        if isinstance(which, tuple):
            rows, chosen = which
            names = tuple(self.columns[i] for i in chosen)
            return ObjectTable(names, tuple(self.values[i][rows] for i in chosen))
        return ObjectTable(self.columns, tuple(values[which] for values in self.values))

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return all values as objects."""
        found = np.empty(self.shape, dtype=object)
        for position, values in enumerate(self.values):
            found[:, position] = values
        return found


def as_rows(
    X: npt.ArrayLike, features: Sequence[str] | None = None, *, sparse: bool = False
) -> Any:
    """Return X as a C-ordered array (rows, features) of float64 or float32, copied only if needed.

    A frame's columns are put in the order of `features`, see `carvegbm.data.names`. A sparse matrix
    becomes CSR with `sparse`, else an array with 0 for absent entries.
    """
    if is_sparse(X):
        return as_csr(X) if sparse else as_csr(X).toarray()
    return coded_rows(X, features, {}).rows


def coded_rows(
    X: Any, features: Sequence[str] | None, encoders: Mapping[int, Encoder]
) -> FrameRows:
    """Return X as `as_rows` does, and the features whose labels were encoded.

    A feature with an encoder may hold labels of categories, in a frame or an array of objects.
    """
    refuse_masked(X, "X", "pass X.filled(numpy.nan)")
    X = without_index(as_frame(X), features)
    names = column_names(X)
    order = None if names is None or features is None else order_of(names, features, "X")
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        if names is None and encoders:
            X = ObjectTable.from_objects(X)
            names = column_names(X)
        if names is not None:
            of_column = encoders
            if order is not None:
                of_column = {order[f]: e for f, e in encoders.items() if f < len(order)}
            rows, encoded = frame_rows(X, names, of_column)
        else:
            array = np.asarray(X)
    except DataError:
        raise
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"X must be numbers: {' '.join(str(error).split())}") from None
    if names is None:
        if array.ndim != 2:
            remedy = "; a single row is [row]" if array.ndim == 1 else ""
            raise DataError(
                f"X must have two dimensions (rows, features), got {array.ndim}{remedy}"
            )
        rows, encoded = as_numbers(array, "X"), frozenset()
    if order is not None:
        rows = np.take(rows, order, axis=1)
        encoded = frozenset(f for f, column in enumerate(order) if column in encoded)
    return FrameRows(np.ascontiguousarray(rows), encoded)


def as_labels(y: npt.ArrayLike, classes: npt.NDArray[Any], rows: int) -> npt.NDArray[np.int32]:
    """Return the position in `classes` of each label; refuse labels that are none of them.

    Examples
    --------
    >>> as_labels(["b", "a"], np.array(["a", "b"]), 2).tolist()
    [1, 0]
    """
    refuse_masked(y, "y", "leave out rows without a label")
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise DataError(f"y must be one label per row: {error}") from None
    if labels.ndim != 1 or len(labels) != rows:
        remedy = "; make it flat: np.ravel(y)" if labels.shape == (rows, 1) else ""
        raise DataError(
            f"y must be one label per row: X has {rows} rows, y the shape {labels.shape}{remedy}"
        )
    order = np.argsort(classes, kind="stable")
    try:
        position = np.searchsorted(classes[order], labels)
        index = order[np.minimum(position, len(order) - 1)]
        known = classes[index] == labels
    except TypeError:  # labels that cannot be compared with the classes
        place = {label: position for position, label in enumerate(classes.tolist())}
        index = np.array(
            [place.get(label, -1) if isinstance(label, Hashable) else -1 for label in labels]
        )
        known = index >= 0
    if not np.all(known):
        row = int(np.argmin(np.broadcast_to(known, (rows,))))
        raise DataError(
            f"unknown label {_quoted(labels[row])}; the model's classes are "
            f"{', '.join(map(_quoted, classes.tolist()))}; "
            "name them with load(model, classes=…), on the command line with --classes",
            row=row,
            what="y",
        )
    return index.astype(np.int32)


def _quoted(label: Any) -> str:
    plain = label.item() if isinstance(label, np.generic) else label
    return repr(plain) if isinstance(plain, str) else str(label)


def refuse_masked(values: Any, what: str, remedy: str) -> None:
    """Refuse a masked array, or a list of them: NumPy would read what the mask hides."""
    parts = values if isinstance(values, list | tuple) else [values]
    if any(isinstance(part, np.ma.MaskedArray) for part in parts):
        raise DataError(f"{what} is a masked array; {remedy}")


def first_where(
    X: npt.NDArray[Any], test: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]
) -> tuple[int, int] | None:
    """Return row and column of the first value that passes the test; blocks of X are tested.

    Examples
    --------
    >>> first_where(np.array([[1.0, 2.0], [3.0, np.nan]]), np.isnan)
    (1, 1)
    """
    step = max(1, _VALUES_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        for row, column in np.argwhere(test(X[start : start + step]))[:1].tolist():
            return start + row, column
    return None


def check_threads(threads: int | None) -> int:
    """Return the number of threads for the core, where 0 means all cores."""
    if threads is None:
        return 0
    if not isinstance(threads, int | np.integer) or not 1 <= threads < 2**31:
        raise DataError(f"threads must be a whole number >= 1, got {threads!r}")
    return int(threads)
