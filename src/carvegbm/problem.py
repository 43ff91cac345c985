"""Combine an ensemble with an attacker and encode rows for the C++ core.

`Problem` caches what every row and engine shares: the attacker's limits per feature, the encoding
into core coordinates, the core objects, and whether the ensemble is large-spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.attackers.encoding import Bounds, CoreEncoding
from carvegbm.attackers.limits import Limits
from carvegbm.attackers.options import LARGEST_BUDGET
from carvegbm.attackers.spread import is_large_spread, largest_budget
from carvegbm.data.rows import check_threads
from carvegbm.data.sparse import Csr, is_sparse
from carvegbm.model.categories import in_codes, warn_if_unknown
from carvegbm.model.ensemble import Ensemble
from carvegbm.model.rows import CheckedRows, SparseColumns, checked_rows, columns_of, compacted
from carvegbm.readers import load

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["Problem", "Rows"]

Array = npt.NDArray[np.float64] | npt.NDArray[np.float32]

_ROWS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Rows:
    """Validated rows, with labels if the query needs them.

    Sparse rows stay CSR, as passed by the user; `Problem.dense` encodes them block by block.
    """

    X: Array | Csr
    """Core coordinates, see `carvegbm.attackers.encoding`."""
    given: Array | Csr
    """In code space: categories are codes."""
    labels: npt.NDArray[np.int32] | None = None
    """Index of each row's label in `ensemble.classes`."""
    source: Array | None = None
    """As passed by the user, if categories were not codes."""
    bounds: Bounds | None = None
    """Per-row bounds in core coordinates, or None."""

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are CSR."""
        return is_sparse(self.X)

    def take(self, which: npt.NDArray[np.int64]) -> Rows:
        """Return some rows; a copy unless these are all."""
        if len(which) == len(self):
            return self

        def some(array: Any) -> Any:
            return array[which] if is_sparse(array) else np.ascontiguousarray(array[which])

        X = some(self.X)
        return Rows(
            X,
            X if self.given is self.X else some(self.given),
            None if self.labels is None else self.labels[which],
            None if self.source is None else some(self.source),
            None if self.bounds is None else (some(self.bounds[0]), some(self.bounds[1])),
        )

    def part(self, which: slice) -> Rows:
        """Return consecutive rows without copying them."""
        return Rows(
            self.X[which],
            self.given[which],
            None if self.labels is None else self.labels[which],
            None if self.source is None else self.source[which],
            None if self.bounds is None else (self.bounds[0][which], self.bounds[1][which]),
        )


class Problem:
    """An ensemble and an attacker.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    attacker : Attacker
    limits : Limits, optional
        The attacker's limits for the ensemble, if known already.
    """

    def __init__(self, model: Any, attacker: Attacker | None, limits: Limits | None = None) -> None:
        self.attacker = require_attacker(attacker)
        self.ensemble: Ensemble = load(model)
        self._limits = limits

    def __reduce__(self) -> tuple[Any, ...]:
        return Problem, (self.ensemble, self.attacker, self._limits)

    @cached_property
    def limits(self) -> Limits:
        """The attacker's limits, per feature of the ensemble."""
        return self.attacker.limits(self.ensemble) if self._limits is None else self._limits

    @cached_property
    def encoding(self) -> CoreEncoding:
        """Converts rows to core coordinates, and witnesses back."""
        return CoreEncoding(self.ensemble, self.limits)

    @cached_property
    def core(self) -> _core.Problem:
        """The problem as the C++ core holds it."""
        from carvegbm import _core

        return _core.Problem(self.encoding.core_ensemble, self.core_attacker)

    @cached_property
    def core_attacker(self) -> _core.Attacker:
        """The attacker as the C++ core holds it."""
        return self.encoding.core_attacker(self.attacker)

    @cached_property
    def is_large_spread(self) -> bool:
        """Whether the large-spread algorithms may decide every row."""
        return is_large_spread(self.ensemble, self.attacker, self.limits)

    @cached_property
    def largest_budget(self) -> float:
        """The largest budget for which the ensemble is large-spread."""
        return largest_budget(self.ensemble, self.attacker, self.limits)

    def with_budget(self, budget: float) -> Problem:
        """Return the problem with another budget, which shares the encoding."""
        if self.attacker.has_budget and budget == self.attacker.budget:
            return self
        other = Problem(self.ensemble, self.attacker.with_budget(budget), self.limits)
        vars(other)["encoding"] = self.encoding
        if "compact" in vars(self):
            small, columns = self.compact
            vars(other)["compact"] = small.with_budget(budget), columns
        return other

    @property
    def unlimited_budget(self) -> float:
        """The largest budget worth searching: a larger one reaches nothing more."""
        is_count = self.attacker.norm == 0
        return float(max(1, self.ensemble.n_features)) if is_count else LARGEST_BUDGET

    def instances(self, X: npt.ArrayLike, *, is_part: bool = False) -> Rows:
        """Validate rows without labels; they must be within the attacker's bounds.

        Warn if no row has a known category, unless X `is_part` of a longer table.
        """
        return self._rows(*self._checked(X, is_part))

    def rows(
        self,
        X: npt.ArrayLike,
        y: npt.ArrayLike | None,
        threads: int | None = None,
        *,
        is_part: bool = False,
    ) -> Rows:
        """Validate rows and labels; without y, the model's own answers are the labels."""
        found = self._checked(X, is_part)
        labels = None if y is None else self.ensemble.check_labels(y, found.rows.shape[0])
        rows = self._rows(*found)
        return replace(rows, labels=self._answers(rows, threads) if labels is None else labels)

    def _checked(self, X: npt.ArrayLike, is_part: bool) -> CheckedRows:
        found = checked_rows(self.ensemble, X, False, 0, sparse=True)
        if not is_part and not is_sparse(found.rows):
            warn_if_unknown(self.ensemble, found.rows)
        return found

    def _rows(self, given: Array | Csr, source: Array | Csr) -> Rows:
        encoding, limits = self.encoding, self.limits
        if is_sparse(given):
            limits.check_rows(self.ensemble, encoding.exact_rows(given))
            small, columns = self.compact
            if limits.one_hot:
                for which, block in columns.blocks(given):
                    small.encoding.encode(block, first=which.start)
            return Rows(given, given, bounds=small.encoding.row_bounds())
        rows = encoding.encode(given)
        if limits.lower.size:
            limits.check_rows(self.ensemble, encoding.exact_rows(given, rows))
        other = None if source is given else source
        return Rows(rows, given, source=other, bounds=encoding.row_bounds())

    @cached_property
    def compact(self) -> tuple[Problem, SparseColumns]:
        """The problem restricted to tested features, and how to select them from sparse rows."""
        grouped = [feature for group in self.limits.one_hot for feature in group]
        ensemble, columns = compacted(self.ensemble, grouped)
        limits = self.limits.restricted(columns.chosen, self.ensemble.n_features)
        return Problem(ensemble, self.attacker, limits), columns

    def dense(self, rows: Rows) -> Iterator[tuple[slice, Problem, Rows]]:
        """Yield (slice, problem, rows) with dense rows in core coordinates.

        Sparse rows come in blocks, with the compact problem; dense rows all at once.
        """
        if not rows.is_sparse:
            yield slice(0, len(rows)), self, rows
            return
        small, columns = self.compact
        for which, block in columns.blocks(rows.X):
            given = in_codes(small.ensemble, block)
            part = replace(rows, X=small.encoding.encode(given), given=given, source=block)
            if rows.labels is not None:
                part = replace(part, labels=rows.labels[which])
            if rows.bounds is not None:
                part = replace(part, bounds=(rows.bounds[0][which], rows.bounds[1][which]))
            yield which, small, part

    def parts(self, rows: Rows) -> Iterator[tuple[slice, Rows]]:
        """Yield (slice, rows) with blocks of dense rows that have all features."""
        if not rows.is_sparse:
            for begin in range(0, len(rows), _ROWS_AT_ONCE):
                which = slice(begin, min(begin + _ROWS_AT_ONCE, len(rows)))
                yield which, rows.part(which)
            return
        bounds = self.encoding.row_bounds()
        for which, block in columns_of(self.ensemble).blocks(rows.X):
            given = in_codes(self.ensemble, block)
            own = None if bounds is None else (bounds[0][which], bounds[1][which])
            labels = None if rows.labels is None else rows.labels[which]
            yield which, Rows(self.encoding.encode(given), given, labels, block, own)

    def _answers(self, rows: Rows, threads: int | None) -> npt.NDArray[np.int32]:
        """Return the labels by exact summation.

        They equal the library's own predictions unless those round to a tie or across one.
        """
        own = self.ensemble.labels_of(self.ensemble.scores_of(rows.given, threads=threads))
        labels = self.ensemble.check_labels(own, len(rows))
        open_ = self._wrong(replace(rows, labels=labels), threads)
        for label in range(len(self.ensemble.classes)):
            if len(open_) == 0:
                break
            labels[open_] = label
            open_ = open_[self._wrong(replace(rows, labels=labels).take(open_), threads)]
        return labels

    def _wrong(self, rows: Rows, threads: int | None) -> npt.NDArray[np.int64]:
        """Return the rows with another label than that of the exact sums."""
        return np.concatenate(
            [
                which.start + np.flatnonzero(~problem.unattacked(part, threads).right)
                for which, problem, part in self.dense(rows)
            ]
        )

    def unattacked(self, rows: Rows, threads: int | None) -> _core.Decisions:
        """Return margins of dense rows without an attack, and whether they are right; exact."""
        from carvegbm import _core

        assert rows.labels is not None
        options = _core.Options(_core.Solver.none, np.zeros(len(rows)), check_threads(threads))
        return _core.decide(self.core, rows.X, rows.labels, options, None)

    def witnesses(self, found: npt.NDArray[np.float64], rows: Rows) -> npt.NDArray[np.float64]:
        """Convert witnesses of these rows from core coordinates to code space."""
        return self.encoding.decode(found, rows.X, rows.given)
