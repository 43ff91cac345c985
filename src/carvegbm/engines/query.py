"""Queries about rows: the options, the query itself, and the table of results."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError
from carvegbm.options import QUERY_OPTIONS, EngineName, Method, OnViolation
from carvegbm.problem import Problem
from carvegbm.statuses import UNKNOWN

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = [
    "ENGINES",
    "Asks",
    "Decisions",
    "EngineName",
    "Indices",
    "Listen",
    "OnViolation",
    "Seconds",
    "Settings",
    "Task",
]

Asks = Literal["verdict", "radius", "range", "within"]
Seconds = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

ENGINES = ("", "large-spread", "search")
"""Names of the engines; an engine's position is its code in the core. "" means none."""

_COLUMNS = (
    "status",
    "engine",
    "seconds",
    "right",
    "margin",
    "worst_lower",
    "worst_upper",
    "witness",
    "distance",
    "radius_lower",
    "radius_upper",
    "lowest_lower",
    "lowest_upper",
    "highest_lower",
    "highest_upper",
)


@dataclass(frozen=True)
class Settings:
    """Options of the engines; checked on construction, see `carvegbm.options`."""

    engine: EngineName = "auto"
    timeout: float = 10.0
    threads: int | None = None
    on_violation: OnViolation | None = None
    method: Method = "efficient"
    grid: int | None = None
    exact_margin: bool = False

    def __post_init__(self) -> None:
        for name, given in list(vars(self).items()):
            object.__setattr__(self, name, QUERY_OPTIONS[name].check(name, given))
        if self.engine == "search":
            for name in ("on_violation", "method", "grid"):
                if getattr(self, name) != QUERY_OPTIONS[name].default:
                    raise CarveError(
                        f"{name} is an option of the large-spread engine, not of 'search'; drop it"
                    )

    @property
    def only_large_spread(self) -> bool:
        """Whether rows that the large-spread engine leaves unknown stay unknown."""
        return (
            self.engine == "large-spread"
            or self.on_violation is not None
            or self.method == "basic"
            or self.grid is not None
        )


@dataclass(frozen=True, eq=False)
class Task:
    """One query about every row of a problem.

    Attributes
    ----------
    problem : Problem
    settings : Settings
    asks : {"verdict", "radius", "range", "within"}
        verdict: can the attacker change the answer? radius: the smallest budget, up to the
        attacker's, that does. range: the lowest and highest raw score in reach. within: does every
        attack change the raw score by at most `limit`?
    witness : bool
        Return a changed row that proves the verdict; the nearest one unless `any_witness`.
    any_witness : bool
        Accept the first witness found. Its distance is only known to be at most the budget.
    limit : array, optional
        For "within": doubles whose exact sum is the limit.
    """

    problem: Problem
    settings: Settings
    asks: Asks = "verdict"
    witness: bool = False
    any_witness: bool = False
    limit: npt.NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        grid, attacker = self.settings.grid, self.problem.attacker
        if grid is None or not 0 < attacker.norm < math.inf or attacker.budget == 0:
            return
        if grid + attacker.norm * math.log10(attacker.budget) > 15:
            raise CarveError(
                f"grid {grid} is too fine for budget {attacker.budget:g}: more than 10^15 cells; "
                "use fewer digits, or leave it out for exact verification"
            )


class Decisions:
    """Results of a query, one array per column, one entry per row.

    A query fills some of the columns:

    status                     code of the status, see `carvegbm.statuses`. For "within": robust or
                               fragile. For "radius" and "range": unknown until the bounds meet
    engine                     position in ENGINES of the engine that decided; 0: none
    seconds                    time spent by all engines together
    right, margin              of the unchanged row
    worst_lower, worst_upper   worst_lower <= worst margin <= worst_upper; likewise
    radius_…, lowest_…, highest_…
    witness, distance          changed row that proves the status, and its distance; NaN if none

    Parameters
    ----------
    columns : dict of arrays by name; not copied
    """

    def __init__(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        self.columns = columns

    @classmethod
    def of_core(cls, found: _core.Decisions) -> Decisions:
        """Wrap the core's arrays without copying them."""
        columns = ((name, getattr(found, name)) for name in _COLUMNS)
        return cls({name: column for name, column in columns if column is not None})

    def __len__(self) -> int:
        return len(self.columns["status"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    @property
    def status(self) -> npt.NDArray[np.uint8]:
        """Codes of the statuses."""
        return self.columns["status"]

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """Time spent on each row."""
        return self.columns["seconds"]

    @property
    def engine(self) -> npt.NDArray[np.str_]:
        """Name of the engine that decided; "" if none did."""
        return np.asarray(np.array(ENGINES)[self.columns["engine"]])

    def is_open(self, rows: Indices) -> npt.NDArray[np.bool_]:
        """Which of these rows are undecided."""
        return np.asarray(self.status[rows] == UNKNOWN)

    def take(self, rows: Indices | slice) -> Decisions:
        """Select rows."""
        return Decisions({name: column[rows] for name, column in self.columns.items()})

    def add(self, rows: Indices, more: Decisions) -> None:
        """Add another engine's results for distinct undecided rows.

        Bounds are intersected and times added; other columns change where `more` decides.
        """
        decided = more.status != UNKNOWN
        for name, column in self.columns.items():
            if name == "seconds":
                column[rows] += more[name]
            elif name.endswith("_lower"):
                column[rows] = np.fmax(column[rows], more[name])
            elif name.endswith("_upper"):
                column[rows] = np.fmin(column[rows], more[name])
            else:
                column[rows[decided]] = more[name][decided]


Listen = Callable[[Decisions, Indices], object]
"""Progress callback: gets the table and the rows that became final since the previous call.

It runs in the calling thread; every row is reported once, and some calls report none. An exception
it raises ends the query."""
