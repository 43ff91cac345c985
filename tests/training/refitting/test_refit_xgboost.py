"""A robust refit of an XGBoost model is an XGBoost model, with scores as float32 holds them."""

from __future__ import annotations

import gzip
import json
import sys

import numpy as np
import pytest

import carvegbm as cg
import early_stopped
from carvegbm.training.score_writer import write_scores
from training import problems
from training.refits import refit, robustness, same_trees

xgb = pytest.importorskip("xgboost")

ATTACKER = cg.Attacker("inf", 0.05)
LEARNING = {"max_depth": 3, "learning_rate": 0.3, "nthread": 1, "seed": 1}


def problem(n=300, n_classes=2, seed=0):
    """Six features; each pair of them knows a third of the answer."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 6))
    score = X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] + X[:, 4] + rng.normal(scale=0.1, size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def boosted(parameters, rounds=3, n_classes=2):
    """A large-spread booster of several trees: each round sees features that no other sees."""
    X, y = problem(n_classes=n_classes)
    booster = None
    for done in range(rounds):
        seen = np.zeros_like(X)
        own = slice(done * 6 // rounds, (done + 1) * 6 // rounds)
        seen[:, own] = X[:, own]
        data = xgb.DMatrix(seen, y, nthread=1)
        booster = xgb.train(LEARNING | parameters, data, 1, xgb_model=booster)
    return booster


def one_stump_per_class():
    """Three classes, each with a stump on a feature of its own."""
    X, y = problem(n_classes=3)
    X = np.column_stack([X[:, :3] * 0.3 + 0.6 * (y[:, None] == np.arange(3)), X[:, 3:]])
    parameters = {"objective": "multi:softprob", "num_class": 3, "max_depth": 1}
    return xgb.train(LEARNING | parameters, xgb.DMatrix(X, y, nthread=1), 1), X, y


def margins(booster, X):
    return booster.predict(xgb.DMatrix(X, nthread=1), output_margin=True)


CASES = {
    "logistic": {"objective": "binary:logistic"},
    "logistic from 0.2": {"objective": "binary:logistic", "base_score": 0.2},
    "raw logistic": {"objective": "binary:logitraw"},
    "hinge": {"objective": "binary:hinge"},
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5},
    "exact": {"objective": "binary:logistic", "tree_method": "exact"},
}


@pytest.mark.parametrize("case", CASES)
def test_a_booster_comes_back_as_a_booster_that_says_what_was_proven(case):
    booster = boosted(CASES[case])
    before, stored = cg.load(booster), bytes(booster.save_raw("json"))
    X, y = problem()
    valid = problem(seed=1)
    assert before.n_trees == 3
    better = refit(booster, (X, y), valid, ATTACKER, steps=100, learning_rate=0.03)
    assert type(better) is xgb.Booster
    assert bytes(booster.save_raw("json")) == stored
    after = cg.load(better)
    assert np.array_equal(margins(better, valid[0]), after.raw_score(valid[0]))
    assert robustness(better, valid, ATTACKER) > robustness(booster, valid, ATTACKER)
    assert same_trees(after, before)
    assert after == before.with_scores(after.scores) != before
    assert np.array_equal(after.scores, after.scores.astype(np.float32))


def test_several_classes_come_back_too():
    balanced, X, y = one_stump_per_class()
    attacker = cg.Attacker("inf", 0.1)
    ensemble = cg.load(balanced)
    lopsided = ensemble.scores + (ensemble.scores != 0) * [1.0, 0.0, 0.0]  # always the first class
    booster = write_scores(balanced, ensemble, lopsided.astype(np.float32), X)
    better = refit(booster, (X, y), (X, y), attacker, steps=100, learning_rate=0.05)
    assert robustness(better, (X, y), attacker) > robustness(booster, (X, y), attacker)
    after = cg.load(better)
    assert np.array_equal(margins(better, X), after.raw_score(X))
    assert after == cg.load(booster).with_scores(after.scores)


@pytest.mark.parametrize("case", ["logistic", "hinge", "dart"])
def test_xgboosts_own_predict_is_flipped_by_the_witnesses_and_by_nothing_where_robust(case):
    X, y = problem()
    better = refit(boosted(CASES[case]), (X, y), (X, y), ATTACKER, learning_rate=0.03)
    found = cg.attack(better, X, y, ATTACKER, threads=1, progress=False)

    def right(rows, labels):
        return (better.predict(xgb.DMatrix(rows, nthread=1)) > 0.5) == labels

    flipped = found.success & ~found.borderline
    assert 0 < flipped.sum() < len(X)
    assert np.array_equal(right(found.witnesses[flipped], y[flipped]), ~right(X, y)[flipped])
    robust = found.status == "robust"
    assert robust.any()
    for seed in range(20):
        moved = X + np.random.default_rng(seed).uniform(-0.05, 0.05, X.shape)
        assert right(moved[robust], y[robust]).all()


@pytest.mark.parametrize("packed", [False, True])
def test_a_json_file_comes_back_as_a_booster_and_nothing_is_printed(packed, tmp_path, capfd):
    booster, (X, y) = boosted(CASES["logistic"]), problem()
    path = tmp_path / "model.json"
    booster.save_model(path)
    if packed:
        path.write_bytes(gzip.compress(path.read_bytes()))
    stored = path.read_bytes()
    of_file = refit(path, (X, y), (X, y), ATTACKER, classes=[0, 1])
    of_booster = refit(booster, (X, y), (X, y), ATTACKER)
    assert type(of_file) is xgb.Booster
    assert cg.load(of_file) == cg.load(of_booster) != cg.load(booster)
    assert path.read_bytes() == stored
    of_file.save_model(tmp_path / "refitted.json")
    assert cg.load(tmp_path / "refitted.json") == cg.load(of_file)
    assert capfd.readouterr() == ("", "")


def test_an_ubjson_file_comes_back_as_an_ensemble(tmp_path):
    booster, (X, y) = boosted(CASES["logistic"]), problem()
    booster.save_model(tmp_path / "model.ubj")
    better = refit(tmp_path / "model.ubj", (X, y), (X, y), ATTACKER, classes=[0, 1])
    assert isinstance(better, cg.Ensemble)


@pytest.mark.parametrize("frame", [False, True])
def test_an_estimator_comes_back_as_its_booster(frame):
    X, y = problems.two_classes(200)
    rows = X
    if frame:
        pd = pytest.importorskip("pandas")
        rows = pd.DataFrame(X, columns=[f"f{i}" for i in range(8)])
    model = xgb.XGBClassifier(n_estimators=1, max_depth=4, n_jobs=1).fit(rows, y)
    stored = bytes(model.get_booster().save_raw("json"))
    better = refit(model, (rows, y), (rows, y), ATTACKER)
    assert type(better) is xgb.Booster
    assert better.feature_names == model.get_booster().feature_names
    assert bytes(model.get_booster().save_raw("json")) == stored
    assert robustness(better, (rows, y), ATTACKER) > robustness(model, (rows, y), ATTACKER)
    assert np.array_equal(
        better.predict(xgb.DMatrix(rows), output_margin=True), cg.load(better).raw_score(rows)
    )


def test_an_estimator_that_stopped_early_is_refitted_up_to_its_best_round():
    X, y = problem()
    noise = 1 - y  # every round makes it worse
    model = xgb.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1, early_stopping_rounds=2)
    model.fit(X, y, eval_set=[(X, noise)], verbose=False)
    assert model.best_iteration == 0 < model.get_booster().num_boosted_rounds() - 1
    better = refit(model, (X, y), (X, y), ATTACKER, steps=100, learning_rate=0.05)
    assert better.num_boosted_rounds() == cg.load(better).n_trees == 1
    assert robustness(better, (X, y), ATTACKER) > robustness(model, (X, y), ATTACKER)


def test_a_file_of_one_is_refitted_up_to_its_best_round_and_comes_back_as_that(tmp_path):
    model, path = early_stopped.saved(tmp_path)
    X, y = early_stopped.rows()
    better = refit(path, (X, y), (X, y), ATTACKER, steps=20, learning_rate=0.05)
    rounds = model.best_iteration + 1
    assert better.num_boosted_rounds() == cg.load(better).n_trees == rounds
    raw = better.predict(xgb.DMatrix(X), output_margin=True)
    assert np.array_equal(raw, cg.load(better).raw_score(X))


def test_a_number_for_missing_values_that_tears_a_tree_is_refused_in_one_line():
    X, y = problem()
    X[:, 0] = np.where(X[:, 0] < 0.2, 0.9, X[:, 0])
    model = xgb.XGBClassifier(n_estimators=1, max_depth=3, n_jobs=1, missing=0.9).fit(X, y)
    if cg.load(model).n_leaves == len(model.get_booster().trees_to_dataframe()) // 2 + 1:
        pytest.skip("no tree is torn")
    with pytest.raises(cg.ModelError, match="leaf by leaf") as caught:
        refit(model, (X, y), (X, y), ATTACKER)
    assert "\n" not in str(caught.value)


def test_without_xgboost_a_file_is_refused_and_an_ensemble_still_works(tmp_path, monkeypatch):
    booster, (X, y) = boosted(CASES["logistic"]), problem()
    booster.save_model(tmp_path / "model.json")
    ensemble = cg.load(tmp_path / "model.json")
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(cg.CarveError, match="pip install xgboost, or pass carve") as caught:
        refit(tmp_path / "model.json", (X, y), (X, y), ATTACKER)
    assert "\n" not in str(caught.value)
    assert isinstance(refit(ensemble, (X, y), (X, y), ATTACKER), cg.Ensemble)


def test_a_file_that_xgboost_cannot_open_is_refused_in_one_line(tmp_path):
    booster, (X, y) = boosted(CASES["logistic"]), problem()
    document = json.loads(bytes(booster.save_raw("json")))
    del document["learner"]["gradient_booster"]["model"]["trees"][0]["sum_hessian"]
    (tmp_path / "model.json").write_text(json.dumps(document))
    with pytest.raises(cg.ModelError, match="xgboost cannot open the model") as caught:
        refit(tmp_path / "model.json", (X, y), (X, y), ATTACKER)
    assert "\n" not in str(caught.value)
