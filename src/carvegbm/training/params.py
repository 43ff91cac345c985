"""Parameters: checks of values, LightGBM's names and aliases, and what training refuses."""

from __future__ import annotations

import ctypes
import difflib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from carvegbm.errors import CarveError

__all__ = ["AUTO", "LEARNING_PARAMETERS", "REGRESSION_OBJECTIVES", "RobustSettings"]
__all__ += [
    "check_max_crowding",
    "check_number",
    "check_numbers",
    "check_parameters",
    "main_name",
    "refusal_of",
]

AUTO = "auto"
"""Value of parameters that `fit` chooses."""

LEARNING_PARAMETERS = (
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

REGRESSION_OBJECTIVES = {
    **dict.fromkeys(
        ("regression", "regression_l2", "l2", "mean_squared_error", "mse"), "regression"
    ),
    **dict.fromkeys(("regression_l1", "l1", "mean_absolute_error", "mae"), "regression_l1"),
    **{name: name for name in ("huber", "fair", "poisson", "quantile", "mape", "gamma", "tweedie")},
}
"""Main names of the objectives of regressors, by LightGBM's names for them."""

_LARGEST = sys.float_info.max

_LIMITS: Mapping[str, Mapping[str, Any]] = {
    "bagging_fraction": {"low": 0, "high": 1, "is_open": True},
    "bagging_freq": {"low": 0, "high": 1, "whole": True},
    "bin_construct_sample_cnt": {"low": 1, "whole": True},
    "feature_fraction": {"low": 0, "high": 1, "is_open": True},
    "lambda_l1": {"low": 0},
    "lambda_l2": {"low": 0},
    "learning_rate": {"low": 0, "is_open": True},
    "max_bin": {"low": 1, "high": 65_534, "whole": True},
    "max_depth": {"low": -1, "whole": True},
    "min_data_in_bin": {"low": 1, "whole": True},
    "min_data_in_leaf": {"low": 1, "whole": True},
    "min_gain_to_split": {"low": 0},
    "min_sum_hessian_in_leaf": {"low": 0},
    "num_leaves": {"low": 2, "high": 131_072, "whole": True},
}
"""Arguments of `check_number`. A sample of rows serves one tree: thresholds close between trees."""

_REQUIRED: Mapping[str, tuple[Any, str]] = {
    "boosting": ("gbdt", "only gradient boosting adds trees that never change again"),
    "device_type": ("cpu", "histograms are built on the CPU"),
    "enable_bundle": (False, "every feature keeps a column of its own"),
    "force_col_wise": (True, "histograms are built by column"),
    "force_row_wise": (False, "histograms are built by column"),
    "is_enable_sparse": (False, "columns are dense"),
    "linear_tree": (False, "verification needs constant leaves"),
    "tree_learner": ("serial", "training runs on one machine"),
    "use_missing": (True, "a missing value is NaN; fill in another one yourself"),
    "zero_as_missing": (False, "a missing value is NaN; write NaN for 0 yourself"),
}
"""Parameters with the only value that training supports."""

_REFUSED: Mapping[str, str] = {
    "bagging_by_query": "rows have no queries",
    "categorical_feature": "give it to fit",
    "config": "give its parameters to the estimator",
    "early_stopping_min_delta": "every improvement counts",
    "early_stopping_round": "give early_stopping_rounds to fit",
    "first_metric_only": "early stopping always watches the first metric",
    "forcedbins_filename": "thresholds are chosen from the data",
    "forcedsplits_filename": "forced splits could violate the large-spread condition",
    "input_model": "training starts without trees",
    "machines": "training runs on one machine",
    "max_bin_by_feature": "max_bin is for all features",
    "metric": "give eval_metric to fit",
    "num_class": "the number of classes is taken from y",
    "num_iterations": "it is called n_estimators here",
    "num_machines": "training runs on one machine",
    "num_threads": "it is called n_jobs here",
    "objective": "it is a parameter of the estimator",
    "seed": "it is called random_state here",
    "verbosity": "it is called verbose here",
}


@dataclass(frozen=True)
class RobustSettings:
    """Checked parameters of `RobustClassifier` beside LightGBM's; None: chosen by training.

    `leaf_l2` and `max_crowding` hold the values to compare; a `max_crowding` of (None,) leaves out
    no threshold. A `clean_loss` of None allows any.
    """

    colsample_bynode: float | None = None
    max_bin: int | None = None
    n_members: int | None = None
    leaf_l2: tuple[float, ...] | None = None
    max_crowding: tuple[float | None, ...] | None = None
    min_child_samples: int | None = None
    clean_loss: float | None = None


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = _LARGEST,
    *,
    is_open: bool = False,
    whole: bool = False,
    optional: bool = False,
) -> Any:
    """Return a number with low <= value <= high; with `is_open`, low < value <= high.

    Whole numbers come back as int. None is allowed if `optional`.
    """
    if value is None and optional:
        return None
    is_number = isinstance(value, Real) and not isinstance(value, bool | np.bool_)
    if is_number and low <= value <= high and not (is_open and value == low):
        if not whole:
            return float(value)
        if value == value // 1:
            return int(value)
    limits = f"> {low:g}" if is_open else f">= {low:g}"
    if high < _LARGEST:
        limits = f"{limits} and <= {high:g}" if is_open else f"from {low:g} to {high:g}"
    number = ("None or " if optional else "") + ("a whole number" if whole else "a number")
    raise CarveError(f"{name} must be {number} {limits}, got {value!r}")


