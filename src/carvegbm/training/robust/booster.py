"""Rows coded for robust boosting, the boosting rounds, and the loss of worst scores.

A split counts every row where the attacker would push it. `Coder` finds, per threshold t of a
feature, the values from which the attacker can push a row to t (x <= t + reach) and those that stay
at or below t whatever it does (x < t - reach). The bins of a feature end at these values, so that
one code per value decides both questions for every threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attacker import Attacker
from carvegbm.axes.lattice import Lattice
from carvegbm.ensemble import Ensemble
from carvegbm.training.binning import BinMapper, category_codes
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule

__all__ = ["CodedRows", "Coder", "RobustTrees", "losses", "margins", "mean_loss"]

Floats = npt.NDArray[np.float64]

_NUMBERS, _OR_MISSING, _CATEGORIES = 0, 1, 2  # kinds of features, as the core has them


@dataclass(frozen=True)
class RobustTrees:
    """Trees over codes and their leaf scores.

    Attributes
    ----------
    bias : array (n_outputs,)
        Added to the scores of every row.
    trees : sequence of CodedTree
    outputs : sequence of int
        The output that each tree counts for.
    values : array
        Leaf scores, tree after tree.
    """

    bias: Floats
    trees: Sequence[_core.CodedTree] = ()
    outputs: Sequence[int] = ()
    values: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """Where the scores of each tree begin in `values`, and where the last ones end."""
        return np.cumsum([0, *(len(tree.values) for tree in self.trees)])

    def first(self, n_trees: int) -> RobustTrees:
        """The first trees."""
        end = self.offsets[n_trees]
        return replace(
            self,
            trees=self.trees[:n_trees],
            outputs=self.outputs[:n_trees],
            values=self.values[:end],
        )

    def followed_by(self, other: RobustTrees) -> RobustTrees:
        """These trees and then those of `other`, with this bias."""
        return RobustTrees(
            self.bias,
            [*self.trees, *other.trees],
            [*self.outputs, *other.outputs],
            np.concatenate([self.values, other.values]),
        )

    def leaf_scores(self) -> list[Floats]:
        """The scores of every tree, with the bias in those of each output's first tree."""
        if not self.trees:
            return []
        parts = np.split(self.values + self.bias_parts()[0], self.offsets[1:-1])
        return parts[: len(self.trees)]  # one empty part if there are no trees

    def bias_parts(self) -> tuple[Floats, npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Per leaf, the bias that `leaf_scores` adds, the number of the leaf, and its output."""
        sizes = np.diff(self.offsets)
        n_outputs = len(self.bias)
        first = np.arange(len(self.outputs)) < n_outputs  # outputs take turns
        outputs = np.repeat(np.array(self.outputs, dtype=np.int64), sizes)
        bias = self.bias[outputs] * np.repeat(first, sizes)
        return bias, np.arange(len(outputs)), outputs

    @staticmethod
    def average(members: Sequence[RobustTrees]) -> RobustTrees:
        """The mean of several models: their trees in turn, round by round."""
        n, n_outputs = len(members), len(members[0].bias)
        bias: Floats = np.mean([member.bias for member in members], axis=0)
        if n == 1:
            return members[0]
        places = sorted(
            (place // n_outputs, number, place)
            for number, member in enumerate(members)
            for place in range(len(member.trees))
        )
        parts = [np.split(member.values, member.offsets[1:-1]) for member in members]
        return RobustTrees(
            bias,
            [members[number].trees[place] for _, number, place in places],
            [members[number].outputs[place] for _, number, place in places],
            np.concatenate(
                [parts[number][place] / n for _, number, place in places] or [np.empty(0)]
            ),
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

    @property
    def targets(self) -> Floats:
        """Class indices or numbers, as the core takes them."""
        return np.ascontiguousarray(self.data.y, dtype=np.float64)

    def score_bounds(self, model: RobustTrees) -> tuple[Floats, Floats]:
        """Bounds on all scores within reach: sums over trees of the extreme leaves in reach."""
        found: Any = _core.score_bounds(
            self.rows,
            list(model.trees),
            list(model.outputs),
            model.values,
            model.bias,
            threads=self.threads,
        )
        low, high = found
        return np.asarray(low), np.asarray(high)

    def worst_scores(self, model: RobustTrees) -> tuple[Floats, Floats]:
        """The same bounds where only the attacker's side of each counts, found in half the time."""
        if self.task == "regression":
            return self.score_bounds(model)
        worst = _core.worst_scores(
            self.rows,
            self.targets,
            self.task,
            list(model.trees),
            list(model.outputs),
            model.values,
            model.bias,
            threads=self.threads,
        )
        return np.asarray(worst), np.asarray(worst)

    def booster(self, options: _core.BoostingOptions, n_outputs: int) -> _core.RobustBooster:
        """Return a booster on these rows, which starts from a constant."""
        return _core.RobustBooster(
            self.rows,
            self.targets,
            self.data.weight,
            self.task,
            n_outputs,
            options,
            threads=self.threads,
        )

    def refit(self, model: RobustTrees, options: _core.RefitOptions) -> RobustTrees:
        """The same trees with scores that suit the worst cases of these rows."""
        targets, unit = self.targets, 1.0
        if self.task == "regression":
            unit = float(np.std(targets)) or 1.0
        # The bias is no score of a leaf, so the refit pulls the others towards 0 alone.
        values = _core.refit_leaves(
            self.rows,
            targets / unit,
            self.data.weight,
            self.task,
            list(model.trees),
            list(model.outputs),
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
        X = data.X
        if self.bins.categories:
            X = np.array(X, dtype=np.float64)
            for feature, known in self.bins.categories.items():
                X[:, feature] = category_codes(X[:, feature], known)
        rows = _core.RowBlocks(
            np.ascontiguousarray(X),
            order.astype(np.int64),
            np.array([size for size in sizes if size], dtype=np.int64),
            *self._cuts,
            threads=self._threads,
        )
        return CodedRows(rows, data, self._task, self._threads)


def reach_ends(rule: ExclusionRule, feature: int, thresholds: Floats) -> tuple[Floats, Floats]:
    """Per threshold t, the largest x that can be pushed to x <= t, and the largest that stays so.

    Both are rounded in the attacker's favour. The attacker stays within its bounds: it pushes no
    row to a threshold below the lower one, and over none at or above the upper one.

    Examples
    --------
    >>> from carvegbm import Attacker
    >>> from carvegbm.training.validation import blank_ensemble
    >>> rule = ExclusionRule.against(Attacker("inf", 0.25), blank_ensemble(1))
    >>> reached, kept = reach_ends(rule, 0, np.array([1.0]))
    >>> round(float(reached[0]), 12), round(float(kept[0]), 12)
    (1.25, 0.75)
    """
    crossable = rule.crossable(feature, thresholds)
    if feature in rule.step:
        grid = Lattice(rule.step[feature], is_float32=False)
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


# ── losses of worst scores ───────────────────────────────────────────────────────────────────


def margins(data: Dataset, task: str, low: Floats, high: Floats) -> Floats:
    """Per row, a lower bound on its worst margin, positive where the row is robust.

    For a regression, minus the distance of the worse end from the target.
    """
    y = data.y
    if task == "regression":
        return np.asarray(-np.maximum(y - low[:, 0], high[:, 0] - y))
    if task == "binary":
        return np.asarray(np.where(y == 1, low[:, 0], -high[:, 0]))
    own = np.arange(len(y)), y.astype(np.int64)
    rivals = np.array(high)
    rivals[own] = -np.inf
    return np.asarray(low[own] - rivals.max(axis=1))


def losses(data: Dataset, task: str, low: Floats, high: Floats) -> Floats:
    """The loss of every row at its worst scores, as the core minimises it, without weights."""
    if task == "regression":
        return np.asarray(margins(data, task, low, high) ** 2 / 2)
    if task == "binary":
        return np.logaddexp(0, -margins(data, task, low, high))
    own = np.arange(len(data)), data.y.astype(np.int64)
    worst = np.array(high)
    worst[own] = low[own]
    most = worst.max(axis=1)
    return np.asarray(most + np.log(np.exp(worst - most[:, None]).sum(axis=1)) - worst[own])


def mean_loss(data: Dataset, task: str, low: Floats, high: Floats) -> float:
    """The weighted mean of `losses`."""
    return float(np.average(losses(data, task, low, high), weights=data.weight))
