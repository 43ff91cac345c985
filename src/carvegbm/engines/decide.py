"""Decide every row of a query: run the engines one after the other and join what they find.

Each engine gets a share of the time that is left to a row. Rows that it leaves unknown go to the
next engine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.spread import require_large_spread
from carvegbm.engines.core import large_spread, search
from carvegbm.engines.query import Decisions, Indices, Listen, Seconds, Task
from carvegbm.engines.sparse import changes_of
from carvegbm.problem import Problem, Rows

__all__ = ["decide", "engine_schedule"]


class ScheduledEngine(NamedTuple):
    """An engine and its share of the time that is left to a row."""

    run: Callable[[Task, Rows, Seconds, Listen], Decisions]
    share: float = 1.0


def engine_schedule(task: Task) -> list[ScheduledEngine]:
    """Return the engines for a query, in order.

    Raises `NotLargeSpreadError` if only the large-spread engine may decide and the ensemble is not
    large-spread for the attacker.
    """
    settings, problem = task.settings, task.problem
    if settings.engine == "search":
        return [ScheduledEngine(search)]
    if settings.only_large_spread:
        may_violate = settings.on_violation == "unknown" or task.asks == "radius"
        if not may_violate and not problem.is_large_spread:
            require_large_spread(problem.ensemble, problem.attacker)
        return [ScheduledEngine(large_spread)]
    # The large-spread knapsacks are NP-hard as well; those of real models take milliseconds.
    return [ScheduledEngine(large_spread, share=0.25), ScheduledEngine(search)]


def decide(task: Task, rows: Rows, listen: Listen | None = None) -> Decisions:
    """Decide every row.

    For sparse rows, the column `witness` holds objects: the positions of the changed features and
    their values, or None; see `carvegbm.engines.sparse.witnesses_of`.
    """
    schedule = engine_schedule(task)  # reject the query before any row is processed
    if not rows.is_sparse:
        return _decide_dense(schedule, task, rows, listen)
    known: Decisions | None = None
    chosen = task.problem.compact[1].chosen
    for block, problem, part in task.problem.dense(rows):

        def report(
            found: Decisions,
            finished: Indices,
            block: slice = block,
            problem: Problem = problem,
            part: Rows = part,
        ) -> None:
            nonlocal known
            if known is None:
                known = _empty_table(found, len(rows))
            at = block.start + finished
            for name, column in known.columns.items():
                if name == "witness":
                    column[at] = changes_of(found, problem, part, finished, chosen)
                else:
                    column[at] = found[name][finished]
            if listen is not None:
                listen(known, at)

        small = replace(task, problem=problem)
        _decide_dense(engine_schedule(small), small, part, report)
    assert known is not None, "there is a row"
    return known


def _empty_table(like: Decisions, count: int) -> Decisions:
    columns: dict[str, npt.NDArray[Any]] = {
        name: np.empty(count, dtype=column.dtype) for name, column in like.columns.items()
    }
    if "witness" in columns:
        columns["witness"] = np.full(count, None, dtype=object)
    return Decisions(columns)


def _decide_dense(
    schedule: list[ScheduledEngine], task: Task, rows: Rows, listen: Listen | None
) -> Decisions:
    """Run the scheduled engines; report each row once, when no later engine can change it."""
    every = np.arange(len(rows))
    reported = np.zeros(len(rows), dtype=bool)
    known: Decisions | None = None

    def report(final: Indices) -> None:
        reported[final] = True
        if listen is not None:
            assert known is not None
            listen(known, final)

    for engine in schedule:
        undecided = every if known is None else every[known.is_open(every)]
        spent = np.zeros(len(rows)) if known is None else known.seconds[undecided]
        left = task.settings.timeout - spent
        undecided, left = undecided[left > 0], left[left > 0]
        if len(undecided) == 0:
            continue
        is_last = engine is schedule[-1]

        def add(
            found: Decisions,
            finished: Indices,
            undecided: Indices = undecided,
            is_last: bool = is_last,
        ) -> None:
            nonlocal known
            some = undecided[finished]
            if known is None:  # the first engine has all rows
                known = found
            elif found is not known:
                known.add(some, found.take(finished))
            report(some if is_last else some[~known.is_open(some)])

        engine.run(task, rows.take(undecided), engine.share * left, add)
    assert known is not None, "the first engine reports at least once"
    if not reported.all():
        report(np.flatnonzero(~reported))
    return known
