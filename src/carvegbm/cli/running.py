"""A verification run from the command line: progress with counts, a journal, and --resume."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from carvegbm.cli import output

if TYPE_CHECKING:
    from carvegbm.attacker import Attacker
    from carvegbm.ensemble import Ensemble
    from carvegbm.verification import Verification

__all__ = ["verify"]

Show = Callable[[list[Any], int], None]


def verify(
    model: Ensemble,
    X: npt.NDArray[Any],
    y: npt.NDArray[Any],
    attacker: Attacker,
    settings: dict[str, Any],
    *,
    threads: int | None,
    out: Path | None,
    resume: bool,
    finish: Callable[[Verification], None],
) -> Verification:
    """Verify block by block; with `out`, keep what is finished and write the result in the end.

    What `finish` does comes before that: an interruption there loses nothing either.
    """
    import carvegbm
    from carvegbm.cli.journal import Journal, fingerprint

    journal = None
    parts: list[Verification] = []
    if out is not None:
        digest = fingerprint(model, X, y, attacker, settings)
        journal = Journal(out, digest, len(X), resume)
        done = journal.restore(attacker)
        parts = journal.parts
        if done:
            output.note(f"resuming after {done} of {len(X)} rows")
    start = sum(len(part) for part in parts)
    block = _block(model, attacker, threads)
    try:
        with _bar(len(X)) as show:
            show(parts, start)
            while start < len(X):
                stop = min(len(X), start + block)
                progress = partial(_advance, show, parts, start)
                part = carvegbm.verify(
                    model,
                    X[start:stop],
                    y[start:stop],
                    attacker,
                    threads=threads,
                    progress=progress,
                    **settings,
                )
                if journal is not None:
                    journal.add(part)
                else:
                    parts.append(part)
                start = stop
                show(parts, start)
    except BaseException as error:
        if journal is not None:
            if parts and isinstance(error, KeyboardInterrupt):
                output.note(f"{start} of {len(X)} rows are kept; add --resume to continue")
            elif not parts:
                journal.discard()
        raise
    result = carvegbm.Verification.joined(parts)
    finish(result)
    if out is not None and journal is not None:
        result.save(out)
        journal.discard()
    return result


def _advance(show: Show, parts: list[Any], start: int, rows: int) -> None:
    show(parts, start + rows)


def _block(model: Ensemble, attacker: Attacker, threads: int | None) -> int:
    """Rows to decide at a time: enough to keep all threads busy, few enough to keep often."""
    from carvegbm.spread import is_large_spread

    if is_large_spread(model, attacker):
        return 65_536
    return 4 * (threads or os.cpu_count() or 1)


@contextmanager
def _bar(total: int) -> Iterator[Show]:
    """Shows how many rows are done, how they came out, and the time left; on a terminal only."""
    if not sys.stderr.isatty():
        yield lambda _parts, _done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )

    def show(parts: list[Any], done: int) -> None:
        counts: Counter[str] = Counter()
        for part in parts:
            counts.update(part.counts)
        text = "  ".join(f"{name} {count}" for name, count in counts.items() if count)
        bar.update(task, completed=done, description=text)

    with bar:
        task = bar.add_task("", total=total)
        yield show
