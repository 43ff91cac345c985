"""Trees of robust training: their order, their draws, and the rows that they count."""

from __future__ import annotations

import numpy as np
import pytest

import carvegbm as cg
from carvegbm import _core
from carvegbm.training.binning import reach_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.robust.booster import Coder
from carvegbm.training.validation import blank_ensemble
from training import problems
from training.estimators import robust_classifier, robust_regressor


def grown(X, y, budget=0.05, rounds=4, **options):
    """Trees grown on rows of two classes against an attacker of norm inf."""
    attacker, blank = cg.Attacker("inf", budget), blank_ensemble(X.shape[1])
    rows = Dataset(X, y)
    bins = reach_bins(rows, ExclusionRule.against(attacker, blank)).choose(20, None)
    coded = Coder(bins, attacker, blank, "binary", threads=1).code(rows)
    booster = coded.booster(_core.BoostingOptions(min_data_in_leaf=5, **options), 1)
    assert all(booster.round() for _ in range(rounds))
    return booster.trees


def disordered_splits(tree):
    """Number of splits below which the ranges of scores of both sides overlap."""
    children = list(zip(tree.left.tolist(), tree.right.tolist(), strict=True))

    def below(node):
        if node < 0:
            return [tree.values[~node]]
        return [score for child in children[node] for score in below(child)]

    sides = [[below(child) for child in pair] for pair in children]
    return sum(not (max(a) <= min(b) or max(b) <= min(a)) for a, b in sides)


def test_ordered_trees_agree_with_every_split_all_the_way_down():
    X, y = problems.two_classes(200, 4)
    free, ordered = (
        sum(map(disordered_splits, grown(X, y, num_leaves=24, ordered=ordered)))
        for ordered in (False, True)
    )
    assert ordered == 0
    assert free > 0


@pytest.mark.parametrize("share", ["feature_fraction", "feature_fraction_bynode"])
def test_a_draw_without_a_split_does_not_end_training(share):
    """One feature of forty tells the classes apart, and each draw holds ten of them."""
    rng = np.random.default_rng(0)
    X, y = rng.random((300, 40)), rng.integers(0, 2, 300)
    X[:, 7] = y
    trees = grown(X, y, budget=0.4, rounds=5, **{share: 0.25})
    assert all((tree.feature == 7).any() for tree in trees)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_nodes_count_the_rows_that_reach_them(kind):
    make, problem = {
        "binary": (robust_classifier, problems.two_classes),
        "multiclass": (robust_classifier, problems.three_classes),
        "regression": (robust_regressor, problems.numbers),
    }[kind]
    X, y = problem(300)
    booster = make(n_estimators=3).fit(X, y).booster_
    reached, frame = booster.predict(X, pred_leaf=True), booster.trees_to_dataframe()
    for tree, leaves in enumerate(reached.T):
        nodes = frame[frame.tree_index == tree]
        ends = nodes[nodes.left_child.isna()]
        numbers = [int(name.split("L")[1]) for name in ends.node_index]
        assert ends["count"].tolist() == [(leaves == number).sum() for number in numbers]
        assert nodes["count"].iloc[0] == len(X)
