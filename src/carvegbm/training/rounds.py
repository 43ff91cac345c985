"""Boosting rounds: grow the trees of one round, close what they rule out, merge the codes.

Comes in: codes, labels, checked LightGBM parameters, the open thresholds. Goes out: the grown
trees of one round after the other. One output (binary, regression): LightGBM's own objective.
Several (multiclass): softmax gradients of the round's start for all classes; the trees of a round
are grown one at a time, each closing thresholds to the next, and every round begins with another
class so that none has the first pick for good.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.closing import OpenThresholds
from carvegbm.training.grown import GrownTree
from carvegbm.training.lightgbm_c import CodeTable, RawBooster

__all__ = ["MultipleOutputs", "Rounds", "SingleOutput", "rounds"]

Floats = npt.NDArray[np.float64]

_TRIES = 20  # rounds without a split before sampled features or rows count as exhausted


class Rounds:
    """Grows the trees of one round at a time; `table` and `open` change with every tree."""

    _overrides: Mapping[str, Any] = {}  # what LightGBM is told instead of the user's parameters

    def __init__(
        self, table: CodeTable, open_thresholds: OpenThresholds, parameters: Mapping[str, Any]
    ) -> None:
        self.table = table
        self.open = open_thresholds
        self.booster = RawBooster(table, parameters)
        samples = ("bagging_fraction", "feature_fraction", "feature_fraction_bynode")
        sampled = any(float(parameters.get(name, 1)) < 1 for name in samples)
        random = sampled or bool(parameters.get("extra_trees"))
        self._tries = _TRIES if random else 1

    def grow(self) -> list[GrownTree] | None:
        """The trees of the next round, one per output; None when no split is left."""
        raise NotImplementedError

    def constant(self) -> list[GrownTree]:
        """The model without a split, one tree per output."""
        raise NotImplementedError

    def reset(self, parameters: Mapping[str, Any]) -> None:
        """Change learning parameters for the rounds to come."""
        self.booster.reset({**parameters, **self._overrides})

    def template(self) -> str:
        """A model text whose header and parameters describe this training."""
        return self.booster.text(0, 1)

    def _grow_tree(
        self,
        gradients: npt.NDArray[np.float32] | None = None,
        hessians: npt.NDArray[np.float32] | None = None,
    ) -> GrownTree | None:
        # A first round without a split leaves a constant tree behind, which must stay the last.
        tries = self._tries if self.booster.n_trees else 1
        if not any(self.booster.grow(gradients, hessians) for _ in range(tries)):
            return None
        text = self.booster.text(self.booster.n_trees - 1, 1)
        return GrownTree.parse(text, self.open.threshold_at)

    def _close(self, tree: GrownTree) -> None:
        lost = self.open.close_after(tree.feature.tolist(), tree.threshold.tolist())
        self.table.merge({feature: self.open.merged_codes(feature) for feature in lost})


class SingleOutput(Rounds):
    """One tree per round, on the gradients of LightGBM's own objective."""

    def grow(self) -> list[GrownTree] | None:
        """The next tree, or None when no split is left."""
        tree = self._grow_tree()
        if tree is None:
            return None
        self._close(tree)
        return [tree]

    def constant(self) -> list[GrownTree]:
        """The constant that LightGBM keeps when the first round finds no split."""
        if self.booster.n_trees == 0:  # interrupted before the first round
            return [GrownTree.constant(0.0, len(self.table.codes))]
        return [GrownTree.parse(self.booster.text(0, 1), self.open.threshold_at)]


class MultipleOutputs(Rounds):
    """One tree per class and round, on softmax gradients; scores are kept here.

    Parameters
    ----------
    labels : array (n,) of int, 0 … n_outputs - 1
    weight : array (n,), optional
    """

    _overrides: Mapping[str, Any] = {"objective": "custom", "num_class": 1, "metric": "none"}

    def __init__(
        self,
        table: CodeTable,
        open_thresholds: OpenThresholds,
        parameters: Mapping[str, Any],
        labels: npt.NDArray[np.int64],
        weight: Floats | None,
        n_outputs: int,
    ) -> None:
        super().__init__(table, open_thresholds, {**parameters, **self._overrides})
        self._labels = labels
        self._weight = np.ones(len(labels)) if weight is None else weight
        shares = np.bincount(labels, self._weight, n_outputs) / self._weight.sum()
        from_average = parameters.get("boost_from_average", True)
        self._bias = np.log(np.maximum(shares, 1e-15)) * bool(from_average)
        self._raw = np.tile(self._bias, (len(labels), 1))
        self._round = 0

    def grow(self) -> list[GrownTree] | None:
        """The next tree of every class, in the order of the classes; None when none has a split."""
        n, n_outputs = self._raw.shape
        share = np.exp(self._raw - self._raw.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        trees: list[GrownTree | None] = [None] * n_outputs
        for turn in range(n_outputs):
            output = (self._round + turn) % n_outputs
            p = share[:, output]
            gradients = (p - (self._labels == output)) * self._weight
            hessians = n_outputs / (n_outputs - 1) * p * (1 - p) * self._weight
            tree = self._grow_tree(gradients.astype(np.float32), hessians.astype(np.float32))
            if tree is not None:
                # The table still tells apart what this tree tells apart; _close changes that.
                self._add(tree, output)
                self._close(tree)
            trees[output] = tree
        if not any(trees):
            return None
        first = self._round == 0
        self._round += 1
        constants = self.constant() if first else [GrownTree.constant(0.0, n)] * n_outputs
        return [
            constant if tree is None else tree.shifted(bias) if first else tree
            for tree, constant, bias in zip(trees, constants, self._bias.tolist(), strict=True)
        ]

    def _add(self, tree: GrownTree, output: int) -> None:
        raw = np.ascontiguousarray(self._raw[:, output])
        tree.add_to(raw, self.table.codes)
        self._raw[:, output] = raw

    def constant(self) -> list[GrownTree]:
        """The logarithm of every class's share."""
        return [GrownTree.constant(bias, len(self._labels)) for bias in self._bias.tolist()]


def rounds(
    table: CodeTable,
    open_thresholds: OpenThresholds,
    parameters: Mapping[str, Any],
    labels: npt.NDArray[Any],
    weight: Floats | None,
    n_outputs: int,
) -> Rounds:
    """The rounds for one output or for several."""
    table.set_field("label", labels if n_outputs == 1 else np.zeros(len(labels)))
    if weight is not None:
        table.set_field("weight", weight)
    if n_outputs == 1:
        return SingleOutput(table, open_thresholds, parameters)
    return MultipleOutputs(table, open_thresholds, parameters, labels, weight, n_outputs)
