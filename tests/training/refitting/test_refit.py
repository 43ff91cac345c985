"""Robust refit: same trees, other scores, and never less robust than before."""

from __future__ import annotations

import math

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import carvegbm as cg
from carvegbm.training.dataset import Dataset
from carvegbm.training.leaf_refit import RefitSettings, refit_leaves
from carvegbm.training.robust_refit import prove_refit
from carvegbm.training.score_writer import write_scores
from lightgbm_text import lightgbm_text
from training import problems
from training.refits import (
    ATTACKERS,
    crowded_problem,
    refit,
    robustness,
    same_trees,
    stumps,
    trained,
)

# ── a problem whose answer is known ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "options",
    [{}, {"n_outputs": 2}, {"n_outputs": 3}, {"average": 3}, {"input_precision": "float32"}],
    ids=["binary", "two outputs", "three outputs", "averaged", "float32"],
)
@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.1), (1, 0.1), (2, 0.1), (0, 1)])
def test_a_fragile_start_becomes_robust_where_robust_scores_exist(norm, budget, options):
    """A refit that does nothing fails: every instance is fragile at first, and none afterwards."""
    start = stumps([3.0, 1.0, 1.0], **options)
    attacker = cg.Attacker(norm, budget)
    train, valid = crowded_problem(0), crowded_problem(1)
    assert cg.verify(start, *valid, attacker).counts["fragile"] == len(valid[0])
    better = refit(start, train, valid, attacker, steps=200, learning_rate=0.05)
    assert isinstance(better, cg.Ensemble)
    assert cg.verify(better, *valid, attacker).counts["robust"] == len(valid[0])
    assert same_trees(better, start)
    assert better.average == start.average
    assert better.input_precision == start.input_precision


def test_a_binary_threshold_and_base_score_are_allowed_for():
    shifted = stumps([3.0, 1.0, 1.0], base_score=7.0, threshold=7.5, classes=["no", "yes"])
    (X, y), (Xv, yv) = crowded_problem(0), crowded_problem(1)
    words = np.array(["no", "yes"])
    attacker = cg.Attacker("inf", 0.1)
    better = refit(shifted, (X, words[y]), (Xv, words[yv]), attacker, learning_rate=0.1)
    assert robustness(shifted, (Xv, words[yv]), attacker) == 0
    assert robustness(better, (Xv, words[yv]), attacker) == 1
    assert (better.threshold, better.base_score.tolist()) == (7.5, [7.0])


def test_rows_with_missing_values_are_refitted_too():
    trees = [
        {**tree, "missing": "left" if index else "right"}
        for index, tree in enumerate(stumps([3.0, 1.0, 1.0]).to_trees())
    ]
    model = cg.Ensemble.from_trees(trees, n_features=3)
    (X, y), (Xv, yv) = crowded_problem(0), crowded_problem(1)
    X[::3, 2] = np.nan
    Xv[::4, 2] = np.nan
    attacker = cg.Attacker("inf", 0.1)
    better = refit(model, (X, y), (Xv, yv), attacker, steps=200, learning_rate=0.05)
    assert robustness(better, (Xv, yv), attacker) > robustness(model, (Xv, yv), attacker) == 0


def test_weights_decide_which_rows_are_defended():
    """Rows 0 need a large second score and rows 1 a small one: only one kind can be robust."""
    model = stumps([1.0, 1.0])
    X = np.array([[0.51, 0.9], [0.9, 0.51]] * 20)
    y = np.ones(40, dtype=int)
    y[::4], X[::4] = 0, 1 - X[::4]
    attacker = cg.Attacker("inf", 0.1)
    for kind in (0, 1):
        weight = np.where(np.arange(40) % 2 == kind, 1.0, 0.0)
        chosen = weight > 0
        better = refit(
            model, (X, y), (X[chosen], y[chosen]), attacker, sample_weight=weight, learning_rate=0.1
        )
        assert robustness(better, (X[chosen], y[chosen]), attacker) == 1
        weaker, stronger = better.scores.reshape(2, 2)[:, 1][:: 1 - 2 * kind]
        assert weaker < stronger


# ── laws ─────────────────────────────────────────────────────────────────────────────────────


