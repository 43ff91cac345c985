"""The solver's side: HiGHS, alone in a process that can be killed.

Comes in, on standard input: the parent's sys.path, then one program after the other, as plain
arrays. Goes out, on standard output: a greeting, then a `Solution` per program.

Run as a script by `worker`. Imports nothing of the package, and SciPy only where it is used: the
path on which to find it comes with the first message.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import queue
import signal
import struct
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = ["FAILED", "GREETING", "HEADER", "INFEASIBLE", "MARK", "SOLVED", "Solution", "solve"]

SOLVED, OUT_OF_TIME, INFEASIBLE = 0, 1, 2
"""SciPy's codes."""
FAILED = 100
"""As the status: SciPy raised an error, and the bytes are its text."""

GREETING = b"carvegbm: the solver is ready\n"
HEADER = struct.Struct("<4sidQ")
"""Of an answer: mark, status, bound, size of the bytes that follow."""
MARK = b"\xc3HiG"


class Solution(NamedTuple):
    """What is used of SciPy's result."""

    status: int
    bound: float
    """No point of the program has a lower objective; -inf if nothing is known."""
    point: bytes
    """As doubles; empty if none was found."""


def solve(program: dict[str, Any], received: float) -> Solution:
    """Solve a program (see `program.Program.run`), `seconds` after it was received at the latest.

    Presolve is off: pruning to reach leaves it little to do, and it heeds no time limit.
    """
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csc_array, csr_array

    shape = (len(program["lower"]), len(program["objective"]))
    rows = csr_array((program["values"], program["columns"], program["ends"]), shape=shape)
    matrix = csc_array(rows)
    # SciPy converts and copies about as much again before its own clock starts.
    seconds = program["seconds"] - 2 * (time.perf_counter() - received)
    if seconds <= 0:
        return Solution(OUT_OF_TIME, -math.inf, b"")
    result = milp(
        c=program["objective"],
        integrality=program["whole"],
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(matrix, program["lower"], program["upper"]),
        options={"time_limit": seconds, "mip_rel_gap": program["gap"], "presolve": False},
    )
    bound = -math.inf if result.mip_dual_bound is None else float(result.mip_dual_bound)
    point = b"" if result.x is None else np.asarray(result.x, dtype=np.float64).tobytes()
    return Solution(int(result.status), bound, point)


def main() -> None:
    """Solve programs until the other side hangs up."""
    with contextlib.suppress(AttributeError, OSError):  # Ctrl-C is the parent's business
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whatever libraries print goes nowhere: the pipe is for answers only.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.path[:] = pickle.load(sys.stdin.buffer)
    import scipy.optimize  # noqa: F401 - takes its time before the greeting, not after it

    answers.write(GREETING)
    answers.flush()
    programs: queue.SimpleQueue[tuple[dict[str, Any], float]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(programs,), daemon=True).start()
    while True:
        program, received = programs.get()
        try:
            with _mortal(program["seconds"]):
                answer = solve(program, received)
        except MemoryError:
            os._exit(1)
        except Exception as error:
            answer = Solution(FAILED, -math.inf, f"{type(error).__name__}: {error}".encode())
        answers.write(HEADER.pack(MARK, answer.status, answer.bound, len(answer.point)))
        answers.write(answer.point)
        answers.flush()


def _listen(programs: queue.SimpleQueue[tuple[dict[str, Any], float]]) -> None:
    """Hand programs over; when the other side is gone, end the process, whatever it is doing."""
    try:
        while True:
            program = pickle.load(sys.stdin.buffer)
            programs.put((program, time.perf_counter()))
    finally:
        os._exit(0)


@contextlib.contextmanager
def _mortal(seconds: float) -> Iterator[None]:
    """Have the system end this process long after its time, should nobody be left to do so.

    An old SciPy lets no other thread run while it solves, so that `_listen` may hear nothing.
    """
    late = 2 * seconds + 10
    if not hasattr(signal, "setitimer") or late > 1e9:
        yield
        return
    signal.setitimer(signal.ITIMER_REAL, late)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()
