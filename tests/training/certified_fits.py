"""Certified fits for tests."""

from __future__ import annotations

import carvegbm as cg
from training import problems

ATTACKERS = [("inf", 0.03), (1, 0.06), (2, 0.05), (0, 1)]


def classifier(**parameters):
    defaults = {
        "norm": "inf",
        "budget": 0.03,
        "certified": True,
        "max_crowding": (0.12, 0.25, None),
        "n_estimators": 12,
        "num_leaves": 6,
        "min_child_samples": 5,
        "random_state": 0,
        "n_jobs": 1,
    }
    return cg.LargeSpreadClassifier(**{**defaults, **parameters})


def split(problem=problems.two_classes, n=300, seed=0):
    X, y = problem(n, seed=seed)
    cut = 2 * n // 3
    return (X[:cut], y[:cut]), (X[cut:], y[cut:])


def fitted(problem=problems.two_classes, n=300, seed=0, **parameters):
    train, valid = split(problem, n, seed)
    return classifier(**parameters).fit(*train, eval_set=[valid]), train, valid


def same_report(one, other):
    """Everything but the time it took."""

    def plain(report):
        found = report.to_dict()
        for trial in found["trials"]:
            del trial["seconds"]
        return found, [trial.ensemble for trial in report.trials]

    return plain(one) == plain(other)
