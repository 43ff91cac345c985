"""Base class of the estimators that robust training fits: parameters, and the fit."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import isinf
from typing import Any

from carvegbm.errors import CarveError, DataError
from carvegbm.training import inputs
from carvegbm.training.dataset import Dataset
from carvegbm.training.estimator import Estimator, Trained
from carvegbm.training.evaluation import EvalArguments
from carvegbm.training.large_spread.trainer import MAX_CROWDING, Certified, LargeSpreadTrainer
from carvegbm.training.model import ModelSpec
from carvegbm.training.parameterised import LEARNING
from carvegbm.training.parameters import check_max_crowding, main_name, unknown_parameter
from carvegbm.training.report import TrainingReport
from carvegbm.training.robust.bounds import BoundTrainer
from carvegbm.training.robust.settings import (
    AUTO,
    LEARNING_DEFAULTS,
    MULTICLASS_ROUNDS,
    SMALL_TREES,
    RobustSettings,
    check_learning,
)
from carvegbm.training.robust.trainer import FEW_ROWS
from carvegbm.training.robust.witnesses import StagedWitnessTrainer, WitnessTrainer
from carvegbm.training.search import Search
from carvegbm.training.spec import FitResult, Trainer, TrainSpec

__all__ = ["Robust"]

_MAX_VALID = 10_000  # rows that are split off for validation


class Robust(Estimator):
    """An estimator whose trees are grown against its attacker."""

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
        self.norm = norm
        self.budget = budget
        self.scale = scale
        self.features = features
        self.bounds = bounds
        self.step = step
        self.categories = categories
        self.one_hot = one_hot
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
        self.colsample_bynode = colsample_bynode
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.max_bin = max_bin
        self.n_members = n_members
        self.leaf_l2 = leaf_l2
        self.max_crowding = max_crowding
        self.clean_loss = clean_loss
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.time_limit = time_limit
        for name, value in lightgbm_parameters.items():
            setattr(self, name, value)

    def _lightgbm_parameters(self, n_outputs: int) -> dict[str, Any]:
        for name in self._other_parameters():
            raise CarveError(self._why_not(name))
        given = {name: self._value(name) for name in LEARNING}
        check_learning(given)
        return self._told(given, n_outputs)

    def _value(self, name: str) -> Any:
        """A parameter, or what robust training takes where it is None."""
        value = getattr(self, name)
        if value is not None:
            return value
        if name == "n_estimators" and len(getattr(self, "classes_", ())) > 2:
            return MULTICLASS_ROUNDS
        return LEARNING_DEFAULTS.get(name)

    def _why_not(self, name: str) -> str:
        """A line about a parameter that is not in the signature."""
        try:
            main = main_name(name)
        except CarveError:
            known = {own: own for own in self._get_param_names()}
            return unknown_parameter(type(self).__name__, name, known, "see its documentation")
        ours = {main_name(n): n for n in (*LEARNING, "max_bin", "colsample_bynode")}
        ours |= {"num_iterations": "n_estimators", "num_threads": "n_jobs"}
        ours |= {"seed": "random_state", "verbosity": "verbose"}
        if main in ours:
            return f"{name} cannot be honoured: it is called {ours[main]} here"
        return (
            f"{name} cannot be honoured: robust training grows its own trees, and knows the "
            "parameters of its signature alone; drop it, or use LargeSpreadClassifier("
            "certified=True)"
        )

    # ── the fit ──────────────────────────────────────────────────────────────────────────────

    def _trained(
        self,
        data: Dataset,
        asked: EvalArguments,
        kind: ModelSpec,
        names: Sequence[str] | None,
        plain_accuracy: float | None,
    ) -> Trained:
        if asked.eval_metric is not None:
            raise CarveError(
                "eval_metric cannot be honoured: robust training watches worst cases, and chooses "
                "by proven robustness; drop it, or use LargeSpreadClassifier(certified=True)"
            )
        parameters = self._lightgbm_parameters(kind.n_outputs)
        n_rounds = self._n_rounds()
        attacker = self._attacker(names, kind.categories)
        names_of_settings = RobustSettings.__dataclass_fields__
        settings = RobustSettings.of(
            {n: getattr(self, n) for n in names_of_settings}, attacker.norm
        )
        if kind.task == "regression" and settings.clean_loss is not None:
            raise CarveError(
                "clean_loss has no meaning for regression, which has no accuracy; drop it"
            )
        data = data.dense()
        sets = [rows.dense() for rows in asked.sets(self, self._encode)]
        inputs.check_instances(attacker, kind.blank(), data.X)
        if sets:
            inputs.check_instances(attacker, kind.blank(), sets[0].X, "eval_set 0")
        limit = settings.time_limit
        spec = TrainSpec(
            attacker,
            kind,
            parameters,
            n_rounds,
            threads=inputs.thread_count(self.n_jobs),
            verbose=int(self.verbose),
            deadline=None if limit is None else time.monotonic() + limit,
            log=self._log(),
        )
        report, result = self._search(spec, settings, data, sets, asked, plain_accuracy)
        return Trained(spec, data, result, report)

    def _search(
        self,
        spec: TrainSpec,
        settings: RobustSettings,
        data: Dataset,
        sets: Sequence[Dataset],
        asked: EvalArguments,
        plain_accuracy: float | None,
    ) -> tuple[TrainingReport, FitResult]:
        """Search the configurations that suit the attacker, on validation rows or folds."""
        stratify = spec.model.task != "regression"
        seed = inputs.seed_from(self.random_state) or 0
        folds = not sets and len(data) < FEW_ROWS and data.has_rows_for_folds(stratify)
        train = valid = data
        if sets:
            valid = sets[0]
        elif not folds:
            train, valid = self._split_off(data, seed, stratify)
        watches = bool(sets or asked.early_stopping_rounds is not None or asked.callbacks)
        evaluation = asked.evaluation(sets or [valid] * watches, self._transform)
        spec = replace(spec, evaluation=evaluation)
        trainers: list[Trainer] = []
        plain = BoundTrainer(spec, settings)
        if isinf(spec.attacker.norm):
            trainers.append(plain)
        else:
            small = self._small_trees(spec)
            staged = len(data) < FEW_ROWS or spec.attacker.norm == 0
            trainers.append(
                StagedWitnessTrainer(small, settings) if staged else WitnessTrainer(spec, settings)
            )
            if spec.model.task != "regression" and not folds:
                tried = settings.max_crowding or MAX_CROWDING
                certified = Certified(check_max_crowding(tried, spec.attacker.norm), None, None)
                trainers.append(LargeSpreadTrainer(replace(spec, verbose=0), certified))
        search = Search(
            spec,
            trainers,
            (plain, plain.plain_params()),
            clean_loss=settings.clean_loss,
            plain_accuracy=plain_accuracy,
        )
        if folds:
            report, result = search.by_folds(data, seed)
        else:
            was_split = not sets and train is not data
            report, result = search.on_validation_rows(train, valid, data if was_split else None)
        counted = result.model.with_counts(data.X, spec.threads)
        return report.with_model(counted), replace(result, model=counted)

    def _small_trees(self, spec: TrainSpec) -> TrainSpec:
        """Return the specification with more and smaller trees, where the user has not said."""
        params = {
            main_name(name): value
            for name, value in SMALL_TREES.items()
            if getattr(self, name) is None
        }
        n_rounds = spec.n_rounds
        if self.n_estimators is None:
            n_rounds = 3 * n_rounds  # as many leaves
        return replace(spec, params={**spec.params, **params}, n_rounds=n_rounds)

    def _n_rounds(self) -> int:
        return inputs.whole_number("n_estimators", self._value("n_estimators"))

    def _split_off(self, data: Dataset, seed: int, stratify: bool) -> tuple[Dataset, Dataset]:
        """Return training and validation rows; of too few rows, all serve as both."""
        try:
            return data.split(seed, stratify, most=_MAX_VALID)
        except DataError:
            warnings.warn(
                f"{len(data)} rows are too few to split validation data off: trials are "
                "judged on the rows they were trained on; give eval_set",
                UserWarning,
                stacklevel=6,
            )
            return data, replace(data, name="valid_0")

    def _why_constant(self) -> str:
        return (
            f"no split helps against an attacker of norm {self.norm} and budget {self.budget:g}; "
            "lower the budget, scale the data, name the features it can change, or, if you gave "
            "max_crowding, raise it"
        )
