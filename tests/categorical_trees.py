"""Ensembles with categorical features: by hand, at random, and what they say by a plain walk."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import carvegbm as cg
from plain_trees import leaf, split

Tree = dict[str, Any]
RULES = ("label", "truncate", "nonnegative")


def choice(feature: int, codes: list[int], left: Tree, right: Tree, **more: str) -> Tree:
    """Left iff the category is listed."""
    return {"feature": feature, "categories": codes, "left": left, "right": right, **more}


def random_ensemble(seed: int) -> cg.Ensemble:
    """A small ensemble of which some features are categorical; every split has a rule for NaN."""
    rng = np.random.default_rng(seed)
    n_features, n_outputs = int(rng.integers(1, 5)), int(rng.choice([1, 1, 3]))
    rule = str(rng.choice(RULES))
    categories = {
        feature: {int(c): int(c) for c in rng.choice(90, rng.integers(1, 9), replace=False)}
        for feature in range(n_features)
        if rng.random() < 0.7
    }

    def tree(depth: int) -> Tree:
        if depth == 0 or rng.random() < 0.2:
            scores = rng.integers(-8, 9, n_outputs) / 4
            return leaf(scores.tolist() if n_outputs > 1 else float(scores[0]))
        feature = int(rng.integers(n_features))
        more = {"missing": str(rng.choice(["left", "right"]))}
        sides = tree(depth - 1), tree(depth - 1)
        if feature not in categories:
            return split(feature, float(rng.integers(0, 9)) / 2, *sides, **more)
        codes = [code for code in categories[feature] if rng.random() < 0.4]
        return choice(feature, codes, *sides, **more)

    return cg.Ensemble.from_trees(
        [tree(3) for _ in range(rng.integers(1, 5))],
        n_features=n_features,
        categories=categories,
        base_score=np.zeros(n_outputs),
        category_rule=rule,
        unknown_category=str(rng.choice(["right", "missing"])) if rule == "label" else "right",
        input_precision=str(rng.choice(["float64", "float32"])),
    )


def random_rows(model: cg.Ensemble, seed: int, count: int = 40) -> np.ndarray:
    """Rows with every kind of value: known codes and others, fractions, huge ones, NaN."""
    rng = np.random.default_rng([seed, 1])
    odd = [-1.0, -0.5, -0.0, 0.5, 1e9, 2.0**24, 2.0**31, -(2.0**31) - 1, 1e300, math.nan]
    if model.input_precision == "float32":
        odd[-2] = 1e30
    rows = rng.integers(0, 10, (count, model.n_features)) / 2
    for feature, labels in model.categories.items():
        rows[:, feature] = rng.choice(list(labels), count) + rng.choice([0.0, 0.0, 0.75], count)
    return np.where(rng.random(rows.shape) < 0.3, rng.choice(odd, rows.shape), rows)


def walked(model: cg.Ensemble, row: np.ndarray) -> list[float]:
    """The raw scores by the definition of the splits, from the nested trees."""
    total = model.base_score.copy()
    for tree in model.to_trees():
        while "score" not in tree:
            tree = tree["left" if goes_left(model, tree, float(row[tree["feature"]])) else "right"]
        total = total + np.atleast_1d(tree["score"])
    return total.tolist()


def goes_left(model: cg.Ensemble, node: Tree, value: float) -> bool:
    if model.input_precision == "float32":
        value = float(np.float32(value))
    if "threshold" in node:
        return node["missing"] == "left" if math.isnan(value) else value <= node["threshold"]
    code = code_of(model, node["feature"], value)
    return node["missing"] == "left" if code == "missing" else code in node["categories"]


def code_of(model: cg.Ensemble, feature: int, value: float) -> Any:
    """The code, None if there is none, or "missing"."""
    if math.isnan(value):
        return "missing"
    if model.category_rule == "label":
        for code, label in model.categories[feature].items():
            if label == value:
                return code
        return "missing" if model.unknown_category == "missing" else None
    if model.category_rule == "nonnegative":
        return int(value) if 0 <= value < 2**24 else None
    return int(value) if -1 < value < 2**31 else None
