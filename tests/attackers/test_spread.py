"""Spread, and who is large-spread for whom: ties, limits, and the refusal that names the pair."""

from __future__ import annotations

import importlib
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.attackers.spread import largest_budget, require_large_spread
from plain_trees import ensemble, leaf, refused, split, stump

NUMBERS = [1, 2, 3, "inf"]  # norms that measure distances
LARGEST = float(np.finfo(np.float64).max)


def apart(*thresholds, **options):
    """A stump on feature 0 for every threshold."""
    return ensemble(*(stump(0, threshold) for threshold in thresholds), n_features=2, **options)


# ── spread ───────────────────────────────────────────────────────────────────────────────────


def test_spread_is_the_smallest_distance_between_two_trees():
    assert cg.spread(apart(0.0, 1.0, 1.25, 5.0)) == 0.25


def test_thresholds_of_one_tree_do_not_count():
    tree = split(0, 0.5, stump(0, 0.25), stump(0, 0.75))
    assert cg.spread(ensemble(tree)) == math.inf
    assert cg.spread(ensemble(tree, stump(0, 2.0))) == 1.25


def test_thresholds_of_different_features_do_not_count():
    assert cg.spread(ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2)) == math.inf


def test_equal_thresholds_in_two_trees_are_no_spread():
    assert cg.spread(apart(0.5, 0.5)) == 0


def test_thresholds_of_one_tree_between_those_of_others_do_not_count():
    own = split(0, 0.375, leaf(0.0), split(0, 0.5, leaf(0.0), stump(0, 0.625)))
    assert cg.spread(ensemble(stump(0, 0.0), own, stump(0, 0.875))) == 0.25


@pytest.mark.parametrize("trees", [[], [leaf(1.0), leaf(2.0)], [stump(0, 0.5)]])
def test_spread_is_infinite_where_nothing_is_shared(trees):
    assert cg.spread(ensemble(*trees)) == math.inf


def test_spread_takes_whatever_load_takes(sample_folder):
    path = sample_folder / "sample_model.txt"
    assert cg.spread(path) == cg.spread(cg.load(path))


# ── large-spread ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", NUMBERS)
def test_exactly_twice_the_budget_is_not_enough(norm):
    model = apart(0.25, 0.75)
    assert not cg.is_large_spread(model, cg.Attacker(norm, 0.25))
    assert cg.is_large_spread(model, cg.Attacker(norm, math.nextafter(0.25, 0)))


@pytest.mark.parametrize(
    ("low", "high"), [(0.1, 0.3), (-0.7, 0.1), (1e-30, 0.1), (0.1, 1e15 + 0.1)]
)
def test_tie_is_decided_on_the_numbers_and_not_on_their_rounded_difference(low, high):
    half = (high - low) / 2
    for budget in (math.nextafter(half, 0), half, math.nextafter(half, 1e300)):
        apart_by = cg.Attacker(1, budget)
        exact = 2 * Fraction(budget) < Fraction(high) - Fraction(low)
        assert cg.is_large_spread(apart(low, high), apart_by) == exact


def test_budget_zero_is_no_exception():
    """Large-spread is spread > 2 * budget (norm 0: no feature in two trees), as documented."""
    for norm in (0, *NUMBERS):
        assert not cg.is_large_spread(apart(0.5, 0.5), cg.Attacker(norm, 0))
        near = apart(0.5, math.nextafter(0.5, 1))
        assert cg.is_large_spread(near, cg.Attacker(norm, 0)) == (norm != 0)


def test_distances_are_measured_in_units_of_scale():
    model = ensemble(stump(0, 0.0), stump(0, 1.0), stump(1, 0.0), stump(1, 4.0), n_features=2)
    assert cg.is_large_spread(model, cg.Attacker("inf", 0.4))
    assert not cg.is_large_spread(model, cg.Attacker("inf", 0.4, scale=[2, 1]))
    assert cg.is_large_spread(model, cg.Attacker("inf", 0.4, scale=[1, 4]))
    assert not cg.is_large_spread(model, cg.Attacker("inf", 0.4, scale=[1, 5]))


@pytest.mark.parametrize("norm", [0, *NUMBERS])
def test_features_the_attacker_cannot_change_do_not_count(norm):
    model = ensemble(stump(0, 0.5), stump(0, 0.5), stump(1, 0.5), n_features=2)
    assert not cg.is_large_spread(model, cg.Attacker(norm, 1))
    assert cg.is_large_spread(model, cg.Attacker(norm, 1, features=[1]))
    assert not cg.is_large_spread(model, cg.Attacker(norm, 1, features=[0]))


