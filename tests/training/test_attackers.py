"""The attacker of an estimator: every parameter arrives, with features by position or name."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import carvegbm as cg
from carvegbm.training.validation import resolve_attacker
from plain_trees import ensemble, leaf, refused
from training.estimators import classifier, regressor, robust_classifier, robust_regressor

NAMES = ["bytes", "count", "own", "rent"]
GIVEN: dict[str, Any] = {
    "scale": {"bytes": (0, 100), "count": 5},
    "features": ["bytes", "own", "rent"],
    "bounds": {"count": (0, math.inf)},
    "step": {"bytes": "1/2"},
    "one_hot": [["own", "rent"]],
}


@pytest.mark.parametrize(
    "options",
    [{}, GIVEN, *({name: value} for name, value in GIVEN.items()), {"scale": {"bytes": (0, 0)}}],
    ids=str,
)
def test_an_attacker_by_position_has_the_limits_of_the_one_by_name(options):
    by_name = cg.Attacker(1, 2, **options)
    by_position = resolve_attacker(by_name, 4, NAMES)
    named = ensemble(leaf(0.0), n_features=4, feature_names=NAMES)
    nameless = ensemble(leaf(0.0), n_features=4)
    np.testing.assert_equal(vars(by_position.limits(nameless)), vars(by_name.limits(named)))


def test_bounds_of_every_row_are_refused_in_training():
    attacker = cg.Attacker(1, 2, bounds=(np.zeros((3, 4)), 1))
    with refused("row per instance", "for all rows"):
        resolve_attacker(attacker, 4, None)


@pytest.mark.parametrize(
    "make", [classifier, regressor, robust_classifier, robust_regressor], ids=lambda f: f.__name__
)
def test_estimators_take_every_option_of_an_attacker(make):
    rng = np.random.default_rng(0)
    group = np.eye(2)[rng.integers(0, 2, 80)]
    X = np.column_stack([rng.integers(0, 50, 80) / 2, rng.integers(0, 9, 80), group])
    model = clone(make(norm=1, budget=2, **GIVEN)).fit(X, X[:, 0] > 12, feature_names=NAMES)
    found = model.attacker_
    assert found.step == {"bytes": Fraction(1, 2)}
    assert found.one_hot == (("own", "rent"),)
    assert set(found.features) == {"bytes", "own", "rent"}
    assert found.scale["bytes"] == (0, 100)
