"""Tables in text: CSV and LIBSVM.

Comes in: an open file. Goes out: arrays, and for every mistake in the text one line that says
where it is. Lines and columns are counted from 1, as an editor or a spreadsheet counts them.
"""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.mixed import Mixed
from carvegbm.instances.sparse import Csr

LABELS = ("label", "target", "class", "y")
"""What a column of labels is called, whatever its case; where none is, the last one is taken."""
_MISSING = ("", "nan", "na", "n/a", "null", "?")
_PAIR = re.compile(rb"(?:[-+]?\d[\w.]*|qid):\S*")  # of LIBSVM, even if there is a mistake in it
_MOST_COLUMNS = 1 << 24  # of a table, which holds a number for each in every row

_Features = npt.NDArray[np.float64] | Mixed
_Csv = tuple[_Features, npt.NDArray[Any], "tuple[str, ...] | None", "str | None"]
_Categorical = Callable[[Sequence[str] | None], Collection[int]]


# ── CSV ──────────────────────────────────────────────────────────────────────────────────────


def read_csv(
    name: str, lines: Iterable[str], label: str | int | None, categorical: _Categorical
) -> _Csv:
    """Features, labels, feature names and label name; empty cells are NaN.

    Of the features that are `categorical`, the cells are kept as they are, None where they are
    empty; the columns then stand side by side.

    The first line is a header iff none of its cells is a number, or one of them is the name given
    as `label`, or it numbers the features 0, 1, … and names the label, as pandas does.
    """
    numbered = ((i, line) for i, line in enumerate(lines, 1) if line.strip())
    start = list(itertools.islice(numbered, 20))
    if not start:
        raise DataError(f"{name}: empty file")
    delimiter = _delimiter([line for _, line in start])
    first = [cell.strip() for cell in _cells(start[0][1], delimiter)]
    width = len(first)
    header = first if _is_header(first, label) else None
    at = label_column(name, header, width, label)
    names = None if header is None else tuple(c for i, c in enumerate(header) if i != at)
    texts: dict[int, list[str | None]] = {i: [] for i in categorical(names) if i < width - 1}
    labels: list[str] = []
    values = array("d")
    for line_number, line in itertools.chain(start[1:] if header else start, numbered):
        cells = _cells(line, delimiter)
        if len(cells) != width:
            raise DataError(
                f"{name}: line {line_number} has {len(cells)} cells, line {start[0][0]} has {width}"
            )
        labels.append(cells.pop(at).strip())
        if labels[-1].lower() in ("", "nan"):
            raise DataError(f"{name}: line {line_number}, column {at + 1}: the label is missing")
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
            for i, cell in enumerate(cells):
                place = i + (i >= at)
                where = f"{name}: line {line_number}, column {place + 1}"
                values.append(_number(cell, where + (f" ({header[place]})" if header else "")))
    numbers = np.frombuffer(values, dtype=np.float64).reshape(len(labels), width - 1)
    X: _Features = numbers
    if texts:
        columns = [
            np.array(texts[i], dtype=object) if i in texts else column
            for i, column in enumerate(numbers.T)
        ]
        X = Mixed(names or tuple(map(str, range(width - 1))), tuple(columns))
    return X, label_values(labels), names, None if header is None else header[at]


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


def label_values(labels: Sequence[str]) -> npt.NDArray[Any]:
    """Labels as integers if all of them are, else as floats, else as strings."""
    for kind in (int, float):
        try:
            return np.array([kind(label) for label in labels], dtype=np.dtype(kind))
        except (ValueError, OverflowError):
            continue
    return np.array(labels)


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
    if isinstance(label, str) and label in cells and not _is_number(label):
        return True
    numbers = [cell for cell in cells if _is_number(cell)]
    numbering = numbers == [str(i) for i in range(len(cells) - 1)]
    return not numbers or (numbering and any(cell.lower() in LABELS[:3] for cell in cells))


def _is_number(cell: str) -> bool:
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


# ── LIBSVM ───────────────────────────────────────────────────────────────────────────────────


def is_libsvm(sample: bytes) -> bool:
    """Whether text that starts like this is "label index:value index:value …"."""
    for line in sample.splitlines():
        tokens = line.partition(b"#")[0].split()
        if len(tokens) > 1:
            return _PAIR.fullmatch(tokens[1]) is not None
    return False


def read_libsvm(
    name: str, file: IO[bytes], n_features: int | None, zero_based: bool | None, as_sparse: bool
) -> tuple[npt.NDArray[np.float64] | Csr, npt.NDArray[Any]]:
    """Features (absent indices are 0) and labels."""
    from sklearn.datasets import load_svmlight_file

    try:
        sparse, y = load_svmlight_file(file, dtype=np.float64, zero_based=True)
        mistake = _first_mistake(name, file) if _has_underscore(file) else None
    except (ValueError, OverflowError) as error:
        mistake = _first_mistake(name, file) or f"{name}: {error}"
    if mistake is not None:
        raise DataError(mistake)
    if not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise DataError(f"{name}: the label of row {row + 1} is {y[row]}, not a finite number")
    if zero_based is None:
        zero_based = bool((sparse.indices == 0).any())
    if not zero_based:
        if (sparse.indices == 0).any():
            raise DataError(f"{name}: index 0 occurs, so the indices do not start at 1")
        sparse = sparse[:, 1:]
    largest = int(sparse.indices.max(initial=-1)) + 1
    if largest > _MOST_COLUMNS and n_features is None and not as_sparse:
        raise DataError(
            f"{name}: index {largest - zero_based} asks for more than {_MOST_COLUMNS} columns; "
            "number the features one after another"
        )
    width = largest if n_features is None else n_features
    if largest > width:
        raise DataError(
            f"{name}: index {largest - zero_based} is beyond the model's {width} features"
        )
    sparse.resize(len(y), width)
    whole = np.isfinite(y).all() and (y == np.rint(y)).all()
    return sparse if as_sparse else sparse.toarray(), y.astype(np.int64) if whole else y


def _has_underscore(file: IO[bytes]) -> bool:
    """Whether there is one anywhere; float() reads 1_0 as 10."""
    file.seek(0)
    while part := file.read(1 << 20):
        if b"_" in part:
            return True
    return False


def _first_mistake(name: str, file: IO[bytes]) -> str | None:
    """Where the text stops being LIBSVM, or None if no single line is to blame."""
    file.seek(0)
    for number, line in enumerate(file, 1):
        last = -1
        tokens = line.partition(b"#")[0].decode("utf-8", "replace").split()
        for i, token in enumerate(tokens):
            index, colon, value = token.partition(":") if i else ("0", ":", token)
            if index == "qid" and i == 1:
                continue
            if not colon or not index.isdecimal() or not _is_number(value):
                kind = "index:value" if i else "a numeric label"
                return f"{name}: line {number}, column {i + 1}: {token!r} is not {kind}"
            if len(index.lstrip("0")) > 10 or int(index) >= 1 << 31:
                return (
                    f"{name}: line {number}: index {index[:24]} is beyond 2^31 - 1; renumber them"
                )
            if i and int(index) <= last:
                return f"{name}: line {number}: index {index} comes after {last}; sort them"
            last = int(index) if i else -1
    return None
