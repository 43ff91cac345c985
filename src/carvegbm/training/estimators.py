"""The public estimators, with scikit-learn's interface.

`LargeSpread*` grow large-spread ensembles, which are verified without a search. `Robust*` grow
trees of any shape against the attacker.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from math import isinf
from typing import Any

import numpy as np

from carvegbm.attackers.spread import require_large_spread
from carvegbm.errors import CarveError, DataError
from carvegbm.progress import is_shown
from carvegbm.training.base import BaseClassifier, BaseGBDT, BaseRegressor
from carvegbm.training.dataset import N_FOLDS, Dataset
from carvegbm.training.large_spread.trainer import MAX_CROWDING, CertifiedTrainer, boost
from carvegbm.training.params import (
    AUTO,
    LEARNING_PARAMETERS,
    RobustSettings,
    check_max_crowding,
    check_number,
    check_numbers,
    main_name,
    refusal_of,
)
from carvegbm.training.report import TrainingReport
from carvegbm.training.robust.bounds import BoundTrainer
from carvegbm.training.robust.trainer import FEW_ROWS, MANY_FEATURES
from carvegbm.training.robust.witnesses import StagedWitnessTrainer, WitnessTrainer
from carvegbm.training.search import Search, plain_accuracy_of
from carvegbm.training.spec import FitResult, Trainer, TrainSpec
from carvegbm.training.validation import check_instances

__all__ = ["LargeSpreadClassifier", "LargeSpreadRegressor", "RobustClassifier", "RobustRegressor"]

_CROWDING_OF_MANY_ROWS = (0.06, 0.25)  # tried in certified training
_MAX_VALIDATION_ROWS = 10_000
_ROBUST_DEFAULTS = {
    "n_estimators": 120,
    "num_leaves": 32,
    "learning_rate": 0.15,
    "min_child_samples": 10,
    "reg_lambda": 1.0,
}
_MULTICLASS_ROUNDS = 24  # with a tree per class in every round
_SMALL_TREES = {"num_leaves": 8, "learning_rate": 0.1}
"""Defaults with three times the rounds, for trees that are grown at witnesses."""


class _LargeSpread(BaseGBDT):
    """Parameters and training of the large-spread estimators."""

    _why_no_split = (
        "no feature separates the labels, or no sample of rows or features had a split worth "
        "keeping; raise subsample or colsample_bytree"
    )

    def __init__(
        self,
        *,
        norm: int | float | str = "inf",
        budget: float = 0.01,
        scale: Any = None,
        features: Any = None,
        bounds: Any = None,
        step: Any = None,
        categories: Any = None,
        one_hot: Any = None,
        n_estimators: int = 100,
        num_leaves: int = 31,
        max_depth: int = -1,
        learning_rate: float = 0.1,
        min_child_samples: int = 20,
        min_child_weight: float = 1e-3,
        min_split_gain: float = 0.0,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        reg_alpha: float = 0.0,
        reg_lambda: float = 0.0,
        max_bin: int = 255,
        objective: str | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        certified: bool = False,
        max_crowding: Any = MAX_CROWDING,
        clean_loss: float | None = 0.01,
        **lightgbm_parameters: Any,
    ) -> None:
        self._set_parameters(locals())

    def _learning_parameters(self) -> dict[str, Any]:
        extra = self._extra_parameters()
        replaced = {main_name(name) for name in extra}
        named = {
            name: getattr(self, name)
            for name in (*LEARNING_PARAMETERS, "max_bin")
            if main_name(name) not in replaced or not self._is_default(name)
        }
        return {**named, **extra}

    def _train(
        self, spec: TrainSpec, data: Dataset, plain_accuracy: float | None
    ) -> tuple[FitResult, TrainingReport | None]:
        report: TrainingReport | None = None
        if self.certified:
            result, report = self._train_certified(spec, data, plain_accuracy)
        else:
            spec.evaluation.require_sets()
            self._check_unused(plain_accuracy)
            result = boost(spec, data)
        require_large_spread(result.model.ensemble, spec.attacker)
        return result, report

    def _check_unused(self, plain_accuracy: float | None) -> None:
        """Refuse `plain_accuracy` without certified training; warn of parameters without effect."""
        if plain_accuracy is not None:
            raise CarveError("plain_accuracy has no meaning without certified=True; drop it")
        for name in ("max_crowding", "clean_loss"):
            if not self._is_default(name):
                warnings.warn(
                    f"{name}={getattr(self, name)!r} has no effect without certified=True",
                    UserWarning,
                    stacklevel=4,
                )

    def _train_certified(
        self, spec: TrainSpec, data: Dataset, plain_accuracy: float | None
    ) -> tuple[FitResult, TrainingReport]:
        if spec.model.task == "regression":
            raise CarveError("certified=True has no meaning for regression; drop it")
        for name in ("scale_pos_weight", "is_unbalance"):
            if name in spec.params:
                raise CarveError(
                    f"certified training cannot honour {name}; use class_weight instead"
                )
        max_crowding = check_max_crowding(self.max_crowding, spec.attacker.norm)
        clean_loss = check_number("clean_loss", self.clean_loss, 0, 1, optional=True)
        _check_attackable(spec, data)
        if not spec.evaluation.sets:
            data, valid = data.split(spec.params.get("seed"))
            spec = replace(spec, evaluation=replace(spec.evaluation, sets=[valid]))
        valid = spec.evaluation.sets[0]
        if clean_loss is not None and plain_accuracy is None:
            plain_accuracy = plain_accuracy_of(
                data,
                valid,
                spec.params,
                n_rounds=spec.n_rounds,
                early_stopping_rounds=spec.evaluation.early_stopping_rounds,
                threads=spec.threads,
                categorical=spec.model.categories.keys(),
            )
        quiet = replace(spec, verbose=0) if is_shown() else spec  # one bar is enough
        trainer = CertifiedTrainer(quiet, max_crowding, plain_accuracy, clean_loss)
        search = Search(spec, [trainer], clean_loss=clean_loss, plain_accuracy=plain_accuracy)
        report, result = search.on_validation_rows(data, valid)
        return result, report


class _Robust(BaseGBDT):
    """Parameters and training of the robust estimators."""

    _why_no_split = (
        "no split helps against an attacker of norm {norm} and budget {budget:g}; lower the "
        "budget, scale the data, name the features it can change, or, if you gave max_crowding, "
        "raise it"
    )

    def __init__(
        self,
        *,
        norm: int | float | str = "inf",
        budget: float = 0.01,
        scale: Any = None,
        features: Any = None,
        bounds: Any = None,
        step: Any = None,
        categories: Any = None,
        one_hot: Any = None,
        n_estimators: int | None = None,
        num_leaves: int | None = None,
        max_depth: int = -1,
        learning_rate: float | None = None,
        min_child_samples: int | None = None,
        min_child_weight: float = 1e-3,
        min_split_gain: float = 0.0,
        subsample: float = 1.0,
        subsample_freq: int = 0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float | None = None,
        reg_alpha: float = 0.0,
        reg_lambda: float | None = None,
        max_bin: int | None = None,
        n_members: int | None = None,
        leaf_l2: Any = None,
        max_crowding: Any = AUTO,
        clean_loss: Any = AUTO,
        class_weight: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
        time_limit: float | None = None,
        **lightgbm_parameters: Any,
    ) -> None:
        self._set_parameters(locals())

    def _learning_parameters(self) -> dict[str, Any]:
        for name in self._extra_parameters():
            raise CarveError(refusal_of(name, type(self).__name__, self._get_param_names()))
        check_number("num_leaves", self._value("num_leaves"), 2, 256, whole=True)
        return {name: self._value(name) for name in LEARNING_PARAMETERS}

    def _value(self, name: str) -> Any:
        value = getattr(self, name)
        if value is None and name == "n_estimators" and len(getattr(self, "classes_", ())) > 2:
            return _MULTICLASS_ROUNDS
        return _ROBUST_DEFAULTS.get(name) if value is None else value

    def _settings(self, norm: float) -> RobustSettings:
        l2, crowding, loss = self.leaf_l2, self.max_crowding, self.clean_loss
        is_auto = isinstance(crowding, str) and crowding == AUTO
        loss = None if isinstance(loss, str) and loss == AUTO else loss
        optional: dict[str, Any] = {"optional": True}
        whole = {"whole": True, **optional}
        return RobustSettings(
            colsample_bynode=check_number(
                "colsample_bynode", self.colsample_bynode, 0, 1, is_open=True, **optional
            ),
            # A byte distinguishes the two ends of the attacker's reach at every threshold.
            max_bin=check_number("max_bin", self.max_bin, 1, 127, **whole),
            n_members=check_number("n_members", self.n_members, 1, **whole),
            leaf_l2=None if l2 is None else check_numbers("leaf_l2", l2, 0),
            max_crowding=None if is_auto else check_max_crowding(crowding, norm),
            min_child_samples=self.min_child_samples,
            clean_loss=check_number("clean_loss", loss, 0, 1, **optional),
        )

    def _train(
        self, spec: TrainSpec, data: Dataset, plain_accuracy: float | None
    ) -> tuple[FitResult, TrainingReport]:
        if spec.evaluation.metrics:
            raise CarveError(
                "eval_metric cannot be honoured: robust training watches worst cases, and chooses "
                "by proven robustness; drop it, or use LargeSpreadClassifier(certified=True)"
            )
        limit = check_number("time_limit", self.time_limit, 0, is_open=True, optional=True)
        data, sets = data.dense(), [rows.dense() for rows in spec.evaluation.sets]
        spec = replace(
            spec,
            evaluation=replace(spec.evaluation, sets=sets),
            deadline=None if limit is None else time.monotonic() + limit,
        )
        _check_attackable(spec, data)
        settings, seed = self._settings(spec.attacker.norm), spec.params.get("seed", 0)
        stratify = spec.model.task != "regression"
        if not stratify and (settings.clean_loss is not None or plain_accuracy is not None):
            raise CarveError(
                "clean_loss and plain_accuracy have no meaning for regression; drop them"
            )
        # Every fold needs rows, of every class if there are classes.
        smallest = np.unique(data.y, return_counts=True)[1].min() if stratify else len(data) // 2
        folds = not sets and len(data) < FEW_ROWS and bool(smallest >= N_FOLDS)
        train = valid = data
        if sets:
            valid = sets[0]
        elif not folds:
            train, valid = _split_off(data, seed, stratify)
        evaluation = spec.evaluation
        if evaluation.early_stopping_rounds is not None or evaluation.callbacks:
            evaluation = replace(evaluation, sets=sets or [valid])
            spec = replace(spec, evaluation=evaluation)
        plain, trainers = self._trainers(spec, settings, len(data), folds)
        search = Search(spec, trainers, (plain, plain.plain_params()))
        search.clean_loss, search.plain_accuracy = settings.clean_loss, plain_accuracy
        if folds:
            report, result = search.by_folds(data, seed)
        else:
            was_split = not sets and train is not data
            report, result = search.on_validation_rows(train, valid, data if was_split else None)
        return result, report

    def _trainers(
        self, spec: TrainSpec, settings: RobustSettings, n_rows: int, folds: bool
    ) -> tuple[BoundTrainer, list[Trainer]]:
        """Return the trainer of the plain model, and those that the search compares."""
        plain, norm = BoundTrainer(spec, settings), spec.attacker.norm
        if isinf(norm):
            return plain, [plain]
        trainers: list[Trainer]
        limits = spec.attacker.limits(spec.model.blank())
        is_discrete = bool(limits.one_hot or limits.categories)  # norm inf models no exchange
        if n_rows < FEW_ROWS or norm == 0 or self.n_features_in_ > MANY_FEATURES or is_discrete:
            trainers = [StagedWitnessTrainer(self._with_small_trees(spec), settings)]
        else:
            trainers = [WitnessTrainer(spec, settings)]
        if spec.model.task != "regression" and not folds:
            default = MAX_CROWDING if n_rows < FEW_ROWS else _CROWDING_OF_MANY_ROWS
            tried = settings.max_crowding or check_max_crowding(default, norm)
            trainers.append(CertifiedTrainer(replace(spec, verbose=0), tried))
        return plain, trainers

    def _with_small_trees(self, spec: TrainSpec) -> TrainSpec:
        """Return the specification with more and smaller trees, unless the user chose a size."""
        unset = {n: value for n, value in _SMALL_TREES.items() if getattr(self, n) is None}
        factor = 3 if self.n_estimators is None else 1
        return replace(spec, params={**spec.params, **unset}, n_rounds=factor * spec.n_rounds)


def _check_attackable(spec: TrainSpec, data: Dataset) -> None:
    """Refuse training or validation rows that do not fit the attacker's bounds and steps."""
    blank = spec.model.blank()
    check_instances(spec.attacker, blank, data.X)
    for rows in spec.evaluation.sets[:1]:
        check_instances(spec.attacker, blank, rows.X, "eval_set 0")


