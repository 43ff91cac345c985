"""What training cannot take is refused in one line, or said in a warning."""

from __future__ import annotations

import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import carvegbm as cg
from carvegbm.training.estimators import LargeSpreadClassifier
from carvegbm.training.tuning import tune
from training import problems
from training.estimators import (
    CLASSIFIERS,
    REGRESSORS,
    classifier,
    regressor,
    robust_classifier,
    robust_regressor,
)


def broken(value):
    X, y = problems.two_classes(60)
    X[3, 2] = value
    return X, y


def fit_on(estimator, data):
    return estimator().fit(*data)


def fit_with(classifier, **parameters):
    return classifier(**parameters).fit(*problems.two_classes(60))


def fit_more(classifier, **options):
    return classifier().fit(*problems.two_classes(60), **options)


def evaluated(classifier, **options):
    X, y = problems.two_classes(60)
    return classifier().fit(X, y, eval_set=(X, y), **options)


def fit_numbers(regressor, **parameters):
    return regressor(**parameters).fit(*problems.numbers(60))


TEXTS = pd.DataFrame({"count": [1.0, 2.0], "service": ["ftp", "http"]}), [0, 1]
REFUSALS = ("fit", "given", "message")


@CLASSIFIERS
@pytest.mark.parametrize(
    REFUSALS,
    [
        (fit_on, {"data": broken(np.inf)}, "X row 3, feature 2 is infinity"),
        (fit_on, {"data": TEXTS}, "X, column 'service', must be numbers, .* or into categories"),
        (fit_on, {"data": ([[1.0], [2.0]], [1, 1])}, r"one class only \(1\)"),
        (fit_with, {"budget": -1}, "budget must be >= 0"),
        (fit_with, {"norm": 0.5}, "norm must be"),
        (fit_with, {"norm": 0, "budget": 1.5}, "means 1 changed features"),
        (fit_with, {"features": ["nope"]}, "unknown feature 'nope'; .* give its position"),
        (fit_with, {"attacker": cg.Attacker(1, 1)}, r"'attacker'; .*\*\*attacker.arguments\(\)"),
        (fit_with, {"step": {"nope": 1}}, "unknown feature 'nope'"),
        (fit_with, {"step": 0}, "step must be a number > 0"),
        (fit_with, {"categories": ["a"]}, "categories must be a mapping"),
        (fit_with, {"one_hot": [[0, 1]], "features": [0]}, "without feature 1"),
        (fit_with, {"bounds": (np.zeros((60, 8)), 1)}, "row per instance .* for all rows"),
        (fit_with, {"subsample": 0.5, "subsample_freq": 5}, "subsample_freq must be 0 or 1"),
        (fit_with, {"num_leaves": 1}, "num_leaves must be a whole number from 2"),
        (fit_with, {"min_child_samples": 0}, "min_child_samples must be a whole number >= 1"),
        (fit_with, {"learning_rate": 0}, "learning_rate must be > 0"),
        (fit_with, {"n_estimators": 0}, "n_estimators must be a whole number >= 1"),
        (fit_with, {"n_jobs": 0}, "n_jobs must be"),
        (fit_with, {"random_state": -1}, "random_state must be"),
        (fit_more, {"eval_set": [(np.ones((5, 8)), list("aabab"))]}, "eval_set 0: label 'a'"),
        (fit_more, {"eval_set": [(np.ones((5, 8)), [0, 1, 2, 0, 1])]}, "eval_set 0: label 2"),
        (fit_more, {"eval_set": [(np.ones((5, 7)), np.ones(5))]}, "7 features"),
        (fit_more, {"eval_set": 5}, "eval_set must be"),
        (fit_more, {"eval_names": ["a"]}, "eval_names needs eval_set"),
        (fit_more, {"eval_sample_weight": [np.ones(5)]}, "eval_sample_weight needs eval_set"),
        (evaluated, {"eval_names": ["a", "b"]}, "eval_names has 2 entries, eval_set has 1 pair"),
        (evaluated, {"eval_sample_weight": np.ones(5)}, "has 5 entries, eval_set has 1 pair"),
        (evaluated, {"eval_names": iter("a")}, "eval_names must be a list"),
        (evaluated, {"early_stopping_rounds": 2.5}, "must be a whole number >= 1, got 2.5"),
        (evaluated, {"early_stopping_rounds": "2"}, "must be a whole number >= 1, got '2'"),
        (fit_more, {"sample_weight": [1.0]}, "one number per row"),
        (fit_more, {"sample_weight": -np.ones(60)}, "finite numbers >= 0"),
    ],
)
def test_bad_input_is_refused_in_one_clear_line(classifier, fit, given, message):
    with pytest.raises(ValueError, match=message) as caught:
        fit(classifier, **given)
    assert "\n" not in str(caught.value)


