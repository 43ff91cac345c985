"""Evaluation during training: data sets, metrics per round, early stopping, proofs.

LightGBM computes its metrics from the raw scores of a round; the metric "robustness" is the share
of rows that the verifier proves robust.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError
from carvegbm.totals import VerificationTotals
from carvegbm.training.dataset import Dataset
from carvegbm.training.validation import check_data, check_weight, evaluation_pairs
from carvegbm.verifier import Verifier

__all__ = ["ROBUSTNESS", "EarlyStopping", "EvalResult", "Evaluation", "Metric", "Metrics"]
__all__ += ["callback_list", "evaluation_sets", "is_early_stopping", "metric_list", "prove"]

ROBUSTNESS = "robustness"
"""Name of the metric that is proven."""

Floats = npt.NDArray[np.float64]
Callback = Callable[[Any], Any]
Metric = str | Callable[..., Any]


class EvalResult(NamedTuple):
    """One metric on one evaluation set."""

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool


@dataclass(frozen=True)
class Evaluation:
    """What to evaluate after every round.

    Without `metrics`, the objective's own. `transform` maps raw scores to what custom metrics take:
    probabilities, or predicted values.
    """

    sets: Sequence[Dataset] = ()
    metrics: Sequence[Metric] = ()
    early_stopping_rounds: int | None = None
    callbacks: Sequence[Callback] = ()
    transform: Callable[[Floats], Floats] = field(default=lambda raw: raw)

    def require_sets(self) -> None:
        """Refuse options that need an evaluation set if there is none."""
        given = {
            "eval_metric": bool(self.metrics),
            "early_stopping_rounds": self.early_stopping_rounds is not None,
            "lightgbm.early_stopping": any(is_early_stopping(c) for c in self.callbacks),
            "lightgbm.record_evaluation": any(_has(c, "eval_result") for c in self.callbacks),
        }
        for name, is_given in given.items():
            if is_given and not self.sets:
                raise CarveError(f"{name} needs eval_set; give validation data to fit")


def evaluation_sets(
    estimator: Any,
    encode: Callable[[Any, str], npt.NDArray[Any]],
    eval_set: Any,
    eval_names: Any,
    eval_sample_weight: Any,
) -> list[Dataset]:
    """Return the validated evaluation sets; `encode` encodes their labels."""
    pairs = evaluation_pairs(eval_set)
    names = [eval_names] if isinstance(eval_names, str) else eval_names
    for what, given in (("eval_names", names), ("eval_sample_weight", eval_sample_weight)):
        if given is None:
            continue
        if eval_set is None:
            raise CarveError(f"{what} needs eval_set; give validation data to fit")
        if not isinstance(given, Sized):
            raise DataError(f"{what} must be a list, got {given!r}")
        if len(given) != len(pairs):
            raise DataError(
                f"{what} has {len(given)} entries, eval_set has {len(pairs)} pairs (X, y); "
                "give a list with one entry per pair"
            )
    found = []
    for i, (X, y) in enumerate(pairs):
        what = f"eval_set {i}"
        X, y = check_data(estimator, X, y, what=what)
        weight = None if eval_sample_weight is None else eval_sample_weight[i]
        name = f"valid_{i}" if names is None else str(names[i])
        found.append(Dataset(X, encode(y, what), check_weight(weight, len(y), what), name))
    if len({rows.name for rows in found}) < len(found):
        raise DataError(f"eval_names must be different from one another, got {list(names)!r}")
    return found


def metric_list(given: Metric | Sequence[Metric] | None) -> list[Metric]:
    """Return one metric, several or none as a list."""
    if given is None:
        return []
    metrics = [given] if isinstance(given, str) or not isinstance(given, Iterable) else [*given]
    for metric in metrics:
        if not isinstance(metric, str) and not callable(metric):
            raise CarveError(
                f"eval_metric must be a name, a function, or a list of these, got {metric!r}"
            )
    return metrics


def callback_list(given: Any) -> list[Callback]:
    """Return one callback, several or none as a list."""
    callbacks = [*given] if isinstance(given, Iterable) else [] if given is None else [given]
    for callback in callbacks:
        if not callable(callback):
            raise CarveError(f"callbacks must be a list of functions, got {callback!r}")
    return callbacks


def is_early_stopping(callback: Callback) -> bool:
    """Return whether a callback is LightGBM's early stopping."""
    return _has(callback, "stopping_rounds")


def _has(callback: Callback, attribute: str) -> bool:
    """Return whether a callback is LightGBM's own with this attribute; its classes are private."""
    return type(callback).__module__ == "lightgbm.callback" and hasattr(callback, attribute)


