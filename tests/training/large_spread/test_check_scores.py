"""LightGBM's own scores are compared with the trees: no version may grow other trees."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

import carvegbm as cg
from carvegbm.training.large_spread import lightgbm_c
from carvegbm.training.params import REGRESSION_OBJECTIVES
from carvegbm.training.tuning import tune
from training import problems

PROBLEMS = {
    "binary": (cg.LargeSpreadClassifier, problems.two_classes),
    "multiclass": (cg.LargeSpreadClassifier, problems.three_classes),
    "regression": (cg.LargeSpreadRegressor, problems.numbers),
}
SAMPLING = {
    "all rows": {},
    "half of the rows": {"subsample": 0.5, "subsample_freq": 1},
    "most of the rows": {"subsample": 0.9, "subsample_freq": 1},
    "goss": {"data_sample_strategy": "goss", "learning_rate": 0.5},
    "some columns": {"colsample_bytree": 0.6},
}


def estimator(kind, **parameters):
    defaults = {"n_estimators": 20, "num_leaves": 8, "min_child_samples": 5, "n_jobs": 1}
    return PROBLEMS[kind][0](**{**defaults, "budget": 0.02, "random_state": 0, **parameters})


@pytest.fixture(name="stale_bins")
def bins_that_cannot_be_overwritten(monkeypatch):
    """A LightGBM in which writing to the bins between rounds does nothing."""
    call = lightgbm_c._call

    def deaf(name, *arguments):
        if name != "LGBM_DatasetPushRowsByCSR":
            call(name, *arguments)

    monkeypatch.setattr(lightgbm_c, "_call", deaf)


@pytest.mark.usefixtures("stale_bins")
@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_bins_that_are_not_overwritten_bring_an_error_and_no_model(kind, sampling):
    X, y = PROBLEMS[kind][1]()
    model = estimator(kind, **SAMPLING[sampling])
    with pytest.raises(
        cg.CarveError, match=f"^LightGBM {lightgbm.__version__} .*not train on the ro"
    ) as e:
        model.fit(X, y)
    assert "another version of LightGBM" in str(e.value)
    assert "\n" not in str(e.value)
    assert not hasattr(model, "booster_")


@pytest.mark.usefixtures("stale_bins")
def test_certified_training_and_tuning_pass_the_error_on():
    X, y = problems.two_classes()
    with pytest.raises(cg.CarveError, match="not train on the rows"):
        estimator("binary", certified=True).fit(X, y)
    with pytest.raises(cg.CarveError, match="not train on the rows"):
        tune(X, y, budget=0.02, grid={"num_leaves": [8]}, n_estimators=20, n_jobs=1)


# ── no false alarm ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sampling", SAMPLING)
@pytest.mark.parametrize("kind", PROBLEMS)
def test_the_check_passes_for_every_way_to_sample(kind, sampling):
    X, y = PROBLEMS[kind][1]()
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    model = estimator(kind, **SAMPLING[sampling]).fit(X.astype(np.float32), y, weight)
    assert model.ensemble_.n_trees > 3


@pytest.mark.parametrize("sqrt", [False, True])
@pytest.mark.parametrize("objective", sorted(set(REGRESSION_OBJECTIVES.values())))
def test_the_check_knows_what_every_objective_makes_of_a_score(objective, sqrt):
    X, y = problems.numbers()
    model = estimator("regression", objective=objective, reg_sqrt=sqrt).fit(X, np.abs(y) + 0.1)
    assert model.ensemble_.n_trees > 3


@pytest.mark.parametrize(
    "parameters",
    [
        {"sigmoid": 0.123456789},
        {"sigmoid": 30.0},
        {"scale_pos_weight": 7.0},
        {"is_unbalance": True},
        {"boost_from_average": False},
        {"use_quantized_grad": True},
        {"monotone_constraints": [1, -1, 0, 0, 0, 0, 0, 0]},
        {"max_delta_step": 0.3, "path_smooth": 1.0},
        {"colsample_bytree": 0.1, "min_split_gain": 12.0},
        {"certified": True, "max_crowding": None},
    ],
    ids=lambda parameters: next(iter(parameters)),
)
def test_the_check_passes_for_ways_to_learn(parameters):
    X, y = problems.two_classes()
    assert estimator("binary", **parameters).fit(X, y).ensemble_.n_trees > 1


def test_the_check_passes_where_a_callback_samples_rows_from_some_round_on():
    X, y = problems.two_classes()
    fractions = [1.0] * 8 + [0.5] * 12
    change = lightgbm.reset_parameter(bagging_fraction=fractions, bagging_freq=[1] * 20)
    assert estimator("binary").fit(X, y, callbacks=[change]).n_iter_ > 8


@pytest.mark.parametrize("kind", PROBLEMS)
def test_an_interrupted_training_keeps_what_is_trained(kind, monkeypatch):
    X, y = PROBLEMS[kind][1]()
    grow, calls = lightgbm_c.RawBooster.grow, []

    def interrupted(self, *arguments):
        found = grow(self, *arguments)
        calls.append(None)
        if len(calls) == 8:  # LightGBM has the tree, and nobody else has
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(lightgbm_c.RawBooster, "grow", interrupted)
    model = estimator(kind).fit(X, y)
    assert model.stopped_because_ == "interrupted"
    assert 1 < model.ensemble_.n_trees < 8
