"""Warn about valid rows that probably indicate a mistake."""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.data.names import listed
from carvegbm.data.sparse import is_sparse
from carvegbm.trees.categories import in_states
from carvegbm.trees.labels import has_names

if TYPE_CHECKING:
    from carvegbm.attackers.limits import Limits
    from carvegbm.ensemble import Ensemble

__all__ = ["warn_if_unknown", "warn_if_unscaled"]

_ROWS = 10
"""Fewer rows may differ by chance from those that the model was trained on."""
_NAMED_ROWS = 2
"""The same for categories whose labels the model holds: it knows all of them."""
_FACTOR = 100
_UNSCALED = 10
"""Scaled columns (to [0, 1], or to unit variance) rarely span more."""


def warn_if_unknown(ensemble: Ensemble, rows: npt.NDArray[Any]) -> None:
    """Warn if no value of a categorical column is a category that the model knows.

    `rows` are in code space, see `carvegbm.trees.categories`.
    """
    start = rows[:1000]  # nearly always enough
    for feature in _without_known(ensemble, start):
        named = has_names(ensemble, feature)
        if len(rows) < (_NAMED_ROWS if named else _ROWS):
            continue
        if len(rows) > len(start) and feature not in _without_known(ensemble, rows):
            continue
        known = listed(map(repr, ensemble.categories[feature].values()), quote=False)
        warnings.warn(
            f"no value of column {ensemble.feature_name(feature)} is a category that the model "
            f"knows ({known}); all are treated as unknown: check how the column is coded",
            stacklevel=_level_of_caller(),
        )


def _level_of_caller() -> int:
    """The `stacklevel` by which a warning of the calling function names the caller of carvegbm."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _package_of(frame) == "carvegbm":
        level, frame = level + 1, frame.f_back
    return level


def _package_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def _without_known(ensemble: Ensemble, rows: npt.NDArray[Any]) -> list[int]:
    """The categorical features of which no row has a known category, but some an unknown one."""
    states = in_states(ensemble, rows)
    is_unknown = np.isnan if ensemble.unknown_category == "missing" else np.signbit
    found = []
    for feature in ensemble.categories:
        column = states[:, feature]
        if not (column >= 0).any() and is_unknown(column).any():
            found.append(feature)
    return found


def warn_if_unscaled(ensemble: Ensemble, limits: Limits, rows: Any) -> None:
    """Warn if columns differ in their ranges by orders of magnitude, so that one budget misfits.

    Compares the numerical columns that the model tests (all, if it has no splits) and the attacker
    may change: the widest one with the narrowest, of many columns with the lowest decile.
    """
    features = np.unique(ensemble.nodes["feature"][ensemble.nodes["feature"] >= 0])
    if len(features) == 0:
        features = np.arange(ensemble.n_features)
    if len(limits.changeable):
        features = features[limits.changeable[features] != 0]
    left_out = [*ensemble.categories, *(feature for group in limits.one_hot for feature in group)]
    features = np.setdiff1d(features, left_out)
    if rows.shape[0] < _ROWS or len(features) < 2:
        return
    with np.errstate(over="ignore"):
        ranges = _ranges(rows)[features]
    order = [place for place in np.argsort(ranges) if ranges[place] > 0]  # neither 0 nor NaN
    if len(order) < 2:
        return
    narrow, wide = order[(len(order) - 1) // 10], order[-1]
    if ranges[wide] > _UNSCALED and ranges[wide] >= _FACTOR * ranges[narrow]:
        spans = [
            f"{ensemble.feature_name(int(features[place]))} spans about {ranges[place]:.0e}"
            for place in (wide, narrow)
        ]
        warnings.warn(
            f"one budget for all columns, but {spans[0]} and {spans[1]}; give scale= (--scale), "
            "or scale the data",
            stacklevel=_level_of_caller(),
        )


def _ranges(rows: Any) -> npt.NDArray[np.float64]:
    """The largest number less the smallest one of each column, NaN if all are missing."""
    if is_sparse(rows):
        low = np.zeros(rows.shape[1])
        high = low.copy()
        np.fmin.at(low, rows.indices, rows.data)
        np.fmax.at(high, rows.indices, rows.data)
    else:
        low, high = np.fmin.reduce(rows), np.fmax.reduce(rows)
    return np.asarray(high - low, dtype=np.float64)
