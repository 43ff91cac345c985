"""What the large-spread classifier and regressor share: parameters, fitting, the fitted model.

Comes in: checked rows and labels. Goes out: a LightGBM Booster, the same as an `Ensemble`, and
how training went.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Task
from carvegbm.errors import CarveError, DataError
from carvegbm.training import inputs
from carvegbm.training.boosting import Boosted, Evaluation, Rows, boost, candidates_of
from carvegbm.training.certified import (
    Job,
    TrainingReport,
    check_clean_loss,
    check_quietness,
    plain_accuracy_of,
)
from carvegbm.training.model_text import safe_names
from carvegbm.training.parameters import check_parameters, main_name
from carvegbm.training.quiet import QUIETNESS
from carvegbm.training.reporting import print_line
from carvegbm.training.thresholds import Candidates
from carvegbm.training.watching import Metric, metric_list

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
_PASSED_ON = (
    "num_leaves",
    "max_depth",
    "learning_rate",
    "min_child_samples",
    "min_child_weight",
    "min_split_gain",
    "subsample",
    "subsample_freq",
    "colsample_bytree",
    "reg_alpha",
    "reg_lambda",
    "max_bin",
)


class LargeSpreadEstimator(BaseEstimator):  # type: ignore[misc]
    """What the classifier and the regressor share."""

    def __init__(
        self,
        *,
        norm: int | float | str = "inf",
        budget: float = 0.01,
        scale: Any = None,
        features: Any = None,
        bounds: Any = None,
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
        quietness: Any = QUIETNESS,
        clean_loss: float | None = 0.01,
        **lightgbm_parameters: Any,
    ) -> None:
        self.norm = norm
        self.budget = budget
        self.scale = scale
        self.features = features
        self.bounds = bounds
        self.n_estimators = n_estimators
        self.num_leaves = num_leaves
        self.max_depth = max_depth
        self.learning_rate = learning_rate
        self.min_child_samples = min_child_samples
        self.min_child_weight = min_child_weight
        self.min_split_gain = min_split_gain
        self.subsample = subsample
        self.subsample_freq = subsample_freq
        self.colsample_bytree = colsample_bytree
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.max_bin = max_bin
        self.objective = objective
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.certified = certified
        self.quietness = quietness
        self.clean_loss = clean_loss
        for name, value in lightgbm_parameters.items():
            setattr(self, name, value)

    # ── parameters ───────────────────────────────────────────────────────────────────────────

    def _other_parameters(self) -> dict[str, Any]:
        """LightGBM's parameters that are not named in the signature."""
        named = inspect.signature(type(self).__init__).parameters
        return {
            name: value
            for name, value in vars(self).items()
            if name not in named and not name.startswith("_") and not name.endswith("_")
        }

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, LightGBM's own included."""
        return {**super().get_params(deep), **self._other_parameters()}

    def set_params(self, **params: Any) -> LargeSpreadEstimator:
        """Set parameters by name, LightGBM's own included; `fit` judges them."""
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def lightgbm_parameters(self, n_classes: int) -> dict[str, Any]:
        """What LightGBM is told, under its own names, for so many outputs."""
        others = self._other_parameters()
        taken = {main_name(name) for name in others}
        defaults = inspect.signature(LargeSpreadEstimator.__init__).parameters
        named = {
            name: getattr(self, name)
            for name in _PASSED_ON
            if main_name(name) not in taken or getattr(self, name) != defaults[name].default
        }
        checked = check_parameters({**named, **others})
        seed = inputs.seed_from(self.random_state)
        if seed is not None:
            checked["seed"] = seed
            checked.setdefault("data_random_seed", seed)
        checked.setdefault("deterministic", True)
        return {**checked, **self._objective(n_classes)}

    def _objective(self, n_classes: int) -> dict[str, Any]:
        raise NotImplementedError

    # ── fitting ──────────────────────────────────────────────────────────────────────────────

    def _fit(
        self,
        rows: Rows,
        encode: Callable[[Any, str], npt.NDArray[Any]],
        *,
        task: Task,
        n_outputs: int,
        eval_set: Any,
        eval_names: Sequence[str] | None,
        eval_sample_weight: Sequence[Any] | None,
        eval_metric: Metric | Sequence[Metric] | None,
        early_stopping_rounds: int | None,
        callbacks: Sequence[Callable[[Any], Any]] | None,
        feature_names: Sequence[str] | None,
        plain_accuracy: float | None = None,
    ) -> None:
        self.__dict__.pop("training_report_", None)
        parameters = self.lightgbm_parameters(n_outputs)
        all_rounds = inputs.whole_number("n_estimators", self.n_estimators)
        if early_stopping_rounds is not None:
            inputs.whole_number("early_stopping_rounds", early_stopping_rounds)
        self._check_certified_only(plain_accuracy)
        names = self._names(feature_names)
        attacker = self._attacker(names)
        sets = self._evaluation_rows(eval_set, eval_names, eval_sample_weight, encode)
        if self.certified and not sets:
            rows, held_out = _split_off(rows, inputs.seed_from(self.random_state))
            sets = [held_out]
        evaluation = Evaluation(
            sets=sets,
            metrics=metric_list(eval_metric),
            early_stopping_rounds=early_stopping_rounds,
            callbacks=_callback_list(callbacks),
            transform=self._transform,
        )
        threads = inputs.thread_count(self.n_jobs)

        def grow(candidates: Candidates | None, n_rounds: int | None) -> Boosted:
            scouting = n_rounds is not None
            return boost(
                rows,
                attacker,
                parameters,
                task=task,
                n_outputs=n_outputs,
                n_rounds=min(all_rounds, n_rounds or all_rounds),
                evaluation=Evaluation() if scouting else evaluation,
                candidates=candidates,
                threads=threads,
                verbose=0 if scouting else int(self.verbose),
            )

        def write(boosted: Boosted) -> str:
            columns = names or [f"Column_{i}" for i in range(self.n_features_in_)]
            return boosted.text(safe_names(columns), f"multiclass num_class:{n_outputs}")

        if self.certified:
            attacker.check_instances(inputs.blank_ensemble(self.n_features_in_, names), sets[0].X)
            boosted, text = self._certify(
                rows, evaluation, attacker, parameters, threads, grow, write, plain_accuracy
            )
        else:
            boosted = grow(None, None)
            text = write(boosted)
        self._adopt(boosted, text, attacker)
        if self.n_iter_ == 0:
            self._warn_of_constant(len(rows.X), parameters["min_data_in_leaf"])

    def _check_certified_only(self, plain_accuracy: float | None) -> None:
        """Say what has no effect without certified training.

        An argument of `fit` is refused. A parameter may stay behind when `certified` is switched,
        by a search or by hand: a warning names it.
        """
        if self.certified:
            return
        if plain_accuracy is not None:
            raise CarveError("plain_accuracy has no meaning without certified=True")
        defaults = inspect.signature(LargeSpreadEstimator.__init__).parameters
        for name in ("quietness", "clean_loss"):
            if not _same(getattr(self, name), defaults[name].default):
                warnings.warn(
                    f"{name}={getattr(self, name)!r} has no effect without certified=True",
                    UserWarning,
                    stacklevel=4,
                )

    def _warn_of_constant(self, n_rows: int, min_child_samples: int) -> None:
        """Say why the model has no split; called by what `fit` or `restore` call."""
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

    def _certify(
        self,
        rows: Rows,
        evaluation: Evaluation,
        attacker: Attacker,
        parameters: dict[str, Any],
        threads: int,
        grow: Callable[[Candidates, int | None], Boosted],
        write: Callable[[Boosted], str],
        plain_accuracy: float | None,
    ) -> tuple[Boosted, str]:
        """Certified training: how the chosen model was grown, and its text; sets the report."""
        for name in ("scale_pos_weight", "is_unbalance"):
            if name in parameters:
                raise CarveError(
                    f"certified training cannot honour {name}; use class_weight instead"
                )
        valid = evaluation.sets[0]
        quietness = check_quietness(self.quietness, attacker.norm)
        clean_loss = check_clean_loss(self.clean_loss)
        if clean_loss is not None and plain_accuracy is None:
            plain_accuracy = plain_accuracy_of(
                rows,
                valid,
                parameters,
                n_rounds=int(self.n_estimators),
                early_stopping_rounds=evaluation.early_stopping_rounds,
                threads=threads,
            )
        job = Job(
            rows,
            valid,
            attacker,
            candidates_of(rows, parameters, threads),
            grow,
            write,
            num_leaves=int(parameters.get("num_leaves", self.num_leaves)),
            quietness=quietness,
            plain_accuracy=plain_accuracy,
            clean_loss=clean_loss,
            classes=self.classes_,
            threads=threads,
            tell=print_line if self.verbose else lambda _: None,
        )
        self.training_report_ = job.run()
        chosen = self.training_report_.chosen
        boosted = job.outcome(chosen)
        if job.interrupted:
            boosted = replace(boosted, stopped_because="interrupted")
        return boosted, chosen.text

    def _names(self, given: Sequence[str] | None) -> list[str] | None:
        """The features' names: those of the frame, or those given, or none."""
        names = getattr(self, "feature_names_in_", given)
        if names is None:
            return None
        names = list(names)
        if len(names) != self.n_features_in_:
            raise DataError(f"{len(names)} feature_names for {self.n_features_in_} features")
        return [str(name) for name in names]

    def _attacker(self, names: list[str] | None) -> Attacker:
        given = Attacker(
            self.norm, self.budget, scale=self.scale, features=self.features, bounds=self.bounds
        )
        return inputs.resolve_attacker(given, self.n_features_in_, names)

    def _evaluation_rows(
        self,
        eval_set: Any,
        names: Sequence[str] | None,
        weights: Sequence[Any] | None,
        encode: Callable[[Any, str], npt.NDArray[Any]],
    ) -> list[Rows]:
        pairs = inputs.evaluation_pairs(eval_set)
        names = [names] if isinstance(names, str) else names
        for given, what in ((names, "eval_names"), (weights, "eval_sample_weight")):
            if given is not None and not pairs:
                raise DataError(f"{what} needs eval_set; give validation data to fit")
            if given is not None and (n_given := _count(given, what)) != len(pairs):
                raise DataError(
                    f"{what} has {n_given} entries, eval_set has {len(pairs)} pairs (X, y); give "
                    "a list with one entry per pair"
                )
        found = []
        for i, (X, y) in enumerate(pairs):
            what = f"eval_set {i}"
            X, y = inputs.check_pair(self, X, y, what=what)
            weight = None if weights is None else inputs.check_weight(weights[i], len(X), what)
            name = f"valid_{i}" if names is None else str(names[i])
            found.append(Rows(X, encode(y, what), weight, name))
        if len({rows.name for rows in found}) < len(found):
            raise DataError("eval_names must be different from one another")
        return found

    def outcome(self) -> dict[str, Any]:
        """How training went: what `fit` sets beside the model, as plain values."""
        found = {name: getattr(self, name) for name in _OUTCOME}
        if hasattr(self, "training_report_"):
            found["training_report_"] = self.training_report_.to_dict(texts=True)
        return found

    def _set_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Take over what `outcome` returned."""
        self.__dict__.pop("training_report_", None)
        for name in _OUTCOME:
            setattr(self, name, outcome[name])
        if "training_report_" in outcome:
            self.training_report_ = TrainingReport.from_dict(outcome["training_report_"])

    def _adopt(self, boosted: Boosted, text: str, attacker: Attacker) -> None:
        """Take over the outcome of training."""
        self._set_model(text, attacker)
        self.n_iter_ = boosted.best_round
        self.best_iteration_ = boosted.best_round
        self.best_score_ = boosted.best_value
        self.evals_result_ = boosted.history
        self.stopped_because_ = boosted.stopped_because
        self.n_open_thresholds_ = boosted.n_open

    def _set_model(self, text: str, attacker: Attacker) -> None:
        """Take over a model text, unless it is not large-spread."""
        import lightgbm

        from carvegbm.readers import load
        from carvegbm.spread import require_large_spread

        booster = lightgbm.Booster(model_str=text)
        ensemble = load(booster, classes=getattr(self, "classes_", None))
        require_large_spread(ensemble, attacker)
        self.booster_ = booster
        self.ensemble_ = ensemble
        self.attacker_ = attacker

    # ── the fitted model ─────────────────────────────────────────────────────────────────────

    def _transform(self, raw: Floats) -> Floats:
        """From raw scores (n, n_outputs) to what LightGBM's `predict` would say."""
        raise NotImplementedError

    def _predict(self, X: Any, **options: Any) -> Floats:
        check_is_fitted(self, "booster_")
        rows = inputs.check_rows(self, X)
        threads = inputs.thread_count(self.n_jobs)
        return np.asarray(self.booster_.predict(rows, num_threads=threads, **options))

    def save_model(self, path: str | os.PathLike[str]) -> None:
        """Write the model as LightGBM's text, which LightGBM and `carvegbm.load` read."""
        from carvegbm.files import replacing

        check_is_fitted(self, "booster_")
        with replacing(path) as temporary:
            temporary.write_text(self.booster_.model_to_string(), encoding="utf-8")

    @property
    def feature_importances_(self) -> npt.NDArray[np.int64]:
        """Number of splits per feature."""
        check_is_fitted(self, "booster_")
        return np.asarray(self.booster_.feature_importance("split"))


def _callback_list(
    given: Sequence[Callable[[Any], Any]] | None,
) -> tuple[Callable[[Any], Any], ...]:
    callbacks = given if isinstance(given, Iterable) else () if given is None else (given,)
    found = tuple(callbacks)
    for callback in found:
        if not callable(callback):
            raise CarveError(f"callbacks must be a list of functions, got {callback!r}")
    return found


def _count(given: Any, what: str) -> int:
    if not isinstance(given, Sized):
        raise DataError(f"{what} must be a list, got {given!r}")
    return len(given)


def _same(value: Any, default: Any) -> bool:
    """Whether a parameter has its default value, which may be a tuple given as a list."""
    if isinstance(default, tuple):
        several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
        return several and tuple(value) == default
    return bool(value == default)


def _split_off(rows: Rows, seed: int | None) -> tuple[Rows, Rows]:
    """Training and validation rows: a stratified fifth is split off."""
    kept, rest = inputs.split_off(rows.labels, seed)

    def part(positions: npt.NDArray[np.int64], name: str) -> Rows:
        weight = None if rows.weight is None else rows.weight[positions]
        return Rows(rows.X[positions], rows.labels[positions], weight, name)

    return part(kept, rows.name), part(rest, "valid_0")
