"""Robust estimators: what reaches robust training, and what comes back."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.robust import job
from carvegbm.training.robust.settings import LEARNING_DEFAULTS, RobustSettings
from training import problems
from training.estimators import robust_classifier, robust_regressor


class ToldError(Exception):
    """What a job was told."""


@pytest.fixture(name="told")
def what_a_job_is_told(monkeypatch):
    """Calls a fit that ends where the job would begin, and returns what the job was told."""

    def stop(*given, **named):
        raise ToldError(*given, named)

    def told(model, *data, **options):
        with pytest.raises(ToldError) as caught:
            model.fit(*data, **options)
        return caught.value.args

    monkeypatch.setattr(job, "RobustJob", stop)
    return told


# ── what reaches robust training ─────────────────────────────────────────────────────────────


def test_what_is_left_alone_is_left_to_robust_training(told):
    boosting, settings, _ = told(cg.RobustClassifier(), *problems.two_classes())
    assert settings == RobustSettings(split_off=True)
    assert boosting.n_rounds == LEARNING_DEFAULTS["n_estimators"]
    names = {"num_leaves": "num_leaves", "learning_rate": "learning_rate"}
    names |= {"min_child_samples": "min_data_in_leaf", "reg_lambda": "lambda_l2"}
    for ours, theirs in names.items():
        assert boosting.parameters[theirs] == LEARNING_DEFAULTS[ours]
    assert "max_bin" not in boosting.parameters
    assert boosting.parameters["objective"] == "binary"


def test_what_is_set_reaches_robust_training(told):
    X, y = problems.three_classes()
    model = cg.RobustClassifier(
        norm=2,
        budget=0.5,
        features=[0, 1],
        n_estimators=7,
        num_leaves=5,
        max_depth=3,
        learning_rate=0.3,
        min_child_samples=4,
        min_child_weight=0.1,
        min_split_gain=0.2,
        subsample=0.9,
        subsample_freq=1,
        colsample_bytree=0.8,
        colsample_bynode=0.7,
        reg_alpha=0.4,
        reg_lambda=0.6,
        max_bin=16,
        n_members=3,
        leaf_l2=[1e-3, 1e-2, 1e-3],
        max_crowding=(0.1, None),
        clean_loss=0.05,
        random_state=5,
        n_jobs=1,
    )
    boosting, settings, named = told(
        model, X, y, eval_set=(X, y), early_stopping_rounds=9, plain_accuracy=0.9
    )
    assert settings == RobustSettings(
        colsample_bynode=0.7,
        max_bin=16,
        n_members=3,
        leaf_l2=(1e-3, 1e-2),
        max_crowding=(0.1, None),
        clean_loss=0.05,
        early_stopping_rounds=9,
        least_rows_given=True,
        split_off=False,
    )
    assert boosting.n_rounds == 7
    expected = {"num_leaves": 5, "max_depth": 3, "learning_rate": 0.3, "min_data_in_leaf": 4}
    expected |= {"min_sum_hessian_in_leaf": 0.1, "min_gain_to_split": 0.2, "lambda_l1": 0.4}
    expected |= {"bagging_fraction": 0.9, "bagging_freq": 1, "feature_fraction": 0.8}
    expected |= {"lambda_l2": 0.6, "seed": 5, "objective": "multiclass", "num_class": 3}
    assert expected.items() <= boosting.parameters.items()
    assert boosting.attacker == cg.Attacker(2, 0.5, features=[0, 1])
    assert boosting.kind.task == "multiclass"
    assert named["plain_accuracy"] == 0.9


def test_a_stratified_fifth_is_split_off_where_no_validation_rows_are_given(told):
    X, y = problems.two_classes(100)
    y[:] = np.arange(100) < 20
    weight = np.arange(100.0)
    boosting, settings, _ = told(robust_classifier(random_state=0), X, y, sample_weight=weight)
    (held_out,) = boosting.evaluation.sets
    assert settings.split_off
    assert (len(boosting.data), len(held_out)) == (80, 20)
    assert held_out.y.sum() == 4
    both = np.concatenate([boosting.data.X, held_out.X])
    assert np.array_equal(np.sort(both, axis=0), np.sort(X, axis=0))
    assert sorted([*boosting.data.weight, *held_out.weight]) == weight.tolist()
    boosting, settings, _ = told(robust_regressor(), X, X[:, 0])
    assert (len(boosting.data), len(boosting.evaluation.sets[0])) == (80, 20)


def test_the_first_evaluation_set_holds_the_validation_rows(told):
    X, y = problems.two_classes(60)
    sets = [(X[:10], y[:10]), (X[10:30], y[10:30])]
    boosting, settings, _ = told(
        robust_classifier(),
        X[30:],
        y[30:],
        eval_set=sets,
        eval_names=["one", "two"],
        eval_sample_weight=[np.ones(10), np.ones(20)],
    )
    assert not settings.split_off
    assert [rows.name for rows in boosting.evaluation.sets] == ["one", "two"]
    assert np.array_equal(boosting.evaluation.sets[0].X, X[:10])


def test_plain_lightgbm_is_trained_only_where_its_accuracy_counts(told, monkeypatch):
    monkeypatch.setattr("carvegbm.training.estimator.plain_accuracy_of", lambda *_, **__: 0.75)
    data = problems.two_classes(60)
    for clean_loss, plain in (("auto", None), (None, None), (0.01, 0.75)):
        _, settings, named = told(robust_classifier(clean_loss=clean_loss), *data)
        assert settings.clean_loss == (None if clean_loss == "auto" else clean_loss)
        assert named["plain_accuracy"] == plain


def test_norm_0_has_no_use_for_max_crowding(told):
    model = robust_classifier(norm=0, budget=1, max_crowding=(0.1, 0.2))
    assert told(model, *problems.two_classes(60))[1].max_crowding == (None,)


# ── what comes back ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_the_report_says_of_the_chosen_trial_what_the_verifier_proves(problem):
    X, y = problem()
    model = robust_classifier(budget=0.02, n_estimators=10, leaf_l2=(1e-3, 1e-2), random_state=0)
    model.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    report = model.training_report_
    assert report.chosen in report.trials
    assert report.chosen.ensemble == model.ensemble_
    assert report.chosen.accuracy == model.score(X[300:], y[300:])
    assert report.chosen.robustness == model.robust_score(X[300:], y[300:])
    assert report.chosen.trees == model.ensemble_.n_trees
    assert all(trial.parameters for trial in report.trials)
    assert "chosen" in str(report)


def test_a_regressors_report_has_errors_that_the_worse_ends_do_not_exceed():
    X, y = problems.numbers()
    model = robust_regressor(budget=0.02, n_estimators=15, random_state=0)
    model.fit(X[:300], y[:300], eval_set=(X[300:], y[300:]))
    chosen = model.training_report_.chosen
    found = model.output_range(X[300:])
    worst = np.maximum(found.highest - y[300:], y[300:] - found.lowest)
    assert chosen.error == pytest.approx(np.sqrt(np.mean((model.predict(X[300:]) - y[300:]) ** 2)))
    exact = np.sqrt(np.mean(worst**2))
    assert exact <= chosen.worst_error < 1.2 * exact
    assert chosen.error < exact


def test_a_fit_sets_every_attribute_that_is_promised():
    model = robust_classifier(n_estimators=5).fit(*problems.two_classes())
    for name in ("booster_", "ensemble_", "attacker_", "classes_", "n_iter_", "best_iteration_"):
        assert hasattr(model, name)
    for name in ("best_score_", "evals_result_", "stopped_because_", "training_report_"):
        assert hasattr(model, name)
    assert model.stopped_because_ == "rounds"
    assert not hasattr(model, "n_open_thresholds_")


def test_progress_is_a_line_per_trial_and_nothing_unless_asked_for(capsys):
    X, y = problems.two_classes(100)
    robust_classifier(n_estimators=5).fit(X, y)
    assert capsys.readouterr() == ("", "")
    model = robust_classifier(n_estimators=5, verbose=1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) >= len(model.training_report_.trials)


def test_a_failed_fit_leaves_the_model_of_the_last_one():
    X, y = problems.two_classes(100)
    model = robust_classifier(n_estimators=5).fit(X, y)
    before, report = model.predict_proba(X), model.training_report_
    with pytest.raises(cg.CarveError, match="leaf_l2"):
        model.set_params(leaf_l2=-1).fit(X, y)
    assert np.array_equal(model.predict_proba(X), before)
    assert model.training_report_ is report


@pytest.mark.parametrize("norm", ["inf", "Inf", "infinity", float("inf")])
def test_defaults_go_by_the_norm_however_it_is_written(norm):
    model = cg.RobustClassifier(norm=norm)
    assert model._n_rounds() == LEARNING_DEFAULTS["n_estimators"]
    assert model._lightgbm_parameters(1)["num_leaves"] == LEARNING_DEFAULTS["num_leaves"]
