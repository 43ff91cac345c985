"""Descent on worst cases: new leaf scores for fixed trees.

With the trees fixed, what an attacker can do to an instance at worst, or a bound on it, is a
minimum of linear functions of the leaf scores, so that these losses are convex in them:

    classes   log(1 + sum over rivals r of exp(-m_r)), m_r the worst margin against r
    numbers   the larger of (end - y)^2 over both ends of the range of outputs within reach

The mean loss is minimised over all leaves of all trees at once, by Adam on subgradients; of the
averaged iterates the one that does best on validation rows is kept, or the last one.

Where there is no such bound (norms other than inf, and an ensemble that is not large-spread), the
loss is that of witnesses, which are taken further in every step.

Comes in: an ensemble, and a `Defence`: rows, and the attacker. Goes out: `Descent`, the scores and
how they were reached.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.progress import Progress, progress_bar
from carvegbm.training.dataset import Dataset
from carvegbm.training.refitting.batches import Batches, FreeScores
from carvegbm.training.refitting.witness_batches import WitnessBatches, needs_witnesses

__all__ = ["Check", "Defence", "Descent", "DescentSettings", "descend"]

Floats = npt.NDArray[np.float64]

_FIRST_MOMENT, _SECOND_MOMENT = 0.9, 0.999  # Adam's


@dataclass(frozen=True)
class Defence:
    """Which rows to defend, and against whom.

    Labels are class indices, or the wanted numbers for a regression. Without validation rows no
    iterate is judged, and the last one is kept.
    """

    attacker: Attacker
    train: Dataset
    valid: Dataset | None = None


@dataclass(frozen=True)
class DescentSettings:
    """How to descend.

    Scores count by what they add to the raw score; for a regression, in units of the standard
    deviation of the wanted numbers. So the same settings do for sums and for averages of trees, and
    for any unit of numbers.

    Attributes
    ----------
    steps : int
    epochs : int, optional
        Steps by another measure: as many as it takes to see all rows so many times.
    rate : float
        The first step's.
    falling : bool
        The rate falls linearly to 0; else it stays.
    batch : int
        Rows per step, at most.
    shuffle : bool
        Put batches together anew in every epoch, from groups of rows that stay together (64 rows,
        or a batch where it is smaller).
    averaging : float
        Weight of the past in the averaged iterate.
    l2 : float
        Beside the mean loss, l2 / 2 times the sum of squared scores per tree is minimised.
    pull : float, optional
        In place of l2: pull / 2 times the sum of squares, whatever the number of trees.
    anchor : array, optional
        Of the shape of the ensemble's scores: what these are pulled towards; default 0.
    check_every : int, optional
        Steps from one judgement on the validation rows to the next; None: an epoch.
    loss_weight : float
        How much a smaller loss counts beside the share of robust rows.
    patience : int, optional
        Steps without a better iterate before the descent ends; None: it goes on to its last step.
    seed : int
        Of the order in which rows are visited, where they do not fit in one step.
    floor : float, optional
        The smallest accuracy on the validation rows that is acceptable.
    threads : int
        0: all cores.
    progress : bool or callable, optional
    """

    steps: int = 120
    epochs: int | None = None
    rate: float = 0.01
    falling: bool = True
    batch: int = 4096
    shuffle: bool = False
    averaging: float = 0.9
    l2: float = 0.1
    pull: float | None = None
    anchor: Floats | None = None
    check_every: int | None = 5
    loss_weight: float = 0.0
    patience: int | None = 30
    seed: int = 0
    floor: float | None = None
    threads: int = 0
    progress: Progress = False


@dataclass(frozen=True)
class Check:
    """An iterate, judged on the validation rows."""

    step: int
    robustness: float | None
    """Share of rows whose worst margin, or a lower bound on it, is on the right side; None for a
    regression."""
    accuracy: float | None
    """Share of rows decided right, where there is a floor to it."""
    loss: float


@dataclass(frozen=True)
class Descent:
    """The best iterate, and all that were judged; without validation rows the last iterate."""

    scores: Floats
    best: Check | None
    checks: list[Check]
    interrupted: bool


def descend(
    ensemble: Ensemble,
    defence: Defence,
    settings: DescentSettings = DescentSettings(),
    given: WitnessBatches | None = None,
) -> Descent:
    """Scores whose worst cases are better.

    The best iterate is one whose accuracy on the validation rows is at least the floor, where
    there is such an iterate; then the one with the most robust rows (less `loss_weight` times the
    loss), then the one with the smallest loss. The start is the first iterate, and one with fewer
    robust rows is never taken. `given` are the training rows in batches, where the caller has
    witnesses of its own.
    """
    rows = _training_rows(ensemble, defence, settings) if given is None else given
    way = _Way(ensemble, defence, settings)
    judge = None if defence.valid is None else _Judge(ensemble, defence, settings, way)
    checks = [] if judge is None else [judge(0, way.average)]
    best, best_scores = (checks[0] if checks else None), way.average.copy()
    steps = settings.steps if settings.epochs is None else settings.epochs * rows.count
    every = settings.check_every or rows.count
    interrupted = False
    with progress_bar(settings.progress, steps, "refitting") as show:
        try:
            for step in range(1, steps + 1):
                number = (step - 1) % rows.count
                if settings.shuffle and number == 0:
                    rows.shuffle()
                share = 1 - (step - 1) / steps if settings.falling else 1.0
                way.go(rows.slope(number, way.scores * way.unit, way.steepness), share)
                if judge is None or best is None:
                    best_scores = way.average
                elif step % every == 0 or step == steps:
                    checks.append(judge(step, way.average))
                    if judge.prefers(checks[-1], best, checks[0]):
                        best, best_scores = checks[-1], way.average.copy()
                    elif settings.patience is not None and step - best.step >= settings.patience:
                        break
                if show is not None:
                    show(step)
        except KeyboardInterrupt:
            interrupted = True
    return Descent(way.unpack(best_scores), best, checks, interrupted)


def _training_rows(
    ensemble: Ensemble, defence: Defence, settings: DescentSettings
) -> Batches | WitnessBatches:
    kind = WitnessBatches if needs_witnesses(ensemble, defence.attacker) else Batches
    order = np.random.default_rng(settings.seed)
    size, threads = settings.batch, settings.threads
    return kind(ensemble, defence.attacker, defence.train, threads, size=size, order=order)


class _Way:
    """Where the descent is: the packed scores in their unit, their average, Adam's moments."""

    def __init__(self, ensemble: Ensemble, defence: Defence, settings: DescentSettings) -> None:
        self._free = FreeScores(ensemble)
        self._settings = settings
        self.steepness = ensemble.link_scale if ensemble.task == "binary" else 1.0
        scale = float(np.std(defence.train.y)) if ensemble.task == "regression" else 1.0
        scale = scale or 1.0
        self.unit = scale * ensemble.average
        self._slope_unit = scale / ensemble.average
        self.scores = self._free.pack(ensemble.scores) / self.unit
        self.average = self.scores.copy()
        self._anchor: Floats | float = 0.0
        if settings.anchor is not None:
            anchor = np.asarray(settings.anchor, dtype=np.float64)
            if anchor.shape != ensemble.scores.shape:
                raise CarveError(
                    f"anchor must have the shape of the scores, {ensemble.scores.shape}, got "
                    f"{anchor.shape}"
                )
            self._anchor = self._free.pack(anchor) / self.unit
        l2 = settings.l2 / max(1, ensemble.n_trees)
        self._pull = l2 if settings.pull is None else settings.pull
        self._first, self._second = np.zeros_like(self.scores), np.zeros_like(self.scores)
        self._steps = 0

    def go(self, slope: Floats, share: float) -> None:
        """A step along the slope, at this share of the rate."""
        self._steps += 1
        slope = slope / self._slope_unit + self._pull * (self.scores - self._anchor)
        self._first += (1 - _FIRST_MOMENT) * (slope - self._first)
        self._second += (1 - _SECOND_MOMENT) * (slope * slope - self._second)
        rate = self._settings.rate * share / (1 - _FIRST_MOMENT**self._steps)
        size = np.sqrt(self._second / (1 - _SECOND_MOMENT**self._steps)) + 1e-8
        self.scores -= self._free.may_change * (rate * self._first / size)
        self.average += (1 - self._settings.averaging) * (self.scores - self.average)

    def unpack(self, scores: Floats) -> Floats:
        return self._free.unpack(scores * self.unit)


