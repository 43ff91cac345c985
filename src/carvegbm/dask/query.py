"""The queries of `carvegbm` about Dask collections; arguments and answers are the same, except:

X          a Dask DataFrame, or a Dask Array of two dimensions
y          a Dask Series, Array, or DataFrame of one column, in the same partitions; optional
threads    threads of one task; 1 by default, since a worker runs one task per thread

The model is read in the calling process and sent to every worker once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.dask.results import (
    DaskAttack,
    DaskCurve,
    DaskOutputRange,
    DaskRadius,
    DaskVerification,
    plan,
)
from carvegbm.options import EngineName, Method, OnViolation
from carvegbm.radius import check_budgets
from carvegbm.scale.query import Query
from carvegbm.verifier import Verifier

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
    method: Method = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
) -> DaskVerification:
    """Decide for every row whether the attacker can flip the model's answer.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : Dask DataFrame, or Dask Array (n, n_features)
    y : Dask Series, Array, or DataFrame of one column, optional
        Labels, in the same partitions as X. Without them the model's own answers are right.
    attacker : Attacker
    threads : int, optional
        Threads of one task; 1 by default, since a worker runs one task per thread.
    engine, timeout, method, grid, on_violation, exact_margin
        As in `carvegbm.verify`.

    Returns
    -------
    DaskVerification
        Nothing is computed yet. Errors in the data name the partition and the row within it.

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
    verifier = Verifier(
        model,
        require_attacker(attacker, y),
        engine=engine,
        timeout=timeout,
        threads=threads,
        method=method,
        grid=grid,
        on_violation=on_violation,
        exact_margin=exact_margin,
    )
    return DaskVerification(*plan(Query("verify", verifier), X, y))


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
    """Find a witness for every row: a change within the budget that flips the model's answer.

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
    verifier = Verifier(
        model,
        require_attacker(attacker, y),
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return DaskAttack(*plan(Query("attack", verifier), X, y))


def radius(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    max_budget: float | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> DaskRadius:
    """Find the smallest budget that flips each row, exactly; 0 if its answer is wrong already.

    `max_budget` is that of `carvegbm.radius`; the other parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.75], [0.25]], chunks=1), da.from_array([1, 1], chunks=1)
    >>> cgd.radius(model, X, y, cg.Attacker(norm=1)).radii["radius"].compute().tolist()
    [0.25, 0.0]
    """
    verifier = Verifier(
        model, require_attacker(attacker, y), engine=engine, timeout=timeout, threads=threads
    )
    return DaskRadius(*plan(Query("radius", verifier, max_budget=max_budget), X, y))


def robustness_curve(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    budgets: float | Iterable[float],
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
) -> DaskCurve:
    """Find the robustness at each of some budgets.

    `budgets` are those of `carvegbm.robustness_curve`; the other parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.75], [1.5]], chunks=1), da.from_array([1, 1], chunks=1)
    >>> curve = cgd.robustness_curve(model, X, y, cg.Attacker("inf"), budgets=[0.1, 0.5, 1.0])
    >>> curve.compute().lower.tolist()
    [1.0, 0.5, 0.0]
    """
    attacker = require_attacker(attacker, y)
    checked = check_budgets(budgets, attacker.norm)
    verifier = Verifier(model, attacker, engine=engine, timeout=timeout, threads=threads)
    return DaskCurve(*plan(Query("robustness_curve", verifier, budgets=checked), X, y))


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
    """Find the lowest and the highest raw score that the attacker can reach, per row.

    The parameters are those of `verify`.

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
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return DaskOutputRange(*plan(Query("output_range", verifier), X, None))
