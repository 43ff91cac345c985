"""Engines: who decides an instance, that they agree, and what is left when time runs out."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

import carvegbm as cg
import oracle
from asking import product_attacker
from carvegbm.engines import Settings, Task, decide
from carvegbm.problem import Problem
from crowded import crowded_case
from generators import make_case
from plain_trees import ensemble, hard, leaf, refused, split, stump

NORMS = [0, 1, 2, 3, "inf"]
ENGINES = ["auto", "search"]

APART = ensemble(stump(0, 0.5, -1.0, 2.0), stump(1, 0.5), n_features=2)
# Near 0.5 in feature 0 one move crosses two trees.
SHARED = ensemble(*APART.to_trees(), stump(0, 0.5, -0.5, 0.5), n_features=2)
X, Y = [[0.1, 0.1], [0.45, 0.45], [0.1, 0.45], [0.9, 0.45]], [0, 0, 0, 1]


def attacker(norm="inf"):
    return cg.Attacker(norm, 1 if norm == 0 else 0.1)


# ── who decides ──────────────────────────────────────────────────────────────────────────────


def test_auto_leaves_a_large_spread_ensemble_to_the_large_spread_engine():
    assert cg.verify(APART, X, Y, attacker()).engine.tolist() == ["large-spread"] * 4


def test_auto_searches_the_instances_for_which_the_condition_fails():
    result = cg.verify(SHARED, X, Y, attacker())
    assert result.engine.tolist() == ["large-spread", "search", "large-spread", "large-spread"]
    assert result.status.tolist() == ["robust", "fragile", "robust", "robust"]


def test_engine_asked_for_decides_everything():
    assert cg.verify(APART, X, Y, attacker(), engine="search").engine.tolist() == ["search"] * 4


def test_restricted_auto_leaves_the_rest_undecided():
    result = cg.verify(SHARED, X, Y, attacker(), on_violation="unknown")
    assert result.engine.tolist() == ["large-spread", "", "large-spread", "large-spread"]
    assert result.status.tolist() == ["robust", "unknown", "robust", "robust"]


def test_budget_0_moves_nothing_whether_the_ensemble_is_large_spread_or_not():
    for norm in NORMS:
        nobody = cg.Attacker(norm, 0)
        for engine in ENGINES:
            result = cg.verify(SHARED, X, Y, nobody, engine=engine)
            assert result.status.tolist() == ["robust"] * 4
        with pytest.raises(cg.NotLargeSpreadError, match=r"no budget would be|whatever the budget"):
            cg.verify(SHARED, X, Y, nobody, engine="large-spread")


def test_what_the_large_spread_engine_cannot_decide_goes_on_to_search():
    """One attack must beat several rivals at once; the rivals' best attacks need not agree."""
    case = make_case(564, 0, "random", "multiclass")
    args = (case.ensemble, [case.x], [case.ensemble.classes[case.label]])
    alone = cg.verify(*args, product_attacker(case.attacker), engine="large-spread")
    assert alone.status.tolist() == ["unknown"]
    for timeout in (10.0, math.inf):
        result = cg.verify(*args, product_attacker(case.attacker), timeout=timeout)
        assert result.status.tolist() == ["vulnerable"]
        assert result.engine.tolist() == ["search"]


# ── settings ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"timeout": 0}, ["timeout", "> 0", "0"]),
        ({"timeout": -1.5}, ["timeout", "-1.5"]),
        ({"timeout": math.nan}, ["timeout", "nan"]),
        ({"timeout": "long"}, ["timeout", "'long'"]),
        ({"timeout": np.complex128(1)}, ["timeout", "1"]),
        ({"timeout": None}, ["timeout", "None"]),
        ({"engine": "magic"}, ["engine", "one of auto, large-spread, search", "'magic'"]),
        ({"on_violation": "ignore"}, ["on_violation", "'ignore'"]),
        ({"on_violation": "unknown", "engine": "search"}, ["on_violation", "'search'"]),
        ({"threads": 0}, ["threads", "0"]),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(options, words):
    for use in (cg.verify, cg.attack):
        with refused(*words):
            use(APART, X, Y, attacker(), **options)
    with refused(*words):
        cg.output_range(APART, X, attacker(), **options)


