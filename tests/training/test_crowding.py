"""Crowding: the share of rows near a threshold; certified training leaves crowded ones out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.training.binning import BinMapper, crowding, quantile_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from training import problems


def rule_for(attacker, n_features):
    blank = cg.Ensemble.from_trees([{"score": 0.0}], n_features=n_features)
    return ExclusionRule.against(attacker, blank)


def share_within(column, labels, threshold, half):
    """The largest share of a class within [threshold - half, threshold + half], exactly."""
    inside = np.array(
        [abs(Fraction(float(value)) - Fraction(threshold)) <= half for value in column]
    )
    return max(inside[labels == label].mean() for label in np.unique(labels))


@given(
    seed=st.integers(0, 2**31),
    budget=st.sampled_from([0.0, 0.125, 0.25, 0.5, 2.0]),
    n_classes=st.integers(1, 4),
    threads=st.sampled_from([1, 2]),
)
def test_crowding_is_the_largest_share_of_a_class_within_reach(seed, budget, n_classes, threads):
    """On a lattice, where many values lie exactly at v - w and v + w: these count."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-8, 9, size=(30, 3)) / 8
    labels = rng.integers(n_classes, size=30)
    scale = rng.choice([0.25, 0.5, 1.0, 2.0], size=3)
    values = tuple(np.unique(rng.integers(-8, 9, size=5) / 8) for _ in range(3))
    candidates = BinMapper(values, X.min(axis=0), X.max(axis=0))
    rule = rule_for(cg.Attacker("inf", budget, scale=scale), 3)
    found = crowding(candidates, Dataset(X, labels), rule, threads)
    for feature in range(3):
        half = Fraction(budget) * Fraction(float(scale[feature]))
        expected = [share_within(X[:, feature], labels, v, half) for v in values[feature]]
        assert found[feature].tolist() == pytest.approx(expected, rel=1e-15)


def test_values_at_the_very_edge_of_the_window_count():
    X = np.array([[0.0], [1.0], [2.0], [2.0 + 2**-40]])
    candidates = BinMapper((np.array([1.0]),), X.min(axis=0), X.max(axis=0))
    (found,) = crowding(candidates, Dataset(X, np.zeros(4)), rule_for(cg.Attacker("inf", 1), 1))
    assert found.tolist() == [0.75]


@pytest.mark.parametrize("norm", [1, 2, 3])
def test_other_norms_look_at_a_part_of_the_budget(norm):
    X, y = problems.two_classes(120)
    candidates = quantile_bins(X, max_bin=20)
    attacker = cg.Attacker(norm, 0.1, scale=np.linspace(0.5, 2, 8))
    found = crowding(candidates, Dataset(X, y), rule_for(attacker, 8))
    for feature in range(8):
        half = Fraction(0.3 ** (1 / norm) * 0.1 * float(np.linspace(0.5, 2, 8)[feature]))
        expected = [share_within(X[:, feature], y, v, half) for v in candidates.thresholds[feature]]
        assert found[feature].tolist() == pytest.approx(expected, rel=1e-15)


def test_thresholds_out_of_the_attackers_reach_are_not_crowded():
    X, y = problems.two_classes(120)
    candidates = quantile_bins(X)
    attacker = cg.Attacker("inf", 0.2, features=[0, 2, 3], bounds=([0.0] * 8, [0.6] * 8))
    found = crowding(candidates, Dataset(X, y), rule_for(attacker, 8))
    free = crowding(candidates, Dataset(X, y), rule_for(cg.Attacker("inf", 0.2), 8))
    for feature, values in enumerate(candidates.thresholds):
        within = (values >= 0) & (values < 0.6) & (feature in (0, 2, 3))
        assert np.array_equal(found[feature], np.where(within, free[feature], 0.0))
        assert (free[feature] > 0).all()


def test_no_quiet_threshold_at_all_gives_a_constant():
    X, y = problems.two_classes(120)
    model = cg.LargeSpreadClassifier(
        budget=0.3, certified=True, max_crowding=0.01, min_child_samples=5, n_jobs=1
    )
    with pytest.warns(UserWarning, match="the model is constant"):
        model.fit(X, y)
    assert (model.ensemble_.nodes["feature"] < 0).all()


