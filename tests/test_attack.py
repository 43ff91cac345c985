"""Attacks: an example wherever there is one, and what is said about it."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from plain_trees import ensemble, leaf, stump

MODEL = ensemble(stump(0, 0.5), n_features=2)
X, Y = [[0.1, 7.0], [0.45, 7.0], [0.1, 7.0], [0.55, 7.0]], [0, 0, 1, 0]


def attacked(**options):
    return cg.attack(MODEL, X, Y, cg.Attacker("inf", 0.1), **options)


@pytest.mark.parametrize("engine", ["auto", "large-spread", "search"])
def test_example_is_the_nearest_float_beyond_the_threshold(engine):
    found = attacked(engine=engine)
    assert found.status.tolist() == ["robust", "fragile", "vulnerable", "broken"]
    assert found.success.tolist() == [False, True, False, True]
    assert found.witnesses[1].tolist() == [math.nextafter(0.5, 1), 7.0]
    assert found.witnesses[3].tolist() == [0.5, 7.0]
    assert np.isnan(found.witnesses[[0, 2]]).all()


def test_distance_is_the_smallest_budget_that_affords_the_example():
    found = attacked()
    assert np.isnan(found.distance[[0, 2]]).all()
    for row in (1, 3):
        r = found.distance[row]
        again = cg.attack(MODEL, X[row : row + 1], Y[row : row + 1], cg.Attacker("inf", r))
        assert again.success.tolist() == [True]
        less = cg.Attacker("inf", math.nextafter(r, 0))
        assert not cg.attack(MODEL, X[row : row + 1], Y[row : row + 1], less).success[0]


def test_features_that_need_not_move_keep_their_values():
    model = ensemble(stump(0, 0.5), stump(1, 0.5, -0.5, 0.5), n_features=3)
    x = [0.45, 0.1 + 0.2, 1 / 3]
    found = cg.attack(model, [x], [0], cg.Attacker("inf", 0.1))
    assert found.witnesses[0, 1:].tolist() == x[1:]


def test_float32_model_is_attacked_with_float32_values():
    t = float(np.float32(0.1))
    model = ensemble(stump(0, t), n_features=2, input_precision="float32")
    found = cg.attack(model, [[0.05, 0.3]], [0], cg.Attacker(1, 1))
    moved, kept = found.witnesses[0].tolist()
    assert moved == float(np.nextafter(np.float32(t), np.float32(1)))
    assert kept == 0.3


def test_missing_values_stay_missing():
    model = ensemble(stump(0, 0.5, missing="left"), stump(1, 0.5, -2.0, 2.0), n_features=2)
    found = cg.attack(model, [[math.nan, 0.45]], [0], cg.Attacker(1, 1))
    assert found.success.tolist() == [True]
    np.testing.assert_array_equal(np.isnan(found.witnesses[0]), [True, False])


def test_example_closer_to_the_boundary_than_rounding_is_borderline():
    """0.1 + 0.2 - 0.3 is 2.8e-17 exactly, and positive only if added up in the right order."""
    tight = ensemble(stump(0, 0.5, 0.0, 0.1), leaf(0.2), base_score=-0.3)
    clear = ensemble(stump(0, 0.5, 0.0, 0.2), leaf(0.2), base_score=-0.3)
    for model, borderline in ((tight, True), (clear, False)):
        found = cg.attack(model, [[0.45]], [0], cg.Attacker(1, 0.1))
        assert found.success.tolist() == [True]
        assert found.borderline.tolist() == [borderline]
    assert not attacked().borderline.any()


def test_dict_is_json_and_text_counts_the_flipped():
    found = attacked()
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert (document["instances"], document["successes"]) == (4, 2)
    assert document["success"] == [False, True, False, True]
    assert document["distance"][0] is None
    assert document["distance"][1] == found.distance[1]
    assert document["status"] == found.status.tolist()
    assert str(found) == "2 of 4 instances can be flipped by Attacker(norm=inf, budget=0.1)"
    assert len(found) == 4


def test_witnesses_stand_in_the_models_order_and_say_so():
    model = ensemble(stump(0, 0.5), n_features=2, feature_names=["a", "b"])
    frame = pd.DataFrame({"b": [9.0], "a": [0.45]})
    found = cg.attack(model, frame, [0], cg.Attacker("inf", 0.1))
    assert found.feature_names == ("a", "b")
    assert found.witnesses[0].tolist() == [math.nextafter(0.5, 1), 9.0]


def test_witness_of_a_float32_model_is_the_multiple_that_its_distance_is_measured_to():
    """float32 has no whole number between 2^24 and 2^24 + 2: the witness is then a double."""
    stump = {"feature": 0, "threshold": 2.0**24, "left": {"score": -1}, "right": {"score": 1}}
    model = cg.Ensemble.from_trees([stump], n_features=1, input_precision="float32")
    x = 2.0**24 + 10
    found = cg.attack(model, [[x]], [1], cg.Attacker(1, 9, step=1))
    assert x - found.witnesses[0, 0] == found.distance[0] == 9
    assert model.decide(found.witnesses) == [0]
