"""Progress bars of long computations, shown on terminals after half a second."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from carvegbm.statuses import STATUSES

if TYPE_CHECKING:
    from carvegbm.engines import Decisions, Indices, Listen

__all__ = ["Bar", "Progress", "is_shown", "progress_bar", "showing"]

Progress = bool | Callable[[int], object] | None
"""None: a bar if standard error is a terminal; True: a bar; False: none; a function gets the number
of finished rows, which is the number of all rows only at the end."""

_PATIENCE = 0.5  # seconds before a bar appears


@contextmanager
def progress_bar(
    progress: Progress, total: int, title: str
) -> Iterator[Callable[[int], object] | None]:
    """Yield a function to call with the number of finished rows; None if nothing is shown."""
    last = max(0, total - 1)
    if callable(progress):
        report = progress
        yield lambda done: report(min(done, last))
        report(total)
    elif not is_shown(progress):
        yield None
    else:
        with Bar(total, _PATIENCE) as bar:
            yield lambda done: bar.update(min(done, last), title)


@contextmanager
def showing(progress: Progress, total: int, title: str) -> Iterator[Listen | None]:
    """Yield a progress callback for engines; None if nothing is shown.

    The bar counts statuses if the query has any.
    """
    done = 0
    if callable(progress) or not is_shown(progress):
        with progress_bar(progress, total, title) as tick:
            yield None if tick is None else _counting(tick)
        return
    counts: Counter[str] = Counter()
    with Bar(total, _PATIENCE) as bar:

        def listen(found: Decisions, rows: Indices) -> None:
            nonlocal done
            done += len(rows)
            if "right" in found:
                codes = np.bincount(found.status[rows], minlength=len(STATUSES)).tolist()
                counts.update(dict(zip(STATUSES, codes, strict=True)))
            text = "  ".join(f"{name} {count}" for name, count in counts.items() if count)
            bar.update(done, text or title)

        yield listen


def is_shown(progress: Progress = None) -> bool:
    """Return whether to show a bar: always if True, on a terminal if None."""
    return progress is True or (progress is None and sys.stderr.isatty())


def _counting(tick: Callable[[int], object]) -> Listen:
    done = 0

    def listen(_found: Decisions, rows: Indices) -> None:
        nonlocal done
        done += len(rows)
        tick(done)

    return listen


class Bar:
    """A progress bar with a count and a text; a context manager.

    Parameters
    ----------
    total : int or None
        None if unknown: then the bar shows only the time spent.
    patience : float
        Seconds before the bar appears.
    """

    def __init__(self, total: int | None, patience: float = 0.0) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        text = TextColumn("{task.description}", markup=False)
        counted = (BarColumn(), MofNCompleteColumn(), text, TimeRemainingColumn())
        columns = (SpinnerColumn(), text, TimeElapsedColumn()) if total is None else counted
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._bar.add_task("", total=total)
        self._total, self._shown = total, False
        self._started, self._patience = time.monotonic(), patience

    def __enter__(self) -> Bar:
        if self._patience == 0:
            self.start()
        return self

    def update(self, done: int, text: str) -> None:
        """Show how much is done."""
        if not self._shown and time.monotonic() - self._started > self._patience:
            self.start()
        self._bar.update(self._task, completed=done, description=text)

    def restart(self, text: str) -> None:
        """Restart the time for another piece of work."""
        self._bar.reset(self._task, description=text)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._total is not None:
            self._bar.update(self._task, completed=self._total)
        self.stop()

    def stop(self) -> None:
        """Remove the bar from the terminal."""
        if self._shown:
            self._bar.stop()
        self._shown = False

    def start(self) -> Bar:
        """Show the bar."""
        self._bar.start()
        self._shown = True
        return self
