"""What all estimators share: how a fit goes, and the fitted model.

Comes in: checked rows and labels. Goes out: a LightGBM Booster, the same as an `Ensemble`, and
how training went.
"""

from __future__ import annotations

import inspect
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from carvegbm.attacker import OPTIONS, Attacker
from carvegbm.ensemble import Ensemble, Task
from carvegbm.errors import CarveError, DataError
from carvegbm.progress import is_shown
from carvegbm.training import inputs
from carvegbm.training.columns import AUTO, Columns, categorical_positions, known_categories
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import EvalArguments
from carvegbm.training.model import GBDTModel, ModelSpec, safe_names
from carvegbm.training.parameterised import Parameterised
from carvegbm.training.report import TrainingReport, print_line
from carvegbm.training.search import plain_accuracy_of
from carvegbm.training.spec import FitResult, StopReason, TrainSpec

__all__ = ["Estimator", "Told", "Trained"]

Floats = npt.NDArray[np.float64]

_SOMETIMES = ("n_open_thresholds_", "training_report_")


class Told(NamedTuple):
    """What `fit` is told about the columns of X, beside what these say themselves."""

    feature_names: Sequence[str] | None = None
    categorical_feature: Any = AUTO


@dataclass(frozen=True)
class Trained:
    """What was to be trained, and what came of it."""

    spec: TrainSpec
    data: Dataset
    result: FitResult
    report: TrainingReport | None = None

    def outcome(self) -> dict[str, Any]:
        """How training went: what `fit` sets beside the model."""
        found = {
            "n_iter_": self.result.best_iteration,
            "best_iteration_": self.result.best_iteration,
            "best_score_": self.result.best_score,
            "evals_result_": self.result.evals_result,
            "stopped_because_": self.result.stopped_because,
        }
        if self.result.n_open_thresholds is not None:
            found["n_open_thresholds_"] = self.result.n_open_thresholds
        return found if self.report is None else {**found, "training_report_": self.report}


