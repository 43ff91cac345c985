"""The engine large-spread: the paper's algorithms, where their condition holds."""

from __future__ import annotations

from carvegbm.data.rows import check_threads
from carvegbm.engines.asking import ask
from carvegbm.engines.decisions import Decisions
from carvegbm.engines.task import Listen, Seconds, Task
from carvegbm.problem import Rows

__all__ = ["LargeSpread"]


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
            any_witness=task.any_witness,
            exact_margin=settings.exact_margin,
            per_instance=self.per_instance and task.asks != "radius",
            basic=settings.basic,
            grid=-1 if settings.grid is None else int(settings.grid),
        )
        if task.asks != "radius":
            return ask(task, task.problem, rows, options, listen)
        # Beyond the largest budget for which the ensemble is large-spread, nothing can be said.
        reachable = min(task.problem.attacker.budget, task.problem.largest_budget)
        return ask(task, task.problem.with_budget(reachable), rows, options, listen)
