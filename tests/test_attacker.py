"""The attacker: every form its limits may take, and every form they may not."""

from __future__ import annotations

import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
import oracle
from plain_trees import ensemble, refused, stump

MODEL = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2, feature_names=["age", "height"])


def limits(**options):
    return cg.Attacker(1, 0.1, **options).limits(MODEL)


# ── norm and budget ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given_norm", "norm"),
    [
        (0, 0),
        (1, 1),
        (2.0, 2),
        ("3", 3),
        (np.int64(4), 4),
        (100, 100),
        ("inf", math.inf),
        (math.inf, math.inf),
        (np.inf, math.inf),
    ],
)
def test_norm_is_a_whole_number_or_infinity(given_norm, norm):
    attacker = cg.Attacker(given_norm, 1)
    assert attacker.norm == norm
    assert type(attacker.norm) is type(norm)


@pytest.mark.parametrize(
    "norm", [0.5, 1.5, -1, -math.inf, math.nan, 101, 10**30, "two", "", None, True, [1]], ids=repr
)
def test_other_norms_are_refused(norm):
    with refused("norm must be 0, 1, 2, …", repr(norm)):
        cg.Attacker(norm, 1)
    with refused("norm must be 0, 1, 2, …", repr(norm)):
        cg.radius(MODEL, [[0.0, 0.0]], [0], norm=norm)


@pytest.mark.parametrize("budget", [0, 1e-100, 0.25, 1e100, "0.5", np.float32(0.5), Fraction(1, 4)])
def test_budget_is_a_number_from_zero(budget):
    assert cg.Attacker(1, budget).budget == float(budget)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (-0.1, [">= 0", "-0.1"]),
        (-math.inf, [">= 0", "-inf"]),
        (math.nan, [">= 0", "nan"]),
        (math.inf, ["1e100", "inf"]),
        (1e101, ["1e100", "1e+101"]),
        (1e-101, ["1e-100", "1e-101"]),
        ("much", ["number", "'much'"]),
        (None, ["number", "None"]),
        ([1, 2], ["number", "[1, 2]"]),
        (10**400, ["number"]),
    ],
    ids=["minus", "-inf", "nan", "inf", "huge", "tiny", "word", "none", "list", "integer"],
)
def test_other_budgets_are_refused(budget, words):
    with refused("budget", *words):
        cg.Attacker(1, budget)


def test_fractional_budget_with_norm_0_says_what_it_means():
    with refused("budget 1.5 with norm 0 means 1 changed feature", "write 1"):
        cg.Attacker(0, 1.5)
    assert cg.Attacker(0, 2.0).budget == 2


# ── limits ───────────────────────────────────────────────────────────────────────────────────


def test_no_limits_are_empty_arrays():
    found = limits()
    assert [len(found.scale), len(found.changeable), len(found.lower), len(found.upper)] == [0] * 4


@pytest.mark.parametrize(
    ("scale", "found"),
    [
        (2, [2, 2]),
        ([2, 0.5], [2, 0.5]),
        (np.array([2, 3]), [2, 3]),
        ({0: 3}, [3, 1]),
        ({"height": 3}, [1, 3]),
        ({"height": 3, 0: 2}, [2, 3]),
        ({}, [1, 1]),
    ],
    ids=repr,
)
def test_scale_is_one_number_one_per_feature_or_a_mapping(scale, found):
    assert limits(scale=scale).scale.tolist() == found


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (0, ["scale of age", "0.0"]),
        (-1, ["scale of age", "-1.0"]),
        ([1, math.inf], ["scale of height", "inf"]),
        ([1, 1e101], ["scale of height", "1e+101"]),
        ({"height": 0}, ["scale of height", "0.0"]),
        (math.nan, ["scale", "NaN"]),
        ([1, 2, 3], ["scale", "one per feature (2)", "[1, 2, 3]"]),
        ("wide", ["scale", "'wide'"]),
        ({0: "wide"}, ["scale", "'wide'"]),
        ({"weight": 1}, ["unknown feature 'weight'", "age, height"]),
        ({2: 1}, ["feature 2"]),
    ],
    ids=repr,
)
def test_other_scales_are_refused(scale, words):
    with refused(*words):
        limits(scale=scale)


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ([0], [1, 0]),
        (["height"], [0, 1]),
        (["height", 0], [1, 1]),
        ((1, 1), [0, 1]),
        (np.array([1]), [0, 1]),
        ({0}, [1, 0]),
        ([], [0, 0]),
    ],
    ids=repr,
)
def test_features_are_names_or_positions(features, found):
    assert limits(features=features).changeable.tolist() == found


