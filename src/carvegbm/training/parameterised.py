"""Parameters of estimators: those of their signature, and LightGBM's under any of its names.

Comes in: what a user, a search or a clone sets. Goes out: LightGBM's parameters, checked when
`fit` asks for them.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from carvegbm.training import inputs
from carvegbm.training.parameters import check_parameters

__all__ = ["LEARNING", "Parameterised"]

LEARNING = (
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
)
"""LightGBM's parameters in the signature of every estimator, under scikit-learn's names."""


class Parameterised(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator with parameters in its signature, and any number of others."""

    random_state: Any

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

    @abstractmethod
    def _lightgbm_parameters(self, n_outputs: int) -> dict[str, Any]:
        """What LightGBM is told, under its own names, for so many outputs."""

    def _told(self, given: Mapping[str, Any], n_outputs: int) -> dict[str, Any]:
        """These parameters under LightGBM's own names, with the seed and the objective."""
        checked = check_parameters(given)
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
        default = inspect.signature(type(self).__init__).parameters[name].default
        if isinstance(default, tuple):
            several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
            return several and tuple(value) == default
        return bool(value == default)
