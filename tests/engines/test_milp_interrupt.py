"""Ctrl-C while milp is at work, and the end of the interpreter: nothing goes on or is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

LONG = 60.0  # seconds an instance may take that nobody waits for
SOON = 20.0  # … and what is far less than that, on any machine
TESTS = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs signals and process ids")


class Script:
    """A Python program that verifies a hard instance; it says which worker it asks."""

    def __init__(self, body: str) -> None:
        source = f"""
            import os, sys, threading, time
            sys.path.insert(0, {str(TESTS)!r})
            import carvegbm as cg
            from carvegbm.engines import milp
            from carvegbm.engines.milp import worker
            from plain_trees import hard
            ask = worker._Worker.ask
            def watched(self, program, clock):
                print(self._process.pid, flush=True)
                return ask(self, program, clock)
            worker._Worker.ask = watched
            def verify(n=40, **options):
                case = hard(n)
                options = {{"engine": "milp", "timeout": {LONG}, "threads": 1, **options}}
                return cg.verify(case.ensemble, [case.x], [1], case.attacker, **options)
            def verify_instance():
                case = hard(40)
                milp.verify_instance(case.ensemble, case.x, 1, case.attacker, {LONG})
        """
        code = textwrap.dedent(source) + textwrap.dedent(body)
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.worker = int(self.process.stdout.readline())

    def end(self) -> str:
        """What it prints until it ends, which is soon."""
        started = time.monotonic()
        out, err = self.process.communicate(timeout=LONG)
        assert time.monotonic() - started < SOON, (out, err)
        return out

    def assert_no_worker_is_left(self) -> None:
        assert_gone(self.worker)


def assert_gone(pid: int) -> None:
    deadline = time.monotonic() + SOON
    while exists(pid):
        assert time.monotonic() < deadline, f"process {pid} is left"
        time.sleep(0.02)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")  # a zombie that nobody reaps is not a process any more
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("call", ["verify()", "verify_instance()"])
def test_ctrl_c_is_heard_and_leaves_neither_thread_nor_process(call):
    script = Script(
        f"""
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", threading.active_count(), len(worker._all), flush=True)
            time.sleep(60)
        """
    )
    script.process.send_signal(signal.SIGINT)
    started = time.monotonic()
    assert script.process.stdout.readline().split() == ["interrupted", "1", "0"]
    assert time.monotonic() - started < SOON
    script.assert_no_worker_is_left()
    script.process.kill()
    script.process.communicate()


@pytest.mark.parametrize("wait", ["thread.join()", "time.sleep(60)"])
def test_ctrl_c_in_the_main_thread_ends_a_verification_in_another(wait):
    script = Script(
        f"""
        thread = threading.Thread(target=verify)
        thread.start()
        {wait}
        """
    )
    script.process.send_signal(signal.SIGINT)
    script.end()
    assert script.process.returncode != 0
    script.assert_no_worker_is_left()


@pytest.mark.parametrize(
    "body",
    [
        pytest.param("verify(8)", id="done"),
        pytest.param(
            "threading.Thread(target=verify, daemon=True).start(); time.sleep(2)", id="daemon"
        ),
        pytest.param(
            "threading.Thread(target=verify, daemon=True).start(); time.sleep(2); os._exit(0)",
            id="hard exit",
        ),
    ],
)
def test_end_of_the_interpreter_is_the_end_of_its_workers(body):
    script = Script(body)
    script.end()
    script.assert_no_worker_is_left()


def test_worker_ends_when_its_parent_is_killed_in_the_middle_of_a_program():
    script = Script("verify()")
    script.process.kill()
    script.end()
    script.assert_no_worker_is_left()


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc to find the worker")
def children_of(pid: int) -> list[int]:
    """The processes that any thread of a process has started."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # a thread may end while it is looked at
            found += map(int, task.read_text().split())
    return found


def test_ctrl_c_on_the_command_line_exits_with_130(tmp_path):
    import lightgbm

    rng = np.random.default_rng(0)
    X, y = rng.random((1000, 10)), rng.integers(2, size=1000)
    options = {"num_leaves": 31, "min_data_in_leaf": 1, "verbose": -1, "num_threads": 1}
    booster = lightgbm.train(
        {**options, "objective": "binary"}, lightgbm.Dataset(X, y), num_boost_round=100
    )
    booster.save_model(tmp_path / "model.txt")
    rows = np.column_stack([X[:3], booster.predict(X[:3]) > 0.5])
    np.savetxt(tmp_path / "data.csv", rows, delimiter=",", fmt="%.17g")
    command = f"verify {tmp_path}/model.txt {tmp_path}/data.csv --norm inf --budget 0.3"
    command += f" --engine milp --timeout {LONG}"
    process = subprocess.Popen(
        [sys.executable, "-m", "carvegbm.cli", *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children: list[int] = []
    while not children and process.poll() is None:
        children = children_of(process.pid)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=LONG)
    assert process.returncode == 130, (out, err)
    assert "Traceback" not in err
    assert time.monotonic() - started < SOON
    for pid in children:
        assert_gone(pid)
