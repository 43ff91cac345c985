"""Progress of training: a bar on a terminal, a plain line per 50 rounds elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from carvegbm.progress import Bar, is_shown
from carvegbm.training.evaluation import EvalResult

__all__ = ["Reporter", "aligned", "print_line", "shown"]

_LINE_EVERY = 50


def print_line(text: str) -> None:
    """A line of progress, where it does not mix with results."""
    print(text, file=sys.stderr, flush=True)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines, every column aligned on its right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def shown(value: Any) -> str:
    """The value of a parameter, as tables show it."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


class Reporter:
    """Shows round, watched metric and number of open thresholds.

    Parameters
    ----------
    n_rounds : int
    n_open : int
        Open thresholds before the first round.
    verbose : int
        0: silent.
    """

    def __init__(self, n_rounds: int, n_open: int, verbose: int) -> None:
        self._n_rounds = n_rounds
        self._n_open = max(1, n_open)
        self._verbose = verbose
        self._bar: Bar | None = None
        self._last = ""

    def __enter__(self) -> Reporter:
        if self._verbose and is_shown():
            self._bar = Bar(self._n_rounds).start()
        return self

    def show(self, done: int, results: Sequence[EvalResult], n_open: int) -> None:
        """Report that `done` rounds are finished."""
        if not self._verbose:
            return
        parts = [f"{metric} {value:.5g} ({name})" for name, metric, value, _ in results[:1]]
        parts.append(f"{100 * n_open / self._n_open:.0f} % of thresholds open")
        self._last = ", ".join(parts)
        if self._bar is not None:
            self._bar.update(done, self._last)
        elif done % _LINE_EVERY == 0:
            print_line(f"round {done}: {self._last}")

    def finish(self, reason: str, done: int, kept: int) -> None:
        """Say how training ended."""
        if not self._verbose:
            return
        if self._bar is not None:
            self._bar.stop()
        kept_text = f", kept the first {kept}" if kept != done else ""
        last = f"; {self._last}" if self._last else ""
        print_line(f"stopped after {done} rounds ({reason}){kept_text}{last}")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
