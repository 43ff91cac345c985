"""Choose parameters with scikit-learn's searches, on held-out validation data.

Candidates are fitted one after the other, each with all threads, so that Ctrl-C keeps the best
finished one and no worker process is left behind. For cross-validation, or for candidates in
parallel, use scikit-learn's searches on the estimators, with their `robust_score` as `scoring`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from carvegbm.errors import CarveError, DataError
from carvegbm.training import inputs
from carvegbm.training.columns import AUTO
from carvegbm.training.estimators import LargeSpreadClassifier, RobustClassifier
from carvegbm.training.report import TrainingReport, Trial

__all__ = ["CERTIFIED_LEAVES", "LEAVES", "ROBUST_LEAVES", "Tuning", "tune"]

LEAVES = (16, 32, 64, 128, 256)
"""The paper's grid of `num_leaves`."""

CERTIFIED_LEAVES = (8, 16, 32)
"""Larger trees did worse for norms 0 and 1 on image data, and about as well for norm inf."""

ROBUST_LEAVES = (8, 16, 32, 64)

_ROUNDS, _PATIENCE = 500, 50  # of large-spread training


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
        """The plain model that the chosen candidate was compared with, if it was."""
        report = getattr(self.estimator, "training_report_", None)
        return None if report is None else report.plain

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        return {"criterion": self.criterion, **super().to_dict()}


class _Scorer:
    """Scores fitted estimators on the validation data, and keeps the best one."""

    def __init__(
        self,
        names: Sequence[str],
        valid: tuple[Any, Any],
        criterion: str,
        on_trial: Callable[[Trial], object] | None,
    ) -> None:
        self._names, self._valid, self._criterion = names, valid, criterion
        self._on_trial = on_trial
        self._started = time.monotonic()
        self.trials: list[Trial] = []
        self.chosen: Trial | None = None
        self.estimator: Any = None

    def __call__(self, estimator: Any, _X: Any, _y: Any) -> float:
        if estimator.stopped_because_ == "interrupted":
            raise KeyboardInterrupt
        result = estimator.verify(*self._valid)
        now = time.monotonic()
        trial = Trial(
            parameters={name: getattr(estimator, name) for name in self._names},
            measures={
                "accuracy": result.accuracy,
                "robustness": float(result.robustness[0]),
            },
            trees=estimator.ensemble_.n_trees,
            leaves=estimator.ensemble_.n_leaves,
            seconds=round(now - self._started, 3),
        )
        self._started = now
        self.trials.append(trial)
        if self.chosen is None or self._rank(trial) > self._rank(self.chosen):
            self.chosen, self.estimator = trial, estimator
        if self._on_trial is not None:
            self._on_trial(trial)
        return trial.measures[self._criterion]

    def _rank(self, trial: Trial) -> tuple[float, float, int]:
        """On a tie the better of the other measure, then the smaller model."""
        measures = trial.measures
        return measures[self._criterion], sum(measures.values()), -trial.leaves


