"""The random cases of `kinds` hold what they are made for; otherwise agreement would say little."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction

import pytest

import oracle
from asking import product_attacker
from kinds import LIMITS, NORMS, TURNS, make_kind

each_norm = pytest.mark.parametrize("norm", NORMS)
each_limit = pytest.mark.parametrize("limit", LIMITS)


@pytest.fixture(scope="module")
def by_limit():
    """Cases of every limit, all norms by turns."""
    return {
        limit: [
            make_kind(seed, NORMS[seed // 3 % 5], limit, *TURNS[seed % len(TURNS)])
            for seed in range(150)
        ]
        for limit in LIMITS
    }


@each_norm
@each_limit
def test_every_status_and_both_sides_of_the_condition_occur(limit, norm, by_limit):
    cases = [case for case in by_limit[limit] if case.attacker.norm == norm]
    spread = Counter(oracle.is_large_spread(case.ensemble, case.attacker) for case in cases)
    assert min(spread[True], spread[False]) > 2
    statuses = Counter(
        oracle.status(case.ensemble, case.x, case.label, case.attacker)
        for case in cases
        if case.ensemble.task != "regression"
    )
    assert statuses["robust"] > 2
    assert statuses["fragile"] > 2


@each_limit
def test_wrong_instances_stay_wrong_or_can_be_put_right(limit, by_limit):
    wrong = Counter(
        oracle.status(case.ensemble, case.x, case.label, case.attacker)
        for case in by_limit[limit]
        if case.ensemble.task != "regression"
    )
    assert min(wrong["vulnerable"], wrong["broken"]) > 0


@each_limit
def test_large_spread_cases_are_large_spread(limit):
    for seed in range(30):
        case = make_kind(seed, NORMS[seed % 5], limit, "random")
        assert oracle.is_large_spread(case.ensemble, case.attacker)


@each_limit
def test_every_attacker_is_one_the_product_takes(limit, by_limit):
    for case in by_limit[limit]:
        attacker = product_attacker(case.attacker, case.ensemble, 1 if case.rowwise else None)
        attacker.limits(case.ensemble)


@each_limit
def test_budgets_pay_for_an_attack_exactly_or_just_not(limit, by_limit):
    """Equal as rationals; enough, but not one double less; or one double too little."""
    found = Counter()
    for case in by_limit[limit]:
        norm, budget = case.attacker.norm, case.attacker.budget
        if norm == 0 or budget == 0:
            continue
        power = 1 if norm == math.inf else int(norm)
        everywhere = case.attacker._replace(budget=math.inf)
        costs = {a.cost for a in oracle.attacks(case.ensemble, case.x, everywhere)}
        below, above = math.nextafter(budget, 0), math.nextafter(budget, math.inf)
        found["equal"] += Fraction(budget) ** power in costs
        found["just"] += any(
            Fraction(below) ** power < cost <= Fraction(budget) ** power for cost in costs
        )
        found["just not"] += any(
            Fraction(budget) ** power < cost <= Fraction(above) ** power for cost in costs
        )
    assert found["equal"] > 5
    assert found["just"] > 15
    assert found["just not"] > 5


@each_limit
def test_attacks_end_exactly_on_the_decision_threshold(limit, by_limit):
    ties = 0
    for case in by_limit[limit]:
        if case.ensemble.task == "binary":
            goal = [Fraction(case.ensemble.threshold)]
            found = oracle.attacks(case.ensemble, case.x, case.attacker)
            ties += any(attack.raw == goal and attack.cost > 0 for attack in found)
    assert ties > 5


def test_directions_are_closed_dear_and_cheap(by_limit):
    pairs = [
        scale
        for limit in ("directions", "steps", "mixed")
        for case in by_limit[limit]
        for scale in case.attacker.scale or ()
        if isinstance(scale, tuple)
    ]
    assert sum(down == 0 < up for down, up in pairs) > 50
    assert sum(up == 0 < down for down, up in pairs) > 50
    assert sum(down == up == 0 for down, up in pairs) > 20
    assert sum(0 < down != up > 0 for down, up in pairs) > 50


def test_thresholds_are_on_beside_and_between_lattice_points(by_limit):
    found = Counter()
    for case in by_limit["steps"] + by_limit["mixed"]:
        for feature, step in (case.attacker.step or {}).items():
            lattice = oracle.Lattice(step, case.ensemble.input_precision)
            for tree in case.ensemble.to_trees():
                for cut in oracle.thresholds(tree, feature):
                    point = lattice.value(lattice.last_left(cut))
                    after = lattice.value(lattice.last_left(cut) + 1)
                    found["on"] += point == cut
                    found["just below"] += oracle.next_float(cut, lattice.precision) == after
                    found["between"] += point < cut < after
            if not math.isnan(case.x[feature]):
                assert lattice.holds(case.x[feature])
                found["float32"] += lattice.precision == "float32"
                found["x as read"] += case.x[feature] != lattice.double(
                    lattice.number(case.x[feature])
                )
    assert found["on"] > 100
    assert found["just below"] > 50
    assert found["between"] > 100
    assert found["float32"] > 50
    assert found["x as read"] > 10
    steps = {step for case in by_limit["steps"] for step in case.attacker.step.values()}
    assert {Fraction(1), Fraction(1, 2), Fraction(1, 255), Fraction(1, 10)} <= steps


def test_categories_are_known_spelled_unknown_and_missing(by_limit):
    found = Counter()
    for case in by_limit["categories"] + by_limit["mixed"]:
        found[case.ensemble.category_rule] += bool(case.ensemble.categories)
        for feature, labels in case.ensemble.categories.items():
            code = oracle.code_of(case.ensemble, feature, case.x[feature])
            found["missing"] += math.isnan(case.x[feature])
            found["unknown"] += code not in labels and not math.isnan(code)
            found["unknown is missing"] += math.isnan(code) and not math.isnan(case.x[feature])
            found["spelled"] += code in labels and code != case.x[feature]
            found["restricted"] += feature in (case.attacker.categories or {})
            for tree in case.ensemble.to_trees():
                for split in oracle.splits(tree, feature):
                    states = [list(labels).index(code) for code in split["categories"]]
                    found["not a run"] += states[-1] - states[0] >= len(states)
                    found["all"] += len(states) == len(labels)
    for what in ("label", "truncate", "nonnegative", "unknown", "spelled", "restricted"):
        assert found[what] > 30, what
    for what in ("missing", "unknown is missing", "not a run", "all"):
        assert found[what] > 8, what


def test_members_are_tested_everywhere(by_limit):
    found = Counter()
    for case in by_limit["one-hot"] + by_limit["mixed"]:
        for group in case.attacker.one_hot or ():
            assert sum(case.x[member] for member in group) == 1
            found[len(oracle.one_hot_states(case.attacker, tuple(group))) < len(group)] += 1
            for tree in case.ensemble.to_trees():
                for member in group:
                    for cut in oracle.thresholds(tree, member):
                        side = "below" if cut < 0 else "above" if cut > 1 else "within"
                        found[cut if cut in (0, 0.5, 1) else side] += 1
    for what in ("below", 0, 0.5, "within", 1, "above"):
        assert found[what] > 15, what
    assert found[True] > 5  # groups with states that bounds forbid


def test_mixed_cases_combine_three_kinds_and_more(by_limit):
    def kinds(case):
        attacker = case.attacker
        pairs = any(isinstance(scale, tuple) for scale in attacker.scale or ())
        limits = (pairs, attacker.step, case.ensemble.categories, attacker.one_hot)
        return sum(map(bool, limits))

    counts = Counter(kinds(case) for case in by_limit["mixed"])
    assert counts[3] + counts[4] > 50
    assert counts[4] > 5


def test_rows_have_bounds_that_matter(by_limit):
    changed = 0
    for case in by_limit["rows"]:
        assert case.rowwise
        assert case.attacker.bounds is not None
        free = case.attacker._replace(bounds=None)
        here = oracle.output_range(case.ensemble, case.x, case.attacker)
        changed += here != oracle.output_range(case.ensemble, case.x, free)
    assert changed > 15
