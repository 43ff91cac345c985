"""The attacker: every form its limits may take, and every form they may not."""

from __future__ import annotations

import copy
import json
import math
import pickle
from fractions import Fraction

import numpy as np
import pandas as pd
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
        ([1, 2], ["number", "[1, 2]"]),
        (10**400, ["number"]),
    ],
    ids=["minus", "-inf", "nan", "inf", "huge", "tiny", "word", "list", "integer"],
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
    ],
    ids=repr,
)
def test_scale_is_one_number_one_per_feature_or_a_mapping(scale, found):
    assert limits(scale=scale).scale.tolist() == found


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        ([1, 2, 3], ["scale", "one per feature (2)", "[1.0, 2.0, 3.0]"]),
        ([2], ["scale", "one per feature (2)", "[2.0]"]),
        ({"weight": 1}, ["unknown feature 'weight'", "age, height"]),
        ({2: 1}, ["feature 2"]),
    ],
    ids=repr,
)
def test_scales_that_do_not_fit_the_model_are_refused(scale, words):
    with refused(*words):
        limits(scale=scale)


@pytest.mark.parametrize(
    ("scale", "words"),
    [
        (0, ["scale must be > 0", "0.0"]),
        (-1, ["scale must be > 0", "-1.0"]),
        ([1, math.inf], ["scale of feature 1", "inf"]),
        ([1, 1e101], ["scale of feature 1", "1e+101"]),
        (np.array([1e-101, 1]), ["scale of feature 0", "1e-101"]),
        ({"height": 0}, ["scale of height", "0.0"]),
        (math.nan, ["scale", "NaN"]),
        ([1, math.nan], ["scale", "NaN"]),
        ("wide", ["scale", "'wide'"]),
        ("2", ["scale", "'2'"]),
        ({0: "wide"}, ["scale", "'wide'"]),
        ({0.5: 1}, ["0.5"]),
        ([[1], [1, 2]], ["scale of feature 0", "[1]"]),
        ({1.0, 2.0}, ["scale"]),
        (np.array([1 + 2j, 1]), ["scale"]),
        (1 + 2j, ["scale", "(1+2j)"]),
    ],
    ids=repr,
)
def test_other_scales_are_refused_on_construction(scale, words):
    with refused(*words):
        cg.Attacker(1, 1, scale=scale)


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
    ],
    ids=repr,
)
def test_features_that_the_model_lacks_are_refused(features, words):
    with refused(*words):
        limits(features=features)


@pytest.mark.parametrize(
    ("features", "words"),
    [
        ([0.5], ["0.5"]),
        ([None], ["None"]),
        ([False, True], ["False"]),
        ("age", ["'age'"]),
        ({"age": 1}, ["age"]),
        (0, ["0"]),
        (np.array(3), ["array(3)"]),
    ],
    ids=repr,
)
def test_other_features_are_refused_on_construction(features, words):
    with refused(*words):
        cg.Attacker(1, 1, features=features)


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
        (([0, 2], 1), ["bounds of height", "lower <= upper", "2.0", "1.0"]),
        (([0, 0, 0], 1), ["lower bound", "one per feature (2)"]),
        ({"weight": (0, 1)}, ["unknown feature 'weight'"]),
        ({"age": 5}, ["bounds of age must be a pair (lower, upper), got 5"]),
    ],
    ids=repr,
)
def test_bounds_that_do_not_fit_the_model_are_refused(bounds, words):
    with refused(*words):
        limits(bounds=bounds)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((1, 0), ["bounds", "lower <= upper", "1.0", "0.0"]),
        ({"height": (2, 1)}, ["bounds of height"]),
        ((math.nan, 1), ["lower bound", "NaN"]),
        ((0, math.nan), ["upper bound", "NaN"]),
        ((0, 1, 2), ["pair", "(0, 1, 2)"]),
        (1, ["pair", "1"]),
        ({"age": 1}, ["pair", "1"]),
        ({"age": (0, "1")}, ["bounds"]),
        (("0", "1"), ["lower bound", "'0'"]),
        ({0, 1}, ["pair"]),
    ],
    ids=repr,
)
def test_other_bounds_are_refused_on_construction(bounds, words):
    with refused(*words):
        cg.Attacker(1, 1, bounds=bounds)


