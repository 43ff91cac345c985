"""The search over configurations: fit each, judge it on validation rows, return the best.

A trainer fits every configuration along a path of models: often a scout of few rounds first, which
only serves to compare configurations, then the full fit, then its further refits. Of all paths the
first model is fitted; of those that are not clearly behind the best, the second model of the best
`Trainer.finalists` per trainer, and the rest of the best path per trainer. With few rows, all
models of all paths are judged by cross-validation instead.

A plain model of the same size may be judged beside them: then what is returned is never less robust
than it on the validation rows that were verified for both.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from carvegbm.progress import progress_bar
from carvegbm.training.dataset import Dataset
from carvegbm.training.judging import VERIFIED_ROWS, Outcome, in_drawn_order, judge, make_exact
from carvegbm.training.large_spread.lightgbm_c import refusal
from carvegbm.training.report import TrainingReport, Trial
from carvegbm.training.spec import FitResult, Params, StopReason, Trainer, TrainSpec

__all__ = ["Search", "accuracy_floor", "best_trial", "describe_choice", "plain_accuracy_of"]

_PLAIN_ROWS = (150, 600, 4000)  # on which a plain model is verified until it cannot win any more
_MANY_ROWS = 2000  # validation rows: enough to prefer the default unless another is clearly better
_REFIT_ON_ALL = 100_000  # with more rows, validation rows are not trained on in the end
_CLEARLY = 3  # standard errors
_UNFINISHED = ("interrupted", "time limit")


@dataclass(eq=False)
class _Path:
    """A configuration that is being fitted."""

    trainer: Trainer
    models: Iterator[tuple[Params, FitResult]]
    is_default: bool


@dataclass
class _Candidate:
    path: _Path
    trial: Trial
    params: Params
    result: FitResult | None
    """None after cross-validation: the model on all rows is fitted in the end."""
    outcome: Outcome


@dataclass
class Search:
    """One run of the search.

    Attributes
    ----------
    spec : TrainSpec
    trainers : sequence of Trainer
        The first configuration of the first one is the default.
    plain : tuple of Trainer and Params, or None
        What fits a plain model of the same size. With it, models without bounds are verified on a
        sample of the validation rows, and with many of these the default configuration is preferred
        unless another one is better by more than a standard error of their difference.
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
        self, train: Dataset, valid: Dataset, all_rows: Dataset | None = None
    ) -> tuple[TrainingReport, FitResult]:
        """Return a report of all trials and the best model.

        `all_rows` are training and validation rows together if these were split off: unless they
        are too many, the best configuration is fitted once more to all of them.
        """
        try:
            self._run(train, valid)
        except KeyboardInterrupt:
            if not self._found:
                raise
            self._stopped = "interrupted"
        best, where = self._choice(valid), "on validation data"
        result = best.result
        assert result is not None
        if all_rows is not None and len(all_rows) <= _REFIT_ON_ALL and not self._stopped:
            try:
                found = result.refit_on(all_rows) if result.refit_on is not None else result
                if found.stopped_because not in _UNFINISHED and found is not result:
                    where = f"{where} (then fitted to all rows)"
                    result = replace(
                        found, evals_result=result.evals_result, best_score=result.best_score
                    )
            except KeyboardInterrupt:
                self._stopped = "interrupted"
        return self._report(best, where, result, train if all_rows is None else all_rows)

    def by_folds(self, rows: Dataset, seed: int) -> tuple[TrainingReport, FitResult]:
        """The same by cross-validation, for few rows."""
        parts: dict[str, list[_Candidate]] = {}
        folds = list(rows.folds(seed, self.spec.model.task != "regression"))
        progress = None if self.spec.verbose else False
        try:
            with progress_bar(progress, len(folds) + 1, "training") as show:
                for done, (train, valid) in enumerate(folds):
                    for path in self._paths(train, valid):
                        for each in self._judged(path, valid):
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
            params = same[0].params
            if self.spec.evaluation.early_stopping_rounds is not None:
                kept = [each.result.best_iteration for each in same if each.result is not None]
                params = {**params, "rounds": max(1, round(float(np.mean(kept))))}
            self._keep(replace(same[0], trial=trial, params=params, result=None, outcome=outcome))
        best = self._choice(None)
        trainer = best.path.trainer
        trainer.spec = replace(trainer.spec, deadline=None)  # there is no other model
        _, result = next(trainer.fit_path(best.params, rows, None))
        return self._report(best, "by cross-validation", result, rows)

    # ── trials ───────────────────────────────────────────────────────────────────────────────

    def _paths(self, train: Dataset, valid: Dataset) -> list[_Path]:
        """Return a path per configuration, and one of the plain model."""
        found = [(t, params) for t in self.trainers for params in t.search_space(len(train))]
        found += [] if self.plain is None else [self.plain]
        return [
            _Path(trainer, trainer.fit_path(params, train, valid), is_default=number == 0)
            for number, (trainer, params) in enumerate(found)
        ]

    def _run(self, train: Dataset, valid: Dataset) -> None:
        paths = self._paths(train, valid)
        done = 0
        progress = None if self.spec.verbose else False
        n_steps = len(paths) + 2 * len(self.trainers)
        with progress_bar(progress, n_steps, "training") as show:

            def advance(path: _Path, most: int | None) -> bool:
                nonlocal done
                for each in self._judged(path, valid, most):
                    self._keep(each)
                done += 1
                if show is not None:
                    show(done)
                return not self._stopped and not self._out_of_time()

            for path in paths:
                if not advance(path, 1):
                    return
            near = self._ranked(paths)
            for trainer in self.trainers:
                finalists = [path for path in near if path.trainer is trainer]
                finalists = finalists[: trainer.finalists]
                for path in finalists:
                    if not advance(path, 1):
                        return
                for path in self._ranked(finalists)[:1] if finalists else []:
                    if not advance(path, None):
                        return

    def _ranked(self, paths: Sequence[_Path]) -> list[_Path]:
        """Return paths by the quality of their last models, without those that are far behind."""
        last = [each for each in self._found if each.path in paths]
        last = list({id(each.path): each for each in last}.values())
        floor = self._floor(last)
        last.sort(key=lambda each: _rank(each.trial, floor), reverse=True)
        near = (each for each in last if _is_close(last[0].outcome, each.outcome, _CLEARLY))
        return [each.path for each in near]

    def _keep(self, each: _Candidate) -> None:
        self.spec.log(each.trial.line())
        if self.plain is not None and each.trial.is_plain:
            self._plain = each
        else:
            self._found.append(each)

    def _judged(self, path: _Path, valid: Dataset, most: int | None = None) -> Iterator[_Candidate]:
        """Fit and judge the next models of a path, at most so many."""
        started = time.monotonic()
        for params, result in islice(path.models, most):
            verified = None if self.plain is None else VERIFIED_ROWS
            if len(valid) > VERIFIED_ROWS and params.get("budget_share") == 0:
                verified = _PLAIN_ROWS[0]  # more of them in the end, if it may be the best
            outcome = judge(result, valid, self.spec, verified)
            unfinished = result.stopped_because in _UNFINISHED
            ensemble = result.model.ensemble
            note = "scout" if result.is_scout else ""
            note = "plain" if params.get("budget_share") == 0 else note
            trial = Trial(
                parameters=params,
                measures=outcome.measures(self.spec.model.task),
                trees=ensemble.n_trees,
                leaves=ensemble.n_leaves,
                seconds=round(time.monotonic() - started, 3),
                note="unfinished" if unfinished else note,
                model=result.model,
            )
            yield _Candidate(path, trial, params, result, outcome)
            if unfinished:
                self._stopped = result.stopped_because
            if self._stopped or self._out_of_time():
                return
            started = time.monotonic()

    def _out_of_time(self) -> bool:
        if self.spec.deadline is None or time.monotonic() < self.spec.deadline:
            return False
        self._stopped = self._stopped or "time limit"
        return True

    # ── choice ───────────────────────────────────────────────────────────────────────────────

    def _best(self) -> _Candidate:
        """The most robust candidate that is accurate enough.

        With a plain model beside and many rows: of the models within a standard error of the best,
        the default one if it is among them, else the most accurate.
        """
        full = self._choosable()
        floor = self._floor(full)
        chosen = best_trial([each.trial for each in full], floor)
        best = next(each for each in full if each.trial is chosen)
        if self.plain is None or np.isfinite(best.outcome.worst).sum() < _MANY_ROWS:
            return best
        able = (each for each in full if floor is None or each.trial.accuracy >= floor)
        near = [each for each in able if _is_close(best.outcome, each.outcome)]
        default = [each for each in full if each.path.is_default][:1]
        usual = [each.params.get("leaf_l2") for each in default]  # further refits are no default
        defaults = [c for c in near if c.path.is_default and c.params.get("leaf_l2") in usual]
        return max(
            defaults or near, key=lambda each: (each.trial.accuracy, _rank(each.trial, None))
        )

    def _choice(self, valid: Dataset | None) -> _Candidate:
        """The best candidate, or the plain model if that is more robust."""
        best, plain = self._best(), self._plain
        if plain is None or plain is best:
            return best
        if valid is None:
            is_better = plain.outcome.gain(best.outcome)[0] > 0
        else:
            is_better = self._is_plain_better(plain, best, valid)
        return plain if is_better else best

    def _is_plain_better(self, plain: _Candidate, best: _Candidate, valid: Dataset) -> bool:
        """Verify both on more and more rows, until the plain model cannot be the better one."""
        order, gain = in_drawn_order(len(valid)), 0.0
        for most in _PLAIN_ROWS if len(valid) > VERIFIED_ROWS else (len(valid),):
            rows = order[:most]
            for each in (plain, best):  # bounds may be enough to see that the best one is better
                assert each.result is not None
                make_exact(each.outcome, each.result, valid, self.spec, rows)
                measures = each.outcome.measures(self.spec.model.task)
                each.trial = replace(each.trial, measures=measures)
                gain, deviation = plain.outcome.gain(best.outcome, rows)
                if gain + _CLEARLY * deviation < 0:
                    return False
            if gain <= 0 and most >= VERIFIED_ROWS:
                return False
        return gain > 0

    def _choosable(self) -> list[_Candidate]:
        """Return full fits; scouts count only if the search was stopped before or amid them."""
        full = [each for each in self._found if each.result is None or not each.result.is_scout]
        return full if full and self._stopped is None else self._found

    def _floor(self, found: Sequence[_Candidate]) -> float | None:
        if self.clean_loss is None:
            return None
        reached = max(each.trial.accuracy for each in found)
        plain = self._plain_figure()
        return accuracy_floor(reached if plain is None else plain, reached, self.clean_loss)

    def _plain_figure(self) -> float | None:
        """Return the accuracy of the plain model, given or measured."""
        if self.plain_accuracy is not None or self._plain is None:
            return self.plain_accuracy
        return self._plain.trial.measures.get("accuracy")

    def _report(
        self, best: _Candidate, where: str, result: FitResult, rows: Dataset
    ) -> tuple[TrainingReport, FitResult]:
        if self.plain is not None:  # the model text counts rows, which bounds do not need
            result = replace(result, model=result.model.with_counts(rows.X, self.spec.threads))
        model, trees = result.model, result.model.ensemble
        chosen = replace(best.trial, model=model, trees=trees.n_trees, leaves=trees.n_leaves)
        plain = [] if self._plain is None else [self._plain]
        trials = [chosen if c is best else c.trial for c in [*self._found, *plain]]
        if self._stopped:
            result = replace(result, stopped_because=self._stopped)
        floor, plain_accuracy = self._floor(self._choosable()), self._plain_figure()
        accuracies = [t.measures.get("accuracy", 0.0) for t in trials]
        why = describe_choice(chosen.measures, accuracies, floor, plain_accuracy, where)
        return TrainingReport(trials, chosen, why, floor, plain_accuracy), result


