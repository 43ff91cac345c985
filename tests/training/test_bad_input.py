"""Training refuses what it cannot take in one line that names the thing, and warns of the rest."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError

import carvegbm as cg
from training import problems
from training.estimators import (
    CLASSIFIERS,
    REGRESSORS,
    classifier,
    regressor,
    robust_classifier,
    robust_regressor,
)

X, Y = problems.two_classes(60)
INFINITE = np.where(np.arange(X.size).reshape(X.shape) == 26, np.inf, X)
TEXTS = pd.DataFrame({"count": [1.0, 2.0], "service": ["ftp", "http"]})
EVALUATED = {"eval_set": (X, Y)}


def refused(message, estimator, X=X, y=Y, parameters=None, **fit):
    with pytest.raises(ValueError, match=message) as caught:
        estimator(**(parameters or {})).fit(X, y, **fit)
    assert "\n" not in str(caught.value)


# ── parameters ───────────────────────────────────────────────────────────────────────────────

NUMBERS = {
    "n_estimators": [0, -1, 1.5, "3", np.nan],
    "num_leaves": [0, 1, 2.5, "many", True, 10**9],
    "min_child_samples": [0, -3, 1.5],
    "learning_rate": [0, -0.1, np.inf, "fast"],
    "min_child_weight": [-1, np.nan, np.inf],
    "min_split_gain": [-1, "none"],
    "subsample": [0, 1.5, "all", -1],
    "subsample_freq": [2, -1, 0.5],
    "colsample_bytree": [0, 1.5, True],
    "reg_alpha": [-1, np.inf],
    "reg_lambda": [-0.5, "high"],
    "max_depth": [2.5, -2, "deep"],
    "max_bin": [0, 2.5, 10**6],
}
ROBUST_NUMBERS = {
    "num_leaves": [257],
    "max_bin": [128],
    "n_members": [0, 1.5],
    "colsample_bynode": [0.0, 2],
    "leaf_l2": [-1, [0.1, None], [], "high"],
    "max_crowding": [2, 0, "low", []],
    "clean_loss": [2, -0.1],
    "time_limit": [0, "soon"],
}


@CLASSIFIERS
@pytest.mark.parametrize("name", NUMBERS)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_a_number_out_of_range_is_refused_by_name_and_value(classifier, name, data):
    value = data.draw(st.sampled_from(NUMBERS[name]))
    refused(rf"{name} must .*{value!r}", classifier, parameters={name: value})


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, own in ROBUST_NUMBERS.items() for value in own]
)
def test_numbers_of_robust_training_have_limits_of_their_own(name, value):
    refused(f"{name} must ", robust_classifier, parameters={name: value})
    if name in ("max_crowding", "clean_loss"):
        refused(f"{name} must ", classifier, parameters={name: value, "certified": True})


@CLASSIFIERS
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"budget": -1}, "budget must be >= 0"),
        ({"norm": 0.5}, "norm must be"),
        ({"norm": 0, "budget": 1.5}, "means 1 changed features"),
        ({"features": ["nope"]}, "unknown feature 'nope'; .* give its position"),
        ({"attacker": cg.Attacker(1, 1)}, r"'attacker'; .*\*\*attacker.arguments\(\)"),
        ({"step": 0}, "step must be a number > 0"),
        ({"categories": ["a"]}, "categories must be a mapping"),
        ({"one_hot": [[0, 1]], "features": [0]}, "without feature 1"),
        ({"bounds": (np.zeros((60, 8)), 1)}, "row per instance .* for all rows"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"class_weight": "fair"}, "class_weight"),
        ({"num_leafs": 3}, "no parameter 'num_leafs'; did you mean num_leaves"),
        ({"zqzqzq": 3}, "no parameter 'zqzqzq'; see"),
        ({"boosting": "dart"}, "boosting .*"),
        ({"num_iterations": 3}, "it is called n_estimators here"),
        ({"metric": "auc"}, "metric cannot be honoured"),
    ],
)
def test_parameters_are_refused_in_one_line(classifier, parameters, message):
    refused(message, classifier, parameters=parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"boosting": "dart"}, "boosting must be 'gbdt', got 'dart'"),
        ({"linear_tree": True}, "linear_tree must be False"),
        ({"categorical_feature": [0]}, "categorical_feature .* give it to fit"),
        ({"zero_as_missing": True}, "write NaN for 0 yourself"),
        ({"use_missing": False}, "use_missing must be True"),
        ({"forcedsplits_filename": "x"}, "cannot be honoured: forced splits"),
        ({"device": "gpu"}, "device must be 'cpu', got 'gpu'"),
        ({"early_stopping_round": 5}, "give early_stopping_rounds to fit"),
        ({"reg_alpha": 1.0, "lambda_l1": 2.0}, "lambda_l1 and reg_alpha are one"),
        ({"objective": "poisson"}, "objective must be 'binary' for 2 classes"),
        ({"monotone_constraints": [1]}, "LightGBM refused"),
        ({"n_estimators": None}, "n_estimators must be a whole number >= 1, got None"),
        ({"certified": True, "is_unbalance": True}, "cannot honour is_unbalance"),
        ({"certified": True, "clean_loss": 2}, "clean_loss must be .* got 2"),
    ],
)
def test_large_spread_training_refuses_in_one_line(parameters, message):
    refused(message, classifier, parameters=parameters)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_member": 3}, "no parameter 'n_member'; did you mean n_members"),
        ({"path_smooth": 1.0}, "path_smooth cannot be honoured: robust .*certified=True"),
        ({"objective": "binary"}, "objective cannot be honoured"),
        ({"min_data_in_leaf": 3}, "it is called min_child_samples here"),
        ({"bounds": (0.5, 1.0)}, "lies outside the attacker's bounds"),
        ({"large_spread": True}, "RobustClassifier has no parameter 'large_spread'"),
    ],
)
def test_robust_training_refuses_in_one_line(parameters, message):
    refused(message, robust_classifier, parameters=parameters)


@pytest.mark.parametrize(
    ("estimator", "parameters", "message"),
    [
        (regressor, {"class_weight": "balanced"}, "class_weight has no meaning for regression"),
        (robust_regressor, {"class_weight": {}}, "class_weight has no meaning for regression"),
        (regressor, {"objective": "binary"}, r"objective must be one of .*, got 'binary'"),
        (regressor, {"certified": True}, "certified=True has no meaning for regression"),
        (robust_regressor, {"clean_loss": 0.1}, "clean_loss .* no meaning for regression"),
    ],
)
def test_regressors_refuse_what_is_for_classes(estimator, parameters, message):
    refused(message, estimator, *problems.numbers(60), parameters=parameters)


@pytest.mark.parametrize(
    "changed", [{"clean_loss": 0.2}, {"max_crowding": 0.1}, {"max_crowding": None}]
)
def test_a_parameter_without_effect_brings_a_warning(changed):
    (name,) = changed
    with pytest.warns(UserWarning, match=f"{name}=.* has no effect without certified=True"):
        classifier(**changed).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same = classifier(max_crowding=[0.03, 0.06, 0.12, 0.25, None], clean_loss=0.01)
        same.fit(X, Y)


# ── data and arguments of fit ────────────────────────────────────────────────────────────────


@CLASSIFIERS
@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ({"X": INFINITE}, "X row 3, feature 2 is infinity"),
        ({"X": TEXTS, "y": [0, 1]}, "X, column 'service', must be numbers, .* or into categories"),
        ({"y": np.ones(60)}, r"one class only \(1.0\)"),
        ({"y": X[:, 0]}, "y must hold classes; for numbers use .*Regressor"),
        ({"X": X[:50]}, "inconsistent numbers of samples"),
        ({"eval_set": [(np.ones((5, 8)), list("aabab"))]}, "eval_set 0: label 'a'"),
        ({"eval_set": [(np.ones((5, 8)), [0, 1, 2, 0, 1])]}, "eval_set 0: label 2"),
        ({"eval_set": [(np.ones((5, 7)), np.ones(5))]}, "eval_set 0: .*7 features"),
        ({"eval_set": [(INFINITE, Y)]}, "eval_set 0 row 3, feature 2 is infinity"),
        ({"eval_set": 5}, "eval_set must be"),
        ({"eval_names": ["a"]}, "eval_names needs eval_set"),
        ({"eval_sample_weight": [np.ones(5)]}, "eval_sample_weight needs eval_set"),
        ({**EVALUATED, "eval_names": ["a", "b"]}, "eval_names has 2 entries, eval_set has 1 pair"),
        ({**EVALUATED, "eval_sample_weight": np.ones(5)}, "has 5 entries, eval_set has 1 pair"),
        ({**EVALUATED, "early_stopping_rounds": 2.5}, "must be a whole number >= 1, got 2.5"),
        ({**EVALUATED, "callbacks": [3]}, "callbacks must be a list of functions, got 3"),
        ({"sample_weight": [1.0]}, "one number per row"),
        ({"sample_weight": -np.ones(60)}, "finite numbers >= 0"),
        ({"feature_names": ["a"]}, "feature_names must hold 8 names"),
        ({"categorical_feature": "color"}, "must be 'auto' or a list .* got 'color'"),
        ({"categorical_feature": 3}, "must be 'auto' or a list"),
        ({"categorical_feature": ["color"]}, "unknown feature 'color'"),
        ({"categorical_feature": [8]}, "categorical_feature: feature 8 is not in 0…7"),
    ],
)
def test_data_is_refused_in_one_line(classifier, fit, message):
    refused(message, classifier, **fit)


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        ({"early_stopping_rounds": 5}, "early_stopping_rounds needs eval_set"),
        ({"eval_metric": "auc"}, "eval_metric needs eval_set; give validation data"),
        ({"eval_metric": "robustness", "eval_set": []}, "eval_metric needs eval_set"),
        ({**EVALUATED, "eval_metric": 5}, "eval_metric must be a name, a function, or a list"),
        ({**EVALUATED, "eval_metric": lambda *_: 1.0}, r"must return \(name, value, higher"),
        ({**EVALUATED, "eval_metric": "nonsense"}, "nonsense"),
        ({"callbacks": [lightgbm.early_stopping(5, verbose=False)]}, "early_stopping needs eval"),
        ({"callbacks": [lightgbm.record_evaluation({})]}, "record_evaluation needs eval_set"),
        ({"plain_accuracy": 0.5}, "plain_accuracy has no meaning without certified"),
    ],
)
def test_evaluation_without_its_data_is_refused_in_one_line(fit, message):
    refused(message, classifier, **fit)


def test_robust_training_refuses_other_metrics():
    refused("eval_metric cannot .* drop it", robust_classifier, **EVALUATED, eval_metric="auc")


@REGRESSORS
def test_targets_must_be_finite_numbers(regressor):
    refused("numbers for regression", regressor, np.ones((9, 1)), list("abcdefghi"))
    refused("y .*NaN", regressor, np.ones((9, 1)), [np.nan] * 9)
    refused("no meaning for regression", regressor, X, X[:, 0], eval_metric="robustness")


def test_null_values_of_a_frame_are_missing():
    model = classifier().fit(X, Y)
    is_null = np.isclose(X, X[5, 1])
    nulls = pd.DataFrame(X, dtype="Float64").mask(is_null)
    assert np.array_equal(model.predict(nulls), model.predict(np.where(is_null, np.nan, X)))


def test_rows_too_few_to_split_are_judged_on_themselves_and_a_warning_says_so():
    X, _ = problems.two_classes(9)
    with pytest.warns(UserWarning, match="9 rows are too few to split .* give eval_set"):
        model = robust_classifier(min_child_samples=1).fit(X, [0] * 8 + [1])
    assert model.training_report_.chosen.accuracy == model.score(X, [0] * 8 + [1])


def test_too_few_rows_give_a_constant_and_a_warning():
    for X, y in (problems.two_classes(30), problems.three_classes(30)):
        with pytest.warns(UserWarning, match="constant: 30 rows are fewer than two leaves of min_"):
            model = classifier(min_child_samples=20).fit(X, y)
        assert model.n_iter_ == 0
        assert model.predict_proba(X)[0] == pytest.approx(np.bincount(y) / 30)


def test_a_failed_fit_is_not_a_fitted_model():
    model = classifier(boosting="dart")
    with pytest.raises(ValueError, match="boosting"):
        model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_an_alias_replaces_the_named_parameter():
    one, other = (
        cg.LargeSpreadClassifier(**given, n_estimators=3, n_jobs=1).fit(X, Y)
        for given in ({"min_data_in_leaf": 5}, {"min_child_samples": 5})
    )
    assert one.ensemble_ == other.ensemble_
