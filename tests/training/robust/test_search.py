"""Trials of robust training: what is tried, judged and chosen; time limits and Ctrl-C."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training import estimators as estimator
from carvegbm.training import search, validation
from carvegbm.training.robust import trainer
from training import problems
from training.robust.test_training import fitted, halves

ATTACKER = cg.Attacker("inf", 0.04)


def robustness(model, rows, attacker=ATTACKER):
    return cg.verify(model, *rows, attacker, threads=1, progress=False).robustness


@pytest.fixture(params=["eval_set", "split off", "folds"])
def rows(request, monkeypatch):
    """Training rows and validation rows or None; 200 rows count as many unless there are folds."""
    train, valid = halves()
    if request.param != "folds":
        monkeypatch.setattr(estimator, "FEW_ROWS", 0)
    return train, valid if request.param == "eval_set" else None


# ── trials and the choice ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
@pytest.mark.parametrize("norm", ["inf", 2])
def test_trials_have_the_accuracy_and_the_robustness_that_verification_finds(problem, norm):
    train, valid = halves(problem, 200)
    model = fitted(train, valid, norm=norm, n_estimators=12)
    report = model.training_report_
    for trial in report.trials:
        assert robustness(trial.ensemble, valid, model.attacker_)[0] == trial.robustness
        assert trial.accuracy == np.mean(trial.ensemble.decide(valid[0]) == valid[1])
        assert (trial.trees, trial.leaves) == (trial.ensemble.n_trees, trial.ensemble.n_leaves)
    assert report.chosen in report.trials
    assert report.chosen.ensemble == model.ensemble_
    assert report.chosen.accuracy == model.score(*valid)
    assert report.chosen.robustness == model.robust_score(*valid)


@pytest.mark.parametrize("norm", ["inf", 2])
def test_errors_of_a_regression_are_at_least_the_exact_ones(norm):
    train, valid = halves(problems.numbers, 200)
    model = fitted(train, valid, cg.RobustRegressor, norm=norm, n_estimators=12)
    report = model.training_report_
    for trial in report.trials:
        ends = cg.output_range(trial.ensemble, valid[0], model.attacker_, threads=1, progress=False)
        worst = np.maximum(valid[1] - ends.lowest, ends.highest - valid[1])
        exact = np.sqrt(np.mean(worst**2))
        assert exact * (1 - 1e-9) <= trial.measures["worst error"] <= 1.5 * exact
        distances = trial.ensemble.raw_score(valid[0]) - valid[1]
        assert trial.measures["error"] == pytest.approx(np.sqrt(np.mean(distances**2)))
    assert report.chosen.ensemble == model.ensemble_


@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.002), ("inf", 0.15), (1, 0.02)])
@pytest.mark.parametrize(
    "problem", [problems.two_classes, problems.three_classes, problems.numbers]
)
def test_the_chosen_trial_is_never_less_robust_than_the_plain_one(norm, problem, budget):
    for seed in range(3 if norm == "inf" else 1):
        X, y = problem(120, 4, seed)
        kind = cg.RobustRegressor if problem is problems.numbers else cg.RobustClassifier
        given = {"norm": norm, "budget": budget, "n_estimators": 6, "random_state": seed}
        report = fitted((X[:60], y[:60]), (X[60:], y[60:]), kind, **given).training_report_
        (plain,) = (trial for trial in report.trials if trial.is_plain)
        if kind is cg.RobustRegressor:
            assert report.chosen.measures["worst error"] <= plain.measures["worst error"]
        else:
            assert report.chosen.robustness >= plain.robustness


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_the_chosen_fold_trial_is_never_less_robust_than_the_plain_one(problem):
    report = fitted(problem(90, 4), n_estimators=6, budget=0.002).training_report_
    (plain,) = (trial for trial in report.trials if trial.is_plain)
    assert report.chosen.robustness >= plain.robustness


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_robust_models_are_more_robust_than_plain_lightgbm(problem):
    import lightgbm

    train, valid = halves(problem, 600)
    unseen = problem(400, seed=5)
    plain = lightgbm.LGBMClassifier(n_estimators=24, num_leaves=8, n_jobs=1, verbose=-1)
    plain.fit(*train)
    model = fitted(train, valid, budget=0.1)
    attacker = cg.Attacker("inf", 0.1)
    assert robustness(model, unseen, attacker)[0] > robustness(plain, unseen, attacker)[1] + 0.02
    assert model.score(*unseen) > plain.score(*unseen) - 0.1


def test_every_value_of_a_sequence_is_tried_once(monkeypatch):
    monkeypatch.setattr(search, "_MANY_ROWS", 0)
    train, valid = halves()
    given = {"leaf_l2": [1e-3, 1e-2, 1e-3], "max_crowding": [0.2, None], "n_members": 2}
    trials = fitted(train, valid, **given).training_report_.trials
    ours = [trial.parameters for trial in trials if not trial.is_plain]
    assert {found["leaf_l2"] for found in ours} == {1e-3, 1e-2}
    assert {found["max_crowding"] for found in ours} == {0.2, None}
    assert {found["n_members"] for found in ours} == {2}
    keys = [repr(found) for found in ours]
    assert len(keys) == len(set(keys))


def test_all_rows_but_given_validation_rows_are_trained_on(rows):
    train, valid = rows
    model = fitted(train, valid, n_estimators=6)
    counts = model.booster_.trees_to_dataframe().query("node_depth == 1")["count"]
    assert set(counts) == {len(train[0])}
    assert ("cross-validation" in model.training_report_.why) == (
        valid is None and estimator.FEW_ROWS > 0
    )
    assert model.training_report_.chosen.ensemble == model.ensemble_


def test_clean_loss_rules_out_trials_that_are_not_accurate_enough():
    train, valid = halves(n=500)
    free = fitted(train, valid, budget=0.15).training_report_
    strict = fitted(train, valid, budget=0.15, clean_loss=0.0).training_report_
    assert free.floor is None
    assert strict.chosen.accuracy >= strict.floor
    assert strict.chosen.accuracy >= free.chosen.accuracy


def test_a_plain_accuracy_that_is_given_replaces_the_measured_one():
    train, valid = halves(n=100)
    for accuracy in (None, 0.625):
        model = cg.RobustClassifier(budget=0.04, n_estimators=6, n_jobs=1, clean_loss=0.1)
        report = model.fit(*train, eval_set=[valid], plain_accuracy=accuracy).training_report_
        assert (report.plain_accuracy == 0.625) == (accuracy == 0.625)


def test_large_spread_training_competes_for_norms_other_than_inf():
    train, valid = halves(n=200)
    report = fitted(train, valid, norm=1, budget=0.05, n_estimators=12).training_report_
    assert any("refit" in trial.parameters for trial in report.trials)
    assert any("radius" in trial.parameters for trial in report.trials)
    full = [t for t in report.trials if t.note == "" and not t.is_plain]
    assert report.chosen.robustness >= max(t.robustness for t in full if "refit" in t.parameters)


def test_a_trainer_that_is_clearly_behind_gets_no_full_fit(monkeypatch):
    monkeypatch.setattr("carvegbm.training.search._CLEARLY", 0)
    X, y = problems.two_classes(2500, seed=0)
    model = cg.RobustClassifier(norm=1, budget=0.02, n_estimators=12, clean_loss=0.1, n_jobs=1)
    full = [t for t in model.fit(X, y).training_report_.trials if t.note == ""]
    assert len({"refit" in trial.parameters for trial in full}) == 1


def test_early_stopping_watches_the_rows_that_are_split_off(rows):
    train, valid = rows
    model = cg.RobustClassifier(
        budget=0.04, n_estimators=150, n_members=1, leaf_l2=0.0, n_jobs=1, random_state=0
    )
    eval_set = None if valid is None else [valid]
    model.fit(*train, eval_set=eval_set, early_stopping_rounds=3)
    assert 0 < model.n_iter_ < 150
    assert all(trial.trees < 150 for trial in model.training_report_.trials)


@pytest.mark.parametrize("given", ["eval_set", "split off"])
def test_validation_rows_count_by_their_weights(given, monkeypatch):
    monkeypatch.setattr(estimator, "FEW_ROWS", 0)
    X, y = problems.two_classes(500)
    weight = np.random.default_rng(0).exponential(size=500)
    _, valid = validation.split_off(y, 0)
    options = {"sample_weight": weight}
    if given == "eval_set":
        options = {"eval_set": [(X[valid], y[valid])], "eval_sample_weight": [weight[valid]]}
    model = cg.RobustClassifier(budget=0.04, n_estimators=12, num_leaves=4, random_state=0)
    report = model.fit(X, y, **options).training_report_
    for trial in report.trials:
        if trial is not report.chosen:  # fitted to all rows in the end
            right = trial.ensemble.decide(X[valid]) == y[valid]
            assert trial.accuracy == pytest.approx(np.average(right, weights=weight[valid]))
            status = cg.verify(trial.ensemble, X[valid], y[valid], ATTACKER, progress=False).status
            proven = np.average(status == "robust", weights=weight[valid])
            assert trial.robustness == pytest.approx(proven)


# ── time limit ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def clock(monkeypatch):
    """A clock for training that stands still unless a callback advances it."""
    found = SimpleNamespace(now=100.0, monotonic=lambda: found.now)
    for module in (trainer, search, estimator):
        monkeypatch.setattr(module, "time", found)
    return found


@pytest.mark.parametrize("limit", [0.5, 6.5, 40.5])
def test_a_time_limit_ends_training_within_a_round_and_leaves_a_model(rows, clock, limit):
    train, valid = rows
    late = []

    def tick(_):
        clock.now += 1
        late.append(clock.now > 100 + limit)

    model = cg.RobustClassifier(
        budget=0.04, n_estimators=40, num_leaves=4, time_limit=limit, n_jobs=1, random_state=0
    )
    model.fit(*train, eval_set=None if valid is None else [valid], callbacks=[tick])
    report = model.training_report_
    assert model.stopped_because_ == "time limit"
    assert model.n_iter_ > 0
    assert report.chosen.ensemble == model.ensemble_
    assert cg.load(model.booster_, classes=[0, 1]) == model.ensemble_
    # One model is fitted to the end where folds leave none.
    assert sum(late) <= (1 if valid is not None or estimator.FEW_ROWS == 0 else 41)


def test_a_time_limit_that_is_not_reached_changes_nothing():
    train, valid = halves(n=100)
    free, limited = (
        fitted(train, valid, n_estimators=6, time_limit=limit) for limit in (None, 3600)
    )
    assert free.ensemble_ == limited.ensemble_
    assert limited.stopped_because_ == "rounds"


# ── Ctrl-C ───────────────────────────────────────────────────────────────────────────────────


def interrupted_at(call, train, valid, **parameters):
    calls = iter(range(10**6))

    def press(_):
        if next(calls) == call:
            raise KeyboardInterrupt

    given = {"budget": 0.04, "n_estimators": 12, "num_leaves": 4, "n_jobs": 1, "random_state": 0}
    model = cg.RobustClassifier(**{**given, **parameters})
    return model.fit(*train, eval_set=None if valid is None else [valid], callbacks=[press])


@pytest.mark.parametrize("call", [3, 14, 30])
def test_an_interrupt_keeps_the_finished_trials(call):
    train, valid = halves(n=200)
    parameters = {"n_members": 1, "leaf_l2": 1e-3}
    whole = interrupted_at(10**6, train, valid, **parameters).training_report_.trials
    model = interrupted_at(call, train, valid, **parameters)
    report = model.training_report_
    finished = [trial for trial in report.trials if trial.note != "unfinished"]
    assert model.stopped_because_ == "interrupted"
    assert len(report.trials) - len(finished) == 1
    assert len(finished) < len(whole)
    measures = [(trial.parameters, trial.measures) for trial in whole]
    assert all((trial.parameters, trial.measures) in measures for trial in finished)
    assert robustness(model, valid)[0] == report.chosen.robustness
    assert report.plain is None or report.chosen.robustness >= report.plain.robustness


@pytest.mark.parametrize("call", [0, 5, 20])
def test_an_interrupt_leaves_a_model_however_rows_are_judged(rows, call):
    train, valid = rows
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if call == 0 else "error", UserWarning)
        model = interrupted_at(call, train, valid)
    assert model.stopped_because_ == "interrupted"
    assert model.training_report_.chosen.ensemble == model.ensemble_
    assert cg.load(model.booster_, classes=[0, 1]) == model.ensemble_
