"""Labelled rows: what training learns from, watches and is judged on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.validation import split_off

__all__ = ["Dataset", "spaced_rows"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Dataset:
    """Rows with encoded labels.

    Attributes
    ----------
    X : array (n, d) or CSR matrix
    y : array (n,)
        Class indices 0, 1, … for classification, numbers for regression.
    weight : array (n,), optional
    name : str
        Key of this data set in `evals_result_`.
    """

    X: Any
    y: npt.NDArray[Any]
    weight: Floats | None = None
    name: str = "training"

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def take(self, rows: Ints, name: str | None = None) -> Dataset:
        """Return the rows at these positions."""
        return Dataset(
            self.X[rows],
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            self.name if name is None else name,
        )

    def split(
        self, seed: int | None, stratify: bool = True, most: int | None = None
    ) -> tuple[Dataset, Dataset]:
        """Split off a fifth of the rows, at most `most`, for validation; return both parts."""
        train, valid = split_off(self.y, seed, stratify, most)
        return self.take(train), self.take(valid, "valid_0")

    def folds(
        self, seed: int, stratify: bool, n_folds: int = 5, repeats: int = 2
    ) -> Iterator[tuple[Dataset, Dataset]]:
        """Yield training and validation rows of repeated k-fold cross-validation.

        Examples
        --------
        >>> rows = Dataset(np.zeros((10, 1)), np.arange(10) % 2)
        >>> [(len(train), len(valid)) for train, valid in rows.folds(0, True, 5, 1)]
        [(8, 2), (8, 2), (8, 2), (8, 2), (8, 2)]
        """
        from sklearn.model_selection import KFold, StratifiedKFold

        splitter = StratifiedKFold if stratify else KFold
        for repeat in range(repeats):
            folds = splitter(n_folds, shuffle=True, random_state=seed + repeat)
            for train, valid in folds.split(np.zeros((len(self), 1)), self.y):
                yield self.take(train), self.take(valid)

    def has_rows_for_folds(self, stratify: bool, n_folds: int = 5) -> bool:
        """Return whether every fold can have rows, of every class if stratified."""
        if not stratify:
            return len(self) >= 2 * n_folds
        return bool(np.unique(self.y, return_counts=True)[1].min() >= n_folds)

    def concat(self, other: Dataset) -> Dataset:
        """Return the rows of both; weights are kept if both have them."""
        weight = None
        if self.weight is not None and other.weight is not None:
            weight = np.concatenate([self.weight, other.weight])
        X = np.concatenate([self.dense().X, other.dense().X])
        return Dataset(X, np.concatenate([self.y, other.y]), weight, self.name)

    def dense(self) -> Dataset:
        """Return the same rows with X as a C-contiguous array."""
        X = self.X.toarray() if hasattr(self.X, "toarray") else self.X
        return replace(self, X=np.ascontiguousarray(X))


def spaced_rows(n: int, most: int = 1000) -> Ints:
    """Positions of at most `most` of n rows, evenly spaced; used to spot-check a model.

    Examples
    --------
    >>> spaced_rows(3).tolist(), len(spaced_rows(10**6))
    ([0, 1, 2], 1000)
    """
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.int64))
