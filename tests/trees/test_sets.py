"""Splits by sets of categories: how an ensemble keeps them, and what it refuses."""

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
from carvegbm.ensemble import NODE, fields_of
from carvegbm.storage.identity import digest_of
from carvegbm.trees.core import FINITE, state_sets
from categorical_trees import choice, random_ensemble, random_rows, walked
from plain_trees import ensemble, leaf, refused, split, stump

LABELS = {0: {0: "red", 2: "green", 5: "blue"}, 2: {1: 10, 3: 30.5, 4: True}}


def example(**options):
    trees = [
        choice(0, [5, 0], stump(1, 0.5, 1.0, 2.0), leaf(4.0), missing="left"),
        choice(2, [3], leaf(8.0), choice(0, [], leaf(0.0), leaf(16.0))),
    ]
    return ensemble(*trees, **{"n_features": 3, "categories": LABELS, **options})


# ── what it computes ─────────────────────────────────────────────────────────────────────────


def test_listed_codes_go_left_and_all_others_right():
    model = ensemble(choice(0, [0, 3], leaf(1.0), leaf(2.0)))
    assert model.raw_score([[0], [1], [2], [3], [4], [-1], [0.5]]).tolist() == [1, 2, 2, 1, 2, 2, 2]


def test_missing_value_follows_the_rule_of_each_split():
    model = ensemble(
        choice(0, [0], leaf(1.0), leaf(2.0), missing="left"),
        choice(0, [0], leaf(10.0), leaf(20.0), missing="right"),
    )
    assert model.raw_score([[math.nan], [0.0], [7.0]]).tolist() == [21.0, 11.0, 22.0]
    with refused("X row 0", "feature 0", "no rule for missing values", kind=cg.DataError):
        ensemble(choice(0, [0], leaf(1.0), leaf(2.0))).raw_score([[math.nan]])


def test_float32_ensemble_needs_categories_that_float32_tells_apart():
    """Otherwise an attack could end at a category that the model does not read as such."""
    for code, taken in ((2**24 - 1, True), (2**24 + 1, False), (2**24, False)):
        options = {
            "categories": {0: {3: 3, code: code}},
            "category_rule": "truncate",
            "input_precision": "float32",
        }
        if not taken:
            with refused("feature 0", str(code), "16777215"):
                ensemble(choice(0, [code], leaf(-1.0), leaf(1.0)), **options)
            continue
        model = ensemble(choice(0, [code], leaf(-1.0), leaf(1.0)), **options)
        found = cg.attack(model, [[3.0]], [1], cg.Attacker(0, 1))
        assert model.decide(found.witnesses).tolist() == [0]
    with refused("feature 0", "0.1", "float32"):
        ensemble(
            choice(0, [1], leaf(-1.0), leaf(1.0)),
            categories={0: {0: 0.5, 1: 0.1}},
            input_precision="float32",
        )


@given(seed=st.integers(0, 10**6))
def test_raw_score_is_that_of_a_walk_through_the_nested_trees(seed):
    model = random_ensemble(seed)
    rows = random_rows(model, seed)
    expected = [walked(model, row) for row in rows]
    assert np.atleast_2d(model.raw_score(rows).T).T.tolist() == expected


def test_one_set_on_two_features_is_two_sets_of_states():
    model = ensemble(
        choice(0, [7], leaf(1.0), leaf(2.0)),
        choice(1, [7], leaf(10.0), leaf(20.0)),
        stump(2, 0.5, 100.0, 200.0),
        n_features=3,
        categories={0: {7: 7}, 1: dict.fromkeys(range(0)) | {c: c for c in range(70)}},
    )
    assert model.set_codes.tolist() == [7]
    sets = state_sets(model)
    assert sets.grid.tolist() == [FINITE, FINITE, 0]
    assert sets.words.tolist() == [1, 1 << 7]
    assert model.raw_score([[7, 7, 0], [7, 0, 1], [0, 7, 0]]).tolist() == [111, 221, 112]


def test_states_beyond_a_word_are_found():
    codes = {code: code for code in range(0, 400, 2)}
    model = ensemble(choice(0, [0, 128, 398], leaf(1.0), leaf(2.0)), categories={0: codes})
    listed = {code for code in range(400) if model.raw_score([[code]])[0] == 1.0}
    assert listed == {0, 128, 398}


