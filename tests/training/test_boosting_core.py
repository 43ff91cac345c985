"""The core of robust training against norm inf, compared with slow NumPy code.

The reference works on values and thresholds; the core works on codes of 64 rows at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from carvegbm import _core

NUMBERS, OR_MISSING, CATEGORIES = 0, 1, 2
TASKS = ("binary", "multiclass", "regression")
N_CLASSES = 3


@dataclass
class Problem:
    """Rows with their thresholds; the attacker moves feature f by at most budget[f].

    X is `given` with 0 in place of missing values that the feature does not distinguish.
    """

    given: np.ndarray
    X: np.ndarray
    targets: np.ndarray
    weights: np.ndarray
    thresholds: list
    budget: np.ndarray
    kinds: np.ndarray
    task: str

    @property
    def n_outputs(self):
        return N_CLASSES if self.task == "multiclass" else 1

    def outputs(self, booster):
        return [tree % self.n_outputs for tree in range(booster.n_trees)]

    def encode(self, order=None, threads=1, grouped=True):
        """Rows in groups of equal class, or in one group."""
        order = np.arange(len(self.X)) if order is None else order
        grouped = grouped and self.task != "regression"
        labels = self.targets[order] if grouped else np.zeros(len(order))
        groups = [order[labels == label] for label in np.unique(labels)]
        bounds, can_left, must_left = [], [], []
        for f, t in enumerate(self.thresholds):
            if self.kinds[f] == CATEGORIES:
                own = np.arange(0.5, np.nanmax(self.X[:, f]))
            else:
                own = np.unique(np.r_[t - self.budget[f], t + self.budget[f]])
                can_left.append(np.searchsorted(own, t + self.budget[f]))
                must_left.append(np.searchsorted(own, t - self.budget[f]))
            bounds.append(own)
        counts = [
            0 if kind == CATEGORIES else len(t)
            for t, kind in zip(self.thresholds, self.kinds, strict=True)
        ]
        return _core.RowBlocks(
            self.given,
            np.concatenate(groups).astype(np.int64),
            np.array([len(group) for group in groups], dtype=np.int64),
            np.concatenate(bounds),
            np.cumsum([0, *map(len, bounds)], dtype=np.int64),
            np.concatenate(can_left).astype(np.uint8),
            np.concatenate(must_left).astype(np.uint8),
            np.cumsum([0, *counts], dtype=np.int64),
            self.kinds,
            threads,
        )

    def booster(self, rows, threads=1, weighted=True, **options):
        weights = self.weights if weighted else None
        options = _core.BoostingOptions(**{"lambda_l2": 1.0, "num_leaves": 12, **options})
        args = rows, self.targets, weights, self.task, self.n_outputs, options, threads
        return _core.RobustBooster(*args)

    def reaches(self, tree, split, side):
        """Which rows the attacker can push to a side of a split; `side` is 0 (left) or 1."""
        f, position = tree.feature[split], tree.position[split]
        x, chosen = self.X[:, f], tree.sets[split]
        if chosen is not None:
            return np.isin(x, chosen) == (side == 0)
        t = np.append(self.thresholds[f], np.inf)[position]
        left, right = x <= t + self.budget[f], ~(x <= t - self.budget[f])
        missing = np.isnan(x) & (self.kinds[f] == OR_MISSING)
        reached = left if side == 0 else right
        reached[missing] = (tree.missing_left[split] == 1) == (side == 0)
        return reached

    def leaves_in_reach(self, tree):
        """Whether each row can be pushed to each leaf."""
        found = np.zeros((len(self.X), len(tree.values)), dtype=bool)
        pending = [(0 if len(tree.feature) else -1, np.ones(len(self.X), dtype=bool))]
        while pending:
            node, rows = pending.pop()
            if node < 0:
                found[:, ~node] = rows
                continue
            for side, child in enumerate((tree.left[node], tree.right[node])):
                pending.append((child, rows & self.reaches(tree, node, side)))
        return found

    def bounds(self, trees, outputs, values, bias):
        """Lowest and highest scores, the trees taken one by one."""
        low = np.tile(bias, (len(self.X), 1))
        high, first = low.copy(), 0
        for tree, output in zip(trees, outputs, strict=True):
            own = values[first : first + len(tree.values)]
            first += len(own)
            reach = self.leaves_in_reach(tree)
            low[:, output] += np.where(reach, own, np.inf).min(axis=1)
            high[:, output] += np.where(reach, own, -np.inf).max(axis=1)
        return low, high

    def loss(self, low, high):
        if self.task == "regression":
            farther = np.maximum(self.targets - low[:, 0], high[:, 0] - self.targets)
            losses = farther**2 / 2
        elif self.task == "binary":
            losses = np.logaddexp(0, np.where(self.targets == 1, -low[:, 0], high[:, 0]))
        else:
            own = (np.arange(len(self.X)), self.targets.astype(int))
            worst = high.copy()
            worst[own] = low[own]
            losses = np.logaddexp.reduce(worst, axis=1) - worst[own]
        return np.average(losses, weights=self.weights)


def problem(task, seed=0, n=700):
    """Two features of numbers, one with missing values, one with few values, one of categories."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5))
    X[:, 2] = np.where(random.random(n) < 0.2, np.nan, X[:, 2])
    X[:, 3] = np.round(X[:, 3])
    X[:, 4] = random.integers(0, 12, n)
    X[X[:, 4] == 0, 1] = np.nan  # read as 0: this feature does not distinguish missing values
    score = np.nan_to_num(X[:, 0]) + X[:, 3] / 2 + (X[:, 4] % 3) + np.isnan(X[:, 2])
    score = score + 0.3 * random.normal(size=n)
    targets = {
        "binary": score > 1.5,
        "multiclass": np.digitize(score, [0.8, 2.2]),
        "regression": 3 * score,
    }[task].astype(np.float64)
    thresholds = [np.quantile(np.nan_to_num(x), np.linspace(0.02, 0.98, 60)) + 0.004 for x in X.T]
    thresholds[3] = np.array([-1.5, -0.5, 0.5, 1.5])
    budget = np.array([0.1, 0.2, 0.05, 0.6, 0.0])
    kinds = np.array([NUMBERS, NUMBERS, OR_MISSING, NUMBERS, CATEGORIES], dtype=np.uint8)
    given = X.copy()
    X[:, 1] = np.nan_to_num(X[:, 1])
    return Problem(given, X, targets, random.uniform(0.5, 2, n), thresholds, budget, kinds, task)


