"""Rows in batches, each row with a witness: slopes of the loss there, and outcomes.

The same questions as those of `batches.py`, for attackers that share a budget among features (norms
0, 1, 2, …) and trees that share features: no bound is tight then, and the worst case is looked for.
Every row keeps a witness, a point within the budget; each time the row is met, its witness is taken
a few passes further against the scores of the moment.

Comes in: an ensemble, an attacker, labelled rows; then scores, as `FreeScores` packs them. Goes
out: how the loss at the witnesses changes with each score, what becomes of every row there, and the
witnesses themselves. What is found is an upper bound on worst margins, never a proof.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum, isinf

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attacker import Attacker
from carvegbm.axes.translation import Translation
from carvegbm.ensemble import Ensemble
from carvegbm.spread import is_large_spread
from carvegbm.training.dataset import Dataset
from carvegbm.training.refitting.batches import FreeScores

__all__ = ["WitnessBatches", "needs_witnesses"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int32]

_PASSES = 2  # whenever a row is met on the way down
_JUDGING_PASSES = 8
_ANEW = 0.1  # share of the rows whose witness starts from the row itself again


def needs_witnesses(ensemble: Ensemble, attacker: Attacker) -> bool:
    """Whether worst cases have to be looked for: there is no bound on them to descend on."""
    return not isinf(attacker.norm) and not is_large_spread(ensemble, attacker)


class WitnessBatches:
    """Rows in batches; all of them in one, where no size is given.

    Parameters
    ----------
    ensemble : Ensemble
    attacker : Attacker
    data : Dataset
        Labels are class indices, or numbers for a regression.
    threads : int
    size : int, optional
        Rows per batch, at most.
    order : Generator, optional
        Puts the rows in order, where there are several batches.
    points : array (n, n_features), optional
        Witnesses to begin with, where they are within the budget; by default the rows themselves.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        attacker: Attacker,
        data: Dataset,
        threads: int,
        *,
        size: int | None = None,
        order: np.random.Generator | None = None,
        points: Floats | None = None,
    ) -> None:
        n = len(data)
        self.count = 1 if size is None else max(1, -(-n // size))
        self._threads = threads
        self._order = order
        self._rows = np.arange(n, dtype=np.int64)
        self._free = FreeScores(ensemble)
        self._shape = ensemble.scores.shape
        self._translation = Translation(ensemble, attacker.limits(ensemble))
        self._given = data.X
        self._X: Floats = np.ascontiguousarray(self._translation.rows(data.X))
        core_ensemble = self._translation.core_ensemble
        core_attacker = self._translation.core_attacker(attacker)
        self._wanted = data.y if ensemble.task == "regression" else None
        # A regression is pressed down, then up; a class against its rivals.
        labels = [data.y] if self._wanted is None else [np.ones(n), np.zeros(n)]
        self._sides = [
            _core.Witnesses(core_ensemble, core_attacker, self._X, side.astype(np.int32))
            for side in labels
        ]
        if points is not None:
            at = np.ascontiguousarray(self._translation.rows(points))
            for side in self._sides:
                side.stand_at(core_ensemble, at, threads)
        weight = np.ones(n) if data.weight is None else data.weight
        self._weight = weight / max(weight.max(initial=0.0), 1e-300)
        self._seed = 0 if order is None else int(order.integers(2**62))

    def shuffle(self) -> None:
        """Other batches from now on: the same rows, put together anew."""
        if self._order is not None and self.count > 1:
            self._rows = self._order.permutation(self._rows)

    def slope(self, number: int, scores: Floats, steepness: float) -> Floats:
        """Slope of the mean loss over batch `number`, at witnesses that are taken further first."""
        rows = np.sort(np.array_split(self._rows, self.count)[number]).astype(np.int32)
        margins = self._press(rows, scores, _PASSES, _ANEW, keep_leaves=True)
        weight = self._weight[rows]
        weight = weight / max(fsum(weight.tolist()), 1e-300)
        total = np.zeros(self._shape)
        for side, force in zip(self._sides, self._forces(rows, margins, steepness), strict=True):
            slope = np.asarray(side.slope(force * weight, self._threads))
            total += slope.reshape(self._shape)
        return self._free.pack(total)

    def outcomes(self, scores: Floats, steepness: float) -> Mapping[str, Floats]:
        """What becomes of every row at its witness: margin, or lowest and highest, and loss."""
        rows = np.arange(len(self._X), dtype=np.int32)
        margins = self._press(rows, scores, _JUDGING_PASSES, 0.0, keep_leaves=False)
        if self._wanted is None:
            loss = np.logaddexp(0, -steepness * margins[0])
            return {"margin": margins[0], "loss": loss}
        lowest, highest = margins[0], -margins[1]
        worse = np.maximum(np.abs(lowest - self._wanted), np.abs(highest - self._wanted))
        return {"lowest": lowest, "highest": highest, "loss": worse**2}

    def worst_points(self, scores: Floats) -> Floats:
        """The witnesses, taken further against scores by leaf and output: a point per row.

        Of a regression, the point at the end that is farther from the wanted number.
        """
        found = [self._X.astype(np.float64) for _ in self._sides]
        outcomes = self.outcomes(self._free.pack(scores), 1.0)
        for side, points in zip(self._sides, found, strict=True):
            side.points(points, self._threads)
        worst = found[0]
        if self._wanted is not None:
            below = self._wanted - outcomes["lowest"] >= outcomes["highest"] - self._wanted
            worst = np.where(below[:, None], found[0], found[1])
        return self._translation.witnesses(worst, self._X, self._given)

    def _press(
        self, rows: Rows, scores: Floats, passes: int, anew: float, keep_leaves: bool
    ) -> list[Floats]:
        """Margins at the witnesses of the rows, per side."""
        full = np.ascontiguousarray(self._free.unpack(scores)).ravel()
        self._seed += 1
        effort = _core.WitnessEffort(passes=passes, anew=anew, seed=self._seed)
        return [
            np.asarray(side.press(rows, full, effort, keep_leaves, self._threads))
            for side in self._sides
        ]

    def _forces(self, rows: Rows, margins: list[Floats], steepness: float) -> list[Floats]:
        """How the loss of every row changes with its margin, per side."""
        if self._wanted is None:
            return [-steepness * np.exp(-np.logaddexp(0, steepness * margins[0]))]
        below, above = self._wanted[rows] - margins[0], -margins[1] - self._wanted[rows]
        lower_counts = below >= above
        return [np.where(lower_counts, -2 * below, 0.0), np.where(lower_counts, 0.0, -2 * above)]