def accuracy_floor(goal: float, reached: float, clean_loss: float) -> float:
    """Return the smallest acceptable accuracy: `clean_loss` below the goal, or what was reached.

    Accuracies are quotients of counts; the slack makes equal ones equal despite rounding.
    """
    return min(goal, reached) - clean_loss - 1e-9


def best_trial(trials: Sequence[Trial], floor: float | None) -> Trial:
    """Return the most robust trial with at least the accuracy `floor`; the first of equal ones."""
    return max(trials, key=lambda trial: _rank(trial, floor))


def describe_choice(
    measures: Mapping[str, float],
    accuracies: Sequence[float],
    floor: float | None,
    plain_accuracy: float | None,
    where: str = "on validation data",
) -> str:
    """Return a sentence that says why a trial with these measures was chosen among others."""
    if "worst error" in measures:
        worst = measures["worst error"]
        return f"the smallest worst error {where}, {worst:.4g}, of {len(accuracies)} trials"
    best = f"the largest proven robustness {where}, {measures['robustness']:.4f}, of"
    if floor is None:
        return f"{best} {len(accuracies)} trials"
    able = sum(accuracy >= floor for accuracy in accuracies)
    plain = "" if plain_accuracy is None else f" (plain LightGBM has {plain_accuracy:.4f})"
    able_ones = f"the {able} of {len(accuracies)} trials"
    return f"{best} {able_ones} that are at least as accurate as {floor:.4f}{plain}"


