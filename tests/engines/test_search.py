"""The search engine against the oracle, on ensembles that need not be large-spread."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest

import carvegbm as cg
import oracle
from answers import are_neighbours, check_margin
from asking import product_attacker
from carvegbm import _core
from carvegbm.model.ensemble import Ensemble
from carvegbm.model.nodes import NODE
from carvegbm.problem import Problem
from crowded import crowded_case
from generators import NORMS, Case
from plain_trees import stump

STATUS = ("robust", "fragile", "vulnerable", "broken", "unknown")
ENGINE_SEARCH = 2
CASES = 60  # per norm, task and place
norms = pytest.mark.parametrize("norm", NORMS)
edges = pytest.mark.parametrize("edge", [False, True], ids=["inside", "edge"])
tasks = pytest.mark.parametrize("task", ["binary", "multiclass"])


def ask(call, ensemble, attacker, *given, seconds=60.0, progress=None, threads=1, **options):
    """Ask the core's search about some rows."""
    limits = np.full(len(given[0]), seconds)
    problem = _core.Problem(ensemble.core, Problem(ensemble, attacker).core_attacker)
    how = _core.Options(_core.Solver.search, limits, threads, **options)
    return call(problem, *given, how, progress)


def search_verify(case: Case, *, exact=False, seconds=60.0):
    """Status, margin, bounds on the worst margin, engine and witness of one case."""
    found = ask(
        _core.decide,
        case.ensemble,
        product_attacker(case.attacker),
        np.array([case.x]),
        np.array([case.label], dtype=np.int32),
        seconds=seconds,
        witness=True,
        exact_margin=exact,
    )
    return {
        "status": STATUS[found.status[0]],
        "right": bool(found.right[0]),
        "margin": float(found.margin[0]),
        "lower": float(found.worst_lower[0]),
        "upper": float(found.worst_upper[0]),
        "engine": int(found.engine[0]),
        "z": found.witness[0].tolist(),
        "distance": float(found.distance[0]),
    }


def search_radius(case: Case, seconds=60.0):
    largest = 10**6 if case.attacker.norm == 0 else 1e100
    found = ask(
        _core.radius,
        case.ensemble,
        product_attacker(case.attacker).with_budget(largest),
        np.array([case.x]),
        np.array([case.label], dtype=np.int32),
        seconds=seconds,
    )
    return float(found.radius_lower[0]), float(found.radius_upper[0])


def check_verdict(case: Case, found) -> None:
    ensemble, x, label, attacker = case.ensemble, case.x, case.label, case.attacker
    expected = oracle.status(ensemble, x, label, attacker)
    assert found["status"] == expected
    before = oracle.margin(ensemble, oracle.raw_score(ensemble, x), label)
    check_margin(found["margin"], before)
    z = found["z"]
    if expected in ("robust", "vulnerable"):
        assert np.isnan(z).all()
        return
    assert oracle.allowed(ensemble, x, z, attacker), f"{z} is out of the attacker's reach"
    decided = oracle.decide(ensemble, oracle.raw_score(ensemble, z))
    assert (decided == label) != found["right"], f"{z} does not flip"
    nearest = oracle.smallest_budget(oracle.distance(x, z, attacker), attacker.norm)
    assert math.isclose(found["distance"], nearest, rel_tol=1e-14, abs_tol=5e-324)


def check_bounds(case: Case, found) -> None:
    """The verdict, and that the bounds hold the true worst margin between them."""
    assert found["engine"] == ENGINE_SEARCH
    check_verdict(case, found)
    worst = oracle.worst_margin(case.ensemble, case.x, case.label, case.attacker)
    assert found["lower"] <= worst <= found["upper"]
    if found["status"] == "robust":
        assert found["lower"] >= 0


def check_worst(case: Case, found) -> None:
    """The verdict, and the worst margin itself."""
    check_verdict(case, found)
    worst = oracle.worst_margin(case.ensemble, case.x, case.label, case.attacker)
    if case.ensemble.task == "multiclass" and not found["right"]:
        assert found["lower"] <= worst <= found["upper"]
        return
    assert found["lower"] <= worst <= found["upper"]
    assert found["upper"] <= math.nextafter(found["lower"], math.inf), "the worst margin is known"