@REGRESSORS
@pytest.mark.parametrize(
    REFUSALS,
    [
        (fit_on, {"data": (np.ones((9, 1)), list("abcdefghi"))}, "numbers for regression"),
        (fit_numbers, {"class_weight": "balanced"}, "class_weight has no meaning for regression"),
        (fit_numbers, {"budget": -1}, "budget must be >= 0"),
    ],
)
def test_bad_input_of_a_regressor_is_refused_in_one_clear_line(regressor, fit, given, message):
    with pytest.raises(cg.CarveError, match=message) as caught:
        fit(regressor, **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    REFUSALS,
    [
        (fit_with, {"num_leafs": 3}, "no parameter 'num_leafs'; did you mean num_leaves"),
        (fit_with, {"boosting": "dart"}, "boosting must be 'gbdt', got 'dart'"),
        (fit_with, {"linear_tree": True}, "linear_tree must be False"),
        (fit_with, {"categorical_feature": [0]}, "categorical_feature .* give it to fit"),
        (fit_more, {"categorical_feature": "color"}, "must be 'auto' or a list .* got 'color'"),
        (fit_more, {"categorical_feature": ["color"]}, "unknown feature 'color'"),
        (fit_more, {"categorical_feature": [8]}, r"8 is no name and no position in 0…7"),
        (fit_more, {"categorical_feature": 3}, "must be 'auto' or a list"),
        (fit_with, {"zero_as_missing": True}, "write NaN for 0 yourself"),
        (fit_with, {"use_missing": False}, "use_missing must be True"),
        (fit_with, {"forcedsplits_filename": "x"}, "cannot be honoured: forced splits"),
        (fit_with, {"force_row_wise": True}, "force_row_wise must be False"),
        (fit_with, {"device": "gpu"}, "device must be 'cpu', got 'gpu'"),
        (fit_with, {"early_stopping_round": 5}, "give early_stopping_rounds to fit"),
        (fit_with, {"reg_alpha": 1.0, "lambda_l1": 2.0}, "lambda_l1 and reg_alpha are one"),
        (fit_with, {"objective": "poisson"}, "objective must be 'binary' for 2 classes"),
        (fit_with, {"monotone_constraints": [1]}, "LightGBM refused"),
        (fit_more, {"early_stopping_rounds": 5}, "early_stopping_rounds needs eval_set"),
        (fit_more, {"eval_metric": "auc"}, "eval_metric needs eval_set; give validation data"),
        (fit_more, {"eval_metric": len}, "eval_metric needs eval_set"),
        (fit_more, {"eval_metric": "robustness", "eval_set": []}, "eval_metric needs eval_set"),
        (evaluated, {"eval_metric": 5}, "eval_metric must be a name, a function, or a list"),
        (evaluated, {"eval_metric": lambda *_: 1.0}, r"must return \(name, value, higher"),
        (evaluated, {"callbacks": [3]}, "callbacks must be a list of functions, got 3"),
        (
            fit_more,
            {"callbacks": [lightgbm.early_stopping(5, verbose=False)]},
            "lightgbm.early_stopping needs eval_set",
        ),
        (
            fit_more,
            {"callbacks": [lightgbm.record_evaluation({})]},
            "lightgbm.record_evaluation needs eval_set",
        ),
        (fit_more, {"plain_accuracy": 0.5}, "plain_accuracy has no meaning without certified"),
        (fit_with, {"n_estimators": None}, "n_estimators must be a whole number >= 1, got None"),
        (fit_more, {"eval_set": (np.ones((2, 8)), [0, 1]), "eval_metric": "nonsense"}, "nonsense"),
    ],
)
def test_what_large_spread_training_cannot_take_is_refused_in_one_clear_line(fit, given, message):
    with pytest.raises(cg.CarveError, match=message) as caught:
        fit(classifier, **given)
    assert "\n" not in str(caught.value)


def test_a_large_spread_regressor_refuses_objectives_of_classifiers():
    with pytest.raises(cg.CarveError, match=r"objective must be one of .*, got 'binary'"):
        fit_numbers(regressor, objective="binary")


