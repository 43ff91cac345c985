"""Robust training on missing values, categories and lattices, against attackers of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import carvegbm as cg
from training import problems
from training.estimators import robust_classifier, robust_regressor

CATEGORICAL = [2, 3, 4]


def rows_of(X, y, n=400):
    return (X[:n], y[:n]), (X[n:], y[n:])


def assert_lightgbm_says_the_same(model, rows):
    raw = model.ensemble_.raw_score(rows)
    assert np.array_equal(model.booster_.predict(rows, raw_score=True), raw)
    assert np.array_equal(model.predict(rows), model.ensemble_.decide(rows))


def spoilt(X, seed=7):
    """The rows, and others with NaN, zeros, huge, negative and fractional values anywhere."""
    rng = np.random.default_rng(seed)
    odd = rng.choice([np.nan, 0.0, -0.5, 2.5, 1e9, -3.0], X.shape)
    return np.vstack([X, np.where(rng.random(X.shape) < 0.4, odd, X)])


@pytest.mark.parametrize(
    ("norm", "budget", "n_classes"),
    [("inf", 0.03, 2), ("inf", 0.03, 3), (1, 0.06, 3), (2, 0.05, 2), (0, 1, 2)],
)
def test_missing_values_are_learned_from_and_left_alone(norm, budget, n_classes):
    X, y = problems.with_gaps(600)
    y = y if n_classes == 2 else y + (X[:, 5] > 0.7)
    train, test = rows_of(X, y)
    model = robust_classifier(norm=norm, budget=budget).fit(*train)
    assert_lightgbm_says_the_same(model, spoilt(X))
    witnesses = model.attack(*test).witnesses
    flipped = ~np.isnan(witnesses).all(axis=1)
    assert np.array_equal(np.isnan(witnesses[flipped]), np.isnan(test[0][flipped]))


def test_whether_a_value_is_missing_can_be_all_that_counts():
    X = np.random.default_rng(0).random((400, 3))
    X[::2, 0] = np.nan
    y = np.isnan(X[:, 0]).astype(int)
    for norm, budget in (("inf", 0.3), (0, 1), (1, 0.5)):
        model = robust_classifier(norm=norm, budget=budget).fit(X, y)
        assert model.robust_score(X, y) == 1
        splits = model.ensemble_.nodes[model.ensemble_.nodes["feature"] == 0]
        assert len(splits)


@pytest.mark.parametrize(
    ("attacker", "is_used"),
    [
        ({"norm": "inf", "budget": 0.05}, True),
        ({"norm": "inf", "budget": 1, "scale": {0: 0.05, 1: 0.05}}, False),
        ({"norm": 1, "budget": 0.1}, True),
        ({"norm": 0, "budget": 1, "features": [0, 1]}, True),
    ],
    ids=str,
)
def test_categories_are_split_by_where_the_attacker_cannot_exchange_them(attacker, is_used):
    X, _ = problems.with_categories(700)
    y = (np.isin(X[:, 3], [1, 5]) ^ (X[:, 2] == 2)).astype(int)
    train, test = rows_of(X, y)
    model = robust_classifier(**attacker).fit(*train, categorical_feature=CATEGORICAL)
    assert_lightgbm_says_the_same(model, spoilt(X))
    assert cg.load(model.booster_) == model.ensemble_
    used = np.isin(model.ensemble_.nodes["feature"], CATEGORICAL)
    assert used.any() == is_used
    if is_used:
        assert model.robust_score(*test) > 0.8


def test_a_category_that_can_be_changed_to_is_defended_against():
    """Norm 0, one change: the category decides half of the rows, numbers repeat what it says."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 700)
    y = (codes >= 2).astype(int)
    copies = np.where(rng.random((700, 5)) < 0.05, 1 - y[:, None], y[:, None])
    X = np.column_stack([codes, copies + 0.1 * rng.random((700, 5))])
    train, test = rows_of(X, y)
    model = robust_classifier(norm=0, budget=1, random_state=0, n_estimators=60)
    model.fit(*train, categorical_feature=[0])
    assert model.robust_score(*test) > 0.8
    witnesses = model.attack(*test).witnesses
    flipped = ~np.isnan(witnesses).all(axis=1)
    assert set(witnesses[flipped][:, 0]) <= {0.0, 1.0, 2.0, 3.0}


