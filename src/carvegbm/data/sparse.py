"""SciPy sparse matrices as CSR, and dense blocks of some of their rows and columns.

Whether an absent entry means 0 or a missing value depends on the library that reads it, so callers
pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import as_numbers
from carvegbm.errors import DataError

__all__ = [
    "NUMBERS_AT_ONCE",
    "Csr",
    "as_csr",
    "blocks",
    "changed_rows",
    "csr_parts",
    "dense",
    "first_absent",
    "first_stored",
    "is_sparse",
    "places_of",
    "row_of",
    "rows_of",
]

Csr = Any
"""A SciPy CSR matrix or array."""

NUMBERS_AT_ONCE = 1 << 24
"""Most numbers of a dense block."""

Places = npt.NDArray[np.int64]
Place = tuple[int, int]


def is_sparse(X: Any) -> TypeGuard[Csr]:
    """Return whether X is a SciPy sparse matrix or array, of any format."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def as_csr(X: Any) -> Csr:
    """Return X as CSR of float64 or float32 with sorted rows; duplicates are added up.

    Not copied if it is in this form already; X itself is not changed.

    Examples
    --------
    >>> from scipy.sparse import coo_matrix
    >>> twice = coo_matrix(([1, 2], ([0, 0], [1, 1])), shape=(1, 2))
    >>> as_csr(twice).toarray().tolist()
    [[0.0, 3.0]]
    """
    if X.ndim != 2:
        raise DataError(f"X must have two dimensions (rows, features), got {X.ndim}")
    try:
        csr = X.tocsr()
        starts, indices = np.asarray(csr.indptr), np.asarray(csr.indices)
        if starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] > len(indices):
            raise ValueError("its rows do not follow one another")
        if starts[-1] < len(indices):  # room for more, which belongs to no row
            used = slice(0, int(starts[-1]))
            csr = type(csr)((csr.data[used], indices[used], starts), shape=csr.shape)
            indices = indices[used]
        if len(indices) and not 0 <= indices.min() <= indices.max() < csr.shape[1]:
            raise ValueError(f"a column is not in 0…{csr.shape[1] - 1}")
    except (ValueError, IndexError) as error:
        raise DataError(f"X is a damaged sparse matrix: {error}") from None
    numbers = as_numbers(csr.data, "X")
    if numbers is not csr.data:
        csr = type(csr)((numbers, csr.indices, csr.indptr), shape=csr.shape)
    if not csr.has_canonical_format:
        csr = csr.copy() if csr is X or csr.data is X.data else csr
        csr.sum_duplicates()
    return csr


def places_of(columns: Places, width: int) -> npt.NDArray[np.int32]:
    """Return the position of each of `width` columns among those selected, or -1."""
    places = np.full(width, -1, dtype=np.int32)
    places[columns] = np.arange(len(columns))
    return places


def dense(csr: Csr, places: npt.NDArray[np.int32], width: int, absent: float) -> npt.NDArray[Any]:
    """Return some columns as a C-ordered array with `absent` for absent entries.

    Column f becomes column places[f] of `width`, or is left out if that is -1.
    """
    found = np.full((csr.shape[0], width), absent, dtype=csr.dtype)
    at = places[csr.indices]
    kept = at >= 0
    found[rows_of(csr)[kept], at[kept]] = csr.data[kept]
    return found


def blocks(csr: Csr, width: int = 0) -> Iterator[slice]:
    """Yield slices of at least one row, bounded by NUMBERS_AT_ONCE.

    The bound holds for stored numbers, and for dense blocks of `width` columns.
    """
    start, count = 0, csr.shape[0]
    step = max(1, NUMBERS_AT_ONCE // max(1, width))
    while start < count:
        most = int(csr.indptr[start]) + NUMBERS_AT_ONCE
        within = int(np.searchsorted(csr.indptr, most, side="right")) - 1
        stop = max(start + 1, min(count, start + step, within))
        yield slice(start, stop)
        start = stop


def first_stored(
    csr: Csr, test: Callable[[npt.NDArray[Any], Places], npt.NDArray[np.bool_]]
) -> Place | None:
    """Return row and column of the first stored value for which test(values, columns) holds."""
    for rows in blocks(csr):
        first = int(csr.indptr[rows.start])
        entries = slice(first, int(csr.indptr[rows.stop]))
        found = np.flatnonzero(test(csr.data[entries], csr.indices[entries]))
        if len(found):
            entry = first + int(found[0])
            return row_of(csr, entry), int(csr.indices[entry])
    return None


def row_of(csr: Csr, entry: int) -> int:
    """Return the row of a stored value."""
    return int(np.searchsorted(csr.indptr, entry, side="right")) - 1


def first_absent(csr: Csr, columns: npt.NDArray[np.bool_]) -> Place | None:
    """Return row and column of the first absent entry in the marked columns.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> first_absent(csr_matrix([[1.0, 2.0], [0.0, 4.0]]), np.array([True, False]))
    (1, 0)
    """
    wanted = int(np.count_nonzero(columns))
    if wanted == 0:
        return None
    for rows in blocks(csr):
        some = csr[rows]
        stored = np.bincount(rows_of(some)[columns[some.indices]], minlength=some.shape[0])
        lacking = np.flatnonzero(stored < wanted)
        if len(lacking):
            row = int(lacking[0])
            there = some.indices[some.indptr[row] : some.indptr[row + 1]]
            return rows.start + row, int(np.setdiff1d(np.flatnonzero(columns), there)[0])
    return None


def changed_rows(csr: Csr, rows: Places, columns: Places, values: npt.NDArray[np.float64]) -> Csr:
    """Return the rows with these entries replaced; replaced entries are stored even if 0.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> new = changed_rows(csr_matrix([[1.0, 2.0]]), np.array([0]), np.array([0]), np.zeros(1))
    >>> new.toarray().tolist(), new.nnz
    ([[0.0, 2.0]], 2)
    """
    width = np.int64(csr.shape[1])
    kept = ~np.isin(rows_of(csr) * width + csr.indices, rows * width + columns)
    all_rows = np.concatenate([rows_of(csr)[kept], rows])
    all_columns = np.concatenate([csr.indices[kept].astype(np.int64), columns])
    all_values = np.concatenate([csr.data[kept].astype(np.float64), values])
    order = np.lexsort((all_columns, all_rows))
    ends = np.concatenate([[0], np.cumsum(np.bincount(all_rows, minlength=csr.shape[0]))])
    return type(csr)((all_values[order], all_columns[order], ends), shape=csr.shape)


def csr_parts(csr: Csr) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of a file that `scipy.sparse.load_npz` reads."""
    return {
        "format": np.array(b"csr"),
        "shape": np.array(csr.shape),
        "data": csr.data,
        "indices": csr.indices,
        "indptr": csr.indptr,
    }


def rows_of(csr: Csr) -> Places:
    """Return the row of each stored value."""
    return np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
