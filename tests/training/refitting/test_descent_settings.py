"""How a descent goes by its settings: batches, averages, anchors, rates, and what it keeps."""

from __future__ import annotations

from dataclasses import replace

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.dataset import Dataset
from carvegbm.training.leaf_refit import RefitSettings, refit_leaves
from training import problems

ATTACKER = cg.Attacker("inf", 0.05)
PLAIN = RefitSettings(l2=0.1 / 18, steps=20, rate=0.04, threads=1)


@pytest.fixture(scope="module")
def model():
    """Three classes, plain LightGBM: every tree counts for one of them."""
    X, y = problems.three_classes(300)
    booster = lightgbm.LGBMClassifier(n_estimators=6, num_leaves=6, n_jobs=1, verbose=-1)
    return cg.load(booster.fit(X, y))


@pytest.fixture(scope="module")
def rows():
    return Dataset(*problems.three_classes(300))


def scores_of(model, rows, settings=PLAIN, valid=None):
    return refit_leaves(model, ATTACKER, rows, valid, settings).scores


def test_without_validation_rows_the_last_average_is_kept(model, rows):
    alone = refit_leaves(model, ATTACKER, rows, None, PLAIN)
    assert alone.best is None
    assert alone.checks == []
    watched = refit_leaves(model, ATTACKER, rows, rows, PLAIN)
    assert watched.checks[-1].step == 20
    last = refit_leaves(
        model.with_scores(alone.scores), ATTACKER, rows, rows, replace(PLAIN, steps=0)
    )
    assert last.checks[0].loss == pytest.approx(watched.checks[-1].loss, rel=1e-12)


@pytest.mark.parametrize("attacker", [ATTACKER, cg.Attacker(1, 0.1), cg.Attacker(0, 1)])
def test_the_loss_falls_and_scores_of_other_outputs_stay_zero(model, rows, attacker):
    settings = replace(PLAIN, patience=None)
    found = refit_leaves(model, attacker, rows, rows, settings)
    assert found.checks[-1].loss < found.checks[0].loss - 0.01
    assert np.array_equal(found.scores != 0, model.scores != 0)


@pytest.mark.parametrize("attacker", [ATTACKER, cg.Attacker(1, 0.1), cg.Attacker(0, 1)])
def test_the_result_is_the_same_for_one_thread_and_many(model, rows, attacker):
    how = replace(PLAIN, batch=100)
    one, three = (
        refit_leaves(model, attacker, rows, rows, replace(how, threads=threads))
        for threads in (1, 3)
    )
    assert np.array_equal(one.scores, three.scores)
    np.testing.assert_array_equal(one.checks, three.checks)  # NaN equals NaN


def test_a_tree_without_scores_keeps_none():
    stump = {"feature": 0, "threshold": 0.5, "left": {"score": [1.0, 0, 0]}}
    stump["right"] = {"score": [-1.0, 0, 0]}
    model = cg.Ensemble.from_trees([stump, {"score": [0.0, 0.0, 0.0]}], n_features=8)
    found = scores_of(model, Dataset(*problems.three_classes(60)))
    assert not found[2].any()
    assert found[:2, 0].all()
    assert not found[:2, 1:].any()


def test_epochs_are_steps_by_another_measure(model, rows):
    small = replace(PLAIN, batch=64)  # 5 batches
    by_steps = scores_of(model, rows, replace(small, steps=15))
    by_epochs = scores_of(model, rows, replace(small, steps=1, epochs=3))
    assert np.array_equal(by_steps, by_epochs)


def test_shuffled_batches_differ_by_seed_and_not_by_threads(model, rows):
    how = replace(PLAIN, epochs=4, batch=50, shuffle=True)
    first = scores_of(model, rows, how)
    assert np.array_equal(scores_of(model, rows, replace(how, threads=2)), first)
    assert not np.array_equal(scores_of(model, rows, replace(how, seed=1)), first)
    assert not np.array_equal(scores_of(model, rows, replace(how, shuffle=False)), first)


def test_a_row_of_weight_2_counts_like_two_rows(model, rows):
    weight = np.where(np.arange(300) < 100, 2.0, 1.0)
    twice = rows.take(np.concatenate([np.arange(300), np.arange(100)]))
    expected = scores_of(model, twice)
    assert scores_of(model, replace(rows, weight=weight)) == pytest.approx(expected, abs=1e-6)
    assert scores_of(model, rows) != pytest.approx(expected, abs=1e-3)


def test_a_strong_l2_leads_to_the_anchor(model, rows):
    strong = replace(PLAIN, steps=400, l2=1e3, rate=0.02)
    anchor = np.where(model.scores != 0, 0.25, 0.0)
    assert np.abs(scores_of(model, rows, strong)).max() < 1e-2
    found = scores_of(model, rows, replace(strong, anchor=anchor))
    assert np.abs(found - anchor).max() < 1e-2


def test_an_anchor_of_another_shape_is_refused(model, rows):
    with pytest.raises(cg.CarveError, match="anchor must have the shape of the scores"):
        scores_of(model, rows, replace(PLAIN, anchor=np.zeros(3)))


def test_without_averaging_the_last_iterate_is_kept(model, rows):
    """One step of Adam moves every score that has a slope by its rate."""
    one = replace(PLAIN, steps=1, averaging=0.0, l2=0.0)
    moved = np.abs(scores_of(model, rows, one) - model.scores)[model.scores != 0]
    assert moved[moved > 1e-6] == pytest.approx(0.04, rel=1e-3)
    half = np.abs(scores_of(model, rows, replace(one, averaging=0.5)) - model.scores)
    assert half[model.scores != 0] == pytest.approx(moved / 2, abs=1e-12)


def test_numbers_are_judged_by_their_loss_alone():
    rows = Dataset(*problems.numbers(200))
    booster = lightgbm.LGBMRegressor(n_estimators=8, num_leaves=6, n_jobs=1, verbose=-1)
    model = cg.load(booster.fit(rows.X, rows.y))
    found = refit_leaves(model, ATTACKER, rows, rows, replace(PLAIN, patience=None))
    assert all(np.isnan(check.robustness) for check in found.checks)
    assert found.best == min(found.checks, key=lambda check: check.loss)
    assert found.best.loss < 0.9 * found.checks[0].loss
