"""Minimal witnesses: the nearest witness of each row, without unnecessary changes.

The distance of a witness is the radius, if that is known. Undo any one change, or make it smaller,
and the model's answer returns. (Other witnesses may change fewer features.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.options import LARGEST_BUDGET
from carvegbm.engines import Settings, Task, decide
from carvegbm.engines.sparse import ZERO, within_zero
from carvegbm.model.categories import as_given
from carvegbm.model.core import FINITE
from carvegbm.model.decision import class_indices, may_round_to_a_tie
from carvegbm.problem import Problem, Rows
from carvegbm.progress import Progress, progress_bar
from carvegbm.radius import Radius
from carvegbm.results import plain_labels

__all__ = ["Change", "Minimal", "MinimalWitness", "each_minimal_witness", "minimal_witnesses"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_NUMBERS_AT_ONCE = 1 << 21


class Change(NamedTuple):
    """One changed value, as in X; categories are numbers."""

    feature: int
    before: float
    after: float


@dataclass(frozen=True)
class MinimalWitness:
    """The nearest witness of one row."""

    row: int
    changes: tuple[Change, ...]
    """In the order of the features."""
    distance: float
    """The smallest budget that reaches it."""
    is_nearest: bool
    """Whether the distance is the radius. If not (time ran out, or the radius is smaller than any
    budget), radius <= distance is known."""
    margin: float
    """The margin of the witness; at most 0."""
    answer: Any
    """The model's answer to the witness."""
    borderline: bool
    """See `Attack.borderline`."""


@dataclass(frozen=True)
class Minimal:
    """Minimal witnesses, in the order of their rows."""

    witnesses: tuple[MinimalWitness, ...]
    missed: int
    """Rows that can be flipped without a witness found within the time limit."""

    @classmethod
    def of(cls, found: Iterable[MinimalWitness], radii: Radius) -> Minimal:
        """Sort witnesses of rows with these radii."""
        ordered = tuple(sorted(found, key=lambda witness: witness.row))
        return cls(ordered, int(np.count_nonzero(_flipping(radii)[0])) - len(ordered))

    def __len__(self) -> int:
        return len(self.witnesses)

    def __iter__(self) -> Iterator[MinimalWitness]:
        return iter(self.witnesses)


def minimal_witnesses(
    problem: Problem,
    rows: Rows,
    radii: Radius,
    settings: Settings,
    progress: Progress = None,
) -> Minimal:
    """Find the nearest witness of every right row that some budget is known to flip.

    `radii` are those of the rows; the budget of the problem is ignored.
    """
    return Minimal.of(each_minimal_witness(problem, rows, radii, settings, progress), radii)


def each_minimal_witness(
    problem: Problem,
    rows: Rows,
    radii: Radius,
    settings: Settings,
    progress: Progress = None,
) -> Iterator[MinimalWitness]:
    """Yield minimal witnesses in the order in which they are found."""
    can_flip, budgets = _flipping(radii)
    wanted, done = np.flatnonzero(can_flip), 0
    with progress_bar(progress, len(wanted), "finding witnesses") as tick:
        for which, part_of, part in problem.dense(rows):
            here = wanted[(wanted >= which.start) & (wanted < which.stop)]
            block = _Block(problem, part_of, part, which.start)
            for budget in np.unique(budgets[here]).tolist():
                some = here[budgets[here] == budget]
                yield from block.witnesses(some, budget, radii, settings)
                done += len(some)
                if tick is not None:
                    tick(done)


def _flipping(radii: Radius) -> tuple[npt.NDArray[np.bool_], Floats]:
    """Return which right rows are known to flip, and budgets that flip them."""
    budgets = np.where(radii.exact, radii.radius, radii.upper)
    return (budgets > 0) & np.isfinite(budgets), budgets


