"""Boosting rounds: grow the trees of one round, close what they rule out, merge the codes.

Comes in: codes, labels, checked LightGBM parameters, the open thresholds. Goes out: the grown
trees of one round after the other. One output (binary, regression): LightGBM's own objective.
Several (multiclass): softmax gradients of the round's start for all classes; the trees of a round
are grown one at a time, each closing thresholds to the next, and every round begins with another
class so that none has the first pick for good.

Where rows, features or thresholds are sampled, a sample without a split does not mean that none is
left. A round draws up to 20 samples for a tree; then the whole data are looked at. If these have no
split, training is over. If they have one, the round is left without a split, and the next one tries
again: n rounds never take more than 20 n samples per output.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.training.growing.closing import OpenThresholds
from carvegbm.training.growing.grown import GrownTree
from carvegbm.training.growing.lightgbm_c import CodeTable, RawBooster, disagreement

__all__ = ["MultipleOutputs", "Rounds", "SingleOutput", "rounds"]

Floats = npt.NDArray[np.float64]

_SAMPLES = 20  # drawn in a round before the whole data are looked at
_WHOLE: Mapping[str, Any] = {
    "bagging_fraction": 1.0,
    "bagging_freq": 0,
    "data_sample_strategy": "bagging",
    "extra_trees": False,
    "feature_fraction": 1.0,
    "feature_fraction_bynode": 1.0,
    "neg_bagging_fraction": 1.0,
    "pos_bagging_fraction": 1.0,
    "use_quantized_grad": False,
}  # LightGBM's parameters when nothing is left to chance


class Rounds(ABC):
    """Grows the trees of one round at a time; `table` and `open` change with every tree."""

    _overrides: Mapping[str, Any] = {}  # what LightGBM is told instead of the user's parameters

    def __init__(
        self, table: CodeTable, open_thresholds: OpenThresholds, parameters: Mapping[str, Any]
    ) -> None:
        self.table = table
        self.open = open_thresholds
        self.parameters = {**parameters, **self._overrides}
        self.trees: list[GrownTree] = []
        """All that LightGBM's score of a row is the sum of, in the order it added them up."""
        self.samples_rows = _samples_rows(self.parameters)
        """Whether a tree may have been grown on some of the rows only."""
        self.booster = RawBooster(table, self.parameters)
        self._round = 0
        self._split_is_left = False  # known of the whole data, as they are since the last tree

    @abstractmethod
    def grow(self) -> list[GrownTree] | None:
        """The trees of the next round, one per output; None when no split is left.

        Constant trees where the samples of this round have no split, but the whole data have one.
        """

    @abstractmethod
    def constant(self) -> list[GrownTree]:
        """The model without a split, one tree per output."""

    def reset(self, parameters: Mapping[str, Any]) -> None:
        """Change learning parameters for the rounds to come."""
        self.parameters = {**parameters, **self._overrides}
        self.booster.reset(self.parameters)
        self.samples_rows |= _samples_rows(self.parameters)
        self._split_is_left = False

    def template(self) -> str:
        """A model text whose header and parameters describe this training."""
        return self.booster.text(0, 1)

    def _grow_tree(
        self,
        gradients: npt.NDArray[np.float32] | None = None,
        hessians: npt.NDArray[np.float32] | None = None,
    ) -> GrownTree | None:
        """The next tree, or None where no sample of this round has a split."""
        samples = _SAMPLES if self._chance_decides else 1
        if not any(self.booster.grow(gradients, hessians) for _ in range(samples)):
            return None
        self._split_is_left = False
        text = self.booster.text(self.booster.n_trees - 1, 1)
        try:
            return GrownTree.parse(text, self.open)
        except CarveError as error:
            raise disagreement(f"grew a tree it could not grow ({error})") from None

    @property
    def _chance_decides(self) -> bool:
        """Whether a round without a split may be bad luck."""
        return self.open.is_split_left and _is_sampled(self.parameters)

    def _goes_on(self, whole_data_split: Callable[[], bool]) -> bool:
        """Whether training goes on after a round without a split: the whole data have one."""
        if self._chance_decides and not self._split_is_left:
            self._split_is_left = whole_data_split()
        return self._split_is_left

    def _unsampled(self) -> RawBooster:
        """A Booster that looks at the whole data, for one split."""
        return RawBooster(self.table, {**self.parameters, **_WHOLE, "num_leaves": 2})

    def _close(self, tree: GrownTree) -> None:
        lost = self.open.close_after(tree.feature.tolist(), tree.position.tolist())
        self.table.merge({feature: self.open.merged_codes(feature) for feature in lost})


def _is_sampled(parameters: Mapping[str, Any]) -> bool:
    """Whether chance decides what a tree may split on."""
    return (
        _samples_rows(parameters)
        or _is_below_1(parameters, "feature_fraction", "feature_fraction_bynode")
        or bool(parameters.get("extra_trees"))
        or bool(parameters.get("use_quantized_grad"))
    )


def _samples_rows(parameters: Mapping[str, Any]) -> bool:
    """Whether a tree is grown on some of the rows."""
    fractions = ("bagging_fraction", "pos_bagging_fraction", "neg_bagging_fraction")
    bags = int(parameters.get("bagging_freq", 0)) > 0 and _is_below_1(parameters, *fractions)
    return bags or parameters.get("data_sample_strategy") == "goss"


