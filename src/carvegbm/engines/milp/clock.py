"""The time of one instance: how much is left, and the signal that none is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from carvegbm.errors import CarveError

__all__ = ["Clock", "OutOfTime"]

T = TypeVar("T")

_STRIDE = 256
"""Steps of a loop between two looks at the clock; a step takes up to tens of microseconds."""
_GRACE = 0.025
_GRACE_SHARE = 0.1


class OutOfTime(Exception):  # noqa: N818 - a signal, not an error
    """The instance stays unknown; raised by whoever notices first, heeded in `solving` only."""


class Clock:
    """Counts the time of one instance down; `stop`, once set, ends it at once."""

    def __init__(self, timeout: float, stop: threading.Event | None = None) -> None:
        if not timeout > 0:
            raise CarveError(f"timeout must be > 0 seconds, got {timeout:g}")
        self._started, self._timeout = time.perf_counter(), float(timeout)
        self._stop, self._expired = stop or threading.Event(), False

    @property
    def seconds(self) -> float:
        """Seconds taken so far."""
        return time.perf_counter() - self._started

    @property
    def left(self) -> float:
        """Seconds left; not positive once the time is up."""
        return 0.0 if self._expired or self._stop.is_set() else self._timeout - self.seconds

    @property
    def overdue(self) -> bool:
        """Whether even one that keeps a limit of its own, but a little late, has had its time.

        The grace and what is done after it stay within a fifth of the time limit and 50 ms.
        """
        return self.left < -(_GRACE + _GRACE_SHARE * self._timeout) or self.cancelled

    @property
    def cancelled(self) -> bool:
        """Whether the time ended for another reason than the limit."""
        return self._expired or self._stop.is_set()

    def check(self) -> None:
        """Raise `OutOfTime` if the time is up."""
        if self.left <= 0:
            raise OutOfTime

    def watched(self, items: Iterable[T]) -> Iterator[T]:
        """The same items, with a look at the clock now and then."""
        for number, item in enumerate(items):
            if number % _STRIDE == 0:
                self.check()
            yield item

    def expire(self) -> None:
        """End the time before its limit: nothing more can be found out about this instance."""
        self._expired = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What is done inside is not charged to the instance."""
        entered = time.perf_counter()
        try:
            yield
        finally:
            self._started += time.perf_counter() - entered
