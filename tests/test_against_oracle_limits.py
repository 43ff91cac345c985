"""The product against the oracle on directions, steps, finite features and rows of bounds.

A seeded sample; `tools/campaigns.py limits` runs many.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
import oracle
from answers import ANSWERS, check_attack
from asking import attacker_of, options_of, question
from engine_answers import arguments_of, check, check_briefly
from generators import Case
from kinds import LIMITS, NORMS, SITUATIONS, make_kind
from plain_trees import leaf, split

CASES = 8  # per limit and norm; as many again are asked about briefly
each_limit = pytest.mark.parametrize("limit", LIMITS)
each_norm = pytest.mark.parametrize("norm", NORMS)


def agrees(asked, *arguments):
    try:
        asked(make_kind(*arguments))
    except Exception as error:
        raise AssertionError(f"{asked.__name__}(make_kind{arguments}): {error}") from error


@each_norm
@each_limit
def test_every_verdict_witness_and_radius_agrees_with_the_oracle(limit, norm):
    for seed in range(CASES):
        agrees(check, *arguments_of(seed, norm, limit))
    for seed in range(CASES, 2 * CASES):
        agrees(check_briefly, *arguments_of(seed, norm, limit))


@given(
    seed=st.integers(0, 2**31),
    norm=st.sampled_from(NORMS),
    limit=st.sampled_from(LIMITS),
    situation=st.sampled_from(SITUATIONS),
    task=st.sampled_from(["binary", "multiclass", "regression"]),
)
def test_any_seed_agrees_with_the_oracle(seed, norm, limit, situation, task):
    agrees(check_briefly, seed, norm, limit, situation, task)


@pytest.mark.parametrize(
    "function", [f for f in ANSWERS if f not in ("verify", "attack", "radius")]
)
def test_every_answer_agrees_with_the_oracle(function):
    asked, tasks, norms = ANSWERS[function]
    for seed in range(48):
        limit = LIMITS[seed % len(LIMITS)]
        norm = norms[seed // len(LIMITS) % len(norms)]
        agrees(asked, *arguments_of(seed // 4, norm, limit, tasks))


@each_norm
def test_many_instances_with_bounds_of_their_own_get_the_verdicts_of_each_alone(norm):
    rng = np.random.default_rng(0)
    said = set()
    for seed in range(8):
        case = make_kind(seed, norm, "rows")
        cases = [_elsewhere(rng, case, attack.z) for attack in islice(_everywhere(case), 12)]
        labels = rng.integers(len(case.ensemble.classes), size=len(cases)).tolist()
        given = options_of(case.attacker, case.ensemble)
        given["bounds"] = tuple(
            np.array([one.attacker.bounds[end] for one in cases]) for end in (0, 1)
        )
        rows, y = [one.x for one in cases], case.ensemble.classes[labels]
        found = cg.attack(case.ensemble, rows, y, cg.Attacker(**given), threads=2)
        for place, (one, label) in enumerate(zip(cases, labels, strict=True)):
            expected = oracle.status(one.ensemble, one.x, label, one.attacker)
            assert found.status[place] == expected, (seed, place)
            said.add(expected)
            if found.success[place]:
                z = found.witnesses[place].tolist()
                assert oracle.allowed(one.ensemble, one.x, z, one.attacker), (seed, place)
    assert len(said) > 1


def _everywhere(case):
    """All combinations of cells, at any cost."""
    return oracle.attacks(case.ensemble, case.x, case.attacker._replace(budget=math.inf))


def _elsewhere(rng, case, x):
    """Another instance, with bounds that hold it and are narrower, or wider, on some sides."""
    lows, highs = (list(side) for side in case.attacker.bounds)
    finite = {member for group in case.attacker.one_hot or () for member in group}
    finite |= set(case.ensemble.categories)
    for feature, value in enumerate(x):
        if feature not in finite and rng.random() < 0.5 and not math.isnan(value):
            at = value
            if feature in (case.attacker.step or {}):
                lattice = oracle.Lattice(case.attacker.step[feature], "float64")
                at = lattice.double(lattice.number(value))
            lows[feature] = float(rng.choice([min(at, value), -math.inf, lows[feature]]))
            highs[feature] = float(rng.choice([max(at, value), math.inf, highs[feature]]))
    return replace(case, x=x, attacker=case.attacker._replace(bounds=(lows, highs)))


@each_norm
@each_limit
def test_many_instances_at_once_get_the_verdicts_of_each_alone(limit, norm):
    case = make_kind(3, norm, limit)
    rows = [attack.z for attack in islice(_everywhere(case), 40)]
    y = case.ensemble.classes[[case.label] * len(rows)]
    attacker = attacker_of(case, len(rows))
    found = cg.verify(case.ensemble, rows, y, attacker, threads=2).status.tolist()
    assert found == [oracle.status(case.ensemble, row, case.label, case.attacker) for row in rows]


# ── by hand ──────────────────────────────────────────────────────────────────────────────────


def test_three_steps_of_one_tenth_cost_more_than_the_double_three_tenths():
    model = cg.Ensemble.from_trees([split(0, 0.25, leaf(-1.0), leaf(1.0))], n_features=1)
    for budget, status in ((0.3, "robust"), (math.nextafter(0.3, 1), "fragile")):
        attacker = cg.Attacker(1, budget, step=0.1)
        assert cg.verify(model, [[0.0]], [0], attacker).status.tolist() == [status]
    assert cg.radius(model, [[0.0]], [0], cg.Attacker(1, step=0.1)).radius[0] == math.nextafter(
        0.3, 1
    )


@each_norm
@pytest.mark.parametrize("labels", [("red", "green", "blue"), (10.0, 20.0, 30.0), (2, 0, 1)])
def test_witness_of_categories_is_an_instance_that_the_model_takes(labels, norm):
    """Texts go by their codes, numbers by themselves; so does the attacker name them."""
    tree = {"feature": 0, "categories": [1], "left": leaf(1.0), "right": leaf(-1.0)}
    model = cg.Ensemble.from_trees(
        [tree], n_features=1, categories={0: dict(enumerate(labels))}, category_rule="label"
    )
    x = oracle.value_of(model, 0, 0)
    for allowed, expected in (([0, 2], "robust"), ([1], "fragile")):
        attacker = oracle.Attacker(norm, 1.0, categories={0: allowed})
        case = Case(model, [x], 0, attacker)
        assert cg.verify(*question(case)).status.tolist() == [expected]
        check_attack(case)


@each_norm
@pytest.mark.parametrize("far", [2.0**49, 2.0**50 - 4, -(2.0**50) + 4])
def test_ends_of_a_lattice_can_be_reached_from_each_other(norm, far):
    """The largest multiple is 2^50, the smallest -2^50."""
    model = cg.Ensemble.from_trees([split(0, far, leaf(-1.0), leaf(1.0))], n_features=1)
    for x in (-(2.0**50), -7.0, 0.0, 7.0, 2.0**50):
        label = int(x > far)
        budget = 1 if norm == 0 else 2.0**51
        check_briefly(Case(model, [x], label, oracle.Attacker(norm, budget, step={0: Fraction(1)})))


@each_norm
@pytest.mark.parametrize("closed", [range(3, 70), range(64, 70), range(66, 70)])
def test_members_closed_to_every_row_leave_other_features_open(closed, norm):
    """States are bits of words; those of the group need two, or one if the last are closed."""
    trees = [
        split(3, 0.5, leaf(-1.0), leaf(1.0)),
        {"feature": 70, "categories": [0], "left": leaf(-3.0), "right": leaf(2.0)},
    ]
    model = cg.Ensemble.from_trees(trees, n_features=71, categories={70: {0: 0, 1: 1}})
    x, lower, upper = np.zeros((1, 71)), np.full((1, 71), -np.inf), np.full((1, 71), np.inf)
    x[0, [2, 70]] = 1
    upper[0, closed] = 0
    attacker = cg.Attacker(norm, 1, one_hot=[range(70)], bounds=(lower, upper))
    for engine in ("search", "large-spread"):
        found = cg.attack(model, x, [1], attacker, engine=engine)
        assert found.success.tolist() == [True]
        assert found.witnesses[0, 70] == 0
