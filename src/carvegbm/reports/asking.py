"""What a report asks: a status per attacker, a radius and a minimal witness per way to attack.

Comes in: a model, instances, labels, attackers, and how to ask. Goes out: `Answers`, results only.
Attackers that differ in nothing but their budget share their radii and witnesses. The work can be
cut short by Ctrl-C: rows that nobody has looked at by then are unknown, and no more is asked.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import Decisions, Indices, Listen, Settings, Task, decide
from carvegbm.minimal import Minimal, MinimalWitness, each_minimal_witness
from carvegbm.problem import Problem, Rows
from carvegbm.progress import Progress, showing
from carvegbm.radius import Radius
from carvegbm.statuses import UNKNOWN
from carvegbm.verification import Verification

__all__ = ["Answers", "Asked", "Distance", "How", "Sample", "ask"]


@dataclass(frozen=True)
class Sample:
    """Which rows are judged."""

    rows: int
    """How many there are."""
    numbers: Indices
    """Those that are judged, ascending."""
    seed: int | None
    """None: all of them are."""

    @classmethod
    def of(cls, rows: int, most: int | None, seed: int) -> Sample:
        """At most so many, drawn without preference; None: all."""
        if most is None or rows <= most:
            return cls(rows, np.arange(rows), None)
        drawn = np.random.default_rng(seed).choice(rows, size=most, replace=False)
        return cls(rows, np.sort(drawn), seed)

    @property
    def is_whole(self) -> bool:
        """Whether every row is judged."""
        return self.seed is None


@dataclass(frozen=True)
class Distance:
    """A way to attack, whatever the budget, and how far the judged rows are from being flipped."""

    problem: Problem
    """The attacker's budget is 0."""
    rows: Rows
    """The judged ones."""
    radius: Radius
    minimal: Minimal
    seconds: tuple[float, float]
    """For radii, and for witnesses."""

    @property
    def attacker(self) -> Attacker:
        """Its budget has no part in it."""
        return self.problem.attacker


@dataclass(frozen=True)
class Asked:
    """An attacker, and what was decided."""

    task: Task
    distance: int
    """Its place among the distances: attackers that differ in their budget share one."""
    decisions: Decisions
    verification: Verification
    seconds: float

    @property
    def attacker(self) -> Attacker:
        """With its budget."""
        return self.task.problem.attacker


@dataclass(frozen=True)
class Answers:
    """All that was asked, in the order of the attackers given."""

    sample: Sample
    asked: tuple[Asked, ...]
    distances: tuple[Distance, ...]
    labels: npt.NDArray[np.int32]
    """Of the judged rows, as places among the classes."""
    interrupted: bool


@dataclass(frozen=True)
class How:
    """How everything is asked."""

    settings: Settings
    most: int | None
    """Rows to judge; None: all."""
    seed: int
    with_witnesses: bool
    """Ask for verdicts that can be proved."""
    progress: Progress


def ask(model: Any, X: Any, y: Any, attackers: Sequence[Attacker], how: How) -> Answers:
    """Ask everything."""
    settings, kinds = how.settings, _kinds(attackers)
    problems = [Problem(model, kind.with_budget(0)) for kind in kinds]
    asking = _Asking(settings, how.progress)
    rows, sample = [], None
    for problem in problems:
        found = problem.rows(X, y, settings.threads)
        if sample is None:
            sample = Sample.of(len(found), how.most, how.seed)
        rows.append(found.take(sample.numbers))
    assert sample is not None
    labels = rows[0].labels
    assert labels is not None
    every: list[Asked] = []
    for attacker in attackers:
        place = next(i for i, kind in enumerate(kinds) if _is_alike(kind, attacker))
        problem = problems[place].with_budget(attacker.budget)
        proved = how.with_witnesses
        task = Task(problem, settings, witness=proved, any_witness=proved)
        decided, seconds = asking.decided(task, rows[place], _described(attacker))
        verification = Verification.of(decided, problem)
        every.append(Asked(task, place, decided, verification, seconds))
    distances = [
        asking.distance(problem, rows[place], [asked for asked in every if asked.distance == place])
        for place, problem in enumerate(problems)
    ]
    return Answers(sample, tuple(every), tuple(distances), labels, asking.interrupted)


def _kinds(attackers: Sequence[Attacker]) -> list[Attacker]:
    """One attacker for every way to attack."""
    found: list[Attacker] = []
    for attacker in attackers:
        if not any(_is_alike(known, attacker) for known in found):
            found.append(attacker)
    return found


