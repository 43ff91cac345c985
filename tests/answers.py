"""What a right answer is, for every function that answers a question.

`test_answers.py` checks a sample of cases and `tools/campaigns.py answers` many.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice
from typing import Any

import numpy as np

import carvegbm as cg
import oracle
import oracle_properties
from asking import attacker_of, question, searching
from carvegbm_experiments import milp
from generators import MIX, NORMS, Case, moved_to_confidence
from oracle import rounded_down, rounded_up
from random_trees import LARGEST_BUDGET, SMALLEST_BUDGET

TIMEOUT = 30.0  # seconds per instance: nothing may need as much
NO_TIME = 1e-9  # seconds per instance: what is said all the same must be true
ENGINES = ("auto", "search")
LARGEST = sys.float_info.max


# ── verify ───────────────────────────────────────────────────────────────────────────────────


def check_verify(case: Case) -> str:
    """Status, margin and worst margin, whichever engine it takes: nothing is left unknown."""
    expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
    binary = case.ensemble.task == "binary"
    for engine in ENGINES:
        for exact in (False, True):
            result = cg.verify(
                *question(case), engine=engine, exact_margin=exact, timeout=TIMEOUT, threads=1
            )
            assert result.status.tolist() == [expected], f"{engine}: {result.status} {expected}"
            check_margins(case, result, known=exact and binary)
            assert result.accuracy == float(expected in ("robust", "fragile"))
            assert result.robustness == (float(expected == "robust"),) * 2
    hurried = cg.verify(*question(case), engine="search", timeout=NO_TIME, threads=1)
    assert hurried.status.tolist() in ([expected], ["unknown"]), f"no time: {hurried.status}"
    check_margins(case, hurried, known=False)
    return expected


def check_milp(case: Case) -> str:
    """The MILP baseline of the experiments: the same status, or none."""
    if case.ensemble.categories or case.attacker.step or case.attacker.one_hot:
        return "not supported"
    expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
    (status,) = milp.verify(*question(case), timeout=TIMEOUT).status.tolist()
    assert status in (expected, "unknown"), f"{status} for {expected}"
    return status


def check_margins(case: Case, result: cg.Verification, *, known: bool) -> None:
    """The margin, and bounds on the worst margin that are no wider than they need to be."""
    ensemble, x, label = case.ensemble, case.x, case.label
    raw = oracle.raw_score(ensemble, x)
    before = oracle.margin(ensemble, raw, label)
    check_margin(result.margin[0], before)
    right = oracle.decide(ensemble, raw) == label
    assert result.right.tolist() == [right]
    lower, upper = float(result.worst_margin_lower[0]), float(result.worst_margin_upper[0])
    after = oracle.worst_margin(ensemble, x, label, case.attacker)
    assert lower <= after <= upper, f"worst margin {float(after)!r} in [{lower!r}, {upper!r}]"
    if right:  # at worst what x itself says
        assert upper <= rounded_up(before), f"worst margin <= {upper!r} > margin"
    else:
        assert lower >= rounded_down(before), f"worst margin >= {lower!r} < margin"
    (worst,) = result.worst_margin.tolist()
    assert math.isnan(worst) != are_neighbours(lower, upper), f"{worst!r}: [{lower!r}, {upper!r}]"
    assert math.isnan(worst) or lower <= worst <= upper
    assert not known or not math.isnan(worst), f"unknown worst margin [{lower!r}, {upper!r}]"


def check_margin(got: float, exact: Fraction) -> None:
    """The nearest double or one beside it, on exactly its side of zero."""
    nearest = float(exact)
    below, above = math.nextafter(nearest, -math.inf), math.nextafter(nearest, math.inf)
    assert below <= got <= above, f"margin {got!r} for {nearest!r}"
    assert (got > 0, got < 0) == (exact > 0, exact < 0), f"sign of margin {got!r}"


def are_neighbours(lower: float, upper: float) -> bool:
    """Whether no double lies strictly between two bounds."""
    return math.nextafter(lower, math.inf) >= upper


# ── attack ───────────────────────────────────────────────────────────────────────────────────


def check_attack(case: Case) -> str:
    """An attack is found iff there is one; it is within budget, and flips the exact decision."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.witness(ensemble, x, label, attacker)
    right = oracle.decide(ensemble, oracle.raw_score(ensemble, x)) == label
    for engine in ENGINES:
        for timeout in (TIMEOUT, NO_TIME):
            found = cg.attack(*question(case), engine=engine, timeout=timeout, threads=1)
            (success,) = found.success.tolist()
            if timeout == TIMEOUT:
                assert success == (expected is not None), f"{engine}: {found.status}"
            if not success:
                assert np.isnan(found.witnesses).all()
                continue
            z = found.witnesses[0].tolist()
            assert oracle.allowed(ensemble, x, z, attacker), f"{z} is out of reach"
            flipped = (oracle.decide(ensemble, oracle.raw_score(ensemble, z)) == label) != right
            assert flipped, f"{z} does not flip"
            cost = oracle.smallest_budget(oracle.distance(x, z, attacker, ensemble), attacker.norm)
            assert found.distance[0] == cost, f"distance {found.distance[0]!r} for {cost!r}"
            if not found.borderline[0]:  # then the rounded sum tells the same
                label_there = ensemble.decide([z])[0] == ensemble.classes[label]
                assert label_there != right, f"{z} is not marked as borderline"
    return "none" if expected is None else "witness"


