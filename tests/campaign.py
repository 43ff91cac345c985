"""What agreement with the oracle means, and a script that checks it on many thousands of cases.

    python tests/campaign.py --cases 20000 --norm 2

prints counts and, at the first disagreement, the arguments of `make_case` that reproduce it.
Half of the cases sit on boundaries. `test_against_oracle.py` runs a small sample of the same.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import carvegbm as cg
import oracle
from generators import NORMS, Case, make_case
from random_trees import LARGEST_BUDGET, SMALLEST_BUDGET

TIMEOUT = 60.0  # seconds per instance: nothing may need as much
# (kind, task) by turns: half of them on a boundary (edge, spread, knapsack).
MIX = (
    ("random", "binary"),
    ("edge", "binary"),
    ("any", "binary"),
    ("knapsack", "binary"),
    ("random", "multiclass"),
    ("edge", "multiclass"),
    ("any", "multiclass"),
    ("spread", "binary"),
    ("random", "regression"),
    ("any edge", "binary"),
    ("any", "binary"),
    ("edge", "binary"),
    ("random", "binary"),
    ("knapsack", "multiclass"),
    ("any", "regression"),
    ("any edge", "multiclass"),
)


def product_attacker(attacker: oracle.Attacker) -> cg.Attacker:
    """The same attacker, as the product takes it."""
    return cg.Attacker(**attacker._asdict())


def check(case: Case) -> str:
    """Compare everything the product says about a case with the oracle; return what it was."""
    large_spread = oracle.is_large_spread(case.ensemble, case.attacker)
    assert cg.is_large_spread(case.ensemble, product_attacker(case.attacker)) == large_spread
    if case.ensemble.task == "regression":
        return check_range(case, large_spread)
    if large_spread:
        check_large_spread_verdict(case)
        check_grid(case)
    else:
        check_refused(case)
        check_unknown_or_right(case)
    check_witness(case)
    check_radius(case)
    return check_verdict(case)


def check_verdict(case: Case) -> str:
    """Status and margins, whichever engine it takes: nothing is left unknown."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.status(ensemble, x, label, attacker)
    result = _verify(case, timeout=TIMEOUT)
    assert result.status.tolist() == [expected], f"{result.status} for {expected}"
    before = oracle.margin(ensemble, oracle.raw_score(ensemble, x), label)
    _same_number(case, result.margin[0], before, "margin")
    after, slack = oracle.worst_margin(ensemble, x, label, attacker), _rounding(case)
    lower, upper = result.worst_margin_lower[0] - slack, result.worst_margin_upper[0] + slack
    assert after <= upper, f"worst margin {float(after)!r} > {upper!r}"
    if not _needs_joint_attack(case, expected):
        assert lower <= after, f"worst margin {float(after)!r} < {lower!r}"
    assert result.accuracy == float(expected in ("robust", "fragile"))
    assert result.robustness == (float(expected == "robust"),) * 2
    return expected


def check_large_spread_verdict(case: Case) -> None:
    """Status, margin and worst margin by both methods of the large-spread engine alone."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.status(ensemble, x, label, attacker)
    after = oracle.worst_margin(ensemble, x, label, attacker)
    for method in ("efficient", "basic"):
        result = _verify(case, method=method, on_violation="raise")
        (status,) = result.status.tolist()
        if _needs_joint_attack(case, expected):
            assert status in (expected, "unknown"), f"{method}: {status} for {expected}"
            most = result.worst_margin_upper[0]
            assert most >= after - _rounding(case), f"{method}: worst margin"
        else:
            assert status == expected, f"{method}: {status} for {expected}"
            _same_number(case, result.worst_margin[0], after, f"{method} worst margin")


def check_witness(case: Case) -> None:
    """An attack is found iff there is one; it is within budget, and flips the exact decision."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.witness(ensemble, x, label, attacker)
    found = cg.attack(ensemble, [x], _labels(case), product_attacker(attacker), timeout=TIMEOUT)
    assert found.success.tolist() == [expected is not None], f"attack: {found.status}"
    z = found.examples[0].tolist()
    if expected is None:
        assert np.isnan(z).all()
        return
    assert oracle.allowed(ensemble, x, z, attacker), f"{z} is out of the attacker's reach"
    right = oracle.decide(ensemble, oracle.raw_score(ensemble, x)) == label
    flipped = (oracle.decide(ensemble, oracle.raw_score(ensemble, z)) == label) != right
    assert flipped, f"{z} does not flip"
    cost = oracle.distance(x, z, attacker)
    nearest = oracle.smallest_budget(cost, attacker.norm)
    assert math.isclose(found.distance[0], nearest, rel_tol=1e-14, abs_tol=5e-324), "distance"


