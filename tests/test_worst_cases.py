"""Worst-case margins as functions of the leaf scores, against the oracle and a linear program."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

import carvegbm as cg
import oracle
from asking import core_attacker, product_attacker
from carvegbm import _core
from generators import NORMS, make_case
from random_trees import USUAL_SCORES

SHARED_NORMS = tuple(norm for norm in NORMS if norm != math.inf)  # moves share one budget
TASKS = ("binary", "multiclass")
NO_WEIGHT = np.empty(0)

seeds = st.integers(0, 2**31)
tasks = st.sampled_from(TASKS)
kinds = st.sampled_from(["random", "edge", "knapsack"])


class Cases:
    """Worst cases, all blocks of rows at once."""

    def __init__(self, ensemble, attacker, X, wanted, threads=1, plan=None):
        plan = plan or _core.WorstCasePlan()
        self.core = _core.WorstCases(ensemble.core, attacker, X, wanted, threads, plan)

    def margins(self, scores, threads=1):
        return self.core.outcomes(scores, 1.0, threads)["margin"]

    def losses(self, scores, steepness=1.0, threads=1):
        return self.core.outcomes(scores, steepness, threads)["loss"]

    def slope(self, scores, weight, steepness, threads=1):
        blocks = np.arange(self.core.blocks)
        return self.core.slope(scores, weight, steepness, blocks, threads)


def rows_around(case, n_rows, rng, dtype=np.float64):
    """The case's instance, and others on either side of the thresholds."""
    everywhere = oracle.attacks(case.ensemble, case.x, case.attacker._replace(budget=math.inf))
    cells = [attack.z for attack in islice(everywhere, 400)]
    chosen = [case.x] + [cells[i] for i in rng.integers(len(cells), size=n_rows - 1)]
    return np.array(chosen, dtype=dtype)


def rounding(ensemble, scores):
    """What a sum of two scores per tree may lose."""
    magnitude = 2 * (ensemble.n_trees + 1) * np.abs(scores).max(initial=0.0)
    return 2e-14 * float(
        magnitude
        + 2 * np.abs(ensemble.base_score).max()
        + abs(ensemble.threshold) * ensemble.average
    )


class Problem:
    """A case with several rows of every class, and what the core says about them."""

    def __init__(self, case, n_rows, *, seed=0, dtype=np.float64):
        self.ensemble, self.attacker = case.ensemble, case.attacker
        rng = np.random.default_rng([seed, 1])
        self.X = rows_around(case, n_rows, rng, dtype)
        self.labels = rng.integers(len(case.ensemble.classes), size=n_rows).astype(np.int32)
        self.labels[0] = case.label
        self.core_attacker = core_attacker(product_attacker(case.attacker), case.ensemble)
        self.cases = self.collect()
        self.scores = case.ensemble.scores.ravel()

    def collect(self, rows=slice(None), threads=1):
        return Cases(self.ensemble, self.core_attacker, self.X[rows], self.labels[rows], threads)

    def rounding(self, scores):
        return rounding(self.ensemble, scores)


def problem(seed, norm, kind="random", task="binary", n_rows=8, **options):
    return Problem(
        make_case(seed, norm, kind, task, scores=USUAL_SCORES), n_rows, seed=seed, **options
    )


def random_scores(ensemble, seed):
    """Scores that no two choices of leaves tie on."""
    return np.random.default_rng([seed, 2]).normal(size=ensemble.scores.size)


def exact_worst(ensemble, x, label, attacker):
    """The least margin of the label over all attacks, whether x is right or wrong."""
    found = oracle.attacks(ensemble, x, attacker)
    return min(oracle.margin(ensemble, attack.raw, label) for attack in found)


# ── margins ──────────────────────────────────────────────────────────────────────────────────


@given(seed=seeds, kind=kinds, task=tasks)
def test_norm_inf_gives_the_exact_worst_margin_of_right_and_wrong_rows(seed, kind, task):
    p = problem(seed, math.inf, kind, task, n_rows=4)
    margins = p.cases.margins(p.scores, 1)
    slack = p.rounding(p.scores)
    for x, label, margin in zip(p.X.tolist(), p.labels.tolist(), margins, strict=True):
        exact = exact_worst(p.ensemble, x, label, p.attacker)
        assert abs(Fraction(float(margin)) - exact) <= slack
    proven = cg.verify(
        p.ensemble, p.X, p.ensemble.classes[p.labels], product_attacker(p.attacker), threads=1
    )
    assert margins[proven.right] == pytest.approx(
        proven.worst_margin[proven.right], rel=1e-14, abs=slack
    )


