"""Robust refit: new leaf scores for an existing model, proven to be no worse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.data.rows import check_threads
from carvegbm.errors import CarveError, DataError
from carvegbm.model.ensemble import Ensemble
from carvegbm.progress import Progress
from carvegbm.readers import load
from carvegbm.readers.common import Classes
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import prove, worst_errors
from carvegbm.training.leaf_refit import LeafRefit, RefitSettings, refit_leaves
from carvegbm.training.params import check_number
from carvegbm.training.score_writer import (
    objective_name,
    open_model,
    round_scores,
    write_scores,
)
from carvegbm.training.validation import check_targets, check_weight, evaluation_pairs, seed_from

__all__ = ["prove_refit", "robust_refit"]

Floats = npt.NDArray[np.float64]

_SQUARED_ERROR = (
    "",  # not known
    *("regression", "regression_l2", "l2", "mean_squared_error", "mse", "root_mean_squared_error"),
    *("rmse", "l2_root"),  # LightGBM
    *("reg:squarederror", "reg:linear"),  # XGBoost
    *("squared_error", "friedman_mse", "ls"),  # scikit-learn
)


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

    The scores minimise the logistic loss of worst margins on the training data; for regression the
    squared error at the worse end of what the attacker can make of the output. Every fifth step is
    evaluated on the validation data. The best scores are verified, and returned only if they are
    proven to be no worse than those of the unchanged model. The trees, and with them the spread,
    stay as they are.

    If the model is not large-spread, the refit uses a bound on worst margins (norm inf: what each
    tree can do on its own) or witnesses (other norms).

    Parameters
    ----------
    model
        Whatever `carvegbm.load` takes.
    X, y
        Training data.
    attacker : Attacker
    eval_set : (X, y), optional
        Validation data; by default a stratified fifth of the training data is split off.
    sample_weight : array, optional
    classes : sequence, optional
        The labels in the order of the model's outputs, as for `carvegbm.load`.
    steps, learning_rate, l2
        Of Adam. A regression's learning_rate is in units of the standard deviation of y.
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
        A LightGBM model comes back as a LightGBM Booster; an XGBoost Booster or JSON file as an
        XGBoost Booster, an XGBoost estimator as one of its kind; an estimator of carvegbm as one,
        verified against this attacker from then on; any other model as an Ensemble. What was
        passed in is not changed.

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
    ensemble = load(model, classes=classes)
    settings = RefitSettings(
        steps=check_number("steps", steps, 1, whole=True),
        rate=check_number("learning_rate", learning_rate, 0, is_open=True),
        l2=check_number("l2", l2, 0) / max(1, ensemble.n_trees),
        seed=seed_from(random_state) or 0,
        floor=check_number("accuracy_floor", accuracy_floor, 0, 1, optional=True),
        threads=check_threads(threads),
        progress=progress,
    )
    seconds = check_number("timeout", timeout, 0, is_open=True)
    model = open_model(model)
    if ensemble.task == "regression":
        if (objective := objective_name(model)) not in _SQUARED_ERROR:
            raise CarveError(
                "a robust refit of a regression minimises the squared error, and the model has the "
                f"objective {objective!r}; train it with squared error"
            )
        if settings.floor is not None:
            raise CarveError("accuracy_floor is for classes; the model is a regression")
    train, valid = _data(ensemble, attacker, (X, y, sample_weight), eval_set, settings.seed)
    refit = prove_refit(
        ensemble,
        attacker,
        train,
        valid,
        settings,
        stored=partial(round_scores, model),
        timeout=seconds,
    )
    if refit.interrupted:
        raise KeyboardInterrupt
    refitted = write_scores(model, ensemble, refit.scores, valid.X)
    if hasattr(refitted, "attacker_"):
        refitted._set_attacker(attacker)
    return refitted


def prove_refit(
    ensemble: Ensemble,
    attacker: Attacker,
    train: Dataset,
    valid: Dataset,
    settings: RefitSettings,
    *,
    start: Mapping[str, float] | None = None,
    stored: Callable[[Floats], Floats] = np.asarray,
    timeout: float = 10.0,
) -> LeafRefit:
    """Refit the leaves; keep the old scores unless the new ones are proven to be no worse.

    `proven` of the result is what is proven of new scores on the validation rows: accuracy and
    robustness, or for regression the mean worst squared error; None if the old ones are kept.

    Parameters
    ----------
    start : mapping, optional
        What is proven of the ensemble, if that is known.
    stored : callable
        Rounds scores to what the model's format holds.
    timeout : float
        Seconds per row of a proof.
    """

    def measure(trial: Ensemble) -> Mapping[str, float]:
        options: dict[str, Any] = {"threads": settings.threads or None, "timeout": timeout}
        if trial.task == "regression":
            errors = worst_errors(trial, valid.X, valid.y, attacker, **options)
            return {"worst_squared_error": float(errors.mean())}
        found = prove(trial, valid, attacker, **options)
        return {"accuracy": found.accuracy, "robustness": float(found.robustness[0])}

    start = measure(ensemble) if start is None else start
    refit = refit_leaves(ensemble, attacker, train, valid, settings)
    if refit.best is not None and refit.best.step > 0:
        scores = stored(refit.scores)
        end = measure(ensemble.with_scores(scores))
        is_better = (
            end["worst_squared_error"] < start["worst_squared_error"]
            if ensemble.task == "regression"
            else end["robustness"] >= start["robustness"]
        )
        if is_better:
            return replace(refit, scores=scores, proven=end)
    return replace(refit, scores=ensemble.scores)


def _data(
    ensemble: Ensemble,
    attacker: Attacker,
    given: tuple[npt.ArrayLike, npt.ArrayLike, npt.ArrayLike | None],
    eval_set: Any,
    seed: int,
) -> tuple[Dataset, Dataset]:
    """Return the validated training and validation rows; `given` are rows, labels and weights."""
    if attacker.limits(ensemble).by_row:
        raise CarveError(
            "bounds with a row per instance fit the instances they were made for alone; refit with "
            "bounds for all rows"
        )

    def checked(X: npt.ArrayLike, y: npt.ArrayLike, weight: Any = None) -> Dataset:
        rows = ensemble.check_data(X)
        attacker.limits(ensemble).check_rows(ensemble, rows)
        if ensemble.task != "regression":
            labels: npt.NDArray[Any] = ensemble.check_labels(y, len(rows))
        elif (labels := check_targets(y)).shape != (len(rows),):
            raise DataError(
                f"y must have one number per row ({len(rows)}), got shape {labels.shape}"
            )
        return Dataset(rows, labels, check_weight(weight, len(rows)))

    train = checked(*given)
    pairs = evaluation_pairs(eval_set)
    if len(pairs) > 1:
        raise DataError(f"eval_set must be one pair (X, y), got {len(pairs)}")
    if pairs:
        return train, checked(*pairs[0])
    train, valid = train.split(seed, stratify=ensemble.task != "regression")
    return train, replace(valid, weight=None)
