"""Compact: an ensemble over the features that its splits test, for instances that are sparse.

Comes in: an ensemble, and instances as CSR. Goes out: the ensemble with these features alone,
renumbered, and dense blocks of the instances that fit it; raw scores from the two, and what is
wrong with the instances.

The raw score depends on the features that splits test and on nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.sparse import (
    Csr,
    blocks,
    dense,
    first_absent,
    first_stored,
    is_sparse,
    places_of,
)
from carvegbm.trees.categories import in_codes

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["Columns", "columns_of", "compacted", "first_bad_value", "raw_scores"]

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Columns:
    """Some of the columns of sparse instances, ascending; `absent` stands for what is left out."""

    chosen: Positions
    width: int
    """Number of all columns."""
    absent: float

    @cached_property
    def _places(self) -> npt.NDArray[np.int32]:
        return places_of(self.chosen, self.width)

    def dense(self, csr: Csr) -> npt.NDArray[Any]:
        """These columns as a C-ordered array."""
        return dense(csr, self._places, len(self.chosen), self.absent)

    def blocks(self, csr: Csr) -> Iterator[tuple[slice, npt.NDArray[Any]]]:
        """All rows, some at a time: which they are, and these columns of them."""
        for rows in blocks(csr, len(self.chosen)):
            yield rows, self.dense(csr[rows])


def compacted(ensemble: Ensemble, others: Sequence[int] = ()) -> tuple[Ensemble, Columns]:
    """The ensemble over the features that splits test, and some others; how to take them from CSR.

    Many questions are asked about the same features: what was found last is kept.
    """
    tested = ensemble.nodes["feature"][ensemble.nodes["feature"] >= 0]
    kept = np.union1d(tested, np.array(others, dtype=np.int64)).astype(np.int64)
    found: tuple[Ensemble, Columns] | None = ensemble.known.get("compact")
    if found is None or not np.array_equal(found[1].chosen, kept):
        found = _compact(ensemble, kept), columns_of(ensemble, kept)
        ensemble.known["compact"] = found
    return found


def columns_of(ensemble: Ensemble, features: Positions | None = None) -> Columns:
    """How to take these features, or all, from CSR as the ensemble's library reads it."""
    chosen = np.arange(ensemble.n_features) if features is None else features
    return Columns(chosen, ensemble.n_features, 0.0 if ensemble.absent == "zero" else np.nan)


def raw_scores(ensemble: Ensemble, rows: Any, threads: int) -> npt.NDArray[np.float64]:
    """The raw scores (n, n_outputs) of rows in code space, or of CSR, which are checked."""
    if not is_sparse(rows):
        return ensemble.core.raw_score(ensemble.states(rows), threads)
    small, columns = compacted(ensemble)
    return np.concatenate(
        [
            small.core.raw_score(small.states(in_codes(small, block)), threads)
            for _, block in columns.blocks(rows)
        ]
    )


def first_bad_value(
    ensemble: Ensemble, csr: Csr, allow_infinite: bool, threads: int
) -> tuple[int, int] | None:
    """What the core's function of this name says of the dense matrix: row and column, or None.

    Bad is NaN in a feature one of whose splits has no rule for it, and, unless it is allowed, what
    is infinite in the precision of the model.
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
    """The first value that is missing as a code, in a feature without a rule for it."""
    small, columns = compacted(ensemble)
    for rows, block in columns.blocks(csr):
        bad = small.core.first_bad_value(in_codes(small, block), True, threads)
        if bad is not None:
            return rows.start + bad[0], int(columns.chosen[bad[1]])
    return None


def _compact(ensemble: Ensemble, features: Positions) -> Ensemble:
    """The ensemble over these features alone, among them all that splits test; names are kept."""
    from carvegbm.ensemble import Ensemble, fields_of

    nodes = ensemble.nodes.copy()
    is_split = nodes["feature"] >= 0
    places = places_of(features, ensemble.n_features)
    nodes["feature"][is_split] = places[nodes["feature"][is_split]]
    kept = [feature for feature in ensemble.categories if places[feature] >= 0]
    fields = {
        "nodes": nodes,
        "n_features": len(features),
        "feature_names": [ensemble.feature_name(feature) for feature in features.tolist()],
        "categories": {int(places[f]): ensemble.categories[f] for f in kept},
    }
    return Ensemble(**{**fields_of(ensemble), **fields})
