"""Large-spread training: boosting rounds of LightGBM on thresholds that stay open.

Certified training also leaves out crowded thresholds and refits the leaf scores against the
attacker. Which crowding suits the data, models of 20 rounds show.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.progress import Bar, is_shown
from carvegbm.training.binning import BinMapper, crowding, quantile_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import (
    EvalResult,
    Evaluation,
    Metrics,
    is_of_lightgbm,
    prove,
    run_callbacks,
)
from carvegbm.training.large_spread.exclusion import OpenThresholds
from carvegbm.training.large_spread.lightgbm_c import BinLayout, CodeTable, check_scores
from carvegbm.training.large_spread.rounds import Rounds, start_rounds
from carvegbm.training.leaf_refit import RefitSettings
from carvegbm.training.model import GBDTModel, GrownTree, ModelSpec, stored_scores
from carvegbm.training.params import check_parameters
from carvegbm.training.report import print_line
from carvegbm.training.robust_refit import prove_refit
from carvegbm.training.search import accuracy_floor
from carvegbm.training.spec import FitResult, Params, StopReason, TrainSpec

__all__ = ["MAX_CROWDING", "CertifiedTrainer", "boost", "candidate_bins"]

MAX_CROWDING = (0.03, 0.06, 0.12, 0.25, None)
"""Largest crowding of a candidate threshold, to be tried in turn; None leaves none out."""

Floats = npt.NDArray[np.float64]

_FEW_ROUNDS = 20
_ROUNDS_PER_LINE = 50
_SMALL_REFIT = RefitSettings(steps=50, patience=20)
_REFIT_L2 = 0.1  # divided by the number of trees
_BIN_PARAMETERS = {
    "max_bin": "max_bin",
    "min_data_in_bin": "min_data_in_bin",
    "bin_construct_sample_cnt": "sample",
    "data_random_seed": "seed",
}
_OBJECTIVE_PARAMETERS = (
    *("objective", "num_class", "sigmoid", "alpha", "fair_c", "reg_sqrt"),
    *("tweedie_variance_power", "multi_error_top_k", "auc_mu_weights"),
)


class CertifiedTrainer:
    """Trains certified models.

    Parameters
    ----------
    max_crowding : sequence of float or None
        Values to try.
    plain_accuracy, clean_loss : float, optional
        Refits keep the accuracy of plain LightGBM (or of the best trial) less `clean_loss`.
    """

    finalists = 1

    def __init__(
        self,
        spec: TrainSpec,
        max_crowding: Sequence[float | None],
        plain_accuracy: float | None = None,
        clean_loss: float | None = None,
    ) -> None:
        self.spec = spec
        self._tried = max_crowding
        self._plain_accuracy, self._clean_loss = plain_accuracy, clean_loss
        self._bins: tuple[Dataset, BinMapper] | None = None
        self._crowding: list[Floats] | None = None
        self._best_accuracy = 0.0

    def search_space(self, n_rows: int) -> Sequence[Params]:  # noqa: ARG002
        """Return one fit per value of max_crowding."""
        return [{"max_crowding": value} for value in self._tried]

    def fit_path(
        self, params: Params, train: Dataset, valid: Dataset | None
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield the model, then the refitted one if it is no worse.

        If several values of max_crowding are compared, a scout of few rounds comes first.
        """
        assert valid is not None
        if len(self._tried) > 1:
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
        floor = None
        if self._plain_accuracy is not None and self._clean_loss is not None:
            reached = found.accuracy if is_scout else self._best_accuracy
            floor = accuracy_floor(self._plain_accuracy, reached, self._clean_loss)
        settings = replace(
            _SMALL_REFIT if is_scout else RefitSettings(),
            l2=_REFIT_L2 / max(1, ensemble.n_trees),
            floor=floor,
            threads=spec.threads,
        )
        refit = prove_refit(
            ensemble,
            spec.attacker,
            train.dense(),
            valid.dense(),
            settings,
            start=start,
            stored=stored_scores,
        )
        if refit.interrupted:
            result = replace(result, stopped_because="interrupted")
        if refit.proven is not None:
            self._best_accuracy = max(self._best_accuracy, refit.proven["accuracy"])
            model = result.model.with_scores(refit.scores)
            yield {**named, "refit": True}, replace(result, model=model)
        elif refit.interrupted:
            yield {**named, "refit": False}, result

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
    bar = Bar(spec.n_rounds) if spec.verbose and is_shown() else None
    with bar or nullcontext():
        loop.run(bar)
    best = loop.best_iteration()
    if spec.verbose and bar is None:
        cut = f", kept the first {best}" if best != len(loop.trees) else ""
        last = f"; {loop.progress}" if loop.progress else ""
        print_line(f"stopped after {len(loop.trees)} rounds ({loop.stopped_because}){cut}{last}")
    # After an interrupt, LightGBM may have a tree that was not read.
    if rounds.trees and loop.stopped_because != "interrupted":
        one_output = ModelSpec("regression", 1, spec.model.feature_names)
        ensemble = one_output.ensemble(rounds.trees)
        check_scores(rounds.booster, ensemble, train.X, params.get("sigmoid", 1.0))
    kept = loop.trees[: max(1, best)] or [rounds.constant()]
    return FitResult(
        model=GBDTModel(
            [t for trees in kept for t in trees], spec.model, rounds.booster.text(0, 1), bins
        ),
        best_iteration=best,
        stopped_because=loop.stopped_because,
        best_score=loop.best_score,
        evals_result=loop.metrics.evals_result,
        n_open_thresholds=open_thresholds.n_open,
    )