def test_without_categories_nothing_is_copied():
    model = ensemble(stump(0, 0.5))
    rows = np.zeros((2, 1))
    assert model.check_data(rows) is rows
    assert model.states(rows) is rows
    assert state_sets(model).nodes is model.nodes


# ── how it is kept ───────────────────────────────────────────────────────────────────────────


def test_trees_come_back_as_they_went():
    model = example()
    assert model.to_trees()[0] == choice(
        0, [0, 5], stump(1, 0.5, 1.0, 2.0), leaf(4.0), missing="left"
    )
    again = cg.Ensemble.from_trees(model.to_trees(), n_features=3, categories=model.categories)
    assert again == model


def test_categories_default_to_what_the_splits_list():
    trees = [choice(1, [4, 2], leaf(1.0), choice(1, [0], leaf(1.0), leaf(2.0)))]
    assert ensemble(*trees, n_features=2).categories == {1: {0: 0, 2: 2, 4: 4}}
    assert ensemble(stump(0, 0.5)).categories == {}


def test_sets_are_kept_once_each_and_sorted_however_they_are_given():
    nodes = np.zeros(7, dtype=NODE)
    nodes["feature"] = [0, 0, 0, -1, -1, -1, -1]
    nodes["threshold"] = [3, 1, 2, 0, 0, 0, 0]
    nodes["left"] = [1, 3, 5, 0, 1, 2, 3]
    nodes["right"] = [2, 4, 6, -1, -1, -1, -1]
    options = {"n_features": 1, "task": "binary", "categories": {0: {1: 1, 2: 2}}}
    model = cg.Ensemble(
        nodes, [0], np.arange(4.0), set_starts=[0, 1, 3, 5, 6], set_codes=[9, 2, 1, 1, 2, 1],
        **options,
    )  # fmt: skip
    assert (model.set_starts.tolist(), model.set_codes.tolist()) == ([0, 1, 3], [1, 1, 2])
    assert model.nodes["threshold"][:3].tolist() == [0, 1, 1]
    assert model == cg.Ensemble.from_trees(model.to_trees(), **options)
    assert cg.Ensemble(**fields_of(model)) == model


def test_categories_are_plain_sorted_and_read_only():
    given = {2: {np.int64(3): np.str_("c"), 1: np.float64(0.5)}, 0: {0: "a"}}
    model = ensemble(choice(2, [1], leaf(1.0), leaf(2.0)), n_features=3, categories=given)
    given[2][7] = "later"
    assert repr(model.categories) == repr(
        MappingProxyType(
            {0: MappingProxyType({0: "a"}), 2: MappingProxyType({1: 0.5, 3: "c"})},
        )
    )
    with pytest.raises(TypeError):
        model.categories[2][1] = "b"
    for array in (model.set_starts, model.set_codes):
        assert not array.flags.writeable


def test_copies_are_equal():
    model = example()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert again == model
        assert digest_of(again) == digest_of(model)
        assert type(again.categories) is MappingProxyType
    assert model.with_scores(model.scores * 2).categories == model.categories
    assert model.with_classes(["no", "yes"]).category_rule == model.category_rule


def test_every_field_of_categories_tells_ensembles_apart():
    model = example()
    others = [
        example(categories={**LABELS, 2: {1: 10, 3: 31.5, 4: True}}),
        example(categories={**LABELS, 2: {**LABELS[2], 9: "new"}}),
        example(category_rule="truncate"),
        example(category_rule="nonnegative"),
        example(unknown_category="missing"),
        ensemble(
            choice(0, [5], stump(1, 0.5, 1.0, 2.0), leaf(4.0), missing="left"),
            choice(2, [3], leaf(8.0), choice(0, [], leaf(0.0), leaf(16.0))),
            n_features=3,
            categories=LABELS,
        ),
    ]
    for other in others:
        assert other != model
        assert digest_of(other) != digest_of(model)


def test_rules_say_nothing_without_categories():
    plain = ensemble(stump(0, 0.5))
    ruled = ensemble(stump(0, 0.5), category_rule="truncate")
    assert plain == ruled
    assert digest_of(plain) == digest_of(ruled)


def test_representation_counts_categorical_features():
    assert "3 features (2 categorical)" in repr(example())
    assert "categorical" not in repr(ensemble(stump(0, 0.5)))


# ── what is refused ──────────────────────────────────────────────────────────────────────────

