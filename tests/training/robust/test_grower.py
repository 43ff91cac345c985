"""The grower is the slow reference, tree for tree; codes are what the attacker can reach."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import carvegbm as cg
from carvegbm import _core
from carvegbm.training.inputs import blank_ensemble
from training.robust.reference import CATEGORIES, OR_MISSING, Options, Reference, reachable

CASES = 1500


def codes_of(X, thresholds, attacker, threads=1, kinds=()):
    blank = blank_ensemble(X.shape[1])
    offsets = np.cumsum([0, *map(len, thresholds)], dtype=np.int64)
    flat = np.concatenate([np.empty(0), *thresholds])
    return _core.Codes(blank.core, attacker.core(blank), X, flat, offsets, threads, list(kinds))


def random_case(seed, n_rows=None):
    """Few distinct values, so that ties are common: of values, of gains, with budgets."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 40)), int(rng.choice([1, 2, 3, 5, 33]))
    n = n if n_rows is None else n_rows
    levels = int(rng.integers(2, 9))
    X = rng.integers(0, levels, (n, d)) / 4
    thresholds = [
        np.unique(rng.integers(0, 4 * levels, int(rng.integers(0, 9))) / 16) for _ in range(d)
    ]
    options = {}
    if rng.random() < 0.3:
        options["scale"] = rng.choice([0.5, 1.0, 3.0], d)
    if rng.random() < 0.3:
        options["features"] = sorted(set(rng.integers(0, d, 2).tolist()))
    if rng.random() < 0.3:
        options["bounds"] = (0.25, 1.0)
    attacker = cg.Attacker("inf", float(rng.choice([0, 0.0625, 0.125, 0.25, 0.3])), **options)
    if "bounds" in options:
        X = np.clip(X, 0.25, 1.0)
    down = (X[:, 0] + rng.normal(scale=0.3, size=n) > np.median(X[:, 0])).astype(np.uint8)
    size = rng.choice([0.125, 0.25, 1 / 3, 1.0], n)
    gradient = np.where(down, -size, size) * rng.choice([1.0, 0.0, 1.0], n)
    hessian = rng.choice([0.25, 0.1, 1.0, 0.0], n)
    if not hessian.any():
        hessian[:] = 1.0
    growing = Options(
        leaves=int(rng.choice([1, 3, 8, 12])),
        depth=int(rng.choice([0, 0, 1, 2])),
        least_rows=int(rng.choice([1, 1, 1, 3])),
        least_hessian=float(rng.choice([0, 0.5])),
        l1=float(rng.choice([0, 0, 0, 0.3])),
        l2=float(rng.choice([0, 0.5, 1])),
        least_gain=float(rng.choice([0, 0, 0.1])),
        feature_share=float(rng.choice([1.0, 0.5])),
        drawn=seed % 4 == 0,
        ordered=bool(rng.integers(0, 2)),
        seed=int(rng.integers(0, 2**63)),
    )
    used = np.flatnonzero(rng.random(n) < 0.8).astype(np.int32)
    if len(used) == 0:
        used = np.array([0], dtype=np.int32)
    features = (rng.random(d) < 0.9).astype(np.uint8)
    return X, thresholds, attacker, (down, gradient, hessian), growing, used, features


