"""What a user may say about robust training, checked; and what holds where nothing is said.

Comes in: values as they were given. Goes out: `RobustSettings`, or one line that names the value
and says what it may be.
"""

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
    "ROUNDS_OF_MANY_CLASSES",
    "WITNESS_DEFAULTS",
    "WITNESS_ROUNDS_OF_MANY_CLASSES",
    "RobustSettings",
    "check_learning",
]

AUTO = "auto"
"""Stands for a value that `fit` chooses, where None is a value of its own."""

LEARNING_DEFAULTS: Mapping[str, Any] = {
    "n_estimators": 120,
    "num_leaves": 32,
    "learning_rate": 0.15,
    "min_child_samples": 10,
    "reg_lambda": 1.0,
}
"""Of robust training against norm inf, where a parameter is None."""

WITNESS_DEFAULTS: Mapping[str, Any] = {
    **LEARNING_DEFAULTS,
    "n_estimators": 360,
    "num_leaves": 8,
    "learning_rate": 0.1,
}
"""The same against norms 0, 1, 2, …: more and smaller steps cost such an attacker more."""

ROUNDS_OF_MANY_CLASSES = 24
"""In place of 120, for more than two classes: a round is a tree per class there."""

WITNESS_ROUNDS_OF_MANY_CLASSES = 60
"""In place of 360."""

_MOST_THRESHOLDS = 255  # the core codes rows in bytes

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
    """What robust training is told beside LightGBM's parameters; None: it chooses for itself.

    Attributes
    ----------
    colsample_bynode : float or None
        Share of the features that every split chooses from.
    max_bin : int or None
        Largest number of candidate thresholds per feature.
    n_members : int or None
        Models that differ in their seed alone, and whose average is the model.
    leaf_l2 : tuple of float, or None
        Values of the L2 penalty on leaf scores to try.
    max_crowding : tuple of float or None, or None
        Largest crowding of a candidate threshold, to be tried in turn: a None among them leaves
        none out.
    clean_loss : float or None
        Accuracy that may be given up for robustness; None: all of it.
    early_stopping_rounds : int or None
        Rounds without a better validation loss after which no more trees are grown; None: all
        rounds are grown.
    least_rows_given : bool
        Whether a user has said how many rows a leaf must have.
    split_off : bool
        Whether the validation rows were split off from the user's training rows: then they may
        serve for training, too, once the choice is made.
    """

    colsample_bynode: float | None = None
    max_bin: int | None = None
    n_members: int | None = None
    leaf_l2: tuple[float, ...] | None = None
    max_crowding: tuple[float | None, ...] | None = None
    clean_loss: float | None = None
    early_stopping_rounds: int | None = None
    least_rows_given: bool = False
    split_off: bool = False

    @classmethod
    def of(cls, given: Mapping[str, Any], norm: float) -> RobustSettings:
        """The settings among an estimator's parameters, each checked.

        Examples
        --------
        >>> of = {"colsample_bynode": None, "max_bin": 16, "n_members": None, "leaf_l2": 0.001}
        >>> of |= {"max_crowding": "auto", "clean_loss": "auto"}
        >>> RobustSettings.of(of, norm=2.0).leaf_l2
        (0.001,)
        """
        share, bins, members = (given[n] for n in ("colsample_bynode", "max_bin", "n_members"))
        if share is not None:
            _check_range("colsample_bynode", share, (0, 1, False))
        if bins is not None and whole_number("max_bin", bins) > _MOST_THRESHOLDS:
            raise CarveError(f"max_bin must be at most {_MOST_THRESHOLDS}, got {bins!r}")
        max_crowding, clean_loss = given["max_crowding"], given["clean_loss"]
        return cls(
            colsample_bynode=None if share is None else float(share),
            max_bin=None if bins is None else int(bins),
            n_members=None if members is None else whole_number("n_members", members),
            leaf_l2=_leaf_l2s(given["leaf_l2"]),
            max_crowding=None if _is_auto(max_crowding) else check_max_crowding(max_crowding, norm),
            clean_loss=None if _is_auto(clean_loss) else check_clean_loss(clean_loss),
        )


def check_learning(given: Mapping[str, Any]) -> None:
    """Refuse values that the grower cannot work with; what LightGBM checks is not looked at."""
    for name, limits in _RANGES.items():
        _check_range(name, given[name], limits)
    depth = given["max_depth"]
    if not isinstance(depth, int | np.integer) or isinstance(depth, bool):
        raise CarveError(f"max_depth must be a whole number, got {depth!r}; -1 sets no limit")
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
        raise CarveError(f"{name} must be a number >= {least:g}, got {value!r}")
    raise CarveError(f"{name} must be a share in {'[' if included else '('}0, 1], got {value!r}")
