"""Trained models: trees as arrays, the ensemble they form, and LightGBM's text of them.

A `GrownTree` is made from LightGBM's text of a tree on codes, or from a tree of the robust grower.
A `GBDTModel` joins trees into an `Ensemble`, and writes LightGBM's text, in which every number
reads back as the same double.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.model.ensemble import Ensemble, Task
from carvegbm.readers.common import Classes, Tree, assemble
from carvegbm.readers.lightgbm import from_text
from carvegbm.training.binning import ZERO_ZONE, BinMapper
from carvegbm.training.dataset import spaced_rows
from carvegbm.training.large_spread.exclusion import OpenThresholds
from carvegbm.training.validation import blank_ensemble

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["CategorySet", "GBDTModel", "GrownTree", "ModelSpec", "header_of", "objective_of"]
__all__ += ["safe_names", "stored_scores"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

_ONLY_MISSING = float(np.finfo(np.float64).max)
"""Threshold of a split that sends every number left, and missing values right."""

_INTEGER = np.int64
_MAX_CODE = 1 << 31
# Keys of LightGBM's text that only inform, in its order, and the format of their numbers.
_STATISTICS = {"split_gain": "g", "leaf_weight": ".17g", "leaf_count": ""}
_STATISTICS |= {"internal_value": "g", "internal_weight": "g", "internal_count": ""}
_INTEGERS = {"split_feature", "left_child", "right_child", "decision_type"}
_INTEGERS |= {"leaf_count", "internal_count"}
# LightGBM's decision types: a split by categories; missing values go left; NaN is missing.
_CATEGORICAL, _MISSING_LEFT, _NAN_IS_MISSING = 1, 2, 8
_WORD_BITS = 32

# How LightGBM's `predict` gets from raw scores to labels.
_LINKS: dict[Task, dict[str, Any]] = {
    "binary": {"link": "logistic", "tie": "negative", "compares": "probability"},
    "multiclass": {"link": "softmax", "compares": "probability"},
    "regression": {},
}


class CategorySet(NamedTuple):
    """The categories that go left at a split: as numbers in the data, ascending, and as codes."""

    categories: Ints
    codes: Ints


@dataclass(frozen=True, eq=False)
class GrownTree:
    """A tree that splits at candidate thresholds.

    Attributes
    ----------
    feature, position, threshold : array (n_splits,)
        x goes left iff x <= threshold, number `position` of the feature's candidates (one past the
        last: x is not missing), a code c iff c <= position. Of categories: the number of the set.
    left, right : int array (n_splits,)
        A child: number of a split, or ~i for leaf i.
    value : array (n_leaves,)
    decision_type : int array (n_splits,)
        As LightGBM defines it.
    statistics : mapping from str to array
        Gains, hessians and row counts, by the keys of LightGBM's text.
    sets : mapping from split to CategorySet
    missing_code : mapping from split to int
        The code of missing values, if known.
    """

    feature: Ints
    position: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    decision_type: Ints
    statistics: Mapping[str, npt.NDArray[Any]]
    sets: Mapping[int, CategorySet] = field(default_factory=dict)
    missing_code: Mapping[int, int] = field(default_factory=dict)
    shrinkage: float = 1.0

    @classmethod
    def parse(cls, text: str, open_thresholds: OpenThresholds) -> GrownTree:
        """Read the last tree of LightGBM's text of a model on codes."""
        start = text.rindex("\nTree=") + 1
        block = text[text.index("\n", start) + 1 : text.index("end of trees", start)]
        fields = dict(line.split("=", 1) for line in block.split("\n") if line)

        def numbers(key: str) -> npt.NDArray[Any]:
            return np.array(fields[key].split(), dtype=_INTEGER if key in _INTEGERS else np.float64)

        feature, left, right, types = (
            numbers(key) for key in ("split_feature", "left_child", "right_child", "decision_type")
        )
        # A threshold between codes c and c + 1 is written as a number in [c, c + 1), one above all
        # codes as infinity.
        codes = np.minimum(numbers("threshold"), _MAX_CODE).astype(_INTEGER)
        sets = _read_sets(fields, feature, types, codes, open_thresholds)
        position, missing_code = np.zeros_like(feature), {}
        for split in sorted({*range(len(feature))} - sets.keys()):
            f, code = int(feature[split]), int(codes[split])
            n_thresholds = len(open_thresholds.thresholds[f])
            if f in open_thresholds.missing:
                missing_code[split] = n_thresholds + 1
            position[split] = open_thresholds.threshold_at(f, code)
            if position[split] < 0:  # all numbers go right: exchange the children
                left[split], right[split] = right[split], left[split]
                types[split] ^= _MISSING_LEFT
                position[split] = n_thresholds
        return cls(
            *(feature, position, _thresholds(feature, position, sets, open_thresholds.thresholds)),
            *(left, right, numbers("leaf_value"), types),
            {key: numbers(key) for key in _STATISTICS},
            sets,
            missing_code,
            float(fields["shrinkage"]),
        )

    @classmethod
    def from_coded(cls, tree: _core.CodedTree, values: Floats, bins: BinMapper) -> GrownTree:
        """Convert a tree of the robust grower, with these leaf values."""
        rows = np.asarray(tree.rows, dtype=_INTEGER)
        if len(tree.feature) == 0:
            return cls.constant(float(values[0]), int(rows[0]))
        feature, position, left, right = (
            each.astype(_INTEGER) for each in (tree.feature, tree.position, tree.left, tree.right)
        )
        sets = {
            split: CategorySet(bins.categories[f][np.array(codes) - 1], np.array(codes))
            for split, (f, codes) in enumerate(zip(feature.tolist(), tree.sets, strict=True))
            if codes is not None
        }
        nan_types = _NAN_IS_MISSING + _MISSING_LEFT * (tree.missing_left > 0)
        types = np.where(np.isin(feature, list(bins.missing)), nan_types, _MISSING_LEFT)
        types[list(sets)] = _CATEGORICAL + _NAN_IS_MISSING
        statistics = {"split_gain": tree.gain, "leaf_weight": tree.hessians, "leaf_count": rows}
        threshold = _thresholds(feature, position, sets, bins.thresholds)
        return cls(feature, position, threshold, left, right, values, types, statistics, sets)

    @classmethod
    def constant(cls, value: float, n_rows: int) -> GrownTree:
        """Return a tree of one leaf."""
        ints, floats = np.empty(0, dtype=_INTEGER), np.empty(0)
        statistics = {**dict.fromkeys(_STATISTICS, floats), "leaf_count": np.array([n_rows])}
        return cls(ints, ints, floats, ints, ints, np.array([float(value)]), ints, statistics)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.value)

    @property
    def missing_left(self) -> Bools:
        """Whether a missing value goes left, per split; it is read as 0 unless NaN has a rule."""
        has_rule = self.decision_type & _NAN_IS_MISSING > 0
        left = np.where(has_rule, self.decision_type & _MISSING_LEFT > 0, self.threshold >= 0)
        left[list(self.sets)] = False
        return left

    def shifted(self, bias: float) -> GrownTree:
        """Return the tree with `bias` added to every leaf, as LightGBM adds an initial score."""
        inner = {"internal_value": self.statistics["internal_value"] + bias}
        statistics = {**self.statistics, **inner}
        return replace(self, value=self.value + bias, statistics=statistics, shrinkage=1.0)

    def with_counts(self, count: Ints) -> GrownTree:
        """Return the tree with these numbers of rows in its leaves."""
        statistics = {**self.statistics, "leaf_count": count}
        if self.n_leaves > 1:
            below = _sums_below(self.left, self.right, count)
            total = _sums_below(self.left, self.right, count * self.value)
            weight = self.statistics["leaf_weight"]
            statistics.setdefault("internal_weight", _sums_below(self.left, self.right, weight))
            statistics["internal_count"] = below.astype(_INTEGER)
            statistics["internal_value"] = total / np.maximum(below, 1)
        return replace(self, statistics=statistics)

    def add_to(self, raw: Floats, codes: npt.NDArray[Any]) -> None:
        """Add every row's leaf value to its raw score."""
        if self.n_leaves == 1:
            raw += self.value[0]
            return
        missing_left = self.missing_left
        pending: list[tuple[int, Ints | None]] = [(0, None)]
        while pending:
            node, rows = pending.pop()
            if node < 0:
                raw[rows] += self.value[~node]
                continue
            column = codes[:, self.feature[node]]
            column = column if rows is None else column[rows]
            if node in self.sets:
                is_left = np.isin(column, self.sets[node].codes)
            else:
                is_left = column <= self.position[node]
                if node in self.missing_code and missing_left[node]:
                    is_left |= column == self.missing_code[node]
            left, right = np.flatnonzero(is_left), np.flatnonzero(~is_left)
            if rows is not None:
                left, right = rows[left], rows[right]
            pending += [(int(self.left[node]), left), (int(self.right[node]), right)]

    def as_tree(self, output: int) -> Tree:
        """Return the tree as a reader would find it in the model's text."""
        n_leaves = self.n_leaves
        if n_leaves == 1:
            return Tree.leaf(float(self.value[0]), output)
        left, right = (
            np.where(side < 0, n_leaves - 2 - side, side) for side in (self.left, self.right)
        )
        none = np.full(n_leaves, -1, dtype=_INTEGER)
        return Tree(
            feature=np.concatenate([self.feature, none]),
            threshold=np.concatenate([self.threshold, np.zeros(n_leaves)]),
            left=np.concatenate([left, none]),
            right=np.concatenate([right, none]),
            missing=np.concatenate([self.missing_left.astype(_INTEGER), none]),
            score=np.concatenate([np.zeros(len(self.threshold)), self.value]),
            output=output,
            sets={split: own.categories for split, own in self.sets.items()},
        )

    def text(self, index: int) -> str:
        """Return LightGBM's text of the tree as number `index` of its model."""
        statistics = self.statistics
        if "internal_count" not in statistics:
            statistics = self.with_counts(statistics["leaf_count"]).statistics
        words = [_bit_words(self.sets[split].categories) for split in sorted(self.sets)]
        fields = {
            "Tree": str(index),
            "num_leaves": str(self.n_leaves),
            "num_cat": str(len(self.sets)),
            "split_feature": _joined(self.feature),
            "split_gain": "",
            "threshold": _joined(self.threshold, ".17g"),
            "decision_type": _joined(self.decision_type),
            "left_child": _joined(self.left),
            "right_child": _joined(self.right),
            "leaf_value": _joined(self.value, ".17g"),
        }
        fields |= {key: _joined(statistics[key], form) for key, form in _STATISTICS.items()}
        if self.sets:
            fields["cat_boundaries"] = _joined(np.cumsum([0, *map(len, words)]))
            fields["cat_threshold"] = _joined(np.concatenate(words))
        fields |= {"is_linear": "0", "shrinkage": f"{self.shrinkage:g}"}
        return "".join(f"{key}={value}\n" for key, value in fields.items()) + "\n\n"


