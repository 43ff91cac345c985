"""The options of queries: signatures, checks and defaults follow one table."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import carvegbm as cg
from carvegbm.cli.app import app
from carvegbm.options import QUERY_OPTIONS, QueryOption
from plain_trees import ensemble, stump

MODEL = ensemble(stump(0, 0.5))
ATTACKER = cg.Attacker("inf", 0.1)
OTHERS = {"proof", "progress", "budgets", "features", "label", "keep"}
"""Keywords of queries that are no options."""


def modules() -> Iterator[ModuleType]:
    yield cg
    for name in ("carvegbm.dask", "carvegbm.spark"):
        try:
            yield importlib.import_module(name)
        except ImportError:  # an optional dependency is missing
            continue


QUERIES = [
    pytest.param(getattr(module, name), id=f"{module.__name__}.{name}")
    for module in modules()
    for name in ("verify", "attack", "radius", "robustness_curve", "output_range", "stability",
                 "small_neighbourhood", "high_confidence", "Verifier")
    if hasattr(module, name)
]  # fmt: skip


def keywords(function: Any) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(function).parameters
    return {
        name: parameter
        for name, parameter in parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def bad_values(option: QueryOption) -> list[Any]:
    """Values next to the limits, and values of other types."""
    found: list[Any] = [[], {}, b"1", object]
    found += ["", "nonsense", 0.5, -1] if option.choices else ["1"]
    if option.kind in (int, float):
        found += [math.nan, -math.inf, True, complex(1)]
        found += [option.above] if option.above is not None else [option.least - 1]
        found += [] if option.most is None else [option.most + 1]
    if option.kind is int:
        found += [1.5, 2**31]
    if option.kind is bool:
        found += [0, 1, "True"]
    if option.default is not None:
        found.append(None)
    return found


def call(query: Any, **options: Any) -> None:
    if inspect.isclass(query):
        query(MODEL, ATTACKER, **options).radius([[0.1]])
    elif "spark" in query.__module__:
        query(None, MODEL, ATTACKER, **options)
    elif "dask" in query.__module__:
        X = importlib.import_module("dask.array").zeros((1, 1))
        query(MODEL, X, attacker=ATTACKER, **options).answers.compute(scheduler="sync")
    else:
        limits = {name: 0.5 for name in ("c", "q") if name in inspect.signature(query).parameters}
        query(MODEL, [[0.1]], attacker=ATTACKER, **limits, **options)


@pytest.mark.parametrize("query", QUERIES)
def test_keywords_are_options_with_the_defaults_of_the_table(query: Any) -> None:
    found = keywords(query)
    assert set(found) <= set(QUERY_OPTIONS) | OTHERS
    for name in found.keys() & QUERY_OPTIONS.keys():
        assert found[name].default == QUERY_OPTIONS[name].default, name
    order = [name for name in QUERY_OPTIONS if name in found and name != "max_budget"]
    assert {"engine", "timeout", "threads"} <= set(order)


@pytest.mark.parametrize("query", QUERIES)
def test_bad_values_are_refused_with_one_sentence(query: Any) -> None:
    needed = {"budgets": [0.1]} if "budgets" in keywords(query) else {}
    for name in keywords(query).keys() & QUERY_OPTIONS.keys():
        for value in bad_values(QUERY_OPTIONS[name]):
            with pytest.raises(cg.CarveError) as caught:
                call(query, **needed, **{name: value})
            rule = QUERY_OPTIONS[name].rule
            assert str(caught.value).startswith(f"{name} must be {rule}, got "), value


def test_the_command_line_has_the_defaults_of_the_table() -> None:
    for name in ("verify", "attack", "radius"):
        command = app.commands[name]
        given = command.make_context(name, ["sample"], resilient_parsing=True).params
        for option in QUERY_OPTIONS.keys() & given.keys():
            assert given[option] in (QUERY_OPTIONS[option].default, None), option
            assert given[option] is not None or QUERY_OPTIONS[option].default is None, option
