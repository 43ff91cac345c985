"""The whole of large-spread training: candidates, rounds, evaluation, when to stop.

Comes in: rows, labels, an attacker, checked parameters. Goes out: `Boosted`, everything a model
is written from. Knows LightGBM's way of learning, nothing about scikit-learn's conventions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Task
from carvegbm.errors import CarveError
from carvegbm.readers.trees import Tree, assemble
from carvegbm.training.closing import ClosingRule, OpenThresholds
from carvegbm.training.grown import GrownTree
from carvegbm.training.inputs import blank_ensemble
from carvegbm.training.lightgbm_c import CodeTable
from carvegbm.training.model_text import write_model
from carvegbm.training.parameters import check_parameters
from carvegbm.training.reporting import Reporter
from carvegbm.training.rounds import Rounds, rounds
from carvegbm.training.thresholds import Candidates, find_candidates
from carvegbm.training.watching import EarlyStopping, EvaluationSet, Metric, Result, Watch

__all__ = ["Boosted", "Evaluation", "Reason", "Rows", "boost", "candidates_of"]

Floats = npt.NDArray[np.float64]
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
class Rows:
    """Instances with encoded labels: 0, 1, … for classes, numbers for regression."""

    X: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    weight: Floats | None = None
    name: str = "training"


@dataclass(frozen=True)
class Evaluation:
    """What to watch during training."""

    sets: Sequence[Rows] = ()
    metrics: Sequence[Metric] = ()
    early_stopping_rounds: int | None = None
    callbacks: Sequence[Callable[[Any], Any]] = ()
    transform: Callable[[Floats], Floats] = field(default=lambda raw: raw)

    def __post_init__(self) -> None:
        """Refuse what would be watched, but on nothing."""
        asked = {
            "eval_metric": bool(self.metrics),
            "early_stopping_rounds": self.early_stopping_rounds is not None,
            "lightgbm.early_stopping": any(_is_early_stopping(c) for c in self.callbacks),
            "lightgbm.record_evaluation": any(_has(c, "eval_result") for c in self.callbacks),
        }
        for name, is_asked in asked.items():
            if is_asked and not self.sets:
                raise CarveError(f"{name} needs eval_set; give validation data to fit")


def _is_early_stopping(callback: Callable[[Any], Any]) -> bool:
    return _has(callback, "stopping_rounds")


def _has(callback: Callable[[Any], Any], attribute: str) -> bool:
    """Whether a callback is LightGBM's own with this attribute: its classes have no public name."""
    return type(callback).__module__ == "lightgbm.callback" and hasattr(callback, attribute)


@dataclass(frozen=True)
class Boosted:
    """The outcome of training.

    `best_round` counts the rounds kept, up to the last that has a split: 0 for a constant.
    """

    rounds: list[list[GrownTree]]
    candidates: Candidates
    template: str
    stopped_because: Reason
    best_round: int
    best_value: float | None
    history: dict[str, dict[str, list[float]]]
    n_open: int

    def text(self, feature_names: Sequence[str], objective: str) -> str:
        """LightGBM's text of the model."""
        return write_model(
            self.template,
            [tree for trees in self.rounds for tree in trees],
            self.candidates,
            feature_names=feature_names,
            n_outputs=len(self.rounds[0]),
            objective=objective,
        )


class _Training:
    """What callbacks see as the model: LightGBM's may change learning parameters through it."""

    def __init__(self, grower: Rounds, learning: dict[str, Any]) -> None:
        self._grower = grower
        self._learning = learning
        self.boosters = [self]  # LightGBM's callbacks reach a model they do not know by this

    def reset_parameter(self, parameters: Mapping[str, Any]) -> None:
        """Change learning parameters for the rounds to come."""
        self._learning |= check_parameters(parameters)
        self._grower.reset(self._learning)


def candidates_of(data: Rows, parameters: Mapping[str, Any], threads: int = 1) -> Candidates:
    """The candidate thresholds of training data, under LightGBM's parameters that concern them."""
    chosen = {
        ours: parameters[theirs]
        for theirs, ours in _THRESHOLD_PARAMETERS.items()
        if theirs in parameters
    }
    return find_candidates(data.X, threads=threads, **chosen)


