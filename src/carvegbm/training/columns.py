"""Columns with categories: their labels as codes, as LightGBM writes them into a matrix.

Comes in: pandas frames, or columns of a file, which may hold categories, and `categorical_feature`
as LightGBM takes it. Goes out: the same with codes in these columns, and which features are
categorical.

The code of a label is its position among the labels that the column had in training. A value that
is none of them is no category of a categorical feature (-1: an attacker may change it, as the model
has it everywhere else), and a missing number of any other (NaN). LightGBM takes the columns of a
pandas frame whose categories have no order for categorical features, and the codes of ordered ones
for numbers; so does training here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import is_missing
from carvegbm.data.names import column_names, feature_named
from carvegbm.data.rows import ObjectTable
from carvegbm.errors import CarveError, DataError, shown

__all__ = ["AUTO", "Columns", "categorical_positions", "category_numbers", "known_categories"]

AUTO = "auto"
"""For `categorical_feature`: the columns of a frame that hold categories without an order."""

LARGEST_CATEGORY = (1 << 24) - 1
"""LightGBM's text writes a set of categories as bits up to its largest member."""

Floats = npt.NDArray[np.float64]
Label = str | bool | int | float


@dataclass(frozen=True)
class Columns:
    """What training learned of the columns that hold categories.

    Attributes
    ----------
    labels : mapping from position to labels
        Of every such column, in the order of their codes.
    unordered : set of positions
        Those whose labels have no order.
    categorical : set of positions
        Features that training takes for categorical.
    """

    labels: Mapping[int, tuple[Label, ...]] = field(default_factory=dict)
    unordered: frozenset[int] = frozenset()
    categorical: frozenset[int] = frozenset()

    @classmethod
    def of(cls, X: Any) -> Columns:
        """The columns of a frame; of anything else none."""
        labels: dict[int, tuple[Label, ...]] = {}
        unordered = set()
        for position, name, column in _encoded(X):
            known, is_ordered = _labels(column)
            labels[position] = tuple(_label(label, name) for label in known)
            if not is_ordered:
                unordered.add(position)
        return cls(labels, frozenset(unordered))

    def coded(self, X: Any, what: str = "X") -> Any:
        """The same frame with codes for labels; what is no frame as it is.

        A column that held categories in training may hold the labels themselves now. Labels in
        any other column are refused by what checks for numbers.
        """
        names = column_names(X)
        if names is None:
            return X
        encoded = {position: column for position, _, column in _encoded(X)}
        for position in sorted(self.labels):
            if position >= len(names):
                continue
            column = encoded.get(position)
            values = (_column(X, position, names) if column is None else column).tolist()
            if column is None and not any(isinstance(value, str) for value in values):
                raise DataError(
                    f"{what}, column {names[position]!r}, held categories in training and holds "
                    "numbers; give it the same type (pandas: astype('category'))"
                )
            unknown = -1.0 if position in self.categorical else np.nan
            codes = _codes(values, self.labels[position], unknown)
            X = _with_column(X, position, codes)
        is_numbers = isinstance(X, ObjectTable) and not _encoded(X)
        return np.column_stack(X.values).astype(np.float64) if is_numbers else X


def categorical_positions(
    given: Any, columns: Columns, names: Sequence[str] | None, n_features: int
) -> frozenset[int]:
    """The categorical features that `categorical_feature` names, by name or position.

    Examples
    --------
    >>> sorted(categorical_positions(["b", 0], Columns(), ["a", "b"], 2))
    [0, 1]
    """
    if isinstance(given, str):
        if given == AUTO:
            return columns.unordered
        raise CarveError(
            f"categorical_feature must be 'auto' or a list of names or positions, got {given!r}"
        )
    if given is None:
        return frozenset()
    if not isinstance(given, Iterable):
        raise CarveError(
            f"categorical_feature must be 'auto' or a list of names or positions, got "
            f"{shown(given)}"
        )
    found = set()
    for feature in given:
        if isinstance(feature, str):
            try:
                found.add(feature_named(feature, names))
            except DataError as error:
                raise CarveError(f"categorical_feature: {error}") from None
            continue
        whole = isinstance(feature, int | np.integer) and not isinstance(feature, bool)
        if not whole or not 0 <= feature < n_features:
            raise CarveError(
                f"categorical_feature: {shown(feature)} is no name and no position in "
                f"0…{n_features - 1}"
            )
        found.add(int(feature))
    return frozenset(found)


