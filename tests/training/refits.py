"""Refits for tests: models trained for them, and a problem whose answer is known."""

from __future__ import annotations

import numpy as np

import carvegbm as cg
from training import problems

ATTACKERS = [("inf", 0.03), (1, 0.06), (2, 0.05), (0, 1)]


def trained(problem=problems.two_classes, norm="inf", budget=0.03, n=200, seed=0, **parameters):
    """A large-spread classifier, its training rows and its validation rows."""
    X, y = problem(n, seed=seed)
    defaults = {"n_estimators": 12, "num_leaves": 6, "min_child_samples": 5, "n_jobs": 1}
    half = n // 2
    model = cg.LargeSpreadClassifier(norm=norm, budget=budget, **{**defaults, **parameters})
    return model.fit(X[:half], y[:half]), (X[:half], y[:half]), (X[half:], y[half:])


def refit(model, train, valid, attacker, **options):
    options = {"steps": 40, "threads": 1, "progress": False, **options}
    return cg.robust_refit(model, *train, attacker, eval_set=valid, **options)


def robustness(model, rows, attacker):
    return cg.verify(model, *rows, attacker, threads=1, progress=False).robustness[0]


def same_trees(one, other):
    return np.array_equal(one.nodes, other.nodes) and np.array_equal(one.roots, other.roots)


def stumps(scores, n_outputs=1, **options):
    """Tree i asks whether feature i is above 0.5 and speaks with the i-th score."""

    def leaf(value):
        return {"score": value if n_outputs == 1 else [-value, value] + [-9.0] * (n_outputs - 2)}

    trees = [
        {"feature": f, "threshold": 0.5, "left": leaf(-score), "right": leaf(score)}
        for f, score in enumerate(scores)
    ]
    return cg.Ensemble.from_trees(trees, n_features=len(scores), **options)


def crowded_problem(seed=0, n=60):
    """Feature 0 tells the classes apart by a hair's breadth, features 1 and 2 by a wide margin."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    sign = 2 * y - 1
    X = np.column_stack([0.5 + 0.02 * sign, 0.5 + 0.4 * sign, 0.5 + 0.4 * sign])
    return X + rng.uniform(-0.01, 0.01, X.shape), y
