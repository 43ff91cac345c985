"""Categories in data: labels, codes and states, and the rules between them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.trees.categories import (
    codes_of_labels,
    in_codes,
    in_numbers,
    in_states,
    labels_of_codes,
)
from categorical_trees import choice, code_of, random_ensemble, random_rows
from plain_trees import ensemble, leaf, refused

NAN = math.nan


def model_with(labels, codes=(), **options):
    return ensemble(choice(0, list(codes), leaf(1.0), leaf(2.0)), categories={0: labels}, **options)


def states(model, column):
    rows = np.array(column, dtype=np.float64)[:, None]
    return in_states(model, in_codes(model, rows))[:, 0].tolist()


def same(one, other):
    np.testing.assert_array_equal(one, other)  # NaN equals NaN


def test_truncation_takes_fractions_and_what_is_above_minus_one():
    model = model_with({0: 0, 3: 3, 2**31 - 1: "last"}, category_rule="truncate")
    column = [
        0,
        -0.5,
        -0.999,
        -1.0,
        3.7,
        4,
        2**31 - 0.5,
        2**31,
        2**32 + 3,
        math.inf,
        -math.inf,
        NAN,
    ]
    same(states(model, column), [0, 0, 0, -1, 1, -1, 2, -1, -1, -1, -1, NAN])


def test_nonnegative_rule_refuses_every_negative_number():
    model = model_with({0: 0, 3: 3, 2**24 - 1: "last"}, category_rule="nonnegative")
    column = [0, -0.0, -0.5, -1e-300, 3.7, 2**24 - 0.5, 2**24, math.inf, NAN]
    same(states(model, column), [0, 0, -1, -1, 1, 2, -1, -1, NAN])


def test_number_is_rounded_to_the_inputs_of_the_model_first():
    narrow = {"category_rule": "nonnegative", "input_precision": "float32"}
    model = model_with({0: 0, 3: 3, 4: 4}, **narrow)
    assert states(model, [4 - 1e-9, -1e-300, 2**24 - 0.3]) == [2, 0, -1]
    wide = model_with({0: 0, 3: 3, 4: 4}, category_rule="nonnegative")
    assert states(wide, [4 - 1e-9, -1e-300, 2**24 - 0.3]) == [1, -1, -1]


def test_numbers_are_looked_up_among_labels():
    model = model_with({0: 0.5, 1: -3, 4: 7})
    same(
        in_codes(model, np.array([[0.5], [-3.0], [7.0], [0.0], [NAN]])).ravel(), [0, 1, 4, -1, NAN]
    )
    same(states(model, [0.5, -3, 7, 0, NAN]), [0, 1, 2, -1, NAN])


def test_text_of_a_whole_number_is_the_number_where_the_rule_says_so():
    labels = {0: -1, 1: 3, 2: "03", 3: "red"}
    model = model_with(labels, category_rule="text")
    given = ["3", 3, 3.0, np.int64(3), "03", "-1", "red", "+3", "3.0", "4", None]
    same(codes_of_labels(model, 0, given), [1, 1, 1, 1, 2, 0, 3, -1, -1, -1, NAN])
    same(states(model, [3, -1, 3.5, 0, NAN]), [1, 0, -1, -1, NAN])
    plain = model_with(labels)
    same(codes_of_labels(plain, 0, ["3", "-1", 3]), [-1, -1, 1])


def test_unknown_label_is_missing_where_the_model_says_so():
    model = model_with({0: 5, 1: 6}, unknown_category="missing")
    same(states(model, [5, 6, 7, NAN]), [0, 1, NAN, NAN])
    with refused("X row 1", "value 7.0", "no rule for missing values"):
        model.check_data([[5.0], [7.0]])


def test_float_labels_are_met_by_what_rounds_to_them_and_whole_ones_are_not():
    tenth = float(np.float32(0.1))
    floats = model_with({0: tenth, 1: 2.0**24}, input_precision="float32")
    assert states(floats, [0.1, tenth, 2**24 + 1]) == [0, 0, 1]
    whole = model_with({0: 2**24, 1: 2**24 + 1}, input_precision="float32")
    assert states(whole, [2**24, 2**24 + 1, 2**24 + 3]) == [0, 1, -1]


def test_numbers_are_codes_where_labels_are_texts():
    model = model_with({0: "a", 7: "b"})
    assert states(model, [0, 7, 1, 0.5]) == [0, 1, -1, -1]
    assert states(model_with({0: "a", 1: 7, 2: "b", 7: "c"}), [0, 1, 7, 2]) == [0, -1, 1, 2]
    assert in_codes(model, np.array([[0.0], [7.0], [3.0]])).ravel().tolist() == [0, 7, -1]


def test_labels_beyond_all_doubles_are_never_met_by_a_number():
    model = model_with({0: 2**53 + 1, 1: 2**53})
    assert states(model, [2.0**53, 2.0**53 + 2]) == [1, -1]


@given(seed=st.integers(0, 10**6))
def test_states_are_the_positions_of_codes(seed):
    model = random_ensemble(seed)
    rows = random_rows(model, seed)
    found = model.states(model.check_data(rows, allow_infinite=True))
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


@given(seed=st.integers(0, 10**6))
def test_rows_that_were_checked_may_be_checked_again(seed):
    model = random_ensemble(seed)
    rows = model.check_data(random_rows(model, seed), allow_infinite=True)
    same(model.check_data(rows, allow_infinite=True), rows)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_keep_their_precision_and_are_not_changed(kind):
    model = model_with({0: 10, 1: 20})
    rows = np.array([[10.0], [20.0], [30.0]], dtype=kind)
    for found, expected in ((model.check_data(rows), [0, 1, -1]), (rows, [10, 20, 30])):
        assert found.dtype == kind
        assert found.ravel().tolist() == expected
    codes = model.check_data(rows)
    assert model.states(codes).dtype == kind
    assert codes.ravel().tolist() == [0, 1, -1]


def test_codes_become_the_numbers_that_lead_back_to_them():
    for labels in ({0: 0.5, 1: -3, 4: 7}, {0: -1.0, 2: 1.5}, {0: "a", 7: "b"}, {3: 3, 4: 4}, {}):
        for unknown in ("right", "missing"):
            model = model_with(labels, unknown_category=unknown)
            codes = np.array([[NAN], *([code] for code in labels)])
            if unknown == "right":
                codes = np.vstack([codes, [[-1.0]]])
            same(in_codes(model, in_numbers(model, codes)), codes)
    model = model_with({0: 0.5, 1: -3, 4: 7})
    assert in_numbers(model, np.array([[4.0], [1.0], [-1.0]])).ravel().tolist() == [7, -3, -4]


def test_labels_of_any_kind_become_codes():
    model = model_with({0: "a", 2: 1.5, 3: 7, 5: True})
    labels = ["a", 1.5, np.float64(1.5), np.int8(7), 7.0, np.str_("a"), True, "b", None, NAN]
    same(codes_of_labels(model, 0, labels), [0, 2, 2, 3, 3, 0, 5, -1, NAN, NAN])
    pandas = pytest.importorskip("pandas")
    same(codes_of_labels(model, 0, [pandas.NA, pandas.NaT, "a"]), [NAN, NAN, 0])
    missing = model_with({0: "a"}, unknown_category="missing")
    same(codes_of_labels(missing, 0, ["b", "a"]), [NAN, 0])


def test_unknown_label_of_xgboost_is_refused_with_those_it_knows():
    model = model_with({0: "a", 1: 7}, category_rule="nonnegative", feature_names=["colour"])
    same(codes_of_labels(model, 0, np.array([7, None, "a"], dtype=object)), [1, NAN, 0])
    with refused("colour: unknown category 'b'", "knows 'a', 7", kind=cg.DataError):
        codes_of_labels(model, 0, ["a", "b"])


def test_codes_become_labels_again():
    model = model_with({0: "a", 2: 1.5})
    assert labels_of_codes(model, 0, [0, 2, 1, -1, 0.5, NAN]) == ["a", 1.5, 1.0, -1.0, 0.5, None]