def _thresholds(
    feature: Ints, position: Ints, sets: Mapping[int, CategorySet], known: Sequence[Floats]
) -> Floats:
    """Return the threshold of every split, or the number of its set."""
    found = np.zeros(len(feature))
    for split, (f, p) in enumerate(zip(feature.tolist(), position.tolist(), strict=True)):
        if split not in sets:
            found[split] = known[f][p] if p < len(known[f]) else _ONLY_MISSING
    found[sorted(sets)] = np.arange(len(sets))
    return found


def _joined(numbers: npt.NDArray[Any], form: str = "") -> str:
    return " ".join(format(number, form) for number in numbers.tolist())


def _sums_below(left: Ints, right: Ints, per_leaf: npt.NDArray[Any]) -> Floats:
    """Per split, the sum over the leaves below it."""
    found = np.zeros(len(left))
    for node in range(len(left) - 1, -1, -1):  # children come after their parent
        for child in (int(left[node]), int(right[node])):
            found[node] += per_leaf[~child] if child < 0 else found[child]
    return found


def _read_sets(
    fields: Mapping[str, str], feature: Ints, types: Ints, numbers: Ints, known: OpenThresholds
) -> dict[int, CategorySet]:
    """Read the sets of a tree on codes, by split.

    Code c is in a set iff bit c % 32 of its word c // 32 is set; set i starts at bounds[i].
    """
    found = {}
    for split in np.flatnonzero(types & _CATEGORICAL).tolist():
        bounds = [int(bound) for bound in fields["cat_boundaries"].split()]
        words = fields["cat_threshold"].split()[slice(*bounds[numbers[split] :][:2])]
        bits = np.array([int(word) >> bit & 1 for word in words for bit in range(_WORD_BITS)])
        codes = np.flatnonzero(bits)
        found[split] = CategorySet(known.categories[int(feature[split])][codes - 1], codes)
    return found


