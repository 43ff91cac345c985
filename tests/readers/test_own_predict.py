"""Estimators decide as their own `predict`; one that does more than add up trees is refused."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from sklearn import ensemble as forests
from sklearn import tree as trees

from carvegbm import load
from carvegbm.errors import ModelError


def labelled(n=400):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(np.float32)
    return X, (X[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)


def xgboost():
    return pytest.importorskip("xgboost")


@pytest.mark.parametrize("objective", ["poisson", "tweedie", "cross_entropy_lambda"])
def test_lightgbm_classifier_that_compares_another_output_with_a_half_is_refused(objective):
    X, y = labelled()
    model = lgb.LGBMClassifier(n_estimators=3, objective=objective, verbose=-1).fit(X, y)
    with pytest.raises(ModelError, match=f"classifier with the objective '{objective}'"):
        load(model)
    assert load(model.booster_, classes=[0, 1]).task == "binary"


@pytest.mark.parametrize(
    "objective",
    [
        "binary", "cross_entropy", "multiclass", "multiclassova",
        "regression", "regression_l1", "huber", "quantile", "mape", "fair",
    ],
)  # fmt: skip
def test_lightgbm_classifier_decides_as_its_own_predict(objective):
    X, y = labelled()
    more = {"num_class": 2} if objective.startswith("multi") else {}
    model = lgb.LGBMClassifier(n_estimators=3, objective=objective, verbose=-1, **more).fit(X, y)
    assert (load(model).decide(X) == model.predict(X)).all()


def test_early_stopping_of_lightgbm_predictions_is_refused():
    X, y = labelled()
    model = lgb.LGBMClassifier(
        n_estimators=20, verbose=-1, pred_early_stop=True, pred_early_stop_freq=1
    ).fit(X, y)
    with pytest.raises(ModelError, match="pred_early_stop"):
        load(model)
    model.set_params(pred_early_stop=False)
    assert (load(model).raw_score(X) == model.predict(X, raw_score=True)).all()


def test_lightgbm_estimator_with_a_predict_of_its_own_is_refused():
    class Mine(lgb.LGBMClassifier):
        def predict(self, X):
            return 1 - super().predict(X)

    class Same(lgb.LGBMClassifier):
        pass

    X, y = labelled()
    with pytest.raises(ModelError, match="has its own predict"):
        load(Mine(n_estimators=2, verbose=-1).fit(X, y))
    same = Same(n_estimators=2, verbose=-1).fit(X, y)
    assert (load(same).decide(X) == same.predict(X)).all()


@pytest.mark.parametrize("objective", ["count:poisson", "reg:tweedie"])
def test_xgboost_classifier_that_compares_an_exponential_with_a_half_is_refused(objective):
    X, y = labelled()
    model = xgboost().XGBClassifier(n_estimators=3, objective=objective).fit(X, y)
    with pytest.raises(ModelError, match=f"classifier with the objective '{objective}'"):
        load(model)


def test_xgboost_estimator_with_a_predict_of_its_own_is_refused():
    class Mine(xgboost().XGBClassifier):
        def predict(self, X):
            return 1 - super().predict(X)

    X, y = labelled()
    with pytest.raises(ModelError, match="has its own predict"):
        load(Mine(n_estimators=2).fit(X, y))


@pytest.mark.parametrize("where", ["class", "object", "member"])
def test_scikit_learn_estimator_with_a_predict_of_its_own_is_refused(where):
    class Mine(forests.RandomForestClassifier):
        def predict_proba(self, X):
            return super().predict_proba(X)[:, ::-1]

    class MyTree(trees.DecisionTreeClassifier):
        def predict_proba(self, X, check_input=True):
            return 1 - super().predict_proba(X, check_input)

    X, y = labelled()
    made = Mine if where == "class" else forests.RandomForestClassifier
    model = made(n_estimators=3).fit(X, y)
    if where == "object":
        model.predict = lambda X: np.zeros(len(X))
    if where == "member":
        model.estimators_[0].__class__ = MyTree
    with pytest.raises(ModelError, match="has its own predict"):
        load(model)
