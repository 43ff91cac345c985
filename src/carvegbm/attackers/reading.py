"""Columns of a table, for an attacker to be found in them: numbers where they are, else texts.

Comes in: a path. Goes out: a matrix of numbers, the features' names, and the columns of texts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.numbers import as_numbers
from carvegbm.instances.tabular import load_table

__all__ = ["Columns", "read_columns"]

_MOST_COLUMNS = 1 << 17
"""Of a file with columns of texts and without names."""


class Columns(NamedTuple):
    """The features of a table."""

    X: npt.NDArray[Any]
    """Numbers; NaN where a number is missing, and in columns of texts."""
    names: tuple[str, ...] | None
    texts: dict[int, list[str | None]]
    """The columns of texts, by position; None where a text is missing."""
    label: str | None = None
    """What the column of the labels is called, which is none of the features."""


def read_columns(path: str | os.PathLike[str], **options: Any) -> Columns:
    """The features of a file; `options` are those of `load_table`."""
    try:
        table = load_table(path, **options)
    except DataError:  # not numbers alone, or no table at all, of which reading it again tells
        table = load_table(path, **options, categorical=_every)
        found = _told_apart(table.X.values, table.feature_names, os.fspath(path))
        return found._replace(label=table.label_name)
    return Columns(table.X, table.feature_names, {}, table.label_name)


def _every(names: Sequence[str] | None) -> Collection[int]:
    return range(_MOST_COLUMNS if names is None else len(names))


def _told_apart(
    columns: Sequence[npt.NDArray[Any]], names: tuple[str, ...] | None, path: str
) -> Columns:
    """Columns of cells as numbers, where all of them are, or texts."""
    X = np.full((len(columns[0]), len(columns)), np.nan)
    texts: dict[int, list[str | None]] = {}
    for position, cells in enumerate(columns):
        try:
            X[:, position] = [_number(cell) for cell in cells]
        except ValueError:
            texts[position] = [None if cell is None else str(cell) for cell in cells]
        except TypeError:  # of Parquet, which knows more than numbers and texts
            called = position if names is None else repr(names[position])
            X[:, position] = as_numbers(cells, f"{path}, column {called},")
    return Columns(X, names, texts)


def _number(cell: Any) -> float:
    if isinstance(cell, str) and "_" in cell:  # float() reads 1_0 as 10
        raise ValueError
    return np.nan if cell is None else float(cell)
