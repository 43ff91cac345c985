"""How many rows the leaves of a growing tree have: counted by the team, and told to LightGBM.

Where LightGBM trains on several machines, it estimates the size of a leaf from its hessians, where
one process counts rows. `min_data_in_leaf` then forbids other splits, and trees differ. But the
best split of every leaf travels from machine to machine with the sizes of its two sides; so these
are counted, and replaced by what is true, on their way.

To count, a member must know which of its rows are in which leaf. `Follower` repeats LightGBM's way
through a tree (leaf by leaf, the largest gain first) from what the members tell each other:

    split       feature, sizes of both sides, gain, threshold, …, as `SplitInfo` writes itself
    next leaf   the one with the largest gain; of equal ones that of the first feature, then the
                first leaf
    looked at   both its sides, unless they are too deep or both too small to be split again

The two sizes of a split add up to the leaf's, by which a `Follower` sees that it is on the way. One
that loses it gives up until the next tree: sizes are then estimates, as LightGBM made them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.training.teams.team import Buffer, Team

__all__ = ["Follower", "Rules"]

Rows = npt.NDArray[np.int32]

# LightGBM's SplitInfo: feature, sizes of left and right, gain, threshold; 64 bytes of outputs and
# sums; whether missing values go left, a constraint, the number of categories that go left.
_HEAD = struct.Struct("<iiidI")
_TAIL = struct.Struct("<?bi")
_SIZES = struct.Struct("<ii")
_SIZES_AT, _TAIL_AT = 4, 88
_NOWHERE = 2**31 - 1


@dataclass(frozen=True)
class Rules:
    """When LightGBM looks for splits of a leaf."""

    least_rows: int = 20
    most_depth: int = -1
    most_categories: int = 32
    """That a split may list; a split is as long as if it listed so many."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Rules:
        """Those among LightGBM's parameters, under their main names."""
        least = int(parameters.get("min_data_in_leaf", 20))
        return cls(
            max(least, 2) if float(parameters.get("path_smooth", 0)) > 0 else least,
            int(parameters.get("max_depth", -1)),
            int(parameters.get("max_cat_threshold", 32)),
        )

    @property
    def split_lengths(self) -> tuple[int, int]:
        """Bytes of a split as it travels: as LightGBM has it, and as its first versions 4 did.

        They left room for two numbers fewer than they wrote.
        """
        whole = _TAIL_AT + _TAIL.size + 4 * self.most_categories
        return whole, whole - 16


@dataclass(frozen=True)
class _Split:
    """A split as it travels."""

    feature: int
    gain: float
    threshold: int
    missing_left: bool
    categories: npt.NDArray[np.uint32]
    n_rows: int = 0
    """Of both sides, as LightGBM has them."""
    left_rows: int = 0
    """Of all members together."""

    @classmethod
    def read(cls, written: memoryview) -> _Split:
        feature, left, right, gain, threshold = _HEAD.unpack_from(written)
        missing_left, _, n = _TAIL.unpack_from(written, _TAIL_AT)
        listed = np.frombuffer(written, dtype="<u4", count=n, offset=_TAIL_AT + _TAIL.size)
        return cls(feature, gain, threshold, missing_left, listed, left + right)

    def beats(self, other: _Split) -> bool:
        if self.gain != other.gain:
            return self.gain > other.gain
        own, others = (f if f >= 0 else _NOWHERE for f in (self.feature, other.feature))
        return own < others


_NONE = _Split(-1, -np.inf, 0, False, np.empty(0, dtype=np.uint32))


@dataclass
class _Leaf:
    rows: Rows
    """This member's."""
    total: int
    """All members'."""
    depth: int
    split: _Split = _NONE
    goes_left: npt.NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    """Which of the rows, by the split."""


