"""A query about rows that come in blocks: of a file, or of partitions on other machines."""

from __future__ import annotations

import pickle
import platform
import threading
from collections import OrderedDict
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.attack import witness_names
from carvegbm.data.sparse import is_sparse
from carvegbm.engines import Task, engine_schedule
from carvegbm.errors import CarveError
from carvegbm.model.categories import names_of_codes
from carvegbm.options import QUERY_OPTIONS
from carvegbm.problem import Problem
from carvegbm.totals import (
    AttackTotals,
    Columns,
    CurveTotals,
    RadiusTotals,
    RangeTotals,
    Totals,
    VerificationTotals,
)
from carvegbm.verifier import Verifier

__all__ = ["ColumnKinds", "PickledQuery", "Query", "empty_columns"]

ColumnKinds = dict[str, type]
"""Columns by name: str, bool or float; object for labels of categories."""

_RANGE = ("lowest", "lowest_lower", "lowest_upper", "highest", "highest_lower", "highest_upper")
_KINDS: dict[str, ColumnKinds] = {
    "verify": {
        "status": str,
        "right": bool,
        "margin": float,
        "worst_margin": float,
        "worst_margin_lower": float,
        "worst_margin_upper": float,
        "engine": str,
        "seconds": float,
    },
    "attack": {"success": bool, "distance": float, "status": str, "borderline": bool},
    "radius": {"radius": float, "lower": float, "upper": float},
    "robustness_curve": {"radius": float, "lower": float, "upper": float},
    "output_range": {**dict.fromkeys(_RANGE, float), "exact": bool},
}


@dataclass(frozen=True, eq=False)
class Query:
    """A query of a `Verifier`, whose answers about blocks equal those about all rows at once.

    Attributes
    ----------
    name : {"verify", "attack", "radius", "robustness_curve", "output_range"}
        The method of the verifier. A robustness curve has the columns of radii, whose bounds
        decide at which of the budgets a row is robust.
    verifier : Verifier
    max_budget : float, optional
        For "radius".
    budgets : tuple of float
        For "robustness_curve".
    """

    name: Literal["verify", "attack", "radius", "robustness_curve", "output_range"]
    verifier: Verifier
    max_budget: float | None = None
    budgets: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Reject what is wrong for every row before any row is read."""
        problem = self.problem
        if problem.limits.by_row:
            raise CarveError(
                "bounds with a row per row of X work on one machine only, with all rows in memory; "
                "give bounds per feature"
            )
        if self.name in ("verify", "attack", "output_range"):
            problem.attacker.budget  # noqa: B018 - raises if there is none
            engine_schedule(Task(problem, self.verifier.settings))
        QUERY_OPTIONS["max_budget"].check("max_budget", self.max_budget)
        if self.name == "output_range":
            self.verifier.require_single_output(self.name)

    @property
    def problem(self) -> Problem:
        """The model and the attacker."""
        return self.verifier.problem

    def answer(
        self, X: Any, y: Any = None, *, threads: int | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Return the columns of the answers about a block, which may be empty."""
        if X.shape[0] == 0:
            return empty_columns(self.kinds())
        verifier = self.verifier.for_blocks(threads)
        match self.name:
            case "verify":
                return verifier.verify(X, y).columns()
            case "attack":
                if is_sparse(X):
                    raise CarveError("witnesses of sparse rows have no columns; give dense rows")
                found = verifier.attack(X, y)
                return {**found.columns(), **found.witness_columns()}
            case "radius":
                return verifier.radius(X, y, max_budget=self.max_budget).columns()
            case "robustness_curve":
                return verifier.bound_radii(X, y, budgets=self.budgets).columns()
        return verifier.output_range(X).columns()

    def kinds(self) -> ColumnKinds:
        """Return the columns of `answer` with their types."""
        kinds = dict(_KINDS[self.name])
        if self.name == "attack":
            ensemble = self.problem.ensemble
            labelled, features = names_of_codes(ensemble), range(ensemble.n_features)
            names = witness_names(ensemble.feature_names, features)
            for feature, name in zip(features, names, strict=True):
                kinds[name] = object if feature in labelled else float
        return kinds

    def totals(self, columns: Columns) -> Totals:
        """Return the totals of these answers."""
        return replace(self._totals(columns), iterations=self.problem.ensemble.iterations)

    def _totals(self, columns: Columns) -> Totals:
        attacker = self.problem.attacker
        match self.name:
            case "verify":
                return VerificationTotals.of(columns, attacker)
            case "attack":
                return AttackTotals.of(columns, attacker)
            case "radius":
                return RadiusTotals.of(columns, attacker.norm)
            case "robustness_curve":
                return CurveTotals.of(columns, attacker.norm, self.budgets)
        return RangeTotals.of(columns, attacker)


def empty_columns(kinds: ColumnKinds) -> dict[str, npt.NDArray[Any]]:
    """Return columns of these types without rows."""
    return {name: np.empty(0, dtype=kind) for name, kind in kinds.items()}


_MOST_OPEN = 4  # queries that a process keeps; the least recently used is dropped
_open: OrderedDict[str, Query] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class PickledQuery:
    """A query on its way to other processes, each of which unpickles and prepares it once.

    Attributes
    ----------
    token : str
        Hash of the content.
    version : str
        The sender's version of carvegbm.
    content : bytes
    """

    token: str
    version: str
    content: bytes

    @classmethod
    def of(cls, query: Query) -> PickledQuery:
        """Pickle a query."""
        from carvegbm import __version__

        content = pickle.dumps(query, protocol=5)
        return cls(sha256(content).hexdigest(), __version__, content)

    def query(self) -> Query:
        """Return the query, always the same object in a process.

        Raises `CarveError` if this process has another version of carvegbm, whose answers may
        differ.
        """
        from carvegbm import __version__

        if self.version != __version__:
            raise CarveError(
                f"carvegbm {__version__} on {platform.node()} got a query from carvegbm "
                f"{self.version}; install the same version on all machines"
            )
        with _lock:
            if self.token not in _open:
                _open[self.token] = pickle.loads(self.content)
            _open.move_to_end(self.token)
            while len(_open) > _MOST_OPEN:
                _open.popitem(last=False)
            return _open[self.token]
