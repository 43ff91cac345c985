"""Quiet thresholds: those that few training rows of any class lie close to.

A threshold does harm where instances crowd around it: the attacker pushes them across. Certified
training leaves crowded thresholds out.

Comes in: candidate thresholds and training rows. Goes out: `crowding`, a number per threshold:

    crowding of v = largest share of a class's rows within [v - w up, v + w down]
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

    One number for a categorical feature: 1 where its categories can be exchanged within the
    window, as the members of a one-hot group. Rows with numbers to predict are all of one class.
    """
    classes = rows.labels if rows.labels.dtype.kind in "iu" else np.zeros(len(rows), dtype=np.int64)
    members = [classes == label for label in np.unique(classes)]
    near = rule.with_share(width_of(rule.norm))
    found: list[Floats] = [np.zeros(len(values)) for values in candidates.values]

    def count(feature: int, column: Floats) -> None:
        values = candidates.values[feature]
        if feature in near.finite:
            n_flags = 1 if feature in candidates.categories else len(values)
            found[feature] = np.full(n_flags, float(len(near.finite[feature]) > 0))
            return
        column, first_of, last_of = _window(near, feature, column, values)
        largest = np.zeros(len(values))
        for member in members:
            ordered = np.sort(column[member])
            first = np.searchsorted(ordered, first_of, side="left")
            last = np.searchsorted(ordered, last_of, side="right")
            np.maximum(largest, (last - first) / max(len(ordered), 1), out=largest)
        found[feature] = largest * rule.crossable(feature, values)

    for_each_column(rows.X, count, threads)
    return found


def _window(
    near: ClosingRule, feature: int, column: Floats, values: Floats
) -> tuple[Floats, Floats, Floats]:
    """The column, and first and last of its values from which each threshold can be crossed.

    Where values are steps of a lattice, all three are numbers of steps.
    """
    if feature in near.step:
        down, up = near.points(feature)
        last = near.places(feature, values)
        return np.rint(column / float(near.step[feature])), last + 1 - up, last + down
    down_by, up_by = (near.budget * scale[feature] for scale in (near.scale, near.scale_up))
    # What lies at the threshold is on its left: it is crossed upwards.
    first = values - up_by if near.scale_up[feature] > 0 else np.nextafter(values, np.inf)
    return column, first, values + down_by
