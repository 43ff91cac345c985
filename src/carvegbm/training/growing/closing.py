"""Which thresholds are still open: the ban rule of large-spread training, decided exactly.

After a tree, every candidate threshold that would end the ensemble's large spread is closed to
later trees, for every v that the tree tests:

    norm 0            all thresholds of v's feature
    other norms       v' such that |v' - v| <= budget * (scale down + scale up)
    whole steps       v' such that |e' - e| < K down + K up, where e is the number of the last
                      lattice point <= v, and K = floor(budget * scale / step) in each direction,
                      without end for norm 0 in a direction that is open
    finite features   categories and one-hot groups, if a change is affordable: the whole feature,
                      the whole group

for features the attacker can change, and thresholds it can cross. Distances are compared as
rationals: a pair at exactly budget * (scale down + scale up) is closed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import floor
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.axes.lattice import MOST_STEPS, Lattice
from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.attacker import Attacker
    from carvegbm.ensemble import Ensemble

__all__ = ["ClosingRule", "OpenThresholds"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ClosingRule:
    """How far apart thresholds of different trees must be.

    Attributes
    ----------
    norm : float
        p; 0 closes whole features.
    budget : float
        k.
    scale, scale_up : array (n_features,)
        Units in which the attacker's cost is measured, downwards and upwards; 0 closes a direction.
    changeable : array (n_features,) of bool
        Features the attacker may change; the others are never restricted.
    lower, upper : array (n_features,)
        Bounds the attacker stays within; a threshold it cannot cross is never restricted.
    step : mapping from feature to Fraction
        Features whose values are whole multiples of a step.
    categorical : mapping from feature to bool
        Whether a categorical feature can be changed to something.
    one_hot : sequence of groups
        Those that can be changed.
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
    def against(cls, attacker: Attacker, ensemble: Ensemble) -> ClosingRule:
        """The rule that makes an ensemble with these features large-spread for `attacker`."""
        n = ensemble.n_features
        limits = attacker.limits(ensemble)
        if limits.lower.ndim == 2:
            raise CarveError(
                "bounds with a row per instance have no meaning in training; give a lower and an "
                "upper bound per feature"
            )

        def every(values: npt.NDArray[Any], default: float) -> npt.NDArray[Any]:
            return values if len(values) else np.full(n, default)

        scale = every(limits.scale, 1.0)
        return cls(
            float(attacker.norm),
            attacker.budget,
            scale=scale,
            scale_up=limits.scale_up if len(limits.scale_up) else scale,
            changeable=every(limits.changeable, 1.0).astype(bool),
            lower=every(limits.lower, -np.inf),
            upper=every(limits.upper, np.inf),
            step=limits.step,
            categorical=dict.fromkeys(ensemble.categories, False)
            | dict.fromkeys(limits.categories, True),
            one_hot=limits.one_hot,
        )

    def with_share(self, share: float) -> ClosingRule:
        """The same against a part of the budget."""
        return replace(self, budget=share * self.budget)

    @cached_property
    def finite(self) -> dict[int, tuple[int, ...]]:
        """Categorical features, and members of one-hot groups: what is closed with them, at once.

        Nothing is closed where the attacker cannot afford a change.
        """
        groups: list[tuple[tuple[int, ...], bool]] = [
            ((feature,), may) for feature, may in self.categorical.items()
        ]
        groups += [(group, True) for group in self.one_hot]
        return {
            feature: group if may and self._is_affordable(feature) else ()
            for group, may in groups
            for feature in group
        }

    def _is_affordable(self, feature: int) -> bool:
        """Whether a change of a finite feature, which costs 1 / scale, is within the budget."""
        if self.norm == 0:
            return self.budget >= 1
        return Fraction(self.budget) * Fraction(float(self.scale[feature])) >= 1

    def crossable(self, feature: int, thresholds: Floats) -> Bools:
        """Which thresholds a change of the feature alone can cross: lower <= threshold < upper."""
        is_stuck = feature in self.step and self.points(feature) == (0, 0)
        if not self.changeable[feature] or feature in self.finite or is_stuck:
            return np.zeros(len(thresholds), dtype=bool)
        within = (self.lower[feature] <= thresholds) & (thresholds < self.upper[feature])
        return np.asarray(within)

    def points(self, feature: int) -> tuple[int, int]:
        """Lattice points that the attacker can go down and up; for norm 0 more than there are."""
        step = self.step[feature]

        def reach(scale: float) -> int:
            if self.norm == 0:
                return 2 * MOST_STEPS if scale > 0 else 0
            return floor(Fraction(self.budget) * Fraction(scale) / step)

        return reach(float(self.scale[feature])), reach(float(self.scale_up[feature]))

    def places(self, feature: int, thresholds: Floats) -> Floats:
        """Where thresholds are: as they are, or the number of the last lattice point <= each."""
        if feature not in self.step:
            return thresholds
        return Lattice(self.step[feature], is_float32=False).last_left(thresholds)

    def too_close(self, feature: int, places: Floats, used: int) -> slice:
        """The thresholds (ascending) that are in the way of the one at position `used`."""
        if self.norm == 0:
            return slice(None)
        if feature in self.step:
            apart = sum(self.points(feature))
            first = np.searchsorted(places, places[used] - apart, side="right")
            end = np.searchsorted(places, places[used] + apart, side="left")
            return slice(int(first), int(end))
        scales = Fraction(float(self.scale[feature])) + Fraction(float(self.scale_up[feature]))
        return _within(places, float(places[used]), Fraction(self.budget) * scales)


