"""Labelled rows: what training learns from, watches and is judged on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.validation import split_off

__all__ = ["N_FOLDS", "Dataset", "spaced_rows"]

N_FOLDS = 5
_FEW_ROWS = 1000

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows with encoded labels.

    Attributes
    ----------
    matrix : array or CSR matrix
        The rows, or a matrix that holds them at `positions`.
    y : array (n,)
        Class indices 0, 1, … for classification, numbers for regression.
    weight : array (n,), optional
    name : str
        Key of this data set in `evals_result_`.
    positions : array (n,), optional
        Where the rows are in `matrix`.
    """

    matrix: Any
    y: npt.NDArray[Any]
    weight: Floats | None = None
    name: str = "training"
    positions: Ints | None = None

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def X(self) -> Any:  # noqa: N802
        """The rows, array (n, d) or CSR matrix; copied from `matrix` if that holds others."""
        return self.matrix if self.positions is None else self.matrix[self.positions]

    def take(self, rows: Ints, name: str | None = None) -> Dataset:
        """Return the rows at these positions; their values are not copied before `X` is read."""
        return Dataset(
            self.matrix,
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            self.name if name is None else name,
            rows if self.positions is None else self.positions[rows],
        )

    def copied(self) -> Dataset:
        """Return the same rows with a matrix of their own."""
        return replace(self, matrix=self.X, positions=None)

    def split(
        self, seed: int | None, stratify: bool = True, most: int | None = None
    ) -> tuple[Dataset, Dataset]:
        """Split off a fifth of the rows, at most `most`, for validation; return both parts."""
        train, valid = split_off(self.y, seed, stratify, most)
        return self.take(train), self.take(valid, "valid_0").copied()

    def folds(
        self, seed: int, stratify: bool, n_folds: int = N_FOLDS, repeats: int | None = None
    ) -> Iterator[tuple[Dataset, Dataset]]:
        """Yield training and validation rows of k-fold cross-validation, twice if they are few."""
        from sklearn.model_selection import KFold, StratifiedKFold

        splitter = StratifiedKFold if stratify else KFold
        for repeat in range(repeats or 1 + (len(self) < _FEW_ROWS)):
            folds = splitter(n_folds, shuffle=True, random_state=seed + repeat)
            for train, valid in folds.split(np.zeros((len(self), 1)), self.y):
                yield self.take(train), self.take(valid).copied()

    def dense(self) -> Dataset:
        """Return the same rows as a C-contiguous array."""
        X = self.X.toarray() if hasattr(self.X, "toarray") else self.X
        return replace(self, matrix=np.ascontiguousarray(X), positions=None)


def spaced_rows(n: int, most: int = 1000) -> Ints:
    """Positions of at most `most` of n rows, evenly spaced; used to spot-check a model."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
