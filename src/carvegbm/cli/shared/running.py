"""A verification run from the command line: one pass over all rows, a journal, and --resume."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from carvegbm.cli.shared import output
from carvegbm.cli.shared.kept import Kept, Question
from carvegbm.engines import Decisions, decide
from carvegbm.errors import CarveError
from carvegbm.keeping.journal import Journal
from carvegbm.progress import showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from carvegbm.engines import Indices

__all__ = ["verify"]


def verify(
    question: Question, *, out: Path | None, resume: bool, finish: Callable[[Decisions], None]
) -> None:
    """Decide all rows; with `out`, what is decided is kept until `finish` has written it."""
    kept = Kept(question)
    opened: AbstractContextManager[Journal | None] = nullcontext()
    if out is not None:
        opened = Journal.opened(out, question.identity(), resume, kept.take)
    with opened as journal:
        total, before = len(kept.done), int(kept.done.sum())
        if before:
            output.note(f"resuming after {before} of {output.counted(total, 'row')}")
        elif resume:
            output.note("there is nothing to resume; beginning with the first row")
        try:
            finish(_decide_rest(question, kept, journal))
        except BaseException as error:
            done = int(kept.done.sum())
            progress = f"{done} of {total} rows are kept; add --resume to continue"
            if journal is not None and not kept.done.any():
                journal.discard()
            elif journal is not None and isinstance(error, KeyboardInterrupt):
                raise output.Interrupted(progress) from None
            elif journal is not None and isinstance(error, OSError | CarveError):
                reason = output.reason(error) if isinstance(error, OSError) else str(error)
                raise CarveError(f"{reason}; {progress}") from None
            raise
        if journal is not None:
            journal.discard()


def _decide_rest(question: Question, kept: Kept, journal: Journal | None) -> Decisions:
    """Decide the rows that are not kept, and keep them as they come."""
    rest = np.flatnonzero(~kept.done)
    if len(rest) == 0:
        return kept.joined(rest, None)
    # All rows are checked: what an earlier run kept must not hide an error in the data.
    rows = question.rows.take(rest)
    with showing(None, len(kept.done), "verifying") as show:
        if show is not None:
            for earlier, part in kept.parts:
                show(part, np.arange(len(earlier)))

        def listen(found: Decisions, finished: Indices) -> None:
            if len(finished) and journal is not None:
                journal.append(kept.record(rest[finished], found.take(finished)))
                kept.done[rest[finished]] = True
            if show is not None:
                show(found, finished)

        found = decide(question.task, rows, listen)
    return kept.joined(rest, found)
