"""Worst cases and witnesses for attackers with directions, steps, categories and one-hot groups."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.dataset import Dataset
from carvegbm.training.leaf_refit import RefitSettings, needs_witnesses, refit_leaves
from categorical_trees import choice
from plain_trees import leaf, split
from training.refits import EndWitnesses, bounds_of

CATEGORIES = {3: {0: "a", 2: "b", 3: "c", 70: "d"}}
"""Features: 0 a counter, 1 a number, 2 another, 3 categories, 4 to 6 a one-hot group."""


def random_tree(rng: np.random.Generator, depth: int) -> dict[str, Any]:
    if depth == 0 or rng.random() < 0.15:
        return leaf(float(rng.integers(-8, 9)) / 4)
    sides = random_tree(rng, depth - 1), random_tree(rng, depth - 1)
    more = {"missing": str(rng.choice(["left", "right"]))}
    feature = int(rng.integers(7))
    if feature == 3:
        return choice(3, [c for c in CATEGORIES[3] if rng.random() < 0.5], *sides, **more)
    place = 0.5 if feature > 3 else float(rng.integers(0, 12)) / 2
    return split(feature, place, *sides, **more)


def random_case(seed: int, n_trees: int) -> tuple[list[dict[str, Any]], np.ndarray, cg.Attacker]:
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, 4) for _ in range(n_trees)]
    n = 30
    X = np.column_stack(
        [
            rng.integers(0, 7, n),
            rng.integers(0, 24, n) / 4,
            rng.random(n) * 6,
            rng.choice([0, 2, 3, 70, 9, -1, 2.5], n),
            np.eye(3)[rng.integers(0, 3, n)],
        ]
    )
    X[rng.random((n, 7)) < [0.1, 0.1, 0.1, 0.2, 0, 0, 0]] = np.nan
    norm = rng.choice(["inf", "0", "1", "2"])
    options: dict[str, Any] = {
        "scale": {
            0: ((0, 1), (2, 1), 1.0)[rng.integers(3)],
            1: ((1, 0), (0.5, 2), 1.0)[rng.integers(3)],
            3: float(rng.choice([0.5, 1, 4])),
            **dict.fromkeys((4, 5, 6), float(rng.choice([0.5, 1, 4]))),
        },
        "step": {0: 1, 1: "1/4"},
        "one_hot": [[4, 5, 6]],
    }
    if rng.random() < 0.5:
        options["categories"] = {3: [str(c) for c in rng.choice(list("abcd"), 2, replace=False)]}
    if rng.random() < 0.3:
        options["bounds"] = {0: (0, 5)}
        X[:, 0] = np.clip(X[:, 0], 0, 5)
    budget = int(rng.integers(0, 3)) if norm == "0" else float(rng.integers(0, 9)) / 4
    return trees, X, cg.Attacker(norm, budget, **options)


def numbers(trees, **options):
    return cg.Ensemble.from_trees(
        trees,
        n_features=7,
        task="regression",
        categories=CATEGORIES,
        category_rule="truncate",
        **options,
    )


@pytest.mark.parametrize("seed", range(60))
def test_each_tree_on_its_own_reaches_what_verification_says(seed):
    """The ends of what one tree can say are exact; for norm inf, many trees add them up."""
    trees, X, attacker = random_case(seed, 3)
    low, high = np.zeros(len(X)), np.zeros(len(X))
    for tree in trees:
        alone = numbers([tree])
        found = bounds_of(alone, attacker, X)
        exact = cg.output_range(alone, X, attacker, progress=False)
        assert exact.exact.all()
        assert found["lowest"].tolist() == exact.lowest.tolist()
        assert found["highest"].tolist() == exact.highest.tolist()
        low += exact.lowest
        high += exact.highest
    if attacker.norm == np.inf:
        together = numbers(trees)
        found = bounds_of(together, attacker, X)
        assert found["lowest"] == pytest.approx(low)
        assert found["highest"] == pytest.approx(high)


@pytest.mark.parametrize("seed", range(60))
def test_witnesses_obey_the_attackers_limits_and_say_what_the_model_says_there(seed):
    trees, X, attacker = random_case(seed, 5)
    ensemble = numbers(trees)
    witnesses = EndWitnesses(ensemble, attacker, X)
    found, points, later = witnesses.ends(), witnesses.points(), witnesses.ends()
    restarted = EndWitnesses(ensemble, attacker, X, points[0]).ends()[0]
    exact = cg.output_range(ensemble, X, attacker, progress=False)
    assert (exact.lowest - 1e-9 <= later[0]).all()
    assert (later[1] <= exact.highest + 1e-9).all()
    for z, end, after, sign in zip(points, found, later, (1, -1), strict=True):
        assert ensemble.raw_score(z) == pytest.approx(end, abs=1e-9)
        assert (sign * after <= sign * end).all()  # a witness is taken further, never back
        assert np.array_equal(np.isnan(z), np.isnan(X))
        moved = np.nan_to_num(z - X)
        assert (np.sort(z[:, 4:], axis=1) == [0, 0, 1]).all()
        kept = np.nan_to_num(z[:, :2]) * [1, 4]
        assert np.array_equal(kept, np.rint(kept))
        for feature in (0, 1):
            scale = attacker.scale[feature]
            pair = scale if isinstance(scale, tuple) else (1.0, 1.0)
            assert pair[0] > 0 or (moved[:, feature] >= 0).all()
            assert pair[1] > 0 or (moved[:, feature] <= 0).all()
    assert (restarted <= found[0] + 1e-9).all()


@pytest.mark.parametrize("seed", range(20))
def test_a_refit_returns_a_witness_at_the_end_that_is_farther_from_the_target(seed):
    trees, X, attacker = random_case(seed, 5)
    ensemble = numbers(trees)
    if not needs_witnesses(ensemble, attacker):
        return
    wanted = np.where(np.arange(len(X)) % 2, 1e6, -1e6)  # the far end is the low one, or the high
    settings = RefitSettings(steps=0, point_passes=8, threads=1)
    found = refit_leaves(ensemble, attacker, Dataset(X, wanted), None, settings, X)
    assert np.array_equal(found.scores, ensemble.scores)
    raw, own = ensemble.raw_score(found.points), ensemble.raw_score(X)
    exact = cg.output_range(ensemble, X, attacker, progress=False)
    low = wanted > 0
    assert ((exact.lowest - 1e-9 <= raw) & (raw <= own + 1e-9))[low].all()
    assert ((own - 1e-9 <= raw) & (raw <= exact.highest + 1e-9))[~low].all()


def test_witnesses_of_one_split_are_the_worst():
    """Where one change decides, it is found: a category, a member of a group, a step."""
    stumps = [
        choice(3, [2], leaf(-1.0), leaf(1.0), missing="right"),
        split(5, 0.5, leaf(1.0), leaf(-1.0), missing="left"),
        split(0, 3.5, leaf(1.0), leaf(-1.0), missing="left"),
    ]
    X = np.array([[3.0, 0, 0, 70, 1, 0, 0]])
    attacker = cg.Attacker(0, 1, step={0: 1}, one_hot=[[4, 5, 6]])
    for stump, feature, value in zip(stumps, (3, 5, 0), (2, 1, 4), strict=True):
        ensemble = numbers([stump])
        witnesses = EndWitnesses(ensemble, attacker, X)
        assert witnesses.ends()[0].tolist() == [-1]
        assert witnesses.points()[0][0, feature] == value


@pytest.mark.parametrize("norm", ["inf", 1])
def test_a_refit_of_a_model_with_categories_is_no_less_robust(norm):
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [
            rng.integers(0, 9, 400),
            rng.random((400, 2)),
            rng.choice([0, 2, 3], 400),
            np.eye(3)[rng.integers(0, 3, 400)],
        ]
    ).astype(float)
    y = ((X[:, 3] == 2) ^ (X[:, 0] > 4)).astype(int)
    attacker = cg.Attacker(
        norm, 1, step={0: 1}, one_hot=[[4, 5, 6]], scale={1: 0.1, 2: 0.1, 3: 0.9}
    )
    model = cg.LargeSpreadClassifier(n_estimators=20, num_leaves=6, budget=0.001, n_jobs=1)
    model.fit(X, y, categorical_feature=[3])
    better = cg.robust_refit(
        model.booster_, X[:300], y[:300], attacker, eval_set=(X[300:], y[300:]), steps=30
    )
    before, after = (
        cg.verify(each, X[300:], y[300:], attacker, progress=False).robustness[0]
        for each in (model.booster_, better)
    )
    assert after >= before
    raw = better.predict(X, raw_score=True)
    assert np.array_equal(raw, cg.load(better).raw_score(X))


def test_a_refit_refuses_rows_off_the_lattice_and_bounds_of_every_row():
    X = np.array([[0.0] * 4 + [1, 0, 0]] * 20)
    X[7, 0] = 0.5
    ensemble = cg.Ensemble.from_trees([split(0, 0.5, leaf(-1), leaf(1))], n_features=7)
    y = np.arange(20) % 2
    with pytest.raises(cg.DataError, match=r"row 7, .* no multiple of the attacker's step 1"):
        cg.robust_refit(ensemble, X, y, cg.Attacker("inf", 1, step={0: 1}), eval_set=(X, y))
    bounds = (np.zeros((20, 7)), np.ones((20, 7)))
    with pytest.raises(cg.CarveError, match="bounds with a row per instance"):
        cg.robust_refit(ensemble, X, y, cg.Attacker("inf", 1, bounds=bounds), eval_set=(X, y))


@pytest.mark.parametrize("norm", [0, 1, 2])
@pytest.mark.parametrize(
    ("tree", "limits", "worst"),
    [
        (split(0, 0.5, leaf(1.0), leaf(-1.0), missing="left"), {"step": {0: 1}}, [1, 1]),
        (split(0, 0.5, leaf(1.0), leaf(-1.0), missing="left"), {"one_hot": [[0, 1]]}, [1, 0]),
        (choice(0, [0], leaf(1.0), leaf(-1.0), missing="left"), {}, [1, 1]),
        (split(0, -1.0, leaf(-1.0), leaf(1.0), missing="left"), {}, [-1, 1]),
    ],
    ids=["step", "group", "category", "number"],
)
def test_a_change_that_costs_the_whole_budget_is_found(tree, limits, worst, norm):
    known = {"categories": {0: {0: "a", 1: "b"}}} if "categories" in tree else {}
    ensemble = cg.Ensemble.from_trees([tree], n_features=2, task="regression", **known)
    witnesses = EndWitnesses(ensemble, cg.Attacker(norm, 1, **limits), np.array([[0.0, 1.0]]))
    witnesses.ends()
    assert witnesses.points()[0].tolist() == [worst]


def test_rounding_does_not_add_up_to_more_than_the_budget():
    """A feature is moved across 254 thresholds, and another for all that seems to be left then."""
    thresholds = [0.002083499382681319 * number for number in range(1, 255)]
    scores = np.cumsum([0.0, *(-2.0 * (255 - number) for number in range(1, 255))]).tolist()
    tree = leaf(scores[-1])
    for threshold, score in zip(thresholds[::-1], scores[-2::-1], strict=True):
        tree = split(0, threshold, leaf(score), tree)
    last = math.nextafter(0.47079115679894845, 0)
    trees = [tree, split(1, last, leaf(0.0), leaf(-1e-3))]
    ensemble = cg.Ensemble.from_trees(trees, n_features=2, task="regression")
    witnesses = EndWitnesses(ensemble, cg.Attacker(1, 1), np.zeros((1, 2)))
    witnesses.ends()
    assert witnesses.points()[0].tolist() == [[math.nextafter(thresholds[-1], 1), 0.0]]
