"""Witnesses for training, against the oracle: real, within the budget, and always the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
import oracle
from asking import core_attacker, product_attacker
from carvegbm import _core
from carvegbm.training.leaf_refit import needs_witnesses
from generators import NORMS, make_case
from random_trees import USUAL_SCORES
from test_worst_cases import TASKS, exact_worst, rounding, rows_around

seeds = st.integers(0, 2**31)
norms = st.sampled_from(NORMS)
tasks = st.sampled_from(TASKS)
kinds = st.sampled_from(["any", "any edge", "random", "knapsack"])


class Improved:
    """The rows of a case with witnesses."""

    def __init__(self, seed, norm, kind="any", task="binary", *, n_rows=4, passes=6, threads=1):
        case = make_case(seed, norm, kind, task, scores=USUAL_SCORES)
        self.ensemble, self.attacker = case.ensemble, case.attacker
        rng = np.random.default_rng([seed, 1])
        self.X = rows_around(case, n_rows, rng)
        self.labels = rng.integers(len(case.ensemble.classes), size=n_rows).astype(np.int32)
        self.scores = case.ensemble.scores.ravel().copy()
        self.threads = threads
        # The core keeps what it is given alive, not what that refers to.
        self.core_attacker = core_attacker(product_attacker(case.attacker), case.ensemble)
        self.core = _core.Witnesses(case.ensemble.core, self.core_attacker, self.X, self.labels)
        self.rows = np.arange(n_rows, dtype=np.int32)
        self.margins = self.improve(passes)

    def improve(self, passes, scores=None, seed=7):
        effort = _core.WitnessEffort(passes=passes, seed=seed)
        scores = self.scores if scores is None else scores
        return self.core.improve(self.rows, scores, effort, True, self.threads)

    def points(self):
        z = self.X.copy()
        self.core.points(z, self.threads)
        return z


@given(seed=seeds, norm=norms, kind=kinds, task=tasks)
def test_a_witness_is_within_the_budget_and_its_margin_is_what_the_ensemble_says(
    seed, norm, kind, task
):
    p = Improved(seed, norm, kind, task)
    slack = rounding(p.ensemble, p.scores)
    for x, z, label, found in zip(p.X, p.points(), p.labels, p.margins, strict=True):
        assert oracle.allowed(p.ensemble, x.tolist(), z.tolist(), p.attacker)
        raw = oracle.raw_score(p.ensemble, z.tolist())
        exact = float(oracle.margin(p.ensemble, raw, int(label)))
        assert found == pytest.approx(exact, abs=slack, rel=1e-12)


@given(seed=seeds, norm=norms, task=tasks)
def test_margins_at_witnesses_lie_between_the_worst_margin_and_the_rows_own(seed, norm, task):
    p = Improved(seed, norm, "any", task)
    slack = rounding(p.ensemble, p.scores)
    for x, label, found in zip(p.X.tolist(), p.labels.tolist(), p.margins, strict=True):
        worst = float(exact_worst(p.ensemble, x, label, p.attacker))
        raw = oracle.raw_score(p.ensemble, x)
        own = float(oracle.margin(p.ensemble, raw, label))
        assert worst - slack <= found <= own + slack


def test_most_witnesses_are_the_worst():
    found = total = 0
    for seed in range(150):
        for norm in (0, 1, 2):
            p = Improved(seed, norm, passes=12)
            for x, label, margin in zip(p.X.tolist(), p.labels.tolist(), p.margins, strict=True):
                worst = float(exact_worst(p.ensemble, x, label, p.attacker))
                found += bool(margin <= worst + rounding(p.ensemble, p.scores))
                total += 1
    assert found >= 0.9 * total


@given(seed=seeds, norm=norms, task=tasks)
def test_improving_further_never_raises_a_margin(seed, norm, task):
    p = Improved(seed, norm, "any", task, passes=1)
    again = p.improve(3, seed=8)
    assert (again <= p.margins).all()


def of_its_output(ensemble):
    """Per score, whether its tree has other scores than 0 for the output."""
    if ensemble.n_outputs == 1:
        return np.ones(ensemble.scores.shape, dtype=bool)
    leaves = ensemble.nodes["feature"] < 0
    tree = np.empty(ensemble.n_leaves, dtype=int)
    tree[ensemble.nodes["left"][leaves]] = ensemble.tree_of_node[leaves]
    used = np.zeros((ensemble.n_trees, ensemble.n_outputs), dtype=bool)
    np.logical_or.at(used, tree, ensemble.scores != 0)
    return used[tree]


@given(seed=seeds, norm=norms, task=tasks)
def test_the_slope_is_that_of_the_margins_at_the_witnesses(seed, norm, task):
    p = Improved(seed, norm, "any", task)
    force = np.random.default_rng(seed).normal(size=len(p.rows))
    slope = p.core.slope(force, 1)
    step = np.random.default_rng(seed + 1).normal(size=p.ensemble.scores.shape)
    step = (step * of_its_output(p.ensemble)).ravel()
    # With no passes the witnesses stay, and the margins are linear in the scores, as far as the
    # best rival stays the same: a step that is small enough sees to it, ties aside.
    tiny = 1e-6 * max(1.0, np.abs(p.scores).max(initial=0.0))
    before, after = p.improve(0), p.improve(0, p.scores + tiny * step)
    if p.ensemble.n_outputs <= 2:
        expected = float(force @ (after - before)) / tiny
        noise = 1e-12 * np.abs(before).max(initial=1.0) / tiny
        assert float(slope @ step) == pytest.approx(expected, rel=1e-6, abs=1e-6 + noise)


@given(seed=seeds, norm=norms, task=tasks)
def test_witnesses_and_slopes_do_not_depend_on_the_number_of_threads(seed, norm, task):
    one, three = (
        Improved(seed, norm, "any", task, n_rows=40, threads=threads) for threads in (1, 3)
    )
    force = np.linspace(-1, 2, 40)
    np.testing.assert_array_equal(one.margins, three.margins)
    np.testing.assert_array_equal(one.points(), three.points())
    np.testing.assert_array_equal(one.core.slope(force, 1), three.core.slope(force, 3))


def test_a_force_that_is_not_finite_or_not_of_a_row_is_refused():
    p = Improved(3, 1)
    with pytest.raises(ValueError, match="must be finite"):
        p.core.slope(np.array([0.0, math.nan, 1.0, 0.5]), 1)
    with pytest.raises(ValueError, match="one force per row"):
        p.core.slope(np.zeros(3), 1)


@given(seed=seeds, norm=norms)
def test_points_can_be_taken_up_again(seed, norm):
    p = Improved(seed, norm)
    other = _core.Witnesses(p.ensemble.core, p.core_attacker, p.X, p.labels)
    other.start_at(p.ensemble.core, p.points(), 1)
    margins = other.improve(p.rows, p.scores, _core.WitnessEffort(passes=0), False, 1)
    np.testing.assert_allclose(margins, p.margins, rtol=1e-12, atol=rounding(p.ensemble, p.scores))


def test_a_point_out_of_reach_is_not_taken_for_a_witness():
    stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    ensemble = cg.Ensemble.from_trees([stump], n_features=2)
    attacker = core_attacker(cg.Attacker(2, 0.25), ensemble)
    X = np.array([[1.0, 0.0]])
    witnesses = _core.Witnesses(ensemble.core, attacker, X, np.array([1], dtype=np.int32))
    witnesses.start_at(ensemble.core, np.array([[0.0, 0.0]]), 1)
    z = X.copy()
    witnesses.points(z, 1)
    np.testing.assert_array_equal(z, X)


def test_a_missing_value_stays_missing():
    tree = {
        "feature": 0,
        "threshold": 0.5,
        "missing": "left",
        "left": {"score": -1},
        "right": {"feature": 1, "threshold": 0.5, "left": {"score": 1}, "right": {"score": 3}},
    }
    ensemble = cg.Ensemble.from_trees([tree], n_features=2)
    attacker = core_attacker(cg.Attacker(0, 2), ensemble)
    X = np.array([[np.nan, 0.75], [0.75, 0.75]])
    witnesses = _core.Witnesses(ensemble.core, attacker, X, np.array([1, 1], dtype=np.int32))
    rows, effort = np.arange(2, dtype=np.int32), _core.WitnessEffort(passes=3)
    margins = witnesses.improve(rows, ensemble.scores.ravel(), effort, False, 1)
    np.testing.assert_array_equal(margins, [-1, -1])
    z = X.copy()
    witnesses.points(z, 1)
    assert math.isnan(z[0, 0])
    assert z[1, 0] == 0.5


@pytest.mark.parametrize(
    ("rows", "message"),
    [([0, 0], "each at most once"), ([4], "each at most once"), ([-1], "each at most once")],
)
def test_a_batch_names_rows_once(rows, message):
    p = Improved(3, 1)
    with pytest.raises(ValueError, match=message):
        p.core.improve(
            np.array(rows, dtype=np.int32), p.scores, _core.WitnessEffort(passes=0), False, 1
        )


def test_witnesses_are_needed_where_trees_share_features_and_features_a_budget():
    def stump(v):
        return {"feature": 0, "threshold": v, "left": {"score": -1}, "right": {"score": 1}}

    shared = cg.Ensemble.from_trees([stump(0.25), stump(0.75)], n_features=1)
    assert needs_witnesses(shared, cg.Attacker(1, 0.5))
    assert not needs_witnesses(shared, cg.Attacker(1, 0.1))
    assert not needs_witnesses(shared, cg.Attacker("inf", 0.5))
