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
from itertools import accumulate, chain, pairwise, takewhile
from typing import Any, NoReturn

__all__ = ["RefusedError", "Report", "check", "main"]

MAGIC = b"carvegbm proof 1\n"
STATUSES = ("robust", "fragile", "vulnerable", "broken", "unknown")
LARGEST_BLOCK = 1 << 25  # bytes of records, unpacked
LARGEST_DEPTH = 1 << 12  # of cuts
LARGEST_VARINT = 4096  # bits; a sum of doubles in units of the smallest one has half as many
LARGEST_COUNT = 1 << 22  # of multipliers in a bound
LARGEST_STEPS = 1 << 50  # of 1 / denominator: a lattice ends there, on both sides
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
    raise RefusedError(message)


def not_proved(message: str) -> NoReturn:
    raise NotProvedError(message)


def need(condition: object, otherwise: str) -> None:
    if not condition:
        not_proved(otherwise)


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
    rule: str = "label"  # how a number becomes a code
    unknown_is_missing: bool = False

    def checked(self, classes: list[Any] | None) -> Model:
        """Itself, if it is sound."""
        splits = [node for node in chain(*self.trees) if len(node) == 5]
        leaves = [node[0] for node in chain(*self.trees) if len(node) == 1]
        if self.rule in ("truncate", "nonnegative") and not self.categories:
            self.categories = {f: {} for f, cut, *_ in splits if type(cut) is tuple}
        self.classes = classes or self.classes
        if self.task == "regression" and len(self.classes) != 2:
            refuse("is a regression model, of which there are no verdicts; give --classes A,B")
        self.task = "binary" if self.task == "regression" else self.task
        self.classes = self.classes or list(range(max(2, len(self.base))))
        if len(self.classes) != max(2, len(self.base)):
            refuse(f"has {len(self.base)} outputs and {len(self.classes)} classes; give --classes")
        sound = all(map(math.isfinite, chain(self.base, [self.threshold], *leaves)))
        sound &= len(self.base) == 1 if self.task == "binary" else self.task == "multiclass"
        sound &= self.tie in ("positive", "negative") and self.average >= 1
        sound &= self.rule in ("label", "text", "truncate", "nonnegative")
        sound &= all(len(scores) == len(self.base) for scores in leaves)
        for f, cut, *_ in splits:
            sound &= 0 <= f < self.n_features and (f in self.categories) == (type(cut) is tuple)
            if type(cut) is tuple:  # of codes >= 0, which ascend
                sound &= cut == tuple(sorted({-1, *cut})[1:])
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
    """A root, its left subtree, its right subtree; `look` gives a node, with keys for children."""
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
        text = content_of(path).decode("utf-8-sig", "replace").lstrip()
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
    pairs = [[line.partition("=")[::2] for line in part.split("\n")] for part in parts]
    head = dict(pairs[0])
    blocks = [dict(takewhile(lambda pair: pair[0], tree)) for tree in pairs[1:]]  # to a blank line
    if not end or len(head.get("tree_sizes", "").split()) not in (0, len(blocks)):
        refuse("the file ends before its trees do; it is damaged")
    if any("_" in "".join(block.values()) for block in blocks) or "sigmoid:-" in body:
        refuse("holds numbers that LightGBM does not read; the file is damaged")
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
    """A tree of the text: inner nodes first, child ~i is leaf i."""
    # LightGBM takes |v| <= 1e-35 (as float32) for 0 before it compares: a threshold next to 0 moves
    # to an end of that interval. It takes NaN for 0 where missing_type is None, both for missing
    # where it is Zero.
    if block.get("is_linear", "0") != "0":
        refuse("has linear models in its leaves; train with linear_tree=false")
    lists = {key: value.split() for key, value in block.items()}
    scores, zero = [float(score) for score in lists["leaf_value"]], single(1e-35)
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

    if len(scores) != int(block["num_leaves"]):
        refuse("has a tree with another number of leaves than it says; the file is damaged")
    return grown(0 if len(scores) > 1 else -1, look)


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


