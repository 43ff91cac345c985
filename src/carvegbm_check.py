"""Check a proof of robustness verdicts without trusting the program that wrote it.

    python -m carvegbm_check PROOF MODEL DATA

This file is a program of its own. It needs only Python's standard library, shares no code with the
package that wrote the proof, and trusts nothing in the file: it reads the model and the data, and
computes distances, cells, coverage and bounds itself, in whole numbers and fractions. docs/proofs.md
describes the format to the byte and shows why the rules are sound. In short:

The attacker moves a row x to machine numbers z at a cost of at most the capacity. The *total* of z
is a constant plus one leaf value per tree: the margin of the side that the model decides for. The
attack wins if it is below 0 (or 0, where a tie is lost). The thresholds of the model cut every
*axis* (a feature, or a one-hot group) into *cells*; the cost of a cell is that of its cheapest value
for x, and it is *open* if that is affordable. `fragile` and `broken` come with a z: it must be in
reach and win. `robust` and `vulnerable` come with a tree of *cases*, sets of open cells, and

  reach   a case whose cheapest cells together exceed the capacity is empty; a cell, or the cells
          that a leaf demands, are out of reach if the cheapest of the other axes leave too little;
  cut     a case is closed if both parts of it are: some cells of an axis, and all the others;
  bound   a case is closed if no winning total is as large as  constant - L
          + sum over trees  of min over leaves in reach of value + sum over axes of min T(tree, axis, cell)
          + sum over axes   of min over open cells of floor(L cost / capacity) - sum over trees of T
          for the numbers L >= 0 and T that the file gives, whatever they are.
"""  # noqa: E501

from __future__ import annotations

if __name__ == "__main__":  # before the other imports, which take a while
    import os
    import signal

    def leave(*_: object) -> None:
        os.write(2, b"carvegbm_check: interrupted\n")
        os._exit(130)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
        signal.signal(signal.SIGINT, leave)

import argparse
import csv
import ctypes
import gc
import gzip
import hashlib
import io
import json
import math
import os
import re
import shlex
import struct
import sys
import traceback
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any, NoReturn

__all__ = ["RefusedError", "Report", "check", "main"]

MAGIC = b"carvegbm proof 1\n"
STATUSES = ("robust", "fragile", "vulnerable", "broken", "unknown")
LARGEST_BLOCK = 1 << 25  # bytes of records, unpacked
LARGEST_DEPTH = 1 << 12  # of cuts
LARGEST_VARINT = 4096  # bits; a sum of doubles in units of the smallest one has half as many
LARGEST_COUNT = 1 << 22  # of multipliers in a bound
LARGEST_STEPS = 1 << 50  # of 1 / denominator: a lattice ends there, on both sides
LARGEST_RATIO = 200  # of an unpacked file to its size
LARGEST_PACKING = 50  # of an unpacked block of records to its size
LARGEST_TABLE = 1 << 22  # scores: leaves times outputs, if there are many outputs
LARGEST_LCM = 1 << 14  # bits of a common denominator; beyond that, costs stay fractions

# what reading a damaged file may raise
DAMAGE: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, TypeError)
DAMAGE += (MemoryError, ValueError, RuntimeError, StopIteration)
DAMAGE += (struct.error, zlib.error, csv.Error)


class RefusedError(ValueError):
    """The file, the model or the data are damaged, or do not belong together."""


class NotProvedError(Exception):
    """What the file says of a row is not proved."""


def refuse(message: str) -> NoReturn:
    line = " ".join(message.split())
    raise RefusedError(printable(line if len(line) <= 700 else f"{line[:350]} … {line[-300:]}"))


def not_proved(message: str) -> NoReturn:
    raise NotProvedError(message)


def need(condition: object, otherwise: str) -> None:
    if not condition:
        not_proved(otherwise)


def printable(text: Any) -> str:
    """Text without control characters, which could hide or change what a terminal shows."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(text))


def single(value: float) -> float:
    """The float32 number nearest to a double, infinite if it is beyond all."""
    return ctypes.c_float(value).value


def above(value: float, narrow: bool) -> float:
    """The next machine number above one; `narrow`: of float32."""
    if not narrow or value == math.inf:
        return math.nextafter(value, math.inf)
    (bits,) = struct.unpack("<i", struct.pack("<f", value))
    bits = 1 if value == 0 else bits + (1 if value > 0 else -1)
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def exponent(values: Iterable[float]) -> int:
    """The least e >= 0 such that all values times 2^e are whole."""
    return max(value.as_integer_ratio()[1].bit_length() for value in values) - 1


def whole(value: float, e: int) -> int:
    """value times 2^e, which is whole."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (1 << e) // denominator


# ── the model ────────────────────────────────────────────────────────────────────────────────

Node = list[Any]
"""A split [feature, cut, missing, left, right] or a leaf [{output: score}], other scores being 0.
x goes left iff x <= cut, or iff its code is in cut, if that is a tuple of codes; a missing value
goes "L", "R" or, with "-", nowhere."""


@dataclass
class Model:
    """An ensemble: (base + the sum of one leaf's scores per tree) / average, for every output."""

    n_features: int
    trees: list[list[Node]]
    base: list[float]
    task: str
    average: int = 1
    threshold: float = 0.0
    tie: str = "positive"
    narrow: bool = False  # inputs are rounded to float32
    names: list[str] | None = None
    classes: list[Any] = field(default_factory=list)
    classes_from: str = ""
    categories: dict[int, dict[int, Any]] = field(default_factory=dict)  # feature: code: label
    rule: str = "label"  # how a number becomes a code
    unknown_is_missing: bool = False
    iterations: tuple[int, int, int] | None = None  # used, total and best, unless all are equal
    path: str = "MODEL"

    def checked(self, classes: list[Any] | None) -> Model:
        """The model itself, with class labels, if it is well formed."""
        splits = [node for node in chain(*self.trees) if len(node) == 5]
        leaves = [node[0] for node in chain(*self.trees) if len(node) == 1]
        self.classes = classes or self.classes
        self.classes_from = "as given" if classes else "as stored in the model"
        if type(self.classes) is not list or len({*map(str, self.classes)}) < len(self.classes):
            refuse(f"has the classes {self.classes}; they must be a list of different labels")
        if len(leaves) * len(self.base) > (LARGEST_TABLE if len(self.base) > 1 << 10 else 1 << 28):
            refuse(
                f"has {len(leaves)} leaves with {len(self.base)} scores each; these are too many"
            )
        sound = not self.names or (len(self.names) == self.n_features and type(self.names) is list)
        sound &= all(type(name) is str for name in self.names or ())
        if self.task == "regression" and len(self.classes) != 2:
            refuse("is a regression model, of which there are no verdicts; give --classes A,B")
        self.task = "binary" if self.task == "regression" else self.task
        if not self.classes:
            self.classes, self.classes_from = (
                [*range(max(2, len(self.base)))],
                "numbered, because the model has none",
            )
        if len(self.classes) != max(2, len(self.base)):
            refuse(f"has {len(self.base)} outputs and {len(self.classes)} classes; give --classes")
        scores = chain.from_iterable(leaf.values() for leaf in leaves)
        sound &= all(map(math.isfinite, chain(self.base, [self.threshold], scores)))
        sound &= len(self.base) == 1 if self.task == "binary" else self.task == "multiclass"
        sound &= self.tie in ("positive", "negative") and self.average >= 1
        sound &= self.rule in ("label", "text", "truncate", "nonnegative")
        sound &= all(0 <= o < len(self.base) for o in set(chain.from_iterable(leaves)))
        for f, cut, *_ in splits:
            sound &= 0 <= f < self.n_features and (f in self.categories) == (type(cut) is tuple)
            if type(cut) is tuple:  # of known codes >= 0, which ascend
                sound &= cut == tuple(sorted({-1, *cut})[1:])
                sound &= self.categories.get(f, {}).keys() >= {*cut}
            else:
                sound &= cut == (single(cut) if self.narrow else cut)
        if not sound:
            refuse("has a task, a number or a split that cannot be; the file is damaged")
        return self

    def content(self) -> str:
        """SHA-256 of all that verdicts depend on."""
        n_outputs = len(self.base)
        head = struct.pack("<3I", self.n_features, n_outputs, self.average)
        head += struct.pack(f"<{n_outputs + 1}d", self.threshold, *self.base)
        head += (b"+" if self.tie == "positive" else b"-") + (b"f" if self.narrow else b"d")
        found = hashlib.sha256(head)
        for node in chain(*self.trees):
            if len(node) == 1:
                scores = bytearray(8 * n_outputs)  # zeros
                for output, score in node[0].items():
                    struct.pack_into("<d", scores, 8 * output, score)
                found.update(b"V" + scores)
            elif type(node[1]) is tuple:
                numbers = node[0], len(node[1]), *node[1]
                found.update(b"C" + struct.pack(f"<{len(numbers)}I", *numbers) + node[2].encode())
            else:
                found.update(struct.pack("<cId", b"N", *node[:2]) + node[2].encode())
        return found.hexdigest()

    @cached_property
    def codes(self) -> dict[int, Keys]:
        """The codes of the labels of every categorical feature."""
        return {feature: Keys(labels.items()) for feature, labels in self.categories.items()}

    @cached_property
    def by_label(self) -> set[int]:
        """The categorical features whose cells are labels, not codes."""
        has_labels = self.rule in ("label", "text")
        return {
            feature
            for feature, labels in self.categories.items()
            if has_labels or any(code != label for code, label in labels.items())
        }

    @cached_property
    def tested(self) -> set[int]:
        """The features that splits test."""
        return {node[0] for node in chain(*self.trees) if len(node) == 5}

    @cached_property
    def own_names(self) -> list[str] | None:
        """The names of the features; None if they are not unique or only number the features."""
        names = self.names or []
        return None if is_made_up(names) or len(set(names)) < len(names) else names

    def name(self, feature: int) -> str:
        """The name of a feature, or "feature 3" where the model has no names of its own."""
        return self.own_names[feature] if self.own_names else f"feature {feature}"

    def code(self, value: float) -> int:
        """The code that the number in a categorical column stands for, -1 if for none."""
        if self.rule in ("label", "text"):  # the data's reader has looked it up already
            return int(value)
        seen = single(value) if self.narrow else value
        if self.rule == "nonnegative":
            return int(seen) if 0 <= seen < 1 << 24 else -1
        return int(seen) if -1 < seen < 1 << 31 else -1


def preorder(root: int, node_at: Callable[[int], Node], seen: set[int]) -> list[Node]:
    """The nodes of a tree: a root, its left subtree, its right subtree.

    `node_at` returns a node by its key in the file; its children are keys as well. `seen` has the
    keys of other trees, which may not occur again, and receives those of this one.
    """
    nodes: list[Node] = []
    stack = [(root, 0, 0)]
    while stack:
        key, parent, side = stack.pop()
        if key in seen:
            refuse("has a node with two parents, or a cycle; the file is damaged")
        seen.add(key)
        if nodes:
            nodes[parent][side] = len(nodes)
        node = node_at(key)
        if len(node) == 5:
            stack += [(node[4], len(nodes), 4), (node[3], len(nodes), 3)]
        nodes.append(node)
    return nodes


CONVERT = "run: carvegbm convert"  # read_model adds the arguments
FORMATS = (("format", "roots"), ("learner",), ("Model",), ("tree_info",), ("features_info",))


def conversion(path: str) -> str:
    """The command that makes a model readable for the checker."""
    return f"{CONVERT} {shlex.quote(path)} m.json, and check with m.json"


def read_model(path: str, classes: list[Any] | None, trees: str = "best") -> Model:
    """LightGBM's text, XGBoost's JSON, or the JSON of Ensemble.save, recognised by content.

    `trees`: "best" for the iterations that the library's own estimator uses, "all", or a number.
    """
    content = content_of(path)
    try:
        text, model = content.decode("utf-8-sig", "replace").lstrip(), None
        if text.startswith(("tree\n", "tree\r")):
            text = content.decode("utf-8-sig").lstrip()
            model = from_lightgbm(text.replace("\r\n", "\n"), trees)
        elif text.startswith("{") and text[1:2] not in "iUIlL$#":  # which UBJSON has there
            document = json.loads(text, object_pairs_hook=without_doubles)
            if sum(not document.keys().isdisjoint(keys) for keys in FORMATS) > 1:
                refuse("has the fields of several formats; programs may read different models")
            if document.get("format") == "carvegbm-ensemble":
                if trees != "best":
                    refuse("has no iterations to choose from; leave out --trees")
                model = from_ensemble(document)
            elif "learner" in document or "Model" in document:
                model = from_xgboost(document.get("Model", document), trees)
        if model is None:
            refuse(f"is no LightGBM text or XGBoost JSON; {CONVERT}")
        model.path = path
        return model.checked(classes)
    except RefusedError as error:
        refuse(f"{path}: {error}".replace(CONVERT, conversion(path)))
    except DAMAGE as e:
        refuse(f"{path}: the model is damaged ({type(e).__name__}: {str(e)[:100]})")


def iterations_used(trees: str, best: int, total: int) -> int:
    """How many of a file's iterations are used; `best` is what the library's estimator uses."""
    if trees in ("best", "all"):
        return min(best, total) if trees == "best" else total
    if not (trees.isdecimal() and 1 <= int(trees) <= total):
        refuse(f"has {total} iterations; --trees must be all, best or 1 to {total}, got {trees!r}")
    return int(trees)


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which no field may occur twice."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else refuse("JSON in which a field occurs twice")


