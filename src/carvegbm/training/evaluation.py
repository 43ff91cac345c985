"""Check the evaluation arguments of `fit`, and prove robustness during training.

`Asked` holds `eval_set` and its companions as passed by the user; `Evaluation` holds them checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError
from carvegbm.parts.questions import Verify
from carvegbm.totals import VerificationTotals
from carvegbm.training import inputs
from carvegbm.training.data import Labelled
from carvegbm.training.growing.watching import Metric, metric_list

__all__ = ["Asked", "Evaluation", "is_early_stopping", "proven"]

Floats = npt.NDArray[np.float64]
Callback = Callable[[Any], Any]


@dataclass(frozen=True)
class Evaluation:
    """What to watch during training."""

    sets: Sequence[Labelled] = ()
    metrics: Sequence[Metric] = ()
    early_stopping_rounds: int | None = None
    callbacks: Sequence[Callback] = ()
    transform: Callable[[Floats], Floats] = field(default=lambda raw: raw)

    def __post_init__(self) -> None:
        """Refuse what would be watched, but on nothing."""
        asked = {
            "eval_metric": bool(self.metrics),
            "early_stopping_rounds": self.early_stopping_rounds is not None,
            "lightgbm.early_stopping": any(is_early_stopping(c) for c in self.callbacks),
            "lightgbm.record_evaluation": any(_has(c, "eval_result") for c in self.callbacks),
        }
        for name, is_asked in asked.items():
            if is_asked and not self.sets:
                raise CarveError(f"{name} needs eval_set; give validation data to fit")


@dataclass(frozen=True)
class Asked:
    """What a user asks `fit` to watch, as it was given."""

    eval_set: Any = None
    eval_names: Any = None
    eval_sample_weight: Any = None
    eval_metric: Metric | Sequence[Metric] | None = None
    early_stopping_rounds: int | None = None
    callbacks: Any = None

    def __post_init__(self) -> None:
        if self.early_stopping_rounds is not None:
            inputs.whole_number("early_stopping_rounds", self.early_stopping_rounds)

    def sets(
        self, estimator: Any, encode: Callable[[Any, str], npt.NDArray[Any]]
    ) -> list[Labelled]:
        """The evaluation sets, checked as rows for an estimator; `encode` encodes their labels."""
        pairs = inputs.evaluation_pairs(self.eval_set)
        names = [self.eval_names] if isinstance(self.eval_names, str) else self.eval_names
        weights = self.eval_sample_weight
        for given, what in ((names, "eval_names"), (weights, "eval_sample_weight")):
            if given is not None and not pairs:
                raise DataError(f"{what} needs eval_set; give validation data to fit")
            if given is not None and (n_given := _count(given, what)) != len(pairs):
                raise DataError(
                    f"{what} has {n_given} entries, eval_set has {len(pairs)} pairs (X, y); give "
                    "a list with one entry per pair"
                )
        found = []
        for i, (X, y) in enumerate(pairs):
            what = f"eval_set {i}"
            name = f"valid_{i}" if names is None else str(names[i])
            X, y = inputs.check_pair(estimator, X, y, what=what)
            weight = None
            if weights is not None:
                weight = inputs.check_weight(weights[i], len(y), what)
            found.append(Labelled(X, encode(y, what), weight, name))
        if len({rows.name for rows in found}) < len(found):
            raise DataError("eval_names must be different from one another")
        return found

    def evaluation(
        self, sets: Sequence[Labelled], transform: Callable[[Floats], Floats]
    ) -> Evaluation:
        """What to watch on these sets; custom metrics see what `transform` makes of raw scores."""
        return Evaluation(
            sets=sets,
            metrics=metric_list(self.eval_metric),
            early_stopping_rounds=self.early_stopping_rounds,
            callbacks=_callback_list(self.callbacks),
            transform=transform,
        )


def proven(
    ensemble: Ensemble, rows: Labelled, attacker: Attacker, threads: int | None, **options: Any
) -> VerificationTotals:
    """Verify labelled rows and count the verdicts.

    `rows.labels` are indices into `ensemble.classes`; `options` are those of `carvegbm.verify`.
    """
    question = Verify.of(ensemble, attacker, **options)
    labels = ensemble.classes[np.asarray(rows.labels, dtype=np.int64)]
    totals = question.totals(question.answer(rows.X, labels, threads=threads))
    assert isinstance(totals, VerificationTotals)
    return totals


def is_early_stopping(callback: Callback) -> bool:
    """Whether a callback is LightGBM's early stopping."""
    return _has(callback, "stopping_rounds")


def _has(callback: Callback, attribute: str) -> bool:
    """Whether a callback is LightGBM's own with this attribute: its classes have no public name."""
    return type(callback).__module__ == "lightgbm.callback" and hasattr(callback, attribute)


def _callback_list(given: Any) -> tuple[Callback, ...]:
    callbacks = given if isinstance(given, Iterable) else () if given is None else (given,)
    found = tuple(callbacks)
    for callback in found:
        if not callable(callback):
            raise CarveError(f"callbacks must be a list of functions, got {callback!r}")
    return found


def _count(given: Any, what: str) -> int:
    if not isinstance(given, Sized):
        raise DataError(f"{what} must be a list, got {given!r}")
    return len(given)