def content_of(path: str, is_packed: bool = True) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read()
        return gzip.decompress(data) if is_packed and data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_csv(path: str, model: Model, label: str | None) -> tuple[Rows, list[str]]:
    """Rows of numbers (categories as codes, NaN for what is missing), and labels as they stand."""
    try:
        lines = [line for line in content_of(path).decode("utf-8-sig").splitlines() if line.strip()]
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
            at = first.index(label) if header and label in first else int(label) % len(first)
        elif header:
            at = next((usual.index(c) for c in ("label", "target", "class", "y") if c in usual), at)
        order = [place for place in range(len(first)) if place != at]
        odd = re.compile(r'[\s",:\[\]{}]')  # LightGBM writes _ in place of each in a name
        wanted = [odd.sub("_", name) for name in model.names or ()]
        keys = [odd.sub("_", first[place]) for place in order]
        if header and sorted(keys) == sorted(wanted) and len(set(keys)) == len(keys):
            order = [order[keys.index(name)] for name in wanted]
        elif header and not (is_made_up(keys) or is_made_up(wanted)):
            refuse(f"the columns are not the model's features: {set(keys) ^ set(wanted)}")
        rows, labels = [], []
        for number, line in enumerate(cells[bool(header) :]):
            if len(line) != model.n_features + 1 or line[at].lower() in ("", "nan"):
                refuse(f"row {number} has {len(line)} cells of {model.n_features + 1}, or no label")
            rows.append([read_cell(line[place], model, f) for f, place in enumerate(order)])
            labels.append(line[at])
        return rows, labels
    except DAMAGE as error:
        refuse(f"{path}: {str(error)[:200]}; give CSV, or use carvegbm check, which reads more")


def is_made_up(names: list[str]) -> bool:
    """Names that say no more than the position, or none: such columns are taken as they stand."""
    stems = ("", "f", "Column_", "column_")
    return any(names == [f"{stem}{place}" for place in range(len(names))] for stem in stems)


def is_number(cell: str) -> bool:
    try:
        return "_" not in cell and float(cell) is not None
    except ValueError:
        return False


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


# ── the attacker, axes and cells ─────────────────────────────────────────────────────────────

NONE = (-math.inf, math.inf)  # bounds that are none
LIMITS = {"norm", "budget", "features", "down", "up", "lower", "upper", "step", "categories"}
LIMITS |= {"one_hot", "row_bounds"}


