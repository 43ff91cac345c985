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

from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.milp.instance import Clock, Instance

if TYPE_CHECKING:
    from carvegbm.milp.program import Frame

__all__ = ["ANYWHERE", "SMALLEST", "Box", "Cuts", "Group", "Literal", "Reach", "find_reach"]

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

    instance: Instance
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
        from carvegbm.milp.program import Frame

        return Frame(self)


def find_reach(instance: Instance, clock: Clock, pruned: bool) -> Reach | None:
    """Walk the trees; None if the time is up."""
    ensemble, nodes = instance.ensemble, instance.ensemble.nodes
    cuts, cut_of_node = _cuts(instance, pruned)
    seen = np.append(instance.routed(instance.x), np.nan)[nodes["feature"]]  # NaN at leaves
    to_left = np.where(np.isnan(seen), nodes["missing"] == 1, seen <= nodes["threshold"])
    home_of_node = np.where(to_left, nodes["left"], nodes["right"])
    _refuse_if_too_large(ensemble, cut_of_node, home_of_node)
    adds_up = pruned and not math.isinf(instance.attacker.norm)
    # Rounded sums: a leaf is dropped only if it is too expensive beyond all rounding.
    price = [float(p / instance.capacity) if adds_up else 0.0 for p in cuts.price]
    feature, _, left, right, _ = instance.columns
    cut_of, home_of = cut_of_node.tolist(), home_of_node.tolist()
    reach = Reach(instance, clock, pruned, cuts, [], [], [], [], [])
    for root in ensemble.roots.tolist():
        if clock.left <= 0:
            return None
        leaves: list[tuple[int, Box, Path]] = []
        stack: list[tuple[int, Box, float, Path]] = [(root, {}, 0.0, ())]
        while stack:
            node, box, cost, path = stack.pop()
            while feature[node] >= 0 and cut_of[node] < 0:
                node = home_of[node]
            if feature[node] < 0:
                leaves.append((left[node], box, path))
                continue
            cut = cut_of[node]
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
                    steps = () if pruned else (*path, (node, cut, side))
                    stack.append((child, {**box, feature[node]: inner}, total, steps))
        if len(leaves) == 1:
            reach.constants.append(leaves[0][0])
            continue
        reach.groups.extend((_by_cut if pruned else _by_node)(leaves, len(reach.rows)))
        reach.first.append(len(reach.rows))
        reach.rows.extend(row for row, _, _ in leaves)
        reach.boxes.extend(box for _, box, _ in leaves)
    return reach


def _cuts(instance: Instance, pruned: bool) -> tuple[Cuts, npt.NDArray[np.intp]]:
    """The cuts, and the cut of every node, or −1."""
    nodes, attacker, limits = instance.ensemble.nodes, instance.attacker, instance.limits
    split = np.flatnonzero(nodes["feature"] >= 0)
    split = split[np.lexsort((nodes["threshold"][split], nodes["feature"][split]))]
    feature, threshold = nodes["feature"][split], nodes["threshold"][split]
    is_new = np.ones(len(split), dtype=bool)
    is_new[1:] = (feature[1:] != feature[:-1]) | (threshold[1:] != threshold[:-1])
    number = np.cumsum(is_new) - 1
    feature, threshold = feature[is_new], threshold[is_new]
    home_left = instance.routed(instance.x)[feature] <= threshold
    grid = np.float32 if instance.ensemble.input_precision == "float32" else np.float64
    with np.errstate(over="ignore"):
        above = np.nextafter(threshold.astype(grid), grid(np.inf)).astype(np.float64)
        value = np.where(home_left, above, threshold)
        distance = np.abs(value - instance.x[feature])
    can = np.isfinite(value) & np.isfinite(instance.x[feature])
    if len(limits.changeable):
        can &= limits.changeable[feature] == 1
    if len(limits.lower):
        can &= (limits.lower[feature] <= value) & (value <= limits.upper[feature])
    if pruned and attacker.norm != 0:  # a filter, to keep rationals to what is near
        scale = limits.scale[feature] if len(limits.scale) else 1.0
        can &= distance <= attacker.budget * scale * (1 + 1e-12)
    moves = zip(feature[can].tolist(), value[can].tolist(), strict=True)
    price = [instance.price(*move) for move in moves]
    if pruned:
        affordable = np.array([p <= instance.capacity for p in price], dtype=bool)
        price = [p for p, keep in zip(price, affordable, strict=True) if keep]
        can[can] = affordable
    renumbered = np.where(can, np.cumsum(can) - 1, -1)
    cut_of_node = np.full(len(nodes), -1, dtype=np.intp)
    cut_of_node[split] = renumbered[number]
    kept = (feature[can].tolist(), value[can].tolist(), home_left[can].tolist())
    return Cuts(*kept, price), cut_of_node


def _by_cut(leaves: list[tuple[int, Box, Path]], start: int) -> Iterable[Group]:
    """A group for each side of each cut of a tree: all leaves whose box lies on that side."""
    known: dict[int, set[int]] = {}
    for _, box, _ in leaves:
        for feature, ends in box.items():
            known.setdefault(feature, set()).update(ends)
    ordered = {feature: sorted(ends - {*ANYWHERE}) for feature, ends in known.items()}
    groups: dict[Literal, list[int]] = {}
    for leaf, (_, box, _) in enumerate(leaves, start):
        for feature, (low, high) in box.items():
            cuts = ordered[feature]
            for cut in cuts[bisect_left(cuts, high) :]:
                groups.setdefault((cut, True), []).append(leaf)
            for cut in cuts[: bisect_right(cuts, low)]:
                groups.setdefault((cut, False), []).append(leaf)
    return groups.items()


def _by_node(leaves: list[tuple[int, Box, Path]], start: int) -> Iterable[Group]:
    """A group for each side of each node of a tree: all leaves below it."""
    groups: dict[tuple[int, bool], tuple[Literal, list[int]]] = {}
    for leaf, (_, _, path) in enumerate(leaves, start):
        for node, cut, side in path:
            groups.setdefault((node, side), ((cut, side), []))[1].append(leaf)
    return groups.values()


def _refuse_if_too_large(
    ensemble: Ensemble, cut_of_node: npt.NDArray[np.intp], home_of_node: npt.NDArray[np.intp]
) -> None:
    """Count, before anything is built, a nonzero per leaf and cut above it, and some per leaf."""
    nodes, nonzeros = ensemble.nodes, 0
    front, depth = ensemble.roots.astype(np.intp), np.zeros(ensemble.n_trees, dtype=np.int64)
    while len(front):
        leaf = nodes["feature"][front] < 0
        nonzeros += int(np.sum(depth[leaf] + 4))
        cut, forced = ~leaf & (cut_of_node[front] >= 0), ~leaf & (cut_of_node[front] < 0)
        below = [nodes["left"][front[cut]], nodes["right"][front[cut]], home_of_node[front[forced]]]
        front, depth = np.concatenate(below), np.concatenate([*[depth[cut] + 1] * 2, depth[forced]])
    size, memory = nonzeros * _BYTES_PER_NONZERO / 2**30, _memory() / 2**30
    if size > _MEMORY * memory:
        raise CarveError(
            f"the mixed-integer program has about {nonzeros:,} nonzeros and takes about "
            f"{size:,.1f} GiB; this machine has {memory:,.1f} GiB; lower the budget, or use "
            "engine 'search'"
        )


def _memory() -> int:
    """Bytes of memory of this machine; 8 GiB where it does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return 8 * 2**30
