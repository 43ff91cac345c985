"""Ctrl-C while milp is at work, and the end of the interpreter: nothing goes on or is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import child_processes
from child_processes import is_running, wait_until

LONG = 1000.0  # seconds an instance may take that nobody waits for
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
        return child_processes.end(self.process)[1]

    def assert_no_worker_is_left(self) -> None:
        wait_until(lambda: not is_running(self.worker))


@pytest.mark.parametrize("call", ["verify()", "verify_instance()"])
def test_ctrl_c_is_heard_and_leaves_neither_thread_nor_process(call):
    script = Script(
        f"""
        try:
            {call}
        except KeyboardInterrupt:
            print("interrupted", threading.active_count(), len(worker._all), flush=True)
            os.kill(os.getpid(), 9)  # the worker has to be gone without an end of the interpreter
        """
    )
    script.process.send_signal(signal.SIGINT)
    assert script.end().split() == ["interrupted", "1", "0"]
    script.assert_no_worker_is_left()


@pytest.mark.parametrize("wait", ["thread.join()", "time.sleep(1000)"])
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
    options = ["--norm", "inf", "--budget", 0.3, "--engine", "milp", "--timeout", LONG]
    process = child_processes.start(
        "verify", tmp_path / "model.txt", tmp_path / "data.csv", *options
    )
    wait_until(lambda: child_processes.descendants(process.pid) or process.poll() is not None)
    children = child_processes.descendants(process.pid)
    process.send_signal(signal.SIGINT)
    assert child_processes.end(process)[::2] == (130, "carvegbm: interrupted\n")
    wait_until(lambda: not any(map(is_running, children)))
