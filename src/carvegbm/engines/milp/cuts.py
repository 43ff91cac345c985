"""Cuts: what an attacker can do to x, one feature at a time, as binaries of the program.

Comes in: an instance. Goes out: a cut per threshold that it can cross and per class of states that
it can enter, and for every split whether z can be on both sides of it; boxes, which leaves are.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.engines.milp.classes import Literal, Switch
from carvegbm.engines.milp.clock import Clock
from carvegbm.engines.milp.layout import Thresholds
from carvegbm.engines.milp.point import Point

__all__ = ["ANYWHERE", "HOME", "Box", "Cuts", "Ranges", "Regions", "find_cuts"]

ANYWHERE = (-1, sys.maxsize)
HOME = -1
"""As the way of a split: that of x is the only one. A cut stands for itself, set i is -2 - i."""
Ranges = dict[int, tuple[int, int]]
"""Per feature (low, high): z is right of cut low and left of cut high; `ANYWHERE` if neither."""
Regions = dict[int, int]
"""Per finite feature: the classes that z may be in, as bits."""


class Box(NamedTuple):
    """Where z is; features that are not named may be anywhere."""

    ranges: Ranges
    classes: Regions

    @property
    def is_empty(self) -> bool:
        """Whether no z is in it."""
        return 0 in self.classes.values() or any(low >= high for low, high in self.ranges.values())

    def narrow(self, other: Box) -> None:
        """Leave nothing of it that is not in the other one."""
        for feature, (low, high) in other.ranges.items():
            other_low, other_high = self.ranges.get(feature, ANYWHERE)
            self.ranges[feature] = (max(low, other_low), min(high, other_high))
        for feature, classes in other.classes.items():
            self.classes[feature] = classes & self.classes.get(feature, classes)


@dataclass(frozen=True)
class Cuts:
    """What the attacker can do; the cuts of one feature follow each other.

    Thresholds that it can cross ascend. Of a finite feature, every class of states but that of x
    is a cut: z is left of it iff it is in the class, and x is not.
    """

    feature: list[int]
    value: list[float]
    """Nearest to x on the other side of the threshold; a state of the class."""
    home_left: list[bool]
    """x is left of the threshold."""
    price: list[Fraction]
    """Of the value."""
    switches: dict[int, Switch]
    """The finite features."""

    def crossed(self, low: int, high: int) -> int | None:
        """The cut that takes x between `low` and `high` at the least cost; None: x is there."""
        if low >= 0 and self.home_left[low]:
            return low
        if high < sys.maxsize and not self.home_left[high]:
            return high
        return None

    def moves(self, box: Box) -> list[int]:
        """The cuts that take x into a box at the least cost."""
        moves = [cut for ends in box.ranges.values() if (cut := self.crossed(*ends)) is not None]
        for feature, classes in box.classes.items():
            switch = self.switches[feature]
            if not classes & switch.home:
                moves.append(next(iter(switch.cuts_in(classes))))
        return moves

    def literals(self, box: Box) -> list[Literal]:
        """z is in the box iff all of them are true."""
        ranges = box.ranges.values()
        return [
            *(((low,), False) for low, _ in ranges if low >= 0),
            *(((high,), True) for _, high in ranges if high < sys.maxsize),
            *(self.switches[feature].literal(classes) for feature, classes in box.classes.items()),
        ]


def find_cuts(instance: Point, clock: Clock, pruned: bool) -> tuple[Cuts, npt.NDArray[np.intp]]:
    """The cuts, and the way of every node (see `HOME`); pruned, only those within the budget."""
    layout = instance.scene.layout
    ways = np.full(len(layout.feature), HOME, dtype=np.intp)
    cuts = _across_thresholds(instance, clock, pruned, ways)
    for feature, classes in layout.classes.items():
        clock.check()
        switch = _add_switch(instance, cuts, feature, pruned)
        if switch is None:
            continue
        cuts.switches[feature] = switch
        reach = switch.reach
        splits = [n for n, left in classes.going_left.items() if 0 != left & reach != reach]
        tells = np.isin(classes.numbers, splits)
        ways[classes.splits[tells]] = -2 - classes.numbers[tells]
    return cuts, ways


def _across_thresholds(
    instance: Point, clock: Clock, pruned: bool, ways: npt.NDArray[np.intp]
) -> Cuts:
    """The thresholds that can be crossed, and the ways of their splits."""
    scene = instance.scene
    feature, threshold, above, split, of_split = scene.layout.thresholds
    home_left = instance.routed(instance.x)[feature] <= threshold
    value = np.where(home_left, above, threshold)
    can = _may_go(instance, scene.layout.thresholds, home_left, value, pruned=pruned)
    moves = zip(feature[can].tolist(), value[can].tolist(), strict=True)
    price = [instance.price(*move) for move in clock.watched(moves)]
    if pruned:
        affordable = [p <= scene.capacity for p in clock.watched(price)]
        price = [p for p, keep in zip(price, affordable, strict=True) if keep]
        can[can] = affordable
    ways[split] = np.where(can, np.cumsum(can) - 1, HOME)[of_split]
    return Cuts(feature[can].tolist(), value[can].tolist(), home_left[can].tolist(), price, {})


def _may_go(
    instance: Point,
    thresholds: Thresholds,
    home_left: npt.NDArray[np.bool_],
    value: npt.NDArray[np.float64],
    *,
    pruned: bool,
) -> npt.NDArray[np.bool_]:
    """Whether x may be moved to these values, one for each threshold; pruned, if not too far."""
    scene, x, feature = instance.scene, instance.x, thresholds.feature
    attacker, limits = scene.attacker, scene.limits
    can = np.isfinite(value) & np.isfinite(x[feature])
    if len(limits.changeable):
        can &= limits.changeable[feature] == 1
    lower, upper = instance.bounds
    if len(lower):
        can &= (lower[feature] <= value) & (value <= upper[feature])
    scale: npt.NDArray[np.float64] | float = 1.0
    if len(limits.scale):
        down, up = (scene.scale(up=up)[feature] for up in (False, True))
        scale = np.where(home_left, up, down)
        can &= scale > 0
    size: npt.NDArray[np.float64] | float = 1.0
    if scene.encoding.grids:
        sizes, ends = scene.steps
        can &= np.abs(value) <= ends[feature]
        size = sizes[feature]
    if pruned and attacker.norm != 0:  # a filter, to keep rationals to what is near
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.abs(value - x[feature]) * size
        can &= distance <= attacker.budget * scale * (1 + 1e-12)
    return can


def _add_switch(instance: Point, cuts: Cuts, feature: int, pruned: bool) -> Switch | None:
    """A finite feature whose class can be changed, with cuts of its own; None if it cannot."""
    states = instance.states(feature)
    if len(states) == 0:
        return None
    classes = instance.scene.layout.classes[feature]
    home = int(classes.of(instance.x[feature]))
    found, first = np.unique(classes.of(states), return_index=True)
    others = found != home
    if not others.any():
        return None
    values = states[first[others]].astype(np.float64).tolist()
    price = instance.price(feature, values[0])
    if pruned and price > instance.scene.capacity:
        return None
    start = len(cuts.feature)
    cuts.feature.extend([feature] * len(values))
    cuts.value.extend(values)
    cuts.home_left.extend([False] * len(values))
    cuts.price.extend([price] * len(values))
    bits = [1 << each for each in found[others].tolist()]
    return Switch(1 << home, dict(zip(bits, range(start, start + len(bits)), strict=True)))
