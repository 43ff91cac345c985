"""Which thresholds are still open: the ban rule of large-spread training, decided exactly.

After a tree, every candidate threshold that would bring the ensemble's spread down to 2 * budget
is closed to later trees:

    norm 0:       all thresholds of every feature the tree tests
    other norms:  v' such that |v' - v| <= 2 * budget * scale, for every v the tree tests

for features the attacker can change, and thresholds it can cross. Distances are compared as
rationals: a pair at exactly 2 * budget * scale is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

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
    scale : array (n_features,)
        Units in which the attacker's cost is measured.
    changeable : array (n_features,) of bool
        Features the attacker may change; the others are never restricted.
    lower, upper : array (n_features,)
        Bounds the attacker stays within; a threshold it cannot cross is never restricted.
    """

    norm: float
    budget: float
    scale: Floats
    changeable: Bools
    lower: Floats
    upper: Floats

    @classmethod
    def against(cls, attacker: Attacker, ensemble: Ensemble) -> ClosingRule:
        """The rule that makes an ensemble with these features large-spread for `attacker`."""
        n = ensemble.n_features
        limits = attacker.limits(ensemble)

        def every(values: npt.NDArray[Any], default: float) -> npt.NDArray[Any]:
            return values if len(values) else np.full(n, default)

        return cls(
            float(attacker.norm),
            attacker.budget,
            scale=every(limits.scale, 1.0),
            changeable=every(limits.changeable, 1.0).astype(bool),
            lower=every(limits.lower, -np.inf),
            upper=every(limits.upper, np.inf),
        )

    def crossable(self, feature: int, thresholds: Floats) -> Bools:
        """Which thresholds a change of the feature can cross: lower <= threshold < upper."""
        if not self.changeable[feature]:
            return np.zeros(len(thresholds), dtype=bool)
        within = (self.lower[feature] <= thresholds) & (thresholds < self.upper[feature])
        return np.asarray(within)

    def too_close(self, feature: int, thresholds: Floats, used: float) -> slice:
        """The `thresholds` (ascending) at distance <= 2 * budget * scale of `used`."""
        limit = 2 * Fraction(self.budget) * Fraction(float(self.scale[feature]))
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
    """The candidate thresholds that later trees may still use.

    Parameters
    ----------
    thresholds : sequence of arrays, one per feature, ascending
    rule : ClosingRule
    """

    def __init__(self, thresholds: Sequence[Floats], rule: ClosingRule) -> None:
        self.thresholds = tuple(thresholds)
        self.rule = rule
        self._crossable = [rule.crossable(f, v) for f, v in enumerate(self.thresholds)]
        self._open = [np.ones(len(v), dtype=bool) for v in self.thresholds]
        self.n_open = sum(int(flags.sum()) for flags in self._open)

    def is_open(self, feature: int) -> Bools:
        """Whether each threshold of the feature is open."""
        return np.array(self._open[feature])

    def close_after(self, features: Iterable[int], used: Iterable[int]) -> list[int]:
        """Close what a tree with these splits (feature, position of threshold) rules out.

        Returns the features that lost thresholds.
        """
        lost = []
        for feature, position in sorted(set(zip(features, used, strict=True))):
            crossable = self._crossable[feature]
            if not crossable[position]:
                continue
            if self.rule.norm == 0:
                near = slice(None)
            else:
                thresholds = self.thresholds[feature]
                near = self.rule.too_close(feature, thresholds, float(thresholds[position]))
            flags = self._open[feature]
            gone = flags[near] & crossable[near]
            if gone.any():
                flags[near] &= ~crossable[near]
                self.n_open -= int(gone.sum())
                lost.append(feature)
        return sorted(set(lost))

    def merged_codes(self, feature: int) -> npt.NDArray[np.int64]:
        """The code that stands for each code once only open thresholds tell codes apart.

        Codes between two neighbouring open thresholds become the largest of them: a tree that
        looks at merged codes cannot separate what only a closed threshold separates.
        """
        flags = self._open[feature]
        last = len(flags)
        tops = np.where(np.append(flags, True), np.arange(last + 1), last)
        return np.minimum.accumulate(tops[::-1])[::-1]

    def threshold_at(self, feature: int, code: int) -> int:
        """The open threshold that separates merged codes <= code from those above it."""
        below = np.flatnonzero(self._open[feature][: code + 1])
        if len(below) == 0:
            raise CarveError(f"a split of feature {feature} at code {code} is at no open threshold")
        return int(below[-1])