@pytest.mark.parametrize("part", range(10))
def test_grower_grows_the_tree_of_the_slow_reference(part):
    split = 0
    for seed in range(part * CASES // 10, (part + 1) * CASES // 10):
        X, thresholds, attacker, leans, growing, used, features = random_case(seed)
        codes = codes_of(X, thresholds, attacker)
        slow = Reference(codes.low(), codes.high(), [len(t) for t in thresholds], *leans, growing)
        splits, values, rows = slow.grow(used.tolist(), features.tolist())
        for threads in (1, 2):
            options = _core.GrowerOptions(**growing._asdict())
            tree = _core.grow_tree(codes, *leans, used, features, options, threads)
            found = np.column_stack([tree.feature, tree.position, tree.left, tree.right])
            assert found.tolist() == splits, seed
            assert tree.values.tolist() == values, seed
            assert tree.rows.tolist() == rows, seed
        split += len(splits)
        low, high = tree.reachable(codes, tree.values, 1)
        slow_ends = reachable(splits, values, codes.low().tolist(), codes.high().tolist())
        assert np.array_equal(np.column_stack([low, high]), slow_ends), seed
    assert split > 80


@pytest.mark.parametrize("part", range(6))
def test_grower_grows_the_tree_of_the_slow_reference_on_missing_values_and_categories(part):
    used_ways = set()
    for seed in range(part * 60, (part + 1) * 60):
        X, thresholds, attacker, leans, growing, _, features = random_case(seed, n_rows=90)
        rng = np.random.default_rng([seed, 1])
        kinds = rng.integers(0, 3, X.shape[1]).tolist()
        for f, kind in enumerate(kinds):
            if kind == OR_MISSING:
                X[rng.random(len(X)) < 0.3, f] = np.nan
            if kind == CATEGORIES:
                n_codes = int(rng.integers(2, 8))
                X[:, f] = rng.integers(0, n_codes, len(X))
                thresholds[f] = np.arange(n_codes - 1) + 0.5
        movable = [f for f, kind in enumerate(kinds) if kind != CATEGORIES]
        attacker = cg.Attacker("inf", attacker.budget, features=movable)
        used = np.arange(len(X), dtype=np.int32)
        codes = codes_of(X, thresholds, attacker, kinds=kinds)
        assert (codes.low()[np.isnan(X)] == codes.high()[np.isnan(X)]).all()
        counts = [len(t) for t in thresholds]
        slow = Reference(codes.low(), codes.high(), counts, *leans, growing, kinds)
        splits, values, rows = slow.grow(used.tolist(), features.tolist())
        tree = _core.grow_tree(
            codes, *leans, used, features, _core.GrowerOptions(**growing._asdict()), 2
        )
        found = np.column_stack([tree.feature, tree.position, tree.left, tree.right])
        assert found.tolist() == splits, seed
        assert tree.values.tolist() == values, seed
        assert tree.rows.tolist() == rows, seed
        ways = [(cut.missing_left, cut.codes) for cut in slow.made]
        theirs = zip(tree.missing_left.astype(bool).tolist(), tree.sets, strict=True)
        assert [(m, None if s is None else frozenset(s)) for m, s in theirs] == ways, seed
        used_ways |= {
            (kinds[c.feature], c.missing_left, c.position == counts[c.feature]) for c in slow.made
        }
        low, high = tree.reachable(codes, tree.values, 1)
        ends = reachable(splits, values, codes.low().tolist(), codes.high().tolist(), slow)
        assert np.array_equal(np.column_stack([low, high]), ends), seed
    assert {
        (OR_MISSING, True, False),
        (OR_MISSING, False, True),
        (CATEGORIES, False, False),
    } <= used_ways


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_codes_are_those_of_the_ends_that_the_attacker_reaches_exactly(dtype):
    rng = np.random.default_rng(5)
    for _ in range(300):
        n, d = int(rng.integers(1, 6)), int(rng.integers(1, 4))
        X = rng.choice([0.1, 0.2, 0.3, 0.7, 1e9, -0.1, 0.0], (n, d)).astype(dtype)
        budget, scale = float(rng.choice([0.1, 0.2, 0.3])), rng.choice([1.0, 0.1, 3.0], d)
        ends = [(x + s * budget, x - s * budget) for x in (0.1, 0.3) for s in (0.1, 1.0, 3.0)]
        thresholds = [np.unique(rng.choice(np.ravel(ends), 5)) for _ in range(d)]
        codes = codes_of(X, thresholds, cg.Attacker("inf", budget, scale=scale))
        for i in range(n):
            for f in range(d):
                reach = Fraction(budget) * Fraction(float(scale[f]))
                x = Fraction(float(X[i, f]))
                t = [Fraction(float(v)) for v in thresholds[f]]
                # The ends themselves need not be doubles: what counts is a double beyond a
                # threshold and within reach.
                low = sum(v < x - reach for v in t)
                beyond = [Fraction(float(np.nextafter(v, np.inf))) for v in thresholds[f]]
                high = sum(v <= x + reach for v in beyond)
                assert (codes.low()[i, f], codes.high()[i, f]) == (low, high)


def test_threads_do_not_change_a_tree():
    rng = np.random.default_rng(1)
    n, d = 3000, 100
    X = rng.random((n, d))
    thresholds = [np.linspace(0.05, 0.95, 40)] * d
    down = (X[:, 0] + X[:, 1] * X[:, 2] > 0.8).astype(np.uint8)
    gradient, hessian = np.where(down, -0.5, 0.5) * rng.random(n), rng.random(n)
    used, features = np.arange(n, dtype=np.int32), np.ones(d, dtype=np.uint8)
    options = _core.GrowerOptions(leaves=60, least_rows=5, l2=1.0, feature_share=0.5, seed=9)
    found = []
    for threads in (1, 2, 3):
        codes = codes_of(X, thresholds, cg.Attacker("inf", 0.02), threads)
        tree = _core.grow_tree(codes, down, gradient, hessian, used, features, options, threads)
        ends = np.concatenate(tree.reachable(codes, tree.values, threads))
        found.append((tree.feature.tolist(), tree.position.tolist(), tree.values.tolist(), ends))
    assert len(found[0][2]) == 60
    for other in found[1:]:
        assert other[:3] == found[0][:3]
        assert np.array_equal(other[3], found[0][3])


def test_bad_arrays_are_refused():
    X = np.zeros((3, 2))
    codes = codes_of(X, [np.array([0.5]), np.empty(0)], cg.Attacker("inf", 0.1))
    side, number = np.zeros(3, dtype=np.uint8), np.ones(3)
    used, features = np.arange(3, dtype=np.int32), np.ones(2, dtype=np.uint8)
    options = _core.GrowerOptions()

    def grow(down=side, gradient=number, hessian=number, used=used, features=features):
        return _core.grow_tree(codes, down, gradient, hessian, used, features, options, 1)

    assert grow().values.tolist() == [-1.0]
    for wrong, words in (
        ({"gradient": np.ones(2)}, "per row are needed"),
        ({"hessian": -number}, "must not be negative"),
        ({"gradient": np.full(3, np.nan)}, "must be finite"),
        ({"used": np.array([1, 0], dtype=np.int32)}, "ascending row numbers"),
        ({"used": np.array([3], dtype=np.int32)}, "ascending row numbers"),
        ({"features": np.ones(3, dtype=np.uint8)}, "one flag per feature"),
    ):
        with pytest.raises(ValueError, match=words):
            grow(**wrong)
    narrow = blank_ensemble(1)
    scaled = cg.Attacker("inf", 0.1, scale=[2.0]).core(narrow)
    with pytest.raises(ValueError, match="another number of features"):
        _core.Codes(blank_ensemble(2).core, scaled, X, np.empty(0), np.zeros(3, np.int64), 1)
    with pytest.raises(ValueError, match="254 and a code for missing"):
        codes_of(X, [np.arange(255.0), np.empty(0)], cg.Attacker("inf", 0.1), kinds=[1, 0])
    with pytest.raises(ValueError, match="one kind per feature"):
        codes_of(X, [np.arange(5.0), np.empty(0)], cg.Attacker("inf", 0.1), kinds=[1])
    with pytest.raises(ValueError, match="kinds are 0, 1 and 2"):
        codes_of(X, [np.arange(5.0), np.empty(0)], cg.Attacker("inf", 0.1), kinds=[3, 0])
    with pytest.raises(ValueError, match="255"):
        codes_of(X, [np.arange(256.0), np.empty(0)], cg.Attacker("inf", 0.1))
    with pytest.raises(ValueError, match="ascending"):
        codes_of(X, [np.array([1.0, 1.0]), np.empty(0)], cg.Attacker("inf", 0.1))