@given(seed=seeds, norm=st.sampled_from(SHARED_NORMS), kind=kinds, task=tasks)
def test_other_norms_give_a_lower_bound_on_the_worst_margin(seed, norm, kind, task):
    p = problem(seed, norm, kind, task, n_rows=4)
    nobody = core_attacker(cg.Attacker(norm, 0), p.ensemble)
    before = Cases(p.ensemble, nobody, p.X, p.labels).margins(p.scores, 1)
    for x, label, margin, unchanged in zip(
        p.X.tolist(), p.labels.tolist(), p.cases.margins(p.scores, 1), before, strict=True
    ):
        raw = oracle.raw_score(p.ensemble, x)
        found = list(oracle.attacks(p.ensemble, x, p.attacker))
        moved = max(abs(a - b) for at in found for a, b in zip(at.raw, raw, strict=True))
        slack = p.rounding(p.scores) + 1e-5 * float(moved)  # costs are kept as float32
        exact = min(oracle.margin(p.ensemble, attack.raw, label) for attack in found)
        assert margin <= exact + Fraction(slack)
        clean = oracle.margin(p.ensemble, raw, label)
        assert abs(Fraction(float(unchanged)) - clean) <= p.rounding(p.scores)


@given(seed=seeds, norm=st.sampled_from(SHARED_NORMS), kind=kinds, task=tasks)
def test_other_norms_give_the_optimum_of_the_linear_relaxation(seed, norm, kind, task):
    p = problem(seed, norm, kind, task, n_rows=2)
    scores = random_scores(p.ensemble, seed)
    other = p.ensemble.with_scores(scores.reshape(p.ensemble.scores.shape))
    base = max(1.0, float(np.abs(p.ensemble.base_score).max()), abs(p.ensemble.threshold))
    assume(base < 1e4)  # 1e16 would drown what the trees say
    # A budget that is short by one rounding, and one that is not: costs are kept as float32.
    budget = p.attacker.budget
    budgets = (budget, budget if norm == 0 else budget * (1 + 1e-6))
    rivals = range(len(p.ensemble.classes))
    margins = p.cases.margins(scores, 1)
    for x, label, margin in zip(p.X.tolist(), p.labels.tolist(), margins, strict=True):
        highest, lowest = (
            min(
                relaxed_margin(other, x, label, rival, p.attacker._replace(budget=k))
                for rival in rivals
                if rival != label
            )
            for k in budgets
        )
        assert lowest - 1e-5 - 1e-9 * base <= margin <= highest + 1e-5 + 1e-9 * base


def relaxed_margin(ensemble, x, label, rival, attacker):
    """Every tree picks a mixture of its leaves; costs and scores count by their shares."""

    def value(raw):
        if ensemble.task == "binary":
            return raw[0] if label == 1 else -raw[0]
        return raw[label] - raw[rival]

    budget = Fraction(attacker.budget)
    capacity = budget if attacker.norm == 0 else budget ** int(attacker.norm)
    values, costs, trees = [], [], []
    for index, options in enumerate(options_by_tree(ensemble, x, attacker)):
        for attack in options:
            values.append(float(value(attack.raw)))
            costs.append(float(attack.cost / capacity) if capacity else float(attack.cost))
            trees.append(index)
    constant = [Fraction(score) for score in ensemble.base_score.tolist()]
    if ensemble.task == "binary":
        constant[0] -= Fraction(ensemble.threshold) * ensemble.average
    total = float(value(constant))
    if values:
        one_each = np.zeros((max(trees) + 1, len(values)))
        one_each[trees, np.arange(len(values))] = 1
        found = linprog(
            values,
            A_ub=[costs],
            b_ub=[1.0 if capacity else 0.0],
            A_eq=one_each,
            b_eq=np.ones(len(one_each)),
            bounds=(0, 1),
        )
        assert found.success
        total += found.fun
    return total / ensemble.average


def options_by_tree(ensemble, x, attacker):
    """What an attacker who has the whole budget for one tree can do with it, tree by tree."""
    for tree in ensemble.to_trees():
        alone = cg.Ensemble.from_trees(
            [tree],
            n_features=ensemble.n_features,
            task=ensemble.task,
            base_score=[0.0] * ensemble.n_outputs,
            input_precision=ensemble.input_precision,
        )
        yield list(oracle.attacks(alone, x, attacker))


