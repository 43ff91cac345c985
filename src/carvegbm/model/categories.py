"""Categorical features: their labels, codes and states, and splits by sets of codes.

A category has three representations; a missing value is NaN in all of them:

- *label*: what the user calls it, a text or a number;
- *code*: the whole number that stands for it in a matrix, -1 for no known category;
- *state*: the position of its code among the sorted codes of its feature, which is what the core
  sees; -1 for any other code.

A number x in a categorical column, first rounded to the ensemble's `input_precision`, becomes a
code by the ensemble's `category_rule`:

- truncate: trunc(x) if 0 <= trunc(x) < 2^31 (3.7 is 3, -0.5 is 0), else -1;
- nonnegative: trunc(x) if 0 <= x < 2^24, else -1;
- label: the code of the label that equals x (whole-number labels are compared without rounding),
  else x itself if x is a code whose label is a text, else -1, or NaN if `unknown_category` is
  "missing";
- text: as label, and a text that spells a whole number is that number ("3" is 3, "03" a text).

A split on a categorical feature holds the number of its set of codes. Sets are stored once each, in
the order of their codes, and only if a split uses them, so that equal ensembles hold equal arrays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.data.frames import is_missing
from carvegbm.data.names import listed
from carvegbm.errors import DataError, ModelError, level_of_caller, shown
from carvegbm.model.nodes import whole

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = [
    "MOST_CODES",
    "Categories",
    "CategoryRule",
    "FeatureLabels",
    "Label",
    "UnknownCategory",
    "as_given",
    "check_categories",
    "check_kinds",
    "check_sets",
    "flat_sets",
    "in_codes",
    "in_states",
    "named_codes",
    "names_of_codes",
    "plain",
    "spelled",
    "warn_if_unknown",
]

Label = str | bool | int | float
Categories = Mapping[int, Mapping[int, Label]]
"""Categorical features: the label of every code, codes ascending."""
CategoryRule = Literal["truncate", "nonnegative", "label", "text"]
UnknownCategory = Literal["right", "missing"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]
FlatSets = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

MOST_CODES: dict[str, int] = {
    "truncate": 1 << 31,
    "nonnegative": 1 << 24,
    "label": 1 << 24,
    "text": 1 << 24,
}
"""Codes are below this, by category rule."""
_BY_LABEL = ("label", "text")
_MOST_DIGITS = 20  # of a text that spells a 64-bit number
_MOST_CATEGORIES = 1 << 24  # of a feature: as many whole numbers has float32
_ROWS = 10  # fewer rows may differ by chance from those that the model was trained on
_NAMED_ROWS = 2  # the same if the model knows the labels of all categories


# ── what an ensemble stores ──────────────────────────────────────────────────────────────────


def flat_sets(sets: Iterable[Sequence[int] | npt.NDArray[np.int64]]) -> FlatSets:
    """Return starts and codes; set i is codes[starts[i] : starts[i + 1]].

    Examples
    --------
    >>> flat_sets([[0, 3], [2]])
    (array([0, 2, 3]), array([0, 3, 2]))
    """
    lists = [np.asarray(codes, dtype=np.int64) for codes in sets]
    starts = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return starts, np.concatenate([np.empty(0, dtype=np.int64), *lists])


def check_categories(
    given: Any, n_features: int, rule: Any, precision: Any = "float64"
) -> Categories:
    """Return read-only categories: features and codes ascending, labels as Python values.

    `precision` is the ensemble's `input_precision`, which must distinguish all codes and labels.
    """
    if given is None:
        given = {}
    if not isinstance(given, Mapping):
        raise ModelError(
            f"categories must map features to their codes and labels, got {shown(given)}"
        )
    kept: dict[int, Mapping[int, Label]] = {}
    shared: dict[int, Mapping[int, Label]] = {}  # features may share one mapping, however large
    for feature, labels in given.items():
        position = whole(feature, "a categorical feature")
        if not 0 <= position < n_features:
            raise ModelError(
                f"categories has feature {position}, the ensemble has {n_features} features"
            )
        most = 1 << 24 if precision == "float32" else MOST_CODES.get(rule, 1 << 24)
        if id(labels) not in shared:
            shared[id(labels)] = _check_labels(labels, position, most)
        kept[position] = shared[id(labels)]
        if precision == "float32" and rule not in ("truncate", "nonnegative"):
            _check_float32(kept[position], position)
    return MappingProxyType(dict(sorted(kept.items())))


def _check_labels(given: Any, feature: int, most: int) -> Mapping[int, Label]:
    if not isinstance(given, Mapping):
        raise ModelError(
            f"the categories of feature {feature} must map codes to labels, got {shown(given)}"
        )
    if len(given) > _MOST_CATEGORIES:
        raise ModelError(f"feature {feature} has {len(given)} categories, more than 2^24")
    kept: dict[int, Label] = {}
    for code, label in given.items():
        number = whole(code, f"a category's code of feature {feature}")
        if not 0 <= number < most:
            raise ModelError(
                f"feature {feature} has the code {number}; codes are from 0 to {most - 1}"
            )
        kept[number] = name = plain(label)
        if (
            not isinstance(name, Label)
            or (isinstance(name, float) and not math.isfinite(name))
            or (isinstance(name, int) and not -(2**63) <= name < 2**64)
        ):
            raise ModelError(
                f"feature {feature} has the category {shown(label)}; name categories by texts, "
                "finite numbers or booleans"
            )
    if len(set(kept.values())) < len(kept):
        raise ModelError(
            f"two categories of feature {feature} have the same label: "
            f"{shown(list(kept.values()))}; give every code a label of its own"
        )
    return MappingProxyType(dict(sorted(kept.items())))


def _check_float32(labels: Mapping[int, Label], feature: int) -> None:
    """Refuse float labels that no float32 input equals."""
    numbers = [label for label in labels.values() if not isinstance(label, str)]
    if numbers and all(isinstance(label, float) for label in numbers):
        with np.errstate(over="ignore"):
            lost = [label for label in numbers if float(np.float32(label)) != label]
        if lost:
            raise ModelError(
                f"feature {feature} has the category {lost[0]}, which is no float32 number; a "
                "float32 ensemble needs float32 labels"
            )


def plain(label: Any) -> Any:
    """Convert a NumPy scalar to a Python value; return anything else as it is."""
    return label.item() if isinstance(label, np.generic) else label


def spelled(label: Any) -> Any:
    """Convert a text that spells a whole number to that number; return anything else as it is.

    Examples
    --------
    >>> spelled("-3"), spelled("03"), spelled("red")
    (-3, '03', 'red')
    """
    label = plain(label)
    if isinstance(label, str) and len(label) <= _MOST_DIGITS:
        digits = label.removeprefix("-")
        if digits.isdecimal() and digits.isascii() and str(int(label)) == label:
            return int(label)
    return label


def check_sets(
    nodes: npt.NDArray[np.void], categories: Categories, starts: Any, codes: Any
) -> tuple[npt.NDArray[np.void], FlatSets]:
    """Return the nodes and sets with each set stored once, sorted, and renumbered in the nodes."""
    given = _given_sets(starts, codes)
    if not categories:
        return nodes, flat_sets([])
    nodes = nodes.copy()
    categorical = np.isin(nodes["feature"], np.array(list(categories), dtype=np.int64))
    number = nodes["threshold"][categorical]
    wrong = ~((number >= 0) & (number < len(given)) & (number == np.trunc(number)))
    if wrong.any():
        first = int(np.argmax(wrong))
        feature = int(nodes["feature"][categorical][first])
        raise ModelError(
            f"feature {feature} is categorical, and a split on it has {number[first]} in place of "
            f"the number of one of {len(given)} sets; a feature is categorical in all its splits "
            "or in none"
        )
    number = number.astype(np.int64)
    for feature, index in set(
        zip(nodes["feature"][categorical].tolist(), number.tolist(), strict=True)
    ):
        known = categories[feature]
        unknown = [code for code in given[index] if code not in known]
        if unknown:
            raise ModelError(
                f"a split on feature {feature} lists the code {min(unknown)}, which its categories "
                "lack; add it to them"
            )
    order = sorted({given[index] for index in set(number.tolist())})
    place = {codes: position for position, codes in enumerate(order)}
    renumbered = np.array([place.get(codes, -1) for codes in given], dtype=np.float64)
    nodes["threshold"][categorical] = renumbered[number] if len(given) else 0.0
    return nodes, flat_sets(order)


def _given_sets(starts: Any, codes: Any) -> list[tuple[int, ...]]:
    first = np.zeros(1, dtype=np.int64) if starts is None else np.asarray(starts)
    every = np.zeros(0, dtype=np.int64) if codes is None else np.asarray(codes)
    if every.size == 0:
        every = np.zeros(0, dtype=np.int64)
    if (
        first.ndim != 1
        or every.ndim != 1
        or first.dtype.kind not in "iu"
        or every.dtype.kind not in "iu"
        or len(first) == 0
        or first[0] != 0
        or first[-1] != len(every)
        or (np.diff(first.astype(np.int64)) < 0).any()
    ):
        raise ModelError(
            "set_starts must be whole numbers that ascend from 0 to the number of set_codes, "
            f"{every.size}; got {shown(first.tolist())}"
        )
    flat = every.tolist()
    return [tuple(sorted(set(flat[a:b]))) for a, b in pairwise(first.tolist())]


def check_kinds(by_threshold: Iterable[int], by_set: Iterable[int], categories: Categories) -> None:
    """Refuse a feature that is split by thresholds and by sets of categories."""
    for feature in sorted(set(by_threshold) & set(categories)):
        raise ModelError(
            f"feature {feature} is categorical, and a split compares it with a threshold; a "
            "feature is categorical in all its splits or in none"
        )
    for feature in sorted(set(by_set) - set(categories)):
        raise ModelError(
            f"a split on feature {feature} lists categories, and the feature is not in categories; "
            "add it to them"
        )


# ── rows ─────────────────────────────────────────────────────────────────────────────────────


def in_codes(ensemble: Ensemble, rows: Rows, encoded: Collection[int] = ()) -> Rows:
    """Convert rows of numbers, as a user passes them, to codes; return `rows` if nothing changes.

    The `encoded` features hold codes already. By the rules truncate and nonnegative, numbers stay
    as they are.
    """
    if not ensemble.categories or ensemble.category_rule not in _BY_LABEL:
        return rows
    changed: npt.NDArray[Any] | None = None
    for feature in ensemble.categories.keys() - set(encoded):
        codes = _codes_of_numbers(ensemble, feature, rows[:, feature])
        if not np.array_equal(codes, rows[:, feature], equal_nan=True):
            if changed is None:
                changed = np.array(rows)
            changed[:, feature] = codes
    return rows if changed is None else changed


def in_states(ensemble: Ensemble, rows: Rows) -> Rows:
    """Convert rows of codes to states; return `rows` if there are no categorical features."""
    if not ensemble.categories:
        return rows
    changed: npt.NDArray[Any] = np.array(rows)
    for feature, labels in ensemble.categories.items():
        values = _rounded(ensemble, rows[:, feature])
        # Below 0 and beyond the largest code nothing is known, so that nothing is found.
        codes = values if ensemble.category_rule in _BY_LABEL else np.trunc(values)
        if ensemble.category_rule == "nonnegative":
            codes = np.where(values < 0, -1.0, codes)
        states = _position(codes, np.array(list(labels), dtype=np.float64))
        changed[:, feature] = np.where(np.isnan(values), np.nan, states)
    return changed


def as_given(ensemble: Ensemble, z: Rows, given: Rows, source: Rows | None) -> Rows:
    """Convert rows of codes to numbers that a user may pass: `in_codes` returns the same codes.

    A code whose label is a number becomes that number, no known category a number below all labels,
    and a text stays its code. Where z equals `given`, the codes of `source`, the value of `source`
    is kept. Returns z itself if nothing changes.
    """
    if not ensemble.categories or ensemble.category_rule not in _BY_LABEL:
        return z
    before = given if source is None else source
    changed: npt.NDArray[Any] = np.array(z)
    for feature, labels in ensemble.categories.items():
        numbers = {code: label for code, label in labels.items() if not isinstance(label, str)}
        if numbers:
            least = min(0.0, *map(float, numbers.values()))
            values = np.array([*(float(numbers.get(code, code)) for code in labels), least - 1])
            codes = _position(np.asarray(z[:, feature]), np.array(list(labels), dtype=float))
            known = values[codes.astype(np.int64)]
            changed[:, feature] = np.where(np.isnan(z[:, feature]), np.nan, known)
        if not FeatureLabels(ensemble, feature).gives_codes:
            stays = (z[:, feature] == given[:, feature]) | np.isnan(z[:, feature])
            changed[stays, feature] = before[stays, feature]
    return changed


def _codes_of_numbers(ensemble: Ensemble, feature: int, column: Rows) -> Floats:
    """Convert numbers that are labels, or codes whose labels are texts, to codes."""
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
    """Return the position of each value in `known`, which ascends, or -1."""
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


# ── labels ───────────────────────────────────────────────────────────────────────────────────


def named_codes(known: Mapping[int, Label], codes: npt.ArrayLike) -> list[Label | None]:
    """Return the label of each code, an unknown code itself, and None for NaN."""
    return [
        None if np.isnan(code) else known.get(int(code), code) if code == int(code) else code
        for code in np.asarray(codes, dtype=np.float64).tolist()
    ]


def names_of_codes(ensemble: Ensemble) -> dict[int, Mapping[int, Any]]:
    """Return the labels of the features whose rows hold codes that differ from the labels."""
    return {
        feature: labels
        for feature, labels in ensemble.categories.items()
        if FeatureLabels(ensemble, feature).gives_codes and _has_names(labels)
    }


def _has_names(labels: Mapping[int, Label]) -> bool:
    return any(label != code for code, label in labels.items())


class FeatureLabels:
    """Encodes the labels of one categorical feature as its source library does.

    LightGBM and CatBoost treat an unknown label as a category that is in no set, scikit-learn as a
    missing value; XGBoost refuses it.
    """

    def __init__(self, ensemble: Ensemble, feature: int) -> None:
        self.ensemble, self.feature = ensemble, feature

    @cached_property
    def known(self) -> dict[Any, int]:
        """The codes of the labels that the model knows."""
        return {label: code for code, label in self.ensemble.categories[self.feature].items()}

    @property
    def gives_codes(self) -> bool:
        """Whether `numbers` returns codes, rather than labels that are numbers."""
        by_label = self.ensemble.category_rule in _BY_LABEL
        return not by_label or not all(map(_is_double, self.known))

    def codes(self, labels: Sequence[Any] | npt.NDArray[Any]) -> Floats:
        """Return the code of each label: NaN if it is missing (None, NaN, NA), -1 if unknown.

        An unknown label is NaN if `unknown_category` is "missing".
        """
        if self.ensemble.category_rule == "text":
            labels = [spelled(label) for label in labels]
        unknown = _unknown(self.ensemble)
        return np.array(
            [
                np.nan if is_missing(label) else float(self.known.get(plain(label), unknown))
                for label in labels
            ]
        )

    def numbers(self, labels: Sequence[Any], rows: npt.NDArray[np.int64], where: str) -> Floats:
        """Return a number per label; `rows` are their first occurrences, for errors."""
        is_text = self.ensemble.category_rule == "text"
        given = [spelled(label) if is_text else plain(label) for label in labels]
        for label, row in zip(given, rows.tolist(), strict=True):
            self._check(label, row, where)
        if self.gives_codes:
            return self.codes(given)
        unknown = np.nan
        if self.ensemble.unknown_category != "missing":
            unknown = min([0.0, *map(float, self.known)]) - 1
        return np.array([float(label) if _is_double(label) else unknown for label in given])

    def check_numbers(self, where: str) -> None:
        """Refuse a column of numbers if they may be labels as well as codes."""
        labels = self.ensemble.categories[self.feature]
        if self.ensemble.category_rule in _BY_LABEL or not _has_names(labels):
            return
        if not all(isinstance(label, str) for label in self.known):
            raise DataError(
                f"{where} holds numbers, which may be the labels {self._listed()} or their codes; "
                "give it as categories, or X as an array of codes"
            )

    def _check(self, label: Any, row: int, where: str) -> None:
        """Refuse a label that cannot be one of the model's, or that its library would refuse."""
        if label in self.known:
            return
        is_text, rule = isinstance(label, str), self.ensemble.category_rule
        alike = not self.known or any(isinstance(known, str) == is_text for known in self.known)
        alike |= rule == "text"  # to CatBoost numbers are texts
        if not alike or rule == "nonnegative" or not (is_text or _is_double(label)):
            raise DataError(
                f"unknown category {label!r}; the model knows {self._listed()}"
                + ("" if alike else ", which are " + ("numbers" if is_text else "texts"))
                + "; leave the row out, or give codes",
                row=row,
                column=self.ensemble.feature_name(self.feature),
                what=where.partition(",")[0],
            )

    def _listed(self) -> str:
        return listed(map(repr, self.known), quote=False) or "none"


