"""Labelled rows: what training learns from, what it watches, what it is judged on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.inputs import split_off
from carvegbm.training.teams.share import Share

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
    shared: Share | None = None
    """Which of all rows these are; None: they are all rows."""

    def __len__(self) -> int:
        """How many rows are here."""
        return int(self.X.shape[0])

    @cached_property
    def share(self) -> Share:
        """Which of all rows these are, and who has the others."""
        return Share.alone(len(self)) if self.shared is None else self.shared

    def split_off(self, seed: int | None, stratify: bool = True) -> tuple[Labelled, Labelled]:
        """Training and validation rows: a fifth is split off, a share of every class alike."""
        kept, rest = split_off(self.share.everyone(self.labels), seed, stratify)
        return self.part(kept), self.part(rest, "valid_0")

    def part(self, positions: npt.NDArray[np.int64], name: str | None = None) -> Labelled:
        """Some of all rows, ascending, under another name."""
        here, share = self.share.part(positions)
        return Labelled(
            self.X[here],
            self.labels[here],
            None if self.weight is None else self.weight[here],
            self.name if name is None else name,
            None if share.team.is_alone else share,
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
