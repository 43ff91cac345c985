"""Parameters of robust training beside LightGBM's: defaults and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite
from numbers import Real
from typing import Any

import numpy as np

from carvegbm.errors import CarveError
from carvegbm.training.inputs import whole_number
from carvegbm.training.parameters import check_clean_loss, check_max_crowding

__all__ = [
    "AUTO",
    "LEARNING_DEFAULTS",
    "MULTICLASS_ROUNDS",
    "SMALL_TREES",
    "RobustSettings",
    "check_learning",
]

AUTO = "auto"
"""Value of parameters that `fit` chooses, where None has a meaning of its own."""

LEARNING_DEFAULTS: Mapping[str, Any] = {
    "n_estimators": 120,
    "num_leaves": 32,
    "learning_rate": 0.15,
    "min_child_samples": 10,
    "reg_lambda": 1.0,
}
"""Values of parameters that are None."""

SMALL_TREES: Mapping[str, Any] = {"num_leaves": 8, "learning_rate": 0.1}
"""In place of these, with three times the rounds, where trees are grown at witnesses."""

MULTICLASS_ROUNDS = 24
"""Default number of rounds for more than two classes, where a round is a tree per class."""

_MAX_BIN = 127  # a byte distinguishes the two ends of the attacker's reach at every threshold
_MAX_LEAVES = 256

# The smallest and the largest value, and whether the smallest itself is allowed.
_RANGES: Mapping[str, tuple[float, float, bool]] = {
    "min_child_weight": (0, inf, True),
    "min_split_gain": (0, inf, True),
    "subsample": (0, 1, False),
    "colsample_bytree": (0, 1, False),
    "reg_alpha": (0, inf, True),
    "reg_lambda": (0, inf, True),
}


@dataclass(frozen=True)
class RobustSettings:
    """Parameters of robust training beside LightGBM's; None: chosen by training.

    Attributes
    ----------
    colsample_bynode : float or None
        Share of the features that every split chooses from.
    max_bin : int or None
        Maximum number of thresholds per feature.
    n_members : int or None
        Number of models whose average is the model; they differ in their seed.
    leaf_l2 : tuple of float, or None
        L2 strengths of the refit of all leaf scores.
    max_crowding : tuple of float or None, or None
        Largest crowding of a threshold, see `binning.crowding`; None leaves out no threshold.
    min_child_samples : int or None
    clean_loss : float or None
        Accuracy that may be given up for robustness; None: any.
    time_limit : float or None
        Seconds.
    """

    colsample_bynode: float | None = None
    max_bin: int | None = None
    n_members: int | None = None
    leaf_l2: tuple[float, ...] | None = None
    max_crowding: tuple[float | None, ...] | None = None
    min_child_samples: int | None = None
    clean_loss: float | None = None
    time_limit: float | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], norm: float) -> RobustSettings:
        """Check the settings among an estimator's parameters.

        Examples
        --------
        >>> of = dict.fromkeys(RobustSettings.__dataclass_fields__)
        >>> of |= {"max_crowding": "auto", "clean_loss": "auto", "leaf_l2": 0.001}
        >>> RobustSettings.of(of, norm=2.0).leaf_l2
        (0.001,)
        """
        share, bins, members = (given[n] for n in ("colsample_bynode", "max_bin", "n_members"))
        if share is not None:
            _check_range("colsample_bynode", share, (0, 1, False))
        if bins is not None and whole_number("max_bin", bins) > _MAX_BIN:
            raise CarveError(f"max_bin must be at most {_MAX_BIN}, got {bins!r}")
        if given["time_limit"] is not None:
            _check_range("time_limit", given["time_limit"], (0, inf, False))
        max_crowding, clean_loss = given["max_crowding"], given["clean_loss"]
        return cls(
            colsample_bynode=None if share is None else float(share),
            max_bin=None if bins is None else int(bins),
            n_members=None if members is None else whole_number("n_members", members),
            leaf_l2=_leaf_l2s(given["leaf_l2"]),
            max_crowding=None if _is_auto(max_crowding) else check_max_crowding(max_crowding, norm),
            min_child_samples=given["min_child_samples"],
            clean_loss=None if _is_auto(clean_loss) else check_clean_loss(clean_loss),
            time_limit=given["time_limit"],
        )


def check_learning(given: Mapping[str, Any]) -> None:
    """Refuse values that the grower cannot work with; what LightGBM checks is not looked at."""
    for name, limits in _RANGES.items():
        _check_range(name, given[name], limits)
    depth = given["max_depth"]
    if not isinstance(depth, int | np.integer) or isinstance(depth, bool):
        raise CarveError(f"max_depth must be a whole number, got {depth!r}; -1 sets no limit")
    leaves = given["num_leaves"]
    if isinstance(leaves, int | np.integer) and leaves > _MAX_LEAVES:
        raise CarveError(f"num_leaves must be at most {_MAX_LEAVES}, got {leaves}")
    if given["subsample_freq"] not in (0, 1):
        raise CarveError(
            f"subsample_freq must be 0 or 1, got {given['subsample_freq']!r}: rows are drawn for "
            "every round anew, or not at all"
        )


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == AUTO


def _leaf_l2s(given: Any) -> tuple[float, ...] | None:
    """Values of leaf_l2 to try: one, or several in a sequence."""
    if given is None:
        return None
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values = tuple(given) if several else (given,)
    if not values:
        raise CarveError("leaf_l2 must hold at least one number; 0 is no penalty")
    for value in values:
        _check_range("leaf_l2", value, (0, inf, True))
    return tuple(dict.fromkeys(float(value) for value in values))


def _check_range(name: str, value: Any, limits: tuple[float, float, bool]) -> None:
    least, most, included = limits
    is_number = not isinstance(value, bool) and isinstance(value, Real) and isfinite(value)
    if is_number and value <= most and (value >= least if included else value > least):
        return
    if most == inf:
        sign = ">=" if included else ">"
        raise CarveError(f"{name} must be a number {sign} {least:g}, got {value!r}")
    raise CarveError(f"{name} must be a share in {'[' if included else '('}0, 1], got {value!r}")
