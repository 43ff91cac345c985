"""Evaluation during training: data sets, metrics per round, early stopping, proofs.

LightGBM computes its metrics from the raw scores of a round; the metric "robustness" is the share
of rows that the verifier proves robust.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.errors import CarveError, DataError
from carvegbm.model.ensemble import Ensemble
from carvegbm.queries import output_range
from carvegbm.totals import VerificationTotals
from carvegbm.training.dataset import Dataset
from carvegbm.training.validation import check_data, check_weight, evaluation_pairs
from carvegbm.verifier import Verifier

__all__ = ["ROBUSTNESS", "EvalResult", "Evaluation", "Metric", "Metrics"]
__all__ += [
    "as_list",
    "evaluation_sets",
    "is_of_lightgbm",
    "prove",
    "run_callbacks",
    "worst_errors",
]

ROBUSTNESS = "robustness"
"""Name of the metric that is proven."""

Floats = npt.NDArray[np.float64]
Callback = Callable[[Any], Any]
Metric = str | Callable[..., Any]
EvalResult = tuple[str, str, float, bool]
"""Data set, metric, value, and whether a larger one is better."""


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
            "lightgbm.early_stopping": any(
                is_of_lightgbm(c, "stopping_rounds") for c in self.callbacks
            ),
            "lightgbm.record_evaluation": any(
                is_of_lightgbm(c, "eval_result") for c in self.callbacks
            ),
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


def as_list(name: str, given: Any, names: bool = False) -> list[Any]:
    """Return one function, several or none as a list; `names` are allowed in their place."""
    several = isinstance(given, Iterable) and not isinstance(given, str)
    found = [*given] if several else [] if given is None else [given]
    for each in found:
        if not callable(each) and not (names and isinstance(each, str)):
            kinds = "a name, a function, or a list of these" if names else "a list of functions"
            raise CarveError(f"{name} must be {kinds}, got {each!r}")
    return found


def is_of_lightgbm(callback: Callback, attribute: str) -> bool:
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
                results += [(rows.name, *row) for row in self._measure(rows, metric, raw)]
        for name, metric_name, value, _ in results:
            history = self.evals_result.setdefault(name, {})
            history.setdefault(metric_name, []).append(value)
        return results

    def first_value(self, done: int) -> float | None:
        """Return the first metric on the first set after `done` rounds, or None."""
        histories = [values for named in self.evals_result.values() for values in named.values()]
        return histories[0][done - 1] if histories and 0 < done <= len(histories[0]) else None

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


def run_callbacks(
    callbacks: Sequence[Callback],
    model: Any,
    params: dict[str, Any],
    done: int,
    n_rounds: int,
    results: Sequence[EvalResult] | None,
) -> None:
    """Call what is to be called before a round (`results` is None) or after it, in LightGBM's way.

    `done` rounds are finished before this one.
    """
    import lightgbm
    from lightgbm.callback import CallbackEnv

    kind = getattr(lightgbm, "EvalResult", None)  # plain tuples before LightGBM 4.7
    named = results if results is None or kind is None else [kind(*result) for result in results]
    environment = CallbackEnv(model, params, done, 0, n_rounds, named)
    for callback in sorted(callbacks, key=lambda each: getattr(each, "order", 0)):
        if bool(getattr(callback, "before_iteration", False)) is (results is None):
            callback(environment)


def prove(
    ensemble: Ensemble, rows: Dataset, attacker: Attacker, threads: int | None, **options: Any
) -> VerificationTotals:
    """Return accuracy and proven robustness; `options` are those of `carvegbm.verify`.

    Labels are positions in `ensemble.classes`.
    """
    verifier = Verifier(ensemble, attacker, **options).for_blocks(threads)
    labels = ensemble.classes[np.asarray(rows.y, dtype=np.int64)]
    return VerificationTotals.of(verifier.verify(rows.X, labels).columns(), attacker)


def worst_errors(
    ensemble: Ensemble, X: Any, y: Floats, attacker: Attacker, **options: Any
) -> Floats:
    """Return max((highest - y)^2, (y - lowest)^2) per row, with outer bounds on unknown ends.

    `options` are those of `carvegbm.output_range`.
    """
    found = output_range(ensemble, X, attacker, progress=False, **options)
    return np.asarray(np.maximum(found.highest_upper - y, y - found.lowest_lower) ** 2)
