"""What is asked of an engine, and how it may go about it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from carvegbm.data.rows import check_threads
from carvegbm.engines.decisions import Decisions, Indices
from carvegbm.errors import CarveError, shown
from carvegbm.problem import Problem, Rows

__all__ = ["Asks", "Engine", "EngineName", "Listen", "OnViolation", "Settings", "Task"]

EngineName = Literal["auto", "large-spread", "search", "milp"]
OnViolation = Literal["raise", "unknown"]
Asks = Literal["verdict", "radius", "range", "within"]
Seconds = npt.NDArray[np.float64]

Listen = Callable[[Decisions, Indices], object]
"""Gets, while the work goes on and in the calling thread, the table of decisions and the rows that
became final since the call before: every row once, none perhaps. What it raises ends the work."""


@dataclass(frozen=True)
class Settings:
    """How to decide; checked on construction."""

    engine: EngineName = "auto"
    timeout: float = 10.0
    threads: int | None = None
    on_violation: OnViolation | None = None
    basic: bool = False
    grid: int | None = None
    exact_margin: bool = False

    def __post_init__(self) -> None:
        if self.engine not in ("auto", "large-spread", "search", "milp"):
            raise CarveError(
                f"engine must be auto, large-spread, search or milp, got {self.engine!r}"
            )
        numbers = int | float | np.integer | np.floating
        if not isinstance(self.timeout, numbers) or not 0 < self.timeout <= math.inf:
            raise CarveError(f"timeout must be > 0 seconds per instance, got {shown(self.timeout)}")
        try:
            object.__setattr__(self, "timeout", float(self.timeout))
        except OverflowError:  # a whole number beyond all floats
            object.__setattr__(self, "timeout", math.inf)
        if self.on_violation not in (None, "raise", "unknown"):
            raise CarveError(
                f"on_violation must be 'raise' or 'unknown', got {self.on_violation!r}"
            )
        if self.on_violation is not None and self.engine not in ("auto", "large-spread"):
            raise CarveError(
                f"on_violation concerns the large-spread engine, not {self.engine!r}; leave it out"
            )
        if self.of_the_paper and self.engine not in ("auto", "large-spread"):
            raise CarveError(
                f"method='basic' and grid belong to the large-spread engine, not {self.engine!r}"
            )
        if self.grid is not None and (
            not isinstance(self.grid, int | np.integer) or not 0 <= self.grid <= 300
        ):
            raise CarveError(
                f"grid must be a whole number of digits from 0 to 300, got {self.grid!r}"
            )
        check_threads(self.threads)

    @property
    def of_the_paper(self) -> bool:
        """Whether one of the paper's own modes is asked for."""
        return self.basic or self.grid is not None

    @property
    def only_large_spread(self) -> bool:
        """Whether no other engine may take over."""
        return self.engine == "large-spread" or self.on_violation is not None or self.of_the_paper


@dataclass(frozen=True, eq=False)
class Task:
    """A question about every row of a problem.

    verdict   can the attacker flip the decision? with `witness`, by what?
    radius    the smallest budget, up to the attacker's, that flips the decision
    range     the lowest and the highest raw score within reach
    within    does every attack change the raw score by at most `limit`, a sum of doubles?
    """

    problem: Problem
    settings: Settings
    asks: Asks = "verdict"
    witness: bool = False
    any_witness: bool = False
    """Whichever is found first, where it takes longer to find the best; of its distance no more may
    be told than that the budget affords it."""
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


class Engine(Protocol):
    """One way to decide."""

    def decide(self, task: Task, rows: Rows, seconds: Seconds, listen: Listen) -> Decisions:
        """Decide every row within its seconds, or leave it unknown; every verdict is proved."""
        ...
