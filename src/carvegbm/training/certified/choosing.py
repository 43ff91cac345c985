"""The choice of certified training: how accurate a model must be, which one wins, and why.

Comes in: figures of trials on validation rows. Goes out: the one to keep, and a sentence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from carvegbm.errors import CarveError
from carvegbm.training.certified.report import CertifiedTrial
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.lightgbm_c import refusal

__all__ = [
    "accuracy_floor",
    "check_clean_loss",
    "check_quietness",
    "choose",
    "plain_accuracy_of",
    "reason",
]


def reason(
    robustness: float,
    accuracies: Sequence[float],
    floor: float | None,
    plain_accuracy: float | None,
    reached: float | None = None,
) -> str:
    """Why a model of this robustness was chosen among trials of these accuracies.

    `reached` is the best of them, to be named where it is less than plain LightGBM's accuracy.
    """
    best = f"the largest proven robustness on validation data, {robustness:.4f}, of"
    if floor is None:
        return f"{best} {len(accuracies)} trials"
    limit = f"{floor:.4f}"
    if plain_accuracy is not None and reached is not None and reached < plain_accuracy:
        limit += (
            f" (the most accurate trial has {reached:.4f}, plain LightGBM {plain_accuracy:.4f})"
        )
    elif plain_accuracy is not None:
        limit += f" (plain LightGBM has {plain_accuracy:.4f})"
    able = sum(accuracy >= floor for accuracy in accuracies)
    able_ones = f"the {able} of {len(accuracies)} trials"
    return f"{best} {able_ones} that are at least as accurate as {limit}"


def choose(found: Sequence[CertifiedTrial], floor: float | None) -> CertifiedTrial:
    """The most robust trial that is accurate enough; there always is one."""
    able = [t for t in found if floor is None or t.accuracy >= floor]
    return max(able, key=lambda t: (t.robustness, t.accuracy, not t.scout, -t.leaves))


def accuracy_floor(goal: float, reached: float, clean_loss: float) -> float:
    """The smallest acceptable accuracy: `clean_loss` below the goal, or below what was reached.

    Accuracies are quotients of counts; the slack keeps rounding from telling equal ones apart.
    """
    return min(goal, reached) - clean_loss - 1e-9


def check_quietness(given: Any, norm: float) -> tuple[float | None, ...]:
    """Values of quietness to try: one, or several in a sequence; none applies to norm 0."""
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values = tuple(given) if several else (given,)
    for value in values:
        if value is not None and not (_is_number(value) and 0 < value <= 1):
            raise CarveError(f"quietness must be None or a share in (0, 1], got {value!r}")
    if not values:
        raise CarveError("quietness must hold at least one value; None closes no threshold")
    numbers = (None if value is None else float(value) for value in values)
    return (None,) if norm == 0 else tuple(dict.fromkeys(numbers))


def check_clean_loss(given: Any) -> float | None:
    """Accuracy that may be given up: None for all of it."""
    if given is not None and not (_is_number(given) and 0 <= given <= 1):
        raise CarveError(f"clean_loss must be None or from 0 to 1, got {given!r}")
    return None if given is None else float(given)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, Real)


def plain_accuracy_of(
    data: Dataset,
    valid: Dataset,
    parameters: Mapping[str, Any],
    *,
    n_rounds: int,
    early_stopping_rounds: int | None,
    threads: int,
    categorical: Collection[int] = (),
) -> float:
    """Accuracy of plain LightGBM on the validation rows, trained with the same parameters."""
    import lightgbm

    named = sorted(categorical) if categorical else "auto"
    rows = lightgbm.Dataset(data.X, data.y, weight=data.weight, categorical_feature=named)
    held_out = lightgbm.Dataset(valid.X, valid.y, reference=rows)
    stop = [] if early_stopping_rounds is None else [early_stopping_rounds]
    try:
        booster = lightgbm.train(
            {**parameters, "num_threads": threads, "verbosity": -1},
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
