"""Base classes of the estimators: from arrays to a `TrainSpec`, and from a fit to attributes."""

from __future__ import annotations

import inspect
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from carvegbm.attack import Attack
from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.options import OPTIONS
from carvegbm.errors import CarveError, DataError
from carvegbm.model.decision import class_indices
from carvegbm.model.ensemble import Ensemble, Task
from carvegbm.progress import is_shown
from carvegbm.queries import attack, output_range, radius, robustness_curve, verify
from carvegbm.radius import Curve, Radius
from carvegbm.ranges import OutputRange
from carvegbm.training.categorical import FrameCategories, categorical_positions, known_categories
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import (
    ROBUSTNESS,
    Evaluation,
    Metric,
    as_list,
    evaluation_sets,
)
from carvegbm.training.model import ModelSpec, safe_names
from carvegbm.training.params import AUTO, REGRESSION_OBJECTIVES, check_number, check_parameters
from carvegbm.training.report import TrainingReport, print_line
from carvegbm.training.spec import FitResult, StopReason, TrainSpec
from carvegbm.training.validation import (
    check_data,
    check_targets,
    check_weight,
    encode_labels,
    resolve_attacker,
    seed_from,
    thread_count,
)
from carvegbm.verification import Verification

__all__ = ["BaseClassifier", "BaseGBDT", "BaseRegressor"]

Floats = npt.NDArray[np.float64]
Self = TypeVar("Self", bound="BaseGBDT")

_EXPONENTIAL = ("poisson", "gamma", "tweedie")  # objectives whose raw score is a logarithm


