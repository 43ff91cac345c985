"""Base class of the large-spread estimators: parameters and fit, plain or certified."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.progress import is_shown
from carvegbm.spread import require_large_spread
from carvegbm.training import inputs
from carvegbm.training.dataset import Dataset
from carvegbm.training.estimator import Estimator, Trained
from carvegbm.training.evaluation import EvalArguments
from carvegbm.training.large_spread.trainer import (
    MAX_CROWDING,
    Certified,
    LargeSpreadTrainer,
)
from carvegbm.training.model import ModelSpec
from carvegbm.training.parameterised import LEARNING
from carvegbm.training.parameters import check_clean_loss, check_max_crowding, main_name
from carvegbm.training.search import Search
from carvegbm.training.spec import TrainSpec

__all__ = ["LargeSpread"]


class LargeSpread(Estimator):
    """An estimator whose ensemble is large-spread for its attacker."""

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
        self.reg_alpha = reg_alpha
        self.reg_lambda = reg_lambda
        self.max_bin = max_bin
        self.objective = objective
        self.class_weight = class_weight
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.certified = certified
        self.max_crowding = max_crowding
        self.clean_loss = clean_loss
        for name, value in lightgbm_parameters.items():
            setattr(self, name, value)

    def _lightgbm_parameters(self, n_outputs: int) -> dict[str, Any]:
        others = self._other_parameters()
        taken = {main_name(name) for name in others}
        named = {
            name: getattr(self, name)
            for name in (*LEARNING, "max_bin")
            if main_name(name) not in taken or not self._is_default(name)
        }
        return self._told({**named, **others}, n_outputs)

    def _trained(
        self,
        data: Dataset,
        asked: EvalArguments,
        kind: ModelSpec,
        names: Sequence[str] | None,
        plain_accuracy: float | None,
    ) -> Trained:
        parameters = self._lightgbm_parameters(kind.n_outputs)
        n_rounds = self._n_rounds()
        self._check_certified_only(plain_accuracy)
        attacker = self._attacker(names, kind.categories)
        sets = asked.sets(self, self._encode)
        if self.certified:
            inputs.check_instances(attacker, kind.blank(), data.X)
            if sets:
                inputs.check_instances(attacker, kind.blank(), sets[0].X, "eval_set 0")
            else:
                data, held_out = data.split(inputs.seed_from(self.random_state))
                sets = [held_out]
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
        if self.certified:
            return self._certify(spec, data, plain_accuracy)
        ((_, result),) = LargeSpreadTrainer(spec).fit_path({}, data, None)
        return Trained(spec, data, result)

    def _n_rounds(self) -> int:
        return inputs.whole_number("n_estimators", self.n_estimators)

    def _check_certified_only(self, plain_accuracy: float | None) -> None:
        """Say what has no effect without certified training.

        An argument of `fit` is refused. A parameter may stay behind when `certified` is switched,
        by a search or by hand: a warning names it.
        """
        if self.certified:
            return
        if plain_accuracy is not None:
            raise CarveError("plain_accuracy has no meaning without certified=True")
        for name in ("max_crowding", "clean_loss"):
            if not self._is_default(name):
                warnings.warn(
                    f"{name}={getattr(self, name)!r} has no effect without certified=True",
                    UserWarning,
                    stacklevel=5,
                )

    def _certify(self, spec: TrainSpec, data: Dataset, plain_accuracy: float | None) -> Trained:
        """Certified training: the chosen model, how it was grown, and the report."""
        for name in ("scale_pos_weight", "is_unbalance"):
            if name in spec.params:
                raise CarveError(
                    f"certified training cannot honour {name}; use class_weight instead"
                )
        max_crowding = check_max_crowding(self.max_crowding, spec.attacker.norm)
        clean_loss = check_clean_loss(self.clean_loss)
        plain_accuracy = self._plain_accuracy(spec, data, clean_loss, plain_accuracy)
        certified = Certified(max_crowding, plain_accuracy, clean_loss)
        quiet = replace(spec, verbose=0) if is_shown() else spec  # one bar is enough
        trainer = LargeSpreadTrainer(quiet, certified)
        search = Search(spec, [trainer], clean_loss=clean_loss, plain_accuracy=plain_accuracy)
        report, result = search.on_validation_rows(data, spec.evaluation.sets[0])
        return Trained(spec, data, result, report)

    def _require(self, ensemble: Ensemble, attacker: Attacker) -> None:
        require_large_spread(ensemble, attacker)

    def _why_constant(self) -> str:
        if self.stopped_because_ == "no thresholds left":
            return "no feature separates the labels"
        return (
            "no sample of rows or features had a split worth keeping; raise subsample or "
            "colsample_bytree"
        )
