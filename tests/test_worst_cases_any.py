"""Worst cases of ensembles that are not large-spread: bounds, never more, for classes and numbers.

The oracle knows the exact worst case; a bound that sums up what each tree can do on its own is
never above it, and equal to a slow sum over the same leaves.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
import oracle
from carvegbm import _core
from generators import make_case
from random_trees import USUAL_SCORES
from test_worst_cases import NO_WEIGHT, Cases, Problem, exact_worst

seeds = st.integers(0, 2**31)
tasks = st.sampled_from(["binary", "multiclass"])
kinds = st.sampled_from(["any", "any edge", "random", "edge", "spread"])


def problem(seed, kind="any", task="binary", n_rows=4):
    case = make_case(seed, math.inf, kind, task, scores=USUAL_SCORES)
    return Problem(case, n_rows, seed=seed)


def leaves_in_reach(ensemble, x, attacker):
    """Per tree, the exact scores of the leaves that an attacker of this tree alone can reach."""
    for tree in ensemble.to_trees():
        alone = cg.Ensemble.from_trees(
            [tree],
            n_features=ensemble.n_features,
            task=ensemble.task,
            base_score=[0.0] * ensemble.n_outputs,
            input_precision=ensemble.input_precision,
        )
        yield [attack.raw for attack in oracle.attacks(alone, x, attacker)]


def treewise(ensemble, x, attacker, value, constant):
    """constant + sum over trees of the least value(scores) in reach, exactly."""
    reached = leaves_in_reach(ensemble, x, attacker)
    return (constant + sum(min(map(value, scores)) for scores in reached)) / ensemble.average


def slow_margins(ensemble, x, label, attacker):
    """The treewise worst margin against every rival, exactly."""
    base = [Fraction(score) for score in ensemble.base_score.tolist()]
    if ensemble.task == "binary":
        sign = 1 if label == 1 else -1
        constant = sign * (base[0] - Fraction(ensemble.threshold) * ensemble.average)
        yield treewise(ensemble, x, attacker, lambda raw: sign * raw[0], constant)
        return
    for rival in range(ensemble.n_outputs):
        if rival != label:
            yield treewise(
                ensemble,
                x,
                attacker,
                lambda raw, rival=rival: raw[label] - raw[rival],
                base[label] - base[rival],
            )


def logistic(margins, steepness):
    """log(1 + sum over rivals of exp(-steepness * margin))."""
    return np.logaddexp.reduce([0.0, *(-steepness * float(margin) for margin in margins)])


@settings(max_examples=400)
@given(seed=seeds, kind=kinds, task=tasks)
def test_a_treewise_bound_is_never_above_the_exact_worst_margin(seed, kind, task):
    p = problem(seed, kind, task)
    margins = p.cases.margins(p.scores)
    slack = p.rounding(p.scores) + 1e-299  # a tie that is lost is just below 0
    for x, label, margin in zip(p.X.tolist(), p.labels.tolist(), margins, strict=True):
        exact = exact_worst(p.ensemble, x, label, p.attacker)
        assert Fraction(float(margin)) <= exact + Fraction(slack)
        slow = min(slow_margins(p.ensemble, x, label, p.attacker))
        assert abs(Fraction(float(margin)) - slow) <= slack


def test_the_bound_is_below_the_worst_margin_where_two_trees_share_a_feature():
    """One tree is worst above .5, the other below: no single value is both."""
    trees = [
        {"feature": 0, "threshold": 0.5, "left": {"score": a}, "right": {"score": b}}
        for a, b in ((1.0, -1.0), (-1.0, 1.5))
    ]
    ensemble = cg.Ensemble.from_trees(trees, n_features=1)
    attacker = cg.Attacker("inf", 0.1)
    X, labels = np.array([[0.45]]), np.array([1], dtype=np.int32)
    cases = Cases(ensemble, attacker.core(ensemble), X, labels)
    assert cases.margins(ensemble.scores.ravel()).tolist() == [-2.0]
    assert cg.verify(ensemble, X, [1], attacker).worst_margin.tolist() == [0.0]


@settings(max_examples=200)
@given(seed=seeds, kind=kinds, task=tasks, steepness=st.sampled_from([0.5, 1.0, 3.0]))
def test_the_loss_is_the_logistic_loss_of_all_rivals(seed, kind, task, steepness):
    p = problem(seed, kind, task)
    for x, label, loss in zip(
        p.X.tolist(), p.labels.tolist(), p.cases.losses(p.scores, steepness), strict=True
    ):
        expected = logistic(slow_margins(p.ensemble, x, label, p.attacker), steepness)
        assert loss == pytest.approx(expected, rel=1e-9, abs=steepness * p.rounding(p.scores))


def by_single_outputs(ensemble, seed):
    """The same trees, each of which counts for one output only: full scores, outputs, packed."""
    rng = np.random.default_rng([seed, 5])
    leaves = ensemble.nodes["feature"] < 0
    tree = np.empty(ensemble.n_leaves, dtype=np.int64)
    tree[ensemble.nodes["left"][leaves]] = ensemble.tree_of_node[leaves]
    output = rng.integers(ensemble.n_outputs, size=ensemble.n_trees).astype(np.int32)
    packed = rng.normal(size=ensemble.n_leaves)
    full = np.zeros(ensemble.scores.shape)
    full[np.arange(ensemble.n_leaves), output[tree]] = packed
    return full, output, packed, (np.arange(ensemble.n_leaves), output[tree])


@settings(max_examples=200)
@given(seed=seeds, kind=kinds, norm=st.sampled_from([math.inf, 0, 1, 2]))
def test_one_look_at_each_tree_does_for_all_rivals(seed, kind, norm):
    """Scores packed one per leaf say what scores by leaf and output say."""
    kind = kind if norm == math.inf else "random"
    case = make_case(seed, norm, kind, "multiclass", scores=USUAL_SCORES)
    p = Problem(case, 20, seed=seed)
    full, output, packed, place = by_single_outputs(p.ensemble, seed)
    plan = _core.WorstCasePlan(output, np.empty(0, dtype=np.int64), 64, 1 << 30)
    one = Cases(p.ensemble, p.core_attacker, p.X, p.labels, plan=plan)
    many = Cases(p.ensemble, p.core_attacker, p.X, p.labels)
    slack = p.rounding(full)
    assert one.margins(packed) == pytest.approx(many.margins(full.ravel()), abs=slack, rel=1e-14)
    assert one.losses(packed) == pytest.approx(many.losses(full.ravel()), abs=slack, rel=1e-9)
    if np.abs(p.ensemble.base_score).max() > 1e3:
        return
    got = one.slope(packed, NO_WEIGHT, 1.0)
    expected = many.slope(full.ravel(), NO_WEIGHT, 1.0).reshape(full.shape)[place]
    assert got == pytest.approx(expected, abs=1e-9)
