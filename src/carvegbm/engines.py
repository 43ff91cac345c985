"""Engines: who decides an instance, in what order, and for how long.

large-spread   the paper's algorithms; instances for which the condition holds, nothing else
search         any ensemble, any norm: relax, conflict, branch
milp           any ensemble, any norm: a mixed-integer program, the second opinion
auto           large-spread where it holds, else search for a slice of the time limit, else milp

Arrays in, arrays out; every verdict is proved by the engine that gives it.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Literal, cast

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.instances import check_threads
from carvegbm.progress import counted_from
from carvegbm.spread import is_large_spread, require_large_spread

if TYPE_CHECKING:
    from carvegbm import milp

__all__ = [
    "LARGE_SPREAD_SLICE",
    "STATUSES",
    "Decisions",
    "Engine",
    "OnViolation",
    "Settings",
    "check_spread",
    "decide",
    "undecided",
]

Engine = Literal["auto", "large-spread", "search", "milp"]
OnViolation = Literal["raise", "unknown"]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Tick = Callable[[int], object] | None

STATUSES = ("robust", "fragile", "vulnerable", "broken", "unknown")
"""In the order of the core's codes."""

LARGE_SPREAD_SLICE = 0.25  # the share of the time limit that auto gives to a hard knapsack
_SEARCH_SLICE = 0.6  # … and, of what is left, to search before milp
_LEAST_FOR_MILP = 0.1  # seconds: with less, auto does not begin with it
_SEARCH_ENGINES = np.array(["", "large-spread", "search"], dtype="<U12")
_UNKNOWN = STATUSES.index("unknown")


@dataclass(frozen=True)
class Settings:
    """How to decide; checked on construction."""

    engine: Engine = "auto"
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
        if not isinstance(self.timeout, int | float | np.number) or not self.timeout > 0:
            raise CarveError(f"timeout must be > 0 seconds per instance, got {self.timeout!r}")
        if self.on_violation not in (None, "raise", "unknown"):
            raise CarveError(
                f"on_violation must be 'raise' or 'unknown', got {self.on_violation!r}"
            )
        if self.on_violation is not None and self.engine not in ("auto", "large-spread"):
            raise CarveError(
                f"on_violation concerns the large-spread engine, not {self.engine!r}; leave it out"
            )
        check_threads(self.threads)

    @property
    def only_large_spread(self) -> bool:
        """Whether no other engine may take over."""
        return self.engine == "large-spread" or self.on_violation is not None


@dataclass
class Decisions:
    """Per instance: the verdict, what it rests on, and the witness where one was asked for."""

    status: npt.NDArray[np.uint8]
    right: npt.NDArray[np.bool_]
    margin: npt.NDArray[np.float64]
    worst_lower: npt.NDArray[np.float64]
    worst_upper: npt.NDArray[np.float64]
    engine: npt.NDArray[np.str_]
    seconds: npt.NDArray[np.float64]
    example: npt.NDArray[np.float64] | None = None
    distance: npt.NDArray[np.float64] | None = None


def check_spread(ensemble: Ensemble, attacker: Attacker, on_violation: str | None) -> bool:
    """Whether the large-spread condition must be checked per instance.

    Raises `NotLargeSpreadError` where the ensemble is not large-spread, unless `on_violation`
    is "unknown".
    """
    if on_violation == "unknown":
        return not is_large_spread(ensemble, attacker)
    require_large_spread(ensemble, attacker)
    return False


