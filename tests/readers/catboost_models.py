"""CatBoost models of every setting that is read, and what the library says about rows.

Comes in: a setting and a seed. Goes out: a fitted model and the data it was fitted on, or from
`check` an error if what is read says something else than the library on any row.
Sizes, depths and options that do not matter vary with the seed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import carvegbm as cg
from readers.conftest import classes_of, rows_at_boundaries, same

catboost = pytest.importorskip("catboost")

POLICIES = ["SymmetricTree", "Depthwise", "Lossguide"]
LOSSES = ["RMSE", "MAE", "Quantile:alpha=0.3", "LogCosh", "Huber:delta=1", "Poisson"]
LOSSES += ["Tweedie:variance_power=1.5", "Lq:q=3", "Expectile:alpha=0.4", "MAPE"]


class Made(NamedTuple):
    """A fitted model and its training data."""

    model: Any
    X: np.ndarray

    def raw(self, X: Any) -> np.ndarray:
        """What the library adds up."""
        return self.model.predict(X, prediction_type="RawFormulaVal", thread_count=1)

    def labels(self, X: Any) -> np.ndarray:
        """What the library decides."""
        return self.model.predict(X, prediction_type="Class", thread_count=1).ravel()


def data(seed: int, missing: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows with common values, tiny ones and rounded ones, and a number to learn."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 300))
    X = rng.normal(size=(n, 4))
    X[:, 1] = rng.choice([-1.0, 0.0, 0.0, 0.5, 2.0], n)
    X[:, 2] = rng.choice([-3e-41, 0.0, 2e-41, 3e-35, 1.0], n)
    y = X[:, 0] + X[:, 1] * (X[:, 3] > 0) + (X[:, 2] > 0) + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < missing] = np.nan
    return X, y


def options(seed: int, **given: Any) -> dict[str, Any]:
    """Options of a small model; what is given as a list is taken by turns."""
    rng = np.random.default_rng([seed, 1])
    every = {
        "iterations": int(rng.integers(1, 25)),
        "depth": int(rng.integers(1, 7)),
        "learning_rate": float(rng.choice([1.0, 0.5, 0.1])),
        "random_seed": seed,
        "thread_count": 1,
        "verbose": False,
        "allow_writing_files": False,
    }
    chosen = {k: v[seed % len(v)] if isinstance(v, list) else v for k, v in given.items()}
    return every | {k: v for k, v in chosen.items() if v is not None}


def classifier(n_classes: int, missing: float = 0.0, **given: Any) -> Callable[[int], Made]:
    """Models of classes, named by texts, numbers and truth values by turns."""

    def make(seed: int) -> Made:
        X, y = data(seed, missing)
        names = [["no", "yes", "perhaps"], [4, -2, 9], [0.5, 0.25, -1.5]][seed % 3]
        labels = np.array(names[:n_classes])[classes_of(y, n_classes)]
        if n_classes == 2 and seed % 4 == 3:
            labels = classes_of(y, 2).astype(bool)
        model = catboost.CatBoostClassifier(**options(seed, **given))
        return Made(model.fit(X, labels), X)

    return make


def regressor(seed: int) -> Made:
    """Models of numbers, with many losses by turns."""
    X, y = data(seed, 0.1 * (seed % 2))
    loss = LOSSES[seed % len(LOSSES)]
    if loss.startswith(("Poisson", "Tweedie", "MAPE")):
        y = np.abs(y) + 0.1
    boosting = {"grow_policy": POLICIES[seed // len(LOSSES) % 3]}
    if loss.startswith(("MAE", "Quantile", "MAPE")):
        boosting = {}  # exact leaves are for symmetric trees
    model = catboost.CatBoostRegressor(**options(seed, loss_function=loss, **boosting))
    return Made(model.fit(X, y), X)


def weighted(seed: int) -> Made:
    """Rows with weights, and classes with weights."""
    X, y = data(seed)
    k = 2 + seed % 2
    classes: dict[str, Any] = [
        {"class_weights": dict(enumerate([1.0, 3.5, 0.25][:k]))},
        {"auto_class_weights": "Balanced"},
        {"auto_class_weights": "SqrtBalanced"},
        {},
    ][seed % 4]
    model = catboost.CatBoostClassifier(**options(seed, grow_policy=POLICIES, **classes))
    weights = np.random.default_rng(seed).exponential(size=len(y))
    return Made(model.fit(X, classes_of(y, k), sample_weight=weights), X)


def with_threshold(seed: int) -> Made:
    """Two classes with a probability threshold of their own."""
    made = classifier(2, grow_policy=POLICIES)(seed)
    rng = np.random.default_rng([seed, 2])
    made.model.set_probability_threshold(float(rng.choice([0.1, 0.3, 0.75, rng.random()])))
    return made


def shifted(seed: int) -> Made:
    """A scale that is a power of two, and a bias; scores of classes have a bias each."""
    made = [classifier(2), regressor, classifier(3)][seed % 3](seed)
    rng = np.random.default_rng([seed, 3])
    scale = float(rng.choice([0.5, 1.0, 4.0, -2.0]))
    bias = rng.normal(size=3).tolist() if seed % 3 == 2 else float(rng.normal())
    made.model.set_scale_and_bias(scale, bias)
    return made


def binary_losses(seed: int) -> Made:
    """Two classes by other losses."""
    X, y = data(seed)
    loss = ["CrossEntropy", "Focal:focal_alpha=0.4;focal_gamma=2", "Logloss"][seed % 3]
    model = catboost.CatBoostClassifier(**options(seed, loss_function=loss))
    return Made(model.fit(X, classes_of(y, 2)), X)


# ── categories ───────────────────────────────────────────────────────────────────────────────

TEXTS = ["red", "green", "", "3", "-1", "03", "blå", "x y"]  # "3" is the category of the number 3
NUMBERS = [0, 1, 3, 7, -1, 10**9]
NEVER = ["unseen", "17", 17, -5]
CATEGORICAL = [(1, "shop"), (3, "colour")]


class Categorical(NamedTuple):
    """A fitted model with one-hot splits, saved with its categories, and its training data."""

    model: Any
    path: Path
    frame: pd.DataFrame

    def raw(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict(frame, prediction_type="RawFormulaVal", thread_count=1)

    def labels(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict(frame, prediction_type="Class", thread_count=1).ravel()


def frame_of(seed: int, texts: bool, n: int) -> pd.DataFrame:
    """Two numbers and two columns of categories: one of numbers, one of texts or numbers."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "shop": rng.choice(NUMBERS, n),
            "age": rng.choice([-1.0, 0.0, 0.5, np.nan], n),
            "colour": rng.choice(TEXTS, n) if texts else rng.choice([2, 3, 5], n),
        }
    )