class Attacker:
    """What may be changed, how far, and at what cost, as the header of the file has it."""

    def __init__(self, given: dict[str, Any], model: Model) -> None:
        self.model, n, norm = model, model.n_features, given["norm"]

        def place(key: Any) -> int:
            is_one = str(key).isdecimal() and str(key) == str(int(key)) and int(key) < n
            return int(key) if is_one else refuse(f"the attacker names feature {key}")

        def by_feature(name: str, read: Callable[[Any], Any]) -> dict[int, Any]:
            return {place(key): read(value) for key, value in given.get(name, {}).items()}

        if given.keys() - LIMITS or not (norm == "inf" or (type(norm) is int and 0 <= norm <= 100)):
            refuse(f"the attacker has the norm {norm}, or limits that are not known here")
        self.norm: int | None = None if norm == "inf" else norm
        self.budget, one = amount(given["budget"]), Fraction(1)
        self.capacity = Fraction(0) if norm == "inf" else self.budget ** (norm or 1)
        free = {place(f) for f in given.get("features", range(n))}
        closed = dict.fromkeys(set(range(n)) - free, Fraction(0))
        down, up = by_feature("down", amount) | closed, by_feature("up", amount) | closed
        self.scale = [(down.get(f, one), up.get(f, one)) for f in range(n)]
        low, high = by_feature("lower", double), by_feature("upper", double)
        self.bounds = [(low.get(f, -math.inf), high.get(f, math.inf)) for f in range(n)]
        self.row_bounds = given.get("row_bounds", False)
        if type(self.row_bounds) is not bool:
            refuse("the attacker's row_bounds are not true or false")
        steps, codes = by_feature("step", ratio), by_feature("categories", list)
        self.step = {f: step for f, step in steps.items() if any(self.scale[f])}
        self.codes = {f: set(those) for f, those in codes.items() if any(self.scale[f])}
        groups = [[place(f) for f in group] for group in given.get("one_hot", [])]
        by_axis = enumerate(groups, n)
        self.groups = {a: group for a, group in by_axis if any(any(self.scale[f]) for f in group)}
        grouped = [f for group in self.groups.values() for f in group]
        of_one_kind = [*grouped, *self.step, *model.categories]
        foreign = self.codes.keys() - model.categories.keys()
        known = {f: labels.keys() for f, labels in model.categories.items() if labels}
        unknown = [f for f, those in self.codes.items() if those - known.get(f, those)]
        strange = [c for c in chain(*codes.values()) if type(c) is not int or not 0 <= c < 1 << 31]
        uneven = [f for f in (*self.codes, *grouped) if self.scale[f][0] != self.scale[f][1]]
        mixed = [group for group in groups if len({self.scale[f] for f in group}) > 1]
        wrong = foreign or unknown or strange or uneven or mixed
        if len(set(of_one_kind)) < len(of_one_kind) or wrong:
            refuse("the attacker's limits contradict each other, or the model")


def double(text: Any) -> float:
    """A double as float.hex writes it; in no other way, or a reader could take it for another."""
    value = float.fromhex(text)
    return value if value.hex() == text else refuse(f"{text} is no double as float.hex writes it")


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
Bounds = tuple[tuple[float, float], ...]  # of them: the least and the largest
ByAxis = dict[int, Bounds]
Pairs = list[tuple[int, int]]  # cells or states and θ, or classes and weights


