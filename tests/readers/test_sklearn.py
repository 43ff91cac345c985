"""scikit-learn: the ensemble's raw score is the estimator's own, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import ensemble as forests
from sklearn import tree as trees
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from carvegbm import load
from carvegbm.errors import DataError, ModelError
from readers.conftest import classes_of

LARGEST = 1e30  # scikit-learn refuses infinity, which larger numbers become in float32


def data(n: int = 300, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 5))
    X[:, 1] = rng.choice([-1.0, 0.0, 0.5, 2.0], n)
    X[:, 2] = rng.choice([-3e-36, 0.0, 2e-36, 1.0], n)
    X[:, 3] = rng.integers(2**24 - 3, 2**24 + 4, n)  # float32 cannot tell them all apart
    y = X[:, 0] + X[:, 1] + 2 * (X[:, 2] > 0) + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


MANY = {"n_estimators": 7, "random_state": 0}
CLASSIFIERS = {
    "tree": trees.DecisionTreeClassifier(random_state=0),
    "shallow entropy tree": trees.DecisionTreeClassifier(
        max_depth=3, criterion="entropy", class_weight="balanced", random_state=0
    ),
    "random tree": trees.ExtraTreeClassifier(random_state=0),
    "forest": forests.RandomForestClassifier(**MANY, max_depth=5),
    "random trees": forests.ExtraTreesClassifier(**MANY, min_samples_leaf=3, bootstrap=True),
}
REGRESSORS = {
    "tree": trees.DecisionTreeRegressor(random_state=0, max_depth=6),
    "random tree": trees.ExtraTreeRegressor(random_state=0),
    "forest": forests.RandomForestRegressor(**MANY, max_depth=5),
    "random trees": forests.ExtraTreesRegressor(**MANY, min_samples_leaf=3),
    "poisson forest": forests.RandomForestRegressor(**MANY, criterion="poisson"),
}


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_probabilities_of_trees_and_forests(name, k, missing, boundary_rows, assert_same):
    X, y = data(missing=missing)
    model = CLASSIFIERS[name].fit(X, np.array(["a", "b", "c", "d"])[classes_of(y, k)])
    ensemble = load(model)
    assert ensemble.classes.tolist() == list("abcd")[:k]
    Z = boundary_rows(ensemble, nan=True, huge=LARGEST)
    assert_same(ensemble.raw_score(Z), model.predict_proba(Z))
    assert (ensemble.decide(Z) == model.predict(Z)).all()


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_predictions_of_trees_and_forests(name, missing, boundary_rows, assert_same):
    X, y = data(missing=missing)
    model = REGRESSORS[name].fit(X, y - y.min() + 1)
    ensemble = load(model)
    Z = boundary_rows(ensemble, nan=True, huge=LARGEST)
    assert_same(ensemble.raw_score(Z), model.predict(Z))


@pytest.mark.parametrize("criterion", ["squared_error", "absolute_error", "poisson"])
def test_nan_has_a_rule_only_where_predict_accepts_it(criterion, assert_same):
    X, y = data()
    model = trees.DecisionTreeRegressor(criterion=criterion, max_depth=3).fit(X, y - y.min() + 1)
    X[0] = np.nan
    try:
        expected = model.predict(X)
    except ValueError:  # which criteria accept NaN depends on the version
        with pytest.raises(DataError, match=r"row 0, .*no rule for missing values"):
            load(model).raw_score(X)
    else:
        assert_same(load(model).raw_score(X), expected)


BOOSTED = {
    "default": {},
    "shrunk": {"learning_rate": 0.037, "subsample": 0.7},
    "from zero": {"init": "zero"},
    "from a constant": {"init": DummyClassifier(strategy="prior")},
}


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", BOOSTED)
def test_decision_function_of_gradient_boosting(name, k, boundary_rows, assert_same):
    X, y = data()
    model = forests.GradientBoostingClassifier(**MANY, **BOOSTED[name]).fit(X, classes_of(y, k))
    ensemble = load(model)
    Z = boundary_rows(ensemble, nan=False, huge=LARGEST)
    assert_same(ensemble.raw_score(Z), model.decision_function(Z))
    assert (ensemble.decide(Z) == model.predict(Z)).all()
    with pytest.raises(DataError, match="no rule for missing values"):
        ensemble.raw_score(np.full((1, 5), np.nan))


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "squared_error"},
        {"loss": "absolute_error"},
        {"loss": "huber"},
        {"loss": "quantile", "alpha": 0.3},
        {"init": "zero"},
        {"init": DummyRegressor(strategy="median")},
    ],
)
def test_predictions_of_gradient_boosting(options, boundary_rows, assert_same):
    X, y = data()
    model = forests.GradientBoostingRegressor(**MANY, **options).fit(X, y)
    ensemble = load(model)
    Z = boundary_rows(ensemble, nan=False, huge=LARGEST)
    assert_same(ensemble.raw_score(Z), model.predict(Z))


@pytest.mark.parametrize("k", [2, 3])
def test_decision_function_of_histogram_boosting(k, boundary_rows, assert_same):
    X, y = data(missing=0.1)
    model = forests.HistGradientBoostingClassifier(max_iter=7).fit(X, classes_of(y, k))
    ensemble = load(model)
    assert ensemble.input_precision == "float64"
    Z = boundary_rows(ensemble, nan=True, huge=1e300)
    assert_same(ensemble.raw_score(Z), model.decision_function(Z))
    far = np.ones(len(Z), dtype=bool) if k > 2 else ensemble.raw_score(Z) != 0
    assert (ensemble.decide(Z) == model.predict(Z))[far].all()


@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "gamma", "poisson"])
def test_raw_predictions_of_histogram_boosting(loss, boundary_rows, assert_same):
    X, y = data(missing=0.1)
    model = forests.HistGradientBoostingRegressor(max_iter=7, loss=loss).fit(X, y - y.min() + 1)
    ensemble = load(model)
    Z = boundary_rows(ensemble, nan=True, huge=1e300)
    assert_same(ensemble.raw_score(Z), model._raw_predict(Z)[:, 0])
    if loss.endswith("error"):
        assert_same(ensemble.raw_score(Z), model.predict(Z))


def test_histogram_boosting_splits_between_missing_and_not(assert_same):
    X = np.array([[np.nan], [0.0], [1.0], [2.0]] * 20)
    y = np.isnan(X[:, 0]).astype(float)
    model = forests.HistGradientBoostingRegressor(max_iter=3, min_samples_leaf=1).fit(X, y)
    Z = np.array([[np.nan], [0.0], [1e300], [-1e300], [np.inf], [-np.inf]])
    finite = np.nan_to_num(Z, nan=np.nan, posinf=1e308, neginf=-1e308)
    assert_same(load(model).raw_score(Z), model.predict(finite))


def test_subclasses_are_read_as_what_they_descend_from(assert_same):
    class Mine(forests.RandomForestClassifier):
        pass

    X, y = data()
    model = Mine(n_estimators=3).fit(X, classes_of(y, 2))
    assert_same(load(model).raw_score(X), model.predict_proba(X))
    assert load(model, classes=["no", "yes"]).classes.tolist() == ["no", "yes"]


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def test_categories_that_are_neither_texts_nor_numbers_are_refused_by_name():
    rng = np.random.default_rng(0)
    X = np.empty((300, 2), dtype=object)
    X[:, 0], X[:, 1] = rng.normal(size=300), rng.choice(np.array(["a", "b", None]), 300)
    y = X[:, 0] + (X[:, 1] == "a") * 3
    model = forests.HistGradientBoostingRegressor(max_iter=3, categorical_features=[1])
    with pytest.raises(ModelError, match=r"has the category None of feature '1'; name categories"):
        load(model.fit(X, y))


def test_categories_of_another_encoder_are_refused():
    X, y = data(missing=0.0)
    X[:, 4] = np.random.default_rng(0).integers(0, 3, len(X))
    model = forests.HistGradientBoostingRegressor(max_iter=3, categorical_features=[4]).fit(X, y)
    model._preprocessor.transformers_[0][1].unknown_value = 7
    with pytest.raises(ModelError, match=r"changes its inputs .* not by the known encoder"):
        load(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (forests.AdaBoostClassifier(n_estimators=3), "not a sum of trees that can be read; pass"),
        (forests.BaggingClassifier(n_estimators=3), "not a sum of trees"),
        (forests.IsolationForest(n_estimators=3), "not a sum of trees"),
        (forests.RandomTreesEmbedding(n_estimators=3), "not a sum of trees"),
        (LogisticRegression(), "not a sum of trees"),
        (
            make_pipeline(StandardScaler(), trees.DecisionTreeClassifier()),
            "is a pipeline; transform the data yourself and pass its last step",
        ),
        (
            GridSearchCV(trees.DecisionTreeClassifier(), {"max_depth": [1, 2]}),
            "is a search; pass its best_estimator_",
        ),
        (
            forests.GradientBoostingClassifier(init=LogisticRegression(), n_estimators=2),
            "starts from init=LogisticRegression, .*; train with init='zero'",
        ),
        (
            forests.GradientBoostingClassifier(
                init=DummyClassifier(strategy="stratified"), n_estimators=2
            ),
            "starts from init=DummyClassifier",
        ),
    ],
)
def test_models_that_are_not_a_sum_of_trees_are_refused_by_name(model, message):
    X, y = data()
    model.fit(X, classes_of(y, 2))
    with pytest.raises(ModelError, match=f"^{type(model).__name__}: .*{message}"):
        load(model)
