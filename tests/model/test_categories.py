"""Categorical features: labels, codes and states; splits by sets of categories."""

from __future__ import annotations

import copy
import math
import pickle
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.model.categories import FeatureLabels, as_given, in_codes, in_states, named_codes
from carvegbm.model.core import FINITE, state_sets
from carvegbm.model.ensemble import fields_of
from carvegbm.model.nodes import NODE
from carvegbm.storage.identity import digest_of
from categorical_trees import choice, code_of, random_ensemble, random_rows, walked
from plain_trees import ensemble, leaf, refused, split, stump

NAN = math.nan


def model_with(labels, codes=(), **options):
    return ensemble(choice(0, list(codes), leaf(1.0), leaf(2.0)), categories={0: labels}, **options)


def states(model, column):
    rows = np.array(column, dtype=np.float64)[:, None]
    return in_states(model, in_codes(model, rows))[:, 0].tolist()


def codes_of(model, labels):
    return FeatureLabels(model, 0).codes(labels)


def same(one, other):
    np.testing.assert_array_equal(one, other)  # NaN equals NaN


# ── labels, codes and states ─────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 10**6))
def test_states_are_the_positions_of_codes(seed):
    model = random_ensemble(seed)
    rows = random_rows(model, seed)
    checked = model.check_data(rows, allow_infinite=True)
    same(model.check_data(checked, allow_infinite=True), checked)
    found = model.states(checked)
    for feature in range(model.n_features):
        if feature not in model.categories:
            same(found[:, feature], rows[:, feature])
            continue
        codes = list(model.categories[feature])
        for value, state in zip(rows[:, feature], found[:, feature], strict=True):
            narrow = np.float32(value) if model.input_precision == "float32" else value
            code = code_of(model, feature, float(narrow))
            if code == "missing":
                assert math.isnan(state)
            else:
                assert state == (codes.index(code) if code in codes else -1)


def test_numbers_become_codes_by_the_category_rule():
    last = 2**31 - 1
    model = model_with({0: 0, 3: 3, last: "last"}, category_rule="truncate")
    column = [-0.5, -0.999, -1.0, 3.7, 4, last + 0.5, 2**31, 2**32 + 3, math.inf, -math.inf, NAN]
    same(states(model, column), [0, 0, -1, 1, -1, 2, -1, -1, -1, -1, NAN])
    model = model_with({0: 0, 3: 3, 2**24 - 1: "last"}, category_rule="nonnegative")
    column = [0, -0.0, -0.5, -1e-300, 3.7, 2**24 - 0.5, 2**24, math.inf, NAN]
    same(states(model, column), [0, 0, -1, -1, 1, 2, -1, -1, NAN])
    model = model_with({0: 0.5, 1: -3, 4: 7})
    same(states(model, [0.5, -3, 7, 0, NAN]), [0, 1, 2, -1, NAN])
    model = model_with({0: "a", 1: 7, 2: "b", 7: "c"})  # a number is a label, else a code of a text
    assert states(model, [0, 7, 1, 2]) == [0, 1, -1, 2]
    assert states(model_with({0: 2**53 + 1, 1: 2**53}), [2.0**53, 2.0**53 + 2]) == [1, -1]


def test_numbers_are_first_rounded_to_the_input_precision():
    narrow = {"category_rule": "nonnegative", "input_precision": "float32"}
    column = [4 - 1e-9, -1e-300, 2**24 - 0.3]
    assert states(model_with({0: 0, 3: 3, 4: 4}, **narrow), column) == [2, 0, -1]
    wide = model_with({0: 0, 3: 3, 4: 4}, category_rule="nonnegative")
    assert states(wide, column) == [1, -1, -1]
    tenth = float(np.float32(0.1))
    floats = model_with({0: tenth, 1: 2.0**24}, input_precision="float32")
    assert states(floats, [0.1, tenth, 2**24 + 1]) == [0, 0, 1]
    whole = model_with({0: 2**24, 1: 2**24 + 1}, input_precision="float32")
    assert states(whole, [2**24, 2**24 + 1, 2**24 + 3]) == [0, 1, -1]


