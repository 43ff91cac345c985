"""Robust training tries what it says, chooses by proof, keeps what is there when interrupted."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.large_spread.trainer import LargeSpreadTrainer
from carvegbm.training.robust import ground as grounds
from carvegbm.training.robust import growing, job
from carvegbm.training.robust.witness_ground import WitnessGround
from training import problems

ATTACKER = cg.Attacker("inf", 0.04)


def halves(problem=problems.two_classes, n=400, **options):
    X, y = problem(n, **options)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


def fitted(train, valid=None, **parameters):
    given = {"budget": 0.04, "n_estimators": 24, "num_leaves": 8, "n_jobs": 1, "random_state": 0}
    model = cg.RobustClassifier(**{**given, **parameters})
    return model.fit(*train, eval_set=None if valid is None else [valid])


def robustness(model, rows, attacker=ATTACKER):
    return cg.verify(model, *rows, attacker, threads=1, progress=False).robustness


def test_a_trial_has_the_accuracy_and_the_robustness_that_verification_finds():
    train, valid = halves()
    model = fitted(train, valid)
    for trial in model.training_report_.trials:
        assert robustness(trial.ensemble, valid) == (trial.robustness, trial.robustness)
        assert trial.accuracy == np.mean(trial.ensemble.decide(valid[0]) == valid[1])
    chosen = model.training_report_.chosen
    assert chosen.robustness == max(t.robustness for t in model.training_report_.trials)
    assert chosen.ensemble == model.ensemble_


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_it_is_more_robust_than_plain_lightgbm(problem):
    import lightgbm

    train, valid = halves(problem, 600)
    rows = problem(400, seed=5)
    plain = lightgbm.LGBMClassifier(n_estimators=24, num_leaves=8, verbose=-1).fit(*train)
    model = fitted(train, valid, budget=0.1)
    attacker = cg.Attacker("inf", 0.1)
    assert robustness(model, rows, attacker)[0] > robustness(plain, rows, attacker)[1] + 0.02
    assert model.score(*rows) > plain.score(*rows) - 0.1


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
@pytest.mark.parametrize("has_valid", [True, False])
def test_the_same_seed_gives_the_same_model_with_any_number_of_threads(problem, has_valid):
    train, valid = halves(problem, 240)
    models = [
        fitted(train, valid if has_valid else None, n_jobs=threads, subsample=0.8, subsample_freq=1)
        for threads in (1, 2)
    ]
    texts = [model.booster_.model_to_string() for model in models]
    assert texts[0] == texts[1]
    other = fitted(train, valid if has_valid else None, random_state=7)
    assert other.booster_.model_to_string() != texts[0]


def test_scouts_differ_in_how_they_grow_and_the_rest_in_their_pull():
    train, valid = halves()
    report = fitted(train, valid, leaf_l2=[1e-3, 1e-2], max_crowding=[0.2, None]).training_report_
    scouts = [t.parameters for t in report.trials if t.note == "scout"]
    others = [t.parameters for t in report.trials if t.note != "scout"]
    assert {(p["max_crowding"], p["ordered"]) for p in scouts} == {
        (q, o) for q in (0.2, None) for o in (False, True)
    }
    assert {p["budget_share"] for p in scouts} == {1.0, 0.75}
    assert {p["rounds"] for p in scouts} == {3, 12}
    assert all(p["members"] == 1 for p in scouts)
    assert {p["leaf_l2"] for p in others} == {None, 1e-3, 1e-2}
    assert len({(p["max_crowding"], p["ordered"], p["members"]) for p in others}) == 1


def test_few_rows_are_judged_by_cross_validation_and_all_of_them_are_trained_on():
    train, _ = halves()
    model = fitted(train)
    assert "cross-validation" in model.training_report_.why
    counts = model.booster_.trees_to_dataframe().query("node_depth == 1")["count"]
    assert set(counts) == {len(train[0])}
    assert {t.parameters["rounds"] for t in model.training_report_.trials} == {3, 6, 12}


def test_rows_that_were_split_off_are_trained_on_once_the_choice_is_made(monkeypatch):
    monkeypatch.setattr(job, "FEW_ROWS", 0)
    train, valid = halves()
    model = fitted(train)
    assert "trained on all rows" in model.training_report_.why
    assert model.training_report_.chosen.ensemble == model.ensemble_
    counts = model.booster_.trees_to_dataframe().query("node_depth == 1")["count"]
    assert set(counts) == {len(train[0])}
    assert robustness(model, valid)[0] > 0.5


def test_rows_that_were_given_as_validation_rows_are_not_trained_on():
    train, valid = halves()
    model = fitted(train, valid)
    assert "cross-validation" not in model.training_report_.why
    counts = model.booster_.trees_to_dataframe().query("node_depth == 1")["count"]
    assert set(counts) == {len(train[0])}


def test_clean_loss_rules_out_trials_that_are_not_accurate_enough():
    train, valid = halves(n=500)
    free = fitted(train, valid, budget=0.15)
    strict = fitted(train, valid, budget=0.15, clean_loss=0.0)
    report = strict.training_report_
    assert report.floor is not None
    assert report.chosen.accuracy >= report.floor
    accurate = [t for t in report.trials if t.accuracy >= report.floor]
    assert report.chosen.robustness == max(t.robustness for t in accurate)
    assert free.training_report_.floor is None


def test_a_plain_accuracy_that_is_given_is_not_measured_again():
    train, _ = halves()
    given = {"budget": 0.04, "n_estimators": 12, "num_leaves": 8, "n_jobs": 1, "random_state": 0}
    for accuracy in (None, 0.625):
        model = cg.RobustClassifier(**given, clean_loss=0.1)
        report = model.fit(*train, plain_accuracy=accuracy).training_report_
        assert (report.plain_accuracy == 0.625) == (accuracy == 0.625)
        assert "cross-validation" in report.why


def test_early_stopping_keeps_the_best_round_and_says_so():
    train, valid = halves(n=200)
    model = cg.RobustClassifier(budget=0.04, n_estimators=300, n_members=1, leaf_l2=0.0, n_jobs=1)
    model.fit(*train, eval_set=[valid], early_stopping_rounds=5)
    losses = model.evals_result_["valid_0"]["worst_loss"]
    assert model.stopped_because_ == "early stopping"
    assert model.best_iteration_ == np.argmin(losses) + 1 == model.n_iter_
    assert len(losses) == model.n_iter_ + 5
    assert model.best_score_ == min(losses)


@pytest.mark.parametrize("few_rows", [0, 10**6])
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_early_stopping_counts_rounds_before_all_rows_are_trained_on(
    monkeypatch, problem, few_rows
):
    monkeypatch.setattr(job, "FEW_ROWS", few_rows)
    (X, y), _ = halves(problem)
    given = {"budget": 0.04, "n_estimators": 24, "num_leaves": 8, "n_jobs": 1, "random_state": 0}
    model = cg.RobustClassifier(**given).fit(X, y, early_stopping_rounds=3)
    whole = cg.RobustClassifier(**given).fit(X, y)
    assert 1 < model.n_iter_ <= whole.n_iter_
    assert model.score(X, y) > whole.score(X, y) - 0.1


def test_a_short_plan_that_wins_ends_with_its_own_rounds(monkeypatch):
    true_measures = grounds.Ground.measures

    def pretended(self, plan, *given):
        found = true_measures(self, plan, *given)
        return found if plan.rounds == 6 else {**found, "robustness": 0.0}

    monkeypatch.setattr(grounds.Ground, "measures", pretended)
    train, valid = halves(n=200)
    model = cg.RobustClassifier(budget=0.04, n_estimators=24, n_members=1, n_jobs=1)
    model.fit(*train, eval_set=[valid])
    assert model.n_iter_ == 6
    assert model.stopped_because_ == "rounds"
    assert len(model.evals_result_["valid_0"]["worst_loss"]) == 6


def test_early_stopping_of_members_that_stop_at_different_rounds():
    train, valid = halves(n=200)
    for seed in range(5):
        model = cg.RobustClassifier(
            budget=0.04, n_estimators=90, n_members=3, leaf_l2=0.0, n_jobs=1, random_state=seed
        )
        model.fit(*train, eval_set=[valid], early_stopping_rounds=1)
        assert model.best_score_ in model.evals_result_["valid_0"]["worst_loss"]


def test_a_model_without_a_split_has_no_rounds_and_brings_a_warning():
    train, valid = halves()
    with pytest.warns(UserWarning, match="no split helps against an attacker of norm inf"):
        model = fitted(train, valid, budget=100.0)
    assert model.n_iter_ == model.best_iteration_ == 0


def test_weights_count():
    (X, y), valid = halves()
    weight = np.where(y == 1, 1.0, 0.05)
    even = fitted((X, y), valid, max_crowding=None)
    given = {"budget": 0.04, "n_estimators": 24, "num_leaves": 8, "n_jobs": 1, "random_state": 0}
    uneven = cg.RobustClassifier(**given, max_crowding=None)
    uneven.fit(X, y, sample_weight=weight, eval_set=[valid])
    assert (uneven.predict(valid[0]) == 1).mean() > (even.predict(valid[0]) == 1).mean() + 0.05
    by_class = cg.RobustClassifier(**given, max_crowding=None, class_weight={0: 0.05, 1: 1.0})
    by_class.fit(X, y, eval_set=[valid])
    assert by_class.booster_.model_to_string() == uneven.booster_.model_to_string()


def test_features_out_of_the_attackers_hands_are_split_freely():
    X, y = problems.two_classes(400)
    some = fitted((X, y), budget=0.5, features=[0])
    every = fitted((X, y), budget=0.5)
    assert some.score(X, y) > every.score(X, y) + 0.1
    assert not (some.ensemble_.nodes["feature"] == 0).any()


@pytest.mark.parametrize("after", [1, 5, 30])
def test_an_interrupt_keeps_what_is_there(monkeypatch, after):
    train, valid = halves()
    calls = iter(range(10**6))
    true_round = growing.Grower.round

    def impatient(self):
        if next(calls) == after:
            raise KeyboardInterrupt
        return true_round(self)

    monkeypatch.setattr(growing.Grower, "round", impatient)
    model = fitted(train, valid)
    assert model.stopped_because_ == "interrupted"
    assert model.ensemble_.n_trees >= 1
    assert robustness(model, valid)[0] == model.training_report_.chosen.robustness


def test_an_interrupt_before_the_first_tree_is_passed_on(monkeypatch):
    def never(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(growing.Grower, "round", never)
    train, valid = halves()
    with pytest.raises(KeyboardInterrupt):
        fitted(train, valid)


def test_an_interrupt_during_cross_validation_is_passed_on(monkeypatch):
    calls = iter(range(10**6))
    true_measures = grounds.Ground.measures

    def impatient(self, *given):
        if next(calls) == 3:
            raise KeyboardInterrupt
        return true_measures(self, *given)

    monkeypatch.setattr(grounds.Ground, "measures", impatient)
    with pytest.raises(KeyboardInterrupt):
        fitted(halves()[0])


def test_few_rows_of_a_class_are_no_obstacle():
    X, y = problems.two_classes(60)
    y[:] = 0
    y[:3] = 1
    X[:3] += 2
    model = fitted((X, y))
    assert model.score(X, y) > 0.9
    assert job.FEW_ROWS > 60


def test_certified_training_is_a_rival_for_norms_other_than_inf():
    train, valid = halves()
    given = {"norm": 1, "budget": 0.05, "n_estimators": 12, "n_jobs": 1, "random_state": 0}
    model = cg.RobustClassifier(**given).fit(*train, eval_set=[valid])
    report = model.training_report_
    certified = [t for t in report.trials if "refit" in t.parameters]
    others = [t for t in report.trials if "refit" not in t.parameters]
    assert certified
    assert others
    assert report.chosen.robustness == max(t.robustness for t in report.trials)
    assert "large-spread" in report.why
    found = cg.verify(model, *valid, cg.Attacker(1, 0.05), threads=1, progress=False)
    assert found.robustness[0] == report.chosen.robustness
    assert model.ensemble_ == report.chosen.ensemble


@pytest.mark.parametrize("ours", [0.0, 1.0])
def test_the_rival_wins_iff_it_is_better(monkeypatch, ours):
    train, valid = halves()
    true_measures = WitnessGround.measures

    def pretended(self, *given):
        return {**true_measures(self, *given), "robustness": ours}

    monkeypatch.setattr(WitnessGround, "measures", pretended)
    given = {"norm": 1, "budget": 0.05, "n_estimators": 12, "n_jobs": 1, "random_state": 0}
    model = cg.RobustClassifier(**given).fit(*train, eval_set=[valid])
    chosen = model.training_report_.chosen
    assert ("refit" in chosen.parameters) == (ours == 0.0)
    assert cg.is_large_spread(model.ensemble_, model.attacker_) or ours == 1.0


@pytest.mark.parametrize("ours", [0.0, 1.0])
def test_an_interrupt_of_the_rival_ends_training(monkeypatch, ours):
    monkeypatch.setattr(job, "FEW_ROWS", 0)
    true_measures, fit_path = WitnessGround.measures, LargeSpreadTrainer.fit_path

    def pretended(self, *given):
        return {**true_measures(self, *given), "robustness": ours}

    def impatient(self, *arguments):
        yield next(fit_path(self, *arguments))
        raise KeyboardInterrupt

    monkeypatch.setattr(WitnessGround, "measures", pretended)
    monkeypatch.setattr(LargeSpreadTrainer, "fit_path", impatient)
    model = fitted(halves()[0], norm=1, n_estimators=12)
    assert model.stopped_because_ == "interrupted"
    assert ("refit" in model.training_report_.chosen.parameters) == (ours == 0.0)
    assert "all rows" not in model.training_report_.why
