"""The oracle on cases small enough to work out by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import oracle
from carvegbm.model.ensemble import Ensemble
from generators import KINDS, NORMS, make_case
from oracle import Attacker

INF = math.inf
NAN = math.nan


def leaf(score):
    return {"score": score}


def split(feature, threshold, left, right, missing=None):
    node = {"feature": feature, "threshold": threshold, "left": left, "right": right}
    return node if missing is None else node | {"missing": missing}


def stump(feature, threshold, left, right, missing=None):
    return split(feature, threshold, leaf(left), leaf(right), missing)


# Both features push towards the positive class: 0 moved, -1; one, 0.5 or -0.5; both, 1.
TWO_STUMPS = Ensemble.from_trees(
    [stump(0, 3.0, 0.0, 1.5), stump(1, 4.0, 0.0, 0.5)], n_features=2, base_score=-1.0
)


def test_raw_score_is_the_exact_sum():
    tenths = Ensemble.from_trees([leaf(0.1), leaf(0.2)], n_features=0, base_score=-0.3)
    assert oracle.raw_score(tenths, []) == [Fraction(0.1) + Fraction(0.2) - Fraction(0.3)]
    assert oracle.raw_score(tenths, []) != [Fraction(0.1 + 0.2 - 0.3)]


def test_raw_score_is_divided_by_average():
    forest = Ensemble.from_trees([leaf([1.0, 0.0])] * 3, n_features=0, average=3)
    assert oracle.raw_score(forest, []) == [1, 0]


def test_value_at_the_threshold_goes_left_and_the_next_float_right():
    one = Ensemble.from_trees([stump(0, 0.5, -1.0, 1.0)], n_features=1)
    assert oracle.raw_score(one, [0.5]) == [-1]
    assert oracle.raw_score(one, [math.nextafter(0.5, 1)]) == [1]


def test_float32_ensemble_routes_the_rounded_value():
    tenth = float(np.float32(0.1))
    narrow = Ensemble.from_trees(
        [stump(0, tenth, -1.0, 1.0)], n_features=1, input_precision="float32"
    )
    just_above = math.nextafter(tenth, 1)
    assert oracle.raw_score(narrow, [just_above]) == [-1]
    cost_of_going_right = Fraction(oracle.next_float(tenth, "float32")) - Fraction(just_above)
    costs = [a.cost for a in oracle.attacks(narrow, [just_above], Attacker(INF, INF))]
    assert costs == [0, cost_of_going_right]


def test_missing_value_follows_its_rule_and_cannot_be_moved():
    rule = Ensemble.from_trees([stump(0, 0.5, -1.0, 1.0, missing="right")], n_features=1)
    assert oracle.raw_score(rule, [NAN]) == [1]
    assert oracle.status(rule, [NAN], 1, Attacker(0, 1)) == "robust"
    assert oracle.status(rule, [0.7], 1, Attacker(0, 1)) == "fragile"


def test_decision_at_the_threshold_is_positive_and_argmax_takes_the_first():
    assert oracle.decide(TWO_STUMPS, [Fraction(0)]) == 1
    assert oracle.decide(TWO_STUMPS, [Fraction(-1, 10**30)]) == 0
    three = Ensemble.from_trees([leaf([0.0, 1.0, 1.0])], n_features=0)
    assert oracle.decide(three, [Fraction(0), Fraction(1), Fraction(1)]) == 1


def test_negative_tie_takes_the_threshold_from_the_positive_class():
    strict = Ensemble.from_trees(
        [stump(0, 0.5, -1.0, 0.0)], n_features=1, task="binary", tie="negative"
    )
    assert oracle.decide(strict, [Fraction(0)]) == 0
    assert oracle.decide(strict, [Fraction(1, 10**400)]) == 1
    # Up to 0 is not far enough: nothing flips, and the worst margin is 0 all the same.
    assert oracle.status(strict, [0.4], 0, Attacker(0, 1)) == "robust"
    assert oracle.worst_margin(strict, [0.4], 0, Attacker(0, 1)) == 0
    assert oracle.status(strict, [0.4], 1, Attacker(0, 1)) == "vulnerable"
    assert oracle.radius(strict, [0.4], 0, Attacker(0, 1)) == INF
    weak = Ensemble.from_trees([stump(0, 0.5, -1.0, 0.0)], n_features=1, tie="positive")
    assert oracle.status(weak, [0.4], 0, Attacker(0, 1)) == "fragile"


def test_tie_of_many_classes_goes_to_the_first_whatever_the_rule():
    three = Ensemble.from_trees([leaf([0.0, 1.0, 1.0])], n_features=0)
    assert oracle.decide(three, oracle.raw_score(three, [])) == 1


@pytest.mark.parametrize(
    ("value", "down", "up"),
    [
        (Fraction(1, 2), 0.5, 0.5),
        (Fraction(1, 10), math.nextafter(0.1, 0), 0.1),  # the nearest double is above
        (-Fraction(1, 10), -0.1, -math.nextafter(0.1, 0)),
        (Fraction(1, 10**400), 0.0, 5e-324),
        (-Fraction(1, 10**400), -5e-324, 0.0),
        (Fraction(10) ** 400, 1.7976931348623157e308, INF),
        (-(Fraction(10) ** 400), -INF, -1.7976931348623157e308),
        (Fraction(0), 0.0, 0.0),
    ],
)
def test_rounding_outward_reaches_the_next_double(value, down, up):
    assert (oracle.rounded_down(value), oracle.rounded_up(value)) == (down, up)


@pytest.mark.parametrize(
    ("norm", "budget", "expected"),
    [
        (INF, 2.999, "robust"),
        (INF, 3.001, "fragile"),
        (1, 3.001, "fragile"),
        (2, 3.001, "fragile"),
        (0, 0, "robust"),
        (0, 1, "fragile"),
    ],
)
def test_moving_one_feature_flips_once_it_is_affordable(norm, budget, expected):
    assert oracle.status(TWO_STUMPS, [0.0, 0.0], 0, Attacker(norm, budget)) == expected


@pytest.mark.parametrize(
    ("norm", "enough"), [(INF, 4.0), (1, 7.0), (2, 5.0), (3, 91 ** (1 / 3)), (0, 2)]
)
def test_joint_cost_is_the_norm_of_the_moves(norm, enough):
    both = Ensemble.from_trees(
        [stump(0, -3.0, 1.0, 0.0), stump(1, -4.0, 1.0, 0.0)], n_features=2, base_score=-2.0
    )
    x = [0.0, 0.0]
    assert oracle.radius(both, x, 0, Attacker(norm, 0)) == pytest.approx(enough, rel=1e-15)
    k = oracle.radius(both, x, 0, Attacker(norm, 0))
    assert oracle.status(both, x, 0, Attacker(norm, k)) == "fragile"
    below = k - 1 if norm == 0 else math.nextafter(k, 0)
    assert oracle.status(both, x, 0, Attacker(norm, below)) == "robust"


def test_budget_exactly_at_the_distance_is_enough_to_the_left_only():
    one = Ensemble.from_trees([stump(0, 0.5, -1.0, 1.0)], n_features=1)
    assert oracle.status(one, [0.75], 1, Attacker(1, 0.25)) == "fragile"
    assert oracle.status(one, [0.25], 0, Attacker(1, 0.25)) == "robust"
    past = math.nextafter(0.5, 1) - 0.25
    assert oracle.status(one, [0.25], 0, Attacker(1, past)) == "fragile"


def test_radius_is_the_smallest_double_whose_power_covers_the_cost():
    for cost in (Fraction(2), Fraction(0.1) ** 2, Fraction(5e-324) ** 2, Fraction(1e308) ** 2):
        k = oracle.smallest_budget(cost, 2)
        assert Fraction(k) ** 2 >= cost > Fraction(math.nextafter(k, 0)) ** 2
    assert oracle.smallest_budget(Fraction(0), 1) == 0.0
    assert oracle.smallest_budget(Fraction(1, 3), INF) >= Fraction(1, 3)
    assert oracle.smallest_budget(Fraction(2) ** 1024, INF) == INF


def test_scale_divides_the_distance():
    one = Ensemble.from_trees([stump(0, 0.5, -1.0, 1.0)], n_features=1)
    assert oracle.radius(one, [0.75], 1, Attacker(1, 0, scale=[0.5])) == 0.5


def test_fixed_features_and_bounds_hold_the_attacker_back():
    x = [0.0, 0.0]
    assert oracle.radius(TWO_STUMPS, x, 0, Attacker(1, 0, features=[1])) == INF
    held = ([0.0, 0.0], [3.0, 9.0])
    assert oracle.radius(TWO_STUMPS, x, 0, Attacker(1, 0, bounds=held)) == INF
    loose = ([0.0, 0.0], [math.nextafter(3.0, 4), 9.0])
    assert oracle.radius(TWO_STUMPS, x, 0, Attacker(1, 0, bounds=loose)) == math.nextafter(3.0, 4)


def test_a_feature_shared_by_all_trees_is_paid_once():
    shared = Ensemble.from_trees(
        [stump(0, 1.0, 0.0, 1.0), stump(0, 1.0, 0.0, 1.0)], n_features=1, base_score=-2.0
    )
    assert oracle.radius(shared, [0.0], 0, Attacker(1, 0)) == math.nextafter(1.0, 2)
    assert oracle.radius(shared, [0.0], 0, Attacker(0, 0)) == 1


def test_robustness_is_the_share_of_robust_instances():
    rows, labels = [[0.0, 0.0], [0.0, 0.0], [5.0, 5.0], [-9.0, 0.0]], [0, 1, 1, 0]
    shares = [
        oracle.robustness(TWO_STUMPS, rows, labels, Attacker(INF, budget))
        for budget in (0.0, 1.0, 1.99, 2.0, 3.01)
    ]
    # The second is wrong; the third needs 2 to fall to 3, the first a little more than 3 to rise.
    assert shares == [Fraction(3, 4)] * 3 + [Fraction(1, 2), Fraction(1, 4)]


def test_contradictory_splits_are_never_reached():
    dead = split(0, 1.0, stump(0, 2.0, 0.0, 100.0), leaf(0.5))
    ensemble = Ensemble.from_trees([dead], n_features=1, task="regression")
    assert oracle.output_range(ensemble, [0.0], Attacker(0, 1)) == ([0], [Fraction(1, 2)])


def test_status_of_wrong_instances():
    x = [0.0, 0.0]
    assert oracle.status(TWO_STUMPS, x, 1, Attacker(INF, 1.0)) == "vulnerable"
    assert oracle.status(TWO_STUMPS, x, 1, Attacker(INF, 3.5)) == "broken"
    assert oracle.radius(TWO_STUMPS, x, 1, Attacker(INF, 3.5)) == 0
    assert oracle.worst_margin(TWO_STUMPS, x, 1, Attacker(INF, 3.5)) == Fraction(1, 2)
    assert oracle.worst_margin(TWO_STUMPS, x, 0, Attacker(INF, 3.5)) == Fraction(-1, 2)


def test_wrong_multiclass_instance_is_broken_only_if_one_attack_beats_all_rivals():
    # Left of 0 class 0 beats 1 but loses to 2, right of 0 the other way round.
    one_rival_at_a_time = Ensemble.from_trees(
        [stump(0, 0.0, [0.0, -1.0, 1.0], [0.0, 1.0, -1.0])], n_features=1
    )
    assert oracle.status(one_rival_at_a_time, [-1.0], 0, Attacker(0, 1)) == "vulnerable"
    beaten = Ensemble.from_trees([stump(0, 0.0, [0.0, -1.0, 1.0], [0.0, 0.0, 0.0])], n_features=1)
    assert oracle.status(beaten, [-1.0], 0, Attacker(0, 1)) == "broken"


def test_multiclass_tie_goes_to_the_first_class():
    tie = Ensemble.from_trees([stump(0, 0.0, [1.0, 0.0, 0.5], [1.0, 1.0, 1.0])], n_features=1)
    assert oracle.status(tie, [-1.0], 0, Attacker(0, 1)) == "robust"
    assert oracle.worst_margin(tie, [-1.0], 0, Attacker(0, 1)) == 0
    tie = Ensemble.from_trees([stump(0, 0.0, [0.0, 1.0, 0.5], [1.0, 1.0, 1.0])], n_features=1)
    assert oracle.status(tie, [-1.0], 1, Attacker(0, 1)) == "fragile"


def test_spread_at_exactly_twice_the_budget_is_not_large():
    pair = Ensemble.from_trees([stump(0, 0.25, 0.0, 1.0), stump(0, 0.75, 0.0, 1.0)], n_features=1)
    assert oracle.spread(pair) == Fraction(1, 2)
    assert not oracle.is_large_spread(pair, Attacker(1, 0.25))
    assert oracle.is_large_spread(pair, Attacker(1, math.nextafter(0.25, 0)))
    assert not oracle.is_large_spread(pair, Attacker(0, 1))
    assert oracle.is_large_spread(pair, Attacker(0, 1, features=[]))
    assert oracle.is_large_spread(pair, Attacker(1, 0.25, scale=[0.5]))
    within = ([0.0], [0.75])
    assert oracle.is_large_spread(pair, Attacker(1, 0.25, bounds=within))
    crossing = ([0.0], [math.nextafter(0.75, 1)])
    assert not oracle.is_large_spread(pair, Attacker(1, 0.25, bounds=crossing))


def test_spread_is_not_large_at_budget_0_unless_it_is_positive():
    same = Ensemble.from_trees([stump(0, 0.25, 0.0, 1.0), stump(0, 0.25, 0.0, 1.0)], n_features=1)
    close = Ensemble.from_trees(
        [stump(0, 0.25, 0.0, 1.0), stump(0, math.nextafter(0.25, 1), 0.0, 1.0)], n_features=1
    )
    assert not oracle.is_large_spread(same, Attacker(1, 0.0))
    assert oracle.is_large_spread(same, Attacker(1, 0.0, features=[]))
    assert oracle.is_large_spread(close, Attacker(INF, 0.0))
    assert not oracle.is_large_spread(close, Attacker(0, 0))


def test_spread_within_one_tree_does_not_count():
    chain = split(0, 0.25, leaf(0.0), stump(0, 0.5, 1.0, 2.0))
    assert oracle.spread(Ensemble.from_trees([chain], n_features=1)) == INF


def test_condition_per_instance_counts_thresholds_within_reach_only():
    pair = Ensemble.from_trees([stump(0, 0.25, 0.0, 1.0), stump(0, 0.75, 0.0, 1.0)], n_features=1)
    assert not oracle.is_large_spread_at(pair, [math.nextafter(0.5, 1)], Attacker(1, 0.25 + 1e-9))
    assert oracle.is_large_spread_at(pair, [0.5], Attacker(1, 0.25))
    assert oracle.is_large_spread_at(pair, [5.0], Attacker(1, 0.25))


def test_allowed_refuses_what_the_attacker_cannot_do():
    attacker = Attacker(1, 1.0, features=[0], bounds=([0.0, 0.0], [2.0, 2.0]))
    x = [1.0, 1.0]
    assert oracle.allowed(TWO_STUMPS, x, [2.0, 1.0], attacker)
    assert not oracle.allowed(TWO_STUMPS, x, [math.nextafter(2.0, 3), 1.0], attacker)
    assert not oracle.allowed(TWO_STUMPS, x, [1.0, 1.5], attacker)
    assert not oracle.allowed(TWO_STUMPS, x, [INF, 1.0], attacker)
    assert not oracle.allowed(TWO_STUMPS, x, [2.0, 1.0], attacker._replace(budget=0.999))


def test_an_ensemble_without_trees_is_constant():
    constant = Ensemble.from_trees([], n_features=1, base_score=0.0)
    assert oracle.status(constant, [0.0], 1, Attacker(0, 1)) == "robust"
    assert oracle.radius(constant, [0.0], 1, Attacker(0, 1)) == INF


@pytest.mark.parametrize("norm", NORMS)
def test_no_random_attack_does_better_than_the_enumerated_ones(norm):
    """Values at, next to and between thresholds, in any combination the attacker can afford."""
    rng = np.random.default_rng(0)
    beyond_x = 0
    for seed in range(60):
        case = make_case(seed, norm, KINDS[seed % len(KINDS)])
        ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
        right = oracle.decide(ensemble, oracle.raw_score(ensemble, x)) == label
        extreme = oracle.worst_margin(ensemble, x, label, attacker)
        best = oracle.witness(ensemble, x, label, attacker)
        values = [
            [value for value, _ in oracle.cell_moves(ensemble, x, attacker, feature)]
            for feature in range(len(x))
        ]
        for _ in range(30):
            z = [_some_value(rng, old, known) for old, known in zip(x, values, strict=True)]
            if not oracle.allowed(ensemble, x, z, attacker):
                continue
            beyond_x += z != x
            raw = oracle.raw_score(ensemble, z)
            margin = oracle.margin(ensemble, raw, label)
            assert margin >= extreme if right else margin <= extreme
            if (oracle.decide(ensemble, raw) == label) != right:
                assert best is not None
                assert oracle.distance(x, z, attacker) >= best.cost
    assert beyond_x > 100


def _some_value(rng, old, known):
    """x itself, a value that crosses a threshold, its neighbour, or something in between."""
    if math.isnan(old) or rng.random() < 0.5:
        return old
    new = float(rng.choice(known))
    choices = [new, math.nextafter(new, INF), math.nextafter(new, -INF), old + (new - old) / 2]
    return float(rng.choice(choices))
