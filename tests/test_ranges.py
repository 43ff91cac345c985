"""Ranges of raw scores, and the properties that rest on them."""

from __future__ import annotations

import json
import math
from decimal import Context, Decimal
from fractions import Fraction

import numpy as np
import pytest

import carvegbm as cg
from plain_trees import ensemble, hard, leaf, refused, split, stump

NORMS = [0, 1, 2, 3, "inf"]
ATTACKER = cg.Attacker("inf", 0.1)
DIGITS = Context(prec=60)
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
    found = cg.output_range(model, [[0.45, 0.45], [0.55, 0.45]], attacker, engine=engine)
    both = norm not in (0, 1)  # 0.05 in both features costs less than 0.1
    assert found.exact.all()
    assert found.lowest.tolist() == [11, 11]
    assert found.highest.tolist() == [34 if both else 31, 34]


def test_range_holds_every_score_found_by_trying():
    rng = np.random.default_rng(1)
    model = ensemble(
        split(0, 0.5, stump(1, 0.3, 1.0, -2.0), stump(1, 0.7, 0.5, 3.0)), stump(1, 0.5, -1.0, 0.25),
        n_features=2, task="regression",
    )  # fmt: skip
    X = rng.random((30, 2))
    found = cg.output_range(model, X, cg.Attacker("inf", 0.25))
    low, high = found.lowest, found.highest
    tried = X[:, None] + rng.uniform(-0.25, 0.25, size=(30, 2000, 2))
    raw = model.raw_score(tried.reshape(-1, 2)).reshape(30, 2000)
    assert (low <= raw.min(axis=1)).all()
    assert (high >= raw.max(axis=1)).all()
    assert np.mean(low == raw.min(axis=1)) > 0.9  # and no more than that, where trying finds it


def test_constant_model_has_one_output():
    for model in (ensemble(leaf(2.5)), ensemble(base_score=2.5)):
        found = cg.output_range(model, [[0.0]], cg.Attacker(0, 1))
        assert (found.lowest.tolist(), found.highest.tolist()) == ([2.5], [2.5])


def test_averaged_model_has_averaged_outputs():
    model = ensemble(stump(0, 0.5, 1.0, 2.0), leaf(3.0), average=2, task="regression")
    found = cg.output_range(model, [[0.45]], ATTACKER)
    assert (found.lowest.tolist(), found.highest.tolist()) == ([2.0], [2.5])


def test_range_is_bounded_from_both_sides_when_time_runs_out():
    case = hard(16)
    exact = cg.output_range(case.ensemble, [case.x], case.attacker)
    assert exact.exact.tolist() == [True]
    assert exact.lowest.tolist() == [case.worst_margin]
    late = cg.output_range(case.ensemble, [case.x], case.attacker, timeout=1e-3)
    assert late.exact.tolist() == [False]
    assert np.isnan(late.lowest[0])
    assert late.lowest_lower[0] < case.worst_margin <= late.lowest_upper[0]
    assert late.highest_lower[0] <= exact.highest[0] <= late.highest_upper[0]
    raw = case.ensemble.raw_score([case.x])[0]
    assert late.lowest_upper[0] <= math.nextafter(raw, math.inf)  # x itself is in reach
    assert late.highest_lower[0] >= math.nextafter(raw, -math.inf)


def test_a_knapsack_that_times_out_still_bounds_the_range():
    """Cost and gain go hand in hand: every subset of the trees is as good as any other, almost."""
    cuts = np.random.default_rng(0).uniform(0.5, 1, size=20)
    trees = [stump(i, cut, 0.0, -cut - 0.1) for i, cut in enumerate(cuts.tolist())]
    model = ensemble(*trees, n_features=20, task="regression")
    attacker = cg.Attacker(1, float(cuts.sum() / 2))
    lowest = cg.output_range(model, [[0.0] * 20], attacker).lowest
    late = {"engine": "large-spread", "timeout": 1e-9}
    found = cg.output_range(model, [[0.0] * 20], attacker, **late)
    assert not found.exact.any()
    assert np.isfinite(found.lowest_lower).all()
    assert (found.lowest_lower <= lowest).all()
    assert (found.lowest_upper >= lowest).all()
    assert cg.stability(model, [[0.0] * 20], attacker, c=-lowest[0], **late) == ["unknown"]
    # An attack that was found in time says nothing of better ones, whatever the sign of the score.
    for method in ("efficient", "basic"):
        flipped = ensemble(*trees, n_features=20)
        verdict = cg.verify(flipped, [[0.0] * 20], [1], attacker, method=method, **late)
        assert verdict.worst_margin_lower[0] <= lowest[0] <= verdict.worst_margin_upper[0]
        assert np.isnan(verdict.worst_margin[0])


