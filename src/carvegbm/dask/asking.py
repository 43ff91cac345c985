"""Asking: the questions of `carvegbm` about rows that Dask holds.

Comes in: a model, Dask collections of instances and labels, an attacker. Goes out: a result that is
still to be computed. What is asked, and the answers to it, are those of the functions of the same
names in `carvegbm`; here are the parameters that differ:

X          a Dask DataFrame, or a Dask Array of two dimensions
y          a Dask Series, Array, or DataFrame of one column, cut into partitions as X is; optional
threads    of one task; 1 by default, for a worker runs as many tasks at once as it has threads

The model is read where the function is called, and sent to every worker once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from carvegbm.attackers.attacker import Attacker
from carvegbm.dask.graphs import asked
from carvegbm.dask.results import (
    DaskAttack,
    DaskCurve,
    DaskOutputRange,
    DaskRadius,
    DaskVerification,
)
from carvegbm.engines import EngineName, OnViolation
from carvegbm.parts.questions import Attack, Measure, Range, Verify
from carvegbm.radius import budgetless, check_budgets
from carvegbm.totals import Columns, CurveTotals

__all__ = ["attack", "output_range", "radius", "robustness_curve", "verify"]


def verify(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    method: Literal["efficient", "basic"] = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
) -> DaskVerification:
    """Decide for every instance whether the attacker can flip the model's decision.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
        Read here, and sent to every worker once.
    X : Dask DataFrame, or Dask Array (n, n_features)
    y : Dask Series, Array, or DataFrame of one column, optional
        Labels, in the same partitions as X. Without them the model's own answers are right.
    attacker : Attacker
    threads : int, optional
        Of one task; 1 by default, for a worker runs as many tasks at once as it has threads.
    engine, timeout, method, grid, on_violation, exact_margin
        As in `carvegbm.verify`.

    Returns
    -------
    DaskVerification
        Nothing is computed yet. An error in the data, when it is, names the partition and the row
        within it.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> result = cgd.verify(model, X, y, cg.Attacker("inf", 0.1))
    >>> result.statuses["status"].compute().tolist()
    ['robust', 'fragile']
    >>> result.summary().robustness
    (0.5, 0.5)
    """
    question = Verify.of(
        model,
        attacker,
        y,
        engine=engine,
        timeout=timeout,
        method=method,
        grid=grid,
        on_violation=on_violation,
        exact_margin=exact_margin,
    )
    return DaskVerification(*asked(question, X, y, threads))


def attack(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
) -> DaskAttack:
    """Find, for every instance, a witness within the budget that flips the model's decision.

    The parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.75]], chunks=1), da.from_array([0, 1], chunks=1)
    >>> found = cgd.attack(model, X, y, cg.Attacker("inf", 0.25))
    >>> found.witnesses["witness 0"].compute().tolist()
    [nan, 0.5]
    """
    question = Attack.of(
        model, attacker, y, engine=engine, timeout=timeout, on_violation=on_violation
    )
    return DaskAttack(*asked(question, X, y, threads))


def radius(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    norm: int | float | str | None = None,
    scale: Any = None,
    features: Any = None,
    bounds: Any = None,
    step: Any = None,
    categories: Any = None,
    one_hot: Any = None,
    max_budget: float | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> DaskRadius:
    """The smallest budget that flips each instance, exactly; 0 where it is wrong already.

    The parameters are those of `carvegbm.radius`; X, y and `threads` are as in `verify`.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.75], [0.25]], chunks=1), da.from_array([1, 1], chunks=1)
    >>> cgd.radius(model, X, y, norm=1).radii["radius"].compute().tolist()
    [0.25, 0.0]
    """
    kind = budgetless(
        attacker,
        y,
        norm=norm,
        scale=scale,
        features=features,
        bounds=bounds,
        step=step,
        categories=categories,
        one_hot=one_hot,
    )
    question = Measure.of(model, kind, max_budget=max_budget, engine=engine, timeout=timeout)
    return DaskRadius(*asked(question, X, y, threads))


def robustness_curve(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    norm: int | float | str | None = None,
    budgets: float | Iterable[float],
    scale: Any = None,
    features: Any = None,
    bounds: Any = None,
    step: Any = None,
    categories: Any = None,
    one_hot: Any = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> DaskCurve:
    """Robustness at many budgets, from one pass over the instances.

    The parameters are those of `carvegbm.robustness_curve`; X, y and `threads` are as in `verify`.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.75], [1.5]], chunks=1), da.from_array([1, 1], chunks=1)
    >>> curve = cgd.robustness_curve(model, X, y, norm="inf", budgets=[0.1, 0.5, 1.0])
    >>> curve.compute().lower.tolist()
    [1.0, 0.5, 0.0]
    """
    kind = budgetless(
        attacker,
        y,
        norm=norm,
        scale=scale,
        features=features,
        bounds=bounds,
        step=step,
        categories=categories,
        one_hot=one_hot,
    )
    checked = check_budgets(budgets, kind.norm)
    radii = Measure.of(model, kind, max_budget=max(checked), engine=engine, timeout=timeout)
    question = _Trace(radii.task, radii.max_budget, checked)
    return DaskCurve(*asked(question, X, y, threads))


def output_range(
    model: Any,
    X: Any,
    attacker: Attacker,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
) -> DaskOutputRange:
    """The lowest and the highest raw score the attacker can reach, per instance.

    The parameters are those of `carvegbm.output_range`; X and `threads` are as in `verify`.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, task="regression")
    >>> X = da.from_array([[0.45], [0.9]], chunks=1)
    >>> found = cgd.output_range(model, X, cg.Attacker("inf", 0.1))
    >>> found.ranges[["lowest", "highest"]].compute().to_numpy().tolist()
    [[-1.0, 1.0], [1.0, 1.0]]
    """
    question = Range.of(model, attacker, engine=engine, timeout=timeout, on_violation=on_violation)
    return DaskOutputRange(*asked(question, X, None, threads))


@dataclass(frozen=True, eq=False)
class _Trace(Measure):
    """The radii, for what they say of some budgets."""

    budgets: tuple[float, ...] = ()

    def _totals(self, columns: Columns) -> CurveTotals:  # type: ignore[override]
        return CurveTotals.of(columns, self.problem.attacker.norm, self.budgets)
