"""Rows coded for robust boosting, and the trees that are grown on them.

A split counts every row where the attacker would push it. `Coder` finds, per threshold t of a
feature, the values from which the attacker can push a row to t (x <= t + reach) and those that stay
at or below t whatever it does (x < t - reach). The bins of a feature end at these values, so that
one code per value decides both questions for every threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.encoding import StepGrid
from carvegbm.model.ensemble import Ensemble
from carvegbm.training.binning import BinMapper, category_codes
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule

__all__ = ["CodedRows", "Coder", "RobustTrees"]

Floats = npt.NDArray[np.float64]

_NUMBERS, _OR_MISSING, _CATEGORIES = 0, 1, 2  # kinds of features, as the core has them


@dataclass(frozen=True)
class RobustTrees:
    """Trees over codes, which count for outputs 0, 1, … in turn, and their leaf scores.

    Attributes
    ----------
    bias : array (n_outputs,)
        Added to the scores of every row.
    trees : sequence of CodedTree
    values : array
        Leaf scores, tree after tree.
    """

    bias: Floats
    trees: Sequence[_core.CodedTree] = ()
    values: Floats = field(default_factory=lambda: np.empty(0))

    @classmethod
    def of(cls, booster: _core.RobustBooster) -> RobustTrees:
        """Return the trees of a booster so far."""
        trees = booster.trees
        values = np.concatenate([np.empty(0), *(np.asarray(tree.values) for tree in trees)])
        return cls(np.asarray(booster.bias), trees, values)

    @property
    def outputs(self) -> list[int]:
        """The output that each tree counts for."""
        return [place % len(self.bias) for place in range(len(self.trees))]

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of leaves of each tree."""
        return np.array([len(tree.values) for tree in self.trees], dtype=np.int64)

    def first(self, n_trees: int) -> RobustTrees:
        """The first trees."""
        end = int(self.sizes[:n_trees].sum())
        return RobustTrees(self.bias, self.trees[:n_trees], self.values[:end])

    def by_tree(self, values: Floats) -> list[Floats]:
        """Split an array of all leaves, tree after tree."""
        return np.split(values, np.cumsum(self.sizes)[:-1]) if self.trees else []

    def bias_parts(self) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Per leaf, what the bias adds (to the first tree of an output alone), and its output."""
        first = np.arange(len(self.trees)) < len(self.bias)
        outputs = np.repeat(np.array(self.outputs, dtype=np.int64), self.sizes)
        return self.bias[outputs] * np.repeat(first, self.sizes), outputs

    @staticmethod
    def average(members: Sequence[RobustTrees]) -> RobustTrees:
        """The mean of several models: their trees in turn, round by round."""
        if len(members) == 1:
            return members[0]
        n_outputs = len(members[0].bias)
        turns = sorted(
            (place // n_outputs, number, place)
            for number, member in enumerate(members)
            for place in range(len(member.trees))
        )
        parts = [member.by_tree(member.values / len(members)) for member in members]
        return RobustTrees(
            np.mean([member.bias for member in members], axis=0),
            [members[number].trees[place] for _, number, place in turns],
            np.concatenate([np.empty(0), *(parts[number][place] for _, number, place in turns)]),
        )


@dataclass(frozen=True)
class CodedRows:
    """Rows in the core's blocks of codes, with what they should be.

    Attributes
    ----------
    rows : RowBlocks
    data : Dataset
    """

    rows: _core.RowBlocks
    data: Dataset
    task: str
    threads: int

    @cached_property
    def targets(self) -> Floats:
        """Class indices or numbers, per row of the matrix, as the core takes them."""
        return self._per_row_of_matrix(self.data.y)

    @cached_property
    def weights(self) -> Floats | None:
        """Weights per row of the matrix."""
        return None if self.data.weight is None else self._per_row_of_matrix(self.data.weight)

    def _per_row_of_matrix(self, values: npt.NDArray[Any]) -> Floats:
        if self.data.positions is None:
            return np.ascontiguousarray(values, dtype=np.float64)
        found = np.zeros(self.data.matrix.shape[0])
        found[self.data.positions] = values
        return found

    def margins(self, model: RobustTrees) -> Floats:
        """Per row, a lower bound on its worst margin, positive where the row is robust.

        For a regression, minus the distance of the worse end from the target.
        """
        y = self.data.y
        trees = list(model.trees), model.outputs, model.values, model.bias
        if self.task == "regression":
            found: Any = _core.score_bounds(self.rows, *trees, threads=self.threads)
            low, high = (self._of_rows(each) for each in found)
            return np.asarray(-np.maximum(y - low[:, 0], high[:, 0] - y))
        worst = self._of_rows(
            _core.worst_scores(self.rows, self.targets, self.task, *trees, threads=self.threads)
        )
        if self.task == "binary":
            return np.asarray(np.where(y == 1, worst[:, 0], -worst[:, 0]))
        own = np.arange(len(y)), y.astype(np.int64)
        rivals = worst.copy()
        rivals[own] = -np.inf
        return np.asarray(worst[own] - rivals.max(axis=1))

    def _of_rows(self, per_row_of_matrix: Any) -> Floats:
        found = np.asarray(per_row_of_matrix)
        return found if self.data.positions is None else found[self.data.positions]

    def booster(self, options: _core.BoostingOptions, n_outputs: int) -> _core.RobustBooster:
        """Return a booster on these rows, which starts from a constant."""
        return _core.RobustBooster(
            self.rows,
            self.targets,
            self.weights,
            self.task,
            n_outputs,
            options,
            threads=self.threads,
        )

    def refit(self, model: RobustTrees, options: _core.RefitOptions) -> RobustTrees:
        """The same trees with scores that suit the worst cases of these rows."""
        unit = 1.0
        if self.task == "regression":
            unit = float(np.std(self.data.y)) or 1.0
        # The bias is no score of a leaf, so the refit pulls the others towards 0 alone.
        values = _core.refit_leaves(
            self.rows,
            self.targets / unit,
            self.weights,
            self.task,
            list(model.trees),
            model.outputs,
            model.values / unit,
            model.bias / unit,
            options,
            threads=self.threads,
        )
        return replace(model, values=np.asarray(values) * unit)


class Coder:
    """Codes rows for one attacker of norm inf and the thresholds of one `BinMapper`."""

    def __init__(
        self, bins: BinMapper, attacker: Attacker, blank: Ensemble, task: str, threads: int
    ) -> None:
        self.bins = bins
        self._task, self._threads = task, threads
        rule = ExclusionRule.against(attacker, blank)
        ends: list[Floats] = []
        can_left: list[npt.NDArray[np.uint8]] = []
        must_left: list[npt.NDArray[np.uint8]] = []
        kinds = np.zeros(bins.n_features, dtype=np.uint8)
        for feature, thresholds in enumerate(bins.thresholds):
            if feature in bins.categories:
                kinds[feature] = _CATEGORIES
                ends.append(np.arange(0.5, len(bins.categories[feature])))
                thresholds = np.empty(0)
                reached, kept = thresholds, thresholds
            else:
                kinds[feature] = _OR_MISSING if feature in bins.missing else _NUMBERS
                reached, kept = reach_ends(rule, feature, thresholds)
                ends.append(np.unique(np.concatenate([reached, kept])))
            can_left.append(np.searchsorted(ends[-1], reached).astype(np.uint8))
            must_left.append(np.searchsorted(ends[-1], kept).astype(np.uint8))
        self._cuts = (
            np.concatenate([np.empty(0), *ends]),
            np.cumsum([0, *map(len, ends)], dtype=np.int64),
            np.concatenate([np.empty(0, dtype=np.uint8), *can_left]),
            np.concatenate([np.empty(0, dtype=np.uint8), *must_left]),
            np.cumsum([0, *map(len, can_left)], dtype=np.int64),
            kinds,
        )

    def code(self, data: Dataset, seed: int | None = None) -> CodedRows:
        """Code rows in blocks of one class; with a seed, shuffled within their class."""
        order = np.arange(len(data))
        if seed is not None:
            order = np.random.default_rng(seed).permutation(len(data))
        sizes = [len(data)]
        if self._task != "regression":
            order = order[np.argsort(-data.y[order], kind="stable")]
            sizes = np.bincount(data.y)[::-1].tolist()
        if data.positions is not None:
            order = data.positions[order]
        X = data.matrix
        if self.bins.categories:
            X = np.array(X, dtype=np.float64)
            for feature, known in self.bins.categories.items():
                X[:, feature] = category_codes(X[:, feature], known)
        rows = _core.RowBlocks(
            np.ascontiguousarray(X),
            order.astype(np.int64, copy=False),
            np.array([size for size in sizes if size], dtype=np.int64),
            *self._cuts,
            threads=self._threads,
        )
        return CodedRows(rows, data, self._task, self._threads)


def reach_ends(rule: ExclusionRule, feature: int, thresholds: Floats) -> tuple[Floats, Floats]:
    """Per threshold t, the largest x that can be pushed to x <= t, and the largest that stays so.

    Both are rounded in the attacker's favour. The attacker stays within its bounds: it pushes no
    row to a threshold below the lower one, and over none at or above the upper one.
    """
    crossable = rule.crossable(feature, thresholds)
    if feature in rule.step:
        grid = StepGrid(rule.step[feature], is_float32=False)
        last = rule.coordinates(feature, thresholds)
        down, up = rule.steps_within_budget(feature)
        reached, kept = grid.doubles(last + down + 0.5), grid.doubles(last - up + 0.5)
    else:
        down = rule.budget * rule.scale[feature]
        up = rule.budget * rule.scale_up[feature]
        reached, kept = thresholds, thresholds
        if down > 0:
            reached = _two_up(thresholds + _two_up(down))
        if up > 0:
            kept = -_two_up(_two_up(up) - thresholds)
    return np.where(crossable, reached, thresholds), np.where(crossable, kept, thresholds)


def _two_up(values: Any) -> Any:
    """The second double above each value: above what exact arithmetic would give."""
    return np.nextafter(np.nextafter(values, np.inf), np.inf)
