"""Small learning problems for the training tests."""

from __future__ import annotations

import numpy as np


def two_classes(n=400, d=8, seed=0):
    """Rows in [0, 1] and labels 0, 1 that depend on several features."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    score = X[:, 0] + np.sin(6 * X[:, 1]) + X[:, 2] * X[:, 3] + rng.normal(scale=0.2, size=n)
    return X, (score > np.median(score)).astype(int)


def three_classes(n=450, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    score = X[:, 0] + X[:, 1] ** 2 + 0.5 * X[:, 2] + rng.normal(scale=0.1, size=n)
    return X, np.digitize(score, np.quantile(score, [0.4, 0.7]))


def redundant(n=500, d=12, seed=0):
    """Every feature says the same of the class, and now and then the contrary."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    right = rng.random((n, d)) < 0.85
    return np.where(right == (y == 1)[:, None], 0.75, 0.25) + rng.uniform(-0.2, 0.2, (n, d)), y


def numbers(n=400, d=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, 3 * X[:, 0] + np.sin(6 * X[:, 1]) + rng.normal(scale=0.1, size=n)


def pixels(n=300, d=20, seed=0):
    """Levels of 1/255 with many zeros, as images have them, and labels 0, 1."""
    rng = np.random.default_rng(seed)
    levels = rng.integers(0, 256, size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = (levels[:, 0] + levels[:, 1] // 2 + rng.integers(0, 60, n) > 130).astype(int)
    return levels / 255, y


def with_gaps(n=500, d=6, seed=0, share=0.2):
    """Rows in [0, 1], some values of which are missing; whether one is says something."""
    X, y = two_classes(n, d, seed)
    gone = np.random.default_rng(seed + 1).random((n, d)) < share
    gone[:, -1] = False
    return np.where(gone, np.nan, X), (y ^ gone[:, 1]).astype(int)


def with_categories(n=600, seed=0):
    """Two numbers and three columns of codes, of 3, 7 and 40 categories, and labels 0, 1."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k, n) for k in (3, 7, 40)])
    numbers = rng.random((n, 2))
    odd = np.isin(codes[:, 1], [1, 5]) ^ (codes[:, 0] == 2) ^ (codes[:, 2] % 3 == 0)
    return np.column_stack([numbers, codes]), (odd ^ (numbers[:, 0] > 0.6)).astype(int)