@settings(max_examples=20)
@given(
    seed=st.integers(0, 2**20),
    attacker=st.sampled_from(ATTACKERS),
    problem=st.sampled_from([problems.two_classes, problems.three_classes, problems.pixels]),
    rate=st.sampled_from([0.001, 0.01, 0.1, 3.0]),
)
def test_it_is_never_less_robust_than_its_start_and_keeps_the_trees(seed, attacker, problem, rate):
    model, train, valid = trained(problem, *attacker, n=160, seed=seed, n_estimators=6)
    start = model.ensemble_
    better = refit(start, train, valid, model.attacker_, steps=30, learning_rate=rate)
    assert robustness(better, valid, model.attacker_) >= robustness(start, valid, model.attacker_)
    assert same_trees(better, start)
    assert cg.spread(better) == cg.spread(start)
    assert cg.is_large_spread(better, model.attacker_)


@settings(max_examples=15)
@given(seed=st.integers(0, 2**20), attacker=st.sampled_from(ATTACKERS), floor=st.floats(0.5, 1.0))
def test_the_kept_iterate_is_the_most_robust_of_those_that_reach_the_floor(seed, attacker, floor):
    model, train, valid = trained(problems.two_classes, *attacker, n=160, seed=seed, n_estimators=6)
    labelled = [Dataset(X, y) for X, y in (train, valid)]
    how = RefitSettings(steps=40, rate=0.05, floor=floor, threads=1)
    found = refit_leaves(model.ensemble_, model.attacker_, *labelled, how)
    start, able = found.checks[0], [c for c in found.checks if c.accuracy >= floor]
    able = [c for c in able if c.robustness >= start.robustness]
    assert found.best.robustness >= start.robustness
    if able:
        assert found.best.accuracy >= floor
        assert found.best.robustness == max(c.robustness for c in able)
    else:
        assert found.best.robustness == max(c.robustness for c in found.checks)
    # What the descent says of the iterate it keeps is what the verifier proves of it.
    kept = cg.verify(model.ensemble_.with_scores(found.scores), *valid, model.attacker_, threads=1)
    assert kept.accuracy == found.best.accuracy
    assert kept.robustness[0] >= found.best.robustness
    if model.attacker_.norm == math.inf:
        assert kept.robustness[0] == found.best.robustness


def test_the_accuracy_floor_keeps_what_robustness_alone_would_give_up():
    """Feature 0 is always right but close, feature 1 far away but right in 4 of 5 rows only."""
    model = stumps([3.0, 1.0])
    attacker = cg.Attacker("inf", 0.1)
    X, y = crowded_problem(0, 100)
    X = X[:, :2]
    X[::5, 1] = 1 - X[::5, 1]
    bold = refit(model, (X, y), (X, y), attacker, steps=200, learning_rate=0.05)
    careful = refit(
        model, (X, y), (X, y), attacker, steps=200, learning_rate=0.05, accuracy_floor=0.95
    )
    assert robustness(model, (X, y), attacker) == 0
    assert robustness(bold, (X, y), attacker) == pytest.approx(0.8)
    assert np.mean(bold.decide(X) == y) == pytest.approx(0.8)
    assert np.mean(careful.decide(X) == y) >= 0.95


def test_no_iterate_better_than_the_start_gives_the_start_back():
    model = stumps([1.0, 5.0, 5.0])
    train, valid = crowded_problem(0), crowded_problem(1)
    wrong = (train[0], 1 - train[1])  # learning from these can only do harm
    attacker = cg.Attacker("inf", 0.1)
    labelled = [Dataset(X, y) for X, y in (wrong, valid)]
    how = RefitSettings(rate=0.1, threads=1)
    result = prove_refit(model, attacker, *labelled, how)
    assert result.proven is None
    assert result.scores is model.scores
    assert refit(model, wrong, valid, attacker, learning_rate=0.1) == model


# ── what goes in and what comes out ──────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("problem", "norm", "budget"),
    [
        *((problems.two_classes, *attacker) for attacker in ATTACKERS),
        (problems.three_classes, "inf", 0.03),
        (problems.three_classes, 1, 0.05),
    ],
)
def test_a_booster_comes_back_as_a_booster_that_reloads_to_the_same_verdicts(
    problem, norm, budget, tmp_path
):
    model, train, valid = trained(problem, norm, budget, n=300)
    before = model.booster_.model_to_string()
    ensemble = refit(cg.load(model.booster_), train, valid, model.attacker_, learning_rate=0.03)
    booster = refit(model.booster_, train, valid, model.attacker_, learning_rate=0.03)
    assert isinstance(booster, lightgbm.Booster)
    assert model.booster_.model_to_string() == before
    booster.save_model(tmp_path / "refitted.txt")
    expected = cg.verify(ensemble, *valid, model.attacker_, threads=1)
    for again in (
        booster,
        cg.load(tmp_path / "refitted.txt"),
        lightgbm.Booster(model_file=tmp_path / "refitted.txt"),
    ):
        assert cg.load(again) == ensemble != cg.load(model)
        found = cg.verify(again, *valid, model.attacker_, threads=1)
        assert np.array_equal(found.status, expected.status)
        assert np.array_equal(found.worst_margin_lower, expected.worst_margin_lower)
    raw = booster.predict(valid[0], raw_score=True, num_threads=1)
    assert np.array_equal(raw, ensemble.raw_score(valid[0], threads=1))


