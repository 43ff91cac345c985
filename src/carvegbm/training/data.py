"""Labelled rows: what training learns from, what it watches, what it is judged on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.inputs import split_off

__all__ = ["Labelled", "dense", "some_rows"]

Floats = npt.NDArray[np.float64]

_SOME = 1000


@dataclass(frozen=True)
class Labelled:
    """Rows with encoded labels: 0, 1, … for classes, numbers for regression."""

    X: Any  # an array, or a sparse matrix stored by row
    labels: npt.NDArray[Any]
    weight: Floats | None = None
    name: str = "training"

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.X.shape[0])

    def split_off(self, seed: int | None, stratify: bool = True) -> tuple[Labelled, Labelled]:
        """Split a fifth of the rows off as validation rows, by class if `stratify`."""
        kept, rest = split_off(self.labels, seed, stratify)
        return self.part(kept), self.part(rest, "valid_0")

    def part(self, positions: npt.NDArray[np.int64], name: str | None = None) -> Labelled:
        """Return the rows at these positions, under another name if one is given."""
        return Labelled(
            self.X[positions],
            self.labels[positions],
            None if self.weight is None else self.weight[positions],
            self.name if name is None else name,
        )


def dense(X: Any) -> npt.NDArray[Any]:
    """The rows as an array; a refit goes over them again and again."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


def some_rows(n: int) -> npt.NDArray[np.int64]:
    """Positions of up to 1000 of n rows, evenly spaced: what a check looks at.

    Examples
    --------
    >>> some_rows(3).tolist(), len(some_rows(10**6))
    ([0, 1, 2], 1000)
    """
    return np.unique(np.linspace(0, n - 1, min(n, _SOME)).astype(np.int64))