def _is_double(label: Any) -> bool:
    if isinstance(label, str):
        return False
    try:
        return bool(float(label) == label)
    except (TypeError, ValueError, OverflowError):
        return False


# ── a warning about rows that are probably coded wrongly ─────────────────────────────────────


def warn_if_unknown(ensemble: Ensemble, rows: Rows) -> None:
    """Warn if no value of a categorical column of codes is a category that the model knows."""
    start = rows[:1000]  # nearly always enough
    for feature in _without_known(ensemble, start):
        labels = ensemble.categories[feature]
        if len(rows) < (_NAMED_ROWS if _has_names(labels) else _ROWS):
            continue
        if len(rows) > len(start) and feature not in _without_known(ensemble, rows):
            continue
        known = listed(map(repr, labels.values()), quote=False)
        warnings.warn(
            f"no value of column {ensemble.feature_name(feature)} is a category that the model "
            f"knows ({known}); all are treated as unknown: check how the column is coded",
            stacklevel=level_of_caller(),
        )


def _without_known(ensemble: Ensemble, rows: Rows) -> list[int]:
    """Return the features in which no row has a known category, but some row an unknown one."""
    states = in_states(ensemble, rows)
    is_unknown = np.isnan if ensemble.unknown_category == "missing" else np.signbit
    found = []
    for feature in ensemble.categories:
        column = states[:, feature]
        if not (column >= 0).any() and is_unknown(column).any():
            found.append(feature)
    return found