@pytest.mark.parametrize("norm", [0, *NUMBERS])
@pytest.mark.parametrize(
    ("bounds", "counts"),
    [
        ((0.5, 1), True),  # 0.5 goes left, more goes right
        ((math.nextafter(0.5, 1), 1), False),  # all goes right
        ((0, math.nextafter(0.5, 1)), True),
        ((0, 0.5), False),  # all goes left
        ((0.5, 0.5), False),
    ],
)
def test_thresholds_that_the_bounds_keep_out_of_reach_do_not_count(norm, bounds, counts):
    attacker = cg.Attacker(norm, 1, bounds=bounds)
    assert cg.is_large_spread(apart(0.5, 0.5), attacker) == (not counts)


@pytest.mark.parametrize("norm", [0, *NUMBERS])
def test_bounds_of_a_float32_model_are_read_as_it_reads_values(norm):
    """A double just above t is read as t, and so lies left of it and can be moved right."""
    t = float(np.float32(0.1))
    model = apart(t, t, input_precision="float32")
    just_above = math.nextafter(t, 1)
    next_float32 = float(np.nextafter(np.float32(t), np.float32(1)))
    for lower, holds in ((just_above, False), (next_float32, True)):
        attacker = cg.Attacker(norm, 1, bounds=(lower, 1))
        assert cg.is_large_spread(model, attacker) == holds
    for upper, holds in ((just_above, True), (next_float32, False)):
        attacker = cg.Attacker(norm, 1, bounds=(-1, upper))
        assert cg.is_large_spread(model, attacker) == holds


def test_norm_0_allows_no_feature_in_two_trees_however_far_apart():
    assert not cg.is_large_spread(apart(-1e9, 1e9), cg.Attacker(0, 1))
    separate = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2)
    assert cg.is_large_spread(separate, cg.Attacker(0, 2))


# ── the ends of the number range ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("end", [math.inf, -math.inf, LARGEST])
def test_thresholds_that_no_number_can_cross_do_not_count(end):
    for norm in (0, *NUMBERS):
        assert cg.is_large_spread(apart(end, end), cg.Attacker(norm, 1))
        assert largest_budget(apart(end, end), cg.Attacker(norm, 1)) == math.inf
    status = cg.verify(apart(end, end), [[0.0, 0.0]], [1], cg.Attacker(0, 2)).status
    assert status.tolist() == ["robust" if end < 0 else "vulnerable"]


def test_thresholds_at_both_ends_overflow_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = apart(-1.5e308, 1.5e308)
        assert cg.spread(model) == math.inf
        for scale in (None, 1e-100, 1e100):
            assert cg.is_large_spread(model, cg.Attacker(1, 1e100, scale=scale))
            assert largest_budget(model, cg.Attacker(1, 1, scale=scale)) == 1e100


def test_tiny_distances_do_not_vanish():
    model = apart(0.0, 5e-324)
    assert cg.spread(model) == 5e-324
    assert not cg.is_large_spread(model, cg.Attacker(1, 1e-100, scale=1e-100))
    assert largest_budget(model, cg.Attacker(1, 1)) == 0


# ── the refusal ──────────────────────────────────────────────────────────────────────────────


def test_refusal_names_feature_trees_thresholds_and_the_largest_budget():
    model = ensemble(
        leaf(0.0),
        stump(1, 0.25),
        stump(0, 9.0),
        stump(1, 0.75),
        n_features=2,
        feature_names=["age", "height"],
    )
    with pytest.raises(cg.NotLargeSpreadError) as caught:
        require_large_spread(model, cg.Attacker(2, 0.3))
    error = caught.value
    assert (error.feature, error.trees, error.thresholds) == (1, (1, 3), (0.25, 0.75))
    assert error.largest_budget == math.nextafter(0.25, 0)
    message = str(error)
    assert "\n" not in message
    for word in ("height", "0.25 in tree 1", "0.75 in tree 3", "0.3", repr(error.largest_budget)):
        assert word in message
    require_large_spread(model, cg.Attacker(2, error.largest_budget))


