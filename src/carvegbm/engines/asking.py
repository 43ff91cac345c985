"""How the C++ core is asked: a task in, decisions out, and what it announces passed on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.engines.task import Listen, Task
from carvegbm.instances.rows import check_threads
from carvegbm.problem import Problem, Rows
from carvegbm.statuses import UNKNOWN

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["ask", "unattacked"]


def unattacked(problem: Problem, rows: Rows, threads: int | None) -> Decisions:
    """What can be said about the decisions without an attack: margins, and who is right."""
    from carvegbm import _core

    assert rows.labels is not None
    options = _core.Options(_core.Solver.none, np.zeros(len(rows)), check_threads(threads))
    return Decisions.of_core(_core.decide(problem.core, rows.X, rows.labels, options, None))


def ask(
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
