"""Crowds: thresholds that an attacker can take many rows across.

Comes in: an attacker's problem and its rows. Goes out: the most crowded thresholds, and LightGBM's
thresholds beside zero, as plain values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.engines.sparse import ZERO
from carvegbm.problem import Problem, Rows
from carvegbm.reports.weakness import Named

__all__ = ["column", "crowds", "movable"]

Floats = npt.NDArray[np.float64]

_MOST = 20
_SURE = 1e-9
"""Costs that differ from the budget by a larger part are told from it as doubles."""


def crowds(problem: Problem, rows: Rows, named: Named) -> dict[str, Any] | None:
    """The thresholds that the budget lets most rows cross, each alone; None for norm 0.

    A row that is left of a threshold crosses it with the next number above, or the next multiple of
    the feature's step, one that is right of it with the last that goes left; it counts if the
    attacker can pay for that. Categories and groups have no such crossings, and are left out.
    """
    if problem.attacker.norm == 0:
        return None
    ensemble = problem.ensemble
    splits = ensemble.nodes["feature"] >= 0
    features, thresholds = ensemble.nodes["feature"][splits], ensemble.nodes["threshold"][splits]
    trees = ensemble.tree_of_node[splits]
    found: list[dict[str, Any]] = []
    total, zeros = 0, _Zeros(len(rows))
    for feature in movable(problem):
        here = features == feature
        values, which = np.unique(thresholds[here], return_inverse=True)
        owners = [len(set(trees[here][which == i].tolist())) for i in range(len(values))]
        crossing = _Crossing(problem, rows, feature)
        total += len(values)
        for threshold, count in zip(values.tolist(), owners, strict=True):
            crossed = crossing.of(threshold)
            if crossing.lattice is None:  # a step is more than next to nothing
                zeros.look(feature, threshold, crossed & (crossing.x == 0))
            number = int(np.count_nonzero(crossed))
            if number:
                found.append(
                    {
                        "feature": feature,
                        "name": named(feature),
                        "threshold": threshold,
                        "trees": count,
                        "rows": number,
                        "share": number / len(rows),
                    }
                )
    found.sort(key=lambda crowd: (-crowd["rows"], -crowd["trees"], crowd["feature"]))
    return {"thresholds": total, "near": found[:_MOST], "zeros": zeros.told()}


def movable(problem: Problem) -> list[int]:
    """The features that splits test and that the attacker can move along a line, ascending."""
    ensemble, limits = problem.ensemble, problem.limits
    features = ensemble.nodes["feature"]
    left_out = {*ensemble.categories, *(f for group in limits.one_hot for f in group)}
    if len(limits.changeable):
        left_out |= set(np.flatnonzero(limits.changeable == 0).tolist())
    return sorted(set(features[features >= 0].tolist()) - left_out)


class _Zeros:
    """Rows with exactly zero where LightGBM has a threshold right beside it."""

    def __init__(self, count: int) -> None:
        self.thresholds = 0
        self.features: set[int] = set()
        self.rows = np.zeros(count, dtype=bool)

    def look(self, feature: int, threshold: float, crossed: npt.NDArray[np.bool_]) -> None:
        """At the rows with zero that cross a threshold."""
        if ZERO / 2 <= abs(threshold) <= 2 * ZERO and crossed.any():
            self.thresholds += 1
            self.features.add(feature)
            self.rows |= crossed

    def told(self) -> dict[str, int] | None:
        """How many there are."""
        if not self.thresholds:
            return None
        rows = int(np.count_nonzero(self.rows))
        return {"thresholds": self.thresholds, "features": len(self.features), "rows": rows}


class _Crossing:
    """Which rows the attacker can take across a threshold of one feature.

    In the core's numbers: those of a feature with a step count its steps.
    """

    def __init__(self, problem: Problem, rows: Rows, feature: int) -> None:
        self.problem, self.feature = problem, feature
        translation, limits = problem.encoding, problem.limits
        self.lattice = translation.grids.get(feature)
        self.unit = 1.0 if self.lattice is None else float(self.lattice.step)
        values = column(problem, rows, feature)
        self.x = values if self.lattice is None else self.lattice.indices(values)
        self.read = self.x
        if self.lattice is None and problem.ensemble.input_precision == "float32":
            with np.errstate(over="ignore"):  # a distance is from what is given, a side is not
                self.read = values.astype(np.float32).astype(np.float64)
        down = float(limits.scale[feature]) if len(limits.scale) else 1.0
        self.down, self.up = down, float(limits.scale_up[feature]) if len(limits.scale_up) else down
        lower, upper = translation.bounds
        self.lower: Any = lower[feature] if len(lower) else -np.inf
        self.upper: Any = upper[feature] if len(upper) else np.inf
        if rows.bounds is not None:
            place = feature
            if rows.is_sparse:  # their bounds are those of the compact problem
                place = int(np.flatnonzero(problem.compact[1].chosen == feature)[0])
            self.lower, self.upper = rows.bounds[0][:, place], rows.bounds[1][:, place]

    def of(self, threshold: float) -> npt.NDArray[np.bool_]:
        """The rows."""
        x, budget = self.x, self.problem.attacker.budget
        last, first = self._sides(threshold)
        left = self.read <= last
        z, scale = np.where(left, first, last), np.where(left, self.up, self.down)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cost = np.abs(z - x) * self.unit / scale
        may = (scale > 0) & (z >= self.lower) & (z <= self.upper) & ~np.isnan(x)
        near = may & (cost <= budget * (1 + _SURE))
        for row in np.flatnonzero(near & (cost >= budget * (1 - _SURE))).tolist():
            near[row] = self._distance(row, float(z[row])) <= budget
        return np.asarray(near)

    def _sides(self, threshold: float) -> tuple[float, float]:
        """The last number that goes left, and the first that goes right."""
        if self.lattice is not None:
            (last,) = self.lattice.last_left(np.array([threshold])).tolist()
            return last, last + 1
        is_float32 = self.problem.ensemble.input_precision == "float32"
        number: Any = np.float32 if is_float32 else np.float64
        return threshold, float(np.nextafter(number(threshold), number(np.inf)))

    def _distance(self, row: int, value: float) -> float:
        """The smallest budget that affords it, exactly."""
        here = np.zeros(self.problem.ensemble.n_features)
        there = here.copy()
        here[self.feature], there[self.feature] = self.x[row], value
        return float(self.problem.core_attacker.distance(here, there))


def column(problem: Problem, rows: Rows, feature: int) -> Floats:
    """The values of a feature, as they are given."""
    if not rows.is_sparse:
        return np.asarray(rows.given[:, feature], dtype=np.float64)
    found = np.full(len(rows), 0.0 if problem.ensemble.absent == "zero" else np.nan)
    matrix: Any = rows.given
    stored = matrix[:, [feature]].tocoo()
    found[stored.row] = stored.data
    return found
