"""Evaluation during training: metrics on evaluation sets, and when to stop early.

Comes in: evaluation sets, metric names, the trees of each round. Goes out: values per round, and
whether the watched one still improves. Any LightGBM metric is computed by LightGBM itself, from
the raw scores kept here; "robustness" is proven by the verifier.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.readers.trees import Tree
from carvegbm.training.data import Labelled
from carvegbm.training.growing.grown import GrownTree

__all__ = [
    "ROBUSTNESS",
    "EarlyStopping",
    "EvaluationSet",
    "Metric",
    "Result",
    "Watch",
    "metric_list",
]

ROBUSTNESS = "robustness"
"""The metric's name: share of instances proven robust against the attacker."""

Metric = str | Callable[..., Any]
Floats = npt.NDArray[np.float64]


class Result(NamedTuple):
    """One metric on one evaluation set."""

    dataset_name: str
    metric_name: str
    metric_value: float
    maximize: bool


def metric_list(given: Metric | Sequence[Metric] | None) -> list[Metric]:
    """One metric, several or none as a list."""
    if given is None:
        return []
    metrics = [given] if isinstance(given, str) or not isinstance(given, Iterable) else [*given]
    for metric in metrics:
        if not isinstance(metric, str) and not callable(metric):
            raise CarveError(
                f"eval_metric must be a name, a function, or a list of these, got {metric!r}"
            )
    return metrics


@dataclass
class EvaluationSet:
    """Rows to evaluate on, with their running raw scores."""

    rows: Labelled
    codes: npt.NDArray[Any]
    raw: Floats  # (n, n_outputs)

    @classmethod
    def start(cls, rows: Labelled, codes: npt.NDArray[Any], n_outputs: int) -> EvaluationSet:
        """The set before the first round: raw score 0."""
        raw = np.zeros((len(rows), n_outputs), order="F")
        return cls(rows, codes, raw)

    @property
    def name(self) -> str:
        """What the user calls it."""
        return self.rows.name

    def add(self, trees: Sequence[GrownTree]) -> None:
        """Add one round of trees to the raw scores."""
        for output, tree in enumerate(trees):
            tree.add_to(self.raw[:, output], self.codes)


@dataclass
class Watch:
    """Evaluates every round.

    Parameters
    ----------
    sets : sequence of EvaluationSet
    metrics : sequence of Metric
        Empty: the objective's own metric.
    objective : mapping
        LightGBM's parameters of the objective.
    transform : callable
        From raw scores to what a custom metric sees: probabilities, or predicted values.
    prove : callable
        prove(trees, rows) gives the proven robustness of these trees on the rows of a set.
    """

    sets: Sequence[EvaluationSet]
    metrics: Sequence[Metric]
    objective: Mapping[str, Any]
    transform: Callable[[Floats], Floats]
    prove: Callable[[Sequence[Tree], Labelled], float]
    history: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    _trees: list[Tree] = field(default_factory=list)  # so far, as the verifier takes them
    _data: dict[str, Any] = field(default_factory=dict)

    def evaluate(self, trees: Sequence[GrownTree]) -> list[Result]:
        """Every metric on every set after this round."""
        results: list[Result] = []
        if ROBUSTNESS in self.metrics:
            self._trees += [tree.as_tree(output) for output, tree in enumerate(trees)]
        for data in self.sets:
            data.add(trees)
            for metric in self.metrics or [""]:
                results += [Result(data.name, *row) for row in self._measure(data, metric)]
        for name, metric, value, _ in results:
            self.history.setdefault(name, {}).setdefault(metric, []).append(value)
        return results

    def first_value(self, done: int) -> float | None:
        """The first metric on the first set after `done` rounds, where there is one."""
        for of_set in self.history.values():
            for values in of_set.values():
                return values[done - 1] if 0 < done <= len(values) else None
        return None

    def _measure(self, data: EvaluationSet, metric: Metric) -> list[tuple[str, float, bool]]:
        """Compute a metric from the raw scores of a set."""
        if metric == ROBUSTNESS:
            return [(ROBUSTNESS, self.prove(self._trees, data.rows), True)]
        if callable(metric):
            arguments: list[Any] = [data.rows.labels, self.transform(data.raw)]
            if len(inspect.signature(metric).parameters) > 2:
                arguments.append(data.rows.weight)
            found = metric(*arguments)
            rows = found if isinstance(found, list) else [found]
            if not all(isinstance(row, tuple) and len(row) == 3 for row in rows):
                name = getattr(metric, "__name__", "it")
                raise CarveError(
                    f"eval_metric: {name} must return (name, value, higher is better), "
                    f"got {found!r}"
                )
            return rows
        return self._measure_by_lightgbm(data, metric)

    def _measure_by_lightgbm(
        self, data: EvaluationSet, metric: str
    ) -> list[tuple[str, float, bool]]:
        """A Booster of no trees, which starts from our raw scores, evaluates just these."""
        import lightgbm

        if data.name not in self._data:
            column = np.zeros((len(data.rows), 1), dtype=np.float32)
            self._data[data.name] = lightgbm.Dataset(
                column,
                data.rows.labels,
                weight=data.rows.weight,
                params={"verbosity": -1, "feature_pre_filter": False},
                free_raw_data=False,
            ).construct()
        dataset = self._data[data.name]
        dataset.set_init_score(data.raw[:, 0] if data.raw.shape[1] == 1 else data.raw)
        parameters = {**self.objective, "verbosity": -1, "boost_from_average": False}
        if metric:
            parameters["metric"] = metric
        try:
            booster = lightgbm.Booster(parameters, dataset)
            rows = booster.eval_train()
        except lightgbm.basic.LightGBMError as error:
            reason = str(error).split("\n")[0]
            raise CarveError(f"LightGBM cannot evaluate {metric!r}: {reason}") from None
        if not rows:
            objective = self.objective.get("objective")
            raise CarveError(
                f"LightGBM has no metric {metric!r} for the objective {objective}; see its list of "
                "metrics, or write robustness"
            )
        return [(name, float(value), bool(higher)) for _, name, value, higher in rows]


@dataclass
class EarlyStopping:
    """Stops when the first metric on the first set has not improved for `patience` rounds."""

    patience: int | None
    best_round: int = 0
    best_value: float | None = None

    def update(self, done: int, results: Sequence[Result]) -> bool:
        """Whether to stop after `done` rounds."""
        if self.patience is None:
            return False
        _, _, value, higher = results[0]
        if self.best_value is None or (
            value > self.best_value if higher else value < self.best_value
        ):
            self.best_round, self.best_value = done, value
        return done - self.best_round >= self.patience