def test_ends_lie_between_the_doubles_next_to_them():
    """0.1 + 0.2 lies between two doubles, 0.25 + 0.5 is one."""
    for low, high in ((0.1, 0.2), (0.25, 0.5)):
        model = ensemble(leaf(low), leaf(high), task="regression")
        found = cg.output_range(model, [[0.0]], ATTACKER)
        ends = Fraction(low) + Fraction(high)
        for lower, upper in (
            (found.lowest_lower, found.lowest_upper),
            (found.highest_lower, found.highest_upper),
        ):
            assert Fraction(lower[0]) <= ends <= Fraction(upper[0])
            assert (lower[0] == upper[0]) == (Fraction(low + high) == ends)
            assert upper[0] <= math.nextafter(lower[0], math.inf)


def test_range_is_saved_with_all_its_bounds(tmp_path):
    found = cg.output_range(TWICE, [[0.1], [0.45]], ATTACKER, on_violation="unknown")
    found.save(tmp_path / "range.json")
    saved = json.loads((tmp_path / "range.json").read_text())
    assert saved["lowest"] == [-1, None]
    assert saved["lowest_lower"] == [-1, None]
    assert saved["lowest_upper"] == [-1, -1]
    assert saved["exact"] == [True, False]
    found.save(tmp_path / "range.csv")
    assert (tmp_path / "range.csv").read_text().startswith("instance,lowest,lowest_lower,")
    assert "1 known exactly" in repr(found)
    assert len(found) == 2


def test_range_is_not_known_where_the_condition_fails_for_the_instance():
    found = cg.output_range(TWICE, [[0.1], [0.45]], ATTACKER, on_violation="unknown")
    np.testing.assert_array_equal(found.lowest, [-1, math.nan])
    np.testing.assert_array_equal(found.highest, [-1, math.nan])
    np.testing.assert_array_equal(found.lowest_lower, [-1, -math.inf])
    np.testing.assert_array_equal(found.lowest_upper, [-1, -1])
    np.testing.assert_array_equal(found.highest_upper, [-1, math.inf])
    with refused("not large-spread", kind=cg.NotLargeSpreadError):
        cg.output_range(TWICE, [[0.1]], ATTACKER, engine="large-spread")


def test_range_needs_one_output():
    with refused("one output", "3", "verify"):
        cg.output_range(ensemble(leaf([1, 2, 3])), [[0.0]], ATTACKER)


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


def test_tie_that_rounding_could_decide_is_decided_exactly():
    """0.1 + 0.2 + 0.3 depends on the order of the sum; as rationals, it does not."""
    scores = (0.1, 0.2, 0.3)
    model = ensemble(*(stump(0, 0.5, 0.0, s) for s in scores))
    change = sum(map(Fraction, scores))
    below = float(change) if Fraction(float(change)) < change else math.nextafter(float(change), 0)
    for c, expected in ((below, "fails"), (math.nextafter(below, 1), "holds")):
        assert cg.stability(model, [[0.45]], ATTACKER, c=c).tolist() == [expected]


def test_one_tree_with_a_base_score_is_not_what_rounding_makes_of_it():
    model = ensemble(stump(0, 0.5, 0.2, 0.5), base_score=0.1)
    for c, expected in ((0.29999999999999993, "fails"), (0.3, "holds")):
        assert cg.stability(model, [[0.45]], ATTACKER, c=c).tolist() == [expected]


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1e200])
def test_stability_knows_no_scale_of_scores(scale):
    model = ensemble(stump(0, 0.5, -scale, scale), stump(0, 0.5, 0.0, scale / 3))
    change = 2 * Fraction(scale) + Fraction(scale / 3)
    up = (
        float(change)
        if Fraction(float(change)) >= change
        else math.nextafter(float(change), math.inf)
    )
    for c, expected in ((up, "holds"), (math.nextafter(up, 0), "fails")):
        assert cg.stability(model, [[0.45]], ATTACKER, c=c).tolist() == [expected]


@pytest.mark.parametrize("c", [1e300, math.inf, 1.7e308])
def test_no_attack_changes_more_than_a_huge_limit(c):
    assert cg.stability(STUMP, [[0.45]], ATTACKER, c=c).tolist() == ["holds"]
    assert cg.small_neighbourhood(STUMP, [[0.45]], ATTACKER, c=c).tolist() == ["holds"]