@pytest.mark.parametrize("norm", SHARED_NORMS)
def test_the_bound_is_tight_where_all_moves_fit_the_budget_together(norm):
    tight = loose = 0
    for seed in range(40):
        p = problem(seed, norm, "random", TASKS[seed % 2], n_rows=3)
        scores = random_scores(p.ensemble, seed)
        other = p.ensemble.with_scores(scores.reshape(p.ensemble.scores.shape))
        capacity = Fraction(p.attacker.budget) ** max(1, int(norm))
        for x, label, margin in zip(
            p.X.tolist(), p.labels.tolist(), p.cases.margins(scores, 1), strict=True
        ):
            exact = float(exact_worst(other, x, label, p.attacker))
            dearest = [
                max(attack.cost for attack in options)
                for options in options_by_tree(other, x, p.attacker)
            ]
            if sum(dearest, Fraction(0)) <= capacity * Fraction(1 - 1e-6):
                assert margin == pytest.approx(exact, rel=1e-12, abs=1e-12)
                tight += any(dearest)
            else:
                loose += margin < exact - 1e-3
    assert tight > 5  # otherwise the above says little
    assert norm == 0 or loose > 0  # and the relaxation is not the optimum in disguise


@given(seed=seeds, norm=st.sampled_from(NORMS), task=tasks)
def test_margins_are_those_of_the_scores_given_not_of_the_ensemble_collected_from(seed, norm, task):
    p = problem(seed, norm, task=task)
    scores = random_scores(p.ensemble, seed)
    other = p.ensemble.with_scores(scores.reshape(p.ensemble.scores.shape))
    anew = Cases(other, p.core_attacker, p.X, p.labels)
    assert np.array_equal(p.cases.margins(scores, 1), anew.margins(scores, 1))


def test_float32_rows_have_the_margins_of_their_values_as_doubles():
    for seed in range(20):
        wide = problem(seed, NORMS[seed % len(NORMS)])
        if wide.attacker.bounds is not None or np.nanmax(np.abs(wide.X)) > 1e30:
            continue
        narrow = problem(seed, NORMS[seed % len(NORMS)], dtype=np.float32)
        wide = Cases(
            narrow.ensemble, narrow.core_attacker, narrow.X.astype(np.float64), narrow.labels
        )
        assert np.array_equal(
            narrow.cases.margins(narrow.scores, 1), wide.margins(narrow.scores, 1)
        )


def test_the_sample_has_forests_missing_values_float32_models_and_limits():
    """Otherwise agreement above would say little."""
    cases = [
        make_case(seed, norm, scores=USUAL_SCORES) for seed in range(50) for norm in (math.inf, 1)
    ]
    assert any(case.ensemble.average > 1 for case in cases)
    assert any(case.ensemble.input_precision == "float32" for case in cases)
    assert any(np.isnan(case.x).any() for case in cases)
    assert any(case.attacker.scale is not None for case in cases)
    assert any(case.attacker.features is not None for case in cases)
    assert any(case.attacker.bounds is not None for case in cases)


# ── slopes ───────────────────────────────────────────────────────────────────────────────────


@given(
    seed=seeds, norm=st.sampled_from(NORMS), task=tasks, steepness=st.sampled_from([0.5, 1.0, 3.0])
)
def test_slope_is_the_derivative_of_the_loss(seed, norm, task, steepness):
    p = problem(seed, norm, task=task, n_rows=20)
    scores, rng = random_scores(p.ensemble, seed), np.random.default_rng([seed, 3])
    weight = rng.random(len(p.X))
    direction = rng.normal(size=len(scores))
    h = 1e-5
    slope = p.cases.slope(scores, weight, steepness, 1)
    assume(np.abs(p.cases.margins(scores, 1)).max(initial=0) < 1e3)  # base scores may be 1e16
    here, ahead, behind = (
        p.cases.losses(scores + step * direction, steepness) for step in (0.0, h, -h)
    )
    # The minimisers are the same: what is left is the curvature of the loss.
    assume((np.abs(ahead + behind - 2 * here) < 1e-7).all())
    difference = float(weight @ (ahead - behind)) / (2 * h)
    assert slope @ direction == pytest.approx(difference, rel=1e-5, abs=1e-5)


