"""One instance as the ensemble and the attacker see it, in exact arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.encoding import Bounds
from carvegbm.engines.milp.aim import Aim, Term
from carvegbm.engines.milp.exact import exact_sum
from carvegbm.engines.milp.layout import layout_of
from carvegbm.problem import Problem

__all__ = ["Point", "Scene"]

_FEW = 32
"""Trees that are faster walked one by one than all at once."""
_NO_STATES = np.zeros(0, dtype=np.intp)


class Scene:
    """An ensemble and an attacker: what all instances have in common."""

    def __init__(self, problem: Problem) -> None:
        ensemble, attacker = problem.ensemble, problem.attacker
        self.ensemble, self.attacker = ensemble, attacker
        self.layout, self.limits = layout_of(problem), problem.limits
        self.translation = problem.encoding
        power = 1 if attacker.norm in (0, math.inf) else int(attacker.norm)
        self.capacity = Fraction(attacker.budget) ** power

    def scale(self, *, up: bool) -> npt.NDArray[np.float64]:
        """Of every feature, in one direction: 0 where it is closed; empty: all 1."""
        scale, scale_up = self.limits.scale, self.limits.scale_up
        return scale_up if up and len(scale_up) else scale

    @cached_property
    def steps(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Of every feature about the size of its steps, and the largest number on its lattice."""
        sizes, ends = np.ones(self.ensemble.n_features), np.full(self.ensemble.n_features, np.inf)
        for lattice, features in self.translation.features_of_grid:
            sizes[features], ends[features] = float(lattice.step), lattice.end
        return sizes, ends

    @cached_property
    def states(self) -> dict[int, npt.NDArray[np.intp]]:
        """Of every finite feature, what it may be changed to where the bounds of the row allow."""
        finite = (*self.limits.categories, *self.translation.groups)
        return {f: np.array(self.translation.allowed_states(f), dtype=np.intp) for f in finite}


class Point:
    """x as the ensemble and the attacker see it, in the core's numbers.

    Parameters
    ----------
    scene : Scene
    x : array (n_features,)
    bounds : two arrays (n_features,), optional
        Those of the row, where rows have bounds of their own.
    """

    def __init__(self, scene: Scene, x: npt.ArrayLike, bounds: Bounds | None = None) -> None:
        self.scene, self.ensemble = scene, scene.ensemble
        self.x: npt.NDArray[np.float64] = np.asarray(x).astype(np.float64)
        self.bounds = scene.encoding.bounds if bounds is None else bounds

    def routed(self, z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The numbers the splits compare."""
        if self.ensemble.input_precision == "float64":
            return z
        with np.errstate(over="ignore"):
            rounded = z.astype(np.float32).astype(np.float64)
        grid = self.scene.layout.grid
        return np.where(grid == 0, rounded, z) if len(grid) else rounded

    def states(self, feature: int) -> npt.NDArray[np.intp]:
        """What the attacker may change a finite feature to; nothing where x is missing."""
        found = self.scene.states.get(feature, _NO_STATES)
        if math.isnan(self.x[feature]):
            return _NO_STATES
        group = self.scene.encoding.groups.get(feature)
        if group is None or not self.scene.limits.by_row:
            return found
        _, upper = self.bounds
        return found[upper[list(group)][found] > 0]

    def leaves(self, z: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """The rows of the scores that z falls into, one per tree."""
        layout, seen = self.scene.layout, self.routed(z)
        at = layout.roots.copy()
        open_ = np.flatnonzero(layout.feature[at] >= 0)
        while len(open_) > _FEW:
            node = at[open_]
            value = seen[layout.feature[node]]
            at[open_] = np.where(
                layout.goes_left(node, value), layout.left[node], layout.right[node]
            )
            open_ = open_[layout.feature[at[open_]] >= 0]
        for tree in open_.tolist():  # a few, maybe very deep
            here = at[tree]
            while (feature := layout.feature[here]) >= 0:
                is_left = layout.sends_left(here, seen[feature])
                here = layout.left[here] if is_left else layout.right[here]
            at[tree] = here
        return np.asarray(layout.left[at], dtype=np.intp)

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

    def values(self, objective: Aim, z: npt.NDArray[np.float64]) -> list[Fraction]:
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
        scene, here = self.scene, float(self.x[feature])
        distance = abs(Fraction(value) - Fraction(here))
        if feature in scene.limits.step:
            distance *= scene.limits.step[feature]
        elif distance and feature in scene.states:
            distance = Fraction(1)
        if distance and len(scene.limits.scale):
            distance /= Fraction(float(scene.scale(up=value > here)[feature]))
        return distance if math.isinf(norm) else distance ** int(norm)

    def affords(self, prices: Iterable[Fraction]) -> bool:
        """Whether moves of these prices are together within the budget."""
        together = max if math.isinf(self.scene.attacker.norm) else sum
        return together([Fraction(0), *prices]) <= self.scene.capacity
