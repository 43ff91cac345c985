"""The mixed-integer program against the oracle: directions, steps, finite features, row bounds."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import carvegbm as cg
import oracle
from asking import attacker_of, question
from carvegbm.engines import milp
from carvegbm.engines.milp.clock import Clock
from carvegbm.engines.milp.point import Point, Scene
from carvegbm.engines.milp.reach import find_reach
from carvegbm.ensemble import Ensemble
from carvegbm.problem import Problem
from generators import Case
from kinds import LIMITS, NORMS, TURNS, make_kind

each_norm = pytest.mark.parametrize("norm", NORMS)
each_limit = pytest.mark.parametrize("limit", LIMITS)
PATIENCE = 30.0  # seconds; every case here takes some hundredths of one
CASES = 10
CLASSIFIERS = tuple(turn for turn in TURNS if turn[1] != "regression")


@cache
def some(limit, norm):
    """Cases of all situations, with the arguments that make them."""
    arguments = [
        (seed, norm, limit, *CLASSIFIERS[seed % len(CLASSIFIERS)]) for seed in range(CASES)
    ]
    return [(make_kind(*given), f"make_kind{given}") for given in arguments]


def as_given(case: Case, z: np.ndarray) -> list[float]:
    """A witness with labels instead of codes where instances hold labels."""
    (codes,) = case.ensemble.check_data([case.x])
    shown = list(z)
    for feature, labels in case.ensemble.categories.items():
        if case.ensemble.category_rule == "label":
            kept = z[feature] == codes[feature] or math.isnan(codes[feature])
            shown[feature] = case.x[feature] if kept else labels[int(z[feature])]
    return shown


def check(case: Case, verdict: milp.Finding, where: str) -> str:
    """A verdict is the oracle's, its witness proves it, and its interval holds."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    worst = oracle.worst_margin(ensemble, x, label, attacker)
    assert verdict.lower <= worst <= verdict.upper, where
    assert verdict.status == oracle.status(ensemble, x, label, attacker), where
    if verdict.status in ("robust", "vulnerable"):
        assert verdict.witness is None, where
        return verdict.status
    z = as_given(case, verdict.witness)
    assert oracle.allowed(ensemble, x, z, attacker), where
    right = oracle.decide(ensemble, oracle.raw_score(ensemble, x)) == label
    assert (oracle.decide(ensemble, oracle.raw_score(ensemble, z)) == label) != right, where
    return verdict.status


def verify(case: Case, **options) -> milp.Finding:
    attacker = attacker_of(case)
    return milp.verify_instance(case.ensemble, case.x, case.label, attacker, PATIENCE, **options)


def check_ends(case: Case, where: str) -> None:
    """The lowest and the highest output, exactly, with witnesses."""
    ensemble, x, attacker = case.ensemble, case.x, attacker_of(case)
    (lowest,), (highest,) = oracle.output_range(ensemble, x, case.attacker)
    for objective, sign, exact in (
        (milp.Aim.lowest(), 1, lowest),
        (milp.Aim.highest(), -1, highest),
    ):
        answer = milp.solve(ensemble, x, objective, attacker, timeout=PATIENCE)
        assert answer.lower <= sign * exact <= answer.upper, where
        assert answer.upper <= math.nextafter(answer.lower, math.inf), where
        z = as_given(case, answer.witness)
        assert oracle.allowed(ensemble, x, z, case.attacker), where
        assert oracle.raw_score(ensemble, z) == [exact], where


# ── agreement ────────────────────────────────────────────────────────────────────────────────


@each_norm
@each_limit
def test_every_case_is_decided_and_agrees_with_the_oracle(limit, norm):
    for case, where in some(limit, norm):
        check(case, verify(case), where)


@each_norm
@each_limit
def test_unpruned_program_agrees_with_the_oracle(limit, norm):
    for case, where in some(limit, norm)[:4]:
        check(case, verify(case, pruned=False), where)


@each_norm
@each_limit
def test_lowest_and_highest_output_are_exact(limit, norm):
    for seed in range(2):
        case = make_kind(seed, norm, limit, "any", "regression")
        check_ends(case, f"make_kind({seed}, {norm}, {limit!r}, 'any', 'regression')")


def test_sample_holds_every_status():
    """Otherwise agreement would say little."""
    statuses = Counter(
        oracle.status(case.ensemble, case.x, case.label, case.attacker)
        for limit in LIMITS
        for norm in NORMS
        for case, _ in some(limit, norm)
    )
    assert min(statuses["robust"], statuses["fragile"]) > 80
    assert min(statuses["vulnerable"], statuses["broken"]) > 5


