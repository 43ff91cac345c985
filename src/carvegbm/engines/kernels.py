"""The two engines of the C++ core.

large-spread   the paper's algorithms; rows for which the condition holds, nothing else
search         any ensemble, any norm: branch and bound on a Lagrangian bound
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.engines.task import Listen, Seconds, Task
from carvegbm.instances.rows import check_threads
from carvegbm.problem import Problem, Rows
from carvegbm.statuses import UNKNOWN

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["LargeSpread", "Search", "unattacked"]


class LargeSpread:
    """The paper's algorithms.

    Parameters
    ----------
    per_instance : bool
        Check the condition for every row and leave those unknown for which it does not hold; else
        the ensemble must be large-spread for the attacker.
    """

    def __init__(self, per_instance: bool) -> None:
        self.per_instance = per_instance

    def decide(self, task: Task, rows: Rows, seconds: Seconds, listen: Listen) -> Decisions:
        """Decide the rows for which the condition holds."""
        from carvegbm import _core

        settings = task.settings
        options = _core.Options(
            _core.Solver.large_spread,
            seconds,
            check_threads(settings.threads),
            witness=task.witness,
            per_instance=self.per_instance and task.asks != "radius",
            basic=settings.basic,
            grid=-1 if settings.grid is None else int(settings.grid),
        )
        if task.asks != "radius":
            return _ask(task, task.problem, rows, options, listen)
        # Beyond the largest budget for which the ensemble is large-spread, nothing can be said.
        reachable = min(task.problem.attacker.budget, task.problem.largest_budget)
        return _ask(task, task.problem.with_budget(reachable), rows, options, listen)


class Search:
    """Branch and bound over the cells of features, for any ensemble."""

    def decide(self, task: Task, rows: Rows, seconds: Seconds, listen: Listen) -> Decisions:
        """Decide what can be decided in time."""
        from carvegbm import _core

        options = _core.Options(
            _core.Solver.search,
            seconds,
            check_threads(task.settings.threads),
            witness=task.witness,
            exact_margin=task.settings.exact_margin,
        )
        return _ask(task, task.problem, rows, options, listen)


def unattacked(problem: Problem, rows: Rows) -> Decisions:
    """What can be said about the decisions without an attack: margins, and who is right."""
    from carvegbm import _core

    assert rows.labels is not None
    options = _core.Options(_core.Solver.none, np.zeros(len(rows)), 0)
    return Decisions.of_core(_core.decide(problem.core, rows.X, rows.labels, options, None))


def _ask(
    task: Task, problem: Problem, rows: Rows, options: _core.Options, listen: Listen
) -> Decisions:
    """Ask the core, with what it announces passed on."""
    from carvegbm import _core

    known: Decisions | None = None

    def progress(found: _core.Decisions, finished: Indices) -> None:
        nonlocal known
        if known is None:
            known = Decisions.of_core(found)
        if task.asks == "radius":
            _read_radii(known, finished, problem.attacker.budget, task)
        listen(known, finished)

    core, X, labels, limit = problem.core, rows.X, rows.labels, task.limit
    if task.asks == "range":
        found = _core.output_range(core, X, options, progress)
    elif task.asks == "within":
        assert limit is not None
        found = _core.stays_within(core, X, limit, options, progress)
    else:
        assert labels is not None
        ask = _core.decide if task.asks == "verdict" else _core.radius
        found = ask(core, X, labels, options, progress)
    return Decisions.of_core(found) if known is None else known


def _read_radii(known: Decisions, rows: Indices, reachable: float, task: Task) -> None:
    """Infinite bounds mean that no budget up to the one that was asked about flips."""
    lower = known["radius_lower"]
    beyond = rows[np.isinf(lower[rows])]
    attacker = task.problem.attacker
    lower[beyond] = reachable + 1 if attacker.norm == 0 else math.nextafter(reachable, math.inf)
    if reachable < attacker.budget:
        known.status[beyond] = UNKNOWN
        known["engine"][beyond] = 0