class _BoostingLoop:
    """Runs rounds, metrics and callbacks until one of the reasons to stop holds.

    Callbacks get it as the `model` of LightGBM's `CallbackEnv`.
    """

    def __init__(
        self, spec: TrainSpec, bins: BinMapper, rounds: Rounds, params: dict[str, Any]
    ) -> None:
        import lightgbm

        self._spec = spec
        self._rounds = rounds
        evaluation, n_outputs = spec.evaluation, spec.model.n_outputs
        self._codes = [bins.encode(rows.X, spec.threads) for rows in evaluation.sets]
        self._raw = [np.zeros((len(rows), n_outputs), order="F") for rows in evaluation.sets]
        objective = {k: spec.params[k] for k in _OBJECTIVE_PARAMETERS if k in spec.params}
        objective["num_threads"] = spec.threads
        self.metrics = Metrics(evaluation, objective, self._robustness)
        self._params = dict(params)
        self.boosters = [self]  # where LightGBM's callbacks look for a model they do not know
        patience = evaluation.early_stopping_rounds
        self._own_stopping = (
            [] if patience is None else [lightgbm.early_stopping(patience, verbose=False)]
        )
        self._results: list[EvalResult] = []
        self._n_open = max(1, rounds.open.n_open)
        self._best: int | None = None
        self.progress = ""
        self.trees: list[list[GrownTree]] = []
        self.stopped_because: StopReason = "rounds"

    def run(self, bar: Bar | None) -> None:
        """Grow, evaluate, report and call back, at most `n_rounds` times."""
        from lightgbm.callback import EarlyStopException

        spec, n_rounds = self._spec, self._spec.n_rounds
        callbacks = spec.evaluation.callbacks
        watching = [each for each in callbacks if is_of_lightgbm(each, "stopping_rounds")]
        try:
            try:
                for done in range(n_rounds):
                    run_callbacks(callbacks, self, self._params, done, n_rounds, None)
                    trees = self._rounds.grow()
                    if trees is None:
                        self.stopped_because = "no thresholds left"
                        break
                    self.trees.append(trees)
                    self._evaluate(trees)
                    self._report(bar)
                    self._call_after(callbacks, n_rounds)
                    if spec.deadline is not None and time.monotonic() >= spec.deadline:
                        self.stopped_because = "time limit" if done + 1 < n_rounds else "rounds"
                        break
            except KeyboardInterrupt:
                self.stopped_because, watching = "interrupted", []
            if self.stopped_because != "rounds" and self._results:
                # LightGBM's early stopping names the best round only in what it takes for the last.
                self._call_after(watching, len(self.trees))
        except EarlyStopException as stop:
            # LightGBM's early stopping also stops after the last round.
            if self.stopped_because == "rounds" and len(self.trees) < n_rounds:
                self.stopped_because = "early stopping"
            self._best = min(stop.best_iteration + 1, len(self.trees))

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change learning parameters for the next rounds, as callbacks do."""
        self._params |= check_parameters(params)
        self._rounds.reset(self._params)

    def best_iteration(self) -> int:
        """Return the number of rounds to keep, up to the last one with a split."""
        best = len(self.trees) if self._best is None else self._best
        while best and all(tree.n_leaves == 1 for tree in self.trees[best - 1]):
            best -= 1  # rounds whose samples had no split
        return best

    @property
    def best_score(self) -> float | None:
        """The first metric in the best round that early stopping found."""
        return None if self._best is None else self.metrics.first_value(self._best)

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

    def _report(self, bar: Bar | None) -> None:
        """Show the first metric and the share of open thresholds: in a bar, or in lines."""
        done = len(self.trees)
        parts = [f"{metric} {value:.5g} ({name})" for name, metric, value, _ in self._results[:1]]
        parts.append(f"{100 * self._rounds.open.n_open / self._n_open:.0f} % of thresholds open")
        self.progress = ", ".join(parts)
        if bar is not None:
            bar.update(done, self.progress)
        elif self._spec.verbose and done % _ROUNDS_PER_LINE == 0:
            print_line(f"round {done}: {self.progress}")

    def _call_after(self, callbacks: Sequence[Any], n_rounds: int) -> None:
        """Call back after a round; the estimator's own early stopping sees one metric alone."""
        for each, results in ((callbacks, self._results), (self._own_stopping, self._results[:1])):
            done = len(self.trees) - 1
            run_callbacks(each, self, self._params, done, n_rounds, results)
