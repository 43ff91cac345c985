"""Progress of long computations: on a terminal only, and only once it is worth showing."""

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
"""None: a bar if standard error is a terminal; False: none; a function gets the number of finished
rows, all of them when the work is over and not before."""

_PATIENCE = 0.5  # seconds before a bar appears


@contextmanager
def progress_bar(
    progress: Progress, total: int, title: str
) -> Iterator[Callable[[int], object] | None]:
    """What to call with the number of finished rows, or None where nothing is to be shown."""
    last = max(0, total - 1)
    if callable(progress):
        tell = progress
        yield lambda done: tell(min(done, last))
        tell(total)
    elif not is_shown(progress):
        yield None
    else:
        with Bar(total, _PATIENCE) as bar:
            yield lambda done: bar.update(min(done, last), title)


@contextmanager
def showing(progress: Progress, total: int, title: str) -> Iterator[Listen | None]:
    """What engines call with rows that have become final, or None where nothing is to be shown.

    The bar counts the statuses, where there are any.
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
    """Whether a bar is asked for, and there is a terminal to show it on if nobody insists."""
    return progress is True or (progress is None and sys.stderr.isatty())


def _counting(tick: Callable[[int], object]) -> Listen:
    done = 0

    def listen(_found: Decisions, rows: Indices) -> None:
        nonlocal done
        done += len(rows)
        tick(done)

    return listen


class Bar:
    """The one bar there is: how much is done of how much, and a text; a context.

    Parameters
    ----------
    total : int or None
        None where nobody knows: the bar shows then that there is work, and for how long.
    patience : float
        Seconds before it appears.
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
        """Begin with something else, and count the time from now."""
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
        """Let the bar appear."""
        self._bar.start()
        self._shown = True
        return self
