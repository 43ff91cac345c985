"""Trees of rows in parts, joined as they grow, are those of one process with all rows."""

from __future__ import annotations

import gc
from threading import BrokenBarrierError, current_thread

import numpy as np
import pytest

import carvegbm as cg
from carvegbm import _core
from carvegbm.training.inputs import blank_ensemble
from joining import dealt, in_parts
from training.robust.reference import CATEGORIES, OR_MISSING
from training.robust.test_grower import random_case

CASES = 600


class Case:
    """Rows of every kind, and how a tree is grown on them."""

    def __init__(self, seed):
        rng = np.random.default_rng([seed, 1])
        rows = None if seed % 3 == 0 else int(rng.integers(60, 400))
        X, thresholds, attacker, leans, growing, used, features = random_case(seed, rows)
        self.kinds = []
        if seed % 2:
            self.kinds = rng.integers(0, 3, X.shape[1]).tolist()
            for f, kind in enumerate(self.kinds):
                if kind == OR_MISSING:
                    X[rng.random(len(X)) < 0.3, f] = np.nan
                if kind == CATEGORIES:
                    codes = int(rng.integers(2, 8))
                    X[:, f] = rng.integers(0, codes, len(X))
                    thresholds[f] = np.arange(codes - 1) + 0.5
            movable = [f for f, kind in enumerate(self.kinds) if kind != CATEGORIES]
            attacker = cg.Attacker("inf", attacker.budget, features=movable)
        if rng.random() < 0.5:  # not whole multiples of a large unit
            leans = leans[0], leans[1] * rng.random(len(X)), leans[2] * rng.random(len(X))
        self.X, self.thresholds, self.leans = X, thresholds, leans
        self.used = np.zeros(len(X), dtype=bool)
        self.used[used] = True
        self.features, self.options = features, _core.GrowerOptions(**growing._asdict())
        self.blank = blank_ensemble(X.shape[1])
        self.attacker = attacker.core(self.blank)

    def codes(self, rows, threads, join=None):
        offsets = np.cumsum([0, *map(len, self.thresholds)], dtype=np.int64)
        flat = np.concatenate([np.empty(0), *self.thresholds])
        X = np.ascontiguousarray(self.X[rows])
        return _core.Codes(
            self.blank.core, self.attacker, X, flat, offsets, threads, self.kinds, join
        )

    def whole(self, join):
        largest = (float(np.abs(lean).max(initial=0.0)) for lean in self.leans[1:])
        return _core.Whole(len(self.X), *largest, join)

    def grow(self, rows, threads, join=None):
        codes = self.codes(rows, threads, join)
        leans = [np.ascontiguousarray(lean[rows]) for lean in self.leans]
        used = np.flatnonzero(self.used[rows]).astype(np.int32)
        whole = None if join is None else self.whole(join)
        return _core.grow_tree(codes, *leans, used, self.features, self.options, threads, whole)


def written(tree):
    """All there is to know about a tree, to the bit."""
    splits = tree.feature, tree.position, tree.left, tree.right, tree.gain, tree.missing_left
    leaves = tree.values, tree.hessians, tree.rows
    return [array.tobytes() for array in (*splits, *leaves)], tree.sets


def assert_grows_in_parts(case, parts, expected):
    found = in_parts(len(parts), lambda part, join: case.grow(parts[part], 1 + part % 3, join))
    assert all(written(tree) == written(expected) for tree in found)


