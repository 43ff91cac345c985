"""Child processes in tests: start the command line, wait with a limit, look for what is left."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

LIMIT = 30.0
"""Seconds after which a test gives up waiting for something; no test depends on being faster."""


def patience() -> float:
    """`LIMIT` seconds, multiplied by the load per core if the machine is overloaded.

    A process that starts in 2 s on an idle machine takes more than 30 s if 8 workers of xdist and
    other programs share two cores.
    """
    try:
        load = os.getloadavg()[0]
    except (AttributeError, OSError):  # not known on this system
        return LIMIT
    return LIMIT * max(1.0, load / (os.cpu_count() or 1))


def wait_until(condition: Callable[[], object]) -> None:
    """Return once the condition holds; fail if `patience` ends before."""
    started = time.monotonic()
    while not condition():
        waited = time.monotonic() - started
        assert waited < patience(), f"did not happen within the time limit of {waited:.0f} s"
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    """Whether the process exists and is not a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):  # it has ended meanwhile, or there is no /proc
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return not Path("/proc/self").exists()


def descendants(pid: int) -> set[int]:
    """Return the processes that the process or one of its descendants has started; needs /proc."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread may end while it is looked at
            for child in map(int, task.read_text().split()):
                found |= {child} | descendants(child)
    return found


def start(
    *arguments: object, before: str = "", ignoring_interrupts: bool = False
) -> subprocess.Popen[str]:
    """Start `carvegbm ARGUMENTS`.

    `before` is Python that runs first. With `ignoring_interrupts` the command starts as under
    nohup, and as a background job of a shell script: with SIGINT ignored.
    """
    ignore = ["sh", "-c", 'trap "" INT; exec "$@"', "sh"] if ignoring_interrupts else []
    program = f"{before}\nfrom carvegbm.cli import main\nmain()"
    return subprocess.Popen(
        [*ignore, sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Wait until a process has ended and closed its pipes; return its code, stdout and stderr.

    A descendant that lives on holds the pipes open, which fails when `patience` ends.
    """
    try:
        out, err = process.communicate(timeout=patience())
    finally:
        process.kill()
    return process.returncode, out, err


def end_of_work(command: list[str]) -> tuple[int, str, str]:
    """Run a program as long as it works; return its code, stdout and stderr.

    Fails if it and its descendants get less than half a second of CPU time done in `LIMIT` seconds.
    """
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8"
    )
    used, since = 0.0, time.monotonic()
    try:
        while True:
            try:
                out, err = process.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                now = sum(map(_cpu_seconds, {process.pid} | descendants(process.pid)))
                if abs(now - used) >= 0.5:
                    used, since = now, time.monotonic()
                assert time.monotonic() - since < LIMIT, f"{command[0]} does nothing"
            else:
                return process.returncode, out, err
    finally:
        process.kill()


def _cpu_seconds(pid: int) -> float:
    """CPU time of a process and of its children that have ended; 0 without /proc."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
