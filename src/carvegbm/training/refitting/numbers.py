"""Robust refit of a regression: new leaf scores whose worst errors are smaller.

Comes in: an ensemble that predicts numbers, rows with the wanted ones, an attacker. Goes out: the
ensemble with other scores, and its worst error as it is proven, before and after: the mean over
the validation rows of the squared error at the worse end of the range of outputs within reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError
from carvegbm.ranges import output_range
from carvegbm.training import inputs
from carvegbm.training.dataset import Dataset
from carvegbm.training.refitting.descent import Defence, Descent, DescentSettings, descend

__all__ = [
    "NumbersRefit",
    "as_they_are",
    "refit_numbers",
    "require_squared_error",
    "wanted_numbers",
    "worst_errors",
]

Floats = npt.NDArray[np.float64]

_SQUARED_ERROR = (
    "",  # not known
    *("regression", "regression_l2", "l2", "mean_squared_error", "mse", "root_mean_squared_error"),
    *("rmse", "l2_root"),  # LightGBM
    *("reg:squarederror", "reg:linear"),  # XGBoost
    *("squared_error", "friedman_mse", "ls"),  # scikit-learn
)


@dataclass(frozen=True)
class NumbersRefit:
    """An ensemble with new scores, or the one it started from where none was better."""

    ensemble: Ensemble
    start: float
    """The mean worst squared error on the validation rows that is proven before."""
    end: float
    """And after."""
    descent: Descent

    @property
    def changed(self) -> bool:
        """Whether other scores than the first were better."""
        return self.end < self.start


def as_they_are(scores: Floats) -> Floats:
    """The scores themselves: what a format holds that holds all doubles."""
    return scores


def refit_numbers(
    ensemble: Ensemble,
    defence: Defence,
    settings: DescentSettings = DescentSettings(),  # noqa: B008
    *,
    held: Callable[[Floats], Floats] = as_they_are,
    timeout: float = 10.0,
) -> NumbersRefit:
    """Descend, and prove that the outcome is no worse than the start on the validation rows.

    `held` rounds scores to what the model's format holds: these are proven, and no others, in at
    most `timeout` seconds per row; where time runs out, a bound on the range counts.
    """
    valid = defence.valid
    if valid is None:
        raise CarveError("a refit is proven on validation rows; give some, or descend alone")

    def prove(trial: Ensemble) -> float:
        threads = settings.threads or None
        errors = worst_errors(trial, valid, defence.attacker, timeout=timeout, threads=threads)
        return float(errors.mean())

    start = prove(ensemble)
    descent = descend(ensemble, defence, settings)
    if descent.best is not None and descent.best.step > 0:
        better = ensemble.with_scores(held(descent.scores))
        end = prove(better)
        if end < start:
            return NumbersRefit(better, start, end, descent)
    return NumbersRefit(ensemble, start, start, descent)


def worst_errors(
    model: Any,
    rows: Dataset,
    attacker: Attacker,
    *,
    timeout: float = 10.0,
    threads: int | None = None,
) -> Floats:
    """Per row, the squared error at the worse end of the outputs within reach, or a bound on it.

    max((highest - y)^2, (y - lowest)^2), with outer bounds where an end is not known.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, task="regression")
    >>> rows = Dataset(np.array([[0.45], [0.9]]), np.array([-1.0, 2.0]))
    >>> worst_errors(model, rows, cg.Attacker("inf", 0.1)).tolist()
    [4.0, 1.0]
    """
    found = output_range(model, rows.X, attacker, timeout=timeout, threads=threads, progress=False)
    above = found.highest_upper - rows.y
    below = rows.y - found.lowest_lower
    return np.asarray(np.maximum(above, below) ** 2)


def require_squared_error(objective: str) -> None:
    """Refuse a model that was trained for something else than its squared error."""
    if objective not in _SQUARED_ERROR:
        raise CarveError(
            "a robust refit of a regression minimises the squared error, and the model has the "
            f"objective {objective!r}; train it with squared error"
        )


def wanted_numbers(y: npt.ArrayLike, rows: int) -> Floats:
    """The numbers to predict, one per row."""
    numbers = inputs.check_targets(y)
    if numbers.shape != (rows,):
        raise DataError(f"y must have one number per row ({rows}), got shape {numbers.shape}")
    return numbers
