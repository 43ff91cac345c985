"""Worst cases of ensembles that are not large-spread: bounds, never more, for classes and numbers.

The oracle knows the exact worst case; a bound that sums up what each tree can do on its own is
never above it, and equal to a slow sum over the same leaves.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import carvegbm as cg
import oracle
from asking import core_attacker, product_attacker
from carvegbm import _core
from carvegbm.model.nodes import NODE
from carvegbm.problem import Problem as VerificationProblem
from generators import make_case
from random_trees import USUAL_SCORES
from test_worst_cases import NO_WEIGHT, Cases, Problem, exact_worst, rounding, rows_around

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


@settings(max_examples=250)
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
    cases = Cases(ensemble, VerificationProblem(ensemble, attacker).core_attacker, X, labels)
    assert cases.margins(ensemble.scores.ravel()).tolist() == [-2.0]
    assert cg.verify(ensemble, X, [1], attacker).worst_margin.tolist() == [0.0]


@settings(max_examples=100)
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


# ── how leaves are found and kept ────────────────────────────────────────────────────────────


@settings(max_examples=100)
@given(seed=seeds, kind=kinds, task=tasks, block=st.integers(1, 64), memory=st.integers(0, 4000))
def test_neither_blocks_nor_their_order_nor_memory_change_the_outcome(
    seed, kind, task, block, memory
):
    p = problem(seed, kind, task, n_rows=70)
    weight = np.random.default_rng([seed, 3]).random(70)
    order = np.random.default_rng([seed, 6]).permutation(70)
    plan = _core.WorstCasePlan(np.empty(0, dtype=np.int32), order, block, memory)
    other = Cases(p.ensemble, p.core_attacker, p.X, p.labels, 2, plan)
    assert other.core.memory <= memory
    assert other.core.blocks == -(-70 // block)
    assert np.array_equal(other.margins(p.scores, 2), p.cases.margins(p.scores))
    assert np.array_equal(other.losses(p.scores), p.cases.losses(p.scores))
    expected = p.cases.slope(p.scores, weight, 0.7)
    assert np.array_equal(other.slope(p.scores, weight, 0.7, 2), expected)
    blocks = np.arange(other.core.blocks)
    parts = [other.core.slope(p.scores, weight, 0.7, part, 1) for part in np.array_split(blocks, 2)]
    assert sum(parts) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def tangled(n_features, depth, rng):
    """A tree that asks the same few questions again and again."""
    if depth == 0:
        return {"score": float(rng.normal())}
    return {
        "feature": int(rng.integers(n_features)),
        "threshold": float(rng.integers(1, 4)) / 4,
        "missing": str(rng.choice(["left", "right"])),
        "left": tangled(n_features, depth - 1, rng),
        "right": tangled(n_features, depth - 1, rng),
    }


@settings(max_examples=50)
@given(seed=seeds)
def test_leaves_that_no_value_leads_to_are_in_reach_of_none_but_the_missing(seed):
    rng = np.random.default_rng(seed)
    ensemble = cg.Ensemble.from_trees([tangled(2, 4, rng) for _ in range(2)], n_features=2)
    attacker = oracle.Attacker(math.inf, float(rng.choice([0.0, 0.125, 0.25, 0.3])))
    X = rng.integers(0, 9, size=(20, 2)) / 8
    X[rng.random(X.shape) < 0.2] = np.nan
    labels = rng.integers(2, size=20).astype(np.int32)
    core = core_attacker(cg.Attacker("inf", attacker.budget), ensemble)
    margins = Cases(ensemble, core, X, labels).margins(ensemble.scores.ravel())
    for x, label, margin in zip(X.tolist(), labels.tolist(), margins, strict=True):
        (slow,) = slow_margins(ensemble, x, label, attacker)
        assert margin == pytest.approx(float(slow), abs=1e-12)


def test_a_tree_of_more_leaves_than_16_bits_count_has_the_margins_of_its_values():
    """A ladder: leaf i holds the values from i to i + 1, and scores i."""
    n = 70_000
    nodes = np.zeros(2 * n - 1, dtype=NODE)

    def ladder(first, last, at):
        pending = [(first, last, at)]
        free = at + 1
        while pending:
            first, last, at = pending.pop()
            if last - first == 1:
                nodes[at] = (0.0, -1, first, -1, -1)
                continue
            middle = (first + last) // 2
            nodes[at] = (float(middle), 0, free, free + 1, -1)
            pending += [(first, middle, free), (middle, last, free + 1)]
            free += 2

    ladder(0, n, 0)
    scores = np.arange(n, dtype=float)
    ensemble = cg.Ensemble(nodes, [0], scores, n_features=1, task="binary")
    x = np.random.default_rng(0).integers(5, n - 5, size=100)
    X, labels = x[:, None] + 0.5, np.arange(100, dtype=np.int32) % 2
    cases = Cases(ensemble, core_attacker(cg.Attacker("inf", 3.0), ensemble), X, labels)
    margins = cases.margins(scores)
    assert np.array_equal(margins, np.where(labels == 1, x - 3.0, -(x + 3.0)))
    slope = cases.slope(scores / n, NO_WEIGHT, 1.0)
    assert set(np.flatnonzero(slope)) == set(np.where(labels == 1, x - 3, x + 3))


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


class Numbers:
    """A regression with rows whose wanted numbers are near its outputs, or far away."""

    def __init__(self, seed, norm, kind, n_rows=4):
        case = make_case(seed, norm, kind, "regression", scores=USUAL_SCORES)
        self.ensemble, self.attacker = case.ensemble, case.attacker
        rng = np.random.default_rng([seed, 7])
        self.X = rows_around(case, n_rows, rng)
        raw = self.ensemble.raw_score(self.X)
        self.wanted = raw + rng.choice([0.0, 0.1, 3.0], size=n_rows) * rng.normal(size=n_rows)
        self.core_attacker = core_attacker(product_attacker(case.attacker), case.ensemble)
        self.cases = Cases(self.ensemble, self.core_attacker, self.X, self.wanted)
        self.scores = self.ensemble.scores.ravel()
        self.slack = rounding(self.ensemble, self.scores)

    def outcomes(self, scores=None, threads=1):
        scores = self.scores if scores is None else scores
        return self.cases.core.outcomes(scores, 1.0, threads)


@settings(max_examples=100)
@given(seed=seeds, kind=kinds)
def test_no_output_within_reach_is_outside_the_range_that_trees_give_one_by_one(seed, kind):
    p = Numbers(seed, math.inf, kind)
    found = p.outcomes()
    base = Fraction(float(p.ensemble.base_score[0]))
    for row, x in enumerate(p.X.tolist()):
        (lowest,), (highest,) = oracle.output_range(p.ensemble, x, p.attacker)
        assert found["lowest"][row] <= lowest + Fraction(p.slack)
        assert found["highest"][row] >= highest - Fraction(p.slack)
        low = treewise(p.ensemble, x, p.attacker, lambda raw: raw[0], base)
        high = -treewise(p.ensemble, x, p.attacker, lambda raw: -raw[0], -base)
        assert abs(Fraction(float(found["lowest"][row])) - low) <= p.slack
        assert abs(Fraction(float(found["highest"][row])) - high) <= p.slack


@settings(max_examples=100)
@given(seed=seeds, norm=st.sampled_from([0, 1, 2]), kind=st.sampled_from(["random", "edge"]))
def test_other_norms_give_a_range_that_holds_all_outputs_within_reach(seed, norm, kind):
    p = Numbers(seed, norm, kind)
    found = p.outcomes()
    for row, x in enumerate(p.X.tolist()):
        (lowest,), (highest,) = oracle.output_range(p.ensemble, x, p.attacker)
        slack = Fraction(p.slack) + Fraction(1e-5) * (highest - lowest)  # costs are float32
        assert found["lowest"][row] <= lowest + slack
        assert found["highest"][row] >= highest - slack


@settings(max_examples=100)
@given(seed=seeds, norm=st.sampled_from([math.inf, 1]))
def test_the_loss_of_a_number_is_the_squared_error_at_the_worse_end(seed, norm):
    p = Numbers(seed, norm, "random", n_rows=20)
    found = p.outcomes()
    ends = np.array([found["lowest"], found["highest"]])
    worse = ((ends - p.wanted) ** 2).max(axis=0)
    assert found["loss"] == pytest.approx(worse, rel=1e-12, abs=1e-200)


@settings(max_examples=200)
@given(seed=seeds, norm=st.sampled_from([math.inf, 0, 1, 2]))
def test_the_slope_of_numbers_is_the_derivative_of_their_loss(seed, norm):
    kind = "any" if norm == math.inf and seed % 2 else "random"
    p = Numbers(seed, norm, kind, n_rows=20)
    assume(max(np.abs(p.ensemble.base_score).max(), np.abs(p.wanted).max()) < 1e3)
    rng = np.random.default_rng([seed, 8])
    scores, direction = rng.normal(size=(2, len(p.scores)))
    weight, h = rng.random(20), 1e-5
    here, ahead, behind = (p.outcomes(scores + step * direction)["loss"] for step in (0.0, h, -h))
    assume((np.abs(ahead + behind - 2 * here) < 1e-6).all())  # the ends and leaves are the same
    slope = p.cases.slope(scores, weight, 1.0)
    difference = float(weight @ (ahead - behind)) / (2 * h)
    size = 1 + np.abs(p.wanted).max()
    assert slope @ direction == pytest.approx(difference, rel=1e-4, abs=1e-4 * size)


@pytest.mark.parametrize("norm", [math.inf, 1])
def test_numbers_have_the_same_slope_for_any_number_of_threads(norm):
    for seed in range(3):
        p = Numbers(seed, norm, "random", n_rows=300)
        expected = p.cases.slope(p.scores, NO_WEIGHT, 1.0, 1)
        for threads in (2, 3):
            again = Cases(p.ensemble, p.core_attacker, p.X, p.wanted, threads)
            assert np.array_equal(again.slope(p.scores, NO_WEIGHT, 1.0, threads), expected)


def test_numbers_that_do_not_match_are_refused():
    p = Numbers(0, math.inf, "random")
    with pytest.raises(ValueError, match="one number per row"):
        Cases(p.ensemble, p.core_attacker, p.X, p.wanted[:-1])
    several = cg.Ensemble.from_trees([{"score": [0.5, 0.5]}], n_features=1)
    core = core_attacker(cg.Attacker("inf", 0.1), several)
    with pytest.raises(ValueError, match="one output"):
        Cases(several, core, np.zeros((1, 1)), np.zeros(1))


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"output": [0, 0]}, "one output per tree"),
        ({"output": [1]}, "output is not there"),
        ({"order": [0]}, "one place per row"),
        ({"order": [0, 2]}, "row of the order"),
        ({"block": 0}, "1 to 64 rows"),
        ({"block": 65}, "1 to 64 rows"),
    ],
    ids=str,
)
def test_a_plan_that_does_not_fit_is_refused(plan, message):
    ensemble = cg.Ensemble.from_trees([{"score": 0.5}], n_features=1)
    core = core_attacker(cg.Attacker("inf", 0.1), ensemble)
    chosen = _core.WorstCasePlan(
        np.array(plan.get("output", []), dtype=np.int32),
        np.array(plan.get("order", []), dtype=np.int64),
        plan.get("block", 64),
        1 << 20,
    )
    with pytest.raises(ValueError, match=message):
        Cases(ensemble, core, np.zeros((2, 1)), np.zeros(2, dtype=np.int32), 1, chosen)


def test_blocks_that_are_not_there_are_refused():
    p = problem(0)
    for block in (-1, 1):
        with pytest.raises(ValueError, match="block is not there"):
            p.cases.core.slope(p.scores, NO_WEIGHT, 1.0, np.array([block]), 1)
