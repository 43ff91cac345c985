"""The whole of large-spread training: candidates, rounds, evaluation, when to stop.

Comes in: rows, labels, an attacker, checked parameters. Goes out: `Boosted`, a model and how it
came about. Knows LightGBM's way of learning, nothing about scikit-learn's conventions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from carvegbm.attacker import Attacker
from carvegbm.readers.trees import Tree
from carvegbm.training.data import Labelled
from carvegbm.training.evaluation import Evaluation, is_early_stopping, proven
from carvegbm.training.growing.agreement import check_counts, check_scores
from carvegbm.training.growing.bins import Special
from carvegbm.training.growing.closing import ClosingRule, OpenThresholds
from carvegbm.training.growing.grown import GrownTree
from carvegbm.training.growing.lightgbm_c import CodeTable
from carvegbm.training.growing.model import GrownModel, Kind
from carvegbm.training.growing.rounds import Rounds, rounds
from carvegbm.training.growing.thresholds import Candidates, find_candidates
from carvegbm.training.growing.watching import EarlyStopping, EvaluationSet, Result, Watch
from carvegbm.training.parameters import check_parameters
from carvegbm.training.reporting import Reporter

__all__ = ["Boosted", "Boosting", "Reason"]

Reason = Literal["rounds", "early stopping", "no thresholds left", "interrupted"]

_THRESHOLD_PARAMETERS = {
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
class Boosted:
    """The outcome of training.

    `best_round` counts the rounds kept, up to the last that has a split: 0 for a constant. `n_open`
    counts the thresholds that large-spread training has left open.
    """

    model: GrownModel
    stopped_because: Reason
    best_round: int
    best_value: float | None
    history: dict[str, dict[str, list[float]]]
    n_open: int | None = None


@dataclass(frozen=True)
class Boosting:
    """A large-spread ensemble to be trained.

    Attributes
    ----------
    data : Labelled
    attacker : Attacker
        With features by position.
    parameters : mapping
        LightGBM's, under main names, with the objective.
    kind : Kind
        Of the model.
    n_rounds : int
    evaluation : Evaluation
    threads : int
    verbose : int
    """

    data: Labelled
    attacker: Attacker
    parameters: Mapping[str, Any]
    kind: Kind
    n_rounds: int
    evaluation: Evaluation = field(default_factory=Evaluation)
    threads: int = 1
    verbose: int = 0

    def scout(self, n_rounds: int) -> Boosting:
        """The same in a few rounds, without a word and without evaluation."""
        n_rounds = min(n_rounds, self.n_rounds)
        return replace(self, n_rounds=n_rounds, evaluation=Evaluation(), verbose=0)

    def run(self, candidates: Candidates | None = None) -> Boosted:
        """Train; trees may split at the candidates given, by default at all `candidates`."""
        if candidates is None:
            candidates = self.candidates()
        special = Special(
            candidates.missing,
            frozenset(candidates.categories),
            int(self.parameters.get("max_cat_to_onehot", Special.most_one_by_one)),
        )
        codes = candidates.encode(self.data.X, self.threads)
        table = CodeTable(codes, candidates.n_codes, self.threads, special)
        learning = {k: v for k, v in self.parameters.items() if k not in _THRESHOLD_PARAMETERS}
        learning["num_threads"] = self.threads
        values, missing = candidates.values, candidates.missing
        grower = rounds(
            table,
            OpenThresholds(values, self.closing_rule(), missing, candidates.categories),
            learning,
            self.data.labels,
            self.data.weight,
            self.kind.n_outputs,
        )
        watch = self._watch(candidates)
        run = _Run(grower, self.evaluation, watch, learning)
        with Reporter(self.n_rounds, grower.open.n_open, self.verbose) as reporter:
            run.grow(self.n_rounds, reporter)
            best = run.best_round()
            reporter.finish(run.reason, len(run.grown), best)
        check_counts(grower, self.data)
        if run.reason != "interrupted":  # or LightGBM may know of a tree that nobody saw
            check_scores(grower, self.data.X)
        kept = run.grown[: max(1, best)] or [grower.constant()]
        trees = [tree for trees in kept for tree in trees]
        return Boosted(
            model=GrownModel.of(trees, self.kind, grower.template(), candidates),
            stopped_because=run.reason,
            best_round=best,
            best_value=run.stopping.best_value,
            history=watch.history,
            n_open=grower.open.n_open,
        )

    def candidates(self) -> Candidates:
        """The candidate thresholds, under LightGBM's parameters that concern them."""
        chosen = {
            ours: self.parameters[theirs]
            for theirs, ours in _THRESHOLD_PARAMETERS.items()
            if theirs in self.parameters
        }
        return find_candidates(
            self.data.X,
            categorical=self.kind.categories.keys(),
            lattices=self.closing_rule().step,
            threads=self.threads,
            **chosen,
        )

    def closing_rule(self) -> ClosingRule:
        """What the attacker asks of thresholds."""
        return ClosingRule.against(self.attacker, self.kind.blank())

    def _watch(self, candidates: Candidates) -> Watch:
        def prove(trees: Sequence[Tree], rows: Labelled) -> float:
            ensemble = replace(self.kind, classes=None).ensemble(trees)
            return proven(ensemble, rows, self.attacker, self.threads).robustness[0]

        objective = {k: self.parameters[k] for k in _OBJECTIVE_PARAMETERS if k in self.parameters}
        sets = [
            EvaluationSet.start(rows, candidates.encode(rows.X, self.threads), self.kind.n_outputs)
            for rows in self.evaluation.sets
        ]
        return Watch(
            sets=sets,
            metrics=self.evaluation.metrics,
            objective=objective | {"num_threads": self.threads},
            transform=self.evaluation.transform,
            prove=prove,
        )