def check_radius(case: Case) -> None:
    expected = oracle.radius(case.ensemble, case.x, case.label, case.attacker)
    lower, upper = search_radius(case)
    if case.attacker.scale is not None and 0 < expected < 1e-200:
        # Below all budgets that an attacker may have, where products with the scale underflow.
        assert lower <= expected <= upper
        return
    assert (lower, upper) == (expected, expected)


def check_range(case: Case) -> None:
    attacker = product_attacker(case.attacker)
    found = ask(_core.output_range, case.ensemble, attacker, np.array([case.x]))
    bounds = (found.lowest_lower, found.lowest_upper, found.highest_lower, found.highest_upper)
    (lowest,), (highest,) = oracle.output_range(case.ensemble, case.x, case.attacker)
    for lower, upper, exact in zip(bounds[::2], bounds[1::2], (lowest, highest), strict=True):
        assert Fraction(float(lower[0])) <= exact <= Fraction(float(upper[0]))
        assert upper[0] <= np.nextafter(lower[0], np.inf)


def for_each(norm, task, edge, check, count=CASES) -> None:
    for seed in range(count):
        try:
            check(crowded_case(seed, norm, task, edge=edge))
        except Exception as error:
            message = f"crowded_case({seed}, {norm}, {task!r}, edge={edge})"
            raise AssertionError(message) from error


@norms
@tasks
@edges
def test_every_verdict_and_witness_agrees_with_the_oracle(norm, task, edge):
    for_each(norm, task, edge, lambda case: check_bounds(case, search_verify(case)))


@norms
@tasks
@edges
def test_exact_worst_margin_agrees_with_the_oracle(norm, task, edge):
    for_each(norm, task, edge, lambda case: check_worst(case, search_verify(case, exact=True)), 30)


@norms
@tasks
@edges
def test_radius_agrees_with_the_oracle(norm, task, edge):
    for_each(norm, task, edge, check_radius, 30)


@norms
def test_output_range_agrees_with_the_oracle(norm):
    for_each(norm, "regression", False, check_range, 40)


@norms
def test_sample_holds_every_status(norm):
    """Otherwise agreement would say little."""
    found = {search_verify(crowded_case(seed, norm))["status"] for seed in range(150)}
    assert found == {"robust", "fragile", "vulnerable", "broken"}


def deep_chain(n: int, features: int, rng: np.random.Generator) -> Ensemble:
    """Two trees that are chains of n splits: leaves hang on every split."""
    nodes, roots, scores = [], [], []
    for _ in range(2):
        roots.append(len(nodes))
        for i in range(n):
            here = len(nodes)
            # To the right is a leaf, to the left the rest of the chain.
            nodes.append((float(n - i), i % features, here + 2, here + 1, -1))
            nodes.append((0.0, -1, len(scores), -1, -1))
            scores.append([float(rng.integers(-50, 51)) / 8])
        nodes.append((0.0, -1, len(scores), -1, -1))
        scores.append([1.0])
    return Ensemble(
        np.array(nodes, dtype=NODE),
        np.array(roots, dtype=np.int32),
        np.array(scores),
        n_features=features,
        task="binary",
    )


def test_chains_of_thousands_of_splits_do_not_overflow_and_come_out_right():
    n = 4000
    ensemble = deep_chain(n, 1, np.random.default_rng(0))
    cells = np.arange(n + 2, dtype=np.float64)[:, None]
    raw = ensemble.core.raw_score(cells, 1)[:, 0]
    for x, budget in ((2000.0, 10.0), (3000.5, 900.0), (10.0, 1e6)):
        label = int(ensemble.core.raw_score(np.array([[x]]), 1)[0, 0] >= 0)
        reached = raw[np.abs(cells[:, 0] - x) < budget]
        worst = reached.min() if label else (-reached).min()
        for norm in (1, 2, math.inf):
            case = Case(ensemble, [x], label, oracle.Attacker(norm, budget))
            found = search_verify(case, exact=True)
            assert found["upper"] == worst
            assert found["status"] == ("fragile" if worst < 0 else "robust")


