"""The program as a process: how it ends, and what an attack leaves."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import carvegbm as cg
from carvegbm.cli import running
from carvegbm.cli.app import run

SAMPLE = ["verify", "sample", "--norm", "inf", "--budget", "0.02", "--threads", "1"]


# ── the program as a process ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", ["verify", "attack", "radius", "spread", "info"])
def test_help_shows_an_example(cli: Any, command: str) -> None:
    code, out, err = cli(command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: carvegbm {command} " in out


def test_version_and_bare_call(cli: Any) -> None:
    code, out, _ = cli("--version")
    assert code == 0
    assert re.fullmatch(r"carvegbm \d+\.\d+\.\d+\n", out)
    code, out, _ = cli()
    assert code == 0
    assert "verify" in out


def test_an_unexpected_error_is_shown_and_does_not_pass_for_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(running, "decide", fail)
    assert run(SAMPLE) == 2
    err = capfd.readouterr().err
    assert "Traceback" in err
    assert "ZeroDivisionError" in err


def test_interrupt_ends_with_130_in_one_line(
    cli: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "decide", interrupted)
    code, out, err = cli(*SAMPLE, "--output", tmp_path / "r.json")
    assert (code, out) == (130, "")
    assert err.count("\n") <= 1
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_stops_a_running_verification(model: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "big.npz", X=rng.random((100_000, 30)), y=rng.integers(0, 2, 100_000))
    arguments = ["verify", model, str(tmp_path / "big.npz"), "--norm", "2", "--budget", "0.02"]
    # The work is repeated until it is interrupted, so that no machine is too fast for the test.
    program = (
        "import sys\n"
        "from carvegbm.cli.app import run\n"
        "print('ready', flush=True)\n"
        f"while not (code := run({[*arguments, '--threads', '1']!r})): pass\n"
        "sys.exit(code)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err.decode()
    assert b"Traceback" not in err


def test_reader_of_the_output_may_leave_early() -> None:
    program = f"import sys; from carvegbm.cli.app import run; sys.exit(run({[*SAMPLE, '--json']}))"
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() in (0, 1)
    assert b"Traceback" not in err


# ── what an attack leaves, and where ─────────────────────────────────────────────────────────


def test_nothing_to_resume_is_said(cli, tmp_path):
    out = tmp_path / "result.json"
    ask = ("verify", "sample", "--budget", "0.01", "--output", out, "--resume")
    for _ in range(2):
        code, _, err = cli(*ask)
        assert code == 0
        assert "nothing to resume" in err


def test_budgets_of_norm_0_are_not_half_a_spread(cli):
    assert "budgets below" in cli("spread", "sample", "--norm", "1")[1]
    assert "budgets below" not in cli("spread", "sample", "--norm", "0")[1]
    assert "budgets below" not in cli("spread", "sample", "--norm", "0.0")[1]


def test_spread_judges_the_norm_without_a_budget_too(refuses):
    refuses("spread", "sample", "--norm", "0.5", words=["norm must be", "0.5"])


ASKS = {"verify": "decide", "attack": "attack", "radius": "radius"}


@pytest.mark.parametrize("command", ASKS)
def test_every_command_says_that_it_was_interrupted(command, cli, monkeypatch):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running if command == "verify" else cg, ASKS[command], interrupted)
    options = ["sample"] if command == "radius" else ["sample", "--budget", "0.01"]
    code, out, err = cli(command, *options)
    assert (code, out) == (130, "")
    assert err.splitlines()[-1] == "carvegbm: interrupted"