def _within(thresholds: Floats, used: float, limit: Fraction) -> slice:
    """The `thresholds` (ascending) at distance <= limit of `used`."""
    centre = Fraction(used)

    def close(position: int) -> bool:
        return abs(Fraction(float(thresholds[position])) - centre) <= limit

    # Floating point finds the ends of the slice up to a few positions; rationals settle them.
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
    """The candidate thresholds that later trees may still use; for categories, whole features.

    Parameters
    ----------
    thresholds : sequence of arrays, one per feature, ascending
    rule : ClosingRule
    missing : set of features
        Those whose missing values have a code of their own, after all others.
    categories : mapping from feature to array
        Of categorical features: the categories that have a code, from 1 on; 0 is none of them.
    """

    def __init__(
        self,
        thresholds: Sequence[Floats],
        rule: ClosingRule,
        missing: Collection[int] = (),
        categories: Mapping[int, npt.NDArray[np.int64]] | None = None,
    ) -> None:
        self.thresholds = tuple(thresholds)
        self.rule = rule
        self.missing = frozenset(missing)
        self.categories = dict(categories or {})
        self._places = [rule.places(f, v) for f, v in enumerate(self.thresholds)]
        self._crossable = [rule.crossable(f, v) for f, v in enumerate(self.thresholds)]
        self._open = [np.ones(len(v), dtype=bool) for v in self.thresholds]
        self._closed: set[int] = set()  # categorical features
        self.n_open = sum(int(flags.sum()) for flags in self._open) + len(self.categories)

    def is_open(self, feature: int) -> Bools:
        """Whether each threshold of the feature is open."""
        return np.array(self._open[feature])

    @property
    def is_split_left(self) -> bool:
        """Whether a tree may still split at all: missing values can always be told from others."""
        return self.n_open > 0 or bool(self.missing)

    def close_after(self, features: Iterable[int], used: Iterable[int]) -> list[int]:
        """Close what a tree with these splits (feature, position of threshold) rules out.

        A position past the last threshold tells missing values from all others. Returns the
        features that lost thresholds.
        """
        lost = []
        for feature, position in sorted(set(zip(features, used, strict=True))):
            if feature in self.rule.finite:
                lost += self._close_whole(self.rule.finite[feature])
                continue
            crossable = self._crossable[feature]
            if position >= len(crossable) or not crossable[position]:
                continue
            near = self.rule.too_close(feature, self._places[feature], position)
            flags = self._open[feature]
            gone = flags[near] & crossable[near]
            if gone.any():
                flags[near] &= ~crossable[near]
                self.n_open -= int(gone.sum())
                lost.append(feature)
        return sorted(set(lost))

    def _close_whole(self, features: Iterable[int]) -> list[int]:
        """Close all thresholds of some features; returns those that had open ones."""
        lost = []
        for feature in features:
            if feature in self.categories:
                n_gone = int(feature not in self._closed)
                self._closed.add(feature)
            else:
                n_gone = int(self._open[feature].sum())
                self._open[feature][:] = False
            if n_gone:
                self.n_open -= n_gone
                lost.append(feature)
        return lost

    def merged_codes(self, feature: int) -> npt.NDArray[np.int64]:
        """The code that stands for each code once only open thresholds tell codes apart.

        Codes between two neighbouring open thresholds become the largest of them: a tree that
        looks at merged codes cannot separate what only a closed threshold separates. Missing
        values keep their code.
        """
        if feature in self.categories:
            n = len(self.categories[feature])
            return np.full(n + 1, n) if feature in self._closed else np.arange(n + 1)
        flags = self._open[feature]
        last = len(flags)
        tops = np.where(np.append(flags, True), np.arange(last + 1), last)
        merged = np.minimum.accumulate(tops[::-1])[::-1]
        return np.append(merged, last + 1) if feature in self.missing else merged

    def threshold_at(self, feature: int, code: int) -> int:
        """The open threshold that separates merged codes <= code from those above it.

        Where missing values have a code of their own: the number of thresholds if nothing but
        these is above the code, -1 if nothing but these can be on the other side.
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
