"""Categorical features: columns of frames with categories, and their codes.

The code of a label is its position among the labels of its column in training, as in LightGBM. A
column of categories without an order is a categorical feature; the codes of an ordered one are
numbers. A label that did not occur in training has the code -1 (the category of no label, which an
attacker may change) in a categorical feature and NaN elsewhere; a missing label has NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import is_missing
from carvegbm.data.names import column_names, feature_position
from carvegbm.data.rows import ObjectTable
from carvegbm.errors import CarveError, DataError, shown
from carvegbm.training.params import AUTO

__all__ = ["FrameCategories", "categorical_positions", "category_numbers", "known_categories"]

_LARGEST_CATEGORY = (1 << 24) - 1
"""LightGBM's text writes a set of categories as bits up to its largest member."""

Floats = npt.NDArray[np.float64]
Label = str | bool | int | float


@dataclass(frozen=True)
class FrameCategories:
    """The columns with categories of a training frame: of pandas, or read from a file.

    Attributes
    ----------
    labels : mapping from position to labels
        Of every such column, in the order of their codes.
    unordered : set of positions
        Columns whose labels have no order.
    categorical : set of positions
        The categorical features.
    """

    labels: Mapping[int, tuple[Label, ...]] = field(default_factory=dict)
    unordered: frozenset[int] = frozenset()
    categorical: frozenset[int] = frozenset()

    @classmethod
    def of(cls, X: Any) -> FrameCategories:
        """Return the categories of a frame; an array has none."""
        labels: dict[int, tuple[Label, ...]] = {}
        unordered = set()
        for position, name in enumerate(column_names(X) or ()):
            if not _holds_categories(X, position):
                continue
            column = _column(X, position)
            if isinstance(column, np.ndarray):
                known = sorted({each for each in column.tolist() if each is not None}, key=str)
            else:
                known = column.dtype.categories.tolist()
            labels[position] = tuple(_check_label(label, name) for label in known)
            if isinstance(column, np.ndarray) or not column.dtype.ordered:
                unordered.add(position)
        return cls(labels, frozenset(unordered))

    def encode(self, X: Any, what: str = "X") -> Any:
        """Return the same frame with codes in place of labels; an array is returned as it is."""
        names = column_names(X)
        if names is None or not (self.labels or isinstance(X, ObjectTable)):
            return X
        if not isinstance(X, ObjectTable) and not hasattr(X, "iloc"):
            raise DataError(f"{what} needs the categories of pandas' columns; give X.to_pandas()")
        for position in sorted(self.labels):
            if position < len(names):
                X = self._encode_column(X, position, f"{what}, column {names[position]!r},")
        if isinstance(X, ObjectTable) and all(values.dtype != object for values in X.values):
            return np.column_stack(X.values).astype(np.float64)
        return X

    def _encode_column(self, X: Any, position: int, where: str) -> Any:
        values = _column(X, position).tolist()
        is_text = any(isinstance(value, str) for value in values)
        if not is_text and not _holds_categories(X, position):
            raise DataError(
                f"{where} held categories in training and holds numbers; give it the same type "
                "(pandas: astype('category'))"
            )
        codes = {label: float(code) for code, label in enumerate(self.labels[position])}
        unknown = -1.0 if position in self.categorical else np.nan
        encoded = np.array(
            [np.nan if is_missing(value) else codes.get(value, unknown) for value in values],
            dtype=np.float64,
        )
        if isinstance(X, ObjectTable):
            return ObjectTable(
                X.columns, (*X.values[:position], encoded, *X.values[position + 1 :])
            )
        copy = X.copy(deep=False)
        copy.isetitem(position, encoded)
        return copy


def _holds_categories(X: Any, position: int) -> bool:
    if isinstance(X, ObjectTable):
        return X.values[position].dtype == object
    return hasattr(X, "iloc") and str(X.dtypes.iloc[position]) == "category"


def _column(X: Any, position: int) -> Any:
    return X.column(position) if isinstance(X, ObjectTable) else X.iloc[:, position]


def _check_label(label: Any, name: str) -> Label:
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str | bool | int) or (isinstance(plain, float) and math.isfinite(plain)):
        return plain
    raise DataError(
        f"X, column {name!r}, has the category {shown(label)}, which LightGBM's text cannot hold; "
        "name categories by texts or numbers"
    )


def categorical_positions(
    given: Any, frame: FrameCategories, names: Sequence[str] | None, n_features: int
) -> frozenset[int]:
    """Return the features that `categorical_feature` names, by name or position."""
    if given is None:
        return frozenset()
    if isinstance(given, str) and given == AUTO:
        return frame.unordered
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise CarveError(
            "categorical_feature must be 'auto' or a list of names or positions, got "
            f"{shown(given)}"
        )
    try:
        return frozenset(feature_position(feature, names, n_features) for feature in given)
    except (DataError, TypeError) as error:
        raise CarveError(f"categorical_feature: {error}") from None


def known_categories(
    X: Any, frame: FrameCategories, names: Sequence[str] | None
) -> dict[int, dict[int, Label]]:
    """Return the label of every code, by categorical feature, as read from LightGBM's model text.

    These are all labels of the feature's column in the frame; without labels, the codes in X.
    """
    found: dict[int, dict[int, Label]] = {}
    for feature in sorted(frame.categorical):
        if feature in frame.labels:
            found[feature] = dict(enumerate(frame.labels[feature]))
            continue
        values = X[:, [feature]]
        column = np.asarray(values.toarray() if hasattr(values, "toarray") else values)[:, 0]
        codes = np.unique(category_numbers(column.astype(np.float64)))
        codes = codes[codes >= 0].tolist()
        if codes and codes[-1] > _LARGEST_CATEGORY:
            name = f"feature {feature}" if names is None else repr(names[feature])
            raise DataError(
                f"categorical_feature: {name} has the category {codes[-1]}, more than "
                f"{_LARGEST_CATEGORY}; number the categories 0, 1, 2, …"
            )
        found[feature] = {code: code for code in codes}
    return found


def category_numbers(column: Floats) -> npt.NDArray[np.int64]:
    """Return the category of every value as LightGBM reads it: truncated; -1 for no category."""
    with np.errstate(invalid="ignore"):
        is_category = (column > -1) & (column < 1 << 31)  # False for NaN
        return np.where(is_category, np.trunc(column), -1.0).astype(np.int64)
