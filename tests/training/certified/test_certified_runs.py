"""Certified training as it runs: the same every time, interrupted, and given what it cannot use."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm import _core
from carvegbm.training.large_spread import trainer as trainers
from carvegbm.training.model import GBDTModel
from training import problems
from training.certified_fits import classifier, fitted, split


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_it_is_deterministic_for_a_random_state_and_any_number_of_threads(problem):
    X, y = problem(200)
    options = {"subsample": 0.7, "subsample_freq": 1, "norm": 1, "n_estimators": 6}
    models = [
        classifier(random_state=seed, n_jobs=jobs, **options).fit(X, y)
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    ]
    reports = [model.training_report_.to_dict() for model in models]
    for report in reports:
        for trial in report["trials"]:
            del trial["seconds"]
    assert models[0].ensemble_ == models[1].ensemble_
    assert reports[0] == reports[1]
    assert models[0].ensemble_ != models[2].ensemble_


@pytest.mark.filterwarnings("ignore:.*has no effect without certified")
def test_a_report_does_not_outlive_its_model():
    model, (X, y), _ = fitted(max_crowding=None)
    model.set_params(certified=False).fit(X, y)
    assert not hasattr(model, "training_report_")


def test_it_tells_a_line_per_trial_and_is_silent_by_default(capfd):
    model, *_ = fitted()
    assert capfd.readouterr() == ("", "")
    model, *_ = fitted(verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    told = [line for line in err.splitlines() if "robustness" in line]
    assert len(told) == len(model.training_report_.trials)


# ── interruption ─────────────────────────────────────────────────────────────────────────────


def test_an_interrupt_while_the_last_trial_grows_keeps_all_there_is():
    def interrupt(env):
        if env.iteration == 3:
            raise KeyboardInterrupt

    (X, y), valid = split()
    model = classifier().fit(X, y, eval_set=valid, callbacks=[interrupt])
    report = model.training_report_
    assert model.stopped_because_ == "interrupted"
    assert report.trials[-1].trees == 4
    assert report.trials[-1].note == "unfinished"
    assert len([c for c in report.trials if c.note != "scout"]) == 1
    assert {c.parameters["max_crowding"] for c in report.trials if c.note == "scout"} == {
        0.12,
        0.25,
        None,
    }
    assert report.chosen in report.trials
    assert cg.is_large_spread(model.ensemble_, model.attacker_)
    assert model.robust_score(*valid) == report.chosen.robustness


def test_an_interrupt_during_a_scouts_descent_ends_the_search(monkeypatch):
    original, calls = _core.descend, []

    def interrupt(step):
        if step == 20:
            raise KeyboardInterrupt

    def descend(*arguments):
        calls.append(None)
        if len(calls) == 2:  # the second scout
            arguments = (*arguments[:-1], interrupt)
        return original(*arguments)

    monkeypatch.setattr(_core, "descend", descend)
    (X, y), valid = split()
    model = classifier().fit(X, y, eval_set=valid)
    assert model.stopped_because_ == "interrupted"
    assert len(calls) == 2
    assert {c.parameters["max_crowding"] for c in model.training_report_.trials} == {0.12, 0.25}
    assert model.robust_score(*valid) == model.training_report_.chosen.robustness


@pytest.mark.parametrize("where", ["prove", "prove_refit", "with_scores", "crowding"])
def test_an_interrupt_anywhere_between_keeps_the_trials_that_are_finished(monkeypatch, where):
    owner = GBDTModel if where == "with_scores" else trainers
    original, calls = getattr(owner, where), []

    def interrupted(*arguments, **options):
        calls.append(None)
        if len(calls) == (1 if where == "crowding" else 2):
            raise KeyboardInterrupt
        return original(*arguments, **options)

    monkeypatch.setattr(owner, where, interrupted)
    (X, y), valid = split()
    try:
        model = classifier(max_crowding=(None, 0.25)).fit(X, y, eval_set=valid)
    except KeyboardInterrupt:  # would end the whole test run
        pytest.fail("the finished trial is lost")
    assert model.stopped_because_ == "interrupted"
    report = model.training_report_
    assert report.trials
    assert report.trials[0].parameters["max_crowding"] is None
    assert not any(c for c in report.trials if c.note != "scout")
    assert model.robust_score(*valid) == report.chosen.robustness


def test_an_interrupt_before_the_first_trial_is_an_interrupt(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(trainers, "prove", interrupted)
    (X, y), valid = split(n=120)
    with pytest.raises(KeyboardInterrupt):
        classifier().fit(X, y, eval_set=valid)


# ── bad input ────────────────────────────────────────────────────────────────────────────────


def test_classes_too_small_to_split_off_validation_data_are_refused_in_one_line():
    X, y = problems.two_classes(60)
    with pytest.raises(cg.DataError, match="cannot split off validation data") as caught:
        classifier().fit(X, np.append(y[:-1], 7))
    assert "\n" not in str(caught.value)


def test_a_regressor_refuses():
    X, y = problems.numbers()
    with pytest.raises(cg.CarveError, match="certified") as caught:
        cg.LargeSpreadRegressor(certified=True).fit(X, y)
    assert "\n" not in str(caught.value)


def test_parameters_that_the_refit_would_undo_are_refused():
    (X, y), _ = split(n=200)
    for name, value in (("scale_pos_weight", 3.0), ("is_unbalance", True)):
        with pytest.raises(cg.CarveError, match=f"cannot honour {name}; use class_weight"):
            classifier(**{name: value}).fit(X, y)
