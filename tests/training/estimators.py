"""Small estimators for the training tests."""

from __future__ import annotations

from carvegbm.training.estimators import LargeSpreadClassifier, LargeSpreadRegressor

ATTACKERS = [("inf", 0.01), (1, 0.02), (2, 0.015), (0, 2)]
DEFAULTS = {"n_estimators": 30, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}


def classifier(**parameters):
    return LargeSpreadClassifier(**{**DEFAULTS, **parameters})


def regressor(**parameters):
    return LargeSpreadRegressor(**{**DEFAULTS, **parameters})
