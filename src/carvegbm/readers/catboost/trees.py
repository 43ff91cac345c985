"""The trees of a CatBoost document, symmetric ones and others.

Comes in: `features_info`, which says what splits may ask, and the lists of trees. Goes out: one
`Tree` per tree, with a row of scores per leaf, or a `ModelError` that names tree and feature.

A symmetric tree asks the same question at every node of a level: bit i of the number of a leaf is
the answer to question i. What earlier answers decide is not asked again, so that no leaf is out of
reach.

A one-hot split asks whether x is one category, which it knows by the hash of its text. The document
lists the texts of hashes, those of all features together, if it was saved with the training data.

A split is described twice: by its `split_index`, which is all that CatBoost itself reads, and by
its feature with a border or a category. `split_index` counts the borders of all numerical features,
then the categories (`values`) of the categorical ones, in the order in which `features_info` lists
them. A document in which the two descriptions differ is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.errors import ModelError
from carvegbm.readers.catboost.hashing import category_hash
from carvegbm.readers.checks import count, name_of, number, numbers, whole_numbers
from carvegbm.readers.trees import Tree
from carvegbm.trees.sets import Categories, Label, spelled

__all__ = ["Splits", "translate"]

Bools = npt.NDArray[np.bool_]

_MOST_DEPTH = 24
"""Of a symmetric tree; CatBoost itself stops at 16."""
_HASHES = 1 << 32
_TEXTS = 1 << 23  # float32 and the rules of categories know codes up to twice as much
_OTHER_FEATURES = {"text_features": "text", "embedding_features": "embedding"}


class Question(NamedTuple):
    """What a split asks: is x > value, or is x the category of the code `value`?

    Yes leads to the right. Of a category it leads to the left in a `Tree`, whose sets are listed
    on that side.
    """

    feature: int
    value: float
    missing: int  # where NaN goes: 1 left, 0 right, -1 there is no rule
    is_category: bool = False

    def known(self, earlier: Question, said: Bools) -> tuple[Bools, Bools]:
        """Where the answer must be no, and where yes, after what was `said` to an earlier one."""
        if earlier.feature != self.feature:
            return np.zeros_like(said), np.zeros_like(said)
        if self.is_category:
            is_same = np.full(len(said), earlier.value == self.value)
            return said != is_same, said & is_same
        return (
            ~said & (earlier.value <= self.value),
            said & (earlier.value >= self.value),
        )


_LEAF = Question(-1, 0.0, -1)


@dataclass(frozen=True)
class Splits:
    """The features of a model, by the positions that its splits know them by."""

    columns: Mapping[int, int]  # from positions among the numbers to columns
    category_columns: Mapping[int, int]  # from positions among the categorical ones
    nan_right: frozenset[int]  # columns
    names: list[str] | None
    n_features: int
    numbered: Sequence[tuple[str, int, float]]  # type, feature and value by split_index
    statistics: list[str]  # how features are called that target statistics are of
    codes: Mapping[int, int]  # of hashes
    labels: Mapping[int, Label]  # of codes

    @property
    def categories(self) -> Categories:
        """What every categorical feature may be."""
        return dict.fromkeys(self.category_columns.values(), self.labels)

    @classmethod
    def of(cls, info: Mapping[str, Any]) -> Splits:
        """From the document's `features_info`."""
        names: dict[int, str] = {}
        for key, kind in _OTHER_FEATURES.items():
            for feature in _features(info, key):
                raise ModelError(
                    f"has the {kind} feature {_called(feature)!r}, which is not read; "
                    "turn it into numbers and train again"
                )
        columns: dict[int, int] = {}
        numbered: list[tuple[str, int, float]] = []
        nan_right = set()
        for feature in _features(info, "float_features"):
            place, column = _place(feature, columns, names)
            numbered += [("FloatFeature", place, border) for border in _borders(feature)]
            treatment = feature.get("nan_value_treatment", "AsIs")
            if treatment not in ("AsIs", "AsFalse", "AsTrue"):
                raise ModelError(
                    f"nan_value_treatment of feature {_called(feature)!r} is {treatment!r}, not "
                    "AsIs, AsFalse or AsTrue; the file is damaged"
                )
            if treatment == "AsTrue" and feature.get("has_nans") is True:
                nan_right.add(column)
        category_columns: dict[int, int] = {}
        for feature in _features(info, "categorical_features"):
            place, _ = _place(feature, category_columns, names)
            hashes = whole_numbers(feature.get("values") or [], None, "the values of a category")
            numbered += [("OneHotFeature", place, value) for value in hashes.tolist()]
        n_features = max(names, default=-1) + 1
        listed = [names[column] for column in sorted(names)]
        is_named = all(listed) and len(listed) == n_features
        if listed == [str(column) for column in sorted(names)]:  # positions are no names
            is_named = False
        return cls(
            columns,
            category_columns,
            frozenset(nan_right),
            listed if is_named else None,
            n_features,
            numbered,
            _with_statistics(info),
            *_labels(info),
        )

    def question(self, tree: int, split: Any) -> Question:
        """What a split of a tree asks; refuses what is neither a threshold nor a category."""
        if not isinstance(split, dict):
            raise ModelError(f"tree {tree}: a split must be a dict; the file is damaged")
        kind = str(split.get("split_type", "FloatFeature"))
        if kind == "OnlineCtr":
            raise ModelError(
                f"tree {tree} has a split by target statistics (CTR), in this model of "
                f"{', '.join(map(repr, self.statistics[:5])) or 'a categorical feature'}; train "
                "with one_hot_max_size no smaller than the number of categories, or encode them"
            )
        if kind == "OneHotFeature":
            return self._category(tree, split)
        if kind != "FloatFeature":
            raise ModelError(
                f"tree {tree} has a split of the unknown type {kind[:40]!r}; "
                "train it with another version of CatBoost"
            )
        column = _column(tree, split, "float_feature_index", self.columns)
        with np.errstate(over="ignore"):
            border = float(np.float32(number(split.get("border"), f"tree {tree}: a border")))
        self._check_index(tree, split, (kind, int(split["float_feature_index"]), border))
        return Question(column, border, 0 if column in self.nan_right else 1)

    def _check_index(
        self, tree: int, split: Mapping[str, Any], stated: tuple[str, int, float]
    ) -> None:
        """Refuse a split that differs from the one its split_index names."""
        index = count(split, "split_index", where=f"tree {tree}: ")
        if type(split["split_index"]) is not int:
            raise ModelError(
                f"tree {tree}: split_index is {split['split_index']!r}, not a whole number; the "
                "file is damaged"
            )
        meant = self.numbered[index] if index < len(self.numbered) else None
        if meant != stated:
            shown = "none" if meant is None else " ".join(map(str, meant))
            raise ModelError(
                f"tree {tree}: split_index {index} is {shown}, the split says "
                f"{' '.join(map(str, stated))}; the file is damaged"
            )

    def _category(self, tree: int, split: Mapping[str, Any]) -> Question:
        column = _column(tree, split, "cat_feature_index", self.category_columns)
        hashed = split.get("value")
        if not isinstance(hashed, int) or isinstance(hashed, bool):
            raise ModelError(
                f"tree {tree}: a category must be the number of a hash, got "
                f"{str(hashed)[:40]!r}; the file is damaged"
            )
        self._check_index(tree, split, ("OneHotFeature", int(split["cat_feature_index"]), hashed))
        if hashed % _HASHES not in self.codes:
            what = f"the hash {hashed}" if self.codes else "hashes alone"
            raise ModelError(
                f"tree {tree} knows categories of feature {name_of(column, self.names)!r} by "
                f"{what}, without a text; save the model with "
                "save_model(path, format='json', pool=training_pool) and load that file"
            )
        return Question(column, self.codes[hashed % _HASHES], -1, is_category=True)