class BaseGBDT(BaseEstimator, ABC):  # type: ignore[misc]
    """Parameters, fit and fitted attributes of all estimators."""

    norm: int | float | str
    budget: float
    class_weight: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    n_features_in_: int
    classes_: npt.NDArray[Any]
    ensemble_: Ensemble
    attacker_: Attacker
    stopped_because_: StopReason
    _frame_categories: FrameCategories
    _why_no_split: ClassVar[str]
    """Why enough rows and time gave no split."""

    # ── parameters ───────────────────────────────────────────────────────────────────────────

    def _set_parameters(self, given: Mapping[str, Any]) -> None:
        """Set the parameters of `__init__`, whose locals() are given, as attributes."""
        named = {n: value for n, value in given.items() if n not in ("self", "lightgbm_parameters")}
        self.__dict__.update({**named, **given["lightgbm_parameters"]})

    def _extra_parameters(self) -> dict[str, Any]:
        """Return LightGBM's parameters that are not in the signature."""
        named = inspect.signature(type(self).__init__).parameters
        return {
            name: value
            for name, value in vars(self).items()
            if name not in named and not name.startswith("_") and not name.endswith("_")
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, LightGBM's included."""
        return {**super().get_params(deep), **self._extra_parameters()}

    def set_params(self: Self, **params: Any) -> Self:
        """Set parameters by name, LightGBM's included; `fit` checks them."""
        self.__dict__.update(params)
        return self

    def _is_default(self, name: str) -> bool:
        """Return whether a parameter has its default value; a list may stand for a tuple."""
        value = getattr(self, name)
        default = inspect.signature(type(self).__init__).parameters[name].default
        if isinstance(default, tuple):
            several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
            return several and tuple(value) == default
        return bool(value == default)

    def _lightgbm_parameters(self, n_outputs: int) -> dict[str, Any]:
        """Return LightGBM's parameters under their main names, with seed and objective."""
        params = check_parameters(self._learning_parameters())
        seed = seed_from(self.random_state)
        if seed is not None:
            params = {"data_random_seed": seed, **params, "seed": seed}
        return {"deterministic": True, **params, **self._objective(n_outputs)}

    @abstractmethod
    def _learning_parameters(self) -> dict[str, Any]:
        """Return LightGBM's parameters under any of their names."""

    @abstractmethod
    def _objective(self, n_outputs: int) -> dict[str, Any]:
        """Return LightGBM's parameters of the objective."""

    def _value(self, name: str) -> Any:
        """Return a parameter, with the default of the training method for None."""
        return getattr(self, name)

    def _more_tags(self) -> dict[str, Any]:
        """Return the tags for scikit-learn before 1.6."""
        return {"allow_nan": True}

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: NaN and sparse matrices are allowed."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    # ── fitting ──────────────────────────────────────────────────────────────────────────────

    def fit(
        self: Self,
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
        categorical_feature: Any = AUTO,
        plain_accuracy: float | None = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : array, frame or sparse matrix (n, n_features)
            Numbers; NaN is a missing value, which the attacker cannot touch. A column of a pandas
            frame may hold categories.
        y : array (n,)
            Labels of at least two classes; for regressors, numbers.
        sample_weight : array (n,), optional
        eval_set : (X, y) or list of such pairs, optional
            The first serves robust and certified training as validation data; without one, they
            split a fifth off. Elsewhere, what needs evaluation is refused without it:
            `eval_metric`, `early_stopping_rounds`, LightGBM's early_stopping and
            record_evaluation.
        eval_names, eval_sample_weight : sequence with an entry per evaluation set, optional
        eval_metric : str, callable or list of these, optional
            LightGBM's metrics by name; "robustness" for proven robustness; or a function of
            (y, probability) or (y, probability, weight) that returns (name, value, higher is
            better), with y as 0, 1, …. Default: that of the objective. Robust training has its own
            measure and refuses others.
        early_stopping_rounds : int, optional
            Stop when the first metric on the first evaluation set has not improved for this many
            rounds, and keep the rounds up to the best. Without `eval_set`, robust training watches
            the rows that it splits off.
        callbacks : list of callables, optional
            Called with LightGBM's `CallbackEnv` after every round, or before it if they have a true
            attribute `before_iteration`; LightGBM's own callbacks work.
        feature_names : sequence of str, optional
            Names for the model if X is an array; a frame brings its own.
        categorical_feature : list of names or positions, default "auto"
            Categorical features, whose values are whole numbers >= 0; "auto": the columns of a
            frame that hold categories without an order. As in LightGBM.
        plain_accuracy : float, optional
            Robust and certified training of classifiers: the accuracy of plain LightGBM on the
            validation data, if it is known; it is not trained then.
        """
        X, y = check_data(self, X, y, reset=True)
        weight = check_weight(sample_weight, len(y))
        task, y, weight = self._check_labels(y, weight)
        data = Dataset(X, y, weight)
        metrics = as_list("eval_metric", eval_metric, names=True)
        if task == "regression" and ROBUSTNESS in metrics:
            raise CarveError("eval_metric 'robustness' has no meaning for regression; drop it")
        if early_stopping_rounds is not None:
            check_number("early_stopping_rounds", early_stopping_rounds, 1, whole=True)
        names = self._feature_names(feature_names)
        frame = self._frame_categories
        chosen = categorical_positions(categorical_feature, frame, names, self.n_features_in_)
        self._frame_categories = replace(frame, categorical=chosen)
        n_outputs = len(self.classes_) if task == "multiclass" else 1
        model = ModelSpec(
            task,
            n_outputs,
            safe_names(names or _column_names(self.n_features_in_)),
            None if task == "regression" else self.classes_,
            known_categories(X, self._frame_categories, names),
            [own for _, own in sorted(self._frame_categories.labels.items())],
        )
        params = self._lightgbm_parameters(n_outputs)
        attacker = Attacker(self.norm, self.budget, **{n: getattr(self, n) for n in OPTIONS})
        attacker = resolve_attacker(attacker, self.n_features_in_, names, model.categories)
        sets = evaluation_sets(self, self._encode, eval_set, eval_names, eval_sample_weight)
        is_printed = self.verbose > 1 or (self.verbose and not is_shown())
        spec = TrainSpec(
            attacker,
            model,
            params,
            check_number("n_estimators", self._value("n_estimators"), 1, whole=True),
            Evaluation(
                sets,
                metrics,
                early_stopping_rounds,
                as_list("callbacks", callbacks),
                self._transform,
            ),
            threads=thread_count(self.n_jobs),
            verbose=int(self.verbose),
            log=print_line if is_printed else lambda _: None,
        )
        result, report = self._train(spec, data, plain_accuracy)
        self._set_result(result, report, attacker, data.X)
        if self.n_iter_ == 0:
            reason = self._why_constant(len(data), params["min_data_in_leaf"])
            warnings.warn(f"the model is constant: {reason}", UserWarning, stacklevel=2)
        return self

    @abstractmethod
    def _check_labels(
        self, y: npt.NDArray[Any], weight: Floats | None
    ) -> tuple[Task, npt.NDArray[Any], Floats | None]:
        """Return the task, the encoded labels, and the weights of rows."""

    @abstractmethod
    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        """Return labels as class indices, or targets as numbers."""

    @abstractmethod
    def _transform(self, raw: Floats) -> Floats:
        """Return what LightGBM's `predict` returns for raw scores of shape (n, n_outputs)."""

    @abstractmethod
    def _train(
        self, spec: TrainSpec, data: Dataset, plain_accuracy: float | None
    ) -> tuple[FitResult, TrainingReport | None]:
        """Train a model; the report is None if there is only one trial."""

    def _set_result(
        self, result: FitResult, report: TrainingReport | None, attacker: Attacker, X: Any
    ) -> None:
        """Set the fitted attributes; the Booster is checked on rows of X."""
        self.booster_ = result.model.booster(X)
        self.ensemble_ = result.model.ensemble
        self._set_attacker(attacker)
        self.n_iter_ = self.best_iteration_ = result.best_iteration
        self.best_score_ = result.best_score
        self.evals_result_ = result.evals_result
        self.stopped_because_ = result.stopped_because
        optional = {"n_open_thresholds_": result.n_open_thresholds, "training_report_": report}
        for name, value in optional.items():
            self.__dict__.pop(name, None)  # of an earlier fit
            if value is not None:
                setattr(self, name, value)

    def _feature_names(self, given: Sequence[str] | None) -> list[str] | None:
        """Return the names of the frame, or those given, or None."""
        names = getattr(self, "feature_names_in_", given)
        if names is not None and len(names) != self.n_features_in_:
            raise DataError(
                f"feature_names must hold {self.n_features_in_} names, one per feature, got "
                f"{len(names)}"
            )
        return None if names is None else [str(name) for name in names]

    def _set_attacker(self, attacker: Attacker) -> None:
        """Set the attacker to verify against, with features by name if they have names."""
        names, count = self.ensemble_.feature_names, self.n_features_in_
        new_names = None if names == tuple(_column_names(count)) else names
        categories = self.ensemble_.categories
        self.attacker_ = resolve_attacker(attacker, count, names, categories, new_names)

    def _why_constant(self, n_rows: int, min_child_samples: int) -> str:
        """Return why the model has no split."""
        if n_rows < 2 * min_child_samples:
            given = f"min_child_samples={min_child_samples}"
            return f"{n_rows} rows are fewer than two leaves of {given}"
        if self.stopped_because_ == "interrupted":
            return "training was interrupted before the first split"
        if self.stopped_because_ == "time limit":
            return "the time limit had passed before the first split; raise time_limit"
        return self._why_no_split.format(norm=self.norm, budget=self.budget)

    # ── the fitted model ─────────────────────────────────────────────────────────────────────

    def _predict(self, X: Any, **options: Any) -> Floats:
        check_is_fitted(self, "booster_")
        rows, _ = check_data(self, X)
        threads = thread_count(self.n_jobs)
        return np.asarray(self.booster_.predict(rows, num_threads=threads, **options))

    def _query(self, X: Any, y: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """Return validated rows and labels; set the estimator's defaults in `options`."""
        check_is_fitted(self, "ensemble_")
        options.setdefault("threads", thread_count(self.n_jobs))
        options.setdefault("progress", None if self.verbose else False)
        return check_data(self, X, y)

    def robust_score(self, X: Any, y: Any) -> float:
        """Return the share of rows proven robust; of a regressor, R² at the worse end within reach.

        Rows that are not decided in time count as not robust. The method of the class, such as
        ``RobustClassifier.robust_score``, serves scikit-learn's searches and validation functions
        as `scoring`. It scores these estimators and searches over them, but no pipelines.
        """
        estimator: Any = self
        while hasattr(estimator, "best_estimator_"):  # a search within a validation
            estimator = estimator.best_estimator_
        if not hasattr(estimator, "_robust_score"):
            raise CarveError(
                f"robust_score cannot score a {type(estimator).__name__}: search over the "
                "estimator without a pipeline, with scale=X.std() in place of a scaler; for "
                "another model use cg.verify(model, X, y, attacker).robustness"
            )
        return float(estimator._robust_score(X, y))

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the model as LightGBM's text, which LightGBM and `carvegbm.load` read."""
        from carvegbm.storage.files import replacing

        check_is_fitted(self, "booster_")
        with replacing(path) as temporary:
            temporary.write_text(self.booster_.model_to_string(), encoding="utf-8")

    @property
    def feature_importances_(self) -> npt.NDArray[np.int64]:
        """Number of splits per feature."""
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.feature_importance("split"))


class BaseClassifier(ClassifierMixin, BaseGBDT):  # type: ignore[misc]
    """Labels, predictions and queries of classifiers."""

    _regressor: ClassVar[str]
    """Name of the regressor with the same training method."""

    def _check_labels(
        self, y: npt.NDArray[Any], weight: Floats | None
    ) -> tuple[Task, npt.NDArray[Any], Floats | None]:
        from sklearn.utils.class_weight import compute_sample_weight
        from sklearn.utils.multiclass import check_classification_targets

        try:
            check_classification_targets(y)
        except ValueError as error:
            raise DataError(
                f"{' '.join(str(error).split())} y must hold classes; for numbers use "
                f"{self._regressor}, or check that the label column is the right one (--label)"
            ) from None
        self.classes_ = np.unique(y)
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ < 2:
            only = self.classes_.tolist()[0]
            raise DataError(f"y has one class only ({only!r}); a classifier needs at least two")
        if self.class_weight is not None:
            try:
                by_class = compute_sample_weight(self.class_weight, y)
            except ValueError as error:
                raise CarveError(f"class_weight: {error}") from None
            weight = by_class if weight is None else weight * by_class
        task: Task = "binary" if self.n_classes_ == 2 else "multiclass"
        return task, self._encode(y, "y"), weight

    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        return encode_labels(y, self.classes_, what)

    def _objective(self, n_outputs: int) -> dict[str, Any]:
        objective = "binary" if n_outputs == 1 else "multiclass"
        given = getattr(self, "objective", None)
        if given not in (None, objective):
            raise CarveError(
                f"objective must be {objective!r} for {max(2, n_outputs)} classes, got {given!r}"
            )
        return {"objective": objective} | ({} if n_outputs == 1 else {"num_class": n_outputs})

    def _transform(self, raw: Floats) -> Floats:
        if raw.shape[1] == 1:
            scale = float(getattr(self, "sigmoid", 1.0))
            return np.asarray(1 / (1 + np.exp(-scale * raw[:, 0])))
        powers = np.exp(raw - raw.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Floats:
        """Return the raw score per row, or per row and class for more than two classes."""
        return self._predict(X, raw_score=True)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of every row as LightGBM predicts it: the second class iff p > 1/2."""
        raw = self.decision_function(X)
        return np.asarray(self.classes_[class_indices(self.ensemble_, raw)])

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of every class, per row."""
        p = self._predict(X)
        return np.column_stack([1 - p, p]) if p.ndim == 1 else p

    def verify(self, X: Any, y: Any = None, **options: Any) -> Verification:
        """Decide for every instance whether the attacker can flip the decision, exactly.

        The attacker is the one the model was trained for. Without y, the model's own prediction
        is the label. `options` are those of `carvegbm.verify`.
        """
        rows, y = self._query(X, y, options)
        return verify(self.ensemble_, rows, y, attacker=self.attacker_, **options)

    def attack(self, X: Any, y: Any = None, **options: Any) -> Attack:
        """Find a witness for every instance whose decision the attacker can flip.

        As `verify`; `options` are those of `carvegbm.attack`.
        """
        rows, y = self._query(X, y, options)
        return attack(self.ensemble_, rows, y, attacker=self.attacker_, **options)

    def radius(self, X: Any, y: Any = None, **options: Any) -> Radius:
        """Return the smallest budget that flips each instance; 0 if it is wrong already.

        The attacker has the norm and the limits that the model was trained for. `options` are
        those of `carvegbm.radius`.
        """
        rows, y = self._query(X, y, options)
        return radius(self.ensemble_, rows, y, self.attacker_, **options)

    def robustness_curve(
        self, X: Any, y: Any = None, *, budgets: float | Iterable[float], **options: Any
    ) -> Curve:
        """Return the robustness at many budgets, of an attacker as for `radius`.

        `options` are those of `carvegbm.robustness_curve`.
        """
        rows, y = self._query(X, y, options)
        attacker = self.attacker_
        return robustness_curve(self.ensemble_, rows, y, attacker, budgets=budgets, **options)

    def _robust_score(self, X: Any, y: Any) -> float:
        return float(self.verify(X, y).robustness[0])


class BaseRegressor(RegressorMixin, BaseGBDT):  # type: ignore[misc]
    """Targets, predictions and queries of regressors."""

    def _check_labels(
        self, y: npt.NDArray[Any], weight: Floats | None
    ) -> tuple[Task, npt.NDArray[Any], Floats | None]:
        if self.class_weight is not None:
            raise CarveError("class_weight has no meaning for regression; use sample_weight")
        return "regression", self._encode(y, "y"), weight

    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        return check_targets(y, what)

    def _objective(self, n_outputs: int) -> dict[str, Any]:  # noqa: ARG002
        name = getattr(self, "objective", None) or "regression"
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
        """Return the predicted value of every row."""
        return self._predict(X)

    def output_range(self, X: Any, **options: Any) -> OutputRange:
        """Return the lowest and the highest raw score the attacker can reach from every row.

        The raw score is the predicted value, or its logarithm for poisson, gamma and tweedie.
        `options` are those of `carvegbm.output_range`.
        """
        rows, _ = self._query(X, None, options)
        return output_range(self.ensemble_, rows, self.attacker_, **options)

    def _robust_score(self, X: Any, y: Any) -> float:
        """Return R² at the worse end of what is known of every row's range.

        As `score`, it may be negative.
        """
        from sklearn.metrics import r2_score

        targets = self._encode(check_data(self, X, y)[1], "y")
        found = self.output_range(X)
        low, high = (
            self._transform(end[:, None]) for end in (found.lowest_lower, found.highest_upper)
        )
        return float(r2_score(targets, np.where(high - targets > targets - low, high, low)))


def _column_names(count: int) -> list[str]:
    """Return the names that LightGBM gives to features without names."""
    return [f"Column_{position}" for position in range(count)]
