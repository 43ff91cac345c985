"""Search over the parameters of trainers, and choose a model on the validation rows.

The chosen trial has the largest proven robustness (regression: the smallest worst error) among
those whose accuracy is at most `clean_loss` below that of plain LightGBM, or below the most
accurate trial where none reaches it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from carvegbm.attackers.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import prove
from carvegbm.training.large_spread.lightgbm_c import refusal
from carvegbm.training.report import TrainingReport, Trial, shown
from carvegbm.training.robust_refit import worst_errors
from carvegbm.training.spec import FitResult, Params, StopReason, Trainer

__all__ = ["accuracy_floor", "best_trial", "describe_choice", "measure"]
__all__ += ["describe_robust_choice", "plain_accuracy_of", "search"]


class _Fit(NamedTuple):
    trial: Trial
    result: FitResult
    trainer: Trainer
    params: Params


class _DeadlineError(Exception):
    """The time limit has passed, and there is a model."""


def search(
    trainers: Sequence[Trainer],
    train: Dataset,
    valid: Dataset,
    *,
    plain_accuracy: float | None = None,
    clean_loss: float | None = None,
) -> tuple[TrainingReport, FitResult]:
    """Fit every trainer's search space and choose the best model.

    If the best trial of a trainer is a small one, the full fit it stands for follows. An interrupt
    or the deadline ends the search once a trial is finished; finished trials are kept.
    """
    found: list[_Fit] = []

    def fit(trainer: Trainer, params: Params) -> None:
        started, spec = time.monotonic(), trainer.spec
        note = "" if trainer.full_params(params) is None else "scout"
        for named, result in trainer.fit_path(params, train, valid):
            ensemble = result.model.ensemble
            measures = result.measures
            if measures is None:
                measures = measure(ensemble, valid, spec.attacker, spec.threads)
            trial = Trial(
                parameters=named,
                measures=measures,
                trees=ensemble.n_trees,
                leaves=ensemble.n_leaves,
                seconds=round(time.monotonic() - started, 3),
                note=note,
                model=result.model,
            )
            found.append(_Fit(trial, result, trainer, params))
            given = ", ".join(f"{name} {shown(value)}" for name, value in named.items())
            values = ", ".join(f"{name} {value:.4f}" for name, value in measures.items())
            spec.log(f"{given}, {ensemble.n_trees} trees: {values}")
            if result.stopped_because == "interrupted":
                raise KeyboardInterrupt
            if spec.deadline is not None and time.monotonic() >= spec.deadline:
                raise _DeadlineError

    ended: StopReason | None = None
    try:
        for trainer in trainers:
            for params in trainer.search_space(len(train)):
                fit(trainer, params)
            own = [each for each in found if each.trainer is trainer]
            trials = [each.trial for each in own]
            # The floor follows the most accurate small trial, which may be below plain LightGBM.
            best = best_trial(trials, _floor(trials, plain_accuracy, clean_loss))
            full = trainer.full_params(own[_position(trials, best)].params)
            if full is not None:
                fit(trainer, full)
    except KeyboardInterrupt:
        if not found:
            raise
        ended = "interrupted"
    except _DeadlineError:
        ended = "time limit"
    trials = [each.trial for each in found]
    floor = _floor(trials, plain_accuracy, clean_loss)
    chosen = best_trial(trials, floor)
    result = found[_position(trials, chosen)].result
    if ended is not None:
        result = replace(result, stopped_because=ended)
    why = describe_choice(chosen, trials, floor, plain_accuracy)
    return TrainingReport(trials, chosen, why, floor, plain_accuracy), result


def measure(
    ensemble: Ensemble, rows: Dataset, attacker: Attacker, threads: int, **options: Any
) -> dict[str, float]:
    """Return the proven measures of a trial; `options` are those of `carvegbm.verify`."""
    if ensemble.task == "regression":
        error = np.sqrt(np.mean((ensemble.raw_score(rows.X) - rows.y) ** 2))
        squares = worst_errors(ensemble, rows, attacker, threads=threads, **options)
        return {"error": float(error), "worst error": float(np.sqrt(squares.mean()))}
    found = prove(ensemble, rows, attacker, threads, **options)
    return {"accuracy": found.accuracy, "robustness": float(found.robustness[0])}


def best_trial(trials: Sequence[Trial], floor: float | None) -> Trial:
    """Return the best trial with at least the accuracy `floor`; the first of equal ones."""

    def rank(trial: Trial) -> tuple[float, ...]:
        measures = trial.measures
        if "worst error" in measures:
            quality = -measures["worst error"], -measures["error"]
        else:
            quality = measures["robustness"], measures["accuracy"]
        return *quality, trial.note == "", -trial.leaves

    return max((t for t in trials if floor is None or t.accuracy >= floor), key=rank)


def _position(trials: Sequence[Trial], wanted: Trial) -> int:
    return next(i for i, trial in enumerate(trials) if trial is wanted)


def _floor(
    trials: Sequence[Trial], plain_accuracy: float | None, clean_loss: float | None
) -> float | None:
    if plain_accuracy is None or clean_loss is None:
        return None
    return accuracy_floor(plain_accuracy, max(trial.accuracy for trial in trials), clean_loss)


def accuracy_floor(goal: float, reached: float, clean_loss: float) -> float:
    """Return the smallest acceptable accuracy: `clean_loss` below the goal, or what was reached.

    Accuracies are quotients of counts; the slack makes equal ones equal despite rounding.
    """
    return min(goal, reached) - clean_loss - 1e-9


def describe_choice(
    chosen: Trial, trials: Sequence[Trial], floor: float | None, plain_accuracy: float | None
) -> str:
    """Return a sentence that says why a trial was chosen."""
    if "worst error" in chosen.measures:
        worst = chosen.measures["worst error"]
        return f"the smallest worst error on validation data, {worst:.4g}, of {len(trials)} trials"
    accuracies = [trial.accuracy for trial in trials]
    return describe_robust_choice(chosen.robustness, accuracies, floor, plain_accuracy)


def describe_robust_choice(
    robustness: float,
    accuracies: Sequence[float],
    floor: float | None,
    plain_accuracy: float | None,
) -> str:
    """Return a sentence that says why a model of this robustness was chosen among others."""
    best = f"the largest proven robustness on validation data, {robustness:.4f}, of"
    if floor is None:
        return f"{best} {len(accuracies)} trials"
    limit, reached = f"{floor:.4f}", max(accuracies)
    if plain_accuracy is not None and reached < plain_accuracy:
        limit += (
            f" (the most accurate trial has {reached:.4f}, plain LightGBM {plain_accuracy:.4f})"
        )
    elif plain_accuracy is not None:
        limit += f" (plain LightGBM has {plain_accuracy:.4f})"
    able = sum(accuracy >= floor for accuracy in accuracies)
    able_ones = f"the {able} of {len(accuracies)} trials"
    return f"{best} {able_ones} that are at least as accurate as {limit}"


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
    """Return the validation accuracy of plain LightGBM with the same parameters."""
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
    return float((chosen == valid.y).mean())
