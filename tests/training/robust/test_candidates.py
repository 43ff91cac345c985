"""Candidate thresholds lie between the ends of what the attacker reaches, and are not crowded."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.binning import ZERO_ZONE, reach_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.robust.booster import Coder
from carvegbm.training.validation import blank_ensemble


def ends_of(X, y, attacker, threads=1):
    rule = ExclusionRule.against(attacker, blank_ensemble(X.shape[1]))
    return reach_bins(Dataset(X, y), rule, threads)


def lattice(seed=0, n=200, d=3, levels=11):
    rng = np.random.default_rng(seed)
    return rng.integers(0, levels, (n, d)) / (levels - 1), rng.integers(0, 2, n)


@pytest.mark.parametrize("budget", [0.0, 0.03, 0.1, 0.25])
def test_between_two_thresholds_some_row_ends(budget):
    """Otherwise one of them would do: they tell the same rows apart, wherever these are pushed."""
    X, y = lattice()
    found = ends_of(X, y, cg.Attacker("inf", budget))
    for f, values in enumerate(found.bins.thresholds):
        ends = np.concatenate([X[:, f] - budget, X[:, f] + budget])
        codes = np.searchsorted(values, ends, side="left")
        assert len(values) > 5
        assert set(range(1, len(values))) <= set(codes.tolist())


def test_no_threshold_is_so_close_to_an_end_that_rounding_decides():
    """x + k in one order of summing or another, in one precision or another: the same side."""
    X, y = lattice(levels=256)
    attacker = cg.Attacker("inf", 0.3)  # 76.5 levels: ends lie half way between them
    bins = ends_of(X, y, attacker).choose(100, None)
    coder = Coder(bins, attacker, blank_ensemble(X.shape[1]), "regression", threads=1)
    exact, rounded = (
        coder.code(Dataset(rows, y)).rows.codes()
        for rows in (X, X.astype(np.float32).astype(np.float64))
    )
    assert np.array_equal(exact, rounded)


def test_features_out_of_reach_are_cut_between_values():
    X, y = lattice(d=2)
    found = ends_of(X, y, cg.Attacker("inf", 0.02, features=[0]))
    values = np.unique(X[:, 1])
    assert found.bins.thresholds[1] == pytest.approx((values[1:] + values[:-1]) / 2)
    assert not found.crowding[1].any()
    assert len(found.bins.thresholds[0]) > len(values)


def test_bounds_end_what_the_attacker_reaches():
    X = np.array([[0.0], [1.0], [1.0], [0.0]])
    y = np.array([0, 1, 1, 0])
    free, bounded = (
        ends_of(X, y, cg.Attacker("inf", 0.4, bounds=b)).bins.thresholds[0].tolist()
        for b in (None, (0.0, 1.0))
    )
    assert free == pytest.approx([0.0, 0.5])
    assert bounded == pytest.approx([0.2, 0.5, 0.8])


def test_thresholds_keep_out_of_the_zone_that_lightgbm_reads_as_zero():
    X = np.array([[-0.1], [0.1], [0.3], [-0.3]])
    values = ends_of(X, np.array([0, 1, 1, 0]), cg.Attacker("inf", 0.05)).bins.thresholds[0]
    assert len(values) > 2
    assert np.all((values < -ZERO_ZONE) | (values >= ZERO_ZONE))


@pytest.mark.parametrize("most", [1, 4, 10_000])
@pytest.mark.parametrize("max_crowding", [0.05, 0.3, None])
def test_choice_keeps_to_its_limits(most, max_crowding):
    rng = np.random.default_rng(3)
    X, y = np.round(rng.random((500, 2)), 3), rng.integers(0, 2, 500)
    found = ends_of(X, y, cg.Attacker("inf", 0.05))
    chosen = found.choose(most, max_crowding)
    for f in range(2):
        everything, crowded = found.bins.thresholds[f], found.crowding[f]
        kept = np.isin(everything, chosen.thresholds[f])
        assert kept.sum() == len(chosen.thresholds[f]) <= most
        open_ones = crowded <= (1 if max_crowding is None else max_crowding)
        assert not (kept & ~open_ones).any()
        assert len(chosen.thresholds[f]) == min(most, open_ones.sum()) or most == 4
