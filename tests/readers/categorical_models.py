"""Models with categorical features of every family and setting, and inputs to catch a reader with.

A family is a function that fits a model of a setting and a seed, and says what its library answers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import carvegbm as cg
from readers.conftest import classes_of

Rows = np.ndarray
Answer = Callable[[Rows], np.ndarray]
CATEGORICAL = (1, 3)
"""Columns of the data that are categorical; 0 and 2 are numbers."""


class Fitted(NamedTuple):
    """A model in the forms that are read, and its library's own raw scores and labels."""

    sources: list[Any]
    raw: Answer
    labels: Answer | None = None  # None: the library has no labels of its own
    odd: tuple[float, ...] = ()  # numbers in a categorical column that the library accepts


def data(seed: int, *, codes: int = 12, stride: int = 1, missing: float = 0.1) -> tuple[Rows, Rows]:
    """Numbers in two columns, codes in two others; the target depends on all of them."""
    rng = np.random.default_rng(seed)
    n = 240
    X = rng.normal(size=(n, 4))
    X[:, 0] *= rng.random(n) < 0.7
    X[:, 1] = rng.integers(0, codes, n) * stride
    X[:, 3] = rng.integers(0, 3, n)
    good = rng.random(codes) < 0.5
    y = X[:, 0] + 2.0 * good[(X[:, 1] // stride).astype(int)] + X[:, 2] * (X[:, 3] == 1)
    y += 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def rows_for(model: cg.Ensemble, odd: tuple[float, ...], seed: int, count: int = 600) -> Rows:
    """Rows with every known code, unseen and odd ones, thresholds and their neighbours, and NaN.

    Where numbers are looked up among labels, a code with such a label stands there as that label.
    """
    rng = np.random.default_rng([seed, 7])
    rows = np.empty((count, model.n_features))
    for feature in range(model.n_features):
        if feature in model.categories:
            known = [
                label if model.category_rule == "label" and not isinstance(label, str) else code
                for code, label in model.categories[feature].items()
            ]
            top = max([*known, 0])
            pool = np.array([*known, *known, *odd, top + 1, top + 2, top + 40, np.nan], dtype=float)
        else:
            own = model.nodes["threshold"][model.nodes["feature"] == feature]
            own = own[np.abs(own) < 1e300]  # which LightGBM's dump writes for infinity
            near = [own, np.nextafter(own, -np.inf), np.nextafter(own, np.inf), own.astype("f4")]
            pool = np.concatenate([*near, rng.normal(size=40), [0.0, -0.0, 1e-36, np.nan]])
        rows[:, feature] = rng.choice(pool, count)
        rows[: min(count, len(pool)), feature] = rng.permutation(pool)[:count]
    return rows


# ── LightGBM ─────────────────────────────────────────────────────────────────────────────────

LIGHTGBM: dict[str, dict[str, Any]] = {
    "one category against the rest": {"objective": "binary", "max_cat_to_onehot": 100},
    "sets of categories": {"objective": "binary", "max_cat_to_onehot": 1},
    "multiclass": {"objective": "multiclass", "num_class": 3, "max_cat_to_onehot": 1},
    "regression": {"objective": "regression", "max_cat_to_onehot": 1},
    "dart": {"objective": "binary", "boosting": "dart", "drop_rate": 0.5},
    "forest": {
        "objective": "regression",
        "boosting": "rf",
        "bagging_freq": 1,
        "bagging_fraction": 0.6,
    },
    "zero as missing": {"objective": "binary", "zero_as_missing": True, "max_cat_to_onehot": 1},
    "missing ignored": {"objective": "binary", "use_missing": False, "max_cat_to_onehot": 1},
    "nothing missing": {"objective": "binary", "missing": 0.0, "max_cat_to_onehot": 1},
    "far codes": {"objective": "binary", "stride": 997, "max_cat_to_onehot": 1},
    "classifier": {"objective": "multiclass", "num_class": 3, "estimator": True},
    "frame": {"objective": "binary", "frame": True, "max_cat_to_onehot": 1},
}


def lightgbm_model(setting: str, seed: int, folder: Path) -> Fitted:
    import lightgbm as lgb

    params = dict(LIGHTGBM[setting])
    X, y = data(seed, stride=params.pop("stride", 1), missing=params.pop("missing", 0.1))
    as_frame, as_estimator = params.pop("frame", False), params.pop("estimator", False)
    if params["objective"] != "regression":
        y = classes_of(y, params.get("num_class", 2))
    params |= {"verbose": -1, "num_threads": 1, "min_data_in_leaf": 3, "num_leaves": 12}
    params |= {"min_data_per_group": 3, "cat_smooth": 1, "seed": seed, "deterministic": True}
    odd = (-1.0, -0.5, -2.0, 0.5, 2.9999, 2.0**24, 2.0**31 - 1, 2.0**31, 2.0**32 + 1, 1e300, -1e300)
    if as_estimator:
        model = lgb.LGBMClassifier(n_estimators=4, n_jobs=1, **params)
        model.fit(X, np.array(["no", "so", "yes"])[y], categorical_feature=list(CATEGORICAL))
        return Fitted([model], lambda Z: model.predict(Z, raw_score=True), model.predict, odd)
    options = {} if as_frame else {"categorical_feature": list(CATEGORICAL)}
    given = framed(X) if as_frame else X
    booster = lgb.train(params, lgb.Dataset(given, y, **options), 6)
    booster.save_model(folder / "model.txt")
    # A forest's raw score is its sum, its prediction the average.
    asked = {} if params.get("boosting") == "rf" else {"raw_score": True}
    sources = [booster, folder / "model.txt"]
    if as_frame:
        return Fitted(sources, lambda Z: booster.predict(framed(Z, unseen=True), **asked))
    return Fitted(sources, lambda Z: booster.predict(Z, **asked), None, odd)


COLOURS = [f"c{i}" for i in range(12)]
KINDS = [0, 10, 20]


def framed(X: Rows, *, unseen: bool = False) -> Any:
    """Codes as a frame with the categories COLOURS and KINDS, and one more for all other codes."""
    import pandas as pd

    def column(codes: Rows, labels: list[Any], other: Any) -> Any:
        known = np.isin(codes, range(len(labels)))
        places = np.where(np.isnan(codes), -1, np.where(known, codes, len(labels)))
        return pd.Categorical.from_codes(places.astype(int), labels + [other] * unseen)

    frame = pd.DataFrame(X, columns=["size", "colour", "age", "kind"])
    frame["colour"] = column(X[:, 1], COLOURS, "grey")
    frame["kind"] = column(X[:, 3], KINDS, 30)
    return frame


# ── XGBoost ──────────────────────────────────────────────────────────────────────────────────

XGBOOST: dict[str, dict[str, Any]] = {
    "one category against the rest": {"objective": "binary:logistic", "max_cat_to_onehot": 100},
    "sets of categories": {"objective": "binary:logistic", "max_cat_to_onehot": 1},
    "lossguide": {
        "objective": "binary:logistic",
        "max_cat_to_onehot": 1,
        "grow_policy": "lossguide",
        "max_leaves": 12,
        "max_depth": 0,
    },
    "approx": {"objective": "binary:logistic", "max_cat_to_onehot": 1, "tree_method": "approx"},
    "multiclass": {"objective": "multi:softprob", "num_class": 3, "max_cat_to_onehot": 1},
    "regression": {"objective": "reg:squarederror", "max_cat_to_onehot": 1},
    "dart": {"objective": "binary:logistic", "booster": "dart", "rate_drop": 0.5},
    "nothing missing": {"objective": "binary:logistic", "missing": 0.0, "max_cat_to_onehot": 1},
    "far codes": {"objective": "binary:logistic", "stride": 37, "max_cat_to_onehot": 1},
    "classifier": {"objective": "multi:softprob", "num_class": 3, "estimator": True},
    "frame": {"objective": "binary:logistic", "frame": True, "max_cat_to_onehot": 1},
}


def xgboost_model(setting: str, seed: int, folder: Path) -> Fitted:
    import xgboost as xgb

    params = dict(XGBOOST[setting])
    X, y = data(seed, stride=params.pop("stride", 1), missing=params.pop("missing", 0.1))
    as_frame, as_estimator = params.pop("frame", False), params.pop("estimator", False)
    if params["objective"] != "reg:squarederror":
        y = classes_of(y, params.get("num_class", 2))
    params = {"max_depth": 4, "nthread": 1, "seed": seed, "min_child_weight": 0.1} | params
    kinds = ["c" if feature in CATEGORICAL else "q" for feature in range(4)]
    odd = (
        -1.0,
        -0.5,
        -1e-30,
        -1e-50,
        0.5,
        2.9999999999,
        2.0**24 - 1,
        2.0**24,
        2.0**31,
        1e30,
        -1e30,
    )
    if as_estimator:
        params.pop("num_class")
        model = xgb.XGBClassifier(
            n_estimators=4, n_jobs=1, feature_types=kinds, enable_categorical=True, **params
        )
        model.fit(X, y)
        return Fitted([model], lambda Z: model.predict(Z, output_margin=True), model.predict, odd)

    def matrix(Z: Rows, labels: Rows | None = None) -> Any:
        return xgb.DMatrix(
            Z,
            label=labels,
            feature_types=None if as_frame else kinds,
            enable_categorical=True,
            nthread=1,
        )

    booster = xgb.train(params, matrix(framed(X) if as_frame else X, y), 6)
    for name in ("model.json", "model.ubj"):
        booster.save_model(folder / name)
    sources = [booster, folder / "model.json", folder / "model.ubj"]
    if as_frame:  # the names of the columns are of no importance to a matrix

        def coded(Z: Rows) -> Any:
            types = {"feature_types": booster.feature_types, "feature_names": booster.feature_names}
            return xgb.DMatrix(Z, **types, enable_categorical=True, nthread=1)

        return Fitted(sources, lambda Z: booster.predict(coded(Z), output_margin=True), None, odd)
    return Fitted(sources, lambda Z: booster.predict(matrix(Z), output_margin=True), None, odd)


# ── HistGradientBoosting ─────────────────────────────────────────────────────────────────────

HISTOGRAM: dict[str, dict[str, Any]] = {
    "whole numbers": {},
    "far codes": {"stride": 997},
    "odd labels": {"labels": [-3.0, 0.25, 7.5]},
    "nothing missing": {"missing": 0.0},
    "multiclass": {"classes": 3},
    "regression": {"classes": 0},
    "texts": {"frame": True},
}


def histogram_model(setting: str, seed: int, _folder: Path) -> Fitted:
    from sklearn import ensemble

    options = dict(HISTOGRAM[setting])
    X, y = data(seed, stride=options.get("stride", 1), missing=options.get("missing", 0.1))
    k = options.get("classes", 2)
    if "labels" in options:
        known = ~np.isnan(X[:, 3])
        X[known, 3] = np.array(options["labels"])[X[known, 3].astype(int)]
    kind = f"HistGradientBoosting{'Classifier' if k else 'Regressor'}"
    columns = [1, 3]
    if options.get("frame"):
        columns = "from_dtype"
    model = getattr(ensemble, kind)(
        max_iter=4, categorical_features=columns, min_samples_leaf=3, max_leaf_nodes=12
    )
    model.fit(framed(X) if options.get("frame") else X, classes_of(y, k) if k else y)
    odd = (-1.0, -0.5, 0.5, 2.9999, -3.0, 7.5, 2.0**24, 2.0**31, 255.0, 256.0, 1e300, -1e300)
    raw = model.decision_function if k else model.predict
    if options.get("frame"):

        def as_frame(Z: Rows) -> Any:
            codes = Z.copy()
            known = np.isin(Z[:, 1], range(12))
            places = np.argsort(COLOURS)  # the encoder sorts texts, its numbers are the codes here
            codes[known, 1] = places[Z[known, 1].astype(int)]
            codes[:, 3] = np.where(np.isnan(Z[:, 3]) | np.isin(Z[:, 3], KINDS), Z[:, 3] / 10, 3)
            return framed(codes, unseen=True)

        return Fitted([model], lambda Z: raw(as_frame(Z)), lambda Z: model.predict(as_frame(Z)))
    return Fitted([model], raw, model.predict if k else None, odd)


FAMILIES: dict[str, tuple[dict[str, Any], Callable[..., Fitted]]] = {
    "LightGBM": (LIGHTGBM, lightgbm_model),
    "XGBoost": (XGBOOST, xgboost_model),
    "HistGradientBoosting": (HISTOGRAM, histogram_model),
}
PACKAGES = {"LightGBM": "lightgbm", "XGBoost": "xgboost", "HistGradientBoosting": "sklearn"}