class _Judge:
    """Judges iterates on the validation rows."""

    def __init__(
        self, ensemble: Ensemble, defence: Defence, settings: DescentSettings, way: _Way
    ) -> None:
        assert defence.valid is not None
        kind = WitnessBatches if needs_witnesses(ensemble, defence.attacker) else Batches
        self._attacked = kind(ensemble, defence.attacker, defence.valid, settings.threads)
        self._clean = None
        if settings.floor is not None:
            nobody = Attacker("inf", 0)
            self._clean = Batches(ensemble, nobody, defence.valid, settings.threads)
        self._settings = settings
        self._way = way

    def __call__(self, step: int, scores: Floats) -> Check:
        packed, steepness = scores * self._way.unit, self._way.steepness
        found = self._attacked.outcomes(packed, steepness)
        robustness = float(np.mean(found["margin"] >= 0)) if "margin" in found else None
        accuracy = None
        if self._clean is not None:
            clean = self._clean.outcomes(packed, steepness)
            accuracy = float(np.mean(clean["margin"] >= 0))
        return Check(step, robustness, accuracy, float(np.mean(found["loss"])))

    def prefers(self, check: Check, best: Check, start: Check) -> bool:
        """Is `check` better than `best`, and no less robust than the start?"""
        floor, weight = self._settings.floor, self._settings.loss_weight

        def rank(c: Check) -> tuple[bool, float, float]:
            above = floor is None or c.accuracy is None or c.accuracy >= floor
            return above, (c.robustness or 0.0) - weight * c.loss, -c.loss

        worse = (check.robustness or 0.0) < (start.robustness or 0.0)
        return not worse and rank(check) > rank(best)
