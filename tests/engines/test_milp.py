"""The mixed-integer program against the oracle, on ensembles that are not large-spread."""

from __future__ import annotations

import math
import time
from collections import Counter
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import carvegbm as cg
import oracle
from asking import product_attacker
from carvegbm.engines import milp
from carvegbm.engines.milp import reach, solving
from carvegbm.engines.milp.clock import Clock
from carvegbm.engines.milp.point import Point, Scene
from carvegbm.engines.milp.reach import find_reach
from carvegbm.ensemble import Ensemble
from carvegbm.problem import Problem
from generators import NORMS, Case, make_case

norms = pytest.mark.parametrize("norm", NORMS)
PATIENCE = 30.0  # seconds; every case here takes some hundredths of one
CASES = 10


@cache
def shared_cases(norm, kind, task):
    """Some cases of a kind that are not large-spread, with the arguments that make them."""
    found = []
    for seed in range(100):
        case = make_case(seed, norm, kind, task)
        if not oracle.is_large_spread(case.ensemble, case.attacker):
            found.append((case, f"make_case({seed}, {norm}, {kind!r}, {task!r})"))
        if len(found) == CASES:
            break
    return found


def verify(case: Case, **options) -> milp.Finding:
    attacker = product_attacker(case.attacker)
    return milp.verify_instance(case.ensemble, case.x, case.label, attacker, PATIENCE, **options)


