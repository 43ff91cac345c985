"""Check a proof of robustness verdicts: every status in the file is proved, or it is said what is not.

    python -m carvegbm_check PROOF MODEL DATA

This file is a program of its own. It needs Python's standard library, shares nothing with the
package that wrote the proof, and believes nothing in it: it reads the model and the data, and finds
distances, cells, coverage and bounds by itself, in whole numbers and fractions. docs/proofs.md has
the format to the byte and the argument why the rules are sound. In short:

A row x is attacked by moving it to machine numbers z at a cost of at most the capacity. The *total*
of z is a constant and one leaf's value per tree, the margin of the side that the model decides for;
the attack wins if it is below 0 (or 0, where a tie is lost). The thresholds of the model cut every
*axis* (a feature, or a one-hot group) into *cells*; the cost of a cell is that of its cheapest value
for x, and it is *open* if that is affordable. `fragile` and `broken` come with a z: it must be in
reach and win. `robust` and `vulnerable` come with a tree of *cases*, sets of open cells, and

  reach   a case whose cheapest cells together exceed the capacity is empty; a cell, or the cells
          that a leaf demands, are out of reach if the cheapest of the other axes leave too little;
  cut     a case is closed if both parts of it are: some cells of an axis, and all the others;
  bound   a case is closed if no win is as large as  constant - L
          + sum over trees  of min over leaves in reach of value + sum over axes of min T(tree, axis, cell)
          + sum over axes   of min over open cells of floor(L cost / capacity) - sum over trees of T
          for the numbers L >= 0 and T that the file gives, whatever they are.
"""  # noqa: E501

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import gzip
import hashlib
import json
import math
import os
import re
import struct
import sys
import zlib
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple, NoReturn

__all__ = ["RefusedError", "Report", "check", "main"]

MAGIC = b"carvegbm proof 1\n"
STATUSES = ("robust", "fragile", "vulnerable", "broken", "unknown")
LARGEST_BLOCK = 1 << 27  # bytes of records, unpacked
LARGEST_VARINT = 4096  # bits; a sum of doubles in units of the smallest one has half as many
LARGEST_COUNT = 1 << 22  # of numbers that are held at once: weights, states, multipliers
LARGEST_STEPS = 1 << 50  # of 1 / denominator: a lattice ends there, on both sides
LARGEST_LCM = 1 << 14  # bits of a common denominator; beyond that, costs stay fractions

DAMAGE: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, TypeError)
DAMAGE += (ValueError, RuntimeError, StopIteration, struct.error, zlib.error, csv.Error)
# what reading a damaged file may raise


class RefusedError(ValueError):
    """The file, the model or the data are damaged, or do not belong together."""


class NotProvedError(Exception):
    """What the file says of a row is not proved."""


def refuse(message: str) -> NoReturn:
    raise RefusedError(message)


def not_proved(message: str) -> NoReturn:
    raise NotProvedError(message)


# ── numbers ──────────────────────────────────────────────────────────────────────────────────


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
"""A split [feature, cut, missing, left, right] or a leaf [scores]. x goes left iff x <= cut, or iff
its code is in cut, if that is a tuple of codes; what is missing goes "L", "R" or "-", nowhere."""


RULES = ("label", "text", "truncate", "nonnegative")  # how a number becomes a code


@dataclass
class Model:
    """An ensemble: (base + the sum of a leaf's scores per tree) / average, a number per output."""

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
    categories: dict[int, dict[int, Any]] = field(default_factory=dict)  # feature: code: label
    rule: str = "label"
    unknown_is_missing: bool = False

    def checked(self, classes: list[Any] | None) -> Model:
        """Itself, if it is sound."""
        splits = [node for nodes in self.trees for node in nodes if len(node) == 5]
        leaves = [node[0] for nodes in self.trees for node in nodes if len(node) == 1]
        if self.rule in ("truncate", "nonnegative") and not self.categories:
            self.categories = {f: {} for f, cut, *_ in splits if type(cut) is tuple}
        self.classes = classes or self.classes
        if self.task == "regression" and len(self.classes) != 2:
            refuse("is a regression model, of which there are no verdicts; give --classes A,B")
        self.task = "binary" if self.task == "regression" else self.task
        self.classes = self.classes or list(range(max(2, len(self.base))))
        if len(self.classes) != max(2, len(self.base)):
            refuse(f"has {len(self.base)} outputs and {len(self.classes)} classes; give --classes")
        finite = (*self.base, self.threshold, *(score for scores in leaves for score in scores))
        sound = all(map(math.isfinite, finite)) and self.average >= 1
        sound &= len(self.base) == 1 if self.task == "binary" else self.task == "multiclass"
        sound &= self.tie in ("positive", "negative") and self.rule in RULES
        sound &= all(len(scores) == len(self.base) for scores in leaves)
        for f, cut, *_ in splits:
            sound &= 0 <= f < self.n_features and (f in self.categories) == (type(cut) is tuple)
            sound &= type(cut) is tuple or (single(cut) if self.narrow else cut) == cut
        if not sound:
            refuse("has a task, a number or a split that cannot be; the file is damaged")
        return self

    def content(self) -> str:
        """SHA-256 of all that verdicts depend on."""
        n_outputs = len(self.base)
        head = struct.pack("<3I", self.n_features, n_outputs, self.average)
        head += struct.pack(f"<{n_outputs + 1}d", self.threshold, *self.base)
        head += b"+" if self.tie == "positive" else b"-"
        found = hashlib.sha256(head + (b"f" if self.narrow else b"d"))
        for node in (node for nodes in self.trees for node in nodes):
            if len(node) == 1:
                found.update(b"V" + struct.pack(f"<{n_outputs}d", *node[0]))
            elif type(node[1]) is tuple:
                numbers = node[0], len(node[1]), *node[1]
                found.update(b"C" + struct.pack(f"<{len(numbers)}I", *numbers) + node[2].encode())
            else:
                found.update(struct.pack("<cId", b"N", *node[:2]) + node[2].encode())
        return found.hexdigest()

    def code(self, value: float) -> int:
        """The code that the number in a categorical column stands for, -1 if for none."""
        if self.rule in ("label", "text"):  # where reading the data has looked it up
            return int(value)
        seen = single(value) if self.narrow else value
        if self.rule == "nonnegative":
            return int(seen) if 0 <= seen < 1 << 24 else -1
        return int(seen) if -1 < seen < 1 << 31 else -1


def grown(root: int, look: Callable[[int], Node]) -> list[Node]:
    """The nodes below a root: itself, its left subtree, its right subtree.

    `look` makes a node of a key, with the keys of the children in it.
    """
    nodes: list[Node] = []
    seen, stack = set(), [(root, 0, 0)]
    while stack:
        key, parent, side = stack.pop()
        if key in seen:
            refuse("has a tree with two ways to a node; the file is damaged")
        seen.add(key)
        if nodes:
            nodes[parent][side] = len(nodes)
        node = look(key)
        if len(node) == 5:
            stack += [(node[4], len(nodes), 4), (node[3], len(nodes), 3)]
        nodes.append(node)
    return nodes


