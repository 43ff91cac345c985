"""An ensemble as milp walks it: the same for all instances, and kept with it where it can be."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.encoding import WHOLE
from carvegbm.engines.milp.classes import Classes
from carvegbm.ensemble import Ensemble
from carvegbm.problem import Problem
from carvegbm.trees.core import FINITE, StateSets

__all__ = ["Layout", "Thresholds", "layout_of"]


class Thresholds(NamedTuple):
    """The different thresholds; those of one feature follow each other and ascend."""

    feature: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    above: npt.NDArray[np.float64]
    """The smallest number to the right of it: a machine number, or a whole one."""
    split: npt.NDArray[np.intp]
    """All nodes that are splits by a threshold, …"""
    of_split: npt.NDArray[np.intp]
    """… and which of the thresholds they have."""


class Layout:
    """The nodes, column by column; what takes long is done when it is first needed.

    They are those of the core: whole numbers where there are steps, sets of states where features
    are finite.
    """

    def __init__(self, ensemble: Ensemble, sets: StateSets) -> None:
        self.roots: npt.NDArray[np.intp] = ensemble.roots.astype(np.intp)
        self.feature, self.threshold, self.left, self.right, self.missing = (
            np.ascontiguousarray(sets.nodes[name])
            for name in ("feature", "threshold", "left", "right", "missing")
        )
        self.grid = sets.grid
        """Of every feature: 0 real, WHOLE or FINITE; empty: all real."""
        self._sets = sets
        self._precision = np.float32 if ensemble.input_precision == "float32" else np.float64

    # ── ways ─────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def by_set(self) -> npt.NDArray[np.bool_] | None:
        """Of every node, whether it is a split by a set of states; None: there are none."""
        if not (self.grid == FINITE).any():
            return None
        is_finite = np.append(self.grid == FINITE, False)  # the last one for leaves, -1
        return np.asarray(is_finite[self.feature], dtype=bool)

    def goes_left(
        self, nodes: npt.NDArray[np.intp] | slice, values: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Which way splits send what they look at; of leaves, anything."""
        to_left = values <= self.threshold[nodes]
        if self.by_set is not None:
            sets = np.flatnonzero(self.by_set[nodes])
            numbers = self.threshold[nodes][sets].astype(np.intp)
            to_left[sets] = self._lists(numbers, values[sets])
        return np.where(np.isnan(values), self.missing[nodes] == 1, to_left)

    def sends_left(self, node: np.intp, value: np.float64) -> bool:
        """`goes_left` of one node, faster."""
        if value != value:
            return bool(self.missing[node] == 1)
        if self.by_set is None or not self.by_set[node]:
            return bool(value <= self.threshold[node])
        return bool(self._lists(self.threshold[[node]].astype(np.intp), np.array([value]))[0])

    def _lists(
        self, numbers: npt.NDArray[np.intp], states: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.bool_]:
        """Whether these sets hold these states, one each; none holds -1."""
        known = states >= 0  # NaN is not
        state = np.where(known, states, 0).astype(np.int64)
        word = self._sets.starts[numbers] + state // 64
        known &= word < self._sets.starts[numbers + 1]
        held = np.zeros(len(numbers), dtype=bool)
        bit = (state[known] % 64).astype(np.uint64)
        held[known] = self._sets.words[word[known]] >> bit & np.uint64(1)
        return held

    @cached_property
    def columns(self) -> list[list[int]]:
        """Feature, left and right of every node, for walks in Python."""
        return [column.tolist() for column in (self.feature, self.left, self.right)]

    # ── what splits ask for ──────────────────────────────────────────────────────────────────

    @cached_property
    def thresholds(self) -> Thresholds:
        """All thresholds, sorted."""
        is_split = self.feature >= 0
        if self.by_set is not None:
            is_split &= ~self.by_set
        split = np.flatnonzero(is_split)
        split = split[np.argsort(self.threshold[split])]
        few = np.iinfo(np.int16).max  # numbers of 16 bits are sorted in linear time
        feature = self.feature[split]
        feature = feature.astype(np.int16) if feature.max(initial=0) <= few else feature
        split = split[np.argsort(feature, kind="stable")]
        feature, threshold = self.feature[split], self.threshold[split]
        is_new = np.ones(len(split), dtype=bool)
        is_new[1:] = (feature[1:] != feature[:-1]) | (threshold[1:] != threshold[:-1])
        feature, threshold = feature[is_new], threshold[is_new]
        with np.errstate(over="ignore"):
            above = np.nextafter(threshold.astype(self._precision), self._precision(np.inf))
        above = above.astype(np.float64)
        if len(self.grid):
            above = np.where(self.grid[feature] == WHOLE, threshold + 1, above)
        return Thresholds(feature, threshold, above, split, np.cumsum(is_new) - 1)

    @cached_property
    def classes(self) -> dict[int, Classes]:
        """Of every finite feature that some split asks for: its states, as far as splits care."""
        if self.by_set is None:
            return {}
        splits = np.flatnonzero(self.by_set)
        number = self.threshold[splits].astype(np.intp)
        return {
            feature: Classes(self._sets, splits[here], number[here])
            for feature in np.unique(self.feature[splits]).tolist()
            for here in [self.feature[splits] == feature]
        }


def layout_of(problem: Problem) -> Layout:
    """The layout of a problem; where its ensemble is taken as it is, made once for that."""
    ensemble, translation = problem.ensemble, problem.encoding
    if translation.grids or translation.limits.one_hot:  # its nodes are the attacker's, too
        return Layout(ensemble, translation.sets)
    layout: Layout | None = ensemble.known.get("milp layout")
    if layout is None:
        layout = ensemble.known["milp layout"] = Layout(ensemble, translation.sets)
    return layout
