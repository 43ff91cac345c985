"""Base class of the estimators that robust training fits: parameters, and the fit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from math import isinf
from typing import Any

from carvegbm.attacker import check_norm
from carvegbm.errors import CarveError, DataError
from carvegbm.training import inputs
from carvegbm.training.dataset import Dataset
from carvegbm.training.estimator import Estimator, Trained
from carvegbm.training.evaluation import EvalArguments
from carvegbm.training.model import ModelSpec
from carvegbm.training.parameterised import LEARNING
from carvegbm.training.parameters import main_name, unknown_parameter
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.settings import (
    AUTO,
    LEARNING_DEFAULTS,
    ROUNDS_OF_MANY_CLASSES,
    WITNESS_DEFAULTS,
    WITNESS_ROUNDS_OF_MANY_CLASSES,
    RobustSettings,
    check_learning,
)
from carvegbm.training.spec import TrainSpec

__all__ = ["Robust"]

_SETTINGS = ("colsample_bynode", "max_bin", "n_members", "leaf_l2", "max_crowding", "clean_loss")


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
        shared = not isinf(check_norm(self.norm))
        if name == "n_estimators" and len(getattr(self, "classes_", ())) > 2:
            return WITNESS_ROUNDS_OF_MANY_CLASSES if shared else ROUNDS_OF_MANY_CLASSES
        return (WITNESS_DEFAULTS if shared else LEARNING_DEFAULTS).get(name)

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
        for name in ("eval_metric", "callbacks"):
            if getattr(asked, name) is not None:
                raise CarveError(
                    f"{name} cannot be honoured: robust training watches worst cases, and chooses "
                    "by proven robustness; drop it, or use LargeSpreadClassifier(certified=True)"
                )
        parameters = self._lightgbm_parameters(kind.n_outputs)
        n_rounds = self._n_rounds()
        attacker = self._attacker(names, kind.categories)
        settings = RobustSettings.of({n: getattr(self, n) for n in _SETTINGS}, attacker.norm)
        if kind.task == "regression" and settings.clean_loss is not None:
            raise CarveError(
                "clean_loss has no meaning for regression, which has no accuracy; drop it"
            )
        # What grows and refits goes over rows again and again, column by column.
        data = data.dense()
        sets = [rows.dense() for rows in asked.sets(self, self._encode)]
        blank, split_off = kind.blank(), False
        inputs.check_instances(attacker, blank, data.X)
        if sets:
            inputs.check_instances(attacker, blank, sets[0].X, "eval_set 0")
        else:
            data, held_out = self._split_off(data, stratify=kind.task != "regression")
            sets, split_off = [held_out], held_out.X is not data.X
        spec = TrainSpec(
            attacker,
            kind,
            parameters,
            n_rounds,
            evaluation=asked.evaluation(sets, self._transform),
            threads=inputs.thread_count(self.n_jobs),
            verbose=int(self.verbose),
            log=self._log(),
        )
        stop = asked.early_stopping_rounds
        settings = replace(
            settings,
            early_stopping_rounds=stop,
            least_rows_given=self.min_child_samples is not None,
            split_off=split_off,
        )
        return self._run(Boosting(spec, data), settings, plain_accuracy)

    def _n_rounds(self) -> int:
        return inputs.whole_number("n_estimators", self._value("n_estimators"))

    def _run(
        self, boosting: Boosting, settings: RobustSettings, plain_accuracy: float | None
    ) -> Trained:
        from carvegbm.training.robust.job import RobustJob

        spec, data = boosting.spec, boosting.data
        plain = self._plain_accuracy(spec, data, settings.clean_loss, plain_accuracy)
        tell = self._log()
        is_given = plain_accuracy is not None
        job = RobustJob(boosting, settings, plain_accuracy=plain, is_given=is_given, tell=tell)
        report, boosted = job.run()
        return Trained(spec, data, boosted, report)

    def _split_off(self, data: Dataset, stratify: bool) -> tuple[Dataset, Dataset]:
        """Training and validation rows; of too few rows, all serve as both."""
        seed = inputs.seed_from(self.random_state)
        try:
            return data.split(seed, stratify)
        except DataError:
            warnings.warn(
                f"{len(data)} rows are too few to split validation data off: trials are "
                "judged on the rows they were trained on; give eval_set",
                UserWarning,
                stacklevel=5,
            )
            return data, replace(data, name="valid_0")

    def _why_constant(self) -> str:
        return (
            f"no split helps against an attacker of norm {self.norm} and budget {self.budget:g}; "
            "lower the budget, scale the data, name the features it can change, or, if you gave "
            "max_crowding, raise it"
        )