def check_numbers(name: str, given: Any, *limits: float, **options: Any) -> Any:
    """Return the different values of a parameter that is a number or a sequence of numbers.

    The arguments are those of `check_number`.
    """
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values = tuple(given) if several else (given,)
    if not values:
        raise CarveError(f"{name} must hold at least one value, got {given!r}")
    return tuple(dict.fromkeys(check_number(name, each, *limits, **options) for each in values))


def check_max_crowding(given: Any, norm: float) -> tuple[float | None, ...]:
    """Return the values of `max_crowding` to try; norm 0 does not use it."""
    values: tuple[float | None, ...] = check_numbers(
        "max_crowding", given, 0, 1, is_open=True, optional=True
    )
    return (None,) if norm == 0 else values


def check_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return LightGBM's parameters under their main names.

    Unknown, repeated and unsupported ones are refused.
    """
    checked: dict[str, Any] = {}
    source: dict[str, str] = {}
    for name, value in given.items():
        main = main_name(name)
        if main in source:
            raise CarveError(
                f"{name} and {source[main]} are one LightGBM parameter; give only one of them"
            )
        source[main] = name
        if main in _REFUSED:
            raise CarveError(f"{name} cannot be honoured: {_REFUSED[main]}")
        if main in _REQUIRED:
            required, reason = _REQUIRED[main]
            texts = {str(required).lower(), str(int(required)) if required in (0, 1) else ""}
            if str(value).lower() not in texts:
                raise CarveError(f"{name} must be {required!r}, got {value!r}: {reason}")
            continue
        if main in _LIMITS:
            check_number(name, value, **_LIMITS[main])
        checked[main] = value
    return checked


def main_name(name: str) -> str:
    """Return LightGBM's main name of a parameter; refuse a name LightGBM does not know."""
    names = _main_names()
    if name not in names:
        raise CarveError(_unknown("LightGBM", name, names, "see LightGBM's list of parameters"))
    return names[name]


def refusal_of(name: str, owner: str, own_names: Iterable[str]) -> str:
    """Return why robust training refuses a parameter that is not in an estimator's signature."""
    aliases, own = _main_names(), list(own_names)
    if name not in aliases:
        return _unknown(owner, name, dict(zip(own, own, strict=True)), "see its documentation")
    for each in own:
        if aliases.get(each) == aliases[name]:
            return f"{name} cannot be honoured: it is called {each} here"
    return (
        f"{name} cannot be honoured: robust training grows its own trees, and has no parameters "
        "but those of its signature; drop it, or use LargeSpreadClassifier(certified=True)"
    )


def _unknown(owner: str, name: str, known: Mapping[str, str], otherwise: str) -> str:
    """Return the message about a name that is unknown; `known` maps names to the one to use."""
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {known[near[0]]}?" if near else otherwise
    if name == "attacker":
        remedy = "give the attacker's own parameters: **attacker.arguments()"
    return f"{owner} has no parameter {name!r}; {remedy}"


@lru_cache(maxsize=1)
def _main_names() -> dict[str, str]:
    """Return the main name of every name that LightGBM knows."""
    from lightgbm.basic import _LIB

    buffer = ctypes.create_string_buffer(1 << 20)
    length = ctypes.c_int64(0)
    _LIB.LGBM_DumpParamAliases(ctypes.c_int64(len(buffer)), ctypes.byref(length), buffer)
    aliases: dict[str, list[str]] = json.loads(buffer.value)
    return {name: main for main, others in aliases.items() for name in (main, *others)}
