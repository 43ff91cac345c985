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
    from carvegbm.engines import Decisions, Listen
    from carvegbm.engines.decisions import Indices

__all__ = ["Progress", "progress_bar", "showing"]

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
        with _bar(total) as update:
            yield lambda done: update(min(done, last), title)


@contextmanager
def showing(progress: Progress, total: int, title: str, done: int = 0) -> Iterator[Listen | None]:
    """What engines call with rows that have become final, or None where nothing is to be shown.

    `done` rows are finished from before. The bar counts the statuses, where there are any.
    """
    if callable(progress) or not is_shown(progress):
        with progress_bar(progress, total, title) as tick:
            yield None if tick is None else _counting(tick, done)
        return
    counts: Counter[str] = Counter()
    with _bar(total) as update:

        def listen(found: Decisions, rows: Indices) -> None:
            nonlocal done
            done += len(rows)
            if "right" in found:
                codes = np.bincount(found.status[rows], minlength=len(STATUSES)).tolist()
                counts.update(dict(zip(STATUSES, codes, strict=True)))
            text = "  ".join(f"{name} {count}" for name, count in counts.items() if count)
            update(done, text or title)

        yield listen


def is_shown(progress: Progress = None) -> bool:
    """Whether a bar is asked for, and there is a terminal to show it on if nobody insists."""
    return progress is True or (progress is None and sys.stderr.isatty())


def _counting(tick: Callable[[int], object], done: int) -> Listen:
    def listen(_found: Decisions, rows: Indices) -> None:
        nonlocal done
        done += len(rows)
        tick(done)

    return listen


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int, str], None]]:
    """A bar that appears after a while; what to call with the rows done and what is known."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar

    bar = Bar(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    started, task, shown = time.monotonic(), bar.add_task("", total=total), False

    def update(done: int, text: str) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > _PATIENCE:
            bar.start()
            shown = True
        bar.update(task, completed=done, description=text)

    try:
        yield update
        bar.update(task, completed=total)
    finally:
        if shown:
            bar.stop()
