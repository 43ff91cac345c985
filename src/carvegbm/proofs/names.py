"""What proofs call axes, cells and states: the model's own thresholds, codes and members."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.attackers.encoding import CoreEncoding

__all__ = ["names_of"]


def names_of(translation: CoreEncoding) -> _core.ProofNames:
    """The names of what the core sees of a problem; docs/proofs.md defines them."""
    from carvegbm import _core

    ensemble, groups = translation.ensemble, translation.limits.one_hot
    axes = np.arange(ensemble.n_features, dtype=np.int32)
    for number, group in enumerate(groups):
        axes[group[0]] = ensemble.n_features + number
    states = {feature: sorted(codes) for feature, codes in ensemble.categories.items()}
    states |= {group[0]: list(range(len(group))) for group in groups}
    counts = np.zeros(ensemble.n_features, dtype=np.int32)
    for feature, known in states.items():
        counts[feature] = len(known)
    in_order = chain.from_iterable(states[feature] for feature in sorted(states))
    return _core.ProofNames(
        axes,
        *_cells(translation),
        np.cumsum([0, *counts], dtype=np.int32),
        np.array(list(in_order), dtype=np.int32),
    )


def _cells(
    translation: CoreEncoding,
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64], npt.NDArray[np.int32]]:
    """Of every feature: its thresholds in the core, and the last cell that goes left of each.

    Those of feature f are from starts[f] to starts[f + 1].
    """
    ensemble = translation.ensemble
    finite = {*ensemble.categories, *chain.from_iterable(translation.limits.one_hot)}
    features, thresholds = ensemble.nodes["feature"], ensemble.nodes["threshold"]
    order = np.lexsort((thresholds, features))
    order = order[(features[order] >= 0) & ~np.isin(features[order], list(finite))]
    features, thresholds = features[order], thresholds[order]
    is_new = np.append(True, (np.diff(features) != 0) | (np.diff(thresholds) != 0))[: len(order)]
    features, thresholds = features[is_new], thresholds[is_new]
    starts = np.searchsorted(features, np.arange(ensemble.n_features + 1))
    cells = np.arange(len(features)) - starts[features]
    is_last = np.ones(len(features), dtype=bool)
    for feature in translation.grids.keys() & set(features.tolist()):
        own = slice(starts[feature], starts[feature + 1])
        numbers = translation.grids[feature].last_left(thresholds[own])
        thresholds[own], is_last[own] = numbers, np.append(numbers[1:] != numbers[:-1], True)
    starts = np.append(0, np.cumsum(is_last))[starts]
    return starts.astype(np.int32), thresholds[is_last], cells[is_last].astype(np.int32)
