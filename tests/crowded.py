"""Random cases in which trees share their features: never large-spread, made for the search.

Comes in: a seed. Goes out: a `generators.Case` with few features, many trees over all of them,
equal thresholds in several trees, deep chains and one-leaf trees, and a budget that reaches
thresholds of several trees. Half of them (`edge`) sit on a boundary.
"""

from __future__ import annotations

import math

import numpy as np

import carvegbm as cg
import generators
import oracle
from asking import product_attacker
from carvegbm.model.ensemble import Ensemble
from generators import NORMS, Case
from random_trees import NARROW_FAMILIES, SCORES, WIDE_FAMILIES, Planter, chance, pick


def crowded_case(seed: int, norm: float, task: str = "binary", *, edge: bool = False) -> Case:
    """The case of a seed; its attacker can move some feature across thresholds of two trees."""
    rng = np.random.default_rng([seed, NORMS.index(norm), len(task), edge, 77])
    while True:
        case = _draw(rng, norm, task)
        if any(math.isinf(value) for value in case.x):
            continue
        if edge:
            case = generators.to_the_edge(rng, case)
        if _usable(case):
            return case


def _usable(case: Case) -> bool:
    try:
        product_attacker(case.attacker)
    except cg.CarveError:
        return False
    return not oracle.is_large_spread_at(case.ensemble, case.x, case.attacker)


def _draw(rng: np.random.Generator, norm: float, task: str) -> Case:
    narrow = chance(rng, 0.2)
    families = NARROW_FAMILIES if narrow else WIDE_FAMILIES
    usual = ["eighths", "tenths", "pixels"]
    numbers = families[pick(rng, usual if chance(rng, 0.6) else sorted(families))]
    n_features = int(rng.integers(1, 6))
    attacker = generators._random_attacker(rng, norm, numbers, n_features)
    if norm != 0 and chance(rng, 0.7):
        attacker = attacker._replace(budget=attacker.budget * pick(rng, [1.0, 2.0, 4.0]))
    missing = chance(rng, 0.15)
    score = pick(rng, SCORES)
    n_outputs = int(rng.integers(2, 5)) if task == "multiclass" else 1

    def leaf(_side: str) -> dict[str, object]:
        values = [float(score(rng)) for _ in range(n_outputs)]
        if n_outputs > 1 and chance(rng, 0.5):
            only = int(rng.integers(n_outputs))
            values = [value if output == only else 0.0 for output, value in enumerate(values)]
        return {"score": values if n_outputs > 1 else values[0]}

    planter = Planter(
        rng, numbers, attacker, n_features, apart=False, narrow=narrow, missing=missing, leaf=leaf
    )
    n_trees = int(rng.integers(2, 11))
    chain = chance(rng, 0.3)
    trees = [
        planter.tree(index, int(rng.integers(0, 7 if chain else 5)), chain)
        for index in range(n_trees)
    ]
    ensemble = Ensemble.from_trees(
        trees,
        n_features=n_features,
        task=task,
        base_score=[float(score(rng)) if chance(rng, 0.5) else 0.0 for _ in range(n_outputs)],
        threshold=float(score(rng)) if task == "binary" and chance(rng, 0.5) else 0.0,
        average=n_trees if chance(rng, 0.1) else 1,
        input_precision="float32" if narrow else "float64",
        **generators.random_decision(rng, task),
    )
    x = [
        generators._random_value(rng, numbers, attacker, planter.planted, feature)
        for feature in range(n_features)
    ]
    if missing:
        x = [math.nan if chance(rng, 0.2) else value for value in x]
    return Case(ensemble, x, generators.random_label(rng, ensemble, x), attacker)
