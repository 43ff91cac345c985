"""Confidence: can what is predicted with probability >= q be flipped? Decided exactly.

probability of the positive class = 1 / (1 + exp(−s · raw)), s being the ensemble's `link_scale`, so
that it is >= q iff s · raw >= ln q − ln(1 − q). A raw score is rational and the logarithm is not,
but at q = 1/2: the two never meet elsewhere, and enough digits always tell.
"""

from __future__ import annotations

from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import Task, decide
from carvegbm.errors import CarveError
from carvegbm.model.ensemble import Ensemble
from carvegbm.problem import Problem, Rows
from carvegbm.progress import showing
from carvegbm.ranges import Answers, answers, property_settings

__all__ = ["high_confidence"]

Bools = npt.NDArray[np.bool_]


def high_confidence(
    model: Any, X: npt.ArrayLike, attacker: Attacker, q: float, **options: Any
) -> Answers:
    """An instance predicted with probability >= q cannot be flipped; decided exactly.

    Holds as well where the prediction is less confident than q. Binary models with a logistic
    link only. The probability is that of the exact raw score. `options` are `engine`, `timeout`,
    `threads`, `on_violation` and `progress`, as in `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, link="logistic")
    >>> cg.high_confidence(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), q=0.7).tolist()
    ['fails', 'holds']
    """
    settings, progress = property_settings(**options)
    level, problem = _check_level(q), Problem(model, attacker)
    ensemble = problem.ensemble
    if ensemble.task != "binary" or ensemble.link != "logistic":
        raise CarveError(
            f"high_confidence needs a binary model with a logistic link, got {ensemble!r} "
            f"with link {ensemble.link!r}"
        )
    rows = problem.rows(X, None, settings.threads)
    found = np.full(len(rows), "holds", dtype="<U7")
    confident = [
        _is_confident(part_of, part, level, settings.threads)
        for _, part_of, part in problem.dense(rows)
    ]
    asked = np.flatnonzero(np.concatenate(confident))
    if len(asked):
        with showing(progress, len(asked), "verifying") as listen:
            decided = decide(Task(problem, settings), rows.take(asked), listen)
        found[asked] = answers(decided.status)
    return found


def _is_confident(problem: Problem, rows: Rows, level: Fraction, threads: int | None) -> Bools:
    """Whether the probability of the class decided, the label, is >= level, per row."""
    assert rows.labels is not None
    ensemble, positive = problem.ensemble, rows.labels == 1
    # The raw score, negative for the negative class, to within a few roundings.
    margin = problem.unattacked(rows, threads).margin
    side = margin + np.where(positive, 1, -1) * ensemble.threshold
    needed = _log_odds(level, 30)
    # As doubles first; what is too close to tell is decided by digits.
    limit = float(needed) / ensemble.link_scale
    doubt = 1e-12 * (abs(limit) + np.abs(side) + abs(ensemble.threshold)) + 1e-290
    confident = side >= limit
    for row in np.flatnonzero(~(np.abs(side - limit) > doubt)).tolist():
        exact = _exact_raw(ensemble, rows.given[row])
        scaled = (exact if positive[row] else -exact) * Fraction(ensemble.link_scale)
        confident[row] = _reaches(scaled, level)
    return np.asarray(confident)


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


def _exact_raw(ensemble: Ensemble, x: npt.NDArray[Any]) -> Fraction:
    """The raw score of one instance in code space, as the rational number it is."""
    leaves = np.flatnonzero(ensemble.core.leaf_counts(ensemble.states(x[None]), 1))
    total = sum(map(Fraction, ensemble.scores[leaves, 0].tolist()))
    return (Fraction(float(ensemble.base_score[0])) + total) / ensemble.average


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
