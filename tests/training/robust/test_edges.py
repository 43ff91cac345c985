"""Robust training says what is so at the edges, too: numbers far from zero, small draws."""

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


def test_a_regressors_worst_error_is_no_smaller_than_exact_where_numbers_are_far_from_zero():
    train, valid = ((X, y + 1e12) for X, y in halves(problems.numbers))
    model = cg.RobustRegressor(**GIVEN).fit(*train, eval_set=[valid])
    for trial in model.training_report_.trials:
        exact = exact_worst_error(trial.ensemble, valid, model.attacker_)
        assert exact <= trial.measures["worst error"] <= 1.1 * exact


def test_a_regression_does_not_depend_on_where_zero_is():
    (X, y), (unseen, truth) = halves(problems.numbers)
    model = cg.RobustRegressor(**GIVEN)
    scores = [
        model.fit(X, y + far, eval_set=[(unseen, truth + far)]).score(unseen, truth + far)
        for far in (0.0, 1e7)
    ]
    assert scores[1] == pytest.approx(scores[0], abs=0.02)


@pytest.mark.parametrize("norm", ["inf", 2])
def test_a_small_share_of_rows_can_be_drawn(norm):
    train, valid = halves(problems.two_classes)
    model = cg.RobustClassifier(**GIVEN, norm=norm, subsample=0.05, subsample_freq=1)
    model.fit(*train, eval_set=[valid])
    assert "[bagging_freq: 1]" in model.booster_.model_to_string()
    with pytest.raises(cg.CarveError, match=r"subsample_freq must be .*, got 3"):
        cg.RobustClassifier(**GIVEN, norm=norm, subsample_freq=3).fit(*train)