def test_labels_become_codes_and_codes_become_labels():
    model = model_with({0: "a", 2: 1.5, 3: 7, 5: True})
    labels = ["a", 1.5, np.float64(1.5), np.int8(7), 7.0, np.str_("a"), True, "b", None, NAN]
    same(codes_of(model, labels), [0, 2, 2, 3, 3, 0, 5, -1, NAN, NAN])
    pandas = pytest.importorskip("pandas")
    same(codes_of(model, [pandas.NA, pandas.NaT, "a"]), [NAN, NAN, 0])
    same(codes_of(model_with({0: "a"}, unknown_category="missing"), ["b", "a"]), [NAN, 0])
    spelled = {0: -1, 1: 3, 2: "03", 3: "red"}
    given = ["3", 3, 3.0, np.int64(3), "03", "-1", "red", "+3", "3.0", "4", None]
    text = model_with(spelled, category_rule="text")
    same(codes_of(text, given), [1, 1, 1, 1, 2, 0, 3, -1, -1, -1, NAN])
    same(codes_of(model_with(spelled), ["3", "-1", 3]), [-1, -1, 1])
    known = {0: "a", 2: 1.5}
    assert named_codes(known, [0, 2, 1, -1, 0.5, NAN]) == ["a", 1.5, 1.0, -1.0, 0.5, None]


def test_unknown_category_is_missing_if_the_model_says_so():
    model = model_with({0: 5, 1: 6}, unknown_category="missing")
    same(states(model, [5, 6, 7, NAN]), [0, 1, NAN, NAN])
    with refused("X row 1", "value 7.0", "no rule for missing values"):
        model.check_data([[5.0], [7.0]])


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_keep_their_precision_and_are_not_changed(kind):
    model = model_with({0: 10, 1: 20})
    rows = np.array([[10.0], [20.0], [30.0]], dtype=kind)
    codes = model.check_data(rows)
    assert codes.dtype == model.states(codes).dtype == kind
    assert (codes.ravel().tolist(), rows.ravel().tolist()) == ([0, 1, -1], [10, 20, 30])


def test_numbers_that_stand_for_codes_become_the_same_codes():
    for labels in ({0: 0.5, 1: -3, 4: 7}, {0: -1.0, 2: 1.5}, {0: "a", 7: "b"}, {3: 3, 4: 4}, {}):
        for unknown in ("right", "missing"):
            model = model_with(labels, unknown_category=unknown)
            codes = np.array([[NAN], *([code] for code in labels)])
            if unknown == "right":
                codes = np.vstack([codes, [[-1.0]]])
            others = np.where(np.isnan(codes), NAN, 99.0)  # NaN stays what it was
            same(in_codes(model, as_given(model, codes, others, None)), codes)
    model = model_with({0: 0.5, 1: -3, 4: 7})
    codes, before = np.array([[4.0], [1.0], [-1.0]]), np.full((3, 1), 99.0)
    assert as_given(model, codes, before, None).ravel().tolist() == [7, -3, -4]


# ── splits by sets ───────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 10**6))
def test_raw_score_is_the_sum_of_the_leaves_of_the_nested_trees(seed):
    model = random_ensemble(seed)
    rows = random_rows(model, seed)
    expected = [walked(model, row) for row in rows]
    assert np.atleast_2d(model.raw_score(rows).T).T.tolist() == expected


def test_missing_value_follows_the_rule_of_each_split():
    model = ensemble(
        choice(0, [0], leaf(1.0), leaf(2.0), missing="left"),
        choice(0, [0], leaf(10.0), leaf(20.0), missing="right"),
    )
    assert model.raw_score([[NAN], [0.0], [7.0]]).tolist() == [21.0, 11.0, 22.0]
    with refused("X row 0", "feature 0", "no rule for missing values", kind=cg.DataError):
        ensemble(choice(0, [0], leaf(1.0), leaf(2.0))).raw_score([[NAN]])


