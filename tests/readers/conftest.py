"""Inputs on which a reader could go wrong, and the comparison with the source library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from carvegbm import Ensemble

ZERO = float(np.float32(1e-35))  # what LightGBM takes for zero
SPECIAL = [0.0, 5e-324, 1e-45, 1e-40, 1e-38, 1e-36, 1e-30, 1.0, 16777217.0, 1e30]
SPECIAL += [ZERO, np.nextafter(ZERO, 0), np.nextafter(ZERO, 1)]


def classes_of(y: np.ndarray, k: int) -> np.ndarray:
    """Classes of equal sizes by quantiles of y."""
    return np.searchsorted(np.quantile(y, np.arange(1, k) / k), y)


def boundary_data(tiny: float, missing: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """Rows with many zeros, numbers of the size of `tiny`, missing values, and a target."""
    rng = np.random.default_rng(0)
    n = 400
    X = rng.normal(size=(n, 5))
    X[:, 1] = rng.choice([-1.0, 0.0, 0.0, 0.5, 2.0], n)
    X[:, 2] = rng.choice([-3 * tiny, 0.0, 2 * tiny, 3e-35, 1.0], n)
    X[:, 3] *= rng.random(n) < 0.4
    y = X[:, 0] + X[:, 1] + 2 * (X[:, 2] > 0) + X[:, 3] + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def neighbours(value: float) -> list[float]:
    """The value, the doubles next to it, the float32 numbers next to it, and half way to them."""
    near = [value, np.nextafter(value, -np.inf), np.nextafter(value, np.inf)]
    with np.errstate(over="ignore"):
        single = np.float32(value)
        around = np.nextafter(single, -np.inf), np.nextafter(single, np.inf)
    for other in (single, *around):
        half = (float(single) + float(other)) / 2
        near += [float(other), half, np.nextafter(half, -np.inf), np.nextafter(half, np.inf)]
    return [float(v) for v in near if np.isfinite(v)]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Small models are slower with more threads, much slower when the machine is busy."""
    with threadpool_limits(1):
        yield


def rows_at_boundaries(
    ensemble: Ensemble, *, nan: bool, huge: float = 1e30, seed: int = 0
) -> np.ndarray:
    """Rows that visit every threshold and its neighbours, zero's surroundings, and extremes."""
    rng = np.random.default_rng(seed)
    special = [v for v in SPECIAL if v <= huge] + [huge]
    special += [-v for v in special]
    values = []
    for feature in range(ensemble.n_features):
        own = ensemble.nodes["threshold"][ensemble.nodes["feature"] == feature]
        near = [v for t in np.unique(own[np.isfinite(own)]) for v in neighbours(t)]
        values.append(np.array(special + near + [np.nan] * (3 if nan else 0)))
    n = min(4000, max(len(v) for v in values))
    X = rng.normal(size=(3 * n, ensemble.n_features))
    for feature, own in enumerate(values):
        picked = np.concatenate([rng.permutation(own)[:n], rng.choice(own, 2 * n)])
        where = rng.permutation(3 * n)[: len(picked)]
        where = where[rng.random(len(where)) < 0.8]
        X[where, feature] = picked[: len(where)]
    return X


def same(mine: np.ndarray, theirs: np.ndarray, X: np.ndarray) -> None:
    """Numbers equal to the bit (except that -0.0 is 0.0), or equal labels, row by row."""
    assert mine.shape == theirs.shape, (mine.shape, theirs.shape)
    wrong = np.flatnonzero((mine != theirs).reshape(len(X), -1).any(axis=1))
    assert not len(wrong), (
        f"{len(wrong)} of {len(X)} rows, e.g. {X[wrong[0]].tolist()}: "
        f"{mine[wrong[0]]!r} for {theirs[wrong[0]]!r}"
    )


@pytest.fixture
def boundary_rows() -> Callable[..., np.ndarray]:
    """`rows_at_boundaries`."""
    return rows_at_boundaries


@pytest.fixture
def assert_same() -> Callable[[Any, Any], None]:
    """Bit for bit, except that -0.0 is 0.0."""

    def check(mine: Any, theirs: Any) -> None:
        mine, theirs = np.asarray(mine), np.asarray(theirs, dtype=np.float64)
        assert mine.shape == theirs.shape
        wrong = mine != theirs
        assert not wrong.any(), f"{wrong.sum()} of {mine.size}: {mine[wrong][0]} {theirs[wrong][0]}"

    return check
