"""Training on missing values: NaN goes where training learned, and the attacker cannot touch it."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from training import problems
from training.estimators import ATTACKERS, classifier, regressor


def spoilt(X, seed=7):
    """The rows, and others with NaN, zeros and huge values where training had none."""
    rng = np.random.default_rng(seed)
    other = np.where(rng.random(X.shape) < 0.4, np.nan, X)
    odd = np.array([[np.nan] * X.shape[1], [0.0] * X.shape[1], [1e300] * X.shape[1]])
    return np.vstack([X, other, odd, -odd])


@pytest.mark.parametrize(("norm", "budget"), ATTACKERS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_model_is_large_spread_and_says_what_lightgbm_says(norm, budget, n_classes):
    X, y = problems.with_gaps()
    y = y if n_classes == 2 else y + (X[:, 5] > 0.7)
    model = classifier(norm=norm, budget=budget).fit(X, y)
    assert cg.is_large_spread(model.booster_, model.attacker_)
    assert cg.load(model.booster_) == model.ensemble_
    rows = spoilt(X)
    theirs = lightgbm.Booster(model_str=model.booster_.model_to_string())
    assert np.array_equal(theirs.predict(rows, raw_score=True), model.ensemble_.raw_score(rows))
    assert model.verify(X[:50], y[:50]).engine.tolist() == ["large-spread"] * 50


def test_where_a_missing_value_goes_is_learned():
    """Whether a value is missing decides the class, in one feature either way round."""
    rng = np.random.default_rng(0)
    X = rng.random((400, 3))
    X[::2, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(int)
    for labels in (y, 1 - y):
        model = classifier(n_estimators=20).fit(X, labels)
        assert model.score(X, labels) == 1
        result = model.verify(X, labels)
        assert (result.status == "robust").all()


def test_missing_values_are_told_from_all_numbers_when_no_threshold_is_left():
    X, y = problems.with_gaps()
    model = classifier(norm=0, budget=6, n_estimators=60).fit(X, y)
    assert model.n_open_thresholds_ == 0
    splits = model.ensemble_.nodes[model.ensemble_.nodes["feature"] >= 0]
    of_numbers = splits[splits["threshold"] < np.finfo(float).max]
    assert len(of_numbers) < len(splits)
    above = splits[splits["threshold"] == np.finfo(float).max]
    assert set(above["missing"].tolist()) == {0}


def test_an_attack_leaves_missing_values_missing_and_numbers_numbers():
    X, y = problems.with_gaps()
    model = classifier(norm=0, budget=6, n_estimators=60).fit(X, y)
    witnesses = model.attack(X, y).witnesses
    flipped = ~np.isnan(witnesses).all(axis=1)
    assert flipped.any()
    assert np.array_equal(np.isnan(witnesses[flipped]), np.isnan(X[flipped]))


def test_a_tree_on_missing_values_is_lightgbms_own_where_nothing_is_closed():
    """At budget 0 and with all values distinct, one tree is what plain LightGBM grows."""
    X, y = problems.with_gaps(300, 4)
    X = np.round(X * 20)
    model = classifier(norm="inf", budget=0, n_estimators=1).fit(X, y)
    plain = lightgbm.LGBMClassifier(
        n_estimators=1, num_leaves=8, min_child_samples=5, n_jobs=1, verbosity=-1
    ).fit(X, y)
    ours, theirs = (m.booster_.predict(X, raw_score=True) for m in (model, plain))
    assert ours == pytest.approx(theirs, rel=1e-12)


def test_evaluation_sets_and_regression_take_missing_values():
    X, y = problems.numbers()
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    fresh = np.where(np.arange(6) == 5, np.nan, X)
    model = regressor().fit(X[:300, :5], y[:300], eval_set=(fresh[300:, :5], y[300:]))
    raw = model.booster_.predict(fresh[300:, :5])
    squares = np.mean((raw - y[300:]) ** 2)
    assert model.evals_result_["valid_0"]["l2"][-1] == pytest.approx(squares)


def test_a_column_that_is_missing_everywhere_is_left_out():
    X, y = problems.two_classes()
    X[:, 2] = np.nan
    model = classifier().fit(X, y)
    assert model.feature_importances_[2] == 0


def test_a_feature_without_gaps_in_training_takes_a_missing_value_for_0():
    X, y = problems.two_classes()
    model = classifier().fit(X - 0.5, y)
    rows = X - 0.5
    rows[:, 0] = np.nan
    zeros = np.where(np.isnan(rows), 0.0, rows)
    assert np.array_equal(model.decision_function(rows), model.decision_function(zeros))
