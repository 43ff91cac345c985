"""Forests of whole votes, right and wrong rows of three classes: the mixed-integer program of the
experiments judges the search, and scikit-learn judges the witnesses.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import carvegbm as cg
from carvegbm_experiments import milp

BUDGETS = {"inf": 0.1, 0: 2, 1: 0.3, 2: 0.2}
ROWS = 6


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    X = ((X - X.min(axis=0)) / np.ptp(X, axis=0)).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


@pytest.fixture(scope="module", params=[RandomForestClassifier, ExtraTreesClassifier])
def forest(request, wine):
    X, y = wine
    return request.param(20, random_state=0).fit(X[:100], y[:100])


@pytest.mark.parametrize("labels", ["right", "wrong"])
@pytest.mark.parametrize("norm", BUDGETS)
def test_search_agrees_with_the_milp_baseline_on_forests(wine, forest, norm, labels):
    X = wine[0][100 : 100 + ROWS]
    y = (forest.predict(X) + (labels == "wrong")) % 3
    attacker = cg.Attacker(norm, BUDGETS[norm])
    found = cg.verify(forest, X, y, attacker, engine="search", threads=1)
    second = milp.verify(forest, X, y, attacker, timeout=20)
    decided = second.status != "unknown"
    assert (found.status != "unknown").all()
    assert decided.any()
    assert (found.status[decided] == second.status[decided]).all()


@pytest.mark.parametrize("norm", BUDGETS)
def test_witnesses_of_forests_flip_what_scikit_learn_says(wine, forest, norm):
    X = wine[0][100:160]
    y = forest.predict(X)
    attack = cg.attack(forest, X, y, cg.Attacker(norm, BUDGETS[norm]), engine="search", threads=1)
    sure = attack.success & ~attack.borderline
    assert sure.any()
    assert (forest.predict(attack.witnesses[sure].astype(np.float32)) != y[sure]).all()
