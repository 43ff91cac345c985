"""Large-spread ensembles as scikit-learn estimators.

Comes in: data as scikit-learn users have it. Goes out: predictions, and proofs of robustness
against the attacker the model was trained for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from carvegbm.attack import Attack, attack
from carvegbm.ensemble import Task
from carvegbm.errors import CarveError, DataError
from carvegbm.radius import Curve, Radius, radius, robustness_curve
from carvegbm.ranges import OutputRange, output_range
from carvegbm.training import inputs
from carvegbm.training.data import Labelled
from carvegbm.training.estimator import LargeSpreadEstimator
from carvegbm.training.evaluation import Asked
from carvegbm.training.growing.model import Model
from carvegbm.training.growing.watching import ROBUSTNESS, Metric, metric_list
from carvegbm.training.parameters import REGRESSION_OBJECTIVES
from carvegbm.trees.link import class_indices
from carvegbm.verification import Verification, verify

__all__ = ["LargeSpreadClassifier", "LargeSpreadRegressor"]

Floats = npt.NDArray[np.float64]

_EXPONENTIAL = ("poisson", "gamma", "tweedie")  # objectives whose raw score is a logarithm


class LargeSpreadClassifier(ClassifierMixin, LargeSpreadEstimator):  # type: ignore[misc]
    """A gradient-boosted classifier whose robustness can be verified exactly and fast.

    Trees are grown by LightGBM. After every tree, thresholds too close to its own are closed to
    later trees, so that the ensemble is large-spread for the attacker: thresholds of one feature
    in two trees are more than 2 * budget * scale apart (norm 0: no feature is in two trees).

    Parameters
    ----------
    norm, budget, scale, features, bounds
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
        1: a progress bar on a terminal, a line per 50 rounds elsewhere.
    certified : bool, default False
        Train for robustness as well: thresholds that training rows crowd around are left out, and
        the leaf scores are refitted against the attacker. The first evaluation set serves as
        validation data; without one, a stratified fifth is split off.
    quietness : float or None, or a sequence of these, default (0.03, 0.06, 0.12, 0.25, None)
        Of certified training only, as `clean_loss`: without it, another value brings a warning.
        Certified training leaves out thresholds with more than this share of a class's rows within
        reach; None leaves out none. Of several, the one that does best with a few rounds is taken.
        Norm 0 has no use for it.
    clean_loss : float or None, default 0.01
        How much accuracy on the validation data certified training may give up for robustness,
        compared with plain LightGBM's, or with the most accurate trial's if that is less;
        None: all of it.
    **lightgbm_parameters
        Any other parameter of LightGBM, under any of its names; one that large-spread training
        cannot honour is refused by name.

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
        Candidate thresholds that no tree closed.
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_metric: Metric | Sequence[Metric] | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callable[[Any], Any]] | None = None,
        feature_names: Sequence[str] | None = None,
        plain_accuracy: float | None = None,
    ) -> LargeSpreadClassifier:
        """Train.

        Parameters
        ----------
        X : array or frame (n, n_features)
            Finite numbers.
        y : array (n,)
            Labels of at least two classes.
        sample_weight : array (n,), optional
        eval_set : (X, y) or list of such pairs, optional
            Without it, whatever needs evaluation is refused: `eval_metric`,
            `early_stopping_rounds`, LightGBM's early_stopping and record_evaluation. Certified
            training splits a set off instead.
        eval_names, eval_sample_weight : sequence with an entry per evaluation set, optional
        eval_metric : str, callable or list of these, optional
            LightGBM's metrics by name; "robustness" for proven robustness; or a function of
            (y, probability) or (y, probability, weight) that returns (name, value, higher is
            better), with y as 0, 1, …. Default: the log-loss.
        early_stopping_rounds : int, optional
            Stop when the first metric on the first evaluation set has not improved for this many
            rounds, and keep the rounds up to the best.
        callbacks : list of callables, optional
            Called with LightGBM's `CallbackEnv` after every round (before it where the callback
            says `before_iteration`); LightGBM's own callbacks work.
        feature_names : sequence of str, optional
            Names for the model where X is an array; a frame brings its own.
        plain_accuracy : float, optional
            Certified training: the accuracy of plain LightGBM on the validation data, where it is
            known; it is not trained then.
        """
        from sklearn.utils.multiclass import check_classification_targets

        X, y = inputs.check_pair(self, X, y, reset=True)
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise DataError(
                f"{' '.join(str(error).split())} y must hold classes, not measurements; for these "
                "there is LargeSpreadRegressor (or is it another column? --label names it)"
            ) from None
        weight = inputs.check_weight(sample_weight, len(X))
        self.classes_ = np.unique(y)
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ < 2:
            only = self.classes_.tolist()[0]
            raise DataError(f"y has one class only ({only!r}); a classifier needs at least two")
        weight = inputs.weigh_classes(y, self.class_weight, weight)
        asked = Asked(
            eval_set,
            eval_names,
            eval_sample_weight,
            eval_metric,
            early_stopping_rounds,
            callbacks,
        )
        data = Labelled(X, self._encode(y, "y"), weight)
        self._fit(data, asked, self._task, feature_names, plain_accuracy)
        return self

    def _restore(
        self, X: Any, y: Any, model: Model, outcome: Mapping[str, Any], names: Any
    ) -> LargeSpreadClassifier:
        """Take over a model trained before on X and y, and its `_outcome`, instead of training."""
        X, y = inputs.check_pair(self, X, y, reset=True)
        self.classes_ = np.unique(y)
        self.n_classes_ = len(self.classes_)
        self._adopt(model, self._attacker(self._names(names)), X)
        self._set_outcome(outcome)
        if self.n_iter_ == 0:
            n_outputs = model.ensemble.n_outputs
            parameters = self._lightgbm_parameters(n_outputs)
            self._warn_of_constant(len(X), parameters["min_data_in_leaf"])
        return self

    @property
    def _task(self) -> Task:
        return "binary" if self.n_classes_ == 2 else "multiclass"

    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        return inputs.encode_labels(y, self.classes_, what)

    def _objective(self, n_outputs: int) -> dict[str, Any]:
        objective = "binary" if n_outputs == 1 else "multiclass"
        if self.objective not in (None, objective):
            raise CarveError(
                f"objective must be {objective!r} for {max(2, n_outputs)} classes, "
                f"got {self.objective!r}"
            )
        return {"objective": objective} | ({} if n_outputs == 1 else {"num_class": n_outputs})

    def _transform(self, raw: Floats) -> Floats:
        if raw.shape[1] == 1:
            scale = float(getattr(self, "sigmoid", 1.0))
            return np.asarray(1 / (1 + np.exp(-scale * raw[:, 0])))
        share = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Floats:
        """Raw score per row, or per row and class for more than two classes."""
        return self._predict(X, raw_score=True)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The predicted label of every row, as LightGBM has it: the second class iff p > 1/2."""
        raw = self.decision_function(X)
        chosen = class_indices(self.ensemble_, raw)
        return np.asarray(self.classes_[chosen])

    def predict_proba(self, X: Any) -> Floats:
        """The probability of every class, per row."""
        share = self._predict(X)
        return np.column_stack([1 - share, share]) if share.ndim == 1 else share

    def verify(self, X: Any, y: Any = None, **options: Any) -> Verification:
        """Decide for every instance whether the attacker can flip the decision, exactly.

        The attacker is the one the model was trained for. Without y, the model's own answer is
        the right one. `options` are those of `carvegbm.verify`.
        """
        rows, y = self._instances(X, y, options)
        return verify(self.ensemble_, rows, y, attacker=self.attacker_, **options)

    def attack(self, X: Any, y: Any = None, **options: Any) -> Attack:
        """Find a witness for every instance whose decision the attacker can flip.

        As `verify`; `options` are those of `carvegbm.attack`.
        """
        rows, y = self._instances(X, y, options)
        return attack(self.ensemble_, rows, y, attacker=self.attacker_, **options)

    def radius(self, X: Any, y: Any = None, **options: Any) -> Radius:
        """The smallest budget that flips each instance; 0 where it is wrong already.

        Of an attacker with the norm, scale, features and bounds the model was trained for.
        `options` are those of `carvegbm.radius`.
        """
        rows, y = self._instances(X, y, options)
        return radius(self.ensemble_, rows, y, **self._attackers_ways(), **options)

    def robustness_curve(
        self, X: Any, y: Any = None, *, budgets: float | Iterable[float], **options: Any
    ) -> Curve:
        """Robustness at many budgets, of an attacker as for `radius`.

        `options` are those of `carvegbm.robustness_curve`.
        """
        rows, y = self._instances(X, y, options)
        ways = self._attackers_ways()
        return robustness_curve(self.ensemble_, rows, y, budgets=budgets, **ways, **options)

    def _instances(self, X: Any, y: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """Rows and labels, checked; `options` get this estimator's defaults."""
        check_is_fitted(self, "ensemble_")
        options.setdefault("threads", inputs.thread_count(self.n_jobs))
        options.setdefault("progress", None if self.verbose else False)
        return (inputs.check_rows(self, X), None) if y is None else inputs.check_pair(self, X, y)

    def _attackers_ways(self) -> dict[str, Any]:
        """All of the attacker but the budget."""
        names = ("norm", "scale", "features", "bounds")
        return {name: getattr(self.attacker_, name) for name in names}

    def robust_score(self, X: Any, y: Any) -> float:
        """Share of instances proven robust.

        ``scoring=LargeSpreadClassifier.robust_score`` makes scikit-learn's search and validation
        tools maximise it.
        """
        return float(self.verify(X, y).robustness[0])


