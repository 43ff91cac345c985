"""An ensemble as the C++ core holds it.

Comes in: an `Ensemble`. Goes out: the core's object, whose splits by categories are sets of states:
rows of bits, one per feature and set, because a code has another state in another feature.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.trees.sets import Sets

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["FINITE", "StateSets", "bits_of", "core_of", "state_sets", "with_sets"]

FINITE = 2
"""In the grid: a feature whose values are states."""


class StateSets(NamedTuple):
    """Splits by sets of states; set i is the bits of words[starts[i] : starts[i + 1]].

    Bit s of a set says that state s goes left.
    """

    nodes: npt.NDArray[np.void]  # a split on a finite feature holds the number of a set
    grid: npt.NDArray[np.uint8]  # per feature: 0 numbers, FINITE states; empty: all 0
    starts: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]

    def listed(self, number: int) -> set[int]:
        """The states of a set."""
        words = self.words[self.starts[number] : self.starts[number + 1]]
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
        return set(np.flatnonzero(bits).tolist())


def core_of(ensemble: Ensemble, sets: StateSets | None = None) -> _core.Ensemble:
    """The same ensemble, in the core; with other nodes, if `sets` has some."""
    sets = state_sets(ensemble) if sets is None else sets
    return _core.Ensemble(
        nodes=sets.nodes.view(np.uint8),
        roots=ensemble.roots,
        scores=ensemble.scores,
        base_score=ensemble.base_score,
        threshold=ensemble.threshold,
        n_features=ensemble.n_features,
        average=ensemble.average,
        tie_positive=ensemble.tie == "positive",
        float32_inputs=ensemble.input_precision == "float32",
        float32_sums=ensemble.sum_precision == "float32",
        grid=sets.grid,
        set_starts=sets.starts,
        set_words=sets.words,
    )


def state_sets(ensemble: Ensemble) -> StateSets:
    """The nodes with a set of states for every feature and set of codes that a split asks for."""
    grid = np.zeros(ensemble.n_features if ensemble.categories else 0, dtype=np.uint8)
    starts = np.zeros(1 if ensemble.categories else 0, dtype=np.int64)
    words = np.zeros(0, dtype=np.uint64)
    if not ensemble.categories:
        return StateSets(ensemble.nodes, grid, starts, words)
    grid[list(ensemble.categories)] = FINITE
    nodes = ensemble.nodes.copy()
    finite = np.isin(nodes["feature"], np.array(list(ensemble.categories)))
    asked = np.stack([nodes["feature"][finite], nodes["threshold"][finite].astype(np.int64)])
    pairs, numbers = np.unique(asked, axis=1, return_inverse=True)
    nodes["threshold"][finite] = numbers.ravel()
    lists = Sets(ensemble.set_starts, ensemble.set_codes).lists()
    known = {id(labels): np.array(list(labels)) for labels in ensemble.categories.values()}
    states = [
        np.searchsorted(known[id(ensemble.categories[feature])], np.array(lists[number], dtype=int))
        for feature, number in pairs.T.tolist()
    ]
    rows = [_bits(own) for own in states]
    starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    return StateSets(nodes, grid, starts, np.concatenate([words, *rows]))


def with_sets(sets: StateSets, lists: Sequence[Sequence[int]]) -> StateSets:
    """The same with more sets of states after those that are there."""
    rows = [_bits(np.array(states, dtype=np.intp)) for states in lists]
    before = sets.starts if len(sets.starts) else np.zeros(1, dtype=np.int64)
    starts = np.cumsum([before[-1], *map(len, rows)], dtype=np.int64)
    return sets._replace(
        starts=np.concatenate([before[:-1], starts]), words=np.concatenate([sets.words, *rows])
    )


def bits_of(states: Iterable[int]) -> npt.NDArray[np.uint64]:
    """Words in which the bits of the states are set.

    Examples
    --------
    >>> bits_of([0, 2]).tolist(), bits_of([64]).tolist()
    ([5], [0, 1])
    """
    return _bits(np.array(sorted(states), dtype=np.intp))


def _bits(states: npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """Words in which the bits of the states are set."""
    bits = np.zeros((int(states.max(initial=-1)) + 64) // 64 * 64, dtype=np.uint8)
    bits[states] = 1
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)
