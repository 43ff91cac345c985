"""A verification run from the command line: progress with counts, a journal, and --resume."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from carvegbm.cli import output
from carvegbm.errors import CarveError

if TYPE_CHECKING:
    from carvegbm.attacker import Attacker
    from carvegbm.cli.journal import Journal, Question
    from carvegbm.ensemble import Ensemble
    from carvegbm.verification import Verification

__all__ = ["verify"]

Show = Callable[[list[Any], int], None]


def verify(
    question: Question,
    *,
    threads: int | None,
    out: Path | None,
    resume: bool,
    finish: Callable[[Verification], None],
) -> Verification:
    """Verify block by block; with `out`, keep what is finished and write the result in the end.

    What `finish` does comes before that: an interruption there loses nothing either.
    """
    from carvegbm.cli.journal import Journal, whole

    opened: AbstractContextManager[Journal | None] = nullcontext()
    if out is not None:
        opened = Journal.opened(out, question, resume)
    with opened as journal:
        parts = [] if journal is None else journal.parts
        total = len(question.X)
        if parts:
            output.note(f"resuming after {_rows(parts)} of {total} rows")
        elif resume:
            output.note("there is nothing to resume; beginning with the first row")
        try:
            _verify_rest(question, parts, threads, journal)
            result = whole(parts, question)
            finish(result)
            if out is not None:
                result.save(out)
        except BaseException as error:
            kept = f"{_rows(parts)} of {total} rows are kept; add --resume to continue"
            if journal is not None and not parts:
                journal.discard()
            elif journal is not None and isinstance(error, KeyboardInterrupt):
                output.note(kept)
            elif journal is not None and isinstance(error, OSError):
                raise CarveError(f"{output.reason(error)}; {kept}") from None
            raise
        if journal is not None:
            journal.discard()
    return result


def _verify_rest(
    question: Question, parts: list[Verification], threads: int | None, journal: Journal | None
) -> None:
    """Verify the rows after those of `parts`, and add to it."""
    import carvegbm

    X, y, start = question.X, question.y, _rows(parts)
    block = _block(question.model, question.attacker, threads)
    with _bar(len(X)) as show:
        show(parts, start)
        while start < len(X):
            stop = min(len(X), start + block)
            part = carvegbm.verify(
                question.model,
                X[start:stop],
                y[start:stop],
                question.attacker,
                threads=threads,
                progress=partial(_advance, show, parts, start),
                **question.settings,
            )
            if journal is not None:
                journal.add(part)
            else:
                parts.append(part)
            start = stop
            show(parts, start)


def _rows(parts: list[Verification]) -> int:
    return sum(len(part) for part in parts)


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
