"""Confidence: is an instance predicted with probability >= q? Decided exactly.

probability of the positive class = 1 / (1 + exp(−s · raw)), s being the ensemble's `link_scale`, so
that it is >= q iff s · raw >= ln q − ln(1 − q). A raw score is rational and the logarithm is not,
but at q = 1/2: the two never meet elsewhere, and enough digits always tell.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.engines import Rows, undecided
from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["is_confident"]

Bools = npt.NDArray[np.bool_]


def is_confident(ensemble: Ensemble, rows: Rows, q: float) -> tuple[Bools, Bools]:
    """(the class decided is the positive one, its probability is >= q), per row."""
    level = _check_level(q)
    positive, raw = _decisions(ensemble, rows)
    side = np.where(positive, raw, -raw)
    needed = _log_odds(level, 30)
    # As doubles first; what is too close to tell is decided by digits.
    limit = float(needed) / ensemble.link_scale
    doubt = 1e-12 * (abs(limit) + np.abs(side) + abs(ensemble.threshold)) + 1e-290
    confident = side >= limit
    for row in np.flatnonzero(~(np.abs(side - limit) > doubt)).tolist():
        exact = _exact_raw(ensemble, np.asarray(rows[row], dtype=np.float64))
        scaled = (exact if positive[row] else -exact) * Fraction(ensemble.link_scale)
        confident[row] = _reaches(scaled, level)
    return positive, confident


def _check_level(q: Any) -> Fraction:
    try:
        if isinstance(q, str | bytes):
            raise TypeError
        level = float(q)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"q must be a probability in [0.5, 1), got {q!r}") from None
    if not 0.5 <= level < 1:
        raise CarveError(f"q must be a probability in [0.5, 1), got {level:g}")
    return Fraction(level)


def _decisions(ensemble: Ensemble, rows: Rows) -> tuple[Bools, npt.NDArray[np.float64]]:
    """(the exact decision is the positive class, the raw score to within a few roundings)."""
    ones = np.ones(len(rows), dtype=np.int32)
    known = undecided(ensemble, Attacker(math.inf, 0), rows, ones, witness=False)
    return known.right, known.margin + ensemble.threshold


def _exact_raw(ensemble: Ensemble, x: npt.NDArray[np.float64]) -> Fraction:
    """The raw score of one instance, as the rational number it is."""
    if ensemble.input_precision == "float32":
        with np.errstate(over="ignore"):
            x = x.astype(np.float32).astype(np.float64)
    total = Fraction(float(ensemble.base_score[0]))
    for root in ensemble.roots.tolist():
        node = ensemble.nodes[root]
        while node["feature"] >= 0:
            value = x[node["feature"]]
            left = node["missing"] == 1 if np.isnan(value) else value <= node["threshold"]
            node = ensemble.nodes[node["left" if left else "right"]]
        total += Fraction(float(ensemble.scores[node["left"], 0]))
    return total / ensemble.average


def _reaches(scaled: Fraction, level: Fraction) -> bool:
    """scaled >= ln(level) − ln(1 − level), exactly."""
    if level == Fraction(1, 2):
        return scaled >= 0
    digits = 40
    while True:
        needed = Fraction(_log_odds(level, digits))
        # Each logarithm is rounded correctly, and so is their difference: three units at most.
        doubt = 3 * Fraction(10) ** (3 - digits) * (1 + abs(needed))
        if abs(scaled - needed) > doubt:
            return scaled > needed
        digits *= 2


def _log_odds(level: Fraction, digits: int) -> Decimal:
    """ln(level) − ln(1 − level) to so many digits; level is a double in [1/2, 1)."""
    context = Context(prec=digits)

    def log(number: Fraction) -> Decimal:
        # A double has finitely many decimals: this quotient is exact.
        exact = Context(prec=1100).divide(Decimal(number.numerator), Decimal(number.denominator))
        return exact.ln(context)

    return context.subtract(log(level), log(1 - level))
