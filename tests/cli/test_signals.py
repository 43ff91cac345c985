"""Ctrl-C, SIGTERM and SIGKILL at any moment: one line, no file, no process is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import child_processes
from conftest import REPOSITORY

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
with_proc = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc")

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SENDING = """
import importlib.abc, os, sys
class Sender(importlib.abc.MetaPathFinder):
    "Sends this process a signal when a module is first looked for."
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), {number:d})
sys.meta_path.insert(0, Sender())
"""
PAUSED = """
import carvegbm.proofs.write as write
import time
def paused(*_):
    print("proving", flush=True)
    time.sleep(60)
write._records = paused
"""
PROVE = ("verify", "sample", "--budget", "0.02", "--threads", "1", "--proof")


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize(
    "module", ["carvegbm.cli.app", "typer", "numpy", "carvegbm._core", "carvegbm.cli.verify"]
)
def test_a_signal_while_modules_are_loaded_ends_in_one_line(
    module: str, number: signal.Signals
) -> None:
    sending = SENDING.format(module=module, number=number)
    process = child_processes.start("verify", "sample", "--budget", "0.02", before=sending)
    assert child_processes.end(process) == (CODES[number], "", "carvegbm: interrupted\n")


@pytest.mark.parametrize("number", CODES)
def test_a_signal_while_proving_leaves_no_file(tmp_path: Path, number: signal.Signals) -> None:
    proof = tmp_path / "a.proof"
    proof.write_text("earlier")
    process = child_processes.start(*PROVE, proof, before=PAUSED)
    assert process.stdout is not None
    assert process.stdout.readline() == "proving\n"
    assert len(os.listdir(tmp_path)) == 2  # the temporary file is there
    process.send_signal(number)
    assert child_processes.end(process) == (CODES[number], "", "carvegbm: interrupted\n")
    assert os.listdir(tmp_path) == ["a.proof"]
    assert proof.read_text() == "earlier"


@pytest.mark.parametrize("number", CODES)
def test_a_thread_that_fails_after_a_signal_prints_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    failing = """
import threading
def fails(*_):
    try:
        paused()
    finally:
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
write._records = fails
"""
    process = child_processes.start(*PROVE, tmp_path / "a.proof", before=PAUSED + failing)
    assert process.stdout is not None
    assert process.stdout.readline() == "proving\n"
    process.send_signal(number)
    assert child_processes.end(process) == (CODES[number], "", "carvegbm: interrupted\n")


@pytest.mark.parametrize("number", CODES)
def test_an_error_in_the_clean_up_after_a_signal_prints_one_line(
    tmp_path: Path, number: signal.Signals
) -> None:
    failing = """
def fails(*_):
    try:
        paused()
    finally:
        1 / 0
write._records = fails
"""
    process = child_processes.start(*PROVE, tmp_path / "a.proof", before=PAUSED + failing)
    assert process.stdout is not None
    assert process.stdout.readline() == "proving\n"
    process.send_signal(number)
    assert child_processes.end(process) == (CODES[number], "", "carvegbm: interrupted\n")


def test_interrupts_that_the_caller_ignores_stay_ignored(tmp_path: Path) -> None:
    process = child_processes.start(
        *PROVE, tmp_path / "a.proof", before=PAUSED, ignoring_interrupts=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "proving\n"
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)  # which is handled second, and ends the command
    assert child_processes.end(process)[0] == CODES[signal.SIGTERM]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_tuning_that_is_ended_keeps_the_best_finished_model(
    tmp_path: Path, data: str, number: signal.Signals
) -> None:
    shutil.copy(data, tmp_path / "data.csv")
    out = tmp_path / "best.txt"
    out.write_text("earlier")
    options = ["--trees", 10**7, "--early-stopping", 3, "--threads", 1]
    slow = """
from carvegbm.training.estimators import LargeSpreadClassifier
fit = LargeSpreadClassifier.fit
def endless(self, *arguments, **options):
    if self.num_leaves == 4:
        print("fitting", flush=True)
        self.set_params(features=[0], subsample=0.5, subsample_freq=1)
        options["early_stopping_rounds"] = 10**7
    return fit(self, *arguments, **options)
LargeSpreadClassifier.fit = endless
"""
    process = child_processes.start(
        *["tune", tmp_path / "data.csv", "--budget", "0.02", "--leaves", "3,4", *options],
        *["-o", out],
        before=slow,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "fitting\n"
    process.send_signal(number)
    code, _, err = child_processes.end(process)
    assert code == CODES[number], err
    assert "best.txt.partial holds the best of 1 finished model" in err
    assert "Traceback" not in err
    assert out.read_text() == "earlier"
    assert (tmp_path / "best.txt.partial").read_text().startswith("tree")


@with_proc
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_worker_processes_end_with_the_command(number: signal.Signals) -> None:
    process = child_processes.start("demo", "--threads", 2)

    def workers() -> list[int]:
        children = child_processes.descendants(process.pid)
        return [pid for pid in children if b"LokyProcess" in _command(pid)]

    child_processes.wait_until(lambda: len(workers()) == 2 or process.poll() is not None)
    children = child_processes.descendants(process.pid)
    assert len(children) >= 2
    process.send_signal(number)
    code, _, err = child_processes.end(process)
    assert code == CODES.get(number, -number), err
    assert "Traceback" not in err
    child_processes.wait_until(lambda: not any(map(child_processes.is_running, children)))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


def test_ctrl_c_tests_pass_where_the_caller_ignores_interrupts() -> None:
    tests = [f"{__file__}::{test_a_signal_while_proving_leaves_no_file.__name__}"]
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    pytest_ = [sys.executable, "-m", "pytest", *plain, *tests]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *pytest_],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout
