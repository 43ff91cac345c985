"""ONNX models of every setting that is read, random ones, and what onnxruntime says about rows.

Comes in: a setting and a seed. Goes out: a model and how to compare with its outputs, or from
`check` an error if what is read says something else than onnxruntime on any row.
Thresholds are few and leaves have few different weights, so that sums are tied again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import carvegbm as cg
from readers.conftest import rows_at_boundaries, same
from readers.onnx_graphs import MEMBER, MODES, Tree, classifier, ensemble, regressor, run

SINGLES = np.array([-1, 0, 0.5, 1, 2, 1e-45, 0.1, 3e38], dtype=np.float32).astype(float)
DOUBLES = np.array([-1, 0, 0.5, 1, 0.1, 1 / 3, 5e-324, 1e300, 1e-40])
WEIGHTS = [(0.5, -0.5, 0.25), (1e-8, -2e-8, 0.5), (0.1, -0.3, 1 / 3), (7.0, -7.0, 1e-3)]
N_FEATURES = 3


class Made(NamedTuple):
    """A model; `raw` and `labels` take its outputs for rows to what the ensemble should say."""

    model: Any
    raw: Callable[[list[np.ndarray]], np.ndarray] | None
    labels: Callable[[list[np.ndarray]], np.ndarray] | None
    rounds: bool = False  # onnxruntime rounds the raw scores of doubles to float32

    def outputs(self, X: np.ndarray) -> list[np.ndarray]:
        return run(self.model, X)


class Grower:
    """Random trees; `modes` are the comparisons they may use."""

    def __init__(self, seed: int, modes: list[str], values: np.ndarray = SINGLES) -> None:
        self.rng = np.random.default_rng(seed)
        self.modes, self.values = modes, values
        self.count = int(self.rng.integers(1, 9))
        self.weights = WEIGHTS[seed % len(WEIGHTS)]
        self.depth = int(self.rng.integers(1, 5))
        # onnxruntime joins x == 1 and, if it is not, x == 2 to one question with the first one's
        # rule for NaN; so all of a feature have one rule.
        self.tracks = self.rng.random(N_FEATURES) < 0.5

    def weight(self) -> float:
        if self.rng.random() < 0.3:
            return float(np.float32(self.rng.normal()))
        return float(np.float32(self.rng.choice(self.weights)))

    def trees(self, leaf: Callable[[], Tree]) -> list[Tree]:
        return [self.tree(self.depth, leaf) for _ in range(self.count)]

    def tree(self, depth: int, leaf: Callable[[], Tree]) -> Tree:
        if depth == 0 or self.rng.random() < 0.15:
            return leaf()
        mode = str(self.rng.choice(self.modes))
        feature = int(self.rng.integers(N_FEATURES))
        own = self.tracks[feature] if mode == "BRANCH_EQ" else self.rng.random() < 0.4
        return {
            "feature": feature,
            "mode": mode,
            "value": float(self.rng.choice(self.values)),
            "tracks": bool(own),
            "true": self.tree(depth - 1, leaf),
            "false": self.tree(depth - 1, leaf),
        }


def _first(outputs: list[np.ndarray]) -> np.ndarray:
    return outputs[0]


def _second(outputs: list[np.ndarray]) -> np.ndarray:
    return outputs[1]


def _only(outputs: list[np.ndarray]) -> np.ndarray:
    return outputs[0][:, 0]


def _positive(outputs: list[np.ndarray]) -> np.ndarray:
    return outputs[1][:, 1]


def regression(modes: list[str], **given: Any) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        grower = Grower(seed, modes)
        base = {"base_values": [grower.weight()]} if seed % 2 and not given else {}
        trees = grower.trees(lambda: {0: grower.weight()})
        return Made(regressor(trees, n_features=N_FEATURES, **base, **given), _only, None)

    return make


def version_5(modes: list[str], kind: str = "float32") -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        grower = Grower(seed, modes, SINGLES if kind == "float32" else DOUBLES)
        trees = grower.trees(lambda: {0: grower.weight()})
        return Made(ensemble(trees, n_features=N_FEATURES, kind=kind), _only, None)

    return make


def version_5_classes(seed: int) -> Made:
    """A leaf counts for one of three targets; the largest is chosen."""
    grower = Grower(seed, MODES)
    trees = grower.trees(lambda: {int(grower.rng.integers(3)): grower.weight()})
    made = ensemble(trees, n_features=N_FEATURES, n_targets=3, argmax=True)
    return Made(made, _second, _first)


def two_classes(**given: Any) -> Callable[[int], Made]:
    """One column of weights, with negative ones."""

    def make(seed: int) -> Made:
        grower = Grower(seed, MODES)
        base = {"base_values": [grower.weight()]} if seed % 2 else {}
        trees = grower.trees(lambda: {0: grower.weight()})
        trees.append({0: -abs(grower.weight())})
        labels = ["no", "yes"] if seed % 3 else [7, 3]
        made = classifier(trees, labels, n_features=N_FEATURES, **base, **given)
        return Made(made, None if given else _positive, _first)

    return make


def probabilities(seed: int) -> Made:
    """One column of weights >= 0: the second class has more than one half."""
    grower = Grower(seed, ["BRANCH_LEQ", "BRANCH_GT"])
    trees = grower.trees(lambda: {0: abs(grower.weight()) / 4})
    return Made(classifier(trees, [0, 1], n_features=N_FEATURES), _positive, _first)


def opposite_weights(seed: int) -> Made:
    """Two columns of weights that are each other's negative, as CatBoost writes them."""
    grower = Grower(seed, ["BRANCH_GT"])

    def leaf() -> Tree:
        weight = grower.weight()
        return {0: -weight, 1: weight}

    made = classifier(grower.trees(leaf), ["a", "b"], n_features=N_FEATURES)
    return Made(made, _positive, _first)


