"""Robust refit: new leaf scores for a model, trees unchanged.

Comes in: a model, data, an attacker. Goes out: a model of the same kind with the same trees, whose
proven robustness on validation data is no less; for a regression, whose proven worst error is no
larger.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker, require_attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError
from carvegbm.instances.rows import check_threads
from carvegbm.progress import Progress
from carvegbm.readers import load
from carvegbm.readers.checks import Classes
from carvegbm.totals import VerificationTotals
from carvegbm.training import inputs
from carvegbm.training.data import Labelled
from carvegbm.training.evaluation import proven
from carvegbm.training.refitting.descent import Defence, Descent, DescentSettings, descend
from carvegbm.training.refitting.numbers import (
    as_they_are,
    refit_numbers,
    require_squared_error,
    wanted_numbers,
)
from carvegbm.training.refitting.rewriting import rewriter

__all__ = ["Refit", "refit_ensemble", "robust_refit"]

Floats = npt.NDArray[np.float64]


def robust_refit(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    eval_set: Any = None,
    sample_weight: npt.ArrayLike | None = None,
    classes: Classes = None,
    steps: int = 120,
    learning_rate: float = 0.01,
    l2: float = 0.1,
    accuracy_floor: float | None = None,
    timeout: float = 1.0,
    random_state: int = 0,
    threads: int | None = None,
    progress: Progress = None,
) -> Any:
    """Change the leaf scores of a model so that it is more robust.

    The trees stay as they are: so does the spread. The scores minimise the logistic loss of worst
    margins on the training data, of a regression the squared error at the worse end of what the
    attacker can make of the output. Every fifth step is judged on the validation data, and the
    scores (averaged over the steps before) that do best there are kept. They are verified, and
    come back only if they are proven to be no worse than those of the unchanged model.

    Any model will do. Where it is not large-spread, the descent goes by a bound on worst margins,
    what each tree can do on its own (norm inf), or by witnesses that are looked for on the way
    (other norms).

    Parameters
    ----------
    model
        Whatever `carvegbm.load` takes.
    X, y
        Training data.
    attacker : Attacker
    eval_set : (X, y), optional
        Validation data; by default a fifth of the training data is split off, by class.
    sample_weight : array, optional
    classes : sequence, optional
        The labels in the order of the model's outputs, as for `carvegbm.load`.
    steps, learning_rate, l2
        Of the descent. A regression's learning_rate is in units of the standard deviation of y.
    accuracy_floor : float, optional
        Steps with a smaller accuracy on the validation data are taken only if none reaches it.
    timeout : float, default 1
        Seconds per row of the validation data for its proof; a row that is not decided counts as
        not robust.
    random_state : int
        Seed of the split and of the order of rows.
    threads, progress
        As for `carvegbm.verify`.

    Returns
    -------
    Booster, estimator or Ensemble
        A LightGBM model comes back as a LightGBM Booster; an XGBoost Booster, estimator or JSON
        file as an XGBoost Booster; an estimator of carvegbm's as one; any other model, XGBoost's
        UBJSON among them, as an Ensemble. What was passed in is not changed. An estimator of
        carvegbm's is verified against the attacker it was refitted for from then on.

    Examples
    --------
    >>> import carvegbm as cg
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X, attacker = minmax_scale(X), cg.Attacker("inf", 0.02)
    >>> model = cg.LargeSpreadClassifier(norm="inf", budget=0.02, random_state=0)
    >>> model = model.fit(X[:300], y[:300])
    >>> better = robust_refit(model, X[:300], y[:300], attacker, eval_set=(X[300:400], y[300:400]))
    >>> better.robust_score(X[300:400], y[300:400]) >= model.robust_score(X[300:400], y[300:400])
    True
    """
    require_attacker(attacker)
    given = load(model, classes=classes)
    settings = DescentSettings(
        steps=_steps(steps),
        rate=_number("learning_rate", learning_rate, above=0),
        l2=_number("l2", l2),
        seed=inputs.seed_from(random_state) or 0,
        floor=None if accuracy_floor is None else _number("accuracy_floor", accuracy_floor, most=1),
        threads=check_threads(threads),
        progress=progress,
    )
    seconds = _number("timeout", timeout, above=0)
    write = rewriter(model, given)
    if given.task == "regression":
        require_squared_error(write.objective)
        if settings.floor is not None:
            raise CarveError("accuracy_floor is for classes; the model is a regression")
    train, valid = _data(given, attacker, (X, y, sample_weight), eval_set, settings.seed)
    defence = Defence(attacker, train, valid)
    refit = refit_numbers if given.task == "regression" else refit_ensemble
    result = refit(given, defence, settings, held=write.held, timeout=seconds)
    if result.descent.interrupted:
        raise KeyboardInterrupt
    refitted = write.write(result.ensemble.scores, valid.X)
    if hasattr(refitted, "attacker_"):
        refitted._set_attacker(attacker)
    return refitted


@dataclass(frozen=True)
class Refit:
    """An ensemble with new scores, or the one it started from where none was better."""

    ensemble: Ensemble
    start: VerificationTotals
    """What is proven of the validation data before."""
    end: VerificationTotals
    """And after."""
    descent: Descent

    @property
    def changed(self) -> bool:
        """Whether other scores than the first were better."""
        return self.end is not self.start


def refit_ensemble(
    ensemble: Ensemble,
    defence: Defence,
    settings: DescentSettings = DescentSettings(),  # noqa: B008
    *,
    start: VerificationTotals | None = None,
    held: Callable[[Floats], Floats] = as_they_are,
    timeout: float = 10.0,
) -> Refit:
    """Descend, and prove that the outcome is no worse than the start on the validation rows.

    `start` is what is proven before, where it is known. `held` rounds scores to what the model's
    format holds: these are proven, and no others, in at most `timeout` seconds per row.
    """
    valid, threads = defence.valid, settings.threads or None
    if valid is None:
        raise CarveError("a refit is proven on validation rows; give some, or descend alone")

    def prove(trial: Ensemble) -> VerificationTotals:
        return proven(trial, valid, defence.attacker, threads, timeout=timeout)

    if start is None:
        start = prove(ensemble)
    descent = descend(ensemble, defence, settings)
    if descent.best is not None and descent.best.step > 0:
        better = ensemble.with_scores(held(descent.scores))
        end = prove(better)
        if end.robustness[0] >= start.robustness[0]:
            return Refit(better, start, end, descent)
    return Refit(ensemble, start, start, descent)


def _data(
    ensemble: Ensemble,
    attacker: Attacker,
    given: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike | None],
    eval_set: Any,
    seed: int,
) -> tuple[Labelled, Labelled]:
    """Training and validation rows, checked; `given` are rows, labels and weights."""
    if attacker.limits(ensemble).by_row:
        raise CarveError(
            "bounds with a row per instance fit the instances they were made for alone; refit with "
            "bounds for all rows"
        )

    def checked(X: npt.ArrayLike, y: npt.ArrayLike, weight: Any = None) -> Labelled:
        rows = ensemble.check_data(X)
        attacker.check_instances(ensemble, rows)
        inputs.require_labels(y)
        labels: npt.NDArray[Any]
        if ensemble.task == "regression":
            labels = wanted_numbers(y, len(rows))
        else:
            labels = ensemble.check_labels(y, len(rows))
        return Labelled(rows, labels, inputs.check_weight(weight, len(rows)))

    train = checked(*given)
    pairs = inputs.evaluation_pairs(eval_set)
    if len(pairs) > 1:
        raise DataError(f"eval_set must be one pair (X, y), got {len(pairs)}")
    if pairs:
        return train, checked(*pairs[0])
    train, valid = train.split_off(seed, stratify=ensemble.task != "regression")
    return train, replace(valid, weight=None)  # rows to judge by count alike


def _steps(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise CarveError(f"steps must be a whole number >= 1, got {value!r}")
    return int(value)


def _number(
    name: str, value: Any, above: float | None = None, most: float = sys.float_info.max
) -> float:
    """A number from 0, or from above `above`, to `most`."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not (0 <= number <= most) or (above is not None and number <= above):
        limit = "from 0 to 1" if most == 1 else ">= 0" if above is None else f"> {above:g}"
        raise CarveError(f"{name} must be a number {limit}, got {value!r}")
    return number