def _split_off(data: Dataset, seed: int, stratify: bool) -> tuple[Dataset, Dataset]:
    """Return training and validation rows; too few rows serve as both."""
    try:
        return data.split(seed, stratify, most=_MAX_VALIDATION_ROWS)
    except DataError:
        warnings.warn(
            f"{len(data)} rows are too few to split validation data off: trials are judged on the "
            "rows they were trained on; give eval_set",
            UserWarning,
            stacklevel=4,
        )
        return data, replace(data, name="valid_0")


class LargeSpreadClassifier(_LargeSpread, BaseClassifier):
    """A gradient-boosted classifier whose robustness can be verified exactly and fast.

    Trees are grown by LightGBM. After every tree, thresholds too close to its own are closed to
    later trees, so that the ensemble is large-spread for the attacker: thresholds of one feature
    in two trees are more than 2 * budget * scale apart (norm 0: no feature is in two trees).

    Parameters
    ----------
    norm, budget, scale, features, bounds, step, categories, one_hot
        The attacker to verify against, see `carvegbm.Attacker`.
    n_estimators : int, default 100
        Rounds of boosting; a round grows one tree, or one per class for more than two classes.
    num_leaves, max_depth, learning_rate, min_child_samples, min_child_weight, min_split_gain, \
    subsample, subsample_freq, colsample_bytree, reg_alpha, reg_lambda, max_bin
        As in LightGBM. `max_bin` is the largest number of candidate thresholds per feature.
    objective : str, optional
        "binary" or "multiclass"; by default what y calls for.
    class_weight : dict or "balanced", optional
    random_state : int or RandomState, optional
    n_jobs : int, optional
        Threads; all cores by default.
    verbose : int, default 0
        1: a progress bar on a terminal; elsewhere a line per 50 rounds and, with `certified`, per
        trial. 2: also a line per trial on a terminal.
    certified : bool, default False
        Train for robustness as well: leave out crowded thresholds, and refit the leaf scores
        against the attacker. The first evaluation set serves as validation data; without one, a
        stratified fifth is split off.
    max_crowding : float or None, or a sequence of these, default (0.03, 0.06, 0.12, 0.25, None)
        Certified training leaves out thresholds whose crowding is larger. The crowding of a
        threshold is the largest share of a class's training rows that the attacker can push across
        it. None leaves out no threshold. Of several values, the best one with few rounds is taken.
        It has no effect for norm 0, and a value other than the default brings a warning without
        `certified`.
    clean_loss : float or None, default 0.01
        Accuracy on the validation data that certified training may give up for robustness, compared
        with plain LightGBM, or with the most accurate trial if that is less accurate; None: any. A
        value other than the default brings a warning without `certified`.
    **lightgbm_parameters
        Any other parameter of LightGBM, under any of its names. Parameters that large-spread
        training does not support are refused by name.

    Attributes
    ----------
    booster_ : lightgbm.Booster
    ensemble_ : carvegbm.Ensemble
    attacker_ : carvegbm.Attacker
    classes_ : array
    stopped_because_ : {"rounds", "early stopping", "no thresholds left", "interrupted"}
    n_iter_, best_iteration_ : int
        Number of rounds in the model, up to the last with a split; 0 for a constant.
    best_score_ : float or None
        With early stopping: the first metric on the first evaluation set after these rounds.
    evals_result_ : dict
        Every metric after every round, by evaluation set.
    n_open_thresholds_ : int
        Candidate thresholds that no tree closed; a categorical feature counts as one.
    training_report_ : TrainingReport
        With certified training: every trial, what was chosen, and why.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = minmax_scale(X)
    >>> model = LargeSpreadClassifier(norm="inf", budget=0.01, n_estimators=20, random_state=0)
    >>> result = model.fit(X[:400], y[:400]).verify(X[400:], y[400:])
    >>> result.accuracy > 0.9
    True
    >>> 0.8 < model.robust_score(X[400:], y[400:]) <= result.accuracy
    True
    """

    _regressor = "LargeSpreadRegressor"


