"""Bounds of worst margins are sound: no attack finds a worse one, whatever the attacker may do."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.training.dataset import Dataset
from carvegbm.training.model import ModelSpec
from carvegbm.training.params import RobustSettings
from carvegbm.training.robust.bounds import BoundTrainer
from carvegbm.training.spec import TrainSpec
from carvegbm.training.validation import resolve_attacker

TASKS = ("binary", "multiclass", "regression")
PARAMS = {"num_leaves": 6, "learning_rate": 0.5, "min_data_in_leaf": 2, "lambda_l2": 1.0, "seed": 1}
N_FEATURES, CATEGORICAL, MISSING = 5, 4, 2


def random_attacker(rng):
    """An attacker of norm inf; some scale, bound or step features, or exchange categories."""
    options = {}
    steps = rng.random() < 0.3
    if steps:
        options["step"] = {0: 0.25, 1: 0.5}
    scale = {f: float(rng.choice([0.25, 0.5, 1.0, 3.0])) for f in range(CATEGORICAL)}
    scale[1] = tuple(rng.choice([0.0, 1.0, 2.0], 2).tolist())
    if sum(scale[1]) == 0:
        scale[1] = (0.0, 1.0)
    if rng.random() < 0.7:
        options["scale"] = scale
    if rng.random() < 0.5:
        options["bounds"] = {0: (0.0, 2.0), 3: (0.25, 1.75)}
    if rng.random() < 0.7:
        options["features"] = [f for f in range(CATEGORICAL) if f < 3 or rng.random() < 0.5]
        if "scale" in options:
            options["scale"] = {f: scale[f] for f in options["features"]}
        options.pop("bounds", None) if 3 not in options["features"] else None
    budgets = [0.25, 0.5] if steps else [0.0, 0.1, 0.25, 0.3, 1 / 3, 1.0]
    return cg.Attacker("inf", float(rng.choice(budgets)), **options)


def random_rows(rng, n):
    """Multiples of 1/4 in [1/4, 7/4], some missing, and a column of categories."""
    X = rng.integers(1, 8, (n, N_FEATURES)) / 4
    X[:, 1] = rng.integers(0, 5, n) / 2
    X[rng.random(n) < 0.2, MISSING] = np.nan
    X[:, CATEGORICAL] = rng.integers(0, 5, n)
    return X


def labels(rng, X, task):
    score = X[:, 0] + X[:, 1] / 2 + np.isnan(X[:, MISSING]) + (X[:, CATEGORICAL] % 2)
    score = score + rng.normal(scale=0.2, size=len(X))
    if task == "regression":
        return score
    return np.digitize(score, np.quantile(score, [0.5] if task == "binary" else [0.3, 0.6]))


def at_the_edges(rng, X, ensemble, attacker):
    """The rows with values from which the attacker just reaches a threshold, or just does not."""
    found = X.copy()
    stepped = set(attacker.step or {})
    for node in ensemble.nodes:
        feature, threshold = int(node["feature"]), float(node["threshold"])
        if feature == CATEGORICAL or feature in stepped or not abs(threshold) < 10:
            continue
        row = rng.integers(len(found))
        reach = attacker.budget * float(rng.choice([0.5, 1.0, 2.0, 3.0]))
        value = threshold + rng.choice([-reach, 0.0, reach])
        for _ in range(rng.integers(0, 4)):
            value = np.nextafter(value, rng.choice([-np.inf, np.inf]))
        limits = (0.25, 1.75) if feature == 3 else (0.0, 2.0)
        found[row, feature] = np.clip(value, *limits)
    return found


def trained(attacker, task, train, valid, params, rounds):
    """The model of this configuration, with bounds on the margins of the validation rows."""
    n_outputs = 3 if task == "multiclass" else 1
    classes = None if task == "regression" else np.arange(max(2, n_outputs))
    names = [f"f{f}" for f in range(N_FEATURES)]
    categories = {CATEGORICAL: {c: c for c in range(5)}}
    model = ModelSpec(task, n_outputs, names, classes, categories)
    attacker = resolve_attacker(attacker, N_FEATURES, None, categories)
    objective = {"objective": task} | ({"num_class": 3} if n_outputs == 3 else {})
    spec = TrainSpec(attacker, model, {**PARAMS, **objective}, rounds)
    trainer = BoundTrainer(spec, RobustSettings(max_bin=12, colsample_bynode=1.0))
    base = {"n_members": 1, "ordered": False, "budget_share": 1.0, "max_crowding": None}
    base |= {"min_child_samples": 2, "rounds": rounds, **params}
    (_, result), *_ = islice(trainer.fit_path(base, train, valid), 1)
    return result, attacker


def assert_bounds_hold(result, attacker, task, rows):
    """No exact worst margin is below its bound; return how many bounds are exact, of how many."""
    ensemble, slack = result.model.ensemble, 1e-9
    if task == "regression":
        ends = cg.output_range(ensemble, rows.X, attacker, threads=1, progress=False)
        worst = np.maximum(ends.highest - rows.y, rows.y - ends.lowest)
        assert (-result.margins >= worst - slack).all()
        return int((-result.margins <= worst + slack).sum()), len(rows)
    status = cg.verify(ensemble, rows.X, rows.y, attacker, threads=1, progress=False).status
    proven = result.margins > slack
    assert set(status[proven]) <= {"robust"}
    return int(proven.sum()), int((status == "robust").sum())


@pytest.mark.parametrize("task", TASKS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_no_attack_is_worse_than_the_bound(task, seed):
    rng = np.random.default_rng(seed)
    attacker = random_attacker(rng)
    X = random_rows(rng, 60)
    train = Dataset(X, labels(rng, X, task))
    params = {"budget_share": float(rng.choice([1.0, 0.75])), "ordered": bool(rng.integers(2))}
    params["n_members"] = int(rng.choice([1, 2]))
    rounds = int(rng.choice([1, 2, 4]))
    first, _ = trained(attacker, task, train, train, params, rounds)
    valid = at_the_edges(rng, random_rows(rng, 60), first.model.ensemble, attacker)
    rows = Dataset(valid, labels(rng, valid, task))
    result, resolved = trained(attacker, task, train, rows, params, rounds)
    assert result.model.ensemble == first.model.ensemble
    found, most = assert_bounds_hold(result, resolved, task, rows)
    assert found <= most


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_the_bound_of_a_single_tree_is_exact(task):
    exact = total = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        attacker = random_attacker(rng)
        X = random_rows(rng, 80)
        train = Dataset(X, labels(rng, X, task))
        result, resolved = trained(attacker, task, train, train, {}, 1)
        found, most = assert_bounds_hold(result, resolved, task, train)
        exact, total = exact + found, total + most
    assert exact == total > 50
