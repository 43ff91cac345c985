"""Tables in text: CSV.

Comes in: lines. Goes out: arrays, of all rows or of some at a time, and for every mistake in the
text one line that says where it is. Lines and columns are counted from 1, as an editor or a
spreadsheet counts them.
"""

from __future__ import annotations

import csv
import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.mixed import Mixed

LABELS = ("label", "target", "class", "y")
"""What a column of labels is called, whatever its case; where none is, the last one is taken."""
_MISSING = ("", "nan", "na", "n/a", "null", "?")

_Features = npt.NDArray[np.float64] | Mixed
_Csv = tuple[_Features, npt.NDArray[Any], "tuple[str, ...] | None", "str | None"]
Categorical = Callable[[Sequence[str] | None], Collection[int]]
"""From the names of a file's features, or None, to the positions of those that are categorical."""
Kind = type[int] | type[float] | type[str]
"""What labels in a text are."""


def read_csv(
    name: str, lines: Iterable[str], label: str | int | None, categorical: Categorical
) -> _Csv:
    """Features, labels, feature names and label name; empty cells are NaN; see `Csv`."""
    content = Csv(name, lines, label, categorical)
    X, labels = content.read()
    return X, label_values(labels), content.names, content.label_name


class Csv:
    """A CSV text whose columns are known, and whose rows are read in turn.

    Of the features that are `categorical`, the cells are kept as they are, None where they are
    empty; the columns then stand side by side.

    The first line is a header iff none of its cells is a number, or one of them is the name given
    as `label`, or it numbers the features 0, 1, … and names the label, as pandas does.

    Attributes
    ----------
    names : tuple of str or None
        The features'.
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
        self.names = None if header is None else tuple(c for i, c in enumerate(header) if i != at)
        self.label_name = None if header is None else header[at]
        self._texts = [i for i in categorical(self.names) if i < self._width - 1]
        self._lines = itertools.chain(start[1:] if header else start, numbered)

    def labels(self) -> Iterator[str]:
        """The labels of the rows that are left; these are not read again."""
        return (label for *_, label in self._rows())

    def read(self, most: int | None = None) -> tuple[_Features, list[str]]:
        """Features and labels of the next rows, at most so many; empty cells are NaN."""
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
        numbers = np.frombuffer(values, dtype=np.float64).reshape(len(labels), self._width - 1)
        if not texts:
            return numbers, labels
        columns = [
            np.array(texts[i], dtype=object) if i in texts else column
            for i, column in enumerate(numbers.T)
        ]
        names = self.names or tuple(map(str, range(self._width - 1)))
        return Mixed(names, tuple(columns)), labels

    def _rows(self) -> Iterator[tuple[int, str, list[str], str]]:
        """Number, line, cells of features, and label."""
        for line_number, line in self._lines:
            cells = _cells(line, self._delimiter)
            if len(cells) != self._width:
                raise DataError(
                    f"{self._name}: line {line_number} has {len(cells)} cells, "
                    f"line {self._first} has {self._width}"
                )
            label = cells.pop(self._at).strip()
            if label.lower() in ("", "nan"):
                raise DataError(
                    f"{self._name}: line {line_number}, column {self._at + 1}: the label is missing"
                )
            yield line_number, line, cells, label

    def _numbers(self, line_number: int, cells: list[str]) -> Iterator[float]:
        """Cells of which some are empty, or none."""
        header = self._header
        for i, cell in enumerate(cells):
            place = i + (i >= self._at)
            where = f"{self._name}: line {line_number}, column {place + 1}"
            yield _number(cell, where + (f" ({header[place]})" if header else ""))


def label_column(
    name: str, header: Sequence[str] | None, width: int, label: str | int | None
) -> int:
    """Position of the label column in a table of `width` columns with these names."""
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
    """Labels as integers if all of them are, else as floats, else as strings; or as that kind."""
    kind = label_kind(labels) if kind is None else kind
    if kind is str:
        return np.array(labels)
    return np.array([kind(label) for label in labels], dtype=np.dtype(kind))


def label_kind(labels: Iterable[str]) -> Kind:
    """The first of int, float and str that all labels can be."""
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
    return not isinstance(value, int) or -(1 << 63) <= value < 1 << 63  # what NumPy's can hold


def _cells(line: str, delimiter: str) -> list[str]:
    if '"' in line:
        return next(csv.reader([line.strip("\r\n")], delimiter=delimiter, skipinitialspace=True))
    return line.split() if delimiter == " " else line.strip("\r\n").split(delimiter)


def _delimiter(lines: list[str]) -> str:
    """The delimiter that cuts the most lines into equally many cells, two or more."""

    def agreement(delimiter: str) -> int:
        widths = Counter(len(_cells(line, delimiter)) for line in lines)
        return max((count for width, count in widths.items() if width > 1), default=0)

    return max(",;\t ", key=agreement)


def _is_header(cells: list[str], label: str | int | None) -> bool:
    if isinstance(label, str) and label in cells and not is_number(label):
        return True
    numbers = [cell for cell in cells if is_number(cell)]
    numbering = numbers == [str(i) for i in range(len(cells) - 1)]
    return not numbers or (numbering and any(cell.lower() in LABELS[:3] for cell in cells))


def is_number(cell: str) -> bool:
    """Whether a cell is one, as people write it."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _number(cell: str, where: str) -> float:
    if cell.strip().lower() in _MISSING:
        return float("nan")
    if not is_number(cell):
        raise DataError(f"{where}: {cell.strip()!r} is not a number")
    return float(cell)
