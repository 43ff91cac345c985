"""Who decides, in what order, and for how long: a list of engines and one loop.

Comes in: a task and its rows. Goes out: decisions. An engine gets a share of the time that is left
to a row; what it leaves unknown is passed on to the next one, and to none twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from carvegbm.attackers.spread import require_large_spread
from carvegbm.engines.blocks import decide_in_blocks
from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.engines.large_spread import LargeSpread
from carvegbm.engines.search import Search
from carvegbm.engines.task import Engine, Listen, Seconds, Task
from carvegbm.errors import CarveError
from carvegbm.problem import Rows

__all__ = ["Turn", "decide", "turns"]


class Turn(NamedTuple):
    """An engine, and what it gets."""

    engine: Callable[[], Engine]
    """Makes it, when its turn comes: to import milp takes a while."""
    share: float = 1.0
    """Of the time that is left to a row."""
    least: float = 0.0
    """Seconds: with no more than that, it is not worth to begin."""


def turns(task: Task) -> list[Turn]:
    """The engines that may decide, in their order."""
    settings, problem = task.settings, task.problem
    if settings.engine == "milp" and task.asks != "verdict":
        what = "radii" if task.asks == "radius" else "ranges"
        raise CarveError(f"engine 'milp' does not measure {what}; use auto, search or large-spread")
    if settings.engine == "search":
        return [Turn(Search)]
    milp = partial(_milp, last_resort=settings.engine == "auto")
    if settings.engine == "milp":
        return [Turn(milp)]
    large_spread = partial(LargeSpread, per_instance=not problem.is_large_spread)
    if settings.only_large_spread:
        if settings.on_violation != "unknown" and task.asks != "radius":
            require_large_spread(problem.ensemble, problem.attacker)
        return [Turn(large_spread)]
    # Its knapsacks are NP-hard too, but those of real models take no more than an instant.
    first = Turn(large_spread, share=0.25)
    if task.asks == "verdict" and math.isfinite(settings.timeout):
        return [first, Turn(Search, share=0.6), Turn(milp, least=0.1)]
    return [first, Turn(Search)]


def _milp(last_resort: bool) -> Engine:
    from carvegbm.engines.milp.engine import Milp

    return Milp(last_resort)


def decide(task: Task, rows: Rows, listen: Listen | None = None) -> Decisions:
    """Decide every row: one engine after the other, each with what the last left open."""
    team = turns(task)  # what cannot be asked is said of the model as it was given
    if rows.is_sparse:
        return decide_in_blocks(task, rows, listen, decide)
    relay = _Relay(len(rows), listen)
    for turn in team:
        open_ = relay.open()
        left = task.settings.timeout - relay.seconds(open_)
        enough = left > turn.least
        open_, left = open_[enough], left[enough]
        if len(open_):
            hear = relay.hearing(open_, is_last=turn is team[-1])
            turn.engine().decide(task, rows.take(open_), turn.share * left, hear)
    return relay.end()


class _Relay:
    """Joins what the engines find into one table, and tells the listener what has become final."""

    def __init__(self, count: int, listen: Listen | None) -> None:
        self._known: Decisions | None = None
        self._listen = listen
        self._untold = np.ones(count, dtype=bool)

    def open(self) -> Indices:
        """The rows that nobody has decided."""
        rows = np.arange(len(self._untold))
        return rows if self._known is None else rows[self._known.is_open(rows)]

    def seconds(self, rows: Indices) -> Seconds:
        """What these rows have taken so far."""
        return np.zeros(len(rows)) if self._known is None else self._known.seconds[rows]

    def hearing(self, which: Indices, is_last: bool) -> Listen:
        """What to tell an engine that works on these rows to call."""

        def hear(found: Decisions, finished: Indices) -> None:
            rows = which[finished]
            if self._known is None:  # the first engine has all rows
                self._known = found
            elif found is not self._known:
                self._known.add(rows, found.take(finished))
            self._tell(rows if is_last else rows[~self._known.is_open(rows)])

        return hear

    def end(self) -> Decisions:
        """The table, when all engines are through."""
        assert self._known is not None
        if self._untold.any():
            self._tell(np.flatnonzero(self._untold))
        return self._known

    def _tell(self, rows: Indices) -> None:
        self._untold[rows] = False
        if self._listen is not None:
            assert self._known is not None
            self._listen(self._known, rows)
