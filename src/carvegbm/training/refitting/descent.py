"""Descent on worst margins: new leaf scores for fixed trees.

With the trees fixed, an instance's worst margin is a minimum of linear functions of the leaf
scores, so that the logistic loss of worst margins is convex in them. It is minimised over all
leaves of all trees at once, by Adam on subgradients; of the averaged iterates the one that does
best on validation rows is kept.

Comes in: a large-spread ensemble, and a `Defence`: training and validation rows, and the attacker.
Goes out: `Descent`, the scores and how they were reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.progress import Progress, progress_bar
from carvegbm.training.data import Labelled

__all__ = ["Check", "Defence", "Descent", "DescentSettings", "descend"]

Floats = npt.NDArray[np.float64]

_BATCH = 4096  # rows per step, at most
_MOST_MEMORY = 1 << 28  # bytes of reach kept from step to step; what does not fit is found anew
_CHECK_EVERY = 5  # steps
_FIRST_MOMENT, _SECOND_MOMENT = 0.9, 0.999  # Adam's
_AVERAGING = 0.9  # weight of the past in the averaged iterate


@dataclass(frozen=True)
class Defence:
    """Which rows to defend, and against whom; labels are class indices."""

    attacker: Attacker
    train: Labelled
    valid: Labelled


@dataclass(frozen=True)
class DescentSettings:
    """How to descend.

    Attributes
    ----------
    steps : int
    rate : float
        The first step's; it falls linearly to 0.
    l2 : float
        Beside the mean loss, l2 / 2 times the sum of squared scores per tree is minimised.
    patience : int
        Steps without a better iterate before the descent ends.
    seed : int
        Of the order in which rows are visited, where they do not fit in one step.
    floor : float, optional
        The smallest accuracy on the validation rows that is acceptable.
    threads : int
        0: all cores.
    progress : bool or callable, optional
    """

    steps: int = 120
    rate: float = 0.01
    l2: float = 0.1
    patience: int = 30
    seed: int = 0
    floor: float | None = None
    threads: int = 0
    progress: Progress = False


@dataclass(frozen=True)
class Check:
    """An iterate, judged on the validation rows."""

    step: int
    robustness: float
    """Share of rows whose worst margin, or a lower bound on it, is on the right side."""
    accuracy: float | None
    """Share of rows decided right, where there is a floor to it."""
    loss: float


@dataclass(frozen=True)
class Descent:
    """The best iterate, and all that were judged."""

    scores: Floats
    best: Check
    checks: list[Check]
    interrupted: bool


def descend(
    ensemble: Ensemble,
    defence: Defence,
    settings: DescentSettings = DescentSettings(),  # noqa: B008
) -> Descent:
    """Scores whose worst margins are larger.

    The best iterate is one whose accuracy on the validation rows is at least the floor, where
    there is such an iterate; then the one with the most robust rows, then the one with the
    smallest loss. The start is the first iterate, and one with fewer robust rows is never taken.
    """
    steepness = ensemble.link_scale if ensemble.task == "binary" else 1.0
    order = np.random.default_rng(settings.seed)
    rows = _Batches(ensemble, defence.attacker, defence.train, settings.threads, order)
    judge = _Judge(ensemble, defence, settings, steepness)
    scores = ensemble.scores.ravel().copy()
    free = _free_scores(ensemble).ravel()
    average, first, second = scores.copy(), np.zeros_like(scores), np.zeros_like(scores)
    checks = [judge(0, scores)]
    best, best_scores = checks[0], scores.copy()
    interrupted = False
    with progress_bar(settings.progress, settings.steps, "refitting") as show:
        try:
            for step in range(1, settings.steps + 1):
                slope = rows.slope(step - 1, scores, steepness)
                slope += settings.l2 / max(1, ensemble.n_trees) * scores
                first += (1 - _FIRST_MOMENT) * (slope - first)
                second += (1 - _SECOND_MOMENT) * (slope * slope - second)
                rate = settings.rate * (1 - (step - 1) / settings.steps)
                size = np.sqrt(second / (1 - _SECOND_MOMENT**step)) + 1e-8
                scores -= free * (rate / (1 - _FIRST_MOMENT**step) * first / size)
                average += (1 - _AVERAGING) * (scores - average)
                if step % _CHECK_EVERY == 0 or step == settings.steps:
                    checks.append(judge(step, average))
                    if judge.prefers(checks[-1], best, checks[0]):
                        best, best_scores = checks[-1], average.copy()
                    elif step - best.step >= settings.patience:
                        break
                if show is not None:
                    show(step)
        except KeyboardInterrupt:
            interrupted = True
    return Descent(best_scores.reshape(ensemble.scores.shape), best, checks, interrupted)


class _Judge:
    """Judges iterates on the validation rows."""

    def __init__(
        self, ensemble: Ensemble, defence: Defence, settings: DescentSettings, steepness: float
    ) -> None:
        self._attacked = _Batches(ensemble, defence.attacker, defence.valid, settings.threads)
        self._clean = None
        if settings.floor is not None:
            nobody = Attacker(defence.attacker.norm, 0)
            self._clean = _Batches(ensemble, nobody, defence.valid, settings.threads)
        self._floor = settings.floor
        self._steepness = steepness

    def __call__(self, step: int, scores: Floats) -> Check:
        robust, losses = [], []
        for margins in self._attacked.margins(scores):
            robust.append(margins >= 0)
            losses.append(np.logaddexp(0, -self._steepness * margins))
        accuracy = None
        if self._clean is not None:
            right = [margins >= 0 for margins in self._clean.margins(scores)]
            accuracy = float(np.concatenate(right).mean())
        return Check(
            step,
            float(np.concatenate(robust).mean()),
            accuracy,
            float(np.concatenate(losses).mean()),
        )

    def prefers(self, check: Check, best: Check, start: Check) -> bool:
        """Is `check` better than `best`, and no less robust than the start?"""

        def rank(c: Check) -> tuple[bool, float, float]:
            above = self._floor is None or c.accuracy is None or c.accuracy >= self._floor
            return above, c.robustness, -c.loss

        return check.robustness >= start.robustness and rank(check) > rank(best)


class _Batches:
    """Rows in batches, each with what the attacker can reach; memory is bounded.

    Reach that fits is found once and kept; the rest is found anew whenever it is needed.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        attacker: Attacker,
        data: Labelled,
        threads: int,
        order: np.random.Generator | None = None,
    ) -> None:
        self._ensemble = ensemble
        self._attacker = attacker.core(ensemble)
        self._X = np.ascontiguousarray(data.X)
        self._labels = data.labels.astype(np.int32)
        self._threads = threads
        n = len(data)
        count = -(-n // _BATCH)
        rows = np.arange(n) if order is None or count == 1 else order.permutation(n)
        self._parts = [np.sort(part) for part in np.array_split(rows, count)]
        self._kept: dict[int, _core.WorstCases] = {}
        self._memory = 0
        top = 1.0 if data.weight is None else float(data.weight.max())
        self._weight = None if data.weight is None else data.weight / top

    def _cases(self, index: int) -> _core.WorstCases:
        found = self._kept.get(index)
        if found is None:
            part = self._parts[index]
            X = self._X if len(self._parts) == 1 else self._X[part]
            found = _core.WorstCases(
                self._ensemble.core, self._attacker, X, self._labels[part], self._threads
            )
            if self._memory + found.memory <= _MOST_MEMORY:
                self._memory += found.memory
                self._kept[index] = found
        return found

    def slope(self, step: int, scores: Floats, steepness: float) -> Floats:
        """Slope of the mean loss over the batch whose turn it is."""
        index = step % len(self._parts)
        part = self._parts[index]
        weight = np.empty(0) if self._weight is None else self._weight[part]
        total = float(len(part) if self._weight is None else weight.sum())
        _, slope = self._cases(index).slope(scores, weight, steepness, self._threads)
        return np.asarray(slope) / max(total, 1e-300)

    def margins(self, scores: Floats) -> Iterator[Floats]:
        """Worst margins, batch by batch."""
        for index in range(len(self._parts)):
            yield np.asarray(self._cases(index).margins(scores, self._threads))


def _free_scores(ensemble: Ensemble) -> npt.NDArray[np.bool_]:
    """Which scores may change: those of outputs that their tree counts for."""
    if ensemble.n_outputs == 1:
        return np.ones(ensemble.scores.shape, dtype=bool)
    leaves = ensemble.nodes["feature"] < 0
    tree = np.empty(ensemble.n_leaves, dtype=np.int64)
    tree[ensemble.nodes["left"][leaves]] = ensemble.tree_of_node[leaves]
    counts = np.zeros((ensemble.n_trees, ensemble.n_outputs), dtype=bool)
    np.logical_or.at(counts, tree, ensemble.scores != 0)
    return counts[tree]
