"""Reach: the thresholds an attacker can cross and the leaves it can enter, as cuts and boxes."""

from __future__ import annotations

import math
import os
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from carvegbm.engines.milp.clock import Clock
from carvegbm.engines.milp.layout import Layout
from carvegbm.engines.milp.point import Point
from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.engines.milp.program import Frame

__all__ = [
    "ANYWHERE",
    "SMALLEST",
    "Box",
    "Cuts",
    "Group",
    "Literal",
    "ProgramTooLarge",
    "Reach",
    "find_reach",
]

SMALLEST = 1e-9
"""HiGHS drops smaller coefficients; they are rounded down to 0 here, which relaxes the program."""
_BYTES_PER_NONZERO = 1_000
_MEMORY = 0.5
"""Share of the machine's memory that a program may take."""

Literal = tuple[int, bool]
"""(cut, side): z is left (True) or right (False) of a threshold that can be crossed."""
Group = tuple[Literal, list[int]]
"""Leaves of one tree, all on one side of a cut: z falls into one of them only if it is there."""
Box = dict[int, tuple[int, int]]
"""Per feature (low, high): z is right of cut low and left of cut high; `ANYWHERE` if neither."""
ANYWHERE = (-1, sys.maxsize)
Path = tuple[tuple[int, int, bool], ...]
"""(node, cut, side) from the root down."""
Leaf = tuple[int, Box, Path]
"""The row of the scores, the box, and, unpruned, the path."""


class ProgramTooLarge(CarveError):  # noqa: N818 - a refusal that "auto" may pass over
    """The program would not fit into this machine's memory."""


@dataclass(frozen=True)
class Cuts:
    """Thresholds the attacker can cross; those of one feature follow each other and ascend."""

    feature: list[int]
    value: list[float]
    """The machine number nearest to x on the other side of the threshold."""
    home_left: list[bool]
    """x is left of the threshold."""
    price: list[Fraction]
    """Of the value."""

    def crossed(self, low: int, high: int) -> int | None:
        """The cut that takes x between `low` and `high` at the least cost; None: x is there."""
        if low >= 0 and self.home_left[low]:
            return low
        if high < sys.maxsize and not self.home_left[high]:
            return high
        return None


@dataclass(frozen=True)
class Reach:
    """The leaves the attacker can push x into, and the thresholds on the way."""

    instance: Point
    clock: Clock
    pruned: bool
    cuts: Cuts
    constants: list[int]
    """Of the trees in which only one leaf is within reach: its row of the scores."""
    rows: list[int]
    """Of all leaves of the other trees: the row of the scores, and the box."""
    boxes: list[Box]
    first: list[int]
    """Of the other trees: the first leaf."""
    groups: list[Group]

    @cached_property
    def frame(self) -> Frame:
        """What the programs of all objectives share."""
        from carvegbm.engines.milp.program import Frame

        return Frame(self)


def find_reach(instance: Point, clock: Clock, pruned: bool) -> Reach:
    """Walk the trees; `OutOfTime` if that takes too long, `ProgramTooLarge` if it is no use."""
    layout = instance.scene.layout
    clock.check()
    cuts, cut_of_node = _cuts(instance, clock, pruned)
    seen = np.append(instance.routed(instance.x), np.nan)[layout.feature]  # NaN at leaves
    to_left = np.where(np.isnan(seen), layout.missing == 1, seen <= layout.threshold)
    home_of_node = np.where(to_left, layout.left, layout.right)
    clock.check()
    is_open, constants = _survey(layout, cut_of_node, home_of_node, clock)
    reach = Reach(instance, clock, pruned, cuts, constants.tolist(), [], [], [], [])
    walk = _Walk(reach, cut_of_node.tolist(), home_of_node.tolist())
    for root in clock.watched(layout.roots[is_open].tolist()):
        leaves = walk.leaves(root)
        if len(leaves) == 1:
            reach.constants.append(leaves[0][0])
            continue
        reach.groups.extend((_by_cut if pruned else _by_node)(leaves, len(reach.rows), clock))
        reach.first.append(len(reach.rows))
        reach.rows.extend(row for row, _, _ in leaves)
        reach.boxes.extend(box for _, box, _ in leaves)
    return reach


class _Walk:
    """Down the trees, to what the attacker can afford."""

    def __init__(self, reach: Reach, cut_of: list[int], home_of: list[int]) -> None:
        self._reach, self._cut_of, self._home_of = reach, cut_of, home_of
        self._columns = reach.instance.scene.layout.columns
        scene = reach.instance.scene
        adds_up = reach.pruned and not math.isinf(scene.attacker.norm)
        # Rounded sums: a leaf is dropped only if it is too expensive beyond all rounding.
        self._price = [
            float(price / scene.capacity) if adds_up else 0.0
            for price in reach.clock.watched(reach.cuts.price)
        ]

    def leaves(self, root: int) -> list[Leaf]:
        """The leaves of one tree within reach."""
        reach, cuts, price = self._reach, self._reach.cuts, self._price
        feature, left, right = self._columns
        leaves: list[Leaf] = []
        stack: list[tuple[int, Box, float, Path]] = [(root, {}, 0.0, ())]
        for _ in reach.clock.watched(iter(stack.__len__, 0)):
            node, box, cost, path = stack.pop()
            while feature[node] >= 0 and self._cut_of[node] < 0:
                node = self._home_of[node]
            if feature[node] < 0:
                leaves.append((left[node], box, path))
                continue
            cut = self._cut_of[node]
            low, high = box.get(feature[node], ANYWHERE)
            for side, child in ((True, left[node]), (False, right[node])):
                if not (low < cut if side else cut < high):
                    continue
                inner = (low, min(high, cut)) if side else (max(low, cut), high)
                total = cost
                if side != cuts.home_left[cut]:
                    before = cuts.crossed(low, high)
                    total += price[cut] - (0.0 if before is None else price[before])
                if total <= 1 + SMALLEST:
                    steps = () if reach.pruned else (*path, (node, cut, side))
                    stack.append((child, {**box, feature[node]: inner}, total, steps))
        return leaves