def _is_below_1(parameters: Mapping[str, Any], *names: str) -> bool:
    return any(float(parameters.get(name, 1)) < 1 for name in names)


class SingleOutput(Rounds):
    """One tree per round, on the gradients of LightGBM's own objective."""

    def __init__(
        self, table: CodeTable, open_thresholds: OpenThresholds, parameters: Mapping[str, Any]
    ) -> None:
        super().__init__(table, open_thresholds, parameters)
        # Only a look at the whole data needs the raw scores, and they take time to keep.
        self._raw = np.zeros(len(table.codes)) if _is_sampled(parameters) else None

    def grow(self) -> list[GrownTree] | None:
        """The next tree, or None when no split is left."""
        first = self._round == 0
        tree = self._grow_tree()
        if tree is None:
            constant = self.constant()[0] if first else GrownTree.constant(0.0, self._n_rows)
            if not self._goes_on(lambda: self._whole_data_split(constant)):
                return None
            tree = constant
        elif first and self.booster.n_trees > 1:
            # A sample without a split came before: LightGBM made the start a tree of its own.
            tree = tree.shifted(float(self.constant()[0].value[0]))
        self._round += 1
        self.trees.append(tree)
        if self._raw is not None:
            tree.add_to(self._raw, self.table.codes)
        self._close(tree)
        return [tree]

    def _whole_data_split(self, constant: GrownTree) -> bool:
        """Whether there is a split after the trees so far and `constant`."""
        if self._raw is None:  # a callback made training sample later: the rounds bound it
            return True
        with self.table.starting_from(self._raw + constant.value[0]):
            return self._unsampled().grow()

    @property
    def _n_rows(self) -> int:
        return len(self.table.codes)

    def constant(self) -> list[GrownTree]:
        """The constant that LightGBM keeps when the first round finds no split."""
        if self.booster.n_trees == 0:  # interrupted before the first round
            return [GrownTree.constant(0.0, self._n_rows)]
        return [GrownTree.parse(self.booster.text(0, 1), self.open)]


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
        super().__init__(table, open_thresholds, parameters)
        self._labels = labels
        self._weight = np.ones(len(labels)) if weight is None else weight
        weights = [math.fsum(self._weight[labels == label]) for label in range(n_outputs)]
        self._n_rows = len(labels)
        self._unit = _unit(len(labels), float(self._weight.max(initial=0.0)))
        shares = np.array(weights) / math.fsum(self._weight)
        from_average = parameters.get("boost_from_average", True)
        self._bias = np.log(np.maximum(shares, 1e-15)) * bool(from_average)
        self._raw = np.tile(self._bias, (len(labels), 1))

    def grow(self) -> list[GrownTree] | None:
        """The next tree of every class, in the order of the classes; None when no split is left."""
        n_outputs = self._raw.shape[1]
        share = np.exp(self._raw - self._raw.max(axis=1, keepdims=True))
        share /= share.sum(axis=1, keepdims=True)
        trees: list[GrownTree | None] = [None] * n_outputs
        for turn in range(n_outputs):
            output = (self._round + turn) % n_outputs
            tree = self._grow_tree(*self._slopes(share, output))
            if tree is not None:
                self.trees.append(tree)
                # The table still tells apart what this tree tells apart; _close changes that.
                self._add(tree, output)
                self._close(tree)
            trees[output] = tree
        if not any(trees) and not self._goes_on(lambda: self._whole_data_split(share)):
            return None
        first = self._round == 0
        self._round += 1
        nothing = GrownTree.constant(0.0, self._n_rows)
        constants = self.constant() if first else [nothing] * n_outputs
        return [
            constant if tree is None else tree.shifted(bias) if first else tree
            for tree, constant, bias in zip(trees, constants, self._bias.tolist(), strict=True)
        ]

    def _slopes(
        self, share: Floats, output: int
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Gradients and hessians of one class's scores, at the classes' shares (n, n_outputs)."""
        p, n_outputs = share[:, output], share.shape[1]
        gradients = (p - (self._labels == output)) * self._weight
        hessians = n_outputs / (n_outputs - 1) * p * (1 - p) * self._weight
        return self._rounded(gradients), self._rounded(hessians)

    def _rounded(self, slopes: Floats) -> npt.NDArray[np.float32]:
        return np.asarray(np.rint(slopes / self._unit) * self._unit, dtype=np.float32)

    def _whole_data_split(self, share: Floats) -> bool:
        """Whether there is a split for any class."""
        booster = self._unsampled()
        return any(booster.grow(*self._slopes(share, output)) for output in range(share.shape[1]))

    def _add(self, tree: GrownTree, output: int) -> None:
        raw = np.ascontiguousarray(self._raw[:, output])
        tree.add_to(raw, self.table.codes)
        self._raw[:, output] = raw

    def constant(self) -> list[GrownTree]:
        """The logarithm of every class's share."""
        return [GrownTree.constant(bias, self._n_rows) for bias in self._bias.tolist()]


def _unit(n_rows: int, heaviest: float) -> float:
    """A power of two u such that LightGBM's sums of multiples of u are exact.

    Slopes are at most 2 `heaviest`, their sums at most 2^53 u, which doubles hold: a sum does not
    depend on the order of its terms, nor on the number of threads.
    """
    return float(2.0 ** (np.frexp(2 * heaviest)[1] + n_rows.bit_length() - 53))


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
