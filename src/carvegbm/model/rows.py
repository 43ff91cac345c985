"""Check rows against an ensemble, and compute raw scores of dense and sparse rows.

Of sparse rows, only the features that splits test are made dense, in blocks: the raw score depends
on no others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.data.rows import coded_rows
from carvegbm.data.sparse import (
    Csr,
    as_csr,
    blocks,
    dense,
    first_absent,
    first_stored,
    is_sparse,
    places_of,
)
from carvegbm.errors import DataError
from carvegbm.model.categories import FeatureLabels, in_codes, in_states

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["CheckedRows", "SparseColumns", "checked_rows", "columns_of", "compacted", "raw_scores"]

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """Selected columns of CSR matrices, ascending."""

    chosen: Positions
    width: int
    """Number of all columns."""
    absent: float
    """The value of an absent entry."""

    @cached_property
    def _places(self) -> npt.NDArray[np.int32]:
        return places_of(self.chosen, self.width)

    def dense(self, csr: Csr) -> npt.NDArray[Any]:
        """Return these columns as a C-ordered array."""
        return dense(csr, self._places, len(self.chosen), self.absent)

    def blocks(self, csr: Csr) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """Yield slices of rows with these columns of them, dense."""
        for rows in blocks(csr, len(self.chosen)):
            yield rows, self.dense(csr[rows])


class CheckedRows(NamedTuple):
    """Rows as codes, and as they were given; one object if these are equal."""

    rows: Any
    given: Any


def columns_of(ensemble: Ensemble, features: Positions | None = None) -> SparseColumns:
    """Select these features, or all, with absent entries as the source library reads them."""
    chosen = np.arange(ensemble.n_features) if features is None else features
    return SparseColumns(chosen, ensemble.n_features, 0.0 if ensemble.absent == "zero" else np.nan)


def compacted(ensemble: Ensemble, others: Sequence[int] = ()) -> tuple[Ensemble, SparseColumns]:
    """Restrict the ensemble to the features that splits test, and `others`; select them from CSR.

    The result of the last call is cached.
    """
    tested = ensemble.nodes["feature"][ensemble.nodes["feature"] >= 0]
    kept = np.union1d(tested, np.array(others, dtype=np.int64)).astype(np.int64)
    found: tuple[Ensemble, SparseColumns] | None = ensemble.cache.get("compact")
    if found is None or not np.array_equal(found[1].chosen, kept):
        found = ensemble.restricted(kept), columns_of(ensemble, kept)
        ensemble.cache["compact"] = found
    return found


def raw_scores(ensemble: Ensemble, rows: Any, threads: int) -> npt.NDArray[np.float64]:
    """Return the raw scores (n, n_outputs) of checked rows: dense ones as codes, or CSR."""
    if not is_sparse(rows):
        return ensemble.core.raw_score(in_states(ensemble, rows), threads)
    small, columns = compacted(ensemble)
    return np.concatenate(
        [
            small.core.raw_score(in_states(small, in_codes(small, block)), threads)
            for _, block in columns.blocks(rows)
        ]
    )


def checked_rows(
    ensemble: Ensemble, X: Any, allow_infinite: bool, threads: int, *, sparse: bool = False
) -> CheckedRows:
    """Check X as `Ensemble.check_data` does.

    With `sparse`, a sparse matrix stays CSR, and its categorical columns stay as they are: blocks
    of it must still be converted to codes.
    """
    encoded: Collection[int] = ()
    if is_sparse(X):
        given = as_csr(X)
    else:
        encoders = {feature: FeatureLabels(ensemble, feature) for feature in ensemble.categories}
        given, encoded = coded_rows(X, ensemble.feature_names, encoders)
    if given.shape[1] != ensemble.n_features:
        raise DataError(
            f"X has {given.shape[1]} columns, the model has {ensemble.n_features} features"
        )
    if given.shape[0] == 0:
        raise DataError("X has no rows; give at least one instance")
    if is_sparse(given) and sparse:
        _refuse(ensemble, given, _first_bad_value(ensemble, given, allow_infinite, threads))
        return CheckedRows(given, given)
    if is_sparse(given):
        given = columns_of(ensemble).dense(given)
    rows = in_codes(ensemble, given, encoded)
    _refuse(ensemble, given, ensemble.core.first_bad_value(rows, allow_infinite, threads))
    return CheckedRows(rows, given)


def _refuse(ensemble: Ensemble, given: Any, bad: tuple[int, int] | None) -> None:
    """Raise `DataError` for a bad value, if there is one."""
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


def _first_bad_value(
    ensemble: Ensemble, csr: Csr, allow_infinite: bool, threads: int
) -> tuple[int, int] | None:
    """Return row and column of the first bad value, as the core does for a dense matrix.

    Bad is NaN in a feature with a split that has no rule for it, and, unless `allow_infinite`, a
    value that is infinite in the ensemble's input precision.
    """
    splits = ensemble.nodes[(ensemble.nodes["feature"] >= 0) & (ensemble.nodes["missing"] < 0)]
    lacks_rule = np.zeros(ensemble.n_features, dtype=bool)
    lacks_rule[splits["feature"]] = True

    def is_bad(values: npt.NDArray[Any], columns: Positions) -> npt.NDArray[np.bool_]:
        with np.errstate(over="ignore"):
            read = values.astype(np.dtype(ensemble.input_precision), copy=False)
        bad = np.isnan(read)
        bad[bad] = lacks_rule[columns[bad]]
        return bad if allow_infinite else bad | np.isinf(read)

    places = [first_stored(csr, is_bad)]
    if ensemble.absent == "missing":
        places.append(first_absent(csr, lacks_rule))
    if ensemble.unknown_category == "missing" and lacks_rule[list(ensemble.categories)].any():
        places.append(_first_bad_code(ensemble, csr, threads))
    return min((place for place in places if place is not None), default=None)


def _first_bad_code(ensemble: Ensemble, csr: Csr, threads: int) -> tuple[int, int] | None:
    """Return the first unknown category that is a missing value without a rule for it."""
    small, columns = compacted(ensemble)
    for rows, block in columns.blocks(csr):
        bad = small.core.first_bad_value(in_codes(small, block), True, threads)
        if bad is not None:
            return rows.start + bad[0], int(columns.chosen[bad[1]])
    return None
