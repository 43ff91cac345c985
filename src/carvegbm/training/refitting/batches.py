"""Rows in batches, each with what the attacker can reach: slopes of the loss, and outcomes.

Comes in: an ensemble, an attacker, labelled rows; then scores, as `FreeScores` packs them. Goes
out: how the loss of worst cases changes with each score, and what becomes of every row.

Reach that fits in memory is found once and kept; the rest is found anew whenever it is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attacker import Attacker
from carvegbm.axes.translation import Translation
from carvegbm.ensemble import Ensemble
from carvegbm.training.dataset import Dataset

__all__ = ["Batches", "FreeScores"]

Floats = npt.NDArray[np.float64]

_MOST_MEMORY = 1 << 29  # bytes of reach kept from step to step
_BLOCK = 64  # rows that always go together, as the core takes them


class FreeScores:
    """The scores of an ensemble that may change, packed: those of outputs a tree counts for.

    Where every tree counts for one output only there is one number per leaf, else one per leaf and
    output; `may_change` says which of them are free.

    Attributes
    ----------
    output : array of int32
        Per tree, the one it counts for; empty if there are trees that count for several.
    may_change : array of bool
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self._shape = ensemble.scores.shape
        leaves = ensemble.nodes["feature"] < 0
        tree = np.empty(ensemble.n_leaves, dtype=np.int64)
        tree[ensemble.nodes["left"][leaves]] = ensemble.tree_of_node[leaves]
        counts = np.zeros((ensemble.n_trees, ensemble.n_outputs), dtype=bool)
        np.logical_or.at(counts, tree, ensemble.scores != 0)
        if ensemble.n_outputs == 1:
            counts[:] = True
        self._column: npt.NDArray[np.int64] | None = None
        self.output = np.empty(0, dtype=np.int32)
        self.may_change = counts[tree].ravel()
        if (counts.sum(axis=1) <= 1).all():
            self.output = counts.argmax(axis=1).astype(np.int32)
            self._column = self.output[tree].astype(np.int64)
            self.may_change = np.asarray(counts.any(axis=1))[tree]

    def pack(self, scores: Floats) -> Floats:
        """Scores by leaf and output as one array."""
        if self._column is None:
            return np.array(scores).ravel()
        packed: Floats = scores[np.arange(len(scores)), self._column]
        return packed

    def unpack(self, packed: Floats) -> Floats:
        """Scores by leaf and output."""
        if self._column is None:
            return np.array(packed).reshape(self._shape)
        scores = np.zeros(self._shape)
        scores[np.arange(len(scores)), self._column] = packed
        return scores


class Batches:
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
    ) -> None:
        n = len(data)
        self.count = 1 if size is None else max(1, -(-n // size))
        self._block = max(1, min(_BLOCK, n if size is None else size))
        self._in_order = np.arange(n)
        if order is not None and self.count > 1:
            self._in_order = order.permutation(n)
        self._threads = threads
        self._order = order
        numbers = ensemble.task == "regression"
        labels: Any = np.ascontiguousarray(data.y, dtype=np.float64 if numbers else np.int32)
        translation = Translation(ensemble, attacker.limits(ensemble))
        self._cases = _core.WorstCases(
            translation.core_ensemble,
            translation.core_attacker(attacker),
            np.ascontiguousarray(translation.rows(data.X)),
            labels,
            threads,
            _core.WorstCasePlan(
                FreeScores(ensemble).output, self._in_order, self._block, _MOST_MEMORY
            ),
        )
        self._blocks = np.arange(-(-n // self._block))
        self._short = len(self._blocks) * self._block - n
        self._weight = np.empty(0)
        if data.weight is not None:
            self._weight = data.weight / max(data.weight.max(initial=0.0), 1e-300)

    @property
    def memory(self) -> int:
        """Bytes of reach that are kept."""
        return self._cases.memory

    def shuffle(self) -> None:
        """Other batches from now on: the same rows, put together anew."""
        if self._order is not None and self.count > 1:
            self._blocks = self._order.permutation(self._blocks)

    def slope(self, number: int, scores: Floats, steepness: float) -> Floats:
        """Slope of the mean loss over batch `number`."""
        blocks = self._batch(number)
        slope = self._cases.slope(scores, self._weight, steepness, blocks, self._threads)
        return np.asarray(slope) / max(self.weight(number), 1e-300)

    def weight(self, number: int) -> float:
        """Return the sum of the weights of batch `number`; the largest weight of a row is 1."""
        blocks = self._batch(number)
        if not len(self._weight):
            last = (blocks == len(self._blocks) - 1).any()
            return float(len(blocks) * self._block - (self._short if last else 0))
        positions = (blocks[:, None] * self._block + np.arange(self._block)).ravel()
        rows = self._in_order[positions[positions < len(self._in_order)]]
        return math.fsum(self._weight[rows].tolist())

    def _batch(self, number: int) -> npt.NDArray[np.int64]:
        return np.array_split(self._blocks, self.count)[number]

    def outcomes(self, scores: Floats, steepness: float) -> Mapping[str, Floats]:
        """What becomes of every row: margin, or lowest and highest, and loss."""
        found: Mapping[str, Floats] = self._cases.outcomes(scores, steepness, self._threads)
        return found