def check(case: Case, verdict: milp.Finding, where: str) -> None:
    """A verdict is the oracle's, its witness proves it, and its interval holds."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    worst = float(oracle.worst_margin(ensemble, x, label, attacker))
    assert verdict.lower <= worst <= verdict.upper, where
    if verdict.status == "unknown":
        return
    assert verdict.status == oracle.status(ensemble, x, label, attacker), where
    if verdict.status in ("robust", "vulnerable"):
        assert verdict.witness is None, where
        return
    z = verdict.witness.tolist()
    assert oracle.allowed(ensemble, x, z, attacker), where
    right = oracle.decide(ensemble, oracle.raw_score(ensemble, x)) == label
    assert (oracle.decide(ensemble, oracle.raw_score(ensemble, z)) == label) != right, where


# ── agreement ────────────────────────────────────────────────────────────────────────────────


@norms
@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("kind", ["any", "any edge"])
def test_every_case_is_decided_and_agrees_with_the_oracle(norm, kind, task):
    for case, where in shared_cases(norm, kind, task):
        verdict = verify(case)
        assert verdict.status != "unknown", where
        check(case, verdict, where)


@norms
def test_unpruned_program_agrees_with_the_oracle(norm):
    for case, where in shared_cases(norm, "any edge", "binary"):
        verdict = verify(case, pruned=False)
        assert verdict.status != "unknown", where
        check(case, verdict, where)


@norms
def test_knapsacks_on_the_boundary_agree_with_the_oracle(norm):
    for seed in range(6):
        case = make_case(seed, norm, "knapsack")
        verdict = verify(case)
        assert verdict.status != "unknown", seed
        check(case, verdict, f"make_case({seed}, {norm}, 'knapsack')")


def test_sample_holds_every_status_for_both_tasks():
    """Otherwise agreement would say little."""
    for task in ("binary", "multiclass"):
        statuses = Counter(
            oracle.status(case.ensemble, case.x, case.label, case.attacker)
            for norm in NORMS
            for kind in ("any", "any edge")
            for case, _ in shared_cases(norm, kind, task)
        )
        assert set(statuses) == {"robust", "fragile", "vulnerable", "broken"}, task


@pytest.mark.parametrize("norm", [0, 1, 2])
def test_large_programs_agree_with_the_large_spread_engine(norm):
    """Hundreds of columns and exact verdicts of another kind; half the margins are small."""
    rng = np.random.default_rng(norm)
    n_trees, width = 40, 3
    seen = Counter()
    for _ in range(8):

        def tree(depth, features):
            if depth == 0:
                return {"score": float(rng.normal())}
            return {
                "feature": int(rng.choice(features)),
                "threshold": float(rng.uniform()),
                "left": tree(depth - 1, features),
                "right": tree(depth - 1, features),
            }

        trees = [tree(3, range(i * width, (i + 1) * width)) for i in range(n_trees)]
        x = rng.uniform(size=n_trees * width)
        attacker = cg.Attacker(norm, 5 if norm == 0 else 0.25)
        free = Ensemble.from_trees(trees, n_features=len(x))
        (side,) = free.decide([x])
        (worst,) = cg.verify(free, [x], [side], attacker, exact_margin=True).worst_margin
        worst = worst if side == 1 else -worst
        threshold = worst + rng.choice([-1e-3, -1e-12, 0.0, 1e-12, 1e-3])
        model = Ensemble.from_trees(trees, n_features=len(x), threshold=threshold)
        (label,) = model.decide([x])
        (expected,) = cg.verify(model, [x], [label], attacker).status
        verdict = milp.verify_instance(model, x, int(label), attacker, PATIENCE)
        assert verdict.status == expected
        seen[expected] += 1
    assert set(seen) == {"robust", "fragile"}


@norms
def test_lowest_and_highest_output_are_exact(norm):
    for kind in ("any", "random"):
        for seed in range(8):
            case = make_case(seed, norm, kind, "regression")
            ensemble, x, attacker = case.ensemble, case.x, product_attacker(case.attacker)
            (lowest,), (highest,) = oracle.output_range(ensemble, x, case.attacker)
            for objective, sign, exact in (
                (milp.Aim.lowest(), 1, lowest),
                (milp.Aim.highest(), -1, highest),
            ):
                answer = milp.solve(ensemble, x, objective, attacker, timeout=PATIENCE)
                assert answer.lower <= sign * exact <= answer.upper, seed
                assert answer.upper <= math.nextafter(answer.lower, math.inf), seed
                z = answer.witness.tolist()
                assert oracle.allowed(ensemble, x, z, case.attacker), seed
                assert oracle.raw_score(ensemble, z) == [exact], seed


# ── tolerances decide nothing ────────────────────────────────────────────────────────────────


def test_without_cuts_only_cases_near_a_boundary_stay_unknown(monkeypatch):
    """What the solver's first answer cannot settle is within its tolerances of a boundary."""
    monkeypatch.setattr(solving, "_MOST_CUTS", 1)
    near = Counter()
    for norm in NORMS:
        for kind in ("any", "any edge"):
            for case, where in shared_cases(norm, kind, "binary"):
                verdict = verify(case)
                check(case, verdict, where)
                near[verdict.status == "unknown", near_a_boundary(case)] += 1
    assert near[True, False] == 0
    assert near[True, True] > 3
    assert near[False, False] > 20  # so being near a boundary is not what all cases are


def near_a_boundary(case: Case) -> bool:
    """Some z that is no attack would be one if budget and decision were off by the tolerances."""
    ensemble, attacker = case.ensemble, case.attacker
    held = oracle.decide(ensemble, oracle.raw_score(ensemble, case.x))
    slack = Fraction(1e-5) * sum(
        (Fraction(np.ptp(tree)) for tree in scores_by_tree(ensemble)), Fraction(0)
    )
    if attacker.norm != 0:
        attacker = attacker._replace(budget=attacker.budget * (1 + 1e-5))
    return any(
        oracle.margin(ensemble, attack.raw, held) <= slack
        and not (
            oracle.decide(ensemble, attack.raw) != held
            and oracle.affords(case.attacker.budget, attack.cost, attacker.norm)
        )
        for attack in oracle.attacks(ensemble, case.x, attacker)
    )


def scores_by_tree(ensemble: Ensemble) -> list[list[float]]:
    def leaves(tree):
        if "score" in tree:
            return [tree["score"]]
        return leaves(tree["left"]) + leaves(tree["right"])

    return [leaves(tree) for tree in ensemble.to_trees()]


