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
import ast
import csv
import ctypes
import gzip
import hashlib
import json
import math
import os
import re
import struct
import sys
import unicodedata
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

__all__ = ["RefusedError", "Report", "check", "main"]

MAGIC = b"carvegbm proof 1\n"
STATUSES = ("robust", "fragile", "vulnerable", "broken", "unknown")
LARGEST_BLOCK = 1 << 27  # bytes of records, unpacked
LARGEST_VARINT = 4096  # bits; a sum of doubles in units of the smallest one has half as many
LARGEST_COUNT = 1 << 22  # of numbers that are held at once: weights, states, multipliers
LARGEST_NORM = 100
LARGEST_STEPS = 1 << 50  # of 1 / denominator: a lattice ends there, on both sides
LARGEST_LCM = 1 << 14  # bits of a common denominator; beyond that, costs stay fractions
LARGEST_TREE = 1_000_000  # nodes


DAMAGE: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, TypeError)
DAMAGE += (ValueError, RecursionError, SyntaxError, struct.error, zlib.error)
"""What reading a damaged file may raise."""


class RefusedError(ValueError):
    """The file, the model or the data are damaged, or do not belong together."""


class NotProvedError(Exception):
    """What the file says of a row is not proved."""


def refuse(message: str) -> NoReturn:
    raise RefusedError(message)


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


def below(value: float, narrow: bool) -> float:
    return -above(-value, narrow)


def exponent(value: float) -> int:
    """The least e >= 0 such that value times 2^e is whole."""
    return value.as_integer_ratio()[1].bit_length() - 1


def whole(value: float, e: int) -> int:
    """value times 2^e, which is whole."""
    numerator, denominator = value.as_integer_ratio()
    return numerator * (1 << e) // denominator


def chosen(values: Sequence[Any], mask: int) -> Sequence[Any]:
    """The values at the places whose bits are set; most masks are a run of bits."""
    first = (mask & -mask).bit_length() - 1
    run = mask >> first
    if run & (run + 1) == 0:
        return values[first : first + run.bit_length()]
    return [value for place, value in enumerate(values) if mask >> place & 1]


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

    def checked(self) -> Model:
        """Itself, if it is sound."""
        if self.task == "regression":
            if len(self.classes) != 2:
                refuse("is a regression model, of which there are no verdicts; give --classes A,B")
            self.task = "binary"
        n = max(2, len(self.base))
        self.classes = self.classes or list(range(n))
        if self.task not in ("binary", "multiclass") or self.tie not in ("positive", "negative"):
            refuse(f"has the task {self.task!r} and the tie {self.tie!r}; the file is damaged")
        if len(self.classes) != n or (self.task == "binary") > (len(self.base) == 1):
            refuse(f"has {len(self.base)} outputs and {len(self.classes)} classes")
        if not all(map(math.isfinite, [*self.base, self.threshold])) or self.average < 1:
            refuse("has a base score, threshold or average that is no number; the file is damaged")
        for index, nodes in enumerate(self.trees):
            for node in nodes:
                if not self._is_sound(node):
                    refuse(f"tree {index} has the node {str(node)[:80]}; the file is damaged")
        return self

    def _is_sound(self, node: Node) -> bool:
        if len(node) == 1:
            return len(node[0]) == len(self.base) and all(map(math.isfinite, node[0]))
        feature, cut = node[:2]
        if (feature in self.categories) != (type(cut) is tuple):
            return False
        is_number = type(cut) is tuple or (cut == cut and (not self.narrow or single(cut) == cut))
        return 0 <= feature < self.n_features and is_number

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

    def goes_left(self, node: Node, value: float) -> bool:
        """Which way a split sends the value of its feature."""
        if value != value:
            return bool(node[2] == "L")
        if type(node[1]) is tuple:
            return self.code(value) in node[1]
        return bool((single(value) if self.narrow else value) <= node[1])


def grown(root: Any, look: Callable[[Any], Node], once: bool = True) -> list[Node]:
    """The nodes below a root: itself, its left subtree, its right subtree.

    `look` makes a node of a key, with the keys of the children in it; each is met `once`.
    """
    nodes: list[Node] = []
    seen = set()
    stack: list[tuple[Any, int, int]] = [(root, 0, 0)]
    while stack:
        key, parent, side = stack.pop()
        if (once and key in seen) or len(nodes) > LARGEST_TREE:
            refuse("has a tree with two ways to a node, or with too many; the file is damaged")
        if once:
            seen.add(key)
        if nodes:
            nodes[parent][side] = len(nodes)
        node = look(key)
        if len(node) == 5:
            stack.append((node[4], len(nodes), 4))
            stack.append((node[3], len(nodes), 3))
        nodes.append(node)
    return nodes


def read_model(path: str, classes: list[Any] | None) -> Model:
    """LightGBM's text, XGBoost's JSON, or the JSON of Ensemble.save; known by its content."""
    data = unpacked(path)
    try:
        text = data.decode("utf-8-sig")
        if data.lstrip()[:5] in (b"tree\n", b"tree\r"):
            return from_lightgbm(text.lstrip().replace("\r\n", "\n"), classes).checked()
        if data.lstrip()[:1] == b"{":
            document = json.loads(text)
            if document.get("format") == "carvegbm-ensemble":
                json.loads(text, object_pairs_hook=without_doubles)
                return from_ensemble(document, classes).checked()
            if "learner" in document or "Model" in document:
                return from_xgboost(document, classes).checked()
    except RefusedError as error:
        refuse(f"{path}: {error}")
    except DAMAGE as e:
        refuse(f"{path}: the model is damaged ({type(e).__name__}: {str(e)[:100]})")
    refuse(f"{path}: is no LightGBM text, XGBoost JSON or JSON of carvegbm convert; convert it")


def without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which no field may be there twice."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else refuse("JSON with a field that is there twice")


def from_ensemble(document: dict[str, Any], classes: list[Any] | None) -> Model:
    """The JSON that docs/ensemble-json.md describes."""
    if document["version"] not in (1, 2):
        refuse(f"is version {document['version']} of the format; 1 and 2 are read")
    given = document["nodes"]
    sides = {None: "-", "left": "L", "right": "R"}

    def look(place: int) -> Node:
        if place < 0:
            raise IndexError(place)
        node = given[place]
        if "scores" in node:
            return [tuple(map(float, node["scores"]))]
        codes = node.get("categories")
        cut = float(node["threshold"]) if codes is None else tuple(map(int, codes))
        if codes is not None and any(a >= b for a, b in pairwise((-1, *codes))):
            refuse(f"node {place}: its categories do not ascend; the file is damaged")
        side = sides[node.get("missing")]
        return [int(node["feature"]), cut, side, int(node["left"]), int(node["right"])]

    categories = {
        int(entry["feature"]): dict(zip(entry["codes"], entry["labels"], strict=True))
        for entry in document.get("categories", ())
    }
    trees, base = [grown(root, look) for root in document["roots"]], document["base_score"]
    model = Model(int(document["n_features"]), trees, [float(b) for b in base], document["task"])
    model.average, model.threshold = int(document["average"]), float(document["threshold"])
    model.tie, model.narrow = document["tie"], document["input_precision"] == "float32"
    model.names, model.classes = document["feature_names"], classes or document["classes"]
    model.categories, model.rule = categories, document.get("category_rule", "label")
    model.unknown_is_missing = document.get("unknown_category") == "missing"
    return model