def plain_accuracy_of(
    train: Dataset,
    valid: Dataset,
    params: Params,
    *,
    n_rounds: int,
    early_stopping_rounds: int | None,
    threads: int,
    categorical: Collection[int] = (),
) -> float:
    """Return the validation accuracy of plain LightGBM with the same parameters, by weight."""
    import lightgbm

    named = sorted(categorical) if categorical else "auto"
    rows = lightgbm.Dataset(train.X, train.y, weight=train.weight, categorical_feature=named)
    held_out = lightgbm.Dataset(valid.X, valid.y, reference=rows)
    stop = [] if early_stopping_rounds is None else [early_stopping_rounds]
    try:
        booster = lightgbm.train(
            {**params, "num_threads": threads, "verbosity": -1},
            rows,
            n_rounds,
            valid_sets=[held_out] if stop else None,
            callbacks=[
                lightgbm.early_stopping(n, first_metric_only=True, verbose=False) for n in stop
            ],
        )
    except lightgbm.basic.LightGBMError as error:
        raise refusal(str(error)) from None
    raw = np.asarray(booster.predict(valid.X, raw_score=True, num_threads=threads))
    chosen = (raw > 0).astype(int) if raw.ndim == 1 else raw.argmax(axis=1)
    return float(np.average(chosen == valid.y, weights=valid.weight))


def _rank(trial: Trial, floor: float | None) -> tuple[float, ...]:
    """Return a key that is larger for better trials: able ones, robust ones, accurate ones."""
    measures = trial.measures
    if "worst error" in measures:
        return True, -measures["worst error"], -measures["error"], -trial.leaves
    able = floor is None or trial.accuracy >= floor
    return able, trial.robustness, trial.accuracy, -trial.leaves


def _is_close(best: Outcome, other: Outcome, deviations: float = 1) -> bool:
    """Whether the difference of two candidates is within so many of its standard errors."""
    gain, deviation = best.gain(other)
    return gain <= deviations * deviation
