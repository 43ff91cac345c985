"""Columns of numbers and of labels side by side, where there is no pandas to hold them.

Comes in: columns of a file, or an array of objects. Goes out: a small frame that `frames` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Mixed"]


@dataclass(frozen=True, eq=False)
class Mixed:
    """Columns with names; numbers are float64, labels are objects.

    Examples
    --------
    >>> table = Mixed(("age", "job"), (np.array([1.0, 2.0]), np.array(["x", None], dtype=object)))
    >>> table.shape, table[:1].column(1).tolist(), table[:, [1, 0]].columns
    ((2, 2), ['x'], ('job', 'age'))
    """

    columns: tuple[str, ...]
    values: tuple[npt.NDArray[Any], ...]

    ndim = 2

    @classmethod
    def if_mixed(cls, X: Any) -> Any:
        """A two-dimensional array of objects, or rows of texts and numbers, as columns.

        Anything else is what it was.
        """
        rows: Any = X
        if isinstance(X, list | tuple) and any(
            isinstance(value, str) for row in X if isinstance(row, list | tuple) for value in row
        ):
            rows = np.array(X, dtype=object)
        if not isinstance(rows, np.ndarray) or rows.dtype != object or rows.ndim != 2:
            return X
        if isinstance(rows, np.ma.MaskedArray):
            rows = rows.filled(None)
        return cls(tuple(map(str, range(rows.shape[1]))), tuple(map(_column, rows.T)))

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return len(self.values[0]) if self.values else 0, len(self.values)

    def __len__(self) -> int:
        return self.shape[0]

    def column(self, position: int) -> npt.NDArray[Any]:
        """One column."""
        return self.values[position]

    def __getitem__(self, which: Any) -> Mixed:
        """Some of the rows, or [:, some of the columns]."""
        if isinstance(which, tuple) and which[1] is Ellipsis:  # as scikit-learn takes rows
            which = which[0]
        if isinstance(which, tuple):
            rows, columns = which
            some: Sequence[int] = columns
            return Mixed(
                tuple(self.columns[i] for i in some), tuple(self.values[i][rows] for i in some)
            )
        return Mixed(self.columns, tuple(values[which] for values in self.values))

    def to_numpy(self) -> npt.NDArray[Any]:
        """All values, as objects."""
        found = np.empty(self.shape, dtype=object)
        for position, values in enumerate(self.values):
            found[:, position] = values
        return found


def _column(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column without texts as what it is to numpy: its numbers are numbers, not labels."""
    if any(isinstance(value, str) for value in values):
        return values
    from carvegbm.instances.numbers import as_numbers

    return as_numbers(values, "X")
