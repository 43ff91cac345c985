"""What robust training minimises: a loss of the worst scores that trees, one by one, can be given.

The treewise bounds of a row are the sums, over the trees so far, of the lowest and of the highest
leaf value the attacker can push it into:  low <= every score within reach <= high.

Comes in: labels. Goes out: a `Target`, which says for bounds how the loss leans at every row, and
towards which side the attacker pushes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.training.dataset import Dataset

__all__ = ["Bounds", "Lean", "Target", "target_of"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_LEAST_HESSIAN = 1e-6  # of a row that weighs 1: one that is decided keeps a say


class Bounds(NamedTuple):
    """Treewise bounds of rows: a row per row, a column per output."""

    low: Floats
    high: Floats


class Lean(NamedTuple):
    """How the loss depends on the worst score of one output, per row."""

    down: Bools
    """Whether the attacker wants the score low."""
    gradient: Floats
    hessian: Floats


@dataclass(frozen=True)
class Target(ABC):
    """A loss of treewise bounds on labelled rows."""

    rows: Dataset
    n_outputs: int = 1

    @abstractmethod
    def start(self) -> Floats:
        """Scores to start from, one per output."""

    @abstractmethod
    def leans(self, bounds: Bounds) -> list[Lean]:
        """How the loss leans, per output; the weights of rows are in it."""

    @abstractmethod
    def losses(self, bounds: Bounds) -> Floats:
        """The loss of every row, without weights."""

    @abstractmethod
    def margins(self, bounds: Bounds) -> Floats:
        """A lower bound on the worst margin of every row, positive where the row is robust."""

    def loss(self, bounds: Bounds) -> float:
        """The mean loss."""
        return float(np.average(self.losses(bounds), weights=self.rows.weight))

    @property
    def _weight(self) -> Floats:
        weight = self.rows.weight
        return np.ones(len(self.rows)) if weight is None else weight


class _TwoClasses(Target):
    """log(1 + exp(-m)) of the worst margin m: low for rows of class 1, -high for class 0."""

    def start(self) -> Floats:
        labels = self.rows.y.astype(np.float64)
        rate = np.clip(np.average(labels, weights=self.rows.weight), 1e-6, 1 - 1e-6)
        return np.array([np.log(rate / (1 - rate))])

    def leans(self, bounds: Bounds) -> list[Lean]:
        down = self.rows.y == 1
        wrong = _share(-self.margins(bounds))
        hessian = np.maximum(wrong * (1 - wrong), _LEAST_HESSIAN)
        weight = self._weight
        return [Lean(down, np.where(down, -wrong, wrong) * weight, hessian * weight)]

    def losses(self, bounds: Bounds) -> Floats:
        return np.logaddexp(0, -self.margins(bounds))

    def margins(self, bounds: Bounds) -> Floats:
        return np.where(self.rows.y == 1, bounds.low[:, 0], -bounds.high[:, 0])


class _ManyClasses(Target):
    """The cross-entropy of the lowest score of a row's class and the highest of every other."""

    def start(self) -> Floats:
        return np.zeros(self.n_outputs)

    def leans(self, bounds: Bounds) -> list[Lean]:
        worst = self._worst(bounds)
        share = np.exp(worst - worst.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        steeper = self.n_outputs / (self.n_outputs - 1)  # as in LightGBM
        found = []
        for output in range(self.n_outputs):
            down = self.rows.y == output
            own = share[:, output]
            hessian = np.maximum(steeper * own * (1 - own), _LEAST_HESSIAN)
            found.append(Lean(down, (own - down) * self._weight, hessian * self._weight))
        return found

    def losses(self, bounds: Bounds) -> Floats:
        worst = self._worst(bounds)
        most = worst.max(axis=1)
        total = np.log(np.exp(worst - most[:, None]).sum(axis=1))
        return np.asarray(most + total - worst[self._own])

    def margins(self, bounds: Bounds) -> Floats:
        worst = self._worst(bounds)
        own = worst[self._own]
        worst[self._own] = -np.inf
        return np.asarray(own - worst.max(axis=1))

    @property
    def _own(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.arange(len(self.rows)), self.rows.y.astype(np.int64)

    def _worst(self, bounds: Bounds) -> Floats:
        worst = bounds.high.copy()
        worst[self._own] = bounds.low[self._own]
        return np.asarray(worst)


class _Numbers(Target):
    """Half the square of the larger distance, of both ends, from a row's number."""

    def start(self) -> Floats:
        labels = np.asarray(self.rows.y, dtype=np.float64)
        return np.array([np.average(labels, weights=self.rows.weight)])

    def leans(self, bounds: Bounds) -> list[Lean]:
        below, above = self._distances(bounds)
        down = below >= above
        return [Lean(down, np.where(down, -below, above) * self._weight, self._weight)]

    def losses(self, bounds: Bounds) -> Floats:
        below, above = self._distances(bounds)
        return np.asarray(np.maximum(below, above) ** 2 / 2)

    def margins(self, bounds: Bounds) -> Floats:
        below, above = self._distances(bounds)
        return np.asarray(-np.maximum(below, above))

    def _distances(self, bounds: Bounds) -> tuple[Floats, Floats]:
        return self.rows.y - bounds.low[:, 0], bounds.high[:, 0] - self.rows.y


def target_of(task: str, rows: Dataset, n_outputs: int) -> Target:
    """The target of a task: "binary", "multiclass" or "regression"."""
    kinds: dict[str, Callable[[Dataset, int], Target]]
    kinds = {"binary": _TwoClasses, "multiclass": _ManyClasses, "regression": _Numbers}
    return kinds[task](rows, n_outputs)


def _share(margin: Floats) -> Floats:
    """1 / (1 + exp(-margin)), without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0, -margin)))
