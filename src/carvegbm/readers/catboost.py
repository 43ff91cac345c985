"""CatBoost models: JSON files, and through the library `.cbm` files and objects.

The document of ``save_model(path, format="json")`` needs no library. The raw score equals
``predict(X, prediction_type="RawFormulaVal")`` bit for bit: scale times the sum of doubles in the
order of the trees, then the bias.

- Inputs are float32 and x goes right iff x > border, so a border is a threshold.
- The bias is added last, so it is a last tree of one leaf, unless it is zero.
- A scale other than 1 (`set_scale_and_bias`) multiplies every leaf. The raw score is the library's
  if the scale is a power of two, and equals it up to rounding otherwise.
- NaN goes left, but right if the training data had NaN and counted it as the largest number
  (``nan_mode="Max"``). `nan_mode` "Forbidden" affects training only: `predict` sends NaN left.
- A one-hot split asks whether x is one category, identified by the hash of its text. The document
  lists the texts of hashes, of all features together, if it was saved with the training data: so
  every categorical feature may take all of them, and an attacker's `categories` narrow them down. A
  split by target statistics (CTR) is refused.
- Two classes: the second iff raw > log(p / (1 − p)), p the model's probability threshold. Several
  classes: the first with the largest raw score, also if every class has a loss of its own.
- Losses whose prediction is an increasing function of the raw score (Poisson, Tweedie) and rankings
  are regression on the raw score: ranges of outputs are in raw space.

A symmetric tree tests the same condition at every node of a level: bit i of the number of a leaf is
the answer to condition i. Conditions that earlier ones decide are left out, so that every leaf can
be reached.

A split is described twice: by its `split_index`, which is all that CatBoost itself reads, and by
its feature with a border or a category. `split_index` counts the borders of all numerical features,
then the categories (`values`) of the categorical ones, in the order of `features_info`. A document
with contradicting descriptions is refused.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from carvegbm.errors import ModelError
from carvegbm.model.categories import Label, spelled
from carvegbm.model.ensemble import Ensemble, IterationRange, Iterations
from carvegbm.readers.common import (
    Bools,
    Classes,
    Floats,
    Ints,
    Tree,
    assemble,
    count,
    integers,
    name_of,
    number,
    numbers,
    refuse_override,
    require,
)

__all__ = ["from_binary", "from_document", "from_estimator", "is_binary", "is_document"]

_MULTICLASS = {"MultiClass": "softmax", "MultiClassOneVsAll": "logistic"}
_BINARY = ("Logloss", "CrossEntropy", "Focal")
_MOST_DEPTH = 24  # of a symmetric tree; CatBoost itself stops at 16
_HASHES = 1 << 32
_TEXTS = 1 << 23  # half of the codes that float32 and the category rules allow
# Writes model.json or error.txt; in an empty folder, so that nothing is imported from elsewhere.
_CONVERSION = """
import catboost
model = catboost.CatBoost()
try:
    model.load_model("model.cbm")
    model.save_model("model.json", format="json")
except catboost.CatBoostError as error:
    with open("error.txt", "w", encoding="utf-8") as file:
        file.write(f"catboost cannot convert it ({str(error)[:200]})")
"""


def is_binary(data: bytes) -> bool:
    """Return whether the bytes are a `.cbm` file."""
    return data.startswith(b"CBM1")


def is_document(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON document is a model as CatBoost writes it."""
    return "features_info" in document and bool(document.keys() & {"oblivious_trees", "trees"})


def from_estimator(
    model: Any, classes: Classes, iteration_range: IterationRange = None
) -> Ensemble:
    """Read a fitted CatBoost, CatBoostClassifier, CatBoostRegressor or CatBoostRanker."""
    if not hasattr(model, "save_model"):
        raise ModelError(
            f"is a catboost.{type(model).__name__}, not a model; pass a fitted CatBoostClassifier, "
            "CatBoostRegressor or CatBoost"
        )
    refuse_override(model, "catboost", ("predict", "predict_proba", "save_model"))
    if not model.is_fitted():
        raise ModelError("the model is not fitted; call fit first")
    import catboost

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            model.save_model(str(path), format="json")  # shortest decimals, which are exact
        except catboost.CatBoostError as error:
            raise ModelError(
                f"catboost cannot write it as JSON ({str(error)[:200]}); train it without text "
                "and embedding features"
            ) from None
        document = json.loads(path.read_text(encoding="utf-8"))
    return from_document(document, classes, iteration_range)


