"""What the large-spread and the search engine must answer, by the oracle.

`answers` says what a right answer of each function is; this module adds what concerns one engine,
and the cases of attackers with limits. The tests check samples, and `tools/campaigns.py` checks
many cases.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

import carvegbm as cg
import oracle
from answers import (
    TIMEOUT,
    are_neighbours,
    check_attack,
    check_is_large_spread,
    check_margins,
    check_output_range,
    check_radius,
    check_verify,
)
from asking import attacker_of, question, searching
from generators import Case
from kinds import TURNS
from random_trees import LARGEST_BUDGET, SMALLEST_BUDGET


def check(case: Case) -> str:
    """Compare everything the product says about a case with the oracle; return what it was."""
    check_is_large_spread(case)
    if case.ensemble.task == "regression":
        return check_output_range(case)
    if oracle.is_large_spread(case.ensemble, case.attacker):
        check_large_spread_verdict(case)
        check_grid(case)
    else:
        check_refused(case)
        check_unknown_or_right(case)
    check_attack(case)
    check_radius(case)
    return check_verify(case)


def check_large_spread_verdict(case: Case) -> None:
    """Status, margin and worst margin by both methods of the large-spread engine alone."""
    expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
    joint = needs_joint_attack(case, expected)
    by_the_way = case.attacker.norm in (0, math.inf)
    for method, exact in product(("efficient", "basic"), (False, True)):
        result = _verify(case, method=method, on_violation="raise", exact_margin=exact)
        (status,) = result.status.tolist()
        allowed = (expected, "unknown") if joint else (expected,)
        assert status in allowed, f"{method}: {status} for {expected}"
        check_margins(case, result, known=not joint and (exact or by_the_way))


def check_refused(case: Case) -> None:
    """A violation of the large-spread condition is refused, by a pair that proves it."""
    with pytest.raises(cg.NotLargeSpreadError) as caught:
        _verify(case, on_violation="raise")
    error, attacker = caught.value, case.attacker
    assert len(set(error.trees)) == 2
    trees = case.ensemble.to_trees()
    (part,) = (p for p in oracle.parts_of(len(case.x), attacker) if error.feature in p)
    blamed = [[s for f in part for s in oracle.splits(trees[tree], f)] for tree in error.trees]
    if len(part) == 1 and part[0] not in case.ensemble.categories:
        blamed = [
            [split for split in splits if _are_one(case, part[0], split["threshold"], threshold)]
            for splits, threshold in zip(blamed, error.thresholds, strict=True)
        ]
    rooms = [
        oracle.room(case.ensemble, attacker, part, one, other)
        for one in blamed[0]
        for other in blamed[1]
    ]
    assert min(rooms) <= attacker.budget, f"there is room between {blamed}"
    if attacker.norm != 0:
        largest = oracle.largest_budget(case.ensemble, attacker)
        assert math.isclose(error.largest_budget, largest, rel_tol=1e-15, abs_tol=1e-100)


def _are_one(case: Case, feature: int, threshold: float, named: float) -> bool:
    """Whether a threshold is the one that is named; of steps, the last multiple to its left is."""
    if feature not in (case.attacker.step or {}):
        return threshold == named
    lattice = oracle.Lattice(case.attacker.step[feature], case.ensemble.input_precision)
    return lattice.value(lattice.last_left(threshold)) == named


def check_unknown_or_right(case: Case) -> None:
    """Verdicts where the condition holds for the instance, at worst unknown elsewhere."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.status(ensemble, x, label, attacker)
    for method in ("efficient", "basic"):
        result = _verify(case, method=method, on_violation="unknown")
        check_margins(case, result, known=False)
        (status,) = result.status.tolist()
        if status == "unknown":
            decidable = oracle.is_large_spread_at(ensemble, x, attacker)
            undecided = not decidable or needs_joint_attack(case, expected)
            assert undecided, f"{method}: unknown, though decidable and {expected}"
        else:
            assert status == expected, f"{method}: {status} for {expected}"


