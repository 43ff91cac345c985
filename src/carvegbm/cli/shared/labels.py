"""Tables with categories by label, as a model takes them: in numbers.

Comes in: a table from a file, and the model. Goes out: X with a code for every label. In CSV and
Parquet a category stands under its label, as in a frame (or under its code, where all labels are
texts and it is a number); in arrays and LIBSVM as the number that the library would be given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.trees.categories import codes_of_labels

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble
    from carvegbm.instances.tabular import Table

__all__ = ["in_numbers"]


def in_numbers(table: Table, ensemble: Ensemble, path: str) -> npt.NDArray[Any]:
    """The features of the table, whose columns are in the model's order, as numbers."""
    for column in table.texts:
        if column not in ensemble.categories:
            raise _refused(table, column, ensemble, path)
    if not table.by_label or table.X.shape[1] != ensemble.n_features:
        return table.X  # of which check_data says what is wrong
    X = table.X
    for feature, known in ensemble.categories.items():
        texts = table.texts.get(feature)
        if not _are_read_as_codes(ensemble, feature):
            if texts is not None:
                raise _refused(table, feature, ensemble, path)
            continue
        cells = _labels(X[:, feature], known) if texts is None else texts
        if cells is not None:
            X = np.array(X) if X is table.X else X
            X[:, feature] = codes_of_labels(ensemble, feature, cells)
    return X


def _are_read_as_codes(ensemble: Ensemble, feature: int) -> bool:
    """Whether the model takes a number in this column for a code, and not for a label itself."""
    known = ensemble.categories[feature].values()
    return ensemble.category_rule != "label" or all(isinstance(label, str) for label in known)


def _labels(column: npt.NDArray[Any], known: Mapping[int, Any]) -> Sequence[Any] | None:
    """Numbers as the labels that they are, "1" for 1 as well; None where they are codes."""
    numbers = {_number(label): label for label in known.values()}
    numbers.pop(None, None)
    if not numbers or all(label == code for code, label in known.items()):
        return None
    return [numbers.get(value, value) for value in column.astype(np.float64).tolist()]


def _number(label: Any) -> float | None:
    try:
        return float(label)
    except ValueError:
        return None


def _refused(table: Table, column: int, ensemble: Ensemble, path: str) -> DataError:
    cells = table.texts[column]
    # Parquet may have numbers alone, as texts.
    row = next((row for row, cell in enumerate(cells) if cell and _number(cell) is None), 0)
    return DataError(
        f"{path}: row {row + 1}, {ensemble.feature_name(column)}: {cells[row]!r} is not a number, "
        "which is what the model takes there"
    )
