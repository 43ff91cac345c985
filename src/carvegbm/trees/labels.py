"""Labels in data: the way from those of a frame to the codes of an ensemble, and back.

Comes in: an ensemble with categorical features, and labels that a column of a frame or a file
holds. Goes out: numbers as `carvegbm.trees.categories` takes them, as the source library gets them:
LightGBM and CatBoost take a label that they do not know for a category of its own, which is in no
set, scikit-learn for a missing value, and XGBoost refuses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.names import listed
from carvegbm.errors import DataError
from carvegbm.trees.categories import BY_LABEL, codes_of_labels, in_numbers
from carvegbm.trees.sets import plain, spelled

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["FeatureLabels", "as_given", "encoders_of", "names_of_codes"]

Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]


def encoders_of(ensemble: Ensemble) -> dict[int, FeatureLabels]:
    """The way from labels to numbers of every categorical feature."""
    return {feature: FeatureLabels(ensemble, feature) for feature in ensemble.categories}


def as_given(ensemble: Ensemble, z: Rows, given: Rows, source: Rows | None) -> Rows:
    """Rows in code space as a user would give them; the same object where nothing changes.

    What z has in common with `given`, which was made of `source`, is as it was there: a label that
    nobody knows stays what it is.
    """
    numbers = in_numbers(ensemble, z)
    if numbers is z:
        return z
    for feature, labels in encoders_of(ensemble).items():
        if not labels.gives_codes:
            stays = (z[:, feature] == given[:, feature]) | np.isnan(z[:, feature])
            before = given if source is None else source
            numbers[stays, feature] = before[stays, feature]
    return numbers


def names_of_codes(ensemble: Ensemble) -> dict[int, Mapping[int, Any]]:
    """The labels by code of the features whose rows hold codes that are not labels themselves."""
    return {
        feature: ensemble.categories[feature]
        for feature, labels in encoders_of(ensemble).items()
        if labels.gives_codes and has_names(ensemble, feature)
    }


def has_names(ensemble: Ensemble, feature: int) -> bool:
    """Whether some label of a categorical feature is another than its code."""
    return any(label != code for code, label in ensemble.categories[feature].items())


class FeatureLabels:
    """The labels of one categorical feature."""

    def __init__(self, ensemble: Ensemble, feature: int) -> None:
        self.ensemble, self.feature = ensemble, feature

    @cached_property
    def known(self) -> dict[Any, int]:
        """The labels the model knows, and their codes."""
        return {label: code for code, label in self.ensemble.categories[self.feature].items()}

    @property
    def gives_codes(self) -> bool:
        """Whether `numbers` are codes; else they are the labels themselves, to be looked up."""
        by_label = self.ensemble.category_rule in BY_LABEL
        return not by_label or not all(map(_is_double, self.known))

    def numbers(
        self, labels: Sequence[Any], rows: npt.NDArray[np.int64], where: str
    ) -> npt.NDArray[np.float64]:
        """A number for every label; `rows` are those in which each occurs first, for errors."""
        is_text = self.ensemble.category_rule == "text"
        given = [spelled(label) if is_text else plain(label) for label in labels]
        for label, row in zip(given, rows.tolist(), strict=True):
            self._check(label, row, where)
        if self.gives_codes:
            return codes_of_labels(self.ensemble, self.feature, given)
        unknown = np.nan
        if self.ensemble.unknown_category != "missing":
            unknown = min([0.0, *map(float, self.known)]) - 1
        return np.array([float(label) if _is_double(label) else unknown for label in given])

    def check_numbers(self, where: str) -> None:
        """Refuse a column of numbers that may be labels and may be codes."""
        if self.ensemble.category_rule in BY_LABEL or not has_names(self.ensemble, self.feature):
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
        if not alike or rule == "nonnegative" or not _is_label(label):
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


def _is_label(label: Any) -> bool:
    return isinstance(label, str) or _is_double(label)


def _is_double(label: Any) -> bool:
    if isinstance(label, str):
        return False
    try:
        return bool(float(label) == label)
    except (TypeError, ValueError, OverflowError):
        return False