class Estimator(Parameterised):
    """What classifiers and regressors share, whatever trains them."""

    norm: int | float | str
    budget: float
    scale: Any
    features: Any
    bounds: Any
    step: Any
    categories: Any
    one_hot: Any
    n_jobs: int | None
    verbose: int

    n_features_in_: int
    _columns: Columns
    classes_: npt.NDArray[Any]
    booster_: Any
    ensemble_: Ensemble
    attacker_: Attacker
    n_iter_: int
    stopped_because_: StopReason
    training_report_: TrainingReport

    def _more_tags(self) -> dict[str, Any]:
        """The same as `__sklearn_tags__`, for scikit-learn before 1.6."""
        return {"allow_nan": True}

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn's own checks are told."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    # ── fitting ──────────────────────────────────────────────────────────────────────────────

    def _fit(
        self,
        data: Dataset,
        asked: EvalArguments,
        task: Task,
        told: Told,
        plain_accuracy: float | None = None,
    ) -> None:
        names = self._names(told.feature_names)
        chosen = self._categorical(names, told.categorical_feature)
        self._columns = replace(self._columns, categorical=chosen)
        known = known_categories(data.X, chosen, self._columns, names)
        kind = self._kind(task, names, known)
        trained = self._trained(data, asked, kind, names, plain_accuracy)
        spec, data = trained.spec, trained.data
        self._adopt(trained.result.model, spec.attacker, data.X)
        for name in _SOMETIMES:  # of an earlier fit
            self.__dict__.pop(name, None)
        for name, value in trained.outcome().items():
            setattr(self, name, value)
        if self.n_iter_ == 0:
            self._warn_of_constant(len(data), spec.params["min_data_in_leaf"])

    @abstractmethod
    def _trained(
        self,
        data: Dataset,
        asked: EvalArguments,
        kind: ModelSpec,
        names: Sequence[str] | None,
        plain_accuracy: float | None,
    ) -> Trained:
        """Train a model of this kind, whose features have these names, if any."""

    @abstractmethod
    def _n_rounds(self) -> int:
        """Rounds of boosting, at most."""

    def _names(self, given: Sequence[str] | None) -> list[str] | None:
        """The features' names: those of the frame, or those given, or none."""
        names = getattr(self, "feature_names_in_", given)
        if names is None:
            return None
        names = list(names)
        if len(names) != self.n_features_in_:
            raise DataError(f"{len(names)} feature_names for {self.n_features_in_} features")
        return [str(name) for name in names]

    def _kind(
        self, task: Task, names: Sequence[str] | None, categories: Mapping[int, Mapping[int, Any]]
    ) -> ModelSpec:
        """The kind of model to be trained."""
        classes = None if task == "regression" else self.classes_
        n_outputs = len(self.classes_) if task == "multiclass" else 1
        columns = names or _column_names(self.n_features_in_)
        labels = [self._columns.labels[position] for position in sorted(self._columns.labels)]
        return ModelSpec(task, n_outputs, safe_names(columns), classes, categories, labels)

    def _categorical(self, names: Sequence[str] | None, categorical_feature: Any) -> frozenset[int]:
        """The categorical features."""
        names = self._names(names)
        return categorical_positions(categorical_feature, self._columns, names, self.n_features_in_)

    def _attacker(
        self,
        names: Sequence[str] | None,
        categories: Mapping[int, Mapping[int, Any]] | None = None,
    ) -> Attacker:
        """The attacker with features by position."""
        given = Attacker(self.norm, self.budget, **{name: getattr(self, name) for name in OPTIONS})
        return inputs.resolve_attacker(given, self.n_features_in_, names, categories)

    def _log(self) -> Callable[[str], None]:
        """Return the function that logs trials: verbose=1 prints them where there is no bar."""
        is_printed = self.verbose > 1 or (self.verbose and not is_shown())
        return print_line if is_printed else lambda _: None

    def _plain_accuracy(
        self, spec: TrainSpec, data: Dataset, clean_loss: float | None, known: float | None
    ) -> float | None:
        """Accuracy of plain LightGBM on the validation rows, where it is known or counts."""
        if clean_loss is None or known is not None:
            return known
        return plain_accuracy_of(
            data,
            spec.evaluation.sets[0],
            spec.params,
            n_rounds=spec.n_rounds,
            early_stopping_rounds=spec.evaluation.early_stopping_rounds,
            threads=spec.threads,
            categorical=spec.model.categories.keys(),
        )

    def _warn_of_constant(self, n_rows: int, min_child_samples: int) -> None:
        """Say why the model has no split."""
        if n_rows < 2 * min_child_samples:
            reason = (
                f"{n_rows} rows are fewer than two leaves of min_child_samples={min_child_samples}"
            )
        elif self.stopped_because_ == "interrupted":
            reason = "training was interrupted before the first split"
        elif self.stopped_because_ == "time limit":
            reason = "the time limit had passed before the first split; raise time_limit"
        else:
            reason = self._why_constant()
        warnings.warn(f"the model is constant: {reason}", UserWarning, stacklevel=4)

    @abstractmethod
    def _why_constant(self) -> str:
        """Why there is no split, although there were rows and time enough for one."""

    @abstractmethod
    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        """Labels as training takes them."""

    @abstractmethod
    def _transform(self, raw: Floats) -> Floats:
        """From raw scores (n, n_outputs) to what LightGBM's `predict` would say."""

    # ── the fitted model ─────────────────────────────────────────────────────────────────────

    def _adopt(self, model: GBDTModel, attacker: Attacker, X: Any) -> None:
        """Take over a trained model, unless it is not what it should be; X are training rows."""
        self._require(model.ensemble, attacker)
        self.booster_ = model.booster(X)
        self.ensemble_ = model.ensemble
        self._set_attacker(attacker)

    def _set_attacker(self, attacker: Attacker) -> None:
        """Verify against this attacker from now on, with features by name if they have names."""
        names, count = self.ensemble_.feature_names, self.n_features_in_
        called = None if names == tuple(_column_names(count)) else names
        categories = self.ensemble_.categories
        self.attacker_ = inputs.resolve_attacker(attacker, count, names, categories, called)

    def _require(self, ensemble: Ensemble, attacker: Attacker) -> None:
        """Refuse a model without the property that training promises, if it promises one."""

    def _predict(self, X: Any, **options: Any) -> Floats:
        check_is_fitted(self, "booster_")
        rows = inputs.check_rows(self, X)
        threads = inputs.thread_count(self.n_jobs)
        return np.asarray(self.booster_.predict(rows, num_threads=threads, **options))

    def robust_score(self, X: Any, y: Any) -> float:
        """Share of rows proven robust; of a regressor, R² at the worse end within reach.

        Rows that are not decided in time count as not robust. The method of the class, such as
        ``RobustClassifier.robust_score``, serves scikit-learn's searches and validation functions
        as `scoring`. It refuses pipelines and the estimators of other libraries.
        """
        estimator: Any = self
        while hasattr(estimator, "best_estimator_"):  # a search within a validation
            estimator = estimator.best_estimator_
        if not isinstance(estimator, Estimator):
            refused = _NoScore(type(estimator).__name__)
            if not _within_scikit_learn():
                raise CarveError(repr(refused))
            return cast(float, refused)
        return estimator._robust_score(X, y)

    @abstractmethod
    def _robust_score(self, X: Any, y: Any) -> float: ...

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


class _NoScore:
    """Returned to scikit-learn in place of a score that does not exist; any use raises the reason.

    scikit-learn's searches replace an exception of a scorer by NaN (`error_score`) and then choose
    the first candidate. An exception while they convert the returned score ends the search.
    """

    def __init__(self, scored: str) -> None:
        self._scored = scored

    def __repr__(self) -> str:
        remedy = (
            "it scores carvegbm's estimators; for another model use "
            "cg.verify(model, X, y, attacker).robustness"
        )
        if self._scored == "Pipeline":
            remedy = (
                "search over the estimator without the pipeline, and give it scale=X.std() in "
                "place of the scaler"
            )
        return f"robust_score cannot score a {self._scored}: {remedy}"

    def _refuse(self, *_: object) -> Any:
        raise CarveError(repr(self))

    __float__ = __lt__ = __le__ = __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = (
        _refuse
    )
    __mul__ = __rmul__ = __truediv__ = __array__ = __format__ = _refuse
    __eq__ = __ne__ = __hash__ = __bool__ = __int__ = __round__ = __str__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # looked up by pickle and copy
            raise AttributeError(name)
        return self._refuse()


def _within_scikit_learn() -> bool:
    """Whether a function of scikit-learn is among the callers."""
    frame = inspect.currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sklearn."):
            return True
        frame = frame.f_back
    return False


def _column_names(count: int) -> list[str]:
    """The names that LightGBM gives to features without names."""
    return [f"Column_{position}" for position in range(count)]
