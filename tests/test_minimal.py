"""Minimal witnesses against the oracle: at the radius, and no change can be taken back."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from scipy import sparse

import carvegbm as cg
import oracle
from answers import SMALLEST_BUDGET
from asking import question
from carvegbm.engines import Settings
from carvegbm.minimal import Minimal, minimal_witnesses
from carvegbm.problem import Problem
from generators import KINDS, NORMS, Case, make_case
from kinds import LIMITS, SITUATIONS, make_kind

SETTINGS = Settings(timeout=20, threads=1)


def asked(model: Any, X: Any, y: Any, attacker: cg.Attacker) -> tuple[cg.Radius, Minimal]:
    radii = cg.radius(model, X, y, attacker, threads=1)
    problem = Problem(model, attacker.with_budget(0))
    return radii, minimal_witnesses(problem, problem.rows(X, y), radii, SETTINGS, False)


def check(case: Case) -> bool:
    """Whether the case has a witness; it must be what `MinimalWitness` says of it."""
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    radii, found = asked(*question(case))
    assert found.missed == 0
    if not 0 < radii.upper[0] < math.inf:
        assert len(found) == 0
        return False
    (witness,) = found
    z = list(x)
    for feature, before, after in witness.changes:
        assert before == z[feature] != after
        z[feature] = after
    assert oracle.allowed(ensemble, x, z, attacker._replace(budget=witness.distance))
    exact = oracle.margin(ensemble, raw := oracle.raw_score(ensemble, z), label)
    assert oracle.decide(ensemble, raw) != label
    assert abs(Fraction(witness.margin) - exact) <= abs(exact) / 2**50 + Fraction(1, 2**1070)
    expected = oracle.radius(ensemble, x, label, attacker)
    if witness.is_nearest or expected >= SMALLEST_BUDGET:
        assert witness.is_nearest
        assert witness.distance == expected
    if not witness.borderline:
        assert witness.answer == ensemble.decide([z])[0] != ensemble.classes[label]
    for part in parts_changed(case, witness.changes):
        back = [old if f in part else new for f, (old, new) in enumerate(zip(x, z, strict=True))]
        assert oracle.decide(ensemble, oracle.raw_score(ensemble, back)) == label
    check_sizes(case, z, witness.changes)
    return True


def check_sizes(case: Case, z: list[float], changes: Any) -> None:
    """No change could end at a threshold, or just beyond one, that is nearer."""
    ensemble, attacker = case.ensemble, case.attacker
    grouped = set().union(*(attacker.one_hot or [()]))
    for feature, before, after in changes:
        if feature in ensemble.categories or feature in grouped or attacker.step is not None:
            continue
        trees = ensemble.to_trees()
        cuts = {t for tree in trees for t in oracle.thresholds(tree, feature)}
        number = np.float32 if ensemble.input_precision == "float32" else np.float64
        beyond = {float(np.nextafter(number(t), number(np.inf))) for t in cuts}
        for value in beyond if after > before else cuts:
            if min(before, after) < value < max(before, after):
                nearer = [value if f == feature else old for f, old in enumerate(z)]
                raw = oracle.raw_score(ensemble, nearer)
                assert oracle.decide(ensemble, raw) == case.label, (feature, value)


def parts_changed(case: Case, changes: Any) -> list[set[int]]:
    """The features that change, those of a one-hot group together."""
    changed = {change.feature for change in changes}
    groups = [set(group) for group in case.attacker.one_hot or () if changed & set(group)]
    return groups + [{f} for f in changed - set().union(*groups)]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("kind", KINDS)
def test_nearest_and_without_a_needless_change(norm: float, kind: str) -> None:
    tasks = ("binary", "multiclass")
    found = sum(check(make_case(seed, norm, kind, tasks[seed % 2])) for seed in range(24))
    assert found >= 3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("limit", LIMITS)
def test_the_same_with_steps_categories_groups_and_rows_of_bounds(norm: float, limit: str) -> None:
    found = 0
    for seed in range(20):
        case = make_kind(seed, norm, limit, SITUATIONS[seed % len(SITUATIONS)], "binary")
        found += check(case)
    assert found >= 2


@pytest.mark.parametrize("norm", [0, 1, math.inf])
def test_sparse_rows_have_the_witnesses_of_dense_ones(norm: float) -> None:
    seen = 0
    for seed in range(30):
        case = make_case(seed, norm, "any", "binary")
        if np.isnan(case.x).any():
            continue
        model, X, y, attacker = question(replace(case, rowwise=False))
        _, dense = asked(model, X, y, attacker)
        _, thin = asked(model, sparse.csr_matrix(np.array(X)), y, attacker)
        assert [w.changes for w in thin] == [w.changes for w in dense]
        assert [w.distance for w in thin] == [w.distance for w in dense]
        seen += len(dense)
    assert seen >= 3


def test_many_rows_at_once_are_each_as_if_alone() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 9, size=(60, 4)) / 8
    model = LGBMClassifier(n_estimators=8, num_leaves=6, min_child_samples=2, verbose=-1)
    model.fit(X, X[:, 0] + X[:, 1] > X[:, 2] + 0.4)
    y, attacker = model.predict(X), cg.Attacker("inf", 0)
    _, together = asked(model, X, y, attacker)
    alone = [asked(model, X[i : i + 1], y[i : i + 1], attacker)[1] for i in range(len(X))]
    assert list(together) == [
        replace(witness, row=i) for i, found in enumerate(alone) for witness in found
    ]
    assert len(together) > 10


def test_progress_never_goes_back() -> None:
    stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    model, X = cg.Ensemble.from_trees([stump], n_features=1), [[0.1], [0.4], [0.3], [0.1]]
    attacker, seen = cg.Attacker("inf", 0), list[int]()
    problem = Problem(model, attacker)
    radii = cg.radius(model, X, None, attacker)
    minimal_witnesses(problem, problem.rows(X, None), radii, SETTINGS, seen.append)
    assert seen == [1, 2, 3, 4]


@pytest.mark.parametrize(("x", "z"), [(-5.999999999999999, -5.999999523162842), (7.5, 7.0)])
def test_a_float32_model_reads_a_row_before_its_change_is_made_small(x: float, z: float) -> None:
    def stump(threshold: float) -> dict[str, Any]:
        sides = {"left": {"score": -1.0}, "right": {"score": 1.0}}
        return {"feature": 0, "threshold": threshold, **sides}

    trees = [stump(-6.0), stump(-2.0), stump(7.0), {"score": 1.0 if x < 0 else -2.5}]
    model = cg.Ensemble.from_trees(trees, n_features=1, input_precision="float32")
    y = model.decide([[x]])
    _, (witness,) = asked(model, [[x]], y, cg.Attacker(0, 1))
    assert witness.changes == ((0, x, z),)
