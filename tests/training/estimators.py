"""Small estimators for the training tests, of both families."""

from __future__ import annotations

import pytest

from carvegbm.training.estimators import (
    LargeSpreadClassifier,
    LargeSpreadRegressor,
    RobustClassifier,
    RobustRegressor,
)

ATTACKERS = [("inf", 0.01), (1, 0.02), (2, 0.015), (0, 2)]
DEFAULTS = {"n_estimators": 30, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}
ROBUST = {
    **DEFAULTS,
    "n_members": 1,
    "leaf_l2": 1e-3,
    "max_crowding": None,
    "colsample_bynode": 1.0,
}
ROBUST |= {"random_state": 0}
"""One trial or few: what is tested here does not depend on the choice."""


def classifier(**parameters):
    return LargeSpreadClassifier(**{**DEFAULTS, **parameters})


def regressor(**parameters):
    return LargeSpreadRegressor(**{**DEFAULTS, **parameters})


def robust_classifier(**parameters):
    return RobustClassifier(**{**ROBUST, **parameters})


def robust_regressor(**parameters):
    return RobustRegressor(**{**ROBUST, **parameters})


_FAMILIES = ["large-spread", "robust"]
CLASSIFIERS = pytest.mark.parametrize("classifier", [classifier, robust_classifier], ids=_FAMILIES)
"""For a law of classifiers: the test calls `classifier` with parameters."""
REGRESSORS = pytest.mark.parametrize("regressor", [regressor, robust_regressor], ids=_FAMILIES)