def _is_alike(one: Attacker, other: Attacker) -> bool:
    """Whether they differ in nothing but their budget."""
    return one.norm == other.norm and one.has_limits_of(other)


def _described(attacker: Attacker) -> str:
    return f"verifying norm {attacker.norm}, budget {attacker.budget:g}"


class _Asking:
    """Asks one question after the other, and no more once it is interrupted."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.interrupted = False

    def distance(self, problem: Problem, rows: Rows, every: Sequence[Asked]) -> Distance:
        """Radii and witnesses; `every` are the attackers that go this way."""
        wide = problem.with_budget(problem.unlimited_budget)
        task = Task(wide, self.settings, asks="radius")
        found, measuring = self.decided(task, rows, f"measuring norm {problem.attacker.norm}")
        _bound_radii(found, every, problem.attacker.norm)
        radii = Radius.of(found, task.problem, None)
        witnesses: list[MinimalWitness] = []
        begun = time.perf_counter()
        if not self.interrupted:
            with self._till_interrupted():
                for witness in each_minimal_witness(
                    problem, rows, radii, self.settings, self.progress
                ):
                    witnesses.append(witness)  # noqa: PERF402 - those before an interruption stay
        minimal = Minimal.of(witnesses, radii)
        return Distance(problem, rows, radii, minimal, (measuring, time.perf_counter() - begun))

    def decided(self, task: Task, rows: Rows, title: str) -> tuple[Decisions, float]:
        """What is known of every row in the end, and the seconds that it took."""
        begun = time.perf_counter()
        known: Decisions | None = None
        final = np.zeros(len(rows), dtype=bool)
        tell: Listen | None = None

        def listen(found: Decisions, finished: Indices) -> None:
            nonlocal known
            known = found
            final[finished] = True
            if tell is not None:
                tell(found, finished)

        if not self.interrupted:
            with self._till_interrupted(), showing(self.progress, len(rows), title) as tell:
                known = decide(task, rows, listen)
        if known is None or not final.all():
            known = _unknown(task, rows, known, final)
        return known, time.perf_counter() - begun

    @contextmanager
    def _till_interrupted(self) -> Iterator[None]:
        """The block ends at Ctrl-C."""
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True


def _bound_radii(found: Decisions, every: Sequence[Asked], norm: int | float) -> None:
    """Where time ran out: a radius is beyond the budgets that do not flip its row, and above 0."""
    lower, upper = found["radius_lower"], found["radius_upper"]

    def beyond(budget: float) -> float:
        return budget + 1 if norm == 0 else float(np.nextafter(budget, np.inf))

    open_ = lower < upper  # a wrong row has 0 for both
    lower[open_] = np.maximum(lower[open_], beyond(0.0))
    for asked in every:
        status, budget = asked.verification.status, asked.attacker.budget
        robust, fragile = open_ & (status == "robust"), open_ & (status == "fragile")
        lower[robust] = np.maximum(lower[robust], beyond(budget))
        upper[fragile] = np.minimum(upper[fragile], budget)


def _unknown(
    task: Task, rows: Rows, known: Decisions | None, final: npt.NDArray[np.bool_]
) -> Decisions:
    """What is known when only some rows are final: the others are unknown."""
    count = len(rows)
    right, margin = np.empty(count, dtype=bool), np.empty(count)
    for which, problem, part in task.problem.dense(rows):
        found = problem.unattacked(part, task.settings.threads)
        right[which], margin[which] = found.right, found.margin
    lowest, highest = np.full(count, -np.inf), np.full(count, np.inf)
    columns: dict[str, npt.NDArray[Any]] = {
        "status": np.full(count, UNKNOWN, dtype=np.uint8),
        "engine": np.zeros(count, dtype=np.uint8),
        "seconds": np.zeros(count),
        "right": right,
        "margin": margin,
        "worst_lower": np.where(right, lowest, margin),
        "worst_upper": np.where(right, margin, highest),
        "radius_lower": np.zeros(count),
        "radius_upper": np.where(right, np.inf, 0.0),
    }
    if task.witness:
        columns["distance"] = np.full(count, np.nan)
        shape = (count,) if rows.is_sparse else (count, task.problem.ensemble.n_features)
        columns["witness"] = np.full(shape, None if rows.is_sparse else np.nan)
    if known is not None:
        for name, column in columns.items():
            if name in known:
                column[final] = known[name][final]
    return Decisions(columns)
