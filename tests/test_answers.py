"""Every function that answers a question, on a sample; `tools/campaigns.py answers` runs many.

HYPOTHESIS_PROFILE=thorough takes a hundred times as many cases.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import oracle_properties
from answers import ANSWERS, arguments_of
from generators import make_case

CASES = 2 * settings.default.max_examples  # per function


def agrees(function: str, seed: int) -> None:
    check, arguments = ANSWERS[function][0], arguments_of(function, seed)
    try:
        check(make_case(*arguments))
    except Exception as error:
        raise AssertionError(f"{check.__name__}(make_case{arguments}): {error}") from error


@pytest.mark.parametrize("function", ANSWERS)
def test_every_answer_agrees_with_the_oracle(function):
    for seed in range(CASES):
        agrees(function, seed)


@given(function=st.sampled_from(list(ANSWERS)), seed=st.integers(0, 2**31))
def test_any_seed_agrees_with_the_oracle(function, seed):
    agrees(function, seed)


@pytest.fixture(scope="module")
def sample():
    """Binary cases of all kinds and norms."""
    return [make_case(*arguments_of("high_confidence", seed)) for seed in range(160)]


def test_sample_holds_numbers_of_every_size(sample):
    """Otherwise agreement would say little."""
    sizes = [np.abs(case.ensemble.scores).max(initial=0.0) for case in sample]
    assert sum(0 < size < 1e-290 for size in sizes) > 5
    assert sum(0 < size < 1e-310 for size in sizes) > 2
    assert sum(1e-290 < size < 1e-10 for size in sizes) > 5
    assert sum(size > 1e190 for size in sizes) > 5
    assert sum(case.ensemble.input_precision == "float32" for case in sample) > 10
    assert sum(case.ensemble.sum_precision == "float32" for case in sample) > 4
    assert sum(case.ensemble.average > 1 for case in sample) > 4


@pytest.mark.parametrize("tie", ["positive", "negative"])
def test_sample_holds_attacks_that_end_exactly_on_the_threshold(tie, sample):
    ties = 0
    for case in sample:
        threshold = Fraction(case.ensemble.threshold)
        found = oracle.attacks(case.ensemble, case.x, case.attacker)
        if case.ensemble.tie == tie:
            ties += any(attack.raw == [threshold] for attack in found)
    assert ties > 8


def test_sample_holds_confident_instances_that_can_be_flipped(sample):
    def at_its_own_probability(case):
        (raw,) = oracle.raw_score(case.ensemble, case.x)
        return oracle_properties.probability(abs(raw * Fraction(case.ensemble.link_scale)))[0]

    failing = [
        case
        for case in sample
        if not oracle_properties.high_confidence(
            case.ensemble, case.x, case.attacker, at_its_own_probability(case)
        )
    ]
    assert len(failing) > 15