@pytest.mark.parametrize(
    REFUSALS,
    [
        (fit_with, {"num_leafs": 3}, "no parameter 'num_leafs'; did you mean num_leaves"),
        (fit_with, {"n_member": 3}, "no parameter 'n_member'; did you mean n_members"),
        (fit_with, {"nonsense": 3}, "RobustClassifier has no parameter 'nonsense'; see"),
        (fit_with, {"path_smooth": 1.0}, "path_smooth cannot be honoured: robust .*certified=True"),
        (fit_with, {"boosting": "dart"}, "boosting cannot be honoured: robust training grows"),
        (fit_with, {"objective": "binary"}, "objective cannot be honoured"),
        (fit_with, {"min_data_in_leaf": 3}, "it is called min_child_samples here"),
        (fit_with, {"num_iterations": 3}, "it is called n_estimators here"),
        (fit_with, {"max_bin": 0}, "max_bin must be a whole number >= 1, got 0"),
        (fit_with, {"max_bin": 128}, "max_bin must be at most 127, got 128"),
        (fit_with, {"n_members": 0}, "n_members must be a whole number >= 1, got 0"),
        (fit_with, {"colsample_bynode": 0.0}, r"colsample_bynode must be a share in \(0, 1\]"),
        (fit_with, {"colsample_bytree": 1.5}, r"colsample_bytree must be a share in \(0, 1\]"),
        (fit_with, {"subsample": "all"}, r"subsample must be a share in \(0, 1\], got 'all'"),
        (fit_with, {"reg_lambda": -1}, "reg_lambda must be a number >= 0, got -1"),
        (fit_with, {"min_child_weight": np.nan}, "min_child_weight must be a number >= 0"),
        (fit_with, {"max_depth": 2.5}, "max_depth must be a whole number, got 2.5; -1 sets no"),
        (fit_with, {"leaf_l2": -1}, "leaf_l2 must be a number >= 0, got -1"),
        (fit_with, {"leaf_l2": [0.1, None]}, "leaf_l2 must be a number >= 0, got None"),
        (fit_with, {"leaf_l2": []}, "leaf_l2 must hold at least one number"),
        (fit_with, {"max_crowding": 2}, r"max_crowding must be None or a share in \(0, 1\], got 2"),
        (fit_with, {"max_crowding": "low"}, "max_crowding must be None or a share"),
        (fit_with, {"clean_loss": 2}, "clean_loss must be None or from 0 to 1, got 2"),
        (evaluated, {"eval_metric": "auc"}, "eval_metric cannot be honoured: robust .* drop it"),
        (evaluated, {"callbacks": [3]}, "callbacks must be a list of functions, got 3"),
        (fit_with, {"num_leaves": 257}, "num_leaves must be at most 256, got 257"),
        (fit_with, {"time_limit": 0}, "time_limit must be a number > 0, got 0"),
        (fit_with, {"bounds": (0.5, 1.0)}, "lies outside the attacker's bounds"),
        (fit_with, {"large_spread": True}, "RobustClassifier has no parameter 'large_spread'"),
    ],
)
def test_what_robust_training_cannot_take_is_refused_in_one_clear_line(fit, given, message):
    with pytest.raises(cg.CarveError, match=message) as caught:
        fit(robust_classifier, **given)
    assert "\n" not in str(caught.value)


def test_a_robust_regressor_refuses_clean_loss():
    with pytest.raises(cg.CarveError, match="clean_loss has no meaning for regression"):
        fit_numbers(robust_regressor, clean_loss=0.1)


def test_certified_training_refuses_what_it_cannot_honour():
    with pytest.raises(cg.CarveError, match="cannot honour is_unbalance"):
        fit_with(classifier, certified=True, is_unbalance=True)


@pytest.mark.parametrize(
    "changed", [{"clean_loss": 0.2}, {"max_crowding": 0.1}, {"max_crowding": None}]
)
def test_a_parameter_of_certified_training_is_not_ignored_in_silence(changed):
    (name,) = changed
    with pytest.warns(UserWarning, match=f"{name}=.* has no effect without certified=True"):
        fit_with(classifier, **changed)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_with(classifier, max_crowding=[0.03, 0.06, 0.12, 0.25, None], clean_loss=0.01)


def test_rows_too_few_to_split_are_judged_on_themselves_and_a_warning_says_so():
    X, y = problems.two_classes(9)
    y[:] = [0, 0, 0, 0, 0, 0, 0, 0, 1]
    with pytest.warns(UserWarning, match="9 rows are too few to split .* give eval_set"):
        model = robust_classifier(min_child_samples=1).fit(X, y)
    assert model.training_report_.chosen.accuracy == model.score(X, y)


# ── what is no table of numbers ──────────────────────────────────────────────────────────────


def every_way_in(model, X, y):
    """All that takes rows and labels from a user, each to be called with one of them spoilt."""
    attacker = cg.Attacker("inf", 0.001)
    return {
        "fit": lambda X=X, y=y: classifier().fit(X, y),
        "fit a regressor": lambda X=X, y=y: regressor().fit(X, y),
        "fit robustly": lambda X=X, y=y: robust_classifier().fit(X, y),
        "fit a regressor robustly": lambda X=X, y=y: robust_regressor().fit(X, y),
        "eval_set": lambda X=X, y=y: classifier().fit(*problems.two_classes(60), eval_set=(X, y)),
        "verify": lambda X=X, y=y: model.verify(X, y),
        "refit": lambda X=X, y=y: cg.robust_refit(model, X, y, attacker, steps=1),
        "refit, eval_set": lambda X=X, y=y: cg.robust_refit(
            model, *problems.two_classes(60), attacker, eval_set=(X, y), steps=1
        ),
        "tune": lambda X=X, y=y: tune(X, y, grid={"num_leaves": [4]}, n_estimators=2, n_jobs=1),
    }


