"""The oracle on directions, steps, categories and one-hot groups: by hand, and by brute force."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import everything
import oracle
from carvegbm.model.ensemble import Ensemble
from kinds import LIMITS, NORMS, TURNS, make_kind
from oracle import Attacker, Lattice
from plain_trees import leaf, stump

INF, NAN = math.inf, math.nan
TENTH = Fraction(1, 10)


def among(feature, codes, left=-1.0, right=1.0, **more):
    """Left for the codes that are listed."""
    return {
        "feature": feature,
        "categories": codes,
        "left": leaf(left),
        "right": leaf(right),
        **more,
    }


def model(*trees, n_features=1, **options):
    return Ensemble.from_trees(trees, n_features=n_features, **options)


def costs(ensemble, x, attacker):
    return [attack.cost for attack in oracle.attacks(ensemble, x, attacker)]


# ── directions ───────────────────────────────────────────────────────────────────────────────


def test_each_direction_has_its_own_price():
    two = model(stump(0, -2.0), stump(0, math.nextafter(3.0, 0)))
    moves = oracle.cell_moves(two, [0.0], Attacker(1, INF, scale=[(4, 0.5)]), 0)
    assert moves == [(0.0, 0), (-2.0, Fraction(1, 2)), (3.0, 6)]


def test_closed_direction_leads_nowhere():
    two = model(stump(0, -2.0), stump(0, 3.0))
    up = Attacker(0, 1, scale=[(0, 1)])
    assert [z for z, _ in oracle.cell_moves(two, [0.0], up, 0)] == [0.0, math.nextafter(3.0, 4)]
    assert not oracle.allowed(two, [0.0], [-2.0], up)
    assert len(oracle.cell_moves(two, [0.0], Attacker(0, 1, scale=[(0, 0)]), 0)) == 1


def test_one_directional_attacker_needs_half_the_spread():
    pair = model(stump(0, 0.25), stump(0, 0.75))
    assert oracle.largest_budget(pair, Attacker(INF, 0)) == Fraction(1, 4)
    assert oracle.largest_budget(pair, Attacker(INF, 0, scale=[(0, 1)])) == Fraction(1, 2)
    assert oracle.largest_budget(pair, Attacker(INF, 0, scale=[(3, 1)])) == Fraction(1, 8)
    assert oracle.largest_budget(pair, Attacker(INF, 0, scale=[(0, 0)])) == INF
    assert not oracle.is_large_spread(pair, Attacker(0, 0, scale=[(0, 1)]))
    assert oracle.is_large_spread(pair, Attacker(0, 9, scale=[(0, 0)]))


# ── steps ────────────────────────────────────────────────────────────────────────────────────


def test_moves_go_to_multiples_of_the_step_and_cost_whole_steps():
    one = model(stump(0, 0.25))
    attacker = Attacker(1, INF, step={0: TENTH})
    assert oracle.cell_moves(one, [0.1], attacker, 0) == [(0.1, 0), (0.3, Fraction(2, 10))]
    assert not oracle.allowed(one, [0.1], [0.26], attacker)
    assert oracle.allowed(one, [0.1], [0.3], attacker)


def test_budget_of_three_tenths_does_not_pay_for_three_steps_of_one_tenth():
    """The double 0.3 is less than 3/10, and 0.1 is more than 1/10."""
    one = model(stump(0, 0.25))
    attacker = Attacker(1, 0.3, step={0: TENTH})
    assert oracle.status(one, [0.0], 0, attacker) == "robust"
    enough = math.nextafter(0.3, 1)
    assert oracle.status(one, [0.0], 0, attacker._replace(budget=enough)) == "fragile"
    assert oracle.radius(one, [0.0], 0, attacker) == enough
    assert oracle.status(one, [0.2], 0, attacker._replace(budget=0.1)) == "fragile"


def test_threshold_on_a_lattice_point_keeps_that_point_left():
    lattice = Lattice(TENTH, "float64")
    assert lattice.last_left(0.3) == 3
    assert lattice.last_left(math.nextafter(0.3, 0)) == 2
    assert lattice.last_left(0.25) == 2
    assert lattice.last_left(-1e300) == -lattice.end - 1
    assert lattice.last_left(1e300) == lattice.end == 2**50


def test_float32_model_reads_lattice_points_rounded():
    lattice = Lattice(TENTH, "float32")
    assert lattice.value(1) == float(np.float32(0.1)) > 0.1
    assert lattice.last_left(0.1) == 0
    assert lattice.holds(0.1)
    assert lattice.holds(float(np.float32(0.1)))
    assert not lattice.holds(math.nextafter(0.1, 0))


def test_bounds_of_a_stepped_feature_hold_for_lattice_points():
    one = model(stump(0, 4.5))
    attacker = Attacker(INF, 9, step={0: Fraction(1)}, bounds=([0.5], [4.75]))
    assert oracle.status(one, [2.0], 0, attacker) == "robust"
    assert oracle.status(one, [2.0], 0, attacker._replace(bounds=([0.5], [5.0]))) == "fragile"


@pytest.mark.parametrize(
    ("scale", "gap", "largest"),
    [
        (1.0, 0, 1),  # one step either way crosses both
        (1.0, 1, 1),
        (1.0, 2, 2),
        ((0, 1), 1, 2),
        ((0, 1), 2, 3),
        ((2, 1), 2, 1),  # at 1, two steps down and one up
        ((2, 1), 3, Fraction(3, 2)),
    ],
)
def test_lattice_points_between_thresholds_count_for_the_spread(scale, gap, largest):
    pair = model(stump(0, 0.5), stump(0, gap + 0.75))
    attacker = Attacker(INF, 0, scale=[scale], step={0: Fraction(1)})
    assert oracle.largest_budget(pair, attacker) == largest
    assert oracle.is_large_spread(pair, attacker)  # at budget 0 nothing moves
    assert not oracle.is_large_spread(pair, attacker._replace(budget=float(largest)))
    below = math.nextafter(float(largest), 0)
    assert oracle.is_large_spread(pair, attacker._replace(budget=below))
    assert not oracle.is_large_spread(pair, attacker._replace(norm=0))


# ── categories ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rule", "value", "code"),
    [
        ("truncate", 3.7, 3),
        ("truncate", -0.5, 0),
        ("truncate", -1.0, oracle.NO_CODE),
        ("truncate", 2.0**31 - 0.5, 2**31 - 1),
        ("truncate", 2.0**31, oracle.NO_CODE),
        ("nonnegative", 3.7, 3),
        ("nonnegative", -0.0, 0),
        ("nonnegative", -0.5, oracle.NO_CODE),
        ("nonnegative", 2.0**24 - 1, 2**24 - 1),
        ("nonnegative", 2.0**24, oracle.NO_CODE),
        ("label", 30.0, 3),
        ("label", 3.0, oracle.NO_CODE),
    ],
)
def test_rule_says_which_code_a_number_stands_for(rule, value, code):
    labels = {0: 10.0, 3: 30.0} if rule == "label" else {0: 0, 3: 3}
    one = model(among(0, [3]), categories={0: labels}, category_rule=rule)
    assert oracle.code_of(one, 0, value) == code
    assert math.isnan(oracle.code_of(one, 0, NAN))


def test_listed_categories_go_left_and_all_others_right():
    one = model(among(0, [0, 3]), categories={0: {0: 0, 1: 1, 3: 3}}, category_rule="truncate")
    scores = [oracle.raw_score(one, [float(code)])[0] for code in (0, 1, 2, 3, 99, -1)]
    assert scores == [-1, 1, 1, -1, 1, 1]


def test_unknown_label_is_missing_where_the_model_says_so():
    tree = among(0, [0], missing="left")
    options = {"categories": {0: {0: 5.0, 1: 7.0}}, "category_rule": "label"}
    as_missing = model(tree, **options, unknown_category="missing")
    assert oracle.raw_score(as_missing, [6.0]) == [-1]
    assert oracle.status(as_missing, [6.0], 0, Attacker(0, 1)) == "robust"
    to_the_right = model(tree, **options)
    assert oracle.raw_score(to_the_right, [6.0]) == [1]
    assert oracle.status(to_the_right, [6.0], 1, Attacker(0, 1)) == "fragile"


def test_any_change_of_a_category_costs_the_same():
    tree = among(0, [2])
    one = model(tree, categories={0: {0: 0, 1: 1, 2: 2}}, category_rule="truncate")
    assert costs(one, [0.0], Attacker(2, INF, scale=[0.5])) == [0, 4]
    assert costs(one, [0.0], Attacker(0, INF, scale=[0.5])) == [0, 1]
    assert oracle.status(one, [0.0], 1, Attacker(INF, 0.99)) == "robust"
    assert oracle.status(one, [0.0], 1, Attacker(INF, 1)) == "fragile"


def test_missing_category_cannot_be_changed():
    one = model(among(0, [2], missing="left"))
    assert oracle.raw_score(one, [NAN]) == [-1]
    assert oracle.status(one, [NAN], 0, Attacker(0, 1)) == "robust"


def test_category_is_changed_to_allowed_ones_only():
    tree = among(0, [2])
    one = model(tree, categories={0: {0: 0, 1: 1, 2: 2}}, category_rule="truncate")
    attacker = Attacker(0, 1, categories={0: [0, 1]})
    assert oracle.status(one, [0.0], 1, attacker) == "robust"
    assert oracle.status(one, [2.0], 0, attacker) == "fragile"  # x itself need not be allowed
    assert not oracle.allowed(one, [0.0], [2.0], attacker)
    assert not oracle.allowed(one, [0.0], [7.0], attacker)
    assert oracle.allowed(one, [0.0], [0.0], attacker)


def test_two_trees_must_not_tell_affordable_categories_apart():
    pair = model(among(0, [0]), among(0, [1]))
    assert oracle.largest_budget(pair, Attacker(INF, 0)) == 1
    assert oracle.largest_budget(pair, Attacker(2, 0, scale=[4.0])) == Fraction(1, 4)
    assert oracle.is_large_spread(pair, Attacker(0, 0))
    assert not oracle.is_large_spread(pair, Attacker(0, 1))
    assert oracle.is_large_spread(pair, Attacker(0, 1, features=[]))


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


def test_moving_the_one_is_a_single_change():
    both = model(stump(0, 0.5), stump(1, 0.5, 1.0, -1.0), n_features=2)
    attacker = Attacker(0, 1, one_hot=[[0, 1]])
    assert [attack.z for attack in oracle.attacks(both, [1.0, 0.0], attacker)] == [
        [1.0, 0.0],
        [0.0, 1.0],
    ]
    assert oracle.distance([1.0, 0.0], [0.0, 1.0], attacker) == 1
    assert not oracle.allowed(both, [1.0, 0.0], [0.0, 0.0], attacker)
    assert not oracle.allowed(both, [1.0, 0.0], [1.0, 1.0], attacker)


def test_state_of_a_group_is_within_the_bounds_of_all_members():
    both = model(stump(0, 0.5), n_features=3)
    attacker = Attacker(0, 1, one_hot=[[0, 1, 2]], bounds=([0, 0, 0], [1, 0.5, 1]))
    states = oracle.one_hot_states(attacker, (0, 1, 2))
    assert states == [(1.0, 0.0, 0.0), (0.0, 0.0, 1.0)]
    assert not oracle.allowed(both, [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], attacker)


@pytest.mark.parametrize(
    ("cut", "tells"), [(-1e-9, False), (0.0, True), (0.5, True), (1.0, False), (2.0, False)]
)
def test_two_trees_must_not_tell_affordable_members_apart(cut, tells):
    pair = model(stump(0, 0.5), stump(1, cut), n_features=2)
    attacker = Attacker(1, 0, scale=[2.0, 2.0], one_hot=[[0, 1]])
    assert oracle.largest_budget(pair, attacker) == (Fraction(1, 2) if tells else INF)


# ── by brute force ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", LIMITS)
def test_no_value_does_better_than_the_enumerated_ones(limit, norm):
    """Every raw score in reach, with its least cost, by two enumerations."""
    tested = 0
    for seed in range(20):
        case = make_kind(seed, norm, limit, *TURNS[seed % len(TURNS)])
        expected = everything.cheapest_by_score(case, 1000)
        if expected is None:
            continue
        found: dict[tuple[Fraction, ...], Fraction] = {}
        for attack in oracle.attacks(case.ensemble, case.x, case.attacker):
            assert oracle.allowed(case.ensemble, case.x, attack.z, case.attacker)
            assert attack.cost == oracle.distance(case.x, attack.z, case.attacker, case.ensemble)
            score = tuple(attack.raw)
            found[score] = min(attack.cost, found.get(score, attack.cost))
        assert found == expected, seed
        tested += len(found) > 1
    assert tested > 3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", ["steps", "categories", "one-hot"])
def test_ensemble_is_large_spread_iff_no_instance_crosses_two_trees(limit, norm):
    """For parts with few values every instance can be tried; of numbers the rule is a definition.

    A restricted choice of categories may leave room that the rule does not see.
    """
    said = set()
    for seed in range(24):
        case = make_kind(seed, norm, limit, "any" if seed % 2 else "spread")
        for part in oracle.parts_of(case.ensemble.n_features, case.attacker):
            if not everything.is_discrete(case, part) or (norm == 0 and case.attacker.budget == 0):
                continue
            others = set(range(case.ensemble.n_features)) - set(part)
            fixed = case.attacker._replace(features=_without(case, others))
            crossed = everything.crosses_two_trees(case, part)
            rule = oracle.is_large_spread(case.ensemble, fixed)
            restricted = part[0] in (case.attacker.categories or {})
            assert rule == (not crossed) or (restricted and not crossed), (seed, part)
            said.add(rule)
    assert said == {True, False}


def _without(case, others):
    given = range(case.ensemble.n_features)
    if case.attacker.features is not None:
        given = case.attacker.features
    return [feature for feature in given if feature not in others]
