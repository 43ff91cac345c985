"""The problem: an ensemble and an attacker, joined once.

Comes in: a model in any form, an attacker; then instances and labels.
Goes out: what all engines and all rows share (the core's objects, the attacker's limits, whether
the ensemble is large-spread), found once and kept; and rows as the engines take them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker, Limits, require_attacker
from carvegbm.attackers.compact import check_sparse, compact_options
from carvegbm.ensemble import Ensemble
from carvegbm.instances.rows import check_threads
from carvegbm.instances.sparse import Csr, is_sparse
from carvegbm.readers import load
from carvegbm.spread import is_large_spread, largest_budget
from carvegbm.trees.categories import in_codes
from carvegbm.trees.checking import checked_rows
from carvegbm.trees.compact import Columns, compacted

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["Problem", "Rows"]

Array = npt.NDArray[np.float64] | npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """Instances as the engines take them, checked; for questions about labels, with these."""

    X: Array | Csr
    labels: npt.NDArray[np.int32] | None = None
    """The position of each row's label among the classes."""

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_sparse(self) -> bool:
        """Whether X is CSR; `Problem.dense` gives parts of it as the core takes them."""
        return is_sparse(self.X)

    def take(self, which: npt.NDArray[np.int64]) -> Rows:
        """Some of the rows; not copied if they are all."""
        if len(which) == len(self):
            return self
        X: Any = self.X[which] if self.is_sparse else np.ascontiguousarray(self.X[which])
        return Rows(X, None if self.labels is None else self.labels[which])


class Problem:
    """An ensemble and an attacker.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    attacker : Attacker
    """

    def __init__(self, model: Any, attacker: Attacker | None) -> None:
        self.attacker = require_attacker(attacker)
        self.ensemble: Ensemble = load(model)

    @cached_property
    def limits(self) -> Limits:
        """The attacker's limits, per feature of the ensemble."""
        return self.attacker.limits(self.ensemble)

    @cached_property
    def core(self) -> _core.Problem:
        """The problem as the C++ core holds it."""
        from carvegbm import _core

        return _core.Problem(self.ensemble.core, self.core_attacker)

    @cached_property
    def core_attacker(self) -> _core.Attacker:
        """The attacker as the C++ core holds it."""
        return self.attacker.core(self.ensemble, self.limits)

    @cached_property
    def is_large_spread(self) -> bool:
        """Whether the large-spread algorithms may decide every row."""
        return is_large_spread(self.ensemble, self.attacker)

    @cached_property
    def largest_budget(self) -> float:
        """The largest budget for which the ensemble is large-spread for such an attacker."""
        return largest_budget(self.ensemble, self.attacker)

    def with_budget(self, budget: float) -> Problem:
        """The same problem, with another budget."""
        if budget == self.attacker.budget:
            return self
        return Problem(self.ensemble, self.attacker.with_budget(budget))

    def instances(self, X: npt.ArrayLike) -> Rows:
        """The instances, which must be within the attacker's bounds."""
        return Rows(self._check_instances(checked_rows(self.ensemble, X, False, 0, sparse=True)))

    def rows(self, X: npt.ArrayLike, y: npt.ArrayLike | None, threads: int | None = None) -> Rows:
        """The instances with their labels; without any, the model's own answers are right."""
        found = checked_rows(self.ensemble, X, False, 0, sparse=True)
        labels = None if y is None else self.ensemble.check_labels(y, found.shape[0])
        self._check_instances(found)
        return Rows(found, self._answers(found, threads) if labels is None else labels)

    def _check_instances(self, X: Array | Csr) -> Array | Csr:
        """X itself, if it is within the attacker's bounds."""
        if is_sparse(X):
            check_sparse(self.ensemble, X, self.limits)
        else:
            self.attacker.check_instances(self.ensemble, X, self.limits)
        return X

    @cached_property
    def compact(self) -> tuple[Problem, Columns]:
        """The problem over the features that matter, and how to take these from sparse rows."""
        grouped = [feature for group in self.limits.one_hot for feature in group]
        ensemble, columns = compacted(self.ensemble, grouped)
        options = compact_options(self.limits, self.ensemble, columns.chosen)
        attacker = Attacker(self.attacker.norm, self.attacker.budget, **options)
        return Problem(ensemble, attacker), columns

    def dense(self, rows: Rows) -> Iterator[tuple[slice, Problem, Rows]]:
        """The rows as the core takes them, with the problem that they are of.

        Sparse ones some at a time, of the compact problem; others all at once.
        """
        if not rows.is_sparse:
            yield slice(0, len(rows)), self, rows
            return
        problem, columns = self.compact
        for which, block in columns.blocks(rows.X):
            labels = None if rows.labels is None else rows.labels[which]
            yield which, problem, Rows(in_codes(problem.ensemble, block), labels)

    def _answers(self, X: Array | Csr, threads: int | None) -> npt.NDArray[np.int32]:
        """The classes the exact sums decide for.

        They are those of the library's own predict, unless that rounds to a tie or across one.
        """
        own = self.ensemble.decide(X, threads=threads)
        labels = self.ensemble.check_labels(own, X.shape[0])
        open_ = self._wrong(Rows(X, labels), threads)
        for label in range(len(self.ensemble.classes)):
            if len(open_) == 0:
                break
            labels[open_] = label
            open_ = open_[self._wrong(Rows(X, labels).take(open_), threads)]
        return labels

    def _wrong(self, rows: Rows, threads: int | None) -> npt.NDArray[np.int64]:
        """The rows whose label the exact sums do not decide for."""
        return np.concatenate(
            [
                which.start + np.flatnonzero(~problem.unattacked(part, threads).right)
                for which, problem, part in self.dense(rows)
            ]
        )

    def unattacked(self, rows: Rows, threads: int | None) -> _core.Decisions:
        """What can be said about the labels without an attack: margins, and who is right.

        Of rows that are dense.
        """
        from carvegbm import _core

        assert rows.labels is not None
        options = _core.Options(_core.Solver.none, np.zeros(len(rows)), check_threads(threads))
        return _core.decide(self.core, rows.X, rows.labels, options, None)