@pytest.mark.parametrize(
    ("value", "inside"), [(0.0, True), (1.0, True), (1.5, False), (-5e-324, False)]
)
def test_instance_must_lie_within_the_bounds_itself(value, inside):
    attacker, X = cg.Attacker(1, 0.1, bounds=(0, 1)), [[0.0, 0.0], [0.0, value]]
    if inside:
        attacker.limits(MODEL).check_rows(MODEL, np.array(X))
        return
    for use in (
        lambda: cg.verify(MODEL, X, [0, 0], attacker),
        lambda: cg.attack(MODEL, X, [0, 0], attacker),
        lambda: cg.radius(MODEL, X, [0, 0], cg.Attacker(1, bounds=(0, 1))),
        lambda: cg.output_range(MODEL, X, attacker),
    ):
        with refused("row 1", "height", str(value), "[0.0, 1.0]", kind=cg.DataError):
            use()


def test_first_row_out_of_bounds_is_named_however_far_down_it_is():
    X = np.zeros((10_000, 2))
    X[9_000, 1] = 2.0
    with refused("row 9000", "height", kind=cg.DataError):
        cg.Attacker(1, 0.1, bounds=(0, 1)).limits(MODEL).check_rows(MODEL, X)


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
    assert (other.budget, other.scale, other.features, other.bounds) == (1, (1, 2), (0,), (0, 1))
    assert attacker.budget == 0.5


@pytest.mark.parametrize(
    "options",
    [
        {"scale": [1, 2], "features": [0], "bounds": (0, 1)},
        {"scale": {"age": 2}, "features": ["age"], "bounds": {"age": (0, math.inf)}},
        {"features": [0], "bounds": ([0, 1], 2)},
    ],
    ids=repr,
)
def test_attacker_survives_copying_and_pickling(options):
    attacker = cg.Attacker(2, 0.5, **options)
    for other in (pickle.loads(pickle.dumps(attacker)), copy.deepcopy(attacker)):
        assert other == attacker
        np.testing.assert_equal(vars(other.limits(MODEL)), vars(attacker.limits(MODEL)))


# Every way to give one thing: what can be read once, and what can be changed afterwards.
@st.composite
def given_twice(draw, items):
    """(as a plain list, the same in some other shape)"""
    values = draw(items)
    shape = draw(st.sampled_from([iter, list, tuple, np.array, map_of, filter_of, generator_of]))
    return values, shape(values)


def map_of(values):
    return map(type(values[0]) if values else int, values)


def filter_of(values):
    return filter(lambda _: True, values)


def generator_of(values):
    return (value for value in values)


@given(
    features=given_twice(st.lists(st.integers(0, 1), max_size=3)),
    scale=given_twice(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=2, max_size=2)),
    norm=st.sampled_from([0, 1, 2, "inf"]),
)
def test_attacker_is_the_same_however_its_limits_are_given_and_at_every_look(features, scale, norm):
    plain = cg.Attacker(norm, 1, features=features[0], scale=scale[0])
    other = cg.Attacker(norm, 1, features=features[1], scale=scale[1])
    assert other == plain
    for _ in range(2):
        np.testing.assert_equal(vars(other.limits(MODEL)), vars(plain.limits(MODEL)))
    for engine in ("auto", "search"):
        ask = {"engine": engine, "threads": 1}
        found = cg.verify(MODEL, [[0.4, 0.4]], [1], other, **ask).status
        assert found.tolist() == cg.verify(MODEL, [[0.4, 0.4]], [1], plain, **ask).status.tolist()


