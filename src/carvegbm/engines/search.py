"""The engine search: branch and bound on a Lagrangian bound, for any ensemble and norm."""

from __future__ import annotations

from carvegbm.data.rows import check_threads
from carvegbm.engines.asking import ask
from carvegbm.engines.decisions import Decisions
from carvegbm.engines.task import Listen, Seconds, Task
from carvegbm.problem import Rows

__all__ = ["Search"]


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
        return ask(task, task.problem, rows, options, listen)