@each_limit
def test_engine_gives_witnesses_and_distances_as_users_see_them(limit):
    found = Counter()
    for norm in NORMS:
        for case, where in some(limit, norm)[:5]:
            attack = cg.attack(*question(case), engine="milp", timeout=PATIENCE, threads=1)
            (success,) = attack.success.tolist()
            found[success] += 1
            if success:
                z = attack.witnesses[0].tolist()
                assert oracle.allowed(case.ensemble, case.x, z, case.attacker), where
                cost = oracle.distance(case.x, z, case.attacker, case.ensemble)
                assert attack.distance[0] == oracle.smallest_budget(cost, norm), where
    assert min(found[True], found[False]) > 2


# ── many states ──────────────────────────────────────────────────────────────────────────────


def forest(rng, n_trees, depth):
    """Trees over two numbers, a number of whole steps and two features of many categories."""

    def tree(depth):
        if depth == 0:
            return {"score": float(rng.normal())}
        feature = int(rng.integers(5))
        if feature >= 3:
            size = int(rng.integers(1, 40))
            listed = sorted(rng.choice(STATES, size=size, replace=False).tolist())
            split = {"feature": feature, "categories": listed}
        else:
            split = {"feature": feature, "threshold": float(rng.uniform(0, 10))}
        return {**split, "left": tree(depth - 1), "right": tree(depth - 1)}

    return [tree(depth) for _ in range(n_trees)]


STATES = 80


@each_norm
def test_large_programs_with_many_states_agree_with_the_search(norm):
    """Dozens of classes per feature, in leaves that ask for any of them."""
    rng = np.random.default_rng([7, NORMS.index(norm)])
    labels = {state: state for state in range(STATES)}
    seen = Counter()
    for _ in range(3):
        trees = forest(rng, n_trees=12, depth=4)
        x = [*rng.uniform(0, 10, size=2), float(rng.integers(10)), *rng.integers(STATES, size=2)]
        attacker = cg.Attacker(norm, 2, scale={0: (0, 1), 1: (1, 0.5), 4: 0.7}, step={2: 1})
        shape = {"n_features": 5, "categories": {3: labels, 4: labels}}
        score = float(Ensemble.from_trees(trees, **shape).raw_score([x])[0])
        for gap in (3.0, 6.0, 9.0):
            model = Ensemble.from_trees(trees, threshold=score - gap, **shape)
            (expected,) = cg.verify(model, [x], [1], attacker, engine="search").status
            verdict = milp.verify_instance(model, x, 1, attacker, PATIENCE)
            assert verdict.status == expected
            seen[expected] += 1
    assert set(seen) == {"robust", "fragile"}


# ── classes of states ────────────────────────────────────────────────────────────────────────


def by_sets(*lists, **options):
    """An ensemble of stumps on one feature with six categories, that go left if listed: −1, 1."""
    trees = [
        {"feature": 0, "categories": listed, "left": {"score": -1}, "right": {"score": 1}}
        for listed in lists
    ]
    options.setdefault("categories", {0: {code: code for code in range(6)}})
    return Ensemble.from_trees(trees, n_features=1, **options)


def reach_of(model, x, attacker, *, pruned=True):
    problem = Problem(model, attacker)
    rows = problem.instances([x])
    point = Point(Scene(problem), rows.X[0], rows.bounds_of(0))
    return find_reach(point, Clock(PATIENCE), pruned)


def test_states_that_no_split_tells_apart_share_a_binary_and_those_of_x_need_none():
    model = by_sets([1, 2, 3], [3, 4])  # the classes are {0, 5}, {1, 2}, {3}, {4}
    for x, values in ((0, [1, 3, 4]), (2, [0, 3, 4]), (3, [0, 1, 4]), (99, [1, 3, 4])):
        reach = reach_of(model, [x], cg.Attacker(0, 1))
        assert sorted(reach.cuts.value) == values, x
        assert reach.frame.n_cuts == 3, x


def test_only_states_the_attacker_may_choose_get_a_binary():
    model = by_sets([1, 2, 3], [3, 4])
    some = reach_of(model, [0], cg.Attacker(0, 1, categories={0: [2, 4, 5]}))
    assert sorted(some.cuts.value) == [2, 4]
    same = reach_of(model, [0], cg.Attacker(0, 1, categories={0: [0, 5]}))
    assert same.cuts.value == []
    assert len(same.constants) == 2