def stumps(*pieces, n_features=None, **options):
    """An ensemble of stumps (feature, threshold, left score, right score)."""
    trees = [
        {"feature": f, "threshold": t, "left": {"score": a}, "right": {"score": b}}
        for f, t, a, b in pieces
    ]
    n_features = n_features or 1 + max(feature for feature, *_ in pieces)
    return Ensemble.from_trees(trees, n_features=n_features, **options)


@pytest.mark.parametrize("pruned", [True, False])
@pytest.mark.parametrize("norm", [1, 2, 3, math.inf])
def test_budget_is_decided_to_the_last_bit(norm, pruned):
    """Both features must move, by exactly 0.1 and 0.2 as doubles; two trees share each of them."""
    model = stumps((0, -0.1, -1, 1), (0, -0.1, -1, 1), (1, -0.2, -1, 1), (1, -0.2, -1, 1))
    x = [0.0, 0.0]
    z = [-0.1, -0.2]
    cost = oracle.distance(x, z, oracle.Attacker(norm, 0.0))
    budget = oracle.smallest_budget(cost, norm)
    negative = stumps(
        (0, -0.1, -1, 1), (0, -0.1, -1, 1), (1, -0.2, -1, 1), (1, -0.2, -1, 1), threshold=-3.5
    )
    assert negative.decide([x]) == model.decide([x]) == 1
    for k, expected in ((budget, "fragile"), (math.nextafter(budget, 0), "robust")):
        attacker = cg.Attacker(norm, k)
        verdict = milp.verify_instance(negative, x, 1, attacker, PATIENCE, pruned)
        assert verdict.status == expected
    assert verdict.witness is None


@pytest.mark.parametrize("pruned", [True, False])
def test_score_is_decided_to_the_last_bit(pruned):
    """Seven tenths and −0.7 do not cancel; the attack reaches their exact difference, or not."""
    pieces = [(0, 0.5, 0.1, 1.0)] * 7
    reached = 7 * Fraction(0.1)
    for threshold, expected in (
        (float(reached), None),
        (math.nextafter(float(reached), 1), "fragile"),
        (math.nextafter(float(reached), 0), "robust"),
    ):
        model = stumps(*pieces, threshold=threshold)
        verdict = milp.verify_instance(model, [0.75], 1, cg.Attacker(1, 0.25), PATIENCE, pruned)
        below = reached < Fraction(threshold)
        assert verdict.status == (expected or ("fragile" if below else "robust"))


def test_equal_scores_go_to_the_first_class():
    trees = [{"feature": 0, "threshold": 0.5, "left": {"score": [1, 1]}, "right": {"score": [a, b]}}
             for a, b in ((2.0, 1.0), (1.0, 2.0), (3.0, 0.0))]  # fmt: skip
    attacker = cg.Attacker("inf", 1.0)
    first = Ensemble.from_trees(trees, n_features=1)
    assert milp.verify_instance(first, [0.9], 0, attacker, PATIENCE).status == "robust"
    for tree in trees:
        tree["right"]["score"] = tree["right"]["score"][::-1]
    second = Ensemble.from_trees(trees, n_features=1)
    assert milp.verify_instance(second, [0.9], 1, attacker, PATIENCE).status == "fragile"


# ── pruning, limits, bad input ───────────────────────────────────────────────────────────────


def test_only_thresholds_within_the_budget_get_a_binary():
    model = stumps(
        (0, 0.1, 0, 1),
        (0, 0.4, 0, 1),
        (0, 0.6, 0, 1),
        (0, 0.6, 1, 0),
        (1, 0.5, 0, 1),
        (2, 0.5, 0, 1),
    )
    attacker = cg.Attacker(1, 0.15, features=[0, 1], bounds=(0, [1, 0.5, 1]))
    instance = Point(Scene(Problem(model, attacker)), [0.5, 0.5, 0.5])
    pruned = find_reach(instance, Clock(1), pruned=True)
    assert pruned.cuts.value == [0.4, math.nextafter(0.6, 1)]  # 0.1 is too far, 1 bound, 2 frozen
    assert len(pruned.constants) == 3
    unpruned = find_reach(instance, Clock(1), pruned=False)
    assert unpruned.cuts.value == [0.1, 0.4, math.nextafter(0.6, 1)]