def _bit_words(members: Ints) -> npt.NDArray[np.uint32]:
    """Return the shortest array of words with these bits set."""
    words = np.zeros(int(members[-1]) // _WORD_BITS + 1, dtype=np.uint32)
    bits = np.uint32(1) << (members % _WORD_BITS).astype(np.uint32)
    np.bitwise_or.at(words, members // _WORD_BITS, bits)
    return words


@dataclass(frozen=True)
class ModelSpec:
    """The task and the features of a model.

    `n_outputs` is 1 except for multiclass, `feature_names` are those of `safe_names`, `categories`
    has the label of every category seen, by feature and code, and `category_labels` the labels of
    every column of the training frame that held categories, in column order.
    """

    task: Task
    n_outputs: int
    feature_names: Sequence[str]
    classes: Classes = None
    categories: Mapping[int, Mapping[int, Any]] = field(default_factory=dict)
    category_labels: Sequence[Sequence[Any]] = ()

    def blank(self) -> Ensemble:
        """Return a constant ensemble with these features."""
        return blank_ensemble(len(self.feature_names), self.feature_names, self.categories)

    def ensemble(self, trees: Sequence[GrownTree], link_scale: float = 1.0) -> Ensemble:
        """Return the ensemble of trees, which belong to outputs 0, 1, … in turn."""
        link = dict(_LINKS[self.task])
        if self.task == "binary":
            link["link_scale"] = link_scale
        return assemble(
            [tree.as_tree(index % self.n_outputs) for index, tree in enumerate(trees)],
            n_outputs=self.n_outputs,
            n_features=len(self.feature_names),
            task=self.task,
            classes=self.classes,
            feature_names=self.feature_names,
            categories=self.categories,
            category_rule="truncate",
            **link,
        )


@dataclass(frozen=True, eq=False)
class GBDTModel:
    """A trained model.

    `trees` belong to outputs 0, 1, … in turn; `header` is LightGBM's text of any model trained with
    the same parameters.
    """

    trees: Sequence[GrownTree]
    spec: ModelSpec
    header: str
    bins: BinMapper

    @cached_property
    def ensemble(self) -> Ensemble:
        """The trees as an ensemble."""
        scale = re.search(r"sigmoid:(\S+)", objective_of(self.header))
        return self.spec.ensemble(self.trees, link_scale=float(scale[1]) if scale else 1.0)

    def with_scores(self, scores: Floats) -> GBDTModel:
        """Return the same trees with other scores, of shape (n_leaves, n_outputs)."""
        parts, n_outputs = np.split(scores, self._ends()), self.spec.n_outputs
        trees = [
            replace(tree, value=parts[index][:, index % n_outputs])
            for index, tree in enumerate(self.trees)
        ]
        return replace(self, trees=trees)

    def with_counts(self, X: Any, threads: int) -> GBDTModel:
        """Return the same model; its text counts the rows of X in every leaf."""
        states = np.ascontiguousarray(self.ensemble.states(X))
        counts = np.asarray(self.ensemble.core.leaf_counts(states, threads))
        pairs = zip(self.trees, np.split(counts, self._ends()), strict=True)
        return replace(self, trees=[tree.with_counts(own) for tree, own in pairs])

    def _ends(self) -> Ints:
        """Where the leaves of the next tree begin."""
        return np.cumsum([tree.n_leaves for tree in self.trees])[:-1]

    def text(self) -> str:
        """Return LightGBM's text of the model."""
        spec, names = self.spec, self.spec.feature_names
        blocks = [tree.text(index) for index, tree in enumerate(self.trees)]
        fields = _header_fields(self.header)
        fields.setdefault("objective", f"multiclass num_class:{spec.n_outputs}")
        fields |= {
            "num_class": str(spec.n_outputs),
            "num_tree_per_iteration": str(spec.n_outputs),
            "feature_names": " ".join(names),
            "feature_infos": " ".join(self._feature_infos()),
            "tree_sizes": " ".join(str(len(block)) for block in blocks),
        }
        first = ["tree", "version", "num_class", "num_tree_per_iteration", "label_index"]
        first += ["max_feature_idx", "objective"]
        keys = [*first, *(key for key in fields if key not in first)]
        lines = [f"{key}={fields[key]}" if fields[key] else key for key in keys]
        uses = Counter(feature for tree in self.trees for feature in tree.feature.tolist())
        importances = "".join(f"{names[f]}={count}\n" for f, count in uses.most_common())
        parameters = self.header[self.header.index("\nparameters:") :]
        objective = fields["objective"].split()[0]
        parameters = re.sub(r"\[num_class: \d+\]", f"[num_class: {spec.n_outputs}]", parameters)
        parameters = re.sub(r"\[objective: \w*\]", f"[objective: {objective}]", parameters)
        labels = [list(own) for own in spec.category_labels]
        return (
            "\n".join(lines)
            + "\n\n"
            + "".join(blocks)
            + f"end of trees\n\nfeature_importances:\n{importances}{parameters}"
            + (f"\npandas_categorical:{json.dumps(labels)}\n" if labels else "")
        )

    def _feature_infos(self) -> list[str]:
        """Range of every feature; categories of categorical ones, where -1 stands for others."""
        ranges = zip(self.bins.lower.tolist(), self.bins.upper.tolist(), strict=True)
        infos = [f"[{low!r}:{high!r}]" if low < high else "none" for low, high in ranges]
        for feature, labels in self.spec.categories.items():
            infos[feature] = ":".join(map(str, [-1, *labels]))
        return infos

    def booster(self, X: Any) -> Any:
        """Return LightGBM's Booster of the model, checked against `ensemble` on rows of X."""
        import lightgbm

        text, spec = self.text(), self.spec
        found = from_text(text, spec.classes)
        theirs, ours = (
            {feature: sorted(known) for feature, known in each.categories.items()}
            for each in (found, spec)
        )
        # The text does not say which columns its labels belong to: compare codes only.
        expected = replace(self, spec=replace(spec, categories=found.categories)).ensemble
        if theirs != ours or found != expected:
            raise ModelError(
                "the text written for LightGBM does not hold the trees that were grown; train with "
                "another version of LightGBM"
            )
        booster = lightgbm.Booster(model_str=text)
        rows = X[spaced_rows(X.shape[0])]
        scores = booster.predict(rows, raw_score=True, num_threads=1)
        if not np.array_equal(scores, self.ensemble.raw_score(rows, threads=1)):
            raise ModelError(
                f"LightGBM {lightgbm.__version__} has other raw scores than the trees that were "
                "written for it; train with another version of LightGBM"
            )
        return booster


def header_of(
    params: Mapping[str, Any], n_features: int, n_rounds: int, bagging_freq: int = 0
) -> str:
    """Return LightGBM's text of a constant model with these parameters, for `GBDTModel.header`."""
    import lightgbm

    rows = lightgbm.Dataset(np.zeros((2, n_features)), [0, 1])
    # LightGBM refuses a bag without a row, which a share of two rows may be.
    settings = {**params, "bagging_freq": 0, "verbosity": -1, "num_threads": 1}
    text: str = lightgbm.train(settings, rows, 1).model_to_string()
    text = text.replace("[bagging_freq: 0]", f"[bagging_freq: {bagging_freq}]")
    return text.replace("[num_iterations: 1]", f"[num_iterations: {n_rounds}]")


def objective_of(header: str) -> str:
    """Return the objective with its options, such as "binary sigmoid:1"; "" if it is custom."""
    return _header_fields(header).get("objective", "")


def _header_fields(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.partition("\n\n")[0].split("\n"))


def stored_scores(scores: Floats) -> Floats:
    """Return scores as LightGBM stores them: those in its zero zone are 0."""
    return np.where(np.abs(scores) <= ZERO_ZONE, 0.0, scores)


def safe_names(names: Sequence[str]) -> list[str]:
    """Return different names that LightGBM's text can hold: without spaces and JSON's signs."""
    safe: dict[str, None] = {}
    for position, name in enumerate(names):
        plain = re.sub(r'[\s",:\[\]{}]', "_", str(name)) or f"Column_{position}"
        while plain in safe:
            plain = f"{plain}_{position}"
        safe[plain] = None
    return list(safe)
