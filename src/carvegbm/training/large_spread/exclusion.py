"""Decide exactly which candidate thresholds later trees may still use.

After a tree has split at threshold v of a feature, these are closed to all later trees:

    norm 0               all thresholds of the feature
    other norms          every v' with |v' - v| <= budget * (scale down + scale up)
    feature with a step  every v' with |e' - e| < K_down + K_up, where e is the index of the last
                         multiple of the step <= v, and K = floor(budget * scale / step) per
                         direction (norm 0: unlimited in every direction that is open)
    categorical feature  the feature, if the attacker can afford to change it
    one-hot group        all features of the group, if the attacker can afford to change it

Only features that the attacker can change count, and only thresholds it can cross. Distances are
compared as rational numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.encoding import MOST_STEPS, StepGrid
from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.model.ensemble import Ensemble

__all__ = ["ExclusionRule", "OpenThresholds"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ExclusionRule:
    """How far apart the thresholds of different trees must be.

    The attacker's limits per feature: `scale` and `scale_up` are its unit of cost downwards and
    upwards (0: that direction is impossible), `categorical` says whether it can change a
    categorical feature, `one_hot` are the groups it can change.
    """

    norm: float
    budget: float
    scale: Floats
    scale_up: Floats
    changeable: Bools
    lower: Floats
    upper: Floats
    step: Mapping[int, Fraction] = field(default_factory=dict)
    categorical: Mapping[int, bool] = field(default_factory=dict)
    one_hot: Sequence[tuple[int, ...]] = ()

    @classmethod
    def against(cls, attacker: Attacker, ensemble: Ensemble) -> ExclusionRule:
        """Return the rule that keeps ensembles with these features large-spread."""
        n = ensemble.n_features
        limits = attacker.limits(ensemble)
        if limits.lower.ndim == 2:
            raise CarveError(
                "bounds with a row per instance have no meaning in training; give a lower and an "
                "upper bound per feature"
            )

        def per_feature(values: npt.NDArray[Any], default: float) -> npt.NDArray[Any]:
            return values if len(values) else np.full(n, default)

        scale = per_feature(limits.scale, 1.0)
        return cls(
            float(attacker.norm),
            attacker.budget,
            scale=scale,
            scale_up=limits.scale_up if len(limits.scale_up) else scale,
            changeable=per_feature(limits.changeable, 1.0).astype(bool),
            lower=per_feature(limits.lower, -np.inf),
            upper=per_feature(limits.upper, np.inf),
            step=limits.step,
            categorical=dict.fromkeys(ensemble.categories, False)
            | dict.fromkeys(limits.categories, True),
            one_hot=limits.one_hot,
        )

    @cached_property
    def discrete(self) -> dict[int, tuple[int, ...]]:
        """Per categorical feature or one-hot member: the features closed once it is used.

        Empty if the attacker cannot afford a change.
        """

        def affordable(feature: int) -> bool:  # a change costs 1 / scale
            scale = 1 if self.norm == 0 else Fraction(float(self.scale[feature]))
            return Fraction(self.budget) * scale >= 1

        one_hot = dict.fromkeys(self.one_hot, True)
        groups = {(f,): possible for f, possible in self.categorical.items()} | one_hot
        return {
            feature: group if possible and affordable(feature) else ()
            for group, possible in groups.items()
            for feature in group
        }

    def crossable(self, feature: int, thresholds: Floats) -> Bools:
        """Return which thresholds a change of the feature can cross: lower <= t < upper."""
        is_stuck = feature in self.step and self.steps_within_budget(feature) == (0, 0)
        if not self.changeable[feature] or feature in self.discrete or is_stuck:
            return np.zeros(len(thresholds), dtype=bool)
        return np.asarray((self.lower[feature] <= thresholds) & (thresholds < self.upper[feature]))

    def steps_within_budget(self, feature: int) -> tuple[int, int]:
        """Steps the attacker can go down and up; for norm 0 more than there are."""
        step = self.step[feature]

        def reach(scale: float) -> int:
            if self.norm == 0:
                return 2 * MOST_STEPS if scale > 0 else 0
            return floor(Fraction(self.budget) * Fraction(scale) / step)

        return reach(float(self.scale[feature])), reach(float(self.scale_up[feature]))

    def coordinates(self, feature: int, thresholds: Floats) -> Floats:
        """Return the thresholds; with a step, the index of the last multiple <= each."""
        if feature not in self.step:
            return thresholds
        return StepGrid(self.step[feature], is_float32=False).last_left(thresholds)

    def conflicts(self, feature: int, coordinates: Floats, used: int) -> slice:
        """Return the (ascending) thresholds that position `used` closes."""
        if self.norm == 0:
            return slice(None)
        if feature in self.step:
            apart = sum(self.steps_within_budget(feature))
            first = np.searchsorted(coordinates, coordinates[used] - apart, side="right")
            end = np.searchsorted(coordinates, coordinates[used] + apart, side="left")
            return slice(int(first), int(end))
        scales = Fraction(float(self.scale[feature])) + Fraction(float(self.scale_up[feature]))
        return _within(coordinates, float(coordinates[used]), Fraction(self.budget) * scales)


def _within(thresholds: Floats, used: float, limit: Fraction) -> slice:
    """Return the `thresholds` (ascending) t with |t - used| <= limit."""

    def close(position: int) -> bool:
        return abs(Fraction(float(thresholds[position])) - Fraction(used)) <= limit

    # Floating point finds the ends up to a few positions; exact comparisons settle them.
    first = int(np.searchsorted(thresholds, used - float(limit), side="left"))
    last = int(np.searchsorted(thresholds, used + float(limit), side="right"))
    while first > 0 and close(first - 1):
        first -= 1
    while first < len(thresholds) and thresholds[first] < used and not close(first):
        first += 1
    while last < len(thresholds) and close(last):
        last += 1
    while last > 0 and thresholds[last - 1] > used and not close(last - 1):
        last -= 1
    return slice(first, last)


class OpenThresholds:
    """The candidate thresholds that later trees may still use.

    A categorical feature counts as one threshold, open or closed as a whole.

    Parameters
    ----------
    thresholds : sequence of arrays, one per feature, ascending
    rule : ExclusionRule
    missing, categories
        As in `BinMapper`.
    """

    def __init__(
        self,
        thresholds: Sequence[Floats],
        rule: ExclusionRule,
        missing: Collection[int] = (),
        categories: Mapping[int, npt.NDArray[np.int64]] | None = None,
    ) -> None:
        self.thresholds = tuple(thresholds)
        self.missing = frozenset(missing)
        self.categories = dict(categories or {})
        self._rule = rule
        self._coordinates = [rule.coordinates(f, v) for f, v in enumerate(self.thresholds)]
        self._crossable = [rule.crossable(f, v) for f, v in enumerate(self.thresholds)]
        sizes = [1 if f in self.categories else len(v) for f, v in enumerate(self.thresholds)]
        self._open = [np.ones(size, dtype=bool) for size in sizes]
        self.n_open = sum(sizes)

    def is_open(self, feature: int) -> Bools:
        """Return whether each threshold of the feature is open."""
        return np.array(self._open[feature])

    def close_after(self, features: Iterable[int], positions: Iterable[int]) -> list[int]:
        """Close what a tree with these splits excludes; return the features that lost thresholds.

        A position past the last threshold is a split between missing values and all others.
        """
        lost = set()
        for feature, position in sorted(set(zip(features, positions, strict=True))):
            closing: list[tuple[int, slice | Bools]] = []
            crossable = self._crossable[feature]
            if feature in self._rule.discrete:
                closing = [(member, slice(None)) for member in self._rule.discrete[feature]]
            elif position < len(crossable) and crossable[position]:
                near = np.zeros(len(crossable), dtype=bool)
                near[self._rule.conflicts(feature, self._coordinates[feature], position)] = True
                closing = [(feature, near & crossable)]
            for each, flags in closing:
                n_closed = int(self._open[each][flags].sum())
                self._open[each][flags] = False
                self.n_open -= n_closed
                lost |= {each} if n_closed else set()
        return sorted(lost)

    def merged_codes(self, feature: int) -> npt.NDArray[np.int64]:
        """Return the new code of every code, such that only open thresholds separate codes.

        All codes between two neighbouring open thresholds become the largest of them. Missing
        values keep their code.
        """
        if feature in self.categories:
            n = len(self.categories[feature])
            return np.arange(n + 1) if self._open[feature][0] else np.full(n + 1, n)
        flags = self._open[feature]
        last = len(flags)
        tops = np.where(np.append(flags, True), np.arange(last + 1), last)
        merged = np.minimum.accumulate(tops[::-1])[::-1]
        return np.append(merged, last + 1) if feature in self.missing else merged

    def threshold_at(self, feature: int, code: int) -> int:
        """Return the open threshold between merged codes <= code and those above.

        For a feature with missing values: the number of thresholds if only missing values are
        above the code, -1 if only they can be on the other side.
        """
        flags = self._open[feature]
        if feature in self.missing and code >= len(flags):
            return len(flags)
        below = np.flatnonzero(flags[: code + 1])
        if len(below) == 0:
            if feature in self.missing:
                return -1
            raise CarveError(f"a split of feature {feature} at code {code} is at no open threshold")
        return int(below[-1])
