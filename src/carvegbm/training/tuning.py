"""Choose parameters on held-out validation data.

Candidates are fitted one after the other, each with all threads; Ctrl-C keeps the best finished
one. For cross-validation, random candidates or candidates in parallel, use scikit-learn's searches
on the estimators, with their `robust_score` as `scoring`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, train_test_split

from carvegbm.errors import CarveError, DataError
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.params import AUTO
from carvegbm.training.report import TrainingReport, Trial
from carvegbm.training.validation import check_data

__all__ = ["CERTIFIED_LEAVES", "LEAVES", "ROBUST_LEAVES", "Tuning", "tune"]

LEAVES = (16, 32, 64, 128, 256)
"""Default grid of `num_leaves`, as in the paper."""

CERTIFIED_LEAVES = (8, 16, 32)
"""Larger trees did worse for norms 0 and 1 on image data, and about as well for norm inf."""

ROBUST_LEAVES = (8, 16, 32, 64)


@dataclass(frozen=True)
class Tuning(TrainingReport):
    """Every candidate of a search, and the fitted estimator of the chosen one.

    Attributes
    ----------
    estimator : LargeSpreadClassifier or RobustClassifier
    criterion : {"accuracy", "robustness"}
    interrupted : bool
        Whether Ctrl-C ended the search; the estimator is then the best of the finished candidates.
    """

    estimator: Any = field(kw_only=True, repr=False)
    criterion: str = field(kw_only=True)
    interrupted: bool = field(default=False, kw_only=True)

    @property
    def plain(self) -> Trial | None:
        """The plain model that the chosen candidate was compared with, if there is one."""
        report = getattr(self.estimator, "training_report_", None)
        return None if report is None else report.plain

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values, without the models."""
        return {"criterion": self.criterion, **super().to_dict()}


def tune(
    X: Any,
    y: Any,
    *,
    valid: tuple[Any, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: Literal["accuracy", "robustness"] | None = None,
    certified: bool = False,
    robust: bool = False,
    n_estimators: int | None = None,
    early_stopping_rounds: int | Literal["auto"] | None = "auto",
    random_state: int = 0,
    on_trial: Callable[[Trial], object] | None = None,
    feature_names: Sequence[str] | None = None,
    categorical_feature: Any = AUTO,
    **parameters: Any,
) -> Tuning:
    """Choose parameters of a `LargeSpreadClassifier` or `RobustClassifier` on validation data.

    Parameters
    ----------
    X, y
        Training data.
    valid : (X, y), optional
        Validation data; by default a stratified fifth of the training data is split off. Every
        candidate gets it as its `eval_set`.
    grid : mapping from parameter to values, optional
        Every combination is a candidate. Default: ``{"num_leaves": (16, 32, 64, 128, 256)}``, as in
        the paper; ``(8, 16, 32)`` with `certified` and ``(8, 16, 32, 64)`` with `robust`.
    criterion : {"accuracy", "robustness"}, optional
        What to maximise on the validation data. Default: proven robustness with `robust` and
        `certified`, else accuracy.
    certified, robust : bool
        `LargeSpreadClassifier(certified=True)`, or `RobustClassifier`.
    n_estimators, early_stopping_rounds
        By default at most 500 rounds, and early stopping after 50 without a better value; with
        `robust` the classifier's own default, and no early stopping.
    on_trial : callable, optional
        Called with the `Trial` of every finished candidate.
    random_state, feature_names, categorical_feature, **parameters
        As for the classifier and its `fit`; `n_jobs` is the number of threads of every fit.

    Returns
    -------
    Tuning
        After Ctrl-C, of the candidates finished so far, if there are any.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> result = tune(minmax_scale(X), y, budget=0.01, grid={"num_leaves": [4, 8]}, n_estimators=20)
    >>> [trial.parameters for trial in result.trials]
    [{'num_leaves': 4}, {'num_leaves': 8}]
    """
    if certified and robust:
        raise CarveError("certified and robust exclude each other; give one of them")
    if criterion is None:
        criterion = "robustness" if certified or robust else "accuracy"
    if criterion not in ("accuracy", "robustness"):
        raise CarveError(f"criterion must be accuracy or robustness, got {criterion!r}")
    if valid is not None and (not isinstance(valid, tuple | list) or len(valid) != 2):
        raise DataError(f"valid must be a pair (X, y), got {valid!r}")
    if not robust:
        n_estimators = 500 if n_estimators is None else n_estimators
        parameters["certified"] = certified
    if early_stopping_rounds == "auto":
        early_stopping_rounds = None if robust else 50
    leaves = ROBUST_LEAVES if robust else CERTIFIED_LEAVES if certified else LEAVES
    grid = {"num_leaves": leaves} if grid is None else grid
    kind: Any = RobustClassifier if robust else LargeSpreadClassifier
    estimator = kind(n_estimators=n_estimators, random_state=random_state, **parameters)
    try:
        candidates = list(ParameterGrid(grid))
    except (TypeError, ValueError) as error:
        raise CarveError(f"grid: {error}") from None
    check_data(estimator, X, y, reset=True)
    if valid is None:
        try:
            X, X_valid, y, y_valid = train_test_split(
                X, y, test_size=0.2, stratify=y, random_state=random_state
            )
        except ValueError as error:
            raise DataError(f"cannot split off validation data: {error}") from None
        valid = X_valid, y_valid
    trials: list[Trial] = []
    best, best_rank, interrupted = None, (-1.0, -1.0, 0), False
    try:
        for candidate in candidates:
            started = time.monotonic()
            fitted = (
                clone(estimator)
                .set_params(**candidate)
                .fit(
                    X,
                    y,
                    eval_set=[valid],
                    early_stopping_rounds=early_stopping_rounds,
                    feature_names=feature_names,
                    categorical_feature=categorical_feature,
                )
            )
            if fitted.stopped_because_ == "interrupted":
                raise KeyboardInterrupt
            found, ensemble = fitted.verify(*valid), fitted.ensemble_
            measures = {"accuracy": found.accuracy, "robustness": float(found.robustness[0])}
            trial = Trial(
                parameters=candidate,
                measures=measures,
                trees=ensemble.n_trees,
                leaves=ensemble.n_leaves,
                seconds=round(time.monotonic() - started, 3),
            )
            trials.append(trial)
            # Of equal candidates, the better by the other measure, then the smaller is chosen.
            rank = measures[criterion], sum(measures.values()), -ensemble.n_leaves
            if best is None or rank > best_rank:
                best, best_rank, chosen = fitted, rank, trial
            if on_trial is not None:
                on_trial(trial)
    except KeyboardInterrupt:
        if best is None:
            raise
        interrupted = True
    return Tuning(
        trials,
        chosen,
        f"the largest {criterion} on validation data, {chosen.measures[criterion]:.4f}, of "
        f"{len(trials)} trials",
        estimator=best,
        criterion=criterion,
        interrupted=interrupted,
    )
