"""Robust refit: new leaf scores for an existing model, proven to be no worse."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.data.rows import check_threads
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError, DataError
from carvegbm.progress import Progress
from carvegbm.queries import output_range
from carvegbm.readers import load
from carvegbm.readers.checks import Classes
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import prove
from carvegbm.training.leaf_refit import LeafRefit, RefitProblem, RefitSettings, refit_leaves
from carvegbm.training.params import check_number
from carvegbm.training.score_writer import writer_of
from carvegbm.training.validation import check_targets, check_weight, evaluation_pairs, seed_from

__all__ = ["ProvenRefit", "prove_refit", "robust_refit", "worst_errors"]

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
    floor = None if accuracy_floor is None else _number("accuracy_floor", accuracy_floor, most=1)
    settings = RefitSettings(
        steps=check_number("steps", steps, 1, whole=True),
        rate=_number("learning_rate", learning_rate, above=0),
        l2=_number("l2", l2) / max(1, ensemble.n_trees),
        seed=seed_from(random_state) or 0,
        floor=floor,
        threads=check_threads(threads),
        progress=progress,
    )
    seconds = _number("timeout", timeout, above=0)
    writer = writer_of(model, ensemble)
    if ensemble.task == "regression":
        if writer.objective not in _SQUARED_ERROR:
            raise CarveError(
                "a robust refit of a regression minimises the squared error, and the model has the "
                f"objective {writer.objective!r}; train it with squared error"
            )
        if floor is not None:
            raise CarveError("accuracy_floor is for classes; the model is a regression")
    train, valid = _data(ensemble, attacker, (X, y, sample_weight), eval_set, settings.seed)
    problem = RefitProblem(attacker, train, valid)
    result = prove_refit(ensemble, problem, settings, stored=writer.stored, timeout=seconds)
    if result.refit.interrupted:
        raise KeyboardInterrupt
    refitted = writer.write(result.ensemble.scores, valid.X)
    if hasattr(refitted, "attacker_"):
        refitted._set_attacker(attacker)
    return refitted


@dataclass(frozen=True)
class ProvenRefit:
    """An ensemble with new scores, or the unchanged one if its scores were not proven worse.

    `start` and `end` are what is proven on the validation rows: accuracy and robustness, or for
    regression the mean worst squared error.
    """

    ensemble: Ensemble
    start: Mapping[str, float]
    end: Mapping[str, float]
    refit: LeafRefit

    @property
    def changed(self) -> bool:
        """Whether other scores than the first were better."""
        return self.end is not self.start


def prove_refit(
    ensemble: Ensemble,
    problem: RefitProblem,
    settings: RefitSettings = RefitSettings(),  # noqa: B008
    *,
    start: Mapping[str, float] | None = None,
    stored: Callable[[Floats], Floats] = np.asarray,
    timeout: float = 10.0,
) -> ProvenRefit:
    """Refit the leaves; keep the new scores if they are proven to be no worse.

    Parameters
    ----------
    start : mapping, optional
        What is proven of the ensemble, if that is known.
    stored : callable
        Rounds scores to what the model's format holds.
    timeout : float
        Seconds per row of a proof.
    """
    valid = problem.valid
    if valid is None:
        raise CarveError("a refit is proven on validation rows; give some, or call refit_leaves")

    def measure(trial: Ensemble) -> Mapping[str, float]:
        options: dict[str, Any] = {"threads": settings.threads or None, "timeout": timeout}
        if trial.task == "regression":
            errors = worst_errors(trial, valid, problem.attacker, **options)
            return {"worst_squared_error": float(errors.mean())}
        found = prove(trial, valid, problem.attacker, **options)
        return {"accuracy": found.accuracy, "robustness": float(found.robustness[0])}

    start = measure(ensemble) if start is None else start
    refit = refit_leaves(ensemble, problem, settings)
    if refit.best is not None and refit.best.step > 0:
        better = ensemble.with_scores(stored(refit.scores))
        end = measure(better)
        is_better = (
            end["worst_squared_error"] < start["worst_squared_error"]
            if ensemble.task == "regression"
            else end["robustness"] >= start["robustness"]
        )
        if is_better:
            return ProvenRefit(better, start, end, refit)
    return ProvenRefit(ensemble, start, start, refit)


def worst_errors(
    model: Any,
    rows: Dataset,
    attacker: Attacker,
    *,
    timeout: float = 10.0,
    threads: int | None = None,
) -> Floats:
    """Return max((highest - y)^2, (y - lowest)^2) per row, with outer bounds on unknown ends.

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
    return np.asarray(np.maximum(found.highest_upper - rows.y, rows.y - found.lowest_lower) ** 2)


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


def _number(
    name: str, value: Any, above: float | None = None, most: float = sys.float_info.max
) -> float:
    """Return a number from 0, or from above `above`, to `most`."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not (0 <= number <= most) or (above is not None and number <= above):
        limit = "from 0 to 1" if most == 1 else ">= 0" if above is None else f"> {above:g}"
        raise CarveError(f"{name} must be a number {limit}, got {value!r}")
    return number
