"""One grown tree: what LightGBM wrote about it, with candidate thresholds instead of codes.

Comes in: LightGBM's text of a tree on codes. Goes out: a `GrownTree`, which finds the leaf of
every row and knows what its own text says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.readers.trees import Tree
from carvegbm.training.growing.closing import OpenThresholds

__all__ = ["GrownTree"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GrownTree:
    """A tree whose splits refer to candidate thresholds.

    Attributes
    ----------
    feature : array (n_splits,)
    position : array (n_splits,)
        Of the split's threshold among the feature's candidate thresholds.
    threshold : array (n_splits,)
        The threshold itself: x goes left iff x <= threshold, a code c iff c <= position.
    left, right : array (n_splits,)
        A child as LightGBM writes it: a split, or ~i for leaf i.
    value : array (n_leaves,)
    fields : mapping
        The lines of LightGBM's text, by key; its thresholds are codes.
    """

    feature: Ints
    position: Ints
    threshold: Floats
    left: Ints
    right: Ints
    value: Floats
    fields: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, open_thresholds: OpenThresholds) -> GrownTree:
        """Read the last tree of a model text; its splits are at open thresholds."""
        start = text.rindex("\nTree=") + 1
        block = text[text.index("\n", start) + 1 : text.index("end of trees", start)]
        fields = dict(line.split("=", 1) for line in block.split("\n") if line)

        def ints(key: str) -> Ints:
            return np.array(fields[key].split(), dtype=np.int64)

        feature = ints("split_feature")
        # The threshold between codes c and c + 1 is written as a number in [c, c + 1).
        codes = [int(float(number)) for number in fields["threshold"].split()]
        splits = list(zip(feature.tolist(), codes, strict=True))
        position = [open_thresholds.threshold_at(f, c) for f, c in splits]
        used = zip(feature.tolist(), position, strict=True)
        return cls(
            feature=feature,
            position=np.array(position, dtype=np.int64),
            threshold=np.array([open_thresholds.thresholds[f][p] for f, p in used], dtype=float),
            left=ints("left_child"),
            right=ints("right_child"),
            value=np.array(fields["leaf_value"].split(), dtype=np.float64),
            fields=fields,
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
        return cls(none, none, np.empty(0), none, none, np.array([float(value)]), fields)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.value)

    @property
    def counts(self) -> Ints:
        """Number of rows in every leaf, as LightGBM counted them: those it trained the tree on."""
        return np.array(self.fields["leaf_count"].split(), dtype=np.int64)

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
            missing=np.concatenate([(self.threshold >= 0).astype(np.int64), none]),
            score=np.concatenate([np.zeros(len(self.threshold)), self.value]),
            output=output,
        )

    def add_to(self, raw: Floats, codes: npt.NDArray[Any]) -> None:
        """Add every row's leaf value to its raw score."""
        for leaf, rows in self._leaves(codes, self.position):
            raw[rows] += self.value[leaf]

    def count(self, X: npt.NDArray[Any]) -> Ints:
        """Number of rows of X in every leaf."""
        found = np.zeros(self.n_leaves, dtype=np.int64)
        for leaf, rows in self._leaves(X, self.threshold):
            found[leaf] = len(X) if isinstance(rows, slice) else len(rows)
        return found

    def _leaves(
        self, rows: npt.NDArray[Any], cuts: npt.NDArray[Any]
    ) -> Iterator[tuple[int, Ints | slice]]:
        """Every leaf, with the rows in it: a row goes left at split i iff it is <= cuts[i]."""
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
            column = rows[:, self.feature[node]]
            if column.dtype.kind == "f":  # float32 rows are compared with doubles
                column = column.astype(np.float64, copy=False)
            goes_left = (column if some is None else column[some]) <= cuts[node]
            left, right = np.flatnonzero(goes_left), np.flatnonzero(~goes_left)
            if some is not None:
                left, right = some[left], some[right]
            pending += [(int(self.left[node]), left), (int(self.right[node]), right)]
