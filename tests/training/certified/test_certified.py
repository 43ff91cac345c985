"""Certified training: every trial is reported as it is, and the best acceptable one chosen."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.large_spread.trainer import MAX_CROWDING
from carvegbm.training.report import Trial
from carvegbm.training.search import accuracy_floor, best_trial
from carvegbm.training.validation import split_off
from training import problems
from training.certified_fits import ATTACKERS, classifier, fitted, same_report, split


def crowding(trial):
    return trial.parameters["max_crowding"]


# ── the report and the choice ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("norm", "budget"), ATTACKERS)
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_the_report_says_of_every_trial_what_the_verifier_proves(problem, norm, budget):
    model, _, (X, y) = fitted(problem, norm=norm, budget=budget)
    report = model.training_report_
    for c in report.trials:
        proven = cg.verify(c.ensemble, X, y, model.attacker_, threads=1, progress=False)
        assert (c.accuracy, c.robustness) == (proven.accuracy, proven.robustness[0])
        read = c.ensemble
        assert (c.trees, c.leaves) == (read.n_trees, read.n_leaves)
        assert c.parameters["num_leaves"] == 6
        assert cg.is_large_spread(read, model.attacker_)
    assert model.robust_score(X, y) == report.chosen.robustness
    assert model.score(X, y) == report.chosen.accuracy


@pytest.mark.parametrize("clean_loss", [0.0, 0.05, 1.0, None])
@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.03), (1, 0.06)])
def test_the_most_robust_trial_above_the_floor_is_chosen(norm, budget, clean_loss):
    refused = 0
    for seed in range(3):
        model, *_ = fitted(seed=seed, norm=norm, budget=budget, clean_loss=clean_loss)
        report = model.training_report_
        floor = 0.0
        if clean_loss is None:
            assert (report.floor, report.plain_accuracy) == (None, None)
        else:
            reached = max(c.accuracy for c in report.trials if c.note != "scout")
            floor = min(report.plain_accuracy, reached) - clean_loss
            assert report.floor == pytest.approx(floor)
        full = [c for c in report.trials if c.note != "scout"]
        able = [c for c in full if c.accuracy >= floor - 1e-9]
        refused += len(full) - len(able)
        assert report.chosen in able
        assert report.chosen.robustness == max(c.robustness for c in able)
        assert f"{report.chosen.robustness:.4f}" in report.why
        assert "\n" not in report.why
    assert refused if clean_loss == 0.0 else clean_loss == 0.05 or not refused


def test_plain_lightgbm_sets_the_goal():
    model, (X, y), (Xv, yv) = fitted(clean_loss=0.1)
    plain = lightgbm.LGBMClassifier(
        n_estimators=12,
        num_leaves=6,
        min_child_samples=5,
        random_state=0,
        data_random_seed=0,
        deterministic=True,
        n_jobs=1,
        verbose=-1,
    ).fit(X, y)
    assert model.training_report_.plain_accuracy == plain.score(Xv, yv)


def test_plain_lightgbm_is_not_trained_where_its_accuracy_is_known_or_does_not_count(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr("carvegbm.training.estimators.plain_accuracy_of", refuse)
    (X, y), valid = split()
    report = classifier(clean_loss=0.1).fit(X, y, eval_set=valid, plain_accuracy=0.6)
    report = report.training_report_
    assert report.plain_accuracy == 0.6
    assert report.floor == pytest.approx(0.5)
    able = [c for c in report.trials if c.accuracy >= 0.5 and c.note != "scout"]
    assert report.chosen.robustness == max(c.robustness for c in able)
    assert fitted(clean_loss=None)[0].training_report_.plain_accuracy is None


def test_every_max_crowding_is_scouted_and_the_best_one_grown_in_full():
    model, *_ = fitted(n=400, n_estimators=45, budget=0.005)
    found = model.training_report_.trials
    scouts = [c.parameters["max_crowding"] for c in found if c.note == "scout"]
    assert scouts == [0.12, 0.25, None]
    assert len({c.parameters["max_crowding"] for c in found if c.note != "scout"}) == 1
    assert {c.parameters["refit"] for c in found} == {False, True}
    assert all(c.trees <= 30 for c in found if c.note == "scout")
    assert all(c.trees > 30 for c in found if c.note != "scout")
    assert all(c.seconds >= 0 for c in found)


def test_a_refitted_trial_is_no_less_robust_than_the_same_before():
    refits = 0
    for norm, budget in ATTACKERS:
        found = fitted(norm=norm, budget=budget)[0].training_report_.trials
        full = [c for c in found if c.note != "scout"]
        pairs = [(a, b) for a, b in pairwise(full) if b.parameters["refit"]]
        refits += len(pairs)
        for before, after in pairs:
            assert not before.parameters["refit"]
            assert before.parameters["max_crowding"] == after.parameters["max_crowding"]
            assert after.robustness >= before.robustness
            one, other = (c.ensemble.nodes for c in (before, after))
            assert np.array_equal(one, other)
    assert refits > 2


@pytest.mark.filterwarnings("ignore:.*has no effect without certified")
def test_certified_training_is_more_robust_than_large_spread_alone():
    gained = 0.0
    for seed in range(3):
        model, (X, y), (Xv, yv) = fitted(
            n=450, seed=seed, clean_loss=0.2, max_crowding=MAX_CROWDING
        )
        plain = classifier(certified=False).fit(X, y)
        gained += model.robust_score(Xv, yv) - plain.robust_score(Xv, yv)
    assert gained > 0.02


def trained(accuracy, robustness, leaves=10):
    measures = {"accuracy": accuracy, "robustness": robustness}
    return Trial(measures=measures, trees=2, leaves=leaves, seconds=0.1, model=None)


def test_choice_between_equals_falls_on_accuracy_then_on_the_smaller_model():
    low, high = trained(0.8, 0.5), trained(0.9, 0.5)
    assert best_trial([low, high], None) is high
    small, large = trained(0.9, 0.5, leaves=5), trained(0.9, 0.5, leaves=9)
    assert best_trial([large, small], 0.5) is small
    bold = trained(0.7, 0.7)
    assert best_trial([high, bold], 0.8) is high
    assert best_trial([high, bold], 0.7) is bold


@pytest.mark.parametrize("clean_loss", [0.0, 0.01, 0.02, 0.05, 0.1])
def test_an_accuracy_exactly_clean_loss_below_the_goal_is_acceptable(clean_loss):
    """0.10 - 0.02 is more than 0.08 in floating point, and 2/3 has no last digit."""
    for n in (50, 100, 300, 420, 700):
        allowed = Fraction(str(clean_loss)) * n
        for right in range(int(allowed), n + 1):
            floor = accuracy_floor(right / n, 1.0, clean_loss)
            assert floor == accuracy_floor(1.0, right / n, clean_loss)
            for less in range(right + 1):
                acceptable = less <= allowed
                assert ((right - less) / n >= floor) == acceptable, (n, right, less)


# ── saving and reloading ─────────────────────────────────────────────────────────────────────


# ── what may go in ───────────────────────────────────────────────────────────────────────────


def test_without_eval_set_a_stratified_fifth_is_split_off():
    X, y = problems.two_classes(300)
    model = classifier().fit(X, y)
    rows, rest = split_off(y, 0)
    chosen = model.training_report_.chosen
    assert len(rest) == 60
    assert model.robust_score(X[rest], y[rest]) == chosen.robustness
    assert model.score(X[rest], y[rest]) == chosen.accuracy
    explicit = classifier().fit(X[rows], y[rows], eval_set=(X[rest], y[rest]))
    assert same_report(explicit.training_report_, model.training_report_)


def test_of_several_evaluation_sets_the_first_one_decides():
    (X, y), (Xv, yv) = split()
    sets = [(Xv, yv), (X[:40], y[:40])]
    both = classifier().fit(X, y, eval_set=sets)
    one = classifier().fit(X, y, eval_set=sets[:1])
    assert same_report(both.training_report_, one.training_report_)


def test_weights_reach_the_refit_and_the_trees():
    X, y = problems.two_classes(300)
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.3, 1 - y, y)
    options = {"clean_loss": None, "max_crowding": None}
    for parameters, fit in (
        ({}, {"sample_weight": np.where(y == 1, 9.0, 1.0)}),
        ({"class_weight": {0: 1, 1: 9}}, {}),
    ):
        model = classifier(**options, **parameters).fit(X, y, **fit)
        assert model.predict(X).mean() > classifier(**options).fit(X, y).predict(X).mean() + 0.1


def test_norm_0_has_no_use_for_max_crowding():
    model, *_ = fitted(norm=0, budget=1)
    found = model.training_report_.trials
    assert {c.parameters["max_crowding"] for c in found} == {None}
    assert not any(c.note == "scout" for c in found)
    assert 1 <= len(found) <= 2


@pytest.mark.parametrize("max_crowding", [None, 0.2, [0.2], (None,), np.array([0.2])])
def test_a_single_max_crowding_needs_no_scouts(max_crowding):
    model, *_ = fitted(max_crowding=max_crowding)
    found = model.training_report_.trials
    assert not any(c.note == "scout" for c in found)
    assert [c.parameters["refit"] for c in found] in ([False], [False, True])
    wanted = None if max_crowding is None or max_crowding == (None,) else 0.2
    assert {c.parameters["max_crowding"] for c in found} == {wanted}


def test_early_stopping_and_frames_work_with_it():
    pd = pytest.importorskip("pandas")
    (X, y), (Xv, yv) = split(n=400)
    names = ["age", "income", "a", "b", "c", "d", "e", "f"]
    model = classifier(n_estimators=100, features=["age", "income"], learning_rate=0.5).fit(
        pd.DataFrame(X, columns=names),
        y,
        eval_set=(pd.DataFrame(Xv, columns=names), yv),
        early_stopping_rounds=5,
    )
    assert model.booster_.feature_name() == names
    assert model.attacker_.features == ("age", "income")
    full = [c for c in model.training_report_.trials if c.note != "scout"]
    assert full[0].trees < 100
    assert model.stopped_because_ == "early stopping"


def test_data_that_cannot_be_told_apart_gives_a_constant_and_a_warning():
    with pytest.warns(UserWarning, match="the model is constant"):
        model = classifier().fit(np.ones((60, 2)), np.arange(60) % 3)
    assert len(np.unique(model.predict(np.ones((3, 2))))) == 1
    assert model.robust_score(np.ones((3, 2)), model.predict(np.ones((3, 2)))) == 1