@pytest.mark.parametrize(
    ("features", "words"),
    [
        (["weight"], ["unknown feature 'weight'", "age, height"]),
        ([2], ["feature 2"]),
        ([-1], ["feature -1"]),
        ([0.5], ["0.5"]),
        ([None], ["None"]),
        ("age", ["'age'"]),
        (0, ["0"]),
    ],
    ids=repr,
)
def test_other_features_are_refused(features, words):
    with refused(*words):
        limits(features=features)


@pytest.mark.parametrize(
    ("bounds", "lower", "upper"),
    [
        ((0, 1), [0, 0], [1, 1]),
        (([0, 1], 2), [0, 1], [2, 2]),
        ((np.array([0, 1]), np.array([2, 1])), [0, 1], [2, 1]),
        ({"age": (0, 1)}, [0, -math.inf], [1, math.inf]),
        ({1: (0, 1)}, [-math.inf, 0], [math.inf, 1]),
        ((-math.inf, math.inf), [-math.inf] * 2, [math.inf] * 2),
    ],
    ids=repr,
)
def test_bounds_are_a_pair_or_a_mapping_to_pairs(bounds, lower, upper):
    found = limits(bounds=bounds)
    assert (found.lower.tolist(), found.upper.tolist()) == (lower, upper)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1, 0), ["bounds of age", "lower <= upper", "1.0", "0.0"]),
        (([0, 2], 1), ["bounds of height"]),
        ({"height": (2, 1)}, ["bounds of height"]),
        ((math.nan, 1), ["lower bound", "NaN"]),
        ((0, math.nan), ["upper bound", "NaN"]),
        (([0, 0, 0], 1), ["lower bound", "one per feature (2)"]),
        ((0, 1, 2), ["pair", "(0, 1, 2)"]),
        (1, ["pair", "1"]),
        ({"age": 1}, ["pair", "1"]),
        ({"weight": (0, 1)}, ["unknown feature 'weight'"]),
    ],
    ids=repr,
)
def test_other_bounds_are_refused(bounds, words):
    with refused(*words):
        limits(bounds=bounds)


@pytest.mark.parametrize(
    ("value", "inside"), [(0.0, True), (1.0, True), (1.5, False), (-5e-324, False)]
)
def test_instance_must_lie_within_the_bounds_itself(value, inside):
    attacker, X = cg.Attacker(1, 0.1, bounds=(0, 1)), [[0.0, 0.0], [0.0, value]]
    if inside:
        attacker.check_instances(MODEL, np.array(X))
        return
    for use in (
        lambda: attacker.check_instances(MODEL, np.array(X)),
        lambda: cg.verify(MODEL, X, [0, 0], attacker),
        lambda: cg.attack(MODEL, X, [0, 0], attacker),
        lambda: cg.radius(MODEL, X, [0, 0], norm=1, bounds=(0, 1)),
        lambda: cg.output_range(MODEL, X, attacker),
    ):
        with refused("row 1", "height", str(value), "[0.0, 1.0]", kind=cg.DataError):
            use()


def test_first_row_out_of_bounds_is_named_however_far_down_it_is():
    X = np.zeros((10_000, 2))
    X[9_000, 1] = 2.0
    with refused("row 9000", "height", kind=cg.DataError):
        cg.Attacker(1, 0.1, bounds=(0, 1)).check_instances(MODEL, X)


def test_missing_value_is_within_any_bounds():
    model = ensemble(stump(0, 0.5, missing="left"))
    attacker = cg.Attacker(1, 9, bounds=(0, 1))
    assert cg.verify(model, [[math.nan]], [0], attacker).status.tolist() == ["robust"]


