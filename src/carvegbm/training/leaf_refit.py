"""Fit the leaf scores of fixed trees to worst cases.

With the trees fixed, the worst case of a row, or a bound on it, is a minimum of linear functions of
the leaf scores. These losses are therefore convex in the scores:

    classification  log(1 + sum over other classes c of exp(-m_c)), m_c the worst margin against c
    regression      the larger of (end - y)^2 over both ends of the range of outputs within reach

The mean loss is minimised over all leaves by Adam on subgradients. Of the averaged iterates, the
one that does best on the validation rows is kept, or the last one. Where no bound exists (norms
other than inf, and an ensemble that is not large-spread), the loss at witnesses takes its place: a
point within the budget per row, improved in every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import fsum, isinf
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attacker import Attacker
from carvegbm.axes.translation import Translation
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.progress import Progress, progress_bar
from carvegbm.spread import is_large_spread
from carvegbm.training.dataset import Dataset

__all__ = ["BoundBatches", "Check", "LeafRefit", "PackedScores", "RefitProblem", "RefitSettings"]
__all__ += ["WitnessBatches", "needs_witnesses", "refit_leaves"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int32]

_BETA1, _BETA2 = 0.9, 0.999  # Adam's
_MAX_MEMORY = 1 << 29  # bytes of leaves within reach that are kept; others are found anew
_BLOCK_ROWS = 64
_TRAINING_PASSES, _VALIDATION_PASSES = 2, 8  # over a witness, each time its row is met
_RESTARTED = 0.1  # share of the witnesses that start from the row again


@dataclass(frozen=True)
class RefitProblem:
    """Rows and attacker; without validation rows, the last iterate is kept."""

    attacker: Attacker
    train: Dataset
    valid: Dataset | None = None


@dataclass(frozen=True)
class RefitSettings:
    """How to minimise the loss.

    Scores count by what they add to the raw score; for regression, in standard deviations of y.
    """

    steps: int = 120
    epochs: int | None = None  # in place of steps: passes over all rows
    rate: float = 0.01
    falling: bool = True  # linearly to 0
    batch: int = 4096
    shuffle: bool = False  # new batches in every epoch, from groups of 64 rows
    averaging: float = 0.9  # weight of the past in the averaged iterate
    l2: float = 0.0  # l2 / 2 times the sum of squares of scores - anchor is added to the loss
    anchor: Floats | None = None
    check_every: int | None = 5  # steps between validations; None means an epoch
    loss_weight: float = 0.0  # against the share of robust rows, in a validation
    patience: int | None = 30  # steps without a better iterate
    floor: float | None = None  # smallest acceptable accuracy on the validation rows
    seed: int = 0
    threads: int = 0  # all cores
    progress: Progress = False


@dataclass(frozen=True)
class Check:
    """An iterate on the validation rows.

    `robustness` is the share of rows whose worst margin, or a lower bound on it, is >= 0; None for
    regression. `accuracy` is None without a floor.
    """

    step: int
    robustness: float | None
    accuracy: float | None
    loss: float


@dataclass(frozen=True)
class LeafRefit:
    """The best iterate and all checks; without validation rows the last iterate."""

    scores: Floats
    best: Check | None
    checks: list[Check]
    interrupted: bool


def refit_leaves(
    ensemble: Ensemble,
    problem: RefitProblem,
    settings: RefitSettings = RefitSettings(),
    batches: WitnessBatches | None = None,
) -> LeafRefit:
    """Return scores with better worst cases.

    The best iterate has at least the accuracy of the floor, if any does; then the most robust rows
    (less `loss_weight` times the loss), then the smallest loss. An iterate with fewer robust rows
    than the first one is never taken. `batches` are the training rows with witnesses to start from.
    """
    packed, unit = PackedScores(ensemble), _Unit(ensemble, problem.train)
    kind = WitnessBatches if needs_witnesses(ensemble, problem.attacker) else BoundBatches
    rows: BoundBatches | WitnessBatches | None = batches
    if rows is None:
        order = np.random.default_rng(settings.seed)
        options: Any = {"size": settings.batch, "order": order}
        rows = kind(ensemble, problem.attacker, problem.train, settings.threads, **options)
    scores = packed.pack(ensemble.scores) / unit.score
    anchor: Floats | float = 0.0
    if settings.anchor is not None:
        if settings.anchor.shape != ensemble.scores.shape:
            raise CarveError(
                f"anchor must have the shape of the scores, {ensemble.scores.shape}, got "
                f"{settings.anchor.shape}"
            )
        anchor = packed.pack(settings.anchor) / unit.score
    average = scores.copy()
    first, second = np.zeros_like(scores), np.zeros_like(scores)
    check = None
    if problem.valid is not None:
        check = _Validation(ensemble, problem.attacker, problem.valid, settings, unit)
    checks = [] if check is None else [check(0, average)]
    best, best_scores = (checks[0] if checks else None), average.copy()
    steps = settings.steps if settings.epochs is None else settings.epochs * rows.count
    every = settings.check_every or rows.count
    interrupted = False
    with progress_bar(settings.progress, steps, "refitting") as show:
        try:
            for step in range(1, steps + 1):
                number = (step - 1) % rows.count
                if settings.shuffle and number == 0:
                    rows.shuffle()
                slope = rows.slope(number, scores * unit.score, unit.steepness) / unit.slope
                slope = slope + settings.l2 * (scores - anchor)
                first += (1 - _BETA1) * (slope - first)
                second += (1 - _BETA2) * (slope * slope - second)
                rate = settings.rate * (1 - (step - 1) / steps if settings.falling else 1.0)
                rate /= 1 - _BETA1**step
                size = np.sqrt(second / (1 - _BETA2**step)) + 1e-8
                scores -= packed.may_change * (rate * first / size)
                average += (1 - settings.averaging) * (scores - average)
                if check is None or best is None:
                    best_scores = average
                elif step % every == 0 or step == steps:
                    checks.append(check(step, average))
                    if check.prefers(checks[-1], best, checks[0]):
                        best, best_scores = checks[-1], average.copy()
                    elif settings.patience is not None and step - best.step >= settings.patience:
                        break
                if show is not None:
                    show(step)
        except KeyboardInterrupt:
            interrupted = True
    return LeafRefit(packed.unpack(best_scores * unit.score), best, checks, interrupted)


class _Unit:
    """The units of scores and slopes in a refit, and the steepness of the logistic loss."""

    def __init__(self, ensemble: Ensemble, train: Dataset) -> None:
        scale = float(np.std(train.y)) if ensemble.task == "regression" else 1.0
        self.score = (scale or 1.0) * ensemble.average
        self.slope = (scale or 1.0) / ensemble.average
        self.steepness = ensemble.link_scale if ensemble.task == "binary" else 1.0


class _Validation:
    """Evaluates iterates on the validation rows."""

    def __init__(
        self,
        ensemble: Ensemble,
        attacker: Attacker,
        valid: Dataset,
        settings: RefitSettings,
        unit: _Unit,
    ) -> None:
        kind = WitnessBatches if needs_witnesses(ensemble, attacker) else BoundBatches
        self._attacked = kind(ensemble, attacker, valid, settings.threads)
        self._clean = None
        if settings.floor is not None:
            self._clean = BoundBatches(ensemble, Attacker("inf", 0), valid, settings.threads)
        self._settings = settings
        self._unit = unit

    def __call__(self, step: int, scores: Floats) -> Check:
        arguments = scores * self._unit.score, self._unit.steepness
        found = self._attacked.outcomes(*arguments)
        robustness = float(np.mean(found["margin"] >= 0)) if "margin" in found else None
        accuracy = None
        if self._clean is not None:
            accuracy = float(np.mean(self._clean.outcomes(*arguments)["margin"] >= 0))
        return Check(step, robustness, accuracy, float(np.mean(found["loss"])))

    def prefers(self, check: Check, best: Check, start: Check) -> bool:
        """Return whether `check` is better than `best` and no less robust than the start."""
        floor, weight = self._settings.floor, self._settings.loss_weight

        def rank(c: Check) -> tuple[bool, float, float]:
            above = floor is None or c.accuracy is None or c.accuracy >= floor
            return above, (c.robustness or 0.0) - weight * c.loss, -c.loss

        worse = (check.robustness or 0.0) < (start.robustness or 0.0)
        return not worse and rank(check) > rank(best)


class PackedScores:
    """The scores that may change, one per leaf if every tree belongs to one output.

    Attributes
    ----------
    output : int32 array (n_trees,)
        Output of every tree; empty if trees belong to several.
    may_change : bool array
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.shape = ensemble.scores.shape
        leaves = ensemble.nodes["feature"] < 0
        tree = np.empty(ensemble.n_leaves, dtype=np.int64)
        tree[ensemble.nodes["left"][leaves]] = ensemble.tree_of_node[leaves]
        used = np.zeros((ensemble.n_trees, ensemble.n_outputs), dtype=bool)
        np.logical_or.at(used, tree, ensemble.scores != 0)
        if ensemble.n_outputs == 1:
            used[:] = True
        self._column: npt.NDArray[np.int64] | None = None
        self.output = np.empty(0, dtype=np.int32)
        self.may_change = used[tree].ravel()
        if (used.sum(axis=1) <= 1).all():
            self.output = used.argmax(axis=1).astype(np.int32)
            self._column = self.output[tree].astype(np.int64)
            self.may_change = np.asarray(used.any(axis=1))[tree]

    def pack(self, scores: Floats) -> Floats:
        """Return scores of shape (n_leaves, n_outputs) as one array."""
        if self._column is None:
            return np.array(scores).ravel()
        packed: Floats = scores[np.arange(len(scores)), self._column]
        return packed

    def unpack(self, packed: Floats) -> Floats:
        """Return packed scores in the shape (n_leaves, n_outputs)."""
        if self._column is None:
            return np.array(packed).reshape(self.shape)
        scores = np.zeros(self.shape)
        scores[np.arange(len(scores)), self._column] = packed
        return scores


