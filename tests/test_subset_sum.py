"""Subset-sum ensembles: the paper's proof of NP-hardness as a generator of hard ties.

From positive integers S and a goal G it builds a large-spread ensemble and an instance of the
negative class that is robust iff no subset of S sums to G. Tree i can be moved to gain s_i at the
price s_i (in the p-th power of the distance); the budget pays for G and the decision needs G.

The paper's construction for p > 1, threshold and score s_i^p with budget and decision G^p, is not
the reduction it is meant to be: it gains s_i^p at the price (s_i^p)^p, so that {3, 4} reaches the
goal 5 at p = 2 (`test_the_papers_powers_would_answer_another_question`). What the proof needs is a
price of s_i, i.e. a distance of s_i^(1/p), and a budget of G^(1/p). Both are rounded so that
nothing is lost: with d_i the largest double with d_i^p <= s_i, and k the smallest with k^p >= G,
a subset that sums to G is affordable, and one that is affordable sums to less than G + 1.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import carvegbm as cg
from oracle import smallest_budget


def has_subset(numbers, goal):
    """Truth by brute force."""
    sizes = range(len(numbers) + 1)
    return any(sum(chosen) == goal for size in sizes for chosen in combinations(numbers, size))


def stump(feature, threshold, score):
    split = {"feature": feature, "threshold": threshold}
    return split | {"left": {"score": 0.0}, "right": {"score": float(score)}}


def chain(features, score):
    """All features must go right of 1 to reach the score."""
    tree = {"score": float(score)}
    for feature in reversed(features):
        split = {"feature": feature, "threshold": 1.0}
        tree = split | {"left": {"score": 0.0}, "right": tree}
    return tree


def reduction_p0(numbers, goal):
    """Tree i is a right chain of s_i features of its own; the attacker changes G features."""
    starts = np.concatenate([[0], np.cumsum(numbers)]).tolist()
    trees = [
        chain(range(start, start + number), number)
        for start, number in zip(starts, numbers, strict=False)
    ]
    ensemble = cg.Ensemble.from_trees(trees, n_features=sum(numbers), threshold=float(goal))
    return ensemble, [0.0] * sum(numbers), goal


def reduction_p1(numbers, goal):
    """The paper's: thresholds s_i, and x at 1 / (m + 1) to leave room for the step past them."""
    trees = [stump(i, float(number), number) for i, number in enumerate(numbers)]
    ensemble = cg.Ensemble.from_trees(trees, n_features=len(numbers), threshold=float(goal))
    return ensemble, [1 / (len(numbers) + 1)] * len(numbers), float(goal)


def reduction_root(numbers, goal, p):
    """Distances s_i^(1/p), rounded down, and the budget G^(1/p), rounded up; see above."""
    trees = []
    for i, number in enumerate(numbers):
        least = smallest_budget(Fraction(number), p)
        landing = least if Fraction(least) ** p == number else math.nextafter(least, 0)
        trees.append(stump(i, math.nextafter(landing, -math.inf), number))
    ensemble = cg.Ensemble.from_trees(trees, n_features=len(numbers), threshold=float(goal))
    return ensemble, [0.0] * len(numbers), smallest_budget(Fraction(goal), p)


def reduce(numbers, goal, p):
    if p == 0:
        return reduction_p0(numbers, goal)
    return reduction_p1(numbers, goal) if p == 1 else reduction_root(numbers, goal, p)


def random_problems(count, most, largest):
    rng = np.random.default_rng(20240229)
    for _ in range(count):
        numbers = rng.integers(1, largest + 1, size=int(rng.integers(1, most + 1))).tolist()
        yield numbers, int(rng.integers(1, sum(numbers) + 2))


@pytest.mark.parametrize("p", [0, 1, 2, 3])
def test_robust_iff_no_subset_sums_to_the_goal(p):
    answers = set()
    for numbers, goal in random_problems(150, 9, 12):
        ensemble, x, budget = reduce(numbers, goal, p)
        attacker = cg.Attacker(norm=p, budget=budget)
        expected = "fragile" if has_subset(numbers, goal) else "robust"
        answers.add(expected)
        for method in ("efficient", "basic"):
            result = cg.verify(ensemble, [x], [0], attacker, method=method)
            assert result.status.tolist() == [expected], (numbers, goal, method)
    assert answers == {"robust", "fragile"}


@pytest.mark.parametrize("p", [0, 1, 2, 3])
def test_witness_is_a_subset_that_sums_to_the_goal(p):
    for numbers, goal in random_problems(60, 9, 12):
        ensemble, x, budget = reduce(numbers, goal, p)
        found = cg.attack(ensemble, [x], [0], cg.Attacker(norm=p, budget=budget))
        assert bool(found.success[0]) == has_subset(numbers, goal)
        if found.success[0]:
            assert ensemble.raw_score(found.witnesses).tolist() == [float(goal)]


@pytest.mark.parametrize("p", [1, 2])
def test_twenty_large_numbers_are_decided(p):
    """Beyond brute force: the goal is a known sum, or larger than all numbers by one less than
    their greatest common divisor allows."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        numbers = (rng.integers(1, 1000, size=20) * 2).tolist()
        chosen = sum(number for number in numbers if rng.random() < 0.5)
        for goal, expected in ((chosen, "fragile"), (chosen + 1, "robust")):
            ensemble, x, budget = reduce(numbers, goal, p)
            result = cg.verify(ensemble, [x], [0], cg.Attacker(norm=p, budget=budget))
            assert result.status.tolist() == [expected], (numbers, goal)


def test_the_papers_powers_would_answer_another_question():
    numbers, goal, p = [3, 4], 5, 2
    trees = [stump(i, float(number**p), number**p) for i, number in enumerate(numbers)]
    ensemble = cg.Ensemble.from_trees(trees, n_features=2, threshold=float(goal**p))
    attacker = cg.Attacker(norm=p, budget=float(goal**p))
    assert not has_subset(numbers, goal)
    assert cg.verify(ensemble, [[1 / 3, 1 / 3]], [0], attacker).status.tolist() == ["fragile"]