@pytest.mark.parametrize("options", [{"grid": 3}, {"method": "basic"}], ids=str)
def test_modes_of_the_paper_belong_to_the_large_spread_engine(options):
    with refused("large-spread engine", "'search'"):
        cg.verify(APART, X, Y, attacker(1), engine="search", **options)


def test_modes_of_the_paper_make_auto_refuse_what_is_not_large_spread():
    for options in ({"grid": 3}, {"method": "basic"}):
        with refused("not large-spread", kind=cg.NotLargeSpreadError):
            cg.verify(SHARED, X, Y, attacker(1), **options)


# ── they agree ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_engines_agree_with_the_oracle_on_crowded_ensembles(norm, task):
    for seed in range(1000, 1006):
        case = crowded_case(seed, float(norm) if norm == "inf" else norm, task)
        label = [case.ensemble.classes[case.label]]
        expected = oracle.status(case.ensemble, case.x, case.label, case.attacker)
        for engine in ENGINES:
            found = cg.verify(
                case.ensemble, [case.x], label, product_attacker(case.attacker), engine=engine
            )
            assert found.status.tolist() == [expected], (seed, engine)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("engine", ENGINES)
def test_witnesses_are_within_reach_and_flip_the_exact_decision(norm, engine):
    found = 0
    for seed in range(2000, 2010):
        case = crowded_case(seed, float(norm) if norm == "inf" else norm, edge=seed % 2 == 0)
        model, x = case.ensemble, case.x
        result = cg.attack(
            model, [x], [model.classes[case.label]], product_attacker(case.attacker), engine=engine
        )
        z = result.witnesses[0].tolist()
        if not result.success[0]:
            assert np.isnan(z).all()
            assert np.isnan(result.distance[0])
            continue
        found += 1
        assert oracle.allowed(model, x, z, case.attacker), seed
        before = oracle.decide(model, oracle.raw_score(model, x))
        after = oracle.decide(model, oracle.raw_score(model, z))
        assert (before == case.label) != (after == case.label), seed
        cost = oracle.distance(x, z, case.attacker)
        assert result.distance[0] == oracle.smallest_budget(cost, case.attacker.norm), seed
    assert found > 1


@pytest.mark.parametrize("engine", ["auto", "search"])
@pytest.mark.parametrize("norm", [0, 1, "inf"])
def test_number_of_threads_makes_no_difference(norm, engine):
    rng = np.random.default_rng(0)
    trees = [
        split(i % 4, 0.5, stump((i + 1) % 4, 0.25, *rng.normal(size=2)), leaf(rng.normal()))
        for i in range(12)
    ]
    model = ensemble(*trees, n_features=4)
    rows = rng.random((150, 4))
    labels = rng.integers(2, size=150)
    one, two = (
        cg.verify(model, rows, labels, attacker(norm), engine=engine, threads=threads)
        for threads in (1, 2)
    )
    assert {"robust", "fragile", "vulnerable", "broken"} <= set(one.status.tolist())
    for name in ("status", "margin", "worst_margin_lower", "worst_margin_upper", "engine"):
        np.testing.assert_array_equal(one.columns()[name], two.columns()[name])


@pytest.mark.parametrize("engine", ENGINES)
def test_more_time_never_changes_a_verdict(engine):
    case = hard(10)
    for margin, status in ((0.5, "robust"), (-0.5, "fragile")):
        case = hard(10, margin=margin)
        for timeout in (1e-4, 1e-2, 10.0):
            result = cg.verify(
                case.ensemble, [case.x], [1], case.attacker, engine=engine, timeout=timeout
            )
            assert result.status[0] in (status, "unknown")
        assert result.status.tolist() == [status]