def tune(
    X: Any,
    y: Any,
    *,
    valid: tuple[Any, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: Literal["accuracy", "robustness"] | None = None,
    search: Literal["grid", "random", "halving"] = "grid",
    n_candidates: int = 20,
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
        Default: ``{"num_leaves": (16, 32, 64, 128, 256)}``, as in the paper; ``(8, 16, 32)`` with
        `certified` and ``(8, 16, 32, 64)`` with `robust`. With "random", also distributions.
    criterion : {"accuracy", "robustness"}, optional
        What to maximise on the validation data. Default: proven robustness with `robust` and
        `certified`, else accuracy.
    search : {"grid", "random", "halving"}
        scikit-learn's `GridSearchCV`, `RandomizedSearchCV` with `n_candidates`, or
        `HalvingGridSearchCV`, which fits all candidates with a few rounds and the best with more.
    n_candidates : int, default 20
        Of the random search.
    certified, robust : bool
        `LargeSpreadClassifier(certified=True)`, or `RobustClassifier`.
    n_estimators, early_stopping_rounds
        By default at most 500 rounds, and early stopping after 50 without a better value; with
        `robust` the classifier's own default, and no early stopping.
    on_trial : callable, optional
        Called with every finished candidate.
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
    parameters |= {"random_state": random_state}
    estimator: Any
    leaves: Sequence[int]
    if robust:
        estimator, leaves = RobustClassifier(n_estimators=n_estimators, **parameters), ROBUST_LEAVES
    else:
        rounds = _ROUNDS if n_estimators is None else n_estimators
        parameters |= {"n_estimators": rounds, "certified": certified}
        estimator = LargeSpreadClassifier(**parameters)
        leaves = CERTIFIED_LEAVES if certified else LEAVES
    if early_stopping_rounds == "auto":
        early_stopping_rounds = None if robust else _PATIENCE
    grid = {"num_leaves": leaves} if grid is None else grid
    inputs.check_pair(estimator, X, y, reset=True)
    if valid is None:
        from sklearn.model_selection import train_test_split

        try:
            parts = train_test_split(X, y, test_size=0.2, stratify=y, random_state=random_state)
        except ValueError as error:
            raise DataError(f"cannot split off validation data: {error}") from None
        X, X_valid, y, y_valid = parts
        valid = X_valid, y_valid
    if not isinstance(valid, tuple | list) or len(valid) != 2:
        raise DataError(f"valid must be a pair (X, y), got {valid!r}")
    names = [*grid, "n_estimators"] if search == "halving" else [*grid]
    scorer = _Scorer(names, valid, criterion, on_trial)
    found = _search(search, estimator, grid, n_candidates, scorer, len(y))
    interrupted = False
    try:
        found.fit(
            X,
            y,
            eval_set=[valid],
            early_stopping_rounds=early_stopping_rounds,
            feature_names=feature_names,
            categorical_feature=categorical_feature,
        )
    except KeyboardInterrupt:
        if scorer.chosen is None:
            raise
        interrupted = True
    assert scorer.chosen is not None
    best = scorer.chosen.measures[criterion]
    why = f"the largest {criterion} on validation data, {best:.4f}, of {len(scorer.trials)} trials"
    return Tuning(
        scorer.trials,
        scorer.chosen,
        why,
        estimator=scorer.estimator,
        criterion=criterion,
        interrupted=interrupted,
    )


def _search(
    name: str,
    estimator: Any,
    grid: Mapping[str, Any],
    n_candidates: int,
    scorer: _Scorer,
    n_rows: int,
) -> Any:
    """Return a search of scikit-learn that fits every candidate on all rows it is given."""
    from sklearn import model_selection
    from sklearn.experimental import enable_halving_search_cv  # noqa: F401

    if name not in ("grid", "random", "halving"):
        raise CarveError(f"search must be 'grid', 'random' or 'halving', got {name!r}")
    try:  # refuse a bad grid before any fit
        if name == "random":
            model_selection.ParameterSampler(grid, n_candidates)
        else:
            model_selection.ParameterGrid(grid)
    except (TypeError, ValueError) as error:
        raise CarveError(f"grid: {error}") from None
    # scikit-learn wants test rows. The scorer has its own, so that training and validation data
    # need not be joined, which frames with categories and sparse matrices make hard.
    common = {
        "scoring": scorer,
        "cv": [(np.arange(n_rows), np.arange(1))],
        "refit": False,
        "error_score": "raise",
    }
    if name == "grid":
        return model_selection.GridSearchCV(estimator, grid, **common)
    common["random_state"] = estimator.random_state
    if name == "random":
        n_iter = inputs.whole_number("n_candidates", n_candidates)
        return model_selection.RandomizedSearchCV(estimator, grid, n_iter=n_iter, **common)
    if estimator.n_estimators is None:
        raise CarveError("search='halving' needs n_estimators: the rounds of the last candidates")
    limits = {"resource": "n_estimators", "max_resources": estimator.n_estimators}
    return model_selection.HalvingGridSearchCV(estimator, grid, **limits, **common)