def test_features_from_an_iterator_are_not_used_up():
    tried = []
    for engine in ("auto", "large-spread", "search"):
        attacker = cg.Attacker("inf", 0.2, features=map(int, [0]))
        tried += cg.verify(MODEL, [[0.4, 0.6]], [1], attacker, engine=engine).status.tolist()
    assert tried == ["robust"] * 3  # feature 0 alone only helps
    attacker = cg.Attacker("inf", 0.2, features=(f for f in ["age", "height"]))
    for engine in ("auto", "large-spread", "search"):
        assert cg.verify(MODEL, [[0.6, 0.6]], [1], attacker, engine=engine).status[0] == "fragile"
    found = cg.radius(MODEL, [[0.75, 0.75]], [1], cg.Attacker("inf", features=iter([0, 1])))
    assert found.radius.tolist() == [0.25]
    curve = cg.robustness_curve(
        MODEL,
        [[0.75, 0.75]],
        [1],
        cg.Attacker("inf", features=iter([0, 1])),
        budgets=iter([0.1, 0.3]),
    )
    assert curve.lower.tolist() == [1.0, 0.0]


def test_changing_what_was_given_does_not_change_the_attacker():
    scale, lower, pairs, features = np.ones(2), np.zeros(2), {"age": [0, 1]}, [0]
    attacker = cg.Attacker(1, 1, scale=scale, bounds=(lower, 1), features=features)
    mapped = cg.Attacker(1, 1, scale=(sizes := {"age": 1}), bounds=pairs)
    before = [vars(one.limits(MODEL)) for one in (attacker, mapped)]
    scale[0], lower[0], pairs["age"][0], sizes["age"] = 9, 0.5, 0.5, 9
    pairs["height"] = (0, 1)
    features.append(1)
    np.testing.assert_equal([vars(one.limits(MODEL)) for one in (attacker, mapped)], before)
    for value in (mapped.scale, mapped.bounds):
        with pytest.raises(TypeError):
            value["age"] = 2


def test_a_series_goes_by_its_labels_not_by_their_order():
    height_first = ["height", "age"]
    scale = pd.Series([3.0, 2.0], index=height_first)
    assert limits(scale=scale).scale.tolist() == [2, 3]
    lower, upper = pd.Series([3, 2], index=height_first), pd.Series([9, 8], index=height_first)
    for bounds in ((lower, upper), (lower, upper[::-1])):
        found = limits(bounds=bounds)
        assert (found.lower.tolist(), found.upper.tolist()) == ([2, 3], [8, 9])
    assert limits(bounds=(0, upper)).upper.tolist() == [8, 9]
    assert limits(features=pd.Series(["height"])).changeable.tolist() == [0, 1]
    assert limits(scale=pd.Series([2.0, 3.0])).scale.tolist() == [2, 3]
    pairs = pd.Series({"height": (3, 9), "age": (2, 8)})
    assert limits(bounds=pairs).lower.tolist() == [2, 3]
    for wrong in ({"bounds": lower}, {"features": pd.Series([True, None])}):
        with pytest.raises(cg.CarveError):
            cg.Attacker(1, 1, **wrong)
    for frame in ({"features": lower.to_frame()}, {"bounds": lower.to_frame()}):
        with pytest.raises(cg.CarveError):
            cg.Attacker(1, 1, **frame)
    with refused("same names"):
        cg.Attacker(1, 1, bounds=(lower, pd.Series([9], index=["age"])))
    with refused("label"):
        cg.Attacker(1, 1, scale=pd.Series([1.0, 2.0], index=["age", "age"]))


def test_one_feature_named_twice_is_refused():
    for options in ({"scale": {"age": 2, 0: 3}}, {"bounds": {"age": (0, 1), 0: (0, 2)}}):
        with refused("names age twice"):
            limits(**options)


def test_a_name_is_not_the_position_it_looks_like():
    assert cg.Attacker(1, 1, features=["0"]) != cg.Attacker(1, 1, features=[0])
    assert cg.Attacker(1, 1, scale={"0": 2}) != cg.Attacker(1, 1, scale={0: 2})


def test_repr_names_what_is_given():
    assert repr(cg.Attacker("inf", 0.01)) == "Attacker(norm=inf, budget=0.01)"
    assert (
        repr(cg.Attacker(2, 1, features=["age"], bounds=(0, 1)))
        == "Attacker(norm=2, budget=1, features=('age',), bounds=(0.0, 1.0))"
    )


