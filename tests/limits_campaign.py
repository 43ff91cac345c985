"""Directions, steps, categories, one-hot groups and rows of bounds against the oracle, in numbers.

    python tests/limits_campaign.py --limit steps --norm 2 --cases 20000

prints counts and, at the first disagreement, the arguments of `make_kind` that reproduce it.
Without `--limit` all of them are asked about in turn, without `--norm` all norms. Half of the
cases sit on boundaries. `--function` asks for one answer only, as in `answers`, and `--brief` asks
every engine once. `test_against_oracle_limits.py` runs a small sample of the same.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import campaign
import carvegbm as cg
import oracle
from answers import ANSWERS, TIMEOUT, are_neighbours, check_is_large_spread, parser_of, run
from asking import attacker_of, question, without_budget
from generators import Case
from kinds import LIMITS, NORMS, TURNS, make_kind
from random_trees import LARGEST_BUDGET, SMALLEST_BUDGET

Arguments = tuple[int, float, str, str, str]  # of make_kind


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
        joint = engine == "large-spread" and campaign.needs_joint_attack(case, expected)
        statuses = (expected, "unknown") if joint else (expected,)
        assert result.status[0] in statuses, f"{engine}: {result.status} for {expected}"
        found = cg.attack(*question(case), engine=engine, timeout=TIMEOUT, threads=1)
        assert joint or found.success[0] == (expected in ("fragile", "broken")), f"{engine}: attack"
        if found.success[0]:
            check_witness(case, found.witnesses[0].tolist(), found.distance[0])
        model, X, y, _ = question(case)
        radius = cg.radius(
            model, X, y, engine=engine, timeout=TIMEOUT, threads=1, **without_budget(case)
        )
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


def arguments_of(seed: int, norm: float, limit: str, tasks: tuple[str, ...] = ()) -> Arguments:
    """The case of a seed: situations and tasks take turns."""
    situation, task = TURNS[seed % len(TURNS)]
    if tasks and task not in tasks:
        task = tasks[seed % len(tasks)]
    return seed, norm, limit, situation, task


def checks(function: str | None, brief: bool) -> tuple[Callable[[Case], str], tuple[str, ...]]:
    """The check of a function and its tasks; without one, of everything."""
    if function is None:
        return (check_briefly if brief else campaign.check), ()
    chosen, tasks, _ = ANSWERS[function]
    return chosen, tasks


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--limit", choices=LIMITS, action="append")
    parser.add_argument("--function", choices=list(ANSWERS))
    parser.add_argument("--brief", action="store_true")
    given = parser.parse_args()
    asked, tasks = checks(given.function, given.brief)
    agree = True
    for limit in given.limit or LIMITS:
        for norm in NORMS if given.norm is None else map(float, given.norm):
            if given.function is not None and norm not in ANSWERS[given.function][2]:
                continue
            seeds = range(given.first, given.first + given.cases)
            cases = (arguments_of(seed, norm, limit, tasks) for seed in seeds)
            title = f"{given.function or 'all'}, {limit}, norm {norm}"
            agree &= run(title, asked, cases, make=make_kind, keep_going=given.keep_going)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
