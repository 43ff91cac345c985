"""What proofs call axes, cells and states: the model's own thresholds, codes and members."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.axes.translation import Translation

__all__ = ["names_of"]


def names_of(translation: Translation) -> _core.ProofNames:
    """The names of what the core sees of a problem; docs/proofs.md defines them."""
    from carvegbm import _core

    ensemble, groups = translation.ensemble, translation.limits.one_hot
    axes = np.arange(ensemble.n_features, dtype=np.int32)
    for number, group in enumerate(groups):
        axes[group[0]] = ensemble.n_features + number
    states: list[list[int]] = [[] for _ in range(ensemble.n_features)]
    for feature, codes in ensemble.categories.items():
        states[feature] = sorted(codes)
    for group in groups:
        states[group[0]] = list(range(len(group)))
    thresholds, last_cells = _cells(translation)
    return _core.ProofNames(
        axes,
        _starts(thresholds),
        np.concatenate([*thresholds, np.empty(0)]),
        np.concatenate([*last_cells, np.empty(0, dtype=np.int32)]).astype(np.int32),
        _starts(states),
        np.array(list(chain.from_iterable(states)), dtype=np.int32),
    )


def _cells(
    translation: Translation,
) -> tuple[list[npt.NDArray[np.float64]], list[npt.NDArray[np.int32]]]:
    """Of every feature: its thresholds in the core, and the last cell that goes left of each."""
    ensemble = translation.ensemble
    finite = {*ensemble.categories, *chain.from_iterable(translation.limits.one_hot)}
    thresholds = [np.empty(0)] * ensemble.n_features
    last_cells = [np.empty(0, dtype=np.int32)] * ensemble.n_features
    splits = ensemble.nodes[ensemble.nodes["feature"] >= 0]
    order = np.argsort(splits["feature"], kind="stable")
    features, starts = np.unique(splits["feature"][order], return_index=True)
    ends = np.append(starts[1:], len(splits)).tolist() if len(splits) else []
    for feature, start, end in zip(features.tolist(), starts.tolist(), ends, strict=True):
        if feature in finite:
            continue
        known = np.unique(splits["threshold"][order[start:end]])
        cells = np.arange(len(known), dtype=np.int32)
        if feature in translation.lattices:
            numbers = translation.lattices[feature].last_left(known)
            is_last = np.append(numbers[1:] != numbers[:-1], True)
            known, cells = numbers[is_last], cells[is_last]
        thresholds[feature], last_cells[feature] = known, cells
    return thresholds, last_cells


def _starts(lists: list[list[int]] | list[npt.NDArray[np.float64]]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *map(len, lists)], dtype=np.int32)
