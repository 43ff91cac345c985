"""Instances as an ensemble reads them.

Comes in: what a user gives as X. Goes out: rows with the ensemble's features as columns and codes
in categorical ones, or a `DataError` that names the row and the feature.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from carvegbm.data.rows import coded_rows
from carvegbm.data.sparse import as_csr, is_sparse
from carvegbm.errors import DataError
from carvegbm.trees.categories import in_codes
from carvegbm.trees.compact import columns_of, first_bad_value
from carvegbm.trees.labels import encoders_of

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["Checked", "checked_rows"]


class Checked(NamedTuple):
    """Rows in code space, and as they were given; the same object where these are the same."""

    rows: Any
    given: Any


def checked_rows(
    ensemble: Ensemble, X: Any, allow_infinite: bool, threads: int, *, sparse: bool = False
) -> Checked:
    """The rows of X, see `Ensemble.check_data`.

    With `sparse`, a sparse matrix is checked as it is and stays CSR, with numbers as they are given
    in categorical columns: dense parts of it are still to be put into codes.
    """
    encoded: Collection[int] = ()
    if is_sparse(X):
        given = as_csr(X)
    else:
        given, encoded = coded_rows(X, ensemble.feature_names, encoders_of(ensemble))
    if given.shape[1] != ensemble.n_features:
        raise DataError(
            f"X has {given.shape[1]} columns, the model has {ensemble.n_features} features"
        )
    if given.shape[0] == 0:
        raise DataError("X has no rows; give at least one instance")
    if is_sparse(given) and sparse:
        _refuse(ensemble, given, first_bad_value(ensemble, given, allow_infinite, threads))
        return Checked(given, given)
    if is_sparse(given):
        given = columns_of(ensemble).dense(given)
    rows = in_codes(ensemble, given, encoded)
    _refuse(ensemble, given, ensemble.core.first_bad_value(rows, allow_infinite, threads))
    return Checked(rows, given)


def _refuse(ensemble: Ensemble, given: Any, bad: tuple[int, int] | None) -> None:
    """Refuse rows with a bad value, if there is one, and say which."""
    if bad is None:
        return
    row, column = bad
    some = given[row : row + 1]
    value = float((columns_of(ensemble).dense(some) if is_sparse(some) else some)[0, column])
    unknown = column in ensemble.categories and ensemble.category_rule == "label"
    remedy = (
        "the model has no rule for missing values there; impute it"
        if np.isnan(value) or unknown
        else "distances from infinity have no meaning; clip it"
        if np.isinf(value)
        else "the model reads float32, which does not reach that far; clip it"
    )
    raise DataError(f"value {value}; {remedy}", row=row, column=ensemble.feature_name(column))