class Follower:
    """Knows the leaves of the tree that LightGBM is growing.

    Parameters
    ----------
    team : Team
    codes : array (n, d), column-major
        Of this member's rows, as the tree sees them.
    missing : mapping from feature to int
        The code of missing values, where these have one of their own.
    first_bins : mapping from feature to int
        Of categorical features: LightGBM's bin of code 1; those of others follow. It has no bin of
        its own for code 0.
    total : int
        Number of rows of all members.
    rules : Rules
    """

    def __init__(
        self,
        team: Team,
        codes: npt.NDArray[Any],
        missing: Mapping[int, int],
        first_bins: Mapping[int, int],
        total: int,
        rules: Rules,
    ) -> None:
        self._team, self._codes, self._missing = team, codes, missing
        self._first_bins = first_bins
        self._total, self.rules = total, rules
        self._leaves: list[_Leaf] = []
        self.was_lost = False
        """Whether sizes in any tree were left as LightGBM estimated them."""

    def begin(self) -> None:
        """The next tree."""
        rows = np.arange(len(self._codes), dtype=np.int32)
        self._leaves = [_Leaf(rows, self._total, 0)]

    def corrected(self, blocks: Sequence[Buffer]) -> Sequence[Buffer]:
        """What the members found for the one or two leaves that were looked at, with true sizes.

        Every block holds a split for the smaller leaf, then one for the larger one.
        """
        length, odd = divmod(len(blocks[0]), 2)
        is_pair = length in self.rules.split_lengths and not odd
        pair = self._looked_at() if self._leaves and is_pair else None
        if pair is None or not self._is_on_the_way(pair, blocks, length):
            self._leaves, self.was_lost = [], True
            return blocks
        counts = self._team.sum(np.array([np.count_nonzero(leaf.goes_left) for leaf in pair]))
        for leaf, left in zip(pair, counts.tolist(), strict=True):
            leaf.split = replace(leaf.split, left_rows=left)
        return [self._written(block, pair, length) for block in blocks]

    def _is_on_the_way(self, pair: Sequence[_Leaf], blocks: Sequence[Buffer], length: int) -> bool:
        """Take over the best split of every leaf; False if a split is not one of these leaves."""
        for place, leaf in enumerate(pair):
            leaf.split = _NONE
            for block in blocks:
                found = _Split.read(memoryview(block)[place * length :])
                if np.isfinite(found.gain) and found.n_rows != leaf.total:
                    return False
                if found.beats(leaf.split):
                    leaf.split = found
            leaf.goes_left = self._left(leaf.rows, leaf.split)
        return True

    def _written(self, block: Buffer, pair: Sequence[_Leaf], length: int) -> bytearray:
        new = bytearray(block)
        for place, leaf in enumerate(pair):
            if leaf.split.feature >= 0:
                left = leaf.split.left_rows
                _SIZES.pack_into(new, place * length + _SIZES_AT, left, leaf.total - left)
        return new

    def _looked_at(self) -> list[_Leaf] | None:
        """The leaves that LightGBM looks at next, the smaller one first."""
        if len(self._leaves) == 1 and self._leaves[0].split is _NONE:
            return [*self._leaves]
        while True:
            best = self._leaves[0]
            for leaf in self._leaves[1:]:
                if leaf.split.beats(best.split):
                    best = leaf
            if not best.split.gain > 0:
                return None
            left, right = self._parted(best)
            rules = self.rules
            too_deep = 0 < rules.most_depth <= left.depth
            if not too_deep and max(left.total, right.total) >= 2 * rules.least_rows:
                return [left, right] if left.total < right.total else [right, left]

    def _parted(self, leaf: _Leaf) -> tuple[_Leaf, _Leaf]:
        """Split a leaf: it becomes its left side, and its right side the last leaf."""
        split, goes_left, depth = leaf.split, leaf.goes_left, leaf.depth + 1
        right = _Leaf(leaf.rows[~goes_left], leaf.total - split.left_rows, depth)
        leaf.rows, leaf.total, leaf.depth = leaf.rows[goes_left], split.left_rows, depth
        leaf.split = _NONE
        self._leaves.append(right)
        return leaf, right

    def _left(self, rows: Rows, split: _Split) -> npt.NDArray[np.bool_]:
        """Which of the rows go left."""
        if split.feature < 0:
            return np.zeros(len(rows), dtype=bool)
        column = self._codes[:, split.feature]
        codes = column if len(rows) == len(column) else column[rows]
        if split.feature in self._first_bins:
            chosen = split.categories.astype(np.int64) + 1 - self._first_bins[split.feature]
            return np.isin(codes, chosen[chosen > 0])
        left = codes <= split.threshold
        if split.feature in self._missing:
            left[codes == self._missing[split.feature]] = split.missing_left
        return np.asarray(left)
