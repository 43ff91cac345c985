"""An attacker as plain values: what is written is what is read, through JSON as well."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from plain_trees import ensemble, refused, stump

FEATURES = st.one_of(
    st.integers(0, 9),
    st.sampled_from(["age", "0", "07", '"0"', '"', "a b", "-1", "日", ""]),
    st.text(max_size=3),
)
SCALES = st.floats(1e-100, 1e100)
DIRECTIONS = st.tuples(st.one_of(st.just(0.0), SCALES), st.one_of(st.just(0.0), SCALES))
STEPS = st.builds(Fraction, st.integers(1, 2**31), st.integers(1, 2**31))
LABELS = st.one_of(
    st.text(max_size=3), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)


@st.composite
def ordered(draw: st.DrawFn) -> tuple[float, float]:
    one, other = draw(st.floats(allow_nan=False)), draw(st.floats(allow_nan=False))
    low, high = min(one, other), max(one, other)
    return (-math.inf if low == math.inf else low), (math.inf if high == -math.inf else high)


@st.composite
def per_feature(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    pairs = draw(st.lists(ordered(), min_size=1, max_size=3))
    return [low for low, _ in pairs], [high for _, high in pairs]


@st.composite
def per_row(draw: st.DrawFn) -> tuple[Any, Any]:
    n, d = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    pairs = [draw(ordered()) for _ in range(n * d)]
    lower, upper = (np.array([pair[end] for pair in pairs]).reshape(n, d) for end in (0, 1))
    return lower, upper


@st.composite
def attackers(draw: st.DrawFn) -> cg.Attacker:
    """Any attacker; the features of the finite options have numbers that no others have."""
    norm = draw(st.sampled_from([0, 1, 2, 100, "inf"]))
    budget = draw(st.integers(0, 9) if norm == 0 else st.one_of(st.just(0.0), SCALES))
    members = draw(st.lists(st.integers(100, 199), unique=True, max_size=6))
    options: dict[str, Any] = {
        "scale": st.one_of(
            SCALES, st.lists(SCALES, max_size=3), st.dictionaries(FEATURES, SCALES | DIRECTIONS)
        ),
        "features": st.lists(FEATURES),
        "bounds": ordered() | st.dictionaries(FEATURES, ordered()) | per_feature() | per_row(),
        "step": STEPS | st.lists(STEPS, max_size=3) | st.dictionaries(FEATURES, STEPS),
        "categories": st.dictionaries(st.integers(200, 299), st.lists(LABELS, max_size=3)),
        "one_hot": st.just([members[i : i + 2] for i in range(0, len(members) - 1, 2)]),
    }
    chosen = {name: draw(st.none() | option) for name, option in options.items()}
    return cg.Attacker(norm, budget, **chosen)


@given(attackers())
def test_an_attacker_comes_back_from_plain_values_and_from_json(attacker):
    document = attacker.to_dict()
    assert cg.Attacker.from_dict(document) == attacker
    text = json.dumps(document, allow_nan=False)
    back = cg.Attacker.from_dict(json.loads(text))
    assert back == attacker
    assert json.dumps(back.to_dict(), allow_nan=False) == text


def test_plain_values_are_those_a_user_would_write():
    attacker = cg.Attacker(
        1,
        30,
        scale={"src_bytes": (0, 100), 3: 5},
        step={"src_bytes": 1, 3: Fraction(1, 255)},
        categories={"service": ["smtp", "http"]},
        one_hot=[["home_own", 7]],
        bounds={"src_bytes": (0, math.inf)},
    )
    assert attacker.to_dict() == {
        "norm": 1,
        "budget": 30.0,
        "scale": {"src_bytes": [0.0, 100.0], "3": 5.0},
        "features": None,
        "bounds": {"src_bytes": [0.0, None]},
        "step": {"src_bytes": 1, "3": "1/255"},
        "categories": {"service": ["http", "smtp"]},
        "one_hot": [["home_own", 7]],
    }


def test_a_key_in_digits_is_a_position_unless_it_stands_in_quotes():
    found = cg.Attacker.from_dict({"norm": 1, "budget": 1, "scale": {"0": 2, '"1"': 3, "07": 4}})
    assert found == cg.Attacker(1, 1, scale={0: 2, "1": 3, "07": 4})


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"norm": 1, "budget": 1, "steps": 1}, ["unknown key 'steps'", "did you mean step?"]),
        ({"norm": 1, "budget": 1, "One-Hot": []}, ["unknown key", "did you mean one_hot?"]),
        ({"norm": 1, "budget": 1, "colour": 1}, ["unknown key 'colour'", "norm, budget, scale"]),
        ({"budget": 1, "norm": None}, ["norm", "missing"]),
        ([1, 2], ["an attacker is a table", "[1, 2]"]),
        ({"norm": "two", "budget": 1}, ["norm", "'two'"]),
        ({"norm": 1, "budget": 1, "bounds": [0, 1, 2]}, ["bounds", "[0, 1, 2]"]),
        ({"norm": 1, "budget": 1, "bounds": {"age": 1}}, ["bounds", "1"]),
        ({"norm": 1, "budget": 1, "step": {"age": [1]}}, ["step of age", "[1]"]),
        ({"norm": 1, "budget": 1, "step": {"age": None}}, ["step of age", "None"]),
        ({"norm": 1, "budget": 1, "scale": "wide"}, ["scale", "'wide'"]),
        ({"norm": 1, "budget": 1, "scale": {"age": [1, [2]]}}, ["scale of age", "[2]"]),
        ({"norm": 1, "budget": 1, "bounds": [[[1, [2]]], 3]}, ["lower bound", "[[1, [2]]]"]),
        ({"norm": 1, "budget": 1, "features": {"a": 1}}, ["features", "list"]),
        ({"norm": 1, "budget": 1, "categories": ["a"]}, ["categories", "mapping"]),
        ({"norm": 1, "budget": 1, "one_hot": ["a", "b"]}, ["one_hot", "list of groups"]),
    ],
    ids=repr,
)
def test_other_plain_values_are_refused(document, words):
    with refused(*words):
        cg.Attacker.from_dict(document)


def test_numbers_that_no_double_holds_are_refused_by_name():
    document = {"norm": 1, "budget": 1, "categories": {"service": [10**400]}}
    known = {"feature_names": ["service", "age"], "categories": {0: {0: "ftp"}}}
    model = ensemble(stump(1, 0.5), n_features=2, **known)
    with refused("service", "unknown category", "'ftp'"):
        cg.Attacker.from_dict(document).limits(model)
    with refused("feature", "9" * 100):
        cg.Attacker.from_dict({"norm": 1, "budget": 1, "scale": {"9" * 5000: 1}}).limits(model)
