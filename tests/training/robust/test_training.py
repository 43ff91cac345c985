"""Robust estimators: parameters, weights, determinism, early stopping, the fitted model."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from training import problems
from training.estimators import robust_classifier

SMALL = {"n_estimators": 12, "num_leaves": 4, "n_jobs": 1, "random_state": 0}


def halves(problem=problems.two_classes, n=400, **options):
    X, y = problem(n, **options)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


def fitted(train, valid=None, kind=cg.RobustClassifier, **parameters):
    given = {"budget": 0.04, "n_estimators": 24, "num_leaves": 8, "n_jobs": 1, "random_state": 0}
    model = kind(**{**given, **parameters})
    return model.fit(*train, eval_set=None if valid is None else [valid])


def text(model):
    """The model's text; LightGBM writes the number of its threads among the parameters."""
    return model.booster_.model_to_string().split("\nparameters:")[0]


# ── the model does not depend on threads, but on the seed ────────────────────────────────────


@pytest.mark.parametrize(
    ("norm", "budget", "has_valid"),
    [("inf", 0.04, True), ("inf", 0.04, False), (1, 0.1, True), (0, 1, True)],
)
@pytest.mark.parametrize("task", ["two classes", "three classes", "regression"])
def test_threads_do_not_change_the_model(norm, budget, task, has_valid):
    kind = cg.RobustRegressor if task == "regression" else cg.RobustClassifier
    problem = {
        "two classes": problems.two_classes,
        "three classes": problems.three_classes,
        "regression": problems.numbers,
    }[task]
    train, valid = halves(problem, 80, d=4)
    models = [
        fitted(
            train,
            valid if has_valid else None,
            kind,
            **{**SMALL, "n_jobs": threads, "n_estimators": 4},
            norm=norm,
            budget=budget,
            subsample=0.8,
            subsample_freq=1,
        )
        for threads in (1, 2, 4)
    ]
    assert len({text(model) for model in models}) == 1
    assert models[0].ensemble_ == models[1].ensemble_ == models[2].ensemble_
    trials = [
        [{**trial.to_dict(), "seconds": 0} for trial in model.training_report_.trials]
        for model in models
    ]
    assert trials[0] == trials[1] == trials[2]


def test_blocks_of_many_rows_do_not_depend_on_threads_either():
    train, valid = halves(n=8000)
    models = [fitted(train, valid, **{**SMALL, "n_jobs": threads}) for threads in (1, 2, 4)]
    assert len({text(model) for model in models}) == 1


def test_another_seed_gives_another_model():
    train, valid = halves()
    texts = [text(fitted(train, valid, random_state=seed)) for seed in (0, 0, 7)]
    assert texts[0] == texts[1] != texts[2]


# ── parameters ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "changed",
    [
        {"n_estimators": 7},
        {"num_leaves": 3},
        {"max_depth": 2},
        {"learning_rate": 0.3},
        {"min_child_samples": 30},
        {"min_child_weight": 8.0},
        {"min_split_gain": 4.0},
        {"subsample": 0.5, "subsample_freq": 1},
        {"colsample_bytree": 0.5},
        {"colsample_bynode": 0.3},
        {"reg_alpha": 4.0},
        {"reg_lambda": 50.0},
        {"max_bin": 4},
        {"n_members": 2},
        {"leaf_l2": 0.1},
        {"max_crowding": 0.1},
        {"class_weight": {0: 1, 1: 3}},
        {"features": [0, 1]},
        {"scale": 3.0},
    ],
    ids=str,
)
def test_every_parameter_changes_the_model(changed):
    train, valid = halves(n=600)
    before = robust_classifier(budget=0.02).fit(*train, eval_set=[valid])
    after = robust_classifier(**{"budget": 0.02, **changed}).fit(*train, eval_set=[valid])
    assert text(before) != text(after)
    frame = after.booster_.trees_to_dataframe()
    if "max_depth" in changed:
        assert frame.node_depth.max() == 3  # of leaves, the root being 1
    if "num_leaves" in changed:
        assert frame[frame.left_child.isna()].groupby("tree_index").size().max() == 3
    if "min_child_samples" in changed:
        assert frame["count"].min() >= 20  # growing counts rows where the attacker pushes them
    if "max_bin" in changed:
        assert frame.groupby("split_feature").threshold.nunique().max() <= 4


def test_features_that_the_attacker_cannot_change_are_split_freely():
    X, y = problems.two_classes(400)
    some = fitted((X, y), budget=0.5, features=[0])
    every = fitted((X, y), budget=0.5)
    assert some.score(X, y) > every.score(X, y) + 0.1
    assert not (some.ensemble_.nodes["feature"] == 0).any()


