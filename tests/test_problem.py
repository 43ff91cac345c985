"""The problem: what all questions and rows share is found once; labels may be left out."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest

import carvegbm as cg
import oracle
from carvegbm.engines import Settings, Task, decide
from carvegbm.problem import Problem
from crowded import crowded_case
from plain_trees import ensemble, leaf, refused, stump

MODEL = ensemble(stump(0, 0.5), stump(1, 0.5), n_features=2)
X = [[0.1, 0.1], [0.45, 0.9], [0.9, 0.9]]
ATTACKER = cg.Attacker("inf", 0.1, bounds=(0, 1), scale={0: 2.0}, features=[0, 1])


def test_limits_and_spread_are_found_once_for_all_questions(monkeypatch):
    found = []
    for owner, name in (
        (cg.Attacker, "limits"),
        (sys.modules["carvegbm.attackers.spread"], "_find_closest_pair"),
    ):
        real = getattr(owner, name)

        def counting(*arguments, real=real, name=name):
            found.append(name)
            return real(*arguments)

        monkeypatch.setattr(owner, name, counting)
    model = ensemble(stump(0, 0.5), stump(1, 0.5), stump(1, 0.4), n_features=2)
    problem = Problem(model, ATTACKER)
    rows = problem.rows(X, [0, 0, 1])
    for witness in (False, True):
        decide(Task(problem, Settings(), witness=witness), rows)
    assert found.count("_find_closest_pair") == 1
    assert found.count("limits") <= 2, "once for the problem, once for its spread"


@pytest.mark.parametrize("norm", [0, 1, "inf"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_without_labels_the_models_own_answer_is_right(norm, task):
    for seed in range(20):
        case = crowded_case(seed, float(norm) if norm == "inf" else norm, task, edge=seed % 2 == 0)
        model, budget = case.ensemble, case.attacker.budget
        attacker = cg.Attacker(norm, budget)
        own = oracle.decide(model, oracle.raw_score(model, case.x))
        for ask in (cg.verify, cg.attack):
            left_out = ask(model, [case.x], attacker=attacker)
            given = ask(model, [case.x], [model.classes[own]], attacker)
            assert left_out.status.tolist() == given.status.tolist()
            assert left_out.status[0] in ("robust", "fragile")
        one = cg.radius(model, [case.x], attacker=cg.Attacker(norm))
        given = cg.radius(model, [case.x], [model.classes[own]], cg.Attacker(norm))
        assert one.radius.tolist() == given.radius.tolist()
        assert one.radius[0] > 0


@pytest.mark.parametrize("outputs", [1, 3])
def test_own_answer_is_that_of_the_exact_sum_where_rounding_would_say_otherwise(outputs):
    """1e17 + 1 - 1e17 is 0 in floating point, and 1 in truth."""
    parts = [1e17, 1.0, -1e17]
    if outputs == 1:
        model = ensemble(*(leaf(part) for part in parts), n_features=1, threshold=0.5)
    else:
        model = ensemble(*(leaf([0.5, part, 0.25]) for part in parts), n_features=1)
    exact = oracle.decide(model, oracle.raw_score(model, [0.0]))
    assert exact == (1 if outputs == 1 else 0) or model.decide([[0.0]])[0] != exact
    result = cg.verify(model, [[0.0]] * 2, attacker=cg.Attacker(1, 1))
    assert result.right.tolist() == [True, True]
    assert result.status.tolist() == ["robust", "robust"]


def test_regression_model_has_no_answer_to_keep():
    model = ensemble(stump(0, 0.5), task="regression")
    with refused("regression", "output_range"):
        cg.verify(model, [[0.1]], attacker=cg.Attacker(1, 1))


def test_curve_without_labels_begins_with_everything_right():
    rows = [[0.1, 0.1], [0.45, 0.45], [0.9, 0.9]]
    curve = cg.robustness_curve(MODEL, rows, attacker=cg.Attacker("inf"), budgets=[0.0, 0.1, 1.0])
    assert curve.accuracy == 1.0
    assert curve.lower.tolist() == [1.0, 2 / 3, 0.0]


def test_budget_of_a_problem_can_be_another():
    problem = Problem(MODEL, ATTACKER)
    assert problem.with_budget(ATTACKER.budget) is problem
    assert problem.with_budget(0.3).attacker == ATTACKER.with_budget(0.3)
    assert problem.largest_budget == math.inf
    rows = problem.rows(X, [0, 0, 1])
    assert rows.take(np.arange(3)) is rows
    assert rows.take(np.array([2])).X.tolist() == [X[2]]
