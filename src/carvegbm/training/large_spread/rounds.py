"""Boosting rounds: grow the trees of a round, close the thresholds they exclude, merge the codes.

With one output (binary, regression), LightGBM's own objective gives the gradients. With several
(multiclass), they are softmax gradients at the start of the round; the trees of a round are grown
one at a time, each closing thresholds to the next, and every round starts with another class.
If rows, features or thresholds are sampled, a round draws up to 20 samples for a tree; if none of
them has a split, training ends unless the whole data have one.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import OpenThresholds
from carvegbm.training.large_spread.lightgbm_c import CodeTable, RawBooster, disagreement
from carvegbm.training.model import GrownTree

__all__ = ["MulticlassRounds", "Rounds", "SingleOutputRounds", "start_rounds"]

Floats = npt.NDArray[np.float64]
Float32s = npt.NDArray[np.float32]

_MAX_SAMPLES = 20  # per tree
_WHOLE_DATA: Mapping[str, Any] = {
    "bagging_fraction": 1.0,
    "bagging_freq": 0,
    "data_sample_strategy": "bagging",
    "extra_trees": False,
    "feature_fraction": 1.0,
    "feature_fraction_bynode": 1.0,
    "neg_bagging_fraction": 1.0,
    "num_leaves": 2,
    "pos_bagging_fraction": 1.0,
    "use_quantized_grad": False,
}


class Rounds(ABC):
    """Grows one round of trees at a time; `table` and `open` change with every tree.

    The sum of `trees` is LightGBM's score of a row.
    """

    _overrides: Mapping[str, Any] = {}  # LightGBM gets these in place of the user's parameters

    def __init__(
        self, table: CodeTable, open_thresholds: OpenThresholds, params: Mapping[str, Any]
    ) -> None:
        self.table = table
        self.open = open_thresholds
        self.params = {**params, **self._overrides}
        self.trees: list[GrownTree] = []
        self.booster = RawBooster(table, self.params)
        self._n_done = 0
        self._whole_data_split = False  # known since the last tree

    @abstractmethod
    def grow(self) -> list[GrownTree] | None:
        """Return the trees of the next round, one per output, or None if no split is left.

        Trees are constant where no sample of this round has a split.
        """

    @abstractmethod
    def constant(self) -> list[GrownTree]:
        """Return the model without a split, one tree per output."""

    def reset(self, params: Mapping[str, Any]) -> None:
        """Change learning parameters for the next rounds."""
        self.params = {**params, **self._overrides}
        self.booster.reset(self.params)
        self._whole_data_split = False

    def _grow_tree(
        self, gradients: Float32s | None = None, hessians: Float32s | None = None
    ) -> GrownTree | None:
        """Grow the next tree; None if no sample has a split."""
        samples = _MAX_SAMPLES if self._depends_on_sample else 1
        if not any(self.booster.grow(gradients, hessians) for _ in range(samples)):
            return None
        self._whole_data_split = False
        text = self.booster.text(self.booster.n_trees - 1, 1)
        try:
            return GrownTree.parse(text, self.open)
        except CarveError as error:
            raise disagreement(f"grew a tree it could not grow ({error})") from None

    @property
    def _depends_on_sample(self) -> bool:
        """Whether another sample may have a split."""
        is_split_left = self.open.n_open > 0 or bool(self.open.missing)
        return is_split_left and _is_sampled(self.params)

    def _can_continue(self, has_split: Callable[[RawBooster], bool]) -> bool:
        """Return whether the whole data have a split, by a booster that samples nothing."""
        if self._depends_on_sample and not self._whole_data_split:
            whole = RawBooster(self.table, {**self.params, **_WHOLE_DATA})
            self._whole_data_split = has_split(whole)
        return self._whole_data_split

    def _close(self, tree: GrownTree) -> None:
        """Close the thresholds that a tree excludes, and merge their codes."""
        lost = self.open.close_after(tree.feature.tolist(), tree.position.tolist())
        self.table.merge({feature: self.open.merged_codes(feature) for feature in lost})


def _is_sampled(params: Mapping[str, Any]) -> bool:
    """Return whether a tree sees only a sample of the rows, features or thresholds."""

    def below_1(*names: str) -> bool:
        return any(float(params.get(name, 1)) < 1 for name in names)

    bags = int(params.get("bagging_freq", 0)) > 0 and below_1(
        "bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction"
    )
    return (
        bags
        or params.get("data_sample_strategy") == "goss"
        or below_1("feature_fraction", "feature_fraction_bynode")
        or bool(params.get("extra_trees"))
        or bool(params.get("use_quantized_grad"))
    )


class SingleOutputRounds(Rounds):
    """One tree per round, on the gradients of LightGBM's own objective."""

    def __init__(
        self, table: CodeTable, open_thresholds: OpenThresholds, params: Mapping[str, Any]
    ) -> None:
        super().__init__(table, open_thresholds, params)
        self._raw = np.zeros(len(table.codes)) if _is_sampled(params) else None

    def grow(self) -> list[GrownTree] | None:
        """Return the next tree, or None if no split is left."""
        is_first = self._n_done == 0
        tree = self._grow_tree()
        if tree is None:
            zero = GrownTree.constant(0.0, len(self.table.codes))
            tree = self.constant()[0] if is_first else zero
            if not self._whole_data_split_after(tree):
                return None
        elif is_first and self.booster.n_trees > 1:
            # A sample without a split came first: LightGBM made its initial score a tree.
            tree = tree.shifted(float(self.constant()[0].value[0]))
        self._n_done += 1
        self.trees.append(tree)
        if self._raw is not None:
            tree.add_to(self._raw, self.table.codes)
        self._close(tree)
        return [tree]

    def _whole_data_split_after(self, constant: GrownTree) -> bool:
        if self._raw is None:  # a callback made training sample later: the rounds bound it
            return self._can_continue(lambda _: True)
        self.table.set_field("init_score", self._raw + constant.value[0])
        found = self._can_continue(lambda booster: booster.grow())
        self.table.set_field("init_score", np.empty(0))  # only new boosters read it
        return found

    def constant(self) -> list[GrownTree]:
        """Return the constant that LightGBM keeps if the first round finds no split."""
        if self.booster.n_trees == 0:  # interrupted before the first round
            return [GrownTree.constant(0.0, len(self.table.codes))]
        return [GrownTree.parse(self.booster.text(0, 1), self.open)]


class MulticlassRounds(Rounds):
    """One tree per class and round, on softmax gradients; raw scores are kept here."""

    _overrides: Mapping[str, Any] = {"objective": "custom", "num_class": 1, "metric": "none"}

    def __init__(
        self,
        table: CodeTable,
        open_thresholds: OpenThresholds,
        params: Mapping[str, Any],
        train: Dataset,
        n_outputs: int,
    ) -> None:
        super().__init__(table, open_thresholds, params)
        self._labels = train.y
        self._weight = np.ones(len(train)) if train.weight is None else train.weight
        # Gradients are multiples of a power of two u such that LightGBM's sums of them are exact:
        # they are at most 2 max(weight), their sums at most 2^53 u.
        exponent = np.frexp(2 * self._weight.max())[1] + len(train).bit_length() - 53
        self._unit = float(2.0**exponent)
        weights = [math.fsum(self._weight[self._labels == label]) for label in range(n_outputs)]
        prior = np.array(weights) / math.fsum(self._weight)
        from_average = params.get("boost_from_average", True)
        self._bias = np.log(np.maximum(prior, 1e-15)) * bool(from_average)
        self._raw = np.tile(self._bias, (len(train), 1))

    def grow(self) -> list[GrownTree] | None:
        """Return a tree per class, in the order of the classes, or None if no split is left."""
        n_outputs = self._raw.shape[1]
        proba = np.exp(self._raw - self._raw.max(axis=1, keepdims=True))
        proba /= proba.sum(axis=1, keepdims=True)
        trees: list[GrownTree | None] = [None] * n_outputs
        for offset in range(n_outputs):
            output = (self._n_done + offset) % n_outputs
            tree = self._grow_tree(*self._gradients(proba[:, output], output))
            if tree is not None:
                self.trees.append(tree)
                raw = np.ascontiguousarray(self._raw[:, output])
                tree.add_to(raw, self.table.codes)  # before codes are merged
                self._raw[:, output] = raw
                self._close(tree)
            trees[output] = tree
        classes = range(n_outputs)
        if not any(trees) and not self._can_continue(
            lambda b: any(b.grow(*self._gradients(proba[:, c], c)) for c in classes)
        ):
            return None
        is_first = self._n_done == 0
        self._n_done += 1
        zeros = [GrownTree.constant(0.0, len(self._labels))] * n_outputs
        constants = self.constant() if is_first else zeros
        return [
            constant if tree is None else tree.shifted(bias) if is_first else tree
            for tree, constant, bias in zip(trees, constants, self._bias.tolist(), strict=True)
        ]

    def _gradients(self, p: Floats, output: int) -> tuple[Float32s, Float32s]:
        """Return gradients and hessians of one class's scores at its probabilities p."""
        n_outputs = self._raw.shape[1]
        gradients = (p - (self._labels == output)) * self._weight
        hessians = n_outputs / (n_outputs - 1) * p * (1 - p) * self._weight
        return self._rounded(gradients), self._rounded(hessians)

    def _rounded(self, values: Floats) -> Float32s:
        return np.asarray(np.rint(values / self._unit) * self._unit, dtype=np.float32)

    def constant(self) -> list[GrownTree]:
        """Return the logarithm of every class's share."""
        return [GrownTree.constant(bias, len(self._labels)) for bias in self._bias.tolist()]


def start_rounds(
    table: CodeTable,
    open_thresholds: OpenThresholds,
    params: Mapping[str, Any],
    train: Dataset,
    n_outputs: int,
) -> Rounds:
    """Return the rounds for one output or for several, with the labels set in the table."""
    table.set_field("label", train.y if n_outputs == 1 else np.zeros(len(train)))
    if train.weight is not None:
        table.set_field("weight", train.weight)
    if n_outputs == 1:
        return SingleOutputRounds(table, open_thresholds, params)
    return MulticlassRounds(table, open_thresholds, params, train, n_outputs)
