"""The slow truth about the properties beyond robustness, in exact rationals as in `oracle`.

Comes in: an ensemble with one output, an instance, an attacker, a limit c or q.
Goes out: whether the property holds. Logarithms are compared with rationals by bounds that are
narrowed until they tell: the logarithm of a rational is never rational, but for ln 1 = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import oracle
from oracle import Attacker


def largest_change(ensemble: Any, x: Sequence[float], attacker: Attacker) -> Fraction:
    """max |raw(z) - raw(x)| over all z in reach."""
    (raw,) = oracle.raw_score(ensemble, x)
    (lowest,), (highest,) = oracle.output_range(ensemble, x, attacker)
    return max(highest - raw, raw - lowest)


def stability(ensemble: Any, x: Sequence[float], attacker: Attacker, c: float) -> bool:
    """|raw(z) - raw(x)| <= c for all z in reach."""
    return largest_change(ensemble, x, attacker) <= Fraction(c)


def small_neighbourhood(ensemble: Any, x: Sequence[float], attacker: Attacker, c: float) -> bool:
    """|raw(z) - raw(x)| <= c * budget for all z in reach."""
    return largest_change(ensemble, x, attacker) <= Fraction(c) * Fraction(attacker.budget)


def high_confidence(ensemble: Any, x: Sequence[float], attacker: Attacker, q: float) -> bool:
    """The decided class is less probable than q, or no z in reach flips it."""
    return (
        not is_confident(ensemble, x, q)
        or oracle.witness(
            ensemble, x, oracle.decide(ensemble, oracle.raw_score(ensemble, x)), attacker
        )
        is None
    )


def is_confident(ensemble: Any, x: Sequence[float], q: float) -> bool:
    """s * raw(x) >= ln(q / (1 - q)), or -s * raw(x) if the decided class is the negative one."""
    raw = oracle.raw_score(ensemble, x)
    evidence = Fraction(ensemble.link_scale) * raw[0]
    return reaches(evidence if oracle.decide(ensemble, raw) == 1 else -evidence, q)


def reaches(evidence: Fraction, q: float) -> bool:
    """Whether evidence >= ln(q / (1 - q)) for a probability q in [0.5, 1)."""
    odds = Fraction(q) / (1 - Fraction(q))
    if odds == 1:
        return evidence >= 0
    digits = 30
    while True:
        low, high = _logarithm(odds, digits)
        if not low < evidence < high:
            return evidence >= high
        digits *= 2


def probability(evidence: Fraction) -> tuple[float, float]:
    """1 / (1 + exp(-evidence)) for an evidence >= 0, rounded down and up, within [0.5, 1)."""
    last = 1 - 2.0**-53
    if evidence > 40:
        return last, last
    low = 0.5
    for bit in range(2, 54):  # the doubles in [0.5, 1) are the multiples of 2^-53
        if reaches(evidence, low + 2.0**-bit):
            low += 2.0**-bit
    return low, min(low + 2.0**-53, last)


def _logarithm(value: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Bounds on ln(value) for a value > 1.

    The quotient is off by less than 10^(1 - digits) of itself, and so its logarithm by less than
    twice as much; `Decimal.ln` is rounded correctly, off by less than 10^(1 - digits) of itself.
    """
    with localcontext() as context:
        context.prec = digits
        found = Fraction((Decimal(value.numerator) / Decimal(value.denominator)).ln())
    off = (2 + abs(found)) * Fraction(10) ** (2 - digits)
    return found - off, found + off