class Metrics:
    """Computes the metrics of an `Evaluation` and keeps their history.

    `objective` are LightGBM's parameters of the objective; `robustness(rows)` returns the proven
    robustness of the model so far.
    """

    def __init__(
        self,
        evaluation: Evaluation,
        objective: Mapping[str, Any],
        robustness: Callable[[Dataset], float],
    ) -> None:
        self.evals_result: dict[str, dict[str, list[float]]] = {}
        self._evaluation = evaluation
        self._objective = objective
        self._robustness = robustness
        self._lightgbm_sets: dict[str, Any] = {}

    def evaluate(self, raw_scores: Sequence[Floats]) -> list[EvalResult]:
        """Return every metric on every set, given the sets' raw scores (n, n_outputs)."""
        results: list[EvalResult] = []
        for rows, raw in zip(self._evaluation.sets, raw_scores, strict=True):
            for metric in self._evaluation.metrics or [""]:
                results += [EvalResult(rows.name, *row) for row in self._measure(rows, metric, raw)]
        for name, metric_name, value, _ in results:
            history = self.evals_result.setdefault(name, {})
            history.setdefault(metric_name, []).append(value)
        return results

    def first_value(self, done: int) -> float | None:
        """Return the first metric on the first set after `done` rounds, or None."""
        for metrics in self.evals_result.values():
            for values in metrics.values():
                return values[done - 1] if 0 < done <= len(values) else None
        return None

    def _measure(self, rows: Dataset, metric: Metric, raw: Floats) -> list[tuple[str, float, bool]]:
        if metric == ROBUSTNESS:
            return [(ROBUSTNESS, self._robustness(rows), True)]
        if not callable(metric):
            return self._measure_by_lightgbm(rows, metric, raw)
        arguments: list[Any] = [rows.y, self._evaluation.transform(raw)]
        if len(inspect.signature(metric).parameters) > 2:
            arguments.append(rows.weight)
        found = metric(*arguments)
        results = found if isinstance(found, list) else [found]
        if not all(isinstance(row, tuple) and len(row) == 3 for row in results):
            name = getattr(metric, "__name__", "it")
            raise CarveError(
                f"eval_metric: {name} must return (name, value, higher is better), got {found!r}"
            )
        return results

    def _measure_by_lightgbm(
        self, rows: Dataset, metric: str, raw: Floats
    ) -> list[tuple[str, float, bool]]:
        """Evaluate a Booster of no trees that starts from the raw scores."""
        import lightgbm

        if rows.name not in self._lightgbm_sets:
            self._lightgbm_sets[rows.name] = lightgbm.Dataset(
                np.zeros((len(rows), 1), dtype=np.float32),
                rows.y,
                weight=rows.weight,
                params={"verbosity": -1, "feature_pre_filter": False},
                free_raw_data=False,
            ).construct()
        dataset = self._lightgbm_sets[rows.name]
        dataset.set_init_score(raw[:, 0] if raw.shape[1] == 1 else raw)
        params = {**self._objective, "verbosity": -1, "boost_from_average": False}
        if metric:
            params["metric"] = metric
        try:
            found = lightgbm.Booster(params, dataset).eval_train()
        except lightgbm.basic.LightGBMError as error:
            reason = str(error).split("\n")[0]
            raise CarveError(f"LightGBM cannot evaluate {metric!r}: {reason}") from None
        if not found:
            objective = self._objective.get("objective")
            raise CarveError(
                f"LightGBM has no metric {metric!r} for the objective {objective}; see its list of "
                "metrics, or write robustness"
            )
        return [(name, float(value), bool(higher)) for _, name, value, higher in found]


@dataclass
class EarlyStopping:
    """Stops when the first metric on the first set has not improved for `patience` rounds."""

    patience: int | None
    best_iteration: int = 0
    best_score: float | None = None

    def update(self, done: int, results: Sequence[EvalResult]) -> bool:
        """Return whether to stop after `done` rounds."""
        if self.patience is None:
            return False
        _, _, value, higher = results[0]
        best = self.best_score
        if best is None or (value > best if higher else value < best):
            self.best_iteration, self.best_score = done, value
        return done - self.best_iteration >= self.patience


def prove(
    ensemble: Ensemble, rows: Dataset, attacker: Attacker, threads: int | None, **options: Any
) -> VerificationTotals:
    """Return accuracy and proven robustness; `options` are those of `carvegbm.verify`.

    Labels are positions in `ensemble.classes`.
    """
    verifier = Verifier(ensemble, attacker, **options).for_blocks(threads)
    labels = ensemble.classes[np.asarray(rows.y, dtype=np.int64)]
    return VerificationTotals.of(verifier.verify(rows.X, labels).columns(), attacker)
