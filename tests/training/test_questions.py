"""verify, attack, radius and robustness_curve of a classifier: the attacker it was trained for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import carvegbm as cg
from carvegbm.training import classifier as asked_through
from training import problems
from training.estimators import CLASSIFIERS, classifier, robust_classifier

BUDGETS = [0.005, 0.01, 0.02]
ATTACKERS = {
    "L-infinity": {"norm": "inf", "budget": 0.01},
    "L1, scaled": {"norm": 1, "budget": 0.02, "scale": {0: 2.0, 3: 0.5}},
    "L2, some features": {"norm": 2, "budget": 0.02, "features": [0, 1, 2]},
    "L0, bounded": {"norm": 0, "budget": 1, "bounds": (0.0, 1.0)},
}


@pytest.fixture(name="family", params=[classifier, robust_classifier], scope="module")
def a_family(request):
    return request.param


@pytest.fixture(name="trained", params=ATTACKERS, scope="module")
def a_trained_classifier(request, family):
    """A model, its attacker's parameters, rows and labels that it has not seen."""
    options = ATTACKERS[request.param]
    problem = problems.redundant if options["norm"] == 0 else problems.two_classes
    X, y = problem(400, 8)
    words = np.array(["no", "yes"])[y]
    model = family(**options, n_estimators=20, num_leaves=6).fit(X[:300], words[:300])
    return model, options, X[300:], words[300:]


def test_they_say_what_the_functions_say_of_the_same_attacker(trained):
    model, options, X, y = trained
    attacker = cg.Attacker(**options)
    verified = cg.verify(model, X, y, attacker)
    assert np.array_equal(model.verify(X, y).status, verified.status)
    attacked = model.attack(X, y)
    expected = cg.attack(model, X, y, attacker)
    assert attacked.success.any()
    assert np.array_equal(attacked.success, expected.success)
    assert np.array_equal(attacked.witnesses, expected.witnesses, equal_nan=True)
    radii = cg.radius(model, X, y, attacker)
    assert np.array_equal(model.radius(X, y).radius, radii.radius)
    budgets = [1, 2] if options["norm"] == 0 else BUDGETS
    curve = cg.robustness_curve(model, X, y, attacker, budgets=budgets)
    assert np.array_equal(
        model.robustness_curve(X, y, budgets=budgets).robustness, curve.robustness
    )


def test_they_agree_with_one_another(trained):
    model, options, X, y = trained
    result = model.verify(X, y)
    radii, budget = model.radius(X, y), options["budget"]
    assert np.array_equal(result.status == "robust", np.asarray(radii) > budget)
    curve = model.robustness_curve(X, y, budgets=[budget])
    assert curve.lower.tolist() == [result.robustness[0]]
    found = model.attack(X, y)
    assert np.array_equal(found.status, result.status)
    flipped = found.success & ~found.borderline
    assert (model.predict(found.witnesses[flipped]) != model.predict(X[flipped])).all()


def test_options_are_passed_on(trained):
    model, options, X, y = trained
    radii = model.radius(X, y)
    assert radii.upper.max() < np.inf
    limited = model.radius(X, y, max_budget=options["budget"])
    assert np.array_equal(np.isinf(limited.upper), np.asarray(radii) > options["budget"])
    assert set(model.attack(X, y, engine="search").status) <= {*cg.statuses.STATUSES}
    with pytest.raises(cg.CarveError, match="timeout"):
        model.robustness_curve(X, y, budgets=[1], timeout=-1)


@pytest.mark.parametrize("question", ["verify", "attack", "radius", "robustness_curve"])
def test_without_labels_none_are_passed_on(trained, question, monkeypatch):
    model, _, X, _ = trained
    asked = []
    monkeypatch.setattr(asked_through, question, lambda *given, **_: asked.append(given))
    more = {"budgets": [1]} if question == "robustness_curve" else {}
    getattr(model, question)(X, **more)
    ((ensemble, rows, y),) = asked
    assert ensemble is model.ensemble_
    assert np.array_equal(rows, X)
    assert y is None


def test_without_labels_the_models_own_answer_is_the_right_one(trained):
    model, _, X, _ = trained
    y = model.predict(X)
    assert np.array_equal(model.verify(X).status, model.verify(X, y).status)
    assert np.array_equal(model.attack(X).success, model.attack(X, y).success)
    assert np.array_equal(model.radius(X), model.radius(X, y))
    assert model.robustness_curve(X, budgets=[1]).accuracy == 1


@CLASSIFIERS
def test_frames_are_taken_by_name_and_wrong_ones_refused(classifier):
    X, y = problems.two_classes(200)
    frame = pd.DataFrame(X, columns=[f"column {i}" for i in range(8)])
    model = classifier(budget=0.01, features=["column 0"]).fit(frame, y)
    assert model.radius(frame, y).exact.all()
    assert len(model.attack(frame, y)) == 200
    for ask in (model.verify, model.attack, model.radius):
        with pytest.raises(ValueError, match="feature names"):
            ask(frame.rename(columns={"column 0": "age"}), y)


@CLASSIFIERS
@pytest.mark.parametrize("question", ["verify", "attack", "radius"])
def test_an_unfitted_model_has_no_answers(classifier, question):
    with pytest.raises(NotFittedError):
        getattr(classifier(), question)([[0.0]], [0])


@pytest.mark.parametrize("kind", [cg.LargeSpreadClassifier, cg.RobustClassifier])
def test_what_users_see_of_a_classifier_is_what_they_need(kind):
    """No method that only the rest of training calls."""
    ours = [c for c in kind.__mro__ if c.__module__.startswith("carvegbm")]
    public = {name for c in ours for name in vars(c) if not name.startswith("_")}
    assert {name for name in public if not name.endswith("_request")} == {
        *("fit", "predict", "predict_proba", "decision_function", "get_params", "set_params"),
        *("verify", "attack", "radius", "robustness_curve", "robust_score"),
        *("save_model", "feature_importances_"),
    }


def test_tune_is_at_hand():
    from carvegbm.training.tuning import tune

    assert cg.tune is tune