def needs_witnesses(ensemble: Ensemble, attacker: Attacker) -> bool:
    """Return whether there is no bound on worst cases to minimise."""
    return not isinf(attacker.norm) and not is_large_spread(ensemble, attacker)


class BoundBatches:
    """Rows in batches of at most `size`, with the leaves that the attacker can reach."""

    def __init__(
        self,
        ensemble: Ensemble,
        attacker: Attacker,
        rows: Dataset,
        threads: int,
        *,
        size: int | None = None,
        order: np.random.Generator | None = None,
    ) -> None:
        n = len(rows)
        self.count = 1 if size is None else max(1, -(-n // size))
        self._block = max(1, min(_BLOCK_ROWS, n if size is None else size))
        shuffled = order is not None and self.count > 1
        self._in_order = order.permutation(n) if order is not None and shuffled else np.arange(n)
        self._threads = threads
        self._order = order
        is_regression = ensemble.task == "regression"
        y: Any = np.ascontiguousarray(rows.y, dtype=np.float64 if is_regression else np.int32)
        translation = Translation(ensemble, attacker.limits(ensemble))
        outputs = PackedScores(ensemble).output
        self._cases = _core.WorstCases(
            translation.core_ensemble,
            translation.core_attacker(attacker),
            np.ascontiguousarray(translation.rows(rows.X)),
            y,
            threads,
            _core.WorstCasePlan(outputs, self._in_order, self._block, _MAX_MEMORY),
        )
        self._blocks = np.arange(-(-n // self._block))
        self._weight = np.empty(0)
        if rows.weight is not None:
            self._weight = rows.weight / max(rows.weight.max(initial=0.0), 1e-300)

    def shuffle(self) -> None:
        """Put the batches together anew."""
        if self._order is not None and self.count > 1:
            self._blocks = self._order.permutation(self._blocks)

    def slope(self, number: int, scores: Floats, steepness: float) -> Floats:
        """Return the slope of the mean loss over batch `number`, per packed score."""
        blocks = np.array_split(self._blocks, self.count)[number]
        slope = self._cases.slope(scores, self._weight, steepness, blocks, self._threads)
        return np.asarray(slope) / max(self.weight(number), 1e-300)

    def weight(self, number: int) -> float:
        """Return the weight of batch `number`; the heaviest row weighs 1."""
        blocks = np.array_split(self._blocks, self.count)[number]
        positions = (blocks[:, None] * self._block + np.arange(self._block)).ravel()
        positions = positions[positions < len(self._in_order)]
        if not len(self._weight):
            return float(len(positions))
        return fsum(self._weight[self._in_order[positions]].tolist())

    def outcomes(self, scores: Floats, steepness: float) -> Mapping[str, Floats]:
        """Return margin (regression: lowest and highest) and loss of every row."""
        found: Mapping[str, Floats] = self._cases.outcomes(scores, steepness, self._threads)
        return found


class WitnessBatches:
    """Rows in batches of at most `size`, each row with a witness.

    What is found is an upper bound on worst margins. `points` are witnesses to start from, by
    default the rows themselves.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        attacker: Attacker,
        rows: Dataset,
        threads: int,
        *,
        size: int | None = None,
        order: np.random.Generator | None = None,
        points: Floats | None = None,
    ) -> None:
        n = len(rows)
        self.count = 1 if size is None else max(1, -(-n // size))
        self._threads = threads
        self._order = order
        self._positions = np.arange(n, dtype=np.int64)
        self._packed = PackedScores(ensemble)
        self._translation = Translation(ensemble, attacker.limits(ensemble))
        self._original = rows.X
        self._X: Floats = np.ascontiguousarray(self._translation.rows(rows.X))
        core = self._translation.core_ensemble
        core_attacker = self._translation.core_attacker(attacker)
        self._targets = rows.y if ensemble.task == "regression" else None
        # A regression's output is lowered, then raised; a class is lowered against the others.
        labels = [rows.y] if self._targets is None else [np.ones(n), np.zeros(n)]
        self._sides = [
            _core.Witnesses(core, core_attacker, self._X, side.astype(np.int32)) for side in labels
        ]
        if points is not None:
            start = np.ascontiguousarray(self._translation.rows(points))
            for side in self._sides:
                side.start_at(core, start, threads)
        weight = np.ones(n) if rows.weight is None else rows.weight
        self._weight = weight / max(weight.max(initial=0.0), 1e-300)
        self._seed = 0 if order is None else int(order.integers(2**62))

    def shuffle(self) -> None:
        """Put the batches together anew."""
        if self._order is not None and self.count > 1:
            self._positions = self._order.permutation(self._positions)

    def slope(self, number: int, scores: Floats, steepness: float) -> Floats:
        """Improve the witnesses of batch `number`; return the slope of their mean loss."""
        rows = np.sort(np.array_split(self._positions, self.count)[number]).astype(np.int32)
        margins = self._improve(rows, scores, _TRAINING_PASSES, _RESTARTED, keep_leaves=True)
        if self._targets is None:
            forces = [-steepness * np.exp(-np.logaddexp(0, steepness * margins[0]))]
        else:
            below, above = self._targets[rows] - margins[0], -margins[1] - self._targets[rows]
            forces = [np.where(below >= above, -2 * below, 0.0)]
            forces += [np.where(below >= above, 0.0, -2 * above)]
        weight = self._weight[rows]
        weight = weight / max(fsum(weight.tolist()), 1e-300)
        slopes = [
            np.asarray(side.slope(force * weight, self._threads))
            for side, force in zip(self._sides, forces, strict=True)
        ]
        return self._packed.pack(sum(slopes, np.zeros_like(slopes[0])).reshape(self._packed.shape))

    def outcomes(self, scores: Floats, steepness: float) -> Mapping[str, Floats]:
        """Improve all witnesses; return margin (regression: lowest and highest) and loss."""
        rows = np.arange(len(self._X), dtype=np.int32)
        margins = self._improve(rows, scores, _VALIDATION_PASSES, 0.0, keep_leaves=False)
        if self._targets is None:
            return {"margin": margins[0], "loss": np.logaddexp(0, -steepness * margins[0])}
        lowest, highest = margins[0], -margins[1]
        worse = np.maximum(np.abs(lowest - self._targets), np.abs(highest - self._targets))
        return {"lowest": lowest, "highest": highest, "loss": worse**2}

    def worst_points(self, scores: Floats) -> Floats:
        """Improve the witnesses against scores (n_leaves, n_outputs); return a point per row.

        For regression, the point at the end farther from y.
        """
        found = [self._X.astype(np.float64) for _ in self._sides]
        outcomes = self.outcomes(self._packed.pack(scores), 1.0)
        for side, points in zip(self._sides, found, strict=True):
            side.points(points, self._threads)
        worst = found[0]
        if self._targets is not None:
            below = self._targets - outcomes["lowest"] >= outcomes["highest"] - self._targets
            worst = np.where(below[:, None], found[0], found[1])
        return self._translation.witnesses(worst, self._X, self._original)

    def _improve(
        self, rows: Rows, scores: Floats, passes: int, restarted: float, keep_leaves: bool
    ) -> list[Floats]:
        """Return the margins at the improved witnesses of the rows, per side."""
        full = np.ascontiguousarray(self._packed.unpack(scores)).ravel()
        self._seed += 1
        effort = _core.WitnessEffort(passes=passes, anew=restarted, seed=self._seed)
        return [
            np.asarray(side.improve(rows, full, effort, keep_leaves, self._threads))
            for side in self._sides
        ]