class Cells(dict[int, Any]):
    """The open cells of an axis for a row, as a mask; and the least cost of some, by their mask."""

    def __init__(self, axis: Line | States, x: Values, bounds: Bounds) -> None:
        super().__init__()
        self.here, self.costs = axis.cell(x), [0] * axis.n_cells
        self.full = 1 << self.here  # to stay in the cell of x costs nothing
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
    """What a row may be moved along: d > 0 units cost `weight` d^`power`, up to a `limit`."""

    def __init__(self, attacker: Attacker, features: list[int], unit: Fraction) -> None:
        self.features, self.unit = features, unit
        norm, budget, self.power = attacker.norm, attacker.budget, attacker.norm or 0
        self.limit: list[Any] = [-1, -1]  # down, up
        self.weight: list[Any] = [Fraction(0), Fraction(0)]
        for up, scale in enumerate(attacker.scale[features[0]]):
            if scale > 0:
                at_will = math.inf if budget >= 1 else -1
                self.limit[up] = at_will if norm == 0 else budget * scale / unit
                self.weight[up] = Fraction(0) if norm is None else (unit / scale) ** norm

    def of(self, z: Sequence[Any]) -> tuple[Any, ...]:
        """What a point has for the features of the axis."""
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
        """What n units stand for where there is a step: the nearest double."""
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

    def moves(self, x: Values, bounds: Bounds) -> Iterator[tuple[int, Any]]:
        """The other cells that are open, and their costs."""
        if x[0] != x[0]:
            return
        ((first, last),), here = bounds, self.cell(x)
        own = int(self.number(x[0], first, last))
        if self.step is not None:
            first, last = self.last(math.nextafter(first, -math.inf)) + 1, self.last(last)
        elif math.isfinite(first) or math.isfinite(last):
            first = math.ceil(Fraction(first) / self.unit) if math.isfinite(first) else first
            last = math.floor(Fraction(last) / self.unit) if math.isfinite(last) else last
        for up, cells in enumerate((range(here - 1, -1, -1), range(here + 1, len(self.spans)))):
            for cell in cells:
                a, b = self.spans[cell]
                if a <= b and (a <= last if up else first <= b):
                    distance = a - own if up else own - b
                    if distance > self.far[up]:
                        break
                    yield cell, self.weight[up] * distance**self.power

    def distance(self, x: Values, z: Values, bounds: Bounds) -> Any:
        """By how many units x is moved to z; 0 if it cannot be."""
        if x[0] != x[0] or not math.isfinite(z[0]) or (not self.step and self.seen(z[0]) != z[0]):
            return 0
        return self.number(z[0], *bounds[0]) - self.number(x[0], *bounds[0])

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

    def __init__(self, attacker: Attacker, features: list[int], names: list[int]) -> None:
        super().__init__(attacker, features, Fraction(1))
        self.names, self.n_cells, self.code = names, len(names) + 1, attacker.model.code
        self.is_group = features[0] not in attacker.model.categories
        self.codes = attacker.codes.get(features[0], set())  # that may be chosen

    def cell(self, x: Values) -> int:
        if not self.is_group:
            return self.names.index(self.code(x[0])) if x[0] == x[0] else self.n_cells - 1
        need(sorted(x) == [0] * (len(x) - 1) + [1], f"{self.features} are no one-hot group")
        return x.index(1)

    def left(self, node: Node) -> int:
        if not self.is_group:
            return self.some(node[1]) | bool(node[2] == "L") << self.n_cells - 1
        member = self.features.index(node[0])
        return sum(1 << state for state in self.names if (state == member) <= node[1])

    def moves(self, x: Values, bounds: Bounds) -> Iterator[tuple[int, Any]]:
        here, states = self.cell(x), range(len(self.names))
        if self.is_group:
            inside = [[low <= 0 <= high, low <= 1 <= high] for low, high in bounds]
            chosen = [s for s in states if all(inside[i][i == s] for i in states)]
            need(here in chosen, f"features {self.features} are outside the attacker's bounds")
        else:
            chosen = [s for s in states if self.names[s] in self.codes and x[0] == x[0]]
        if self.limit[1] >= 1:
            yield from ((state, self.weight[1]) for state in chosen if state != here)

    def distance(self, x: Values, z: Values, bounds: Bounds) -> Any:
        is_state = self.is_group or z[0] in self.codes
        return int(is_state and self.cell(z) in dict(self.moves(x, bounds)))

    def steps(self, pairs: Pairs) -> Pairs:
        known = dict(pairs)
        need(len(known) == len(pairs), f"the multipliers of {self.features} name a state twice")
        return [(place, known.get(name, 0)) for place, name in enumerate((*self.names, -1))]

    def some(self, named: Sequence[int]) -> int:
        these = set(named)
        return sum(1 << place for place, name in enumerate(self.names) if name in these)