def test_refusal_names_the_closest_pair_in_units_of_scale():
    model = ensemble(stump(0, 0.0), stump(0, 1.0), stump(1, 0.0), stump(1, 4.0), n_features=2)
    for scale, feature, largest in ((1, 0, 0.5), ([1, 8], 1, 0.25)):
        with pytest.raises(cg.NotLargeSpreadError) as caught:
            require_large_spread(model, cg.Attacker(1, 3, scale=scale))
        assert caught.value.feature == feature
        assert caught.value.largest_budget == math.nextafter(largest, 0)


def test_refusal_for_norm_0_says_that_no_budget_is_allowed():
    with pytest.raises(cg.NotLargeSpreadError) as caught:
        require_large_spread(apart(0.0, 9.0), cg.Attacker(0, 1))
    assert caught.value.largest_budget == 0
    for word in ("feature 0", "tree 0", "tree 1", "norm 0", "whatever the budget"):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step": 1, "scale": {0: (0, 5)}}, ("2 steps apart", "the budget 3 moves it by")),
        ({"scale": {0: (0, 5)}}, ("2 apart", "the budget 3 moves it by")),
        ({"scale": 5}, ("0.4 apart", "twice the budget 3")),
    ],
)
def test_refusal_says_how_far_the_budget_goes(options, words):
    with pytest.raises(cg.NotLargeSpreadError) as caught:
        require_large_spread(apart(1.0, 3.0), cg.Attacker(1, 3, **options))
    for word in (*words, "1.0 in tree 0", "3.0 in tree 1"):
        assert word in str(caught.value)


@pytest.mark.parametrize(("norm", "largest"), [(0, 0.0), (1, math.nextafter(1, 0))])
def test_refusal_of_states_has_no_thresholds(norm, largest):
    model = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2)
    with pytest.raises(cg.NotLargeSpreadError) as caught:
        require_large_spread(model, cg.Attacker(norm, 1, one_hot=[[0, 1]]))
    assert all(map(math.isnan, caught.value.thresholds))
    assert caught.value.largest_budget == largest
    assert "the one-hot group of feature 0" in str(caught.value)
    require_large_spread(model, cg.Attacker(norm, largest, one_hot=[[0, 1]]))


@pytest.mark.parametrize("use", [cg.verify, cg.attack])
def test_large_spread_engine_refuses_what_the_others_take(use):
    model, attacker = apart(0.25, 0.75), cg.Attacker("inf", 0.5)
    for options in ({"engine": "large-spread"}, {"on_violation": "raise"}):
        with refused("not large-spread", "feature 0", kind=cg.NotLargeSpreadError):
            use(model, [[0.0, 0.0]], [0], attacker, **options)
    assert use(model, [[0.0, 0.0]], [0], attacker).status.tolist() == ["fragile"]


@pytest.mark.parametrize("norm", NUMBERS)
@pytest.mark.parametrize("scale", [None, [3.0, 1.0]])
def test_largest_budget_is_the_last_one_that_holds(norm, scale):
    model = apart(0.1, 0.4, 0.8)
    kind = cg.Attacker(norm, 0, scale=scale)
    largest = largest_budget(model, kind)
    assert largest == pytest.approx(0.15 / (3 if scale else 1))
    assert cg.is_large_spread(model, kind.with_budget(largest))
    assert not cg.is_large_spread(model, kind.with_budget(math.nextafter(largest, 1)))


def test_largest_budget_is_infinite_or_zero_for_norm_0():
    assert largest_budget(apart(0.0, 9.0), cg.Attacker(0, 1)) == 0
    assert largest_budget(apart(0.0), cg.Attacker(0, 1)) == math.inf
    assert largest_budget(apart(0.0, 9.0), cg.Attacker(0, 1, features=[1])) == math.inf


def test_attackers_of_other_threads_are_not_mistaken_for_this_one(monkeypatch):
    """While one closest pair is looked for, another thread asks about another attacker."""
    spread_module = importlib.import_module("carvegbm.attackers.spread")
    model = apart(0.25, 0.75)
    near, far = cg.Attacker("inf", 0.3), cg.Attacker("inf", 0.3, scale=0.1)
    real = spread_module._find_closest_pair

    def interrupted(ensemble, attacker, limits):
        found = real(ensemble, attacker, limits)
        if attacker is near:
            monkeypatch.setattr(spread_module, "_find_closest_pair", real)
            assert cg.is_large_spread(ensemble, far)
        return found

    monkeypatch.setattr(spread_module, "_find_closest_pair", interrupted)
    assert not cg.is_large_spread(model, near)
    assert cg.is_large_spread(model, far)
    assert not cg.is_large_spread(model, near)