def test_a_limit_that_is_no_double_is_taken_as_it_is():
    model = ensemble(stump(0, 0.5, 0.0, 1.0), average=3)
    for c, expected in ((Fraction(1, 3), "holds"), (1 / 3, "fails"), (10**400, "holds")):
        assert cg.stability(model, [[0.45]], ATTACKER, c=c).tolist() == [expected]
    for kind in (np.int64, np.int32, np.uint8, np.float32):
        assert cg.stability(model, [[0.45]], ATTACKER, c=kind(1)).tolist() == ["holds"]
        assert cg.small_neighbourhood(model, [[0.45]], ATTACKER, c=kind(9)).tolist() == ["holds"]


def test_a_limit_smaller_than_all_numbers_is_none_at_all():
    attacker = cg.Attacker("inf", 1e-100)
    constant, step = ensemble(leaf(1.0)), ensemble(stump(0, 0.0, 0.0, 5e-324))
    assert cg.small_neighbourhood(constant, [[0.0]], attacker, c=5e-324).tolist() == ["holds"]
    assert cg.small_neighbourhood(step, [[0.0]], attacker, c=5e-324).tolist() == ["fails"]


@pytest.mark.parametrize("answer", [cg.stability, cg.small_neighbourhood, cg.high_confidence])
def test_properties_are_unknown_when_time_runs_out(answer):
    case = hard(24)
    trees, base = case.ensemble.to_trees(), case.ensemble.base_score
    model = cg.Ensemble.from_trees(trees, n_features=24, base_score=base, link="logistic")
    # To fall by more than this is to flip the decision, which is hard to tell.
    fall = float(model.raw_score([case.x])[0])
    limit = {"q": 0.5} if answer is cg.high_confidence else {"c": fall}
    found = answer(model, [case.x], case.attacker, **limit, engine="search", timeout=1e-4)
    assert found.tolist() == ["unknown"]


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


def test_high_confidence_compares_with_the_logarithm_itself():
    """ln 9 lies between two doubles: a raw score of either is on one side of q = 0.9."""
    q = 0.9
    level = Fraction(q) / (1 - Fraction(q))
    for raw in (math.log(9) + k * 2.0**-52 for k in range(-6, 7)):
        model = ensemble(stump(0, 0.5, -raw, raw), link="logistic")
        confident = Decimal(raw) >= Decimal(level.numerator).ln(DIGITS) - Decimal(
            level.denominator
        ).ln(DIGITS)
        expected = "fails" if confident else "holds"
        assert cg.high_confidence(model, [[0.45]], ATTACKER, q=q).tolist() == [expected]


@pytest.mark.parametrize("tie", ["positive", "negative"])
def test_at_one_half_every_decision_is_confident(tie):
    model = ensemble(stump(0, 0.5, 0.0, 1.0), link="logistic", tie=tie)
    found = cg.high_confidence(model, [[0.45], [0.1]], ATTACKER, q=0.5)
    assert found.tolist() == (["holds"] if tie == "positive" else ["fails"]) + ["holds"]


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


@pytest.mark.parametrize("c", [-1, math.nan, "much", "1", None])
def test_change_must_not_be_negative(c):
    with refused("c must be a number >= 0", repr(c)):
        cg.stability(STUMP, [[0.0]], ATTACKER, c=c)
    with refused("c must be a number >= 0"):
        cg.small_neighbourhood(STUMP, [[0.0]], ATTACKER, c=c)


@pytest.mark.parametrize("q", [0.4, 1, math.nan, "sure", "0.7", None])
def test_confidence_is_a_probability_of_at_least_one_half(q):
    with refused("q must be a probability", str(q)):
        cg.high_confidence(STUMP, [[0.0]], ATTACKER, q=q)


def test_properties_name_the_models_they_cannot_take():
    for answer in (cg.stability, cg.small_neighbourhood, cg.output_range):
        limit = {} if answer is cg.output_range else {"c": 1}
        with refused(f"{answer.__name__} needs a model with one output"):
            answer(ensemble(leaf([1, 2, 3])), [[0.0]], ATTACKER, **limit)
    with refused("norm inf", "2"):
        cg.small_neighbourhood(STUMP, [[0.0]], cg.Attacker(2, 1), c=1)
    with refused("logistic link", "'identity'"):
        cg.high_confidence(ensemble(stump(0, 0.5)), [[0.0]], ATTACKER, q=0.7)
    with refused("binary", "regression"):
        cg.high_confidence(ensemble(leaf(1.0), task="regression"), [[0.0]], ATTACKER, q=0.7)
