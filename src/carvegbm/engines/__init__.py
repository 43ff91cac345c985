"""Engines: who decides a row, in what order, and for how long.

large-spread   the paper's algorithms; rows for which the condition holds, nothing else
search         any ensemble, any norm: relax, conflict, branch
milp           any ensemble, any norm: a mixed-integer program, the second opinion
auto           a list of them: what one leaves unknown is passed on to the next

A `Task` and `Rows` in, `Decisions` out; every verdict is proved by the engine that gives it. A new
engine is a class with one method (`task.Engine`) and a turn in `auto.turns`.
"""

from carvegbm.engines.auto import decide
from carvegbm.engines.decisions import Decisions
from carvegbm.engines.task import Asks, EngineName, Listen, OnViolation, Settings, Task

__all__ = [
    "Asks",
    "Decisions",
    "EngineName",
    "Listen",
    "OnViolation",
    "Settings",
    "Task",
    "decide",
]
