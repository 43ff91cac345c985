"""Large-spread training: boosting rounds of LightGBM on thresholds that stay open.

Certified training also leaves out crowded thresholds and refits the leaf scores against the
attacker. Which crowding suits the data, models of 20 rounds show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.binning import BinMapper, crowding, quantile_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import (
    EarlyStopping,
    EvalResult,
    Evaluation,
    Metrics,
    is_early_stopping,
    prove,
)
from carvegbm.training.large_spread.exclusion import OpenThresholds
from carvegbm.training.large_spread.lightgbm_c import BinLayout, CodeTable, check_scores
from carvegbm.training.large_spread.rounds import Rounds, start_rounds
from carvegbm.training.leaf_refit import RefitProblem, RefitSettings
from carvegbm.training.model import GBDTModel, GrownTree, ModelSpec, stored_scores
from carvegbm.training.params import check_parameters
from carvegbm.training.report import Reporter
from carvegbm.training.robust_refit import prove_refit
from carvegbm.training.search import accuracy_floor
from carvegbm.training.spec import FitResult, Params, StopReason, TrainSpec

__all__ = ["MAX_CROWDING", "Certified", "LargeSpreadTrainer", "boost", "candidate_bins"]

MAX_CROWDING = (0.03, 0.06, 0.12, 0.25, None)
"""Largest crowding of a candidate threshold, to be tried in turn; None leaves none out."""

Floats = npt.NDArray[np.float64]

_FEW_ROUNDS = 20
_SMALL_REFIT = RefitSettings(steps=50, patience=20)
_REFIT_L2 = 0.1  # divided by the number of trees
_BIN_PARAMETERS = {
    "max_bin": "max_bin",
    "min_data_in_bin": "min_data_in_bin",
    "bin_construct_sample_cnt": "sample",
    "data_random_seed": "seed",
}
_OBJECTIVE_PARAMETERS = (
    "objective",
    "num_class",
    "sigmoid",
    "alpha",
    "fair_c",
    "reg_sqrt",
    "tweedie_variance_power",
    "multi_error_top_k",
    "auc_mu_weights",
)


@dataclass(frozen=True)
class Certified:
    """Options of certified training.

    Attributes
    ----------
    max_crowding : sequence of float or None
        Values to try, see `parameters.check_max_crowding`.
    plain_accuracy, clean_loss : float, optional
        Refits keep the accuracy of plain LightGBM (or of the best trial) less `clean_loss`.
    """

    max_crowding: Sequence[float | None] = MAX_CROWDING
    plain_accuracy: float | None = None
    clean_loss: float | None = None


class LargeSpreadTrainer:
    """Trains large-spread models; without `certified`, one with all candidate thresholds."""

    def __init__(self, spec: TrainSpec, certified: Certified | None = None) -> None:
        self.spec = spec
        self._certified = certified
        self._bins: tuple[Dataset, BinMapper] | None = None
        self._crowding: list[Floats] | None = None
        self._best_accuracy = 0.0

    finalists = 1

    def search_space(self, n_rows: int) -> Sequence[Params]:  # noqa: ARG002
        """Return one fit per value of max_crowding."""
        if self._certified is None:
            return [{}]
        return [{"max_crowding": value} for value in self._certified.max_crowding]

    def fit_path(
        self, params: Params, train: Dataset, valid: Dataset | None
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield the model; in certified training, then the refitted one if it is no worse.

        If several values of max_crowding are compared, a scout of few rounds comes first.
        """
        if self._certified is None or valid is None:
            yield params, boost(self.spec, train)
            return
        if len(self._certified.max_crowding) > 1:
            *_, last = self._fits(params, train, valid, is_scout=True)
            yield last
        yield from self._fits(params, train, valid, is_scout=False)

    def _fits(
        self, params: Params, train: Dataset, valid: Dataset, *, is_scout: bool
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield the model, then the refitted one if it is no worse."""
        spec = self.spec
        if is_scout:
            n_rounds = min(_FEW_ROUNDS, spec.n_rounds)
            spec = replace(spec, n_rounds=n_rounds, evaluation=Evaluation(), verbose=0)
        result = boost(spec, train, self._uncrowded(params["max_crowding"], train))
        result = replace(result, is_scout=is_scout)
        ensemble = result.model.ensemble
        found = prove(ensemble, valid, spec.attacker, spec.threads)
        start = {"accuracy": found.accuracy, "robustness": float(found.robustness[0])}
        self._best_accuracy = max(self._best_accuracy, found.accuracy)
        named = {**params, "num_leaves": int(spec.params["num_leaves"])}
        yield {**named, "refit": False}, result
        settings = replace(
            _SMALL_REFIT if is_scout else RefitSettings(),
            l2=_REFIT_L2 / max(1, ensemble.n_trees),
            floor=self._floor(found.accuracy if is_scout else self._best_accuracy),
            threads=spec.threads,
        )
        problem = RefitProblem(spec.attacker, train.dense(), valid.dense())
        refit = prove_refit(ensemble, problem, settings, start=start, stored=stored_scores)
        if refit.refit.interrupted:
            result = replace(result, stopped_because="interrupted")
        if refit.changed:
            self._best_accuracy = max(self._best_accuracy, refit.end["accuracy"])
            model = result.model.with_scores(refit.ensemble.scores)
            yield {**named, "refit": True}, replace(result, model=model)
        elif refit.refit.interrupted:
            yield {**named, "refit": False}, result

    def _floor(self, reached: float) -> float | None:
        """Return the accuracy that a refit has to keep."""
        certified = self._certified
        if certified is None or certified.plain_accuracy is None or certified.clean_loss is None:
            return None
        return accuracy_floor(certified.plain_accuracy, reached, certified.clean_loss)

    def _uncrowded(self, max_crowding: float | None, train: Dataset) -> BinMapper:
        """Return the candidate thresholds whose crowding is at most `max_crowding`."""
        if self._bins is None or self._bins[0] is not train:
            self._bins, self._crowding = (train, candidate_bins(self.spec, train)), None
        bins = self._bins[1]
        if max_crowding is None:
            return bins
        if self._crowding is None:
            rule = self.spec.exclusion_rule()
            self._crowding = crowding(bins, train, rule, self.spec.threads)
        return bins.keep([crowded <= max_crowding for crowded in self._crowding])


def candidate_bins(spec: TrainSpec, train: Dataset) -> BinMapper:
    """Choose the candidate thresholds, under LightGBM's parameters that concern them."""
    options = {
        ours: spec.params[theirs]
        for theirs, ours in _BIN_PARAMETERS.items()
        if theirs in spec.params
    }
    return quantile_bins(
        train.X,
        categorical=spec.model.categories.keys(),
        grids=spec.exclusion_rule().step,
        threads=spec.threads,
        **options,
    )


def boost(spec: TrainSpec, train: Dataset, bins: BinMapper | None = None) -> FitResult:
    """Train a large-spread model; its trees split at `bins`, by default `candidate_bins`."""
    bins = candidate_bins(spec, train) if bins is None else bins
    params = {name: value for name, value in spec.params.items() if name not in _BIN_PARAMETERS}
    params["num_threads"] = spec.threads
    layout = BinLayout(
        bins.n_codes,
        bins.missing,
        frozenset(bins.categories),
        int(params.get("max_cat_to_onehot", BinLayout.max_cat_to_onehot)),
    )
    table = CodeTable(bins.encode(train.X, spec.threads), layout, spec.threads)
    rule = spec.exclusion_rule()
    open_thresholds = OpenThresholds(bins.thresholds, rule, bins.missing, bins.categories)
    rounds = start_rounds(table, open_thresholds, params, train, spec.model.n_outputs)
    loop = _BoostingLoop(spec, bins, rounds, params)
    with Reporter(spec.n_rounds, open_thresholds.n_open, spec.verbose) as reporter:
        loop.run(reporter)
        best = loop.best_iteration()
        reporter.finish(loop.stopped_because, len(loop.trees), best)
    # After an interrupt, LightGBM may have a tree that was not read.
    if rounds.trees and loop.stopped_because != "interrupted":
        one_output = ModelSpec("regression", 1, spec.model.feature_names)
        ensemble = one_output.ensemble(rounds.trees)
        check_scores(rounds.booster, ensemble, train.X, params.get("sigmoid", 1.0))
    kept = loop.trees[: max(1, best)] or [rounds.constant()]
    return FitResult(
        model=GBDTModel([t for trees in kept for t in trees], spec.model, rounds.header(), bins),
        best_iteration=best,
        stopped_because=loop.stopped_because,
        best_score=loop.stopping.best_score,
        evals_result=loop.metrics.evals_result,
        n_open_thresholds=open_thresholds.n_open,
    )


class _CallbackModel:
    """The `model` of LightGBM's `CallbackEnv`: callbacks may change learning parameters."""

    def __init__(self, rounds: Rounds, params: dict[str, Any]) -> None:
        self._rounds = rounds
        self._params = params
        self.boosters = [self]  # where LightGBM's callbacks look for a model they do not know

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change learning parameters for the next rounds."""
        self._params |= check_parameters(params)
        self._rounds.reset(self._params)


class _BoostingLoop:
    """Runs rounds, metrics and callbacks until one of the reasons to stop holds."""

    def __init__(
        self, spec: TrainSpec, bins: BinMapper, rounds: Rounds, params: dict[str, Any]
    ) -> None:
        self._spec = spec
        self._rounds = rounds
        evaluation, n_outputs = spec.evaluation, spec.model.n_outputs
        self._codes = [bins.encode(rows.X, spec.threads) for rows in evaluation.sets]
        self._raw = [np.zeros((len(rows), n_outputs), order="F") for rows in evaluation.sets]
        objective = {k: spec.params[k] for k in _OBJECTIVE_PARAMETERS if k in spec.params}
        objective["num_threads"] = spec.threads
        self.metrics = Metrics(evaluation, objective, self._robustness)
        self._model, self._params = _CallbackModel(rounds, params), dict(params)
        self._callbacks = sorted(evaluation.callbacks, key=lambda c: getattr(c, "order", 0))
        self._results: list[EvalResult] = []
        self.stopping = EarlyStopping(evaluation.early_stopping_rounds)
        self.trees: list[list[GrownTree]] = []
        self.stopped_because: StopReason = "rounds"

    def run(self, reporter: Reporter) -> None:
        """Grow, evaluate, report and call back, at most `n_rounds` times."""
        from lightgbm.callback import EarlyStopException

        n_rounds = self._spec.n_rounds
        try:
            for done in range(n_rounds):
                self._call(True, done, n_rounds)
                trees = self._rounds.grow()
                if trees is None:
                    self.stopped_because = "no thresholds left"
                    break
                self.trees.append(trees)
                self._evaluate(trees)
                reporter.show(done + 1, self._results, self._rounds.open.n_open)
                self._call(False, done, n_rounds)
                if self.stopping.update(done + 1, self._results) and done + 1 < n_rounds:
                    self.stopped_because = "early stopping"
                    break
                deadline = self._spec.deadline
                if deadline is not None and time.monotonic() >= deadline and done + 1 < n_rounds:
                    self.stopped_because = "time limit"
                    break
            if self.stopped_because in ("no thresholds left", "time limit") and self.trees:
                # LightGBM's early stopping names the best round only in what it takes for the last.
                last = len(self.trees)
                for callback in filter(is_early_stopping, self._callbacks):
                    callback(self._environment(False, last - 1, last))
        except EarlyStopException as stop:
            # LightGBM's early stopping also stops after the last round.
            if self.stopped_because == "rounds" and len(self.trees) < n_rounds:
                self.stopped_because = "early stopping"
            best = min(stop.best_iteration + 1, len(self.trees))
            self.stopping = EarlyStopping(0, best, self.metrics.first_value(best))
        except KeyboardInterrupt:
            self.stopped_because = "interrupted"

    def best_iteration(self) -> int:
        """Return the number of rounds to keep, up to the last one with a split."""
        watched = self.stopping.patience is not None
        best = self.stopping.best_iteration if watched else len(self.trees)
        if best == 0 and self.stopped_because == "interrupted":  # before the first evaluation
            best = len(self.trees)
        while best and all(tree.n_leaves == 1 for tree in self.trees[best - 1]):
            best -= 1  # rounds whose samples had no split
        return best

    def _evaluate(self, trees: list[GrownTree]) -> None:
        for raw, codes in zip(self._raw, self._codes, strict=True):
            for output, tree in enumerate(trees):
                tree.add_to(raw[:, output], codes)
        self._results = self.metrics.evaluate(self._raw)

    def _robustness(self, rows: Dataset) -> float:
        """Return the proven robustness of the trees so far."""
        spec = replace(self._spec.model, classes=None)
        ensemble = spec.ensemble([tree for trees in self.trees for tree in trees])
        found = prove(ensemble, rows, self._spec.attacker, self._spec.threads)
        return float(found.robustness[0])

    def _call(self, before: bool, done: int, n_rounds: int) -> None:
        for callback in self._callbacks:
            if getattr(callback, "before_iteration", False) is before:
                callback(self._environment(before, done, n_rounds))

    def _environment(self, before: bool, done: int, end: int) -> Any:
        import lightgbm
        from lightgbm.callback import CallbackEnv

        kind = getattr(lightgbm, "EvalResult", EvalResult)  # plain tuples before LightGBM 4.7
        results = None if before else [kind(*result) for result in self._results]
        return CallbackEnv(self._model, self._params, done, 0, end, results)