@given(seed=seeds, norm=st.sampled_from(NORMS), task=tasks, far=st.sampled_from([0.01, 1.0, 10.0]))
def test_loss_lies_above_its_tangents_and_below_its_chords(seed, norm, task, far):
    p = problem(seed, norm, task=task, n_rows=20)
    one = random_scores(p.ensemble, seed)
    other = one + far * random_scores(p.ensemble, seed + 1)
    slope = p.cases.slope(one, NO_WEIGHT, 1.0, 1)
    margins, margins_there = p.cases.margins(one, 1), p.cases.margins(other, 1)
    assume(np.abs(margins).max(initial=0) < 1e3)
    here, there = p.cases.losses(one).sum(), p.cases.losses(other).sum()
    assert there >= here + slope @ (other - one) - 1e-9 * (1 + here + there)
    for share in (0.25, 0.5, 0.75):
        between = one + share * (other - one)
        least = (1 - share) * margins + share * margins_there
        assert (p.cases.margins(between, 1) >= least - 1e-9 * far).all()
        most = (1 - share) * here + share * there
        assert p.cases.losses(between).sum() <= most + 1e-9 * (1 + here + there)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("task", TASKS)
def test_result_is_the_same_to_the_last_bit_for_any_number_of_threads(norm, task):
    for seed in range(3):
        p = problem(seed, norm, task=task, n_rows=400)
        scores = random_scores(p.ensemble, seed)
        weight = np.random.default_rng(seed).random(400)
        expected = p.cases.slope(scores, weight, 0.7, 1)
        for collecting, threads in ((1, 2), (2, 3), (3, 1)):
            again = p.collect(threads=collecting)
            assert again.core.memory == p.cases.core.memory > 0
            assert np.array_equal(again.slope(scores, weight, 0.7, threads), expected)
            for name, column in p.cases.core.outcomes(scores, 0.7, 1).items():
                again_column = again.core.outcomes(scores, 0.7, threads)[name]
                assert np.array_equal(again_column, column)


@given(seed=seeds, norm=st.sampled_from(NORMS), task=tasks)
def test_weight_zero_drops_rows_and_weight_one_changes_nothing(seed, norm, task):
    p = problem(seed, norm, task=task, n_rows=100)
    scores = random_scores(p.ensemble, seed)
    kept = np.random.default_rng([seed, 3]).random(100) < 0.5
    kept[0] = True
    of_all = p.cases.slope(scores, NO_WEIGHT, 1.0, 1)
    of_ones = p.cases.slope(scores, np.ones(100), 1.0, 1)
    assert np.array_equal(of_all, of_ones)
    of_half = p.cases.slope(scores, kept.astype(float), 1.0, 1)
    of_rest = p.cases.slope(scores, 1.0 - kept, 1.0, 1)
    of_kept = p.collect(kept).slope(scores, NO_WEIGHT, 1.0, 1)
    assert np.array_equal(of_half, of_kept)
    assert of_half + of_rest == pytest.approx(of_all, abs=1e-12)


def test_sizes_that_do_not_match_are_refused():
    p = problem(0, math.inf, n_rows=5)
    with pytest.raises(ValueError, match="per leaf and output"):
        p.cases.margins(p.scores[:-1], 1)
    with pytest.raises(ValueError, match="one weight per row"):
        p.cases.slope(p.scores, np.ones(4), 1.0, 1)
    for labels, message in ((p.labels[:4], "one label per row"), (p.labels + 7, "class index")):
        with pytest.raises(ValueError, match=message):
            Cases(p.ensemble, p.core_attacker, p.X, labels)


@pytest.mark.parametrize("label", [0, 1])
def test_a_tie_is_negative_where_it_goes_to_the_rival(label):
    binary = cg.Ensemble.from_trees([{"score": 0.0}], n_features=1)
    several = cg.Ensemble.from_trees([{"score": [0.5, 0.5]}], n_features=1)
    X, labels = np.zeros((1, 1)), np.array([label], dtype=np.int32)
    for ensemble in (binary, several):
        core = core_attacker(cg.Attacker("inf", 0.1), ensemble)
        cases = Cases(ensemble, core, X, labels)
        (margin,) = cases.margins(ensemble.scores.ravel(), 1)
        right = bool(ensemble.decide(X)[0] == label)
        assert (margin >= 0) == right
        assert abs(margin) < 1e-200