def from_lightgbm(text: str, classes: list[Any] | None) -> Model:
    """A model as LightGBM's save_model writes it, with the trees as its predict reads them."""
    body, end, _ = text.partition("\nend of trees")
    header, *blocks = re.split(r"\n(?=Tree=)", body)
    parts = (header, *blocks)
    fields = [dict(line.partition("=")[::2] for line in part.split("\n")) for part in parts]
    head = fields.pop(0)
    if not end or len(head.get("tree_sizes", "").split()) not in (0, len(blocks)):
        refuse("the file ends before its trees do; it is damaged")
    n_outputs = int(head.get("num_tree_per_iteration") or head.get("num_class", "1"))
    name = (head.get("objective", "").split() or [""])[0]
    task = "regression" if n_outputs == 1 else "multiclass"
    task = "binary" if name in ("binary", "cross_entropy") else task
    trees = [lightgbm_tree(block, i % n_outputs, n_outputs) for i, block in enumerate(fields)]
    model = Model(int(head["max_feature_idx"]) + 1, trees, [0.0] * n_outputs, task)
    model.tie = "negative" if task == "binary" else "positive"
    if "average_output" in head:
        model.average = max(1, len(trees) // n_outputs)
        scores = [node[0][0] for nodes in trees for node in nodes if len(node) == 1]
        if (
            head.get("version") == "v2"
            and task == "binary"
            and 0 <= min(scores) <= max(scores) <= 1
        ):
            model.threshold = 0.5  # leaves of early versions hold probabilities
    model.names, model.classes = head["feature_names"].split(" "), classes or []
    model.categories, model.rule = by_codes(trees), "truncate"
    return model


def lightgbm_tree(block: dict[str, str], output: int, n_outputs: int) -> list[Node]:
    """A tree of the text: inner nodes first, child ~i is leaf i.

    LightGBM takes |v| <= 1e-35 (as float32) for 0 before it compares, NaN for 0 where missing_type
    is None, and both for missing where it is Zero. So a threshold next to 0 moves to an end of that
    interval; where 0 takes the side that the threshold does not give it, `torn_apart` says it.
    """
    if block.get("is_linear", "0") != "0":
        refuse("has linear models in its leaves; train with linear_tree=false")
    lists = {key: value.split() for key, value in block.items()}
    n_leaves, scores = int(block["num_leaves"]), [float(score) for score in lists["leaf_value"]]
    zero = single(1e-35)
    before = below(-zero, False)
    ends: list[tuple[float, ...]] = []  # of the pieces of every node, which go left, right, left, …

    def look(key: int) -> Node:
        ends.append(())
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
        ends[-1] = (cut, math.inf)
        if zero_left != (cut >= 0):
            ends[-1] = (*sorted((before, zero, cut)), math.inf)
        side = "L" if (default_left if missing_type == 2 else zero_left) else "R"
        return [feature, cut, side, *children]

    if len(scores) != n_leaves or n_leaves < 1:
        refuse(f"has a tree of {n_leaves} leaves with {len(scores)} scores; the file is damaged")
    nodes = grown(0 if n_leaves > 1 else -1, look)
    return torn_apart(nodes, ends) if max(map(len, ends)) > 2 else nodes


def torn_apart(nodes: list[Node], ends: list[tuple[float, ...]]) -> list[Node]:
    """The tree in which three splits stand for each that sends 0 against its threshold.

    Along a path the interval (low, high] of every feature is known, and whether it may be NaN: what
    nothing can reach is left out. NaN follows one piece that leads to its side.
    """

    def look(key: Any) -> Node:
        place, known, pieces = key
        while True:
            node = nodes[place]
            if len(node) == 1:
                return node
            feature, cut, missing = node[:3]
            if type(cut) is tuple:
                return [feature, cut, missing, *((child, known, None) for child in node[3:])]
            low, high, may_be_nan = known.get(feature, (-math.inf, math.inf, True))
            if pieces is None:
                line = [
                    (*pair, i % 2) for i, pair in enumerate(pairwise((-math.inf, *ends[place])))
                ]
                kept = [piece for piece in line if piece[0] < high and low < piece[1]]
                nan = None
                if may_be_nan:
                    nan = next(piece for piece in kept + line if piece[2] == (missing == "R"))
                    kept = [piece for piece in line if piece in kept or piece == nan]
                pieces = kept, nan
            (piece, *others), nan = pieces
            inside = known | {feature: (max(piece[0], low), min(piece[1], high), piece == nan)}
            child = node[3 + piece[2]], inside, None
            if others:
                side = "L" if piece == nan else "R"
                return [feature, min(piece[1], high), side, child, (place, known, (others, nan))]
            place, known, pieces = child

    return grown((0, {}, None), look, once=False)


def by_codes(trees: list[list[Node]]) -> dict[int, dict[int, Any]]:
    """The features that splits by codes test; their labels are not known."""
    splits = (node for nodes in trees for node in nodes if len(node) == 5)
    return {feature: {} for feature, cut, *_ in splits if type(cut) is tuple}


def from_xgboost(document: dict[str, Any], classes: list[Any] | None) -> Model:
    """XGBoost's JSON: inputs are float32, x < condition goes left, listed codes go right."""
    document = document.get("Model", document)
    learner, booster = document["learner"], document["learner"]["gradient_booster"]
    if booster.get("name") == "gblinear":
        refuse("is a linear model (gblinear), not trees")
    weights = booster.get("weight_drop")  # of dart
    model = booster.get("gbtree", booster)["model"]
    weights = model.get("weight_drop") or weights
    parameters, objective = learner["learner_model_param"], learner["objective"]["name"]
    n_outputs = max(1, int(parameters.get("num_class", "0")))
    if int(parameters.get("num_target", "1")) > 1:
        refuse("predicts several targets at once")
    if objective == "binary:logitraw" and document["version"][0] < 2:
        refuse("has the objective binary:logitraw of a version before 2")
    base = [float(part) for part in str(parameters["base_score"]).strip("[] ").split(",")]
    if model["trees"] or parameters.get("boost_from_average", "1") == "0":
        base = [xgboost_margin(value, objective) for value in base]
    trees = [
        xgboost_tree(tree, 1.0 if weights is None else weights[i], int(output), n_outputs)
        for i, (tree, output) in enumerate(zip(model["trees"], model["tree_info"], strict=True))
    ]
    model_ = Model(int(parameters["num_feature"]), trees, base, "regression", narrow=True)
    if len(base) == 1:
        model_.base = base * n_outputs
    if n_outputs > 1 or objective.startswith("multi:"):
        model_.task = "multiclass"
    elif objective.startswith("binary:") or objective == "reg:logistic":
        model_.task, model_.tie = "binary", "negative"
    model_.names, model_.classes = learner.get("feature_names") or None, classes or []
    model_.categories, model_.rule = by_codes(trees), "nonnegative"
    return model_


def xgboost_tree(tree: dict[str, Any], weight: float, output: int, n_outputs: int) -> list[Node]:
    if int(tree["tree_param"].get("size_leaf_vector", "0")) > 1:
        refuse("has a vector in every leaf (multi_output_tree)")
    left, right, condition = tree["left_children"], tree["right_children"], tree["split_conditions"]
    kinds = tree.get("split_type") or [0] * len(left)
    spans = zip(tree.get("categories_segments", ()), tree.get("categories_sizes", ()), strict=True)
    sets = {
        node: tuple(sorted(set(tree["categories"][start : start + size])))
        for node, (start, size) in zip(tree.get("categories_nodes", ()), spans, strict=True)
    }

    def look(place: int) -> Node:
        if place < 0:
            raise IndexError(place)
        if left[place] < 0:
            score = single(single(condition[place]) * single(weight))
            return [tuple(score if o == output else 0.0 for o in range(n_outputs))]
        feature, default_left = tree["split_indices"][place], bool(tree["default_left"][place])
        if kinds[place]:  # the codes that are listed go right: the children change places
            return [feature, sets[place], "R" if default_left else "L", right[place], left[place]]
        cut = below(single(condition[place]), True)
        return [feature, cut, "L" if default_left else "R", left[place], right[place]]

    return grown(0, look)


def xgboost_margin(value: float, objective: str) -> float:
    """The raw score that a base_score stands for, as XGBoost computes it: in float32."""
    logf = getattr(ctypes.CDLL(None), "logf", None) if os.name == "posix" else None
    if logf is not None:
        logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    log = logf or (lambda number: single(math.log(number)))
    value = single(value)
    if objective in ("binary:logistic", "reg:logistic"):
        edge = single(1e-6)
        value = min(max(value, edge), single(1 - edge))
        return -float(log(single(single(1 / value) - 1)))
    if objective in ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"):
        return float(log(value))
    known = (
        r"binary:(hinge|logitraw)|multi:soft(max|prob)|rank:(map|ndcg|pairwise)|reg:(absoluteerror"
    )
    known += r"|linear|pseudohubererror|quantileerror|squarederror|squaredlogerror)"
    return value if re.fullmatch(known, objective) else refuse(f"has the objective {objective!r}")


# ── the data ─────────────────────────────────────────────────────────────────────────────────

Rows = list[list[float]]
MISSING = ("", "nan", "na", "n/a", "null", "?")


def unpacked(path: str, packed: bool = True) -> bytes:
    """The content of a file; `packed`: also of a gzipped one."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        return gzip.decompress(data) if packed and data[:2] == b"\x1f\x8b" else data
    except (OSError, EOFError, zlib.error) as error:
        refuse(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}")


def read_data(path: str, model: Model, label: str | None) -> tuple[Rows, list[Any] | None]:
    """Rows of numbers (categories as codes, NaN for what is missing), and labels as they stand."""
    name, _, pair = (path, "", "") if os.path.exists(path) else path.partition(",")
    data = unpacked(name)
    try:
        if data.startswith(b"\x93NUMPY"):
            found = read_npy(data), npy_labels(name, pair or label)
        else:
            found = read_csv(data.decode("utf-8-sig"), model, label)
    except DAMAGE as error:
        refuse(f"{name}: {error}")
    for number, row in enumerate(found[0]):
        if len(row) != model.n_features:
            refuse(f"{name}: row {number} has {len(row)} features, the model {model.n_features}")
    return found


def read_csv(text: str, model: Model, label: str | None) -> tuple[Rows, list[Any]]:
    """Cells separated as most lines agree; with a header, columns find features by name."""
    lines = [line for line in text.splitlines() if line.strip()]

    def cells(line: str, by: str) -> list[str]:
        parts = line.split() if by == " " else line.split(by)
        if '"' in line:
            parts = next(csv.reader([line], delimiter=by, skipinitialspace=True))
        return [part.strip() for part in parts]

    def agreement(by: str) -> int:
        widths = Counter(len(cells(line, by)) for line in lines[:20])
        return max((count for width, count in widths.items() if width > 1), default=0)

    by = max(",;\t ", key=agreement)
    first = cells(lines[0], by)
    numbers = [cell for cell in first if is_number(cell)]
    numbered = numbers == [str(i) for i in range(len(first) - 1)]
    usual = [cell.lower() for cell in first]
    named = label in first and not is_number(label or "")
    header = named or not numbers or (numbered and {"label", "target", "class"} & set(usual))
    at = len(first) - 1
    if label is not None:
        at = first.index(label) if header and label in first else int(label) % len(first)
    elif header:
        at = next((usual.index(c) for c in ("label", "target", "class", "y") if c in usual), at)
    order = [place for place in range(len(first)) if place != at]
    if header and model.names:
        columns = [first[place] for place in order]
        order = [order[place] for place in by_name(columns, model.names)]
    rows: Rows = []
    labels: list[Any] = []
    for number, line in enumerate(lines[bool(header) :]):
        found = cells(line, by)
        if len(found) != len(first) or found[at].lower() in ("", "nan"):
            refuse(f"row {number} has {len(found)} cells of {len(first)}, or no label")
        rows.append([read_cell(found[place], model, f) for f, place in enumerate(order)])
        labels.append(found[at])
    return rows, labels


def is_number(cell: str) -> bool:
    try:
        return "_" not in cell and float(cell) is not None
    except ValueError:
        return False


def read_cell(cell: str, model: Model, feature: int) -> float:
    """A cell as a number, or as the code of the category that it names."""
    if cell.lower() in MISSING:
        return math.nan
    labels = model.categories.get(feature, {})
    if model.rule not in ("label", "text") and all(code == name for code, name in labels.items()):
        labels = {}
    for code, name in labels.items():
        if str(name) == cell or (type(name) is not str and is_number(cell) and float(cell) == name):
            return float(code)
    if labels:
        return math.nan if model.unknown_is_missing else -1.0
    if not is_number(cell):
        raise ValueError(f"{cell!r} is not a number; for names of categories, convert the model")
    return float(cell)


def by_name(columns: list[str], names: list[str]) -> list[int]:
    """The column of every feature; in order where one of the two has no names of its own."""

    def key(name: str) -> str:
        plain = re.sub(r'[\s",:\[\]{}]', "_", unicodedata.normalize("NFC", name))
        return plain.strip("_") or plain

    for spelled in (str, key):
        keys, wanted = [spelled(name) for name in columns], [spelled(name) for name in names]
        if sorted(keys) == sorted(wanted) and len(set(wanted)) == len(wanted):
            return [keys.index(name) for name in wanted]
    made_up = ("{}", "f{}", "Column_{}", "column_{}")
    for given in (columns, names):
        if any(given == [pattern.format(i) for i in range(len(given))] for pattern in made_up):
            return list(range(len(columns)))
    raise ValueError(f"its columns {columns[:6]} are not the features {names[:6]} of the model")


def read_npy(data: bytes) -> Any:
    """NumPy's format, in C order: a list of numbers or texts, or of lists of numbers."""
    start, size = (10, "<H") if data[6] == 1 else (12, "<I")
    (length,) = struct.unpack_from(size, data, 8)
    head = ast.literal_eval(data[start : start + length].decode("latin-1"))
    kind, shape, content = head["descr"], head["shape"], data[start + length :]
    codes = {"<f4": "f", "<f8": "d", "|b1": "?", "|i1": "b", "<i2": "h", "<i4": "i", "<i8": "q"}
    codes |= {"|u1": "B", "<u2": "H", "<u4": "I", "<u8": "Q"}
    text = isinstance(kind, str) and kind.startswith("<U")
    if head["fortran_order"] or len(shape) not in (1, 2) or not (text or kind in codes):
        raise ValueError("is no list or table of numbers in C order; use numpy.ascontiguousarray")
    if text:
        n = 4 * int(kind[2:])
        words = (content[i : i + n].decode("utf-32-le") for i in range(0, n * shape[0], n))
        return [word.rstrip("\0") for word in words]
    values = struct.unpack(f"<{math.prod(shape)}{codes[kind]}", content)
    if len(shape) == 1:
        return list(values)
    n = shape[1]
    return [[float(v) for v in values[i * n : (i + 1) * n]] for i in range(shape[0])]


def npy_labels(name: str, given: str | None) -> list[Any] | None:
    """The labels in the file that is named, or in the one beside X.npy that is called y.npy."""
    folder, file = os.path.split(name)
    beside = [os.path.join(folder, n) for n in (re.sub("[Xx]", "y", file, count=1), "y.npy")]
    paths = [p for p in ([given] if given else beside) if p != name and os.path.exists(p)]
    if given and not paths:
        refuse(f"{given}: no such file")
    return list(read_npy(unpacked(paths[0]))) if paths else None


def places_of(labels: Iterable[Any], classes: list[Any]) -> list[int]:
    """The place of every label among the classes; a number and a text that spells it are one."""
    known: dict[Any, int] = {}
    for place, name in enumerate(classes):
        known |= {str(name): place} | ({} if type(name) is str else {float(name): place})
    found = []
    for row, label in enumerate(labels):
        text = str(label)
        place = known.get(text, known.get(float(text), -1) if is_number(text) else -1)
        if place < 0:
            refuse(f"row {row} has the label {text!r}; the classes are {classes}; give --classes")
        found.append(place)
    return found


def data_content(rows: Rows, labels: list[int]) -> str:
    """SHA-256 of rows and labels."""
    found = hashlib.sha256()
    for row, label in zip(rows, labels, strict=True):
        plain = [value if value == value else math.nan for value in row]
        found.update(struct.pack(f"<{len(row)}dI", *plain, label))
    return found.hexdigest()


# ── the attacker, and the cells in its reach ─────────────────────────────────────────────────

LIMITS = {"norm", "budget", "features", "down", "up", "lower", "upper", "step", "categories"}
LIMITS |= {"one_hot", "row_bounds"}


class Attacker:
    """What may be changed, how far, and at what cost, as the header of the file has it."""

    def __init__(self, given: dict[str, Any], model: Model) -> None:
        n = model.n_features

        def place(key: Any) -> int:
            is_one = str(key).isdecimal() and str(key) == str(int(key)) and int(key) < n
            return int(key) if is_one else refuse(f"the attacker names feature {key}")

        def by_feature(name: str, read: Callable[[Any], Any]) -> dict[int, Any]:
            return {place(key): read(value) for key, value in given.get(name, {}).items()}

        norm, one = given["norm"], Fraction(1)
        is_norm = norm == "inf" or (type(norm) is int and 0 <= norm <= LARGEST_NORM)
        if given.keys() - LIMITS or not is_norm:
            refuse(f"the attacker has the norm {norm}, or limits that are not known here")
        self.norm: int | None = None if norm == "inf" else int(norm)
        self.budget = amount(given["budget"])
        self.capacity = Fraction(0) if norm == "inf" else self.budget ** (norm or 1)
        down, up = by_feature("down", amount), by_feature("up", amount)
        self.scale = [(down.get(f, one), up.get(f, one)) for f in range(n)]
        may_change = {place(f) for f in given.get("features", range(n))}
        self.changeable = [f in may_change and any(self.scale[f]) for f in range(n)]
        low, high = by_feature("lower", float.fromhex), by_feature("upper", float.fromhex)
        self.lower = [low.get(f, -math.inf) for f in range(n)]
        self.upper = [high.get(f, math.inf) for f in range(n)]
        self.row_bounds = given.get("row_bounds") is True
        self.step = {f: s for f, s in by_feature("step", ratio).items() if self.changeable[f]}
        codes = by_feature("categories", list)
        self.codes = {f: set(map(float, those)) for f, those in codes.items() if self.changeable[f]}
        groups = [[place(f) for f in group] for group in given.get("one_hot", [])]
        self.groups = [group if all(self.changeable[f] for f in group) else [] for group in groups]
        """Those that may be changed; [] in place of the others."""
        grouped = [f for group in self.groups for f in group]
        states, categorical = {*self.codes, *grouped}, model.categories.keys()
        if any(
            (
                any(self.scale[f][0] != self.scale[f][1] for f in states),
                any(len({(self.scale[f], self.changeable[f]) for f in g}) > 1 for g in groups),
                len(set(grouped)) < len(grouped),
                self.codes.keys() - categorical,
                any(type(c) is not int or not 0 <= c < 1 << 31 for f in codes for c in codes[f]),
                categorical & {*grouped, *self.step},
                states & self.step.keys(),
                any(not 0 < s <= 1 << 31 or s.denominator > 1 << 31 for s in self.step.values()),
            )
        ):
            refuse("the attacker's limits contradict each other, or the model")


def amount(text: Any) -> Fraction:
    """A finite double >= 0, as float.hex writes it."""
    value = float.fromhex(text)
    return Fraction(value) if 0 <= value < math.inf else refuse(f"{text} is no budget or scale")


def ratio(text: str) -> Fraction:
    """A step, as "numerator/denominator"."""
    match = re.fullmatch(r"(\d{1,10})/(\d{1,10})", text, re.ASCII)
    return Fraction(int(match[1]), int(match[2])) if match else refuse(f"{text[:40]!r} is no step")


class Lattice:
    """The multiples of a step: z(n) is the double nearest to n steps; `narrow`: read as float32."""

    def __init__(self, step: Fraction, narrow: bool, cuts: list[float]) -> None:
        self.step, self.narrow, self.end = step, narrow, LARGEST_STEPS // step.numerator
        self.known: dict[tuple[float, float], tuple[int, int]] = {}
        inner = [self._last(partial(self._is_left, cut)) for cut in cuts]
        ends = [-self.end - 1, *inner, self.end]
        self.spans = [(a + 1, b) for a, b in pairwise(ends)]  # the multiples in every cell

    def double(self, n: int) -> float:
        return n * self.step.numerator / self.step.denominator

    def _is_left(self, cut: float, n: int) -> bool:
        return (single(self.double(n)) if self.narrow else self.double(n)) <= cut

    def number(self, value: float) -> int:
        """The n that a value stands for, as a double or as the model reads it."""
        n = round(Fraction(value) / self.step)
        double = self.double(n) if abs(n) <= self.end else math.nan
        if value != double and not (self.narrow and value == single(double)):
            raise NotProvedError(f"{value} is no multiple of the step {self.step}")
        return n

    def within(self, low: float, high: float) -> tuple[int, int]:
        """The first and the last n with low <= z(n) <= high."""
        if (low, high) not in self.known:
            first = self._last(lambda n: self.double(n) < low) + 1
            self.known[low, high] = first, self._last(lambda n: self.double(n) <= high)
        return self.known[low, high]

    def _last(self, holds: Callable[[int], bool]) -> int:
        """The last n of which something holds that holds of all before; else one less than all."""
        low, high = -self.end - 1, self.end
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if holds(middle) else (low, middle - 1)
        return low


class Question:
    """A model and an attacker, prepared for all rows.

    Axis f < n is feature f, axis n + g the one-hot group g. In `trees`, leaves are [-1, number].
    """

    def __init__(self, model: Model, attacker: Attacker, rows: Rows) -> None:
        self.model, self.attacker, n = model, attacker, model.n_features
        self.axis_of = list(range(n))
        for g, group in enumerate(attacker.groups):
            for f in group:
                self.axis_of[f] = n + g
        splits = [node for nodes in model.trees for node in nodes if len(node) == 5]
        self.unruly = {node[0] for node in splits if node[2] == "-"}  # without a rule for NaN
        self.axes = sorted({self.axis_of[node[0]] for node in splits})
        cuts: dict[int, set[float]] = {axis: set() for axis in self.axes if self.is_numeric(axis)}
        for feature, cut, *_ in splits:
            if feature in cuts:
                cuts[feature].add(cut)
        self.cuts = {f: sorted(values) for f, values in cuts.items()}
        self.lattices = {
            f: Lattice(step, model.narrow, self.cuts.get(f, []))
            for f, step in attacker.step.items()
        }
        # A numeric axis in whole multiples of a unit: the first and the last number of every cell.
        self.units = {axis: Fraction(1) for axis in self.axes}
        self.spans: dict[int, list[tuple[int, int]]] = {}
        for f in self.cuts:
            if f in self.lattices:
                self.units[f], self.spans[f] = self.lattices[f].step, self.lattices[f].spans
            else:
                self._set_spans(f, [row[f] for row in rows])
        self._set_prices()
        # Scores and totals in whole multiples of 2^-unit.
        scores = [node[0] for nodes in model.trees for node in nodes if len(node) == 1]
        numbers = (value for row in (*scores, model.base, (model.threshold,)) for value in row)
        self.unit = max(map(exponent, numbers))
        self.scores = [[whole(value, self.unit) for value in row] for row in scores]
        self.base = [whole(value, self.unit) for value in model.base]
        self.threshold = whole(model.threshold, self.unit) * model.average
        number = iter(range(len(scores)))
        self.trees = [
            [node if len(node) == 5 else [-1, next(number)] for node in nodes]
            for nodes in model.trees
        ]

    def is_numeric(self, axis: int) -> bool:
        """Whether the cells of an axis lie between thresholds, or are states."""
        n = self.model.n_features
        if axis >= n + len(self.attacker.groups) or (axis < n and self.axis_of[axis] != axis):
            raise NotProvedError(f"there is no axis {axis}")
        return axis < n and axis not in self.model.categories

    def _set_spans(self, feature: int, values: list[float]) -> None:
        cuts, narrow = self.cuts[feature], self.model.narrow
        most = below(math.inf, narrow)
        firsts = [-most, *(above(cut, narrow) for cut in cuts)]
        lasts = [*(min(cut, most) for cut in cuts), most]
        finite = (v for v in (0.0, *firsts, *lasts, *values) if math.isfinite(v))
        e = max(map(exponent, finite))
        self.units[feature] = Fraction(1, 1 << e)
        self.spans[feature] = [
            (whole(first, e), whole(last, e)) if first <= last else (1, 0)
            for first, last in zip(firsts, lasts, strict=True)
        ]

    def price(self, axis: int, up: bool, unit: Fraction) -> tuple[int | float, int | Fraction]:
        """How many units an axis may be moved, and w: a move by d > 0 of them costs w d^p.

        For the norms 0 and inf it costs w: 1, and 0.
        """
        attacker, n = self.attacker, self.model.n_features
        scale = attacker.scale[axis if axis < n else attacker.groups[axis - n][0]][up]
        if scale == 0 or (attacker.norm == 0 and attacker.budget < 1):
            return -1, 0
        if attacker.norm == 0:
            return math.inf, 1
        far = attacker.budget * scale // unit
        return far, (unit / scale) ** attacker.norm if attacker.norm else 0

    def _set_prices(self) -> None:
        """Prices of all axes; costs are whole multiples of one unit, unless that is too small."""
        self.prices = {
            axis: [self.price(axis, up, unit) for up in (False, True)]
            for axis, unit in self.units.items()
        }
        self.capacity: int | Fraction = self.attacker.capacity
        weights = [weight for pair in self.prices.values() for _, weight in pair]
        common = 1
        for denominator in {number.denominator for number in (*weights, self.capacity)}:
            if common.bit_length() < LARGEST_LCM:
                common = math.lcm(common, denominator)
        if common.bit_length() < LARGEST_LCM:
            self.capacity = int(self.capacity * common)
            for axis, pair in self.prices.items():
                self.prices[axis] = [(far, int(weight * common)) for far, weight in pair]

    def decision(self, z: Sequence[float]) -> int:
        """The class that the exact sums of a point decide for."""
        sums, goes_left = list(self.base), self.model.goes_left
        for nodes in self.trees:
            node = nodes[0]
            while len(node) == 5:
                node = nodes[node[3] if goes_left(node, z[node[0]]) else node[4]]
            for output, score in enumerate(self.scores[node[1]]):
                sums[output] += score
        if self.model.task == "multiclass":
            return sums.index(max(sums))
        margin = sums[0] - self.threshold
        return int(margin > 0 or (margin == 0 and self.model.tie == "positive"))


class Row:
    """An instance, its label and its bounds; refused if the attacker's limits do not allow it."""

    def __init__(self, question: Question, x: list[float], label: int, bounds: Any) -> None:
        self.question, self.x, self.label = question, x, label
        self.lower, self.upper = bounds
        model = question.model
        for f, value in enumerate(x):
            seen = single(value) if model.narrow else value
            if math.isinf(seen) or (value != value and f in question.unruly):
                raise NotProvedError(f"feature {f} is {value}, for which there is no rule")
            if value == value and f not in model.categories:
                if f in question.lattices:
                    lattice = question.lattices[f]
                    value = lattice.double(lattice.number(value))
                if not self.lower[f] <= value <= self.upper[f]:
                    raise NotProvedError(f"feature {f} is outside the attacker's bounds")
        for group in question.attacker.groups:
            self.state(group, x)
        self.decision = question.decision(x)

    def state(self, group: list[int], z: list[float]) -> int:
        """Which member of a one-hot group is 1 where all others are 0."""
        hot = [place for place, f in enumerate(group) if z[f] == 1]
        if group and (len(hot) != 1 or any(z[f] not in (0, 1) for f in group)):
            raise NotProvedError(f"the features {group} are no one-hot group")
        return hot[0] if hot else 0

    def may_be(self, group: list[int], state: int) -> bool:
        """Whether the bounds allow a state of a group."""
        return all(self.lower[f] <= (i == state) <= self.upper[f] for i, f in enumerate(group))

    def cost(self, z: list[float], axis: int) -> int | Fraction:
        """What it costs that z differs from x on an axis, if the attacker can do that at all."""
        question, attacker, model = self.question, self.question.attacker, self.question.model
        distance, up = Fraction(1), True
        if axis >= model.n_features:
            group = attacker.groups[axis - model.n_features]
            allowed = self.may_be(group, self.state(group, z))
        elif axis in model.categories:
            allowed = z[axis] in attacker.codes.get(axis, ()) and self.x[axis] == self.x[axis]
        else:
            x, value = self.x[axis], z[axis]
            allowed = attacker.changeable[axis] and x == x and math.isfinite(value)
            if allowed and axis in question.lattices:
                lattice = question.lattices[axis]
                numbers = lattice.number(x), lattice.number(value)
                distance = (numbers[1] - numbers[0]) * lattice.step
                value = lattice.double(numbers[1])
            elif allowed:
                distance = Fraction(value) - Fraction(x)
                allowed = not model.narrow or single(value) == value
            up, distance = distance > 0, abs(distance)
            allowed = allowed and self.lower[axis] <= value <= self.upper[axis] and distance != 0
        far, cost = question.price(axis, up, distance) if allowed else (0, 0)
        if far < 1:
            raise NotProvedError(f"the witness moves axis {axis} where the attacker cannot")
        return cost


class Reach:
    """What the attacker can do to a row: the open cells of every axis, and the leaves in reach.

    By axis: `names` of the open cells, their costs, `full`, a mask with a bit for each of them, and
    `own`, that of x.
    By feature: `values`, one out of each of these cells, and the `low`est and `high`est of these,
    None where they have no order. By tree: the leaves alive, each with the masks it demands.
    """

    def __init__(self, row: Row) -> None:
        question = self.question = row.question
        model, groups = question.model, question.attacker.groups
        n = model.n_features
        self.capacity = question.capacity
        self.names: list[list[int]] = [[0] for _ in range(n + len(groups))]
        self.costs: list[list[Any]] = [[0] for _ in self.names]
        self.own = [1 for _ in self.names]
        self.values = [[value] for value in row.x]
        self.low: list[float | None] = [None] * n
        self.high: list[float] = [0.0] * n
        for axis in question.axes:
            cells = dict(self._cells(row, axis))
            here, *_ = cells
            names = self.names[axis] = sorted(cells)
            self.costs[axis] = [cells[name] for name in names]
            self.own[axis] = 1 << names.index(here)
            if axis >= n:
                for place, f in enumerate(groups[axis - n]):
                    self.values[f] = [float(name == place) for name in names]
            elif axis in model.categories:
                self.values[axis] = [row.x[axis] if name == here else float(name) for name in names]
            elif row.x[axis] == row.x[axis]:
                ends = [*question.cuts[axis], math.inf]
                values = self.values[axis] = [ends[name] for name in names]
                self.low[axis], self.high[axis] = values[0], values[-1]
        self.full = [(1 << len(names)) - 1 for names in self.names]
        self.with_states = {axis for axis in question.axes if not question.is_numeric(axis)}
        self.leasts: list[dict[int, Any]] = [{} for _ in self.names]
        self.trees = [self._leaves(nodes) for nodes in question.trees]

    def _cells(self, row: Row, axis: int) -> Iterator[tuple[int, Any]]:
        """The open cells of an axis, each with its cost; that of x is the first."""
        question, attacker, model = self.question, self.question.attacker, self.question.model
        prices = question.prices[axis]
        if not question.is_numeric(axis):
            if axis >= model.n_features:
                group = attacker.groups[axis - model.n_features]
                here = row.state(group, row.x)
                states = [state for state in range(len(group)) if row.may_be(group, state)]
            else:
                here = model.code(row.x[axis]) if row.x[axis] == row.x[axis] else 0
                states = [
                    int(code) for code in attacker.codes.get(axis, ()) if row.x[axis] == row.x[axis]
                ]
            far, weight = prices[1]
            yield here, 0
            yield from ((state, weight) for state in states if state != here and far >= 1)
            return
        x = row.x[axis]
        here = bisect_left(question.cuts[axis], single(x) if model.narrow else x) if x == x else 0
        yield here, 0
        if attacker.changeable[axis] and x == x:
            for line, (far, weight) in zip(self._moves(row, axis, here), prices, strict=True):
                for cell, distance in line:
                    if distance > far:
                        break
                    yield cell, distance ** (attacker.norm or 0) * weight

    def _moves(self, row: Row, axis: int, here: int) -> tuple[Iterator[Any], Iterator[Any]]:
        """Downwards and upwards: (cell, distance in units to the nearest that may be chosen there).

        That is the last number of a cell below, the first of one above; there may be none.
        """
        spans, unit = self.question.spans[axis], self.question.units[axis]
        x, low, high = row.x[axis], row.lower[axis], row.upper[axis]
        if axis in self.question.lattices:
            lattice = self.question.lattices[axis]
            own, (first, last) = lattice.number(x), lattice.within(low, high)
        else:
            own = int(Fraction(x) / unit)
            first = math.ceil(Fraction(low) / unit) if math.isfinite(low) else low
            last = math.floor(Fraction(high) / unit) if math.isfinite(high) else high
        down = ((cell, spans[cell]) for cell in range(here - 1, -1, -1))
        up = ((cell, spans[cell]) for cell in range(here + 1, len(spans)))
        return (
            ((cell, own - b) for cell, (a, b) in down if a <= b and first <= b),
            ((cell, a - own) for cell, (a, b) in up if a <= b and a <= last),
        )

    def _leaves(self, nodes: list[Node]) -> list[tuple[int, dict[int, int]]]:
        """The leaves of a tree that are alive in the first case, which has all open cells."""
        found = []
        low, high, full, values = self.low, self.high, self.full, self.values
        axis_of, goes_left = self.question.axis_of, self.question.model.goes_left
        stack: list[tuple[int, Any, dict[int, int]]] = [(0, 0, {})]
        while stack:
            place, extra, demands = stack.pop()
            while True:
                node = nodes[place]
                feature, cut = node[0], node[1]
                if feature < 0:
                    found.append((cut, self.affordable(demands, self.capacity - extra)))
                    break
                lowest = low[feature]
                if lowest is None:
                    every = enumerate(values[feature])
                    left = sum(1 << i for i, value in every if goes_left(node, value))
                elif cut < lowest:
                    place = node[4]
                    continue
                elif cut >= high[feature]:
                    place = node[3]
                    continue
                else:
                    left = (1 << bisect_right(values[feature], cut)) - 1
                axis = axis_of[feature]
                mask = demands.get(axis, full[axis])
                left &= mask
                right = mask & ~left
                if not right or not left:
                    place = node[3] if left else node[4]
                    continue
                to_left, to_right = self.least(axis, left), self.least(axis, right)
                rest = extra - min(to_left, to_right)
                to_left, to_right = rest + to_left, rest + to_right
                if to_right <= self.capacity:
                    stack.append((node[4], to_right, {**demands, axis: right}))
                if to_left > self.capacity:
                    break
                place, extra, demands = node[3], to_left, {**demands, axis: left}
        return found

    def affordable(self, demands: dict[int, int], room: Any) -> dict[int, int]:
        """The same without states that cost more than there is room for, beside all the others."""
        for axis, mask in demands.items() if self.with_states else ():
            if axis in self.with_states:
                most = room + self.least(axis, mask)
                dear = sum(1 << i for i, cost in enumerate(self.costs[axis]) if cost > most)
                demands = {**demands, axis: mask & ~dear}
        return demands

    def least(self, axis: int, mask: int) -> Any:
        """The least cost of these cells; that of x costs nothing."""
        if mask & self.own[axis]:
            return 0
        known = self.leasts[axis]
        if mask not in known:
            known[mask] = min(chosen(self.costs[axis], mask))
        return known[mask]


# ── the rules ────────────────────────────────────────────────────────────────────────────────


class Cut(NamedTuple):
    """Some cells of an axis: those up to the `last`, or some states."""

    axis: int
    last: int | None
    states: frozenset[int] = frozenset()


class Weights(NamedTuple):
    """The weights of rivals that count in a case from here on."""

    given: list[tuple[int, int]]


class Bound(NamedTuple):
    """λ, and θ by tree and axis as pairs (cell, θ), in whole multiples of 2^-shift."""

    shift: int
    price: int
    theta: list[tuple[int, int, list[tuple[int, int]]]]


Case = Cut | Weights | Bound


class Claim(dict[int, int]):
    """No z has a total < 0, nor one of 0 if that wins: the constant, and the values of leaves."""

    def __init__(self, question: Question, weights: dict[int, int], zero_wins: bool) -> None:
        super().__init__()
        self.scores, self.weights, self.zero_wins = question.scores, weights.items(), zero_wins
        self.constant = sum(question.base[output] * w for output, w in self.weights)

    def __missing__(self, leaf: int) -> int:
        scores = self.scores[leaf]
        self[leaf] = value = sum(scores[output] * weight for output, weight in self.weights)
        return value


def claim_of(row: Row, weights: list[tuple[int, int]]) -> Claim:
    """What a part has to show, by the table in docs/proofs.md."""
    question, label = row.question, row.label
    rivals = dict(weights)
    if question.model.task == "binary":
        if weights:
            raise NotProvedError("a part has weights, where there are two classes")
        sign = 1 if row.decision else -1
        zero_wins = question.model.tie == ("negative" if row.decision else "positive")
        claim = Claim(question, {0: sign}, zero_wins)
        claim.constant -= sign * question.threshold
        return claim
    if not any(rivals.values()) or len(rivals) < len(weights) or label in rivals:
        raise NotProvedError(
            "the weights are all 0, or one is twice there, or is that of the label"
        )
    if max(rivals) >= len(question.base):
        raise NotProvedError(f"there is no class {max(rivals)}")
    total = sum(rivals.values())
    if row.decision == label:
        first = any(rival < label for rival, weight in weights if weight)
        return Claim(question, {label: total} | {r: -weight for r, weight in weights}, first)
    first = all(label < rival for rival, weight in weights if weight)
    return Claim(question, {label: -total} | rivals, first)


def other_claim(row: Row, weights: Weights) -> Claim:
    """A label that wins against all rivals wins against any mean of them, in every case another."""
    if row.decision == row.label:
        raise NotProvedError("a right row has one rival in a part, everywhere the same")
    return claim_of(row, weights.given)


def halves(reach: Reach, masks: list[int], cut: Cut) -> list[list[int]]:
    """Rule 2: the case with all other cells of the axis, and the case with these."""
    axis, last, states = cut
    if reach.question.is_numeric(axis) == (last is None):
        raise NotProvedError(f"axis {axis} is cut as one of the other kind")
    some = 0
    for place, name in enumerate(reach.names[axis]):
        some |= (name in states if last is None else name <= last) << place
    return [[*masks[:axis], masks[axis] & m, *masks[axis + 1 :]] for m in (~some, some)]


def alive(reach: Reach, masks: list[int]) -> tuple[list[int], list[Any]] | None:
    """Rule 1: the open cells of a case, and the leaves alive in each tree; None if it is empty."""
    least, axes = reach.least, reach.question.axes
    if masks == reach.full:
        return masks, reach.trees
    if not all(masks):
        return None
    room = reach.capacity - sum(least(axis, masks[axis]) for axis in axes)
    if room < 0:
        return None
    masks = list(masks)
    for axis in axes:
        most = room + least(axis, masks[axis])
        for place, cost in enumerate(reach.costs[axis]):
            if cost > most:
                masks[axis] &= ~(1 << place)
    trees = []
    for leaves in reach.trees:
        found = []
        for leaf, demands in leaves:
            inside, extra = {}, 0
            for axis, mask in demands.items():
                both = mask & masks[axis]
                if not both:
                    break
                if both != masks[axis]:
                    inside[axis] = both
                    extra += least(axis, both) - least(axis, masks[axis])
            else:
                if extra <= room:
                    found.append((leaf, reach.affordable(inside, room - extra)))
        trees.append(found)
    return masks, trees


def line_of(reach: Reach, axis: int, pairs: list[tuple[int, int]]) -> list[int]:
    """θ of every cell of an axis that is open in the first case."""
    cells = [cell for cell, _ in pairs]
    if not reach.question.is_numeric(axis):
        known = dict(pairs)
        if len(known) < len(pairs):
            raise NotProvedError(f"the multipliers of axis {axis} name a state twice")
        return [known.get(name, 0) for name in reach.names[axis]]
    n_cuts = len(reach.question.cuts.get(axis, ()))
    if any(a >= b for a, b in pairwise((-1, *cells, n_cuts + 1))):
        raise NotProvedError(f"the multipliers of axis {axis} do not rise from cell to cell")
    values = [0, *(theta for _, theta in pairs)]
    return [values[bisect_right(cells, name)] for name in reach.names[axis]]


def close(reach: Reach, masks: list[int], given: Bound, claim: Claim) -> None:
    """Rule 3: the bound of a case is larger than every winning total, or it is not proved."""
    found = alive(reach, masks)
    if found is None:
        return
    masks, trees = found
    if not all(trees):
        return
    question, capacity, least = reach.question, reach.capacity, reach.least
    unit = max(question.unit, given.shift + 64)  # all that follows is in multiples of 2^-unit
    up, finer = unit - question.unit, unit - given.shift
    price = given.price << finer if capacity else 0
    thetas: dict[int, dict[int, list[int]]] = {}  # by tree and axis: of every cell
    sums: dict[int, list[int]] = {}  # by axis, over all trees
    for tree, axis, pairs in given.theta:
        if tree >= len(trees) or axis in thetas.setdefault(tree, {}):
            raise NotProvedError(f"the multipliers of tree {tree}, axis {axis}: no tree, or twice")
        line = thetas[tree][axis] = [theta << finer for theta in line_of(reach, axis, pairs)]
        sums[axis] = [a + b for a, b in zip(sums.get(axis, [0] * len(line)), line, strict=True)]
    if price:  # θ is the price of a cell where one tree asks for what costs, and none is given
        owners: dict[int, int | None] = {}
        for tree, leaves in enumerate(trees):
            if len({claim[leaf] for leaf, _ in leaves}) > 1:
                asked = {(axis, mask) for _, demands in leaves for axis, mask in demands.items()}
                for axis in {a for a, mask in asked if least(a, mask) > least(a, masks[a])}:
                    owners[axis] = None if axis in owners else tree
        for axis, owner in owners.items():
            if owner is not None and axis not in sums:
                sums[axis] = [price * cost // capacity for cost in reach.costs[axis]]
                thetas.setdefault(owner, {})[axis] = sums[axis]

    bound = (claim.constant << up) - (given.price << finer)
    for tree, leaves in enumerate(trees):
        lines = thetas.get(tree, {})
        lows = {axis: min(chosen(line, masks[axis])) for axis, line in lines.items()}
        totals = []
        for leaf, demands in leaves:
            total = claim[leaf] << up
            for axis in lines.keys() & demands.keys() if lines else ():
                total += min(chosen(lines[axis], demands[axis])) - lows[axis]
            totals.append(total)
        bound += min(totals) + sum(lows.values())
    for axis in question.axes if price else ():
        if axis not in sums:
            bound += price * least(axis, masks[axis]) // capacity
    for axis, line in sums.items():
        costs, thetas_ = chosen(reach.costs[axis], masks[axis]), chosen(line, masks[axis])
        priced = [price * cost // capacity if price else 0 for cost in costs]
        bound += min(a - b for a, b in zip(priced, thetas_, strict=True))
    if bound < 0 or (bound == 0 and claim.zero_wins):
        number = float(max(Fraction(bound, 1 << unit), Fraction(-(10**300))))
        raise NotProvedError(f"the bound is {number:.6g}, an attack may win")


def check_witness(row: Row, changes: list[tuple[int, float]]) -> None:
    """fragile, broken: z is in reach, and with it the model is right where it was wrong, or not."""
    question = row.question
    z = list(row.x)
    for feature, value in changes:
        z[feature] = value
    moved = {question.axis_of[f] for f, _ in changes if z[f] != row.x[f]}
    if sum(row.cost(z, axis) for axis in moved) > question.attacker.capacity:
        raise NotProvedError("the witness costs more than the budget")
    if (question.decision(z) == row.label) == (row.decision == row.label):
        raise NotProvedError("the witness does not change whether the model is right")


def check_parts(row: Row, parts: Iterable[tuple[list[tuple[int, int]], Iterable[Case]]]) -> None:
    """robust, vulnerable: the cases of every part are closed, and there is every part."""
    reach = Reach(row)
    rivals = []
    for number, (weights, cases) in enumerate(parts):
        rivals.append(weights)
        claim = claim_of(row, weights)
        pending = [(reach.full, claim)]
        for place, case in enumerate(cases):
            masks, claim = pending.pop()
            try:
                if isinstance(case, Weights):
                    pending.append((masks, other_claim(row, case)))
                elif isinstance(case, Cut):
                    pending += [(half, claim) for half in halves(reach, masks, case)]
                else:
                    close(reach, masks, case, claim)
            except NotProvedError as error:
                raise NotProvedError(f"part {number}, case {place}: {error}") from None
    if row.question.model.task == "binary" or row.decision != row.label:
        if len(rivals) != 1:
            raise NotProvedError(f"there are {len(rivals)} parts, not one")
    elif sorted(rivals) != [[(r, 1)] for r in range(len(row.question.base)) if r != row.label]:
        raise NotProvedError("the parts are not one for every rival, with weight 1")


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

    def bytes_of(self, n: int) -> bytes:
        self.at += n
        if self.at > len(self.data):
            raise ValueError("it ends too early")
        return self.data[self.at - n : self.at]

    def varint(self) -> int:
        data, at = self.data, self.at
        byte = data[at]
        value, shift = byte & 127, 7
        while byte > 127:
            at += 1
            byte = data[at]
            value |= (byte & 127) << shift
            shift += 7
            if shift > LARGEST_VARINT:
                raise ValueError("a number is too long")
        self.at = at + 1
        return value

    def count(self) -> int:
        """How many numbers follow that are held at once."""
        value = self.varint()
        return value if value <= LARGEST_COUNT else refuse("a record holds too many numbers")

    def signed(self) -> int:
        value = self.varint()
        return -(value + 1 >> 1) if value & 1 else value >> 1

    def parts(self) -> Iterator[tuple[list[tuple[int, int]], Iterator[Case]]]:
        """Weights and cases of every part; cases that nobody has asked for are read over."""
        for _ in range(self.varint()):
            weights = [(self.varint(), self.varint()) for _ in range(self.count())]
            cases = self.cases()
            yield weights, cases
            for _ in cases:
                pass

    def cases(self) -> Iterator[Case]:
        """A tree of cases: each one, then all of its first part, then all of its second."""
        varint, pending = self.varint, 1
        while pending:
            kind = self.take("B")
            pending += (-1, 1, 1, 0)[kind]
            if kind == 0:
                shift, price, theta, axis, held = self.signed(), varint(), [], 0, 0
                for _ in range(varint()):
                    axis += varint()
                    tree, trees = 0, varint()
                    for _ in range(trees):
                        tree += varint()
                        pairs = [(varint(), self.signed()) for _ in range(self.count())]
                        theta.append((tree, axis, pairs))
                        held += 1 + len(pairs)
                        if held > LARGEST_COUNT:
                            refuse("a bound holds too many numbers")
                if abs(shift) > LARGEST_VARINT:
                    raise ValueError("a shift is too large")
                yield Bound(shift, price, theta)
            elif kind == 1:
                yield Cut(varint(), varint())
            elif kind == 2:
                yield Cut(varint(), None, frozenset([varint() for _ in range(self.count())]))
            else:
                yield Weights([(varint(), varint()) for _ in range(self.count())])


def read_frame(data: bytes) -> tuple[dict[str, Any], list[bytes], int]:
    """The header, the blocks, still packed, and the number of records, of a file that is whole."""
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        refuse("is no proof of a known version; give the file that verify --proof wrote")
    if hashlib.sha256(data[:-32]).digest() != data[-32:]:
        refuse("is cut off or damaged; write it again")
    reader, blocks = Reader(data[:-32]), []
    reader.bytes_of(len(MAGIC))
    header = json.loads(reader.bytes_of(reader.take("<I")), object_pairs_hook=without_doubles)
    if type(header) is not dict or {k: type(v) for k, v in header.items()} != HEADER:
        refuse(f"has a header with other fields than {', '.join(HEADER)}, or of other types")
    while n := reader.take("<I"):
        checksum, block = reader.take("<I"), reader.bytes_of(n)
        if zlib.crc32(block) != checksum:
            refuse("has a block with another checksum; it is damaged")
        blocks.append(block)
    records = reader.take("<Q")
    if reader.at != len(reader.data):
        refuse("goes on after its end; it is damaged")
    return header, blocks, records


def records_of(blocks: Iterable[bytes]) -> Iterator[Reader]:
    """A reader where a record begins; who takes it leaves it where the next one begins."""
    for block in blocks:
        unpacker = zlib.decompressobj()
        reader = Reader(unpacker.decompress(block, LARGEST_BLOCK))
        if not unpacker.eof or unpacker.unused_data:
            refuse(f"has a block that is damaged, or longer than {LARGEST_BLOCK} bytes")
        while reader.at < len(reader.data):
            yield reader


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
        """Take the next record, and say of which row it was."""
        number, kind = reader.varint(), reader.take("B")
        if number >= len(rows) or number in self.checked or number in self.wrong:
            refuse(f"has a record of row {number}, of which there is none, or another one")
        status, proved = STATUSES[kind & 15], kind < 16
        if kind > 31 or (proved and status == "unknown"):
            refuse(f"has a record of row {number} of the unknown kind {kind}")
        bounds = list(question.attacker.lower), list(question.attacker.upper)
        if question.attacker.row_bounds:
            for _ in range(reader.varint()):
                f = reader.varint()
                bounds[0][f], bounds[1][f] = reader.take("<d"), reader.take("<d")
        parts: Iterator[Any] = iter(())
        changes: list[tuple[int, float]] = []
        if proved and status in ("robust", "vulnerable"):
            parts = reader.parts()
        elif proved:
            changes = [(reader.varint(), reader.take("<d")) for _ in range(reader.count())]
        try:
            if not proved:
                raise NotProvedError("without a proof")
            row = Row(question, rows[number], labels[number], bounds)
            if (row.decision == row.label) != (status in ("robust", "fragile")):
                raise NotProvedError(
                    f"the model decides for {row.decision}, the label is {row.label}"
                )
            if status in ("robust", "vulnerable"):
                check_parts(row, parts)
            else:
                check_witness(row, changes)
            self.checked[number] = status
        except NotProvedError as error:
            self.wrong[number] = f"{status}: {error}"
        for _ in parts:  # what is left of a record that is wrong
            pass
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

    `data` is a file as `carvegbm verify` takes it, or rows of numbers (categories as codes, NaN for
    what is missing) and their labels, None for the model's own decisions. `label` is the label
    column, or the file of labels of an .npy file; `classes` are the class labels in the order of
    the model's outputs; `told` is given a line for every row. Raises RefusedError where a file
    is damaged, or they do not belong together.
    """
    name = os.fspath(proof)
    ensemble = read_model(os.fspath(model), classes)
    if isinstance(data, tuple):
        rows, names = [[float(value) for value in row] for row in data[0]], data[1]
    else:
        rows, names = read_data(os.fspath(data), ensemble, label)
    try:
        header, blocks, records = read_frame(unpacked(name, False))
        if ensemble.content() != header["model"]:
            refuse("speaks of another model; give the one that it was written for")
        if not 0 <= header["rows"] <= len(rows):
            refuse(f"speaks of {header['rows']} rows, and the data have {len(rows)}")
        rows = rows[: header["rows"]]
        question = Question(ensemble, Attacker(header["attacker"], ensemble), rows)
        if header["labels"] == "own":
            labels = [question.decision(row) for row in rows]
        elif header["labels"] == "given" and names is not None:
            labels = places_of(list(names)[: len(rows)], ensemble.classes)
        else:
            refuse(f"has {header['labels'][:20]!r} labels, and the data have none")
        if data_content(rows, labels) != header["data"]:
            refuse("speaks of other data; give those that it was written for, and the same --label")
        report = Report(header)
        count = 0
        for reader in records_of(blocks):
            told(report.line(report.judge(reader, question, rows, labels)))
            count += 1
        if count != records:
            refuse(f"has {count} records, and says that there are {records}")
    except RefusedError as error:
        refuse(f"{name}: {error}")
    except DAMAGE as e:
        refuse(f"{name}: is damaged ({type(e).__name__}: {str(e)[:80]})")
    for row in range(header["rows"]):
        if row not in report.checked and row not in report.wrong:
            report.wrong[row] = "there is no record of it"
            told(report.line(row))
    return report


# ── the command line ─────────────────────────────────────────────────────────────────────────


def main(arguments: Sequence[str] | None = None) -> int:
    """Check a file; 0 if all is proved, 1 if not, 2 if that cannot be said."""
    parser = argparse.ArgumentParser("carvegbm_check", description="Check a proof of verdicts.")
    parser.add_argument("proof", help="the file that carvegbm verify --proof wrote")
    parser.add_argument("model", help="LightGBM text, XGBoost JSON, or JSON of carvegbm convert")
    parser.add_argument("data", help="CSV or .npy, as carvegbm verify takes it")
    parser.add_argument("--label", help="the label column, or the file of labels of an .npy file")
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