class Question:
    """A model and an attacker, prepared for all rows.

    Axis f < n is feature f, axis n + g the one-hot group g, if it may be changed; its features are
    no axes then. In `trees`, a split is (axis, mask of the cells that go left, left, right), a leaf
    (-1, 0, 0, 0); `lows` has by output, if that has scores in the tree, and by node: the least of
    the negated scores below it, and the least of the scores, in whole multiples of 2^-unit.
    """

    def __init__(self, model: Model, attacker: Attacker, rows: Rows) -> None:
        self.model, self.attacker, self.axis_of = model, attacker, list(range(model.n_features))
        splits = [node for node in chain(*model.trees) if len(node) == 5]
        self.unruly = {node[0] for node in splits if node[2] == "-"}  # without a rule for NaN
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
        self.with_states = [a for a, axis in self.axes.items() if isinstance(axis, States)]
        self.bounds = self.bounded(())
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
        scores = [node[0] for node in chain(*model.trees) if len(node) == 1]
        self.unit = 64 + exponent(chain(model.base, [model.threshold], *scores))
        self.base = [whole(value, self.unit) for value in model.base]
        self.threshold = whole(model.threshold, self.unit) * model.average
        self.trees, self.lows = [], []
        for nodes in model.trees:
            self.trees.append([self.split(n) if len(n) == 5 else (-1, 0, 0, 0) for n in nodes])
            outputs = {o for n in nodes if len(n) == 1 for o, score in enumerate(n[0]) if score}
            self.lows.append({o: [self.least(nodes, o, sign) for sign in (-1, 1)] for o in outputs})

    def split(self, node: Node) -> tuple[int, int, int, int]:
        axis = self.axis_of[node[0]]
        return axis, self.axes[axis].left(node), node[3], node[4]

    def bounded(self, given: Iterable[tuple[int, float, float]]) -> ByAxis:
        """The bounds by axis: those that are given, or the attacker's."""
        bounds = list(self.attacker.bounds)
        for feature, low, high in given:
            bounds[feature] = low, high
        return {a: axis.of(bounds) for a, axis in self.axes.items()}

    def least(self, nodes: list[Node], output: int, sign: int) -> list[int]:
        found = [0] * len(nodes)
        for place, node in reversed([*enumerate(nodes)]):  # children stand behind their parents
            if len(node) == 1:
                found[place] = sign * whole(node[0][output], self.unit)
            else:
                found[place] = min(found[node[3]], found[node[4]])
        return found

    def decide(self, places: dict[int, int]) -> int:
        """The class that the exact sums of a point decide for; given are its cells."""
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


class Row:
    """An instance, its label and its bounds; refused if the attacker's limits do not allow it."""

    def __init__(self, question: Question, x: list[float], label: int, bounds: ByAxis) -> None:
        self.question, self.x, self.label, self.bounds = question, x, label, bounds
        for f, value in enumerate(x):
            seen = single(value) if question.model.narrow else value
            if math.isinf(seen) or (value != value and f in question.unruly):
                not_proved(f"feature {f} is {value}, for which there is no rule")
        axes, cells = question.axes.items(), question.cells
        self.cells = {a: cells(axis, axis.of(x), bounds[a]) for a, axis in axes}
        self.full = {a: cells.full for a, cells in self.cells.items()}
        self.decision = question.decide({a: cells.here for a, cells in self.cells.items()})
        self.is_right = self.decision == label


# ── the rules ────────────────────────────────────────────────────────────────────────────────


class Claim:
    """No z has a total < 0, nor one of 0 if that wins: the constant, and weights of the outputs."""

    def __init__(self, row: Row, given: Pairs) -> None:
        self.question, self.constant, label = row.question, 0, row.label
        if row.question.model.task == "binary":
            need(not given, "a part has weights, where there are two classes")
            self.weights = {0: 1 if row.decision else -1}
            self.zero_wins = row.question.model.tie == ("negative" if row.decision else "positive")
            self.constant = -self.weights[0] * row.question.threshold
        else:
            rivals, sign = dict(given), 1 if row.is_right else -1
            if not any(rivals.values()) or len(rivals) < len(given) or label in rivals:
                not_proved("weights that are all 0, or twice there, or for the label")
            need(max(rivals) < len(row.question.base), f"there is no class {max(rivals)}")
            self.weights = {rival: -sign * weight for rival, weight in given if weight}
            self.zero_wins = row.is_right == any(rival < label for rival in self.weights)
            self.weights[label] = sign * sum(rivals.values())
        self.constant += sum(row.question.base[o] * weight for o, weight in self.weights.items())

    def lowest(self, tree: int, up: int) -> list[int]:
        """The least value below every node, in multiples of 2^-(unit + up); [] if all are 0."""
        lows = self.question.lows[tree]
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
    cells, used, capacity = row.cells, row.question.used, row.question.capacity
    room = capacity - sum([cells[a][masks[a]] for a in used]) if all(masks.values()) else -1
    if room < 0:
        return None
    masks = dict(masks)
    for axis in used:
        if cells[axis].most > room:
            masks[axis] &= ~cells[axis].dear(room + cells[axis][masks[axis]])
    return masks, room