def read_model(path: str, classes: list[Any] | None) -> Model:
    """LightGBM's text, XGBoost's JSON, or the JSON of Ensemble.save; known by its content."""
    try:
        text = content_of(path).decode("utf-8-sig").lstrip()
        if text.startswith(("tree\n", "tree\r")):
            return from_lightgbm(text.replace("\r\n", "\n")).checked(classes)
        if text.startswith("{"):
            document = json.loads(text, object_pairs_hook=without_doubles)
            if document.get("format") == "carvegbm-ensemble":
                return from_ensemble(document).checked(classes)
            if "learner" in document or "Model" in document:
                return from_xgboost(document.get("Model", document)).checked(classes)
    except RefusedError as error:
        refuse(f"{path}: {error}")
    except DAMAGE as e:
        refuse(f"{path}: the model is damaged ({type(e).__name__}: {str(e)[:100]})")
    refuse(f"{path}: is no LightGBM text, XGBoost JSON or JSON of carvegbm convert; convert it")


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which no field may be there twice."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else refuse("JSON with a field that is there twice")


def from_ensemble(document: dict[str, Any]) -> Model:
    """The JSON that docs/ensemble-json.md describes."""
    if document["version"] not in (1, 2):
        refuse(f"is version {document['version']} of the format; 1 and 2 are read")

    def look(place: int) -> Node:
        node = document["nodes"][place if place >= 0 else refuse("has a node below 0")]
        if "scores" in node:
            return [tuple(map(float, node["scores"]))]
        codes = node.get("categories")
        cut = float(node["threshold"]) if codes is None else tuple(map(int, codes))
        if codes is not None and any(a >= b for a, b in pairwise((-1, *codes))):
            refuse(f"node {place}: its categories do not ascend; the file is damaged")
        side = {None: "-", "left": "L", "right": "R"}[node.get("missing")]
        return [int(node["feature"]), cut, side, int(node["left"]), int(node["right"])]

    trees = [grown(root, look) for root in document["roots"]]
    base = [float(score) for score in document["base_score"]]
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