@pytest.fixture(scope="module")
def hard():
    """Trees that no attack model decides quickly: all share all features, nothing agrees."""
    rng = np.random.default_rng(1)
    features, depth, n_trees = 60, 6, 300
    nodes, roots, scores = [], [], []
    for _ in range(n_trees):
        root = len(nodes)
        roots.append(root)
        inner = 2**depth - 1
        for i in range(inner):
            row = (float(rng.random()), int(rng.integers(features)))
            nodes.append((*row, root + 2 * i + 1, root + 2 * i + 2, -1))
        for _ in range(inner + 1):
            nodes.append((0.0, -1, len(scores), -1, -1))
            scores.append([float(rng.normal())])
    ensemble = Ensemble(
        np.array(nodes, dtype=NODE),
        np.array(roots, dtype=np.int32),
        np.array(scores),
        n_features=features,
        task="binary",
    )
    X = rng.random((4, features))
    raw = ensemble.core.raw_score(X, 1)[:, 0]
    # A decision far off, so that neither a proof nor an attack is at hand.
    shifted = [
        Ensemble(
            ensemble.nodes,
            ensemble.roots,
            ensemble.scores,
            n_features=features,
            task="binary",
            base_score=[-value + 95.0],
        )
        for value in raw.tolist()
    ]
    return shifted, X


def test_time_limit_is_honoured_and_bounds_are_kept(hard):
    ensembles, X = hard
    undecided = 0
    for ensemble, x in zip(ensembles, X, strict=True):
        for norm, budget in ((1, 1.5), (2, 0.4), (0, 6)):
            case = Case(ensemble, x.tolist(), 1, oracle.Attacker(norm, budget))
            started = time.perf_counter()
            found = search_verify(case, seconds=0.3)
            # 100 ms on a machine of its own.
            assert time.perf_counter() - started < 1.0
            undecided += found["status"] == "unknown"
            # The margin is rounded to the nearest double, a bound outward.
            highest = math.nextafter(found["margin"], math.inf)
            assert found["lower"] <= found["upper"] <= highest
            if found["status"] == "unknown":
                assert found["lower"] < 0 <= found["upper"]
    assert undecided > 0


def test_radius_keeps_bounds_when_time_is_up(hard):
    ensembles, X = hard
    case = Case(ensembles[0], X[0].tolist(), 1, oracle.Attacker(1, 1.5))
    started = time.perf_counter()
    lower, upper = search_radius(case, seconds=0.5)
    assert time.perf_counter() - started < 2.0
    assert 0 < lower < upper


def test_interruption_stops_a_search(hard):
    ensembles, X = hard

    def interrupt(_found, _rows):
        raise KeyboardInterrupt

    started = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        ask(
            _core.decide,
            ensembles[0],
            cg.Attacker(1, 1.5),
            X[:1],
            np.array([1], dtype=np.int32),
            progress=interrupt,
            witness=True,
            exact_margin=True,
        )
    assert time.perf_counter() - started < 5.0


def test_threads_do_not_change_verdicts():
    case = crowded_case(3, 1)
    everything = case.attacker._replace(budget=math.inf)
    rows = [attack.z for attack in oracle.attacks(case.ensemble, case.x, everything)]
    labels = np.zeros(len(rows), dtype=np.int32)
    attacker = product_attacker(case.attacker._replace(bounds=None))
    one, two = (
        ask(
            _core.decide,
            case.ensemble,
            attacker,
            np.array(rows),
            labels,
            threads=threads,
            exact_margin=True,
        )
        for threads in (1, 2)
    )
    for name in ("status", "right", "margin", "worst_lower", "worst_upper"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_votes_that_tie_take_no_time_beside_a_base_that_is_rounded():
    """Attacks of as many votes are as good as each other, whatever the last digits of the base."""
    n = 80
    rng = np.random.default_rng(2)
    distances = rng.uniform(0.1, 0.3, n).round(3)
    votes = Ensemble.from_trees(
        [stump(f, float(t), 1.0, -1.0) for f, t in enumerate(distances)],
        n_features=n,
        base_score=0.1,
    )
    attacker = cg.Attacker(1, float(distances.sum() * 0.45))
    result = cg.verify(votes, [[0.0] * n], [1], attacker, engine="search", exact_margin=True)
    assert are_neighbours(result.worst_margin_lower[0], result.worst_margin_upper[0])
