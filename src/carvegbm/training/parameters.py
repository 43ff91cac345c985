"""LightGBM's parameters: which pass through, which cannot be honoured, which do not exist.

Comes in: parameters under any of LightGBM's names. Goes out: the same under their main names, or
one line that names the first that cannot be used and says why.
"""

from __future__ import annotations

import ctypes
import difflib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from numbers import Real
from typing import Any

import numpy as np

from carvegbm.errors import CarveError

__all__ = ["REGRESSION_OBJECTIVES", "check_clean_loss", "check_max_crowding", "check_parameters"]
__all__ += ["main_name", "unknown_parameter"]

REGRESSION_OBJECTIVES = {
    "regression": "regression",
    "regression_l2": "regression",
    "l2": "regression",
    "mean_squared_error": "regression",
    "mse": "regression",
    "regression_l1": "regression_l1",
    "l1": "regression_l1",
    "mean_absolute_error": "regression_l1",
    "mae": "regression_l1",
    "huber": "huber",
    "fair": "fair",
    "poisson": "poisson",
    "quantile": "quantile",
    "mape": "mape",
    "gamma": "gamma",
    "tweedie": "tweedie",
}
"""Objectives of a regressor, by LightGBM's names for them."""

_LEARNING = frozenset(
    {
        "alpha",
        "auc_mu_weights",
        "bagging_fraction",
        "bagging_freq",
        "bagging_seed",
        "bin_construct_sample_cnt",
        "boost_from_average",
        "cegb_penalty_feature_coupled",
        "cegb_penalty_feature_lazy",
        "cegb_penalty_split",
        "cat_l2",
        "cat_smooth",
        "cegb_tradeoff",
        "data_random_seed",
        "data_sample_strategy",
        "deterministic",
        "extra_seed",
        "extra_trees",
        "fair_c",
        "feature_contri",
        "feature_fraction",
        "feature_fraction_bynode",
        "feature_fraction_seed",
        "histogram_pool_size",
        "interaction_constraints",
        "is_unbalance",
        "lambda_l1",
        "lambda_l2",
        "learning_rate",
        "max_bin",
        "max_cat_threshold",
        "max_cat_to_onehot",
        "max_delta_step",
        "max_depth",
        "min_data_in_bin",
        "min_data_in_leaf",
        "min_data_per_group",
        "min_gain_to_split",
        "min_sum_hessian_in_leaf",
        "monotone_constraints",
        "monotone_constraints_method",
        "monotone_penalty",
        "multi_error_top_k",
        "neg_bagging_fraction",
        "num_grad_quant_bins",
        "num_leaves",
        "objective_seed",
        "other_rate",
        "path_smooth",
        "poisson_max_delta_step",
        "pos_bagging_fraction",
        "quant_train_renew_leaf",
        "reg_sqrt",
        "scale_pos_weight",
        "seed",
        "sigmoid",
        "stochastic_rounding",
        "top_rate",
        "tweedie_variance_power",
        "use_quantized_grad",
    }
)

# What must have this value because the method rests on it; stating it is harmless.
_FIXED: dict[str, tuple[Any, str]] = {
    "boosting": ("gbdt", "only gradient boosting adds trees that never change again"),
    "device_type": ("cpu", "histograms are built on the CPU"),
    "enable_bundle": (False, "every feature keeps a column of its own"),
    "force_col_wise": (True, "histograms are built by column"),
    "force_row_wise": (False, "histograms are built by column"),
    "is_enable_sparse": (False, "columns are dense"),
    "linear_tree": (False, "verification needs constant leaves"),
    "tree_learner": ("serial", "carvegbm.dask and carvegbm.spark train on several machines"),
    "use_missing": (True, "a missing value is NaN; fill in another one yourself"),
    "zero_as_missing": (False, "a missing value is NaN; write NaN for 0 yourself"),
}

_ELSEWHERE = {
    "categorical_feature": "give it to fit",
    "early_stopping_round": "give early_stopping_rounds to fit",
    "first_metric_only": "early stopping always watches the first metric",
    "forcedsplits_filename": "forced splits could violate the large-spread condition",
    "metric": "give eval_metric to fit",
    "num_class": "the number of classes is taken from y",
    "num_iterations": "it is called n_estimators here",
    "num_threads": "it is called n_jobs here",
    "objective": "it is a parameter of the estimator",
    "seed": "it is called random_state here",
    "verbosity": "it is called verbose here",
}