# ── radius and robustness curve ──────────────────────────────────────────────────────────────


def check_radius(case: Case) -> str:
    """The smallest double budget that flips."""
    attacker, budget = searching(case), case.attacker.budget
    expected = _radius(case)
    # Smaller than any budget, a radius may stay an interval.
    measurable = not 0 < expected < SMALLEST_BUDGET
    model, X, y, _ = question(case)
    for engine in ENGINES:
        for limit in (None, budget):
            options = {"engine": engine, "timeout": TIMEOUT, "threads": 1}
            found = cg.radius(model, X, y, attacker, max_budget=limit, **options)
            within = limit is None or expected <= limit
            _check_radius_bounds(found, expected, known=measurable and within)
            assert within or found.lower[0] > limit, f"{engine}: {found.lower[0]!r} <= {limit!r}"
    for hurry in ({"engine": "search", "timeout": NO_TIME}, {"engine": "large-spread"}):
        found = cg.radius(model, X, y, attacker, threads=1, **hurry)
        _check_radius_bounds(found, expected, known=False)
    return "wrong" if expected == 0 else "none" if expected == math.inf else "radius"


def _radius(case: Case) -> float:
    """The radius as the product counts it: no attacker can have more than the largest budget."""
    radius = oracle.radius(case.ensemble, case.x, case.label, case.attacker)
    return radius if radius <= LARGEST_BUDGET else math.inf


def _check_radius_bounds(found: cg.Radius, expected: float, *, known: bool) -> None:
    lower, upper, got = found.lower[0], found.upper[0], found.radius[0]
    assert lower <= expected <= upper, f"radius {expected!r} is not in [{lower!r}, {upper!r}]"
    assert math.isnan(got) if lower < upper else got == lower
    assert got == expected or not known, f"radius {got!r} for {expected!r}"


def check_robustness_curve(case: Case) -> str:
    """Robustness at budgets on either side of the radii of several instances."""
    ensemble, attacker = case.ensemble, case.attacker
    everywhere = oracle.attacks(ensemble, case.x, attacker._replace(budget=math.inf))
    rows = [attack.z for attack in islice(everywhere, 3)]
    labels = [oracle.decide(ensemble, oracle.raw_score(ensemble, row)) for row in rows]
    labels[-1] = case.label
    radii = [
        _radius(Case(ensemble, row, label, attacker))
        for row, label in zip(rows, labels, strict=True)
    ]
    at = [0.0, attacker.budget, *radii]
    just_below = [r - 1 if attacker.norm == 0 else math.nextafter(r, 0) for r in radii if r > 0]
    near = {*at, *just_below}
    budgets = sorted(b for b in near if b == 0 or SMALLEST_BUDGET <= b <= LARGEST_BUDGET)
    given = ensemble, rows, ensemble.classes[labels], searching(case, len(rows))
    curve = cg.robustness_curve(*given, budgets=budgets, timeout=TIMEOUT)
    expected = [
        float(oracle.robustness(ensemble, rows, labels, attacker._replace(budget=budget)))
        for budget in budgets
    ]
    assert curve.budgets.tolist() == budgets
    assert curve.lower.tolist() == curve.upper.tolist() == expected, f"{curve} for {expected}"
    right = [
        oracle.decide(ensemble, oracle.raw_score(ensemble, row)) == label
        for row, label in zip(rows, labels, strict=True)
    ]
    assert curve.accuracy == float(np.mean(right))
    return f"{len(set(expected))} steps"