def check_refused(case: Case) -> None:
    """A violation of the large-spread condition is refused, by a pair that proves it."""
    with pytest.raises(cg.NotLargeSpreadError) as caught:
        _verify(case, on_violation="raise")
    error, attacker = caught.value, case.attacker
    assert len(set(error.trees)) == 2
    for tree, threshold in zip(error.trees, error.thresholds, strict=True):
        assert threshold in oracle.thresholds(case.ensemble.to_trees()[tree], error.feature)
    if attacker.norm != 0:
        first, second = map(Fraction, error.thresholds)
        scale = 1.0 if attacker.scale is None else attacker.scale[error.feature]
        assert abs(first - second) <= 2 * Fraction(attacker.budget) * Fraction(scale)
        largest = oracle.largest_budget(case.ensemble, attacker)
        assert math.isclose(error.largest_budget, largest, rel_tol=1e-15, abs_tol=1e-100)


def check_unknown_or_right(case: Case) -> None:
    """Verdicts where the condition holds for the instance, at worst unknown elsewhere."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.status(ensemble, x, label, attacker)
    for method in ("efficient", "basic"):
        (status,) = _verify(case, method=method, on_violation="unknown").status.tolist()
        if status == "unknown":
            decidable = oracle.is_large_spread_at(ensemble, x, attacker)
            undecided = not decidable or _needs_joint_attack(case, expected)
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
        (status,) = _verify(case, grid=digits, on_violation="raise").status.tolist()
        assert status in (expected, "unknown"), f"grid {digits}: {status} for {expected}"


def check_radius(case: Case) -> None:
    """The smallest double budget that flips."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    options = attacker._asdict()
    del options["budget"]
    expected = oracle.radius(ensemble, x, label, attacker)
    if expected > LARGEST_BUDGET:
        expected = math.inf  # no attacker can have that budget
    found = cg.radius(ensemble, [x], _labels(case), timeout=TIMEOUT, **options)
    got, lower, upper = found.radius[0], found.lower[0], found.upper[0]
    assert lower <= expected <= upper, f"radius {expected!r} is not in [{lower!r}, {upper!r}]"
    assert got == expected or 0 < expected < SMALLEST_BUDGET, f"radius {got!r} for {expected!r}"


def check_range(case: Case, large_spread: bool) -> str:
    """Lowest and highest reachable output."""
    if not large_spread:
        return "refused"
    attacker = product_attacker(case.attacker)
    found = cg.output_range(case.ensemble, [case.x], attacker)
    for got, (exact,) in zip(
        found, oracle.output_range(case.ensemble, case.x, case.attacker), strict=True
    ):
        _same_number(case, got[0], exact, "output")
    return "range"


def _verify(case: Case, **options: object) -> cg.Verification:
    attacker = product_attacker(case.attacker)
    return cg.verify(case.ensemble, [case.x], _labels(case), attacker, threads=1, **options)


def _labels(case: Case) -> list[object]:
    return [case.ensemble.classes[case.label]]


def _same_number(case: Case, got: float, exact: Fraction, what: str) -> None:
    """The exact value but for the rounding of one sum; a margin on exactly its side of zero."""
    off = abs(Fraction(float(got)) - exact)
    assert off <= _rounding(case), f"{what} {got!r} for {float(exact)!r}"
    if case.ensemble.task == "binary":
        right = (float(exact), got) if case.label == 1 else (-float(exact), -got)
        assert (right[0] >= 0) == (right[1] >= 0), f"side of {what} {got!r}"
    elif case.ensemble.task == "multiclass":
        assert got * float(exact) >= 0, f"sign of {what} {got!r}"


def _rounding(case: Case) -> float:
    """What a sum of one score per tree may lose to rounding."""
    ensemble = case.ensemble
    magnitude = ensemble.n_trees * np.abs(ensemble.scores).max(initial=0.0)
    return 1e-14 * float(magnitude + np.abs(ensemble.base_score).max() + abs(ensemble.threshold))


def _needs_joint_attack(case: Case, expected: str) -> bool:
    """Whether one attack must beat several rivals at once, which large-spread does not decide."""
    return len(case.ensemble.classes) > 2 and expected in ("vulnerable", "broken")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--norm", choices=[str(norm) for norm in NORMS], action="append")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--keep-going", action="store_true", help="count all disagreements")
    arguments = parser.parse_args()
    failures = 0
    for norm in NORMS if arguments.norm is None else map(float, arguments.norm):
        counts: Counter[str] = Counter()
        started = time.perf_counter()
        for seed in range(arguments.first, arguments.first + arguments.cases):
            kind, task = MIX[seed % len(MIX)]
            try:
                counts[check(make_case(seed, norm, kind, task))] += 1
            except Exception as error:
                failures += 1
                counts["disagreement"] += 1
                print(f"make_case({seed}, {norm}, {kind!r}, {task!r}): {error!r}", flush=True)
                if not arguments.keep_going:
                    return 1
        seconds = time.perf_counter() - started
        print(
            f"norm {norm}: {arguments.cases} cases in {seconds:.0f} s: {dict(counts)}", flush=True
        )
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())
