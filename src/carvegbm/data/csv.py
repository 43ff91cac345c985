"""Tables in CSV text; errors count lines and columns from 1, as editors do."""

from __future__ import annotations

import csv
import io
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.rows import ObjectTable
from carvegbm.data.table import Categorical, ReadOptions, Table
from carvegbm.errors import DataError

__all__ = ["LABELS", "csv_batches", "csv_length", "label_column", "label_kind", "label_values"]

LABELS = ("label", "target", "class", "y")
"""Names of label columns, in any case; without one, the last column holds the labels."""

_MISSING = ("", "nan", "na", "n/a", "null", "?")

Kind = type[int] | type[float] | type[str]


def csv_batches(
    name: str, file: IO[bytes], options: ReadOptions, size: int | None
) -> Iterator[Table]:
    """Yield at most `size` rows at a time; all rows if `size` is None.

    The type of the labels depends on all of them, so batches need a pass of their own for it.
    """
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
            kind = None
            if size is not None:
                kind = label_kind(_Csv(name, lines, options.label, options.categorical).labels())
                lines.seek(0)
            content = _Csv(name, lines, options.label, options.categorical)
            while True:
                X, labels = content.read(size)
                if not labels:
                    return
                y = label_values(labels, kind)
                yield Table(X, y, content.names, content.label_name)
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 text: {error.reason}; save it as UTF-8") from None


def csv_length(name: str, file: IO[bytes], options: ReadOptions, at_most: int) -> int:
    """Return the number of rows, or `at_most` if that is smaller."""
    try:
        with io.TextIOWrapper(file, encoding="utf-8-sig") as lines:
            labels = _Csv(name, lines, options.label, options.categorical).labels()
            return sum(1 for _ in itertools.islice(labels, at_most))
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 text: {error.reason}; save it as UTF-8") from None


class _Csv:
    """CSV text, read row by row; cells of `categorical` features are kept as text.

    The first line is a header iff none of its cells is a number, or one of them is the name given
    as `label`, or it numbers the features 0, 1, … and names the label, as pandas does.

    Attributes
    ----------
    names : tuple of str or None
        Names of the features.
    label_name : str or None
    """

    def __init__(
        self, name: str, lines: Iterable[str], label: str | int | None, categorical: Categorical
    ) -> None:
        numbered = ((i, line) for i, line in enumerate(lines, 1) if line.strip())
        start = list(itertools.islice(numbered, 20))
        if not start:
            raise DataError(f"{name}: empty file")
        self._name, self._first = name, start[0][0]
        self._delimiter = _delimiter([line for _, line in start])
        first = [cell.strip() for cell in _cells(start[0][1], self._delimiter)]
        self._width = len(first)
        self._header = header = first if _is_header(first, label) else None
        self._at = at = label_column(name, header, self._width, label)
        self._n_features = self._width - (at is not None)
        self.names = None if header is None else tuple(c for i, c in enumerate(header) if i != at)
        self.label_name = None if header is None or at is None else header[at]
        self._texts = [i for i in categorical(self.names) if i < self._n_features]
        self._lines = itertools.chain(start[1:] if header else start, numbered)

    def labels(self) -> Iterator[str]:
        """Yield the labels of the remaining rows, which cannot be read again."""
        return (label for *_, label in self._rows())

    def read(
        self, most: int | None = None
    ) -> tuple[npt.NDArray[np.float64] | ObjectTable, list[str]]:
        """Return features and labels of at most `most` further rows; empty cells are NaN."""
        texts: dict[int, list[str | None]] = {i: [] for i in self._texts}
        labels: list[str] = []
        values = array("d")
        for line_number, line, cells, label in itertools.islice(self._rows(), most):
            labels.append(label)
            for i, column in texts.items():
                cell = cells[i].strip()
                column.append(None if cell.lower() in _MISSING else cell)
                cells[i] = "nan"
            done = len(values)
            try:
                if "_" in line and any("_" in cell for cell in cells):  # float() reads 1_0 as 10
                    raise ValueError
                values.extend(map(float, cells))
            except ValueError:
                del values[done:]
                values.extend(self._numbers(line_number, cells))
        numbers = np.frombuffer(values, dtype=np.float64).reshape(len(labels), self._n_features)
        if not texts:
            return numbers, labels
        columns = [
            np.array(texts[i], dtype=object) if i in texts else column
            for i, column in enumerate(numbers.T)
        ]
        names = self.names or tuple(map(str, range(self._n_features)))
        return ObjectTable(names, tuple(columns)), labels

    def _rows(self) -> Iterator[tuple[int, str, list[str], str]]:
        """Yield number, line, cells of features, and label."""
        for line_number, line in self._lines:
            cells = _cells(line, self._delimiter)
            if len(cells) != self._width:
                raise DataError(
                    f"{self._name}: line {line_number} has {len(cells)} cells, "
                    f"line {self._first} has {self._width}"
                )
            if self._at is None:
                yield line_number, line, cells, "0"
                continue
            label = cells.pop(self._at).strip()
            if label.lower() in ("", "nan"):
                raise DataError(
                    f"{self._name}: line {line_number}, column {self._at + 1}: the label is missing"
                )
            yield line_number, line, cells, label

    def _numbers(self, line_number: int, cells: list[str]) -> Iterator[float]:
        """Convert cells one by one, with their place in errors."""
        header = self._header
        for i, cell in enumerate(cells):
            place = i + (self._at is not None and i >= self._at)
            where = f"{self._name}: line {line_number}, column {place + 1}"
            yield _number(cell, where + (f" ({header[place]})" if header else ""))


