"""Results: answers about rows on many machines, and their totals, still to be computed.

Comes in: a Dask DataFrame of answers and a Dask Scalar of totals that rest on the same tasks. Goes
out: totals, a few numbers; answers stay where they are, or go to files from there.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import dask
import fsspec
import numpy as np
import pandas as pd

from carvegbm.errors import CarveError
from carvegbm.radius import Curve
from carvegbm.totals import (
    AttackTotals,
    CurveTotals,
    RadiusTotals,
    RangeTotals,
    Totals,
    VerificationTotals,
)

__all__ = [
    "DaskAttack",
    "DaskCurve",
    "DaskOutputRange",
    "DaskRadius",
    "DaskResult",
    "DaskVerification",
]

AnyTotals = TypeVar("AnyTotals", bound=Totals)
Some = TypeVar("Some", bound="DaskResult[Any]")


@dataclass(frozen=True, eq=False, repr=False)
class DaskResult(Generic[AnyTotals]):
    """What was asked; every access computes anew, unless the result is kept by `persist`.

    `dask.compute(result.answers, result.totals)` asks every partition once.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> result = cgd.verify(model, X, y, cg.Attacker("inf", 0.1))
    >>> result.answers.npartitions, result.summary().instances
    (2, 2)
    """

    answers: Any
    """Dask DataFrame: a row per instance, in the partitions of X; its index, if X has one."""
    totals: Any
    """Dask Scalar: what `summary` computes."""

    def summary(self) -> AnyTotals:
        """The totals of all instances, added up on the workers."""
        found: AnyTotals = self.totals.compute()
        return found

    def write(self, path: Any, **options: Any) -> AnyTotals:
        """Write the answers as Parquet, a file per partition as they come; return the totals.

        Every partition is asked once, and nothing but its totals leaves the worker. The folder,
        which all workers must reach, must be empty or not there yet: no file of an earlier run
        may be taken for one of these. Labels of categories are written as text.

        Parameters
        ----------
        path : path or URL
        options
            Those of `dask.dataframe.to_parquet`, such as `storage_options` or `write_index`.
        """
        target = os.fspath(path)
        files, folder = fsspec.core.url_to_fs(target, **options.get("storage_options") or {})
        if files.exists(folder) and (not files.isdir(folder) or files.ls(folder)):
            raise CarveError(f"{target} is there already; write to a folder that is empty or new")
        written = _as_text(self.answers).to_parquet(target, compute=False, **options)
        _, totals = dask.compute(written, self.totals)
        found: AnyTotals = totals
        return found

    def persist(self: Some) -> Some:
        """Begin to compute, and keep answers and totals in the workers' memory."""
        answers, totals = dask.persist(self.answers, self.totals)
        return replace(self, answers=answers, totals=totals)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.answers.npartitions} partitions>"


class DaskVerification(DaskResult[VerificationTotals]):
    """A status for every instance, to be proved.

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
    """

    @property
    def statuses(self) -> Any:
        """Dask DataFrame: status, right, margin, worst_margin and its bounds, engine, seconds."""
        return self.answers


class DaskAttack(DaskResult[AttackTotals]):
    """A witness for every instance that can be flipped, to be found.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> found = cgd.attack(model, X, y, cg.Attacker("inf", 0.1))
    >>> found.witnesses["success"].compute().tolist()
    [False, True]
    """

    @property
    def witnesses(self) -> Any:
        """Dask DataFrame: success, distance, status, borderline, and the witness in columns."""
        return self.answers


class DaskRadius(DaskResult[RadiusTotals]):
    """The smallest budget that flips each instance, to be found.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> found = cgd.radius(model, X, y, norm=1)
    >>> found.radii["radius"].compute().round(2).tolist()
    [0.4, 0.05]
    """

    @property
    def radii(self) -> Any:
        """Dask DataFrame: radius, and its bounds lower and upper."""
        return self.answers


class DaskCurve(DaskResult[CurveTotals]):
    """Robustness over budget, to be computed from the radii of all instances.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> curve = cgd.robustness_curve(model, X, y, norm=1, budgets=[0.01, 0.1])
    >>> curve.compute().lower.tolist()
    [1.0, 0.5]
    """

    @property
    def radii(self) -> Any:
        """Dask DataFrame: radius, and its bounds lower and upper, up to the largest budget."""
        return self.answers

    def compute(self) -> Curve:
        """The curve."""
        return Curve.of(self.summary())


class DaskOutputRange(DaskResult[RangeTotals]):
    """The raw scores within reach of the attacker, to be found.

    Examples
    --------
    >>> import carvegbm as cg, dask.array as da
    >>> from carvegbm import dask as cgd
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = da.from_array([[0.1], [0.45]], chunks=1), da.from_array([0, 0], chunks=1)
    >>> found = cgd.output_range(model, X, cg.Attacker("inf", 0.1))
    >>> found.ranges["highest"].compute().tolist()
    [-1.0, 1.0]
    """

    @property
    def ranges(self) -> Any:
        """Dask DataFrame: lowest and highest, the bounds of both, and whether they are exact."""
        return self.answers


def _as_text(answers: Any) -> Any:
    """Answers whose columns all have a type that Parquet knows, the same in every file."""
    named = [name for name, kind in answers.dtypes.items() if kind == np.dtype(object)]
    if not named:
        return answers
    return answers.map_partitions(_spelled, named, meta=_spelled(answers._meta, named))


def _spelled(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    labels = {name: frame[name].map(str, na_action="ignore").astype("string") for name in names}
    return frame.assign(**labels)
