"""Certified training: quiet thresholds, robust refit, and the choice between trials.

Comes in: a large-spread ensemble to be trained, with validation rows. Goes out: the chosen model,
and a report of every trial.

    scout   every quietness with a few rounds, refitted: which one suits the data and the budget?
    grow    the best of them with all rounds, refitted
    choose  the largest proven robustness on the validation rows, among all models so far whose
            accuracy there is no more than `clean_loss` below plain LightGBM's, or below the most
            accurate of them, where none is as accurate as plain LightGBM
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from carvegbm.training.binning import BinMapper, crowding
from carvegbm.training.certified.choosing import accuracy_floor, choose, reason
from carvegbm.training.certified.report import CertifiedTrial
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import Evaluation, prove
from carvegbm.training.large_spread.trainer import boost, candidate_bins
from carvegbm.training.leaf_refit import RefitProblem, RefitSettings
from carvegbm.training.model import GBDTModel, stored_scores
from carvegbm.training.report import TrainingReport
from carvegbm.training.reporting import shown
from carvegbm.training.robust_refit import prove_refit
from carvegbm.training.spec import FitResult, TrainSpec

__all__ = ["Job"]

_SCOUT_ROUNDS = 20
_SCOUT = RefitSettings(steps=50, patience=20)


@dataclass
class Job:
    """One run of certified training.

    Attributes
    ----------
    spec : TrainSpec
        Its first evaluation set holds the validation rows.
    data : Dataset
    quietness : sequence of float or None
    plain_accuracy : float or None
        Accuracy of plain LightGBM on the validation rows.
    clean_loss : float or None
        How far below it a model may be; None: accuracy does not count.
    tell : callable (str) -> object
        Called with a line per trial.
    """

    spec: TrainSpec
    data: Dataset
    quietness: Sequence[float | None]
    plain_accuracy: float | None = None
    clean_loss: float | None = None
    tell: Callable[[str], object] = lambda _: None
    _reached: float = field(default=0.0, init=False)  # the best accuracy so far
    _boosted: dict[int, FitResult] = field(default_factory=dict, init=False)

    def run(self) -> tuple[TrainingReport, FitResult]:
        """Train and judge the trials, and choose one; an interrupt ends it early."""
        found: list[CertifiedTrial] = []
        interrupted = False
        try:
            for trial in self._trials(found):
                found.append(trial)  # noqa: PERF402  an interrupt keeps what is there
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
        floor = self._floor(self._reached)
        chosen = choose(found, floor)
        accuracies = [trial.accuracy for trial in found]
        why = reason(chosen.robustness, accuracies, floor, self.plain_accuracy, self._reached)
        boosted = self._boosted[id(chosen)]
        if interrupted:
            boosted = replace(boosted, stopped_because="interrupted")
        return TrainingReport(found, chosen, why, floor, self.plain_accuracy), boosted

    def _trials(self, found: Sequence[CertifiedTrial]) -> Iterator[CertifiedTrial]:
        """Scouts, then the best of them grown; `found` holds what came so far."""
        best = self.quietness[0]
        if len(self.quietness) > 1:
            for quietness in self.quietness:
                yield from self._train(quietness, scout=True)
            # Scouts are small: none of them need be as accurate as a grown model.
            best = choose(found, self._floor(self._reached)).quietness
        yield from self._train(best, scout=False)

    def _floor(self, reached: float) -> float | None:
        """The smallest acceptable accuracy: what no model reaches is not asked of a refit."""
        if self.plain_accuracy is None or self.clean_loss is None:
            return None
        return accuracy_floor(self.plain_accuracy, reached, self.clean_loss)

    def _train(self, quietness: float | None, scout: bool) -> Iterator[CertifiedTrial]:
        """A trial as boosting leaves it, then the same refitted."""
        started = time.monotonic()
        spec = self.spec
        if scout:
            n_rounds = min(_SCOUT_ROUNDS, spec.n_rounds)
            spec = replace(spec, n_rounds=n_rounds, evaluation=Evaluation(), verbose=0)
        boosted = boost(spec, self.data, self._quiet(quietness))
        ensemble = boosted.model.ensemble
        found = prove(ensemble, self._valid, self.spec.attacker, self.spec.threads)
        start = {"accuracy": found.accuracy, "robustness": float(found.robustness[0])}

        def judged(model: GBDTModel, measures: Mapping[str, float], refit: bool) -> CertifiedTrial:
            trial = CertifiedTrial(
                num_leaves=int(self.spec.params["num_leaves"]),
                quietness=quietness,
                scout=scout,
                refit=refit,
                accuracy=measures["accuracy"],
                robustness=measures["robustness"],
                trees=ensemble.n_trees,
                leaves=ensemble.n_leaves,
                seconds=round(time.monotonic() - started, 3),
                model=model,
            )
            self._boosted[id(trial)] = replace(boosted, model=model)
            self._reached = max(self._reached, trial.accuracy)
            self.tell(
                f"quietness {shown(quietness)}, {ensemble.n_trees} trees"
                f"{', refitted' if refit else ''}: "
                f"accuracy {trial.accuracy:.4f}, robustness {trial.robustness:.4f}"
            )
            return trial

        yield judged(boosted.model, start, refit=False)
        if boosted.stopped_because == "interrupted":
            raise KeyboardInterrupt
        settings = replace(
            _SCOUT if scout else RefitSettings(),
            floor=self._floor(start["accuracy"] if scout else self._reached),
            l2=0.1 / max(1, ensemble.n_trees),
            threads=self.spec.threads,
        )
        result = prove_refit(ensemble, self._defence, settings, start=start, stored=stored_scores)
        if result.changed:
            model = boosted.model.with_scores(result.ensemble.scores)
            yield judged(model, result.end, refit=True)
        if result.refit.interrupted:
            raise KeyboardInterrupt

    @property
    def _valid(self) -> Dataset:
        return self.spec.evaluation.sets[0]

    @cached_property
    def _defence(self) -> RefitProblem:
        """What a refit defends; rows that are laid out as the core takes them, once for all."""
        train, valid = (rows.dense() for rows in (self.data, self._valid))
        return RefitProblem(self.spec.attacker, train, valid)

    def _quiet(self, quietness: float | None) -> BinMapper:
        """Return the candidate thresholds whose crowding is at most `quietness`."""
        if quietness is None:
            return self._candidates
        return self._candidates.keep([crowded <= quietness for crowded in self._crowding])

    @cached_property
    def _candidates(self) -> BinMapper:
        return candidate_bins(self.spec, self.data)

    @cached_property
    def _crowding(self) -> list[npt.NDArray[np.float64]]:
        rule = self.spec.exclusion_rule()
        return crowding(self._candidates, self.data, rule, self.spec.threads)