def many_classes(**given: Any) -> Callable[[int], Made]:
    def make(seed: int) -> Made:
        grower = Grower(seed, MODES)
        base = {"base_values": [grower.weight() for _ in range(3)]} if seed % 2 else {}
        trees = grower.trees(lambda: {output: grower.weight() for output in range(3)})
        made = classifier(trees, [7, 5, 9], n_features=N_FEATURES, **base, **given)
        return Made(made, None if given else _second, _first)

    return make


def doubles(kind: str) -> Callable[[int], Made]:
    """Double inputs; thresholds and weights are doubles, too, or floats."""

    def make(seed: int) -> Made:
        double = bool(seed % 3)
        grower = Grower(seed, MODES, DOUBLES if double else SINGLES)
        given = {"n_features": N_FEATURES, "kind": "float64", "double": double}
        if kind == "regressor":
            trees = grower.trees(lambda: {0: grower.weight()})
            made = regressor(trees, base_values=[grower.weight()], **given)
            return Made(made, _only, None, rounds=True)
        trees = grower.trees(lambda: {output: grower.weight() for output in range(3)})
        return Made(classifier(trees, ["a", "b", "c"], **given), _second, _first, rounds=True)

    return make


def members(mixed: bool) -> Callable[[int], Made]:
    """Sets of whole numbers, the only ones onnxruntime takes; `mixed`: with thresholds, too."""

    def make(seed: int) -> Made:
        grower = Grower(seed, [MEMBER, "BRANCH_LEQ", "BRANCH_EQ"] if mixed else [MEMBER])
        few = grower.rng.choice([1.0, 2.0, 3.0, 5.0, 0.0, 30.0], 4, replace=False)
        trees = grower.trees(lambda: {0: grower.weight()})
        for node in (node for tree in trees for node in _splits(tree)):
            node["tracks"] = bool(grower.tracks[node["feature"]])
            count = int(grower.rng.integers(1, 4))
            if node["mode"] == MEMBER:
                node["value"] = grower.rng.choice(few, count, replace=False).tolist()
        return Made(ensemble(trees, n_features=N_FEATURES), _only, None)

    return make


def _splits(tree: Tree) -> Iterator[Tree]:
    if "feature" in tree:
        yield tree
        yield from _splits(tree["true"])
        yield from _splits(tree["false"])


SETTINGS: dict[str, Callable[[int], Made]] = {
    **{f"regressor, {mode}": regression([mode]) for mode in MODES},
    "regressor, all comparisons": regression(MODES),
    "regressor, average": regression(MODES, aggregate_function="AVERAGE"),
    "version 5, all comparisons": version_5(MODES),
    "version 5, doubles": version_5(MODES, "float64"),
    "version 5, classes": version_5_classes,
    "version 5, sets": members(mixed=False),
    "version 5, sets and thresholds": members(mixed=True),
    "two classes": two_classes(),
    "two classes, logistic": two_classes(post_transform="LOGISTIC"),
    "two classes, probabilities": probabilities,
    "two classes, opposite weights": opposite_weights,
    "many classes": many_classes(),
    "many classes, softmax": many_classes(post_transform="SOFTMAX"),
    "regressor of doubles": doubles("regressor"),
    "classifier of doubles": doubles("classifier"),
}

ALL = list(SETTINGS)


def check(setting: str, seed: int) -> int:
    """Raw scores and labels are onnxruntime's; returns the number of rows compared."""
    made = SETTINGS[setting](seed)
    got = cg.load(made.model)
    X = rows_at_boundaries(got, nan=True, huge=3.4e38, seed=seed)
    for feature, labels in got.categories.items():
        given = [*labels.values(), 17.0, -1.0, 0.0, 4.0, np.nan]
        X[:, feature] = np.random.default_rng(seed).choice(given, len(X))
    outputs = made.outputs(X)
    if made.raw is not None:
        raw = got.raw_score(X)
        with np.errstate(over="ignore"):
            same(raw.astype(np.float32) if made.rounds else raw, made.raw(outputs), X)
    if made.labels is not None:
        same(got.decide(X), made.labels(outputs), X)
    return len(X)
