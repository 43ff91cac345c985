"""Progress: who is told how far it has come, and that it can be interrupted."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import carvegbm as cg
from carvegbm import progress, verifier
from plain_trees import ensemble, hard, stump

ATTACKER = cg.Attacker("inf", 0.1)
MODEL = ensemble(stump(0, 0.5))
TWICE = ensemble(stump(0, 0.5), stump(0, 0.5))
X, Y = np.full((300, 1), 0.45), np.zeros(300, dtype=int)


@pytest.mark.parametrize("model", [MODEL, TWICE], ids=["large-spread", "search"])
@pytest.mark.parametrize(
    "work",
    [
        lambda model, tell: cg.verify(model, X, Y, ATTACKER, progress=tell),
        lambda model, tell: cg.attack(model, X, Y, ATTACKER, progress=tell),
        lambda model, tell: cg.radius(model, X, Y, cg.Attacker(1), progress=tell),
        lambda model, tell: cg.output_range(model, X, ATTACKER, progress=tell),
        lambda model, tell: cg.robustness_curve(
            model, X, Y, cg.Attacker(1), budgets=[0.1], progress=tell
        ),
    ],
    ids=["verify", "attack", "radius", "output_range", "robustness_curve"],
)
def test_function_is_told_all_rows_in_the_end(model, work):
    told = []
    work(model, told.append)
    assert told[-1] == 300
    assert told == sorted(told)


def test_function_is_told_on_the_way():
    case = hard(40)
    told = []
    cg.verify(
        case.ensemble, [case.x] * 4, [1] * 4, case.attacker, engine="search", timeout=0.15,
        threads=1, progress=told.append,
    )  # fmt: skip
    assert len(told) > 2
    assert set(told) <= set(range(5))
    assert told[-1] == 4
    assert len(set(told)) > 1


def test_all_rows_are_done_only_when_every_engine_is_through(monkeypatch):
    """What one engine is through with, another may still have to decide."""
    told = []
    decide = verifier.decide

    def watched(task, rows, listen):
        found = decide(task, rows, listen)
        assert max(told) < len(X)
        return found

    monkeypatch.setattr(verifier, "decide", watched)
    cg.verify(TWICE, X, Y, ATTACKER, progress=told.append)
    assert told[-1] == len(X)
    assert told == sorted(told)


def test_bar_is_full_only_in_the_end(monkeypatch):
    import rich.progress

    shown = []
    monkeypatch.setattr(
        rich.progress.Progress, "update", lambda *_, completed, **__: shown.append(completed)
    )
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.progress_bar(None, 10, "counting") as tick:
        tick(4)
        tick(10)
        assert shown == [4, 9]
    assert shown == [4, 9, 10]


def test_error_of_the_function_ends_the_work():
    case = hard(40)

    def fail(_):
        raise ZeroDivisionError("told too much")

    started = time.monotonic()
    with pytest.raises(ZeroDivisionError, match="told too much"):
        cg.verify(
            case.ensemble, [case.x], [1], case.attacker, engine="search", timeout=30, progress=fail
        )
    assert time.monotonic() - started < 10


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_appears_on_a_terminal_only_and_not_at_once(monkeypatch):
    def shown(stream, wanted, patience):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr(progress, "_PATIENCE", patience)
        with progress.progress_bar(wanted, 10, "counting") as tick:
            if tick is not None:
                tick(5)
        return stream.getvalue()

    assert "counting" in shown(Terminal(), None, -1)
    assert shown(Terminal(), None, 60) == ""
    assert shown(io.StringIO(), None, -1) == ""
    assert shown(Terminal(), False, -1) == ""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "work",
    [
        lambda c, **options: cg.verify(c.ensemble, [c.x] * 3, [1] * 3, c.attacker, **options),
        lambda c, **options: cg.attack(c.ensemble, [c.x] * 3, [1] * 3, c.attacker, **options),
        lambda c, **options: cg.radius(
            c.ensemble, [c.x] * 3, [1] * 3, cg.Attacker(1, bounds=(0, 1)), **options
        ),
        lambda c, **options: cg.output_range(c.ensemble, [c.x] * 3, c.attacker, **options),
    ],
    ids=["verify", "attack", "radius", "output_range"],
)
def test_ctrl_c_ends_a_long_search_promptly(work, threads):
    case = hard(40)
    sent = []

    def interrupt():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.3, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            work(case, engine="search", timeout=30, threads=threads)
        taken = time.monotonic() - sent[0]
    finally:
        timer.cancel()
    assert taken < 2
