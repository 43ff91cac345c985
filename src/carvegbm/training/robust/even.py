"""Candidate thresholds that lie evenly: for attackers that share a budget among features.

What a move costs such an attacker grows with its distance, without a step at some radius. Steps of
the model that are spread over a feature's whole range then cost it most: thresholds lie evenly
among the feature's values, and evenly between the smallest and the largest of them, so that a
feature of few values has several thresholds between two of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from carvegbm.training.growing.thresholds import ZERO_ZONE, Candidates, for_each_column

__all__ = ["even_candidates"]

Floats = npt.NDArray[np.float64]


def even_candidates(X: npt.NDArray[np.floating], most: int, threads: int = 1) -> Candidates:
    """At most `most` thresholds per feature, half of them between neighbouring values.

    Examples
    --------
    >>> found = even_candidates(np.array([[0.0], [1.0], [1.0], [4.0]]), 4)
    >>> found.values[0].tolist(), found.lower.tolist(), found.upper.tolist()
    ([0.5, 1.3333333333333333, 2.5, 2.6666666666666665], [0.0], [4.0])
    """
    n_features = X.shape[1]
    places: list[Floats] = [np.empty(0)] * n_features
    lowest, highest = np.zeros(n_features), np.zeros(n_features)

    def find(feature: int, column: Floats) -> None:
        column = column[~np.isnan(column)]
        column[np.abs(column) <= ZERO_ZONE] = 0.0
        values = np.unique(column)
        if len(values) == 0:
            return
        lowest[feature], highest[feature] = values[0], values[-1]
        places[feature] = _places(values, most)

    for_each_column(X, find, threads)
    return Candidates(tuple(places), lowest, highest)


def _places(values: Floats, most: int) -> Floats:
    """Thresholds t, values[0] <= t < values[-1]."""
    if len(values) == 1:
        return np.empty(0)
    between = values[:-1] / 2 + values[1:] / 2
    half = max(1, most // 2)
    if len(between) > half:
        between = between[np.linspace(0, len(between) - 1, half).round().astype(np.int64)]
    evenly = np.linspace(values[0], values[-1], most - len(between) + 2)[1:-1]
    place = np.union1d(between, evenly)
    inside = (place >= -ZERO_ZONE) & (place < ZERO_ZONE)
    place = np.unique(np.where(inside, ZERO_ZONE, place))  # LightGBM reads what is in there as 0
    kept: Floats = place[(place >= values[0]) & (place < values[-1])]
    return kept
