"""Quiet thresholds: those that few training rows of any class lie close to.

A threshold does harm where instances crowd around it: the attacker pushes them across. Certified
training leaves crowded thresholds out.

Comes in: candidate thresholds and training rows. Goes out: `crowding`, a number per threshold:

    crowding of v = largest share of a class's rows within [v - w, v + w]
    w = width_of(norm) * budget * scale
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from carvegbm.training.data import Labelled
from carvegbm.training.growing.closing import ClosingRule
from carvegbm.training.growing.thresholds import Candidates, for_each_column

__all__ = ["QUIETNESS", "crowding", "width_of"]

Floats = npt.NDArray[np.float64]

QUIETNESS = (0.03, 0.06, 0.12, 0.25, None)
"""Largest crowding of an open threshold, to be tried in turn; None closes no threshold."""


def width_of(norm: float) -> float:
    """Half the width of the window around a threshold, in budgets.

    An attacker of norm inf can spend the whole budget on every feature. One of norm 1 has to share
    it: 0.3 did best on Fashion-MNIST, and norms in between are given what lies between.

    Examples
    --------
    >>> [round(width_of(p), 2) for p in (1, 2, float("inf"))]
    [0.3, 0.55, 1.0]
    """
    return float(0.3 ** (1 / norm))


def crowding(
    candidates: Candidates, rows: Labelled, rule: ClosingRule, threads: int = 1
) -> list[Floats]:
    """How crowded every candidate threshold is, per feature; 0 where the attacker has no access.

    Rows with numbers to predict are all of one class.
    """
    classes = rows.labels if rows.labels.dtype.kind in "iu" else np.zeros(len(rows), dtype=np.int64)
    members = [classes == label for label in np.unique(classes)]
    half = width_of(rule.norm) * rule.budget * rule.scale
    found: list[Floats] = [np.zeros(len(values)) for values in candidates.values]

    def count(feature: int, column: Floats) -> None:
        values = candidates.values[feature]
        for member in members:
            ordered = np.sort(column[member])
            first = np.searchsorted(ordered, values - half[feature], side="left")
            last = np.searchsorted(ordered, values + half[feature], side="right")
            share = (last - first) / len(ordered)
            found[feature] = np.maximum(found[feature], share)
        found[feature] *= rule.crossable(feature, values)

    for_each_column(rows.X, count, threads)
    return found
