"""The ban rule, against rationals."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.training.large_spread.exclusion import ExclusionRule, OpenThresholds


def rule(norm, budget, n_features=1, **options):
    blank = cg.Ensemble.from_trees([{"score": 0.0}], n_features=n_features)
    return ExclusionRule.against(cg.Attacker(norm, budget, **options), blank)


@st.composite
def cases(draw):
    """Thresholds on a pixel lattice or anywhere, and budgets that often make exact ties."""
    if draw(st.booleans()):
        levels = draw(st.lists(st.integers(0, 255), min_size=1, max_size=40, unique=True))
        thresholds = np.sort([(level + 0.5) / 255 for level in levels])
    else:
        thresholds = np.unique(draw(st.lists(st.floats(-10, 10), min_size=1, max_size=40)))
    used = draw(st.integers(0, len(thresholds) - 1))
    other = draw(st.integers(0, len(thresholds) - 1))
    scale = draw(st.sampled_from([1.0, 0.1, 3.0]))
    gap = abs(thresholds[used] - thresholds[other])
    budget = draw(
        st.sampled_from([0.0, gap / 2, gap / 2 / scale, float(np.nextafter(gap / 2, 9)), 0.01])
    )
    return thresholds, used, scale, budget if budget == 0 or budget > 1e-90 else 0.0


@given(cases())
def test_exactly_the_thresholds_within_twice_the_budget_are_closed(case):
    thresholds, used, scale, budget = case
    state = OpenThresholds([thresholds], rule("inf", budget, scale=scale))
    state.close_after([0], [used])
    limit = 2 * Fraction(budget) * Fraction(scale)
    far = [abs(Fraction(v) - Fraction(thresholds[used])) > limit for v in thresholds.tolist()]
    assert state.is_open(0).tolist() == far
    assert state.n_open == sum(far)


def test_a_pair_at_exactly_twice_the_budget_is_closed_and_one_float_more_is_open():
    thresholds = np.array([0.25, 0.5, np.nextafter(0.75, 1)])
    state = OpenThresholds([thresholds], rule(1, 0.125))
    state.close_after([0], [1])
    assert state.is_open(0).tolist() == [False, False, True]


def test_norm_0_closes_all_thresholds_of_a_used_feature():
    state = OpenThresholds([np.arange(5.0), np.arange(3.0)], rule(0, 2, 2))
    assert state.close_after([1], [0]) == [1]
    assert state.is_open(0).all()
    assert not state.is_open(1).any()
    assert state.n_open == 5


@pytest.mark.parametrize("norm", [0, 1, "inf"])
def test_features_the_attacker_cannot_change_are_never_restricted(norm):
    state = OpenThresholds([np.arange(5.0)] * 2, rule(norm, 9, 2, features=[1]))
    assert state.close_after([0, 1], [2, 2]) == [1]
    assert state.is_open(0).all()
    assert not state.is_open(1).any()


@pytest.mark.parametrize("norm", [0, 2])
def test_thresholds_that_cannot_be_crossed_within_the_bounds_neither_close_nor_are_closed(norm):
    thresholds = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    state = OpenThresholds([thresholds], rule(norm, 9, bounds=(0, 1)))
    assert state.close_after([0], [4]) == []
    assert state.close_after([0], [1]) == [0]
    assert state.is_open(0).tolist() == [True, False, False, True, True]


@given(st.lists(st.booleans(), min_size=1, max_size=20))
def test_merged_codes_tell_apart_what_open_thresholds_tell_apart(flags):
    open_ = np.array(flags)
    thresholds = np.arange(float(len(open_)))
    state = OpenThresholds([thresholds], rule("inf", 0))
    closed = np.flatnonzero(~open_)
    state.close_after([0] * len(closed), closed)  # budget 0: a used threshold closes itself only
    assert (state.is_open(0) == open_).all()
    merged = state.merged_codes(0)
    codes = np.arange(len(open_) + 1)
    assert (merged >= codes).all()
    assert (merged[merged] == merged).all()
    for i in np.flatnonzero(open_):
        assert ((codes <= i) == (merged <= i)).all()
    for low, high in itertools.pairwise(codes):
        assert (merged[low] == merged[high]) == (not open_[low])
    # A split LightGBM finds between two merged codes is the open threshold between them.
    for code in codes[:-1]:
        if open_[: code + 1].any():
            position = state.threshold_at(0, int(code))
            assert open_[position]
            assert ((merged <= code) == (merged <= position)).all()


# ── directions, steps, finite features ───────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", ["inf", 1, 2])
@pytest.mark.parametrize(("down", "up"), [(0, 2), (2, 0), (0.5, 1), (3, 3)])
def test_the_two_directions_add_up(norm, down, up):
    thresholds = np.arange(0, 4, 0.125)
    state = OpenThresholds([thresholds], rule(norm, 0.25, scale={0: (down, up)}))
    state.close_after([0], [8])
    expected = np.abs(thresholds - thresholds[8]) > 0.25 * (down + up)
    assert state.is_open(0).tolist() == expected.tolist()


@given(
    numbers=st.lists(st.integers(-60, 60), min_size=1, max_size=30, unique=True),
    step=st.sampled_from(["1", "1/255", "1/10", "7/3"]),
    scales=st.sampled_from([(1.0, 1.0), (0.0, 3.0), (0.5, 0.0), (2.0, 0.25)]),
    share=st.sampled_from([0.0, 0.4, 1.0, 1.5, 2.6, 7.0]),
    data=st.data(),
)
def test_of_lattice_thresholds_those_with_too_few_points_between_are_closed(
    numbers, step, scales, share, data
):
    """As the large-spread condition of verification says, for every pair."""
    exact = Fraction(step)
    thresholds = np.array([float((n + Fraction(1, 2)) * exact) for n in sorted(numbers)])
    budget = float(share * exact)
    attacker = cg.Attacker("inf", budget, scale={0: scales}, step={0: step})
    state = OpenThresholds([thresholds], rule("inf", budget, scale={0: scales}, step={0: step}))
    used = data.draw(st.integers(0, len(thresholds) - 1))
    state.close_after([0], [used])

    def stump(threshold):
        return {
            "feature": 0,
            "threshold": float(threshold),
            "left": {"score": -1.0},
            "right": {"score": 1.0},
        }

    for threshold, is_open in zip(thresholds, state.is_open(0), strict=True):
        pair = cg.Ensemble.from_trees([stump(thresholds[used]), stump(threshold)], n_features=1)
        assert cg.is_large_spread(pair, attacker) == is_open


def test_a_budget_below_one_step_restricts_nothing():
    state = OpenThresholds([np.arange(5) + 0.5], rule("inf", 0.99, step=1))
    assert state.close_after([0], [2]) == []
    state = OpenThresholds([np.arange(5) + 0.5], rule("inf", 1.0, step=1))
    assert state.close_after([0], [2]) == [0]
    assert state.is_open(0).tolist() == [True, False, False, False, True]


@pytest.mark.parametrize(
    ("norm", "budget", "scale", "closes"),
    [
        ("inf", 0.99, 1, False),
        ("inf", 1, 1, True),
        (1, 0.5, 2, True),
        (2, 0.4, 2, False),
        (0, 0, 1, False),
        (0, 1, 0.01, True),
    ],
)
def test_a_one_hot_group_is_closed_as_a_whole_if_a_change_is_affordable(
    norm, budget, scale, closes
):
    group = rule(norm, budget, 3, one_hot=[[0, 2]], scale=[scale, 1, scale])
    state = OpenThresholds([np.array([0.5])] * 3, group)
    assert state.close_after([2], [0]) == ([0, 2] if closes else [])
    assert [bool(state.is_open(f)[0]) for f in range(3)] == [not closes, True, not closes]


def test_categories_are_closed_as_a_whole_and_merged_into_one_code():
    blank = cg.Ensemble.from_trees(
        [{"score": 0.0}], n_features=2, categories={0: {4: "a", 9: "b"}}, category_rule="truncate"
    )
    known = {0: np.array([4, 9])}
    for budget, lost, merged in ((1, [0], [2, 2, 2]), (0.5, [], [0, 1, 2])):
        closing = ExclusionRule.against(cg.Attacker(1, budget), blank)
        state = OpenThresholds([np.empty(0), np.arange(2.0)], closing, categories=known)
        assert state.n_open == 3
        assert state.close_after([0], [0]) == lost
        assert state.merged_codes(0).tolist() == merged
        assert state.close_after([0], [0]) == []
        assert state.n_open == 3 - len(lost)


def test_missing_values_keep_their_code_and_are_told_from_all_others():
    state = OpenThresholds([np.arange(3.0)], rule("inf", 1), missing=[0])
    assert state.merged_codes(0).tolist() == [0, 1, 2, 3, 4]
    assert state.threshold_at(0, 3) == state.threshold_at(0, 50) == 3
    state.close_after([0, 0], [1, 3])  # position 3 is no threshold
    assert state.merged_codes(0).tolist() == [3, 3, 3, 3, 4]
    assert state.threshold_at(0, 2) == -1
    assert state.n_open == 0
