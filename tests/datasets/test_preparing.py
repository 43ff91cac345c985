"""The split: 55/15/30, no row twice, the classes' shares kept, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.datasets.preparing import Dataset
from carvegbm.errors import DataError
from plain_trees import refused

PARTS = ("train", "valid", "test")


def dataset(rows: int, ones: int, **more) -> Dataset:
    """Each row holds its own number, so that it can be recognised."""
    y = (np.random.default_rng(rows).permutation(rows) < ones).astype(np.int64)
    X = np.arange(rows, dtype=np.float64)[:, None]
    facts = {"classes": ("a", "b"), "feature_names": None, "image_shape": None, "source": ""}
    return Dataset(name="set", title="Set", X=X, y=y, **facts, **more)


def numbers(split):
    return [getattr(split, f"X_{part}")[:, 0].astype(int) for part in PARTS]


@given(rows=st.integers(40, 400), share=st.floats(0.2, 0.8), seed=st.integers(0, 2**32 - 1))
def test_split_is_55_15_30_by_class_and_uses_every_row_once(rows, share, seed):
    data = dataset(rows, round(rows * share))
    split = data.split(seed)
    parts = numbers(split)
    assert sorted(np.concatenate(parts)) == list(range(rows))
    for part, labels, size in zip(parts, split.y, (0.55, 0.15, 0.30), strict=True):
        assert abs(len(part) - size * rows) < 2
        assert np.array_equal(labels, data.y[part])
        assert abs(labels.sum() - data.y.mean() * len(part)) <= 1 + 1e-9


def test_split_is_the_same_for_the_same_seed_and_another_for_another():
    data = dataset(200, 90)
    first, again, other = (np.concatenate(numbers(data.split(seed))) for seed in (4, 4, 5))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_numpy_s_whole_numbers_are_seeds():
    data = dataset(200, 90)
    assert np.array_equal(data.split(np.int64(3)).X_test, data.split(3).X_test)


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, "1", None])
def test_seed_that_is_none_is_refused(seed):
    with refused("seed", str(seed), kind=DataError):
        dataset(50, 20).split(seed)


def test_own_test_set_is_the_test_set_whatever_the_seed():
    data = dataset(170, 80, test_rows=30)
    for seed in (0, 1):
        train, valid, test = numbers(data.split(seed))
        assert test.tolist() == list(range(140, 170))
        assert (len(train), len(valid)) == (110, 30)
        assert sorted([*train, *valid]) == list(range(140))


def test_long_test_set_is_reduced_by_class_and_the_others_are_not_touched():
    whole, limited = (dataset(1000, 300, test_limit=limit) for limit in (None, 100))
    for seed in (0, 9):
        before, after = whole.split(seed), limited.split(seed)
        assert np.array_equal(before.X_train, after.X_train)
        assert np.array_equal(before.X_valid, after.X_valid)
        assert (len(before.y_test), len(after.y_test)) == (300, 100)
        assert after.y_test.sum() == 30
        assert set(after.X_test[:, 0]) <= set(before.X_test[:, 0])
        assert len(set(after.X_test[:, 0])) == 100


def test_short_test_set_is_left_alone():
    data = dataset(100, 50, test_limit=30)
    assert np.array_equal(data.split(2).X_test, dataset(100, 50).split(2).X_test)


def test_too_few_rows_of_a_class_are_refused():
    with refused("set: 30 rows, 1 of the rarer class", "give more rows", kind=DataError):
        dataset(30, 1).split()
