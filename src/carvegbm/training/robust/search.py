"""The search over configurations: fit each, judge it on validation rows, return the best.

    many rows  one model per configuration of `Trainer.search_space`; then the rest of the best
               one's path (other refit strengths), or the full fit that it stands for
    few rows   every configuration is judged by cross-validation; the best is fitted on all rows

A plain model of the same size is judged beside them: what is returned is never less robust than it
on the validation rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble
from carvegbm.progress import progress_bar
from carvegbm.queries import output_range, verify
from carvegbm.training.dataset import Dataset, spaced_rows
from carvegbm.training.report import TrainingReport, Trial, shown
from carvegbm.training.spec import FitResult, Params, StopReason, Trainer, TrainSpec

__all__ = ["Outcome", "Search"]

Floats = npt.NDArray[np.float64]

_VERIFIED_ROWS = 600  # validation rows on which models are verified
_DECIDING_ROWS = 4000  # where a plain model seems to be more robust than the best candidate
_VERIFY_SECONDS = 0.5  # per row; a row that is not decided counts as not robust
_MANY_ROWS = 2000  # validation rows: enough to prefer the default unless another is clearly better
_REFIT_ON_ALL = 100_000  # with more training rows, the chosen model is not fitted again on all
_UNFINISHED = ("interrupted", "time limit")


@dataclass(frozen=True)
class Outcome:
    """Per validation row: correct, and proven robust. Of a regression: minus squared errors."""

    clean: Floats
    worst: Floats

    def measures(self, task: str) -> dict[str, float]:
        """Return accuracy and robustness, or the root mean squared errors of a regression."""
        if task == "regression":
            error, worst = (float(np.sqrt(-each.mean())) for each in (self.clean, self.worst))
            return {"error": error, "worst error": worst}
        return {"accuracy": float(self.clean.mean()), "robustness": float(self.worst.mean())}

    @staticmethod
    def joined(parts: Sequence[Outcome]) -> Outcome:
        """Return the outcomes of several sets of rows."""
        return Outcome(
            *(np.concatenate([getattr(p, n) for p in parts]) for n in ("clean", "worst"))
        )


@dataclass
class _Candidate:
    trainer: Trainer
    params: Params
    result: FitResult | None
    """None after cross-validation: the model on all rows is fitted in the end."""
    outcome: Outcome
    trial: Trial
    path: Iterator[tuple[Params, FitResult]] | None = None
    """Where further models of the same growth come from."""
    is_default: bool = False
    is_small: bool = False
    """Fitted with few rounds, to choose the configurations that are worth a full fit."""


@dataclass
class Search:
    """One run of the search.

    Attributes
    ----------
    spec : TrainSpec
    trainers : sequence of Trainer
        The first configuration of the first one is the default.
    plain : tuple of Trainer and Params, or None
        What fits a plain model of the same size.
    clean_loss : float or None
        Accuracy that may be given up, compared with the plain model, or with the most accurate
        trial if none reaches that; None: any.
    plain_accuracy : float or None
        In place of that of the plain model.
    """

    spec: TrainSpec
    trainers: Sequence[Trainer]
    plain: tuple[Trainer, Params] | None = None
    clean_loss: float | None = None
    plain_accuracy: float | None = None
    _found: list[_Candidate] = field(default_factory=list, init=False)
    _plain: _Candidate | None = field(default=None, init=False)
    _stopped: StopReason | None = field(default=None, init=False)

    def on_validation_rows(
        self, train: Dataset, valid: Dataset, *, held_out: bool
    ) -> tuple[TrainingReport, FitResult]:
        """Return a report of all trials and the best model.

        `held_out`: the validation rows were split off the user's training rows; where these are not
        too many, the best configuration is fitted once more on all of them.
        """
        try:
            self._try_all(train, valid)
        except KeyboardInterrupt:
            if not self._found:
                raise
            self._stopped = "interrupted"
        best, where = self._choice(valid), "on validation rows"
        result = best.result
        assert result is not None
        if held_out and not self._stopped and len(train) + len(valid) <= _REFIT_ON_ALL:
            try:
                _, fitted = next(best.trainer.fit_path(best.params, train.concat(valid), None))
                if fitted.stopped_because not in _UNFINISHED:
                    result = replace(
                        fitted, evals_result=result.evals_result, best_score=result.best_score
                    )
                    where = f"{where}; then fitted on all rows"
            except KeyboardInterrupt:
                self._stopped = "interrupted"
        return self._report(best, where, result)

    def by_folds(self, rows: Dataset, seed: int) -> tuple[TrainingReport, FitResult]:
        """The same by repeated cross-validation, for few rows."""
        configurations = self._configurations(len(rows))
        parts: dict[str, list[_Candidate]] = {}
        folds = list(rows.folds(seed, self.spec.model.task != "regression"))
        progress = None if self.spec.verbose else False
        try:
            with progress_bar(progress, len(folds) + 1, "training") as show:
                for done, (train, valid) in enumerate(folds):
                    found = [
                        each
                        for trainer, params in configurations
                        for each in self._fit(trainer, params, train, valid)
                    ]
                    for each in found:
                        parts.setdefault(repr(each.params), []).append(each)
                    if self._stopped or self._out_of_time():
                        break
                    if show is not None:
                        show(done + 1)
        except KeyboardInterrupt:
            if not parts:
                raise
            self._stopped = "interrupted"
        for same in parts.values():
            outcome = Outcome.joined([each.outcome for each in same])
            trial = replace(
                same[0].trial,
                measures=outcome.measures(self.spec.model.task),
                seconds=round(sum(each.trial.seconds for each in same), 3),
                model=None,
            )
            self._keep([_Candidate(same[0].trainer, same[0].params, None, outcome, trial)])
        best = self._choice(None)
        best.trainer.spec = replace(best.trainer.spec, deadline=None)  # there is no other model
        _, result = next(best.trainer.fit_path(best.params, rows, None))
        return self._report(best, "by cross-validation", result)

    # ── trials ───────────────────────────────────────────────────────────────────────────────

    def _configurations(self, n_rows: int) -> list[tuple[Trainer, Params]]:
        found = [(t, params) for t in self.trainers for params in t.search_space(n_rows)]
        return found if self.plain is None else [*found, self.plain]

    def _try_all(self, train: Dataset, valid: Dataset) -> None:
        configurations = self._configurations(len(train))
        progress = None if self.spec.verbose else False
        with progress_bar(progress, len(configurations) + 1, "training") as show:
            for done, (trainer, params) in enumerate(configurations):
                if self._found and (self._stopped or self._out_of_time()):
                    return
                self._keep(self._fit(trainer, params, train, valid, trainer.n_first))
                if show is not None:
                    show(done + 1)
            self._keep(self._continue(valid))
            for trainer in self.trainers:
                own = [each for each in self._found if each.trainer is trainer]
                full = trainer.full_params(max(own, key=self._rank).params)
                if full is not None and not self._stopped:
                    self._keep(self._fit(trainer, full, train, valid))

    def _continue(self, valid: Dataset) -> Iterator[_Candidate]:
        """Go on along the two best paths, then to the end of the best one."""
        paths = sorted((each for each in self._found if each.path), key=self._rank, reverse=True)
        for each in paths[:2]:
            assert each.path is not None
            for found in self._judge(each.trainer, islice(each.path, 1), valid, each.path):
                found.is_default = each.path is self._found[0].path
                yield found
        best = self._best()
        if best.path is not None and not self._stopped:
            yield from self._judge(best.trainer, best.path, valid)

    def _keep(self, found: Iterable[_Candidate]) -> None:
        for each in found:
            self.spec.log(_line(each.trial))
            if self.plain is not None and each.params.items() >= self.plain[1].items():
                self._plain = each
            else:
                self._found.append(each)

    def _fit(
        self,
        trainer: Trainer,
        params: Params,
        train: Dataset,
        valid: Dataset,
        n_first: int | None = None,
    ) -> Iterator[_Candidate]:
        """Fit along a path and judge its first models, by default all; the last keeps the path."""
        path = trainer.fit_path(params, train, valid)
        rest = None if n_first is None else path
        for each in self._judge(trainer, islice(path, n_first), valid, rest):
            each.is_small = n_first is not None
            yield each

    def _judge(
        self,
        trainer: Trainer,
        models: Iterator[tuple[Params, FitResult]],
        valid: Dataset,
        path: Iterator[tuple[Params, FitResult]] | None = None,
    ) -> Iterator[_Candidate]:
        """Judge models of a path; `path` is where more of them come from."""
        started = time.monotonic()
        for params, result in models:
            outcome = self._outcome(result, valid)
            ensemble = result.model.ensemble
            unfinished = result.stopped_because in _UNFINISHED
            trial = Trial(
                parameters=params,
                measures=outcome.measures(self.spec.model.task),
                trees=ensemble.n_trees,
                leaves=ensemble.n_leaves,
                seconds=round(time.monotonic() - started, 3),
                note="unfinished" if unfinished else "",
                model=result.model,
            )
            yield _Candidate(trainer, params, result, outcome, trial, path)
            if unfinished:
                self._stopped = result.stopped_because
                return
            if self._out_of_time():
                return
            started = time.monotonic()

    def _out_of_time(self) -> bool:
        if self.spec.deadline is None or time.monotonic() < self.spec.deadline:
            return False
        self._stopped = self._stopped or "time limit"
        return True

    # ── judging ──────────────────────────────────────────────────────────────────────────────

    def _outcome(self, result: FitResult, valid: Dataset) -> Outcome:
        """Judge by the bounds that training kept; verify where there are none, or rows are few."""
        if not self._has_bounds(result, valid):
            return self._verified(result, valid)
        assert result.margins is not None
        ensemble = result.model.ensemble
        if self.spec.model.task == "regression":
            raw = ensemble.raw_score(valid.X, threads=self.spec.threads).reshape(-1)
            worst = np.abs(result.margins) + _rounding(ensemble)
            return Outcome(-((raw - valid.y) ** 2), -(worst**2))
        correct = self._correct(ensemble, valid)
        robust = correct & (result.margins > _rounding(ensemble))
        return Outcome(correct.astype(np.float64), robust.astype(np.float64))

    def _has_bounds(self, result: FitResult, valid: Dataset) -> bool:
        """Return whether a model is judged by its bounds, rather than verified."""
        many = len(valid) > _VERIFIED_ROWS or self.spec.model.task == "regression"
        return many and result.margins is not None

    def _verified(self, result: FitResult, valid: Dataset, n_rows: int | None = None) -> Outcome:
        """Judge by exact verification, of at most so many rows."""
        spec, ensemble = self.spec, result.model.ensemble
        rows = valid.take(spaced_rows(len(valid), n_rows or _VERIFIED_ROWS))
        options: dict[str, Any] = {
            "timeout": _VERIFY_SECONDS,
            "threads": spec.threads,
            "progress": False,
        }
        if spec.model.task == "regression":
            raw = ensemble.raw_score(rows.X, threads=spec.threads).reshape(-1)
            ends = output_range(ensemble, rows.X, spec.attacker, **options)
            worst = np.maximum(ends.highest_upper - rows.y, rows.y - ends.lowest_lower)
            return Outcome(-((raw - rows.y) ** 2), -(worst**2))
        correct = self._correct(ensemble, rows)
        robust = correct.copy()
        if not correct.any():
            return Outcome(correct.astype(np.float64), robust.astype(np.float64))
        labels = ensemble.classes[rows.y[correct]]
        statuses = verify(ensemble, rows.X[correct], labels, spec.attacker, **options).status
        robust[correct] = statuses == "robust"
        return Outcome(correct.astype(np.float64), robust.astype(np.float64))

    def _correct(self, ensemble: Ensemble, rows: Dataset) -> npt.NDArray[np.bool_]:
        decided = ensemble.decide(rows.X, threads=self.spec.threads)
        return np.asarray(decided == ensemble.classes[rows.y])

    # ── choice ───────────────────────────────────────────────────────────────────────────────

    def _best(self) -> _Candidate:
        """The most robust candidate that is accurate enough.

        With many validation rows, the default is preferred unless another candidate is better by
        more than a standard error of their difference; of candidates that close to the best, the
        most accurate.
        """
        full = self._choosable()
        floor = self._floor(full)
        able = [each for each in full if floor is None or each.outcome.clean.mean() >= floor]
        best = max(able, key=self._rank)
        if len(best.outcome.worst) < _MANY_ROWS:
            return best
        near = [each for each in able if _is_close(best.outcome, each.outcome)]
        defaults = [each for each in near if each.is_default]
        return max(defaults or near, key=lambda each: (each.outcome.clean.mean(), self._rank(each)))

    def _rank(self, each: _Candidate) -> tuple[float, float, int]:
        return (
            float(each.outcome.worst.mean()),
            float(each.outcome.clean.mean()),
            -each.trial.leaves,
        )

    def _choice(self, valid: Dataset | None) -> _Candidate:
        """The best candidate, or the plain model if that is more robust on the same rows.

        Where the plain model is ahead on a sample of the rows, more of them decide.
        """
        best, plain = self._best(), self._plain
        if plain is None:
            return best
        pair = best.outcome, plain.outcome
        if valid is not None and best.result is not None and plain.result is not None:
            if self._has_bounds(best.result, valid):
                pair = self._verified(best.result, valid), plain.outcome
            if _is_ahead(pair[1], pair[0]) and len(valid) > _VERIFIED_ROWS:
                pair = (
                    self._verified(best.result, valid, _DECIDING_ROWS),
                    self._verified(plain.result, valid, _DECIDING_ROWS),
                )
        return plain if _is_ahead(pair[1], pair[0]) else best

    def _choosable(self) -> list[_Candidate]:
        """Return full fits; small ones count only if the search was stopped before or amid them."""
        full = [each for each in self._found if not each.is_small]
        return full if full and self._stopped is None else self._found

    def _floor(self, found: Sequence[_Candidate]) -> float | None:
        if self.clean_loss is None:
            return None
        reached = max(float(each.outcome.clean.mean()) for each in found)
        plain = self.plain_accuracy
        if plain is None and self._plain is not None:
            plain = float(self._plain.outcome.clean.mean())
        plain = reached if plain is None else plain
        return min(reached, plain) - self.clean_loss - 1e-9  # quotients of counts, rounded

    def _report(
        self, best: _Candidate, where: str, result: FitResult
    ) -> tuple[TrainingReport, FitResult]:
        counted = result.model
        chosen = replace(
            best.trial,
            model=counted,
            trees=counted.ensemble.n_trees,
            leaves=counted.ensemble.n_leaves,
        )
        trials = [chosen if each is best else each.trial for each in self._found]
        plain_accuracy = self.plain_accuracy
        if self._plain is not None:
            trials.append(chosen if self._plain is best else self._plain.trial)
            plain_accuracy = plain_accuracy or float(self._plain.outcome.clean.mean())
        if self._stopped:
            result = replace(result, stopped_because=self._stopped)
        is_regression = self.spec.model.task == "regression"
        quality = "smallest worst error" if is_regression else "largest proven robustness"
        why = f"the {quality} {where}"
        floor = self._floor(self._choosable())
        return TrainingReport(trials, chosen, why, floor, plain_accuracy), result


def _line(trial: Trial) -> str:
    named = (f"{name} {shown(value)}" for name, value in trial.parameters.items())
    reached = (f"{name} {value:.4f}" for name, value in trial.measures.items())
    return ", ".join([*named, *reached])


def _is_ahead(one: Outcome, other: Outcome) -> bool:
    return bool(one.worst.mean() > other.worst.mean())


def _is_close(best: Outcome, other: Outcome) -> bool:
    """Whether the difference of two candidates is within one standard error of it."""
    difference = best.worst - other.worst
    return float(difference.mean()) <= float(difference.std() / np.sqrt(len(difference)))


def _rounding(ensemble: Ensemble) -> float:
    """Upper bound on the rounding error of a margin that is summed tree by tree."""
    return float(2 * (ensemble.n_trees + 2) * np.finfo(float).eps * ensemble.core.magnitude)
