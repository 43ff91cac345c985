"""Reach: the leaves an attacker can push x into, as boxes, and what it takes to get there."""

from __future__ import annotations

import math
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from carvegbm.engines.milp.classes import Literal, Switch
from carvegbm.engines.milp.clock import Clock
from carvegbm.engines.milp.cuts import ANYWHERE, HOME, Box, Cuts, Ranges, Regions, find_cuts
from carvegbm.engines.milp.point import Point
from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.engines.milp.program import Frame

__all__ = ["SMALLEST", "Group", "ProgramTooLarge", "Reach", "find_reach"]

SMALLEST = 1e-9
"""HiGHS drops smaller coefficients; they are rounded down to 0 here, which relaxes the program."""
_BYTES_PER_NONZERO = 1_000
_MEMORY = 0.5
"""Share of the machine's memory that a program may take."""

Group = tuple[tuple[int, ...], bool, list[int]]
"""A literal, and leaves of one tree: z falls into one of them only if that is true."""
Path = tuple[tuple[int, bool], ...]
"""(node, side) from the root down."""
Leaf = tuple[int, Box, Path]
"""The row of the scores, the box, and, unpruned, the path."""
_Visit = tuple[int, Ranges, Regions, float, Path]
"""Of a walk: the node, the box as far as it is known there, what it costs, and the path."""


class ProgramTooLarge(CarveError):  # noqa: N818 - a refusal that "auto" may pass over
    """The program would not fit into this machine's memory."""


@dataclass(frozen=True)
class Reach:
    """The leaves the attacker can push x into, and the cuts on the way."""

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
    cuts, way_of_node = find_cuts(instance, clock, pruned)
    seen = np.append(instance.routed(instance.x), np.nan)[layout.feature]  # NaN at leaves
    to_left = layout.goes_left(slice(None), seen)
    home_of_node = np.where(to_left, layout.left, layout.right)
    clock.check()
    reach = Reach(instance, clock, pruned, cuts, [], [], [], [], [])
    is_open, constants = _survey(reach, way_of_node, home_of_node)
    reach.constants.extend(constants.tolist())
    walk = _Walk(reach, way_of_node.tolist(), home_of_node.tolist())
    for root in clock.watched(layout.roots[is_open].tolist()):
        leaves = walk.leaves(root)
        if len(leaves) == 1:
            reach.constants.append(leaves[0][0])
            continue
        start = len(reach.rows)
        if pruned:
            reach.groups.extend(_by_cut(leaves, start, clock))
            reach.groups.extend(_by_classes(leaves, start, cuts, walk.regions, clock))
        else:
            reach.groups.extend(_by_node(leaves, start, walk))
        reach.first.append(start)
        reach.rows.extend(row for row, _, _ in leaves)
        reach.boxes.extend(box for _, box, _ in leaves)
    return reach


class _Walk:
    """Down the trees, to what the attacker can afford."""

    def __init__(self, reach: Reach, way_of: list[int], home_of: list[int]) -> None:
        self.reach, self._way_of, self._home_of = reach, way_of, home_of
        scene = reach.instance.scene
        self._columns = scene.layout.columns
        self._going_left = {
            number: left
            for feature in reach.cuts.switches
            for number, left in scene.layout.classes[feature].going_left.items()
        }
        adds_up = reach.pruned and not math.isinf(scene.attacker.norm)
        # Rounded sums: a leaf is dropped only if it is too expensive beyond all rounding.
        self._price = [
            float(price / scene.capacity) if adds_up else 0.0
            for price in reach.clock.watched(reach.cuts.price)
        ]
        self.regions: set[tuple[int, int]] = set()
        """(feature, classes) wherever the tree walked last asks for some of a finite feature."""

    def leaves(self, root: int) -> list[Leaf]:
        """The leaves of one tree within reach."""
        reach, cuts, price, way_of = self.reach, self.reach.cuts, self._price, self._way_of
        feature, left, right = self._columns
        leaves: list[Leaf] = []
        self.regions.clear()
        stack: list[_Visit] = [(root, {}, {}, 0.0, ())]
        for _ in reach.clock.watched(iter(stack.__len__, 0)):
            node, ranges, classes, cost, path = stack.pop()
            while feature[node] >= 0 and way_of[node] == HOME:
                node = self._home_of[node]
            if feature[node] < 0:
                leaves.append((left[node], Box(ranges, classes), path))
                continue
            if (cut := way_of[node]) < HOME:
                stack.extend(self._below_set((node, ranges, classes, cost, path)))
                continue
            low, high = ranges.get(feature[node], ANYWHERE)
            for side, child in ((True, left[node]), (False, right[node])):
                if not (low < cut if side else cut < high):
                    continue
                inner = (low, min(high, cut)) if side else (max(low, cut), high)
                total = cost
                if side != cuts.home_left[cut]:
                    before = cuts.crossed(low, high)
                    total += price[cut] - (0.0 if before is None else price[before])
                if total <= 1 + SMALLEST:
                    turns = () if reach.pruned else (*path, (node, side))
                    inside = {**ranges, feature[node]: inner}
                    stack.append((child, inside, classes, total, turns))
        return leaves

    def literal(self, node: int, side: bool) -> Literal:
        """What it takes that z goes to one side of a node."""
        if (way := self._way_of[node]) > HOME:
            return (way,), side
        switch, listed = self._asked(node)
        return switch.literal((listed if side else ~listed) & switch.reach)

    def _asked(self, node: int) -> tuple[Switch, int]:
        """Of a split by a set: the feature, and the classes that go left."""
        feature, *_ = self._columns
        return self.reach.cuts.switches[feature[node]], self._going_left[-2 - self._way_of[node]]

    def _below_set(self, visit: _Visit) -> Iterable[_Visit]:
        """Both sides of a split by a set of states, as far as they are open."""
        node, ranges, classes, cost, path = visit
        feature, left, right = (column[node] for column in self._columns)
        switch, listed = self._asked(node)
        before = classes.get(feature, switch.reach)
        for side, asked in ((True, listed), (False, ~listed)):
            inner, total = before & asked, cost
            if before & switch.home and not inner & switch.home:
                total += self._price[next(iter(switch.cuts.values()))]
            if inner and total <= 1 + SMALLEST:
                self.regions.add((feature, inner))
                turns = () if self.reach.pruned else (*path, (node, side))
                inside = {**classes, feature: inner}
                yield left if side else right, ranges, inside, total, turns


