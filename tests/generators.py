"""Seeded random cases for the property tests: small ensembles, instances and attackers.

Comes in: a seed (or a numpy Generator). Goes out: a `Case`, small enough for the oracle.

Random numbers alone never hit the boundaries where exactness is won or lost, so numbers come from
lattices with many ties, and half of the cases are moved onto an edge afterwards: the budget to
the cost of one attack, the decision threshold to the raw score it reaches, or the budget to half
the spread; exactly, or one float to either side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

import oracle
from carvegbm.model.ensemble import Ensemble
from oracle import Attacker, Tree
from random_trees import (
    LARGEST_BUDGET,
    LINK_SCALES,
    NARROW_FAMILIES,
    NARROW_SCORES,
    SCORES,
    SMALLEST_BUDGET,
    WIDE_FAMILIES,
    Numbers,
    Planter,
    Scores,
    chance,
    pick,
)

NORMS = (0, 1, 2, 3, math.inf)
KINDS = ("random", "edge", "spread", "any", "any edge", "knapsack")
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


@dataclass(frozen=True)
class Case:
    """One instance of an ensemble with an attacker; `label` is the position of its class.

    `rowwise`: the product is given the attacker's bounds as arrays with a row per instance.
    """

    ensemble: Ensemble
    x: list[float]
    label: int
    attacker: Attacker
    rowwise: bool = False


# ── cases ────────────────────────────────────────────────────────────────────────────────────


def make_case(
    seed: int,
    norm: float,
    kind: str = "random",
    task: str = "binary",
    *,
    scores: Scores = SCORES,
) -> Case:
    """The case of a seed, with leaf scores of one of these families.

    Kinds: "random" and "edge" are large-spread, "any" and "any edge" need not be; "edge" sits on a
    boundary; "spread" has a budget at half the spread, or one float off; "knapsack" is
    large-spread, on a boundary, and takes many moves together.
    """
    rng = np.random.default_rng([seed, NORMS.index(norm), KINDS.index(kind), len(task)])
    if kind == "knapsack":
        return to_the_edge(rng, _knapsack_case(rng, norm, task))
    apart = not kind.startswith("any")
    case = _random_case(rng, norm, task, scores, apart=apart)
    if kind.endswith("edge"):
        for _ in range(8):
            if len(records_of(case, 0, up=True)) + len(records_of(case, 0, up=False)) > 5:
                break
            case = _random_case(rng, norm, task, scores, apart=apart)
        return to_the_edge(rng, case)
    return to_the_spread(rng, case) if kind == "spread" else case


def _random_case(
    rng: np.random.Generator, norm: float, task: str, scores: Scores, *, apart: bool
) -> Case:
    narrow = chance(rng, 0.15)
    families = NARROW_FAMILIES if narrow else WIDE_FAMILIES
    numbers = families[pick(rng, sorted(families))]
    n_features = pick(rng, [1, 2, 3, 4, 5, 6, 6, 7, 7, 8, 8, 8])
    attacker = _random_attacker(rng, norm, numbers, n_features)
    missing = chance(rng, 0.2)
    single = narrow and chance(rng, 0.5)  # adds up in float32 as well
    score = pick(rng, NARROW_SCORES if single else scores)
    n_outputs = int(rng.integers(2, 5)) if task == "multiclass" else 1

    # Moves to the right all help: many must be combined, as in a knapsack.
    aligned = chance(rng, 0.4)

    def leaf(side: str) -> dict[str, Any]:
        values = [float(score(rng)) for _ in range(n_outputs)]
        if aligned:
            values = [abs(value) if side == "right" else -abs(value) for value in values]
        if n_outputs > 1 and chance(rng, 0.5):
            only = int(rng.integers(n_outputs))
            values = [value if output == only else 0.0 for output, value in enumerate(values)]
        return {"score": values if n_outputs > 1 else values[0]}

    planter = Planter(
        rng, numbers, attacker, n_features, apart=apart, narrow=narrow, missing=missing, leaf=leaf
    )
    n_trees = int(rng.integers(0, 6)) if chance(rng, 0.1) else int(rng.integers(2, 6))
    chain = chance(rng, 0.3)
    trees = [
        planter.tree(index, int(rng.integers(0, 6 if chain else 4)), chain)
        for index in range(n_trees)
    ]
    base = [float(score(rng)) if chance(rng, 0.5) else 0.0 for _ in range(n_outputs)]
    ensemble = Ensemble.from_trees(
        trees,
        n_features=n_features,
        task=task,
        base_score=base,
        threshold=float(score(rng)) if task == "binary" and chance(rng, 0.5) else 0.0,
        average=max(n_trees, 1) if chance(rng, 0.1) else 1,
        input_precision="float32" if narrow else "float64",
        sum_precision="float32" if single else "float64",
        **random_decision(rng, task),
    )
    x = [
        _random_value(rng, numbers, attacker, planter.planted, feature)
        for feature in range(n_features)
    ]
    if missing:
        x = [math.nan if chance(rng, 0.25) else value for value in x]
    return Case(ensemble, x, random_label(rng, ensemble, x), attacker)


def _knapsack_case(rng: np.random.Generator, norm: float, task: str) -> Case:
    """Trees of one feature each, whose gains are close to their costs: a hard knapsack."""
    unit = pick(rng, [1.0, 0.125, 0.1, 1 / 510, 2.0**-320])
    n_trees = int(rng.integers(4, 9))
    n_outputs = 3 if task == "multiclass" else 1

    def leaf(gain: float) -> dict[str, Any]:
        return {"score": [0.0, gain, -gain] if n_outputs > 1 else gain}

    trees: list[Tree] = []
    distances: list[float] = []
    for feature in range(n_trees):
        steps = sorted(int(step) for step in rng.integers(1, 10, size=pick(rng, [1, 1, 2])))
        tree = leaf(0.0)
        for step in steps:
            gain = step ** (1 if norm in (0, math.inf) else int(norm)) + pick(rng, [-1, 0, 0, 1])
            # To the left the cost is exactly the step; to the right it is one float more.
            tree = (
                {"feature": feature, "threshold": -step * unit, "left": leaf(gain), "right": tree}
                if chance(rng, 0.7)
                else {
                    "feature": feature,
                    "threshold": step * unit,
                    "left": tree,
                    "right": leaf(gain),
                }
            )
        trees.append(tree)
        distances.append(Fraction(steps[0] * unit))
    power = 1 if norm in (0, math.inf) else int(norm)
    half = sum((d**power for d in distances), Fraction(0)) / 2
    budget = n_trees // 2 if norm == 0 else oracle.smallest_budget(half, norm)
    if norm == math.inf:
        budget = 9 * unit
    ensemble = Ensemble.from_trees(
        trees,
        n_features=n_trees,
        task=task,
        base_score=[0.0] * n_outputs,
        **random_decision(rng, task),
    )
    return Case(ensemble, [0.0] * n_trees, 0, Attacker(norm, budget))


def random_decision(rng: np.random.Generator, task: str) -> dict[str, Any]:
    """Who wins a tie, and how sure a binary model is of its decision."""
    if task != "binary":
        return {}
    tie = pick(rng, ["positive", "negative"])
    return {"tie": tie, "link": "logistic", "link_scale": pick(rng, LINK_SCALES)}


def _random_attacker(
    rng: np.random.Generator, norm: float, numbers: Numbers, n_features: int
) -> Attacker:
    each = range(n_features)
    if norm == 0:
        budget: float = int(rng.integers(0, 6))
    else:
        # A budget that pays for several moves where these add up.
        budget = float(numbers.distance(rng)) * (1 if norm == math.inf else pick(rng, [1, 2, 4]))
        budget = 0.0 if chance(rng, 0.03) else budget
    scale = features = bounds = None
    if chance(rng, 0.25):
        scale = [float(rng.choice([0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 1 / 3])) for _ in each]
    if chance(rng, 0.2):
        features = [feature for feature in each if chance(rng, 0.6)]
    if chance(rng, 0.25):
        pairs = [sorted([numbers.value(rng), numbers.value(rng)]) for _ in each]
        bounds = (
            [-math.inf if chance(rng, 0.2) else float(low) for low, _ in pairs],
            [math.inf if chance(rng, 0.2) else float(high) for _, high in pairs],
        )
    return Attacker(norm, budget, scale, features, bounds)


def _random_value(
    rng: np.random.Generator,
    numbers: Numbers,
    attacker: Attacker,
    planted: list[list[tuple[int, float]]],
    feature: int,
) -> float:
    """A value within the bounds: any, or at or near a threshold, or a budget away from one."""
    value = numbers.value(rng)
    if planted[feature] and chance(rng, 0.85):
        value = pick(rng, planted[feature])[1]
        if attacker.norm != 0:
            scale = 1.0 if attacker.scale is None else attacker.scale[feature]
            part = pick(rng, [-1.0, 1.0, -0.5, 0.5, -0.25, 0.25, 0.125, -0.125, 0.0])
            value += part * attacker.budget * scale
        value = pick(rng, [value, math.nextafter(value, -math.inf), math.nextafter(value, 9e999)])
    if attacker.bounds is not None:
        low, high = attacker.bounds[0][feature], attacker.bounds[1][feature]
        value = min(max(value, low), high)
        if chance(rng, 0.2):
            value = pick(rng, [bound for bound in (low, high, value) if math.isfinite(bound)])
    return float(value)


def random_label(rng: np.random.Generator, ensemble: Ensemble, x: list[float]) -> int:
    """Mostly the decided class, so that most instances are right."""
    if ensemble.task == "regression":
        return 0
    if chance(rng, 0.2):
        return int(rng.integers(len(ensemble.classes)))
    return oracle.decide(ensemble, oracle.raw_score(ensemble, x))


# ── onto the boundaries ──────────────────────────────────────────────────────────────────────


def to_the_edge(rng: np.random.Generator, case: Case) -> Case:
    """Budget at the exact cost of an attack no cheaper one equals; decision at its raw score."""
    attacker, norm = case.attacker, case.attacker.norm
    # The longer of two lists of records: the direction in which there is more to win.
    directions = [(int(rng.integers(case.ensemble.n_outputs)), up) for up in (True, False)]
    output, up = max(directions, key=lambda way: len(records_of(case, way[0], up=way[1])))
    records = records_of(case, output, up=up)
    chosen = pick(rng, records[1:] or records)
    budget: float = oracle.smallest_budget(chosen.cost, norm)
    if norm == 0:
        budget = max(int(budget) - pick(rng, [0, 0, 1]), 0)
    elif chance(rng, 0.35) and budget > 0:
        budget = math.nextafter(budget, 0)
    budget = _valid(budget)
    ends = records[0] if chance(rng, 0.15) else chosen  # x itself may be undecided
    ensemble = _moved_decision(rng, case, ends, output, up=up)
    label = random_label(rng, ensemble, case.x)
    return replace(case, ensemble=ensemble, label=label, attacker=attacker._replace(budget=budget))


def records_of(case: Case, output: int, *, up: bool) -> list[oracle.Attack]:
    """x itself, and every attack that raises (lowers) an output more than any as cheap."""
    sign = 1 if up else -1
    found = sorted(
        oracle.attacks(case.ensemble, case.x, case.attacker),
        key=lambda attack: (attack.cost, -sign * attack.raw[output]),
    )
    records = found[:1]
    for attack in found:
        if sign * (attack.raw[output] - records[-1].raw[output]) > 0:
            records.append(attack)
    return records


def _moved_decision(
    rng: np.random.Generator, case: Case, attack: oracle.Attack, output: int, *, up: bool
) -> Ensemble:
    """The ensemble with its decision moved to where the attack just, or just not, flips it."""
    ensemble, base = case.ensemble, case.ensemble.base_score.copy()
    threshold = ensemble.threshold
    if ensemble.task == "binary":
        threshold = at = float(attack.raw[0])
        # A score at the threshold is on one side: from there, the other side is the next float.
        if up and ensemble.tie == "negative":
            threshold = math.nextafter(at, -math.inf)
        elif not up and ensemble.tie == "positive":
            threshold = math.nextafter(at, math.inf)
        threshold = pick(rng, [at, _nudged(rng, threshold)])
    elif ensemble.task == "multiclass":
        rival = max(score for c, score in enumerate(attack.raw) if c != output)
        behind = (rival - attack.raw[output]) * ensemble.average
        base[output] = _nudged(rng, float(Fraction(base[output]) + behind))
    return changed(ensemble, base_score=base, threshold=threshold)


def moved_to_confidence(case: Case, q: float) -> Case:
    """The case with all raw scores moved so that the decision on x is about q sure, to rounding."""
    ensemble = case.ensemble
    raw = oracle.raw_score(ensemble, case.x)
    sign = 1 if oracle.decide(ensemble, raw) == 1 else -1
    goal = Fraction(sign * math.log(q / (1 - q)) / ensemble.link_scale)
    base = Fraction(float(ensemble.base_score[0])) + (goal - raw[0]) * ensemble.average
    threshold = Fraction(ensemble.threshold) + goal - raw[0]
    return replace(
        case, ensemble=changed(ensemble, base_score=[float(base)], threshold=float(threshold))
    )


def changed(ensemble: Ensemble, **fields: Any) -> Ensemble:
    """The same ensemble but for some fields."""
    kept = {name: getattr(ensemble, name) for name in Ensemble.__annotations__}
    return Ensemble(**{**kept, **fields})


def _nudged(rng: np.random.Generator, value: float) -> float:
    """The value, or the float on either side of it."""
    above, below = math.nextafter(value, math.inf), math.nextafter(value, -math.inf)
    return float(pick(rng, [value, value, above, below]))


def to_the_spread(rng: np.random.Generator, case: Case) -> Case:
    """Budget at half the spread (not large-spread if exact), or one float off."""
    largest = oracle.largest_budget(case.ensemble, case.attacker)
    if case.attacker.norm == 0 or largest == math.inf:
        return case
    budget = _valid(_nudged(rng, float(largest)))
    return replace(case, attacker=case.attacker._replace(budget=budget))


def _valid(budget: float) -> float:
    """The nearest budget an attacker may have."""
    return min(max(budget, SMALLEST_BUDGET), LARGEST_BUDGET) if budget > 0 else 0.0
