"""The copy of an ensemble in the C++ core.

In the core, a categorical split tests a set of states: bits, one row per feature and set, because a
code has different states in different features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm import _core

if TYPE_CHECKING:
    from carvegbm.model.ensemble import Ensemble

__all__ = ["FINITE", "StateSets", "bits_of", "core_of", "state_sets", "with_sets"]

FINITE = 2
"""The entry of `StateSets.grid` for a feature whose values are states."""


class StateSets(NamedTuple):
    """Nodes with sets of states; set i is words[starts[i] : starts[i + 1]].

    State s goes left iff bit s of the set is 1.
    """

    nodes: npt.NDArray[np.void]  # a split on a finite feature holds the number of a set
    grid: npt.NDArray[np.uint8]  # per feature: 0 numbers, FINITE states; empty: all 0
    starts: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]

    def listed(self, number: int) -> set[int]:
        """Return the states of a set."""
        words = self.words[self.starts[number] : self.starts[number + 1]]
        bits = np.unpackbits(words.astype("<u8").view(np.uint8), bitorder="little")
        return set(np.flatnonzero(bits).tolist())


def core_of(ensemble: Ensemble, sets: StateSets | None = None) -> _core.Ensemble:
    """Return the ensemble in the core, with the nodes of `sets` if given."""
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
    """Return the nodes, with one set of states per pair of feature and set of codes."""
    if not ensemble.categories:
        empty = np.zeros(0, dtype=np.int64)
        grid, words = np.zeros(0, dtype=np.uint8), np.zeros(0, dtype=np.uint64)
        return StateSets(ensemble.nodes, grid, empty, words)
    grid = np.zeros(ensemble.n_features, dtype=np.uint8)
    grid[list(ensemble.categories)] = FINITE
    nodes = ensemble.nodes.copy()
    finite = np.isin(nodes["feature"], np.array(list(ensemble.categories)))
    tested = np.stack([nodes["feature"][finite], nodes["threshold"][finite].astype(np.int64)])
    pairs, numbers = np.unique(tested, axis=1, return_inverse=True)
    nodes["threshold"][finite] = numbers.ravel()
    lists = ensemble.sets
    codes = {id(labels): np.array(list(labels)) for labels in ensemble.categories.values()}
    states = [
        np.searchsorted(codes[id(ensemble.categories[feature])], np.array(lists[number], dtype=int))
        for feature, number in pairs.T.tolist()
    ]
    start = np.zeros(1, dtype=np.int64)
    return with_sets(StateSets(nodes, grid, start, np.zeros(0, dtype=np.uint64)), states)


def with_sets(sets: StateSets, added: Iterable[Sequence[int] | npt.NDArray[np.intp]]) -> StateSets:
    """Append sets of states."""
    rows = [bits_of(states) for states in added]
    before = sets.starts if len(sets.starts) else np.zeros(1, dtype=np.int64)
    starts = np.cumsum([before[-1], *map(len, rows)], dtype=np.int64)
    return sets._replace(
        starts=np.concatenate([before[:-1], starts]), words=np.concatenate([sets.words, *rows])
    )


def bits_of(states: Sequence[int] | npt.NDArray[np.intp]) -> npt.NDArray[np.uint64]:
    """Return words in which the bits of the states are set.

    Examples
    --------
    >>> bits_of([0, 2]).tolist(), bits_of([64]).tolist()
    ([5], [0, 1])
    """
    places = np.array(states, dtype=np.intp)
    bits = np.zeros((int(places.max(initial=-1)) + 64) // 64 * 64, dtype=np.uint8)
    bits[places] = 1
    return np.packbits(bits, bitorder="little").view("<u8").astype(np.uint64)
