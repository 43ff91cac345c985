"""The worked examples of the paper's text, on the regression tree of its first figure."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import carvegbm as cg
import oracle

# The figure's scores, lambda_1 to lambda_4, by the cells of (x_1 <= 10, x_2 <= 5 or x_2 <= 8).
FIGURE = {
    "feature": 0,
    "threshold": 10.0,
    "left": {"feature": 1, "threshold": 5.0, "left": {"score": 0.2}, "right": {"score": 0.8}},
    "right": {"feature": 1, "threshold": 8.0, "left": {"score": 0.3}, "right": {"score": 0.6}},
}
X = [9.1, 0.1]


def figure_ensemble(**options):
    return cg.Ensemble.from_trees([FIGURE], n_features=2, **options)


def test_the_figures_tree_predicts_what_the_text_says():
    tree = figure_ensemble(task="regression")
    assert tree.raw_score([[8.0, 6.0], [12.0, 7.0], X]).tolist() == [0.8, 0.3, 0.2]


def test_scores_are_compared_with_the_threshold():
    tree = figure_ensemble(threshold=0.5)
    assert tree.decide([[8.0, 6.0], [12.0, 7.0]]).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("score", "z"),
    [
        (0.2, X),
        (0.8, [X[0], math.nextafter(5.0, 9)]),
        (0.3, [math.nextafter(10.0, 99), X[1]]),
        (0.6, [math.nextafter(10.0, 99), math.nextafter(8.0, 9)]),
    ],
)
def test_dist_is_the_minimal_perturbation_into_each_leaf(score, z):
    """The text's dist, with epsilon the step to the next float."""
    all_attacks = oracle.attacks(figure_ensemble(), X, oracle.Attacker(1, math.inf))
    into_leaf = [attack for attack in all_attacks if attack.raw == [Fraction(score)]]
    assert min(into_leaf, key=lambda attack: attack.cost).z == z
    here = cg.Ensemble.from_trees([_only(FIGURE, score)], n_features=2, base_score=-0.5)
    if z != X:
        found = cg.attack(here, [X], [0], cg.Attacker(norm=1, budget=99.0))
        assert found.witnesses.tolist() == [z]


def _only(tree, score):
    """The tree with 1 in the leaf of this score, 0 in the others."""
    if "score" in tree:
        return {"score": float(tree["score"] == score)}
    return tree | {side: _only(tree[side], score) for side in ("left", "right")}


@pytest.mark.parametrize(
    ("budget", "highest"), [(0.5, 0.2), (1.0, 0.3), (4.5, 0.3), (5.0, 0.8), (99.0, 0.8)]
)
def test_a_larger_budget_reaches_the_leaves_of_larger_gain(budget, highest):
    """Adding 1 to the first feature gains 0.1, adding 5 to the second one 0.6."""
    tree = figure_ensemble(task="regression")
    for norm in (1, 2, "inf"):
        attacker = cg.Attacker(norm=norm, budget=budget)
        found = cg.output_range(tree, [X], attacker)
        assert (found.lowest[0], found.highest[0]) == (0.2, highest)


def test_adversarial_gain_of_the_fourth_leaf_is_its_score_less_the_first_ones():
    """Both features must move to reach it: with the first one held right of 10 it is the best."""
    tree = figure_ensemble(task="regression")
    moved = [math.nextafter(10.0, 99), 0.1]
    attacker = cg.Attacker(norm="inf", budget=99.0, bounds=([moved[0], 0.0], [99.0, 99.0]))
    found = cg.output_range(tree, [moved], attacker)
    lowest, highest = found.lowest, found.highest
    assert (lowest[0], highest[0]) == (0.3, 0.6)
    gain = Fraction(highest[0]) - Fraction(tree.raw_score([X])[0])
    assert gain == Fraction(0.6) - Fraction(0.2)
    assert float(gain) == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("threshold", "budget", "status"),
    [
        (0.3, 0.95, "fragile"),  # the cheap attack is enough to reach 0.3
        (0.3, 0.85, "robust"),
        (0.5, 0.95, "robust"),  # here it is not
        (0.5, 5.0, "fragile"),
        (0.5, 4.85, "robust"),
    ],
)
def test_the_cheap_attack_may_be_enough_and_the_dear_one_may_be_needed(threshold, budget, status):
    tree = figure_ensemble(threshold=threshold)
    for norm in (1, 2, "inf"):
        attacker = cg.Attacker(norm=norm, budget=budget)
        assert cg.verify(tree, [X], [0], attacker).status.tolist() == [status]


def test_radius_is_the_distance_to_the_leaf_that_flips():
    """To 0.8 past 5 in the second feature; to 0.3 past 10 in the first."""
    for norm in (1, 2, "inf"):
        dear = cg.radius(figure_ensemble(threshold=0.5), [X], [0], cg.Attacker(norm)).radius[0]
        cheap = cg.radius(figure_ensemble(threshold=0.3), [X], [0], cg.Attacker(norm)).radius[0]
        assert dear == pytest.approx(4.9)
        assert cheap == pytest.approx(0.9)