class LargeSpreadRegressor(RegressorMixin, LargeSpreadEstimator):  # type: ignore[misc]
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

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Any = None,
        eval_names: Sequence[str] | None = None,
        eval_sample_weight: Sequence[Any] | None = None,
        eval_metric: Metric | Sequence[Metric] | None = None,
        early_stopping_rounds: int | None = None,
        callbacks: Sequence[Callable[[Any], Any]] | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> LargeSpreadRegressor:
        """Train; the parameters are those of `LargeSpreadClassifier.fit`, with numbers for y."""
        X, y = inputs.check_pair(self, X, y, reset=True)
        if self.certified:
            raise CarveError("certified training defends classes; a regressor has none to defend")
        if self.class_weight is not None:
            raise CarveError("class_weight has no meaning for regression; use sample_weight")
        if ROBUSTNESS in metric_list(eval_metric):
            raise CarveError("eval_metric 'robustness' has no meaning for regression")
        asked = Asked(
            eval_set,
            eval_names,
            eval_sample_weight,
            eval_metric,
            early_stopping_rounds,
            callbacks,
        )
        weight = inputs.check_weight(sample_weight, len(X))
        data = Labelled(X, self._encode(y, "y"), weight)
        self._fit(data, asked, "regression", feature_names)
        return self

    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        return inputs.check_targets(y, what)

    def _objective(self, n_outputs: int) -> dict[str, Any]:  # noqa: ARG002
        name = "regression" if self.objective is None else self.objective
        if name not in REGRESSION_OBJECTIVES:
            known = ", ".join(dict.fromkeys(REGRESSION_OBJECTIVES.values()))
            raise CarveError(f"objective must be one of {known}, got {name!r}")
        return {"objective": REGRESSION_OBJECTIVES[name]}

    def _transform(self, raw: Floats) -> Floats:
        output = raw[:, 0]
        if self._objective(1)["objective"] in _EXPONENTIAL:
            return np.exp(output)
        if str(getattr(self, "reg_sqrt", False)).lower() in ("true", "1"):
            return np.asarray(np.sign(output) * output**2)
        return output

    def predict(self, X: Any) -> Floats:
        """The predicted value of every row."""
        return self._predict(X)

    def output_range(self, X: Any, **options: Any) -> OutputRange:
        """Lowest and highest raw score the attacker can reach from every row.

        The raw score is the predicted value, or its logarithm for poisson, gamma and tweedie.
        `options` are those of `carvegbm.output_range`.
        """
        check_is_fitted(self, "ensemble_")
        rows = inputs.check_rows(self, X)
        return output_range(self.ensemble_, rows, self.attacker_, **options)