def from_ensemble(document: dict[str, Any]) -> Model:
    """The JSON that docs/ensemble-json.md describes."""
    if document["version"] not in (1, 2):
        refuse(f"is version {document['version']} of the format; 1 and 2 are read")

    base = [float(score) for score in document["base_score"]]

    def node_at(place: int) -> Node:
        node = document["nodes"][place if place >= 0 else refuse("has a node below 0")]
        if "scores" in node:
            if len(node["scores"]) != len(base):
                refuse("has a leaf with another number of scores than outputs")
            return [dict(enumerate(map(float, node["scores"])))]
        codes = node.get("categories")
        cut = float(node["threshold"]) if codes is None else tuple(map(int, codes))
        side = {"left": "L", "right": "R"}[node["missing"]] if "missing" in node else "-"
        return [int(node["feature"]), cut, side, int(node["left"]), int(node["right"])]

    seen: set[int] = set()
    trees = [preorder(root, node_at, seen) for root in document["roots"]]
    model = Model(int(document["n_features"]), trees, base, document["task"])
    model.average, model.threshold = int(document["average"]), float(document["threshold"])
    model.tie, model.classes = document["tie"], document["classes"]
    model.narrow = {"float32": True, "float64": False}[document["input_precision"]]
    model.names, model.rule = document["feature_names"], document.get("category_rule", "label")
    model.unknown_is_missing = document.get("unknown_category") == "missing"
    for entry in document.get("categories", ()):
        known = dict(zip(entry["codes"], entry["labels"], strict=True))
        model.categories[int(entry["feature"])] = known
    return model


BLOCK = re.compile(r"Tree=.*\n(?:[^\n=]+=.*\n){1,22}\n+")  # a tree of LightGBM's text


def from_lightgbm(text: str, trees: str) -> Model:
    """A model as LightGBM's save_model writes it, with the trees as its predict reads them.

    LightGBM finds trees by the lengths in tree_sizes and reads at most 22 lines of each, up to a
    blank one.
    """
    before, end, tail = text.partition("\nend of trees")
    start, *parts = re.split(r"(?<=\n)(?=Tree=)", before + "\n")
    pairs = [[line.partition("=")[::2] for line in part.split("\n")] for part in (start, *parts)]
    head, *blocks = map(dict, pairs)
    if not end or (not parts and "\nTree=" in tail):
        refuse("the file ends before its trees do; it is damaged")
    sizes = [str(len(part.encode())) for part in parts]
    if head.get("tree_sizes", " ".join(sizes)).split() != sizes:
        refuse("has trees of other lengths than tree_sizes, by which LightGBM finds them; damaged")
    strange = any(
        value[:1] == "=" or (value and not key) or ("=" in value and key != "feature_names")
        for key, value in pairs[0]
    )
    strange |= any(not BLOCK.fullmatch(part) or part.count("Tree=") > 1 for part in parts)
    if strange or "\r" in before or "\0" in before:
        refuse("has lines that LightGBM would read differently; the file is damaged")
    objective, *options = head.get("objective", "").split() or [""]
    scales = [option[8:] for option in options if option.startswith("sigmoid:")]
    sound = all("_" not in "".join(b.values()) and "".join(b.values()).isascii() for b in blocks)
    if objective in ("binary", "multiclassova"):
        sound &= len(scales) == 1 and is_number(scales[0]) and 0 < float(scales[0]) < math.inf
    if not sound:
        refuse("holds numbers that LightGBM does not read; the file is damaged")
    n_outputs = int(head.get("num_tree_per_iteration") or head.get("num_class", "1"))
    if not 1 <= n_outputs <= max(1, len(blocks)):
        refuse(f"has {len(blocks)} trees, but {n_outputs} for every iteration; it is damaged")
    total = len(blocks) // n_outputs
    used = iterations_used(trees, total, total)
    nodes = [lightgbm_tree(b, i % n_outputs) for i, b in enumerate(blocks[: used * n_outputs])]
    model = Model(int(head["max_feature_idx"]) + 1, nodes, [0.0] * n_outputs, "multiclass")
    model.names, model.rule = head["feature_names"].split(" "), "truncate"
    if len(model.names) != model.n_features:
        refuse(f"has {len(model.names)} feature names for {model.n_features} features")
    infos = head.get("feature_infos", "").split()[: model.n_features]
    model.categories = lightgbm_categories(nodes, infos, tail)
    model.iterations = (used, total, total) if used < total else None
    if objective in ("binary", "cross_entropy"):
        model.task, model.tie = "binary", "negative"
    elif n_outputs == 1:
        model.task = "regression"
    if "average_output" in head:
        model.average = max(1, used)
        if head.get("version") == "v2":
            refuse(f"is a forest of an early LightGBM; {CONVERT}")
    return model


def categorical(trees: list[list[Node]], declared: dict[int, set[int]]) -> dict[int, set[int]]:
    """The codes of every categorical feature: those that its splits list, and those declared.

    A feature is categorical if a split lists codes of it, or if it is declared to be, and no split
    compares it.
    """
    listed: dict[int, set[int]] = {}
    compared = set()
    for feature, cut, *_ in (node for node in chain(*trees) if len(node) == 5):
        if type(cut) is tuple:
            listed.setdefault(feature, set()).update(cut)
        else:
            compared.add(feature)
    kept = {f: codes for f, codes in declared.items() if f in listed or f not in compared}
    return {f: listed.get(f, set()) | kept.get(f, set()) for f in listed.keys() | kept.keys()}


def lightgbm_categories(
    trees: list[list[Node]], infos: list[str], tail: str
) -> dict[int, dict[int, Any]]:
    """Codes and labels of every categorical feature.

    feature_infos lists codes. pandas_categorical has the labels of the columns of dtype category,
    but not which columns these are: labels are used where there are as many lists as categorical
    features, and as many labels as codes need.
    """
    lists = {
        f: map(int, info.split(":")) for f, info in enumerate(infos) if re.match(r"-?\d", info)
    }
    declared = {f: {c for c in those if 0 <= c < 1 << 31} for f, those in lists.items()}
    codes = categorical(trees, {f: those for f, those in declared.items() if those})
    found = re.search(r"^pandas_categorical:(.*)$", tail, re.M)
    labels = (json.loads(found[1]) if found else None) or []
    named = re.search(r"^\[categorical_feature: ([\d,]*)\]$", tail, re.M)
    by_column = {int(part) for part in named[1].split(",") if part} if named else set()
    for features in (sorted(by_column), sorted(codes)):
        if len(features) == len(labels) and all(map(are_distinct, labels)):
            known = dict(zip(features, labels, strict=True))
            if all(max(codes.get(f, ()), default=-1) < len(known[f]) for f in features):
                return {f: dict(enumerate(known.get(f, ()))) or numbered(codes[f]) for f in codes}
    return {f: numbered(those) for f, those in codes.items()}


def are_distinct(labels: list[Any]) -> bool:
    return len({*map(str, labels)}) == len(labels)


def numbered(codes: Iterable[int]) -> dict[int, Any]:
    """Categories without labels."""
    return {code: code for code in sorted(codes)}


