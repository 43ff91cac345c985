"""Files of instances, some rows at a time: for files that do not fit into memory.

Comes in: a path, and how to read it. Goes out: tables of at most so many rows, one after the other,
which together are the table that `load_table` reads, to the last bit and type; and how many rows
there are. What depends on all rows of a text (are all labels numbers? do indices start at 0?) is
found before, so that texts are gone through twice.

    CSV, LIBSVM, Parquet   a batch is in memory, compressed or not
    .npy                   mapped; if it is compressed, all of it is in memory
    .npz                   what is stored in it as it is is mapped, the rest is in memory
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import replace
from itertools import islice
from typing import IO

from carvegbm.instances import arrays
from carvegbm.instances.libsvm import libsvm_batches, libsvm_length
from carvegbm.instances.parquet import parquet_batches, parquet_length
from carvegbm.instances.sparse import is_sparse
from carvegbm.instances.table import Table
from carvegbm.instances.tabular import Way, as_text, format_of, opened, unpacked
from carvegbm.instances.text import Csv, label_kind, label_values

__all__ = ["batches", "known_length", "length"]


def batches(
    path: str, way: Way, size: int, sparse_size: int | None = None
) -> Generator[Table, None, None]:
    r"""The table in a file, at most `size` rows at a time; none where it has no rows.

    Rows that store few of their values may be more at a time, `sparse_size`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("width,label\n0.5,1\n0.25,2\n1,no\n")
    >>> [(table.X.tolist(), table.y.tolist()) for table in batches(str(path), Way(), 2)]
    [([[0.5], [0.25]], ['1', '2']), ([[1.0]], ['no'])]
    """
    name, way = way.to(path)
    sparse_size = size if sparse_size is None or not way.sparse else sparse_size
    with opened(name) as file:
        found = format_of(name, file)
        if found == "npy":
            yield from arrays.npy_batches(name, file, way.label, unpacked, size)
        elif found == "npz":
            table = arrays.read_npz(name, file, way.label, unpacked, way.sparse)
            yield from _slices(table, sparse_size if is_sparse(table.X) else size)
        elif found == "parquet":
            yield from parquet_batches(name, file, way.label, way.categorical, size)
        elif found == "libsvm":
            for X, y in libsvm_batches(name, file, way.n_features, way.zero_based, sparse_size):
                yield Table(X if way.sparse else X.toarray(), y, absent_is_zero=True)
        else:
            yield from _csv_batches(name, file, way, size)


def known_length(path: str, way: Way) -> int | None:
    """How many rows a file has, if it says so in its first or last bytes."""
    name, way = way.to(path)
    with opened(name) as file:
        return _known_length(name, file)


def length(path: str, way: Way, at_most: int) -> int:
    """How many rows a file has, or `at_most` if that is less; no more of a text are read."""
    name, way = way.to(path)
    with opened(name) as file:
        known = _known_length(name, file)
        if known is not None:
            return min(known, at_most)
        found = format_of(name, file)
        if found == "libsvm":
            return libsvm_length(file, at_most)
        if found == "npz":
            rows = arrays.read_npz(name, file, way.label, unpacked, way.sparse).X.shape[0]
            return min(int(rows), at_most)
        with as_text(name, file) as lines:
            labels = Csv(name, lines, way.label, way.categorical).labels()
            return sum(1 for _ in islice(labels, at_most))


def _known_length(name: str, file: IO[bytes]) -> int | None:
    found = format_of(name, file)
    if found == "parquet":
        return parquet_length(name, file)
    return arrays.npy_length(name, file) if found == "npy" else None


def _csv_batches(name: str, file: IO[bytes], way: Way, size: int) -> Iterator[Table]:
    with as_text(name, file) as lines:
        kind = label_kind(Csv(name, lines, way.label, way.categorical).labels())
        lines.seek(0)
        content = Csv(name, lines, way.label, way.categorical)
        while True:
            X, labels = content.read(size)
            if not labels:
                return
            yield Table(X, label_values(labels, kind), content.names, content.label_name)


def _slices(table: Table, size: int) -> Iterator[Table]:
    for start in range(0, table.X.shape[0], size):
        which = slice(start, start + size)
        yield replace(table, X=table.X[which], y=table.y[which])
