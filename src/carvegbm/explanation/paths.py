"""Ways through trees: which leaf of every tree a row falls into, and what leads another one there.

Comes in: an ensemble and rows in code space. Goes out: leaves, the splits that send two rows
different ways, and scores as exact sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.trees.sets import Sets

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["Crossing", "Splits", "answer", "as_read", "exact_scores", "runner_up"]

Floats = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]

_NO_CODE = -1.0


class Crossing(NamedTuple):
    """A split that sends two rows different ways."""

    feature: int
    number: float
    """The threshold, or the number of a set of categories."""
    is_left: bool
    """Whether it sends the second row left."""


def as_read(ensemble: Ensemble, row: npt.NDArray[np.floating]) -> Floats:
    """What splits look at: numbers in the model's precision, and codes of categories.

    -1 is no category that is known, NaN is missing.
    """
    with np.errstate(over="ignore"):
        read = row.astype(np.dtype(ensemble.input_precision)).astype(np.float64)
    if ensemble.categories:
        states = ensemble.states(np.asarray(row, dtype=np.float64)[None])[0]
        for feature, labels in ensemble.categories.items():
            state = float(states[feature])
            if np.isnan(state):
                read[feature] = np.nan
            else:
                read[feature] = _NO_CODE if state < 0 else list(labels)[int(state)]
    return read


class Splits:
    """The splits of an ensemble, and where they send rows; these are given `as_read`."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.nodes, self.roots = ensemble.nodes, ensemble.roots.astype(np.int64)
        self.sets = Sets(ensemble.set_starts, ensemble.set_codes).lists()
        self.is_categorical = np.zeros(ensemble.n_features + 1, dtype=bool)
        self.is_categorical[list(ensemble.categories)] = True

    def leaves(self, row: Floats) -> Positions:
        """The leaf of every tree that a row falls into, as a row of `Ensemble.scores`."""
        here: Positions = self.roots.copy()
        features = self.nodes["feature"]
        while len(inner := np.flatnonzero(features[here] >= 0)):
            nodes = self.nodes[here[inner]]
            here[inner] = np.where(self._go_left(nodes, row), nodes["left"], nodes["right"])
        return np.asarray(self.nodes["left"][here], dtype=np.int64)

    def crossings(self, tree: int, one: Floats, other: Floats) -> list[Crossing]:
        """The splits on the way of the other row through a tree that send the one elsewhere."""
        found, at = [], int(self.roots[tree])
        while self.nodes["feature"][at] >= 0:
            node = self.nodes[at : at + 1]
            goes_left = bool(self._go_left(node, other)[0])
            threshold, feature, left, right, _ = node[0].tolist()
            if goes_left != self._go_left(node, one)[0]:
                found.append(Crossing(feature, threshold, goes_left))
            at = left if goes_left else right
        return found

    def _go_left(self, nodes: npt.NDArray[np.void], row: Floats) -> npt.NDArray[np.bool_]:
        values = row[nodes["feature"]]
        left = np.asarray(values <= nodes["threshold"])
        for i in np.flatnonzero(self.is_categorical[nodes["feature"]]).tolist():
            left[i] = values[i] in self.sets[int(nodes["threshold"][i])]
        is_missing = np.isnan(values)
        left[is_missing] = nodes["missing"][is_missing] == 1
        return left


# ── exact sums ───────────────────────────────────────────────────────────────────────────────


def exact_scores(ensemble: Ensemble, leaves: Positions) -> tuple[Fraction, ...]:
    """(base score + sum of the scores of these leaves) / average, exactly, per output."""
    rows = [ensemble.base_score.tolist(), *ensemble.scores[leaves].tolist()]
    return tuple(
        sum(map(Fraction, column), Fraction(0)) / ensemble.average
        for column in zip(*rows, strict=True)
    )


def answer(ensemble: Ensemble, scores: Sequence[Fraction]) -> int:
    """The position of the class that the exact scores decide for."""
    if ensemble.task == "multiclass":
        return list(scores).index(max(scores))
    above = scores[0] - Fraction(ensemble.threshold)
    return int(above > 0 or (above == 0 and ensemble.tie == "positive"))


def runner_up(scores: Sequence[Fraction], label: int) -> int:
    """The best of all classes but one, the first of several; its position."""
    others = [position for position in range(len(scores)) if position != label]
    return max(others, key=lambda position: scores[position])
