"""The processes that solve programs: killed in time, never believed when they fail, never left."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import carvegbm as cg
from carvegbm.engines import milp
from carvegbm.engines.milp import engine, highs, parallel, solving, worker
from carvegbm.engines.milp.clock import Clock, OutOfTime
from carvegbm.engines.milp.exact import exact_sum
from carvegbm.problem import Problem
from plain_trees import hard

LONG = 30.0  # seconds an instance may take that nobody waits for
SOON = 20.0  # … and what is far less than that, on any machine

posix = pytest.mark.skipif(os.name != "posix", reason="needs signals and process ids")


def verify(case, **options):
    return cg.verify(case.ensemble, [case.x], [1], case.attacker, engine="milp", **options)


@pytest.fixture(autouse=True)
def fresh():
    """No worker of another test is at hand, and none of this one is left."""
    worker.end_idle_workers()
    yield
    worker.end_idle_workers()


@pytest.fixture
def fake(monkeypatch, tmp_path):
    """Replace what workers run by a script of one's own, from the first program on."""

    def install(then: str, greets: bool = True) -> None:
        path = tmp_path / "python_fake.py"
        greeting = f"sys.stdout.buffer.write({highs.GREETING!r}); sys.stdout.flush()"
        path.write_text(
            "import pickle, sys, time, os\n"
            "pickle.load(sys.stdin.buffer)\n"
            f"{greeting if greets else 'sys.exit(0)'}\n"
            "pickle.load(sys.stdin.buffer)\n" + then
        )
        monkeypatch.setattr(worker, "_command", lambda: [sys.executable, str(path)])
        monkeypatch.setattr(worker, "_seen", False)
        monkeypatch.setattr(worker, "_why_not", None)

    return install


def assert_unknown_with_bounds(case, result):
    assert result.status.tolist() == ["unknown"]
    assert result.engine.tolist() == [""]
    assert result.worst_margin_lower[0] <= case.worst_margin <= result.worst_margin_upper[0]


# ── workers that fail ────────────────────────────────────────────────────────────────────────


def test_worker_that_does_not_mind_its_time_is_killed(fake):
    fake("time.sleep(1000)")
    case = hard(10)
    started = time.monotonic()
    with milp.Solver() as solver:
        solver.prepare()
        process = solver._worker._process
        scene = milp.Scene(Problem(case.ensemble, case.attacker))
        verdict = milp.decide(scene, case.x, 1, 0.2, solver)
        assert process.wait(SOON) != 0
    assert verdict.status == "unknown"
    assert 0.2 <= verdict.seconds < SOON
    assert verdict.lower <= case.worst_margin <= verdict.upper
    assert time.monotonic() - started < SOON


@pytest.mark.parametrize(
    "then",
    [
        pytest.param("os._exit(1)", id="dies"),
        pytest.param("os.kill(os.getpid(), 9)", id="killed", marks=posix),
        pytest.param("os.write(1, b'rubbish' * 9999); time.sleep(1000)", id="rubbish"),
        pytest.param("os.write(1, bytes(9999)); time.sleep(1000)", id="zeros"),
        pytest.param(
            f"os.write(1, {highs.HEADER.pack(highs.MARK, highs.INFEASIBLE, 0.0, 8)!r}); "
            "os.write(1, bytes(8)); time.sleep(1000)",
            id="answer to another program",
        ),
    ],
)
@pytest.mark.parametrize("margin", [0.5, -0.5])
def test_worker_that_dies_or_talks_rubbish_leaves_the_instance_unknown(fake, then, margin):
    fake(then)
    case = hard(10, margin=margin)
    started = time.monotonic()
    assert_unknown_with_bounds(case, verify(case, timeout=LONG))
    assert time.monotonic() - started < SOON


def test_answer_that_came_too_late_decides_nothing(monkeypatch):
    """Whatever bound the solver had by then; only a program it has solved to the end counts."""
    late = highs.Solution(highs.OUT_OF_TIME, 1e9, b"")
    case = hard(10)
    for pruned in (True, False):
        monkeypatch.setattr(worker.Solver, "run", lambda *_: late)
        verdict = milp.verify_instance(case.ensemble, case.x, 1, case.attacker, LONG, pruned=pruned)
        assert verdict.status == "unknown"

        def with_point(_, program, __):
            point = np.zeros(len(program["objective"]))
            return highs.Solution(highs.OUT_OF_TIME, 1e9, point.tobytes())

        monkeypatch.setattr(worker.Solver, "run", with_point)
        monkeypatch.setattr(solving, "_MOST_CUTS", 3)
        verdict = milp.verify_instance(case.ensemble, case.x, 1, case.attacker, LONG, pruned=pruned)
        assert verdict.status == "unknown"