# ── output_range and what rests on it ────────────────────────────────────────────────────────


def check_output_range(case: Case) -> str:
    """Bounds on both ends, valid whatever happens, and exact unless something happens."""
    (raw,) = oracle.raw_score(case.ensemble, case.x)
    (low,), (high,) = oracle.output_range(case.ensemble, case.x, case.attacker)
    attacker = attacker_of(case)
    for decided, options in _ways(case):
        found = cg.output_range(case.ensemble, [case.x], attacker, threads=1, **options)
        lowest = float(found.lowest_lower[0]), float(found.lowest_upper[0])
        highest = float(found.highest_lower[0]), float(found.highest_upper[0])
        assert lowest[0] <= low <= lowest[1], f"{options}: lowest {float(low)!r} in {lowest}"
        assert highest[0] <= high <= highest[1], f"{options}: {float(high)!r} in {highest}"
        assert lowest[1] <= rounded_up(raw), f"{options}: x itself is lower than {lowest}"
        assert highest[0] >= rounded_down(raw), f"{options}: x itself is higher than {highest}"
        exact = are_neighbours(*lowest) and are_neighbours(*highest)
        assert found.exact.tolist() == [exact]
        assert exact or not decided, f"{options}: lowest in {lowest}, highest in {highest}"
        for end, bounds in ((found.lowest[0], lowest), (found.highest[0], highest)):
            if are_neighbours(*bounds):
                assert bounds[0] <= end <= bounds[1]
            else:
                assert np.isnan(end)
    return "constant" if low == high else "range"


def check_stability(case: Case) -> str:
    """No change larger than c, for c at the largest change and one float to either side."""
    change = oracle_properties.largest_change(case.ensemble, case.x, case.attacker)
    return _check_limits(case, cg.stability, oracle_properties.stability, _around(change))


def check_small_neighbourhood(case: Case) -> str:
    """No change larger than c times the budget, for c around the quotient of the two."""
    change = oracle_properties.largest_change(case.ensemble, case.x, case.attacker)
    budget = Fraction(case.attacker.budget)
    limits = _around(change / budget) if budget else {0.0, 1.0}
    return _check_limits(
        case, cg.small_neighbourhood, oracle_properties.small_neighbourhood, limits
    )


def check_high_confidence(case: Case) -> str:
    """No flip of confident instances, for q at the instance's own probability and beside it."""
    (raw,) = oracle.raw_score(case.ensemble, case.x)
    at = oracle_properties.probability(abs(Fraction(case.ensemble.link_scale) * raw))
    limits = {0.5, *at, math.nextafter(at[0], 0), math.nextafter(at[1], 1)}
    answers = cg.high_confidence, oracle_properties.high_confidence
    for q in (0.55, 0.75, 0.99):
        _check_limits(moved_to_confidence(case, q), *answers, {q, math.nextafter(q, 0)})
    return _check_limits(case, *answers, {q for q in limits if 0.5 <= q < 1})


def _around(value: Fraction) -> set[float]:
    """The value rounded down and up, the doubles beyond, half of it and 0, where finite."""
    down, up = rounded_down(value), rounded_up(value)
    near = {down, up, math.nextafter(down, 0), math.nextafter(up, math.inf), down / 2, 0.0}
    return {c for c in near if c <= LARGEST}


