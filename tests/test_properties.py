"""Ranges of raw scores, and the properties that rest on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

import carvegbm as cg
from plain_trees import ensemble, hard, leaf, refused, split, stump

NORMS = [0, 1, 2, 3, "inf"]
ATTACKER = cg.Attacker("inf", 0.1)
STUMP = ensemble(stump(0, 0.5), link="logistic")
# Every tree twice, which the large-spread engine refuses.
TWICE = ensemble(stump(0, 0.5, -0.5, 0.5), stump(0, 0.5, -0.5, 0.5), link="logistic")


# ── output_range ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ["auto", "large-spread", "search"])
@pytest.mark.parametrize("norm", NORMS)
def test_range_is_what_the_attacker_can_reach(norm, engine):
    model = ensemble(
        stump(0, 0.5, 1.0, 4.0), stump(1, 0.5, 10.0, 30.0), n_features=2, task="regression"
    )
    attacker = cg.Attacker(norm, 1 if norm == 0 else 0.1)
    low, high = cg.output_range(model, [[0.45, 0.45], [0.55, 0.45]], attacker, engine=engine)
    both = norm not in (0, 1)  # 0.05 in both features costs less than 0.1
    assert low.tolist() == [11, 11]
    assert high.tolist() == [34 if both else 31, 34]


def test_range_holds_every_score_found_by_trying():
    rng = np.random.default_rng(1)
    model = ensemble(
        split(0, 0.5, stump(1, 0.3, 1.0, -2.0), stump(1, 0.7, 0.5, 3.0)), stump(1, 0.5, -1.0, 0.25),
        n_features=2, task="regression",
    )  # fmt: skip
    X = rng.random((30, 2))
    low, high = cg.output_range(model, X, cg.Attacker("inf", 0.25))
    tried = X[:, None] + rng.uniform(-0.25, 0.25, size=(30, 2000, 2))
    raw = model.raw_score(tried.reshape(-1, 2)).reshape(30, 2000)
    assert (low <= raw.min(axis=1)).all()
    assert (high >= raw.max(axis=1)).all()
    assert np.mean(low == raw.min(axis=1)) > 0.9  # and no more than that, where trying finds it


def test_constant_model_has_one_output():
    for model in (ensemble(leaf(2.5)), ensemble(base_score=2.5)):
        low, high = cg.output_range(model, [[0.0]], cg.Attacker(0, 1))
        assert (low.tolist(), high.tolist()) == ([2.5], [2.5])


def test_averaged_model_has_averaged_outputs():
    model = ensemble(stump(0, 0.5, 1.0, 2.0), leaf(3.0), average=2, task="regression")
    low, high = cg.output_range(model, [[0.45]], ATTACKER)
    assert (low.tolist(), high.tolist()) == ([2.0], [2.5])


def test_range_is_outer_when_time_runs_out():
    case = hard(16)
    exact = cg.output_range(case.ensemble, [case.x], case.attacker)
    assert exact[0].tolist() == [case.worst_margin]
    low, high = cg.output_range(case.ensemble, [case.x], case.attacker, timeout=1e-3)
    assert low[0] < case.worst_margin
    assert high[0] >= exact[1][0]


def test_range_is_nan_where_the_condition_fails_for_the_instance():
    low, high = cg.output_range(TWICE, [[0.1], [0.45]], ATTACKER, on_violation="unknown")
    np.testing.assert_array_equal(low, [-1, math.nan])
    np.testing.assert_array_equal(high, [-1, math.nan])
    with refused("not large-spread", kind=cg.NotLargeSpreadError):
        cg.output_range(TWICE, [[0.1]], ATTACKER, engine="large-spread")


def test_range_needs_one_output_and_an_engine_that_measures():
    with refused("one output", "3", "verify"):
        cg.output_range(ensemble(leaf([1, 2, 3])), [[0.0]], ATTACKER)
    with refused("'milp'", "ranges", "search"):
        cg.output_range(STUMP, [[0.0]], ATTACKER, engine="milp")


# ── the properties ───────────────────────────────────────────────────────────────────────────


def test_stability_is_no_change_of_more_than_c():
    X = [[0.45], [0.1]]
    assert cg.stability(STUMP, X, ATTACKER, c=2).tolist() == ["holds", "holds"]
    assert cg.stability(STUMP, X, ATTACKER, c=math.nextafter(2, 0)).tolist() == ["fails", "holds"]
    assert cg.stability(STUMP, X, ATTACKER, c=0).tolist() == ["fails", "holds"]


def test_stability_looks_both_ways():
    model = ensemble(split(0, 0.5, stump(0, 0.25, -5.0, 0.0), leaf(1.0)), task="regression")
    attacker = cg.Attacker("inf", 0.2)
    assert cg.stability(model, [[0.35]], attacker, c=2).tolist() == ["fails"]
    assert cg.stability(model, [[0.35]], attacker, c=5).tolist() == ["holds"]


def test_tie_that_rounding_could_decide_is_unknown():
    """0.1 + 0.2 + 0.3 depends on the order of the sum."""
    model = ensemble(*(stump(0, 0.5, 0.0, s) for s in (0.1, 0.2, 0.3)))
    assert cg.stability(model, [[0.45]], ATTACKER, c=0.6).tolist() == ["unknown"]
    assert cg.stability(model, [[0.45]], ATTACKER, c=0.61).tolist() == ["holds"]
    assert cg.stability(model, [[0.45]], ATTACKER, c=0.59).tolist() == ["fails"]


def test_small_neighbourhood_measures_the_change_in_budgets():
    X = [[0.45], [0.1]]
    assert cg.small_neighbourhood(STUMP, X, ATTACKER, c=21).tolist() == ["holds", "holds"]
    assert cg.small_neighbourhood(STUMP, X, ATTACKER, c=19).tolist() == ["fails", "holds"]


def test_high_confidence_concerns_confident_predictions_only():
    """The stump is 73 % sure of either side."""
    X = [[0.45], [0.55], [0.1], [0.9]]
    everywhere = cg.high_confidence(STUMP, X, ATTACKER, q=0.7)
    assert everywhere.tolist() == ["fails", "fails", "holds", "holds"]
    assert cg.high_confidence(STUMP, X, ATTACKER, q=0.75).tolist() == ["holds"] * 4


def test_high_confidence_knows_the_link_scale():
    model = ensemble(stump(0, 0.5), link="logistic", link_scale=0.5)  # 62 % sure
    assert cg.high_confidence(model, [[0.45]], ATTACKER, q=0.7).tolist() == ["holds"]
    assert cg.high_confidence(model, [[0.45]], ATTACKER, q=0.6).tolist() == ["fails"]


@pytest.mark.parametrize("answer", [cg.stability, cg.small_neighbourhood, cg.high_confidence])
def test_properties_are_unknown_where_the_range_is(answer):
    limit = {"q": 0.6} if answer is cg.high_confidence else {"c": 0.5}
    found = answer(TWICE, [[0.1], [0.45]], ATTACKER, **limit, on_violation="unknown")
    assert found.tolist() == ["holds", "unknown"]
    assert answer(TWICE, [[0.1], [0.45]], ATTACKER, **limit).tolist() == ["holds", "fails"]


@pytest.mark.parametrize("c", [-1, math.nan])
def test_change_must_not_be_negative(c):
    with refused("c must be >= 0", f"{c:g}"):
        cg.stability(STUMP, [[0.0]], ATTACKER, c=c)
    with refused("c must be >= 0"):
        cg.small_neighbourhood(STUMP, [[0.0]], ATTACKER, c=c)


@pytest.mark.parametrize("q", [0.4, 1, math.nan])
def test_confidence_is_a_probability_of_at_least_one_half(q):
    with refused("q must be a probability", f"{q:g}"):
        cg.high_confidence(STUMP, [[0.0]], ATTACKER, q=q)


def test_properties_name_the_models_they_cannot_take():
    with refused("norm inf", "2"):
        cg.small_neighbourhood(STUMP, [[0.0]], cg.Attacker(2, 1), c=1)
    with refused("logistic link", "'identity'"):
        cg.high_confidence(ensemble(stump(0, 0.5)), [[0.0]], ATTACKER, q=0.7)
    with refused("binary", "regression"):
        cg.high_confidence(ensemble(leaf(1.0), task="regression"), [[0.0]], ATTACKER, q=0.7)
