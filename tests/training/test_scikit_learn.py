"""The estimators are good citizens of scikit-learn."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import GridSearchCV, HalvingGridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import carvegbm as cg
from carvegbm.errors import CarveError
from training import problems
from training.estimators import (
    CLASSIFIERS,
    classifier,
    regressor,
    robust_classifier,
    robust_regressor,
)

COUNTED = (
    "as in LightGBM, the rows of a leaf and of a bin are counted, not weighed, so weight 2 is not "
    "two rows, and weight 0 not none"
)
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": COUNTED,
    "check_sample_weight_equivalence_on_sparse_data": COUNTED,
}
IS_OLD = "expected_failed_checks" not in inspect.signature(parametrize_with_checks).parameters


SMALL = {"n_estimators": 4, "min_child_samples": 2, "budget": 1e-3, "num_leaves": 31}


@parametrize_with_checks(
    [
        classifier(**SMALL),
        regressor(**SMALL),
        robust_classifier(**SMALL),
        robust_regressor(**SMALL),
    ],
    **({} if IS_OLD else {"expected_failed_checks": lambda _: EXPECTED}),
)
def test_scikit_learns_estimator_checks(estimator, check):
    if IS_OLD and getattr(check, "keywords", {}).get("kind") == "zeros":  # before 1.6
        pytest.xfail(COUNTED)
    check(estimator)


@pytest.mark.parametrize(
    "model",
    [classifier(path_smooth=0.5, random_state=3), robust_classifier(leaf_l2=0.01, random_state=3)],
    ids=["large-spread", "robust"],
)
def test_clones_and_pickles_predict_the_same(model):
    X, y = problems.two_classes()
    model.set_params(budget=0.004).fit(X, y)
    again = clone(model).fit(X, y)
    assert again.get_params() == model.get_params()
    assert again.get_params()["budget"] == 0.004
    assert again.booster_.model_to_string() == model.booster_.model_to_string()
    restored = pickle.loads(pickle.dumps(model))
    assert restored.ensemble_ == model.ensemble_
    assert np.array_equal(restored.predict_proba(X), model.predict_proba(X))


@CLASSIFIERS
def test_it_is_deterministic_for_a_random_state_and_any_number_of_threads(classifier):
    X, y = problems.two_classes(200)
    options = {"subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.5}
    texts = [
        classifier(random_state=seed, n_jobs=jobs, **options)
        .fit(X, y)
        .booster_.trees_to_dataframe()
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    ]
    assert texts[0].equals(texts[1])
    assert not texts[0].equals(texts[2])
    drawn = np.random.RandomState(0)
    first, second = (classifier(random_state=drawn, **options).fit(X, y) for _ in range(2))
    assert first.ensemble_ != second.ensemble_


@CLASSIFIERS
def test_frames_give_their_names_to_the_model_and_the_attacker(classifier):
    X, y = problems.two_classes()
    names = ["age", "income [k]", "a", "b", "c", "d", "e", "f"]
    frame = pd.DataFrame(X, columns=names)
    model = classifier(norm=0, budget=1, features=["income [k]", "age"]).fit(frame, y)
    assert model.booster_.feature_name()[:2] == ["age", "income__k_"]
    assert list(model.feature_names_in_) == names
    assert model.attacker_.features == ("age", "income__k_")
    assert model.ensemble_.feature_names[0] == "age"
    model.verify(frame, y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame.rename(columns={"age": "years"}))


@CLASSIFIERS
def test_string_labels_come_back(classifier):
    X, y = problems.three_classes()
    words = np.array(["low", "middle", "high"])[y]
    model = classifier().fit(X, words, eval_set=(X, words))
    assert set(model.predict(X)) == {"low", "middle", "high"}
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.verify(X, words).accuracy == model.score(X, words)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)


@CLASSIFIERS
def test_weights_pull_the_decision(classifier):
    X, y = problems.two_classes()
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(y)) < 0.3, 1 - y, y)
    same = {"random_state": 0}
    plain = classifier(**same).fit(X, y).predict(X).mean()
    weight = np.where(y == 1, 9.0, 1.0)
    by_row = classifier(**same).fit(X, y, sample_weight=weight).predict(X).mean()
    by_class = classifier(class_weight={0: 1, 1: 9}, **same).fit(X, y).predict(X).mean()
    assert by_row > plain + 0.03  # trials are compared without weights
    assert by_class == by_row
    classifier(class_weight="balanced").fit(X, y)


@CLASSIFIERS
def test_robust_score_works_as_scoring(classifier):
    X, y = problems.two_classes()
    model = classifier(n_estimators=10)
    scores = cross_val_score(model, X, y, cv=3, scoring=type(model).robust_score)
    assert ((scores > 0.3) & (scores < 1)).all()
    grid = {"num_leaves": [4, 8]}
    for search in (GridSearchCV, HalvingGridSearchCV):
        found = search(model, grid, scoring=type(model).robust_score, cv=2).fit(X, y)
        assert found.best_params_["num_leaves"] in (4, 8)
    name = type(model).__name__.lower()
    pipeline = make_pipeline(MinMaxScaler(), model)
    GridSearchCV(pipeline, {f"{name}__num_leaves": [4, 8]}, cv=2).fit(X, y)


@CLASSIFIERS
def test_robust_score_refuses_pipelines_and_other_estimators(classifier):
    X, y = problems.two_classes()
    pipeline = make_pipeline(MinMaxScaler(), classifier(n_estimators=2)).fit(X, y)
    score = type(pipeline[-1]).robust_score
    with pytest.raises(CarveError, match=r"a Pipeline: .* scale=X.std\(\) in place of a scaler"):
        score(pipeline, X, y)
    with pytest.raises(CarveError, match=r"a DecisionTreeClassifier: .* cg.verify\(model, X, y"):
        score(DecisionTreeClassifier().fit(X, y), X, y)
    with pytest.raises(CarveError, match="a Pipeline"):
        cross_val_score(pipeline, X, y, cv=2, scoring=score, error_score="raise")


def test_robust_score_takes_a_search_over_the_estimator():
    X, y = problems.two_classes()
    model = classifier(n_estimators=2)
    score = type(model).robust_score
    search = GridSearchCV(model, {"num_leaves": [4, 8]}, scoring=score, cv=2)
    assert (cross_val_score(search, X, y, cv=2, scoring=score) > 0).all()
    found = search.fit(X, y)
    assert score(found, X, y) == found.best_estimator_.robust_score(X, y)
    with pytest.raises(CarveError, match="cannot score a GridSearchCV"):
        score(clone(search).set_params(refit=False).fit(X, y), X, y)


@CLASSIFIERS
def test_questions_to_an_estimator_call_features_by_their_names(classifier):
    X, y = problems.two_classes()
    names = [f"n{position}" for position in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    limits = {"features": names[:2], "scale": frame.std(), "bounds": (frame.min(), frame.max())}
    for given in (limits, {**limits, "features": [0, 1], "scale": X.std(0)}):
        model = classifier(n_estimators=2, budget=0.1, **given).fit(frame, y)
        found = model.verify(frame, y)
        assert found.attacker.features == ("n0", "n1")
        assert set(found.attacker.scale) == set(found.attacker.bounds) == set(names)
        assert "'n1'" in str(found)
        attacker = cg.Attacker("inf", 0.1, **given)
        same = cg.verify(model, frame, y, attacker)
        assert same.status.tolist() == found.status.tolist()
    nameless = classifier(n_estimators=2, features=[0, 1]).fit(X, y)
    assert nameless.verify(X, y).attacker.features == (0, 1)
