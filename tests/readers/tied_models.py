"""Small models of every family that is read, on data with many ties.

Comes in: a seed. Goes out: a `Fitted`: what `load` takes, the library's own labels, and the data.

The data have a group of rows in which every class occurs equally often, so that leaves of that
group give no class an advantage and its rows end up exactly on the decision threshold. Boosters
that were saved get other leaf scores as well: equal ones of opposite signs, some so small that the
library's probability rounds to one half, some so large that it rounds to one.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm as lgb
import numpy as np
import pytest
from sklearn import ensemble as forests
from sklearn import tree as trees

from carvegbm import LargeSpreadClassifier

try:
    import catboost
except ImportError:
    catboost = None

xgb = pytest.importorskip("xgboost")
Array = np.ndarray
TIED_SCORES = (  # up to their signs, by turns
    (0.5,),
    (0.25, 0.5, 0.0),
    (2e-8, 4e-8, 0.0),
    (1e-17, 3e-17, 0.0),
    (40.0, 45.0, 0.0),
    (0.5, 2e-8, 1e-17, 40.0),
)


class Fitted(NamedTuple):
    """A model, or the path of one, and what its library says about any rows."""

    source: Any
    labels: Callable[[Array], Array]
    X: Array


class Family(NamedTuple):
    """Models of one kind; `ties`: rows on the threshold that ten of them have at least."""

    make: Callable[[int, Path], Fitted]
    ties: int
    nan: bool = True


def tied_data(rng: np.random.Generator, n_classes: int) -> tuple[Array, Array]:
    """Rows of few different values; one group of them belongs to all classes equally."""
    groups = rng.permutation(n_classes + 1)
    X, y = [], []
    for label in range(n_classes):
        for other in range(n_classes):
            count = 12 if other == label else int(rng.integers(0, 2))
            X += [[groups[label], *rng.integers(0, 3, 2)] for _ in range(count)]
            y += [other] * count
    for _ in range(10):
        row = [groups[n_classes], *rng.integers(0, 3, 2)]
        X += [row] * n_classes
        y += range(n_classes)
    missing = [n for n in range(n_classes) for _ in range(max(map(y.count, y)) - y.count(n))]
    X += [[groups[label], 1, 1] for label in missing]  # as many rows of every class
    y += missing
    unit = rng.choice([1.0, 0.25, 0.1])
    return np.array(X) * unit, np.array(y)


def _fit(seed: int, n_classes: int, model: Any, names: Any = None, **fit: Any) -> Fitted:
    X, y = tied_data(np.random.default_rng(seed), n_classes)
    model.fit(X, y if names is None else np.array(names)[y], **fit)
    return Fitted(model, model.predict, X)


def _size(seed: int) -> dict[str, Any]:
    """Number of trees and step: one tree, steps that add up again, and the usual."""
    rng = np.random.default_rng([seed, 1])
    return {
        "n_estimators": int(rng.choice([1, 1, 2, 4, 10])),
        "learning_rate": float(rng.choice([1.0, 0.5, 0.1, 0.3])),
    }


# ── LightGBM ─────────────────────────────────────────────────────────────────────────────────


def _lightgbm(n_classes: int = 2, **options: Any) -> Callable[[int, Path], Fitted]:
    def make(seed: int, _folder: Path) -> Fitted:
        return _fit(seed, n_classes, _lgbm(seed, **options))

    return make


def _lgbm(seed: int, **options: Any) -> lgb.LGBMClassifier:
    chosen = {
        name: value[seed % len(value)] if isinstance(value, list) else value
        for name, value in options.items()
    }
    every = {
        "num_leaves": (2, 3, 4, 8)[seed % 4],
        "min_child_samples": 1,
        "min_child_weight": 0.0,
        "min_data_in_bin": 1,
        "n_jobs": 1,
        "verbose": -1,
        "random_state": seed,
    }
    return lgb.LGBMClassifier(**{**every, **_size(seed), **chosen})


def _lightgbm_unbalanced(seed: int, _folder: Path) -> Fitted:
    """Twice as many positive rows, which LightGBM weighs half as much."""
    X, y = tied_data(np.random.default_rng(seed), 2)
    model = _lgbm(seed, is_unbalance=True, boost_from_average=False)
    model.fit(np.repeat(X, y + 1, axis=0), np.repeat(y, y + 1))
    return Fitted(model, model.predict, X)


def _lightgbm_early(seed: int, _folder: Path) -> Fitted:
    X, y = tied_data(np.random.default_rng([seed, 2]), 2)
    stop = lgb.early_stopping(1, verbose=False)
    with warnings.catch_warnings():  # newer versions have another name for eval_set
        warnings.simplefilter("ignore")
        return _fit(seed, 2, _lgbm(seed), eval_set=[(X, y)], callbacks=[stop])


def _lightgbm_file(n_classes: int = 2, **options: Any) -> Callable[[int, Path], Fitted]:
    """A saved model with tied leaf scores, loaded again."""

    def make(seed: int, folder: Path) -> Fitted:
        fitted = _fit(seed, n_classes, _lgbm(seed, n_estimators=4, **options))
        rng = np.random.default_rng([seed, 3])

        booster = fitted.source.booster_
        for index, tree in enumerate(booster.dump_model()["tree_info"]):
            for leaf, score in enumerate(_scores(rng, seed, tree["num_leaves"])):
                booster.set_leaf_output(index, leaf, score)
        path = folder / f"{seed}.txt"
        booster.save_model(path)
        again = lgb.Booster(model_str=booster.model_to_string())
        return Fitted(path, lambda X: _labels(again.predict(X)), fitted.X)

    return make


def _scores(rng: np.random.Generator, seed: int, count: int) -> list[float]:
    sizes = rng.choice(TIED_SCORES[seed % len(TIED_SCORES)], count)
    return (sizes * rng.choice([-1.0, 1.0], count)).tolist()


def _labels(sure: Array) -> Array:
    """The label of the largest probability, as the estimators choose it."""
    return sure.argmax(axis=1) if sure.ndim == 2 else (sure > 0.5).astype(int)


_BAGGED = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": [0.5, 0.9]}
LIGHTGBM = {
    "lightgbm binary": Family(_lightgbm(), 100),
    "lightgbm sigmoid": Family(_lightgbm(sigmoid=[0.5, 2.0, 0.1, 1e-6]), 100),
    "lightgbm unbalanced": Family(_lightgbm_unbalanced, 100),
    "lightgbm early stopped": Family(_lightgbm_early, 100),
    "lightgbm goss": Family(_lightgbm(data_sample_strategy="goss"), 100),
    "lightgbm dart": Family(_lightgbm(boosting_type="dart", drop_rate=0.5), 100),
    "lightgbm rf": Family(_lightgbm(**_BAGGED), 0),
    "lightgbm cross_entropy": Family(_lightgbm(objective="cross_entropy"), 100),
    "lightgbm regression": Family(_lightgbm(objective=["regression", "huber"]), 100),
    "lightgbm multiclass": Family(_lightgbm(3), 100),
    "lightgbm multiclassova": Family(_lightgbm(3, objective="multiclassova"), 100),
    "lightgbm multiclassova, 2 classes": Family(
        _lightgbm(objective="multiclassova", num_class=2), 100
    ),
    "lightgbm text": Family(_lightgbm_file(), 50),
    "lightgbm text, rf": Family(_lightgbm_file(**_BAGGED), 50),
    "lightgbm text, multiclass": Family(_lightgbm_file(3), 50),
    "lightgbm text, multiclassova": Family(_lightgbm_file(3, objective="multiclassova"), 50),
    "lightgbm text, multiclassova, 2 classes": Family(
        _lightgbm_file(objective="multiclassova", num_class=2), 50
    ),
}


# ── XGBoost ──────────────────────────────────────────────────────────────────────────────────


def _xgboost(
    n_classes: int = 2, kind: type = xgb.XGBClassifier, **options: Any
) -> Callable[[int, Path], Fitted]:
    def make(seed: int, _folder: Path) -> Fitted:
        return _fit(seed, n_classes, _xgb(seed, kind, **options))

    return make


def _xgb(seed: int, kind: type = xgb.XGBClassifier, **options: Any) -> Any:
    chosen = {
        name: value[seed % len(value)] if isinstance(value, list) else value
        for name, value in options.items()
    }
    every = {
        "max_depth": (1, 2, 3)[seed % 3],
        "min_child_weight": 0.0,
        "reg_lambda": (0.0, 1.0)[seed % 2],
        "n_jobs": 1,
        "random_state": seed,
    }
    return kind(**{**every, **_size(seed), **chosen})


def _xgboost_early(seed: int, _folder: Path) -> Fitted:
    X, y = tied_data(np.random.default_rng([seed, 2]), 2)
    model = _xgb(seed, early_stopping_rounds=1, base_score=0.5)
    return _fit(seed, 2, model, eval_set=[(X, y)], verbose=False)


def _xgboost_file(
    kind: str, n_classes: int = 2, *, estimator: bool = False, **options: Any
) -> Callable[[int, Path], Fitted]:
    """A saved model with tied leaf scores, loaded again, as an estimator or as a Booster."""

    def make(seed: int, folder: Path) -> Fitted:
        fitted = _fit(seed, n_classes, _xgb(seed, n_estimators=4, **options))
        rng = np.random.default_rng([seed, 3])
        model = json.loads(fitted.source.get_booster().save_raw("json"))
        for tree in model["learner"]["gradient_booster"]["model"]["trees"]:
            leaves = np.flatnonzero(np.array(tree["left_children"]) < 0).tolist()
            for leaf, score in zip(leaves, _scores(rng, seed, len(leaves)), strict=True):
                tree["split_conditions"][leaf] = tree["base_weights"][leaf] = score
        booster = xgb.Booster(model_file=bytearray(json.dumps(model).encode()))
        path = folder / f"{seed}.{kind}"
        booster.save_model(path)
        if estimator:
            loaded = xgb.XGBClassifier(n_jobs=1)
            loaded.load_model(path)
            return Fitted(loaded, loaded.predict, fitted.X)
        again = xgb.Booster(model_file=path)

        def labels(X: Array) -> Array:
            sure = again.predict(xgb.DMatrix(X))
            return sure if options.get("objective") == "multi:softmax" else _labels(sure)

        return Fitted(path, labels, fitted.X)

    return make


XGBOOST = {
    "xgboost logistic": Family(_xgboost(base_score=[0.5, None]), 100),
    "xgboost from base scores": Family(_xgboost(base_score=[0.25, 0.75, 0.4999999]), 0),
    "xgboost reg:logistic": Family(_xgboost(objective="reg:logistic", base_score=0.5), 100),
    "xgboost hinge": Family(_xgboost(objective="binary:hinge", base_score=0.0), 100),
    "xgboost logitraw": Family(_xgboost(objective="binary:logitraw", base_score=0.5), 0),
    "xgboost squared error": Family(_xgboost(objective="reg:squarederror", base_score=0.5), 100),
    "xgboost absolute error": Family(_xgboost(objective="reg:absoluteerror"), 100),
    "xgboost softprob": Family(_xgboost(3), 100),
    "xgboost softmax": Family(_xgboost(3, objective="multi:softmax"), 100),
    "xgboost dart": Family(_xgboost(booster="dart", rate_drop=0.5, base_score=0.5), 100),
    "xgboost parallel trees": Family(
        _xgboost(num_parallel_tree=3, colsample_bynode=0.7, base_score=0.5), 10
    ),
    "xgboost forest": Family(
        _xgboost(kind=xgb.XGBRFClassifier, learning_rate=1.0, base_score=0.5), 1
    ),
    "xgboost early stopped": Family(_xgboost_early, 100),
    "xgboost json": Family(_xgboost_file("json", base_score=0.5), 50),
    "xgboost ubjson": Family(_xgboost_file("ubj", base_score=0.5), 50),
    "xgboost json, hinge": Family(
        _xgboost_file("json", objective="binary:hinge", base_score=0.0), 50
    ),
    "xgboost json, softprob": Family(_xgboost_file("json", 3), 50),
    "xgboost ubjson, softmax": Family(_xgboost_file("ubj", 3, objective="multi:softmax"), 50),
    "xgboost json, logistic estimator": Family(
        _xgboost_file("json", estimator=True, base_score=0.5), 50
    ),
    "xgboost ubjson, logitraw estimator": Family(
        _xgboost_file("ubj", estimator=True, objective="binary:logitraw", base_score=0.5), 50
    ),
    "xgboost json, squared error estimator": Family(
        _xgboost_file("json", estimator=True, objective="reg:squarederror", base_score=0.5), 50
    ),
    "xgboost ubjson, softprob estimator": Family(_xgboost_file("ubj", 3, estimator=True), 50),
}


# ── scikit-learn, and the package's own ──────────────────────────────────────────────────────


def _sklearn(
    kind: type, n_classes: int = 2, *, step: bool = False, count: str = "", **options: Any
) -> Callable[[int, Path], Fitted]:
    """`step`: with a learning rate; `count`: the name of its number of trees."""

    def make(seed: int, _folder: Path) -> Fitted:
        size = _size(seed)
        more = {count: size["n_estimators"]} if count else {}
        more |= {"learning_rate": size["learning_rate"]} if step else {}
        model = kind(**{"random_state": seed, "max_depth": (1, 2, 3)[seed % 3], **more, **options})
        return _fit(seed, n_classes, model, ["no", "yes", "perhaps"])

    return make


def _large_spread(n_classes: int) -> Callable[[int, Path], Fitted]:
    def make(seed: int, _folder: Path) -> Fitted:
        model = LargeSpreadClassifier(
            norm="inf", budget=0.01, min_child_samples=1, n_jobs=1, num_leaves=4, **_size(seed)
        )
        return _fit(seed, n_classes, model, ["no", "yes", "perhaps"])

    return make


_FOREST = {"count": "n_estimators"}
_BOOSTED = {"count": "n_estimators", "step": True}
_HISTOGRAM = {"count": "max_iter", "step": True, "min_samples_leaf": 1}
SKLEARN = {
    "tree": Family(_sklearn(trees.DecisionTreeClassifier), 100, nan=False),
    "tree, 3 classes": Family(_sklearn(trees.DecisionTreeClassifier, 3), 100, nan=False),
    "extra tree": Family(_sklearn(trees.ExtraTreeClassifier), 100, nan=False),
    "random forest": Family(_sklearn(forests.RandomForestClassifier, **_FOREST), 1, nan=False),
    "extra trees": Family(_sklearn(forests.ExtraTreesClassifier, **_FOREST), 50, nan=False),
    "extra trees, 3 classes": Family(
        _sklearn(forests.ExtraTreesClassifier, 3, **_FOREST), 50, nan=False
    ),
    "gradient boosting": Family(
        _sklearn(forests.GradientBoostingClassifier, **_BOOSTED), 100, nan=False
    ),
    "gradient boosting, exponential": Family(
        _sklearn(forests.GradientBoostingClassifier, loss="exponential", **_BOOSTED), 100, nan=False
    ),
    "gradient boosting from zero": Family(
        _sklearn(forests.GradientBoostingClassifier, init="zero", **_BOOSTED), 100, nan=False
    ),
    "gradient boosting, 3 classes": Family(
        _sklearn(forests.GradientBoostingClassifier, 3, **_BOOSTED), 100, nan=False
    ),
    "histograms": Family(_sklearn(forests.HistGradientBoostingClassifier, **_HISTOGRAM), 100),
    "histograms, 3 classes": Family(
        _sklearn(forests.HistGradientBoostingClassifier, 3, **_HISTOGRAM), 100
    ),
    "large-spread": Family(_large_spread(2), 50, nan=False),
    "large-spread, 3 classes": Family(_large_spread(3), 5, nan=False),
}


# ── CatBoost ─────────────────────────────────────────────────────────────────────────────────


def _catboost(n_classes: int = 2, **options: Any) -> Callable[[int, Path], Fitted]:
    """Models whose trees have tied leaf scores every other time."""

    def make(seed: int, _folder: Path) -> Fitted:
        size = _size(seed)
        every = {
            "iterations": size["n_estimators"],
            "learning_rate": size["learning_rate"],
            "depth": (1, 2, 3)[seed % 3],
            "l2_leaf_reg": 0.0,
            "min_data_in_leaf": 1,
            "random_seed": seed,
            "thread_count": 1,
            "verbose": False,
            "allow_writing_files": False,
        }
        model = catboost.CatBoostClassifier(**every, **options)
        fitted = _fit(seed, n_classes, model, ["no", "yes", "perhaps"][:n_classes])
        if seed % 2:
            count = len(model.get_leaf_values())
            model.set_leaf_values(np.array(_scores(np.random.default_rng(seed), seed, count)))
        return Fitted(model, lambda X: model.predict(X).ravel(), fitted.X)

    return make


def _catboost_threshold(seed: int, folder: Path) -> Fitted:
    fitted = _catboost()(seed, folder)
    fitted.source.set_probability_threshold([0.3, 0.5, 0.7310585786300049][seed % 3])
    return fitted


CATBOOST = {
    "catboost": Family(_catboost(), 100),
    "catboost, depthwise": Family(_catboost(grow_policy="Depthwise"), 100),
    "catboost, lossguide": Family(_catboost(grow_policy="Lossguide"), 100),
    "catboost, threshold": Family(_catboost_threshold, 10),
    "catboost, 3 classes": Family(_catboost(3), 100),
    "catboost, one against all": Family(_catboost(3, loss_function="MultiClassOneVsAll"), 100),
}

FAMILIES = LIGHTGBM | XGBOOST | SKLEARN | (CATBOOST if catboost is not None else {})