def lightgbm_tree(block: dict[str, str], output: int) -> list[Node]:
    """A tree of the text: inner nodes first, child ~i is leaf i."""
    # LightGBM takes |v| <= 1e-35 (as float32) for 0 before it compares: a threshold next to 0 moves
    # to an end of that interval. It takes NaN for 0 where missing_type is None, both for missing
    # where it is Zero.
    if block.get("is_linear", "0") != "0":
        refuse("has linear models in its leaves; train with linear_tree=false")
    lists = {key: value.split() for key, value in block.items()}
    scores, zero = [float(score) for score in lists["leaf_value"]], single(1e-35)
    before, sets = math.nextafter(-zero, -math.inf), set()
    bounds = [int(bound) for bound in lists.get("cat_boundaries", ())]
    if bounds != sorted(bounds) or (bounds and bounds[0] < 0):
        refuse("has cat_boundaries that do not ascend; the file is damaged")
    if len(bounds) not in (
        {0, 1} if block.get("num_cat", "0") == "0" else {int(block["num_cat"]) + 1}
    ):
        refuse("has another number of cat_boundaries than num_cat says; the file is damaged")

    def node_at(key: int) -> Node:
        if key < 0:
            return [{output: scores[~key]}]
        kind = int(lists["decision_type"][key]) if "decision_type" in lists else 0
        children = int(lists["left_child"][key]), int(lists["right_child"][key])
        feature, cut = int(lists["split_feature"][key]), float(lists["threshold"][key])
        if not 0 <= kind <= 15:
            refuse("has a decision_type beyond 0 to 15; the file is damaged")
        if kind & 1:
            if cut in sets or not cut >= 0 or cut != int(cut):
                refuse("has splits without a set of categories of their own; the file is damaged")
            sets.add(cut)
            start, stop = bounds[int(cut) : int(cut) + 2]
            words = [int(word) for word in lists["cat_threshold"][start:stop]]
            codes = (c for c in range(32 * len(words)) if words[c // 32] >> c % 32 & 1)
            return [feature, tuple(codes), "R", *children]
        missing_type, default_left = kind >> 2 & 3, bool(kind & 2)
        zero_left = default_left if missing_type == 1 else cut >= 0
        if before <= cut <= zero:
            cut = zero if zero_left else before
        if zero_left != (cut >= 0):
            refuse(f"sends 0 against a threshold (zero_as_missing); {CONVERT}")
        side = "L" if (default_left if missing_type == 2 else zero_left) else "R"
        return [feature, cut, side, *children]

    if len(scores) != int(block["num_leaves"]):
        refuse("has a tree with another number of leaves than it says; the file is damaged")
    return preorder(0 if len(scores) > 1 else -1, node_at, set())


def from_xgboost(document: dict[str, Any], trees: str) -> Model:
    """XGBoost's JSON: inputs are float32, x < condition goes left, listed codes go right."""
    learner, booster = document["learner"], document["learner"]["gradient_booster"]
    is_dart, drop = booster["name"] == "dart", booster.get("weight_drop") or []
    model = (booster["gbtree"] if is_dart else booster)["model"]
    stored, groups = model["trees"], list(map(int, model["tree_info"]))
    if model.get("weight_drop") or (not is_dart and (drop or "gbtree" in booster)):
        refuse(f"has weight_drop or gbtree where XGBoost before 3.4 ignores them; {CONVERT}")
    weights = drop if is_dart else [1.0] * len(stored)
    parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
    n_outputs = max(1, int(parameters.get("num_class", "0")))
    if int(parameters.get("num_target", "1")) > 1:
        refuse("has several targets; train a model with one target")
    if n_outputs > max(1, len(stored)):
        refuse(f"has {len(stored)} trees for {n_outputs} classes; the file is damaged")
    per_iteration = n_outputs * max(1, int(model["gbtree_model_param"].get("num_parallel_tree", 1)))
    ends = model.get("iteration_indptr") or [*range(0, len(stored) + 1, per_iteration)]
    total = len(ends) - 1  # iteration i has the trees from ends[i] to ends[i + 1]
    if ends[0] != 0 or ends[-1] != len(stored) or any(a >= b for a, b in pairwise(ends)):
        refuse(f"has {len(stored)} trees, but its iterations have another number; it is damaged")
    best = learner.get("attributes", {}).get("best_iteration", str(total - 1))
    if type(best) is not str or not POSITION.fullmatch(best) or int(best) >= total:
        refuse(f"has {total} iterations, of which number {best!r} cannot be the best")
    used = iterations_used(trees, int(best) + 1, total)
    known = r"(binary:(logistic|hinge|logitraw)|multi:soft(max|prob)|reg:(logistic|squarederror))"
    vectors = any(int(t["tree_param"].get("size_leaf_vector", "0")) > 1 for t in stored)
    is_known = re.fullmatch(known, objective) and booster["name"] in ("gbtree", "dart")
    if not is_known or document["version"][0] < 2 or vectors:
        refuse(f"is of a kind that is not read here ({objective}); {CONVERT}")
    written = str(parameters["base_score"]).strip("[] ").split(",")
    base = [float(part) if is_number(part) else math.nan for part in written]
    if stored or parameters.get("boost_from_average", "1") == "0":
        base = [logit(value) if "logistic" in objective else single(value) for value in base]
    base = base * n_outputs if len(base) == 1 else base
    given = [*zip(stored, weights, groups, strict=True)][: ends[used]]
    read = [xgboost_tree(tree, weight, output) for tree, weight, output in given]
    found = Model(int(parameters["num_feature"]), read, base, "binary", narrow=True)
    found.iterations = (used, total, int(best) + 1) if min(used, int(best) + 1) < total else None
    found.tie, found.names, found.rule = "negative", learner.get("feature_names"), "nonnegative"
    kinds = (learner.get("feature_types") or [])[: found.n_features]
    codes = categorical(read, {f: set() for f, kind in enumerate(kinds) if kind == "c"})
    found.categories = xgboost_categories(codes, (model.get("cats") or {}).get("enc") or [])
    if objective.startswith("multi:") or objective == "reg:squarederror":
        found.task, found.tie = "multiclass" if n_outputs > 1 else "regression", "positive"
    saved = json.loads(learner.get("attributes", {}).get("scikit_learn", "{}"))
    is_classifier = saved.get("_estimator_type") == "classifier" and n_outputs == 1
    if is_classifier and objective in ("binary:logitraw", "reg:squarederror"):
        # XGBClassifier.predict is the second class iff the output is > 0.5.
        found.task, found.threshold, found.tie = "binary", 0.5, "negative"
    return found


def xgboost_categories(codes: dict[int, set[int]], labels: list[Any]) -> dict[int, dict[int, Any]]:
    """Codes and labels of every categorical feature.

    `labels` has an entry per feature since version 3.1. Without labels, one code that no split
    lists represents all others.
    """
    found = {}
    for feature, those in codes.items():
        known = xgboost_labels(labels[feature]) if feature < len(labels) else []
        other = next(code for code in range(len(those) + 1) if code not in those)
        is_complete = len(known) > max(those, default=0)
        found[feature] = (
            dict(enumerate(known)) if is_complete else numbered({*those, other} if those else ())
        )
    return found


def xgboost_labels(entry: dict[str, Any]) -> list[Any]:
    """The labels of a feature: numbers, or ASCII texts as bytes, one after the other."""
    found, ends = entry.get("values", []), entry.get("offsets")
    if ends is not None and not all(0 <= byte < 128 for byte in found):
        found = [*range(len(ends) - 1)]
    elif ends is not None:
        ends = ends or [0]
        if ends[0] != 0 or ends[-1] != len(found) or ends != sorted(ends):
            refuse("has offsets of labels that do not ascend from 0 to their end; it is damaged")
        found = [bytes(found[a:b]).decode() for a, b in pairwise(ends)]
    return found if are_distinct(found) else [*range(len(found))]


def xgboost_tree(tree: dict[str, Any], weight: float, output: int) -> list[Node]:
    left, right, condition = tree["left_children"], tree["right_children"], tree["split_conditions"]
    kinds = tree.get("split_type") or [0] * len(left)
    lists = [tree.get(f"categories_{name}", ()) for name in ("nodes", "segments", "sizes")]
    if sum(lists[2]) > len(tree.get("categories", ())) or min(lists[2], default=0) < 0:
        refuse("has sets of categories that are longer than their list; the file is damaged")
    codes = {node: tree["categories"][at : at + n] for node, at, n in zip(*lists, strict=True)}

    def node_at(place: int) -> Node:
        if left[place if place >= 0 else refuse("has a node below 0")] < 0:
            return [{output: single(single(condition[place]) * single(weight))}]
        feature, default_left = tree["split_indices"][place], bool(tree["default_left"][place])
        if kinds[place]:  # the codes that are listed go right: the children change places
            cut = tuple(sorted(set(codes[place])))
            return [feature, cut, "R" if default_left else "L", right[place], left[place]]
        below = -above(-single(condition[place]), True)
        return [feature, below, "L" if default_left else "R", left[place], right[place]]

    return preorder(0, node_at, set())


def logit(value: float) -> float:
    """The raw score that a probability stands for, as XGBoost computes it: in float32."""
    logf = getattr(ctypes.CDLL(None), "logf", None) if os.name == "posix" else None
    if logf is not None:
        logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    edge = single(1e-6)
    value = min(max(single(value), edge), single(1 - edge))
    odds = single(single(1 / value) - 1)
    return -float(logf(odds) if logf else single(math.log(odds)))


# ── the data ─────────────────────────────────────────────────────────────────────────────────

Rows = list[list[float]]
MISSING = ("", "nan", "na", "n/a", "null", "?")


def content_of(path: str, is_packed: bool = True) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
        if not is_packed or data[:2] != b"\x1f\x8b":
            return data
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacked:
            found = unpacked.read(LARGEST_RATIO * len(data) + 1)
        if len(found) > LARGEST_RATIO * len(data):
            refuse(f"{path}: unpacks to more than {LARGEST_RATIO} times its size; unpack it first")
        return found
    except (OSError, EOFError, zlib.error) as error:
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_csv(path: str, model: Model, label: str | None) -> tuple[Rows, list[str], str]:
    """Rows of numbers (categories as codes, NaN where missing), labels, and the labels' column."""
    content = content_of(path)
    if b"\0" in content:
        refuse(f"{path}: is not CSV; carvegbm check reads other kinds of data")
    try:
        lines = [line for line in content.decode("utf-8-sig").splitlines() if line.strip()]
        if not lines:
            refuse("is empty")
        by = next((mark for mark in ",;\t" if mark in lines[-1]), None)
        split = csv.reader(lines, delimiter=by or ",", skipinitialspace=True)
        cells = [[c.strip() for c in line] for line in (split if by else map(str.split, lines))]
        first, usual = cells[0], [cell.lower() for cell in cells[0]]
        numbers = [cell for cell in first if is_number(cell)]
        numbered = numbers == [str(i) for i in range(len(first) - 1)]
        named = label in first and not is_number(label or "")
        header = named or not numbers or (numbered and {"label", "target", "class"} & set(usual))
        at = len(first) - 1
        if label is not None:
            if not (header and label in first) and not re.fullmatch("-?[0-9]{1,9}", label):
                refuse(f"has no column {label!r} for --label; the columns are {first[:LISTED]}")
            at = first.index(label) if header and label in first else int(label) % len(first)
        elif header:
            at = next((usual.index(c) for c in ("label", "target", "class", "y") if c in usual), at)
        order = [place for place in range(len(first)) if place != at]
        odd = re.compile(r'[\s",:\[\]{}]')  # LightGBM replaces these by _ in a name
        wanted = [odd.sub("_", name) for name in model.names or ()]
        keys = [odd.sub("_", first[place]) for place in order]
        if header and sorted(keys) == sorted(wanted) and len(set(keys)) == len(keys):
            order = [order[keys.index(name)] for name in wanted]
        elif header and not (is_made_up(keys) or is_made_up(wanted)):
            names = ", ".join(sorted({*keys} ^ {*wanted})[:LISTED])
            refuse(f"the columns must be the model's features and --label; check {names}")
        rows, labels = [], []
        for number, line in enumerate(cells[bool(header) :]):
            if len(line) != model.n_features + 1 or line[at].lower() in ("", "nan"):
                refuse(f"row {number} has {len(line)} cells of {model.n_features + 1}, or no label")
            rows.append([read_cell(line[place], model, f) for f, place in enumerate(order)])
            labels.append(line[at])
        if not rows:
            refuse("has no rows")
        return rows, labels, f"column {first[at]!r}" if header else f"column {at}, without a name"
    except RefusedError as error:
        refuse(f"{path}: {error}")
    except DAMAGE as error:
        refuse(f"{path}: cannot be read as CSV: {str(error)[:200]}")


def is_made_up(names: list[str]) -> bool:
    """Whether names only number the columns, or are missing; then columns go by position."""
    stems = ("", "f", "Column_", "column_")
    return any(names == [f"{stem}{place}" for place in range(len(names))] for stem in stems)


def is_number(cell: str) -> bool:
    try:
        return "_" not in cell and cell.isascii() and float(cell) is not None
    except ValueError:
        return False


class Keys:
    """The keys of names; a number equals every text that spells it.

    If several names are equal, the key is that of the first one.
    """

    def __init__(self, names: Iterable[tuple[int, Any]]) -> None:
        self.by_text: dict[str, tuple[int, int]] = {}  # to (position, key)
        self.by_number: dict[float, tuple[int, int]] = {}
        for position, (key, name) in enumerate(names):
            self.by_text.setdefault(str(name), (position, key))
            if isinstance(name, (int, float)):
                self.by_number.setdefault(name, (position, key))

    def of(self, text: str) -> int:
        """The key of a name, -1 if there is none."""
        found = [self.by_text.get(text)]
        if self.by_number and is_number(text):
            found.append(self.by_number.get(float(text)))
        return min(filter(None, found), default=(0, -1))[1]


def read_cell(cell: str, model: Model, feature: int) -> float:
    """A cell as a number, or as the code of the category with that label."""
    if cell.lower() in MISSING:
        return math.nan
    if feature in model.by_label and model.categories[feature]:
        code = model.codes[feature].of(cell)
        return math.nan if code < 0 and model.unknown_is_missing else float(code)
    if not is_number(cell):
        remedy = "clean the data"
        if feature in model.categories:
            remedy = f"the model has no labels of categories; {conversion(model.path)}"
        refuse(f"{model.name(feature)}: {cell!r} is not a number; {remedy}")
    return float(cell)


def as_labels(text: str) -> list[Any]:
    """Labels separated by commas, as numbers if all of them are numbers."""
    texts = [part.strip() for part in text.split(",")]
    if not all(map(is_number, texts)):
        return [*texts]
    try:
        return [*map(int, texts)]
    except ValueError:
        return [*map(float, texts)]


def places_of(labels: Iterable[Any], classes: list[Any]) -> list[int]:
    """The index of every label in the classes."""
    texts, keys = [str(label) for label in labels], Keys(enumerate(classes))
    known = {text: keys.of(text) for text in set(texts)}
    for row, text in enumerate(texts):
        if known[text] < 0:
            refuse(f"row {row} has the label {text!r}; the classes are {classes}; give --classes")
    return [known[text] for text in texts]


# ── the attacker, axes and cells ─────────────────────────────────────────────────────────────

BY_FEATURE = ("down", "up", "lower", "upper", "step", "categories")
LIMITS = {"norm", "budget", "features", "row_bounds", "one_hot", *BY_FEATURE}


class Attacker:
    """What may be changed, how far, and at what cost, as the header of the file has it."""

    def __init__(self, given: dict[str, Any], model: Model) -> None:
        self.model, n, norm = model, model.n_features, given.get("norm")
        types: dict[str, type] = dict.fromkeys(BY_FEATURE, dict)
        types |= {"features": list, "one_hot": list, "row_bounds": bool}
        strange = [f for f in given.keys() & types.keys() if type(given[f]) is not types[f]]
        if given.keys() - LIMITS or strange:
            refuse(f"the attacker has limits that are unknown or of another type: {given.keys()}")
        if not (norm == "inf" or (type(norm) is int and 0 <= norm <= 100)):
            refuse(f"the attacker has the norm {norm}; it must be 0 to 100 or inf")

        def by_feature(name: str, read: Callable[[Any], Any]) -> dict[int, Any]:
            return {place(key, n): read(value) for key, value in given.get(name, {}).items()}

        self.norm: int | None = None if norm == "inf" else norm
        self.norm_name = str(norm)
        self.budget, one = amount(given.get("budget")), Fraction(1)
        self.capacity = Fraction(0) if norm == "inf" else self.budget ** (norm or 1)
        free = positions(given["features"], n) if "features" in given else range(n)
        closed = dict.fromkeys(set(range(n)) - set(free), Fraction(0))
        down, up = by_feature("down", amount) | closed, by_feature("up", amount) | closed
        self.scale = [(down.get(f, one), up.get(f, one)) for f in range(n)]
        low, high = by_feature("lower", double), by_feature("upper", double)
        self.bounds = [interval(low.get(f, NONE[0]), high.get(f, NONE[1])) for f in range(n)]
        for f in model.categories:
            self.bounds[f] = NONE
        self.row_bounds = given.get("row_bounds", False)
        self.by_row: dict[int, dict[int, Interval]] = {}  # in place of `bounds`, by feature
        steps = by_feature("step", ratio)
        codes = by_feature("categories", lambda those: positions(those, 1 << 31))
        self.step = {f: step for f, step in steps.items() if any(self.scale[f])}
        self.codes = {f: set(those) for f, those in codes.items() if any(self.scale[f])}
        groups = [positions(group, n) for group in given.get("one_hot", [])]
        by_axis = enumerate(groups, n)
        self.groups = {a: group for a, group in by_axis if any(any(self.scale[f]) for f in group)}
        self.group_of = {f: set(group) for group in self.groups.values() for f in group}
        grouped = [f for group in self.groups.values() for f in group]
        of_one_kind = [*grouped, *self.step, *model.categories]
        foreign = self.codes.keys() - model.categories.keys()
        known = model.categories
        unknown = [f for f, those in self.codes.items() if those - known.get(f, {}).keys()]
        uneven = [f for f in (*self.codes, *grouped) if self.scale[f][0] != self.scale[f][1]]
        mixed = [group for group in groups if len({self.scale[f] for f in group}) > 1]
        if len(set(of_one_kind)) < len(of_one_kind) or foreign or unknown or uneven or mixed:
            refuse("the attacker's limits contradict each other, or the model")

    def limits(self, feature: int, row: int) -> Interval:
        """The bounds of a feature in a row."""
        return self.by_row.get(row, {}).get(feature, self.bounds[feature])

    def obstacle(self, feature: int) -> str:
        """The reason why the attacker cannot change a feature in any row, or "".

        Bounds by row are ignored.
        """
        is_category, (low, high) = feature in self.model.categories, self.bounds[feature]
        if not any(self.scale[feature]):
            return "may not be changed"
        if is_category and not self.codes.get(feature):
            return "may change to no other category"
        if low == high and not self.row_bounds:
            return "have bounds that leave no other value"
        has_states = is_category or feature in self.group_of
        least: Any = 1 if has_states else self.step.get(feature, 0)
        reach: Fraction = self.budget * max(self.scale[feature])
        if reach == 0 or (self.budget < 1 if self.norm == 0 else reach < least):
            return "cannot pay for any change, because the budget is too small"
        return ""

    def can_change(self, feature: int) -> bool:
        """Whether the attacker can change a feature in some row; bounds by row are ignored."""
        return not self.obstacle(feature)

    def document(self, n_rows: int) -> dict[str, Any]:
        """The whole attacker as `carvegbm.Attacker.from_dict` reads it."""
        model, names, n = self.model, self.model.own_names, self.model.n_features

        def item(feature: int) -> int | str:
            return names[feature] if names else feature

        def key(feature: int) -> str:
            name = item(feature)
            is_odd = name != feature and bool(NUMBER.fullmatch(str(name)) or quoted(str(name)))
            return f'"{name}"' if is_odd else str(name)

        free = [f for f in range(n) if any(self.scale[f])]
        pairs = {f: [float(side) for side in self.scale[f]] for f in free}
        found: dict[str, Any] = {
            "scale": {key(f): p if p[0] != p[1] else p[0] for f, p in pairs.items() if p != [1, 1]},
            "step": {key(f): str(step) for f, step in self.step.items()},
            "categories": {
                key(f): [labels[code] for code in sorted(self.codes.get(f, ()))]
                for f, labels in model.categories.items()
                if any(self.scale[f])
            },
            "one_hot": [[item(f) for f in group] for group in self.groups.values()],
            "bounds": {key(f): finite(pair) for f, pair in enumerate(self.bounds) if pair != NONE},
        }
        if self.row_bounds:
            rows = [[finite(self.limits(f, row)) for f in range(n)] for row in range(n_rows)]
            found["bounds"] = [[[pair[end] for pair in row] for row in rows] for end in (0, 1)]
        norm = "inf" if self.norm is None else self.norm
        return (
            {"norm": norm, "budget": float(self.budget)}
            | ({"features": [item(f) for f in free]} if len(free) < n else {})
            | {name: value for name, value in found.items() if value}
        )


Interval = tuple[float, float]
NONE = (-math.inf, math.inf)  # no bounds
POSITION = re.compile("0|[1-9][0-9]{0,9}", re.ASCII)
NUMBER = re.compile("-?(0|[1-9][0-9]*)", re.ASCII)  # a name that looks like a position


def interval(low: float, high: float) -> Interval:
    """Bounds between which there is a number."""
    is_one = low <= high and low < math.inf and high > -math.inf
    return (low, high) if is_one else refuse(f"there is no number between {low} and {high}")


def finite(pair: Interval) -> list[float | None]:
    """Bounds for JSON, with None for infinite ones."""
    return [end if math.isfinite(end) else None for end in pair]


def quoted(text: str) -> bool:
    return len(text) > 1 and text[0] == text[-1] == '"'


def place(key: Any, n: int) -> int:
    """The position that a key of the header names."""
    is_one = isinstance(key, str) and POSITION.fullmatch(key) and int(key) < n
    return int(key) if is_one else refuse(f"the attacker names feature {key!r}")


def positions(given: Any, n: int) -> list[int]:
    """A list of different whole numbers from 0 to n - 1."""
    sound = type(given) is list and all(type(f) is int and 0 <= f < n for f in given)
    if not sound or len(set(given)) < len(given):
        refuse(f"the attacker has {str(given)[:40]} where different positions should be")
    return list(given)


def double(text: Any) -> float:
    """A double as float.hex writes it; in no other way, or a reader could take it for another."""
    value = float.fromhex(text)
    return (
        value
        if value.hex() == text != "nan"
        else refuse(f"{text} is no double as float.hex writes it")
    )


def amount(text: Any) -> Fraction:
    """A finite double >= 0."""
    value = double(text)
    return Fraction(value) if 0 <= value < math.inf else refuse(f"{text} is no budget or scale")


def ratio(text: str) -> Fraction:
    """A step, as "numerator/denominator"."""
    step = Fraction(text) if re.fullmatch(r"\d{1,10}/\d{1,10}", text, re.ASCII) else Fraction(0)
    in_range = 0 < step <= 1 << 31 and step.denominator <= 1 << 31
    return step if in_range else refuse(f"{text[:40]!r} is no step")


Values = tuple[float, ...]  # of the features of an axis
Bounds = tuple[Interval, ...]  # of them: the least and the largest
ByAxis = dict[int, Bounds]
Pairs = list[tuple[int, int]]  # cells or states and θ, or classes and weights


class Cells(dict[int, Any]):
    """The open cells of an axis for a row, as a mask; and the least cost of some, by their mask."""

    def __init__(self, axis: Line | States, x: Values, bounds: Bounds) -> None:
        super().__init__()
        self.own, self.costs = axis.cell(x), [0] * axis.n_cells
        self.full = 1 << self.own  # staying in the cell of x costs nothing
        for cell, cost in axis.moves(x, bounds):
            self.costs[cell], self.full = cost, self.full | 1 << cell
        self.most = max(self.costs)

    def __missing__(self, mask: int) -> Any:
        self[mask] = min([self.costs[cell] for cell in members(mask)])
        return self[mask]

    def dear(self, most: Any) -> int:
        """The mask of the cells that cost more."""
        return sum(1 << cell for cell, cost in enumerate(self.costs) if cost > most)


def members(mask: int) -> list[int]:
    """The cells of a mask: bit i stands for cell i."""
    return [cell for cell, bit in enumerate(bin(mask)[:1:-1]) if bit == "1"]


class Axis:
    """One direction of change: d > 0 units cost `weight` d^`power`, up to a `limit`."""

    def __init__(self, attacker: Attacker, features: list[int], unit: Fraction) -> None:
        self.features, self.unit = features, unit
        self.name = ", ".join(map(attacker.model.name, features[:10]))
        norm, budget, self.power = attacker.norm, attacker.budget, attacker.norm or 0
        self.limit: list[Any] = [-1, -1]  # down, up
        self.weight: list[Any] = [Fraction(0), Fraction(0)]
        for up, scale in enumerate(attacker.scale[features[0]]):
            if scale > 0:
                at_will = math.inf if budget >= 1 else -1
                self.limit[up] = at_will if norm == 0 else budget * scale / unit
                self.weight[up] = Fraction(0) if norm is None else (unit / scale) ** norm

    def of(self, z: Sequence[Any]) -> tuple[Any, ...]:
        """The values of a point in the features of the axis."""
        return tuple([z[f] for f in self.features])


class Line(Axis):
    """A numeric feature: `spans` has the ends of the cells between its cuts, in whole units."""

    def __init__(self, attacker: Attacker, feature: int, cuts: list[float], rows: Rows) -> None:
        self.cuts, narrow = cuts, attacker.model.narrow
        self.n_cells = len(cuts) + 2  # the last one is for what is missing, as in all axes
        self.seen: Callable[[float], float] = single if narrow else float  # by the model
        most = -above(-math.inf, narrow)
        ends = [(above(a, narrow), min(b, most)) for a, b in pairwise([-math.inf, *cuts, math.inf])]
        values = (*chain(*ends), *(row[feature] for row in rows))
        e = exponent(value for value in values if math.isfinite(value))
        self.step: Fraction | None = attacker.step.get(feature)
        super().__init__(attacker, [feature], self.step or Fraction(1, 1 << e))
        self.far = [limit if limit == math.inf else math.floor(limit) for limit in self.limit]
        if self.step is None:
            self.spans = [(whole(a, e), whole(b, e)) if a <= b else (1, 0) for a, b in ends]
        else:
            self.end: int = LARGEST_STEPS // self.step.numerator
            lasts = [self.last(cut, self.seen) for cut in cuts]
            self.spans = [(a + 1, b) for a, b in pairwise([-self.end - 1, *lasts, self.end])]

    def double(self, n: int) -> float:
        """The value of n steps: the nearest double."""
        return n * self.unit.numerator / self.unit.denominator

    def last(self, most: float, seen: Callable[[float], float] = float) -> int:
        """The last n whose double is not larger, or the one before the first."""
        low, high = -self.end - 1, self.end
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if seen(self.double(middle)) <= most else (low, middle - 1)
        return low

    def number(self, value: float, low: float, high: float) -> Any:
        """A value in units, if it is one that a row may have."""
        numerator, denominator = value.as_integer_ratio()
        units: Any = Fraction(numerator * self.unit.denominator, denominator * self.unit.numerator)
        if self.step is not None:
            units = round(units)
            double = self.double(units) if abs(units) <= self.end else math.nan
            if value not in (double, self.seen(double)):
                not_proved(f"{self.name}: {value} is no multiple of the step {self.step}")
            value = double
        if not low <= value <= high:
            not_proved(f"{self.name} is outside the attacker's bounds")
        return units

    def cell(self, x: Values) -> int:
        return bisect_left(self.cuts, self.seen(x[0])) if x[0] == x[0] else self.n_cells - 1

    def left(self, node: Node) -> int:
        """The mask of the cells that a split sends left."""
        up_to = (2 << bisect_left(self.cuts, node[1])) - 1
        return up_to | bool(node[2] == "L") << self.n_cells - 1

    def moves(self, x: Values, bounds: Bounds) -> Iterator[tuple[int, Any]]:
        """The other cells that are open, and their costs."""
        if x[0] != x[0]:
            return
        ((first, last),), start = bounds, self.cell(x)
        own = int(self.number(x[0], first, last))
        if self.step is not None:
            first, last = self.last(math.nextafter(first, -math.inf)) + 1, self.last(last)
        elif math.isfinite(first) or math.isfinite(last):
            first = math.ceil(Fraction(first) / self.unit) if math.isfinite(first) else first
            last = math.floor(Fraction(last) / self.unit) if math.isfinite(last) else last
        for up, cells in enumerate((range(start - 1, -1, -1), range(start + 1, len(self.spans)))):
            for cell in cells:
                a, b = self.spans[cell]
                if a <= b and (a <= last if up else first <= b):
                    distance = a - own if up else own - b
                    if distance > self.far[up]:
                        break
                    yield cell, self.weight[up] * distance**self.power

    def can_move(self, x: Values, bounds: Bounds) -> bool:
        """Whether the attacker reaches any value that the model tells from x."""
        if x[0] != x[0]:
            return False
        (low, high), seen = bounds[0], self.seen(x[0])
        if self.step is not None:
            n = int(self.number(x[0], low, high))
            near = [(up, self.double(n + (1 if up else -1))) for up in (False, True)]
            return any(self.limit[up] >= 1 and low <= z <= high for up, z in near)
        narrow = self.seen is single
        down, up = -above(-seen, narrow), above(seen, narrow)
        return any(
            low <= z <= high and abs(Fraction(z) - Fraction(x[0])) <= limit * self.unit
            for z, limit in zip((down, up), self.limit, strict=True)
            if math.isfinite(z)
        )

    def distance(self, x: Values, z: Values, bounds: Bounds) -> Any:
        """By how many units x is moved to z; 0 if the attacker cannot."""
        if x[0] != x[0] or not math.isfinite(z[0]) or (not self.step and self.seen(z[0]) != z[0]):
            return 0
        return self.number(z[0], *bounds[0]) - self.number(x[0], *bounds[0])

    def steps(self, pairs: Pairs) -> Pairs:
        """θ as a function: cells, and what it is from each one up to the next."""
        if pairs[-1][0] > len(self.cuts):
            not_proved(f"the multipliers of {self.name} name a cell that does not exist")
        return pairs if pairs[0][0] == 0 else [(0, 0), *pairs]

    def some(self, named: Sequence[int]) -> int:
        """The mask of the cells that a cut names: all cells up to one of them."""
        return (2 << min(named[0], self.n_cells)) - 1


class States(Axis):
    """Every state is a cell: the codes of a categorical feature, or the members of a group."""

    def __init__(self, attacker: Attacker, features: list[int], names: list[int]) -> None:
        super().__init__(attacker, features, Fraction(1))
        self.names, self.n_cells, self.code = names, len(names) + 1, attacker.model.code
        self.positions = {name: position for position, name in enumerate(names)}
        self.is_group = features[0] not in attacker.model.categories
        self.codes = attacker.codes.get(features[0], set())  # that may be chosen

    def cell(self, x: Values) -> int:
        if not self.is_group:
            return self.positions[self.code(x[0])] if x[0] == x[0] else self.n_cells - 1
        need(sorted(x) == [0] * (len(x) - 1) + [1], f"not one-hot: {self.name}")
        return x.index(1)

    def left(self, node: Node) -> int:
        if not self.is_group:
            return self.some(node[1]) | bool(node[2] == "L") << self.n_cells - 1
        member = self.features.index(node[0])
        return sum(1 << state for state in self.names if (state == member) <= node[1])

    def moves(self, x: Values, bounds: Bounds) -> Iterator[tuple[int, Any]]:
        own, states = self.cell(x), range(len(self.names))
        if self.is_group:
            inside = [[low <= 0 <= high, low <= 1 <= high] for low, high in bounds]
            chosen = [s for s in states if all(inside[i][i == s] for i in states)]
            need(own in chosen, f"outside the attacker's bounds: {self.name}")
        else:
            chosen = [s for s in states if self.names[s] in self.codes and x[0] == x[0]]
        if self.limit[1] >= 1:
            yield from ((state, self.weight[1]) for state in chosen if state != own)

    def can_move(self, x: Values, bounds: Bounds) -> bool:
        return any(True for _ in self.moves(x, bounds))

    def distance(self, x: Values, z: Values, bounds: Bounds) -> Any:
        is_state = self.is_group or z[0] in self.codes
        return int(is_state and self.cell(z) in dict(self.moves(x, bounds)))

    def steps(self, pairs: Pairs) -> Pairs:
        known = dict(pairs)
        need(len(known) == len(pairs), f"the multipliers of {self.name} name a state twice")
        return [(place, known.get(name, 0)) for place, name in enumerate((*self.names, -1))]

    def some(self, named: Sequence[int]) -> int:
        bits = bytearray(len(self.names) // 8 + 1)
        for position in map(self.positions.get, named):
            if position is not None:
                bits[position // 8] |= 1 << position % 8
        return int.from_bytes(bits, "little")


class Problem:
    """A model and an attacker, prepared for all rows.

    Axis f < n is feature f, axis n + g the one-hot group g, if it may be changed; its features are
    no axes then. In `trees`, a split is (axis, mask of the cells that go left, left, right), a leaf
    (-1, 0, 0, 0); `lows` has by output, if that has scores in the tree, and by node: the least of
    the negated scores below it, and the least of the scores, in whole multiples of 2^-unit.
    """

    def __init__(self, model: Model, attacker: Attacker, rows: Rows) -> None:
        self.model, self.attacker, self.axis_of = model, attacker, list(range(model.n_features))
        splits = [node for node in chain(*model.trees) if len(node) == 5]
        self.without_nan = {node[0] for node in splits if node[2] == "-"}  # NaN has no direction
        cuts: list[set[Any]] = [set() for _ in self.axis_of]
        for feature, cut, *_ in splits:
            cuts[feature].update(cut if type(cut) is tuple else (cut,))
        self.axes: dict[int, Line | States] = {}
        for f, own in enumerate(cuts):
            if f in model.categories:
                own.update(attacker.codes.get(f, ()))
                own.update(model.code(row[f]) for row in rows if row[f] == row[f])
                self.axes[f] = States(attacker, [f], sorted(own))
            else:
                self.axes[f] = Line(attacker, f, sorted(own), rows)
        for number, group in attacker.groups.items():
            self.axes[number] = States(attacker, group, list(range(len(group))))
            for f in group:
                self.axis_of[f] = number
                del self.axes[f]
        self.used = sorted({self.axis_of[node[0]] for node in splits})
        self.masks: dict[tuple[int, Any, str], int] = {}  # of splits: (feature, cut, missing)
        self.with_states = [a for a, axis in self.axes.items() if isinstance(axis, States)]
        self.bounds = self.bounded({})
        self.cells = lru_cache(64 * len(self.axes))(Cells)
        self.capacity: int | Fraction = attacker.capacity
        costs = [self.capacity, *(weight for axis in self.axes.values() for weight in axis.weight)]
        common = 1
        for denominator in {cost.denominator for cost in costs}:
            common = math.lcm(common, denominator) if common.bit_length() < LARGEST_LCM else common
        if common.bit_length() < LARGEST_LCM:  # costs in whole multiples of one unit
            self.capacity = int(self.capacity * common)
            for axis in self.axes.values():
                axis.weight = [int(weight * common) for weight in axis.weight]
        leaves = (node[0].values() for node in chain(*model.trees) if len(node) == 1)
        self.unit = 64 + exponent(chain(model.base, [model.threshold], *leaves))
        self.base = [whole(value, self.unit) for value in model.base]
        self.threshold = whole(model.threshold, self.unit) * model.average
        self.trees, self.lows = [], []
        for nodes in model.trees:
            self.trees.append([self.split(n) if len(n) == 5 else (-1, 0, 0, 0) for n in nodes])
            outputs = {o for n in nodes if len(n) == 1 for o, score in n[0].items() if score}
            self.lows.append({o: [self.least(nodes, o, sign) for sign in (-1, 1)] for o in outputs})

    def split(self, node: Node) -> tuple[int, int, int, int]:
        axis, key = self.axis_of[node[0]], (node[0], node[1], node[2])
        if key not in self.masks:
            self.masks[key] = self.axes[axis].left(node)
        return axis, self.masks[key], node[3], node[4]

    def bounded(self, given: dict[int, Interval]) -> ByAxis:
        """The bounds by axis: those that are given, or the attacker's."""
        bounds = [given.get(f, pair) for f, pair in enumerate(self.attacker.bounds)]
        return {a: axis.of(bounds) for a, axis in self.axes.items()}

    def least(self, nodes: list[Node], output: int, sign: int) -> list[int]:
        found = [0] * len(nodes)
        for place, node in reversed([*enumerate(nodes)]):  # children stand behind their parents
            if len(node) == 1:
                found[place] = sign * whole(node[0].get(output, 0.0), self.unit)
            else:
                found[place] = min(found[node[3]], found[node[4]])
        return found

    def decide(self, places: dict[int, int]) -> int:
        """The class that the exact sums decide for, from a point's cell on every axis."""
        sums = list(self.base)
        for nodes, lows in zip(self.trees, self.lows, strict=True):
            place, (axis, mask, left, right) = 0, nodes[0]
            while axis >= 0:
                place = left if mask >> places[axis] & 1 else right
                axis, mask, left, right = nodes[place]
            for output, (_, scores) in lows.items():
                sums[output] += scores[place]
        if self.model.task == "multiclass":
            return sums.index(max(sums))
        margin = sums[0] - self.threshold
        return int(margin > 0 or (margin == 0 and self.model.tie == "positive"))

    def places(self, z: list[float]) -> dict[int, int]:
        """The cells of a point."""
        return {a: axis.cell(axis.of(z)) for a, axis in self.axes.items()}

    def can_move(self, row: Row) -> bool:
        """Whether the attacker can change a feature that the model tests."""
        moves = (self.axes[a].can_move(self.axes[a].of(row.x), row.bounds[a]) for a in self.used)
        return any(moves)


class Row:
    """A row, its label and its bounds; not proved if the row is outside the attacker's limits."""

    def __init__(self, problem: Problem, x: list[float], label: int, bounds: ByAxis) -> None:
        self.problem, self.x, self.label, self.bounds = problem, x, label, bounds
        for f, value in enumerate(x):
            seen = single(value) if problem.model.narrow else value
            if math.isinf(seen) or (value != value and f in problem.without_nan):
                not_proved(f"{problem.model.name(f)} is {value}, which no split can send anywhere")
        axes, cells = problem.axes.items(), problem.cells
        self.cells = {a: cells(axis, axis.of(x), bounds[a]) for a, axis in axes}
        self.full = {a: cells.full for a, cells in self.cells.items()}
        self.decision = problem.decide({a: cells.own for a, cells in self.cells.items()})
        self.is_right = self.decision == label


# ── the rules ────────────────────────────────────────────────────────────────────────────────


class Claim:
    """No z has a total < 0, nor one of 0 if that wins: the constant, and weights of the outputs."""

    def __init__(self, row: Row, given: Pairs) -> None:
        self.problem, self.constant, label = row.problem, 0, row.label
        if row.problem.model.task == "binary":
            need(not given, "a part has weights, where there are two classes")
            self.weights = {0: 1 if row.decision else -1}
            self.zero_wins = row.problem.model.tie == ("negative" if row.decision else "positive")
            self.constant = -self.weights[0] * row.problem.threshold
        else:
            rivals, sign = dict(given), 1 if row.is_right else -1
            if not any(rivals.values()) or len(rivals) < len(given) or label in rivals:
                not_proved("weights that are all 0, or twice there, or for the label")
            need(max(rivals) < len(row.problem.base), f"there is no class {max(rivals)}")
            self.weights = {rival: -sign * weight for rival, weight in given if weight}
            self.zero_wins = row.is_right == any(rival < label for rival in self.weights)
            self.weights[label] = sign * sum(rivals.values())
        self.constant += sum(row.problem.base[o] * weight for o, weight in self.weights.items())

    def lowest(self, tree: int, up: int) -> list[int]:
        """The least value below every node, in multiples of 2^-(unit + up); [] if all are 0."""
        lows = self.problem.lows[tree]
        terms = [(abs(w), lows[o][w > 0]) for o, w in self.weights.items() if o in lows]
        if len(terms) == 1 and terms[0][0] == 1 and not up:
            return terms[0][1]
        lines = [[weight * value << up for value in values] for weight, values in terms]
        return [sum(column) for column in zip(*lines, strict=True)]


Multipliers = list[tuple[int, int, Pairs]]  # by tree and axis; no pairs: the price
Bound = tuple[int, int, Multipliers]  # a shift, λ, and θ, in whole multiples of 2^-shift
Masks = dict[int, int]  # by axis: the open cells of a case
Case = tuple[Masks, Claim]
Thetas = dict[int, Callable[[int], int]]  # of a tree, by axis: the least θ of some cells


def in_reach(row: Row, masks: Masks) -> tuple[Masks, Any] | None:
    """Rule 1: the open cells of a case, and what is left of the capacity; None if it is empty."""
    cells, used, capacity = row.cells, row.problem.used, row.problem.capacity
    slack = capacity - sum([cells[a][masks[a]] for a in used]) if all(masks.values()) else -1
    if slack < 0:
        return None
    masks = dict(masks)
    for axis in used:
        if cells[axis].most > slack:
            masks[axis] &= ~cells[axis].dear(slack + cells[axis][masks[axis]])
    return masks, slack


def alive(
    row: Row, case: tuple[Masks, Any], tree: int, lowest: list[int], thetas: Thetas, every: bool
) -> Iterator[tuple[int, dict[int, int]]]:
    """The leaves of a tree in reach: value plus multipliers, and the cells that they demand.

    `lowest` has the least value below every node. Unless `every`, a leaf that is not lower than one
    before is left out.
    """
    (masks, slack), nodes, cells = case, row.problem.trees[tree], row.cells
    with_states = [axis for axis in row.problem.with_states if axis in thetas]
    best, start = math.inf, sum([theta(masks[axis]) for axis, theta in thetas.items()])
    stack: list[tuple[int, Any, int, dict[int, int]]] = [(0, 0, start, {})]
    while stack:
        place, extra, total, demands = stack.pop()
        while every or total + lowest[place] < best:
            axis, part, left, right = nodes[place]
            if axis < 0:
                for a in (a for a in with_states if a in demands):
                    dear = cells[a].dear(slack - extra + cells[a][demands[a]])
                    total += thetas[a](demands[a] & ~dear) - thetas[a](demands[a])
                best = min(best, total + lowest[place])
                yield total + lowest[place], demands
                break
            mask, costs, theta = demands.get(axis, masks[axis]), cells[axis], thetas.get(axis)
            one, other = mask & part, mask & ~part
            if not one or not other:
                place = left if one else right
                continue
            to_one, to_other = (theta(one), theta(other)) if theta else (0, 0)
            total -= min(to_one, to_other)  # the least θ of both
            children = [(right, other, total + to_other), (left, one, total + to_one)]
            if children[0][2] + lowest[right] < children[1][2] + lowest[left]:
                children.reverse()  # the lower one is next
            for child, side, so_far in children:
                more = extra - costs[mask] + costs[side]
                if more <= slack:
                    stack.append((child, more, so_far, {**demands, axis: side}))
            break


def single_tree_axes(row: Row, case: tuple[Masks, Any], lowest: list[list[int]]) -> Multipliers:
    """The axes on which a single tree demands cells that cost: its θ there is the price."""
    trees: dict[int, set[int]] = {}
    for tree, values in enumerate(lowest):
        leaves = list(alive(row, case, tree, values, {}, True)) if values else []
        if len({value for value, _ in leaves}) > 1:
            for axis, mask in {demand for _, demands in leaves for demand in demands.items()}:
                if row.cells[axis][mask] > row.cells[axis][case[0][axis]]:
                    trees.setdefault(axis, set()).add(tree)
    return [(min(some), axis, []) for axis, some in trees.items() if len(some) == 1]


def close(row: Row, masks: Masks, bound: Bound, claim: Claim) -> None:
    """Rule 3: the bound of a case is larger than every winning total, or it is not proved."""
    case, problem, (shift, given_price, multipliers) = in_reach(row, masks), row.problem, bound
    if case is None:
        return
    unit = max(problem.unit, shift + 64)  # all that follows is in multiples of 2^-unit
    up, finer, capacity = unit - problem.unit, unit - shift, problem.capacity or 1
    price = given_price << finer if problem.capacity else 0
    lowest = [claim.lowest(tree, up) for tree in range(len(problem.trees))]
    thetas: list[Thetas] = [{} for _ in lowest]
    changes: dict[int, list[int]] = {}  # by axis: of the sum of all θ, from cell to cell
    paid: Counter[int] = Counter()  # by axis: how many θ are the price

    def priced(costs: Cells) -> Callable[[int], int]:
        return lambda mask: price * costs[mask] // capacity

    def stepwise(steps: Pairs) -> Callable[[int], int]:
        return lambda mask: min([theta for cells, theta in steps if cells & mask]) << finer

    for tree, a, pairs in multipliers or (single_tree_axes(row, case, lowest) if price else ()):
        axis = problem.axes.get(a) or not_proved(f"there is no axis {a}")
        if tree >= len(lowest) or a in thetas[tree]:
            not_proved(f"multipliers of tree {tree}, axis {a}: no such tree, or given twice")
        if not pairs:
            paid[a] += 1
            thetas[tree][a] = priced(row.cells[a])
            continue
        if a not in changes:
            changes[a] = [0] * axis.n_cells
        change, last, steps = changes[a], 0, []
        for (start, theta), (end, _) in pairwise([*axis.steps(pairs), (axis.n_cells, 0)]):
            if not start < end <= axis.n_cells:
                not_proved(f"the multipliers of axis {a} do not rise from cell to cell")
            steps.append(((1 << end) - (1 << start), theta))
            change[start] += theta - last
            last = theta
        thetas[tree][a] = stepwise(steps)
    total = (claim.constant << up) - (given_price << finer)
    for tree, values in enumerate(lowest):
        if values or thetas[tree]:
            values = values or [0] * len(problem.trees[tree])
            leaves = list(alive(row, case, tree, values, thetas[tree], False))
            if not leaves:
                return
            total += min(leaf for leaf, _ in leaves)
    for a in {*problem.used, *changes, *paid} if price else changes:
        costs = row.cells[a].costs
        sums, own = list(accumulate(changes.get(a) or [0] * len(costs))), 1 - paid[a]
        open_cells = members(case[0][a])
        total += min(own * (price * costs[c] // capacity) - (sums[c] << finer) for c in open_cells)
    if total < 0 or (total == 0 and claim.zero_wins):
        number = float(max(Fraction(total, 1 << unit), Fraction(-(10**300))))
        not_proved(f"the bound is {number:.6g}, so an attack may win")


def check_parts(row: Row, more: Iterator[int]) -> None:
    """Check a robust or vulnerable row: every part is there, and all of its cases are closed."""
    rivals = []
    for part in range(next(more)):
        rivals.append(read_pairs(more))
        pending, place = [(row.full, Claim(row, rivals[-1]))], 0
        while pending:
            try:
                pending += check_case(row, *pending.pop(), more)
                need(len(pending) <= LARGEST_DEPTH, "cuts are nested too deeply")
            except NotProvedError as error:
                not_proved(f"part {part}, case {place}: {error}")
            place += 1
    if next(more, None) is not None:
        refuse("has a record with bytes after its end")
    if row.problem.model.task == "binary" or not row.is_right:
        need(len(rivals) == 1, f"there are {len(rivals)} parts, not one")
    elif sorted(rivals) != [[(r, 1)] for r in range(len(row.problem.base)) if r != row.label]:
        not_proved("the parts are not one for every rival, with weight 1")


def check_case(row: Row, masks: Masks, claim: Claim, more: Iterator[int]) -> list[Case]:
    """Read and check one case; return the cases that must be closed for it, the last one first."""
    kind = next(more)
    if kind == 0:
        close(row, masks, read_bound(more), claim)
        return []
    if kind == 3:  # a label that wins against all rivals wins against any mean of them
        need(not row.is_right, "a correct row has one rival in a part, the same in all its cases")
        return [(masks, Claim(row, read_pairs(more)))]
    if kind > 3:
        refuse(f"has a case of the unknown kind {kind}")
    a = next(more)  # rule 2
    axis = row.problem.axes.get(a) or not_proved(f"there is no axis {a}")
    named = [next(more) for _ in range(next(more) if kind == 2 else 1)]
    need(isinstance(axis, Line) == (kind == 1), f"the cut of {axis.name} is of the other kind")
    some = axis.some(named)
    return [({**masks, a: part}, claim) for part in (masks[a] & ~some, masks[a] & some)]


def check_witness(row: Row, changes: list[tuple[int, float]]) -> None:
    """Check a fragile or broken row: z is in reach, and one of x and z is decided correctly."""
    problem, z, cost = row.problem, list(row.x), Fraction(0)
    need(len(dict(changes)) == len(changes), "the witness changes a feature twice")
    for feature, value in changes:
        z[feature] = value
    for a in {problem.axis_of[f] for f, _ in changes if z[f] != row.x[f]}:
        axis = problem.axes[a]
        distance = axis.distance(axis.of(row.x), axis.of(z), row.bounds[a])
        up, distance = distance > 0, abs(distance)
        if distance == 0 or distance > axis.limit[up]:
            not_proved(f"the witness moves {axis.name} where the attacker cannot")
        cost += axis.weight[up] * distance**axis.power
    need(cost <= problem.capacity, "the witness costs more than the budget")
    is_right = problem.decide(problem.places(z)) == row.label
    need(is_right != row.is_right, "the witness does not change whether the answer is correct")


# ── the file ─────────────────────────────────────────────────────────────────────────────────

HEAD = {"model": str, "data": str, "attacker": dict, "labels": str, "rows": int, "written_by": str}
VARINT = re.compile(rb"[\x80-\xff]*[\x00-\x7f]")


class Reader:
    """Numbers one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        """A number, or some bytes, as struct has them."""
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def varint(self) -> int:
        found = VARINT.match(self.data, self.at) or refuse("is short")
        self.at = found.end()
        return number(found[0])

    def rest(self) -> Iterator[int]:
        """The varints that follow."""
        if self.data[-1] > 127:
            refuse("has a record that ends early")
        return map(number, VARINT.findall(self.data, self.at))

    def several(self, doubles: int) -> list[Any]:
        """A count, and as many tuples of a varint and some doubles."""
        return [(self.varint(), *map(self.take, ["<d"] * doubles)) for _ in range(self.varint())]


@lru_cache(1 << 16)
def number(data: bytes) -> int:
    """A varint."""
    if len(data) * 7 > LARGEST_VARINT + 7:
        refuse("holds a number that is too long")
    return sum((byte & 127) << 7 * place for place, byte in enumerate(data))


def signed(n: int) -> int:
    return -(n + 1 >> 1) if n & 1 else n >> 1


def read_pairs(more: Iterator[int]) -> Pairs:
    """A count, and as many pairs."""
    return [(next(more), next(more)) for _ in range(next(more))]


def read_bound(more: Iterator[int]) -> Bound:
    shift, price, theta, axis, held = signed(next(more)), next(more), [], 0, 0
    for _ in range(next(more)):
        axis, tree = axis + next(more), 0
        for _ in range(next(more)):
            tree += next(more)
            pairs = [(next(more), signed(next(more))) for _ in range(next(more))]
            theta.append((tree, axis, pairs))
            held += 1 + len(pairs)
            if held > LARGEST_COUNT:
                refuse("holds too many multipliers")
    return (shift, price, theta) if abs(shift) <= LARGEST_VARINT else refuse("holds a shift")


def read_frame(data: bytes) -> tuple[dict[str, Any], list[bytes], int]:
    """The header, the blocks, still packed, and the number of records, of a file that is whole."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        refuse("is no proof of a known version; give the file that verify --proof wrote")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        refuse("is cut off or damaged; write it again")
    reader, blocks = Reader(data[len(MAGIC) : -32]), []
    header = json.loads(reader.take(f"{reader.take('<I')}s"), object_pairs_hook=without_doubles)
    if type(header) is not dict or {k: type(v) for k, v in header.items()} != HEAD:
        refuse(f"has a header with other fields than {', '.join(HEAD)}, or of other types")
    while n := reader.take("<I"):
        checksum = reader.take("<I")
        blocks.append(reader.take(f"{n}s"))
        if zlib.crc32(blocks[-1]) != checksum:
            refuse("has a block with another checksum; it is damaged")
    records = reader.take("<Q")
    if reader.at != len(reader.data):
        refuse("goes on after its end")
    return header, blocks, records


def records_of(blocks: Iterable[bytes]) -> Iterator[Reader]:
    """Records; each is what its length says."""
    for block in blocks:
        unpacker = zlib.decompressobj()
        largest = min(LARGEST_BLOCK, LARGEST_PACKING * len(block))
        reader = Reader(unpacker.decompress(block, largest))
        if not unpacker.eof or unpacker.unused_data:
            refuse(f"has a block that is damaged, or unpacks to more than {largest} bytes")
        while reader.at < len(reader.data):
            yield Reader(reader.take(f"{reader.varint()}s"))


# ── the report ───────────────────────────────────────────────────────────────────────────────

PROVED, NOT_COVERED, BAD_INPUT, UNDECIDED, WRONG = range(5)  # exit codes
LISTED = 20  # names and lines that the text lists of one kind; the JSON document has all
ITERATIONS = "{} of {} iterations (the best are the first {}); choose with --trees all|best|N"
MEANING = {  # of a budget k; other norms are as 2
    None: "every feature may move by up to k times its scale",
    0: "at most k features may change",
    1: "the moves, each divided by the feature's scale, add up to at most k",
    2: "the norm of the moves, each divided by the feature's scale, is at most k",
}


@dataclass
class Report:
    """The result of a check.

    It has the proved, undecided and wrong rows, the attacker, and the parts of the claim that are
    not covered.
    """

    header: dict[str, Any]
    attacker: Attacker
    n_rows: int  # of the data
    label_column: str
    checked: dict[int, str] = field(default_factory=dict)
    undecided: dict[int, str] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)
    expected: dict[str, Any] | None = None
    expected_from: str = ""  # a file
    unsettled: str = ""  # why the expectation may be covered or not
    not_covered: list[str] = field(default_factory=list)
    by_label: list[int] = field(default_factory=list)  # features whose cells were read as labels
    missing: int = 0  # values
    unmovable: int = 0  # rows in which the attacker can change no feature that the model tests
    slack: dict[int, list[Interval]] = field(default_factory=dict)
    """By feature, for each row with bounds of its own: how far they let it move down and up."""

    @property
    def is_proved(self) -> bool:
        """Whether every row has a status with a proof, and the expectation is covered."""
        return self.exit_code == PROVED

    @property
    def exit_code(self) -> int:
        """0 proved, 1 expectation not covered, 3 undecided rows, 4 a wrong proof."""
        codes = {WRONG: self.wrong, NOT_COVERED: self.not_covered, UNDECIDED: self.undecided}
        return next((code for code, found in codes.items() if found), PROVED)

    @property
    def outcome(self) -> str | None:
        """Whether the expectation is "covered", "not covered" or "undecided"; None without one."""
        if self.expected is None:
            return None
        return "not covered" if self.not_covered else "undecided" if self.unsettled else "covered"

    def claim(self) -> Iterator[str]:
        """The expectation in one line, the file that it comes from, and what became of it."""
        if self.expected is None:
            return
        whole = {"norm": 0, "budget": 0, "features": "all"} | self.expected
        texts = [(key, v if type(v) is str else json.dumps(v)) for key, v in whole.items()]
        yield ", ".join(f"{k}={v if len(v) <= 300 else v[:300] + ' …'}" for k, v in texts)
        if self.expected_from:
            yield f"read from the file {self.expected_from}"
        no_share = (
            "" if self.expected["robustness"] > 0 else "; no share of robust rows is expected"
        )
        reasons = self.not_covered or [self.unsettled]
        if self.outcome == "covered":
            yield f"covered{no_share}"
        else:
            yield from (f"{self.outcome}: {reason}" for reason in reasons)

    def counts(self) -> dict[str, int]:
        """The number of rows with each proved status."""
        count = Counter(self.checked.values())
        return {status: count[status] for status in STATUSES[:4]}

    def summary(self) -> str:
        """The findings in one line, without the attacker's restrictions."""
        counts = [f"{n} {status}" for status, n in self.counts().items() if n]
        rows, robust = self.header["rows"], self.counts()["robust"]
        counts += [f"{len(self.undecided)} undecided"] * bool(self.undecided)
        counts += [f"{len(self.wrong)} wrong"] * bool(self.wrong)
        percent = f"{10000 * robust // rows / 100:.2f} %"  # never rounded up
        return f"{', '.join(counts)}; robustness {robust} / {rows} = {percent}"

    def document(self) -> dict[str, Any]:
        """Everything the checker found, as plain values for JSON."""
        model, used = self.attacker.model, self.attacker.model.iterations
        return {
            "format": "carvegbm check 1",
            "written_by": self.header["written_by"],
            "model": {
                "sha256": self.header["model"],
                "trees": len(model.trees),
                "iterations": used and dict(zip(("used", "total", "best"), used, strict=True)),
                "features": model.n_features,
                "feature_names": model.names,
                "classes": model.classes,
                "classes_from": model.classes_from,
            },
            "data": {
                "sha256": self.header["data"],
                "rows": self.n_rows,
                "rows_covered": self.header["rows"],
                "labels": self.header["labels"],
                "label_column": self.label_column,
            },
            "attacker": self.attacker.document(self.header["rows"]),
            "features": {
                reason or "can be changed": [*map(model.name, those)]
                for reason, those in self.by_obstacle().items()
            },
            "missing_values": self.missing,
            "rows_without_attack": self.unmovable,
            "counts": self.counts(),
            "checked": self.checked,
            "undecided": self.undecided,
            "wrong": self.wrong,
            "read_as_labels": [model.name(f) for f in self.by_label],
            "expected": self.expected,
            "expected_from": self.expected_from or None,
            "outcome": self.outcome,
            "not_covered": self.not_covered,
            "exit_code": self.exit_code,
        }

    def __str__(self) -> str:
        head, model, used = self.header, self.attacker.model, self.attacker.model.iterations
        labels = "the model's own decisions count as correct"
        if head["labels"] == "given":
            labels = f"from {self.label_column}"
        first, total = head["rows"], self.n_rows
        sections = {
            "proof": [f"written by {head['written_by'][:80]}"],
            "model": [
                f"{len(model.trees)} trees, {model.n_features} features",
                *([ITERATIONS.format(*used)] if used else []),
                f"classes in the order of the outputs, {model.classes_from}: "
                + ", ".join(map(str, model.classes)),
            ],
            "rows": [(f"all {total}" if first == total else f"the first {first} of {total}")],
            "labels": [labels],
            "attacker": [*self.restrictions()],
            "expected": [*self.claim()],
            "checked": [self.summary()],
        }
        if self.by_label:
            text = "cells are read as labels of categories, not as their codes"
            sections["rows"].append(f"{text}: {self._listed(self.by_label)}")
        lines = []
        for name, texts in sections.items():
            for place, text in enumerate(texts):
                lines.append(printable(f"{'' if place else name + ':':<11}{text}"))
        return "\n".join(lines)

    def restrictions(self) -> Iterator[str]:
        """Every restriction of the attacker, in words; features that share one are in one line."""
        attacker, model = self.attacker, self.attacker.model
        scale, codes, n = attacker.scale, attacker.codes, model.n_features
        by_obstacle = self.by_obstacle()
        free = by_obstacle.pop("", [])
        meaning = MEANING[attacker.norm if attacker.norm in MEANING else 2]
        yield f"norm {attacker.norm_name}, budget {plain(attacker.budget)} (k): {meaning}"
        some = f"all {n} features" if len(free) == n else f"{len(free)} of {self._listed(free, n)}"
        yield f"can change {some}; the model tests {len(model.tested & {*free})} of them"
        lists = by_obstacle | {
            "can only increase": [f for f in free if not scale[f][0]],
            "can only decrease": [f for f in free if not scale[f][1]],
        }
        yield from (f"{words}: {self._listed(those)}" for words, those in lists.items() if those)
        steps = [f for f in free if f in attacker.step]
        bounded = [f for f in free if attacker.bounds[f] != NONE]
        steps.sort(key=lambda f: -attacker.step[f])
        bounded.sort(key=lambda f: attacker.bounds[f][1] - attacker.bounds[f][0])
        yield from self._grouped(
            sorted(free, key=lambda f: max(scale[f])), lambda f: costs(scale[f])
        )
        yield from self._grouped(steps, lambda f: f"only multiples of {attacker.step[f]}")
        yield from self._grouped(bounded, lambda f: between(attacker.bounds[f]))
        narrowed = [f for f in free if f in codes and model.categories[f].keys() - codes[f]]
        yield from shortened(
            f"{model.name(f)}: only to {len(codes[f])} of {len(model.categories[f])} categories: "
            + ", ".join(shortened(str(model.categories[f][code]) for code in sorted(codes[f])))
            for f in narrowed
        )
        yield from shortened(
            f"one-hot group, of which one is 1 and the others are 0: {self._listed(group)}"
            for group in attacker.groups.values()
        )
        if attacker.row_bounds:
            of = self.header["rows"]
            yield f"bounds that differ by row: {self.n_bounded} of {of} rows have some"
            tightest = [
                (min(map(min, pairs)), f, [min(side) for side in zip(*pairs, strict=True)])
                for f, pairs in self.slack.items()
            ]
            yield from shortened(
                f"{model.name(f)}: bounds in {len(self.slack[f])} rows; the tightest leave "
                f"{plain(down)} down, {plain(up)} up"
                for _, f, (down, up) in sorted(tightest)
            )
        if self.missing:
            yield f"cannot change values that are missing: {self.missing} in the rows"
        if self.unmovable:
            yield f"can change nothing that the model tests in {self.unmovable} rows"

    def obstacles(self) -> Iterator[str]:
        """Yield the reasons why values cannot change, with the number of features or rows."""
        for reason, those in self.by_obstacle().items():
            if reason:
                yield f"{reason}: {len(those)} feature{'s' * (len(those) != 1)}"
        if self.attacker.row_bounds:
            yield f"bounds that differ by row: {self.n_bounded} rows"
        if self.missing:
            yield f"cannot change values that are missing: {self.missing} in the rows"

    @property
    def n_bounded(self) -> int:
        """The number of rows with bounds of their own."""
        by_row = self.attacker.by_row.values()
        return sum(any(pair != NONE for pair in bounds.values()) for bounds in by_row)

    def by_obstacle(self) -> dict[str, list[int]]:
        """The features that the attacker can change, under "", and the others by reason."""
        found: dict[str, list[int]] = {}
        for feature in range(self.attacker.model.n_features):
            found.setdefault(self.attacker.obstacle(feature), []).append(feature)
        return found

    def _grouped(self, features: list[int], text: Callable[[int], str]) -> Iterator[str]:
        """A line for every different text, with the features that have it."""
        found: dict[str, list[int]] = {}
        for feature in features:
            found.setdefault(text(feature), []).append(feature)
        return shortened(f"{words}: {self._listed(those)}" for words, those in found.items())

    def _listed(self, features: Sequence[int], of: int = 0) -> str:
        """The number of features, or the number `of` which they are, and their names."""
        count = of or len(features)
        if count == len(features) == self.attacker.model.n_features > LISTED:
            return f"all {count} features"
        names = ", ".join(shortened(map(self.attacker.model.name, features)))
        return f"{count} feature{'s' * (count != 1)}" + (f": {names}" if names else "")

    def judge(self, reader: Reader, problem: Problem, rows: Rows, labels: list[int]) -> str:
        """Check a record, and return a line about its row."""
        number, kind = reader.varint(), reader.take("B")
        if number >= len(rows) or number in (self.checked | self.wrong | self.undecided):
            refuse(f"has a record of row {number}, which does not exist or has another record")
        status = STATUSES[kind & 15]
        if kind > 31 or kind == STATUSES.index("unknown"):
            refuse(f"has a record of row {number} of the unknown kind {kind}")
        bounds, own = problem.bounds, {}
        if problem.attacker.row_bounds:
            own = self.read_bounds(reader, number, rows[number])
            bounds = problem.bounded(own)
        if kind >= 16:
            self.undecided[number] = f"{status}: without a proof"
            return f"row {number}: {self.undecided[number]}"
        try:
            row = Row(problem, rows[number], labels[number], bounds)
            classes = problem.model.classes
            decided = (
                f"the model answers {classes[row.decision]}, the label is {classes[row.label]}"
            )
            need(row.is_right == (status in ("robust", "fragile")), decided)
            if status in ("robust", "vulnerable"):
                check_parts(row, reader.rest())
            else:
                check_witness(row, reader.several(doubles=1))
                need(reader.at == len(reader.data), "the record has bytes after its end")
            self.checked[number] = status
            self.unmovable += not problem.can_move(row)
        except NotProvedError as error:
            self.wrong[number] = f"{status}: {error}"
        named = [f"{problem.model.name(f)} {between(pair)}" for f, pair in own.items()]
        proved = f"{status}: checked" + (f", with {', '.join(named)}" if named else "")
        return f"row {number}: " + self.wrong.get(number, proved)

    def read_bounds(self, reader: Reader, number: int, row: list[float]) -> dict[int, Interval]:
        """Read the bounds of a row; those of categories do not count."""
        model, given = self.attacker.model, reader.several(doubles=2)
        own = {f: interval(low, high) for f, low, high in given if f not in model.categories}
        if len({f for f, *_ in given}) < len(given) or max(own, default=0) >= len(row):
            refuse(f"has a record of row {number} that bounds a feature twice, or one too many")
        self.attacker.by_row[number] = own
        for f, (low, high) in own.items():
            if row[f] == row[f] and self.attacker.can_change(f):
                self.slack.setdefault(f, []).append((gap(low, row[f]), gap(row[f], high)))
        return own


def shortened(texts: Iterable[str]) -> Iterator[str]:
    """The first texts, and how many more there are."""
    found = [*texts]
    yield from found[:LISTED]
    if len(found) > LISTED:
        yield f"and {len(found) - LISTED} more (--json has all)"


def plain(value: float | Fraction) -> str:
    """A double in its shortest form; whole numbers without a point."""
    text = repr(float(value))
    return text[:-2] if text.endswith(".0") else text


def gap(low: float, high: float) -> float:
    """high - low, rounded up."""
    found = high - low
    if math.isinf(found) or Fraction(found) >= Fraction(high) - Fraction(low):
        return found
    return math.nextafter(found, math.inf)


def between(pair: Interval) -> str:
    return f"between {plain(pair[0])} and {plain(pair[1])}"


def costs(scale: tuple[Fraction, Fraction]) -> str:
    """The scale, in a direction that is open, or in both."""
    down, up = scale
    if down == up or not all(scale):
        return f"scale {plain(max(scale))}"
    return f"scale {plain(down)} down and {plain(up)} up"


# ── the expectation ──────────────────────────────────────────────────────────────────────────

KEYS = ("norm", "budget", "scale", "features", "bounds", "step", "categories", "one_hot")
CLAIMS = ("rows", "labels", "robustness")
INLINE = ("norm", "budget", "features", *CLAIMS)


def read_json(path: str) -> Any:
    content = content_of(path)
    try:
        return json.loads(content, object_pairs_hook=without_doubles)
    except (ValueError, RecursionError) as error:
        refuse(f"{path}: is not JSON: {error}; carvegbm check reads TOML, too")


def claim_file(text: str) -> str:
    """The file that --expect names, or ""; a text that begins with a known `key=` names none."""
    if re.match(rf"\s*({'|'.join((*KEYS, *CLAIMS))})\s*=", text):
        return ""
    first = text if os.path.isfile(text) else text.split(",")[0]
    return first if first == text or "=" not in first else ""


def read_expectation(text: str, read_file: Callable[[str], Any] = read_json) -> dict[str, Any]:
    """What --expect names: `norm=inf,budget=0.01,rows=all,features=a+b`, or a file, or both.

    The file holds an attacker, as `carvegbm.Attacker.to_dict` returns it, and claims. It comes
    first; the pairs that follow replace what it says.
    """
    found: dict[str, Any] = {}
    file = claim_file(text)
    parts = [file, *text[len(file) + 1 :].split(",")] if file else text.split(",")
    parts = [text] if file == text else parts
    if not all(part.strip() for part in parts):
        refuse(f"expectation {text!r}: give norm=...,budget=... or the name of a file")
    if file:
        found = read_file(parts.pop(0))
        if type(found) is not dict:
            refuse(f"{text}: must hold an attacker with its norm and budget, got {found!r:.80}")
    pairs = [part.partition("=")[::2] for part in parts]
    given: dict[str, Any] = {key.strip(): value_of(value.strip()) for key, value in pairs}
    for key in given:
        if key not in INLINE or [k.strip() for k, _ in pairs].count(key) > 1:
            fault = "is given twice" if key in INLINE else f"is none of {', '.join(INLINE)}"
            refuse(f"expectation {text!r}: {key!r} {fault}")
    if given.get("features", "all") != "all":
        given["features"] = [value_of(name) for name in str(given["features"]).split("+")]
    return found | given


def value_of(text: str) -> Any:
    """A position or whole number, another number, or the text itself."""
    if POSITION.fullmatch(text):
        return int(text)
    return float(text) if is_number(text) else text


def amount_of(value: Any) -> float:
    """A number of an expectation, which must be a double."""
    is_one = type(value) is float or (type(value) is int and float(value) == value)
    return float(value) if is_one else refuse(f"{value!r} is not a number, or no double")


def ratio_of(value: Any) -> Fraction:
    """A step of an expectation; a float stands for its shortest decimal, text may be "1/255"."""
    is_text = type(value) is str and re.fullmatch("[0-9./]{1,40}", value)
    return Fraction(value if is_text else repr(amount_of(value)))


def list_of(value: Any) -> list[Any]:
    return list(value) if type(value) is list else refuse(f"{value!r:.80} is not a list")


class Expectation:
    """An attacker, and what must be proved against it or against a stronger one."""

    def __init__(self, given: dict[str, Any], model: Model) -> None:
        self.model = model
        given = {key: value for key, value in given.items() if value is not None}
        for key in given.keys() - {*KEYS, *CLAIMS}:
            refuse(f"expectation: {key!r} is none of {', '.join((*KEYS, *CLAIMS))}")
        for key in ("norm", "budget"):
            if key not in given:
                refuse(f"expectation: {key} is missing")
        self.named: dict[str, list[int]] = {}  # positions by name
        for position, name in enumerate(model.names or ()):
            self.named.setdefault(name, []).append(position)
        self.key = "norm"  # that is being read
        try:
            fields, by_row = self.header_form(given)
            self.attacker = Attacker(fields, model)
            self.attacker.by_row = by_row
            self.key, rows = "rows", given.get("rows", "all")
            self.rows: int | None = None if rows == "all" else rows
            if self.rows is not None and (type(self.rows) is not int or self.rows < 1):
                refuse("must be all or a whole number >= 1")
            self.key, self.labels = "labels", given.get("labels", "given")
            if self.labels not in ("given", "own"):
                refuse("must be given or own")
            self.key = "robustness"
            self.robustness = Fraction(str(amount_of(given.get("robustness", 0))))
            if not 0 <= self.robustness <= 1:
                refuse("must be from 0 to 1")
        except RefusedError as error:
            value = given.get(self.key)
            refuse(f"expectation: {self.key} {value!r:.60}: {error}")
        except DAMAGE as error:
            refuse(f"expectation: {self.key}: {type(error).__name__}: {str(error)[:100]}")

    @property
    def is_trivial(self) -> bool:
        """Whether its attacker can change no feature that the model tests."""
        attacker, rows = self.attacker, [*(self.attacker.by_row or [0])]
        free = filter(attacker.can_change, self.model.tested)
        return not any(len({*attacker.limits(f, row)}) == 2 for f in free for row in rows)

    def document(self) -> dict[str, Any]:
        """The claim as plain values for JSON."""
        claims = {
            "rows": self.rows or "all",
            "labels": self.labels,
            "robustness": float(self.robustness),
        }
        return self.attacker.document(len(self.attacker.by_row)) | claims

    def header_form(self, given: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        """The attacker of `Attacker.to_dict` as the header of a proof has it, and bounds by row."""
        model, n = self.model, self.model.n_features
        norm = "inf" if given["norm"] in ("inf", math.inf) else given["norm"]
        if norm != "inf":
            power = amount_of(norm)
            is_whole = power == int(power) and 0 <= power <= 100
            norm = int(power) if is_whole else refuse("must be inf or a whole number from 0 to 100")
        self.key = "budget"
        budget = amount_of(given["budget"])
        if not 0 <= budget < math.inf or (norm == 0 and budget != int(budget)):
            refuse("must be >= 0 and finite, and whole for norm 0")
        fields: dict[str, Any] = {"norm": norm, "budget": budget.hex()}
        self.key, features = "features", given.get("features", "all")
        if features != "all" and {*map(type, list_of(features))} == {bool}:
            mask = features if len(features) == n else refuse(f"a mask needs {n} values")
            fields["features"] = [f for f, is_free in enumerate(mask) if is_free]
        elif features != "all":
            fields["features"] = self.places(features)
        self.key = "scale"
        scale = self.by_feature(given.get("scale", {}))
        pairs = {f: s if type(s) is list else [s, s] for f, s in scale.items()}
        if any(len(p) != 2 or (0 in p and type(scale[f]) is not list) for f, p in pairs.items()):
            refuse("a scale must be > 0, or a pair (down, up)")
        for end, side in enumerate(("down", "up")):
            fields[side] = {str(f): amount_of(p[end]).hex() for f, p in pairs.items()}
        self.key = "one_hot"
        groups = [self.places(group) for group in list_of(given.get("one_hot", []))]
        fields["one_hot"] = groups
        self.key = "step"
        steps = self.by_feature(given.get("step", {}))
        ratios = {
            f: ratio_of(step)
            for f, step in steps.items()
            if f not in model.categories and f not in chain(*groups)
        }
        fields["step"] = {str(f): f"{s.numerator}/{s.denominator}" for f, s in ratios.items()}
        self.key = "categories"
        named = self.by_feature(given.get("categories", {}))
        if named.keys() - model.categories.keys():
            refuse("categories are given for a feature that has none in the model")
        codes: dict[int, Any] = {f: list(known) for f, known in model.categories.items()}
        codes |= {f: [self.code(f, label) for label in list_of(named[f])] for f in named}
        fields["categories"] = {str(f): those for f, those in codes.items()}
        self.key = "bounds"
        bounds, by_row = self.bounds(given.get("bounds", {}))
        for end, side in enumerate(("lower", "upper")):
            fields[side] = {str(f): pair[end].hex() for f, pair in bounds.items()}
        return fields | {"row_bounds": bool(by_row)}, by_row

    def place(self, given: Any, is_key: bool = False) -> int:
        """The position of a feature, given by position or by name; keys are texts.

        A feature of a model without names of its own may be given as the report names it, such as
        "feature 3", or by its number as a text.
        """
        n = self.model.n_features
        if type(given) is int or (is_key and POSITION.fullmatch(given)):
            return int(given) if 0 <= int(given) < n else refuse(f"there is no feature {given}")
        name = given[1:-1] if is_key and quoted(given) else given
        if type(name) is not str:
            refuse(f"{name!r:.80} is neither a name nor a position")
        found = set(self.named.get(name, ()))
        if not self.model.own_names:
            number = name.removeprefix("feature ")
            if POSITION.fullmatch(number) and int(number) < n:
                found.add(int(number))
        if len(found) != 1:
            refuse(f"there {'are several features' if found else 'is no feature'} {name!r}")
        return found.pop()

    def places(self, given: Any) -> list[int]:
        return [self.place(feature) for feature in list_of(given)]

    def by_feature(self, given: Any) -> dict[int, Any]:
        """A value per feature: from a mapping, from a list of all, or one for all."""
        n = self.model.n_features
        if type(given) is list:
            return dict(enumerate(given)) if len(given) == n else refuse(f"{n} values are needed")
        if type(given) is not dict:
            return dict.fromkeys(range(n), given)
        found = {self.place(key, is_key=True): value for key, value in given.items()}
        return found if len(found) == len(given) else refuse("a feature is named twice")

    def bounds(self, given: Any) -> tuple[dict[int, Interval], dict[int, dict[int, Interval]]]:
        """Bounds by feature, and those that differ between rows, by row and feature."""
        if type(given) is dict:
            ends = {f: list_of(pair) for f, pair in self.by_feature(given).items()}
        else:
            columns = [
                self.by_feature([*map(list, zip(*end, strict=True))])
                if type(end) is list and type(end[0]) is list
                else self.by_feature(end)
                for end in list_of(given)
            ]
            ends = {f: [column[f] for column in columns] for f in columns[0]}
        ends = {f: pair for f, pair in ends.items() if f not in self.model.categories}
        lengths = {len(end) for pair in ends.values() for end in pair if type(end) is list}
        if len(lengths) > 1 or any(len(pair) != 2 for pair in ends.values()):
            refuse("bounds must be pairs, and those by row of one length")
        fixed: dict[int, Interval] = {}
        by_row: dict[int, dict[int, Interval]] = {row: {} for row in range(max(lengths, default=0))}
        for f, pair in ends.items():
            if list not in map(type, pair):
                fixed[f] = self.pair(*pair)
                continue
            for row, own in by_row.items():
                own[f] = self.pair(*(end[row] if type(end) is list else end for end in pair))
        return fixed, by_row

    def pair(self, low: Any, high: Any) -> Interval:
        """Bounds, with None for infinite ones."""
        return interval(
            -math.inf if low is None else amount_of(low),
            math.inf if high is None else amount_of(high),
        )

    def code(self, feature: int, label: Any) -> int:
        """The code of a category, given by its label or as a code."""
        labels = self.model.categories[feature]
        code = self.model.codes[feature].of(str(label))
        code = label if code < 0 and type(label) is int else code
        name = self.model.name(feature)
        return code if code in labels else refuse(f"{name} has no category {label!r}")

    def judge(self, report: Report, rows: Rows) -> None:
        """Add to a report what the proof of these rows does not cover."""
        head, proved, expected = report.header, report.attacker, self.attacker
        missing: list[str] = []
        count = report.n_rows if self.rows is None else self.rows
        rows = rows[:count]
        if head["rows"] < count:
            missing.append(f"{count} rows are expected, the proof covers {head['rows']}")
        if expected.row_bounds and len(expected.by_row) not in (count, report.n_rows):
            refuse(f"expectation: has bounds of {len(expected.by_row)} rows, not of {count}")
        if self.labels != head["labels"]:
            missing.append(f"labels are {head['labels']!r}, expected {self.labels!r}")
        if proved.norm != expected.norm:
            missing.append(f"the norm is {proved.norm_name}, expected {expected.norm_name}")
        if proved.budget < expected.budget:
            budgets = plain(proved.budget), plain(expected.budget)
            missing.append("the budget is {}, expected {}".format(*budgets))
        short: dict[str, list[int]] = {}
        for f in filter(expected.can_change, range(self.model.n_features)):
            for reason in self.shortfalls(f, proved, rows):
                short.setdefault(reason, []).append(f)
        missing += [f"{reason}: {report._listed(those)}" for reason, those in short.items()]
        robust = sum(report.checked.get(row) == "robust" for row in range(len(rows)))
        undecided = sum(row in report.undecided for row in range(len(rows)))
        if robust + undecided < self.robustness * len(rows):
            share = plain(self.robustness)
            missing.append(f"{robust} of {len(rows)} rows are robust, expected a share of {share}")
        elif robust < self.robustness * len(rows):
            report.unsettled = f"{robust} of {len(rows)} rows are robust and {undecided} undecided"
        report.expected, report.not_covered = self.document(), missing

    def shortfalls(self, feature: int, proved: Attacker, rows: Rows) -> Iterator[str]:
        """Yield the restrictions by which the proof's attacker is weaker than the expected one."""
        f, expected = feature, self.attacker
        if not proved.can_change(f):
            yield "cannot be changed"
            return
        if any(p < e for p, e in zip(proved.scale[f], expected.scale[f], strict=True)):
            yield "have a smaller scale"
        if not self.has_steps(f, proved, rows):
            yield "have other steps"
        if expected.codes.get(f, set()) - proved.codes.get(f, set()):
            yield "have fewer categories to change to"
        if proved.group_of.get(f) != expected.group_of.get(f):
            yield "are in other one-hot groups"
        by_row = proved.row_bounds or expected.row_bounds
        for row in range(len(rows) if by_row else 1):
            (a, b), (low, high) = proved.limits(f, row), expected.limits(f, row)
            if low < a or b < high:
                yield "have tighter bounds"
                return

    def has_steps(self, feature: int, proved: Attacker, rows: Rows) -> bool:
        """Whether the proof's attacker can choose every value that the expected steps allow."""
        own, wanted = (a.step.get(feature) for a in (proved, self.attacker))
        if own == wanted or wanted is None:
            return own == wanted
        if self.model.narrow:  # one float32 may stand for different multiples of two steps
            return False
        if own is None:  # all doubles: multiples of 1 / 2^n are, in the range of steps
            return bool(wanted.denominator & (wanted.denominator - 1) == 0)
        if (wanted / own).denominator > 1 or self.attacker.norm == 0:
            return False  # for norm 0, finer steps have a shorter range
        reach: Fraction = self.attacker.budget * max(self.attacker.scale[feature])
        values = [abs(Fraction(row[feature])) for row in rows if row[feature] == row[feature]]
        return bool((max(values, default=0) + reach) / own <= LARGEST_STEPS // own.numerator)


def check(
    proof: str | os.PathLike[str],
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | tuple[Any, ...],
    *,
    label: str | None = None,
    classes: list[Any] | None = None,
    trees: str | int = "best",
    expect: Any = None,
    read_file: Callable[[str], Any] = read_json,
    allow_trivial: bool = False,
    on_row: Callable[[str], object] = lambda _: None,
) -> Report:
    """Check a file of proofs; `Report.exit_code` is 0 if every status is proved.

    `data` is a CSV file as `carvegbm verify` takes it, or rows of numbers (categories as codes, NaN
    where missing) and their labels, which are None for the model's own decisions; an optional third
    item names the source of the labels in the report. `label` is the label column; `classes` are
    the class labels in the order of the model's outputs; `trees` says how many iterations of the
    model are used: "best", "all" or a number. `expect` is what should be proved: an attacker as
    `carvegbm.Attacker.to_dict` returns it, and "rows", "labels" or "robustness"; or an Attacker; or
    a text as --expect takes it, whose file `read_file` reads. `on_row` is called with a line for
    every row. Raises RefusedError if a file is damaged, if the files do not belong together, or if
    the attacker can change nothing.
    """
    name = os.fspath(proof)
    packed = content_of(name, is_packed=False)
    if not packed.startswith(MAGIC):
        refuse(f"{name}: is no proof of a known version; give the file that verify --proof wrote")
    ensemble, collects = read_model(os.fspath(model), classes, str(trees)), gc.isenabled()
    by_label: list[int] = []
    if isinstance(data, (str, os.PathLike)):
        rows, names, column = read_csv(os.fspath(data), ensemble, label)
        by_label = sorted(ensemble.by_label)
    elif isinstance(data, tuple) and len(data) in (2, 3):
        rows, names, column = (*data, "the second array of data")[:3]
    else:
        refuse(
            "data must be the path of a CSV file, or a pair: rows of numbers, and labels or None"
        )
    if names is not None and len(names) != len(rows):
        refuse(f"data have {len(rows)} rows and {len(names)} labels")
    if len(rows) == 0 or any(len(row) != ensemble.n_features for row in rows):
        refuse(f"{name}: needs rows of {ensemble.n_features} features, and the data have others")
    source = claim_file(expect) if isinstance(expect, str) else ""
    if isinstance(expect, str):
        expect = read_expectation(expect, read_file)
    expect = expect.to_dict() if hasattr(expect, "to_dict") else expect
    if not (expect is None or isinstance(expect, dict)):
        refuse(f"expectation: must be a dict, a text or an Attacker, got {expect!r:.80}")
    wanted = None if expect is None else Expectation(expect, ensemble)
    gc.disable()  # no cycles are made; to look for them takes as long as the rest
    try:
        header, blocks, records = read_frame(packed)
        if ensemble.content() != header["model"]:
            refuse("was written for another model, or with another --trees")
        if not 1 <= header["rows"] <= len(rows):
            refuse(f"covers {header['rows']} rows, and the data have {len(rows)}")
        n_rows = len(rows)
        rows = [[float(v) if v == v else math.nan for v in row] for row in rows[: header["rows"]]]
        problem = Problem(ensemble, Attacker(header["attacker"], ensemble), rows)
        if header["labels"] == "own":
            labels = [problem.decide(problem.places(row)) for row in rows]
        elif header["labels"] == "given" and names is not None:
            labels = places_of(list(names)[: len(rows)], ensemble.classes)
        else:
            refuse(f"has {header['labels'][:20]!r} labels, and the data have none")
        content = hashlib.sha256()
        for row, place in zip(rows, labels, strict=True):
            content.update(struct.pack(f"<{len(row)}dI", *row, place))
        if content.hexdigest() != header["data"]:
            refuse("was written for other data; give those, with the same --label and --classes")
        report = Report(header, problem.attacker, n_rows, column)
        report.by_label, report.expected_from = by_label, source
        report.missing = sum(value != value for value in chain(*rows))
        for reader in records_of(blocks):
            on_row(printable(report.judge(reader, problem, rows, labels)))
        judged = {*report.checked, *report.wrong, *report.undecided}
        if len(judged) != records:
            refuse(f"ends after {len(judged)} records of {records}")
        for number in sorted(set(range(header["rows"])) - judged):
            report.wrong[number] = "there is no record of it"
            on_row(f"row {number}: {report.wrong[number]}")
        if report.checked and report.unmovable == len(report.checked) and not allow_trivial:
            reasons = "; ".join(report.obstacles())
            refuse(
                "proves nothing: the attacker can change no feature that the model tests, in any "
                f"row{f' ({reasons})' if reasons else ''}; --allow-trivial accepts this and prints "
                "the full report"
            )
        if wanted and wanted.is_trivial and not allow_trivial:
            refuse("expectation: its attacker can change nothing; --allow-trivial accepts this")
        if wanted:
            wanted.judge(report, rows)
    except (RefusedError, NotProvedError) as error:
        refuse(f"{name}: {error}")
    except DAMAGE as e:
        refuse(f"{name}: is damaged ({type(e).__name__}: {str(e)[:80]})")
    finally:
        if collects:
            gc.enable()
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a file; docs/command-line.md has the exit codes."""
    parser = argparse.ArgumentParser(
        "carvegbm_check",
        description="Check a proof of verdicts.",
        epilog="Exit codes: 0 every status is proved; 1 the expectation is not covered; 2 bad "
        "input; 3 some rows are undecided; 4 a proof is wrong; 130 interrupted.",
    )
    parser.add_argument("proof", help="the file that carvegbm verify --proof wrote")
    parser.add_argument("model", help="LightGBM text, XGBoost JSON, or JSON of carvegbm convert")
    parser.add_argument("data", help="CSV, as carvegbm verify takes it")
    parser.add_argument("--label", help="the label column")
    parser.add_argument("--classes", help="class labels by output, separated by commas")
    parser.add_argument("--trees", default="best", help="iterations to use: all, best or a number")
    parser.add_argument("--expect", help="norm=inf,budget=0.01,rows=all,features=all or JSON file")
    parser.add_argument(
        "--allow-trivial", action="store_true", help="accept an attacker that can change nothing"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print the report without a line for every row"
    )
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")
    given = parser.parse_args(arguments)
    options: dict[str, Any] = {"label": given.label, "trees": given.trees, "expect": given.expect}
    options["classes"] = as_labels(given.classes) if given.classes else None
    options["allow_trivial"] = given.allow_trivial
    if not (given.quiet or given.json):
        options["on_row"] = print
    try:
        report = check(given.proof, given.model, given.data, **options)
        print(json.dumps(report.document(), indent=1) if given.json else report, flush=True)
    except RefusedError as error:
        print("carvegbm_check:", error, file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("carvegbm_check: interrupted", file=sys.stderr)
        return 130
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"carvegbm_check: standard output: {error.strerror}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BAD_INPUT
    except Exception:  # Python's own exit code would be NOT_COVERED
        traceback.print_exc()
        return BAD_INPUT
    return report.exit_code


if __name__ == "__main__":
    sys.exit(main())