# ── when time runs out ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("norm", ["inf", 0, 1])
def test_bounds_hold_the_truth_when_time_runs_out(engine, norm):
    case = hard(16, norm=norm)
    result = cg.verify(case.ensemble, [case.x], [1], case.attacker, engine=engine, timeout=1e-3)
    assert result.status.tolist() == ["unknown"]
    assert result.engine.tolist() == [""]
    assert result.right.tolist() == [True]
    assert result.worst_margin_lower[0] <= case.worst_margin <= result.worst_margin_upper[0]
    assert np.isnan(result.worst_margin[0])
    assert result.robustness == (0.0, 1.0)


def test_bounds_of_a_wrong_instance_hold_the_truth_too():
    """Label 0 is wrong, and no attack makes it right: the margin stays below zero."""
    case = hard(16)
    result = cg.verify(case.ensemble, [case.x], [0], case.attacker, engine="search", timeout=1e-3)
    assert result.status.tolist() == ["unknown"]
    assert result.worst_margin_lower[0] <= -case.worst_margin <= result.worst_margin_upper[0]
    assert result.robustness == (0.0, 0.0)


def test_attack_that_runs_out_of_time_claims_nothing():
    case = hard(16)
    found = cg.attack(case.ensemble, [case.x], [1], case.attacker, engine="search", timeout=1e-3)
    assert found.status.tolist() == ["unknown"]
    assert not found.success[0]
    assert np.isnan(found.witnesses).all()


def test_time_limit_is_for_each_instance_and_kept():
    case = hard(40)
    started = time.monotonic()
    result = cg.verify(
        case.ensemble, [case.x] * 3, [1] * 3, case.attacker, engine="search", timeout=0.2, threads=1
    )
    taken = time.monotonic() - started
    assert result.status.tolist() == ["unknown"] * 3
    assert (result.seconds >= 0.2).all()
    assert 0.6 <= result.seconds.sum() <= taken < 3


def test_exact_margin_is_found_where_it_is_asked_for():
    case = hard(10)
    for exact in (False, True):
        result = cg.verify(
            case.ensemble, [case.x], [1], case.attacker, engine="search", exact_margin=exact
        )
        assert result.status.tolist() == ["robust"]
        if exact:
            assert result.worst_margin.tolist() == [case.worst_margin]


# ── progress ─────────────────────────────────────────────────────────────────────────────────


def test_every_row_is_announced_once_and_when_it_is_final():
    case = hard(16)
    labels = np.array([1, 0] * 20, dtype=np.int32)
    problem = Problem(case.ensemble, case.attacker)
    rows = problem.rows([case.x] * 40, labels)
    for timeout in (1e-3, 60.0):
        heard = []

        def listen(found, some, heard=heard):
            heard.append((some.copy(), found.status[some].copy()))

        found = decide(Task(problem, Settings(timeout=timeout, threads=2)), rows, listen)
        told = np.concatenate([some for some, _ in heard])
        assert sorted(told.tolist()) == list(range(40))
        np.testing.assert_array_equal(np.concatenate([s for _, s in heard]), found.status[told])


def test_rows_that_the_first_engine_leaves_open_are_final_only_after_the_second():
    """Rows 0 and 2 are large-spread, row 1 is not: the search decides it and adds its time."""
    problem, reports = Problem(SHARED, attacker()), []
    rows = problem.rows(X[:3], np.array(Y[:3]))
    decide(Task(problem, Settings()), rows, lambda _, final: reports.append(final.tolist()))
    first = next(report for report in reports if report)
    assert 1 not in first
    assert sorted(row for report in reports for row in report) == [0, 1, 2]


def test_asking_for_the_worst_margin_itself_does_not_cost_the_verdict():
    """Who wins is settled at once; how badly is as hard as a spin glass."""
    case = hard(40)
    model = ensemble(*case.ensemble.to_trees(), n_features=40, base_score=1000.0)
    ask = {"engine": "search", "exact_margin": True, "timeout": 0.3}
    result = cg.verify(model, [case.x], [1], case.attacker, **ask)
    assert result.status.tolist() == ["robust"]
    assert np.isnan(result.worst_margin[0])
    assert 0 <= result.worst_margin_lower[0] < result.worst_margin_upper[0]
