"""The product against the oracle, on a seeded sample; `tools/campaigns.py engines` runs many."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
import oracle
from asking import product_attacker, searching
from engine_answers import check
from generators import KINDS, MIX, NORMS, Case, make_case
from lightgbm_text import lightgbm_text
from random_trees import LARGEST_BUDGET, SMALLEST_BUDGET

CASES_PER_NORM = 160
norms = pytest.mark.parametrize("norm", NORMS)


@norms
@pytest.mark.parametrize(("kind", "task"), sorted(set(MIX)))
def test_every_verdict_witness_and_radius_agrees_with_the_oracle(norm, kind, task):
    for seed in range(CASES_PER_NORM * MIX.count((kind, task)) // len(MIX)):
        try:
            check(make_case(seed, norm, kind, task))
        except Exception as error:
            raise AssertionError(f"make_case({seed}, {norm}, {kind!r}, {task!r})") from error


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    norm=st.sampled_from(NORMS),
    kind=st.sampled_from(KINDS),
    task=st.sampled_from(["binary", "multiclass", "regression"]),
)
def test_any_seed_agrees_with_the_oracle(seed, norm, kind, task):
    check(make_case(seed, norm, kind, task))


@norms
def test_sample_holds_every_status_and_both_sides_of_the_condition(norm):
    """Otherwise agreement would say little."""
    cases = [make_case(seed, norm, "edge") for seed in range(128)]
    statuses = [oracle.status(c.ensemble, c.x, c.label, c.attacker) for c in cases]
    assert set(statuses) == {"robust", "fragile", "vulnerable", "broken"}
    kinds = ("random", "edge", "knapsack")
    for kind in kinds:
        for seed in range(20):
            case = make_case(seed, norm, kind)
            assert oracle.is_large_spread(case.ensemble, case.attacker)
    mixed = [make_case(seed, norm, "any") for seed in range(40)]
    assert {oracle.is_large_spread(c.ensemble, c.attacker) for c in mixed} == {True, False}


@pytest.mark.parametrize("norm", [1, 2, 3, math.inf])
def test_half_the_spread_is_not_a_large_spread_budget_and_the_float_below_is(norm):
    tested = 0
    for seed in range(100):
        case = make_case(seed, norm, "spread")
        largest = oracle.largest_budget(case.ensemble, case.attacker)
        if not SMALLEST_BUDGET < largest <= LARGEST_BUDGET or float(largest) != largest:
            continue
        tested += 1
        options = case.attacker._replace(budget=float(largest))
        assert not cg.is_large_spread(case.ensemble, product_attacker(options))
        below = options._replace(budget=math.nextafter(float(largest), 0))
        assert cg.is_large_spread(case.ensemble, product_attacker(below))
    assert tested > 10


@norms
def test_verify_says_fragile_at_the_radius_and_not_one_float_below(norm):
    tested = 0
    for seed in range(100):
        case = make_case(seed, norm, "random")
        label = case.ensemble.classes[case.label]
        radius = float(cg.radius(case.ensemble, [case.x], [label], searching(case)).radius[0])
        at = case.attacker._replace(budget=radius)
        if not SMALLEST_BUDGET < radius <= LARGEST_BUDGET:
            continue
        if not oracle.is_large_spread(case.ensemble, at):
            continue
        tested += 1
        below = at._replace(budget=radius - 1 if norm == 0 else math.nextafter(radius, 0))
        for attacker, expected in ((at, "fragile"), (below, "robust")):
            result = cg.verify(case.ensemble, [case.x], [label], product_attacker(attacker))
            assert result.status.tolist() == [expected], seed
    assert tested > 20


@norms
def test_value_rounded_onto_a_threshold_beyond_the_bounds_can_cross_it(norm):
    """A float32 model reads the lower bound as t, so both trees can be crossed in one move."""
    t = float(np.float32(0.1))
    low = math.nextafter(t, 1)
    stump = {"feature": 0, "threshold": t, "left": {"score": 0.0}, "right": {"score": 1.0}}
    ensemble = cg.Ensemble.from_trees(
        [stump, stump], n_features=1, base_score=-2.0, input_precision="float32"
    )
    budget = 1 if norm == 0 else oracle.next_float(t, "float32") - low
    attacker = oracle.Attacker(norm, budget, bounds=([low], [1.0]))
    case = Case(ensemble, [low], 0, attacker)
    assert oracle.status(ensemble, [low], 0, attacker) == "fragile"
    check(case)


@pytest.mark.parametrize("norm", [4, 7, 50, 100])
@pytest.mark.parametrize("unit", [1e-90, 1.0, 1e90])
def test_high_powers_neither_overflow_nor_vanish(norm, unit):
    trees = [
        {"feature": i, "threshold": -step * unit, "left": {"score": 1.0}, "right": {"score": 0.0}}
        for i, step in enumerate((3, 4, 5))
    ]
    ensemble = cg.Ensemble.from_trees(trees, n_features=3, base_score=-2.0)
    x = [0.0, 0.0, 0.0]
    radius = oracle.radius(ensemble, x, 0, oracle.Attacker(norm, 0))
    for budget in (radius, math.nextafter(radius, 0)):
        check(Case(ensemble, x, 0, oracle.Attacker(norm, budget)))


@norms
def test_many_rows_at_once_get_the_verdicts_of_each_alone(norm):
    for seed in range(10):
        case = make_case(seed, norm, "random")
        rows = [attack.z for attack in islice(_everywhere(case), 100)]
        labels = np.random.default_rng(seed).integers(2, size=len(rows))
        attacker = product_attacker(case.attacker)
        result = cg.verify(case.ensemble, rows, labels, attacker, threads=2)
        expected = [
            oracle.status(case.ensemble, row, label, case.attacker)
            for row, label in zip(rows, labels.tolist(), strict=True)
        ]
        assert result.status.tolist() == expected, seed
        right = np.isin(expected, ["robust", "fragile"]).mean()
        robust = (np.array(expected) == "robust").mean()
        assert (result.accuracy, *result.robustness) == pytest.approx((right, robust, robust))


@norms
def test_robustness_curve_is_the_share_of_larger_radii(norm):
    for seed in range(8):
        case = make_case(seed, norm, "random")
        attacker, budget = searching(case), case.attacker.budget
        rows = [attack.z for attack in islice(_everywhere(case), 30)]
        labels = np.random.default_rng(seed).integers(2, size=len(rows)).tolist()
        pairs = list(zip(rows, labels, strict=True))
        radii = [oracle.radius(case.ensemble, row, label, case.attacker) for row, label in pairs]
        half = budget // 2 if norm == 0 else max(budget / 2, SMALLEST_BUDGET)
        budgets = sorted({0.0, float(half), float(budget)})
        curve = cg.robustness_curve(case.ensemble, rows, labels, attacker, budgets=budgets)
        expected = [np.mean(np.array(radii) > budget) for budget in budgets]
        assert curve.lower.tolist() == curve.upper.tolist() == pytest.approx(expected), seed


@norms
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_witness_flips_lightgbms_own_prediction(norm, task):
    lightgbm = pytest.importorskip("lightgbm")
    flipped = 0
    for seed in range(24):
        case = make_case(seed, norm, "edge" if seed < 8 else "random", task)
        if case.ensemble.input_precision != "float64" or case.ensemble.average != 1:
            continue
        booster = lightgbm.Booster(model_str=lightgbm_text(_one_class_per_tree(case.ensemble)))
        model = cg.load(booster)
        attacker = product_attacker(case.attacker)
        if not cg.is_large_spread(model, attacker):  # LightGBM takes tiny thresholds for 0
            continue
        rows = [attack.z for attack in islice(_everywhere(case), 40)]
        decided = [oracle.decide(model, oracle.raw_score(model, row)) for row in rows]
        found = cg.attack(model, rows, model.classes[decided], attacker, threads=1)
        settled = found.success & ~found.borderline
        if settled.any():
            sure = booster.predict(found.witnesses[settled])
            after = (sure > 0.5).astype(int) if task == "binary" else sure.argmax(axis=1)
            assert (after != np.array(decided)[settled]).all(), seed
            flipped += np.count_nonzero(settled)
    assert flipped > 20


def _everywhere(case):
    """All combinations of cells, at any cost."""
    return oracle.attacks(case.ensemble, case.x, case.attacker._replace(budget=math.inf))


def _one_class_per_tree(ensemble):
    """As LightGBM has it: tree i keeps its scores for class i mod n_outputs, and 0 elsewhere."""
    if ensemble.task != "multiclass":
        return ensemble

    def keep(tree, only):
        if "score" in tree:
            scores = enumerate(tree["score"])
            return {"score": [score if output == only else 0.0 for output, score in scores]}
        return tree | {side: keep(tree[side], only) for side in ("left", "right")}

    trees = [
        keep(tree, index % ensemble.n_outputs) for index, tree in enumerate(ensemble.to_trees())
    ]
    return cg.Ensemble.from_trees(
        trees, n_features=ensemble.n_features, task="multiclass", base_score=ensemble.base_score
    )


# ── doubles beyond the largest float32 number ────────────────────────────────────────────────

FLT_MAX = float(np.finfo(np.float32).max)
ROUNDS_TO_INFINITY = 2.0**128 - 2.0**103  # the middle between FLT_MAX and 2^128, which rounds up


@norms
@pytest.mark.parametrize("x", [math.nextafter(FLT_MAX, math.inf), math.nextafter(2.0**128, 0)])
@pytest.mark.parametrize("sign", [1, -1])
def test_double_that_rounds_to_the_largest_float32_is_judged_exactly(norm, x, sign):
    """Routed as FLT_MAX, though distances are measured from x itself."""
    x = sign * min(x, math.nextafter(ROUNDS_TO_INFINITY, 0))
    edge = float(np.nextafter(np.float32(FLT_MAX), np.float32(0)))
    cuts = (edge, 0.0, 2.0**126) if sign > 0 else (-FLT_MAX, 0.0, -(2.0**126))
    trees = [
        {"feature": f, "threshold": cut, "left": {"score": -1.0}, "right": {"score": 1.0}}
        for f, cut in ((0, cuts[0]), (1, cuts[1]), (2, cuts[2]))
    ]
    for threshold in (-2.0, 0.0, 2.0):
        model = cg.Ensemble.from_trees(
            trees, n_features=3, threshold=threshold, input_precision="float32"
        )
        far = abs(x) - edge
        for budget in (1.0, 2.0, 1e30, math.nextafter(far, 0), far, math.nextafter(far, 1e40)):
            if norm == 0 and budget > 2:
                continue
            for label in (0, 1):
                attacker = oracle.Attacker(norm, budget)
                check(Case(model, [x, 0.25, 2.0**100], label, attacker))


def test_double_is_within_float32_iff_its_rounding_is_finite():
    model = cg.Ensemble.from_trees([{"score": 1.0}], n_features=1, input_precision="float32")
    inside = math.nextafter(ROUNDS_TO_INFINITY, 0)
    for value in (FLT_MAX, math.nextafter(FLT_MAX, math.inf), inside, -inside):
        assert model.check_data(np.array([[value]], dtype=np.float64)).tolist() == [[value]]
        assert np.isfinite(np.float32(value))
    for value in (ROUNDS_TO_INFINITY, -ROUNDS_TO_INFINITY, 2.0**128, 1e300):
        with pytest.raises(cg.DataError, match="float32"):
            model.check_data(np.array([[value]], dtype=np.float64))