def test_leaf_whose_own_cost_exceeds_the_budget_gets_no_variable():
    inner = {"feature": 1, "threshold": 0.5, "left": {"score": 0.0}, "right": {"score": 1.0}}
    tree = {"feature": 0, "threshold": 0.5, "left": {"score": 2.0}, "right": inner}
    model = Ensemble.from_trees([tree], n_features=2)
    for norm, leaves in ((1, 1), (2, 2), (0, 3), (math.inf, 3)):
        attacker = cg.Attacker(norm, {1: 0.25, 2: 0.32}.get(norm, 2))
        instance = Point(Scene(Problem(model, attacker)), [0.25, 0.25])
        reach = find_reach(instance, Clock(1), pruned=True)
        assert len(reach.rows) + len(reach.constants) == leaves, norm


@pytest.mark.parametrize("timeout", [0, -1.0, math.nan])
def test_timeout_must_be_positive(timeout):
    with pytest.raises(cg.CarveError, match="timeout must be > 0"):
        milp.verify_instance(stumps((0, 0.5, -1, 1)), [0.1], 0, cg.Attacker(1, 1), timeout)


def hard_model():
    rng = np.random.default_rng(1)

    def tree(depth):
        if depth == 0:
            return {"score": float(rng.normal())}
        return {
            "feature": int(rng.integers(10)),
            "threshold": float(rng.uniform()),
            "left": tree(depth - 1),
            "right": tree(depth - 1),
        }

    return Ensemble.from_trees([tree(6) for _ in range(60)], n_features=10, threshold=-50.0)


def test_out_of_time_is_unknown_in_time_and_the_interval_still_holds():
    model, x = hard_model(), np.full(10, 0.5)
    for timeout in (1e-9, 0.5):
        started = time.perf_counter()
        verdict = milp.verify_instance(model, x, 1, cg.Attacker("inf", 0.3), timeout)
        assert time.perf_counter() - started < timeout + 2.0
        assert (verdict.status, verdict.witness) == ("unknown", None)
        margin = model.raw_score([x])[0] + 50.0
        assert verdict.lower < verdict.upper == pytest.approx(margin)


def test_program_too_large_for_memory_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(reach, "_memory", lambda: 2**20)
    with pytest.raises(cg.CarveError, match=r"more than [\d,]+ nonzeros .* GiB"):
        milp.verify_instance(hard_model(), np.full(10, 0.5), 1, cg.Attacker("inf", 0.3), 1.0)
    near = milp.verify_instance(hard_model(), np.full(10, 0.5), 1, cg.Attacker("inf", 1e-9), 1.0)
    assert near.status == "robust"


def test_bad_input_is_refused():
    model = stumps((0, 0.5, -1, 1))
    with pytest.raises(cg.CarveError, match="inf"):
        milp.verify_instance(model, [math.inf], 0, cg.Attacker(1, 1), 1)
    with pytest.raises(cg.CarveError, match="outside the attacker's bounds"):
        milp.verify_instance(model, [2.0], 0, cg.Attacker(1, 1, bounds=(0, 1)), 1)
    with pytest.raises(cg.CarveError, match="use pruned=True"):
        milp.solve(model, [0.4], milp.Aim.lowest(), cg.Attacker(1, 1), timeout=1, pruned=False)
    output = stumps((0, 0.5, -1, 1), task="regression")
    with pytest.raises(cg.CarveError, match="regression"):
        milp.verify_instance(output, [0.4], 0, cg.Attacker(1, 1), 1)
