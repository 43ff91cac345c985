"""Instances and options as the core takes them, from what a user gives."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.columns import column_names, order_of
from carvegbm.instances.frames import Encoder, FrameRows, as_frame, frame_rows, without_index
from carvegbm.instances.mixed import Mixed
from carvegbm.instances.numbers import as_numbers
from carvegbm.instances.sparse import as_csr, is_sparse

__all__ = ["as_labels", "as_rows", "check_threads", "coded_rows", "first_where", "holds_masks"]


def as_rows(
    X: npt.ArrayLike, features: Sequence[str] | None = None, *, sparse: bool = False
) -> Any:
    """X as a C-ordered array (rows, features) of float64 or float32; not copied if it is one.

    A frame's columns are put in the order of `features`, see `carvegbm.instances.columns`; what is
    a number is said in `carvegbm.instances.numbers`. A sparse matrix becomes CSR of these numbers
    with `sparse`, else an array with 0 for what it leaves out.
    """
    if is_sparse(X):
        return as_csr(X) if sparse else as_csr(X).toarray()
    return coded_rows(X, features, {}).rows


def coded_rows(
    X: Any, features: Sequence[str] | None, encoders: Mapping[int, Encoder]
) -> FrameRows:
    """X as `as_rows` gives it, and the features whose labels have become codes.

    A feature with an encoder may hold labels of categories, in a frame or an array of objects.
    """
    X = without_index(as_frame(X), features)
    names = column_names(X)
    order = None if names is None or features is None else order_of(names, features, "X")
    if hasattr(X, "toarray"):
        X = X.toarray()
    try:
        if isinstance(X, list | tuple) and holds_masks(X):
            X = np.ma.stack([np.ma.asarray(row) for row in X])
        if names is None and encoders:
            X = Mixed.if_mixed(X)
            names = column_names(X)
        if names is not None:
            of_column = encoders
            if order is not None:
                of_column = {order[f]: e for f, e in encoders.items() if f < len(order)}
            rows, encoded = frame_rows(X, names, of_column)
        else:
            array = np.asanyarray(X)
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


def holds_masks(values: Any) -> bool:
    """Whether entries are masked, or may be: a masked array, or a list with one among its rows."""
    if isinstance(values, list | tuple):
        return any(isinstance(row, np.ma.MaskedArray) for row in values)
    return isinstance(values, np.ma.MaskedArray)


def as_labels(y: npt.ArrayLike, classes: npt.NDArray[Any], rows: int) -> npt.NDArray[np.int32]:
    """The position in `classes` of each of the labels, one per row.

    Raises `DataError` for a label that is not one of the classes.

    Examples
    --------
    >>> as_labels(["b", "a"], np.array(["a", "b"]), 2).tolist()
    [1, 0]
    """
    if isinstance(y, np.ma.MaskedArray) and np.ma.is_masked(y):
        row = int(np.argmax(np.ma.getmaskarray(y)))
        raise DataError(f"y has no label in row {row}, it is masked; leave the row out")
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
    except TypeError:  # labels that have no order with the classes
        place = {label: position for position, label in enumerate(classes.tolist())}
        index = np.array(
            [place.get(label, -1) if isinstance(label, Hashable) else -1 for label in labels]
        )
        known = index >= 0
    if not np.all(known):
        row = int(np.argmin(np.broadcast_to(known, (rows,))))
        raise DataError(
            f"unknown label {_quoted(labels[row])} in row {row}; the model's classes are "
            f"{', '.join(map(_quoted, classes.tolist()))}; "
            "name them with load(model, classes=…), on the command line with --classes"
        )
    return index.astype(np.int32)


def _quoted(label: Any) -> str:
    """Text in quotes, so that "0" is not taken for 0."""
    plain = label.item() if isinstance(label, np.generic) else label
    return repr(plain) if isinstance(plain, str) else str(label)


_VALUES_AT_ONCE = 1 << 20


def first_where(
    X: npt.NDArray[Any], test: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]]
) -> tuple[int, int] | None:
    """Row and column of the first value that passes the test; a part of X is looked at in turn.

    Examples
    --------
    >>> first_where(np.array([[1.0, 2.0], [3.0, np.nan]]), np.isnan)
    (1, 1)
    """
    step = max(1, _VALUES_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), step):
        found = np.argwhere(test(X[start : start + step]))
        if len(found):
            row, column = (int(position) for position in found[0])
            return start + row, column
    return None


def check_threads(threads: int | None) -> int:
    """Number of threads for the core, where 0 means all cores."""
    if threads is None:
        return 0
    if not isinstance(threads, int | np.integer) or not 1 <= threads < 2**31:
        raise DataError(f"threads must be a whole number >= 1, got {threads!r}")
    return int(threads)