def test_error_of_the_solver_is_raised_and_not_taken_for_an_answer(fake):
    text = b"ValueError: no such option"
    answer = highs.HEADER.pack(highs.MARK, highs.FAILED, 0.0, len(text)) + text
    fake(f"os.write(1, {answer!r}); time.sleep(1000)")
    with pytest.raises(RuntimeError, match="no such option"):
        verify(hard(10), timeout=LONG)


def test_without_a_worker_a_thread_solves_and_a_warning_says_so(fake):
    fake("", greets=False)
    with pytest.warns(RuntimeWarning, match="no process of its own"):
        assert verify(hard(10), timeout=LONG).status.tolist() == ["robust"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert verify(hard(10, margin=-0.5), timeout=LONG).status.tolist() == ["fragile"]


@pytest.mark.parametrize("executable", ["", None, "/usr/bin/uwsgi", "/no/such/python"])
def test_program_that_embeds_python_is_not_started_again(monkeypatch, executable):
    monkeypatch.setattr(sys, "executable", executable)
    monkeypatch.setattr(worker, "_why_not", None)
    with pytest.warns(RuntimeWarning, match="no process of its own"):
        assert verify(hard(10), timeout=LONG).status.tolist() == ["robust"]


def test_worker_that_dies_at_its_start_later_on_is_no_reason_to_do_without(fake, monkeypatch):
    """The solver would take this process along, if there is too little memory, say."""
    fake("", greets=False)
    monkeypatch.setattr(worker, "_seen", True)
    assert_unknown_with_bounds(hard(10), verify(hard(10), timeout=LONG))
    assert worker._why_not is None


# ── workers at work ──────────────────────────────────────────────────────────────────────────


def asked_workers(monkeypatch, before=lambda: None):
    """The workers that get a program, in order."""
    asked, ask = [], worker._Worker.ask

    def watched(self, program, clock):
        asked.append(self)
        before()
        return ask(self, program, clock)

    monkeypatch.setattr(worker._Worker, "ask", watched)
    return asked


def test_one_worker_serves_many_instances_and_calls(monkeypatch):
    asked = asked_workers(monkeypatch)
    case = hard(8)
    for _ in range(2):
        result = cg.verify(
            case.ensemble, [case.x] * 3, [1] * 3, case.attacker, engine="milp", threads=1
        )
        assert result.status.tolist() == ["robust"] * 3
    assert len(asked) >= 6
    assert len(set(asked)) == 1


def test_two_threads_use_two_workers_at_once(monkeypatch):
    both = threading.Barrier(2, timeout=SOON)
    asked = asked_workers(monkeypatch, before=both.wait)
    case = hard(8)
    result = cg.verify(
        case.ensemble, [case.x] * 2, [1] * 2, case.attacker, engine="milp", threads=2
    )
    assert result.status.tolist() == ["robust"] * 2
    assert len(set(asked)) == 2


def test_idle_worker_ends_after_a_while(monkeypatch):
    monkeypatch.setattr(worker, "_IDLE", 0.05)
    asked = asked_workers(monkeypatch)
    verify(hard(8))
    asked[-1].join(SOON)
    assert not asked[-1].alive
    assert asked[-1] not in worker._idle


def test_idle_worker_that_was_killed_is_not_used_again(monkeypatch):
    asked = asked_workers(monkeypatch)
    verify(hard(8))
    first = asked[-1]
    first._process.kill()
    first._process.wait()
    assert verify(hard(8)).status.tolist() == ["robust"]
    assert asked[-1] is not first


def test_start_of_a_worker_is_charged_to_no_instance(monkeypatch):
    ready = worker._Worker.wait_until_ready

    def slow(self, clock):
        time.sleep(1.0)
        return ready(self, clock)

    monkeypatch.setattr(worker._Worker, "wait_until_ready", slow)
    result = verify(hard(6), timeout=1.0)
    assert result.status.tolist() == ["robust"]
    assert result.seconds[0] < 1.0


def test_worker_finds_scipy_where_its_parent_does(monkeypatch, tmp_path):
    """On the parent's path as it is now, not as the environment says."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    for name in ("numpy", "scipy"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('the wrong one')")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert verify(hard(8)).status.tolist() == ["robust"]


@posix
def test_forked_process_leaves_its_parents_workers_alone():
    verify(hard(8))
    (idle,) = worker._idle
    child = os.fork()
    if child == 0:
        clean = not worker._idle and not worker._all and idle._process.stdin.closed
        os._exit(0 if clean else 1)
    _, code = os.waitpid(child, 0)
    assert code == 0
    assert idle.alive
    assert verify(hard(8)).status.tolist() == ["robust"]


# ── many at once ─────────────────────────────────────────────────────────────────────────────


def test_results_are_delivered_as_they_come():
    fast_is_done = threading.Event()

    def work(item, _):
        return item == "fast" or fast_is_done.wait(SOON)

    order = []

    def deliver(item, result):
        assert result
        order.append(item)
        fast_is_done.set()

    parallel.in_parallel(work, ["slow", "fast"], 2, deliver)
    assert order == ["fast", "slow"]


@pytest.mark.parametrize("where", ["work", "deliver"])
def test_an_exception_ends_the_others(where):
    ended = []

    def work(item, solver):
        if item == "bad":
            if where == "work":
                raise KeyError(item)
            return item
        ended.append(solver.stop.wait(SOON))
        return item

    def deliver(item, _):
        raise KeyError(item)

    with pytest.raises(KeyError, match="bad"):
        parallel.in_parallel(work, ["long", "bad"], 2, deliver)
    assert ended == [True]
    assert not [thread for thread in threading.enumerate() if thread.name == "carvegbm-milp"]


def test_progress_ticks_for_every_instance():
    ticks = []
    case = hard(8)
    cg.verify(
        case.ensemble, [case.x] * 3, [1] * 3, case.attacker, engine="milp", progress=ticks.append
    )
    assert ticks == [1, 2, 2, 3]  # the last one only when the call is over


def test_auto_passes_over_programs_that_are_too_large_and_nothing_else(monkeypatch):
    case = hard(40)
    args = (case.ensemble, [case.x], [1], case.attacker)

    def refuse(error):
        def decide(*_):
            raise error

        monkeypatch.setattr(engine, "decide", decide)

    refuse(milp.ProgramTooLarge("too large"))
    assert cg.verify(*args, timeout=1.0).status.tolist() == ["unknown"]
    with pytest.raises(cg.CarveError, match="too large"):
        cg.verify(*args, timeout=1.0, engine="milp")
    refuse(cg.CarveError("something else"))
    with pytest.raises(cg.CarveError, match="something else"):
        cg.verify(*args, timeout=1.0)


# ── the clock ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pruned", [True, False])
@pytest.mark.parametrize("margin", [0.5, -0.5])
def test_whenever_the_time_runs_out_what_is_said_is_true(monkeypatch, margin, pruned):
    """At the first look at the clock, at the second, … until the instance is decided."""
    case = hard(6, margin=margin)
    seen = []
    for looks in range(10_000):
        left = iter(range(looks))

        def check(_, left=left):
            if next(left, None) is None:
                raise OutOfTime

        monkeypatch.setattr(Clock, "check", check)
        verdict = milp.verify_instance(case.ensemble, case.x, 1, case.attacker, LONG, pruned)
        assert verdict.lower <= case.worst_margin <= verdict.upper
        seen.append(verdict.status)
        if verdict.status != "unknown":
            break
    assert seen[-1] == ("robust" if margin > 0 else "fragile")
    assert len(seen) > 5


def test_clock_that_is_stopped_has_no_time_left():
    stop = threading.Event()
    clock = Clock(LONG, stop)
    assert list(clock.watched(range(3000))) == list(range(3000))
    stop.set()
    assert clock.left == 0
    assert clock.overdue
    with pytest.raises(OutOfTime):
        list(clock.watched(range(3)))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), max_size=50))
def test_sum_is_exact(values):
    assert exact_sum(np.array(values)) == sum(map(Fraction, values), Fraction(0))


@pytest.fixture(autouse=True, scope="module")
def no_warning_about_processes_left():
    """Python warns of processes that nobody waited for when it collects them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        yield
        gc.collect()