@pytest.mark.parametrize("of_six", range(6))
def test_trees_of_parts_are_the_tree_of_the_whole(of_six):
    splits = without_rows = 0
    for seed in range(of_six * CASES // 6, (of_six + 1) * CASES // 6):
        case, rng = Case(seed), np.random.default_rng([seed, 2])
        parts = dealt(rng, len(case.X), int(rng.integers(1, 5)))
        expected = case.grow(slice(None), 1)
        assert_grows_in_parts(case, parts, expected)
        splits += len(expected.feature)
        without_rows += any(len(part) == 0 for part in parts)
    assert splits > 100
    assert without_rows > 5


def test_a_part_may_have_one_class_alone_and_another_no_rows_to_grow_on():
    for seed in range(1, 60, 2):
        case = Case(seed)
        case.used[case.leans[0] == 1] |= True
        expected = case.grow(slice(None), 1)
        side = case.leans[0] == 1
        parts = [np.flatnonzero(rows) for rows in (side & case.used, ~side & case.used, ~case.used)]
        assert_grows_in_parts(case, parts, expected)


def test_a_tree_of_many_groups_of_features_joins_what_its_splits_may_use():
    rng = np.random.default_rng(3)
    n, d = 2000, 70
    X = rng.random((n, d))
    down = (X[:, 0] + X[:, 1] * X[:, 69] > 0.8).astype(np.uint8)
    case = Case(0)
    case.X, case.thresholds, case.kinds = X, [np.linspace(0.1, 0.9, 9)] * d, []
    case.leans = down, np.where(down, -0.5, 0.5) * rng.random(n), rng.random(n)
    case.used, case.features = np.ones(n, dtype=bool), np.ones(d, dtype=np.uint8)
    case.features[3:60] = 0
    case.options = _core.GrowerOptions(leaves=40, least_rows=5, l2=1.0, feature_share=0.5, seed=9)
    case.blank = blank_ensemble(d)
    case.attacker = cg.Attacker("inf", 0.02).core(case.blank)
    expected = case.grow(slice(None), 2)
    assert len(expected.values) == 40
    sizes = []

    def grow(part, join):
        def join_and_note(array):
            sizes.append(len(array))
            join(array)

        return case.grow(np.arange(part, n, 2), 2, join_and_note)

    assert all(written(tree) == written(expected) for tree in in_parts(2, grow))
    # Counts of codes; the root's sums; then one histogram per split, as the other is the rest:
    # of 13 features, two orientations, nine codes that are not usual, two numbers each.
    assert set(sizes) == {d * 10, 2, 13 * 2 * 9 * 2}
    assert len(sizes) == 2 * (2 + 39)


def test_join_is_called_by_the_thread_that_grows():
    threads = set()
    Case(1).grow(slice(None), 3, lambda _: threads.add(current_thread()))
    assert threads == {current_thread()}


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_of_join_ends_growing_and_leaves_nothing_behind(threads):
    case = Case(7)

    def fails_after(calls):
        kept = []

        def join(array):
            kept.append(array)
            if len(kept) > calls:
                raise ConnectionError(f"after {calls}")

        return join, kept

    for calls in range(3):
        join, kept = fails_after(calls)
        with pytest.raises(ConnectionError, match=f"after {calls}"):
            case.grow(slice(None), threads, join)
        before = [array.tolist() for array in kept]
        gc.collect()
        assert [array.tolist() for array in kept] == before  # still memory of its own
    with pytest.raises(TypeError):
        case.whole(None)


def test_an_error_of_one_part_ends_all():
    case = Case(7)

    def grow(part, join):
        def fails(array):
            if len(array) > 2:
                raise ConnectionError("gone")
            join(array)

        return case.grow(np.arange(part, len(case.X), 2), 2, fails if part else join)

    with pytest.raises((ConnectionError, BrokenBarrierError)):
        in_parts(2, grow)


def test_rows_that_are_no_part_of_the_whole_are_refused():
    case = Case(7)
    n = len(case.X)
    largest = [float(np.abs(lean).max()) for lean in case.leans[1:]]
    codes = case.codes(slice(None), 1)
    used = np.arange(n, dtype=np.int32)
    for wrong, words in (
        ((n - 1, *largest), "than the whole"),
        ((n, largest[0] / 2, largest[1]), "than the whole"),
        ((n, largest[0], largest[1] / 2), "than the whole"),
        ((n, np.inf, largest[1]), "must be finite"),
        ((n, largest[0], np.nan), "must be finite"),
    ):
        whole = _core.Whole(*wrong, lambda _: None)
        with pytest.raises(ValueError, match=words):
            _core.grow_tree(codes, *case.leans, used, case.features, case.options, 1, whole)
