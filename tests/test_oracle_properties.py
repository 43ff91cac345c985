"""The oracle's properties beyond robustness, on cases small enough to work out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import oracle_properties as truth
from oracle import Attacker
from plain_trees import ensemble, leaf, split, stump

ATTACKER = Attacker(math.inf, 0.125)
# From the middle down by 5, up by 1.
LOPSIDED = ensemble(split(0, 0.5, stump(0, 0.25, -5.0, 0.0), leaf(1.0)), task="regression")


def test_change_is_the_larger_of_both_ways():
    assert truth.largest_change(LOPSIDED, [0.375], ATTACKER) == 5
    assert truth.largest_change(LOPSIDED, [0.4], ATTACKER) == 1
    assert truth.largest_change(LOPSIDED, [0.7], ATTACKER) == 0


def test_stability_at_c_and_one_float_below():
    assert truth.stability(LOPSIDED, [0.375], ATTACKER, 5.0)
    assert not truth.stability(LOPSIDED, [0.375], ATTACKER, math.nextafter(5, 0))
    assert truth.stability(LOPSIDED, [0.7], ATTACKER, 0.0)


def test_stability_compares_the_exact_sum():
    """0.1 + 0.2 is less than the double that their sum rounds to, and more than the one below."""
    model = ensemble(stump(0, 0.5, 0.0, 0.1), stump(0, 0.5, 0.0, 0.2), task="regression")
    assert truth.stability(model, [0.45], ATTACKER, 0.1 + 0.2)
    assert not truth.stability(model, [0.45], ATTACKER, 0.3)
    assert math.nextafter(0.3, 1) == 0.1 + 0.2


def test_stability_of_an_average_compares_the_quotient():
    model = ensemble(stump(0, 0.5, 0.0, 1.0), leaf(0.0), leaf(0.0), task="regression", average=3)
    third = 1 / 3  # rounded down
    assert not truth.stability(model, [0.45], ATTACKER, third)
    assert truth.stability(model, [0.45], ATTACKER, math.nextafter(third, 1))


def test_small_neighbourhood_takes_the_product_as_a_real_number():
    step = ensemble(stump(0, 0.5, 0.0, 1.0), task="regression")
    assert truth.small_neighbourhood(step, [0.45], ATTACKER, 8.0)
    assert not truth.small_neighbourhood(step, [0.45], ATTACKER, math.nextafter(8, 0))
    # The double 1 / 3 is less than a third, though three of them round to 1.
    third = 1 / 3
    assert 3.0 * third == 1.0
    assert not truth.small_neighbourhood(step, [0.45], Attacker(math.inf, third), 3.0)
    above = math.nextafter(third, 1)
    assert truth.small_neighbourhood(step, [0.45], Attacker(math.inf, above), 3.0)


@pytest.mark.parametrize(
    ("evidence", "q", "expected"),
    [
        (Fraction(0), 0.5, True),
        (-Fraction(1, 10**500), 0.5, False),
        (Fraction(0), math.nextafter(0.5, 1), False),
        # ln 3 = 1.098612288668109691395245236922525704647490557822749…
        (Fraction("1.09861228866810969139524523692252570464749055782"), 0.75, False),
        (Fraction("1.09861228866810969139524523692252570464749055783"), 0.75, True),
        (Fraction(10) ** 300, 1 - 2.0**-53, True),
        (Fraction(36), 1 - 2.0**-53, False),  # 53 ln 2 = 36.7
        (Fraction(37), 1 - 2.0**-53, True),
    ],
)
def test_evidence_is_compared_with_the_logarithm_of_the_odds(evidence, q, expected):
    assert truth.reaches(evidence, q) == expected


def test_odds_close_to_one_have_a_logarithm_just_above_their_tangent():
    """ln((0.5 + h) / (0.5 - h)) = 4 h + 16 h^3 / 3 + …"""
    q = math.nextafter(0.5, 1)
    h = Fraction(q) - Fraction(1, 2)
    assert not truth.reaches(4 * h, q)
    assert truth.reaches(4 * h + 6 * h**3, q)


def test_probability_is_rounded_both_ways():
    assert truth.probability(Fraction(0)) == (0.5, math.nextafter(0.5, 1))
    assert truth.probability(Fraction(1000)) == (1 - 2.0**-53,) * 2
    low, high = truth.probability(Fraction(1))
    assert high == math.nextafter(low, 1)
    assert low <= 1 / (1 + math.exp(-1)) <= high
    low, high = truth.probability(Fraction(40))
    assert (low, high) == (1 - 2.0**-53,) * 2


def test_high_confidence_is_about_confident_instances_that_can_be_flipped():
    model = ensemble(stump(0, 0.5), link="logistic")  # e : 1, that is 73 %
    near, far = [0.45], [0.1]
    assert not truth.high_confidence(model, near, ATTACKER, 0.73)
    assert truth.high_confidence(model, near, ATTACKER, 0.74)
    assert truth.high_confidence(model, far, ATTACKER, 0.73)
    halved = ensemble(stump(0, 0.5), link="logistic", link_scale=0.5)  # 62 %
    assert truth.high_confidence(halved, near, ATTACKER, 0.73)
    assert not truth.high_confidence(halved, near, ATTACKER, 0.62)


def test_confidence_is_in_the_decided_class():
    """Decided at a threshold of 1: a raw score of 1/2 is negative, and in favour of positive."""
    model = ensemble(stump(0, 0.5, 0.5, 2.0), link="logistic", threshold=1.0)
    assert not truth.is_confident(model, [0.45], 0.5)
    assert truth.is_confident(model, [0.55], 0.5)
    assert truth.high_confidence(model, [0.45], ATTACKER, 0.5)
    assert not truth.high_confidence(model, [0.55], ATTACKER, 0.5)


@pytest.mark.parametrize("tie", ["positive", "negative"])
def test_undecided_instance_is_half_sure_of_the_class_that_wins_the_tie(tie):
    model = ensemble(stump(0, 0.5, 0.0, 1.0), link="logistic", tie=tie)
    assert truth.is_confident(model, [0.45], 0.5)
    assert not truth.is_confident(model, [0.45], math.nextafter(0.5, 1))
    # Up is another class only if a tie is negative.
    assert truth.high_confidence(model, [0.45], ATTACKER, 0.5) == (tie == "positive")