class _CallbackModel:
    """What callbacks see as the model: LightGBM's may change learning parameters through it."""

    def __init__(self, grower: Rounds, learning: dict[str, Any]) -> None:
        self._grower = grower
        self._learning = learning
        self.boosters = [self]  # LightGBM's callbacks reach a model they do not know by this

    def reset_parameter(self, parameters: Mapping[str, Any]) -> None:
        """Change learning parameters for the rounds to come."""
        self._learning |= check_parameters(parameters)
        self._grower.reset(self._learning)


class _Run:
    """Round after round, until one of the reasons to stop holds."""

    def __init__(
        self, grower: Rounds, evaluation: Evaluation, watch: Watch, learning: dict[str, Any]
    ) -> None:
        self._grower = grower
        self._watch = watch
        self._model, self._shared = _CallbackModel(grower, learning), dict(learning)
        self._callbacks = sorted(evaluation.callbacks, key=lambda c: getattr(c, "order", 0))
        self._results: list[Result] = []
        self.stopping = EarlyStopping(evaluation.early_stopping_rounds)
        self.grown: list[list[GrownTree]] = []
        self.reason: Reason = "rounds"

    def grow(self, n_rounds: int, reporter: Reporter) -> None:
        """Grow, evaluate, report and call back, up to `n_rounds` times."""
        from lightgbm.callback import EarlyStopException

        try:
            for done in range(n_rounds):
                self._call(True, done, n_rounds)
                trees = self._grower.grow()
                if trees is None:
                    self.reason = "no thresholds left"
                    break
                self.grown.append(trees)
                if self._watch.sets:
                    self._results = self._watch.evaluate(trees)
                reporter.show(done + 1, self._results, self._grower.open.n_open)
                self._call(False, done, n_rounds)
                if self.stopping.update(done + 1, self._results) and done + 1 < n_rounds:
                    self.reason = "early stopping"
                    break
            if self.reason == "no thresholds left" and self.grown:
                # LightGBM's early stopping names the best round in what it takes for the last.
                last = len(self.grown)
                for callback in filter(is_early_stopping, self._callbacks):
                    callback(self._environment(False, last - 1, last))
        except EarlyStopException as stop:
            # LightGBM's early stopping says so too when all rounds are over.
            if self.reason == "rounds" and len(self.grown) < n_rounds:
                self.reason = "early stopping"
            self._keep(stop.best_iteration + 1)
        except KeyboardInterrupt:
            self.reason = "interrupted"

    def best_round(self) -> int:
        """The number of rounds to keep, up to the last that has a split."""
        watched = self.stopping.patience is not None and self.grown
        best = self.stopping.best_round if watched else len(self.grown)
        if self.reason == "interrupted" and best == 0:
            best = len(self.grown)  # before the first evaluation was over
        while best and all(tree.n_leaves == 1 for tree in self.grown[best - 1]):
            best -= 1  # samples without a split, see rounds.py
        return best

    def _call(self, before: bool, done: int, n_rounds: int) -> None:
        for callback in self._callbacks:
            if getattr(callback, "before_iteration", False) is before:
                callback(self._environment(before, done, n_rounds))

    def _environment(self, before: bool, done: int, end: int) -> Any:
        import lightgbm
        from lightgbm.callback import CallbackEnv

        kind = getattr(lightgbm, "EvalResult", Result)  # plain tuples before LightGBM 4.7
        seen = None if before else [kind(*result) for result in self._results]
        return CallbackEnv(self._model, self._shared, done, 0, end, seen)

    def _keep(self, best: int) -> None:
        """Keep the first `best` rounds, as a callback says."""
        best = min(best, len(self.grown))
        self.stopping.patience, self.stopping.best_round = 0, best
        self.stopping.best_value = self._watch.first_value(best)
