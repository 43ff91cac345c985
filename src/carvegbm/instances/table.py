"""A table: instances with their labels, from whatever file they came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.columns import is_same_name, order_of

__all__ = ["Table"]


@dataclass(frozen=True)
class Table:
    """Instances with their labels.

    Attributes
    ----------
    X : array (n, d) of float64, or of float32 where the file holds that
        Memory-mapped where the file allows it; empty cells are NaN. CSR where that was asked for;
        columns of numbers and of labels where there are categorical ones.
    y : array (n,)
        Labels as integers, floats or strings.
    feature_names : tuple of str, or None where the file names no columns
    label_name : str or None
    absent_is_zero : bool
        Whether what X leaves out is 0, whoever reads it: the format says so.
    """

    X: Any
    y: npt.NDArray[Any]
    feature_names: tuple[str, ...] | None = None
    label_name: str | None = None
    absent_is_zero: bool = False

    def __post_init__(self) -> None:
        if self.X.ndim != 2:
            raise DataError(f"X must have two dimensions (rows, features), got {self.X.ndim}")
        if self.y.shape != self.X.shape[:1]:
            raise DataError(f"X has {self.X.shape[0]} rows, y has the shape {self.y.shape}")

    def head(self, rows: int) -> Table:
        """The first `rows` instances."""
        if rows < 1:
            raise DataError(f"rows must be >= 1, got {rows}")
        return replace(self, X=self.X[:rows], y=self.y[:rows])

    def ordered_as(self, names: Sequence[str] | None, what: str = "the data") -> Table:
        """The columns in the order of `names`, see `carvegbm.instances.columns.order_of`.

        Unchanged where the table or the model names no columns. Raises `DataError` where the
        columns of the table, called `what` in the message, do not fit the names.
        """
        if names is None or self.feature_names is None:
            return self
        try:
            order = order_of(self.feature_names, names, what)
        except DataError as error:
            if any(self.label_name and is_same_name(self.label_name, name) for name in names):
                raise DataError(
                    f"{error}; {self.label_name!r} was taken for the label, name it with --label"
                ) from None
            raise
        if order is None:
            return self
        return replace(
            self, X=self.X[:, order], feature_names=tuple(self.feature_names[i] for i in order)
        )