def translate(document: Mapping[str, Any], splits: Splits) -> list[Tree]:
    """All trees of a document, in its order."""
    symmetric = "oblivious_trees" in document
    stored = document["oblivious_trees" if symmetric else "trees"]
    if not isinstance(stored, list) or not all(isinstance(tree, dict) for tree in stored):
        raise ModelError("the trees must be a list of dicts; the file is damaged")
    read = _symmetric if symmetric else _nested
    return [read(index, tree, splits) for index, tree in enumerate(stored)]


def _symmetric(index: int, tree: Mapping[str, Any], splits: Splits) -> Tree:
    asked = tree.get("splits")
    asked = [] if asked is None else asked
    if not isinstance(asked, list) or len(asked) > _MOST_DEPTH:
        raise ModelError(
            f"tree {index}: splits must be a list of at most {_MOST_DEPTH}; the file is damaged"
        )
    questions = [splits.question(index, split) for split in asked]
    values = numbers(tree.get("leaf_values"), None, f"tree {index}: leaf_values")
    n_leaves = 1 << len(questions)
    if len(values) == 0 or len(values) % n_leaves:
        raise ModelError(
            f"tree {index} has {len(values)} leaf values for {n_leaves} leaves; the file is damaged"
        )
    grown = _grow(questions)
    leaves = grown.pop()  # (slots, numbers of leaves)
    inner = sum(len(slots) for slots, _ in grown)
    size = inner + len(leaves[0])
    level = np.repeat(np.arange(len(grown)), [len(slots) for slots, _ in grown])
    children = np.empty(2 * size, dtype=np.int64)
    slots = np.concatenate([*(slots for slots, _ in grown), leaves[0]])
    children[slots[1:]] = np.arange(1, size)  # the root is nobody's child
    rows = values.reshape(n_leaves, -1)
    scores = np.zeros((size, rows.shape[1]))
    scores[inner:] = rows[leaves[1]]
    return Tree(
        _per_node(level, [q.feature for q in questions], size, -1).astype(np.int64),
        _per_node(level, [q.value for q in questions], size, 0.0),
        children[0::2],
        children[1::2],
        _per_node(level, [q.missing for q in questions], size, -1).astype(np.int64),
        scores,
        sets=_sets([questions[depth] for depth in level.tolist()]),
    )