def label_column(
    name: str, header: Sequence[str] | None, width: int, label: str | int | None
) -> int | None:
    """Return the position of the label column among `width` columns; None if label is False."""
    if label is False:
        return None
    if width < 2:
        raise DataError(f"{name}: has {width} column; features and a label are needed")
    if label is None:
        lower = [cell.lower() for cell in header or ()]
        return next((lower.index(known) for known in LABELS if known in lower), width - 1)
    if header is not None and label in header:
        return header.index(str(label))
    try:
        at = int(label)
    except ValueError:
        shown = ", ".join(header[:12]) + (", …" if len(header) > 12 else "") if header else None
        there = f"the columns are {shown}" if shown else "the file has no header; give a position"
        raise DataError(f"{name}: no column is called {label!r}; {there}") from None
    if not -width <= at < width:
        raise DataError(f"{name}: label column {at} is not in 0…{width - 1}")
    return at % width


def label_values(labels: Sequence[str], kind: Kind | None = None) -> npt.NDArray[Any]:
    """Convert labels to `kind`, by default to what `label_kind` returns."""
    kind = label_kind(labels) if kind is None else kind
    if kind is str:
        return np.array(labels)
    return np.array([kind(label) for label in labels], dtype=np.dtype(kind))


def label_kind(labels: Iterable[str]) -> Kind:
    """Return the first of int, float and str that all labels can be converted to."""
    kinds: list[Kind] = [int, float, str]
    for label in labels:
        while not _can_be(kinds[0], label):
            del kinds[0]
    return kinds[0]


def _can_be(kind: Kind, label: str) -> bool:
    try:
        value = kind(label)
    except ValueError:
        return False
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63


def _cells(line: str, delimiter: str) -> list[str]:
    if '"' in line:
        return next(csv.reader([line.strip("\r\n")], delimiter=delimiter, skipinitialspace=True))
    return line.split() if delimiter == " " else line.strip("\r\n").split(delimiter)


def _delimiter(lines: list[str]) -> str:
    """Return the delimiter that splits the most lines into equally many cells, at least two."""

    def agreement(delimiter: str) -> int:
        widths = Counter(len(_cells(line, delimiter)) for line in lines)
        return max((count for width, count in widths.items() if width > 1), default=0)

    return max(",;\t ", key=agreement)


def _is_header(cells: list[str], label: str | int | None) -> bool:
    if isinstance(label, str) and label in cells and not _is_number(label):
        return True
    numbers = [cell for cell in cells if _is_number(cell)]
    numbering = numbers == [str(i) for i in range(len(cells) - 1)]
    return not numbers or (numbering and any(cell.lower() in LABELS[:3] for cell in cells))


def _is_number(cell: str) -> bool:
    """Return whether a cell is a number; float() would read 1_0 as 10."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _number(cell: str, where: str) -> float:
    if cell.strip().lower() in _MISSING:
        return float("nan")
    if not _is_number(cell):
        raise DataError(f"{where}: {cell.strip()!r} is not a number")
    return float(cell)
