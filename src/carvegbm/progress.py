"""A progress bar for long computations: on a terminal only, and only once it is worth showing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["Progress", "counted_from", "progress_bar"]

Progress = bool | Callable[[int], object] | None
"""None: a bar if standard error is a terminal; False: none; a function gets the rows done,
all of them when the work is over and not before: what one engine is through with may go to
another."""

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
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress as Bar

    started = time.monotonic()
    bar = Bar(console=Console(stderr=True), transient=True)
    task = bar.add_task(title, total=total)
    shown = False

    def update(done: int) -> None:
        nonlocal shown
        if not shown and time.monotonic() - started > _PATIENCE:
            bar.start()
            shown = True
        bar.update(task, completed=min(done, last))

    try:
        yield update
        bar.update(task, completed=total)
    finally:
        if shown:
            bar.stop()


def counted_from(
    start: int, tick: Callable[[int], object] | None
) -> Callable[[int], object] | None:
    """Counts on from rows that are finished, for an engine that takes over the others."""
    return None if tick is None else lambda done: tick(start + done)
