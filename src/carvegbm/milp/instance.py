"""One instance as the ensemble and the attacker see it, in exact arithmetic."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.milp.objective import Objective, Term

__all__ = ["Clock", "Instance"]


class Clock:
    """Counts the time of one instance down."""

    def __init__(self, timeout: float) -> None:
        if not timeout > 0:
            raise CarveError(f"timeout must be > 0 seconds, got {timeout:g}")
        self._started, self._timeout = time.perf_counter(), float(timeout)

    @property
    def seconds(self) -> float:
        """Seconds taken so far."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds left."""
        return self._timeout - self.seconds


class Instance:
    """x as the ensemble and the attacker see it."""

    def __init__(self, ensemble: Ensemble, x: npt.ArrayLike, attacker: Attacker) -> None:
        rows = ensemble.check_data(np.asarray(x)[None])
        attacker.check_instances(ensemble, rows)
        self.ensemble, self.attacker, self.limits = ensemble, attacker, attacker.limits(ensemble)
        self.x: npt.NDArray[np.float64] = rows[0].astype(np.float64)
        power = 1 if attacker.norm in (0, math.inf) else int(attacker.norm)
        self.capacity = Fraction(attacker.budget) ** power
        names = ("feature", "threshold", "left", "right", "missing")
        self.columns = [ensemble.nodes[name].tolist() for name in names]

    def routed(self, z: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The numbers the splits compare."""
        if self.ensemble.input_precision == "float64":
            return z
        with np.errstate(over="ignore"):
            return z.astype(np.float32).astype(np.float64)

    def leaves(self, z: npt.NDArray[np.float64]) -> list[int]:
        """The rows of the scores that z falls into, one per tree."""
        feature, threshold, left, right, missing = self.columns
        seen, found = self.routed(z).tolist(), []
        for root in self.ensemble.roots.tolist():
            node = root
            while feature[node] >= 0:
                value = seen[feature[node]]
                to_left = missing[node] == 1 if value != value else value <= threshold[node]
                node = left[node] if to_left else right[node]
            found.append(left[node])
        return found

    def total(self, term: Term, rows: list[int]) -> Fraction:
        """A term over the base score and these leaves, times `average`."""
        ensemble, total = self.ensemble, Fraction(0)
        threshold = ensemble.threshold if ensemble.task == "binary" else 0.0
        for output, sign in ((term.plus, 1), (term.minus, -1)):
            if output is None:
                total += sign * Fraction(threshold) * ensemble.average
            else:
                parts = [ensemble.base_score[output], *ensemble.scores[rows, output]]
                total += sign * sum(map(Fraction, map(float, parts)), Fraction(0))
        return total

    def values(self, objective: Objective, z: npt.NDArray[np.float64]) -> list[Fraction]:
        """The terms of an objective at z."""
        rows = self.leaves(z)
        return [self.total(term, rows) / self.ensemble.average for term in objective.terms]

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
        norm = self.attacker.norm
        if norm == 0:
            return Fraction(int(value != self.x[feature]))
        distance = abs(Fraction(value) - Fraction(float(self.x[feature])))
        if len(self.limits.scale):
            distance /= Fraction(float(self.limits.scale[feature]))
        return distance if math.isinf(norm) else distance ** int(norm)

    def affords(self, prices: Iterable[Fraction]) -> bool:
        """Whether moves of these prices are together within the budget."""
        together = max if math.isinf(self.attacker.norm) else sum
        return together([Fraction(0), *prices]) <= self.capacity
