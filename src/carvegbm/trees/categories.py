"""Categories in data: from labels to codes, and from codes to states.

Comes in: an ensemble with categorical features, and what a column holds. Goes out: that column in
another of three spaces:

- *label*: what the user calls a category, a text or a number;
- *code*: the whole number that stands for it in a matrix; -1 is no category that is known;
- *state*: the position of a code among the codes of its feature, ascending, which is what the core
  sees; -1 for every other code.

A missing value (NaN) is missing in all three. How a number becomes a code is the ensemble's
`category_rule`; the number is first rounded to its `input_precision`:

- truncate: the code is trunc(x) if 0 <= trunc(x) < 2^31 (3.7 is 3, -0.5 is 0), else there is none;
- nonnegative: the code is trunc(x) if 0 <= x < 2^24, else there is none;
- label: the code is that of the label that equals x (a whole-number label without rounding), else
  there is none, or the value is missing if `unknown_category` says so. A number that is no label,
  but the code of one that is a text, is that code;
- text: the same, and a text that spells a whole number is that number ("3" is 3, "03" a text).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import is_missing
from carvegbm.data.names import listed
from carvegbm.errors import DataError, shown
from carvegbm.trees.sets import Label, plain, spelled

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = [
    "BY_LABEL",
    "codes_of_labels",
    "in_codes",
    "in_numbers",
    "in_states",
    "labels_of_codes",
    "named_codes",
]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]
BY_LABEL = ("label", "text")
"""The rules by which numbers are labels."""


def codes_of_labels(
    ensemble: Ensemble, feature: int, labels: Sequence[Any] | npt.NDArray[Any]
) -> Floats:
    """The code of every label: NaN where it is missing (None, NaN, NA).

    An unknown label is -1, or NaN where the ensemble takes unknown categories for missing. By the
    rule "nonnegative" it is a `DataError`: XGBoost, whose rule it is, refuses it in a frame, too.
    """
    known = ensemble.categories[feature]
    place = {label: float(code) for code, label in known.items()}
    unknown = _unknown(ensemble)
    if ensemble.category_rule == "text":
        labels = [spelled(label) for label in labels]
    found = np.array(
        [np.nan if is_missing(label) else place.get(plain(label), np.inf) for label in labels]
    )
    is_unknown = np.isinf(found)
    if ensemble.category_rule == "nonnegative" and is_unknown.any():
        first = list(labels)[int(is_unknown.argmax())]
        raise DataError(
            f"{ensemble.feature_name(feature)}: unknown category {shown(first)}; the model knows "
            f"{listed(map(repr, known.values()), quote=False)}; leave the row out or map it to one"
        )
    found[is_unknown] = unknown
    return found


def labels_of_codes(ensemble: Ensemble, feature: int, codes: npt.ArrayLike) -> list[Label | None]:
    """The label of every code, the code where it has none that is known, None where it is NaN."""
    return named_codes(ensemble.categories[feature], codes)


def named_codes(known: Mapping[int, Label], codes: npt.ArrayLike) -> list[Label | None]:
    """The same, for labels by code."""
    return [
        None if np.isnan(code) else known.get(int(code), code) if code == int(code) else code
        for code in np.asarray(codes, dtype=np.float64).tolist()
    ]


def in_codes(ensemble: Ensemble, rows: Rows, encoded: Collection[int] = ()) -> Rows:
    """Rows of numbers as a user gives them, in code space; the same object where nothing changes.

    Where numbers become codes by rounding (truncate, nonnegative), they stay as they are, and so do
    the features that are `encoded`.
    """
    if not ensemble.categories or ensemble.category_rule not in BY_LABEL:
        return rows
    changed: npt.NDArray[Any] | None = None
    for feature in ensemble.categories.keys() - set(encoded):
        codes = _codes_of_numbers(ensemble, feature, rows[:, feature])
        if not np.array_equal(codes, rows[:, feature], equal_nan=True):
            if changed is None:
                changed = np.array(rows)
            changed[:, feature] = codes
    return rows if changed is None else changed


def in_numbers(ensemble: Ensemble, rows: Rows) -> Rows:
    """Rows in code space as numbers that a user would give: `in_codes` leads back to the same.

    A code whose label is a number stands there as that number. What is no known category stands
    there as a number below all labels, a missing value as NaN, and texts as their codes.
    """
    if not ensemble.categories or ensemble.category_rule not in BY_LABEL:
        return rows
    changed: npt.NDArray[Any] = np.array(rows)
    for feature, labels in ensemble.categories.items():
        numbers = {code: label for code, label in labels.items() if not isinstance(label, str)}
        if numbers:
            least = min(0.0, *map(float, numbers.values()))
            values = np.array([*(float(numbers.get(code, code)) for code in labels), least - 1])
            codes = _position(np.asarray(rows[:, feature]), np.array(list(labels), dtype=float))
            known = values[codes.astype(np.int64)]
            changed[:, feature] = np.where(np.isnan(rows[:, feature]), np.nan, known)
    return changed


def in_states(ensemble: Ensemble, rows: Rows) -> Rows:
    """Rows in code space as the core takes them; the same object where nothing changes."""
    if not ensemble.categories:
        return rows
    changed: npt.NDArray[Any] = np.array(rows)
    for feature, labels in ensemble.categories.items():
        values = _rounded(ensemble, rows[:, feature])
        # Below 0 and beyond the largest code nothing is known, so that nothing is found.
        codes = values if ensemble.category_rule in BY_LABEL else np.trunc(values)
        if ensemble.category_rule == "nonnegative":
            codes = np.where(values < 0, -1.0, codes)
        states = _position(codes, np.array(list(labels), dtype=np.float64))
        changed[:, feature] = np.where(np.isnan(values), np.nan, states)
    return changed


def _codes_of_numbers(ensemble: Ensemble, feature: int, column: Rows) -> Floats:
    """Numbers that are labels, or codes whose labels are texts, as codes."""
    known = ensemble.categories[feature]
    place = {label: code for code, label in known.items() if not isinstance(label, str)}
    values = np.asarray(column, dtype=np.float64)
    if place and all(isinstance(label, float) for label in place):
        values = _rounded(ensemble, column)
    place = {code: code for code, label in known.items() if isinstance(label, str)} | place
    pairs = sorted(pair for pair in place.items() if float(pair[0]) == pair[0])  # or no doubles
    labels = np.array([label for label, _ in pairs], dtype=np.float64)
    codes = np.array([*(code for _, code in pairs), _unknown(ensemble)], dtype=np.float64)
    found = codes[_position(values, labels).astype(np.int64)]
    return np.where(np.isnan(values), np.nan, found)


def _position(values: Floats, known: Floats) -> Floats:
    """The position of every value among the known ones, which ascend; -1 for those not there."""
    if len(known) == 0:
        return np.full(len(values), -1.0)
    place = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[place] == values, place, -1).astype(np.float64)


def _rounded(ensemble: Ensemble, column: Rows) -> Floats:
    if ensemble.input_precision == "float64":
        return np.asarray(column, dtype=np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(column, dtype=np.float32).astype(np.float64)


def _unknown(ensemble: Ensemble) -> float:
    return np.nan if ensemble.unknown_category == "missing" else -1.0
