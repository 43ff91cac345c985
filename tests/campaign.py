"""The engines of a verdict against the oracle, and a script that asks them about many cases.

    python tests/campaign.py --cases 20000 --norm 2

prints counts and, at the first disagreement, the arguments of `make_case` that reproduce it.
Half of the cases sit on boundaries. `test_against_oracle.py` runs a small sample of the same.
What a right answer is says `answers`; here is what concerns the large-spread engine alone.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction
from itertools import product

import pytest

import carvegbm as cg
import oracle
from answers import (
    check_attack,
    check_is_large_spread,
    check_margins,
    check_output_range,
    check_radius,
    check_verify,
    parser_of,
    run,
)
from asking import question
from generators import MIX, NORMS, Case


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


def main() -> int:
    given = parser_of(__doc__).parse_args()
    agree = True
    for norm in NORMS if given.norm is None else map(float, given.norm):
        seeds = range(given.first, given.first + given.cases)
        cases = ((seed, norm, *MIX[seed % len(MIX)]) for seed in seeds)
        agree &= run(f"norm {norm}", check, cases, keep_going=given.keep_going)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