def check_grid(case: Case) -> None:
    """The conservative mode is right, or unknown: it raises an alarm it has no attack for."""
    if case.attacker.norm in (0, math.inf):
        return
    expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
    for digits in (0, 2, 5):
        if Fraction(case.attacker.budget) ** int(case.attacker.norm) * 10**digits > 10**14:
            continue
        result = _verify(case, grid=digits, on_violation="raise")
        check_margins(case, result, known=False)
        (status,) = result.status.tolist()
        assert status in (expected, "unknown"), f"grid {digits}: {status} for {expected}"


def _verify(case: Case, **options: object) -> cg.Verification:
    return cg.verify(*question(case), threads=1, **options)


def needs_joint_attack(case: Case, expected: str) -> bool:
    """Whether one attack must beat several rivals at once, which large-spread does not decide."""
    return len(case.ensemble.classes) > 2 and expected in ("vulnerable", "broken")


def check_briefly(case: Case) -> str:
    """Verdict, witness and radius of each engine, once."""
    check_is_large_spread(case)
    if case.ensemble.task == "regression":
        return _check_range(case)
    expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
    best = oracle.radius(case.ensemble, case.x, case.label, case.attacker)
    large = oracle.is_large_spread(case.ensemble, case.attacker)
    for engine in ("search", "large-spread") if large else ("search",):
        result = cg.verify(*question(case), engine=engine, timeout=TIMEOUT, threads=1)
        joint = engine == "large-spread" and needs_joint_attack(case, expected)
        statuses = (expected, "unknown") if joint else (expected,)
        assert result.status[0] in statuses, f"{engine}: {result.status} for {expected}"
        found = cg.attack(*question(case), engine=engine, timeout=TIMEOUT, threads=1)
        assert joint or found.success[0] == (expected in ("fragile", "broken")), f"{engine}: attack"
        if found.success[0]:
            check_witness(case, found.witnesses[0].tolist(), found.distance[0])
        model, X, y, _ = question(case)
        options = {"engine": engine, "timeout": TIMEOUT, "threads": 1}
        radius = cg.radius(model, X, y, searching(case), **options)
        truth = best if best <= LARGEST_BUDGET else math.inf
        assert radius.lower[0] <= truth <= radius.upper[0], f"{engine}: radius {radius} {truth!r}"
        if engine == "search" and not 0 < truth < SMALLEST_BUDGET:
            assert radius.radius[0] == truth, f"{engine}: radius {radius.radius[0]!r} for {truth!r}"
    return expected


def check_witness(case: Case, z: list[float], distance: float) -> None:
    """Within reach, at the distance that is said, on the other side."""
    ensemble, attacker = case.ensemble, case.attacker
    assert oracle.allowed(ensemble, case.x, z, attacker), f"{z} is out of reach"
    cost = oracle.distance(case.x, z, attacker, ensemble)
    assert distance == oracle.smallest_budget(cost, attacker.norm), f"distance {distance!r}"
    before, after = (
        oracle.decide(ensemble, oracle.raw_score(ensemble, row)) == case.label
        for row in (case.x, z)
    )
    assert before != after, f"{z} does not flip"


def _check_range(case: Case) -> str:
    (low,), (high,) = oracle.output_range(case.ensemble, case.x, case.attacker)
    found = cg.output_range(case.ensemble, [case.x], attacker_of(case), timeout=TIMEOUT, threads=1)
    for end, bounds in (
        (low, (found.lowest_lower[0], found.lowest_upper[0])),
        (high, (found.highest_lower[0], found.highest_upper[0])),
    ):
        assert bounds[0] <= end <= bounds[1], f"{float(end)!r} is not in {bounds}"
        assert are_neighbours(*bounds), f"{bounds} for {float(end)!r}"
    return "constant" if low == high else "range"


def arguments_of(
    seed: int, norm: float, limit: str, tasks: tuple[str, ...] = ()
) -> tuple[int, float, str, str, str]:
    """Arguments of `make_kind` for a seed: situations and tasks take turns."""
    situation, task = TURNS[seed % len(TURNS)]
    if tasks and task not in tasks:
        task = tasks[seed % len(tasks)]
    return seed, norm, limit, situation, task
