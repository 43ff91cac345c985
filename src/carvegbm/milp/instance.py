"""One instance as the ensemble and the attacker see it, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.milp.exact import exact_sum
from carvegbm.milp.objective import Objective, Term

__all__ = ["Instance", "Scene"]

_FEW = 32
"""Trees that are faster walked one by one than all at once."""


class Scene:
    """An ensemble and an attacker, and what all instances have in common."""

    def __init__(self, ensemble: Ensemble, attacker: Attacker) -> None:
        self.ensemble, self.attacker = ensemble, attacker
        self.limits = attacker.limits(ensemble)
        power = 1 if attacker.norm in (0, math.inf) else int(attacker.norm)
        self.capacity = Fraction(attacker.budget) ** power
        self.roots: npt.NDArray[np.intp] = ensemble.roots.astype(np.intp)
        nodes = ensemble.nodes
        self.feature, self.threshold, self.left, self.right, self.missing = (
            np.ascontiguousarray(nodes[name])
            for name in ("feature", "threshold", "left", "right", "missing")
        )
        # The different thresholds, by feature and ascending, and which of them a split has.
        split = np.flatnonzero(self.feature >= 0)
        split = split[np.lexsort((self.threshold[split], self.feature[split]))]
        feature, threshold = self.feature[split], self.threshold[split]
        is_new = np.ones(len(split), dtype=bool)
        is_new[1:] = (feature[1:] != feature[:-1]) | (threshold[1:] != threshold[:-1])
        self.split, self.cut_of_split = split, np.cumsum(is_new) - 1
        self.cut_feature, self.cut_threshold = feature[is_new], threshold[is_new]
        grid = np.float32 if ensemble.input_precision == "float32" else np.float64
        with np.errstate(over="ignore"):
            above = np.nextafter(self.cut_threshold.astype(grid), grid(np.inf))
        self.cut_above = above.astype(np.float64)

    @cached_property
    def columns(self) -> list[list[Any]]:
        """Feature, threshold, left, right, missing of every node, for walks in Python."""
        each = (self.feature, self.threshold, self.left, self.right, self.missing)
        return [column.tolist() for column in each]


class Instance:
    """x as the ensemble and the attacker see it."""

    def __init__(self, scene: Scene, x: npt.ArrayLike) -> None:
        self.scene, self.ensemble = scene, scene.ensemble
        self.x: npt.NDArray[np.float64] = np.asarray(x).astype(np.float64)

    def routed(self, z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The numbers the splits compare."""
        if self.ensemble.input_precision == "float64":
            return z
        with np.errstate(over="ignore"):
            return z.astype(np.float32).astype(np.float64)

    def leaves(self, z: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """The rows of the scores that z falls into, one per tree."""
        scene, seen = self.scene, self.routed(z)
        at = scene.roots.copy()
        open_ = np.flatnonzero(scene.feature[at] >= 0)
        while len(open_) > _FEW:
            node = at[open_]
            value = seen[scene.feature[node]]
            to_left = np.where(
                np.isnan(value), scene.missing[node] == 1, value <= scene.threshold[node]
            )
            at[open_] = np.where(to_left, scene.left[node], scene.right[node])
            open_ = open_[scene.feature[at[open_]] >= 0]
        if len(open_):  # a few, maybe very deep
            feature, threshold, left, right, missing = scene.columns
            known = seen.tolist()
        for tree in open_.tolist():
            here = int(at[tree])
            while feature[here] >= 0:
                number = known[feature[here]]
                is_left = missing[here] == 1 if number != number else number <= threshold[here]
                here = left[here] if is_left else right[here]
            at[tree] = here
        return np.asarray(scene.left[at], dtype=np.intp)

    def total(self, term: Term, rows: npt.NDArray[np.intp]) -> Fraction:
        """A term over the base score and these leaves, times `average`."""
        return self._sum(term.plus, rows) - self._sum(term.minus, rows)

    def _sum(self, output: int | None, rows: npt.NDArray[np.intp]) -> Fraction:
        """Of one output, or what stands for it in a `Term`."""
        ensemble = self.ensemble
        if output is None:
            threshold = ensemble.threshold if ensemble.task == "binary" else 0.0
            return Fraction(threshold) * ensemble.average
        return exact_sum(np.append(ensemble.scores[rows, output], ensemble.base_score[output]))

    def values(self, objective: Objective, z: npt.NDArray[np.float64]) -> list[Fraction]:
        """The terms of an objective at z."""
        rows = self.home if z is self.x else self.leaves(z)
        outputs = {output for term in objective.terms for output in (term.plus, term.minus)}
        sums = {output: self._sum(output, rows) for output in outputs}
        average = self.ensemble.average
        return [(sums[term.plus] - sums[term.minus]) / average for term in objective.terms]

    @cached_property
    def home(self) -> npt.NDArray[np.intp]:
        """The leaves of x itself."""
        return self.leaves(self.x)

    @cached_property
    def decision(self) -> int:
        """Position of the class decided at x."""
        rows = self.leaves(self.x)
        if self.ensemble.task == "binary":
            total = self.total(Term(0, None), rows)
            return int(total >= 0 if self.ensemble.tie == "positive" else total > 0)
        raw = [self.total(Term(c, None), rows) for c in range(self.ensemble.n_outputs)]
        return raw.index(max(raw))

    def price(self, feature: int, value: float) -> Fraction:
        """What it costs to move one feature to a value, alone."""
        norm = self.scene.attacker.norm
        if norm == 0:
            return Fraction(int(value != self.x[feature]))
        distance = abs(Fraction(value) - Fraction(float(self.x[feature])))
        if len(self.scene.limits.scale):
            distance /= Fraction(float(self.scene.limits.scale[feature]))
        return distance if math.isinf(norm) else distance ** int(norm)

    def affords(self, prices: Iterable[Fraction]) -> bool:
        """Whether moves of these prices are together within the budget."""
        together = max if math.isinf(self.scene.attacker.norm) else sum
        return together([Fraction(0), *prices]) <= self.scene.capacity
