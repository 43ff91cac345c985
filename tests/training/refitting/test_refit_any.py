"""Robust refits of models that are not large-spread: every library, many classes, numbers."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.preprocessing import minmax_scale

import carvegbm as cg
from carvegbm.training.evaluation import worst_errors
from training import problems
from training.refits import refit, robustness, same_trees

xgboost = pytest.importorskip("xgboost")

INF = cg.Attacker("inf", 0.05)

CLASSIFIERS = {
    "lightgbm": lightgbm.LGBMClassifier(n_estimators=15, num_leaves=8, n_jobs=1, verbose=-1),
    "xgboost": xgboost.XGBClassifier(n_estimators=15, max_depth=3, n_jobs=1),
    "random forest": RandomForestClassifier(n_estimators=15, max_depth=5, random_state=0),
    "extra trees": ExtraTreesClassifier(n_estimators=15, max_depth=5, random_state=0),
    "histograms": HistGradientBoostingClassifier(max_iter=15, max_leaf_nodes=8),
}
REGRESSORS = {
    "lightgbm": lightgbm.LGBMRegressor(n_estimators=15, num_leaves=8, n_jobs=1, verbose=-1),
    "xgboost": xgboost.XGBRegressor(n_estimators=15, max_depth=3, n_jobs=1),
    "random forest": RandomForestRegressor(n_estimators=15, max_depth=5, random_state=0),
    "boosting": GradientBoostingRegressor(n_estimators=15, max_depth=3, random_state=0),
}


def tumours(n=569, seed=0):  # noqa: ARG001
    X, y = load_breast_cancer(return_X_y=True)
    return minmax_scale(X)[:n], y[:n]


def halves(problem, n=300, seed=0):
    X, y = problem(n, seed=seed)
    return (X[: n // 2], y[: n // 2]), (X[n // 2 :], y[n // 2 :])


def worst_error(model, rows, attacker):
    return float(worst_errors(model, *rows, attacker, threads=1).mean())


# ── classes ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("problem", [tumours, problems.three_classes])
def test_models_of_every_library_become_more_robust_and_keep_their_trees(name, problem):
    train, valid = halves(problem)
    model = clone(CLASSIFIERS[name]).fit(*train)
    start = cg.load(model)
    attacker = cg.Attacker("inf", 0.1)
    assert not cg.is_large_spread(start, attacker)
    better = refit(model, train, valid, attacker, steps=60)
    assert robustness(better, valid, attacker) > robustness(model, valid, attacker) + 0.02
    assert same_trees(cg.load(better), start)


@pytest.mark.parametrize("problem", [problems.two_classes, problems.three_classes])
def test_what_comes_back_has_the_raw_scores_that_were_proven(problem):
    train, valid = halves(problem)
    for name in ("lightgbm", "xgboost"):
        better = refit(clone(CLASSIFIERS[name]).fit(*train), train, valid, INF)
        proven = cg.load(better)
        if name == "lightgbm":
            raw = better.predict(valid[0], raw_score=True, num_threads=1)
        else:
            from xgboost import DMatrix

            raw = better.predict(DMatrix(valid[0]), output_margin=True)
        assert np.array_equal(raw, proven.raw_score(valid[0], threads=1)), name


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**20),
    name=st.sampled_from(["lightgbm", "xgboost", "random forest"]),
    problem=st.sampled_from([problems.two_classes, problems.three_classes, problems.pixels]),
    rate=st.sampled_from([0.001, 0.01, 3.0]),
    budget=st.sampled_from([0.01, 0.1]),
)
def test_no_model_becomes_less_robust(seed, name, problem, rate, budget):
    train, valid = halves(problem, 120, seed)
    attacker = cg.Attacker("inf", budget)
    model = clone(CLASSIFIERS[name]).fit(*train)
    better = refit(model, train, valid, attacker, steps=15, learning_rate=rate)
    assert robustness(better, valid, attacker) >= robustness(model, valid, attacker)


def test_the_accuracy_floor_counts_for_any_ensemble():
    train, valid = halves(problems.two_classes)
    attacker = cg.Attacker("inf", 0.12)
    model = clone(CLASSIFIERS["lightgbm"]).fit(*train)
    floor = float((cg.load(model).decide(valid[0]) == valid[1]).mean())
    bold = refit(model, train, valid, attacker, steps=100)
    careful = refit(model, train, valid, attacker, steps=100, accuracy_floor=floor)
    accuracy = [float((cg.load(m).decide(valid[0]) == valid[1]).mean()) for m in (bold, careful)]
    assert accuracy[0] < floor <= accuracy[1]
    assert robustness(careful, valid, attacker) >= robustness(model, valid, attacker)


def test_rows_without_a_verdict_count_as_not_robust(monkeypatch):
    """A refit whose rows are all unknown is proven of nothing, and is not taken."""
    from carvegbm.training import robust_refit as module

    asked = []

    def prove(model, *arguments, **options):
        asked.append(options["timeout"])
        options["timeout"] = 10.0 if len(asked) == 1 else 1e-9
        return really(model, *arguments, **options)

    really = module.prove
    monkeypatch.setattr(module, "prove", prove)
    train, valid = halves(problems.two_classes)
    forest = RandomForestClassifier(n_estimators=40, random_state=0).fit(*train)
    better = refit(forest, train, valid, INF, steps=5, timeout=0.25)
    assert asked == [0.25, 0.25]
    assert better == cg.load(forest)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("unit", [1.0, 30.0, 1e6])
def test_the_worst_errors_of_regressions_shrink_whatever_their_unit(name, unit):
    (X, y), (Xv, yv) = halves(problems.numbers)
    train, valid = (X, unit * y), (Xv, unit * yv)
    model = clone(REGRESSORS[name]).fit(*train)
    better = refit(model, train, valid, INF, steps=60)
    before, after = (worst_error(m, valid, INF) for m in (model, better))
    assert after < 0.95 * before
    assert same_trees(cg.load(better), cg.load(model))


@pytest.mark.parametrize(("norm", "budget"), [("inf", 0.03), (1, 0.05), (2, 0.05), (0, 1)])
def test_an_own_regressor_comes_back_as_one_for_every_norm(norm, budget):
    train, valid = halves(problems.numbers)
    model = cg.LargeSpreadRegressor(
        norm=norm, budget=budget, n_estimators=10, num_leaves=6, min_child_samples=5, n_jobs=1
    ).fit(*train)
    text = model.booster_.model_to_string()
    attacker = model.attacker_
    better = refit(model, train, valid, attacker, steps=80)
    assert isinstance(better, cg.LargeSpreadRegressor)
    assert worst_error(better.ensemble_, valid, attacker) < worst_error(
        model.ensemble_, valid, attacker
    )
    assert np.array_equal(better.predict(valid[0]), better.ensemble_.raw_score(valid[0]))
    assert model.booster_.model_to_string() == text


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**20),
    name=st.sampled_from(sorted(REGRESSORS)),
    rate=st.sampled_from([0.001, 0.03, 3.0]),
)
def test_no_regression_gets_larger_worst_errors(seed, name, rate):
    train, valid = halves(problems.numbers, 120, seed)
    model = clone(REGRESSORS[name]).fit(*train)
    better = refit(model, train, valid, INF, steps=15, learning_rate=rate)
    assert worst_error(better, valid, INF) <= worst_error(model, valid, INF)


OTHER_OBJECTIVES = {
    "poisson": lightgbm.LGBMRegressor(objective="poisson", n_estimators=2, n_jobs=1, verbose=-1),
    "regression_l1": lightgbm.LGBMRegressor(objective="l1", n_estimators=2, n_jobs=1, verbose=-1),
    "regression sqrt": lightgbm.LGBMRegressor(reg_sqrt=True, n_estimators=2, n_jobs=1, verbose=-1),
    "reg:absoluteerror": xgboost.XGBRegressor(objective="reg:absoluteerror", n_estimators=2),
    "absolute_error": RandomForestRegressor(n_estimators=2, criterion="absolute_error"),
}


@pytest.mark.parametrize("objective", OTHER_OBJECTIVES)
def test_other_objectives_than_the_squared_error_are_refused_by_name(objective):
    X, y = problems.numbers(100)
    model = clone(OTHER_OBJECTIVES[objective]).fit(X, np.abs(y))
    with pytest.raises(cg.CarveError, match=objective) as caught:
        refit(model, (X, y), (X, y), INF)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"accuracy_floor": 0.5}, "accuracy_floor is for classes"),
        ({"y": ["a"] * 100}, "must be numbers"),
        ({"y": [np.nan] * 100}, "row 0 is nan"),
        ({"y": np.zeros(99)}, "one number per row"),
        ({"y": np.zeros((100, 2))}, "one number per row"),
        ({"timeout": 0}, "timeout must be a number > 0, got 0"),
        ({"timeout": "long"}, "timeout must be"),
    ],
    ids=str,
)
def test_bad_input_of_a_regression_is_refused_in_one_clear_line(options, message):
    X, y = problems.numbers(100)
    model = clone(REGRESSORS["lightgbm"]).fit(X, y)
    wanted = options.pop("y", y)
    with pytest.raises(cg.CarveError, match=message) as caught:
        refit(model, (X, wanted), None, INF, **options)
    assert "\n" not in str(caught.value)


# ── moves that share a budget ────────────────────────────────────────────────────────────────

SHARED = [cg.Attacker(0, 1), cg.Attacker(1, 0.2), cg.Attacker(2, 0.15)]


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
@pytest.mark.parametrize(
    ("problem", "attacker"),
    [*((tumours, a) for a in SHARED), *((problems.three_classes, a) for a in SHARED[1:])],
)
def test_witnesses_make_models_more_robust_where_moves_share_a_budget(name, problem, attacker):
    train, valid = halves(problem)
    model = clone(CLASSIFIERS[name]).fit(*train)
    assert not cg.is_large_spread(cg.load(model), attacker)
    better = refit(model, train, valid, attacker, steps=60)
    assert robustness(better, valid, attacker) > robustness(model, valid, attacker) + 0.02
    assert same_trees(cg.load(better), cg.load(model))


@pytest.mark.parametrize("attacker", SHARED, ids=str)
def test_worst_errors_shrink_where_moves_share_a_budget(attacker):
    train, valid = halves(problems.numbers)
    model = clone(REGRESSORS["lightgbm"]).fit(*train)
    better = refit(model, train, valid, attacker, steps=80, learning_rate=0.03)
    assert worst_error(better, valid, attacker) < 0.99 * worst_error(model, valid, attacker)


def test_a_refit_at_witnesses_is_the_same_with_any_number_of_threads():
    train, valid = halves(problems.two_classes)
    model = clone(CLASSIFIERS["lightgbm"]).fit(*train)
    one, two = (
        refit(model, train, valid, cg.Attacker(2, 0.1), steps=20, threads=threads)
        for threads in (1, 2)
    )
    assert cg.load(one) == cg.load(two)
