"""XGBoost: the ensemble's raw score is the Booster's own, bit for bit, in float32."""

from __future__ import annotations

import gzip
import json
from typing import Any

import numpy as np
import pytest

from carvegbm import load
from carvegbm.errors import ModelError
from carvegbm.readers.xgboost import decode_ubjson
from readers.conftest import boundary_data, classes_of

xgb = pytest.importorskip("xgboost")

LARGEST = 1e30  # XGBoost refuses infinity, which larger numbers become in float32


def data(missing: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    return boundary_data(1e-41, missing)


def train(objective: str, rounds: int = 12, **params: Any) -> xgb.Booster:
    X, y = data()
    if "num_class" in params:
        y = classes_of(y, params["num_class"])
    elif objective.startswith(("binary", "rank", "reg:logistic")):
        y = classes_of(y, 2)
    elif objective not in ("reg:squarederror", "reg:absoluteerror"):
        y = np.abs(y) + 0.1
    matrix = xgb.DMatrix(X, label=y)
    if objective.startswith("rank"):
        matrix.set_group([len(X)])
    if objective == "survival:aft":
        matrix.set_float_info("label_lower_bound", y)
        matrix.set_float_info("label_upper_bound", y + 1)
    quiet = {"objective": objective, "max_depth": 4, "nthread": 1, "seed": 1}
    return xgb.train(quiet | params, matrix, rounds)


def margin(booster: xgb.Booster, X: np.ndarray, **options: Any) -> np.ndarray:
    return booster.predict(xgb.DMatrix(X, nthread=1), output_margin=True, **options)


CASES: dict[str, dict[str, Any]] = {
    "logistic": {"objective": "binary:logistic"},
    "logistic from 0.2": {"objective": "binary:logistic", "base_score": 0.2},
    "logistic, exact": {"objective": "binary:logistic", "tree_method": "exact"},
    "logistic regression": {"objective": "reg:logistic"},
    "raw logistic": {"objective": "binary:logitraw"},
    "hinge": {"objective": "binary:hinge"},
    "softmax": {"objective": "multi:softmax", "num_class": 3},
    "softprob": {"objective": "multi:softprob", "num_class": 4},
    "softprob from 0.3": {"objective": "multi:softprob", "num_class": 3, "base_score": 0.3},
    "forest rounds": {
        "objective": "multi:softprob",
        "num_class": 3,
        "num_parallel_tree": 3,
        "subsample": 0.5,
    },
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5},
    "dart softprob": {
        "objective": "multi:softprob",
        "num_class": 3,
        "booster": "dart",
        "rate_drop": 0.5,
    },
    "lossguide": {
        "objective": "reg:squarederror",
        "grow_policy": "lossguide",
        "max_leaves": 20,
        "max_depth": 0,
    },
    "pruned": {"objective": "reg:squarederror", "tree_method": "exact", "gamma": 20.0},
    "squared error": {"objective": "reg:squarederror"},
    "squared log error": {"objective": "reg:squaredlogerror"},
    "absolute error": {"objective": "reg:absoluteerror"},
    "pseudo-Huber": {"objective": "reg:pseudohubererror"},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.4},
    "Poisson": {"objective": "count:poisson"},
    "gamma": {"objective": "reg:gamma"},
    "Tweedie": {"objective": "reg:tweedie", "base_score": 0.98675054},
    "Cox": {"objective": "survival:cox"},
    "AFT": {"objective": "survival:aft"},
    "rank": {"objective": "rank:ndcg"},
}


@pytest.mark.parametrize("name", CASES)
def test_raw_score_is_the_boosters(name, boundary_rows, assert_same):
    booster = train(**CASES[name])
    ensemble = load(booster)
    X = boundary_rows(ensemble, nan=True, huge=LARGEST)
    assert_same(ensemble.raw_score(X), margin(booster, X))
    assert_same(ensemble.raw_score(X.astype(np.float32)), margin(booster, X))


@pytest.mark.parametrize("name", ["logistic", "softprob", "dart softprob", "pruned"])
def test_json_ubjson_and_booster_are_the_same_ensemble(name, tmp_path):
    booster = train(**CASES[name])
    for kind in ("json", "ubj"):
        plain, packed = tmp_path / "model", tmp_path / "packed"
        plain.write_bytes(booster.save_raw(kind))
        packed.write_bytes(gzip.compress(plain.read_bytes()))
        assert load(plain) == load(packed) == load(booster)
    assert document(booster) == json.loads(booster.save_raw("json"))


