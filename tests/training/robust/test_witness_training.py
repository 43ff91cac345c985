"""Robust training against attackers that share a budget among features: norms 0, 1, 2."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.binning import even_bins
from carvegbm.training.robust import job, witness_growth
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


def redundant(n=500, seed=0):
    """Every feature says the same of the class, and now and then the contrary."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    right = rng.random((n, 12)) < 0.85
    return np.where(right == (y == 1)[:, None], 0.75, 0.25) + rng.uniform(-0.2, 0.2, (n, 12)), y


@pytest.mark.parametrize(
    ("problem", "attacker"),
    [*((redundant, a) for a in ATTACKERS), *((problems.two_classes, a) for a in ATTACKERS[1:])],
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
    assert chosen.worst_error**2 == pytest.approx(worst(model, *valid))


def test_a_regressions_trials_have_the_worst_errors_that_are_proven():
    attacker = cg.Attacker(2, 0.1)
    train, (X, y) = halves(problems.numbers, 200)
    report = fitted(train, (X, y), attacker, kind=cg.RobustRegressor).training_report_
    for trial in report.trials:
        ends = cg.output_range(trial.ensemble, X, attacker, threads=1, progress=False)
        worst = np.maximum(y - ends.lowest_lower, ends.highest_upper - y)
        assert np.isclose(trial.worst_error, np.sqrt(np.mean(worst**2)))
    assert report.chosen.worst_error == min(trial.worst_error for trial in report.trials)


@pytest.mark.parametrize("n_estimators", [20, 100])
def test_a_trial_has_no_more_rounds_than_it_says(n_estimators):
    train, valid = halves(n=200)
    report = fitted(train, valid, n_estimators=n_estimators).training_report_
    for trial in report.trials:
        if "rounds" in trial.parameters:
            assert trial.trees <= trial.parameters["rounds"] * trial.parameters["members"]


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
@pytest.mark.parametrize("has_valid", [True, False])
def test_the_same_seed_gives_the_same_model_with_any_number_of_threads(problem, has_valid):
    train, valid = halves(problem, 240)
    one, two = (
        fitted(train, valid if has_valid else None, n_jobs=threads, n_estimators=12)
        for threads in (1, 2)
    )
    # LightGBM writes the number of threads that it was given among a model's parameters.
    texts = [model.booster_.model_to_string().split("\nparameters:")[0] for model in (one, two)]
    assert texts[0] == texts[1]
    assert one.ensemble_ == two.ensemble_


def test_a_trial_has_the_accuracy_and_the_robustness_that_verification_finds():
    train, valid = halves()
    model = fitted(train, valid)
    report = model.training_report_
    for trial in report.trials:
        assert robustness(trial.ensemble, valid, ATTACKERS[2]) == (trial.robustness,) * 2
        assert trial.accuracy == np.mean(trial.ensemble.decide(valid[0]) == valid[1])
    assert report.chosen.robustness == max(trial.robustness for trial in report.trials)
    assert report.chosen.ensemble == model.ensemble_
    assert [trial.note for trial in report.trials][:2] == ["scout", "scout"]


def test_what_a_user_settles_is_tried_alone():
    train, valid = halves()
    model = fitted(train, valid, max_crowding=[0.3], leaf_l2=[1e-3], n_members=2, max_bin=7)
    trials = model.training_report_.trials
    ours = [trial for trial in trials if "refit" not in trial.parameters]
    assert {trial.parameters["leaf_l2"] for trial in ours} == {1e-3}
    assert {trial.parameters["members"] for trial in ours} == {1, 2}
    assert {trial.parameters["max_crowding"] for trial in trials} == {0.3}
    for trial in ours:
        nodes = trial.ensemble.nodes
        for feature in range(20):
            assert len(np.unique(nodes["threshold"][nodes["feature"] == feature])) <= 7


def test_features_out_of_the_attackers_hands_are_split_freely():
    train, valid = halves(redundant)
    free, open_to_all = (
        fitted(train, valid, cg.Attacker(2, 0.6), features=features)
        for features in ([0, 1, 2], None)
    )
    assert free.training_report_.chosen.robustness > open_to_all.training_report_.chosen.robustness


def test_scale_and_bounds_count():
    train, valid = ((np.clip(X, 0.3, 0.7), y) for X, y in halves(redundant))
    attacker = cg.Attacker(2, 0.6)
    plain, weak, bounded = (
        fitted(train, valid, attacker, **limits).training_report_.chosen.robustness
        for limits in ({}, {"scale": 0.25}, {"bounds": (0.3, 0.7)})
    )
    assert weak > plain
    assert bounded >= plain


def test_an_interrupt_keeps_what_is_there(monkeypatch):
    refit_leaves, calls = witness_growth.refit_leaves, []

    def until_tired(*args):
        calls.append(0)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return refit_leaves(*args)

    monkeypatch.setattr(witness_growth, "refit_leaves", until_tired)
    train, valid = halves()
    model = fitted(train, valid)
    assert len(model.training_report_.trials) == 1
    assert model.ensemble_.n_trees == 60


def test_early_stopping_keeps_the_best_stage(monkeypatch):
    monkeypatch.setattr(job, "has_rival", lambda _: False)  # it has losses of its own
    train, valid = halves(problems.two_classes, 300)
    model = cg.RobustClassifier(norm=2, budget=0.1, n_estimators=240, num_leaves=4, n_jobs=1)
    model.fit(*train, eval_set=[valid], early_stopping_rounds=60)
    losses = next(iter(model.evals_result_.values()))["worst_loss"]
    assert len(losses) == 240 or model.stopped_because_ == "early stopping"
    assert losses[model.best_iteration_ - 1] <= min(losses) + 1e-12


def test_lightgbm_says_what_the_ensemble_says():
    train, valid = halves()
    model = fitted(train, valid)
    raw = model.booster_.predict(valid[0], raw_score=True)
    np.testing.assert_array_equal(raw, model.ensemble_.raw_score(valid[0]))


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


def test_a_feature_that_is_missing_everywhere_has_no_thresholds():
    X = np.array([[np.nan, 0.0], [np.nan, 1.0]])
    assert [len(values) > 0 for values in even_bins(X, 5).thresholds] == [False, True]
