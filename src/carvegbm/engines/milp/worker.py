"""Workers: processes that run HiGHS, and that can be killed, since HiGHS cannot be stopped.

Comes in: programs as plain arrays. Goes out: the solver's answers, or `OutOfTime`.

A `Solver` belongs to one thread. It starts a worker when it first needs one, or takes one that
another left behind: a start takes some tenths of a second, and is charged to no instance. A worker
is killed when its time is up, when its solver is stopped, and when it does not answer as it should;
it ends by itself when it is out of work for a minute, and when this process is gone.

Where no worker can be started (the interpreter is embedded in another program), HiGHS runs in a
thread, keeps to time limits as well as it can, and cannot be interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

from carvegbm.engines.milp import highs
from carvegbm.engines.milp.clock import Clock, OutOfTime
from carvegbm.engines.milp.highs import Solution

__all__ = ["Solver", "end_idle_workers"]

STEP = 0.05
"""Seconds between two looks at the clock while waiting; on Windows, Ctrl-C is heard only then."""
_START = 60.0  # seconds until a worker that says nothing counts as unable to start
_IDLE = 60.0  # seconds without work after which a worker ends
_FAREWELL = 0.5  # seconds that killed workers may take to be gone
_CHUNK = 1 << 20

_APART: dict[str, Any] = (
    # In a group of its own: Ctrl-C in a terminal goes to the parent, which then ends it.
    {"creationflags": 0x00000200 | 0x08000000}  # CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW
    if sys.platform == "win32"
    else {"start_new_session": True}
)


class Solver:
    """Solves programs in a worker; to be used by one thread, as a context.

    `stop`, once set by another thread, ends the work, and the worker with it.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self._worker: _Worker | None = None

    def __enter__(self) -> Solver:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None
    ) -> None:
        if kind is None and not self.stop.is_set() and self._worker is not None:
            _keep(self._worker)
            self._worker = None
        self._drop()
        if kind is not None:
            end_idle_workers()

    def prepare(self) -> None:
        """Have a worker get ready meanwhile, since a program is about to come."""
        if self._worker is not None and not self._worker.alive:
            self._drop()
        if self._worker is None and _why_not is None:
            self._worker = _take()

    def run(self, program: dict[str, Any], clock: Clock) -> Solution:
        """The answer to a program, or `OutOfTime`.

        A worker that dies, or answers rubbish, ends the instance: whatever killed it (memory, most
        of all) would kill the next one too.
        """
        self.prepare()
        with clock.paused():
            if self._worker is not None and not self._worker.wait_until_ready(clock):
                self._drop()
        clock.check()
        program["seconds"] = clock.left
        try:
            answer = (self._worker.ask if self._worker else _in_thread)(program, clock)
        except BaseException as reason:
            self._drop()
            if isinstance(reason, OutOfTime) and not clock.cancelled:
                self.prepare()  # for the next instance
            raise
        if answer.status == highs.FAILED:
            raise RuntimeError(f"the solver failed: {answer.point.decode(errors='replace')}")
        return answer

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()


class _Worker:
    """A process that runs `highs`, and a thread that talks to it.

    The thread does all reading and writing, so that whoever waits for an answer can stop waiting;
    killing the process ends the thread.
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            _command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            **_APART,
        )
        self._programs: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Solution | None] = queue.SimpleQueue()
        self._ready = threading.Event()
        self._ended = threading.Event()
        self.killed = False
        _all.add(self)
        self._thread = threading.Thread(target=self._talk, name="carvegbm-worker", daemon=True)
        self._thread.start()

    def wait_until_ready(self, clock: Clock) -> bool:
        """Whether there are workers here; `OutOfTime` if this one was cancelled or has died."""
        global _seen
        deadline = time.monotonic() + _START
        while not self._ready.wait(STEP):
            if clock.cancelled:
                raise OutOfTime
            if self._ended.is_set() or time.monotonic() > deadline:
                if _seen:  # then something else is wrong, such as too little memory
                    clock.expire()
                    raise OutOfTime
                _do_without("it does not start")
                return False
        _seen = True
        return True

    def ask(self, program: dict[str, Any], clock: Clock) -> Solution:
        """The answer to a program, or `OutOfTime`; the worker is of no use after an exception."""
        self._programs.put(program)
        while True:
            try:
                answer = self._answers.get(timeout=_step(clock))
            except queue.Empty:
                if clock.overdue:
                    raise OutOfTime from None
                continue
            if answer is None:
                clock.expire()
                raise OutOfTime
            return answer

    def kill(self) -> None:
        """End the process; the thread, wherever it waits, reaps it."""
        self.killed = True
        with contextlib.suppress(OSError):
            self._process.kill()
        self._programs.put(None)

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return not self._ended.is_set() and self._process.poll() is None

    def join(self, seconds: float) -> None:
        """Wait until process and thread are gone, for so long at most."""
        self._ended.wait(seconds)

    def forget(self) -> None:
        """After a fork, in the child: the process is the parent's, and so are its answers."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process.returncode = 0

    def _talk(self) -> None:
        try:
            self._send([entry for entry in sys.path if isinstance(entry, str)])
            self._await_greeting()
            self._ready.set()
            while True:
                try:
                    program = self._programs.get(timeout=_IDLE)
                except queue.Empty:
                    if _retire(self):
                        return
                    continue
                if program is None:
                    return
                self._send(program)
                self._answers.put(self._receive(len(program["objective"])))
        except Exception:  # a pipe that broke, or rubbish in it
            self._answers.put(None)
        finally:
            self._end()

    def _end(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()
        _all.discard(self)
        self._ended.set()

    def _send(self, message: object) -> None:
        assert self._process.stdin is not None
        rest = memoryview(pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL))
        while rest:
            rest = rest[self._process.stdin.write(rest[:_CHUNK]) :]

    def _await_greeting(self) -> None:
        """Skip what the interpreter's own start may have printed."""
        said = b""
        while not said.endswith(highs.GREETING):
            said = said[-len(highs.GREETING) :] + self._read(1)

    def _receive(self, n_columns: int) -> Solution:
        header = self._read(highs.HEADER.size)
        mark, status, bound, size = highs.HEADER.unpack(header)
        expected = size < _CHUNK if status == highs.FAILED else size in (0, 8 * n_columns)
        if mark != highs.MARK or not expected or bound != bound:
            raise ValueError("this is no answer")
        return Solution(status, bound, self._read(size))

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        parts, missing = [], size
        while missing:
            part = self._process.stdout.read(min(missing, _CHUNK))
            if not part:
                raise EOFError
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def _step(clock: Clock) -> float:
    """Until the next look at the clock: soon, where it is about to run out."""
    return min(STEP, max(clock.left, 0.005))


