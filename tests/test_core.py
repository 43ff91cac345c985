"""What the core answers, by the names it answers with."""

from __future__ import annotations

import gc
import time
from pathlib import Path

import numpy as np
import pytest

import carvegbm as cg
from carvegbm import _core
from carvegbm.problem import Problem
from plain_trees import ensemble, hard, leaf, stump

ROBUST, FRAGILE, VULNERABLE, BROKEN, UNKNOWN = range(5)
SOLVERS = (_core.Solver.none, _core.Solver.large_spread, _core.Solver.search)
MODEL = ensemble(stump(0, 0.5))
ATTACKER = cg.Attacker("inf", 0.1)
X = np.array([[0.45], [0.9], [0.1], [0.55]])
LABELS = np.array([0, 1, 1, 0], dtype=np.int32)
STATUSES = [FRAGILE, ROBUST, VULNERABLE, BROKEN]

ALWAYS = {"status", "engine", "seconds"}
VERDICT = ALWAYS | {"right", "margin", "worst_lower", "worst_upper"}
WITNESS = {"witness", "distance"}
RADIUS = {"radius_lower", "radius_upper"}
RANGE = {"lowest_lower", "lowest_upper", "highest_lower", "highest_upper"}
solvers = pytest.mark.parametrize("solver", SOLVERS[1:])


def problem(model=MODEL, attacker=ATTACKER):
    return _core.Problem(model.core, Problem(model, attacker).core_attacker)


def options(solver, n=4, seconds=10.0, threads=1, **rest):
    return _core.Options(solver, np.full(n, seconds), threads, **rest)


def filled(decisions):
    names = VERDICT | WITNESS | RADIUS | RANGE
    return {name for name in names if getattr(decisions, name) is not None}


# ── columns ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_question_fills_its_own_columns_and_no_others(solver):
    asked, given = problem(), options(solver)
    assert filled(_core.decide(asked, X, LABELS, given, None)) == VERDICT
    with_witness = options(solver, witness=True)
    assert filled(_core.decide(asked, X, LABELS, with_witness, None)) == VERDICT | WITNESS
    assert filled(_core.radius(asked, X, LABELS, given, None)) == ALWAYS | RADIUS
    assert filled(_core.output_range(asked, X, given, None)) == ALWAYS | RANGE
    assert filled(_core.stays_within(asked, X, np.array([0.5]), given, None)) == ALWAYS


def test_columns_outlive_the_decisions_and_the_problem_its_parts():
    asked = problem(ensemble(stump(0, 0.5)), cg.Attacker("inf", 0.1))
    gc.collect()
    status = _core.decide(asked, X, LABELS, options(_core.Solver.search), None).status
    gc.collect()
    assert status.tolist() == STATUSES
    status[:] = UNKNOWN
    assert status.tolist() == [UNKNOWN] * 4


@solvers
def test_codes_say_what_was_decided_and_by_whom(solver):
    code = [SOLVERS.index(solver)] * 4
    found = _core.decide(problem(), X, LABELS, options(solver), None)
    assert (found.status.tolist(), found.engine.tolist()) == (STATUSES, code)
    found = _core.stays_within(problem(), X, np.array([0.5]), options(solver), None)
    assert found.status.tolist() == [FRAGILE, ROBUST, ROBUST, FRAGILE]
    assert found.engine.tolist() == code
    for found in (
        _core.radius(problem(), X, LABELS, options(solver), None),
        _core.output_range(problem(), X, options(solver), None),
    ):
        assert (found.status.tolist(), found.engine.tolist()) == ([ROBUST] * 4, code)