def from_binary(data: bytes, classes: Classes, iteration_range: IterationRange = None) -> Ensemble:
    """Convert the content of a `.cbm` file to JSON, and read that.

    The library trusts sizes and offsets in the file, and may crash at a damaged one; so it runs in
    a process of its own.
    """
    if importlib.util.find_spec("catboost") is None:
        raise ModelError(
            "is a binary CatBoost model, which only catboost can read; pip install "
            "'carvegbm[catboost]', or save the model with format='json'"
        )
    places = os.pathsep.join(os.path.abspath(place) for place in sys.path if place)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.cbm").write_bytes(data)
        ended = subprocess.run(
            [sys.executable, "-c", _CONVERSION],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": places},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        error = folder / "error.txt"
        if ended.returncode or error.exists():
            reason = error.read_text(encoding="utf-8") if error.exists() else "catboost crashed"
            raise ModelError(f"{reason}; it is damaged, or has text or embedding features")
        document = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    return from_document(document, classes, iteration_range)


def from_document(
    document: Any, classes: Classes, iteration_range: IterationRange = None
) -> Ensemble:
    """Read the content of a JSON file."""
    features = _Features(document["features_info"])
    is_symmetric = "oblivious_trees" in document
    stored = document["oblivious_trees" if is_symmetric else "trees"]
    require(isinstance(stored, list), "the trees must be a list")
    model_info = document.get("model_info")
    best = _best_iteration(model_info, len(stored))
    iterations = Iterations.chosen(iteration_range or "all", len(stored), best)
    scale, bias = _scale_and_bias(document.get("scale_and_bias"))
    read = _symmetric if is_symmetric else _nested
    trees = [read(index, tree, features, scale) for index, tree in enumerate(stored)]
    trees = trees[: iterations.used]
    n_outputs = trees[0].score.shape[1] if trees else len(bias)
    are_alike = all(tree.score.shape[1] == n_outputs for tree in trees)
    require(are_alike, "trees differ in their numbers of scores per leaf")
    if len(bias) == 1:
        bias = np.full(n_outputs, bias[0])
    require(len(bias) == n_outputs, f"the bias has {len(bias)} values for {n_outputs} outputs")
    if bias.any():
        leaf = np.full(1, -1, dtype=np.int64)
        trees.append(Tree(leaf, np.zeros(1), leaf, leaf, leaf, bias[None, :]))
    fields = _task(model_info, n_outputs)
    labels = fields.pop("classes", None)
    return assemble(
        trees,
        n_outputs=n_outputs,
        n_features=features.n_features,
        feature_names=features.names,
        classes=labels if classes is None else classes,
        input_precision="float32",
        categories=dict.fromkeys(features.category_columns.values(), features.labels),
        category_rule="text",
        iterations=iterations,
        **fields,
    )


def _best_iteration(model_info: Any, total: int) -> int | None:
    """Return how many of the trees were best on the validation data, if the model states it.

    CatBoost drops the others, unless it was trained with use_best_model=False.
    """
    text = model_info.get("training") if isinstance(model_info, dict) else None
    if text is None:
        return None
    metrics = json.loads(text).get("metrics", {})
    if "best_iteration" not in metrics:
        return None
    best = count(metrics, "best_iteration") + 1
    return best if best <= total else None  # the model was cut after training


def _scale_and_bias(given: Any) -> tuple[float, Floats]:
    """Read [scale, [bias, …]], or [scale, 0] as older versions write it, or nothing."""
    if given is None:
        return 1.0, np.zeros(1)
    scale, bias = given
    # CatBoost reads a bias other than a list as 0.
    require(isinstance(bias, list) or bias == 0, "the bias must be a list")
    values = bias if isinstance(bias, list) else [0.0]
    return number(scale, "scale"), numbers(values, None, "the bias")


def _task(model_info: Any, n_outputs: int) -> dict[str, Any]:
    """Return the fields of `Ensemble` that follow from the loss function."""
    info = model_info if isinstance(model_info, dict) else {}
    loss = _part(_part(info.get("params")).get("loss_function")).get("type")
    labels = _part(info.get("class_params") or info.get("multiclass_params"))
    if n_outputs > 1:
        if loss not in _MULTICLASS:
            raise ModelError(
                f"predicts {n_outputs} numbers at once (loss function {str(loss)[:60]!r}), which "
                "are not scores of classes; train a model per target"
            )
        fields: dict[str, Any] = {"task": "multiclass", "link": _MULTICLASS[loss]}
    elif labels or loss in _BINARY:
        fields = {"task": "binary", "link": "logistic", "tie": "negative"}
        fields["threshold"] = _logit(info.get("binclass_probability_threshold", 0.5))
    else:
        return {"task": "regression"}
    return fields | {"classes": _class_labels(labels, n_outputs)}


def _class_labels(params: Mapping[str, Any], n_outputs: int) -> list[Any] | None:
    """Return the label of every output; `params` may name classes that no training row had."""
    n_classes = max(2, n_outputs)
    names, order = params.get("class_names") or [], params.get("class_to_label") or []
    require(isinstance(names, list) and isinstance(order, list), "class_names must be a list")
    order = [count({"class_to_label": place}, "class_to_label") for place in order]
    # CatBoost writes no other order, and ignores this one.
    ascends = order == sorted(set(order)) and (n_outputs > 1 or order in ([], [0, 1]))
    require(ascends, "class_to_label must be 0, 1, …")
    if len(order) != n_classes:
        order = list(range(n_classes))
    if not names:
        return order
    is_float = params.get("class_label_type") == "Float"
    return [float(names[place]) if is_float else names[place] for place in order]


def _logit(given: Any) -> float:
    """Return the raw score of a probability, as CatBoost computes it."""
    probability = float(given)
    if not 0 < probability < 1:
        raise ModelError(
            f"binclass_probability_threshold is {str(given)[:40]!r}, so that one class always "
            "wins; set_probability_threshold to a number between 0 and 1"
        )
    try:
        return -math.log(1 / probability - 1)
    except (OverflowError, ValueError):
        return math.copysign(math.inf, probability - 0.5)


def _part(given: Any) -> Mapping[str, Any]:
    """Return a part of the model's information: a dict, in older files as JSON text, or {}."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    return given if isinstance(given, dict) else {}


# ── features and conditions ──────────────────────────────────────────────────────────────────


class _Condition(NamedTuple):
    """The condition of a split: x > value, or x is the category with the code `value`.

    If it holds, x goes right; for a category, x goes left in a `Tree`, whose sets list codes that
    go left.
    """

    feature: int
    value: float
    missing: int  # where NaN goes: 1 left, 0 right, -1 there is no rule
    is_category: bool = False

    def implied(self, earlier: _Condition, held: Bools) -> tuple[Bools, Bools]:
        """Return where this condition must fail, and where it must hold, if `earlier` `held`."""
        if earlier.feature != self.feature:
            return np.zeros_like(held), np.zeros_like(held)
        if self.is_category:
            is_same = np.full(len(held), earlier.value == self.value)
            return held != is_same, held & is_same
        return ~held & (earlier.value <= self.value), held & (earlier.value >= self.value)


_LEAF = _Condition(-1, 0.0, -1)


class _Features:
    """The features of a model, from the document's `features_info`."""

    def __init__(self, info: Mapping[str, Any]) -> None:
        self.columns: dict[int, int] = {}  # by position among the numerical features
        self.category_columns: dict[int, int] = {}  # by position among the categorical ones
        self.nan_right: set[int] = set()
        self.by_index: list[tuple[str, int, float]] = []  # type, feature and value of a split
        names: dict[int, str] = {}
        for kind in ("text", "embedding"):
            for feature in info.get(f"{kind}_features") or []:
                raise ModelError(
                    f"has the {kind} feature {_title(feature)!r}, which is not read; "
                    "turn it into numbers and train again"
                )
        for feature in info.get("float_features") or []:
            place, column = _place(feature, self.columns, names)
            what = f"the borders of feature {_title(feature)!r}"
            with np.errstate(over="ignore"):
                borders = numbers(feature.get("borders") or [], None, what).astype(np.float32)
            ascend = (np.diff(borders) >= 0).all() and not np.isnan(borders).any()
            require(ascend, f"{what} must ascend")
            self.by_index += [("FloatFeature", place, float(border)) for border in borders]
            treatment = feature.get("nan_value_treatment", "AsIs")
            is_known = treatment in ("AsIs", "AsFalse", "AsTrue")
            require(is_known, f"nan_value_treatment of feature {_title(feature)!r} is unknown")
            if treatment == "AsTrue" and feature.get("has_nans") is True:
                self.nan_right.add(column)
        categorical = info.get("categorical_features") or []
        for feature in categorical:
            place, _ = _place(feature, self.category_columns, names)
            hashes = integers(feature.get("values") or [], None, "the values of a category")
            self.by_index += [("OneHotFeature", place, value) for value in hashes.tolist()]
        self.n_features = max(names, default=-1) + 1
        listed = [names[column] for column in sorted(names)]
        is_named = all(listed) and len(listed) == self.n_features
        is_named &= listed != [str(column) for column in sorted(names)]
        self.names = listed if is_named else None
        titles = {feature.get("feature_index"): _title(feature) for feature in categorical}
        with_statistics = [
            titles.get(element.get("cat_feature_index"))
            for statistic in info.get("ctrs") or []
            for element in statistic.get("elements") or []
        ]
        self.with_statistics = [title for title in dict.fromkeys(with_statistics) if title]
        self.codes, self.labels = _codes_and_labels(info.get("cat_features_hash") or [])

    def condition(self, tree: int, split: Mapping[str, Any]) -> _Condition:
        """Read a split of a tree; refuse anything but a threshold or a category."""
        kind = str(split.get("split_type", "FloatFeature"))
        if kind == "OnlineCtr":
            raise ModelError(
                f"tree {tree} has a split by target statistics (CTR), in this model of "
                f"{', '.join(map(repr, self.with_statistics[:5])) or 'a categorical feature'}; "
                "train with one_hot_max_size no smaller than the number of categories, or encode "
                "them"
            )
        if kind not in ("FloatFeature", "OneHotFeature"):
            raise ModelError(
                f"tree {tree} has a split of the unknown type {kind[:40]!r}; "
                "train it with another version of CatBoost"
            )
        is_category = kind == "OneHotFeature"
        place = count(split, "cat_feature_index" if is_category else "float_feature_index")
        stated: Any = split["value"] if is_category else number(split["border"], "a border")
        if not is_category:
            with np.errstate(over="ignore"):
                stated = float(np.float32(stated))
        index = split["split_index"]
        is_same = type(index) is int and index >= 0
        is_same = is_same and self.by_index[index] == (kind, place, stated)
        require(is_same, f"tree {tree}: split_index {str(index)[:40]} is another split")
        if not is_category:
            column = self.columns[place]
            return _Condition(column, stated, 0 if column in self.nan_right else 1)
        column = self.category_columns[place]
        if stated % _HASHES not in self.codes:
            known = f"the hash {stated}" if self.codes else "hashes alone"
            raise ModelError(
                f"tree {tree} knows categories of feature {name_of(column, self.names)!r} by "
                f"{known}, without a text; save the model with "
                "save_model(path, format='json', pool=training_pool) and load that file"
            )
        return _Condition(column, self.codes[stated % _HASHES], -1, is_category=True)


def _place(
    feature: Mapping[str, Any], columns: dict[int, int], names: dict[int, str]
) -> tuple[int, int]:
    """Enter a feature in `columns` and `names`; return its position among its kind, its column."""
    place, column = count(feature, "feature_index"), count(feature, "flat_feature_index")
    is_new = place not in columns and column not in names
    require(is_new, f"two features at position {place} or {column}")
    columns[place] = column
    names[column] = str(feature.get("feature_id") or "")
    return place, column


def _title(feature: Mapping[str, Any]) -> str:
    return str(feature.get("feature_id") or feature.get("flat_feature_index"))


def _codes_and_labels(
    entries: Sequence[Mapping[str, Any]],
) -> tuple[dict[int, int], dict[int, Label]]:
    """Return the codes of the hashes that have a text, and the labels of these codes.

    To CatBoost the number 3 and the text "3" are one category: the label is the number, and if
    possible also the code. Beside numbers, texts get codes that numbers rarely are.
    """
    found: dict[int, Label] = {}
    for entry in entries:
        text, hashed = entry["value"], count(entry, "hash", most=_HASHES)
        is_right = hashed == _city_hash(text.encode("utf-8")) & 0xFFFFFFFF
        require(is_right, f"the hash of the category {text[:40]!r} is wrong")
        found[hashed] = spelled(text)
    order = sorted(found.items(), key=lambda pair: (isinstance(pair[1], str), pair[1]))
    first = 0 if all(isinstance(label, str) for label in found.values()) else _TEXTS
    codes = {
        hashed: label if isinstance(label, int) and 0 <= label < _TEXTS else first + place
        for place, (hashed, label) in enumerate(order)
    }
    return codes, {code: found[hashed] for hashed, code in codes.items()}


# ── trees ────────────────────────────────────────────────────────────────────────────────────


def _symmetric(index: int, tree: Mapping[str, Any], features: _Features, scale: float) -> Tree:
    splits = tree.get("splits") or []
    require(len(splits) <= _MOST_DEPTH, f"tree {index} is deeper than {_MOST_DEPTH}")
    conditions = [features.condition(index, split) for split in splits]
    values = numbers(tree["leaf_values"], None, f"tree {index}: leaf_values")
    n_leaves = 1 << len(conditions)
    is_full = len(values) > 0 and len(values) % n_leaves == 0
    require(is_full, f"tree {index} has {len(values)} leaf values for {n_leaves} leaves")
    # Level by level: per node its slot, which is 2 · parent + (1 for a right child), and the
    # conditions that hold there, as bits. No node where earlier conditions imply this one.
    slots, held = np.array([-1]), np.zeros(1, dtype=np.int64)
    nodes: list[_Condition] = []
    node_slots = [np.zeros(0, dtype=np.int64)]
    for depth, condition in enumerate(conditions):
        fails = np.zeros(len(slots), dtype=bool)
        holds = np.zeros(len(slots), dtype=bool)
        for before, earlier in enumerate(conditions[:depth]):
            must_fail, must_hold = condition.implied(earlier, (held >> before & 1).astype(bool))
            fails |= must_fail
            holds |= must_hold
        is_open = ~(fails | holds)
        node = len(nodes) + np.arange(int(is_open.sum()))
        nodes += [condition] * len(node)
        node_slots.append(slots[is_open])
        bit, swapped = np.int64(1 << depth), condition.is_category
        slots = np.concatenate([slots[~is_open], 2 * node + swapped, 2 * node + (not swapped)])
        held = np.concatenate(
            [held[~is_open] | np.where(holds[~is_open], bit, 0), held[is_open], held[is_open] | bit]
        )
    inner, size = len(nodes), len(nodes) + len(slots)
    children = np.empty(2 * size, dtype=np.int64)
    children[np.concatenate([*node_slots, slots])[1:]] = np.arange(1, size)
    rows = values.reshape(n_leaves, -1)
    scores = np.zeros((size, rows.shape[1]))
    scores[inner:] = rows[held]
    return _tree([*nodes, *[_LEAF] * len(slots)], children[0::2], children[1::2], scores, scale)


def _nested(index: int, tree: Mapping[str, Any], features: _Features, scale: float) -> Tree:
    """Read a tree whose nodes contain their children."""
    nodes: list[_Condition] = []
    children: list[list[int]] = []
    scores: list[Floats] = []
    stack: list[tuple[Any, int, int]] = [(tree, -1, 0)]
    while stack:
        node, parent, side = stack.pop()
        if parent >= 0:
            children[parent][side] = len(nodes)
        children.append([-1, -1])
        if "split" in node and "value" not in node:
            condition = features.condition(index, node["split"])
            swapped = int(condition.is_category)
            stack += [(node["right"], len(nodes), 1 - swapped), (node["left"], len(nodes), swapped)]
            nodes.append(condition)
            scores.append(np.zeros(0))
        else:
            nodes.append(_LEAF)
            value = node["value"]
            value = value if isinstance(value, list) else [value]
            scores.append(numbers(value, None, f"tree {index}: a leaf's value"))
    width = max(map(len, scores))
    is_even = width > 0 and {len(score) for score in scores} <= {0, width}
    require(is_even, f"tree {index}: its leaves differ in their values")
    rows = np.zeros((len(scores), width))
    for place, score in enumerate(scores):
        if len(score):
            rows[place] = score
    left, right = np.array(children, dtype=np.int64).T
    return _tree(nodes, left, right, rows, scale)


def _tree(
    nodes: Sequence[_Condition], left: Ints, right: Ints, scores: Floats, scale: float
) -> Tree:
    with np.errstate(over="ignore", invalid="ignore"):  # `Ensemble` refuses infinite scores
        scaled = scores if scale == 1 else scale * scores
    return Tree(
        np.array([node.feature for node in nodes], dtype=np.int64),
        np.array([node.value for node in nodes], dtype=np.float64),
        left,
        right,
        np.array([node.missing for node in nodes], dtype=np.int64),
        scaled,
        sets={
            place: np.array([int(node.value)])
            for place, node in enumerate(nodes)
            if node.is_category
        },
    )


# ── the hash of a category: CityHash64, version 1.0, of its text ─────────────────────────────
# Arithmetic is modulo 2^64; words are read in little-endian order.

_MASK = (1 << 64) - 1
_K0, _K1 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273
_K2, _K3 = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MIX = 0x9DDFEA08EB382D69


def _city_hash(s: bytes) -> int:
    n = len(s)
    if n <= 16:
        return _up_to_16(s, n)
    if n <= 32:
        a, b = _read(s, 0) * _K1, _read(s, 8)
        c, d = _read(s, n - 8) * _K2, _read(s, n - 16) * _K0
        low = _rotated(a - b, 43) + _rotated(c, 30) + d
        return _pair(low & _MASK, a + _rotated(b ^ _K3, 20) - c + n & _MASK)
    if n <= 64:
        return _up_to_64(s, n)
    return _longer(s, n)


def _up_to_16(s: bytes, n: int) -> int:
    if n > 8:
        a, b = _read(s, 0), _read(s, n - 8)
        return _pair(a, _rotated(b + n, n)) ^ b
    if n >= 4:
        first, last = (int.from_bytes(s[i : i + 4], "little") for i in (0, n - 4))
        return _pair(n + (first << 3), last)
    if n > 0:
        y, z = s[0] + (s[n >> 1] << 8), n + (s[-1] << 2)
        return _shifted(y * _K2 ^ z * _K3) * _K2 & _MASK
    return _K2


def _up_to_64(s: bytes, n: int) -> int:
    z, a = _read(s, 24), _read(s, 0) + (n + _read(s, n - 16)) * _K0
    v = _half(a, z, _read(s, 8), _read(s, 16))
    w = _half(_read(s, 16) + _read(s, n - 32), _read(s, n - 8), _read(s, n - 24), _read(s, n - 16))
    r = _shifted((v[0] + w[1]) * _K2 + (w[0] + v[1]) * _K0)
    return _shifted(r * _K0 + v[1]) * _K2 & _MASK


def _half(a: int, z: int, second: int, third: int) -> tuple[int, int]:
    b = _rotated(a + z, 52) + _rotated(a, 37) + _rotated(a + second, 7)
    a += second + third
    return a + z, b + _rotated(a, 31)


def _longer(s: bytes, n: int) -> int:
    x, y, z = _read(s, 0), _read(s, n - 16) ^ _K1, _read(s, n - 56) ^ _K0
    v, w = _weak(s, n - 64, n, y), _weak(s, n - 32, n * _K1, _K0)
    z += _shifted(v[1]) * _K1
    x, y = _rotated(z + x, 39) * _K1, _rotated(y, 33) * _K1
    for at in range(0, (n - 1) // 64 * 64, 64):
        x = _rotated(x + y + v[0] + _read(s, at + 16), 37) * _K1 ^ w[1]
        y = _rotated(y + v[1] + _read(s, at + 48), 42) * _K1 ^ v[0]
        z = _rotated(z ^ w[0], 33)
        v, w = _weak(s, at, v[1] * _K1, x + w[0]), _weak(s, at + 32, z + w[1], y)
        x, z = z, x
    low = _pair(v[0], w[0]) + _shifted(y) * _K1 + z
    return _pair(low & _MASK, _pair(v[1], w[1]) + x & _MASK)


def _weak(s: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """Hash 32 bytes and two seeds."""
    first, second, third, fourth = (_read(s, at + i) for i in (0, 8, 16, 24))
    a += first
    b = _rotated(b + a + fourth, 21)
    total = a + second + third
    return total + fourth & _MASK, b + _rotated(total, 44) + a & _MASK


def _read(s: bytes, i: int) -> int:
    return int.from_bytes(s[i : i + 8], "little")


def _rotated(x: int, by: int) -> int:
    x &= _MASK
    return (x >> by | x << (64 - by)) & _MASK


def _shifted(x: int) -> int:
    x &= _MASK
    return x ^ x >> 47


def _pair(low: int, high: int) -> int:
    a = _shifted((low ^ high) * _MIX)
    return _shifted((high ^ a) * _MIX) * _MIX & _MASK