class _Block:
    """A block of dense rows with their problem, which may have only the tested features."""

    def __init__(self, whole: Problem, problem: Problem, rows: Rows, first: int) -> None:
        self.problem, self.rows, self.first = problem, rows, first
        self.is_compact = problem is not whole
        chosen = whole.compact[1].chosen if self.is_compact else None
        self.features = np.arange(whole.ensemble.n_features) if chosen is None else chosen

    def witnesses(
        self, numbers: Indices, budget: float, radii: Radius, settings: Settings
    ) -> list[MinimalWitness]:
        """Find witnesses of these rows within a budget that flips them."""
        some = self.rows.take(numbers - self.first)
        attacked = self.problem.with_budget(max(budget, 1 / LARGEST_BUDGET))
        decided = decide(Task(attacked, settings, witness=True), some)
        flipped = np.flatnonzero(~np.isnan(decided["distance"]))
        if len(flipped) == 0:
            return []
        numbers, some, problem = numbers[flipped], some.take(flipped), self.problem
        z = _nearest(problem, some, decided["witness"][flipped], settings.threads)
        if self.is_compact:
            z = within_zero(problem, z, some)
        margins = _judged(problem, some, z, settings.threads).margin
        codes = problem.witnesses(z, some)
        raw = problem.ensemble.scores_of(codes, threads=settings.threads)
        assert some.labels is not None
        answers = class_indices(problem.ensemble, raw)
        borderline = (answers == some.labels) | may_round_to_a_tie(problem.ensemble, raw)
        if self.is_compact:
            borderline |= (codes == -ZERO).any(axis=1)
        after = as_given(problem.ensemble, codes, some.given, some.source)
        before = as_given(problem.ensemble, some.given, some.given, some.source)
        moved = (codes != some.given) & ~np.isnan(some.given)
        names = plain_labels(problem.ensemble.classes[answers])
        distance = problem.core_attacker.distance
        distances = [distance(x, z[i]) for i, x in enumerate(np.asarray(some.X, dtype=np.float64))]
        return [
            MinimalWitness(
                int(row),
                tuple(
                    Change(int(self.features[f]), float(before[i, f]), float(after[i, f]))
                    for f in np.flatnonzero(moved[i]).tolist()
                ),
                distances[i],
                bool(distances[i] == radii.radius[row]),
                float(margins[i]),
                names[i],
                bool(borderline[i]),
            )
            for i, row in enumerate(numbers.tolist())
        ]


def _nearest(problem: Problem, rows: Rows, found: Floats, threads: int | None) -> Floats:
    """Undo changes and make others smaller until neither is possible.

    Every step moves z nearer to x in some feature and further away in none.
    """
    z, thresholds = found, _thresholds(problem)
    while True:
        needed = _needed_changes(problem, rows, z, threads)
        z = _smaller_changes(problem, rows, needed, thresholds, threads)
        if np.array_equal(z, needed, equal_nan=True):
            return z


def _thresholds(problem: Problem) -> dict[int, Floats]:
    """Return the thresholds of each feature, ascending, in core coordinates."""
    sets = problem.encoding.sets
    nodes = sets.nodes[sets.nodes["feature"] >= 0]
    features = np.unique(nodes["feature"]).tolist()
    if len(sets.grid):
        features = [f for f in features if sets.grid[f] != FINITE]
    found = {f: np.unique(nodes["threshold"][nodes["feature"] == f]) for f in features}
    return {f: np.asarray(values, dtype=np.float64) for f, values in found.items()}


