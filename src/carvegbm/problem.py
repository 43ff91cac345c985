"""The problem: an ensemble and an attacker, joined once.

Comes in: a model in any form, an attacker; then instances and labels.
Goes out: what all engines and all rows share (the core's objects, the attacker's limits, whether
the ensemble is large-spread), found once and kept; and rows as the engines take them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker, Limits, require_attacker
from carvegbm.axes.translation import Bounds, Translation
from carvegbm.ensemble import Ensemble
from carvegbm.instances.rows import check_threads
from carvegbm.readers import load
from carvegbm.spread import is_large_spread, largest_budget

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["Problem", "Rows"]

Array = npt.NDArray[np.float64] | npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Rows:
    """Instances as the engines take them, checked; for questions about labels, with these."""

    X: Array
    """As the core takes them, see `carvegbm.axes`."""
    given: Array
    """In code space, as `Ensemble.check_data` returns them."""
    labels: npt.NDArray[np.int32] | None = None
    """The position of each row's label among the classes."""
    bounds: Bounds | None = None
    """Of every row, where they have bounds of their own, as the core takes them."""

    def __len__(self) -> int:
        return len(self.X)

    def bounds_of(self, row: int) -> Bounds | None:
        """Of one row, where rows have bounds of their own."""
        return None if self.bounds is None else (self.bounds[0][row], self.bounds[1][row])

    def take(self, which: npt.NDArray[np.int64]) -> Rows:
        """Some of the rows; not copied if they are all."""
        if len(which) == len(self):
            return self

        def some(array: Any) -> Any:
            return np.ascontiguousarray(array[which])

        X = some(self.X)
        return Rows(
            X,
            X if self.given is self.X else some(self.given),
            None if self.labels is None else self.labels[which],
            None if self.bounds is None else (some(self.bounds[0]), some(self.bounds[1])),
        )


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
    def translation(self) -> Translation:
        """The way to what the C++ core sees, and back."""
        return Translation(self.ensemble, self.limits)

    @cached_property
    def core(self) -> _core.Problem:
        """The problem as the C++ core holds it."""
        from carvegbm import _core

        return _core.Problem(self.translation.core_ensemble, self.core_attacker)

    @cached_property
    def core_attacker(self) -> _core.Attacker:
        """The attacker as the C++ core holds it."""
        return self.translation.core_attacker(self.attacker)

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
        return self._rows(self.ensemble.check_data(X))

    def rows(self, X: npt.ArrayLike, y: npt.ArrayLike | None, threads: int | None = None) -> Rows:
        """The instances with their labels; without any, the model's own answers are right."""
        found = self.ensemble.check_data(X)
        labels = None if y is None else self.ensemble.check_labels(y, len(found))
        rows = self._rows(found)
        return replace(rows, labels=self._answers(rows, threads) if labels is None else labels)

    def _rows(self, given: Array) -> Rows:
        translation, attacker = self.translation, self.attacker
        rows = translation.rows(given)
        if attacker.bounds is not None:
            exact = translation.on_lattice(given, rows)
            attacker.check_instances(self.ensemble, exact, self.limits)
        return Rows(rows, given, bounds=translation.bounds_of_rows())

    def _answers(self, rows: Rows, threads: int | None) -> npt.NDArray[np.int32]:
        """The classes the exact sums decide for.

        They are those of the library's own predict, unless that rounds to a tie or across one.
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
        """The rows whose label the exact sums do not decide for."""
        return np.flatnonzero(~self.unattacked(rows, threads).right)

    def unattacked(self, rows: Rows, threads: int | None) -> _core.Decisions:
        """What can be said about the labels without an attack: margins, and who is right."""
        from carvegbm import _core

        assert rows.labels is not None
        options = _core.Options(_core.Solver.none, np.zeros(len(rows)), check_threads(threads))
        return _core.decide(self.core, rows.X, rows.labels, options, None)

    def witnesses(self, found: npt.NDArray[np.float64], rows: Rows) -> npt.NDArray[np.float64]:
        """Witnesses of these rows that the engines found, in code space."""
        return self.translation.witnesses(found, rows.X, rows.given)