def test_frames_with_categories_and_sparse_matrices_train_the_models_of_their_rows():
    X, y = problems.with_categories(500)
    X[::6, 1] = 0.0
    X[::7, 0] = np.nan
    frame = pd.DataFrame(X, columns=list("abcde"))
    for column in "cde":
        frame[column] = frame[column].astype(int).astype("category")
    plain = robust_classifier(budget=0.01).fit(X, y, categorical_feature=CATEGORICAL)
    framed = robust_classifier(budget=0.01).fit(frame, y)
    assert np.array_equal(framed.decision_function(frame), plain.decision_function(X))
    thin = robust_classifier(budget=0.01).fit(
        sparse.csr_matrix(X), y, categorical_feature=CATEGORICAL
    )
    assert thin.booster_.model_to_string() == plain.booster_.model_to_string()


def counters(n=700, seed=0):
    """Two counters, a number and a one-hot group of three; labels 0, 1."""
    rng = np.random.default_rng(seed)
    counts = rng.poisson([6, 30], (n, 2)).astype(float)
    group = rng.integers(0, 3, n)
    score = counts[:, 0] / 4 + counts[:, 1] / 30 + (group == 1) + rng.normal(0, 0.3, n)
    X = np.column_stack([counts, rng.random(n), np.eye(3)[group]])
    return X, (score > np.median(score)).astype(int)


STEPS = {"step": {0: 1, 1: 1}, "scale": {0: (0, 1), 1: (2, 1), 2: 0.05}}
LIMITS = [
    {"norm": "inf", "budget": 1, **STEPS},
    {"norm": "inf", "budget": 0.5, **STEPS, "one_hot": [[3, 4, 5]]},
    {"norm": "inf", "budget": 1, **STEPS, "one_hot": [[3, 4, 5]], "bounds": {0: (0, 50)}},
    {"norm": 1, "budget": 2, **STEPS, "one_hot": [[3, 4, 5]]},
    {"norm": 0, "budget": 1, "step": {0: 1}, "one_hot": [[3, 4, 5]], "scale": {1: (0, 1)}},
]


@pytest.mark.parametrize("attacker", LIMITS, ids=str)
def test_directions_steps_and_groups_count(attacker):
    X, y = counters()
    train, test = rows_of(X, y)
    model = robust_classifier(**attacker).fit(*train)
    assert_lightgbm_says_the_same(model, X)
    splits = model.ensemble_.nodes[model.ensemble_.nodes["feature"] == 0]
    assert (splits["threshold"] % 1 == 0.5).all()
    witnesses = model.attack(*test).witnesses
    flipped = ~np.isnan(witnesses).all(axis=1)
    moved = (witnesses - test[0])[flipped]
    if isinstance(attacker["scale"].get(0), tuple):
        assert (moved[:, 0] >= 0).all()
    if "one_hot" in attacker:
        assert (np.sort(witnesses[flipped][:, 3:], axis=1) == [0, 0, 1]).all()


def test_an_attacker_of_one_direction_leaves_more_robustness():
    X, y = counters()
    train, test = rows_of(X, y)
    scores = [
        robust_classifier(norm="inf", budget=2, step={0: 1, 1: 1}, scale={0: s, 1: s, 2: 0.05})
        .fit(*train)
        .robust_score(*test)
        for s in (1.0, (0, 1))
    ]
    assert scores[1] > scores[0]


def test_regression_takes_them_too():
    X, y = problems.with_gaps(400)
    X = np.column_stack([X, np.arange(400) % 5])
    wanted = 2.0 * y + X[:, 6]
    model = robust_regressor(budget=0.01).fit(X, wanted, categorical_feature=[6])
    assert 0.3 < model.robust_score(X, wanted) <= model.score(X, wanted)
    rows = spoilt(X)
    assert np.array_equal(model.booster_.predict(rows), model.ensemble_.raw_score(rows))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((3, 0), 0.5, "row 3, .* no multiple of the attacker's step 1"),
        ((3, 4), 0.5, "row 3: of the one-hot group .* exactly one must be 1"),
    ],
)
def test_rows_that_do_not_fit_the_attacker_are_refused(place, value, message):
    X, y = counters()
    X[place] = value
    with pytest.raises(cg.DataError, match=message) as caught:
        robust_classifier(**LIMITS[1]).fit(X, y, eval_set=(X[10:], y[10:]))
    assert "\n" not in str(caught.value)