def decide(
    ensemble: Ensemble,
    attacker: Attacker,
    rows: Rows,
    labels: npt.NDArray[np.int32],
    settings: Settings,
    *,
    witness: bool,
    tick: Tick,
) -> Decisions:
    """Decide every row with the engine(s) of the settings."""
    special = settings.basic or settings.grid is not None
    if special and settings.engine not in ("auto", "large-spread"):
        raise CarveError(
            f"method='basic' and grid belong to the large-spread engine, not {settings.engine!r}"
        )
    if settings.only_large_spread or special:
        per_instance = check_spread(ensemble, attacker, settings.on_violation)
        return _by_large_spread(
            ensemble,
            attacker,
            rows,
            labels,
            settings,
            settings.timeout,
            per_instance,
            witness,
            tick,
        )
    if settings.engine == "auto" and is_large_spread(ensemble, attacker):
        slice_ = LARGE_SPREAD_SLICE * settings.timeout
        decisions = _by_large_spread(
            ensemble, attacker, rows, labels, settings, slice_, False, witness, tick
        )
        unknown = np.flatnonzero(decisions.status == _UNKNOWN)
        if len(unknown) == 0:
            return decisions
        # The knapsack is NP-hard too: what it did not finish goes to the general engines.
        left = settings.timeout - slice_ if math.isfinite(settings.timeout) else math.inf
        rest = replace(settings, engine="search", timeout=left)
        some = cast("Rows", np.ascontiguousarray(rows[unknown]))
        tick = counted_from(len(rows) - len(unknown), tick)
        others = _search_then_milp(ensemble, attacker, some, labels[unknown], rest, witness, tick)
        others.worst_lower = np.maximum(others.worst_lower, decisions.worst_lower[unknown])
        others.worst_upper = np.minimum(others.worst_upper, decisions.worst_upper[unknown])
        for field in fields(Decisions):
            if getattr(decisions, field.name) is not None:
                getattr(decisions, field.name)[unknown] = getattr(others, field.name)
        decisions.seconds[unknown] += slice_ if math.isfinite(slice_) else 0.0
        return decisions
    if settings.engine == "milp":
        decisions = undecided(ensemble, attacker, rows, labels, witness)
        _by_milp(ensemble, attacker, rows, labels, settings, decisions, tick)
        return decisions
    if settings.engine == "search" or not math.isfinite(settings.timeout):
        return _by_search(
            ensemble, attacker, rows, labels, settings, settings.timeout, witness, tick
        )
    return _search_then_milp(ensemble, attacker, rows, labels, settings, witness, tick)


def _search_then_milp(
    ensemble: Ensemble,
    attacker: Attacker,
    rows: Rows,
    labels: npt.NDArray[np.int32],
    settings: Settings,
    witness: bool,
    tick: Tick,
) -> Decisions:
    """Search for a slice of the time, milp for the rest."""
    slice_ = _SEARCH_SLICE * settings.timeout
    decisions = _by_search(ensemble, attacker, rows, labels, settings, slice_, witness, tick)
    decided = int(np.count_nonzero(decisions.status != _UNKNOWN))
    rest = replace(settings, engine="auto")
    _by_milp(ensemble, attacker, rows, labels, rest, decisions, counted_from(decided, tick))
    return decisions


def undecided(
    ensemble: Ensemble,
    attacker: Attacker,
    rows: Rows,
    labels: npt.NDArray[np.int32],
    witness: bool,
) -> Decisions:
    """What can be said without an attack."""
    from carvegbm import _core

    n = len(rows)
    nobody = attacker.with_budget(0).core(ensemble)
    _, right, margin, lower, upper = _core.verify(
        ensemble.core, nobody, rows, labels, False, -1, False, math.inf, 0, None
    )
    return Decisions(
        np.full(n, _UNKNOWN, dtype=np.uint8),
        right,
        margin,
        np.where(right, -np.inf, lower),
        np.where(right, upper, np.inf),
        np.full(n, "", dtype="<U12"),
        np.zeros(n),
        np.full(rows.shape, np.nan) if witness else None,
        np.full(n, np.nan) if witness else None,
    )


def _by_large_spread(
    ensemble: Ensemble,
    attacker: Attacker,
    rows: Rows,
    labels: npt.NDArray[np.int32],
    settings: Settings,
    seconds: float,
    per_instance: bool,
    witness: bool,
    tick: Tick,
) -> Decisions:
    from carvegbm import _core

    threads = check_threads(settings.threads)
    core, attacker_core = ensemble.core, attacker.core(ensemble)
    started = time.monotonic()
    example = distance = None
    if witness:
        status, right, margin, lower, upper, example, distance = _core.attack(
            core, attacker_core, rows, labels, per_instance, seconds, threads, tick
        )
    else:
        status, right, margin, lower, upper = _core.verify(
            core,
            attacker_core,
            rows,
            labels,
            settings.basic,
            _check_grid(settings.grid, attacker),
            per_instance,
            seconds,
            threads,
            tick,
        )
    each = (time.monotonic() - started) / len(rows)
    return Decisions(
        status,
        right,
        margin,
        lower,
        upper,
        np.where(status == _UNKNOWN, "", "large-spread").astype("<U12", copy=False),
        np.full(len(rows), each),
        example,
        distance,
    )