def _check_limits(
    case: Case, ask: Callable[..., Any], truth: Callable[..., bool], limits: set[float]
) -> str:
    attacker, said = attacker_of(case), set()
    for limit in sorted(limits):
        holds = truth(case.ensemble, case.x, case.attacker, limit)
        expected = "holds" if holds else "fails"
        said.add(expected)
        for decided, options in _ways(case):
            (got,) = ask(case.ensemble, [case.x], attacker, limit, threads=1, **options).tolist()
            allowed = (expected,) if decided else (expected, "unknown")
            assert got in allowed, f"{options}, {limit!r}: {got} for {expected}"
    return " and ".join(sorted(said))


def _ways(case: Case) -> Iterator[tuple[bool, dict[str, Any]]]:
    """(whether it must be decided, options) for every way to ask for a range."""
    for engine in ENGINES:
        yield True, {"engine": engine, "timeout": TIMEOUT}
        yield False, {"engine": engine, "timeout": NO_TIME}
    decidable = oracle.is_large_spread_at(case.ensemble, case.x, case.attacker)
    yield decidable, {"on_violation": "unknown", "timeout": TIMEOUT}


# ── spread ───────────────────────────────────────────────────────────────────────────────────


def check_spread(case: Case) -> str:
    """The nearest double; infinite also where no double is as large."""
    exact = oracle.spread(case.ensemble)
    expected = math.inf if exact > LARGEST else float(exact)
    assert cg.spread(case.ensemble) == expected
    return "shared" if expected < math.inf else "not shared"


def check_is_large_spread(case: Case) -> str:
    """Spread > 2 budget, for budgets at half the spread, beside it, and at 0."""
    budgets = {0, case.attacker.budget}
    half = oracle.largest_budget(case.ensemble, case.attacker)
    if case.attacker.norm != 0 and half != math.inf:
        budgets |= {b for b in _around(half) if SMALLEST_BUDGET <= b <= LARGEST_BUDGET}
    said = set()
    for budget in sorted(budgets):
        asked = replace(case, attacker=case.attacker._replace(budget=budget))
        expected = oracle.is_large_spread(case.ensemble, asked.attacker)
        got = cg.is_large_spread(case.ensemble, attacker_of(asked))
        assert got == expected, f"budget {budget!r}: {got}"
        said.add(str(expected))
    return " and ".join(sorted(said))


# ── all of them ──────────────────────────────────────────────────────────────────────────────

CLASSIFIERS = ("binary", "multiclass")
ONE_OUTPUT = ("binary", "regression")
# function (milp: verify by the MILP baseline): (check, tasks, norms)
ANSWERS: dict[str, tuple[Callable[[Case], str], tuple[str, ...], tuple[float, ...]]] = {
    "verify": (check_verify, CLASSIFIERS, NORMS),
    "milp": (check_milp, CLASSIFIERS, NORMS),
    "attack": (check_attack, CLASSIFIERS, NORMS),
    "radius": (check_radius, CLASSIFIERS, NORMS),
    "robustness_curve": (check_robustness_curve, CLASSIFIERS, NORMS),
    "output_range": (check_output_range, ONE_OUTPUT, NORMS),
    "stability": (check_stability, ONE_OUTPUT, NORMS),
    "small_neighbourhood": (check_small_neighbourhood, ONE_OUTPUT, (math.inf,)),
    "high_confidence": (check_high_confidence, ("binary",), NORMS),
    "spread": (check_spread, (*CLASSIFIERS, "regression"), NORMS),
    "is_large_spread": (check_is_large_spread, (*CLASSIFIERS, "regression"), NORMS),
}
Arguments = tuple[int, float, str, str]  # of make_case


def arguments_of(function: str, seed: int, norm: float | None = None) -> Arguments:
    """The case of a seed for a function: kinds, tasks and norms take turns."""
    _, tasks, norms = ANSWERS[function]
    kind, task = MIX[seed % len(MIX)]
    task = task if task in tasks else tasks[seed % len(tasks)]
    return seed, norms[seed // len(MIX) % len(norms)] if norm is None else norm, kind, task
