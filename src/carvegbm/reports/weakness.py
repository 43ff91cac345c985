"""Where it is weak: what minimal witnesses change, and thresholds that rows crowd at.

Comes in: witnesses; an attacker's problem and its rows. Goes out: features, thresholds, and which
witnesses to look at, as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.engines.blocks import ZERO
from carvegbm.minimal import Minimal, MinimalWitness
from carvegbm.problem import Problem, Rows

__all__ = ["crowds", "first", "plain_witness", "shown", "weak_features"]

Named = Callable[[int], str]
Floats = npt.NDArray[np.float64]

_MOST_CROWDED = 20
_FIRST = 10
_SHOWN = 8
_SURE = 1e-9
"""Costs that differ from the budget by a larger part are told from it as doubles."""


def weak_features(minimal: Minimal, named: Named, categorical: Sequence[int]) -> list[Any]:
    """The features that witnesses change: how often, and by how much; the most frequent first."""
    sizes: dict[int, list[float]] = {}
    alone: dict[int, int] = {}
    for witness in minimal:
        for change in witness.changes:
            sizes.setdefault(change.feature, []).append(change.after - change.before)
        if len(witness.changes) == 1:
            feature = witness.changes[0].feature
            alone[feature] = alone.get(feature, 0) + 1
    found = []
    for feature in sorted(sizes, key=lambda f: (-len(sizes[f]), f)):
        moves, is_number = np.array(sizes[feature]), feature not in categorical
        size = np.abs(moves)
        found.append(
            {
                "feature": feature,
                "name": named(feature),
                "rows": len(moves),
                "share": len(moves) / len(minimal),
                "alone": alone.get(feature, 0),
                "up": int(np.count_nonzero(moves > 0)) if is_number else None,
                "down": int(np.count_nonzero(moves < 0)) if is_number else None,
                "smallest": float(size.min()) if is_number else None,
                "median": float(np.median(size)) if is_number else None,
                "largest": float(size.max()) if is_number else None,
            }
        )
    return found


def first(minimal: Minimal) -> list[int]:
    """The places of the witnesses that are nearest, nearest first."""
    places = range(len(minimal))
    near = sorted(places, key=lambda i: (minimal.witnesses[i].distance, i))
    return near[:_FIRST]


def shown(minimal: Minimal, labels: npt.NDArray[np.int32]) -> list[dict[str, Any]]:
    """Witnesses to look at: the nearest, one at the median distance, the nearest of every class."""
    if len(minimal) == 0:
        return []
    witnesses = minimal.witnesses
    near = sorted(range(len(witnesses)), key=lambda i: (witnesses[i].distance, i))
    found = {near[0]: "first"}
    found.setdefault(near[len(near) // 2], "typical")
    for label in np.unique(labels).tolist():
        of_class = (i for i in near if labels[witnesses[i].row] == label)
        for place in of_class:
            if len(found) < _SHOWN:
                found.setdefault(place, "class")
            break
    return [{"witness": place, "why": why} for place, why in found.items()]


# ── thresholds ───────────────────────────────────────────────────────────────────────────────


def crowds(problem: Problem, rows: Rows, named: Named) -> dict[str, Any] | None:
    """The thresholds that the budget lets most rows cross, each alone; None for norm 0.

    A row that is left of a threshold crosses it with the next number above, one that is right of
    it with the threshold itself; it counts if the attacker can pay for that. Features with steps,
    categories and groups have no such crossings, and are left out.
    """
    if problem.attacker.norm == 0:
        return None
    ensemble = problem.ensemble
    splits = ensemble.nodes["feature"] >= 0
    features, thresholds = ensemble.nodes["feature"][splits], ensemble.nodes["threshold"][splits]
    limits = problem.limits
    odd = {*limits.step, *ensemble.categories, *(f for group in limits.one_hot for f in group)}
    frozen = np.flatnonzero(limits.changeable == 0).tolist() if len(limits.changeable) else []
    found: list[dict[str, Any]] = []
    total = zeros = 0
    at_zero, zero_features = np.zeros(len(rows), dtype=bool), set[int]()
    trees = ensemble.tree_of_node[splits]
    for feature in sorted(set(features.tolist()) - odd - set(frozen)):
        here = features == feature
        values, which = np.unique(thresholds[here], return_inverse=True)
        owners = [len(set(trees[here][which == i].tolist())) for i in range(len(values))]
        x = _column(problem, rows, feature)
        crossing = _Crossing(problem, rows, feature, x)
        for threshold, count in zip(values.tolist(), owners, strict=True):
            total += 1
            crossed = crossing.of(threshold)
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
            if abs(threshold) <= 2 * ZERO and (crossed & (x == 0)).any():
                zeros += 1
                zero_features.add(feature)
                at_zero |= crossed & (x == 0)
    found.sort(key=lambda crowd: (-crowd["rows"], -crowd["trees"], crowd["feature"]))
    trap = None
    if zeros:
        trap = {
            "thresholds": zeros,
            "features": len(zero_features),
            "rows": int(np.count_nonzero(at_zero)),
        }
    return {"thresholds": total, "near": found[:_MOST_CROWDED], "zeros": trap}


def _column(problem: Problem, rows: Rows, feature: int) -> Floats:
    """The values of a feature."""
    if rows.is_sparse:
        absent = 0.0 if problem.ensemble.absent == "zero" else np.nan
        found = np.full(len(rows), absent)
        matrix: Any = rows.X
        column = matrix[:, [feature]].tocoo()
        found[column.row] = column.data
        return found
    return np.asarray(rows.X[:, feature], dtype=np.float64)


class _Crossing:
    """Which rows the attacker can take across a threshold of one feature."""

    def __init__(self, problem: Problem, rows: Rows, feature: int, x: Floats) -> None:
        self.problem, self.feature, self.x = problem, feature, x
        limits = problem.limits
        down = float(limits.scale[feature]) if len(limits.scale) else 1.0
        self.down, self.up = down, float(limits.scale_up[feature]) if len(limits.scale_up) else down
        self.lower = limits.lower[..., feature] if len(limits.lower) else -np.inf
        self.upper = limits.upper[..., feature] if len(limits.upper) else np.inf
        if rows.bounds is not None:
            column = feature
            if rows.is_sparse:  # their bounds are those of the compact problem
                column = int(np.flatnonzero(problem.compact[1].chosen == feature)[0])
            self.lower, self.upper = rows.bounds[0][:, column], rows.bounds[1][:, column]
        is_float32 = problem.ensemble.input_precision == "float32"
        self.number: type = np.float32 if is_float32 else np.float64

    def of(self, threshold: float) -> npt.NDArray[np.bool_]:
        """The rows."""
        x, budget = self.x, self.problem.attacker.budget
        above = float(np.nextafter(self.number(threshold), self.number(np.inf)))
        left = x <= threshold
        z = np.where(left, above, threshold)
        scale = np.where(left, self.up, self.down)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            cost = np.abs(z - x) / scale
        open_ = (scale > 0) & (z >= self.lower) & (z <= self.upper) & ~np.isnan(x)
        near = open_ & (cost <= budget * (1 + _SURE))
        for row in np.flatnonzero(near & (cost >= budget * (1 - _SURE))).tolist():
            near[row] = self._distance(row, float(z[row])) <= budget
        return np.asarray(near)

    def _distance(self, row: int, value: float) -> float:
        """The smallest budget that affords it, exactly."""
        here = np.zeros(self.problem.ensemble.n_features)
        there = here.copy()
        here[self.feature], there[self.feature] = self.x[row], value
        return float(self.problem.core_attacker.distance(here, there))


def plain_witness(
    witness: MinimalWitness, named: Named, told: Callable[..., Any]
) -> dict[str, Any]:
    """A witness as plain values; `told` is how a value of a feature is told."""
    return {
        "row": witness.row,
        "distance": witness.distance,
        "nearest": witness.is_nearest,
        "margin": witness.margin,
        "answer": witness.answer,
        "borderline": witness.borderline,
        "changes": [
            {
                "feature": change.feature,
                "name": named(change.feature),
                "before": told(change.feature, change.before),
                "after": told(change.feature, change.after),
            }
            for change in witness.changes
        ],
    }
