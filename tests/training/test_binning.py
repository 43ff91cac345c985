"""Candidate thresholds: they separate training values, and codes stand for comparisons."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.training.binning import ZERO_ZONE, lattice_step, quantile_bins

numbers = st.one_of(
    st.floats(-1e6, 1e6),
    st.integers(-5, 5).map(float),
    st.sampled_from([0.0, -0.0, 1e-36, -1e-36, 2e-35, -2e-35, 1.0, 1.0 + 2**-52, 5e-324]),
)
columns = st.lists(numbers, min_size=2, max_size=60).map(np.array)


@given(columns, st.integers(1, 12), st.integers(1, 5))
def test_every_threshold_lies_between_two_distinct_training_values(values, max_bin, least):
    (thresholds,) = quantile_bins(
        values[:, None], max_bin=max_bin, min_data_in_bin=least
    ).thresholds
    assert len(thresholds) <= max_bin
    assert (np.diff(thresholds) > 0).all()
    read = np.where(np.abs(values) <= ZERO_ZONE, 0.0, values)  # as LightGBM reads them
    edges = [-np.inf, *thresholds, np.inf]
    for low, high in itertools.pairwise(edges):
        assert ((low < read) & (read <= high)).sum() >= min(least, len(values))


@given(columns)
def test_no_threshold_lies_where_lightgbm_reads_zero(values):
    (thresholds,) = quantile_bins(values[:, None], min_data_in_bin=1).thresholds
    assert ((thresholds < -ZERO_ZONE) | (thresholds >= ZERO_ZONE)).all()


@given(columns, columns)
def test_a_code_is_at_most_i_iff_the_value_is_at_most_threshold_i(training, others):
    candidates = quantile_bins(training[:, None], max_bin=8, min_data_in_bin=1)
    (thresholds,) = candidates.thresholds
    codes = candidates.encode(others[:, None])[:, 0]
    for i, threshold in enumerate(thresholds):
        assert ((codes <= i) == (others <= threshold)).all()


def test_all_distinct_values_are_separated_when_there_are_few():
    values = np.repeat([0.123, 0.45678, 0.765432, np.pi], 5)
    (thresholds,) = quantile_bins(values[:, None]).thresholds
    assert thresholds == pytest.approx([0.28989, 0.611106, 1.953512], abs=1e-6)


def test_bins_of_many_values_hold_about_equally_many_rows():
    values = np.random.default_rng(0).exponential(size=20_000)
    candidates = quantile_bins(values[:, None], max_bin=99)
    counts = np.bincount(candidates.encode(values[:, None])[:, 0])
    assert len(counts) == 100
    assert counts.min() >= 150
    assert counts.max() <= 250


def test_a_frequent_value_gets_a_bin_of_its_own():
    values = np.append(np.random.default_rng(0).normal(size=2_000), np.full(1_000, 0.5))
    candidates = quantile_bins(values[:, None], max_bin=20)
    codes = candidates.encode(values[:, None])[:, 0]
    assert (codes == codes[-1]).sum() == 1_000


@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("per_unit", [1, 255, 10])
def test_on_a_lattice_thresholds_lie_in_the_middle_of_cells(precision, per_unit):
    rng = np.random.default_rng(0)
    levels = rng.integers(0, 256, size=(200, 12)) * (rng.random((200, 12)) < 0.3)
    X = (levels / per_unit).astype(precision)
    for thresholds in quantile_bins(X, min_data_in_bin=1).thresholds:
        steps = thresholds * per_unit
        assert steps - np.floor(steps) == pytest.approx(0.5, abs=1e-9)


def test_a_coarse_column_of_an_image_follows_the_lattice_of_the_others():
    X = np.zeros((40, 3))
    X[:, 0] = np.arange(40) / 255
    X[:, 1] = np.where(np.arange(40) < 20, 0, 100) / 255
    X[:, 2] = np.where(np.arange(40) < 20, 3, 9) / 255
    _, second, third = quantile_bins(X, min_data_in_bin=1).thresholds
    assert second * 255 == pytest.approx([49.5])
    assert third * 255 == pytest.approx([5.5])


def test_unrelated_lattices_keep_their_own_steps():
    X = np.column_stack([np.arange(40) % 5 / 4, np.arange(40) % 8 / 7])
    first, second = quantile_bins(X, min_data_in_bin=1).thresholds
    assert first == pytest.approx([0.125, 0.375, 0.625, 0.875])
    assert second == pytest.approx((np.arange(7) + 0.5) / 7)


def test_lattice_step_is_the_largest_that_fits():
    assert lattice_step(np.array([-6.0, 0.0, 15.0])) == 3.0
    assert lattice_step(np.arange(256) / 255) == pytest.approx(1 / 255, rel=1e-12)
    assert lattice_step(np.sqrt([2.0, 3.0, 5.0, 7.0, 11.0])) is None
    assert lattice_step(np.sort(np.random.default_rng(0).random(500))) is None


def test_constant_features_have_no_thresholds_and_code_zero():
    X = np.column_stack([np.full(10, 3.0), np.arange(10.0)])
    candidates = quantile_bins(X, min_data_in_bin=1)
    assert len(candidates.thresholds[0]) == 0
    assert (candidates.encode(X)[:, 0] == 0).all()


def test_threads_and_blocks_of_columns_change_nothing():
    X = np.random.default_rng(0).normal(size=(300, 37))
    one, two = quantile_bins(X, threads=1), quantile_bins(np.asfortranarray(X), threads=2)
    for a, b in zip(one.thresholds, two.thresholds, strict=True):
        assert np.array_equal(a, b)
    assert np.array_equal(one.encode(X, 1), one.encode(X, 2))


def test_a_sample_of_rows_decides_where_there_are_many():
    X = np.random.default_rng(0).normal(size=(5_000, 1))
    first = quantile_bins(X, sample=1_000, seed=3)
    again = quantile_bins(X, sample=1_000, seed=3)
    other = quantile_bins(X, sample=1_000, seed=4)
    assert np.array_equal(first.thresholds[0], again.thresholds[0])
    assert not np.array_equal(first.thresholds[0], other.thresholds[0])
