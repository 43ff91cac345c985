"""From raw scores to labels, as the source library's own `predict` goes.

Comes in: raw scores as the library rounds them. Goes out: the class it names, and whether rounding
may name another. Verdicts do not rest on any of this: they compare exact sums.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["class_indices", "may_round_to_a_tie"]

Floats = npt.NDArray[np.float64]

_UNITS_OF_DOUBT = 8
"""A few roundings of a probability: of the exponential, the sum and the quotient."""


def class_indices(ensemble: Ensemble, raw: Floats) -> npt.NDArray[np.intp]:
    """The class of every row: raw is (n,), or (n, n_outputs) for multiclass."""
    if ensemble.compares == "probability":
        raw = _probabilities(ensemble, raw)
        # 1 − p, as LightGBM has it, and p > 1/2, as XGBoost has it, are the same comparison.
        return np.asarray(raw.argmax(axis=1) if raw.ndim == 2 else raw > 0.5, dtype=np.intp)
    if raw.ndim == 2:
        return np.asarray(raw.argmax(axis=1))
    wins = raw >= ensemble.threshold if ensemble.tie == "positive" else raw > ensemble.threshold
    return wins.astype(np.intp)


def may_round_to_a_tie(ensemble: Ensemble, raw: Floats) -> npt.NDArray[np.bool_]:
    """Where rounding may name another class: the two first are too close to tell them apart.

    That is, by their raw scores, which the library may add up in another order, or by their
    probabilities, where it compares these.
    """
    if raw.ndim == 2:
        close = _lead(raw) <= 2 * _rounding_error(ensemble)
    else:
        close = np.abs(raw - ensemble.threshold) <= _rounding_error(ensemble)
    if ensemble.compares == "probability":
        shares = _probabilities(ensemble, raw)
        if shares.ndim == 1:
            shares = np.column_stack([1 - shares, shares])
        # No probability is beyond 1, so that units of 1 are units of the largest, or more.
        close |= _lead(shares) <= _UNITS_OF_DOUBT * _unit(ensemble)
    return np.asarray(close)


def _lead(scores: Floats) -> Floats:
    """By how much the first class leads the second."""
    second, first = np.partition(scores, -2, axis=1)[:, -2:].T
    return np.asarray(first - second)


def _rounding_error(ensemble: Ensemble) -> float:
    """How far the source library's rounded raw score can be from the exact sum, at most.

    Less the threshold, which takes one rounding more; a quotient below the normal numbers is
    rounded absolutely.
    """
    sums = 2 * _unit(ensemble) * (ensemble.n_trees + 3)
    return sums * float(ensemble.core.magnitude) / ensemble.average + 2 * math.ulp(0.0)


def _unit(ensemble: Ensemble) -> float:
    return 2.0**-24 if ensemble.sum_precision == "float32" else 2.0**-53


def _probabilities(ensemble: Ensemble, raw: Floats) -> Floats:
    """Of the positive class (n,), or of every class (n, n_outputs), rounded as the library does."""
    kind = np.dtype(ensemble.sum_precision).type

    def exp(values: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        # Correctly rounded float32, as the C library's expf all but always is.
        return np.exp(values.astype(np.float64)).astype(kind)

    scaled = np.asarray(raw * ensemble.link_scale, dtype=kind)
    with np.errstate(over="ignore"):
        if ensemble.link == "softmax":
            shares = exp(scaled - scaled.max(axis=1, keepdims=True))
            total = shares.sum(axis=1, keepdims=True, dtype=np.float64).astype(kind)
            return np.asarray(shares / total, dtype=np.float64)
        return np.asarray(kind(1) / (kind(1) + exp(-scaled)), dtype=np.float64)