def test_a_classifier_comes_back_as_a_classifier_and_the_original_stays():
    model, (X, y), (Xv, yv) = trained(problems.three_classes, n=300)
    words = np.array(["low", "middle", "high"])
    model = model.fit(X, words[y])
    text, ensemble = model.booster_.model_to_string(), model.ensemble_
    better = refit(model, (X, words[y]), (Xv, words[yv]), model.attacker_, learning_rate=0.03)
    assert isinstance(better, cg.LargeSpreadClassifier)
    assert better is not model
    assert model.booster_.model_to_string() == text
    assert model.ensemble_ is ensemble != better.ensemble_
    assert better.robust_score(Xv, words[yv]) >= model.robust_score(Xv, words[yv])
    assert set(better.predict(Xv)) <= set(words)
    assert better.score(Xv, words[yv]) == better.verify(Xv, words[yv]).accuracy
    assert better.get_params() == model.get_params()


def test_lightgbms_estimator_and_a_path_come_back_as_boosters(tmp_path):
    X, y = problems.two_classes(200)
    words = np.array(["no", "yes"])[y]
    attacker = cg.Attacker("inf", 0.05)
    model = lightgbm.LGBMClassifier(n_estimators=1, n_jobs=1, verbose=-1).fit(X, words)
    model.booster_.save_model(tmp_path / "model.txt")
    stored = (tmp_path / "model.txt").read_bytes()
    of_estimator = refit(model, (X, words), (X, words), attacker)
    for path in (tmp_path / "model.txt", str(tmp_path / "model.txt")):
        of_path = refit(path, (X, words), (X, words), attacker, classes=["no", "yes"])
        assert isinstance(of_path, lightgbm.Booster)
        assert cg.load(of_path) == cg.load(of_estimator)
        assert cg.load(of_path) != cg.load(model.booster_)
    assert (tmp_path / "model.txt").read_bytes() == stored
    assert robustness(of_path, (X, y), attacker) >= robustness(model.booster_, (X, y), attacker)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=4, random_state=0),
        RandomForestClassifier(n_estimators=1, max_depth=4, random_state=0),
    ],
)
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_scikit_learns_trees_come_back_as_ensembles(model, problem):
    X, y = problem(200)
    attacker = cg.Attacker("inf", 0.05)
    model.fit(X, y)
    better = refit(model, (X, y), (X, y), attacker, steps=100, learning_rate=0.05)
    assert isinstance(better, cg.Ensemble)
    assert same_trees(better, cg.load(model))
    assert robustness(better, (X, y), attacker) > robustness(model, (X, y), attacker)


def torn_booster():
    """A LightGBM model that takes 0 for missing and sends it against its threshold."""
    tree = {
        "feature": 0,
        "threshold": 1.0,
        "left": {"score": -1.0},
        "right": {
            "feature": 0,
            "threshold": 2.0,
            "left": {"score": 2.0},
            "right": {"score": 3.0},
        },
    }
    text = lightgbm_text(cg.Ensemble.from_trees([tree], n_features=1))
    zero, default_left = 4, 2
    kinds = f"decision_type={zero + default_left} {zero}"
    assert len(kinds) == len("decision_type=0 0")
    return lightgbm.Booster(model_str=text.replace("decision_type=0 0", kinds))


def test_scores_go_back_into_the_leaves_they_came_from():
    """Also where the reader had to lay out a tree anew; refusing such a tree would do as well."""
    booster = torn_booster()
    ensemble = cg.load(booster)
    try:
        copied = write_scores(booster, ensemble, ensemble.scores, np.zeros((1, 1)))
    except cg.ModelError:
        return
    X = np.array([[0.5], [1.5], [2.5]])
    assert copied.predict(X, raw_score=True).tolist() == [-1.0, 2.0, 3.0]


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_any_scores_written_into_a_booster_are_read_back(problem):
    model, *_ = trained(problem)
    ensemble = model.ensemble_
    scores = np.random.default_rng(0).normal(size=ensemble.scores.shape)
    scores *= 10.0 ** np.random.default_rng(1).integers(-20, 20, size=scores.shape)
    scores = np.where(ensemble.scores != 0, scores, 0.0)
    written = write_scores(model.booster_, ensemble, scores, np.zeros((1, 8)))
    assert cg.load(written) == ensemble.with_scores(scores)
    assert model.ensemble_ == cg.load(model.booster_, classes=model.classes_)


