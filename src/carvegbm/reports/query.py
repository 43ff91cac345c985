"""Run the queries of a report: verification per attacker, radii and minimal witnesses per distance.

Attackers that differ only in their budget share one distance: the same radii and witnesses. After
Ctrl-C no further query starts, and rows without an answer are unknown.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import Decisions, Listen, Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.minimal import Minimal, MinimalWitness, each_minimal_witness
from carvegbm.model.ensemble import Ensemble
from carvegbm.problem import Problem, Rows
from carvegbm.progress import Progress, showing
from carvegbm.proofs.write import write_proof
from carvegbm.radius import Radius
from carvegbm.statuses import UNKNOWN
from carvegbm.storage.identity import sha256_of
from carvegbm.verification import Verification

__all__ = ["AttackerResult", "DistanceResult", "QueryResults", "prove", "run_queries"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AttackerResult:
    """Verification against one attacker."""

    task: Task
    distance: int
    """Index of its `DistanceResult`."""
    decisions: Decisions
    verification: Verification
    seconds: float

    @property
    def attacker(self) -> Attacker:
        """The attacker with its budget."""
        return self.task.problem.attacker


@dataclass(frozen=True)
class DistanceResult:
    """Radii and minimal witnesses for one norm and one set of limits."""

    problem: Problem
    """The attacker's budget is 0."""
    rows: Rows
    radius: Radius
    minimal: Minimal
    seconds: tuple[float, float]
    """Processing time of the radii and of the witnesses."""


@dataclass(frozen=True)
class QueryResults:
    """Everything a report is computed from."""

    total: int
    """Number of rows of the data."""
    rows: Indices
    """The rows that were analysed, ascending."""
    seed: int | None
    """Seed of the sample; None if all rows were analysed."""
    labels: npt.NDArray[np.int32]
    """Class index of each analysed row."""
    attackers: tuple[AttackerResult, ...]
    distances: tuple[DistanceResult, ...]
    interrupted: bool


def run_queries(
    ensemble: Ensemble,
    X: Any,
    y: Any,
    attackers: Sequence[Attacker],
    settings: Settings,
    *,
    sample: int | None,
    seed: int,
    with_proofs: bool,
    progress: Progress,
) -> QueryResults:
    """Run all queries on at most `sample` rows, drawn with `seed`; None means all rows."""
    kinds: list[Attacker] = []
    places = []
    for attacker in attackers:
        place = next((i for i, kind in enumerate(kinds) if _is_alike(kind, attacker)), len(kinds))
        kinds += [attacker] if place == len(kinds) else []
        places.append(place)
    problems = [Problem(ensemble, kind.with_budget(0)) for kind in kinds]
    rows: list[Rows] = []
    total, chosen = 0, np.arange(0)
    for problem in problems:
        found = problem.rows(X, y, settings.threads)
        if not rows:
            total = len(found)
            chosen = np.arange(total)
            if sample is not None and total > sample:
                drawn = np.random.default_rng(seed).choice(total, size=sample, replace=False)
                chosen = np.sort(drawn)
                if with_proofs:
                    raise CarveError(
                        f"proof needs every row, but sample selects only {sample} of {total}; "
                        "give sample=None (--sample all), or leave out proof"
                    )
        rows.append(found.take(chosen))
    labels = rows[0].labels
    assert labels is not None
    runner = _Runner(settings, progress)
    verified = []
    for attacker, place in zip(attackers, places, strict=True):
        problem = problems[place].with_budget(attacker.budget)
        task = Task(problem, settings, witness=with_proofs, any_witness=with_proofs)
        title = f"verifying norm {attacker.norm}, budget {attacker.budget:g}"
        decisions, seconds = runner.decisions(task, rows[place], title)
        verification = Verification.of(decisions, problem)
        verified.append(AttackerResult(task, place, decisions, verification, seconds))
    distances = [
        runner.distance(problem, rows[i], [one for one in verified if one.distance == i])
        for i, problem in enumerate(problems)
    ]
    return QueryResults(
        total,
        chosen,
        None if len(chosen) == total else seed,
        labels,
        tuple(verified),
        tuple(distances),
        runner.interrupted,
    )


def _is_alike(one: Attacker, other: Attacker) -> bool:
    """Whether two attackers differ only in their budget."""
    return one.norm == other.norm and one.has_limits_of(other)


