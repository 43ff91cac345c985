"""Refits for tests: models trained for them, and a problem whose answer is known."""

from __future__ import annotations

import numpy as np

import carvegbm as cg
from carvegbm import _core
from carvegbm.attackers.encoding import CoreEncoding
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


def bounds_of(ensemble, attacker, X):
    """Bounds on the lowest and the highest output of a regression within reach."""
    translation = CoreEncoding(ensemble, attacker.limits(ensemble))
    cases = _core.WorstCases(
        translation.core_ensemble,
        translation.core_attacker(attacker),
        np.ascontiguousarray(translation.encode(X)),
        np.zeros(len(X)),
        1,
    )
    return cases.outcomes(ensemble.scores.ravel(), 1.0, 1)


class EndWitnesses:
    """Witnesses of the lowest and the highest output of a regression."""

    def __init__(self, ensemble, attacker, X, points=None):
        self.X, self.scores = X, ensemble.scores.ravel()
        self.translation = CoreEncoding(ensemble, attacker.limits(ensemble))
        self.rows = np.ascontiguousarray(self.translation.encode(X))
        core = self.translation.core_ensemble
        core_attacker = self.translation.core_attacker(attacker)
        self.sides = [
            _core.Witnesses(core, core_attacker, self.rows, np.full(len(X), label, dtype=np.int32))
            for label in (1, 0)
        ]
        if points is not None:
            start = np.ascontiguousarray(self.translation.encode(points))
            for side in self.sides:
                side.start_at(core, start, 1)

    def ends(self):
        """The lowest and the highest output at witnesses that were taken 8 passes further."""
        numbers = np.arange(len(self.X), dtype=np.int32)
        effort = _core.WitnessEffort(passes=8)
        low, high = (
            np.asarray(side.improve(numbers, self.scores, effort, False, 1)) for side in self.sides
        )
        return low, -high

    def points(self):
        """The witnesses of both ends."""
        found = []
        for side in self.sides:
            z = self.rows.astype(np.float64)
            side.points(z, 1)
            found.append(self.translation.decode(z, self.rows, self.X))
        return found