def test_without_an_attack_there_is_a_margin_and_what_it_implies():
    nobody = options(_core.Solver.none, witness=True)
    found = _core.decide(problem(), X, LABELS, nobody, None)
    assert found.status.tolist() == [UNKNOWN] * 4
    assert found.engine.tolist() == [0] * 4
    assert found.right.tolist() == [True, True, False, False]
    assert found.margin.tolist() == [1, 1, -1, -1]
    assert found.worst_lower.tolist() == [-np.inf, -np.inf, -1, -1]
    assert found.worst_upper.tolist() == [1, 1, np.inf, np.inf]
    assert np.isnan(found.witness).all()
    radii = _core.radius(problem(), X, LABELS, nobody, None)
    assert radii.radius_lower.tolist() == [0, 0, 0, 0]
    assert radii.radius_upper.tolist() == [np.inf, np.inf, 0, 0]
    assert radii.status.tolist() == [UNKNOWN, UNKNOWN, ROBUST, ROBUST]
    reach = _core.output_range(problem(), X, nobody, None)
    assert reach.lowest_upper.tolist() == reach.highest_lower.tolist() == [-1, 1, -1, 1]
    assert np.isneginf(reach.lowest_lower).all()


def test_instances_that_are_not_large_spread_are_left_to_others():
    """Both trees test the feature; only near 0.5 can an attacker use both."""
    model = ensemble(stump(0, 0.5), stump(0, 0.55), stump(1, 0.5), n_features=2)
    rows = np.array([[0.52, 0.9], [0.1, 0.45]])
    labels = np.array([1, 0], dtype=np.int32)
    asked = problem(model)
    large_spread = options(_core.Solver.large_spread, 2, per_instance=True)
    search = options(_core.Solver.search, 2, exact_margin=True)
    found = _core.decide(asked, rows, labels, large_spread, None)
    truth = _core.decide(asked, rows, labels, search, None)
    assert found.status.tolist() == [UNKNOWN, truth.status[1]]
    assert found.engine.tolist() == [0, 1]
    assert found.right.tolist() == truth.right.tolist()
    assert found.margin.tolist() == truth.margin.tolist()
    assert (found.worst_lower <= truth.worst_lower).all()
    assert (found.worst_upper >= truth.worst_upper).all()
    reach = _core.output_range(asked, rows, large_spread, None)
    assert reach.status.tolist() == [UNKNOWN, ROBUST]
    radii = _core.radius(asked, rows, labels, large_spread, None)
    truth = _core.radius(asked, rows, labels, search, None)
    assert (radii.radius_lower <= truth.radius_lower).all()
    assert (radii.radius_upper >= truth.radius_upper).all()


def test_limits_are_those_of_the_row():
    case = hard(40)
    asked = problem(case.ensemble, case.attacker)
    rows, labels = np.array([case.x] * 2), np.array([1, 1], dtype=np.int32)
    limits = np.array([0.01, 0.4])
    found = _core.decide(asked, rows, labels, _core.Options(SOLVERS[2], limits, 1), None)
    assert found.status.tolist() == [UNKNOWN] * 2
    assert found.seconds[0] < 0.2 < found.seconds[1]


@pytest.mark.parametrize(
    ("rows", "labels", "seconds", "word"),
    [
        (X, LABELS, np.ones(3), "seconds"),
        (X, LABELS[:3], np.ones(4), "label"),
        (X, LABELS + 1, np.ones(4), "label"),
        (np.zeros((4, 2)), LABELS, np.ones(4), "columns"),
    ],
)
def test_what_does_not_fit_is_refused(rows, labels, seconds, word):
    with pytest.raises(ValueError, match=word):
        _core.decide(problem(), rows, labels, _core.Options(SOLVERS[1], seconds, 1), None)


# ── verdicts ─────────────────────────────────────────────────────────────────────────────────


@solvers
def test_a_witness_is_that_of_the_rival_who_takes_over(solver):
    """Class 1 can take over, class 2 comes close: its attack is not the witness."""
    trees = [stump(0, 0.5, [2.0, 0.0, 0.0], [0.0, 1.0, 0.0]), stump(1, 0.5, [0.0] * 3, [0, 0, 0.5])]
    model = ensemble(*trees, n_features=2)
    rows, labels = np.array([[0.45, 0.45]]), np.zeros(1, dtype=np.int32)
    given = options(solver, 1, witness=True, exact_margin=True, basic=solver == SOLVERS[1])
    found = _core.decide(problem(model), rows, labels, given, None)
    assert found.status.tolist() == [FRAGILE]
    assert cg.Ensemble.raw_score(model, found.witness).argmax() == 1
    assert found.worst_upper.tolist() == [-1.0]