def check_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` under main names; refuses unknown, repeated and impossible parameters.

    Examples
    --------
    >>> check_parameters({"reg_alpha": 0.5, "eta": 0.2})
    {'lambda_l1': 0.5, 'learning_rate': 0.2}
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
        if main in _FIXED:
            needed, reason = _FIXED[main]
            if not _same(value, needed):
                raise CarveError(f"{name} must be {needed!r}, got {value!r}: {reason}")
        elif main in _LEARNING:
            checked[main] = value
        else:
            reason = _ELSEWHERE.get(main, "large-spread training has no use for it")
            raise CarveError(f"{name} cannot be honoured: {reason}")
    _check_values(checked, source)
    return checked


def _same(value: Any, needed: Any) -> bool:
    if isinstance(needed, bool):
        return str(value).lower() in (("true", "1") if needed else ("false", "0"))
    return bool(value == needed)


def _check_values(checked: Mapping[str, Any], source: Mapping[str, str]) -> None:
    def whole(name: str, least: int, most: int | None = None) -> None:
        value = checked.get(name, least)
        number = isinstance(value, int | float | np.number) and int(value) == value
        if not number or value < least or (most is not None and value > most):
            wanted = f">= {least}" if most is None else f"from {least} to {most}"
            raise CarveError(f"{source[name]} must be a whole number {wanted}, got {value!r}")

    whole("num_leaves", 2, 131_072)
    whole("min_data_in_leaf", 1)
    whole("max_bin", 1, 65_534)
    whole("min_data_in_bin", 1)
    whole("bin_construct_sample_cnt", 1)
    rate = checked.get("learning_rate", 1)
    if not isinstance(rate, int | float | np.number) or not rate > 0:
        raise CarveError(f"{source['learning_rate']} must be > 0, got {checked['learning_rate']!r}")
    if checked.get("bagging_freq", 0) not in (0, 1):
        raise CarveError(
            f"{source['bagging_freq']} must be 0 or 1, got {checked['bagging_freq']!r}: a bag that "
            "serves several trees would miss the thresholds closed between them"
        )


def check_max_crowding(given: Any, norm: float) -> tuple[float | None, ...]:
    """Return the values of max_crowding to try: one, or several; norm 0 does not use it."""
    several = isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)
    values = tuple(given) if several else (given,)
    for value in values:
        if value is not None and not (_is_number(value) and 0 < value <= 1):
            raise CarveError(f"max_crowding must be None or a share in (0, 1], got {value!r}")
    if not values:
        raise CarveError("max_crowding must hold at least one value; None closes no threshold")
    numbers = (None if value is None else float(value) for value in values)
    return (None,) if norm == 0 else tuple(dict.fromkeys(numbers))


def check_clean_loss(given: Any) -> float | None:
    """Return the accuracy that may be given up; None means all of it."""
    if given is not None and not (_is_number(given) and 0 <= given <= 1):
        raise CarveError(f"clean_loss must be None or from 0 to 1, got {given!r}")
    return None if given is None else float(given)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def main_name(name: str) -> str:
    """LightGBM's main name of a parameter; refuses a name LightGBM does not know."""
    names = _main_names()
    if name not in names:
        raise CarveError(
            unknown_parameter("LightGBM", name, names, "see LightGBM's list of parameters")
        )
    return names[name]


def unknown_parameter(whose: str, name: str, known: Mapping[str, str], otherwise: str) -> str:
    """A line about a parameter that `whose` does not know; `known` leads to the name to use."""
    near = difflib.get_close_matches(name, known, n=1)
    remedy = f"did you mean {known[near[0]]}?" if near else otherwise
    if name == "attacker":
        remedy = "spell the attacker out: **attacker.arguments()"
    return f"{whose} has no parameter {name!r}; {remedy}"


@lru_cache(maxsize=1)
def _main_names() -> dict[str, str]:
    from lightgbm.basic import _LIB

    buffer = ctypes.create_string_buffer(1 << 20)
    length = ctypes.c_int64(0)
    _LIB.LGBM_DumpParamAliases(ctypes.c_int64(len(buffer)), ctypes.byref(length), buffer)
    aliases: dict[str, list[str]] = json.loads(buffer.value)
    return {name: main for main, others in aliases.items() for name in (main, *others)}