def test_float32_ensemble_needs_categories_that_float32_distinguishes():
    """Otherwise an attack could end at a category that the model does not read as such."""
    narrow = {"category_rule": "truncate", "input_precision": "float32"}
    for code in (2**24 + 1, 2**24):
        with refused("feature 0", str(code), "16777215"):
            model_with({3: 3, code: code}, [code], **narrow)
    model = model_with({3: 3, 2**24 - 1: 2**24 - 1}, [3], threshold=1.5, **narrow)
    found = cg.attack(model, [[3.0]], [0], cg.Attacker(0, 1))
    assert model.decide(found.witnesses).tolist() == [1]
    with refused("feature 0", "0.1", "float32"):
        model_with({0: 0.5, 1: 0.1}, [1], input_precision="float32")


def test_one_set_on_two_features_is_two_sets_of_states():
    model = ensemble(
        choice(0, [7], leaf(1.0), leaf(2.0)),
        choice(1, [7], leaf(10.0), leaf(20.0)),
        stump(2, 0.5, 100.0, 200.0),
        n_features=3,
        categories={0: {7: 7}, 1: {code: code for code in range(70)}},
    )
    assert model.set_codes.tolist() == [7]
    sets = state_sets(model)
    assert sets.grid.tolist() == [FINITE, FINITE, 0]
    assert sets.words.tolist() == [1, 1 << 7]
    assert model.raw_score([[7, 7, 0], [7, 0, 1], [0, 7, 0]]).tolist() == [111, 221, 112]


def test_states_beyond_a_word_are_found():
    model = model_with({code: code for code in range(0, 400, 2)}, [0, 128, 398])
    listed = {code for code in range(400) if model.raw_score([[code]])[0] == 1.0}
    assert listed == {0, 128, 398}


def test_without_categories_nothing_is_copied():
    model = ensemble(stump(0, 0.5))
    rows = np.zeros((2, 1))
    assert model.check_data(rows) is rows
    assert model.states(rows) is rows
    assert state_sets(model).nodes is model.nodes


# ── what an ensemble stores ──────────────────────────────────────────────────────────────────

LABELS = {0: {0: "red", 2: "green", 5: "blue"}, 2: {1: 10, 3: 30.5, 4: True}}
SECOND = choice(2, [3], leaf(8.0), choice(0, [], leaf(0.0), leaf(16.0)))


def example(codes=(5, 0), **options):
    first = choice(0, list(codes), stump(1, 0.5, 1.0, 2.0), leaf(4.0), missing="left")
    return ensemble(first, SECOND, **{"n_features": 3, "categories": LABELS, **options})