def test_str_shows_the_beginning_of_what_is_long():
    short = cg.Attacker(2, 1, features=["age"], bounds=(0, 1))
    assert str(short) == repr(short)
    features = [f"feature_{i}" for i in range(60)]
    text = str(
        cg.Attacker(
            1, 3, features=features, scale=dict.fromkeys(features, 2),
            bounds=(np.zeros(60), np.ones(60)), one_hot=[features[:20], features[20:]],
        )
    )  # fmt: skip
    assert text == (
        "Attacker(norm=1, budget=3, scale={'feature_0': 2.0, … 60 in all}, "
        "features=('feature_0', … 60 in all), bounds=((0.0, … 60 in all), (1.0, … 60 in all)), "
        "one_hot=(('feature_0', … 20 in all), ('feature_20', … 40 in all)))"
    )


def test_arguments_make_the_attacker_again_and_an_estimator_that_can_be_cloned():
    from sklearn.base import clone

    attacker = cg.Attacker(1, 3, scale={3: (0, 2)}, step={3: 1}, categories={"service": ["ftp"]})
    assert cg.Attacker(**attacker.arguments()) == attacker
    estimator = clone(cg.RobustClassifier(**attacker.arguments()))
    assert (estimator.norm, estimator.scale) == (1, {3: (0, 2)})


def test_attacker_as_plain_values_is_json():
    attacker = cg.Attacker(
        "inf",
        1,
        scale=np.array([1, 2]),
        features=np.array([0]),
        bounds={np.int64(0): (0, 1.5), 1: (-math.inf, 2)},
    )
    assert json.loads(json.dumps(attacker.to_dict(), allow_nan=False)) == {
        "norm": "inf",
        "budget": 1.0,
        "scale": [1, 2],
        "features": [0],
        "bounds": {"0": [0, 1.5], "1": [None, 2]},
    }


@pytest.mark.parametrize("given", [0.02, ("inf", 0.02), "inf"], ids=repr)
def test_what_is_no_attacker_is_refused_by_every_question(given):
    X, y = [[0.4, 0.4]], [1]
    model = ensemble(stump(0, 0.5), n_features=2, link="logistic")
    for ask in (
        lambda: cg.verify(model, X, y, given),
        lambda: cg.attack(model, X, y, given),
        lambda: cg.output_range(model, X, given),
        lambda: cg.stability(model, X, given, c=1),
        lambda: cg.small_neighbourhood(model, X, given, c=1),
        lambda: cg.high_confidence(model, X, given, q=0.7),
        lambda: cg.is_large_spread(model, given),
    ):
        with refused("attacker must be an Attacker(norm, budget)", repr(given)):
            ask()


def test_attacker_in_place_of_the_labels_is_noticed():
    X, attacker = [[0.4, 0.4, 0.4]], cg.Attacker("inf", 0.1)
    for ask in (
        lambda: cg.verify(MODEL, X, attacker),
        lambda: cg.attack(MODEL, X, attacker, [1]),
    ):
        with refused("y is an Attacker", "attacker=…"):
            ask()


def test_attacker_that_is_missing_is_asked_for():
    for ask in (
        lambda: cg.verify(MODEL, [[0.4, 0.4, 0.4]]),
        lambda: cg.attack(MODEL, [[0.4, 0.4, 0.4]], [1], None),
        lambda: cg.output_range(MODEL, [[0.4, 0.4, 0.4]], None),
    ):
        with refused("attacker is missing", "Attacker(norm, budget)", "attacker="):
            ask()


@pytest.mark.parametrize("norm", [0, 1, 2, "inf"])
def test_moving_the_one_of_a_group_is_one_change(norm):
    tree = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    ensemble = cg.Ensemble.from_trees([tree], n_features=4)
    attacker = cg.Attacker(norm, 1, one_hot=[[0, 1, 2]])
    x, z = np.array([1.0, 0.0, 0.0, 0.5]), np.array([0.0, 0.0, 1.0, 0.5])
    assert attacker.distance(ensemble, x, z) == 1.0