@pytest.mark.parametrize(
    "options",
    [
        {"norm": "inf", "budget": 0.02},
        {"norm": 1, "budget": 0.1},
        {"norm": 2, "budget": 0.05, "scale": {0: 2.0, 1: 0.5}},
        {"norm": "inf", "budget": 0.02, "features": [0, 1]},
    ],
)
@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_trees_never_split_at_a_threshold_more_crowded_than_the_max_crowding(problem, options):
    X, y = problem(300)
    # A third of the rows sits in a dense band of each feature: some thresholds are very crowded.
    X = np.where(X < 0.35, 0.45 + X / 10, X)
    max_crowding = 0.15

    def most_crowded(value):
        model = cg.LargeSpreadClassifier(
            **options,
            certified=True,
            max_crowding=value,
            clean_loss=None,
            n_estimators=15,
            num_leaves=6,
            min_child_samples=5,
            n_jobs=1,
        ).fit(X, y, eval_set=(X, y))
        splits = model.ensemble_.nodes[model.ensemble_.nodes["feature"] >= 0]
        assert len(splits) > 5
        rule = rule_for(model.attacker_, 8)
        shares = [
            share_within(
                X[:, f], y, v, Fraction(0.3 ** (1 / rule.norm) * rule.budget * float(rule.scale[f]))
            )
            for f, v in zip(splits["feature"].tolist(), splits["threshold"].tolist(), strict=True)
            if rule.changeable[f]
        ]
        return max(shares, default=0.0)

    assert most_crowded(max_crowding) <= max_crowding
    assert most_crowded(None) > max_crowding


def test_rows_with_numbers_are_all_of_one_class():
    X = np.linspace(0, 1, 50)[:, None]
    candidates = BinMapper((np.array([0.2, 0.5]),), np.zeros(1), np.ones(1))
    rule = rule_for(cg.Attacker("inf", 0.1), 1)
    as_numbers = crowding(candidates, Dataset(X, np.sin(X[:, 0])), rule)
    as_one_class = crowding(candidates, Dataset(X, np.zeros(50, dtype=np.int64)), rule)
    assert np.array_equal(as_numbers[0], as_one_class[0])
    assert 0 < as_numbers[0].max() < 0.5


# ── directions, steps, finite features ───────────────────────────────────────────────────────


def test_rows_count_on_the_side_from_which_a_threshold_can_be_crossed():
    X = np.array([[0.0], [1.0], [1.5], [2.0], [3.0]])
    rows = Dataset(X, np.zeros(5, dtype=int))
    candidates = BinMapper((np.array([1.5]),), X.min(axis=0), X.max(axis=0))
    for scale, expected in (((0, 1), 2), ((1, 0), 1), ((1, 1), 3), ((0, 1.5), 3), ((1.5, 0), 2)):
        rule = rule_for(cg.Attacker("inf", 1, scale={0: scale}), 1)
        (found,) = crowding(candidates, rows, rule)
        assert found.tolist() == [expected / 5]


def test_on_a_lattice_whole_steps_count():
    X = np.arange(10.0)[:, None] / 10
    rows = Dataset(X, np.zeros(10, dtype=int))
    candidates = BinMapper((np.array([0.45]),), X.min(axis=0), X.max(axis=0))
    for budget, scale, expected in ((0.19, (1, 1), 2), (0.2, (1, 1), 4), (0.2, (1, 0), 2)):
        attacker = cg.Attacker("inf", budget, scale={0: scale}, step="1/10")
        (found,) = crowding(candidates, rows, rule_for(attacker, 1))
        assert found.tolist() == [expected / 10]


def test_a_one_hot_group_is_crowded_where_a_change_is_within_the_window():
    X = np.eye(2)[[0, 0, 1, 1]]
    rows = Dataset(X, np.zeros(4, dtype=int))
    candidates = BinMapper((np.array([0.5]),) * 2, X.min(axis=0), X.max(axis=0))
    for norm, budget, expected in (("inf", 0.9, 0), ("inf", 1, 1), (1, 2, 0), (1, 4, 1)):
        rule = rule_for(cg.Attacker(norm, budget, one_hot=[[0, 1]]), 2)
        assert [c.tolist() for c in crowding(candidates, rows, rule)] == [[expected]] * 2


def test_missing_values_are_not_within_reach():
    X = np.array([[0.0], [1.0], [np.nan], [np.nan]])
    candidates = BinMapper((np.array([0.5]),), np.zeros(1), np.ones(1), frozenset([0]))
    rows = Dataset(X, np.zeros(4, dtype=int))
    (found,) = crowding(candidates, rows, rule_for(cg.Attacker("inf", 9), 1))
    assert found.tolist() == [0.5]
