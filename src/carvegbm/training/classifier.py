"""What all classifiers share: what `fit` is given, and what a fitted one answers.

Comes in: data as scikit-learn users have it. Goes out: predictions, and proofs of robustness
against the attacker the model was trained for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from carvegbm.attack import Attack
from carvegbm.ensemble import Task
from carvegbm.errors import CarveError, DataError
from carvegbm.queries import attack, radius, robustness_curve, verify
from carvegbm.radius import Curve, Radius
from carvegbm.training import inputs
from carvegbm.training.columns import AUTO
from carvegbm.training.dataset import Dataset
from carvegbm.training.estimator import Estimator, Told
from carvegbm.training.evaluation import EvalArguments, Metric
from carvegbm.trees.link import class_indices
from carvegbm.verification import Verification

__all__ = ["Classifier"]

Floats = npt.NDArray[np.float64]
Self = TypeVar("Self", bound="Classifier")


class Classifier(ClassifierMixin, Estimator):  # type: ignore[misc]
    """A classifier that knows its attacker."""

    _for_numbers: ClassVar[str]
    """The estimator that is trained in the same way and predicts numbers."""
    class_weight: Any

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
            Numbers; NaN is a missing value, which the attacker cannot touch. A column of a frame
            may hold categories.
        y : array (n,)
            Labels of at least two classes.
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
            better), with y as 0, 1, …. Default: the log-loss. Robust training has its own measure
            and refuses others, and callbacks.
        early_stopping_rounds : int, optional
            Stop when the first metric on the first evaluation set has not improved for this many
            rounds, and keep the rounds up to the best.
        callbacks : list of callables, optional
            Called with LightGBM's `CallbackEnv` after every round (before it where the callback
            says `before_iteration`); LightGBM's own callbacks work.
        feature_names : sequence of str, optional
            Names for the model where X is an array; a frame brings its own.
        categorical_feature : list of names or positions, default "auto"
            Categorical features, whose values are whole numbers >= 0; "auto": the columns of a
            frame that hold categories without an order. As in LightGBM.
        plain_accuracy : float, optional
            Robust and certified training: the accuracy of plain LightGBM on the validation data,
            where it is known; it is not trained then.
        """
        data = self._labelled(X, y, sample_weight)
        asked = EvalArguments(
            eval_set,
            eval_names,
            eval_sample_weight,
            eval_metric,
            early_stopping_rounds,
            callbacks,
        )
        told = Told(feature_names, categorical_feature)
        self._fit(data, asked, self._task, told, plain_accuracy)
        return self

    def _labelled(self, X: Any, y: Any, sample_weight: Any) -> Dataset:
        """Validate rows, labels and weights, and set the classes."""
        from sklearn.utils.multiclass import check_classification_targets

        X, y = inputs.check_pair(self, X, y, reset=True)
        try:
            check_classification_targets(y)
        except ValueError as error:
            raise DataError(
                f"{' '.join(str(error).split())} y must hold classes, not measurements; for these "
                f"there is {self._for_numbers} (or is it another column? --label names it)"
            ) from None
        weight = inputs.check_weight(sample_weight, len(y))
        self.classes_, rows = np.unique(y, return_counts=True)
        self.n_classes_ = len(self.classes_)
        if self.n_classes_ < 2:
            only = self.classes_.tolist()[0]
            raise DataError(f"y has one class only ({only!r}); a classifier needs at least two")
        counts = dict(zip(self.classes_.tolist(), rows.tolist(), strict=True))
        weight = inputs.weigh_classes(y, self.class_weight, weight, counts)
        return Dataset(X, self._encode(y, "y"), weight)

    @property
    def _task(self) -> Task:
        return "binary" if self.n_classes_ == 2 else "multiclass"

    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        return inputs.encode_labels(y, self.classes_, what)

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

        Of an attacker with the norm and the limits that the model was trained for.
        `options` are those of `carvegbm.radius`.
        """
        rows, y = self._instances(X, y, options)
        return radius(self.ensemble_, rows, y, self.attacker_, **options)

    def robustness_curve(
        self, X: Any, y: Any = None, *, budgets: float | Iterable[float], **options: Any
    ) -> Curve:
        """Robustness at many budgets, of an attacker as for `radius`.

        `options` are those of `carvegbm.robustness_curve`.
        """
        rows, y = self._instances(X, y, options)
        attacker = self.attacker_
        return robustness_curve(self.ensemble_, rows, y, attacker, budgets=budgets, **options)

    def _instances(self, X: Any, y: Any, options: dict[str, Any]) -> tuple[Any, Any]:
        """Rows and labels, checked; `options` get this estimator's defaults."""
        check_is_fitted(self, "ensemble_")
        options.setdefault("threads", inputs.thread_count(self.n_jobs))
        options.setdefault("progress", None if self.verbose else False)
        return (inputs.check_rows(self, X), None) if y is None else inputs.check_pair(self, X, y)

    def _robust_score(self, X: Any, y: Any) -> float:
        """Share of rows proven robust."""
        return float(self.verify(X, y).robustness[0])
