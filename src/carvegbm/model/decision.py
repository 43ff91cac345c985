"""Labels from raw scores, computed and rounded as the source library's own `predict` does.

Verdicts rest on none of this: they compare exact sums.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["class_indices", "may_round_to_a_tie"]

Floats = npt.NDArray[np.float64]

_PROBABILITY_ROUNDINGS = 8
"""Units in the last place by which a probability may be off: exponential, sum, quotient."""


def class_indices(ensemble: Ensemble, raw: Floats) -> npt.NDArray[np.intp]:
    """Return the class of each row; raw is (n,), or (n, n_outputs) for multiclass."""
    if ensemble.compares == "probability":
        raw = _probabilities(ensemble, raw)
        # 1 − p, as LightGBM has it, and p > 1/2, as XGBoost has it, are the same comparison.
        return np.asarray(raw.argmax(axis=1) if raw.ndim == 2 else raw > 0.5, dtype=np.intp)
    if raw.ndim == 2:
        return np.asarray(raw.argmax(axis=1))
    wins = raw >= ensemble.threshold if ensemble.tie == "positive" else raw > ensemble.threshold
    return wins.astype(np.intp)


def may_round_to_a_tie(ensemble: Ensemble, raw: Floats) -> npt.NDArray[np.bool_]:
    """Return whether rounding may change the class of each row.

    True if the two best raw scores, which the library may add up in another order, or the two best
    probabilities, if it compares these, are closer than the library's rounding.
    """
    if raw.ndim == 2:
        close = _lead(raw) <= 2 * _rounding_error(ensemble)
    else:
        close = np.abs(raw - ensemble.threshold) <= _rounding_error(ensemble)
    if ensemble.compares == "probability":
        probabilities = _probabilities(ensemble, raw)
        if probabilities.ndim == 1:
            probabilities = np.column_stack([1 - probabilities, probabilities])
        # Probabilities are at most 1, so units of 1 are at least units of the largest one.
        close |= _lead(probabilities) <= _PROBABILITY_ROUNDINGS * _unit(ensemble)
    return np.asarray(close)


def _lead(scores: Floats) -> Floats:
    """Return the difference between the largest and the second largest score of each row."""
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return np.asarray(first - second)


def _rounding_error(ensemble: Ensemble) -> float:
    """Return an upper bound on |library's raw score - exact sum|.

    Includes one more rounding, that of the difference to the threshold. A quotient below the normal
    numbers is rounded absolutely.
    """
    sums = 2 * _unit(ensemble) * (ensemble.n_trees + 3)
    return sums * float(ensemble.core.magnitude) / ensemble.average + 2 * math.ulp(0.0)


def _unit(ensemble: Ensemble) -> float:
    return 2.0**-24 if ensemble.sum_precision == "float32" else 2.0**-53


def _probabilities(ensemble: Ensemble, raw: Floats) -> Floats:
    """Return the positive class's probability (n,), or all classes' (n, n_outputs), rounded."""
    kind = np.dtype(ensemble.sum_precision).type

    def exp(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        # Correctly rounded float32, which the C library's expf nearly always is, too.
        return np.exp(values.astype(np.float64)).astype(kind)

    scaled = np.asarray(raw * ensemble.link_scale, dtype=kind)
    with np.errstate(over="ignore"):
        if ensemble.link == "softmax":
            terms = exp(scaled - scaled.max(axis=1, keepdims=True))
            total = terms.sum(axis=1, keepdims=True, dtype=np.float64).astype(kind)
            return np.asarray(terms / total, dtype=np.float64)
        return np.asarray(kind(1) / (kind(1) + exp(-scaled)), dtype=np.float64)
