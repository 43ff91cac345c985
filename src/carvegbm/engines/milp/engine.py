"""The engine: the program for every row, several rows at a time."""

from __future__ import annotations

import os

import numpy as np

from carvegbm.data.rows import check_threads
from carvegbm.engines.decisions import ENGINES, Decisions
from carvegbm.engines.milp.parallel import in_parallel
from carvegbm.engines.milp.point import Scene
from carvegbm.engines.milp.reach import ProgramTooLarge
from carvegbm.engines.milp.solving import Finding, decide
from carvegbm.engines.milp.worker import Solver
from carvegbm.engines.task import Listen, Seconds, Task
from carvegbm.problem import Rows
from carvegbm.statuses import STATUSES

__all__ = ["Milp"]


class Milp:
    """A mixed-integer program per row.

    Parameters
    ----------
    last_resort : bool
        Leave rows unknown whose program is too large, instead of refusing them.
    """

    def __init__(self, last_resort: bool) -> None:
        self.last_resort = last_resort

    def decide(self, task: Task, rows: Rows, seconds: Seconds, listen: Listen) -> Decisions:
        """Decide what can be decided in time."""
        problem, labels = task.problem, rows.labels
        assert labels is not None
        known = Decisions.of_core(problem.unattacked(rows, task.settings.threads))
        if task.witness:
            known.columns["witness"] = np.full(rows.X.shape, np.nan)
            known.columns["distance"] = np.full(len(rows), np.nan)
        scene = Scene(problem)

        def solve(row: int, solver: Solver) -> Finding | None:
            label, limit = int(labels[row]), float(seconds[row])
            try:
                return decide(scene, rows.X[row], label, limit, solver, rows.bounds_of(row))
            except ProgramTooLarge:
                if self.last_resort:
                    return None
                raise

        def record(row: int, verdict: Finding | None) -> None:
            if verdict is not None:
                _record(known, row, verdict)
                if "witness" in known and verdict.witness is not None:
                    x = np.asarray(rows.X[row], dtype=np.float64)
                    known["witness"][row] = verdict.witness
                    known["distance"][row] = problem.core_attacker.distance(x, verdict.witness)
            listen(known, np.array([row]))

        threads = check_threads(task.settings.threads) or os.cpu_count() or 1
        in_parallel(solve, range(len(rows)), threads, record)
        return known


def _record(known: Decisions, row: int, verdict: Finding) -> None:
    """Add what was found about one row to what can be said without an attack."""
    known["seconds"][row] = verdict.seconds
    known["worst_lower"][row] = np.fmax(known["worst_lower"][row], verdict.lower)
    known["worst_upper"][row] = np.fmin(known["worst_upper"][row], verdict.upper)
    if verdict.status != "unknown":
        known["status"][row] = STATUSES.index(verdict.status)
        known["engine"][row] = ENGINES.index("milp")