def test_a_rival_that_cannot_be_beaten_is_not_hidden_by_one_that_is_hard_to_judge():
    """A wrong instance of class 0: 1 is far ahead, as a spin glass; 2 a little, for good."""
    glass = hard(40)

    def second(tree):
        if "score" in tree:
            return leaf([0.0, tree["score"], 0.0])
        return tree | {side: second(tree[side]) for side in ("left", "right")}

    trees = [second(tree) for tree in glass.ensemble.to_trees()]
    model = ensemble(
        *trees, n_features=40, base_score=[0.0, float(glass.ensemble.base_score[0]), 1]
    )
    found = cg.verify(model, [glass.x], [0], glass.attacker, engine="search", timeout=0.5)
    assert found.status.tolist() == ["vulnerable"]


# ── progress ─────────────────────────────────────────────────────────────────────────────────


@solvers
@pytest.mark.parametrize("threads", [1, 2])
def test_every_row_is_announced_once_with_all_that_is_known_of_it(solver, threads):
    n = 1000
    told = []

    def tell(decisions, rows):
        assert rows.dtype == np.int64
        assert len(rows) > 0
        told.extend(rows.tolist())
        assert (decisions.status[rows] == np.resize(STATUSES, n)[rows]).all()
        assert (decisions.engine[rows] == SOLVERS.index(solver)).all()
        assert np.isfinite(decisions.worst_lower[rows]).all()

    rows, labels = np.resize(X, (n, 1)), np.resize(LABELS, n)
    given = options(solver, n, threads=threads, exact_margin=True)
    found = _core.decide(problem(), rows, labels, given, tell)
    assert sorted(told) == list(range(n))
    assert len(found) == n


def test_rows_are_announced_while_others_are_under_way():
    case = hard(40)
    rows, labels = np.array([case.x] * 6), np.ones(6, dtype=np.int32)
    told = []
    _core.decide(
        problem(case.ensemble, case.attacker), rows, labels,
        options(SOLVERS[2], 6, seconds=0.15), lambda _, finished: told.append(finished.tolist()),
    )  # fmt: skip
    assert len(told) > 2
    assert sorted(row for rows in told for row in rows) == list(range(6))


def test_column_that_is_kept_does_not_keep_the_others():
    rows = np.zeros((2000, 500))
    model = ensemble(stump(0, 0.5), n_features=500)
    before = _megabytes()
    kept = []
    for _ in range(8):
        found = _core.decide(
            problem(model), rows, np.zeros(2000, dtype=np.int32),
            options(SOLVERS[1], 2000, witness=True), None,
        )  # fmt: skip
        kept.append(found.distance)
        del found
    assert _megabytes() - before < 8 * rows.nbytes / 2**20 / 2


def _megabytes():
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("needs /proc")
    return int(statm.read_text().split()[1]) * 4096 / 2**20


@solvers
def test_there_may_be_no_rows(solver):
    told = []
    found = _core.decide(
        problem(), X[:0], LABELS[:0], options(solver, 0, witness=True),
        lambda _, finished: told.extend(finished.tolist()),
    )  # fmt: skip
    assert (len(found), found.witness.shape, told) == (0, (0, 1), [])


def test_an_error_in_the_progress_function_ends_the_work():
    case = hard(40)
    limits = np.array([1e-9, 60.0])

    def fail(_decisions, rows):
        raise ZeroDivisionError(f"told of {rows.tolist()}")

    started = time.monotonic()
    with pytest.raises(ZeroDivisionError, match=r"told of \[0\]"):
        _core.decide(
            problem(case.ensemble, case.attacker), np.array([case.x] * 2),
            np.ones(2, dtype=np.int32), _core.Options(SOLVERS[2], limits, 1), fail,
        )  # fmt: skip
    assert time.monotonic() - started < 10