def from_lightgbm(text: str) -> Model:
    """A model as LightGBM's save_model writes it, with the trees as its predict reads them."""
    body, end, _ = text.partition("\nend of trees")
    parts = re.split(r"\n(?=Tree=)", body)
    head, *blocks = (dict(line.partition("=")[::2] for line in part.split("\n")) for part in parts)
    if not end or len(head.get("tree_sizes", "").split()) not in (0, len(blocks)):
        refuse("the file ends before its trees do; it is damaged")
    n_outputs = int(head.get("num_tree_per_iteration") or head.get("num_class", "1"))
    trees = [lightgbm_tree(block, i % n_outputs, n_outputs) for i, block in enumerate(blocks)]
    model = Model(int(head["max_feature_idx"]) + 1, trees, [0.0] * n_outputs, "multiclass")
    model.names, model.rule = head["feature_names"].split(" "), "truncate"
    if head.get("objective", "").partition(" ")[0] in ("binary", "cross_entropy"):
        model.task, model.tie = "binary", "negative"
    elif n_outputs == 1:
        model.task = "regression"
    if "average_output" in head:
        model.average = max(1, len(trees) // n_outputs)
        if head.get("version") == "v2":
            refuse("is a forest of an early LightGBM; use carvegbm convert")
    return model


def lightgbm_tree(block: dict[str, str], output: int, n_outputs: int) -> list[Node]:
    """A tree of the text: inner nodes first, child ~i is leaf i.

    LightGBM takes |v| <= 1e-35 (as float32) for 0 before it compares: a threshold next to 0 moves
    to an end of that interval. It takes NaN for 0 where missing_type is None, both for missing
    where it is Zero.
    """
    if block.get("is_linear", "0") != "0":
        refuse("has linear models in its leaves; train with linear_tree=false")
    lists = {key: value.split() for key, value in block.items()}
    n_leaves, scores = int(block["num_leaves"]), [float(score) for score in lists["leaf_value"]]
    zero = single(1e-35)
    before = math.nextafter(-zero, -math.inf)

    def look(key: int) -> Node:
        if key < 0:
            return [tuple(scores[~key] if o == output else 0.0 for o in range(n_outputs))]
        kind = int(lists["decision_type"][key]) if "decision_type" in lists else 0
        children = int(lists["left_child"][key]), int(lists["right_child"][key])
        feature, cut = int(lists["split_feature"][key]), float(lists["threshold"][key])
        if kind & 1:
            start, stop = (int(lists["cat_boundaries"][int(cut) + side]) for side in (0, 1))
            words = [int(word) for word in lists["cat_threshold"][start:stop]]
            codes = (c for c in range(32 * len(words)) if words[c // 32] >> c % 32 & 1)
            return [feature, tuple(codes), "R", *children]
        missing_type, default_left = kind >> 2 & 3, bool(kind & 2)
        zero_left = default_left if missing_type == 1 else cut >= 0
        if before <= cut <= zero:
            cut = zero if zero_left else before
        if zero_left != (cut >= 0):
            refuse("sends 0 against a threshold (zero_as_missing); use carvegbm convert")
        side = "L" if (default_left if missing_type == 2 else zero_left) else "R"
        return [feature, cut, side, *children]

    if len(scores) != n_leaves or n_leaves < 1:
        refuse(f"has a tree of {n_leaves} leaves with {len(scores)} scores; the file is damaged")
    return grown(0 if n_leaves > 1 else -1, look)


def from_xgboost(document: dict[str, Any]) -> Model:
    """XGBoost's JSON: inputs are float32, x < condition goes left, listed codes go right."""
    learner, booster = document["learner"], document["learner"]["gradient_booster"]
    model = booster.get("gbtree", booster)["model"]
    weights = model.get("weight_drop") or booster.get("weight_drop") or [1.0] * len(model["trees"])
    parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
    n_outputs = max(1, int(parameters.get("num_class", "0")))
    known = r"(binary:(logistic|hinge|logitraw)|multi:soft(max|prob)|reg:(logistic|squarederror))"
    vectors = any(int(t["tree_param"].get("size_leaf_vector", "0")) > 1 for t in model["trees"])
    if not re.fullmatch(known, objective) or document["version"][0] < 2 or vectors:
        refuse(f"is of a kind that is not read here ({objective}); use carvegbm convert")
    base = [float(part) for part in str(parameters["base_score"]).strip("[] ").split(",")]
    if model["trees"] or parameters.get("boost_from_average", "1") == "0":
        base = [logit(value) if "logistic" in objective else single(value) for value in base]
    base = base * n_outputs if len(base) == 1 else base
    given = zip(model["trees"], weights, model["tree_info"], strict=True)
    trees = [xgboost_tree(tree, weight, int(o), n_outputs) for tree, weight, o in given]
    found = Model(int(parameters["num_feature"]), trees, base, "binary", narrow=True)
    found.tie, found.names, found.rule = "negative", learner.get("feature_names"), "nonnegative"
    if objective.startswith("multi:") or objective == "reg:squarederror":
        found.task, found.tie = "multiclass" if n_outputs > 1 else "regression", "positive"
    return found


def xgboost_tree(tree: dict[str, Any], weight: float, output: int, n_outputs: int) -> list[Node]:
    left, right, condition = tree["left_children"], tree["right_children"], tree["split_conditions"]
    kinds = tree.get("split_type") or [0] * len(left)
    lists = [tree.get(f"categories_{name}", ()) for name in ("nodes", "segments", "sizes")]
    codes = {node: tree["categories"][at : at + n] for node, at, n in zip(*lists, strict=True)}

    def look(place: int) -> Node:
        if left[place if place >= 0 else refuse("has a node below 0")] < 0:
            score = single(single(condition[place]) * single(weight))
            return [tuple(score if o == output else 0.0 for o in range(n_outputs))]
        feature, default_left = tree["split_indices"][place], bool(tree["default_left"][place])
        if kinds[place]:  # the codes that are listed go right: the children change places
            cut = tuple(sorted(set(codes[place])))
            return [feature, cut, "R" if default_left else "L", right[place], left[place]]
        below = -above(-single(condition[place]), True)
        return [feature, below, "L" if default_left else "R", left[place], right[place]]

    return grown(0, look)


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


def content_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_csv(path: str, model: Model, label: str | None) -> tuple[Rows, list[str]]:
    """Rows of numbers (categories as codes, NaN for what is missing), and labels as they stand.

    Where there is a header, columns find features by name; else, and where the names are others,
    they are taken in order.
    """
    try:
        lines = [line for line in content_of(path).decode("utf-8-sig").splitlines() if line.strip()]
        by = next((mark for mark in ",;\t" if mark in lines[-1]), None)
        split = csv.reader(lines, delimiter=by or ",", skipinitialspace=True)
        cells = [
            [cell.strip() for cell in line] for line in (split if by else map(str.split, lines))
        ]
        first, usual = cells[0], [cell.lower() for cell in cells[0]]
        numbers = [cell for cell in first if is_number(cell)]
        numbered = numbers == [str(i) for i in range(len(first) - 1)]
        named = label in first and not is_number(label or "")
        header = named or not numbers or (numbered and {"label", "target", "class"} & set(usual))
        at = len(first) - 1
        if label is not None:
            at = first.index(label) if header and label in first else int(label) % len(first)
        elif header:
            at = next((usual.index(c) for c in ("label", "target", "class", "y") if c in usual), at)
        order = [place for place in range(len(first)) if place != at]
        wanted = [plain(name) for name in model.names or ()]
        keys = [plain(first[place]) for place in order]
        if header and sorted(keys) == sorted(wanted) and len(set(keys)) == len(keys):
            order = [order[keys.index(name)] for name in wanted]
        rows, labels = [], []
        for number, line in enumerate(cells[bool(header) :]):
            if len(line) != model.n_features + 1 or line[at].lower() in ("", "nan"):
                refuse(f"row {number} has {len(line)} cells of {model.n_features + 1}, or no label")
            rows.append([read_cell(line[place], model, f) for f, place in enumerate(order)])
            labels.append(line[at])
        return rows, labels
    except DAMAGE as error:
        refuse(f"{path}: {str(error)[:200]}; a text is read: a row a line, with its label")


def is_number(cell: str) -> bool:
    try:
        return "_" not in cell and float(cell) is not None
    except ValueError:
        return False


def plain(name: str) -> str:
    """The name of a feature as LightGBM spells it."""
    return re.sub(r'[\s",:\[\]{}]', "_", name)


def key_of(text: str, names: Iterable[tuple[int, Any]]) -> int:
    """The key of a name; a number and a text that spells it are one."""
    for key, name in names:
        if str(name) == text or (type(name) is not str and is_number(text) and float(text) == name):
            return key
    return -1


def read_cell(cell: str, model: Model, feature: int) -> float:
    """A cell as a number, or as the code of the category that it names."""
    labels = model.categories.get(feature, {})
    by_label = model.rule in ("label", "text") or any(code != c for code, c in labels.items())
    if cell.lower() in MISSING:
        return math.nan
    if labels and by_label:
        code = key_of(cell, labels.items())
        return math.nan if code < 0 and model.unknown_is_missing else float(code)
    return float(cell) if is_number(cell) else refuse(f"{cell!r} is no number; convert the model")


def places_of(labels: Iterable[Any], classes: list[Any]) -> list[int]:
    """The place of every label among the classes."""
    texts = [str(label) for label in labels]
    known = {text: key_of(text, enumerate(classes)) for text in set(texts)}
    for row, text in enumerate(texts):
        if known[text] < 0:
            refuse(f"row {row} has the label {text!r}; the classes are {classes}; give --classes")
    return [known[text] for text in texts]


def data_content(rows: Rows, labels: list[int]) -> str:
    """SHA-256 of rows and labels."""
    found = hashlib.sha256()
    for row, label in zip(rows, labels, strict=True):
        found.update(struct.pack(f"<{len(row)}dI", *row, label))
    return found.hexdigest()


# ── the attacker, axes and cells ─────────────────────────────────────────────────────────────

LIMITS = {"norm", "budget", "features", "down", "up", "lower", "upper", "step", "categories"}
LIMITS |= {"one_hot", "row_bounds"}


class Attacker:
    """What may be changed, how far, and at what cost, as the header of the file has it."""

    def __init__(self, given: dict[str, Any], model: Model) -> None:
        n, norm = model.n_features, given["norm"]

        def place(key: Any) -> int:
            is_one = str(key).isdecimal() and str(key) == str(int(key)) and int(key) < n
            return int(key) if is_one else refuse(f"the attacker names feature {key}")

        def by_feature(name: str, read: Callable[[Any], Any]) -> dict[int, Any]:
            return {place(key): read(value) for key, value in given.get(name, {}).items()}

        if given.keys() - LIMITS or not (norm == "inf" or (type(norm) is int and 0 <= norm <= 100)):
            refuse(f"the attacker has the norm {norm}, or limits that are not known here")
        self.norm: int | None = None if norm == "inf" else norm
        self.budget = amount(given["budget"])
        self.capacity = Fraction(0) if norm == "inf" else self.budget ** (norm or 1)
        down, up, one = by_feature("down", amount), by_feature("up", amount), Fraction(1)
        self.scale = [(down.get(f, one), up.get(f, one)) for f in range(n)]
        may_change = {place(f) for f in given.get("features", range(n))}
        self.changeable = [f in may_change and any(self.scale[f]) for f in range(n)]
        low, high = by_feature("lower", float.fromhex), by_feature("upper", float.fromhex)
        self.lower = [low.get(f, -math.inf) for f in range(n)]
        self.upper = [high.get(f, math.inf) for f in range(n)]
        self.row_bounds = given.get("row_bounds") is True
        self.step = {f: s for f, s in by_feature("step", ratio).items() if self.changeable[f]}
        codes = by_feature("categories", list)
        self.codes = {f: set(those) for f, those in codes.items() if self.changeable[f]}
        groups = [[place(f) for f in group] for group in given.get("one_hot", [])]
        self.groups = [group if all(self.changeable[f] for f in group) else [] for group in groups]
        """Those that may be changed; [] in place of the others."""
        grouped = [f for group in self.groups for f in group]
        states, categorical = {*self.codes, *grouped}, model.categories.keys()
        if (
            any(self.scale[f][0] != self.scale[f][1] for f in states)
            or any(len({(self.scale[f], self.changeable[f]) for f in g}) > 1 for g in groups)
            or len(set(grouped)) < len(grouped)
            or self.codes.keys() - categorical
            or any(type(c) is not int or not 0 <= c < 1 << 31 for f in codes for c in codes[f])
            or categorical & {*grouped, *self.step}
            or states & self.step.keys()
        ):
            refuse("the attacker's limits contradict each other, or the model")


def amount(text: Any) -> Fraction:
    """A finite double >= 0, as float.hex writes it."""
    value = float.fromhex(text)
    return Fraction(value) if 0 <= value < math.inf else refuse(f"{text} is no budget or scale")


def ratio(text: str) -> Fraction:
    """A step, as "numerator/denominator"."""
    match = re.fullmatch(r"(\d{1,10})/(\d{1,10})", text, re.ASCII)
    step = Fraction(int(match[1]), int(match[2])) if match else Fraction(0)
    in_range = 0 < step <= 1 << 31 and step.denominator <= 1 << 31
    return step if in_range else refuse(f"{text[:40]!r} is no step")


Values = tuple[float, ...]  # of the features of an axis
Pairs = list[tuple[int, int]]  # cells or states, and θ
Multipliers = list[tuple[int, int, Pairs]]  # by tree and axis; no pairs: the price


class Cells(dict[int, Any]):
    """The open cells of an axis for a row, as a mask; and the least cost of some, by their mask.

    To stay `here`, in the cell of x, costs nothing.
    """

    def __init__(self, here: int, n_cells: int, moves: Iterable[tuple[int, Any]]) -> None:
        super().__init__()
        self.here, self.full, self.costs = here, 1 << here, [0] * n_cells
        for cell, cost in moves:
            self.costs[cell], self.full = cost, self.full | 1 << cell
        self.most = max(self.costs)

    def __missing__(self, mask: int) -> Any:
        first, end = (mask & -mask).bit_length() - 1, mask.bit_length()
        self[mask] = min(self.costs[cell] for cell in range(first, end) if mask >> cell & 1)
        return self[mask]

    def dear(self, most: Any) -> int:
        """The mask of the cells that cost more."""
        return sum(1 << cell for cell, cost in enumerate(self.costs) if cost > most)


class Axis:
    """What a row may be moved along; its cells are numbered, the last one is for what is missing.

    Down and up, a move by d > 0 units is possible up to a `limit`, and costs `weight` d^`power`.
    """

    def __init__(
        self, attacker: Attacker, features: list[int], n_cells: int, unit: Fraction
    ) -> None:
        self.features, self.n_cells, self.unit = features, n_cells, unit
        norm, budget, self.power = attacker.norm, attacker.budget, attacker.norm or 0
        self.limit: list[Any] = [-1, -1]
        self.weight: list[Any] = [Fraction(0), Fraction(0)]
        for up, scale in enumerate(attacker.scale[features[0]]):
            if attacker.changeable[features[0]] and scale > 0:
                at_will = math.inf if budget >= 1 else -1
                self.limit[up] = at_will if norm == 0 else budget * scale / unit
                self.weight[up] = Fraction(0) if norm is None else (unit / scale) ** norm
        self.cells = lru_cache(64)(lambda x, *b: Cells(self.cell(x), n_cells, self.moves(x, *b)))

    def cell(self, x: Values) -> int:
        """The cell of a row."""
        raise NotImplementedError

    def moves(self, x: Values, lower: Values, upper: Values) -> Iterator[tuple[int, Any]]:
        """The other cells that are open, and their costs."""
        raise NotImplementedError

    def of(self, z: Sequence[float]) -> Values:
        """What a point has for the features of the axis."""
        return tuple([z[f] for f in self.features])

    def cost(self, distance: Any) -> Any:
        """What a move costs; 0 is one that no attacker can make."""
        up, distance = distance > 0, abs(distance)
        if distance == 0 or distance > self.limit[up]:
            not_proved(f"the witness moves {self.features} where the attacker cannot")
        return self.weight[up] * distance**self.power


class Line(Axis):
    """A numeric feature: the cells lie between its cuts, and end at whole multiples of a unit.

    With a step, that is the unit, and n stands for the double nearest to n steps.
    """

    def __init__(
        self, attacker: Attacker, feature: int, cuts: list[float], narrow: bool, values: list[float]
    ) -> None:
        self.cuts = cuts
        self.step: Fraction | None = attacker.step.get(feature)
        self.seen: Callable[[float], float] = single if narrow else float  # by the model
        most = -above(-math.inf, narrow)
        ends = [(above(a, narrow), min(b, most)) for a, b in pairwise([-math.inf, *cuts, math.inf])]
        e = exponent(v for v in (*chain(*ends), *values) if math.isfinite(v))
        super().__init__(attacker, [feature], len(cuts) + 2, self.step or Fraction(1, 1 << e))
        self.far = [limit if limit == math.inf else math.floor(limit) for limit in self.limit]
        if self.step is None:
            self.spans = [(whole(a, e), whole(b, e)) if a <= b else (1, 0) for a, b in ends]
        else:
            self.end: int = LARGEST_STEPS // self.step.numerator
            lasts = [self.last(cut, self.seen) for cut in cuts]
            self.spans = [(a + 1, b) for a, b in pairwise([-self.end - 1, *lasts, self.end])]

    def double(self, n: int) -> float:
        """The double nearest to n steps."""
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
                not_proved(f"{value} is no multiple of the step {self.step}")
            value = double
        if not low <= value <= high:
            not_proved(f"feature {self.features[0]} is outside the attacker's bounds")
        return units

    def cell(self, x: Values) -> int:
        return bisect_left(self.cuts, self.seen(x[0])) if x[0] == x[0] else self.n_cells - 1

    def left(self, node: Node) -> int:
        """The mask of the cells that a split sends left."""
        up_to = (2 << bisect_left(self.cuts, node[1])) - 1
        return up_to | bool(node[2] == "L") << self.n_cells - 1

    def moves(self, x: Values, lower: Values, upper: Values) -> Iterator[tuple[int, Any]]:
        if x[0] != x[0]:
            return
        (low,), (high,), here = lower, upper, self.cell(x)
        own, first, last = int(self.number(x[0], low, high)), low, high
        if self.step is not None:
            first, last = self.last(math.nextafter(low, -math.inf)) + 1, self.last(high)
        elif math.isfinite(low) or math.isfinite(high):
            first = math.ceil(Fraction(low) / self.unit) if math.isfinite(low) else low
            last = math.floor(Fraction(high) / self.unit) if math.isfinite(high) else high
        for up, cells in enumerate((range(here - 1, -1, -1), range(here + 1, len(self.spans)))):
            for cell in cells:
                a, b = self.spans[cell]
                if a <= b and (a <= last if up else first <= b):
                    distance = a - own if up else own - b
                    if distance > self.far[up]:
                        break
                    yield cell, self.weight[up] * distance**self.power

    def distance(self, x: Values, z: Values, lower: Values, upper: Values) -> Any:
        """By how many units x is moved to z; 0 if it cannot be."""
        if x[0] != x[0] or not math.isfinite(z[0]) or (not self.step and self.seen(z[0]) != z[0]):
            return 0
        return self.number(z[0], lower[0], upper[0]) - self.number(x[0], lower[0], upper[0])

    def steps(self, pairs: Pairs) -> Pairs:
        """θ as a function: cells, and what it is from each one up to the next."""
        if pairs[-1][0] > len(self.cuts):
            not_proved(f"the multipliers of {self.features} name a cell that is not there")
        return pairs if pairs[0][0] == 0 else [(0, 0), *pairs]

    def some(self, named: Sequence[int]) -> int:
        """The mask of the cells that a cut names: those up to one, or some states."""
        return (2 << min(named[0], self.n_cells)) - 1


class States(Axis):
    """Every state is a cell: the codes of a categorical feature, or the members of a group."""

    def __init__(
        self, attacker: Attacker, features: list[int], names: list[int], code: Any = None
    ) -> None:
        super().__init__(attacker, features, len(names) + 1, Fraction(1))
        self.names = names
        self.code: Callable[[float], int] | None = code  # None: a group
        self.codes = attacker.codes.get(features[0], set())

    def cell(self, x: Values) -> int:
        if self.code is not None:
            return self.names.index(self.code(x[0])) if x[0] == x[0] else self.n_cells - 1
        if sorted(x) != [0] * (len(x) - 1) + [1]:
            not_proved(f"the features {self.features} are no one-hot group")
        return x.index(1)

    def left(self, node: Node) -> int:
        if self.code is not None:
            return self.some(node[1]) | bool(node[2] == "L") << self.n_cells - 1
        member = self.features.index(node[0])
        return sum(1 << state for state in self.names if (state == member) <= node[1])

    def is_open(self, cell: int, x: Values, lower: Values, upper: Values) -> bool:
        """Whether the attacker may choose a state."""
        if self.code is not None:
            return self.names[cell] in self.codes and x[0] == x[0]
        return all(lower[i] <= (i == cell) <= upper[i] for i in self.names)

    def moves(self, x: Values, lower: Values, upper: Values) -> Iterator[tuple[int, Any]]:
        here = self.cell(x)
        if self.code is None and not self.is_open(here, x, lower, upper):
            not_proved(f"the features {self.features} are outside the attacker's bounds")
        for cell in range(len(self.names)) if self.limit[1] >= 1 else ():
            if cell != here and self.is_open(cell, x, lower, upper):
                yield cell, self.weight[1]

    def distance(self, x: Values, z: Values, lower: Values, upper: Values) -> Any:
        if self.code is not None and z[0] not in self.codes:
            return 0
        return int(self.cell(z) != self.cell(x) and self.is_open(self.cell(z), x, lower, upper))

    def steps(self, pairs: Pairs) -> Pairs:
        known = dict(pairs)
        if len(known) < len(pairs):
            not_proved(f"the multipliers of {self.features} name a state twice")
        return [(place, known.get(name, 0)) for place, name in enumerate((*self.names, -1))]

    def some(self, named: Sequence[int]) -> int:
        these = set(named)
        return sum(1 << place for place, name in enumerate(self.names) if name in these)


NOWHERE = Cells(0, 1, ())  # in place of those of an axis that is none


class Question:
    """A model and an attacker, prepared for all rows.

    Axis f < n is feature f, axis n + g the one-hot group g; None where there is no such axis. In
    `trees`, a split is (axis, mask of the cells that go left, left, right), a leaf (-1, 0, 0, 0);
    `lows` and `negated` have by output, if that has scores in the tree, and node: the least score
    below it, and the least of the negated ones, in whole multiples of 2^-unit.
    """

    def __init__(self, model: Model, attacker: Attacker, rows: Rows) -> None:
        self.model, self.attacker, n = model, attacker, model.n_features
        splits = [node for nodes in model.trees for node in nodes if len(node) == 5]
        self.unruly = {node[0] for node in splits if node[2] == "-"}  # without a rule for NaN
        of_feature: list[set[Any]] = [set() for _ in range(n)]
        for feature, cut, *_ in splits:
            of_feature[feature].update(cut if type(cut) is tuple else (cut,))
        self.axes: list[Line | States | None] = []
        for f, cuts in enumerate(of_feature):
            values = [row[f] for row in rows if row[f] == row[f]]
            if f in model.categories:
                codes = {*cuts, *attacker.codes.get(f, ()), *map(model.code, values)}
                self.axes.append(States(attacker, [f], sorted(codes), model.code))
            else:
                self.axes.append(Line(attacker, f, sorted(cuts), model.narrow, values))
        axis_of = list(range(n))
        for group in attacker.groups:
            for f in group:
                self.axes[f], axis_of[f] = None, len(self.axes)
            states = list(range(len(group)))
            self.axes.append(States(attacker, group, states) if group else None)
        self.bounds = self.bounded(())
        self.with_states = [a for a, axis in enumerate(self.axes) if isinstance(axis, States)]
        self.used = sorted({axis_of[node[0]] for node in splits})
        self._make_costs_whole()
        scores = [node[0] for nodes in model.trees for node in nodes if len(node) == 1]
        self.unit = 64 + exponent(chain(*scores, model.base, [model.threshold]))
        self.base = [whole(value, self.unit) for value in model.base]
        self.threshold = whole(model.threshold, self.unit) * model.average
        self.trees, self.lows, self.negated = [], [], []
        for nodes in model.trees:
            ways = [(-1, 0, 0, 0)] * len(nodes)
            for place, node in enumerate(nodes):
                if len(node) == 5:
                    axis = axis_of[node[0]]
                    ways[place] = axis, self.axis(axis).left(node), node[3], node[4]
            self.trees.append(ways)
            sums = [map(bool, node[0]) for node in nodes if len(node) == 1]
            outputs = [o for o, some in enumerate(zip(*sums, strict=True)) if any(some)]
            self.lows.append({o: self._lows(nodes, o, 1) for o in outputs})
            self.negated.append({o: self._lows(nodes, o, -1) for o in outputs})

    def bounded(self, given: Iterable[tuple[int, float, float]]) -> list[list[Values]]:
        """By axis, the lower and the upper bounds: those that are given, or the attacker's."""
        lower, upper = list(self.attacker.lower), list(self.attacker.upper)
        for feature, low, high in given:
            lower[feature], upper[feature] = low, high
        return [[axis.of(lower), axis.of(upper)] if axis else [] for axis in self.axes]

    def _lows(self, nodes: list[Node], output: int, sign: int) -> list[int]:
        found = [0] * len(nodes)
        for place in range(len(nodes) - 1, -1, -1):  # children stand behind their parents
            node = nodes[place]
            if len(node) == 1:
                found[place] = sign * whole(node[0][output], self.unit)
            else:
                found[place] = min(found[node[3]], found[node[4]])
        return found

    def axis(self, number: int) -> Line | States:
        found = self.axes[number] if number < len(self.axes) else None
        if found is None:
            not_proved(f"there is no axis {number}")
        return found

    def _make_costs_whole(self) -> None:
        """Costs in whole multiples of one unit, unless that is too small."""
        axes = [axis for axis in self.axes if axis is not None]
        self.capacity: int | Fraction = self.attacker.capacity
        common = 1
        for denominator in {w.denominator for axis in axes for w in (*axis.weight, self.capacity)}:
            if common.bit_length() < LARGEST_LCM:
                common = math.lcm(common, denominator)
        if common.bit_length() < LARGEST_LCM:
            self.capacity = int(self.capacity * common)
            for axis in axes:
                axis.weight = [int(weight * common) for weight in axis.weight]

    def decide(self, places: list[int]) -> int:
        """The class that the exact sums of a point decide for; given are its cells."""
        sums = list(self.base)
        for nodes, lows in zip(self.trees, self.lows, strict=True):
            place, (axis, mask, left, right) = 0, nodes[0]
            while axis >= 0:
                place = left if mask >> places[axis] & 1 else right
                axis, mask, left, right = nodes[place]
            for output, scores in lows.items():
                sums[output] += scores[place]
        if self.model.task == "multiclass":
            return sums.index(max(sums))
        margin = sums[0] - self.threshold
        return int(margin > 0 or (margin == 0 and self.model.tie == "positive"))

    def places(self, z: list[float]) -> list[int]:
        """The cells of a point."""
        return [axis.cell(axis.of(z)) if axis else 0 for axis in self.axes]


class Row:
    """An instance, its label and its bounds; refused if the attacker's limits do not allow it."""

    def __init__(
        self, question: Question, x: list[float], label: int, bounds: list[list[Values]]
    ) -> None:
        self.question, self.x, self.label, self.bounds = question, x, label, bounds
        for f, value in enumerate(x):
            seen = single(value) if question.model.narrow else value
            if math.isinf(seen) or (value != value and f in question.unruly):
                not_proved(f"feature {f} is {value}, for which there is no rule")
        known = zip(question.axes, bounds, strict=True)
        self.cells = [axis.cells(axis.of(x), *own) if axis else NOWHERE for axis, own in known]
        self.full = [cells.full for cells in self.cells]
        self.decision = question.decide([cells.here for cells in self.cells])


# ── the rules ────────────────────────────────────────────────────────────────────────────────

Weights = list[tuple[int, int]]


class Cut(NamedTuple):
    """Some cells of an axis: those up to one that is named, or states that are."""

    axis: int
    kind: type[Axis]
    named: list[int]


class Bound(NamedTuple):
    """λ, and by tree and axis θ, in whole multiples of 2^-shift."""

    shift: int
    price: int
    theta: Multipliers


Case = Cut | Bound | Weights


class Claim:
    """No z has a total < 0, nor one of 0 if that wins: the constant, and weights of the outputs."""

    def __init__(self, row: Row, given: Weights) -> None:
        question, model, label = row.question, row.question.model, row.label
        rivals, right = dict(given), row.decision == label
        if model.task == "binary":
            if given:
                not_proved("a part has weights, where there are two classes")
            self.weights = {0: 1 if row.decision else -1}
            self.zero_wins = model.tie == ("negative" if row.decision else "positive")
        else:
            if not any(rivals.values()) or len(rivals) < len(given) or label in rivals:
                not_proved("weights that are all 0, or twice there, or for the label")
            if max(rivals) >= len(question.base):
                not_proved(f"there is no class {max(rivals)}")
            sign = 1 if right else -1
            self.weights = {r: -sign * weight for r, weight in given if weight}
            before = [rival < label for rival in self.weights]
            self.zero_wins = any(before) if right else not any(before)
            self.weights[label] = sign * sum(rivals.values())
        self.question = question
        self.constant = sum(question.base[output] * w for output, w in self.weights.items())
        if model.task == "binary":
            self.constant -= self.weights[0] * question.threshold

    def lowest(self, tree: int, up: int) -> list[int] | None:
        """The least value below every node, in multiples of 2^-(unit + up); None if all are 0."""
        lows, negated = self.question.lows[tree], self.question.negated[tree]
        weights = [(o, w) for o, w in self.weights.items() if o in lows]
        terms = [(abs(w), lows[o] if w > 0 else negated[o]) for o, w in weights]
        if not terms:
            return None
        if len(terms) == 1 and terms[0][0] == 1 and not up:
            return terms[0][1]
        lines = [[w * value for value in line] for w, line in terms]
        return [sum(values) << up for values in zip(*lines, strict=True)]


Masks = list[int]  # by axis: the open cells of a case
Thetas = dict[int, Callable[[int], int]]  # of a tree, by axis: the least θ of some cells


def in_reach(row: Row, masks: Masks) -> tuple[Masks, Any] | None:
    """Rule 1: the open cells of a case, and what is left of the capacity; None if it is empty."""
    cells, used = row.cells, row.question.used
    room = row.question.capacity - sum([cells[a][masks[a]] for a in used]) if all(masks) else -1
    if room < 0:
        return None
    masks = list(masks)
    for axis in used:
        if cells[axis].most > room:
            masks[axis] &= ~cells[axis].dear(room + cells[axis][masks[axis]])
    return masks, room


def alive(
    row: Row, case: tuple[Masks, Any], tree: int, lowest: list[int], thetas: Thetas, every: bool
) -> Iterator[tuple[int, dict[int, int]]]:
    """The leaves of a tree that are alive: value and multipliers, and the cells that they demand.

    `lowest` has the least value below every node. Without `every`, leaves that are not lower than
    one before are left out.
    """
    (masks, room), nodes, cells = case, row.question.trees[tree], row.cells
    with_states = [axis for axis in row.question.with_states if axis in thetas]
    best, start = math.inf, sum([theta(masks[axis]) for axis, theta in thetas.items()])
    stack: list[tuple[int, Any, int, dict[int, int]]] = [(0, 0, start, {})]
    while stack:
        place, extra, total, demands = stack.pop()
        while every or total + lowest[place] < best:
            axis, part, left, right = nodes[place]
            if axis < 0:
                for a in (a for a in with_states if a in demands):
                    dear = cells[a].dear(room - extra + cells[a][demands[a]])
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
            ways = [(right, other, total + to_other), (left, one, total + to_one)]
            if ways[0][2] + lowest[right] < ways[1][2] + lowest[left]:
                ways.reverse()  # the lower one is next
            for child, side, so_far in ways:
                more = extra - costs[mask] + costs[side]
                if more <= room:
                    stack.append((child, more, so_far, {**demands, axis: side}))
            break


def stepwise(steps: Pairs) -> Callable[[int], int]:
    """The least value of some cells; a step is a mask of cells, and the value that they have."""
    return lambda mask: min([value for cells, value in steps if cells & mask])


def close(row: Row, masks: Masks, given: Bound, claim: Claim) -> None:
    """Rule 3: the bound of a case is larger than every winning total, or it is not proved."""
    case = in_reach(row, masks)
    if case is None:
        return
    masks, question, capacity = case[0], row.question, row.question.capacity or 1
    unit = max(question.unit, given.shift + 64)  # all that follows is in multiples of 2^-unit
    finer = unit - given.shift
    price = given.price << finer if question.capacity else 0
    lowest = [claim.lowest(tree, unit - question.unit) for tree in range(len(question.trees))]
    thetas: list[Thetas] = [{} for _ in lowest]

    def priced(costs: Cells) -> Callable[[int], int]:
        return lambda mask: price * costs[mask] // capacity

    changes: dict[int, list[int]] = {}  # by axis: of the sum of all θ, from cell to cell
    paid: Counter[int] = Counter()  # by axis: how many θ are the price
    for tree, a, pairs in given.theta or (asked(row, case, lowest) if price else ()):
        axis = question.axis(a)
        if tree >= len(lowest) or a in thetas[tree]:
            not_proved(f"the multipliers of tree {tree}, axis {a}: no tree, or twice")
        if not pairs:
            paid[a] += 1
            thetas[tree][a] = priced(row.cells[a])
            continue
        if a not in changes:
            changes[a] = [0] * axis.n_cells
        change, last, steps = changes[a], 0, []
        for (start, theta), (end, _) in pairwise([*axis.steps(pairs), (axis.n_cells, 0)]):
            if start >= end:
                not_proved(f"the multipliers of axis {a} do not rise from cell to cell")
            steps.append(((1 << end) - (1 << start), theta << finer))
            change[start] += theta - last
            last = theta
        thetas[tree][a] = stepwise(steps)
    bound = (claim.constant << unit - question.unit) - (given.price << finer)
    for tree, values in enumerate(lowest):
        if values is not None or thetas[tree]:
            values = values or [0] * len(question.trees[tree])
            totals = [total for total, _ in alive(row, case, tree, values, thetas[tree], False)]
            if not totals:
                return
            bound += min(totals)
    for a in {*question.used, *changes, *paid} if price else changes:
        prices, mask = [price * cost // capacity for cost in row.cells[a].costs], masks[a]
        sums = accumulate(changes.get(a, [0] * len(prices)))
        bound += min(
            (1 - paid[a]) * cost - (theta << finer)
            for cell, (cost, theta) in enumerate(zip(prices, sums, strict=True))
            if mask >> cell & 1
        )
    if bound < 0 or (bound == 0 and claim.zero_wins):
        number = float(max(Fraction(bound, 1 << unit), Fraction(-(10**300))))
        not_proved(f"the bound is {number:.6g}, an attack may win")


def asked(row: Row, case: tuple[Masks, Any], lowest: list[list[int] | None]) -> Multipliers:
    """The axes of which one tree only demands what costs: there, θ of that tree is the price."""
    trees: dict[int, set[int]] = {}
    for tree, values in enumerate(lowest):
        leaves = list(alive(row, case, tree, values, {}, True)) if values is not None else []
        if len({value for value, _ in leaves}) > 1:
            for axis, mask in {demand for _, demands in leaves for demand in demands.items()}:
                if row.cells[axis][mask] > row.cells[axis][case[0][axis]]:
                    trees.setdefault(axis, set()).add(tree)
    return [(min(some), axis, []) for axis, some in trees.items() if len(some) == 1]


def check_witness(row: Row, changes: list[tuple[int, float]]) -> None:
    """fragile, broken: z is in reach, and with it the model is right where it was wrong, or not."""
    z, question = list(row.x), row.question
    for feature, value in changes:
        z[feature] = value
    cost: Any = 0
    for axis, bounds in zip(question.axes, row.bounds, strict=True):
        if axis is not None and any(z[f] != row.x[f] for f, _ in changes if f in axis.features):
            cost += axis.cost(axis.distance(axis.of(row.x), axis.of(z), *bounds))
    if cost > question.capacity:
        not_proved("the witness costs more than the budget")
    if (question.decide(question.places(z)) == row.label) == (row.decision == row.label):
        not_proved("the witness does not change whether the model is right")


def check_parts(row: Row, given: Iterable[tuple[Weights, Iterable[Case]]]) -> None:
    """robust, vulnerable: the cases of every part are closed, and there is every part."""
    right, rivals = row.decision == row.label, []
    for number, (weights, cases) in enumerate(given):
        rivals.append(weights)
        pending = [(row.full, Claim(row, weights))]
        for place, case in enumerate(cases):
            masks, claim = pending.pop()
            try:
                if isinstance(case, Bound):
                    close(row, masks, case, claim)
                elif isinstance(case, Cut):  # rule 2
                    a, axis = case.axis, row.question.axis(case.axis)
                    if not isinstance(axis, case.kind):
                        not_proved(f"axis {a} is cut as one of the other kind")
                    some = axis.some(case.named)
                    parts = masks[a] & ~some, masks[a] & some
                    pending += [([*masks[:a], part, *masks[a + 1 :]], claim) for part in parts]
                elif right:
                    not_proved("a right row has one rival in a part, everywhere the same")
                else:  # a label that wins against all rivals wins against any mean of them
                    pending.append((masks, Claim(row, case)))
            except NotProvedError as error:
                raise NotProvedError(f"part {number}, case {place}: {error}") from None
    if row.question.model.task == "binary" or not right:
        if len(rivals) != 1:
            not_proved(f"there are {len(rivals)} parts, not one")
    elif sorted(rivals) != [[(r, 1)] for r in range(len(row.question.base)) if r != row.label]:
        not_proved("the parts are not one for every rival, with weight 1")


# ── the file ─────────────────────────────────────────────────────────────────────────────────

HEADER = {"model": str, "data": str, "attacker": dict, "labels": str, "rows": int}
HEADER |= {"written_by": str}


class Reader:
    """Numbers one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, layout: str) -> Any:
        """A number as struct has it."""
        (value,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return value

    def double(self) -> float:
        return float(self.take("<d"))

    def piece(self, n: int) -> bytes:
        """The next n bytes."""
        self.at += n
        if self.at > len(self.data):
            refuse("is cut off")
        return self.data[self.at - n : self.at]

    def varint(self) -> int:
        start = self.at
        while self.data[self.at] > 127:
            self.at += 1
        self.at += 1
        return number(self.data[start : self.at])

    def several(self, *read: Callable[[], Any]) -> list[Any]:
        """A count, and as many tuples."""
        return [tuple([one() for one in read]) for _ in range(self.varint())]


@lru_cache(1 << 16)
def number(data: bytes) -> int:
    """A varint."""
    if len(data) * 7 > LARGEST_VARINT + 7:
        refuse("holds a number that is too long")
    return sum((byte & 127) << 7 * place for place, byte in enumerate(data))


def numbers(data: bytes) -> Iterator[int]:
    """Varints, one after the other; each ends with a byte below 128."""
    if data[-1:] > b"\x7f":
        refuse("has a record that ends early")
    return map(number, re.findall(rb"[\x80-\xff]*[\x00-\x7f]", data))


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
    return Bound(shift, price, theta) if abs(shift) <= LARGEST_VARINT else refuse("holds a shift")


def read_cases(more: Iterator[int]) -> Iterator[Case]:
    """A tree of cases: each one, then all of its first part, then all of its second."""
    pending = 1
    while pending:
        kind = next(more)
        pending += (-1, 1, 1, 0)[kind]
        if kind == 0:
            yield read_bound(more)
        elif kind == 1:
            yield Cut(next(more), Line, [next(more)])
        elif kind == 2:
            yield Cut(next(more), States, [next(more) for _ in range(next(more))])
        else:
            yield read_pairs(more)


def read_parts(more: Iterator[int]) -> Iterator[tuple[Weights, Iterator[Case]]]:
    for _ in range(next(more)):
        yield read_pairs(more), read_cases(more)
    if next(more, None) is not None:
        refuse("has a record that goes on after its end")


def read_frame(data: bytes) -> tuple[dict[str, Any], list[bytes], int]:
    """The header, the blocks, still packed, and the number of records, of a file that is whole."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        refuse("is no proof of a known version; give the file that verify --proof wrote")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        refuse("is cut off or damaged; write it again")
    reader, blocks = Reader(data[:-32]), []
    reader.piece(len(MAGIC))
    header = json.loads(reader.piece(reader.take("<I")), object_pairs_hook=without_doubles)
    if type(header) is not dict or {k: type(v) for k, v in header.items()} != HEADER:
        refuse(f"has a header with other fields than {', '.join(HEADER)}, or of other types")
    while n := reader.take("<I"):
        checksum = reader.take("<I")
        blocks.append(reader.piece(n))
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
        reader = Reader(unpacker.decompress(block, LARGEST_BLOCK))
        if not unpacker.eof or unpacker.unused_data:
            refuse(f"has a block that is damaged, or longer than {LARGEST_BLOCK} bytes")
        while reader.at < len(reader.data):
            yield Reader(reader.piece(reader.varint()))


@dataclass
class Report:
    """By row: the statuses that are proved, and what is wrong with the others."""

    header: dict[str, Any]
    checked: dict[int, str] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)

    @property
    def is_proved(self) -> bool:
        """Whether every row has a status, and every status a proof."""
        return not self.wrong and len(self.checked) == self.header["rows"]

    def line(self, row: int) -> str:
        """What is to be said of a row."""
        return f"row {row}: " + self.wrong.get(row, f"{self.checked.get(row)}: checked")

    def __str__(self) -> str:
        limits = dict(self.header["attacker"])
        against = f"norm {limits.pop('norm')}, budget {float.fromhex(limits.pop('budget'))!r}"
        against += f", {json.dumps(limits)}" if limits else ""
        count = Counter(self.checked.values())
        proved = [f"{count[status]} {status}" for status in STATUSES if count[status]] or ["none"]
        wrong = f"; {len(self.wrong)} not proved" if self.wrong else ""
        return f"{self.header['rows']} rows, {against}: {', '.join(proved)} checked{wrong}"

    def judge(self, reader: Reader, question: Question, rows: Rows, labels: list[int]) -> int:
        """Go through a record, and say of which row it is."""
        number, kind = reader.varint(), reader.take("B")
        if number >= len(rows) or number in self.checked or number in self.wrong:
            refuse(f"has a record of row {number}, of which there is none, or another one")
        status = STATUSES[kind & 15]
        if kind > 31 or kind == STATUSES.index("unknown"):
            refuse(f"has a record of row {number} of the unknown kind {kind}")
        bounds = question.bounds
        if question.attacker.row_bounds:
            bounds = question.bounded(reader.several(reader.varint, reader.double, reader.double))
        try:
            if kind > 15:
                not_proved("without a proof")
            row = Row(question, rows[number], labels[number], bounds)
            if (row.decision == row.label) != (status in ("robust", "fragile")):
                not_proved(f"the model decides for {row.decision}, the label is {row.label}")
            if status in ("robust", "vulnerable"):
                check_parts(row, read_parts(numbers(reader.data[reader.at :])))
            else:
                check_witness(row, reader.several(reader.varint, reader.double))
            self.checked[number] = status
        except NotProvedError as error:
            self.wrong[number] = f"{status}: {error}"
        return number


def check(
    proof: str | os.PathLike[str],
    model: str | os.PathLike[str],
    data: str | os.PathLike[str] | tuple[Any, Any],
    *,
    label: str | None = None,
    classes: list[Any] | None = None,
    told: Callable[[str], object] = lambda _: None,
) -> Report:
    """Check a file of proofs; `Report.is_proved` says whether all statuses are proved.

    `data` is a CSV file as `carvegbm verify` takes it, or rows of numbers (categories as codes, NaN
    for what is missing) and their labels, None for the model's own decisions. `label` is the label
    column; `classes` are the class labels in the order of the model's outputs; `told` is given a
    line for every row. Raises RefusedError where a file is damaged, or they do not belong together.
    """
    name, ensemble = os.fspath(proof), read_model(os.fspath(model), classes)
    rows, names = data if isinstance(data, tuple) else read_csv(os.fspath(data), ensemble, label)
    collects = gc.isenabled()
    gc.disable()  # no cycles are made; to look for them takes as long as the rest
    try:
        header, blocks, records = read_frame(content_of(name))
        if ensemble.content() != header["model"]:
            refuse("speaks of another model; give the one that it was written for")
        if not 0 <= header["rows"] <= len(rows):
            refuse(f"speaks of {header['rows']} rows, and the data have {len(rows)}")
        rows = [[float(v) if v == v else math.nan for v in row] for row in rows[: header["rows"]]]
        question = Question(ensemble, Attacker(header["attacker"], ensemble), rows)
        if header["labels"] == "own":
            labels = [question.decide(question.places(row)) for row in rows]
        elif header["labels"] == "given" and names is not None:
            labels = places_of(list(names)[: len(rows)], ensemble.classes)
        else:
            refuse(f"has {header['labels'][:20]!r} labels, and the data have none")
        if data_content(rows, labels) != header["data"]:
            refuse("speaks of other data; give those that it was written for, and the same --label")
        report = Report(header)
        for reader in records_of(blocks):
            told(report.line(report.judge(reader, question, rows, labels)))
        if len(report.checked) + len(report.wrong) != records:
            refuse(f"ends after {len(report.checked) + len(report.wrong)} records of {records}")
        for row in range(header["rows"]):
            if row not in report.checked and row not in report.wrong:
                report.wrong[row] = "there is no record of it"
                told(report.line(row))
    except RefusedError as error:
        refuse(f"{name}: {error}")
    except DAMAGE as e:
        refuse(f"{name}: is damaged ({type(e).__name__}: {str(e)[:80]})")
    finally:
        if collects:
            gc.enable()
    return report


# ── the command line ─────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a file; 0 if all is proved, 1 if not, 2 if that cannot be said."""
    parser = argparse.ArgumentParser("carvegbm_check", description="Check a proof of verdicts.")
    parser.add_argument("proof", help="the file that carvegbm verify --proof wrote")
    parser.add_argument("model", help="LightGBM text, XGBoost JSON, or JSON of carvegbm convert")
    parser.add_argument("data", help="CSV, as carvegbm verify takes it")
    parser.add_argument("--label", help="the label column")
    parser.add_argument("--classes", help="class labels by output, separated by commas")
    parser.add_argument("--quiet", action="store_true", help="print the summary only")
    given = parser.parse_args(arguments)
    classes = [name.strip() for name in given.classes.split(",")] if given.classes else None
    how = {"label": given.label, "classes": classes} | ({} if given.quiet else {"told": print})
    try:
        report = check(given.proof, given.model, given.data, **how)
    except RefusedError as error:
        print("carvegbm_check:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    print(report)
    return 0 if report.is_proved else 1


if __name__ == "__main__":
    sys.exit(main())
