"""How the C++ core is asked: a task in, decisions out, and what it announces passed on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.engines.task import Listen, Task
from carvegbm.problem import Problem, Rows
from carvegbm.statuses import UNKNOWN

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["ask"]


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
    if rows.bounds is not None:
        options.bound(*rows.bounds)
    if task.asks == "range":
        _core.output_range(core, X, options, progress)
    elif task.asks == "within":
        assert limit is not None
        _core.stays_within(core, X, limit, options, progress)
    else:
        assert labels is not None
        question = _core.decide if task.asks == "verdict" else _core.radius
        question(core, X, labels, options, progress)
    assert known is not None, "the core announces what is finished, at the end at the latest"
    return known


def _read_radii(known: Decisions, rows: Indices, reachable: float, task: Task) -> None:
    """Infinite bounds mean that no budget up to the one that was asked about flips."""
    lower = known["radius_lower"]
    beyond = rows[np.isinf(lower[rows])]
    attacker = task.problem.attacker
    lower[beyond] = reachable + 1 if attacker.norm == 0 else math.nextafter(reachable, math.inf)
    if reachable < attacker.budget:
        known.status[beyond] = UNKNOWN
        known["engine"][beyond] = 0
