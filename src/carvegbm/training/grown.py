"""One grown tree: what LightGBM wrote about it, with candidate thresholds instead of codes.

Comes in: LightGBM's text of a tree on codes. Goes out: a `GrownTree`, which finds the leaf of
every row of codes and knows its own text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.readers.trees import Tree
from carvegbm.training.thresholds import Candidates

__all__ = ["GrownTree"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GrownTree:
    """A tree whose splits refer to candidate thresholds.

    Attributes
    ----------
    feature : array (n_splits,)
    threshold : array (n_splits,)
        Positions among the feature's candidate thresholds.
    left, right : array (n_splits,)
        A child as LightGBM writes it: a split, or ~i for leaf i.
    value : array (n_leaves,)
    fields : mapping
        The lines of LightGBM's text, by key; its thresholds are codes.
    """

    feature: Ints
    threshold: Ints
    left: Ints
    right: Ints
    value: npt.NDArray[np.float64]
    fields: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, threshold_at: Callable[[int, int], int]) -> GrownTree:
        """Read the last tree of a model text; threshold_at(feature, code) tells thresholds."""
        start = text.rindex("\nTree=") + 1
        block = text[text.index("\n", start) + 1 : text.index("end of trees", start)]
        fields = dict(line.split("=", 1) for line in block.split("\n") if line)

        def ints(key: str) -> Ints:
            return np.array(fields[key].split(), dtype=np.int64)

        feature = ints("split_feature")
        # The threshold between codes c and c + 1 is written as a number in [c, c + 1).
        codes = [int(float(number)) for number in fields["threshold"].split()]
        return cls(
            feature=feature,
            threshold=np.array(
                [threshold_at(f, c) for f, c in zip(feature.tolist(), codes, strict=True)],
                dtype=np.int64,
            ),
            left=ints("left_child"),
            right=ints("right_child"),
            value=np.array(fields["leaf_value"].split(), dtype=np.float64),
            fields=fields,
        )

    @classmethod
    def constant(cls, value: float, n_rows: int) -> GrownTree:
        """A tree of one leaf."""
        empty = np.empty(0, dtype=np.int64)
        keys = "split_feature split_gain threshold decision_type left_child right_child"
        fields = {"num_leaves": "1", "num_cat": "0", **dict.fromkeys(keys.split(), "")}
        fields |= {"leaf_value": repr(float(value)), "leaf_weight": "", "leaf_count": str(n_rows)}
        fields |= dict.fromkeys(("internal_value", "internal_weight", "internal_count"), "")
        fields |= {"is_linear": "0", "shrinkage": "1"}
        return cls(empty, empty, empty, empty, np.array([float(value)]), fields)

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.value)

    def shifted(self, bias: float) -> GrownTree:
        """The same tree with `bias` added to every leaf, as LightGBM adds an initial score."""
        value = self.value + bias
        inner = [float(number) + bias for number in self.fields["internal_value"].split()]
        fields = {
            **self.fields,
            "leaf_value": " ".join(map(repr, value.tolist())),
            "internal_value": " ".join(f"{number:g}" for number in inner),
            "shrinkage": "1",
        }
        return replace(self, value=value, fields=fields)

    def as_tree(self, candidates: Candidates, output: int) -> Tree:
        """The tree on real features, as a reader would find it in the model's text."""
        n_leaves = self.n_leaves
        if n_leaves == 1:
            return Tree.leaf(float(self.value[0]), output)
        thresholds = np.array(
            [
                candidates.values[feature][position]
                for feature, position in zip(
                    self.feature.tolist(), self.threshold.tolist(), strict=True
                )
            ]
        )
        left, right = (
            np.where(side < 0, n_leaves - 2 - side, side) for side in (self.left, self.right)
        )
        none, no = np.full(n_leaves, -1, dtype=np.int64), np.zeros(n_leaves)
        return Tree(
            feature=np.concatenate([self.feature, none]),
            threshold=np.concatenate([thresholds, no]),
            left=np.concatenate([left, none]),
            right=np.concatenate([right, none]),
            missing=np.concatenate([(thresholds >= 0).astype(np.int64), none]),
            score=np.concatenate([np.zeros(len(thresholds)), self.value]),
            output=output,
        )

    def add_to(self, raw: npt.NDArray[np.float64], codes: npt.NDArray[Any]) -> None:
        """Add every row's leaf value to its raw score."""
        if self.n_leaves == 1:
            raw += self.value[0]
            return
        pending: list[tuple[int, Ints | None]] = [(0, None)]
        while pending:
            node, rows = pending.pop()
            if node < 0:
                raw[rows] += self.value[~node]
                continue
            column = codes[:, self.feature[node]]
            goes_left = (column if rows is None else column[rows]) <= self.threshold[node]
            left, right = np.flatnonzero(goes_left), np.flatnonzero(~goes_left)
            if rows is not None:
                left, right = rows[left], rows[right]
            pending += [(int(self.left[node]), left), (int(self.right[node]), right)]
