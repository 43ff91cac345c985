"""Quiet thresholds: how crowded a threshold is, and that trees keep off the crowded ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.training.certified.job import Job
from carvegbm.training.certified.quiet import crowding, width_of
from carvegbm.training.data import Labelled
from carvegbm.training.growing.boosting import Boosting
from carvegbm.training.growing.closing import ClosingRule
from carvegbm.training.growing.model import Kind
from carvegbm.training.growing.thresholds import Candidates, find_candidates
from training import problems


def rule_for(attacker, n_features):
    blank = cg.Ensemble.from_trees([{"score": 0.0}], n_features=n_features)
    return ClosingRule.against(attacker, blank)


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
    candidates = Candidates(values, X.min(axis=0), X.max(axis=0))
    rule = rule_for(cg.Attacker("inf", budget, scale=scale), 3)
    found = crowding(candidates, Labelled(X, labels), rule, threads)
    for feature in range(3):
        half = Fraction(budget) * Fraction(float(scale[feature]))
        expected = [share_within(X[:, feature], labels, v, half) for v in values[feature]]
        assert found[feature].tolist() == pytest.approx(expected, rel=1e-15)


def test_values_at_the_very_edge_of_the_window_count():
    X = np.array([[0.0], [1.0], [2.0], [2.0 + 2**-40]])
    candidates = Candidates((np.array([1.0]),), X.min(axis=0), X.max(axis=0))
    (found,) = crowding(candidates, Labelled(X, np.zeros(4)), rule_for(cg.Attacker("inf", 1), 1))
    assert found.tolist() == [0.75]


@pytest.mark.parametrize("norm", [1, 2, 3])
def test_other_norms_look_at_a_part_of_the_budget(norm):
    X, y = problems.two_classes(120)
    candidates = find_candidates(X, max_bin=20)
    attacker = cg.Attacker(norm, 0.1, scale=np.linspace(0.5, 2, 8))
    found = crowding(candidates, Labelled(X, y), rule_for(attacker, 8))
    for feature in range(8):
        half = Fraction(0.3 ** (1 / norm) * 0.1 * float(np.linspace(0.5, 2, 8)[feature]))
        expected = [share_within(X[:, feature], y, v, half) for v in candidates.values[feature]]
        assert found[feature].tolist() == pytest.approx(expected, rel=1e-15)


def test_the_window_grows_with_the_norm_up_to_the_whole_budget():
    widths = [width_of(norm) for norm in (1, 2, 3, 10, math.inf)]
    assert widths == sorted(widths)
    assert widths[0] == pytest.approx(0.3)
    assert widths[-1] == 1


def test_thresholds_out_of_the_attackers_reach_are_not_crowded():
    X, y = problems.two_classes(120)
    candidates = find_candidates(X)
    attacker = cg.Attacker("inf", 0.2, features=[0, 2, 3], bounds=([0.0] * 8, [0.6] * 8))
    found = crowding(candidates, Labelled(X, y), rule_for(attacker, 8))
    free = crowding(candidates, Labelled(X, y), rule_for(cg.Attacker("inf", 0.2), 8))
    for feature, values in enumerate(candidates.values):
        within = (values >= 0) & (values < 0.6) & (feature in (0, 2, 3))
        assert np.array_equal(found[feature], np.where(within, free[feature], 0.0))
        assert (free[feature] > 0).all()


def test_thresholds_exactly_as_crowded_as_the_quietness_are_kept():
    X = np.array([[0.0], [1.0], [1.0], [2.0], [4.0], [4.0], [4.0], [9.0]])
    rows = Labelled(X, np.zeros(8, dtype=int))
    values = np.array([0.5, 1.5, 3.5, 6.0])  # crowded by 3, 3, 3 and 0 of 8 rows
    candidates = Candidates((values,), X.min(axis=0), X.max(axis=0))
    for quietness, expected in (
        (None, values),
        (3 / 8, values),
        (math.nextafter(3 / 8, 0), values[3:]),
        (1e-9, values[3:]),
    ):
        kind = Kind("binary", 1, ["x"], [0, 1])
        job = Job(Boosting(rows, cg.Attacker("inf", 0.5), {}, kind, n_rounds=1), (quietness,))
        job._candidates = candidates
        assert job._quiet(quietness).values[0].tolist() == expected.tolist()


def test_no_quiet_threshold_at_all_gives_a_constant():
    X, y = problems.two_classes(120)
    model = cg.LargeSpreadClassifier(
        budget=0.3, certified=True, quietness=0.01, min_child_samples=5, n_jobs=1
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
def test_trees_never_split_at_a_threshold_more_crowded_than_the_quietness(problem, options):
    X, y = problem(300)
    # A third of the rows sits in a dense band of each feature: some thresholds are very crowded.
    X = np.where(X < 0.35, 0.45 + X / 10, X)
    quietness = 0.15

    def most_crowded(value):
        model = cg.LargeSpreadClassifier(
            **options,
            certified=True,
            quietness=value,
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
                X[:, f], y, v, Fraction(width_of(rule.norm) * rule.budget * float(rule.scale[f]))
            )
            for f, v in zip(splits["feature"].tolist(), splits["threshold"].tolist(), strict=True)
            if rule.changeable[f]
        ]
        return max(shares, default=0.0)

    assert most_crowded(quietness) <= quietness
    assert most_crowded(None) > quietness


def test_rows_with_numbers_are_all_of_one_class():
    X = np.linspace(0, 1, 50)[:, None]
    candidates = Candidates((np.array([0.2, 0.5]),), np.zeros(1), np.ones(1))
    rule = rule_for(cg.Attacker("inf", 0.1), 1)
    as_numbers = crowding(candidates, Labelled(X, np.sin(X[:, 0])), rule)
    as_one_class = crowding(candidates, Labelled(X, np.zeros(50, dtype=np.int64)), rule)
    assert np.array_equal(as_numbers[0], as_one_class[0])
    assert 0 < as_numbers[0].max() < 0.5


# ── directions, steps, finite features ───────────────────────────────────────────────────────


def test_rows_count_on_the_side_from_which_a_threshold_can_be_crossed():
    X = np.array([[0.0], [1.0], [1.5], [2.0], [3.0]])
    rows = Labelled(X, np.zeros(5, dtype=int))
    candidates = Candidates((np.array([1.5]),), X.min(axis=0), X.max(axis=0))
    for scale, expected in (((0, 1), 2), ((1, 0), 1), ((1, 1), 3), ((0, 1.5), 3), ((1.5, 0), 2)):
        rule = rule_for(cg.Attacker("inf", 1, scale={0: scale}), 1)
        (found,) = crowding(candidates, rows, rule)
        assert found.tolist() == [expected / 5]


def test_on_a_lattice_whole_steps_count():
    X = np.arange(10.0)[:, None] / 10
    rows = Labelled(X, np.zeros(10, dtype=int))
    candidates = Candidates((np.array([0.45]),), X.min(axis=0), X.max(axis=0))
    for budget, scale, expected in ((0.19, (1, 1), 2), (0.2, (1, 1), 4), (0.2, (1, 0), 2)):
        attacker = cg.Attacker("inf", budget, scale={0: scale}, step="1/10")
        (found,) = crowding(candidates, rows, rule_for(attacker, 1))
        assert found.tolist() == [expected / 10]


def test_a_one_hot_group_is_crowded_where_a_change_is_within_the_window():
    X = np.eye(2)[[0, 0, 1, 1]]
    rows = Labelled(X, np.zeros(4, dtype=int))
    candidates = Candidates((np.array([0.5]),) * 2, X.min(axis=0), X.max(axis=0))
    for norm, budget, expected in (("inf", 0.9, 0), ("inf", 1, 1), (1, 2, 0), (1, 4, 1)):
        rule = rule_for(cg.Attacker(norm, budget, one_hot=[[0, 1]]), 2)
        assert [c.tolist() for c in crowding(candidates, rows, rule)] == [[expected]] * 2


def test_missing_values_are_not_within_reach():
    X = np.array([[0.0], [1.0], [np.nan], [np.nan]])
    candidates = Candidates((np.array([0.5]),), np.zeros(1), np.ones(1), frozenset([0]))
    rows = Labelled(X, np.zeros(4, dtype=int))
    (found,) = crowding(candidates, rows, rule_for(cg.Attacker("inf", 9), 1))
    assert found.tolist() == [0.5]