def document(booster: xgb.Booster) -> Any:
    """The decoded UBJSON, arrays as lists and float32 numbers as their shortest decimals."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, (list, np.ndarray)):
            return [plain(inner) for inner in value]
        return float(str(np.float32(value))) if isinstance(value, (float, np.floating)) else value

    return plain(decode_ubjson(bytes(booster.save_raw("ubj"))))


def changed(booster: xgb.Booster, **parameters: str) -> tuple[xgb.Booster, dict[str, Any]]:
    """The model with other learner parameters, as XGBoost loads it and as a document."""
    model = json.loads(booster.save_raw("json"))
    model["learner"]["learner_model_param"].update(parameters)
    other = xgb.Booster({"nthread": 1})
    other.load_model(bytearray(json.dumps(model).encode()))
    return other, model


@pytest.mark.parametrize("objective", ["binary:logistic", "count:poisson", "reg:squarederror"])
def test_base_score_becomes_the_margin_xgboost_makes_of_it(objective, tmp_path, assert_same):
    booster = train(objective, rounds=1)
    X = data()[0][:5]
    rng = np.random.default_rng(0)
    path = tmp_path / "model"
    for value in [1e-6, 1e-9, 0.9999999, 0.98675054, *rng.random(4)]:
        for text in (f"[{value:.9G}]", f"{value:.9G}"):  # since 3.1, and before
            other, model = changed(booster, base_score=text)
            path.write_text(json.dumps(model))
            assert_same(load(path).raw_score(X), margin(other, X))


def test_feature_names_and_links_survive():
    X, y = data()
    names = ["a", "größe", "c=d", "f g", "e"]
    matrix = xgb.DMatrix(X, label=classes_of(y, 2), feature_names=names)
    booster = xgb.train({"objective": "binary:logistic"}, matrix, 2)
    ensemble = load(booster)
    assert ensemble.feature_names == tuple(names)
    assert (ensemble.task, ensemble.link, ensemble.link_scale) == ("binary", "logistic", 1.0)
    probability = 1 / (1 + np.exp(-ensemble.raw_score(X)))
    np.testing.assert_allclose(probability, booster.predict(matrix), rtol=1e-6)


def test_hinge_takes_a_raw_score_of_zero_for_the_first_class():
    booster = train("binary:hinge", rounds=1, gamma=1e9, base_score=0.0)
    assert load(booster).raw_score(data()[0][:1]) == 0.0
    assert booster.predict(xgb.DMatrix(data()[0][:1])) == 0.0
    assert load(booster).decide(data()[0][:1]) == 0


def test_estimators_bring_their_classes(assert_same):
    X, y = data()
    model = xgb.XGBClassifier(n_jobs=1, n_estimators=4).fit(X, classes_of(y, 3))
    assert load(model).classes.tolist() == [0, 1, 2]
    assert (load(model).decide(X) == model.predict(X)).all()
    assert load(model, classes=["a", "b", "c"]).decide(X[:1])[0] in "abc"
    regressor = xgb.XGBRegressor(n_jobs=1, n_estimators=4).fit(X, y)
    assert load(regressor).task == "regression"
    assert_same(load(regressor).raw_score(X), regressor.predict(X))
    forest = xgb.XGBRFClassifier(n_jobs=1, n_estimators=9).fit(X, classes_of(y, 2))
    assert load(forest).n_trees == 9
    assert_same(load(forest).raw_score(X), forest.predict(X, output_margin=True))


@pytest.mark.parametrize("missing", [0.0, -1.0, 0.5, 7.0, np.inf])
def test_a_number_that_means_missing_is_honoured(missing, boundary_rows, assert_same):
    X, y = data()
    model = xgb.XGBRegressor(n_jobs=1, n_estimators=8, max_depth=5, missing=missing).fit(X, y)
    ensemble = load(model)
    Z = boundary_rows(ensemble, nan=True, huge=LARGEST)
    Z[::7, 0] = missing
    Z[::11, 3] = missing
    assert_same(ensemble.raw_score(Z), model.predict(Z))


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def with_categories(**options: Any) -> Any:
    rng = np.random.default_rng(0)
    X = np.c_[rng.normal(size=300), rng.integers(0, 5, 300)]
    y = X[:, 0] + np.isin(X[:, 1], [1, 4]) * 3
    return xgb.XGBRegressor(
        n_estimators=3, max_depth=3, feature_types=["q", "c"], enable_categorical=True, **options
    ).fit(X, y)


def test_number_for_missing_values_beside_categories_is_refused_by_name():
    assert list(load(with_categories()).categories) == [1]
    message = r"takes -1.0 for a missing value, and tree 0 has a categorical split on feature '1'"
    with pytest.raises(ModelError, match=message):
        load(with_categories(missing=-1))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"booster": "gblinear"}, "linear model .gblinear., not trees; train with"),
        ({"targets": 2}, "several targets at once; train a model per target"),
        ({"targets": 2, "multi_strategy": "multi_output_tree"}, "several targets"),
        (
            {"objective": "multi:softprob", "num_class": 3, "multi_strategy": "multi_output_tree"},
            "tree 0 has a vector in every leaf .*; train with multi_strategy",
        ),
    ],
)
def test_models_that_are_not_a_sum_of_trees_are_refused(params, message):
    X, y = data(missing=0.0)
    params = dict(params)
    label = np.c_[y, -y] if params.pop("targets", 1) == 2 else classes_of(y, 3)
    booster = xgb.train(params | {"nthread": 1}, xgb.DMatrix(X, label=label), 2)
    with pytest.raises(ModelError, match="^Booster: .*" + message):
        load(booster)


def test_an_old_raw_logistic_file_is_refused(tmp_path):
    model = json.loads(train("binary:logitraw", rounds=1).save_raw("json"))
    model["version"] = [1, 6, 2]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    with pytest.raises(ModelError, match=r"binary:logitraw.*; load it with xgboost and pass"):
        load(path)


def test_weights_of_dart_are_read_wherever_a_version_keeps_them(tmp_path):
    """XGBoost 3.4 calls such a model gbtree, and keeps the weights with its trees."""
    X, y = data()
    parameters = {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5}
    booster = xgb.train(parameters, xgb.DMatrix(X, (y > 0).astype(int)), 6)
    document = json.loads(bytes(booster.save_raw("json")))
    inside = document["learner"]["gradient_booster"]
    if inside["name"] == "dart":
        model = {**inside["gbtree"]["model"], "weight_drop": inside["weight_drop"]}
        document["learner"]["gradient_booster"] = {"name": "gbtree", "model": model}
        document["version"] = [3, 4, 0]
    weights = document["learner"]["gradient_booster"]["model"]["weight_drop"]
    assert set(weights) != {1.0}
    path = tmp_path / "dart.json"
    path.write_text(json.dumps(document))
    assert load(path).raw_score(X).tolist() == load(booster).raw_score(X).tolist()
