"""The descent of a refit: bounded memory, seeds, threads, steps and interruption."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.training import leaf_refit
from carvegbm.training import robust_refit as refit_module
from carvegbm.training.dataset import Dataset
from carvegbm.training.leaf_refit import RefitSettings
from carvegbm.training.robust_refit import prove_refit
from carvegbm.training.validation import split_off
from training import problems
from training.refits import (
    crowded_problem,
    refit,
    stumps,
    trained,
)


def by_default(monkeypatch, **values):
    """Other defaults of the descent's settings."""
    settings = functools.partial(RefitSettings, **values)
    monkeypatch.setattr(refit_module, "RefitSettings", settings)


@pytest.mark.parametrize("norm", ["inf", 1])
def test_reach_found_anew_gives_the_result_of_reach_that_is_kept(monkeypatch, norm):
    model, train, valid = trained(problems.three_classes, norm, 0.05, n=300)
    by_default(monkeypatch, batch=13)
    found = []
    for memory in (1 << 28, 20_000, 0):
        monkeypatch.setattr(leaf_refit, "_MAX_MEMORY", memory)
        better = refit(model.ensemble_, train, valid, model.attacker_, learning_rate=0.03)
        found.append(better)
    assert np.array_equal(found[0].scores, found[1].scores)
    assert np.array_equal(found[0].scores, found[2].scores)
    assert found[0] != model.ensemble_


def test_it_is_deterministic_for_a_seed_and_any_number_of_threads(monkeypatch):
    model, train, valid = trained(n=300)
    by_default(monkeypatch, batch=32)
    scores = [
        refit(
            model.ensemble_,
            train,
            valid,
            model.attacker_,
            random_state=seed,
            threads=threads,
            learning_rate=0.03,
        ).scores
        for seed, threads in ((1, 1), (1, 2), (2, 1))
    ]
    assert np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])


def test_without_eval_set_a_fifth_is_split_off_by_the_seed():
    model, (X, y), _ = trained(n=400)
    rows, rest = split_off(y, 3)
    options = {"learning_rate": 0.03, "random_state": 3}
    alone = refit(model.ensemble_, (X, y), None, model.attacker_, **options)
    split = refit(
        model.ensemble_, (X[rows], y[rows]), (X[rest], y[rest]), model.attacker_, **options
    )
    assert alone == split != model.ensemble_


@given(
    counts=st.lists(st.integers(5, 60), min_size=2, max_size=4),
    seed=st.integers(0, 2**20),
)
def test_split_off_takes_a_fifth_of_every_class(counts, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    rows, rest = split_off(labels, seed)
    assert np.array_equal(np.sort(np.concatenate([rows, rest])), np.arange(len(labels)))
    assert (np.diff(rows) > 0).all()
    assert (np.diff(rest) > 0).all()
    assert len(rest) == math.ceil(len(labels) / 5)
    share = np.bincount(labels[rest], minlength=len(counts)) - np.array(counts) / 5
    assert np.abs(share).max() <= 1
    again = split_off(labels, seed)
    assert np.array_equal(again[1], rest)


def test_an_interrupt_keeps_the_best_iterate_so_far():
    steps = []

    def interrupt(step):
        steps.append(step)
        if step == 100:
            raise KeyboardInterrupt

    train, valid = crowded_problem(0), crowded_problem(1)
    result = prove_refit(
        stumps([3.0, 1.0, 1.0]),
        cg.Attacker("inf", 0.1),
        Dataset(*train),
        Dataset(*valid),
        RefitSettings(rate=0.05, threads=1, patience=None, progress=interrupt),
    )
    assert result.interrupted
    assert not any(100 < step < 120 for step in steps)  # the last one closes the progress bar
    assert result.proven["robustness"] == 1


def test_the_last_step_is_judged_too():
    train, valid = crowded_problem(0), crowded_problem(1)
    attacker = cg.Attacker("inf", 0.1)
    start = stumps([3.0, 1.0, 1.0])
    for steps in (1, 4, 9):
        better = refit(start, train, valid, attacker, steps=steps, learning_rate=2.0)
        assert better != start, steps


def test_an_interrupt_is_passed_on():
    train, valid = crowded_problem(0), crowded_problem(1)

    def interrupt(_done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refit(stumps([3.0, 1.0, 1.0]), train, valid, cg.Attacker("inf", 0.1), progress=interrupt)
