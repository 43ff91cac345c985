"""verify, attack, radius and robustness_curve of a classifier: the attacker it was trained for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import carvegbm as cg
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


def test_methods_return_what_the_functions_return_for_the_same_attacker(trained):
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


def test_statuses_radii_curves_and_witnesses_agree(trained):
    model, options, X, y = trained
    result = model.verify(X, y)
    radii, budget = model.radius(X, y), options["budget"]
    assert np.array_equal(result.status == "robust", radii.radius > budget)
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
    assert np.array_equal(np.isinf(limited.upper), radii.radius > options["budget"])
    assert set(model.attack(X, y, engine="search").status) <= {*cg.statuses.STATUSES}
    with pytest.raises(cg.CarveError, match="timeout"):
        model.robustness_curve(X, y, budgets=[1], timeout=-1)


def test_without_labels_the_predictions_are_the_labels(trained):
    model, _, X, _ = trained
    y = model.predict(X)
    assert np.array_equal(model.verify(X).status, model.verify(X, y).status)
    assert np.array_equal(model.attack(X).success, model.attack(X, y).success)
    assert np.array_equal(model.radius(X).radius, model.radius(X, y).radius)
    assert model.robustness_curve(X, budgets=[1]).accuracy == 1


@CLASSIFIERS
def test_frames_are_taken_by_name_and_wrong_ones_refused(classifier):
    X, y = problems.two_classes(200)
    frame = pd.DataFrame(X, columns=[f"column {i}" for i in range(8)])
    model = classifier(budget=0.01, features=["column 0"]).fit(frame, y)
    assert model.radius(frame, y).exact.all()
    assert len(model.attack(frame, y)) == 200
    for query in (model.verify, model.attack, model.radius):
        with pytest.raises(ValueError, match="feature names"):
            query(frame.rename(columns={"column 0": "age"}), y)


@CLASSIFIERS
@pytest.mark.parametrize("query", ["verify", "attack", "radius"])
def test_an_unfitted_model_is_refused(classifier, query):
    with pytest.raises(NotFittedError):
        getattr(classifier(), query)([[0.0]], [0])