def _by_search(
    ensemble: Ensemble,
    attacker: Attacker,
    rows: Rows,
    labels: npt.NDArray[np.int32],
    settings: Settings,
    seconds: float,
    witness: bool,
    tick: Tick,
) -> Decisions:
    from carvegbm import _core

    found = _core.search_verify(
        ensemble.core,
        attacker.core(ensemble),
        rows,
        labels,
        seconds,
        settings.exact_margin,
        settings.engine == "auto",
        witness,
        check_threads(settings.threads),
        tick,
    )
    status, right, margin, lower, upper, engine, taken, example, distance = found
    names = np.where(status == _UNKNOWN, "", _SEARCH_ENGINES[engine])
    decisions = Decisions(status, right, margin, lower, upper, names, taken)
    if witness:
        decisions.example = example
        decisions.distance = distance
    return decisions


def _by_milp(
    ensemble: Ensemble,
    attacker: Attacker,
    rows: Rows,
    labels: npt.NDArray[np.int32],
    settings: Settings,
    decisions: Decisions,
    tick: Tick,
) -> None:
    """Let milp decide what is unknown, in the time each instance has left."""
    from carvegbm import milp

    left = settings.timeout - decisions.seconds
    least = _LEAST_FOR_MILP if settings.engine == "auto" else 0.0
    unknown = np.flatnonzero((decisions.status == _UNKNOWN) & (left > least)).tolist()
    if not unknown:
        return
    scene, done = milp.Scene(ensemble, attacker), 0

    def solve(row: int, solver: milp.Solver) -> milp.Verdict | None:
        try:
            return milp.decide(scene, rows[row], int(labels[row]), float(left[row]), solver)
        except milp.ProgramTooLarge:
            if settings.engine == "milp":
                raise
            return None  # the last resort of "auto" is none here: the instance stays unknown

    def record(row: int, verdict: milp.Verdict | None) -> None:
        nonlocal done
        done += 1
        if verdict is not None:
            x = np.asarray(rows[row], dtype=np.float64)
            _record(ensemble, attacker, decisions, row, x, verdict)
        if tick is not None:
            tick(done)

    threads = check_threads(settings.threads) or os.cpu_count() or 1
    milp.in_parallel(solve, unknown, threads, record)


def _record(
    ensemble: Ensemble,
    attacker: Attacker,
    decisions: Decisions,
    row: int,
    x: npt.NDArray[np.float64],
    verdict: milp.Verdict,
) -> None:
    """Add what milp found about one instance to what was known."""
    decisions.seconds[row] += verdict.seconds
    decisions.worst_lower[row] = np.fmax(decisions.worst_lower[row], verdict.lower)
    decisions.worst_upper[row] = np.fmin(decisions.worst_upper[row], verdict.upper)
    if verdict.status == "unknown":
        return
    decisions.status[row] = STATUSES.index(verdict.status)
    decisions.engine[row] = "milp"
    if decisions.example is None or verdict.witness is None:
        return
    assert decisions.distance is not None
    decisions.example[row] = verdict.witness
    decisions.distance[row] = attacker.distance(ensemble, x, verdict.witness)


def _check_grid(grid: int | None, attacker: Attacker) -> int:
    if grid is None:
        return -1
    if not isinstance(grid, int | np.integer) or not 0 <= grid <= 300:
        raise CarveError(f"grid must be a whole number of digits from 0 to 300, got {grid!r}")
    if 0 < attacker.norm < math.inf and attacker.budget > 0:
        cells = grid + attacker.norm * math.log10(attacker.budget)
        if cells > 15:
            raise CarveError(
                f"grid {grid} is too fine for budget {attacker.budget:g}: more than 10^15 cells; "
                "use fewer digits, or leave it out for exact verification"
            )
    return int(grid)
