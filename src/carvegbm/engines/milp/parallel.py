"""Many instances at once: a thread and a solver for each of some of them.

Comes in: what to do with one instance. Goes out: the results, as they come, in the calling thread.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from carvegbm.engines.milp.worker import STEP, Solver, end_idle_workers

__all__ = ["in_parallel"]

T = TypeVar("T")
R = TypeVar("R")


def in_parallel(
    work: Callable[[T, Solver], R],
    items: Sequence[T],
    threads: int,
    deliver: Callable[[T, R], None],
) -> None:
    """Call deliver(item, work(item, solver)) for every item, in the order in which they finish.

    An exception in `work` or `deliver`, Ctrl-C among them, ends the work on all other items, and
    is raised once threads and solvers are gone.
    """
    # Threads of our own: those of concurrent.futures would hold up the end of the interpreter.
    stop, tasks = threading.Event(), queue.SimpleQueue[T]()
    results: queue.SimpleQueue[tuple[T, R] | BaseException] = queue.SimpleQueue()
    for item in items:
        tasks.put(item)

    def run() -> None:
        try:
            with Solver(stop) as solver:
                while not stop.is_set():
                    try:
                        item = tasks.get_nowait()
                    except queue.Empty:
                        break
                    results.put((item, work(item, solver)))
        except BaseException as error:
            results.put(error)

    team = [
        threading.Thread(target=run, name="carvegbm-milp", daemon=True)
        for _ in range(min(threads, len(items)))
    ]
    try:
        for thread in team:
            thread.start()
        for _ in items:
            result = _next(results)
            if isinstance(result, BaseException):
                raise result
            deliver(*result)
    except BaseException:
        stop.set()
        raise
    finally:
        for thread in team:
            if thread.ident is not None:  # it was started
                thread.join()
        if stop.is_set():
            end_idle_workers()


def _next(results: queue.SimpleQueue[R]) -> R:
    while True:
        try:
            return results.get(timeout=STEP)
        except queue.Empty:
            if _main_thread_was_interrupted():
                raise KeyboardInterrupt from None


def _main_thread_was_interrupted() -> bool:
    """Whether Ctrl-C ended the main thread, and the interpreter waits for the others to end."""
    last = getattr(sys, "last_type", None)
    return not threading.main_thread().is_alive() and last is KeyboardInterrupt
