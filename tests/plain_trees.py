"""Trees written by hand, an ensemble that is hard to decide, and what a refusal looks like."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest

import carvegbm as cg

Tree = dict[str, Any]


def leaf(score: Any) -> Tree:
    return {"score": score}


def split(feature: int, threshold: float, left: Tree, right: Tree, **more: str) -> Tree:
    return {"feature": feature, "threshold": threshold, "left": left, "right": right, **more}


def stump(feature: int, threshold: float, low: Any = -1.0, high: Any = 1.0, **more: str) -> Tree:
    """Low up to the threshold, high beyond it."""
    return split(feature, threshold, leaf(low), leaf(high), **more)


def ensemble(*trees: Tree, n_features: int = 1, **options: Any) -> cg.Ensemble:
    return cg.Ensemble.from_trees(trees, n_features=n_features, **options)


def chain(length: int, score: Any = float) -> Tree:
    """A tree of that many splits on feature 0, each the right child of the one before.

    The leaf of x holds score(number of thresholds 1, 2, …, length below x).
    """
    tree = leaf(score(length))
    for threshold in range(length, 0, -1):
        tree = split(0, float(threshold), leaf(score(threshold - 1)), tree)
    return tree


class Hard(NamedTuple):
    """A positive instance, an attacker that may set every feature to 0 or 1, and the truth."""

    ensemble: cg.Ensemble
    x: list[float]
    attacker: cg.Attacker
    worst_margin: float
    fewest: float  # features that must change to flip the decision


def hard(n_features: int, *, margin: float = 0.5, norm: Any = "inf") -> Hard:
    """A spin glass: a tree for every two features, +1 or -1 by whether they agree.

    Every tree can be brought to -1 on its own, all of them together cannot. The base score puts
    the worst raw score, found by trying all settings, at `margin`: half a step from the boundary
    by default. Beyond 20 features nothing is tried, and the truth is NaN. x is all 0.
    """
    rng = np.random.default_rng(n_features)
    pairs = list(combinations(range(n_features), 2))
    signs = rng.choice([-1.0, 1.0], size=len(pairs))
    lowest, fewest = np.nan, np.nan
    if n_features <= 20:
        spins = 1.0 - 2.0 * (np.arange(2**n_features)[:, None] >> np.arange(n_features) & 1)
        total = sum(s * spins[:, i] * spins[:, j] for s, (i, j) in zip(signs, pairs, strict=True))
        lowest = float(np.min(total))
        changes = (spins < 0).sum(axis=1, dtype=np.float64)
        fewest = float(np.min(changes[total - lowest + margin < 0], initial=np.inf))
    trees = [
        split(i, 0.5, stump(j, 0.5, sign, -sign), stump(j, 0.5, -sign, sign))
        for sign, (i, j) in zip(signs.tolist(), pairs, strict=True)
    ]
    base = margin - lowest if n_features <= 20 else 0.75 * n_features**1.5
    budget = {"inf": 1, 0: n_features, 1: n_features}[norm]
    return Hard(
        ensemble(*trees, n_features=n_features, base_score=base),
        [0.0] * n_features,
        cg.Attacker(norm, budget, bounds=(0, 1)),
        margin if n_features <= 20 else np.nan,
        fewest,
    )


@contextmanager
def refused(*words: str, kind: type[Exception] = cg.CarveError) -> Iterator[None]:
    """What happens inside is refused in one line that holds all the words."""
    with pytest.raises(kind) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