def _rows_of_masks(X, limit):
    return [np.ma.masked_greater(row, limit) for row in X]


WAYS_IN = list(every_way_in(None, None, None))


@pytest.mark.parametrize("way", WAYS_IN)
def test_an_iterator_or_a_masked_label_is_refused_in_one_line(way):
    X, y = problems.two_classes(60)
    call = every_way_in(classifier(budget=0.001).fit(X, y), X, y)[way]
    call()
    for spoilt in (
        {"X": (row for row in X)},
        {"y": iter(y)},
        {"y": np.ma.masked_array(y, mask=np.arange(60) == 7)},
    ):
        with pytest.raises(cg.DataError) as caught:
            call(**spoilt)
        assert "\n" not in str(caught.value)
    assert "row 7 is masked" in str(caught.value)


@CLASSIFIERS
@pytest.mark.parametrize("masked", [np.ma.masked_greater, _rows_of_masks], ids=["array", "rows"])
def test_what_a_mask_hides_is_missing_in_training_too(classifier, masked):
    X, y = problems.two_classes(60)
    one, other = (
        classifier(budget=0.001).fit(given, y, eval_set=(given, y)).ensemble_
        for given in (masked(X, 0.9), np.where(X > 0.9, np.nan, X))
    )
    assert one == other
    assert one != classifier(budget=0.001).fit(X, y).ensemble_


def test_a_refit_takes_what_a_mask_hides_as_missing():
    X, y = problems.two_classes(60)
    model, attacker = classifier(budget=0.001).fit(X, y), cg.Attacker("inf", 0.001)
    hidden = X > 0.9
    masked, missing = np.ma.masked_array(X, mask=hidden), np.where(hidden, np.nan, X)
    one, other = (
        cg.robust_refit(model.ensemble_, x, y, attacker, steps=5) for x in (masked, missing)
    )
    assert one == other
    assert one != cg.robust_refit(model.ensemble_, X, y, attacker, steps=5)


def test_rows_to_predict_go_through_the_same_door():
    X, y = problems.two_classes(60)
    model = classifier().fit(X, y)
    with pytest.raises(cg.DataError, match="iterator"):
        model.predict(iter(X))
    is_null = np.isclose(X, X[5, 1])
    nulls = pd.DataFrame(X, dtype="Float64").mask(is_null)
    assert np.array_equal(model.predict(nulls), model.predict(np.where(is_null, np.nan, X)))


def test_weights_and_targets_are_numbers_and_not_dates():
    X, y = problems.two_classes(60)
    days = np.arange(60).astype("datetime64[D]")
    with pytest.raises(cg.DataError, match="sample_weight must be numbers: dates"):
        classifier().fit(X, y, sample_weight=days)
    with pytest.raises(cg.DataError, match="y must be numbers for regression: dates"):
        regressor().fit(X, days)
    with pytest.raises(cg.DataError, match="sample_weight row 3 is masked"):
        classifier().fit(X, y, sample_weight=np.ma.masked_equal(np.arange(60.0), 3.0))


def test_too_few_rows_give_a_constant_and_a_warning():
    X, y = problems.two_classes(30)
    with pytest.warns(UserWarning, match="30 rows are fewer than two leaves of min_child_samples"):
        model = classifier(min_child_samples=20).fit(X, y)
    assert model.n_iter_ == 0
    assert len(np.unique(model.predict_proba(X))) <= 2
    X, y = problems.three_classes(30)
    with pytest.warns(UserWarning, match="the model is constant"):
        model = classifier(min_child_samples=20).fit(X, y)
    assert model.predict_proba(X)[0] == pytest.approx(np.bincount(y) / 30)


def test_a_failed_fit_is_not_a_fitted_model():
    model = classifier(boosting="dart")
    with pytest.raises(ValueError, match="boosting"):
        model.fit(*problems.two_classes(60))
    with pytest.raises(NotFittedError):
        model.predict([[0.0] * 8])


def test_an_alias_replaces_the_named_parameter():
    X, y = problems.two_classes(30)
    model = LargeSpreadClassifier(min_data_in_leaf=5, n_estimators=3, n_jobs=1).fit(X, y)
    assert model.n_iter_ == 3
