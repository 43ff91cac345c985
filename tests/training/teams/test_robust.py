"""Certified and robust training in a team are those of one process with all rows."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from training import problems
from training.together import fit_together


def text(model):
    return model.booster_.model_to_string()


def parts(make_rows, n_train, n_valid, **options):
    X, y = make_rows(n_train + n_valid, **options)
    return (X[:n_train], y[:n_train]), (X[n_train:], y[n_train:])


def assert_same_as_alone(make, train, valid, *, sizes=(2, 3), told=None, **asked):
    alone = make()
    given = {} if valid is None else {"eval_set": [valid]}
    alone.fit(*train, **given, **asked, **(told or {}))
    for size in sizes:
        random = np.random.default_rng(size)
        for model in fit_together(make, train, valid, size=size, random=random, told=told, **asked):
            assert text(model) == text(alone)
            assert model.evals_result_ == alone.evals_result_
            assert model.best_score_ == alone.best_score_
            ours, theirs = (m.training_report_ for m in (model, alone))
            assert ours.why == theirs.why
            assert [t.measures for t in ours.trials] == [t.measures for t in theirs.trials]
    return alone


FREE = {"min_child_samples": 1, "min_child_weight": 0}


@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.05), (1, 0.1), (0, 1)])
def test_certified_training(norm, budget):
    train, valid = parts(problems.two_classes, 500, 200)

    def make():
        return cg.LargeSpreadClassifier(
            norm=norm,
            budget=budget,
            n_estimators=12,
            num_leaves=4,
            certified=True,
            quietness=(0.2, None),
            clean_loss=None,
            random_state=0,
            n_jobs=1,
            **FREE,
        )

    model = assert_same_as_alone(make, train, valid)
    assert len(model.training_report_.trials) >= 2


def test_certified_training_splits_off_the_same_rows():
    (X, y), _ = parts(problems.three_classes, 600, 1)
    weight = np.linspace(0.5, 2, len(y))

    def make():
        return cg.LargeSpreadClassifier(
            budget=0.03,
            n_estimators=6,
            num_leaves=4,
            certified=True,
            quietness=None,
            clean_loss=None,
            class_weight="balanced",
            random_state=3,
            n_jobs=1,
            **FREE,
        )

    assert_same_as_alone(make, (X, y, weight), None, sizes=(3,))


@pytest.mark.parametrize("make_rows", [problems.two_classes, problems.three_classes])
def test_robust_training_against_norm_inf(make_rows):
    train, valid = parts(make_rows, 1800, 400)

    def make():
        return cg.RobustClassifier(
            budget=0.04, n_estimators=9, num_leaves=8, n_members=1, random_state=1, n_jobs=1
        )

    model = assert_same_as_alone(make, train, valid)
    assert model.ensemble_.n_leaves > model.ensemble_.n_trees


def test_robust_training_on_samples_of_rows_and_features():
    (X, y), valid = parts(problems.two_classes, 1500, 300)
    weight = np.linspace(0.5, 2, len(y))

    def make():
        return cg.RobustClassifier(
            budget=0.04,
            n_estimators=8,
            num_leaves=8,
            subsample=0.5,
            subsample_freq=1,
            colsample_bytree=0.7,
            pull=(1e-3,),
            quietness=0.3,
            random_state=1,
            n_jobs=1,
        )

    assert_same_as_alone(make, (X, y, weight), valid, sizes=(3,), early_stopping_rounds=4)


def test_robust_training_of_few_rows_by_folds():
    (X, y), _ = parts(problems.two_classes, 300, 1)

    def make():
        return cg.RobustClassifier(
            budget=0.03, n_estimators=10, n_members=1, pull=1e-3, random_state=0, n_jobs=1
        )

    model = assert_same_as_alone(make, (X, y), None, sizes=(3,))
    assert "cross-validation" in model.training_report_.why


def test_robust_training_splits_off_validation_rows_and_trains_on_all():
    (X, y), _ = parts(problems.two_classes, 2100, 1)

    def make():
        return cg.RobustClassifier(
            budget=0.03, n_estimators=6, n_members=1, pull=1e-3, random_state=0, n_jobs=1
        )

    model = assert_same_as_alone(make, (X, y), None, sizes=(2,))
    assert "then trained on all rows" in model.training_report_.why


@pytest.mark.parametrize(("norm", "budget"), [(1, 0.1), (0, 1)])
def test_robust_training_at_witnesses(norm, budget):
    train, valid = parts(problems.two_classes, 900, 200)

    def make():
        return cg.RobustClassifier(
            norm=norm, budget=budget, n_estimators=20, random_state=1, n_jobs=1, **FREE
        )

    model = assert_same_as_alone(make, train, valid, sizes=(2,))
    assert any(
        "certified" in model.training_report_.why or t for t in model.training_report_.trials
    )


def test_missing_values_and_categories():
    X, y = problems.with_categories(900)
    X[np.random.default_rng(0).random(len(X)) < 0.2, 1] = np.nan

    def make():
        return cg.RobustClassifier(
            budget=0.03, n_estimators=6, n_members=1, pull=1e-3, random_state=0, n_jobs=1
        )

    told = {"categorical_feature": [2, 3, 4]}
    assert_same_as_alone(make, (X[:600], y[:600]), (X[600:], y[600:]), sizes=(3,), told=told)


def test_accuracy_to_be_kept_is_that_of_a_model_that_nobody_attacks():
    train, valid = parts(problems.two_classes, 700, 300)

    def make():
        return cg.LargeSpreadClassifier(
            budget=0.1, n_estimators=10, certified=True, quietness=0.3, clean_loss=0.02, n_jobs=1
        )

    random = np.random.default_rng(0)
    models = fit_together(make, train, valid, size=2, random=random)
    reports = [model.training_report_ for model in models]
    assert reports[0].plain_accuracy == reports[1].plain_accuracy
    assert reports[0].floor == reports[1].floor
    plain = make().fit(*train, eval_set=[valid]).training_report_.plain_accuracy
    assert abs(reports[0].plain_accuracy - plain) < 0.05  # other bins, the same parameters
