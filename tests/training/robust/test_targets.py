"""Targets lean as their losses do, and their margins are what the bounds prove."""

from __future__ import annotations

import numpy as np
import pytest

from carvegbm.training.dataset import Dataset
from carvegbm.training.robust.targets import Bounds, target_of


def case(task, seed=0, n=40, weighted=True):
    rng = np.random.default_rng(seed)
    n_outputs = 4 if task == "multiclass" else 1
    classes = {"binary": 2, "multiclass": 4}.get(task)
    labels = rng.normal(size=n) if classes is None else rng.integers(0, classes, n)
    weight = rng.random(n) + 0.1 if weighted else None
    low = rng.normal(size=(n, n_outputs))
    bounds = Bounds(low, low + rng.random((n, n_outputs)))
    rows = Dataset(np.zeros((n, 1)), labels, weight)
    return target_of(task, rows, n_outputs), bounds


TASKS = pytest.mark.parametrize("task", ["binary", "multiclass", "regression"])


@TASKS
@pytest.mark.parametrize("weighted", [True, False])
def test_gradients_are_slopes_of_the_loss(task, weighted):
    target, bounds = case(task, weighted=weighted)
    weight = np.ones(40) if target.rows.weight is None else target.rows.weight
    step = 1e-6
    for output, lean in enumerate(target.leans(bounds)):
        moved = []
        for sign in (1, -1):
            low, high = bounds.low.copy(), bounds.high.copy()
            low[lean.down, output] += sign * step
            high[~lean.down, output] += sign * step
            moved.append(target.losses(Bounds(low, high)))
        slope = (moved[0] - moved[1]) / (2 * step) * weight
        assert lean.gradient == pytest.approx(slope, abs=1e-6)
        assert (lean.hessian > 0).all()
        # The attacker pushes a score to where the loss is larger.
        assert (np.where(lean.down, lean.gradient <= 0, lean.gradient >= 0)).all()


@TASKS
def test_wider_bounds_are_never_better(task):
    target, bounds = case(task)
    wider = Bounds(bounds.low - 0.1, bounds.high + 0.1)
    assert (target.losses(wider) >= target.losses(bounds)).all()
    assert (target.margins(wider) <= target.margins(bounds)).all()
    assert target.loss(wider) > target.loss(bounds)


@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_margins_are_positive_iff_no_score_within_the_bounds_changes_the_class(task):
    target, bounds = case(task, n=400)
    labels = target.rows.y
    for i, margin in enumerate(target.margins(bounds)):
        if task == "binary":
            worst = bounds.low[i, 0] if labels[i] == 1 else -bounds.high[i, 0]
        else:
            rivals = [bounds.high[i, c] for c in range(4) if c != labels[i]]
            worst = bounds.low[i, labels[i]] - max(rivals)
        assert margin == pytest.approx(worst)


def test_two_classes_start_at_their_odds():
    rows = Dataset(np.zeros((4, 1)), np.array([0, 0, 0, 1]))
    assert target_of("binary", rows, 1).start() == pytest.approx([np.log(1 / 3)])
    weighted = Dataset(np.zeros((4, 1)), np.array([0, 0, 0, 1]), np.array([1.0, 1, 1, 3]))
    assert target_of("binary", weighted, 1).start() == pytest.approx([0.0])
