"""What the large-spread classifier and regressor share: fitting, and the fitted model.

Comes in: checked rows and labels. Goes out: a LightGBM Booster, the same as an `Ensemble`, and
how training went.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble, Task
from carvegbm.errors import CarveError, DataError
from carvegbm.spread import require_large_spread
from carvegbm.training import inputs
from carvegbm.training.certified import check_clean_loss, check_quietness, plain_accuracy_of
from carvegbm.training.certified.job import Job
from carvegbm.training.data import Labelled
from carvegbm.training.evaluation import Asked
from carvegbm.training.growing.boosting import Boosted, Boosting, Reason
from carvegbm.training.growing.model import Kind, Model
from carvegbm.training.growing.model_text import safe_names
from carvegbm.training.parameterised import Parameterised
from carvegbm.training.report import TrainingReport
from carvegbm.training.reporting import print_line

__all__ = ["LargeSpreadEstimator"]

Floats = npt.NDArray[np.float64]

_OUTCOME = (
    "n_iter_",
    "best_iteration_",
    "best_score_",
    "evals_result_",
    "stopped_because_",
    "n_open_thresholds_",
)


class LargeSpreadEstimator(Parameterised):
    """What the classifier and the regressor share."""

    n_features_in_: int
    classes_: npt.NDArray[Any]
    booster_: Any
    ensemble_: Ensemble
    attacker_: Attacker
    n_iter_: int
    stopped_because_: Reason
    training_report_: TrainingReport

    # ── fitting ──────────────────────────────────────────────────────────────────────────────

    def _fit(
        self,
        data: Labelled,
        asked: Asked,
        task: Task,
        feature_names: Sequence[str] | None,
        plain_accuracy: float | None = None,
    ) -> None:
        self.__dict__.pop("training_report_", None)
        names = self._names(feature_names)
        kind = self._kind(task, names)
        parameters = self._lightgbm_parameters(kind.n_outputs)
        n_rounds = inputs.whole_number("n_estimators", self.n_estimators)
        self._check_certified_only(plain_accuracy)
        attacker = self._attacker(names)
        sets = asked.sets(self, self._encode)
        if self.certified:
            if not sets:
                data, held_out = data.split_off(inputs.seed_from(self.random_state))
                sets = [held_out]
            attacker.check_instances(inputs.blank_ensemble(self.n_features_in_, names), sets[0].X)
        boosting = Boosting(
            data,
            attacker,
            parameters,
            kind,
            n_rounds,
            evaluation=asked.evaluation(sets, self._transform),
            threads=inputs.thread_count(self.n_jobs),
            verbose=int(self.verbose),
        )
        boosted = self._certify(boosting, plain_accuracy) if self.certified else boosting.run()
        self._adopt(boosted.model, attacker, data.X)
        self._set_outcome(_outcome_of(boosted))
        if self.n_iter_ == 0:
            self._warn_of_constant(len(data), parameters["min_data_in_leaf"])

    def _names(self, given: Sequence[str] | None) -> list[str] | None:
        """The features' names: those of the frame, or those given, or none."""
        names = getattr(self, "feature_names_in_", given)
        if names is None:
            return None
        names = list(names)
        if len(names) != self.n_features_in_:
            raise DataError(f"{len(names)} feature_names for {self.n_features_in_} features")
        return [str(name) for name in names]

    def _kind(self, task: Task, names: Sequence[str] | None) -> Kind:
        """The kind of model to be trained."""
        classes = None if task == "regression" else self.classes_
        n_outputs = len(self.classes_) if task == "multiclass" else 1
        columns = names or [f"Column_{i}" for i in range(self.n_features_in_)]
        return Kind(task, n_outputs, safe_names(columns), classes)

    def _check_certified_only(self, plain_accuracy: float | None) -> None:
        """Say what has no effect without certified training.

        An argument of `fit` is refused. A parameter may stay behind when `certified` is switched,
        by a search or by hand: a warning names it.
        """
        if self.certified:
            return
        if plain_accuracy is not None:
            raise CarveError("plain_accuracy has no meaning without certified=True")
        for name in ("quietness", "clean_loss"):
            if not self._is_default(name):
                warnings.warn(
                    f"{name}={getattr(self, name)!r} has no effect without certified=True",
                    UserWarning,
                    stacklevel=4,
                )

    def _warn_of_constant(self, n_rows: int, min_child_samples: int) -> None:
        """Say why the model has no split; called by what `fit` or `tune` call."""
        if n_rows < 2 * min_child_samples:
            reason = (
                f"{n_rows} rows are fewer than two leaves of min_child_samples={min_child_samples}"
            )
        elif self.stopped_because_ == "no thresholds left":
            reason = "no feature separates the labels"
        elif self.stopped_because_ == "interrupted":
            reason = "training was interrupted before the first split"
        else:
            reason = (
                "no sample of rows or features had a split worth keeping; raise subsample or "
                "colsample_bytree"
            )
        warnings.warn(f"the model is constant: {reason}", UserWarning, stacklevel=4)

    def _certify(self, boosting: Boosting, plain_accuracy: float | None) -> Boosted:
        """Certified training: the chosen model and how it was grown; sets the report."""
        for name in ("scale_pos_weight", "is_unbalance"):
            if name in boosting.parameters:
                raise CarveError(
                    f"certified training cannot honour {name}; use class_weight instead"
                )
        evaluation = boosting.evaluation
        quietness = check_quietness(self.quietness, boosting.attacker.norm)
        clean_loss = check_clean_loss(self.clean_loss)
        if clean_loss is not None and plain_accuracy is None:
            plain_accuracy = plain_accuracy_of(
                boosting.data,
                evaluation.sets[0],
                boosting.parameters,
                n_rounds=boosting.n_rounds,
                early_stopping_rounds=evaluation.early_stopping_rounds,
                threads=boosting.threads,
            )
        tell = print_line if self.verbose else lambda _: None
        job = Job(boosting, quietness, plain_accuracy, clean_loss, tell)
        self.training_report_, boosted = job.run()
        return boosted

    def _attacker(self, names: Sequence[str] | None) -> Attacker:
        given = Attacker(
            self.norm, self.budget, scale=self.scale, features=self.features, bounds=self.bounds
        )
        return inputs.resolve_attacker(given, self.n_features_in_, names)

    @abstractmethod
    def _encode(self, y: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
        """Labels as training takes them."""

    @abstractmethod
    def _transform(self, raw: Floats) -> Floats:
        """From raw scores (n, n_outputs) to what LightGBM's `predict` would say."""

    # ── the fitted model ─────────────────────────────────────────────────────────────────────

    def _adopt(self, model: Model, attacker: Attacker, X: npt.NDArray[Any]) -> None:
        """Take over a trained model, unless it is not large-spread; X are its training rows."""
        require_large_spread(model.ensemble, attacker)
        self._write(model, X)
        self.ensemble_ = model.ensemble
        self.attacker_ = attacker

    def _write(self, model: Model, X: npt.NDArray[Any]) -> None:
        self.booster_ = model.booster(X)

    def _outcome(self) -> dict[str, Any]:
        """How training went: what `fit` sets beside the model."""
        names = [*_OUTCOME, *(["training_report_"] if hasattr(self, "training_report_") else [])]
        return {name: getattr(self, name) for name in names}

    def _set_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Take over what `_outcome` returned."""
        for name, value in outcome.items():
            setattr(self, name, value)

    def _predict(self, X: Any, **options: Any) -> Floats:
        check_is_fitted(self, "booster_")
        rows = inputs.check_rows(self, X)
        threads = inputs.thread_count(self.n_jobs)
        return np.asarray(self.booster_.predict(rows, num_threads=threads, **options))

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the model as LightGBM's text, which LightGBM and `carvegbm.load` read."""
        from carvegbm.keeping.files import replacing

        check_is_fitted(self, "booster_")
        with replacing(path) as temporary:
            temporary.write_text(self.booster_.model_to_string(), encoding="utf-8")

    @property
    def feature_importances_(self) -> npt.NDArray[np.int64]:
        """Number of splits per feature."""
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.feature_importance("split"))


def _outcome_of(boosted: Boosted) -> dict[str, Any]:
    return {
        "n_iter_": boosted.best_round,
        "best_iteration_": boosted.best_round,
        "best_score_": boosted.best_value,
        "evals_result_": boosted.history,
        "stopped_because_": boosted.stopped_because,
        "n_open_thresholds_": boosted.n_open,
    }