@pytest.mark.parametrize(
    ("x", "limits"),
    [
        (0, {"norm": "inf", "budget": 0.5}),
        (0, {"norm": 0, "budget": 0}),
        (0, {"norm": 1, "budget": 5, "features": []}),
        (math.nan, {"norm": 1, "budget": 5}),
    ],
)
def test_categories_that_cannot_be_changed_are_decided_by_that_of_x(x, limits):
    missing = {"feature": 0, "categories": [0], "missing": "left"}
    tree = {**missing, "left": {"score": 1}, "right": {"score": -1}}
    model = Ensemble.from_trees([tree, tree], n_features=1)
    reach = reach_of(model, [x], cg.Attacker(**limits))
    assert reach.cuts.feature == []
    assert len(reach.constants) == 2
    assert milp.verify_instance(model, [x], 1, cg.Attacker(**limits), PATIENCE).status == "robust"


def stump(feature, threshold):
    split = {"feature": feature, "threshold": threshold}
    return {**split, "left": {"score": -1}, "right": {"score": 1}}


def test_bounds_of_a_row_close_members_of_its_group_to_that_row_only():
    model = Ensemble.from_trees([stump(0, 0.5), stump(0, 0.5), stump(1, 0.5)], n_features=3)
    uppers = [[1, 1, 1], [1, 1, 0], [1, 0, 0.5]]
    bounds = np.zeros((3, 3)), np.array(uppers, dtype=float)
    attacker = cg.Attacker(1, 1, one_hot=[[0, 1, 2]], bounds=bounds)
    problem = Problem(model, attacker)
    rows = problem.instances([[1, 0, 0]] * 3)
    scene = Scene(problem)
    reaches = [
        find_reach(Point(scene, rows.X[row], rows.bounds_of(row)), Clock(PATIENCE), pruned=True)
        for row in range(3)
    ]
    assert [reach.cuts.value for reach in reaches] == [[1, 2], [1], []]
    found = cg.attack(model, rows.given, [1] * 3, attacker, engine="milp", timeout=PATIENCE)
    assert found.status.tolist() == ["fragile", "fragile", "robust"]
    assert found.witnesses[1].tolist() == [0, 1, 0]


# ── lattices ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pruned", [True, False])
def test_no_multiple_beyond_the_ends_of_a_lattice_is_reached(pruned):
    model = Ensemble.from_trees([stump(0, 1e30), stump(0, -1e30), stump(0, 5.0)], n_features=1)
    for norm, budget in ((0, 1), (1, 1e60)):
        reach = reach_of(model, [0.0], cg.Attacker(norm, budget, step=1), pruned=pruned)
        assert reach.cuts.value == [6]


def test_multiples_are_not_rounded_to_float32():
    """Of that many thousandths, float32 holds what the model reads, but not the number."""
    n = 2**24 + 3
    lattice = oracle.Lattice(Fraction(1, 1000), "float32")
    assert float(np.float32(n)) > n
    assert lattice.value(n) < lattice.value(n + 1)
    model = Ensemble.from_trees(
        [stump(0, lattice.value(n))] * 2, n_features=1, input_precision="float32"
    )
    for step, expected in ((n, 0), (n + 1, 1)):
        x, attacker = [lattice.double(step)], cg.Attacker(1, 0.0005, step="1/1000")
        assert milp.verify_instance(model, x, expected, attacker, PATIENCE).status == "robust"


# ── tolerances decide nothing ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pruned", [True, False])
@pytest.mark.parametrize("norm", [1, 2, 3, math.inf])
def test_budget_is_decided_to_the_last_bit(norm, pruned):
    """A category, a step and a direction must all be paid for, at prices that no double holds."""
    numbers = [(1, -0.3), (2, 0.1)]
    trees = [
        {"feature": f, "threshold": t, "left": {"score": -1}, "right": {"score": 1}}
        for f, t in numbers
    ]
    trees.append({"feature": 0, "categories": [1], "left": {"score": 1}, "right": {"score": -1}})
    model = Ensemble.from_trees(trees, n_features=3, threshold=2.5, categories={0: {1: 1, 2: 2}})
    x = [2.0, -0.5, 0.0]  # every vote is against; all three must change
    attacker = oracle.Attacker(
        norm, 0.0, scale=[3.0, (0.1, 0.7), (2.0, 0.3)], step={2: Fraction(1, 10)}
    )
    z = [1.0, math.nextafter(-0.3, 0), 0.2]
    budget = oracle.smallest_budget(oracle.distance(x, z, attacker, model), norm)
    options = {"scale": {0: 3.0, 1: (0.1, 0.7), 2: (2.0, 0.3)}, "step": {2: "1/10"}}
    for k, expected in ((budget, "fragile"), (math.nextafter(budget, 0), "robust")):
        verdict = milp.verify_instance(
            model, x, 0, cg.Attacker(norm, k, **options), PATIENCE, pruned
        )
        assert verdict.status == expected
        if expected == "fragile":
            assert verdict.witness.tolist() == z
