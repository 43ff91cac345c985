"""Large-spread training for attackers with directions, steps and one-hot groups."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from training.estimators import classifier, robust_classifier


def counters(n=600, seed=0):
    """Two counters, a real number and a one-hot group of three; labels 0, 1."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson([6, 30], (n, 2)).astype(float)
    group = rng.integers(0, 3, n)
    x = rng.random(n)
    score = counts[:, 0] / 4 + counts[:, 1] / 30 + 2 * x + (group == 1) + rng.normal(0, 0.3, n)
    return np.column_stack([counts, x, np.eye(3)[group]]), (score > np.median(score)).astype(int)


ATTACKERS = [
    {"norm": 1, "budget": 2, "step": {0: 1, 1: 1}, "scale": {0: (0, 1), 1: (5, 1), 2: 0.05}},
    {"norm": "inf", "budget": 1, "step": {0: 1, 1: 1}, "scale": {2: (0.02, 0)}},
    {"norm": "inf", "budget": 0.5, "step": {0: 1, 1: "1/2"}, "one_hot": [[3, 4, 5]]},
    {
        "norm": 2,
        "budget": 1,
        "one_hot": [[3, 4, 5]],
        "scale": {2: 0.05},
        "features": [0, 2, 3, 4, 5],
    },
    {"norm": 0, "budget": 1, "one_hot": [[3, 4, 5]], "scale": {0: (0, 1)}, "step": {0: 1}},
    {
        "norm": 1,
        "budget": 3,
        "step": {0: 1, 1: 1},
        "bounds": {0: (0, 40), 1: (0, 511)},
        "one_hot": [[3, 4, 5]],
        "scale": {2: 0.1},
    },
]


@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
def test_the_model_is_large_spread_and_its_witnesses_obey_the_attackers_limits(attacker):
    X, y = counters()
    model = classifier(**attacker).fit(X[:400], y[:400])
    assert cg.is_large_spread(model.booster_, model.attacker_)
    result = model.verify(X[400:], y[400:])
    assert set(result.engine.tolist()) == {"large-spread"}
    witnesses = model.attack(X[400:], y[400:]).witnesses
    flipped = ~np.isnan(witnesses).all(axis=1)
    moved = witnesses[flipped] - X[400:][flipped]
    if "one_hot" in attacker:
        assert (np.sort(witnesses[flipped][:, 3:], axis=1) == [0, 0, 1]).all()
    if attacker.get("scale", {}).get(0) == (0, 1):
        assert (moved[:, 0] >= 0).all()
    if "step" in attacker:
        assert (moved[:, 0] == np.rint(moved[:, 0])).all()


def test_thresholds_lie_between_the_points_of_a_lattice_that_the_rows_do_not_show():
    """Of multiples of 1/2 that happen to be even, thresholds are in the middle of a step."""
    X = np.repeat([0.0, 1.0, 2.0, 7.0], 30)[:, None]
    y = (X[:, 0] > 1).astype(int)
    model = classifier(norm="inf", budget=0.1, step="1/2", n_estimators=5).fit(X, y)
    splits = model.ensemble_.nodes[model.ensemble_.nodes["feature"] >= 0]
    assert (np.mod(splits["threshold"], 0.5) == 0.25).all()


@pytest.mark.parametrize("attacker", ATTACKERS, ids=str)
def test_certified_training_knows_the_attackers_limits(attacker):
    X, y = counters()
    model = classifier(**attacker, certified=True, random_state=0).fit(X[:400], y[:400])
    assert cg.is_large_spread(model.booster_, model.attacker_)
    chosen = model.training_report_.chosen
    assert chosen.robustness == max(
        t.robustness
        for t in model.training_report_.trials
        if t.accuracy >= (model.training_report_.floor or 0)
    )


@pytest.mark.parametrize("estimator", [classifier, robust_classifier])
def test_a_row_that_does_not_fit_the_attacker_has_its_number_in_x(estimator):
    X, y = counters()
    X, y = np.tile(X, (4, 1)), np.tile(y, 4)
    wrong = X.copy()
    wrong[1234, 0] = 0.5
    given = {"norm": "inf", "budget": 1, "step": {0: 1}}
    model = estimator(**given, **({"certified": True} if estimator is classifier else {}))
    with pytest.raises(cg.DataError, match=r"^X row 1234, "):
        model.fit(wrong, y)
    with pytest.raises(cg.DataError, match=r"^eval_set 0: X row 1234, "):
        model.fit(X, y, eval_set=(wrong, y))