def _cuts(instance: Point, clock: Clock, pruned: bool) -> tuple[Cuts, npt.NDArray[np.intp]]:
    """The cuts, and the cut of every node, or −1."""
    scene, x = instance.scene, instance.x
    attacker, limits = scene.attacker, scene.limits
    feature, threshold, above, split, of_split = scene.layout.thresholds
    home_left = instance.routed(x)[feature] <= threshold
    value = np.where(home_left, above, threshold)
    can = np.isfinite(value) & np.isfinite(x[feature])
    if len(limits.changeable):
        can &= limits.changeable[feature] == 1
    if len(limits.lower):
        can &= (limits.lower[feature] <= value) & (value <= limits.upper[feature])
    if pruned and attacker.norm != 0:  # a filter, to keep rationals to what is near
        with np.errstate(over="ignore", invalid="ignore"):
            distance = np.abs(value - x[feature])
        scale = limits.scale[feature] if len(limits.scale) else 1.0
        can &= distance <= attacker.budget * scale * (1 + 1e-12)
    moves = zip(feature[can].tolist(), value[can].tolist(), strict=True)
    price = [instance.price(*move) for move in clock.watched(moves)]
    if pruned:
        affordable = [p <= scene.capacity for p in clock.watched(price)]
        price = [p for p, keep in zip(price, affordable, strict=True) if keep]
        can[can] = affordable
    renumbered = np.where(can, np.cumsum(can) - 1, -1)
    cut_of_node = np.full(len(scene.layout.feature), -1, dtype=np.intp)
    cut_of_node[split] = renumbered[of_split]
    kept = (feature[can].tolist(), value[can].tolist(), home_left[can].tolist())
    return Cuts(*kept, price), cut_of_node


def _by_cut(leaves: list[Leaf], start: int, clock: Clock) -> Iterable[Group]:
    """A group for each side of each cut of a tree: all leaves whose box lies on that side."""
    known: dict[int, set[int]] = {}
    for _, box, _ in leaves:
        for feature, ends in box.items():
            known.setdefault(feature, set()).update(ends)
    ordered = {feature: sorted(ends - {*ANYWHERE}) for feature, ends in known.items()}
    groups: dict[Literal, list[int]] = {}
    for leaf, (_, box, _) in enumerate(leaves, start):
        clock.check()
        for feature, (low, high) in box.items():
            cuts = ordered[feature]
            for cut in cuts[bisect_left(cuts, high) :]:
                groups.setdefault((cut, True), []).append(leaf)
            for cut in cuts[: bisect_right(cuts, low)]:
                groups.setdefault((cut, False), []).append(leaf)
    return groups.items()


def _by_node(leaves: list[Leaf], start: int, clock: Clock) -> Iterable[Group]:
    """A group for each side of each node of a tree: all leaves below it."""
    groups: dict[tuple[int, bool], tuple[Literal, list[int]]] = {}
    for leaf, (_, _, path) in enumerate(leaves, start):
        clock.check()
        for node, cut, side in path:
            groups.setdefault((node, side), ((cut, side), []))[1].append(leaf)
    return groups.values()


def _survey(
    layout: Layout,
    cut_of_node: npt.NDArray[np.intp],
    home_of_node: npt.NDArray[np.intp],
    clock: Clock,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """The trees in which a cut can be met, and of the others the row of the one leaf in reach.

    Counts, before anything is built, a nonzero per leaf and cut above it, and some per leaf, and
    refuses a program that would be too large.
    """
    memory, nonzeros = _memory(), 0
    front, depth = layout.roots, np.zeros(len(layout.roots), dtype=np.int64)
    tree = np.arange(len(front))
    is_open, row = np.zeros(len(front), dtype=bool), np.zeros(len(front), dtype=np.intp)
    while len(front):
        clock.check()
        leaf = layout.feature[front] < 0
        nonzeros += int(np.sum(depth[leaf] + 4))
        if nonzeros * _BYTES_PER_NONZERO > _MEMORY * memory:
            raise ProgramTooLarge(
                f"the mixed-integer program has more than {nonzeros:,} nonzeros and takes more "
                f"than {nonzeros * _BYTES_PER_NONZERO / 2**30:,.1f} GiB; this machine has "
                f"{memory / 2**30:,.1f} GiB; lower the budget, or use engine 'search'"
            )
        row[tree[leaf]] = layout.left[front[leaf]]
        cut, forced = ~leaf & (cut_of_node[front] >= 0), ~leaf & (cut_of_node[front] < 0)
        is_open[tree[cut]] = True
        below = [layout.left[front[cut]], layout.right[front[cut]], home_of_node[front[forced]]]
        front = np.concatenate(below).astype(np.intp)
        depth = np.concatenate([*[depth[cut] + 1] * 2, depth[forced]])
        tree = np.concatenate([tree[cut], tree[cut], tree[forced]])
    return is_open, row[~is_open]


def _memory() -> int:
    """Bytes of memory of this machine; 8 GiB where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 * 2**30
