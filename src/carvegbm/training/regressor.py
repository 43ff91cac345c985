"""What all regressors share: what `fit` is given, and what a fitted one answers.

Comes in: data as scikit-learn users have it. Goes out: predictions, and the range of predictions
within reach of the attacker the model was trained for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from carvegbm.errors import CarveError
from carvegbm.queries import output_range
from carvegbm.ranges import OutputRange
from carvegbm.training import inputs
from carvegbm.training.columns import AUTO
from carvegbm.training.dataset import Dataset
from carvegbm.training.estimator import Estimator, Told
from carvegbm.training.evaluation import ROBUSTNESS, EvalArguments, Metric, metric_list
from carvegbm.training.parameters import REGRESSION_OBJECTIVES

__all__ = ["Regressor"]

Floats = npt.NDArray[np.float64]
Self = TypeVar("Self", bound="Regressor")

_EXPONENTIAL = ("poisson", "gamma", "tweedie")  # objectives whose raw score is a logarithm


class Regressor(RegressorMixin, Estimator):  # type: ignore[misc]
    """A regressor that knows its attacker."""

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
    ) -> Self:
        """Train; the parameters are those of a classifier's `fit`, with numbers for y."""
        X, y = inputs.check_pair(self, X, y, reset=True)
        self._check_regression()
        if self.class_weight is not None:
            raise CarveError("class_weight has no meaning for regression; use sample_weight")
        if ROBUSTNESS in metric_list(eval_metric):
            raise CarveError("eval_metric 'robustness' has no meaning for regression")
        asked = EvalArguments(
            eval_set,
            eval_names,
            eval_sample_weight,
            eval_metric,
            early_stopping_rounds,
            callbacks,
        )
        weight = inputs.check_weight(sample_weight, len(y))
        data = Dataset(X, self._encode(y, "y"), weight)
        self._fit(data, asked, "regression", Told(feature_names, categorical_feature))
        return self

    def _check_regression(self) -> None:
        """Refuse parameters that have no meaning for regression."""

    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        return inputs.check_targets(y, what)

    def _objective(self, n_outputs: int) -> dict[str, Any]:  # noqa: ARG002
        given = getattr(self, "objective", None)
        name = "regression" if given is None else given
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

    def _robust_score(self, X: Any, y: Any) -> float:
        """R² at the worse end of the range within the attacker's reach, per row.

        What is not known of a range counts against the model. As `score`, it may be negative.
        """
        from sklearn.metrics import r2_score

        targets = self._encode(inputs.check_pair(self, X, y)[1], "y")
        threads = inputs.thread_count(self.n_jobs)
        found = self.output_range(X, threads=threads, progress=None if self.verbose else False)
        low, high = (
            self._transform(end[:, None]) for end in (found.lowest_lower, found.highest_upper)
        )
        return float(r2_score(targets, np.where(high - targets > targets - low, high, low)))
