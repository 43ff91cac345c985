"""What is watched during training, when it stops early, and how it ends."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from training import problems
from training.estimators import classifier


@pytest.mark.parametrize(
    "metric",
    ["binary_logloss", "binary_error", "auc", "average_precision", "cross_entropy", "l1"],
)
def test_lightgbms_metrics_are_lightgbms(metric):
    X, y = problems.two_classes()
    weight = np.random.default_rng(0).uniform(0.5, 2, 100)
    model = classifier(n_estimators=7).fit(
        X[:300],
        y[:300],
        eval_set=(X[300:], y[300:]),
        eval_sample_weight=[weight],
        eval_metric=metric,
    )
    data = lightgbm.Dataset(X[300:], y[300:], weight=weight)
    data.set_init_score(model.decision_function(X[300:]))
    parameters = {"objective": "binary", "metric": metric, "verbosity": -1, "num_threads": 1}
    expected = lightgbm.Booster(parameters, data.construct()).eval_train()[0][2]
    assert len(model.evals_result_["valid_0"][metric]) == 7
    assert model.evals_result_["valid_0"][metric][-1] == expected


def test_multiclass_metrics_see_the_scores_of_all_classes():
    X, y = problems.three_classes()
    model = classifier().fit(X, y, eval_set=(X, y), eval_metric=["multi_error", "multi_logloss"])
    history = model.evals_result_["valid_0"]
    assert history["multi_error"][-1] == pytest.approx(1 - model.score(X, y))
    chosen = model.predict_proba(X)[np.arange(len(y)), y]
    assert history["multi_logloss"][-1] == pytest.approx(-np.log(chosen).mean())


@pytest.mark.parametrize("n_estimators", [300, 25])
@pytest.mark.parametrize("patience", [5, 10, 200])
@pytest.mark.parametrize("options", [{}, {"learning_rate": 1.0, "budget": 0.2}], ids=str)
def test_early_stopping_keeps_the_best_round_as_lightgbms_callback_does(
    n_estimators, patience, options
):
    X, y = problems.two_classes()
    own, callback = (
        classifier(**{"n_estimators": n_estimators, "learning_rate": 0.5, **options}).fit(
            X[:250], y[:250], eval_set=[(X[250:], y[250:])], **how
        )
        for how in (
            {"early_stopping_rounds": patience},
            {"callbacks": [lightgbm.early_stopping(patience, verbose=False)]},
        )
    )
    losses = own.evals_result_["valid_0"]["binary_logloss"]
    assert own.best_iteration_ == own.ensemble_.n_trees == int(np.argmin(losses)) + 1
    assert own.best_score_ == min(losses)
    if own.stopped_because_ == "early stopping":
        assert len(losses) == own.best_iteration_ + patience < n_estimators
    elif own.stopped_because_ == "rounds":
        assert len(losses) == n_estimators
    for name in ("ensemble_", "best_score_", "n_iter_", "stopped_because_"):
        assert getattr(own, name) == getattr(callback, name)


def test_early_stopping_on_proven_robustness():
    X, y = problems.two_classes()
    model = classifier(n_estimators=60, budget=0.02).fit(
        X[:250],
        y[:250],
        eval_set=[(X[250:], y[250:]), (X[:250], y[:250])],
        eval_names=["held out", "training"],
        eval_metric=["robustness", "auc"],
        early_stopping_rounds=15,
    )
    proven = model.evals_result_["held out"]["robustness"]
    assert model.best_score_ == max(proven) == model.robust_score(X[250:], y[250:])
    assert model.best_iteration_ == int(np.argmax(proven)) + 1
    assert set(model.evals_result_["training"]) == {"robustness", "auc"}


def test_callbacks_see_every_round_and_may_change_the_learning_rate():
    X, y = problems.two_classes()
    seen, recorded = [], {}
    model = classifier(n_estimators=6).fit(
        X,
        y,
        eval_set=(X, y),
        callbacks=[
            lambda env: seen.append((env.iteration, env.evaluation_result_list[0][1])),
            lightgbm.record_evaluation(recorded),
            lightgbm.reset_parameter(learning_rate=lambda i: 0.3 if i == 0 else 1e-6),
        ],
    )
    assert seen == [(i, "binary_logloss") for i in range(6)]
    assert recorded["valid_0"]["binary_logloss"] == model.evals_result_["valid_0"]["binary_logloss"]
    trees = model.booster_.trees_to_dataframe()
    later = trees[(trees["tree_index"] == 5) & trees["split_feature"].isna()]["value"]
    assert later.abs().max() < 1e-4


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_samples_too_small_for_a_split_say_how_to_get_one(problem):
    X, y = problem(200)
    model = classifier(subsample=0.1, subsample_freq=1, min_child_samples=40, n_estimators=5)
    with pytest.warns(UserWarning, match="the model is constant: .* raise subsample"):
        model.fit(X, y)
    assert model.stopped_because_ == "rounds"
    assert model.n_iter_ == 0
    shares = np.bincount(y) / len(y)
    assert model.predict_proba(X)[0] == pytest.approx(shares)


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_rounds_without_a_split_keep_their_numbers(problem):
    X, y = problem()
    model = classifier(
        n_estimators=40, colsample_bytree=0.1, min_split_gain=12.0, random_state=0, budget=0.001
    ).fit(X, y, eval_set=(X, y), eval_metric="binary_error" if y.max() == 1 else "multi_error")
    (errors,) = model.evals_result_["valid_0"].values()
    assert errors[model.n_iter_ - 1] == pytest.approx(1 - model.score(X, y))
    assert model.booster_.current_iteration() == model.n_iter_


def test_interruption_returns_what_is_trained_so_far():
    X, y = problems.three_classes()

    def interrupt(env):
        if env.iteration == 7:
            raise KeyboardInterrupt

    model = classifier(n_estimators=100).fit(X, y, callbacks=[interrupt])
    assert model.stopped_because_ == "interrupted"
    assert model.n_iter_ == 8
    assert model.ensemble_.n_trees == 24
    assert cg.is_large_spread(model.ensemble_, model.attacker_)


def test_progress_is_a_line_per_50_rounds_and_silent_by_default(capsys):
    X, y = problems.two_classes()
    classifier(n_estimators=55, budget=1e-3).fit(X, y)
    assert capsys.readouterr() == ("", "")
    classifier(n_estimators=55, budget=1e-3, verbose=1).fit(X, y, eval_set=(X, y))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("round 50: binary_logloss ")
    assert lines[1].startswith("stopped after 55 rounds (rounds)")
