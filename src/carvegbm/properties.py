"""Properties of rows that are decided exactly: limits c and probabilities q as rational numbers.

P(positive class) = 1 / (1 + exp(−s · raw)) with s = `link_scale`. It is >= q iff
s · raw >= ln q − ln(1 − q). A raw score is rational; the right side is not, unless q = 1/2, so that
enough digits always decide the comparison.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.model.ensemble import Ensemble
from carvegbm.problem import Problem, Rows
from carvegbm.statuses import named

__all__ = ["Answers", "answers", "check_level", "check_limit", "core_limit", "is_confident"]

Answers = npt.NDArray[np.str_]
""""holds" or "fails" per row, as a theorem; "unknown" if the engines leave the row undecided."""


def answers(status: npt.NDArray[np.uint8]) -> Answers:
    """Translate statuses: a property holds for robust rows and fails for fragile ones."""
    words = {"robust": "holds", "fragile": "fails", "unknown": "unknown"}
    return np.array([words[name] for name in named(status).tolist()], dtype="<U7")


def core_limit(ensemble: Ensemble, limit: Fraction) -> npt.NDArray[np.float64]:
    """Return the limit of changes of the raw score as doubles with this exact sum.

    Two sums of one leaf per tree differ by at most twice their magnitude, which is rounded; larger
    limits are cut off at four times the magnitude.
    """
    most = 4 * Fraction(float(ensemble.core.magnitude))
    return np.array(_as_doubles(min(limit * ensemble.average, most)))


def check_limit(c: Any) -> Fraction:
    """Return a number >= 0 as a rational; one beyond all doubles as the largest double."""
    most = Fraction(float(np.finfo(np.float64).max))
    try:
        if isinstance(c, str | bytes):
            raise TypeError
        if isinstance(c, Rational):
            number = Fraction(int(c.numerator), int(c.denominator))  # NumPy's overflow
        else:
            number = most if float(c) == math.inf else Fraction(float(c))
    except (TypeError, ValueError, OverflowError):
        number = Fraction(-1)
    if number < 0:
        raise CarveError(f"c must be a number >= 0, got {c!r}")
    return min(number, most)


def _as_doubles(number: Fraction) -> list[float]:
    """Return doubles whose sum is the number rounded down to a multiple of 2^-1074.

    Sums of scores are such multiples, so that both limits mean the same.
    """
    units = number.numerator * 2**1074 // number.denominator
    parts = []
    while units:
        length = max(units.bit_length() - 53, 0)
        part = units >> length << length
        parts.append(float(Fraction(part, 2**1074)))
        units -= part
    return parts or [0.0]


def is_confident(
    problem: Problem, rows: Rows, level: Fraction, threads: int | None
) -> npt.NDArray[np.bool_]:
    """Return where the probability of the label, which is the model's answer, is >= level."""
    assert rows.labels is not None
    ensemble, positive = problem.ensemble, rows.labels == 1
    # The raw score, with its sign changed for the negative class, to within a few roundings.
    margin = problem.unattacked(rows, threads).margin
    side = margin + np.where(positive, 1, -1) * ensemble.threshold
    needed = _log_odds(level, 30)
    # A filter in doubles; rows that are too close are compared exactly.
    limit = float(needed) / ensemble.link_scale
    doubt = 1e-12 * (abs(limit) + np.abs(side) + abs(ensemble.threshold)) + 1e-290
    confident = side >= limit
    for row in np.flatnonzero(~(np.abs(side - limit) > doubt)).tolist():
        exact = _exact_raw(ensemble, rows.given[row])
        scaled = (exact if positive[row] else -exact) * Fraction(ensemble.link_scale)
        confident[row] = _reaches(scaled, level)
    return np.asarray(confident)


def check_level(q: Any) -> Fraction:
    """Return a probability in [0.5, 1) as a rational."""
    try:
        if isinstance(q, str | bytes):
            raise TypeError
        level = float(q)
    except (TypeError, ValueError, OverflowError):
        raise CarveError(f"q must be a probability in [0.5, 1), got {q!r}") from None
    if not 0.5 <= level < 1:
        raise CarveError(f"q must be a probability in [0.5, 1), got {level:g}")
    return Fraction(level)


def _exact_raw(ensemble: Ensemble, x: npt.NDArray[Any]) -> Fraction:
    """Return the raw score of one row in code space as a rational."""
    leaves = np.flatnonzero(ensemble.core.leaf_counts(ensemble.states(x[None]), 1))
    total = sum(map(Fraction, ensemble.scores[leaves, 0].tolist()))
    return (Fraction(float(ensemble.base_score[0])) + total) / ensemble.average


def _reaches(scaled: Fraction, level: Fraction) -> bool:
    """Return whether scaled >= ln(level) − ln(1 − level), exactly."""
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
    """Return ln(level) − ln(1 − level) to `digits` digits; level is a double in [1/2, 1)."""
    context = Context(prec=digits)

    def log(number: Fraction) -> Decimal:
        # A double has finitely many decimals: this quotient is exact.
        exact = Context(prec=1100).divide(Decimal(number.numerator), Decimal(number.denominator))
        return exact.ln(context)

    return context.subtract(log(level), log(1 - level))