def _by_cut(leaves: list[Leaf], start: int, clock: Clock) -> Iterable[Group]:
    """A group for each side of each cut of a tree: all leaves whose box lies on that side."""
    known: dict[int, set[int]] = {}
    for _, box, _ in leaves:
        for feature, ends in box.ranges.items():
            known.setdefault(feature, set()).update(ends)
    ordered = {feature: sorted(ends - {*ANYWHERE}) for feature, ends in known.items()}
    groups: dict[tuple[int, bool], list[int]] = {}
    for leaf, (_, box, _) in enumerate(leaves, start):
        clock.check()
        for feature, (low, high) in box.ranges.items():
            cuts = ordered[feature]
            for cut in cuts[bisect_left(cuts, high) :]:
                groups.setdefault((cut, True), []).append(leaf)
            for cut in cuts[: bisect_right(cuts, low)]:
                groups.setdefault((cut, False), []).append(leaf)
    return (((cut,), side, members) for (cut, side), members in groups.items())


def _by_classes(
    leaves: list[Leaf], start: int, cuts: Cuts, regions: set[tuple[int, int]], clock: Clock
) -> Iterable[Group]:
    """A group for each region of a tree: all leaves that ask for nothing outside of it."""
    for feature, region in clock.watched(sorted(regions)):
        members = [
            leaf
            for leaf, (_, box, _) in enumerate(leaves, start)
            if feature in box.classes and not box.classes[feature] & ~region
        ]
        if members:
            yield *cuts.switches[feature].literal(region), members


def _by_node(leaves: list[Leaf], start: int, walk: _Walk) -> Iterable[Group]:
    """A group for each side of each node of a tree: all leaves below it."""
    groups: dict[tuple[int, bool], list[int]] = {}
    for leaf, (_, _, path) in enumerate(leaves, start):
        walk.reach.clock.check()
        for turn in path:
            groups.setdefault(turn, []).append(leaf)
    return ((*walk.literal(*turn), members) for turn, members in groups.items())


def _survey(
    reach: Reach, way_of_node: npt.NDArray[np.intp], home_of_node: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
    """The trees in which a cut can be met, and of the others the row of the one leaf in reach.

    Counts, before anything is built, a nonzero per leaf and cut above it, some per leaf, and one
    per class and side of a set, and refuses a program that would be too large.
    """
    layout, clock, memory, nonzeros = reach.instance.scene.layout, reach.clock, _memory(), 0
    classes = np.zeros(reach.instance.ensemble.n_features, dtype=np.int64)
    for feature, switch in reach.cuts.switches.items():
        classes[feature] = len(switch.cuts)
    front, depth = layout.roots, np.zeros(len(layout.roots), dtype=np.int64)
    tree = np.arange(len(front))
    is_open, row = np.zeros(len(front), dtype=bool), np.zeros(len(front), dtype=np.intp)
    while len(front):
        clock.check()
        leaf = layout.feature[front] < 0
        nonzeros += int(np.sum(depth[leaf] + 4))
        by_set = front[way_of_node[front] < HOME]
        nonzeros += 2 * int(np.sum(classes[layout.feature[by_set]]))
        if nonzeros * _BYTES_PER_NONZERO > _MEMORY * memory:
            raise ProgramTooLarge(
                f"the mixed-integer program has more than {nonzeros:,} nonzeros and takes more "
                f"than {nonzeros * _BYTES_PER_NONZERO / 2**30:,.1f} GiB; this machine has "
                f"{memory / 2**30:,.1f} GiB; lower the budget, or use engine 'search'"
            )
        row[tree[leaf]] = layout.left[front[leaf]]
        cut, forced = ~leaf & (way_of_node[front] != HOME), ~leaf & (way_of_node[front] == HOME)
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