@pytest.mark.parametrize("norm", ["inf", 2])
def test_weights_count_as_those_of_classes_do(norm):
    (X, y), valid = halves()
    weight = np.where(y == 1, 1.0, 0.05)
    given = {**SMALL, "norm": norm, "budget": 0.04}
    even = cg.RobustClassifier(**given).fit(X, y, eval_set=[valid])
    uneven = cg.RobustClassifier(**given).fit(X, y, sample_weight=weight, eval_set=[valid])
    by_class = cg.RobustClassifier(**given, class_weight={0: 0.05, 1: 1.0})
    by_class.fit(X, y, eval_set=[valid])
    assert text(by_class) == text(uneven)
    shares = [
        np.mean([(trial.ensemble.decide(valid[0]) == 1).mean() for trial in report.trials])
        for report in (uneven.training_report_, even.training_report_)
    ]
    assert shares[0] > shares[1] + 0.05


def test_rows_that_are_few_of_a_class_are_no_obstacle():
    X, y = problems.two_classes(60)
    y[:] = 0
    y[:3] = 1
    X[:3] += 2
    assert fitted((X, y), min_child_samples=1).score(X, y) > 0.9


# ── early stopping and callbacks ─────────────────────────────────────────────────────────────


def test_early_stopping_keeps_the_best_round():
    train, valid = halves(n=200)
    model = cg.RobustClassifier(
        budget=0.04, n_estimators=300, n_members=1, leaf_l2=0.0, n_jobs=1, random_state=0
    )
    model.fit(*train, eval_set=[valid], early_stopping_rounds=5)
    losses = model.evals_result_["valid_0"]["worst_loss"]
    report = model.training_report_
    assert len(losses) < 300
    assert max(trial.trees for trial in report.trials) < 300
    assert model.stopped_because_ == "early stopping"
    assert model.best_iteration_ == np.argmin(losses) + 1 == model.n_iter_ == len(losses) - 5
    assert model.best_score_ == min(losses)


def test_callbacks_see_every_round_and_can_stop_training():
    import lightgbm

    train, valid = halves(n=100)
    seen = []

    def watch(environment):
        ((name, metric, loss, higher),) = environment.evaluation_result_list
        assert (name, metric, higher) == ("valid_0", "worst_loss", False)
        seen.append((environment.iteration, loss))
        if environment.iteration == 4:
            raise lightgbm.callback.EarlyStopException(4, [])

    given = {**SMALL, "leaf_l2": 0.0, "n_members": 1}
    model = cg.RobustClassifier(**given).fit(*train, eval_set=[valid], callbacks=[watch])
    assert {iteration for iteration, _ in seen} == set(range(5))
    assert all(trial.trees <= 5 for trial in model.training_report_.trials)
    assert model.stopped_because_ == "early stopping"
    losses = model.evals_result_["valid_0"]["worst_loss"]
    assert set(losses) <= {loss for _, loss in seen}


# ── the fitted model ─────────────────────────────────────────────────────────────────────────


def test_a_fit_sets_every_attribute_that_is_promised():
    model = robust_classifier(n_estimators=5).fit(*problems.two_classes(100))
    for name in ("booster_", "ensemble_", "attacker_", "classes_", "n_iter_", "best_iteration_"):
        assert hasattr(model, name)
    for name in ("best_score_", "evals_result_", "stopped_because_", "training_report_"):
        assert hasattr(model, name)
    assert model.stopped_because_ == "rounds"
    assert not hasattr(model, "n_open_thresholds_")


def test_a_failed_fit_leaves_the_model_of_the_last_one():
    X, y = problems.two_classes(100)
    model = robust_classifier(n_estimators=5).fit(X, y)
    before, report = model.predict_proba(X), model.training_report_
    with pytest.raises(cg.CarveError, match="leaf_l2"):
        model.set_params(leaf_l2=-1).fit(X, y)
    assert np.array_equal(model.predict_proba(X), before)
    assert model.training_report_ is report


def test_a_model_without_a_split_has_no_rounds_and_brings_a_warning():
    train, valid = halves()
    with pytest.warns(UserWarning, match="no split helps against an attacker of norm inf"):
        model = fitted(train, valid, budget=100.0)
    assert model.n_iter_ == model.best_iteration_ == 0


def test_training_prints_nothing_unless_it_is_verbose(capsys):
    X, y = problems.two_classes(100)
    robust_classifier(n_estimators=5).fit(X, y)
    assert capsys.readouterr() == ("", "")
    model = robust_classifier(n_estimators=5, verbose=1).fit(X, y)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) >= len(model.training_report_.trials)
