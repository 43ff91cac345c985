"""One grown tree: what LightGBM wrote about it, with candidate thresholds instead of codes.

Comes in: LightGBM's text of a tree on codes. Goes out: a `GrownTree`, which finds the leaf of
every row and knows what its own text says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.readers.trees import Tree
from carvegbm.training.growing.categories import encode_categories
from carvegbm.training.growing.closing import OpenThresholds
from carvegbm.training.growing.sets import CategorySet, read_sets, written_sets

__all__ = ["NOTHING_ABOVE", "GrownTree"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

NOTHING_ABOVE = float(np.finfo(np.float64).max)
"""The threshold that tells missing values from all others: every finite number goes left."""

_ABOVE = 1 << 31  # more than any code
_CATEGORICAL, _MISSING_LEFT = 1, 2  # bits of LightGBM's decision types


@dataclass(frozen=True)
class GrownTree:
    """A tree whose splits refer to candidate thresholds.

    Attributes
    ----------
    feature : array (n_splits,)
    position : array (n_splits,)
        Of the split's threshold among the feature's candidate thresholds; one past the last for
        `NOTHING_ABOVE`.
    threshold : array (n_splits,)
        The threshold itself: x goes left iff x <= threshold, a code c iff c <= position. Of a split
        by categories: the number of its set.
    left, right : array (n_splits,)
        A child as LightGBM writes it: a split, or ~i for leaf i.
    value : array (n_leaves,)
    fields : mapping
        The lines of LightGBM's text, by key; its thresholds are codes.
    missing_left : array (n_splits,) of bool
        Whether a missing value goes left.
    missing_code : mapping from split to int
        The code of missing values, where these have one of their own.
    sets : mapping from split to CategorySet
        Of splits by categories: those that go left.
    """

    feature: Ints
    position: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    fields: Mapping[str, str]
    missing_left: Bools
    missing_code: Mapping[int, int] = field(default_factory=dict)
    sets: Mapping[int, CategorySet] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str, open_thresholds: OpenThresholds) -> GrownTree:
        """Read the last tree of a model text; its splits are at open thresholds."""
        start = text.rindex("\nTree=") + 1
        block = text[text.index("\n", start) + 1 : text.index("end of trees", start)]
        fields = dict(line.split("=", 1) for line in block.split("\n") if line)

        def ints(key: str) -> Ints:
            return np.array(fields[key].split(), dtype=np.int64)

        feature, left, right = ints("split_feature"), ints("left_child"), ints("right_child")
        kinds = ints("decision_type")
        # The threshold between codes c and c + 1 is written as a number in [c, c + 1), that above
        # all codes as infinity.
        codes = [int(min(float(number), _ABOVE)) for number in fields["threshold"].split()]
        is_set = (kinds & _CATEGORICAL) > 0
        sets = read_sets(fields, feature, is_set, codes, open_thresholds.categories)
        position, threshold = np.zeros(len(feature), dtype=np.int64), np.zeros(len(feature))
        threshold[sorted(sets)] = np.arange(len(sets))
        missing_left, missing_code = (kinds & _MISSING_LEFT) > 0, {}
        for split, (f, code) in enumerate(zip(feature.tolist(), codes, strict=True)):
            if split in sets:
                continue
            values = open_thresholds.thresholds[f]
            found = open_thresholds.threshold_at(f, code)
            if found < 0:  # all that is not missing goes right: the same with its sides exchanged
                left[split], right[split] = right[split], left[split]
                missing_left[split] = not missing_left[split]
                kinds[split] ^= _MISSING_LEFT
                found = len(values)
            position[split] = found
            threshold[split] = values[found] if found < len(values) else NOTHING_ABOVE
            if f in open_thresholds.missing:
                missing_code[split] = len(values) + 1
            else:  # LightGBM takes a missing value for 0
                missing_left[split] = threshold[split] >= 0
        if open_thresholds.missing:
            sides = {"decision_type": kinds, "left_child": left, "right_child": right}
            fields |= {key: " ".join(map(str, value.tolist())) for key, value in sides.items()}
        return cls(
            feature=feature,
            position=position,
            threshold=threshold,
            left=left,
            right=right,
            value=np.array(fields["leaf_value"].split(), dtype=np.float64),
            fields={**fields, **written_sets(sets)},
            missing_left=missing_left,
            missing_code=missing_code,
            sets=sets,
        )

    @classmethod
    def constant(cls, value: float, n_rows: int) -> GrownTree:
        """A tree of one leaf."""
        none = np.empty(0, dtype=np.int64)
        keys = "split_feature split_gain threshold decision_type left_child right_child"
        fields = {"num_leaves": "1", "num_cat": "0", **dict.fromkeys(keys.split(), "")}
        fields |= {"leaf_value": repr(float(value)), "leaf_weight": "", "leaf_count": str(n_rows)}
        fields |= dict.fromkeys(("internal_value", "internal_weight", "internal_count"), "")
        fields |= {"is_linear": "0", "shrinkage": "1"}
        scores, no = np.array([float(value)]), np.empty(0, dtype=bool)
        return cls(none, none, np.empty(0), none, none, scores, fields, no)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.value)

    @property
    def counts(self) -> Ints:
        """Number of rows in every leaf, as LightGBM counted them: those it trained the tree on."""
        return np.array(self.fields["leaf_count"].split(), dtype=np.int64)

    def lines(self) -> dict[str, str]:
        """The lines of LightGBM's text, on real features."""
        cuts = [
            str(int(cut)) if split in self.sets else repr(cut)
            for split, cut in enumerate(self.threshold.tolist())
        ]
        return {**self.fields, "threshold": " ".join(cuts)}

    def shifted(self, bias: float) -> GrownTree:
        """The same tree with `bias` added to every leaf, as LightGBM adds an initial score."""
        inner = [float(number) + bias for number in self.fields["internal_value"].split()]
        tree = self.with_values(self.value + bias)
        fields = {
            **tree.fields,
            "internal_value": " ".join(f"{number:g}" for number in inner),
            "shrinkage": "1",
        }
        return replace(tree, fields=fields)

    def with_values(self, value: Floats) -> GrownTree:
        """The same tree with other scores in its leaves."""
        fields = {**self.fields, "leaf_value": " ".join(map(repr, value.tolist()))}
        return replace(self, value=value, fields=fields)

    def as_tree(self, output: int) -> Tree:
        """The tree on real features, as a reader would find it in the model's text."""
        n_leaves = self.n_leaves
        if n_leaves == 1:
            return Tree.leaf(float(self.value[0]), output)
        left, right = (
            np.where(side < 0, n_leaves - 2 - side, side) for side in (self.left, self.right)
        )
        none, no = np.full(n_leaves, -1, dtype=np.int64), np.zeros(n_leaves)
        return Tree(
            feature=np.concatenate([self.feature, none]),
            threshold=np.concatenate([self.threshold, no]),
            left=np.concatenate([left, none]),
            right=np.concatenate([right, none]),
            missing=np.concatenate([self.missing_left.astype(np.int64), none]),
            score=np.concatenate([np.zeros(len(self.threshold)), self.value]),
            output=output,
            sets={split: own.categories for split, own in self.sets.items()},
        )

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def add_to(self, raw: Floats, codes: npt.NDArray[Any]) -> None:
        """Add every row's leaf value to its raw score."""
        for leaf, rows in self._leaves(codes, self._code_goes_left):
            raw[rows] += self.value[leaf]

    def add_values_to(self, raw: Floats, X: Any) -> None:
        """The same for rows of values."""
        for leaf, rows in self._leaves(X, self._value_goes_left):
            raw[rows] += self.value[leaf]

    def count(self, X: Any) -> Ints:
        """Number of rows of X in every leaf."""
        found = np.zeros(self.n_leaves, dtype=np.int64)
        for leaf, rows in self._leaves(X, self._value_goes_left):
            found[leaf] = X.shape[0] if isinstance(rows, slice) else len(rows)
        return found

    def _code_goes_left(self, split: int, column: npt.NDArray[Any]) -> Bools:
        if split in self.sets:
            return np.isin(column, self.sets[split].codes)
        left: Bools = column <= self.position[split]
        if split in self.missing_code and self.missing_left[split]:
            left |= column == self.missing_code[split]
        return left

    def _value_goes_left(self, split: int, column: npt.NDArray[Any]) -> Bools:
        values = column.astype(np.float64, copy=False)  # float32 rows are compared with doubles
        if split in self.sets:
            return encode_categories(values, self.sets[split].categories) > 0
        left: Bools = values <= self.threshold[split]
        if self.missing_left[split]:
            left |= np.isnan(values)
        return left

    def _leaves(
        self, rows: Any, goes_left: Callable[[int, npt.NDArray[Any]], Bools]
    ) -> Iterator[tuple[int, Ints | slice]]:
        """Every leaf, with the rows in it; `goes_left` says it of a split and a column."""
        if self.n_leaves == 1:
            yield 0, slice(None)
            return
        pending: list[tuple[int, Ints | None]] = [(0, None)]
        while pending:
            node, some = pending.pop()
            if node < 0:
                assert some is not None
                yield ~node, some
                continue
            column = _column(rows, int(self.feature[node]))
            is_left = goes_left(node, column if some is None else column[some])
            left, right = np.flatnonzero(is_left), np.flatnonzero(~is_left)
            if some is not None:
                left, right = some[left], some[right]
            pending += [(int(self.left[node]), left), (int(self.right[node]), right)]


def _column(rows: Any, feature: int) -> npt.NDArray[Any]:
    """A column of an array, or of a sparse matrix that is stored by column."""
    if hasattr(rows, "tocsc"):
        return np.asarray(rows[:, [feature]].toarray())[:, 0]
    return np.asarray(rows[:, feature])
