"""Radius: the smallest budget that flips, and the robustness curve that follows from it."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
from asking import product_attacker
from carvegbm import engines, verifier
from carvegbm.statuses import UNKNOWN
from crowded import crowded_case
from plain_trees import ensemble, hard, leaf, refused, split, stump

NORMS = [0, 1, 2, 3, "inf"]

# Of the three features, two must move to flip (0, 0, 0); thresholds are shared by no two trees.
APART = ensemble(
    stump(0, 0.3, 0.0, 1.0), stump(1, 0.4, 0.0, 1.0), stump(2, 0.5, 0.0, 1.0),
    n_features=3, base_score=-2.0,
)  # fmt: skip
# The same with every tree twice: beyond any budget of the large-spread engine.
SHARED = ensemble(*(APART.to_trees() * 2), n_features=3, base_score=-4.0)


def instances(model, n=12):
    rows = np.random.default_rng(5).integers(0, 9, size=(n, model.n_features)) / 8
    return rows, model.decide(rows)


# ── the contract ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", [APART, SHARED], ids=["large-spread", "search"])
def test_verify_says_fragile_at_the_radius_and_robust_one_float_below(norm, model):
    rows, labels = instances(model)
    radii = cg.radius(model, rows, labels, cg.Attacker(norm))
    assert radii.exact.all()
    for x, label, r in zip(rows, labels, radii.radius.tolist(), strict=True):
        below = r - 1 if norm == 0 else math.nextafter(r, 0)
        for budget, status in ((r, "fragile"), (below, "robust")):
            result = cg.verify(model, [x], [label], cg.Attacker(norm, budget))
            assert result.status.tolist() == [status], (x, budget)


@pytest.mark.parametrize("norm", NORMS)
def test_contract_holds_on_crowded_ensembles(norm):
    tested = 0
    for seed in range(40):
        case = crowded_case(seed, float(norm) if norm == "inf" else norm)
        label = case.ensemble.classes[case.label]
        attacker = product_attacker(case.attacker)
        (r,) = cg.radius(case.ensemble, [case.x], [label], attacker).radius.tolist()
        if not 1e-99 < r < 1e99:
            continue
        tested += 1
        below = r - 1 if norm == 0 else math.nextafter(r, 0)
        for budget, status in ((r, "fragile"), (below, "robust")):
            attacker = product_attacker(case.attacker._replace(budget=budget))
            found = cg.verify(case.ensemble, [case.x], [label], attacker)
            assert found.status.tolist() == [status], (seed, budget)
    assert tested > 5


@pytest.mark.parametrize(
    ("norm", "expected"),
    [(0, 2), (1, 0.7), (2, 0.5), ("inf", 0.4)],
)
@pytest.mark.parametrize("engine", ["auto", "large-spread", "search"])
def test_radius_is_the_distance_to_the_nearest_flip(norm, expected, engine):
    (r,) = cg.radius(APART, [[0.0, 0.0, 0.0]], [0], cg.Attacker(norm), engine=engine).radius
    assert r == pytest.approx(expected)


def test_radius_is_zero_where_the_decision_is_wrong_already():
    for norm in NORMS:
        assert cg.radius(APART, [[0.0, 0.0, 0.0]], [1], cg.Attacker(norm)).radius.tolist() == [0]


def test_radius_is_infinite_where_no_budget_flips():
    constant = ensemble(leaf(1.0), n_features=3)
    for norm in NORMS:
        for model in (constant, ensemble(stump(0, 0.5, 1.0, 2.0), stump(0, 0.5, 1.0, 2.0))):
            radii = cg.radius(model, np.zeros((1, model.n_features)), [1], cg.Attacker(norm))
            assert radii.radius.tolist() == radii.lower.tolist() == [math.inf]
        for limits in ({"features": []}, {"bounds": (0, 0.35)}):
            radii = cg.radius(APART, [[0.0, 0.0, 0.0]], [0], cg.Attacker(norm, **limits))
            assert radii.radius.tolist() == [math.inf]


def test_limits_of_the_attacker_are_respected():
    for limits, expected in (
        ({"features": [0, 2]}, 0.8),
        ({"scale": [1, 1, 10]}, 0.35),
        ({"bounds": (0, [0.35, 1, 1])}, 0.7),
        ({"bounds": (0, [0.3, 1, 1])}, 0.9),
    ):
        found = cg.radius(APART, [[0.0, 0.0, 0.0]], [0], cg.Attacker(1, **limits))
        assert found.radius == pytest.approx(expected)


@pytest.mark.parametrize("norm", [1, 2, "inf"])
@pytest.mark.parametrize("engine", ["auto", "search"])
@pytest.mark.parametrize("trees", [1, 2])
def test_instance_on_the_threshold_is_one_step_from_the_flip(norm, engine, trees):
    for precision, step in (("float64", 2.0**-53), ("float32", 2.0**-24)):
        model = ensemble(*[stump(0, 0.5)] * trees, input_precision=precision)
        (r,) = cg.radius(model, [[0.5]], [0], cg.Attacker(norm), engine=engine).radius
        assert r == step


# ── what is not decided ──────────────────────────────────────────────────────────────────────


def test_radius_beyond_the_largest_budget_wanted_is_bounded_from_below():
    x = [[0.0, 0.0, 0.0]]
    for model in (APART, SHARED):
        radii = cg.radius(model, x, [0], cg.Attacker(1), max_budget=0.5)
        assert np.isnan(radii.radius).all()
        assert not radii.exact.any()
        assert (radii.lower[0], radii.upper[0]) == (math.nextafter(0.5, 1), math.inf)
        assert cg.radius(model, x, [0], cg.Attacker(1), max_budget=0.75).radius == pytest.approx(
            0.7
        )
        assert cg.radius(model, x, [0], cg.Attacker(0), max_budget=1).lower.tolist() == [2]


def test_large_spread_engine_stops_at_the_largest_budget_it_can_tell():
    model = ensemble(stump(0, 0.5, 0.0, 1.0), stump(0, 0.75, 0.0, 1.0), base_score=-2.0)
    radii = cg.radius(model, [[0.375], [0.6]], [0, 0], cg.Attacker("inf"), engine="large-spread")
    assert np.isnan(radii.radius).all()
    assert radii.lower.tolist() == [0.125, 0.125]  # 0.125 itself is too much
    found = cg.radius(model, [[0.375], [0.6]], [0, 0], cg.Attacker("inf"))
    assert found.radius == pytest.approx([0.375, 0.15])


@pytest.mark.parametrize("norm", ["inf", 0, 1])
def test_bounds_hold_the_truth_when_time_runs_out(norm):
    """No move within [0, 1] flips the first case; several moves across 0.5 flip the second."""
    for margin in (0.5, -0.5):
        case = hard(16, margin=margin)
        attacker = cg.Attacker(norm, bounds=(0, 1))
        options = {"engine": "search", "timeout": 1e-3}
        radii = cg.radius(case.ensemble, [case.x], [1], attacker, **options)
        step = math.nextafter(0.5, 1)
        truth = {"inf": step, 0: case.fewest, 1: case.fewest * step}[norm]
        if margin > 0:
            truth = math.inf
            assert np.isnan(radii.radius[0])
        assert radii.lower[0] <= truth <= radii.upper[0]


@pytest.mark.parametrize("budget", [-1, math.nan, "much"])
def test_largest_budget_wanted_must_be_a_budget(budget):
    with refused("budget"):
        cg.radius(APART, [[0.0, 0.0, 0.0]], [0], cg.Attacker(1), max_budget=budget)


# ── how radii read ────────────────────────────────────────────────────────────────────────


def some_radii():
    rows = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    return cg.radius(ensemble(stump(0, 0.25), n_features=3), rows, [0, 1, 0], cg.Attacker(1))


def test_radii_print_in_one_line():
    assert str(some_radii()).startswith("3 radii, norm 1: smallest 0, median 0.25, largest 0.75")
    undecided = cg.radius(APART, np.zeros((2, 3)), [0, 1], cg.Attacker(1), max_budget=0.5)
    assert str(undecided).endswith("; 1 not decided, at least 0.5")


def test_radii_are_saved_with_their_bounds(tmp_path):
    radii = cg.radius(APART, np.zeros((2, 3)), [0, 1], cg.Attacker("inf"), max_budget=0.25)
    assert json.loads(json.dumps(radii.to_dict(), allow_nan=False)) == {
        "norm": "inf",
        "instances": 2,
        "radius": [None, 0.0],
        "lower": [math.nextafter(0.25, 1), 0.0],
        "upper": [None, 0.0],
    }
    radii.save(tmp_path / "radii.json")
    assert json.loads((tmp_path / "radii.json").read_text()) == radii.to_dict()
    radii.save(tmp_path / "radii.csv")
    with (tmp_path / "radii.csv").open() as file:
        (first, second) = csv.DictReader(file)
    assert (second["radius"], second["lower"], second["upper"]) == ("0.0", "0.0", "0.0")
    assert float(first["upper"]) == math.inf


# ── the curve ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("model", [APART, SHARED], ids=["large-spread", "search"])
def test_curve_is_the_robustness_at_each_budget(norm, model):
    rows, labels = instances(model, 40)
    labels[:5] = 1 - labels[:5]
    budgets = [3, 0, 1, 2] if norm == 0 else [0.125, 0, 0.3, 0.5, 0.05]
    curve = cg.robustness_curve(model, rows, labels, cg.Attacker(norm), budgets=budgets)
    assert curve.budgets.tolist() == budgets
    for budget, interval in zip(budgets, curve.robustness.tolist(), strict=True):
        result = cg.verify(model, rows, labels, cg.Attacker(norm, budget))
        assert tuple(interval) == result.robustness, budget
    assert curve.accuracy == result.accuracy == 35 / 40


def test_curve_is_an_interval_where_radii_are_not_decided():
    case = hard(16)
    curve = cg.robustness_curve(
        case.ensemble, [case.x, case.x], [1, 0], cg.Attacker("inf", bounds=(0, 1)),
        budgets=[1], engine="search", timeout=1e-3,
    )  # fmt: skip
    assert (curve.lower.tolist(), curve.upper.tolist()) == ([0.0], [0.5])
    assert "budget 1          0.2500 ± 0.2500" in str(curve)
    assert "accuracy 0.5000" in str(curve)


@pytest.mark.parametrize(
    ("budgets", "words"), [([], ["at least one"]), ([0.1, -1], ["-1"]), ([math.nan], ["nan"])]
)
def test_curve_needs_budgets(budgets, words):
    with refused("budget", *words):
        cg.robustness_curve(APART, [[0.0, 0.0, 0.0]], [0], cg.Attacker(1), budgets=budgets)


def test_curve_takes_a_single_budget():
    curve = cg.robustness_curve(APART, [[0.0, 0.0, 0.0]], [0], cg.Attacker(1), budgets=0.5)
    assert curve.lower.tolist() == [1.0]


def test_deep_trees_that_test_a_feature_twice_pay_for_it_once():
    tree = split(0, 0.5, leaf(-1.0), split(0, 0.75, leaf(-1.0), stump(1, 0.25)))
    (r,) = cg.radius(ensemble(tree, n_features=2), [[0.0, 0.0]], [0], cg.Attacker(1)).radius
    assert r == pytest.approx(1.0)


# ── many classes ─────────────────────────────────────────────────────────────────────────────


def one_hard_and_one_easy_rival():
    """Class 1 is as hard to bring up as a spin glass of 40; class 2 takes over beyond 3."""
    glass = hard(40)
    easy = {"feature": 40, "threshold": 3.0, "left": leaf(0.0), "right": leaf(1e6)}

    def spread_out(tree, place):
        if "score" in tree:
            scores = [0.0, 0.0, 0.0]
            scores[place] = tree["score"]
            return {"score": scores}
        sides = {side: spread_out(tree[side], place) for side in ("left", "right")}
        return tree | sides

    trees = [spread_out(tree, 0) for tree in glass.ensemble.to_trees()] + [spread_out(easy, 2)]
    base = [float(glass.ensemble.base_score[0]), 0.0, -1000.0]  # the hard one comes first
    return ensemble(*trees, n_features=41, base_score=base)


def test_a_hard_rival_takes_neither_the_time_nor_the_bounds_of_an_easy_one():
    model = one_hard_and_one_easy_rival()
    found = cg.radius(model, [[0.0] * 41], [0], cg.Attacker("inf"), engine="search", timeout=0.5)
    assert found.upper.tolist() == [math.nextafter(3.0, math.inf)]
    assert 0.49 < found.lower[0] <= found.upper[0]


def test_no_radius_is_below_the_nearest_threshold_even_without_time():
    model = ensemble(stump(0, 0.5), stump(0, 0.75), stump(1, -0.25), n_features=2)
    for norm in (1, 2, "inf"):
        found = cg.radius(
            model, [[0.0, 0.0]], [0], cg.Attacker(norm), engine="search", timeout=1e-9
        )
        assert 0.2 < found.lower[0] <= 0.75 <= found.upper[0]


def test_an_attacker_needs_no_budget_and_its_budget_is_ignored():
    rows, labels = instances(APART)
    limits = {"scale": {0: (0, 2)}, "step": {1: "1/8"}, "bounds": {2: (0, 1)}}
    one, other = cg.Attacker(1, **limits), cg.Attacker(1, 7, **limits)
    radii = [cg.radius(APART, rows, labels, attacker).radius for attacker in (one, other)]
    assert np.isfinite(radii[0]).any()
    np.testing.assert_array_equal(*radii)
    for query in (cg.verify, cg.attack):
        with refused("the attacker has no budget"):
            query(APART, rows, labels, one)
    with refused("attacker is missing"):
        cg.radius(APART, [[0, 0, 0]], [0])
    with refused("y is an Attacker; pass attacker=…"):
        cg.radius(APART, [[0, 0, 0]], one)


@given(
    seed=st.integers(0, 39),
    norm=st.sampled_from(NORMS),
    budgets=st.lists(st.integers(0, 12), min_size=1, max_size=9),
)
@settings(max_examples=40, deadline=None)
def test_curve_agrees_with_radii_and_with_verification(seed, norm, budgets):
    case = crowded_case(seed, float(norm) if norm == "inf" else norm)
    attacker = product_attacker(case.attacker)
    prepared = cg.Verifier(case.ensemble, attacker, threads=1)
    rows = np.array([case.x, case.x, case.x])
    if case.attacker.bounds is None and not case.attacker.step and not case.attacker.one_hot:
        rows[1:] += [[1 / 8], [-3 / 8]]
    scale = 1 if norm == 0 else 1 / 8
    wanted = [budget * scale for budget in budgets]
    curve = prepared.robustness_curve(rows, budgets=wanted)
    radii = prepared.radius(rows)
    for budget, interval in zip(wanted, curve.robustness.tolist(), strict=True):
        assert interval == [np.mean(radii.radius > budget)] * 2
        other = cg.verify(case.ensemble, rows, attacker=attacker.with_budget(budget))
        assert tuple(interval) == other.robustness


@given(
    budgets=st.lists(st.sampled_from([0.0, 0.05, 0.125, 0.3, 0.5, 2.0]), min_size=1, max_size=6),
    undecided=st.sets(st.sampled_from([0.05, 0.125, 0.5])),
)
def test_curve_verifies_no_row_twice_at_a_budget_and_holds_where_rows_are_unknown(
    budgets, undecided
):
    rows, labels = instances(SHARED, 20)
    rows[:, 0] += np.arange(20) / 1000  # no two are equal
    labels = SHARED.decide(rows)
    labels[:2] = 1 - labels[:2]
    verified = []

    def decide(task, some, listen):
        budget = task.problem.attacker.budget
        verified.extend((budget, *row) for row in some.X.tolist())
        found = engines.decide(task, some, listen)
        if budget in undecided:
            found.status[::2] = UNKNOWN
        return found

    attacker = cg.Attacker(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verifier, "decide", decide)
        curve = cg.robustness_curve(SHARED, rows, labels, attacker, budgets=budgets)
    exact = cg.radius(SHARED, rows, labels, attacker).radius
    for budget, lower, upper in zip(budgets, curve.lower, curve.upper, strict=True):
        assert lower <= np.mean(exact > budget) <= upper
        assert undecided or lower == upper
    assert len(set(verified)) == len(verified)