def _grow(
    questions: Sequence[Question],
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The nodes of a symmetric tree level by level, and at last its leaves.

    Per level the slot of every node, which is 2 · parent + (1 for a right child), and the answers
    that lead to it, as bits. Where the answer is known there is no node: x <= 1 is also <= 2.
    """
    slots, answers = np.array([-1]), np.zeros(1, dtype=np.int64)
    levels = []
    made = 0
    for depth, asked in enumerate(questions):
        no = np.zeros(len(slots), dtype=bool)
        yes = np.zeros(len(slots), dtype=bool)
        for before, earlier in enumerate(questions[:depth]):
            must_be_no, must_be_yes = asked.known(earlier, (answers >> before & 1).astype(bool))
            no |= must_be_no
            yes |= must_be_yes
        open_ = ~(no | yes)
        levels.append((slots[open_], answers[open_]))
        node = made + np.arange(int(open_.sum()))
        made += len(node)
        bit = np.int64(1 << depth)
        slots = np.concatenate(
            [slots[~open_], 2 * node + asked.is_category, 2 * node + (not asked.is_category)]
        )
        answers = np.concatenate(
            [answers[~open_] | np.where(yes[~open_], bit, 0), answers[open_], answers[open_] | bit]
        )
    levels.append((slots, answers))
    return levels


def _per_node(
    level: npt.NDArray[np.int64], values: Sequence[float], size: int, at_leaves: float
) -> npt.NDArray[np.float64]:
    filled = np.full(size, at_leaves, dtype=np.float64)
    if len(level):
        filled[: len(level)] = np.asarray(values, dtype=np.float64)[level]
    return filled


def _nested(index: int, tree: Mapping[str, Any], splits: Splits) -> Tree:
    """A tree whose nodes hold their children."""
    questions: list[Question] = []
    children: list[list[int]] = []
    scores: list[npt.NDArray[np.float64]] = []
    stack: list[tuple[Any, int, int]] = [(tree, -1, 0)]
    while stack:
        node, parent, way = stack.pop()
        if not isinstance(node, dict):
            raise ModelError(f"tree {index}: a node must be a dict; the file is damaged")
        if parent >= 0:
            children[parent][way] = len(questions)
        children.append([-1, -1])
        if "split" in node and "value" not in node:
            asked = splits.question(index, node["split"])
            here, side = len(questions), int(asked.is_category)
            stack += [(node.get("right"), here, 1 - side), (node.get("left"), here, side)]
            questions.append(asked)
            scores.append(np.zeros(0))
        else:
            questions.append(_LEAF)
            value = node.get("value")
            value = value if isinstance(value, list) else [value]
            scores.append(numbers(value, None, f"tree {index}: a leaf's value"))
    width = max(map(len, scores))
    if {len(score) for score in scores} - {0, width} or width == 0:
        raise ModelError(f"tree {index}: its leaves differ in their values; the file is damaged")
    rows = np.zeros((len(scores), width))
    for place, score in enumerate(scores):
        if len(score):
            rows[place] = score
    left, right = np.array(children, dtype=np.int64).T
    return Tree(
        np.array([asked.feature for asked in questions], dtype=np.int64),
        np.array([asked.value for asked in questions], dtype=np.float64),
        left,
        right,
        np.array([asked.missing for asked in questions], dtype=np.int64),
        rows,
        sets=_sets(questions),
    )


def _sets(questions: Sequence[Question]) -> dict[int, npt.NDArray[np.int64]]:
    """The one category that every node asks for, if it asks for one."""
    return {
        node: np.array([int(asked.value)])
        for node, asked in enumerate(questions)
        if asked.is_category
    }


def _features(info: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found = info.get(key) or []
    if not isinstance(found, list) or not all(isinstance(feature, dict) for feature in found):
        raise ModelError(f"{key} must be a list of features; the file is damaged")
    return found


def _place(
    feature: Mapping[str, Any], columns: dict[int, int], names: dict[int, str]
) -> tuple[int, int]:
    """The position of a feature among those of its kind, and its column; both are noted."""
    place = count(feature, "feature_index", where="a feature's ")
    column = count(feature, "flat_feature_index", where="a feature's ")
    if place in columns or column in names:
        raise ModelError(f"has two features at position {place} or {column}; the file is damaged")
    columns[place] = column
    names[column] = str(feature.get("feature_id") or "")
    return place, column


def _borders(feature: Mapping[str, Any]) -> list[float]:
    """The borders of a numerical feature, as float32; they ascend."""
    what = f"the borders of feature {_called(feature)!r}"
    with np.errstate(over="ignore"):
        found = numbers(feature.get("borders") or [], None, what).astype(np.float32)
    if not (np.diff(found) >= 0).all() or np.isnan(found).any():
        raise ModelError(f"{what} must ascend; the file is damaged")
    return list(found.astype(np.float64).tolist())


def _with_statistics(info: Mapping[str, Any]) -> list[str]:
    names = {
        str(feature.get("feature_index")): _called(feature)
        for feature in _features(info, "categorical_features")
    }
    used = [
        str(element.get("cat_feature_index"))
        for statistic in _features(info, "ctrs")
        for element in _features(statistic, "elements")
    ]
    return list(dict.fromkeys(names[place] for place in used if place in names))


def _labels(info: Mapping[str, Any]) -> tuple[dict[int, int], dict[int, Label]]:
    """The codes of the hashes that have a text, and the labels of these codes.

    To CatBoost the number 3 and the text "3" are one category: the label is the number, and as far
    as it can be also the code. Beside numbers, texts have codes that numbers hardly are.
    """
    found: dict[int, Label] = {}
    for entry in _features(info, "cat_features_hash"):
        text = entry.get("value")
        if not isinstance(text, str):
            raise ModelError(
                f"a category must be a text, got {str(text)[:40]!r}; the file is damaged"
            )
        hashed = count(entry, "hash", where="a category's ", most=_HASHES)
        if hashed != category_hash(text):
            raise ModelError(
                f"the category {text[:40]!r} is stored with the hash {hashed}, CatBoost computes "
                f"{category_hash(text)}; the file is damaged"
            )
        found[hashed] = spelled(text)
    order = sorted(found.items(), key=lambda pair: (isinstance(pair[1], str), pair[1]))
    first = 0 if all(isinstance(label, str) for label in found.values()) else _TEXTS
    codes = {
        hashed: label if isinstance(label, int) and 0 <= label < _TEXTS else first + place
        for place, (hashed, label) in enumerate(order)
    }
    return codes, {code: found[hashed] for hashed, code in codes.items()}


def _column(tree: int, split: Mapping[str, Any], key: str, columns: Mapping[int, int]) -> int:
    place = count(split, key, where=f"tree {tree}: ")
    if place not in columns:
        raise ModelError(
            f"tree {tree} tests feature {place} of {len(columns)}; the file is damaged"
        )
    return columns[place]


def _called(feature: Mapping[str, Any]) -> str:
    return str(feature.get("feature_id") or feature.get("flat_feature_index"))