def with_strangers(frame: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The frame with categories here and there that no training row had in that column."""
    rng = np.random.default_rng([seed, 6])
    changed = frame.copy()
    for _, name in CATEGORICAL:
        is_text = not pd.api.types.is_numeric_dtype(frame[name])
        column = frame[name].to_numpy(dtype=object)
        known = TEXTS + NEVER if is_text else NUMBERS + NEVER
        fitting = [v for v in known if is_text or not isinstance(v, str)]
        strange = rng.random(len(frame)) < 0.3
        column[strange] = [fitting[i] for i in rng.integers(len(fitting), size=strange.sum())]
        changed[name] = column if is_text else column.astype(int)
    return changed


def one_hot(n_classes: int, texts: bool, **given: Any) -> Callable[[int, Path], Categorical]:
    def make(seed: int, folder: Path) -> Categorical:
        rng = np.random.default_rng([seed, 5])
        frame = frame_of(seed, texts, int(rng.integers(80, 300)))
        liked = rng.choice(frame["colour"].unique(), 2)
        y = frame["size"] + frame["colour"].isin(liked) - 2 * frame["shop"].isin([1, -1])
        pool = catboost.Pool(
            frame, classes_of(y, n_classes), cat_features=[at for at, _ in CATEGORICAL]
        )
        chosen = options(seed, one_hot_max_size=50, **given)
        model = catboost.CatBoostClassifier(**chosen).fit(pool)
        path = folder / f"{seed}.json"
        model.save_model(str(path), format="json", pool=pool)
        return Categorical(model, path, frame)

    return make


ONE_HOT: dict[str, Callable[[int, Path], Categorical]] = {
    "one-hot, symmetric": one_hot(2, False),
    "one-hot, depthwise": one_hot(2, False, grow_policy="Depthwise"),
    "one-hot, lossguide": one_hot(2, False, grow_policy="Lossguide"),
    "one-hot, multiclass": one_hot(3, False, grow_policy=POLICIES),
    "one-hot, texts": one_hot(2, True, grow_policy=POLICIES),
}


# ── numbers ──────────────────────────────────────────────────────────────────────────────────

SETTINGS: dict[str, Callable[[int], Made]] = {
    "symmetric": classifier(2, boosting_type=["Plain", "Ordered"]),
    "depthwise": classifier(2, grow_policy="Depthwise"),
    "lossguide": classifier(2, grow_policy="Lossguide", max_leaves=[4, 16, 31]),
    "NaN as the smallest": classifier(2, 0.15, nan_mode="Min", grow_policy=POLICIES),
    "NaN as the largest": classifier(2, 0.15, nan_mode="Max", grow_policy=POLICIES),
    "NaN forbidden": classifier(2, nan_mode="Forbidden", grow_policy=POLICIES),
    "multiclass": classifier(3, 0.1, nan_mode=["Min", "Max"]),
    "multiclass, depthwise and lossguide": classifier(3, grow_policy=POLICIES[1:]),
    "one against all": classifier(3, loss_function="MultiClassOneVsAll", grow_policy=POLICIES),
    "two classes as many": classifier(2, loss_function="MultiClass"),
    "regression": regressor,
    "weights": weighted,
    "probability threshold": with_threshold,
    "scale and bias": shifted,
    "other losses of two classes": binary_losses,
}


# ── the comparison ───────────────────────────────────────────────────────────────────────────

ALL = [*SETTINGS, *ONE_HOT]


def check(setting: str, seed: int) -> int:
    """Raw scores and labels are CatBoost's; returns the number of rows compared."""
    if setting in ONE_HOT:
        return _check_one_hot(setting, seed)
    made = SETTINGS[setting](seed)
    ensemble = cg.load(made.model)
    X = np.vstack([made.X, rows_at_boundaries(ensemble, nan=True, huge=3.4e38, seed=seed)])
    same(ensemble.raw_score(X), made.raw(X), X)
    if ensemble.task != "regression":
        same(ensemble.decide(X), made.labels(X), X)
    return len(X)


def _check_one_hot(setting: str, seed: int) -> int:
    """The same on rows with known categories, unseen ones, and those of other features."""
    with tempfile.TemporaryDirectory() as folder:
        made = ONE_HOT[setting](seed, Path(folder))
        ensemble = cg.load(made.path)
    n = 1500
    texts = "texts" in setting
    frame = frame_of(seed + 1, texts, n)
    rows = rows_at_boundaries(ensemble, nan=True, huge=3.4e38, seed=seed)
    for column, name in ((0, "size"), (2, "age")):
        own = np.random.default_rng(seed).choice(rows[:, column], n)
        frame[name] = np.where(np.arange(n) % 3 == 0, frame[name], own)
    frame = with_strangers(frame, seed)
    shown = frame.to_numpy(dtype=object)
    for X in (frame,) if texts else (frame, frame.to_numpy(dtype=float)):
        same(ensemble.raw_score(X), made.raw(frame), shown)
        same(ensemble.decide(X), made.labels(frame), shown)
    return n
