"""Instances as an ensemble reads them.

Comes in: what a user gives as X. Goes out: rows with the ensemble's features as columns and codes
in categorical ones, or a `DataError` that names the row and the feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.rows import as_rows
from carvegbm.trees.categories import in_codes

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["checked_rows"]


def checked_rows(
    ensemble: Ensemble, X: Any, allow_infinite: bool, threads: int
) -> npt.NDArray[np.float64] | npt.NDArray[np.float32]:
    """The rows of X, see `Ensemble.check_data`."""
    given = as_rows(X, ensemble.feature_names)
    if given.shape[1] != ensemble.n_features:
        raise DataError(
            f"X has {given.shape[1]} columns, the model has {ensemble.n_features} features"
        )
    if len(given) == 0:
        raise DataError("X has no rows; give at least one instance")
    rows = in_codes(ensemble, given)
    bad = ensemble.core.first_bad_value(rows, allow_infinite, threads)
    if bad is not None:
        row, column = bad
        value = float(given[row, column])
        name = ensemble.feature_name(column)
        remedy = (
            "the model has no rule for missing values there; impute it"
            if np.isnan(rows[row, column])
            else "distances from infinity have no meaning; clip it"
            if np.isinf(value)
            else "the model reads float32, which does not reach that far; clip it"
        )
        raise DataError(f"X row {row}, {name}: value {value}; {remedy}")
    return rows