def grown(task, rounds=4, threads=1, rows=None, **options):
    p = problem(task)
    rows = p.encode(threads=threads) if rows is None else rows
    booster = p.booster(rows, threads, **options)
    for _ in range(rounds):
        assert booster.round()
    return p, rows, booster


def leaf_values(booster):
    return np.concatenate([tree.values for tree in booster.trees])


OPTIONS = [
    {},
    {"ordered": True},
    {"bagging_fraction": 0.5, "feature_fraction": 0.6, "feature_fraction_bynode": 0.5},
    {"extra_trees": True, "lambda_l1": 0.5, "max_depth": 3},
    {"num_leaves": 200},
]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("options", OPTIONS)
def test_score_bounds_equal_those_of_leaves_found_one_by_one(task, options):
    p, rows, booster = grown(task, **options)
    trees, outputs, values = booster.trees, p.outputs(booster), leaf_values(booster)
    assert len(trees) == booster.n_trees == 4 * p.n_outputs
    expected = p.bounds(trees, outputs, values, booster.bias)
    found = _core.score_bounds(rows, trees, outputs, values, booster.bias, 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    if task == "regression":
        return
    worst = _core.worst_scores(rows, p.targets, task, trees, outputs, values, booster.bias)
    if task == "binary":
        own = p.targets[:, None] == 1
    else:
        own = p.targets[:, None] == np.arange(N_CLASSES)
    np.testing.assert_array_equal(worst, np.where(own, found[0], found[1]))


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_blocks_of_several_classes_are_bounded_alike(task):
    p, rows, booster = grown(task)
    mixed = p.encode(grouped=False)
    args = p.targets, task, booster.trees, p.outputs(booster), leaf_values(booster), booster.bias
    np.testing.assert_array_equal(_core.worst_scores(mixed, *args), _core.worst_scores(rows, *args))
    again = p.booster(mixed)
    assert again.round()
    assert again.trees[0].feature[0] == booster.trees[0].feature[0]


def test_trees_use_missing_values_and_categories():
    _, _, booster = grown("binary", rounds=8)
    used = set(np.concatenate([tree.feature for tree in booster.trees]).tolist())
    assert {2, 4} <= used
    assert any(chosen for tree in booster.trees for chosen in tree.sets)


@pytest.mark.parametrize("task", TASKS)
def test_trees_lower_the_loss_at_the_worst_scores(task):
    p, _, booster = grown(task, rounds=20, min_data_in_leaf=5)
    start = np.tile(booster.bias, (len(p.X), 1))
    bounds = p.bounds(booster.trees, p.outputs(booster), leaf_values(booster), booster.bias)
    assert p.loss(*bounds) < 0.7 * p.loss(start, start)


def _pushed(p, feature, threshold, lower, missing_left):
    """Which rows are on the left where the attacker pushes rows of class 1 down."""
    x, k = p.X[:, feature], p.budget[feature]
    down = p.targets == 1
    left = np.where(down == lower, x <= threshold + k, x <= threshold - k)
    if p.kinds[feature] == OR_MISSING:
        left[np.isnan(x)] = missing_left
    return left


@pytest.mark.parametrize("l1", [0.0, 3.0])
def test_the_root_split_has_the_largest_gain(l1):
    p = problem("binary")
    p.kinds[4] = NUMBERS  # splits by sets are another matter
    p.thresholds[4] = np.array([0.5, 4.5, 8.5])
    booster = p.booster(p.encode(), num_leaves=2, lambda_l1=l1, min_data_in_leaf=20)
    rate = np.average(p.targets, weights=p.weights)
    np.testing.assert_allclose(booster.bias, np.log(rate / (1 - rate)))
    assert booster.round()
    tree = booster.trees[0]
    gradient, hessian = (rate - p.targets) * p.weights, rate * (1 - rate) * p.weights

    def soft(g):
        return np.sign(g) * max(abs(g) - l1, 0)

    def fall(rows):
        return soft(gradient[rows].sum()) ** 2 / (hessian[rows].sum() + 1)

    def value(rows):
        return -soft(gradient[rows].sum()) / (hessian[rows].sum() + 1)

    best = (0.0, None)
    for f, thresholds in enumerate(p.thresholds):
        last = [np.inf] if p.kinds[f] == OR_MISSING else []
        for position, threshold in enumerate([*thresholds, *last]):
            for lower in (True, False):
                for missing_left in (False, True):
                    left = _pushed(p, f, threshold, lower, missing_left)
                    if min(left.sum(), (~left).sum()) < 20:
                        continue
                    if (value(left) < value(~left)) != lower:
                        continue
                    gain = fall(left) + fall(~left) - fall(slice(None))
                    if gain > best[0] * (1 + 1e-9):
                        best = (gain, (f, position, lower, missing_left))
    np.testing.assert_allclose(tree.gain[0], best[0], rtol=1e-4)
    feature, position, lower, missing_left = best[1]
    assert (tree.feature[0], tree.position[0]) == (feature, position)
    threshold = np.append(p.thresholds[feature], np.inf)[position]
    left = _pushed(p, feature, threshold, lower, missing_left)
    np.testing.assert_allclose(tree.values, 0.15 * np.array([value(left), value(~left)]), rtol=1e-3)
    assert tree.rows.tolist() == [left.sum(), (~left).sum()]


_TRACE = """
import hashlib, sys
from carvegbm import _core
from test_boosting_core import *
threads = int(sys.argv[1])
digest = hashlib.sha256()
for task in TASKS:
    for options in OPTIONS:
        p, rows, booster = grown(task, 3, threads, **options)
        values = leaf_values(booster)
        shape = booster.trees, p.outputs(booster)
        settings = _core.RefitOptions(steps=12, blocks_per_batch=5, l2=1e-3)
        args = rows, p.targets, p.weights, task, *shape, values, booster.bias, settings
        fitted = _core.refit_leaves(*args, threads=threads)
        digest.update(values.tobytes() + fitted.tobytes())
        for tree in booster.trees:
            digest.update(tree.feature.tobytes() + tree.position.tobytes() + tree.rows.tobytes())
print(digest.hexdigest())
"""


def _trace(threads, isa):
    environment = {**os.environ, "PYTHONPATH": os.path.dirname(__file__)}
    environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
    if isa is not None:
        environment["CARVEGBM_ISA"] = isa
    done = subprocess.run(
        [sys.executable, "-c", _TRACE, str(threads)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "this processor has no" in done.stderr:
        return None
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_models_depend_neither_on_threads_nor_on_the_instruction_set():
    expected = _trace(1, None)
    for threads, isa in ((2, None), (4, None), (1, "sse2"), (2, "avx2"), (1, "avx512")):
        assert _trace(threads, isa) in (expected, None)


@pytest.mark.parametrize("task", TASKS)
def test_refitted_leaves_lower_the_loss(task):
    p, rows, booster = grown(task, rounds=10, min_data_in_leaf=5)
    trees, outputs, values = booster.trees, p.outputs(booster), leaf_values(booster)
    settings = _core.RefitOptions(steps=200, rate=0.05, l2=1e-5)
    args = rows, p.targets, p.weights, task, trees, outputs, values, booster.bias, settings
    fitted = _core.refit_leaves(*args)
    before = p.loss(*p.bounds(trees, outputs, values, booster.bias))
    after = p.loss(*p.bounds(trees, outputs, fitted, booster.bias))
    assert after < 0.97 * before


def test_refit_finds_the_minimum_of_a_single_leaf():
    p = problem("regression")
    rows = p.encode()
    leaf = _core.CodedTree(*(np.empty(0, np.int32) for _ in range(4)), np.zeros(1))
    args = rows, p.targets, p.weights, "regression", [leaf], [0], np.zeros(1), np.zeros(1)
    l2 = 0.5
    fitted = _core.refit_leaves(*args, _core.RefitOptions(steps=4000, l2=l2))
    mean = np.average(p.targets, weights=p.weights)
    np.testing.assert_allclose(fitted, mean / (1 + l2), rtol=1e-3)


def test_codes_count_the_bounds_below_a_value():
    p = problem("binary")
    order = np.random.default_rng(1).permutation(len(p.X))[:500]
    rows = p.encode(order, threads=2)
    order = np.r_[order[p.targets[order] == 0], order[p.targets[order] == 1]]
    assert (rows.rows, rows.features) == (500, 5)
    x, t, k = p.X[order], p.thresholds, p.budget
    single = replace(p, given=p.given.astype(np.float32))
    assert np.abs(single.encode().codes() - p.encode().codes().astype(int)).mean() < 1e-3
    for f in range(4):
        bounds = np.unique(np.r_[t[f] - k[f], t[f] + k[f]])
        expected = np.where(np.isnan(x[:, f]), 255, np.searchsorted(bounds, x[:, f]))
        assert rows.codes()[:, f].tolist() == expected.tolist()
    assert rows.codes()[:, 4].tolist() == x[:, 4].tolist()


def test_rows_outside_the_order_have_no_bounds():
    p = problem("binary")
    rows = p.encode(np.arange(100))
    booster = p.booster(rows)
    assert booster.round()
    values = leaf_values(booster)
    low, high = _core.score_bounds(rows, booster.trees, [0], values, booster.bias)
    assert np.isfinite(low[:100]).all()
    assert np.isnan(low[100:]).all()
    assert np.isnan(high[100:]).all()


def test_a_round_without_a_split_adds_nothing():
    p = problem("binary")
    booster = p.booster(p.encode(), min_data_in_leaf=400)
    assert not booster.round()
    assert booster.n_trees == 0


def test_mistakes_are_named():
    p, rows, booster = grown("binary", rounds=1)
    values = leaf_values(booster)
    with pytest.raises(ValueError, match="one number per leaf"):
        _core.score_bounds(rows, booster.trees, [0], values[:-1], booster.bias)
    with pytest.raises(ValueError, match="task must be"):
        _core.RobustBooster(rows, p.targets, None, "ranking", 1, _core.BoostingOptions())
    with pytest.raises(ValueError, match="out of range"):
        p.booster(rows, num_leaves=257)
    p.targets[0] = 0.5
    with pytest.raises(ValueError, match="not a class index"):
        p.booster(rows)
