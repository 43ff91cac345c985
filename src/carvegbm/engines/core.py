"""Run one engine of the C++ core.

Each engine decides every row within its number of seconds or leaves it unknown. Every verdict is
proved by the engine that gives it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from carvegbm.data.rows import check_threads
from carvegbm.engines.query import Decisions, Indices, Listen, Seconds, Task
from carvegbm.problem import Problem, Rows
from carvegbm.statuses import UNKNOWN

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["large_spread", "search"]


def large_spread(task: Task, rows: Rows, seconds: Seconds, listen: Listen) -> Decisions:
    """Run the paper's algorithms.

    If the ensemble is not large-spread for the attacker, the condition is checked per row, and
    rows that violate it stay unknown.
    """
    from carvegbm import _core

    settings, problem, is_radius = task.settings, task.problem, task.asks == "radius"
    options = _core.Options(
        _core.Solver.large_spread,
        seconds,
        check_threads(settings.threads),
        witness=task.witness,
        any_witness=task.any_witness,
        exact_margin=settings.exact_margin,
        per_instance=not problem.is_large_spread and not is_radius,
        basic=settings.method == "basic",
        grid=-1 if settings.grid is None else settings.grid,
    )
    if is_radius:  # beyond the largest budget with large spread, the algorithms decide nothing
        problem = problem.with_budget(min(problem.attacker.budget, problem.largest_budget))
    return _run(task, problem, rows, options, listen)


def search(task: Task, rows: Rows, seconds: Seconds, listen: Listen) -> Decisions:
    """Run branch and bound, for any ensemble and norm."""
    from carvegbm import _core

    options = _core.Options(
        _core.Solver.search,
        seconds,
        check_threads(task.settings.threads),
        witness=task.witness,
        exact_margin=task.settings.exact_margin,
    )
    return _run(task, task.problem, rows, options, listen)


def _run(
    task: Task, problem: Problem, rows: Rows, options: _core.Options, listen: Listen
) -> Decisions:
    """Call the core and forward its progress."""
    from carvegbm import _core

    known: Decisions | None = None

    def progress(found: _core.Decisions, finished: Indices) -> None:
        nonlocal known
        if known is None:
            known = Decisions.of_core(found)
        if task.asks == "radius":
            _replace_infinite_radii(known, finished, problem.attacker.budget, task)
        listen(known, finished)

    core, X, labels, limit = problem.core, rows.X, rows.labels, task.limit
    if rows.bounds is not None:
        options.bound(*rows.bounds)
    if task.asks == "range":
        _core.output_range(core, X, options, progress)
    elif task.asks == "within":
        assert limit is not None
        _core.stays_within(core, X, limit, options, progress)
    else:
        assert labels is not None
        query = _core.decide if task.asks == "verdict" else _core.radius
        query(core, X, labels, options, progress)
    assert known is not None, "the core reports progress at least once, at the end"
    return known


def _replace_infinite_radii(known: Decisions, rows: Indices, searched: float, task: Task) -> None:
    """Turn "no budget up to `searched` flips the row" into the smallest radius that is possible.

    Such rows stay unknown if less than the attacker's budget was searched.
    """
    lower = known["radius_lower"]
    beyond = rows[np.isinf(lower[rows])]
    attacker = task.problem.attacker
    lower[beyond] = searched + 1 if attacker.norm == 0 else math.nextafter(searched, math.inf)
    if searched < attacker.budget:
        known.status[beyond] = UNKNOWN
        known["engine"][beyond] = 0
