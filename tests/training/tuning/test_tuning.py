"""Tuning: the stated criterion decides, finished trials are never trained again."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import train_test_split

import carvegbm as cg
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.tuning import CRITERIA, ROBUST_LEAVES, trials, tune
from training import problems

GRID = {"num_leaves": [3, 6, 12]}
OPTIONS = {
    "budget": 0.02,
    "grid": GRID,
    "n_estimators": 25,
    "early_stopping_rounds": 10,
    "min_child_samples": 5,
    "n_jobs": 1,
}
ROBUST = {"robust": True, "leaf_l2": 1e-3, "n_members": 1, "max_crowding": None}
KINDS = {"large-spread": {}, "certified": {"certified": True}, "robust": ROBUST}


@pytest.fixture(scope="module")
def data():
    X, y = problems.two_classes(500)
    return X[:350], y[:350], (X[350:], y[350:])


def forbid_training(monkeypatch):
    def fit(*_, **__):
        raise AssertionError("a finished trial was trained again")

    monkeypatch.setattr(LargeSpreadClassifier, "fit", fit)
    monkeypatch.setattr(RobustClassifier, "fit", fit)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_best_trial_is_the_best_by_the_criterion(data, criterion):
    X, y, valid = data
    weight = {"weight": 0.3} if criterion == "tradeoff" else {}
    result = tune(X, y, valid=valid, criterion=criterion, **weight, **OPTIONS)
    scores = [trial.score(criterion, 0.3) for trial in result.trials]
    assert result.best.score(criterion, 0.3) == max(scores)
    assert [c.parameters["num_leaves"] for c in result.trials] == GRID["num_leaves"]
    best = result.best
    expected = {
        "accuracy": best.accuracy,
        "robustness": best.robustness,
        "tradeoff": 0.3 * best.accuracy + 0.7 * best.robustness,
    }
    assert max(scores) == pytest.approx(expected[criterion])


def test_the_estimator_is_the_best_trial(data):
    X, y, valid = data
    result = tune(X, y, valid=valid, criterion="robustness", **OPTIONS)
    model = result.estimator
    assert model.score(*valid) == result.best.accuracy
    assert model.robust_score(*valid) == result.best.robustness
    assert model.num_leaves == result.best.parameters["num_leaves"]
    assert model.ensemble_.n_trees == model.n_iter_ == result.best.trees
    assert cg.is_large_spread(model.booster_, cg.Attacker("inf", 0.02))
    direct = LargeSpreadClassifier(
        budget=0.02,
        n_estimators=25,
        min_child_samples=5,
        n_jobs=1,
        random_state=0,
        **result.best.parameters,
    ).fit(X, y, eval_set=valid, early_stopping_rounds=10)
    assert direct.ensemble_ == model.ensemble_


def fitted_attributes(model):
    names = {name for name in vars(model) if name.endswith("_") and not name.startswith("_")}
    return {name: getattr(model, name) for name in names}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [True, False], ids=["valid", "split off"])
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
@pytest.mark.parametrize("stored", [False, True])
def test_the_estimator_has_every_attribute_that_fit_sets(problem, given, kind, stored, tmp_path):
    X, y = problem(300)
    valid = (X[200:], y[200:]) if given else None
    X, y = (X[:200], y[:200]) if given else (X, y)
    options = {**OPTIONS, "grid": {"num_leaves": [4]}, "learning_rate": 0.5, **KINDS[kind]}
    if kind == "certified":
        options["grid"]["max_crowding"] = [(0.25, None)]
    folder = tmp_path if stored else None
    result = tune(X, y, valid=valid, folder=folder, **options)
    if stored:
        result = tune(X, y, valid=valid, folder=folder, **options)
    if valid is None:
        X, X_valid, y, y_valid = train_test_split(X, y, test_size=0.2, stratify=y, random_state=0)
        valid = X_valid, y_valid
    model = clone(result.estimator).fit(
        X, y, eval_set=valid, early_stopping_rounds=10, plain_accuracy=result.plain_accuracy
    )
    found, expected = fitted_attributes(result.estimator), fitted_attributes(model)
    assert set(found) == set(expected)
    has_report = kind != "large-spread"
    assert ("training_report_" in found) == has_report
    reports = [a.pop("training_report_") for a in (found, expected) if has_report]
    for attributes in (found, expected):
        attributes["booster_"] = attributes["booster_"].model_to_string()
        attributes["attacker_"] = repr(attributes["attacker_"])
        attributes["classes_"] = attributes["classes_"].tolist()
    assert found == expected
    tables = [report.to_dict() for report in reports]
    for table in tables:
        for trial in table["trials"]:
            del trial["seconds"]
    assert tables[:1] == tables[1:]
    models = [[trial.text for trial in report.trials] for report in reports]
    assert models[:1] == models[1:]
    ensembles = [[trial.ensemble for trial in report.trials] for report in reports]
    assert ensembles[:1] == ensembles[1:]
    assert [str(report).count("chosen") for report in reports] == [1] * len(reports)


def test_a_constant_that_is_chosen_is_said_once():
    X, y = problems.two_classes(100)
    options = {**OPTIONS, "min_child_samples": 200}
    with pytest.warns(UserWarning, match="80 rows are fewer than two leaves") as said:
        result = tune(X, y, **options)
    assert len(said) == 1
    assert result.estimator.n_iter_ == 0


@pytest.mark.parametrize("kind", ["large-spread", "robust"])
def test_parallel_trials_are_the_same(data, kind):
    X, y, valid = data
    one = tune(X, y, valid=valid, **OPTIONS, **KINDS[kind])
    two = tune(X, y, valid=valid, **{**OPTIONS, "n_jobs": 2}, **KINDS[kind])
    assert [c.accuracy for c in one.trials] == [c.accuracy for c in two.trials]
    assert one.estimator.ensemble_ == two.estimator.ensemble_


@pytest.mark.parametrize("kind", ["large-spread", "robust"])
def test_finished_trials_are_found_in_the_folder(data, tmp_path, monkeypatch, kind):
    X, y, valid = data
    options = {**OPTIONS, **KINDS[kind]}
    first = tune(X, y, valid=valid, folder=tmp_path / "work", **options)
    forbid_training(monkeypatch)
    seen = []
    again = tune(
        X,
        y,
        valid=valid,
        folder=tmp_path / "work",
        criterion="robustness",
        on_trial=seen.append,
        **options,
    )
    assert again.trials == first.trials
    assert len(seen) == 3
    assert again.estimator.robust_score(*valid) == again.best.robustness


def test_robust_trials_are_fits_of_a_robust_classifier(data):
    X, y, valid = data
    result = tune(X, y, valid=valid, **{**OPTIONS, **ROBUST, "grid": None})
    assert [trial.parameters for trial in result.trials] == [
        {"num_leaves": leaves} for leaves in ROBUST_LEAVES
    ]
    assert result.criterion == "robustness"
    assert result.best.robustness == max(trial.robustness for trial in result.trials)
    assert isinstance(result.estimator, RobustClassifier)
    direct = clone(result.estimator).fit(X, y, eval_set=valid, early_stopping_rounds=10)
    assert direct.ensemble_ == result.estimator.ensemble_


def test_robust_trials_that_lose_too_much_accuracy_are_not_chosen(data):
    X, y, valid = data
    options = {**OPTIONS, **ROBUST, "clean_loss": 0.0}
    result = tune(X, y, valid=valid, **options)
    reached = max(trial.accuracy for trial in result.trials)
    assert result.floor == pytest.approx(min(result.plain_accuracy, reached))
    assert result.best.accuracy >= result.floor
    document = result.to_dict()
    assert (document["floor"], document["plain_accuracy"]) == (result.floor, result.plain_accuracy)


def test_plain_lightgbm_has_as_many_rounds_as_a_fit_for_many_classes(monkeypatch):
    rounds = []

    def accuracy(*_, n_rounds, **__):
        rounds.append(n_rounds)
        raise KeyboardInterrupt

    monkeypatch.setattr(trials, "plain_accuracy_of", accuracy)
    X, y = problems.three_classes()
    with pytest.raises(KeyboardInterrupt):
        tune(X, y, budget=0.02, robust=True, clean_loss=0.01, n_jobs=1)
    assert rounds == [24]


def test_each_kind_of_training_has_its_own_rounds(monkeypatch):
    told = []

    def stop(self, *_, **options):
        told.append((self.n_estimators, options["early_stopping_rounds"], self.clean_loss))
        raise KeyboardInterrupt

    for kind in (LargeSpreadClassifier, RobustClassifier):
        monkeypatch.setattr(kind, "fit", stop)
    data = problems.two_classes(60)
    for options in KINDS.values():
        with pytest.raises(KeyboardInterrupt):
            tune(*data, grid={"num_leaves": [3]}, n_jobs=1, **options)
    assert told == [(500, 50, 0.01), (500, 50, 0.01), (None, None, None)]


def test_a_relative_folder_is_where_the_caller_is_and_not_its_workers(data, tmp_path, monkeypatch):
    X, y, valid = data
    for here in (tmp_path / "first", tmp_path / "second"):
        here.mkdir()
        monkeypatch.chdir(here)
        tune(X, y, valid=valid, folder="work", **{**OPTIONS, "n_jobs": 2})
        assert len(list((here / "work").glob("*.json"))) == len(GRID["num_leaves"])


NAMES = [str(i) for i in range(8)]
SWAPPED = [*NAMES[:6], "7", "6"]
CHANGES = {
    "data": lambda given: {"X": given["X"] + 1e-9},
    "numbers of another precision": lambda given: {"X": given["X"].astype(np.float32)},
    "labels": lambda given: {"y": 1 - given["y"]},
    "labels of another kind": lambda given: {"y": given["y"].astype(float)},
    "validation data": lambda given: {"valid": (given["valid"][0] + 1e-9, given["valid"][1])},
    "validation labels": lambda given: {"valid": (given["valid"][0], 1 - given["valid"][1])},
    "names": lambda _: {"feature_names": SWAPPED},
    "no names": lambda _: {"feature_names": None},
    "a learning rate": lambda _: {"learning_rate": 0.2},
    "a budget": lambda _: {"budget": 0.021},
    "another feature": lambda _: {"scale": {7: 2.0}},
    "a seed": lambda _: {"random_state": 1},
}


@pytest.mark.parametrize("change", CHANGES)
def test_other_data_or_settings_are_other_trials(data, tmp_path, monkeypatch, change):
    given = {
        **dict(zip(("X", "y", "valid"), data, strict=True)),
        **OPTIONS,
        "feature_names": NAMES,
        "grid": {"num_leaves": [3]},
        "scale": {6: 2.0},
        "folder": tmp_path,
    }
    tune(**given)
    forbid_training(monkeypatch)
    tune(**given)
    with pytest.raises(AssertionError, match="trained again"):
        tune(**{**given, **CHANGES[change](given)})


def test_a_feature_by_name_is_not_one_by_position(data, tmp_path, monkeypatch):
    X, y, valid = data
    options = {**OPTIONS, "grid": {"num_leaves": [3]}, "feature_names": SWAPPED}
    tune(X, y, valid=valid, folder=tmp_path, scale={6: 2.0}, **options)
    forbid_training(monkeypatch)
    with pytest.raises(AssertionError, match="trained again"):
        tune(X, y, valid=valid, folder=tmp_path, scale={"6": 2.0}, **options)


def test_names_beside_a_frame_of_numbered_columns_tell(data, tmp_path, monkeypatch):
    X, y, (X_valid, y_valid) = data
    valid = (pd.DataFrame(X_valid), y_valid)
    options = {**OPTIONS, "grid": {"num_leaves": [3]}, "folder": tmp_path, "valid": valid}
    tune(pd.DataFrame(X), y, feature_names=NAMES, **options)
    forbid_training(monkeypatch)
    with pytest.raises(AssertionError, match="trained again"):
        tune(pd.DataFrame(X), y, feature_names=SWAPPED, **options)


@pytest.mark.parametrize("certified", [False, True])
def test_trials_of_another_version_are_not_taken(data, tmp_path, monkeypatch, certified):
    X, y, valid = data
    grid = {"num_leaves": [3], **({"max_crowding": [None]} if certified else {})}
    options = {**OPTIONS, "grid": grid, "folder": tmp_path}
    tune(X, y, valid=valid, certified=certified, **options)
    known = set(tmp_path.iterdir())
    trials._versions.cache_clear()
    monkeypatch.setattr(cg, "__version__", "0.0.1")
    try:
        tune(X, y, valid=valid, certified=certified, **options)
    finally:
        trials._versions.cache_clear()
    assert len(set(tmp_path.iterdir()) - known) == len(known)


def test_a_record_that_was_changed_is_not_taken(data, tmp_path):
    X, y, valid = data
    first = tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    for path in tmp_path.glob("*.json"):
        record = json.loads(path.read_text())
        path.write_text(json.dumps({**record, "trees": 1 + record["trees"]}))
    again = tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    assert [c.accuracy for c in again.trials] == [c.accuracy for c in first.trials]
    assert again.best.parameters == first.best.parameters


def test_an_interrupted_run_goes_on_where_it_stopped(data, tmp_path, monkeypatch):
    X, y, valid = data
    trained = []
    fit = LargeSpreadClassifier.fit

    def counting(self, *arguments, **options):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(self.num_leaves)
        return fit(self, *arguments, **options)

    monkeypatch.setattr(LargeSpreadClassifier, "fit", counting)
    with pytest.raises(KeyboardInterrupt):
        tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    assert trained == [3, 6]
    trained.clear()
    tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    assert trained == [12]


def test_a_trial_interrupted_in_training_is_not_stored(data, tmp_path, monkeypatch):
    X, y, valid = data

    def interrupted(self, *_, **__):
        self.stopped_because_ = "interrupted"
        return self

    monkeypatch.setattr(LargeSpreadClassifier, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_trial_is_trained_again(data, tmp_path):
    X, y, valid = data
    first = tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    models = sorted(tmp_path.glob("*.txt"))
    models[0].write_text("tree\n")
    sorted(tmp_path.glob("*.json"))[1].write_text("{")
    again = tune(X, y, valid=valid, folder=tmp_path, **OPTIONS)
    assert [c.text for c in again.trials] == [c.text for c in first.trials]


def test_the_table_lists_every_trial_and_marks_the_best(data):
    X, y, valid = data
    result = tune(X, y, valid=valid, **OPTIONS)
    lines = str(result).splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:3] == ["num_leaves", "accuracy", "robustness"]
    assert sum(line.endswith("best") for line in lines) == 1
    document = json.loads(json.dumps(result.to_dict()))
    assert document["trials"][document["best"]]["accuracy"] == result.best.accuracy


def test_validation_data_is_split_off_and_frames_keep_their_names():
    X, y = problems.two_classes(300)
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    words = pd.Series(np.array(["no", "yes"])[y])
    result = tune(frame, words, **{**OPTIONS, "grid": {"num_leaves": [4]}})
    assert result.estimator.booster_.feature_name()[0] == "f0"
    assert set(result.estimator.predict(frame)) == {"no", "yes"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"criterion": "beauty"}, "criterion must be"),
        ({"criterion": "tradeoff", "weight": 2}, "weight must be from 0 to 1"),
        ({"weight": 0.3}, "weight has no meaning without criterion='tradeoff'"),
        ({"n_trials": 3}, "n_trials has no meaning without search='optuna'"),
        ({"search": "optuna", "n_trials": 0}, "n_trials must be a whole number >= 1, got 0"),
        ({"clean_loss": None}, "clean_loss has no meaning without certified=True"),
        ({"max_crowding": None}, "max_crowding has no meaning without certified=True"),
        ({"grid": {"max_crowding": [0.1]}}, "max_crowding has no meaning without certified=True"),
        ({"certified": True, "robust": True}, "certified and robust exclude each other"),
        ({"robust": True, "grid": {"path_smooth": [1.0]}}, "path_smooth cannot be honoured: rob"),
        ({"robust": True, "large_spread": True}, "large_spread has no meaning here: give certif"),
        ({"robust": True, "clean_loss": 2}, "clean_loss must be None or from 0 to 1, got 2"),
        ({"grid": {"num_leaves": 3}}, "num_leaves must be a list of values, got 3"),
        ({"search": "luck"}, "search must be"),
        ({"grid": {"num_leaves": []}}, "at least one value"),
        ({"grid": {"num_leafs": [3]}}, "no parameter 'num_leafs'"),
        ({"valid": (np.ones((2, 8)), ["a", "b"])}, "valid: label 'a' does not occur"),
        ({"valid": (np.ones((2, 3)), [0, 1])}, "3 features"),
        ({"valid": 3}, "must be"),
    ],
)
def test_bad_input_is_refused_before_or_at_the_first_trial(options, message):
    X, y = problems.two_classes(60)
    with pytest.raises(ValueError, match=message):
        tune(X, y, **{**OPTIONS, **options})


def test_without_optuna_its_search_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)  # as if it were not installed
    X, y = problems.two_classes(100)
    with pytest.raises(ValueError, match=r"pip install 'carvegbm\[optuna\]'"):
        tune(X, y, search="optuna", **OPTIONS)


def test_optuna_proposes_trials_within_the_grids_range(data):
    pytest.importorskip("optuna")
    X, y, valid = data
    options = {**OPTIONS, "grid": {"num_leaves": [3, 12], "learning_rate": [0.05, 0.2]}}
    result = tune(X, y, valid=valid, search="optuna", n_trials=4, **options)
    assert 1 <= len(result.trials) <= 4
    for trial in result.trials:
        assert 3 <= trial.parameters["num_leaves"] <= 12
        assert 0.05 <= trial.parameters["learning_rate"] <= 0.2
    assert result.best.accuracy == max(c.accuracy for c in result.trials)


def test_optuna_is_guided_towards_accurate_enough_trials(data, monkeypatch):
    optuna = pytest.importorskip("optuna")
    X, y, valid = data
    told = []
    tell = optuna.study.Study.tell

    def spy(self, trial, value, **rest):
        told.append(value)
        return tell(self, trial, value, **rest)

    monkeypatch.setattr(optuna.study.Study, "tell", spy)
    options = {**OPTIONS, "grid": {"num_leaves": [3, 6], "max_crowding": [0.02, None]}}
    options |= {"certified": True, "clean_loss": 0.05, "n_trials": 6}
    result = tune(X, y, valid=valid, search="optuna", **options)
    assert {value < 0 for value in told} == {True, False}
    by_merit = [c.robustness for c in result.trials if c.accuracy >= result.floor]
    assert result.best.robustness == max(by_merit)
