"""Parallel function calls in worker processes that end with the process that started them.

The workers are joblib's (loky), which need no `if __name__ == "__main__"` in the calling program
and share large arrays. Loky alone would leave them waiting for work for five minutes after their
parent was killed, with its standard output open.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

from joblib.parallel import LokyBackend

__all__ = ["in_processes"]

R = TypeVar("R")

_LOOK_EVERY = 0.5  # seconds between checks that the parent still runs


def in_processes(
    function: Callable[..., R],
    calls: Iterable[tuple[Any, ...]],
    workers: int,
    *,
    ordered: bool = False,
) -> Iterator[R]:
    """Yield the results of `function(*arguments)`, in the order of `calls` or as they finish.

    With one worker the calls run in this process. An exception, Ctrl-C among them, kills the
    workers.
    """
    if workers == 1:
        yield from (function(*arguments) for arguments in calls)
        return
    from sklearn.utils.parallel import Parallel, delayed

    mode = "generator" if ordered else "generator_unordered"
    parallel = Parallel(workers, backend=_Loky(), return_as=mode)
    with closing(parallel(delayed(function)(*arguments) for arguments in calls)) as results:
        yield from results


class _Loky(LokyBackend):  # type: ignore[misc]
    """joblib's worker processes, each of which starts with `_begin_worker`."""

    def configure(self, *args: Any, **options: Any) -> Any:
        options |= {"initializer": _begin_worker, "initargs": (os.getpid(),)}
        return super().configure(*args, **options)


def _begin_worker(parent: int) -> None:
    """Leave Ctrl-C to the parent, which kills its workers; end soon after the parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":  # elsewhere getppid does not change when the parent ends
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_EVERY)
    os._exit(1)
