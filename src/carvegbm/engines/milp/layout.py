"""An ensemble as milp walks it: the same for all instances and attackers, and kept with it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.ensemble import Ensemble

__all__ = ["Layout", "Thresholds", "layout_of"]


class Thresholds(NamedTuple):
    """The different thresholds; those of one feature follow each other and ascend."""

    feature: npt.NDArray[np.int32]
    value: npt.NDArray[np.float64]
    above: npt.NDArray[np.float64]
    """The smallest machine number to the right of it."""
    split: npt.NDArray[np.intp]
    """All nodes that are splits, …"""
    of_split: npt.NDArray[np.intp]
    """… and which of the thresholds they have."""


class Layout:
    """The nodes, column by column; what takes long is done when it is first needed."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.roots: npt.NDArray[np.intp] = ensemble.roots.astype(np.intp)
        self.feature, self.threshold, self.left, self.right, self.missing = (
            np.ascontiguousarray(ensemble.nodes[name])
            for name in ("feature", "threshold", "left", "right", "missing")
        )
        self._grid = np.float32 if ensemble.input_precision == "float32" else np.float64

    @cached_property
    def thresholds(self) -> Thresholds:
        """All thresholds, sorted."""
        split = np.flatnonzero(self.feature >= 0)
        split = split[np.argsort(self.threshold[split])]
        few = np.iinfo(np.int16).max  # numbers of 16 bits are sorted in linear time
        feature = self.feature[split]
        feature = feature.astype(np.int16) if feature.max(initial=0) <= few else feature
        split = split[np.argsort(feature, kind="stable")]
        feature, threshold = self.feature[split], self.threshold[split]
        is_new = np.ones(len(split), dtype=bool)
        is_new[1:] = (feature[1:] != feature[:-1]) | (threshold[1:] != threshold[:-1])
        feature, threshold = feature[is_new], threshold[is_new]
        with np.errstate(over="ignore"):
            above = np.nextafter(threshold.astype(self._grid), self._grid(np.inf))
        return Thresholds(
            feature, threshold, above.astype(np.float64), split, np.cumsum(is_new) - 1
        )

    @cached_property
    def columns(self) -> list[list[int]]:
        """Feature, left and right of every node, for walks in Python."""
        return [column.tolist() for column in (self.feature, self.left, self.right)]


def layout_of(ensemble: Ensemble) -> Layout:
    """The layout of an ensemble, made once as long as it lives."""
    layout: Layout | None = ensemble.known.get("milp layout")
    if layout is None:
        layout = ensemble.known["milp layout"] = Layout(ensemble)
    return layout
