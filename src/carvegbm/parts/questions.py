"""Questions: all that an answer depends on but the rows.

Comes in: a model, an attacker, settings; then rows, a part at a time. Goes out: the columns of the
answer about each part, which are those of the same question about all rows at once, and totals.

    Verify     a status for every row                `carvegbm.verify`
    Attack     a witness where there is one           `carvegbm.attack`
    Measure    the radius of every row                `carvegbm.radius`
    Range      the raw scores within reach            `carvegbm.output_range`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from carvegbm.attack import Attack as AttackResult
from carvegbm.attack import witness_names
from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.engines import Decisions, Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.model.categories import names_of_codes
from carvegbm.problem import Problem, Rows
from carvegbm.radius import Radius, budgetless, radius_task
from carvegbm.ranges import OutputRange, single_output
from carvegbm.results import Result
from carvegbm.totals import (
    AttackTotals,
    Columns,
    RadiusTotals,
    RangeTotals,
    Totals,
    VerificationTotals,
)
from carvegbm.verification import Verification, is_basic

__all__ = ["Attack", "Kinds", "Measure", "Question", "Range", "Verify"]

Kinds = dict[str, type]
"""Columns by name: str, bool or float; object for labels of categories."""

_VERDICT_ONLY = ("method", "grid", "exact_margin")


@dataclass(frozen=True, eq=False)
class Question(ABC):
    """What is asked of every row; it can be pickled, and asked any number of times."""

    task: Task

    takes_labels: ClassVar[bool] = True
    """Whether rows may come with labels; without them the model's own answers are right."""

    @property
    def problem(self) -> Problem:
        """The model and the attacker."""
        return self.task.problem

    def answer(
        self, X: Any, y: Any = None, *, threads: int | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """The columns of the answer about these rows; all empty where there are none."""
        if X.shape[0] == 0:
            return {name: np.empty(0, dtype=kind) for name, kind in self.kinds().items()}
        settings = replace(self.task.settings, threads=threads)
        task = replace(self.task, settings=settings)
        problem = self.problem
        if self.takes_labels:
            rows = problem.rows(X, y, threads, is_part=True)
        else:
            rows = problem.instances(X, is_part=True)
        return self._columns(self._result(decide(task, rows), rows))

    @abstractmethod
    def kinds(self) -> Kinds:
        """What `answer` returns: its columns, in their order."""

    def totals(self, columns: Columns) -> Totals:
        """What these columns say as a whole."""
        found = self._totals(columns)
        return replace(found, iterations=self.problem.ensemble.iterations)

    @abstractmethod
    def _totals(self, columns: Columns) -> Totals: ...

    @abstractmethod
    def _result(self, found: Decisions, rows: Rows) -> Result:
        """What the engines decided, as the result that users know."""

    def _columns(self, result: Any) -> dict[str, npt.NDArray[Any]]:
        found: dict[str, npt.NDArray[Any]] = result.columns()
        return found


def _problem(model: Any, attacker: Attacker | None, y: Any = None) -> Problem:
    """A problem whose rows may come in any parts."""
    problem = Problem(model, require_attacker(attacker, y))
    if problem.limits.by_row:
        raise CarveError(
            "bounds with a row per instance cannot be told apart by parts of the rows; give bounds "
            "per feature, or verify on one machine"
        )
    return problem


class Verify(Question):
    """A status for every row."""

    @classmethod
    def of(cls, model: Any, attacker: Attacker | None, y: Any = None, **options: Any) -> Verify:
        """The options are those of `carvegbm.verify`: engine, timeout, method, grid, …."""
        basic = is_basic(options.pop("method", "efficient"))
        settings = _settings(options, basic=basic)
        return cls(Task(_problem(model, attacker, y), settings))

    def kinds(self) -> Kinds:
        """What `answer` returns."""
        return {
            "status": str,
            "right": bool,
            "margin": float,
            "worst_margin": float,
            "worst_margin_lower": float,
            "worst_margin_upper": float,
            "engine": str,
            "seconds": float,
        }

    def _totals(self, columns: Columns) -> VerificationTotals:
        """Statuses counted."""
        return VerificationTotals.of(columns, self.problem.attacker)

    def _result(self, found: Decisions, rows: Rows) -> Verification:  # noqa: ARG002
        return Verification.of(found, self.problem)


class Attack(Question):
    """A witness for every row that can be flipped, in columns; NaN where there is none."""

    @classmethod
    def of(cls, model: Any, attacker: Attacker | None, y: Any = None, **options: Any) -> Attack:
        """The options are those of `carvegbm.attack`."""
        settings = _settings(options, *_VERDICT_ONLY)
        return cls(Task(_problem(model, attacker, y), settings, witness=True))

    def kinds(self) -> Kinds:
        """What `answer` returns."""
        ensemble = self.problem.ensemble
        features = range(ensemble.n_features)
        named = names_of_codes(ensemble)
        witnesses: Kinds = {
            name: object if feature in named else float
            for feature, name in zip(
                features, witness_names(ensemble.feature_names, features), strict=True
            )
        }
        return {"success": bool, "distance": float, "status": str, "borderline": bool, **witnesses}

    def _totals(self, columns: Columns) -> AttackTotals:
        """Flips counted."""
        return AttackTotals.of(columns, self.problem.attacker)

    def _result(self, found: Decisions, rows: Rows) -> AttackResult:
        if rows.is_sparse:
            raise CarveError("witnesses of sparse rows have no columns; give dense rows")
        return AttackResult.of(found, self.problem, rows)

    def _columns(self, result: AttackResult) -> dict[str, npt.NDArray[Any]]:
        return {**result.columns(), **result.witness_columns()}


@dataclass(frozen=True, eq=False)
class Measure(Question):
    """The smallest budget that flips each row."""

    max_budget: float | None = None

    @classmethod
    def of(
        cls,
        model: Any,
        attacker: Attacker | None,
        y: Any = None,
        *,
        max_budget: float | None = None,
        ways: dict[str, Any] | None = None,
        **options: Any,
    ) -> Measure:
        """The options are those of `carvegbm.radius`; `ways` are norm, scale, features, …."""
        settings = _settings(options, *_VERDICT_ONLY, "on_violation")
        kind = budgetless(attacker, y, **(ways or {}))
        task = radius_task(_problem(model, kind), settings, max_budget)
        return cls(task, max_budget)

    def kinds(self) -> Kinds:
        """What `answer` returns."""
        return {"radius": float, "lower": float, "upper": float}

    def _totals(self, columns: Columns) -> RadiusTotals:
        """Radii counted."""
        return RadiusTotals.of(columns, self.problem.attacker.norm)

    def _result(self, found: Decisions, rows: Rows) -> Radius:  # noqa: ARG002
        return Radius.of(found, self.problem, self.max_budget)


class Range(Question):
    """The lowest and the highest raw score within reach."""

    takes_labels = False

    @classmethod
    def of(cls, model: Any, attacker: Attacker | None, **options: Any) -> Range:
        """The options are those of `carvegbm.output_range`."""
        settings = _settings(options, *_VERDICT_ONLY)
        problem = single_output(_problem(model, attacker), "output_range")
        return cls(Task(problem, settings, asks="range"))

    def kinds(self) -> Kinds:
        """What `answer` returns."""
        ends = ("lowest", "lowest_lower", "lowest_upper")
        others = ("highest", "highest_lower", "highest_upper")
        return {**dict.fromkeys((*ends, *others), float), "exact": bool}

    def _totals(self, columns: Columns) -> RangeTotals:
        """The ends of all ranges."""
        return RangeTotals.of(columns, self.problem.attacker)

    def _result(self, found: Decisions, rows: Rows) -> OutputRange:  # noqa: ARG002
        return OutputRange.of(found, self.problem)


def _settings(options: dict[str, Any], *unknown: str, basic: bool = False) -> Settings:
    """Settings for engines; threads are those of whoever asks, a part at a time."""
    for name in options:
        if name in unknown or name not in Settings.__dataclass_fields__ or name == "threads":
            raise CarveError(f"{name} is no option of this question; leave it out")
    return Settings(basic=basic, **options)