ONE = choice(0, [1], leaf(1.0), leaf(2.0))


@pytest.mark.parametrize(
    ("trees", "options", "words"),
    [
        ([split(0, 0.5, ONE, leaf(1.0))], {}, ["feature 0", "threshold", "all its splits or in"]),
        ([stump(0, 0.5)], {"categories": {0: {0: 0}}}, ["feature 0", "threshold"]),
        ([ONE], {"categories": {}}, ["feature 0", "not in categories", "add it"]),
        ([ONE], {"categories": {0: {0: 0}}}, ["feature 0", "code 1", "add it"]),
        ([ONE], {"categories": {0: {1: 1}, 1: {}}}, ["feature 1", "1 features"]),
        ([ONE], {"categories": {"a": {1: 1}}}, ["a categorical feature must be", "'a'"]),
        ([ONE], {"categories": [0]}, ["categories must map", "[0]"]),
        ([ONE], {"categories": {0: [1]}}, ["feature 0", "must map codes to labels", "[1]"]),
        ([ONE], {"categories": {0: {1: 1, -1: 2}}}, ["feature 0", "code -1"]),
        ([ONE], {"categories": {0: {1: 1, 0.5: 2}}}, ["feature 0", "0.5"]),
        ([ONE], {"categories": {0: {1: 1, 1 << 24: 2}}}, ["feature 0", "code 16777216"]),
        ([ONE], {"categories": {0: {1: None}}}, ["feature 0", "None", "name categories by"]),
        ([ONE], {"categories": {0: {1: math.nan}}}, ["feature 0", "nan"]),
        ([ONE], {"categories": {0: {1: 2**64}}}, ["feature 0", str(2**64)]),
        ([ONE], {"categories": {0: {1: "a", 2: "a"}}}, ["feature 0", "one label", "'a'"]),
        ([ONE], {"categories": {0: {1: 1, 2: True}}}, ["feature 0", "one label"]),
        ([ONE], {"category_rule": "round"}, ["category_rule must be", "'round'"]),
        ([ONE], {"unknown_category": "left"}, ["unknown_category must be", "'left'"]),
        ([ONE], {"unknown_category": "missing", "category_rule": "truncate"}, ["'label'"]),
        ([{**ONE, "threshold": 1.0}], {}, ["tree 0", "both a threshold and categories"]),
        ([{**ONE, "categories": "ab"}], {}, ["tree 0", "'ab'"]),
        ([{**ONE, "categories": 3}], {}, ["tree 0", "a split needs"]),
        ([{**ONE, "categories": [-1]}], {}, ["tree 0", "-1"]),
        ([{**ONE, "categories": [0.5]}], {}, ["tree 0", "0.5"]),
    ],
)
def test_what_is_no_split_by_categories_is_refused(trees, options, words):
    with refused(*words, kind=cg.ModelError):
        ensemble(*trees, **options)


@pytest.mark.parametrize(
    ("threshold", "starts", "codes", "words"),
    [
        (1.0, [0, 1], [1], ["feature 0", "1.0", "1 sets"]),
        (0.5, [0, 1], [1], ["feature 0", "0.5"]),
        (-1.0, [0, 1], [1], ["feature 0", "-1.0"]),
        (math.nan, [0, 1], [1], ["feature 0", "nan"]),
        (0.0, None, None, ["feature 0", "0 sets"]),
        (0.0, [0, 2], [1], ["set_starts", "[0, 2]"]),
        (0.0, [1, 1], [1], ["set_starts", "[1, 1]"]),
        (0.0, [0, 2, 1, 2], [1, 1], ["set_starts"]),
        (0.0, [0.0, 1.0], [1], ["set_starts"]),
        (0.0, [0, 1], [1.5], ["set_starts"]),
        (0.0, [], [], ["set_starts"]),
    ],
)
def test_arrays_that_are_no_sets_are_refused(threshold, starts, codes, words):
    nodes = np.zeros(3, dtype=NODE)
    nodes["feature"], nodes["left"], nodes["right"] = [0, -1, -1], [1, 0, 1], [2, -1, -1]
    nodes["threshold"][0] = threshold
    with refused(*words, kind=cg.ModelError):
        cg.Ensemble(
            nodes,
            [0],
            [0.0, 1.0],
            n_features=1,
            task="binary",
            categories={0: {1: 1}},
            set_starts=starts,
            set_codes=codes,
        )