def test_nested_trees_and_copies_are_equal():
    model = example()
    assert model.to_trees()[0]["categories"] == [0, 5]
    again = cg.Ensemble.from_trees(model.to_trees(), n_features=3, categories=LABELS)
    for other in (again, pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert other == model
        assert digest_of(other) == digest_of(model)
        assert type(other.categories) is MappingProxyType
    assert model.with_scores(model.scores * 2).categories == model.categories


@pytest.mark.parametrize(
    "change",
    [
        {"categories": {**LABELS, 2: {1: 10, 3: 31.5, 4: True}}},
        {"categories": {**LABELS, 2: {**LABELS[2], 9: "new"}}},
        {"category_rule": "truncate"},
        {"category_rule": "nonnegative"},
        {"unknown_category": "missing"},
        {"codes": (5,)},
    ],
)
def test_ensembles_that_differ_in_categories_are_not_equal(change):
    assert example(**change) != example()
    assert digest_of(example(**change)) != digest_of(example())


def test_categories_default_to_what_the_splits_list():
    trees = [choice(1, [4, 2], leaf(1.0), choice(1, [0], leaf(1.0), leaf(2.0)))]
    assert ensemble(*trees, n_features=2).categories == {1: {0: 0, 2: 2, 4: 4}}
    plain, ruled = ensemble(stump(0, 0.5)), ensemble(stump(0, 0.5), category_rule="truncate")
    assert plain.categories == {}
    assert plain == ruled


def test_sets_are_stored_once_and_sorted():
    nodes = np.zeros(7, dtype=NODE)
    nodes["feature"] = [0, 0, 0, -1, -1, -1, -1]
    nodes["threshold"] = [3, 1, 2, 0, 0, 0, 0]
    nodes["left"] = [1, 3, 5, 0, 1, 2, 3]
    nodes["right"] = [2, 4, 6, -1, -1, -1, -1]
    options = {"n_features": 1, "task": "binary", "categories": {0: {1: 1, 2: 2}}}
    sets = {"set_starts": [0, 1, 3, 5, 6], "set_codes": [9, 2, 1, 1, 2, 1]}
    model = cg.Ensemble(nodes, [0], np.arange(4.0), **sets, **options)
    assert (model.set_starts.tolist(), model.set_codes.tolist()) == ([0, 1, 3], [1, 1, 2])
    assert model.nodes["threshold"][:3].tolist() == [0, 1, 1]
    assert model == cg.Ensemble.from_trees(model.to_trees(), **options)
    assert cg.Ensemble(**fields_of(model)) == model


def test_categories_are_python_values_sorted_and_read_only():
    given = {2: {np.int64(3): np.str_("c"), 1: np.float64(0.5)}, 0: {0: "a"}}
    model = ensemble(choice(2, [1], leaf(1.0), leaf(2.0)), n_features=3, categories=given)
    given[2][7] = "later"
    expected = {0: MappingProxyType({0: "a"}), 2: MappingProxyType({1: 0.5, 3: "c"})}
    assert repr(model.categories) == repr(MappingProxyType(expected))
    assert not model.set_starts.flags.writeable
    assert not model.set_codes.flags.writeable


ONE = choice(0, [1], leaf(1.0), leaf(2.0))


@pytest.mark.parametrize(
    ("tree", "options"),
    [
        (split(0, 0.5, ONE, leaf(1.0)), {}),
        (stump(0, 0.5), {"categories": {0: {0: 0}}}),
        *((ONE, {"categories": given}) for given in (
            {}, {0: {0: 0}}, {0: {1: 1}, 1: {}}, {"a": {1: 1}}, [0], {0: [1]}, {0: {1: 1, -1: 2}},
            {0: {1: 1, 0.5: 2}}, {0: {1: 1, 1 << 24: 2}}, {0: {1: None}}, {0: {1: NAN}},
            {0: {1: 2**64}}, {0: {1: "a", 2: "a"}}, {0: {1: 1, 2: True}})),
        (ONE, {"category_rule": "round"}),
        (ONE, {"unknown_category": "left"}),
        (ONE, {"unknown_category": "missing", "category_rule": "truncate"}),
        ({**ONE, "threshold": 1.0}, {}),
        *(({**ONE, "categories": codes}, {}) for codes in ("ab", 3, [-1], [0.5])),
    ],
)  # fmt: skip
def test_invalid_categories_are_refused(tree, options):
    with refused(kind=cg.ModelError):
        ensemble(tree, **options)


@pytest.mark.parametrize(
    ("threshold", "starts", "codes"),
    [
        *((threshold, [0, 1], [1]) for threshold in (1.0, 0.5, -1.0, NAN)),
        (0.0, None, None),
        *((0.0, starts, [1]) for starts in ([0, 2], [1, 1], [0.0, 1.0])),
        (0.0, [0, 2, 1, 2], [1, 1]),
        (0.0, [0, 1], [1.5]),
        (0.0, [], []),
    ],
)
def test_invalid_sets_are_refused(threshold, starts, codes):
    nodes = np.zeros(3, dtype=NODE)
    nodes["feature"], nodes["left"], nodes["right"] = [0, -1, -1], [1, 0, 1], [2, -1, -1]
    nodes["threshold"][0] = threshold
    options = {"n_features": 1, "task": "binary", "categories": {0: {1: 1}}}
    with refused(kind=cg.ModelError):
        cg.Ensemble(nodes, [0], [0.0, 1.0], set_starts=starts, set_codes=codes, **options)