def _smaller_changes(
    problem: Problem,
    rows: Rows,
    found: Floats,
    thresholds: Mapping[int, Floats],
    threads: int | None,
) -> Floats:
    """Move each changed value as near to the row as the flip allows, one value after the other.

    Only the thresholds between the two values matter; the nearest one is tried first.
    """
    x, z = np.asarray(rows.X, dtype=np.float64), np.array(found, dtype=np.float64)
    moved = (z != x) & ~np.isnan(x)
    assert rows.labels is not None
    for row, label in enumerate(rows.labels):
        for feature in np.flatnonzero(moved[row]).tolist():
            if feature not in thresholds:
                continue
            values = _between(problem, feature, thresholds[feature], x[row], z[row])
            if len(values) == 0:
                continue
            trial = np.tile(z[row], (len(values), 1))
            trial[:, feature] = values
            many = Rows(trial, trial, np.repeat(label, len(values)))
            flips = np.flatnonzero(~problem.unattacked(many, threads).right)
            if len(flips):
                z[row] = trial[flips[0]]
    return z


def _between(problem: Problem, feature: int, cuts: Floats, x: Floats, z: Floats) -> Floats:
    """Return the first value beyond each threshold between x and z of a feature, nearest first."""
    start, end = x[feature], z[feature]
    is_float32 = problem.ensemble.input_precision == "float32"
    if is_float32 and feature not in problem.encoding.grids:
        start = np.float64(np.float32(start))  # as the model reads it
    if end < start:
        return np.asarray(cuts[(cuts > end) & (cuts < start)][::-1])
    inside = cuts[(cuts >= start) & (cuts < end)]
    if feature in problem.encoding.grids:
        values = inside + 1
    elif is_float32:
        values = np.nextafter(inside.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    else:
        values = np.nextafter(inside, np.inf)
    return np.asarray(values[values < end])


def _needed_changes(problem: Problem, rows: Rows, found: Floats, threads: int | None) -> Floats:
    """Undo as many changes as possible, in core coordinates.

    The result flips every row that `found` flips, and no longer does if any one change is undone.
    Changes that matter least to the margin are tried first.
    """
    x, z = np.asarray(rows.X, dtype=np.float64), np.array(found, dtype=np.float64)
    moved = (z != x) & ~np.isnan(x)
    queues = _by_need(problem, rows, x, z, moved, threads)
    some = np.arange(len(z))
    while len(some):  # repeat: a needed change may become unnecessary once others are undone
        lost = np.zeros(len(z), dtype=bool)
        for place in range(max((len(queues[row]) for row in some.tolist()), default=0)):
            here = np.array([r for r in some.tolist() if place < len(queues[r])], dtype=np.int64)
            features = np.array([queues[r][place] for r in here.tolist()], dtype=np.int64)
            trial = z[here]
            trial[np.arange(len(here)), features] = x[here, features]
            flips = ~_judged(problem, rows.take(here), trial, threads).right
            z[here[flips]] = trial[flips]
            lost[here[flips]] = True
        some = np.flatnonzero(lost)
        for row in some.tolist():
            queues[row] = [f for f in queues[row] if z[row, f] != x[row, f]]
    return z


def _by_need(
    problem: Problem,
    rows: Rows,
    x: Floats,
    z: Floats,
    moved: npt.NDArray[np.bool_],
    threads: int | None,
) -> list[list[int]]:
    """Return the changed features of each row, the least important for the margin first."""
    pairs = np.argwhere(moved)
    margins = np.empty(len(pairs))
    step = max(1, _NUMBERS_AT_ONCE // max(1, x.shape[1]))
    for begin in range(0, len(pairs), step):
        here, features = pairs[begin : begin + step].T
        trial = z[here]
        trial[np.arange(len(here)), features] = x[here, features]
        margins[begin : begin + step] = _judged(problem, rows.take(here), trial, threads).margin
    queues: list[list[int]] = [[] for _ in range(len(z))]
    for pair in np.lexsort((pairs[:, 1], margins)).tolist():
        queues[pairs[pair, 0]].append(int(pairs[pair, 1]))
    return queues


def _judged(problem: Problem, rows: Rows, z: Floats, threads: int | None) -> Any:
    """Return margins and right at z, with the labels of the rows; exact."""
    return problem.unattacked(Rows(np.ascontiguousarray(z), z, rows.labels), threads)