class _Runner:
    """Runs one query after the other, and none after an interruption."""

    def __init__(self, settings: Settings, progress: Progress) -> None:
        self.settings, self.progress = settings, progress
        self.interrupted = False

    def distance(
        self, problem: Problem, rows: Rows, verified: Sequence[AttackerResult]
    ) -> DistanceResult:
        """Radii and witnesses; `verified` are the attackers of this distance."""
        wide = problem.with_budget(problem.unlimited_budget)
        task = Task(wide, self.settings, asks="radius")
        found, seconds = self.decisions(task, rows, f"measuring norm {problem.attacker.norm}")
        _tighten_radii(found, verified, problem.attacker.norm)
        radii = Radius.of(found, task.problem, None)
        witnesses: list[MinimalWitness] = []
        begun = time.perf_counter()
        if not self.interrupted:
            with self._until_interrupted():
                for witness in each_minimal_witness(
                    problem, rows, radii, self.settings, self.progress
                ):
                    witnesses.append(witness)  # noqa: PERF402 - keep those before Ctrl-C
        minimal = Minimal.of(witnesses, radii)
        return DistanceResult(problem, rows, radii, minimal, (seconds, time.perf_counter() - begun))

    def decisions(self, task: Task, rows: Rows, title: str) -> tuple[Decisions, float]:
        """Decide all rows, or as many as possible until Ctrl-C; also the seconds this took."""
        begun = time.perf_counter()
        known: Decisions | None = None
        final = np.zeros(len(rows), dtype=bool)
        report_progress: Listen | None = None

        def listen(found: Decisions, finished: Indices) -> None:
            nonlocal known
            known = found
            final[finished] = True
            if report_progress is not None:
                report_progress(found, finished)

        if not self.interrupted:
            with (
                self._until_interrupted(),
                showing(self.progress, len(rows), title) as report_progress,
            ):
                known = decide(task, rows, listen)
        if known is None or not final.all():
            known = _partial_decisions(task, rows, known, final)
        return known, time.perf_counter() - begun

    @contextmanager
    def _until_interrupted(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            self.interrupted = True


def _tighten_radii(found: Decisions, verified: Sequence[AttackerResult], norm: int | float) -> None:
    """Tighten undecided radii: > every budget at which the row is robust, <= one that flips it."""
    lower, upper = found["radius_lower"], found["radius_upper"]

    def above(budget: float) -> float:
        return budget + 1 if norm == 0 else float(np.nextafter(budget, np.inf))

    undecided = lower < upper  # both are 0 for a wrong row
    lower[undecided] = np.maximum(lower[undecided], above(0.0))
    for one in verified:
        status, budget = one.verification.status, one.attacker.budget
        robust, fragile = undecided & (status == "robust"), undecided & (status == "fragile")
        lower[robust] = np.maximum(lower[robust], above(budget))
        upper[fragile] = np.minimum(upper[fragile], budget)


def _partial_decisions(
    task: Task, rows: Rows, known: Decisions | None, final: npt.NDArray[np.bool_]
) -> Decisions:
    """Decisions of an interrupted query: `known` for final rows, unknown for the others."""
    count = len(rows)
    right, margin = np.empty(count, dtype=bool), np.empty(count)
    for which, problem, part in task.problem.dense(rows):
        found = problem.unattacked(part, task.settings.threads)
        right[which], margin[which] = found.right, found.margin
    columns: dict[str, npt.NDArray[Any]] = {
        "status": np.full(count, UNKNOWN, dtype=np.uint8),
        "engine": np.zeros(count, dtype=np.uint8),
        "seconds": np.zeros(count),
        "right": right,
        "margin": margin,
        "worst_lower": np.where(right, -np.inf, margin),
        "worst_upper": np.where(right, margin, np.inf),
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


def prove(
    path: Path, result: AttackerResult, results: QueryResults, own_labels: bool, progress: Progress
) -> Iterator[dict[str, Any]]:
    """Write the proofs of an attacker's statuses and check them with the independent checker.

    Yields an entry for the document twice: once the file is written, and once it is checked.
    """
    import carvegbm_check

    rows, problem = results.distances[result.distance].rows, result.task.problem
    counts = write_proof(
        path, result.task, rows, result.decisions, own_labels=own_labels, progress=progress
    )
    content = path.read_bytes()
    entry = {
        "file": path.name,
        "sha256": sha256_of([content]),
        "bytes": len(content),
        "proved": counts.proved,
        "unproved": counts.unproved,
        "checked": False,
        "said": "the check was interrupted",
    }
    yield entry
    values = [row for _, part in problem.parts(rows) for row in part.given.tolist()]
    labels = None if own_labels else problem.ensemble.classes[results.labels].tolist()
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.json"
        problem.ensemble.save(model)
        try:
            found = carvegbm_check.check(path, model, (values, labels), allow_trivial=True)
            checked, said = found.is_proved, found.summary()
        except carvegbm_check.RefusedError as error:
            checked, said = False, str(error)
    yield entry | {"checked": checked, "said": said}