def known_categories(
    X: Any,
    features: Iterable[int],
    columns: Columns,
    names: Sequence[str] | None,
) -> dict[int, dict[int, Label]]:
    """Return the categories of every categorical feature, as read from LightGBM's model text.

    These are all labels of the feature's column in the frame; without labels, the codes in X.

    Examples
    --------
    >>> known_categories(np.array([[2.0, 1], [0.0, 1]]), [0, 1], Columns({1: ("a", "b")}), None)
    {0: {0: 0, 2: 2}, 1: {0: 'a', 1: 'b'}}
    """
    found: dict[int, dict[int, Label]] = {}
    for feature in sorted(features):
        if feature in columns.labels:
            found[feature] = dict(enumerate(columns.labels[feature]))
            continue
        values = X[:, [feature]]
        column = np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]
        codes = np.unique(category_numbers(column.astype(np.float64)))
        codes = codes[codes >= 0].tolist()
        if codes and codes[-1] > LARGEST_CATEGORY:
            name = f"feature {feature}" if names is None else repr(names[feature])
            raise DataError(
                f"categorical_feature: {name} has the category {codes[-1]}, more than "
                f"{LARGEST_CATEGORY}; number the categories 0, 1, 2, …"
            )
        found[feature] = {code: code for code in codes}
    return found


# ── frames ───────────────────────────────────────────────────────────────────────────────────


def _encoded(X: Any) -> list[tuple[int, str, Any]]:
    """Position, name and values of every column of a frame that holds categories."""
    names = column_names(X)
    if names is None:
        return []
    found = []
    for position, kind in enumerate(_kinds(X)):
        if kind.startswith(("category", "categorical", "enum", "dictionary")):
            found.append((position, names[position], _column(X, position, names)))
    return found


def _kinds(X: Any) -> list[str]:
    """The type of every column, in small letters."""
    if isinstance(X, ObjectTable):
        return ["category" if values.dtype == object else "numbers" for values in X.values]
    if hasattr(X, "schema") and hasattr(X, "column_names"):  # pyarrow
        return [str(kind).lower() for kind in X.schema.types]
    return [str(kind).lower() for kind in getattr(X, "dtypes", ())]


def _column(X: Any, position: int, names: Sequence[str]) -> Any:
    if isinstance(X, ObjectTable):
        return X.column(position)
    if not hasattr(X, "iloc"):
        raise DataError(
            f"X, column {names[position]!r}, holds categories, which training takes from pandas "
            "frames only; give X.to_pandas()"
        )
    return X.iloc[:, position]


def _labels(column: Any) -> tuple[list[Any], bool]:
    """The labels of a column that holds categories, and whether they have an order."""
    if isinstance(column, np.ndarray):  # of a file
        return sorted({label for label in column.tolist() if label is not None}, key=str), False
    return column.dtype.categories.tolist(), bool(column.dtype.ordered)


def _label(label: Any, name: str) -> Label:
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str | bool | int) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    raise DataError(
        f"X, column {name!r}, has the category {shown(label)}, which LightGBM's text cannot hold; "
        "name categories by texts or numbers"
    )


def _codes(values: Sequence[Any], labels: Sequence[Label], unknown: float) -> Floats:
    place = {label: float(code) for code, label in enumerate(labels)}

    def code(value: Any) -> float:
        if is_missing(value):
            return np.nan
        try:
            return place.get(value, unknown)
        except TypeError:  # not even a label
            return unknown

    return np.array([code(value) for value in values], dtype=np.float64)


def _with_column(X: Any, position: int, values: Floats) -> Any:
    """The same frame with other values in one column."""
    if isinstance(X, ObjectTable):
        columns = [*X.values]
        columns[position] = values
        return ObjectTable(X.columns, tuple(columns))
    copy = X.copy(deep=False)
    copy.isetitem(position, values)
    return copy


def category_numbers(column: Floats) -> npt.NDArray[np.int64]:
    """Return the category of every value as LightGBM reads it: truncated; -1 for no category.

    Examples
    --------
    >>> category_numbers(np.array([3.7, 0.0, -0.5, -2.0, np.nan])).tolist()
    [3, 0, 0, -1, -1]
    """
    with np.errstate(invalid="ignore"):
        is_category = (column > -1) & (column < 1 << 31)  # False for NaN
        return np.where(is_category, np.trunc(column), -1.0).astype(np.int64)
