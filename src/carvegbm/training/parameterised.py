"""The parameters of the large-spread estimators: our own, and LightGBM's under any of its names.

Comes in: what a user, a search or a clone sets. Goes out: LightGBM's parameters, checked when
`fit` asks for them.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from carvegbm.training import inputs
from carvegbm.training.certified.quiet import QUIETNESS
from carvegbm.training.parameters import check_parameters, main_name

__all__ = ["Parameterised"]

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


class Parameterised(BaseEstimator, ABC):  # type: ignore[misc]
    """The parameters that the classifier and the regressor share."""

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

    def set_params(self, **params: Any) -> Parameterised:
        """Set parameters by name, LightGBM's own included; `fit` judges them."""
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def _lightgbm_parameters(self, n_outputs: int) -> dict[str, Any]:
        """What LightGBM is told, under its own names, for so many outputs."""
        others = self._other_parameters()
        taken = {main_name(name) for name in others}
        named = {
            name: getattr(self, name)
            for name in _PASSED_ON
            if main_name(name) not in taken or not self._is_default(name)
        }
        checked = check_parameters({**named, **others})
        seed = inputs.seed_from(self.random_state)
        if seed is not None:
            checked["seed"] = seed
            checked.setdefault("data_random_seed", seed)
        checked.setdefault("deterministic", True)
        return {**checked, **self._objective(n_outputs)}

    @abstractmethod
    def _objective(self, n_outputs: int) -> dict[str, Any]:
        """What LightGBM minimises."""

    def _is_default(self, name: str) -> bool:
        """Whether a parameter has its default value, which may be a tuple given as a list."""
        value = getattr(self, name)
        default = inspect.signature(Parameterised.__init__).parameters[name].default
        if isinstance(default, tuple):
            several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
            return several and tuple(value) == default
        return bool(value == default)