def test_with_scores_changes_the_scores_and_nothing_else():
    start = stumps(
        [1.0, 2.0],
        base_score=0.25,
        threshold=0.5,
        classes=["a", "b"],
        feature_names=["one", "two"],
        link="logistic",
        link_scale=2.0,
        average=2,
        input_precision="float32",
        sum_precision="float32",
    )
    other = start.with_scores([4.0, 3.0, 2.0, 1.0])
    assert start.scores.ravel().tolist() == [-1.0, 1.0, -2.0, 2.0]
    assert other.scores.ravel().tolist() == [4.0, 3.0, 2.0, 1.0]
    assert other != start
    assert other.with_scores(start.scores) == start
    with pytest.raises(cg.CarveError):
        start.with_scores([1.0, 2.0, 3.0])
    with pytest.raises(cg.CarveError):
        start.with_scores([1.0, 2.0, 3.0, math.nan])


# ── bad input ────────────────────────────────────────────────────────────────────────────────


def call(**options):
    model, attacker = stumps([3.0, 1.0, 1.0]), cg.Attacker("inf", 0.1)
    arguments = {"model": model, "attacker": attacker, "steps": 3, "threads": 1, **options}
    X, y = crowded_problem()
    return cg.robust_refit(X=arguments.pop("X", X), y=arguments.pop("y", y), **arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps must be"),
        ({"steps": -5}, "steps must be"),
        ({"steps": 1.5}, "steps must be a whole number >= 1, got 1.5"),
        ({"steps": math.nan}, "steps must be"),
        ({"steps": "many"}, "steps must be"),
        ({"steps": None}, "steps must be"),
        ({"learning_rate": 0}, "learning_rate must be a number > 0, got 0"),
        ({"learning_rate": math.inf}, "learning_rate must be"),
        ({"learning_rate": "fast"}, "learning_rate must be"),
        ({"l2": -0.1}, "l2 must be a number >= 0, got -0.1"),
        ({"l2": math.nan}, "l2 must be"),
        ({"l2": "none"}, "l2 must be"),
        ({"accuracy_floor": "high"}, "accuracy_floor must be"),
        ({"accuracy_floor": math.nan}, "accuracy_floor must be"),
        ({"threads": 0}, "threads must be"),
        ({"eval_set": 5}, "eval_set must be"),
        ({"eval_set": [crowded_problem(), crowded_problem()]}, "eval_set must be one pair"),
        ({"eval_set": (np.ones((2, 2)), [0, 1])}, "2 columns, the model has 3"),
        ({"eval_set": (np.ones((2, 3)), [0, 7])}, "unknown label 7"),
        ({"eval_set": (np.ones((2, 3)), [0])}, "one label per row"),
        ({"eval_set": (np.full((1, 3), np.nan), [0])}, "no rule for missing"),
        ({"y": [0] * 59 + [2]}, "unknown label 2"),
        ({"y": [0] * 59 + [1]}, "cannot split off validation data"),
        ({"X": [[1.0, 2.0]] * 60}, "2 columns"),
        ({"sample_weight": [1.0]}, "one number per row"),
        ({"sample_weight": np.zeros(60)}, "not all of them zero"),
        ({"attacker": cg.Attacker("inf", 0.1, bounds=(0.6, 1))}, "outside the attacker's bounds"),
    ],
    ids=str,
)
def test_bad_input_is_refused_in_one_clear_line(options, message):
    with pytest.raises(cg.CarveError, match=message) as caught:
        call(**options)
    assert "\n" not in str(caught.value)


def test_a_refitted_classifier_is_verified_against_the_attacker_it_was_refitted_for():
    (X, y), (Xv, yv) = trained(n=300)[1:]
    model = cg.LargeSpreadClassifier(norm="inf", budget=0.05, n_jobs=1, certified=True)
    model.fit(X, y, eval_set=(Xv, yv))
    smaller = cg.Attacker("inf", 0.01)
    better = cg.robust_refit(model, X, y, smaller, eval_set=(Xv, yv), progress=False)
    assert better.attacker_.budget == 0.01
    assert model.attacker_.budget == 0.05
    assert not hasattr(better, "training_report_")
    assert hasattr(model, "training_report_")
