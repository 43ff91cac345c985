"""Categories in scikit-learn's HistGradientBoosting.

Comes in: a fitted estimator with categorical features. Goes out: the order of its columns inside,
the codes and labels of every categorical feature, and the codes that a split sends to the left.

The estimator puts its categorical columns first and numbers the categories of each by an
OrdinalEncoder; a split holds 256 bits, and category i goes left iff bit i is set. A value that the
encoder does not know becomes NaN, so that it goes where missing values go.

Where all categories of a feature are whole numbers >= 0, these are the codes here, too, so that a
matrix of numbers is one of codes; otherwise the code is the encoder's number.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError, shown
from carvegbm.readers.checks import name_of
from carvegbm.trees.sets import MOST_CODES, plain

__all__ = ["Encoded", "encoded"]

Ints = npt.NDArray[np.int64]


class Encoded(NamedTuple):
    """How an estimator with categorical features sees its columns."""

    columns: Ints  # columns[i] is the feature that its trees call i
    categories: dict[int, dict[int, Any]]  # labels by code, by feature
    codes: dict[int, Ints]  # by feature: the code of the encoder's category i is codes[i]

    def listed(self, feature: int, bits: npt.NDArray[np.uint32]) -> Ints:
        """The codes that a row of bits holds."""
        own = np.flatnonzero(np.unpackbits(bits.astype("<u4").view(np.uint8), bitorder="little"))
        known = self.codes[feature]
        if len(own) and own[-1] >= len(known):
            raise ModelError(
                f"a split on feature {feature} lists category {own[-1]} of {len(known)}; the "
                "model is damaged"
            )
        return np.sort(known[own])


def encoded(model: Any, names: list[str] | None) -> Encoded:
    """Read the encoder of an estimator; refuses another preprocessing than its own."""
    is_categorical = np.asarray(model.is_categorical_, dtype=bool)
    features = np.flatnonzero(is_categorical)
    found = _encoder_of(model, is_categorical).categories_
    if len(found) != len(features):
        raise ModelError(f"encodes {len(found)} columns of {len(features)}; the model is damaged")
    categories, codes = {}, {}
    for feature, values in zip(features.tolist(), found, strict=True):
        labels = [plain(value) for value in np.asarray(values).tolist()]
        if labels and isinstance(labels[-1], float) and math.isnan(labels[-1]):
            labels.pop()  # NaN is always the last
        for label in labels:
            if not isinstance(label, str | bool | int | float):
                raise ModelError(
                    f"has the category {shown(label)} of feature {name_of(feature, names)!r}; "
                    "name categories by texts or numbers, and missing ones by NaN"
                )
        if all(_is_code(label) for label in labels):
            labels = [int(label) for label in labels]
            codes[feature] = np.array(labels, dtype=np.int64)
        else:
            codes[feature] = np.arange(len(labels), dtype=np.int64)
        categories[feature] = dict(zip(codes[feature].tolist(), labels, strict=True))
    columns = np.concatenate([features, np.flatnonzero(~is_categorical)])
    return Encoded(columns, categories, codes)


def _encoder_of(model: Any, is_categorical: npt.NDArray[np.bool_]) -> Any:
    """The OrdinalEncoder of the categorical columns, which come first."""
    preprocessor = getattr(model, "_preprocessor", None)
    steps = getattr(preprocessor, "transformers_", [])
    used = [step for step in steps if step[1] != "drop"]
    kinds = [(step[0], type(step[1]).__name__, type(step[1]).__module__) for step in used]
    encoder: Any = used[0][1] if used else None
    if (
        [kind[:2] for kind in kinds[:1]] != [("encoder", "OrdinalEncoder")]
        or [kind[:2] for kind in kinds[1:]] not in ([], [("numerical", "FunctionTransformer")])
        or not all(module.startswith("sklearn.") for *_, module in kinds)
        or not np.array_equal(np.asarray(used[0][2]), is_categorical)
        or encoder.handle_unknown != "use_encoded_value"
        or not np.isnan([encoder.unknown_value, encoder.encoded_missing_value]).all()
        or encoder.min_frequency is not None
        or encoder.max_categories is not None
    ):
        raise ModelError(
            "changes its inputs before its trees see them (_preprocessor) in a way that is not "
            "known; train it with another version of scikit-learn"
        )
    return encoder


def _is_code(label: Any) -> bool:
    return (
        not isinstance(label, str | bool)
        and 0 <= label < MOST_CODES["label"]
        and label == int(label)
    )
