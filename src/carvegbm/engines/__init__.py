"""Engines: decide rows exactly, within a time limit per row.

`large-spread` runs the paper's algorithms on rows for which their condition holds. `search` is
branch and bound for any ensemble and norm. `auto` runs both in this order: a row that one engine
leaves unknown goes to the next.

query    options, the query (`Task`) and the table of results (`Decisions`)
core     run one engine of the C++ core
decide   schedule the engines, join what they find
sparse   witnesses of sparse rows
"""

from carvegbm.engines.decide import decide, engine_schedule
from carvegbm.engines.query import (
    ENGINES,
    Asks,
    Decisions,
    EngineName,
    Indices,
    Listen,
    OnViolation,
    Settings,
    Task,
)

__all__ = [
    "ENGINES",
    "Asks",
    "Decisions",
    "EngineName",
    "Indices",
    "Listen",
    "OnViolation",
    "Settings",
    "Task",
    "decide",
    "engine_schedule",
]
