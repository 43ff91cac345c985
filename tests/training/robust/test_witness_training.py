"""Robust training against attackers that share a budget among features: norms 0, 1, 2."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.binning import even_bins
from training import problems

ATTACKERS = [cg.Attacker(0, 2), cg.Attacker(1, 0.2), cg.Attacker(2, 0.2)]


def halves(problem=problems.pixels, n=500, **options):
    X, y = problem(n, **options)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


def fitted(train, valid, attacker=ATTACKERS[2], kind=cg.RobustClassifier, **parameters):
    given = {"n_estimators": 60, "num_leaves": 4, "n_jobs": 1, "random_state": 0}
    given |= {"norm": attacker.norm, "budget": attacker.budget}
    model = kind(**{**given, **parameters})
    return model.fit(*train, eval_set=None if valid is None else [valid])


def robustness(model, rows, attacker):
    return cg.verify(model, *rows, attacker, threads=1, progress=False).robustness


@pytest.mark.parametrize(
    ("problem", "attacker"),
    [
        *((problems.redundant, a) for a in ATTACKERS),
        *((problems.two_classes, a) for a in ATTACKERS[1:]),
    ],
)
def test_it_is_more_robust_than_plain_lightgbm(problem, attacker):
    train, valid = halves(problem)
    rows = problem(300, seed=5)
    plain = lightgbm.LGBMClassifier(n_estimators=60, num_leaves=4, n_jobs=1, verbose=-1).fit(*train)
    model = fitted(train, valid, attacker)
    assert robustness(model, rows, attacker)[0] > robustness(plain, rows, attacker)[1] + 0.02
    assert model.score(*rows) > plain.score(*rows) - 0.1


def test_three_classes_are_more_robust_than_plain_lightgbm():
    attacker = cg.Attacker(2, 0.15)
    train, valid = halves(problems.three_classes)
    rows = problems.three_classes(300, seed=5)
    plain = lightgbm.LGBMClassifier(n_estimators=20, num_leaves=4, n_jobs=1, verbose=-1).fit(*train)
    model = fitted(train, valid, attacker, n_estimators=40)
    assert robustness(model, rows, attacker)[0] > robustness(plain, rows, attacker)[1] + 0.02


def test_a_regression_has_smaller_worst_errors_than_plain_lightgbm():
    attacker = cg.Attacker(1, 0.1)
    train, valid = halves(problems.numbers)
    X, y = problems.numbers(200, seed=5)
    plain = lightgbm.LGBMRegressor(n_estimators=60, num_leaves=4, n_jobs=1, verbose=-1).fit(*train)
    model = fitted(train, valid, attacker, kind=cg.RobustRegressor)

    def worst(model, X, y):
        ends = cg.output_range(model, X, attacker, threads=1, progress=False)
        return np.mean(np.maximum(abs(ends.lowest_lower - y), abs(ends.highest_upper - y)) ** 2)

    assert worst(model, X, y) < 0.95 * worst(plain, X, y)
    chosen = model.training_report_.chosen
    assert chosen.measures["worst error"] ** 2 == pytest.approx(worst(model, *valid))


@pytest.mark.parametrize("n_estimators", [20, 100])
def test_a_trial_has_no_more_rounds_than_it_says(n_estimators):
    train, valid = halves(n=200)
    report = fitted(train, valid, n_estimators=n_estimators).training_report_
    for trial in report.trials:
        if "rounds" in trial.parameters:
            assert trial.trees <= trial.parameters["rounds"] * trial.parameters["n_members"]


def test_what_a_user_settles_is_tried_alone():
    train, valid = halves()
    model = fitted(train, valid, max_crowding=[0.3], leaf_l2=[1e-3], n_members=2, max_bin=7)
    trials = model.training_report_.trials
    ours = [trial for trial in trials if "radius" in trial.parameters]
    assert {trial.parameters["leaf_l2"] for trial in ours} == {1e-3}
    assert {trial.parameters["n_members"] for trial in ours} == {2}
    assert {trial.parameters["max_crowding"] for trial in trials if not trial.is_plain} == {0.3}
    for trial in ours:
        nodes = trial.ensemble.nodes
        for feature in range(20):
            assert len(np.unique(nodes["threshold"][nodes["feature"] == feature])) <= 7


def test_scale_and_bounds_count():
    train, valid = ((np.clip(X, 0.3, 0.7), y) for X, y in halves(problems.redundant))
    attacker = cg.Attacker(2, 0.6)
    plain, weak, bounded = (
        fitted(train, valid, attacker, **limits).training_report_.chosen.robustness
        for limits in ({}, {"scale": 0.25}, {"bounds": (0.3, 0.7)})
    )
    assert weak > plain
    assert bounded >= plain


# ── candidates ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("most", [1, 2, 7, 31, 255])
def test_thresholds_lie_within_the_values_and_are_no_more_than_asked_for(most):
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.random(100), rng.integers(3, size=100), np.zeros(100), rng.lognormal(0, 3, 100)]
    )
    found = even_bins(X, most)
    for values, column in zip(found.thresholds, X.T, strict=True):
        assert len(values) <= most
        assert (np.diff(values) > 0).all()
        assert ((column.min() <= values) & (values < column.max())).all()
    assert len(found.thresholds[2]) == 0
    assert len(found.thresholds[1]) > 2 or most < 3
