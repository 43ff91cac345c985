"""A model and an attacker prepared for queries about rows."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from fractions import Fraction
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attack import Attack
from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.attackers.options import check_budget
from carvegbm.engines import Decisions, Indices, Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.options import QUERY_OPTIONS, EngineName, Method, OnViolation
from carvegbm.problem import Problem, Rows
from carvegbm.progress import Progress, progress_bar, showing
from carvegbm.proofs.write import write_proof
from carvegbm.properties import Answers, answers, check_level, check_limit, core_limit, is_confident
from carvegbm.radius import Curve, Radius, check_budgets, next_budget
from carvegbm.ranges import OutputRange
from carvegbm.statuses import named
from carvegbm.storage.files import check_apart, check_output
from carvegbm.verification import Verification

__all__ = ["Verifier"]

_MOST_BUDGETS = 64  # problems that are kept for other budgets than the attacker's


class Verifier:
    """A model and an attacker, with everything prepared that does not depend on rows.

    Use it to answer many queries, or rows one by one. It can be used by several threads at once,
    and pickled: what is derived from model and attacker is then left out, and derived again.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    attacker : Attacker
        `radius` and `robustness_curve` need no budget and ignore it.
    engine, timeout, threads, on_violation
        As in `carvegbm.verify`.
    method, grid, exact_margin
        As in `carvegbm.verify`; only for that query.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> verifier = cg.Verifier(model, cg.Attacker("inf", 0.1))
    >>> [verifier.verify([[x]]).status.tolist() for x in (0.1, 0.45)]
    [['robust'], ['fragile']]
    >>> verifier.radius([[0.25]]).radius.round(2).tolist()
    [0.25]
    """

    def __init__(
        self,
        model: Any,
        attacker: Attacker,
        *,
        engine: EngineName = "auto",
        timeout: float = 10.0,
        threads: int | None = None,
        method: Method = "efficient",
        grid: int | None = None,
        on_violation: OnViolation | None = None,
        exact_margin: bool = False,
    ) -> None:
        self.settings = Settings(engine, timeout, threads, on_violation, method, grid, exact_margin)
        self.problem = Problem(model, attacker)
        self._model_file = model if isinstance(model, str | os.PathLike) else None
        self._is_block = False
        self._forget()

    def _forget(self) -> None:
        self._problems: dict[float, Problem] = {}
        self._lock = Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: v for name, v in vars(self).items() if name not in ("_problems", "_lock")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._forget()

    def __repr__(self) -> str:
        return f"Verifier({self.problem.ensemble!r}, {self.problem.attacker})"

    def for_blocks(self, threads: int | None) -> Verifier:
        """Return a copy for blocks of a longer table, which shares everything prepared.

        It shows no progress and does not warn of unknown categories.
        """
        other = copy(self)
        other._is_block = True
        other._problems, other._lock = self._problems, self._lock
        other.settings = replace(self.settings, threads=threads)
        return other

    def verify(
        self, X: npt.ArrayLike, y: Any = None, *, proof: Any = None, progress: Progress = None
    ) -> Verification:
        """Decide for every row whether the attacker can flip the answer; see `carvegbm.verify`."""
        target = None if proof is None else check_output(proof, None)
        if self._model_file is not None:
            check_apart({"proof": target}, {"the model": self._model_file})
        proves = target is not None
        task = Task(self.problem, self.settings, witness=proves, any_witness=proves)
        rows = self._rows(self.problem, X, y)
        found = self._decide(task, rows, progress, "verifying")
        if target is not None:
            proved = write_proof(target, task, rows, found, own_labels=y is None)
            if proved.unproved:
                warnings.warn(proved.warning(target), stacklevel=3)
        return Verification.of(found, self.problem)

    def attack(self, X: npt.ArrayLike, y: Any = None, *, progress: Progress = None) -> Attack:
        """Find a witness for every row that can be flipped; see `carvegbm.attack`."""
        task = Task(self.problem, self._plain_settings, witness=True)
        rows = self._rows(self.problem, X, y)
        return Attack.of(self._decide(task, rows, progress, "attacking"), self.problem, rows)

    def radius(
        self,
        X: npt.ArrayLike,
        y: Any = None,
        *,
        max_budget: float | None = None,
        progress: Progress = None,
    ) -> Radius:
        """Find the smallest budget that flips each row; see `carvegbm.radius`."""
        most = self.problem.unlimited_budget
        if max_budget is not None:
            given = QUERY_OPTIONS["max_budget"].check("max_budget", max_budget)
            most = min(most, check_budget(self.problem.attacker.norm, given))
        task = Task(self._with_budget(most), self._plain_settings, asks="radius")
        rows = self._rows(task.problem, X, y)
        found = self._decide(task, rows, progress, "measuring")
        return Radius.of(found, task.problem, max_budget)

    def robustness_curve(
        self,
        X: npt.ArrayLike,
        y: Any = None,
        *,
        budgets: float | Iterable[float],
        progress: Progress = None,
    ) -> Curve:
        """Find the robustness at each budget; see `carvegbm.robustness_curve`."""
        checked = check_budgets(budgets, self.problem.attacker.norm)
        return Curve.of_radii(self.bound_radii(X, y, budgets=checked, progress=progress), checked)

    def bound_radii(
        self,
        X: npt.ArrayLike,
        y: Any = None,
        *,
        budgets: tuple[float, ...],
        progress: Progress = None,
    ) -> Radius:
        """Return bounds of the radii that decide at which of the budgets each row is robust.

        A row is verified at about log2(number of budgets) of them, and at no budget twice: it is
        robust at every budget below one at which it is robust, and flipped at every budget above
        one that flips it.
        """
        if self.settings.only_large_spread:  # it verifies no budget beyond the largest large-spread
            return self.radius(X, y, max_budget=max(budgets), progress=progress)
        ascending = sorted(set(budgets))
        problems = [self._with_budget(budget) for budget in ascending]
        rows = self._rows(problems[0], X, y)
        right = [
            p.unattacked(part, self.settings.threads).right
            for _, p, part in problems[0].dense(rows)
        ]
        is_right = np.concatenate(right)
        robust = np.zeros(len(rows), dtype=np.int64)  # robust at ascending[:robust]
        flipped = np.where(is_right, len(ascending), 0)  # flipped at ascending[flipped:]
        undecided = [(0, len(ascending), np.flatnonzero(is_right))]
        verified, levels = 0, len(ascending).bit_length()
        with progress_bar(self._progress(progress), len(rows), "verifying") as tick:

            def listen(_: Decisions, finished: Indices) -> None:
                nonlocal verified
                verified += len(finished)
                if tick is not None:
                    tick(verified // levels)

            while undecided:
                first, last, some = undecided.pop()
                if first == last or len(some) == 0:
                    continue
                middle = (first + last) // 2
                task = Task(problems[middle], self._plain_settings)
                status = named(decide(task, rows.take(some), listen).status)
                stays, flips = status == "robust", status == "fragile"
                robust[some[stays]] = np.maximum(robust[some[stays]], middle + 1)
                flipped[some[flips]] = np.minimum(flipped[some[flips]], middle)
                undecided.append((first, middle, some[~stays]))
                undecided.append((middle + 1, last, some[~flips]))
        norm = self.problem.attacker.norm
        above = np.array([next_budget(norm, budget) for budget in (0.0, *ascending)])
        lower = np.where(is_right, above[robust], 0.0)
        upper = np.where(is_right, np.array([*ascending, np.inf])[flipped], 0.0)
        return Radius.between(lower, upper, self.problem)

    def output_range(self, X: npt.ArrayLike, *, progress: Progress = None) -> OutputRange:
        """Find the lowest and highest raw score in reach; see `carvegbm.output_range`."""
        self.require_single_output("output_range")
        task = Task(self.problem, self._plain_settings, asks="range")
        found = self._decide(task, self._instances(X), progress, "measuring")
        return OutputRange.of(found, self.problem)

    def stability(self, X: npt.ArrayLike, c: float, *, progress: Progress = None) -> Answers:
        """Decide whether no attack changes the raw score by more than c; exact."""
        self.require_single_output("stability")
        return self._stays_within(X, c, 1.0, progress)

    def small_neighbourhood(
        self, X: npt.ArrayLike, c: float, *, progress: Progress = None
    ) -> Answers:
        """Decide whether no attack changes the raw score by more than c · budget; exact."""
        self.require_single_output("small_neighbourhood")
        norm = self.problem.attacker.norm
        if norm != np.inf:
            raise CarveError(f"small_neighbourhood is defined for norm inf, got {norm}")
        return self._stays_within(X, c, self.problem.attacker.budget, progress)

    def high_confidence(self, X: npt.ArrayLike, q: float, *, progress: Progress = None) -> Answers:
        """Decide whether answers with probability >= q cannot be flipped; exact."""
        level, ensemble = check_level(q), self.problem.ensemble
        if ensemble.task != "binary" or ensemble.link != "logistic":
            raise CarveError(
                f"high_confidence needs a binary model with a logistic link, got {ensemble!r} "
                f"with link {ensemble.link!r}"
            )
        rows = self._rows(self.problem, X, None)
        threads = self.settings.threads
        confident = [
            is_confident(problem, part, level, threads)
            for _, problem, part in self.problem.dense(rows)
        ]
        some = np.flatnonzero(np.concatenate(confident))
        found = np.full(len(rows), "holds", dtype="<U7")
        if len(some):
            task = Task(self.problem, self._plain_settings)
            found[some] = answers(self._decide(task, rows.take(some), progress, "verifying").status)
        return found

    def require_single_output(self, query: str) -> None:
        """Refuse a query that needs a model with one output."""
        outputs = self.problem.ensemble.n_outputs
        if outputs != 1:
            raise CarveError(
                f"{query} needs a model with one output, this one has {outputs}, one score per "
                "class; use verify"
            )

    @property
    def _plain_settings(self) -> Settings:
        """The settings of all queries but `verify`."""
        return replace(self.settings, method="efficient", grid=None, exact_margin=False)

    def _with_budget(self, budget: float) -> Problem:
        """Return the problem with another budget; the last ones are kept."""
        with self._lock:
            found = self._problems.get(budget)
            if found is None:
                while len(self._problems) >= _MOST_BUDGETS:
                    self._problems.pop(next(iter(self._problems)))
                found = self._problems[budget] = self.problem.with_budget(budget)
            return found

    def _rows(self, problem: Problem, X: npt.ArrayLike, y: Any) -> Rows:
        require_attacker(problem.attacker, y)
        return problem.rows(X, y, self.settings.threads, is_part=self._is_block)

    def _instances(self, X: npt.ArrayLike) -> Rows:
        return self.problem.instances(X, is_part=self._is_block)

    def _progress(self, progress: Progress) -> Progress:
        return False if self._is_block else progress

    def _decide(self, task: Task, rows: Rows, progress: Progress, title: str) -> Decisions:
        with showing(self._progress(progress), len(rows), title) as listen:
            return decide(task, rows, listen)

    def _stays_within(self, X: npt.ArrayLike, c: Any, factor: float, progress: Progress) -> Answers:
        limit = core_limit(self.problem.ensemble, check_limit(c) * Fraction(factor))
        task = Task(self.problem, self._plain_settings, asks="within", limit=limit)
        return answers(self._decide(task, self._instances(X), progress, "verifying").status)
