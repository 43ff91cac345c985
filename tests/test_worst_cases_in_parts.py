"""Worst cases of rows in parts: slopes that add up to those of the whole, to the last bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm import _core
from generators import NORMS, make_case
from joining import dealt
from random_trees import USUAL_SCORES
from test_worst_cases import NO_WEIGHT, Cases, Problem
from test_worst_cases_any import Numbers, by_single_outputs

ROWS = 150
BLOCK = 64

seeds = st.integers(0, 2**31)
norms = st.sampled_from(NORMS)
counts = st.integers(1, 4)


class Whole:
    """Rows in an order, in blocks, that parts have some of each."""

    def __init__(self, p, wanted, seed, output=()):
        self.p, self.wanted = p, wanted
        self.output = np.array(output, dtype=np.int32)
        rng = np.random.default_rng([seed, 9])
        self.order = rng.permutation(ROWS)
        self.weight = rng.random(ROWS) if seed % 2 else NO_WEIGHT
        self.blocks = rng.permutation(-(-ROWS // BLOCK))[: int(rng.integers(1, 4))]
        self.steepness = float(rng.choice([0.3, 1.0, 2.5]))
        plan = _core.WorstCasePlan(self.output, self.order, BLOCK, 1 << 30)
        self.core = Cases(p.ensemble, p.core_attacker, p.X, wanted, 1, plan).core

    def slope(self, scores):
        return self.core.slope(scores, self.weight, self.steepness, self.blocks, 2)

    def part(self, rows, memory, threads):
        """The same of some of the rows: in their order, cut where the blocks of the whole end."""
        own = self.order[np.isin(self.order, rows)]
        ends = [int(np.isin(self.order[: b + BLOCK], rows).sum()) for b in range(0, ROWS, BLOCK)]
        numbers = self.wanted if self.wanted.dtype == np.float64 else np.empty(0)
        plan = _core.WorstCasePlan(
            self.output,
            np.searchsorted(rows, own),
            BLOCK,
            memory,
            ends=np.array(ends),
            whole_rows=ROWS,
            largest_number=float(np.abs(numbers).max(initial=0.0)),
        )
        X = np.ascontiguousarray(self.p.X[rows])
        return Cases(self.p.ensemble, self.p.core_attacker, X, self.wanted[rows], threads, plan)

    def assert_parts_add_up(self, scores, rng, count):
        expected, outcomes = self.slope(scores), self.core.outcomes(scores, self.steepness, 1)
        total, units = np.zeros(len(scores), dtype=np.int64), set()
        for number, rows in enumerate(dealt(rng, ROWS, count)):
            part = self.part(rows, int(rng.choice([0, 3000, 1 << 30])), 1 + number % 3)
            weight = self.weight[rows] if len(self.weight) else NO_WEIGHT
            asked = scores, weight, self.steepness, self.blocks, 1 + number % 2
            whole, unit = part.core.whole_slope(*asked)
            total += whole
            units.add(unit)
            found = part.core.outcomes(scores, self.steepness, 2)
            assert found.keys() == outcomes.keys()
            for name, column in found.items():
                assert np.array_equal(column, outcomes[name][rows])
        assert len(units) == 1
        assert np.array_equal(total * units.pop(), expected)


@settings(max_examples=150)
@given(seed=seeds, norm=norms, task=st.sampled_from(["binary", "multiclass"]), count=counts)
def test_slopes_of_parts_add_up_to_that_of_the_whole(seed, norm, task, count):
    kind = "any" if norm == math.inf and seed % 3 == 0 else "random"
    p = Problem(make_case(seed, norm, kind, task, scores=USUAL_SCORES), ROWS, seed=seed)
    rng = np.random.default_rng([seed, 10])
    Whole(p, p.labels, seed).assert_parts_add_up(rng.normal(size=len(p.scores)), rng, count)


@settings(max_examples=50)
@given(seed=seeds, norm=norms, count=counts)
def test_slopes_of_parts_add_up_where_trees_count_for_one_output_each(seed, norm, count):
    p = Problem(make_case(seed, norm, "random", "multiclass", scores=USUAL_SCORES), ROWS, seed=seed)
    _, output, packed, _ = by_single_outputs(p.ensemble, seed)
    rng = np.random.default_rng([seed, 10])
    Whole(p, p.labels, seed, output).assert_parts_add_up(packed, rng, count)


@settings(max_examples=100)
@given(seed=seeds, norm=norms, count=counts)
def test_slopes_of_parts_of_a_regression_add_up(seed, norm, count):
    p = Numbers(seed, norm, "random", n_rows=ROWS)
    rng = np.random.default_rng([seed, 10])
    Whole(p, p.wanted, seed).assert_parts_add_up(rng.normal(size=len(p.scores)), rng, count)


@pytest.mark.parametrize("norm", [math.inf, 1])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_parts_of_one_class_and_a_part_without_rows_add_up(norm, task):
    p = Problem(make_case(5, norm, "random", task, scores=USUAL_SCORES), ROWS, seed=5)
    whole, total = Whole(p, p.labels, 5), 0
    for label in range(len(p.ensemble.classes) + 1):  # one more than there are
        part = whole.part(np.flatnonzero(p.labels == label), 1 << 30, 1)
        weight = whole.weight[p.labels == label]
        own, unit = part.core.whole_slope(p.scores, weight, whole.steepness, whole.blocks, 1)
        assert set(part.core.outcomes(p.scores, 1.0, 1)) == {"margin", "loss"}
        total = total + own
    assert np.array_equal(total * unit, whole.slope(p.scores))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"ends": np.array([1])}, "end at the number of rows"),
        ({"ends": np.array([0, 2, 3])}, "end at the number of rows"),
        ({"ends": np.array([2, 1, 2])}, "ends where the next begins"),
        ({"ends": np.array([-1, 2])}, "ends where the next begins"),
        ({"ends": np.array([65])}, "up to 64 rows"),
        ({"whole_rows": 1, "largest_number": 9.0}, "than the whole"),
        ({"whole_rows": 2, "largest_number": 0.5}, "than the whole"),
        ({"whole_rows": 2, "largest_number": math.inf}, "must be finite"),
    ],
    ids=str,
)
def test_a_part_that_does_not_fit_is_refused(plan, message):
    ensemble = cg.Ensemble.from_trees([{"score": 0.5}], n_features=1, task="regression")
    core = cg.Attacker("inf", 0.1).core(ensemble)
    empty = np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int64)
    chosen = _core.WorstCasePlan(*empty, 64, 1 << 20, **plan)
    with pytest.raises(ValueError, match=message):
        Cases(ensemble, core, np.zeros((2, 1)), np.ones(2), 1, chosen)
    with pytest.raises(ValueError, match="at least 0 rows"):
        _core.WorstCasePlan(*empty, 64, 1 << 20, whole_rows=-1)