class LargeSpreadRegressor(_LargeSpread, BaseRegressor):
    """A gradient-boosted regressor whose reachable outputs can be computed exactly and fast.

    The parameters and attributes are those of `LargeSpreadClassifier`; `objective` is one of
    LightGBM's for regression (default "regression": squared error).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = LargeSpreadRegressor(norm="inf", budget=0.001, num_leaves=8, learning_rate=0.3)
    >>> model.fit(X, X[:, 0] ** 2).score(X, X[:, 0] ** 2) > 0.9
    True
    >>> model.output_range(X[:3]).exact.tolist()
    [True, True, True]
    """


class RobustClassifier(_Robust, BaseClassifier):
    """A gradient-boosted classifier that is trained to be robust, with proven robustness.

    Trees are grown against the attacker: a split counts each row on the side where the attacker
    would push it. Afterwards the scores of all leaves are refitted to the worst cases of the
    training rows. `fit` compares several configurations and a plain model of the same size on
    validation rows, and keeps the one with the largest proven robustness.

    The search depends on the number of training rows and on the norm:

    - Fewer than 2,000 rows, without `eval_set`: five-fold cross-validation (below 1,000 rows
      twice) with half and all of the rounds, with and without the refit. The best configuration is
      fitted on all rows.
    - More rows: every configuration is first fitted with a sixth of the rounds (a scout). The best
      one is fitted in full, and so is the second unless it is clearly less robust. The better of
      them is refitted with further strengths of `leaf_l2`. With at least 2,000 validation rows,
      another configuration has to be better than the default by more than a standard error.
      Unless `eval_set` is given, and up to 100,000 rows, the chosen configuration is fitted once
      more to all rows (not for norm 0).
    - More than two classes: all leaf scores are refitted after every four rounds, and the models
      after each refit are compared.
    - Norms other than inf: trees are grown and refitted against norm inf with a share of the
      budget, and several shares are compared. Then the leaf scores are refitted at witnesses, the
      worst changes found for every row. For norm 0, below 2,000 rows, with more than 100 features,
      and if categories or one-hot groups can be changed, trees are grown at witnesses instead, 120
      (few rows: 20) at a time. For classes and
      at least 2,000 rows, certified large-spread training is a further candidate.

    Robustness on validation rows is weighted by `eval_sample_weight`, or by the weights of the rows
    that were split off.

    Parameters
    ----------
    norm, budget, scale, features, bounds, step, categories, one_hot
        The attacker to be robust against, see `carvegbm.Attacker`.
    n_estimators : int, optional
        Rounds of boosting, of all members together; by default 120, and 24 for more than two
        classes, where a round grows a tree per class.
    num_leaves, learning_rate, min_child_samples, reg_lambda : optional
        As in LightGBM, by default 32, 0.15, 10 and 1; `num_leaves` is at most 256. For norm 0, and
        for norms other than inf with fewer than 2,000 rows, more than 100 features, categories or
        one-hot groups that the attacker can change, the defaults are 8 leaves, a rate of 0.1 and
        three times the rounds. With fewer than 2,000 rows, `min_child_samples` is 5 or 20 unless
        given.
    max_depth, min_child_weight, min_split_gain, subsample, subsample_freq, colsample_bytree, \
    reg_alpha
        As in LightGBM, with its defaults. `subsample` draws blocks of 64 rows of one class, so that
        few rows are drawn coarsely: at least one block of every class.
    colsample_bynode : float, optional
        Share of the features that every split chooses from; 0.5 by default.
    max_bin : int, optional
        Largest number of candidate thresholds per feature, at most 127; by default 127, and 31 for
        more than 100 features.
    n_members : int, optional
        Number of models that are averaged. They differ in their seed and share the rounds. By
        default 3 for few rows, 1 for many, and both are tried in between.
    leaf_l2 : float or sequence of float, optional
        Strength of the L2 penalty on the leaf scores in the refit: a larger value keeps scores
        closer to 0, so that no score rests on few rows. The best of several values is taken; by
        default the values depend on the number of rows.
    max_crowding : float, None or a sequence of these, default "auto"
        Leave out thresholds whose crowding is larger. The crowding of a threshold is the largest
        share of a class's training rows that the attacker can push across it. None leaves out no
        threshold. The best of several values is taken. "auto": None, and 0.35 for more than two
        classes and at least 2,000 rows.
    clean_loss : float or None, default "auto"
        Accuracy on the validation data that may be given up for robustness, compared with the plain
        model, or with the most accurate trial if that is less accurate. "auto" and None: any.
    class_weight : dict or "balanced", optional
    random_state : int or RandomState, optional
    n_jobs : int, optional
        Threads; all cores by default. The model does not depend on their number.
    verbose : int, default 0
        1: a progress bar on a terminal, a line per trial elsewhere. 2: also a line per trial on a
        terminal.
    time_limit : float, optional
        Seconds after which `fit` returns the best model so far.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        An ordinary Booster: SHAP values, plots, treelite and ONNX converters work on it.
    ensemble_ : carvegbm.Ensemble
    attacker_ : carvegbm.Attacker
    classes_ : array
    training_report_ : TrainingReport
        Every trial, what was chosen, and why.
    stopped_because_ : {"rounds", "early stopping", "no thresholds left", "time limit", \
    "interrupted"}
    n_iter_, best_iteration_ : int
        Number of rounds of every member, up to the last with a split; 0 for a constant.
    best_score_ : float or None
        The loss at the worst cases of the validation rows after these rounds. None after
        cross-validation, and if no `eval_set`, `early_stopping_rounds` or `callbacks` are given.
    evals_result_ : dict
        The same after every round of the first member, by evaluation set: ``"worst_loss"``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import minmax_scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X = minmax_scale(X)
    >>> model = RobustClassifier(norm="inf", budget=0.05, n_estimators=20, random_state=0)
    >>> result = model.fit(X[:400], y[:400]).verify(X[400:], y[400:])
    >>> 0.8 < result.robustness[0] <= result.accuracy
    True
    """

    _regressor = "RobustRegressor"


class RobustRegressor(_Robust, BaseRegressor):
    """A gradient-boosted regressor that is trained against an attacker.

    Its loss is the squared error at the lowest or the highest prediction within the attacker's
    reach, whichever is further from the target. The search, the parameters and the attributes are
    those of `RobustClassifier`; the trial with the smallest worst error is kept, `clean_loss` and
    `class_weight` are refused, and large-spread training is no candidate.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = RobustRegressor(norm="inf", budget=0.01, n_estimators=30, random_state=0)
    >>> 0.8 < model.fit(X, X[:, 0] ** 2).robust_score(X, X[:, 0] ** 2) < 1
    True
    """