def boost(
    data: Rows,
    attacker: Attacker,
    parameters: Mapping[str, Any],
    *,
    task: Task,
    n_outputs: int,
    n_rounds: int,
    evaluation: Evaluation = Evaluation(),  # noqa: B008
    candidates: Candidates | None = None,
    threads: int = 1,
    verbose: int = 0,
) -> Boosted:
    """Train a large-spread ensemble.

    Parameters
    ----------
    data : Rows
    attacker : Attacker
        With features by position.
    parameters : mapping
        LightGBM's, under main names, with the objective.
    task : {"binary", "multiclass", "regression"}
    n_outputs : int
        Number of classes for multiclass, else 1.
    n_rounds : int
    evaluation : Evaluation
    candidates : Candidates, optional
        The thresholds trees may use; default: all `candidates_of` the data.
    threads : int
    verbose : int
    """
    n_features = data.X.shape[1]
    blank = blank_ensemble(n_features)
    learning = {k: v for k, v in parameters.items() if k not in _THRESHOLD_PARAMETERS}
    learning["num_threads"] = threads
    if candidates is None:
        candidates = candidates_of(data, parameters, threads)
    table = CodeTable(
        candidates.encode(data.X, threads), [len(v) + 1 for v in candidates.values], threads
    )
    open_thresholds = OpenThresholds(
        candidates.values,
        ClosingRule.against(attacker, blank),
    )
    grower = rounds(table, open_thresholds, learning, data.labels, data.weight, n_outputs)
    shown: list[Tree] = []  # the trees so far, as the verifier takes them

    def prove(rows: EvaluationSet) -> float:
        from carvegbm.verification import verify

        ensemble = assemble(
            shown, n_outputs=n_outputs, n_features=n_features, task=task, classes=None
        )
        result = verify(ensemble, rows.X, rows.labels, attacker, threads=threads, progress=False)
        return float(result.robustness[0])

    watch = Watch(
        sets=[
            EvaluationSet.start(
                rows.name,
                rows.X,
                rows.labels,
                rows.weight,
                candidates.encode(rows.X, threads),
                n_outputs,
            )
            for rows in evaluation.sets
        ],
        metrics=evaluation.metrics,
        objective={k: parameters[k] for k in _OBJECTIVE_PARAMETERS if k in parameters}
        | {"num_threads": threads},
        transform=evaluation.transform,
        prove=prove,
    )
    return _run(grower, candidates, n_rounds, evaluation, watch, learning, shown, verbose)


def _run(
    grower: Rounds,
    candidates: Candidates,
    n_rounds: int,
    evaluation: Evaluation,
    watch: Watch,
    learning: dict[str, Any],
    shown: list[Tree],
    verbose: int,
) -> Boosted:
    """Round after round, until one of the reasons to stop holds."""
    import lightgbm
    from lightgbm.callback import CallbackEnv, EarlyStopException

    callbacks = sorted(evaluation.callbacks, key=lambda callback: getattr(callback, "order", 0))
    stopping = EarlyStopping(evaluation.early_stopping_rounds)
    grown: list[list[GrownTree]] = []
    results: list[Result] = []
    training, shared = _Training(grower, learning), dict(learning)
    reason: Reason = "rounds"

    def call(before: bool, done: int) -> None:
        for callback in callbacks:
            if getattr(callback, "before_iteration", False) is before:
                callback(environment(before, done, n_rounds))

    def environment(before: bool, done: int, end: int) -> CallbackEnv:
        kind = getattr(lightgbm, "EvalResult", Result)  # plain tuples before LightGBM 4.7
        seen = None if before else [kind(*result) for result in results]
        return CallbackEnv(training, shared, done, 0, end, seen)

    def keep(best: int) -> None:
        """Keep the first `best` rounds, as a callback says."""
        best = min(best, len(grown))
        stopping.patience, stopping.best_round = 0, best
        stopping.best_value = watch.first_value(best)

    with Reporter(n_rounds, grower.open.n_open, verbose) as reporter:
        try:
            for done in range(n_rounds):
                call(True, done)
                trees = grower.grow()
                if trees is None:
                    reason = "no thresholds left"
                    break
                grown.append(trees)
                if watch.sets:
                    shown += [t.as_tree(candidates, output) for output, t in enumerate(trees)]
                    results = watch.evaluate(trees)
                reporter.show(done + 1, results, grower.open.n_open)
                call(False, done)
                if stopping.update(done + 1, results) and done + 1 < n_rounds:
                    reason = "early stopping"
                    break
            if reason == "no thresholds left" and grown:
                # LightGBM's early stopping names the best round in what it takes for the last.
                for callback in filter(_is_early_stopping, callbacks):
                    callback(environment(False, len(grown) - 1, len(grown)))
        except EarlyStopException as stop:
            # LightGBM's early stopping says so too when all rounds are over.
            if reason == "rounds" and len(grown) < n_rounds:
                reason = "early stopping"
            keep(stop.best_iteration + 1)
        except KeyboardInterrupt:
            reason = "interrupted"
        best = stopping.best_round if stopping.patience is not None and grown else len(grown)
        if reason == "interrupted" and best == 0:
            best = len(grown)  # before the first evaluation was over
        while best and all(tree.n_leaves == 1 for tree in grown[best - 1]):
            best -= 1  # samples without a split, see rounds.py
        reporter.finish(reason, len(grown), best)
    if not grown:
        grown, best = [grower.constant()], 0
    return Boosted(
        rounds=grown[:best] or grown[:1],
        candidates=candidates,
        template=grower.template(),
        stopped_because=reason,
        best_round=best,
        best_value=stopping.best_value,
        history=watch.history,
        n_open=grower.open.n_open,
    )