def alive(
    row: Row, case: tuple[Masks, Any], tree: int, lowest: list[int], thetas: Thetas, every: bool
) -> Iterator[tuple[int, dict[int, int]]]:
    """The leaves of a tree that are alive: value and multipliers, and the cells they demand."""
    # `lowest` has the least value below every node. Without `every`, leaves that are not lower than
    # one before are left out.
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


def asked(row: Row, case: tuple[Masks, Any], lowest: list[list[int]]) -> Multipliers:
    """The axes of which one tree only demands what costs: there, θ of that tree is the price."""
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
    case, question, (shift, given_price, multipliers) = in_reach(row, masks), row.question, bound
    if case is None:
        return
    unit = max(question.unit, shift + 64)  # all that follows is in multiples of 2^-unit
    up, finer, capacity = unit - question.unit, unit - shift, question.capacity or 1
    price = given_price << finer if question.capacity else 0
    lowest = [claim.lowest(tree, up) for tree in range(len(question.trees))]
    thetas: list[Thetas] = [{} for _ in lowest]
    changes: dict[int, list[int]] = {}  # by axis: of the sum of all θ, from cell to cell
    paid: Counter[int] = Counter()  # by axis: how many θ are the price

    def priced(costs: Cells) -> Callable[[int], int]:
        return lambda mask: price * costs[mask] // capacity

    def stepwise(steps: Pairs) -> Callable[[int], int]:
        return lambda mask: min([theta for cells, theta in steps if cells & mask]) << finer

    for tree, a, pairs in multipliers or (asked(row, case, lowest) if price else ()):
        axis = question.axes.get(a) or not_proved(f"there is no axis {a}")
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
            if not start < end <= axis.n_cells:
                not_proved(f"the multipliers of axis {a} do not rise from cell to cell")
            steps.append(((1 << end) - (1 << start), theta))
            change[start] += theta - last
            last = theta
        thetas[tree][a] = stepwise(steps)
    total = (claim.constant << up) - (given_price << finer)
    for tree, values in enumerate(lowest):
        if values or thetas[tree]:
            values = values or [0] * len(question.trees[tree])
            leaves = list(alive(row, case, tree, values, thetas[tree], False))
            if not leaves:
                return
            total += min(leaf for leaf, _ in leaves)
    for a in {*question.used, *changes, *paid} if price else changes:
        costs = row.cells[a].costs
        sums, own = list(accumulate(changes.get(a) or [0] * len(costs))), 1 - paid[a]
        open_cells = members(case[0][a])
        total += min(own * (price * costs[c] // capacity) - (sums[c] << finer) for c in open_cells)
    if total < 0 or (total == 0 and claim.zero_wins):
        number = float(max(Fraction(total, 1 << unit), Fraction(-(10**300))))
        not_proved(f"the bound is {number:.6g}, an attack may win")


def check_parts(row: Row, more: Iterator[int]) -> None:
    """robust, vulnerable: the cases of every part are closed, and there is every part."""
    rivals = []
    for part in range(next(more)):
        rivals.append(read_pairs(more))
        pending, place = [(row.full, Claim(row, rivals[-1]))], 0
        while pending:
            try:
                pending += check_case(row, *pending.pop(), more)
                need(len(pending) <= LARGEST_DEPTH, "there are too many cuts in one another")
            except NotProvedError as error:
                not_proved(f"part {part}, case {place}: {error}")
            place += 1
    if next(more, None) is not None:
        refuse("has a record that goes on after its end")
    if row.question.model.task == "binary" or not row.is_right:
        need(len(rivals) == 1, f"there are {len(rivals)} parts, not one")
    elif sorted(rivals) != [[(r, 1)] for r in range(len(row.question.base)) if r != row.label]:
        not_proved("the parts are not one for every rival, with weight 1")


def check_case(row: Row, masks: Masks, claim: Claim, more: Iterator[int]) -> list[Case]:
    """Go through a case; what is left to be closed for it, the last one first."""
    kind = next(more)
    if kind == 0:
        close(row, masks, read_bound(more), claim)
        return []
    if kind == 3:  # a label that wins against all rivals wins against any mean of them
        need(not row.is_right, "a right row has one rival in a part, everywhere the same")
        return [(masks, Claim(row, read_pairs(more)))]
    if kind > 3:
        refuse(f"has a case of the unknown kind {kind}")
    a = next(more)  # rule 2
    axis = row.question.axes.get(a) or not_proved(f"there is no axis {a}")
    named = [next(more) for _ in range(next(more) if kind == 2 else 1)]
    need(isinstance(axis, Line) == (kind == 1), f"axis {a} is cut as one of the other kind")
    some = axis.some(named)
    return [({**masks, a: part}, claim) for part in (masks[a] & ~some, masks[a] & some)]


def check_witness(row: Row, changes: list[tuple[int, float]]) -> None:
    """fragile, broken: z is in reach, and with it the model is right where it was wrong, or not."""
    question, z, cost = row.question, list(row.x), Fraction(0)
    need(len(dict(changes)) == len(changes), "the witness changes a feature twice")
    for feature, value in changes:
        z[feature] = value
    for a in {question.axis_of[f] for f, _ in changes if z[f] != row.x[f]}:
        axis = question.axes[a]
        distance = axis.distance(axis.of(row.x), axis.of(z), row.bounds[a])
        up, distance = distance > 0, abs(distance)
        if distance == 0 or distance > axis.limit[up]:
            not_proved(f"the witness moves {axis.features} where the attacker cannot")
        cost += axis.weight[up] * distance**axis.power
    need(cost <= question.capacity, "the witness costs more than the budget")
    is_right = question.decide(question.places(z)) == row.label
    need(is_right != row.is_right, "the witness does not change whether the model is right")


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
        reader = Reader(unpacker.decompress(block, LARGEST_BLOCK))
        if not unpacker.eof or unpacker.unused_data:
            refuse(f"has a block that is damaged, or longer than {LARGEST_BLOCK} bytes")
        while reader.at < len(reader.data):
            yield Reader(reader.take(f"{reader.varint()}s"))


@dataclass
class Report:
    """By row: the statuses that are proved, and what is wrong with the others."""

    header: dict[str, Any]
    n_rows: int  # of the data
    checked: dict[int, str] = field(default_factory=dict)
    wrong: dict[int, str] = field(default_factory=dict)

    @property
    def is_proved(self) -> bool:
        """Whether every row has a status, and every status a proof."""
        return not self.wrong and len(self.checked) == self.header["rows"]

    def __str__(self) -> str:
        limits, usual = dict(self.header["attacker"]), {"down": 1, "up": 1}
        against = f"norm {limits.pop('norm')}, budget {float.fromhex(limits.pop('budget'))!r}"
        for name in limits.keys() & {"down", "up", "lower", "upper"}:
            numbers = {f: float.fromhex(text) for f, text in limits[name].items()}
            limits[name] = {f: v for f, v in numbers.items() if v not in (usual.get(name), *NONE)}
        said = [f"{name} {json.dumps(limit)}" for name, limit in limits.items() if limit]
        against = ", ".join([against, *said])
        count = Counter(self.checked.values())
        proved = [f"{count[status]} {status}" for status in STATUSES if count[status]] or ["none"]
        wrong = f"; {len(self.wrong)} not proved" if self.wrong else ""
        rows = self.header["rows"]
        of = f"the first {rows} of {self.n_rows} rows" if rows < self.n_rows else f"{rows} rows"
        of += " with the model's own answers as labels" if self.header["labels"] == "own" else ""
        return f"{of}, {against}: {', '.join(proved)} checked{wrong}"

    def judge(self, reader: Reader, question: Question, rows: Rows, labels: list[int]) -> str:
        """Go through a record, and say what is to be said of its row."""
        number, kind = reader.varint(), reader.take("B")
        if number >= len(rows) or number in self.checked or number in self.wrong:
            refuse(f"has a record of row {number}, of which there is none, or another one")
        status = STATUSES[kind & 15]
        if kind > 31 or kind == STATUSES.index("unknown"):
            refuse(f"has a record of row {number} of the unknown kind {kind}")
        given = reader.several(doubles=2) if question.attacker.row_bounds else []
        own = ", ".join(f"{f}: {low!r} to {high!r}" for f, low, high in given)
        try:
            need(kind < 16, "without a proof")
            bounds = question.bounded(given) if given else question.bounds
            row = Row(question, rows[number], labels[number], bounds)
            decided = f"the model decides for {row.decision}, the label is {row.label}"
            need(row.is_right == (status in ("robust", "fragile")), decided)
            if status in ("robust", "vulnerable"):
                check_parts(row, reader.rest())
            else:
                check_witness(row, reader.several(doubles=1))
                need(reader.at == len(reader.data), "the record goes on after its end")
            self.checked[number] = status
        except NotProvedError as error:
            self.wrong[number] = f"{status}: {error}"
        proved = f"{status}: checked" + (f", within {own}" if own else "")
        return f"row {number}: " + self.wrong.get(number, proved)


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
    packed, collects = content_of(name, is_packed=False), gc.isenabled()
    gc.disable()  # no cycles are made; to look for them takes as long as the rest
    try:
        header, blocks, records = read_frame(packed)
        if ensemble.content() != header["model"]:
            refuse("speaks of another model; give the one that it was written for")
        if any(len(row) != ensemble.n_features for row in rows):
            refuse(f"speaks of {ensemble.n_features} features, and the data have other rows")
        if not 1 <= header["rows"] <= len(rows):
            refuse(f"speaks of {header['rows']} rows, and the data have {len(rows)}")
        n_rows = len(rows)
        rows = [[float(v) if v == v else math.nan for v in row] for row in rows[: header["rows"]]]
        question = Question(ensemble, Attacker(header["attacker"], ensemble), rows)
        if header["labels"] == "own":
            labels = [question.decide(question.places(row)) for row in rows]
        elif header["labels"] == "given" and names is not None:
            labels = places_of(list(names)[: len(rows)], ensemble.classes)
        else:
            refuse(f"has {header['labels'][:20]!r} labels, and the data have none")
        content = hashlib.sha256()
        for row, place in zip(rows, labels, strict=True):
            content.update(struct.pack(f"<{len(row)}dI", *row, place))
        if content.hexdigest() != header["data"]:
            refuse("speaks of other data; give those that it was written for, and the same --label")
        report = Report(header, n_rows)
        for reader in records_of(blocks):
            told(report.judge(reader, question, rows, labels))
        judged = {*report.checked, *report.wrong}
        if len(judged) != records:
            refuse(f"ends after {len(judged)} records of {records}")
        for number in sorted(set(range(header["rows"])) - judged):
            report.wrong[number] = "there is no record of it"
            told(f"row {number}: {report.wrong[number]}")
    except (RefusedError, NotProvedError) as error:
        refuse(f"{name}: {error}")
    except DAMAGE as e:
        refuse(f"{name}: is damaged ({type(e).__name__}: {str(e)[:80]})")
    finally:
        if collects:
            gc.enable()
    return report


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
        print(report, flush=True)
    except RefusedError as error:
        print("carvegbm_check:", " ".join(str(error).split()), file=sys.stderr)
        return 2
    except OSError:  # nobody is told
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 2
    return 0 if report.is_proved else 1


if __name__ == "__main__":
    sys.exit(main())