# ── all workers of this process ──────────────────────────────────────────────────────────────

_all: set[_Worker] = set()
_idle: list[_Worker] = []
_lock = threading.Lock()
_why_not: str | None = None
"""Why no worker can be started here."""
_seen = False
"""Whether one was."""


def end_idle_workers() -> None:
    """After an interrupt: end the workers that wait for work, see off those that were killed."""
    with _lock:
        idle, _idle[:] = list(_idle), []
    for worker in idle:
        worker.kill()
    _see_off([worker for worker in list(_all) if worker.killed])


def _see_off(workers: list[_Worker]) -> None:
    """Wait until killed workers are gone, but not for long."""
    deadline = time.monotonic() + _FAREWELL
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


def _take() -> _Worker | None:
    """A worker, maybe not ready yet; None if none can be started here."""
    while True:
        with _lock:
            worker = _idle.pop() if _idle else None
        if worker is None:
            break
        if worker.alive:
            return worker
        worker.kill()
    name = Path(sys.executable or "").name.lower()
    if getattr(sys, "frozen", False) or not name.startswith(("python", "pypy", "graalpy")):
        _do_without(f"sys.executable is {sys.executable!r}")  # some other program, maybe
        return None
    try:
        return _Worker()
    except OSError as error:
        _do_without(str(error))
        return None


def _do_without(reason: str) -> None:
    global _why_not
    if _why_not is None:
        _why_not = reason
        warnings.warn(
            f"milp has no process of its own ({reason}): its solver runs in this one, where it "
            "may overrun time limits and cannot be interrupted",
            RuntimeWarning,
            stacklevel=2,
        )


def _keep(worker: _Worker) -> None:
    """For the next solver; the one that was used last is taken first."""
    with _lock:
        _idle.append(worker)


def _retire(worker: _Worker) -> bool:
    """Whether an idle worker may end: it is in nobody's hands."""
    with _lock:
        if worker not in _idle:
            return False
        _idle.remove(worker)
        return True


def _command() -> list[str]:
    return [sys.executable, str(Path(highs.__file__).resolve())]


def _end_all() -> None:
    workers = list(_all)
    for worker in workers:
        worker.kill()
    _see_off(workers)


def _forget_all() -> None:
    global _lock
    _lock = threading.Lock()
    for worker in list(_all):
        worker.forget()
    _all.clear()
    _idle.clear()


atexit.register(_end_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# ── without a process ────────────────────────────────────────────────────────────────────────


def _in_thread(program: dict[str, Any], clock: Clock) -> Solution:
    """The answer, or `OutOfTime`; the thread then lives on until the solver minds its limit."""
    answers: queue.SimpleQueue[Solution | Exception] = queue.SimpleQueue()

    def work() -> None:
        try:
            answers.put(highs.solve(program, time.perf_counter()))
        except Exception as error:
            answers.put(error)

    threading.Thread(target=work).start()
    while True:
        try:
            answer = answers.get(timeout=_step(clock))
        except queue.Empty:
            if clock.overdue:
                raise OutOfTime from None
            continue
        if isinstance(answer, MemoryError):
            clock.expire()
            raise OutOfTime
        if isinstance(answer, Exception):
            raise answer
        return answer
