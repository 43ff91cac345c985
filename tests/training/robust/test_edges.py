"""Robust training says what is so at the edges, too: other norms, few rows, odd numbers."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from training import problems

GIVEN = {"budget": 0.05, "n_estimators": 12, "num_leaves": 6, "n_jobs": 1, "random_state": 0}


def halves(problem, n=300):
    X, y = problem(n)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


def exact_worst_error(ensemble, rows, attacker):
    X, y = rows
    ends = cg.output_range(ensemble, X, attacker, threads=1, progress=False)
    distances = np.maximum(np.abs(ends.lowest - y), np.abs(ends.highest - y))
    return np.sqrt(np.mean(distances**2))


@pytest.mark.parametrize("norm", [0, 1, 2])
def test_a_regressors_worst_error_is_the_verifiers_where_features_share_a_budget(norm):
    train, valid = halves(problems.numbers)
    budget = 1 if norm == 0 else 0.05
    model = cg.RobustRegressor(**{**GIVEN, "norm": norm, "budget": budget})
    model.fit(*train, eval_set=[valid])
    report = model.training_report_
    for trial in report.trials:
        exact = exact_worst_error(trial.ensemble, valid, model.attacker_)
        assert trial.worst_error == pytest.approx(exact, rel=1e-9)
    assert report.chosen.worst_error == min(trial.worst_error for trial in report.trials)


def test_a_regressors_worst_error_is_no_smaller_than_exact_where_numbers_are_far_from_zero():
    train, valid = ((X, y + 1e12) for X, y in halves(problems.numbers))
    model = cg.RobustRegressor(**GIVEN).fit(*train, eval_set=[valid])
    for trial in model.training_report_.trials:
        exact = exact_worst_error(trial.ensemble, valid, model.attacker_)
        assert exact <= trial.worst_error <= 1.1 * exact


@pytest.mark.parametrize(("norm", "n"), [("inf", 200), ("inf", 2200), (2, 100)])
def test_early_stopping_without_validation_rows_keeps_as_many_rounds_as_with_them(norm, n):
    X, y = problems.two_classes(n)
    given = {**GIVEN, "norm": norm, "n_members": 1, "leaf_l2": 1e-3, "n_estimators": 8}
    all_of_them = cg.RobustClassifier(**given).fit(X, y)
    patient = cg.RobustClassifier(**given).fit(X, y, early_stopping_rounds=50)
    assert patient.n_iter_ > 0.5 * all_of_them.n_iter_ > 1


@pytest.mark.parametrize("n_estimators", [8, 100, 130])
def test_a_trial_has_as_many_rounds_as_it_says_where_features_share_a_budget(n_estimators):
    train, valid = halves(problems.numbers)
    given = {**GIVEN, "norm": 2, "n_estimators": n_estimators, "num_leaves": 3}
    model = cg.RobustRegressor(**given).fit(*train, eval_set=[valid])
    trials = model.training_report_.trials
    assert all(trial.trees <= trial.parameters["rounds"] for trial in trials)


@pytest.mark.parametrize("norm", ["inf", 2])
def test_a_small_share_of_rows_can_be_drawn(norm):
    train, valid = halves(problems.two_classes)
    model = cg.RobustClassifier(**GIVEN, norm=norm, subsample=0.05, subsample_freq=1)
    model.fit(*train, eval_set=[valid])
    assert "[bagging_freq: 1]" in model.booster_.model_to_string()
    with pytest.raises(
        cg.CarveError, match=r"subsample_freq must be 0 or 1, got 3: rows are drawn"
    ):
        cg.RobustClassifier(**GIVEN, norm=norm, subsample_freq=3).fit(*train)