# ── distance ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("norm", "expected"), [(0, 2), (1, 7), (2, 5), ("inf", 4)])
def test_distance_is_that_of_the_norm(norm, expected):
    x, z = np.array([1.0, 1.0]), np.array([4.0, -3.0])
    assert cg.Attacker(norm, 1).distance(MODEL, x, z) == expected
    assert cg.Attacker(norm, 1).distance(MODEL, x, x) == 0


def test_distance_is_measured_in_units_of_scale():
    x, z = np.array([0.0, 0.0]), np.array([6.0, 4.0])
    assert cg.Attacker(2, 1, scale=[2, 1]).distance(MODEL, x, z) == 5


def test_missing_value_that_stays_missing_costs_nothing():
    x = np.array([math.nan, 0.0])
    assert cg.Attacker(1, 1).distance(MODEL, x, np.array([math.nan, 2.0])) == 2


@given(
    x=st.lists(st.floats(-1e50, 1e50), min_size=2, max_size=2),
    z=st.lists(st.floats(-1e50, 1e50), min_size=2, max_size=2),
    norm=st.sampled_from([1, 2, 3, math.inf]),
    scale=st.sampled_from([None, [0.1, 3.0]]),
)
def test_distance_is_the_smallest_budget_that_affords_the_move(x, z, norm, scale):
    found = cg.Attacker(norm, 1, scale=scale).distance(MODEL, np.array(x), np.array(z))
    cost = oracle.distance(x, z, oracle.Attacker(norm, 1, scale=scale))
    assert oracle.affords(found, cost, norm)
    assert found == 0 or not oracle.affords(math.nextafter(found, 0), cost, norm)


@pytest.mark.parametrize("step", [1e-200, 5e-324, 1e200])
def test_distance_neither_overflows_nor_vanishes(step):
    x, z = np.array([0.0, 0.0]), np.array([step, 0.0])
    for norm in (1, 2, 3, 100, "inf"):
        assert cg.Attacker(norm, 1).distance(MODEL, x, z) == step


# ── what it is ───────────────────────────────────────────────────────────────────────────────


def test_attackers_with_the_same_limits_are_equal():
    scale = np.array([1.0, 2.0])
    one, other = cg.Attacker("inf", 0.1, scale=scale), cg.Attacker(math.inf, 0.1, scale=[1.0, 2.0])
    assert one == other
    assert hash(one) == hash(other)
    assert one != cg.Attacker("inf", 0.1)
    assert one != cg.Attacker("inf", 0.2, scale=scale)
    assert one != cg.Attacker(1, 0.1, scale=scale)
    assert one != "attacker"


def test_attacker_cannot_be_changed_but_replaced():
    attacker = cg.Attacker(2, 0.5, scale=[1, 2], features=[0], bounds=(0, 1))
    with pytest.raises(AttributeError):
        attacker.budget = 1.0
    other = attacker.with_budget(1)
    assert (other.budget, other.scale, other.features, other.bounds) == (1, [1, 2], [0], (0, 1))
    assert attacker.budget == 0.5
    assert pickle.loads(pickle.dumps(attacker)) == attacker


def test_repr_names_what_is_given():
    assert repr(cg.Attacker("inf", 0.01)) == "Attacker(norm=inf, budget=0.01)"
    assert (
        repr(cg.Attacker(2, 1, features=["age"], bounds=(0, 1)))
        == "Attacker(norm=2, budget=1, features=['age'], bounds=(0, 1))"
    )


def test_attacker_as_plain_values_is_json():
    attacker = cg.Attacker(
        "inf", 1, scale=np.array([1, 2]), features=np.array([0]), bounds={np.int64(0): (0, 1.5)}
    )
    assert json.loads(json.dumps(attacker.to_dict(), allow_nan=False)) == {
        "norm": "inf",
        "budget": 1.0,
        "scale": [1, 2],
        "features": [0],
        "bounds": {"0": [0, 1.5]},
    }
