"""Tables read from files, and how they become rows of one model."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.data.names import is_same_name, order_of
from carvegbm.data.rows import ObjectTable
from carvegbm.data.sparse import NUMBERS_AT_ONCE, is_sparse
from carvegbm.errors import DataError

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["Absent", "Categorical", "FileSchema", "ReadOptions", "Table", "with_absent"]

Absent = Literal["zero", "missing"]
Categorical = Callable[[Sequence[str] | None], Collection[int]]
"""From the names of a file's features, or None, to the positions of the categorical ones."""


def no_columns(_names: Sequence[str] | None) -> Collection[int]:
    """Return the categorical features of a file without any."""
    return ()


@dataclass(frozen=True)
class ReadOptions:
    """The options of `load_table`; `categorical` may depend on the names of the features.

    With label False, a file has no labels, and y of its tables is meaningless.
    """

    label: str | int | None = None
    n_features: int | None = None
    zero_based: bool | None = None
    sparse: bool = False
    categorical: Categorical = no_columns


@dataclass(frozen=True)
class Table:
    """Rows with their labels.

    Attributes
    ----------
    X : array (n, d) of float64, or of float32 if the file holds that
        Memory-mapped if the file is `.npy`; empty cells are NaN. CSR if that was requested; an
        `ObjectTable` if there are categorical features.
    y : array (n,)
        Labels as integers, floats or strings.
    feature_names : tuple of str, or None if the file does not name its columns
    label_name : str or None
    absent_is_zero : bool
        Whether the file format defines absent entries of X as 0.
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
        """Return the first rows."""
        if rows < 1:
            raise DataError(f"rows must be >= 1, got {rows}")
        return replace(self, X=self.X[:rows], y=self.y[:rows])

    def ordered_as(self, names: Sequence[str] | None, what: str = "the data") -> Table:
        """Return the table with its columns in the order of `names`, see `order_of`.

        Errors call the table `what`.
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


@dataclass(frozen=True, eq=False)
class FileSchema:
    """How files become rows of one model; can be pickled.

    Columns take the model's order if names tell it, categories become labels that the model knows,
    and y gets the type of the model's classes, since files cannot tell "1" from 1.

    Attributes
    ----------
    ensemble : Ensemble
    label, zero_based
        As for `load_table`; label False if files have no labels.
    absent : {"zero", "missing"} or None
        What absent entries mean, if the user said so.
    """

    ensemble: Ensemble
    label: str | Literal[False] | None = None
    zero_based: bool | None = None
    absent: Absent | None = None

    def read_options(self, path: str) -> ReadOptions:
        """Return how to read a file."""
        labelled = _LabelledFeatures(self.ensemble, path)
        return ReadOptions(self.label, self.ensemble.n_features, self.zero_based, True, labelled)

    def absolute(self) -> FileSchema:
        """Return a copy for processes with another working folder; `label` may name a file."""
        label = self.label
        if label and label.endswith((".npy", ".npy.gz")) and os.path.isfile(label):
            return replace(self, label=os.path.abspath(label))
        return self

    def rows(self, table: Table, path: str) -> tuple[Any, npt.NDArray[Any] | None]:
        """Return X and y, or None, of a table from the file; small LIBSVM data become dense."""
        table = table.ordered_as(self.ensemble.feature_names, path)
        X = table.X
        if is_sparse(X):
            is_small = X.shape[0] * X.shape[1] <= NUMBERS_AT_ONCE
            if table.absent_is_zero and is_small and self.ensemble.absent == "zero":
                X = X.toarray()
        elif self.absent is not None:
            raise DataError(f"{path} has no absent entries, so --absent has no meaning; drop it")
        elif isinstance(X, ObjectTable):
            X = _with_known_labels(X, self.ensemble)
        if self.label is False:
            return X, None
        y, classes = table.y, self.ensemble.classes
        is_text = classes.dtype.kind in "US" and y.dtype.kind not in "US"
        return X, y.astype(np.str_) if is_text else y


def with_absent(ensemble: Ensemble, absent: Absent) -> Ensemble:
    """Return the model with another meaning of absent entries."""
    from carvegbm.model.ensemble import Ensemble, fields_of

    if absent == ensemble.absent:
        return ensemble
    return Ensemble(**{**fields_of(ensemble), "absent": absent})


@dataclass(frozen=True, eq=False)
class _LabelledFeatures:
    """Returns which features of a file hold labels of categories; can be pickled."""

    ensemble: Ensemble
    path: str

    def __call__(self, names: Sequence[str] | None) -> Collection[int]:
        from carvegbm.model.categories import names_of_codes

        features = names_of_codes(self.ensemble)
        order = None
        if features and names is not None and self.ensemble.feature_names is not None:
            try:
                order = order_of(names, self.ensemble.feature_names, self.path)
            except DataError:  # `ordered_as` reports it with the name of the label column
                return range(len(names))
        return {feature if order is None else order[feature] for feature in features}


def _with_known_labels(X: ObjectTable, ensemble: Ensemble) -> ObjectTable:
    """Replace cells by the labels of the model that they spell."""
    columns = list(X.values)
    for feature, labels in ensemble.categories.items():
        if columns[feature].dtype == object:
            known = {str(label): label for label in labels.values()}
            numbers = not any(isinstance(label, str) for label in labels.values())
            cells = [_as_label(cell, known, numbers) for cell in columns[feature]]
            columns[feature] = np.array([*cells, None], dtype=object)[:-1]
    return replace(X, values=tuple(columns))


def _as_label(cell: Any, known: Mapping[str, Any], are_numbers: bool) -> Any:
    if not isinstance(cell, str) or cell in known:
        return known.get(cell, cell) if isinstance(cell, str) else cell
    try:
        return float(cell) if are_numbers and "_" not in cell else cell
    except ValueError:
        return cell
