"""The run: compute what is not there yet, say what is left, keep what is finished.

Comes in: a plan and a results folder. Goes out: the folder with every cell of the plan and the
report on them, as far as the run got. A run that was interrupted, or that is repeated, goes on
where the last one stopped.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from carvegbm import CarveError
from carvegbm.progress import Bar, is_shown
from carvegbm_experiments.compute import kinds
from carvegbm_experiments.compute.data import ChangedError, UnavailableError
from carvegbm_experiments.compute.models import Bench, Earlier
from carvegbm_experiments.plan.cell import Cell
from carvegbm_experiments.report.tables.table import interval
from carvegbm_experiments.report.tables.table import long_duration as duration
from carvegbm_experiments.report.writing import write_report
from carvegbm_experiments.store.folder import Store

__all__ = ["Estimate", "run", "standing"]

Say = Callable[[str], object]

_REPORT_EVERY = 600.0  # seconds between two reports while the run goes on


class Estimate:
    """How long cells take: what finished ones of the same kind took, else their rough cost.

    Parameters
    ----------
    cells : sequence of Cell
        The plan.
    finished : mapping from a cell's key to the seconds it took
    """

    def __init__(self, cells: Sequence[Cell], finished: Mapping[tuple[str, str], float]) -> None:
        self._sums: dict[tuple[str, ...], tuple[float, float]] = {}
        for cell in cells:
            if cell.key in finished:
                self.add(cell, finished[cell.key])

    def add(self, cell: Cell, seconds: float) -> None:
        """A cell took so long."""
        for group in ((cell.kind,), (cell.kind, cell.dataset)):
            taken, cost = self._sums.get(group, (0.0, 0.0))
            self._sums[group] = taken + seconds, cost + cell.cost

    def seconds(self, cell: Cell) -> float:
        """How long the cell will take, as far as one can tell."""
        for group in ((cell.kind, cell.dataset), (cell.kind,)):
            if group in self._sums:
                taken, cost = self._sums[group]
                return cell.cost * taken / cost
        return cell.cost

    def left(self, cells: Sequence[Cell]) -> float:
        """How long all these will take."""
        return sum(self.seconds(cell) for cell in cells)


def run(
    cells: Sequence[Cell],
    store: Store,
    bench: Bench,
    *,
    suite: str,
    say: Say = lambda _: None,
) -> None:
    """Compute the cells that are not in the store, in order, and write the report.

    A data set that is not to be had is named once, and its cells are left out. A cell that cannot
    be computed does not stop the others; the run ends with a `CarveError` that counts them. Data
    that is not what the finished cells were computed from ends it at once.
    """
    work = _Work(cells, store, bench, say)
    say(standing(work.cells, work.left, work.estimate))
    reported = float("-inf")
    try:
        with _display() as (show, tell):
            bench.detail = show
            while work.left:
                tell(work.left[0], work.done, len(work.cells))
                work.step()
                if time.monotonic() - reported > _REPORT_EVERY and store.folder.is_dir():
                    write_report(store, suite, say=None)
                    reported = time.monotonic()
    except BaseException as error:
        if store.folder.is_dir():
            write_report(store, suite, say=None)
        if isinstance(error, KeyboardInterrupt):
            kept = f"{work.done} of {len(work.cells)} cells are kept"
            raise KeyboardInterrupt(f"{kept}; give the same command again to continue") from None
        raise
    if not work.cells:
        raise CarveError("; ".join(work.absent.values()))
    write_report(store, suite, say)
    if work.failed:
        title, reason = next(iter(work.failed.items()))
        several = f"{len(work.failed)} cells, the first of them "
        raise CarveError(f"cannot compute {several * (len(work.failed) > 1)}{title}: {reason}")


class _Work:
    """What is to be done, and what became of it."""

    def __init__(self, cells: Sequence[Cell], store: Store, bench: Bench, say: Say) -> None:
        self.cells = list(cells)
        self._store, self._bench, self._say = store, bench, say
        found = {cell.key: record["seconds"] for cell, record in _stored(cells, store)}
        self.done = len(found)
        self.left = [cell for cell in cells if cell.key not in found]
        self.estimate = Estimate(cells, found)
        self.absent: dict[str, str] = {}
        """Why, by data set."""
        self.failed: dict[str, str] = {}
        """Why, by title of the cell."""

    def step(self) -> None:
        """Compute the next cell and keep it."""
        cell = self.left[0]
        started = time.monotonic()
        self._bench.earlier = earlier = Earlier()
        try:
            result = kinds.compute(cell, self._bench)
        except UnavailableError as error:
            self._leave_out(cell.dataset, error)
            return
        except ChangedError:
            raise
        except CarveError as error:
            self.failed[cell.title] = str(error)
            self._say(f"{cell.title}: {error}")
            self.left.pop(0)
            return
        seconds = time.monotonic() - started + earlier.rows + earlier.training * cell.trains
        self._store.keep(cell.kind, cell.configuration, result, seconds)
        self.estimate.add(cell, seconds)
        self.left.pop(0)
        self.done += 1
        text = (
            f"[{self.done}/{len(self.cells)}] {cell.title}: {_outcome(result)}{duration(seconds)}"
        )
        ahead = f"; about {duration(self.estimate.left(self.left))} left" if self.left else ""
        self._say(text + ahead)

    def _leave_out(self, dataset: str, error: UnavailableError) -> None:
        self.absent[dataset] = str(error)
        out = {cell.key for cell in self.left if cell.dataset == dataset}
        self.cells = [cell for cell in self.cells if cell.key not in out]
        self.left = [cell for cell in self.left if cell.key not in out]
        many = f"cells of {dataset} are" if len(out) > 1 else f"cell of {dataset} is"
        self._say(f"{error}; {len(out)} {many} left out")


def standing(cells: Sequence[Cell], left: Sequence[Cell], estimate: Estimate) -> str:
    """How far the run is."""
    text = f"{len(cells) - len(left)} of {len(cells)} cells are there"
    return f"{text}; about {duration(estimate.left(left))} left" if left else text


def _stored(cells: Sequence[Cell], store: Store) -> Iterator[tuple[Cell, dict[str, Any]]]:
    for cell in cells:
        record = store.find(cell.kind, cell.configuration)
        if record is not None:
            yield cell, record


def _outcome(result: Mapping[str, Any]) -> str:
    """The most telling numbers of a result."""
    parts = []
    if isinstance(result.get("accuracy"), float):
        parts.append(f"accuracy {result['accuracy']:.4f}")
    robustness = result.get("robustness")
    if isinstance(robustness, list):
        lower, upper = robustness
        parts.append(f"robustness {interval(lower, upper, digits=4)}")
    elif isinstance(robustness, float):
        parts.append(f"robustness {robustness:.4f}")
    if "worse_error" in result:
        worse = result["worse_error"][1]
        parts.append(f"error {result['error']:.4g}, at the worse end {worse:.4g}")
    return "".join(f"{part}, " for part in parts)


Tell = Callable[[Cell, int, int], None]


@contextmanager
def _display() -> Iterator[tuple[Say, Tell]]:
    """A line below the others that says what is being done; on a terminal only."""
    if not is_shown():
        yield (lambda _: None), (lambda _cell, _done, _total: None)
        return
    title = ""
    with Bar(None) as bar:

        def show(detail: str) -> None:
            bar.update(0, f"{title}  {detail}")

        def tell(cell: Cell, done: int, total: int) -> None:
            nonlocal title
            title = f"[{done + 1}/{total}] {cell.title}"
            bar.restart(title)

        yield show, tell
