"""A verifier is prepared once, and answers any number of queries, from several threads."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import carvegbm as cg
from asking import attacker_of
from crowded import crowded_case
from plain_trees import ensemble, stump

QUERIES = {
    "verify": lambda verifier, X, y: verifier.verify(X, y),
    "attack": lambda verifier, X, y: verifier.attack(X, y),
    "radius": lambda verifier, X, y: verifier.radius(X, y),
    "robustness_curve": lambda verifier, X, y: verifier.robustness_curve(X, y, budgets=[1, 2]),
    "output_range": lambda verifier, X, y: verifier.output_range(X),  # noqa: ARG005
}
FUNCTIONS = {
    "robustness_curve": partial(cg.robustness_curve, budgets=[1, 2]),
    "output_range": lambda model, X, _, attacker, **options: cg.output_range(
        model, X, attacker, **options
    ),
}
MODEL = ensemble(stump(0, 0.5), stump(1, 0.5, -0.5, 0.5), stump(1, 0.75), n_features=2)
X = np.random.default_rng(0).random((60, 2))
Y = np.random.default_rng(1).integers(0, 2, 60)


def same(one: cg.Result, other: cg.Result) -> None:
    columns, others = one.columns(), other.columns()
    assert list(columns) == list(others)
    for name in columns.keys() - {"seconds"}:
        np.testing.assert_array_equal(columns[name], others[name], err_msg=name)


@given(
    seed=st.integers(0, 39),
    norm=st.sampled_from([0, 1, 2, float("inf")]),
    names=st.lists(st.sampled_from(list(QUERIES)), min_size=2, max_size=6),
    is_pickled=st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_queries_in_any_order_answer_as_the_functions_do(seed, norm, names, is_pickled):
    case = crowded_case(seed, norm)
    model, rows, labels = case.ensemble, [case.x], [case.ensemble.classes[case.label]]
    attacker = attacker_of(case)
    verifier = cg.Verifier(model, attacker, threads=1)
    for name in names:
        if is_pickled:
            verifier = pickle.loads(pickle.dumps(verifier))
        function = FUNCTIONS.get(name, getattr(cg, name))
        found = QUERIES[name](verifier, rows, labels)
        same(found, function(model, rows, labels, attacker, threads=1))


@pytest.mark.parametrize("name", QUERIES)
def test_threads_that_share_a_verifier_get_the_answers_of_one(name):
    query = QUERIES[name]
    expected = query(cg.Verifier(MODEL, cg.Attacker(1, 1), threads=1), X, Y)
    shared = cg.Verifier(MODEL, cg.Attacker(1, 1), threads=1)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: query(shared, X, Y), range(24)):
            same(found, expected)


def test_a_pickle_holds_model_and_attacker_and_nothing_derived():
    verifier = cg.Verifier(MODEL, cg.Attacker(1, 1))
    before = len(pickle.dumps(verifier))
    for query in QUERIES.values():
        query(verifier, X, Y)
    assert len(pickle.dumps(verifier)) < before + 2000


def test_an_attacker_without_budget_serves_where_the_budget_is_searched():
    verifier = cg.Verifier(MODEL, cg.Attacker(1))
    assert verifier.radius(X).exact.all()
    assert verifier.robustness_curve(X, budgets=0.1).accuracy == 1
    for query in (verifier.verify, verifier.attack, verifier.output_range):
        with pytest.raises(cg.CarveError, match="the attacker has no budget"):
            query(X)


def test_options_of_verify_do_not_change_other_queries():
    plain = cg.Verifier(MODEL, cg.Attacker(1, 0.2), threads=1)
    special = cg.Verifier(MODEL, cg.Attacker(1, 0.2), threads=1, grid=1, exact_margin=True)
    same(special.attack(X), plain.attack(X))
    same(special.radius(X), plain.radius(X))
