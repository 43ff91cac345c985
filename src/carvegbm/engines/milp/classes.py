"""Classes: the states of a finite feature that no split tells apart, and those in reach of x.

Comes in: the splits by sets of one feature; then the states that x may be changed to. Goes out: its
classes as the bits of whole numbers, and what it takes that z is in some of them, as literals.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from carvegbm.trees.core import StateSets

__all__ = ["Classes", "Literal", "Switch"]

Literal = tuple[tuple[int, ...], bool]
"""(cuts, side): z is left of one of the cuts (True), or right of all (False)."""


class Classes:
    """The states of one feature, in classes: all splits send those of one class the same way."""

    def __init__(
        self, sets: StateSets, splits: npt.NDArray[np.intp], numbers: npt.NDArray[np.intp]
    ) -> None:
        self.splits = splits
        """The nodes that ask for the feature, …"""
        self.numbers = numbers
        """… and the numbers of their sets."""
        lists = {number: sorted(sets.listed(number)) for number in np.unique(numbers).tolist()}
        # A row per state, the last one for those that are in no set, with a bit per set.
        count = 1 + max((states[-1] for states in lists.values() if states), default=-1)
        routes = np.zeros((count + 1, (len(lists) + 7) // 8), dtype=np.uint8)
        for place, states in enumerate(lists.values()):
            routes[states, place // 8] |= 1 << place % 8
        different, of_state = np.unique(routes, axis=0, return_inverse=True)
        self._of_state: npt.NDArray[np.intp] = of_state.ravel()
        held = np.unpackbits(different, axis=1, bitorder="little").T
        bits = [row.tobytes() for row in np.packbits(held, axis=1, bitorder="little")]
        self.going_left = {
            number: int.from_bytes(row, "little")
            for number, row in zip(lists, bits[: len(lists)], strict=True)
        }
        """Of every set: the classes in it, as bits."""

    def of(self, states: npt.ArrayLike) -> npt.NDArray[np.intp]:
        """The classes of states, -1 (none that is known) among them."""
        last = len(self._of_state) - 1
        given = np.asarray(states, dtype=np.intp)
        return np.asarray(self._of_state[np.where(given < 0, last, np.minimum(given, last))])


@dataclass(frozen=True)
class Switch:
    """A finite feature that the attacker can change: a cut per class but that of x.

    z is left of such a cut iff it is in the class. Classes are bits of whole numbers.
    """

    home: int
    """The class of x."""
    cuts: dict[int, int]
    """Of every other class in reach: its cut."""

    @cached_property
    def reach(self) -> int:
        """All classes in reach, that of x among them."""
        return self.home | sum(self.cuts)

    def cuts_in(self, classes: int) -> Iterable[int]:
        """The cuts of those that are in reach."""
        return (cut for bit, cut in self.cuts.items() if bit & classes)

    def literal(self, classes: int) -> Literal:
        """That z is in one of some, but not all, classes in reach."""
        if classes & self.home:
            return tuple(self.cuts_in(~classes)), False
        return tuple(self.cuts_in(classes)), True
