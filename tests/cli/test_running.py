"""Long runs from the command line: engines, time limits, and runs that are interrupted."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import carvegbm as cg
from carvegbm import progress
from carvegbm.cli.shared import running
from fours import in_fours
from lightgbm_text import lightgbm_text
from plain_trees import ensemble, hard, stump

# Not large-spread.
LONG = ["verify", "sample", "--norm", "inf", "--budget", "0.03", "--threads", "1"]
ROWS = 171


# ── engines and time limits ──────────────────────────────────────────────────────────────────


def test_engine_option_names_who_decides(cli):
    def engines(*options):
        code, out, err = cli(*LONG, "--rows", "40", "--json", *options)
        assert (code, err) == (0, "")
        return json.loads(out)

    auto = engines()
    assert set(auto["engine"]) == {"large-spread", "search"}
    document = engines("--engine", "search")
    assert set(document["engine"]) == {"search"}
    assert document["status"] == auto["status"]
    assert "decided by large-spread" in cli(*LONG)[1]


def test_attack_and_radius_take_the_same_options(cli):
    rest = ["--rows", "20", "--json", "--engine", "search", "--timeout", "5", "--threads", "1"]
    code, out, err = cli("attack", "sample", "--budget", "0.03", *rest)
    assert (code, err) == (0, "")
    status = json.loads(cli(*LONG, "--rows", "20", "--json")[1])["status"]
    assert json.loads(out)["status"] == status
    code, out, err = cli("radius", "sample", *rest)
    assert (code, err) == (0, "")
    for radius, verdict in zip(json.loads(out)["radius"], status, strict=True):
        assert (0 < radius <= 0.03) == (verdict == "fragile")


@pytest.fixture
def hard_files(tmp_path):
    """A model and two instances that take some 30 ms to decide; the second label is wrong."""
    case = hard(16)
    (tmp_path / "hard.txt").write_text(lightgbm_text(case.ensemble))
    row = ",".join(map(str, case.x))
    (tmp_path / "hard.csv").write_text(f"{row},1\n{row},0\n")
    return [tmp_path / "hard.txt", tmp_path / "hard.csv", "--bounds", "0,1", "--engine", "search"]


def test_time_limit_leaves_instances_unknown_and_says_so(cli, hard_files):
    arguments = ["verify", *hard_files, "--budget", "1"]
    code, out, err = cli(*arguments, "--timeout", "0.001")
    assert code == 0
    assert re.search(r"unknown +2 +100.0 % +not decided", out)
    assert "25.0 ± 25.0 %" in out
    assert err == "robustness 0.2500 ± 0.2500 (2 unknown)\n"
    code, out, err = cli(*arguments, "--timeout", "60", "--json")
    assert json.loads(out)["status"] == ["robust", "vulnerable"]
    code, out, _ = cli("attack", *hard_files, "--budget", "1", "--timeout", "0.001")
    assert code == 0
    assert re.search(r"unknown +2 ", out)
    code, out, _ = cli("radius", *hard_files, "--norm", "1", "--timeout", "0.001")
    assert code == 0
    assert re.search(r"not decided +1\b", out)


@pytest.mark.parametrize("command", [LONG, ["attack", *LONG[1:]], ["radius", "sample"]])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--timeout", "0"], ["timeout", "> 0"]),
        (["--timeout", "-1"], ["timeout", "-1"]),
        (["--timeout", "nan"], ["timeout", "nan"]),
        (["--timeout", "long"], ["--timeout", "long"]),
        (["--engine", "magic"], ["--engine", "magic", "large-spread"]),
    ],
    ids=str,
)
def test_bad_engines_and_time_limits_are_refused(refuses, command, options, words):
    refuses(*command, *options, words=words)


def test_options_of_another_engine_are_refused(refuses):
    refuses(*LONG, "--engine", "search", "--on-violation", "raise", words=["on_violation"])
    refuses(*LONG, "--engine", "search", "--grid", "2", words=["grid", "large-spread"])


def test_progress_on_a_terminal_counts_the_verdicts(cli, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_PATIENCE", -1)
    code, out, _ = cli(*LONG)
    assert code == 0
    assert "171/171" in terminal.getvalue()
    assert "robust 146" in terminal.getvalue()
    assert "\x1b" not in out


# ── interrupted runs ─────────────────────────────────────────────────────────────────────────


@pytest.fixture
def out(tmp_path):
    return tmp_path / "result.json"


@pytest.fixture
def partial(out):
    return out.with_name("result.json.partial")


@pytest.fixture
def calls(monkeypatch):
    """How many rows were decided at a time, four or less; `calls.stop` makes one end in an error.

    The real engines announce what they have every tenth of a second.
    """
    return in_fours(monkeypatch)


@pytest.fixture
def interrupted(cli, calls, out):
    """A run that was interrupted after two of its blocks."""
    calls.stop[2] = KeyboardInterrupt
    code, printed, err = cli(*LONG, "--output", out)
    assert (code, printed) == (130, "")
    calls.clear()
    return err


def without_seconds(path):
    document = json.loads(path.read_text())
    assert len(document.pop("seconds")) == document["instances"]
    return document


@pytest.fixture
def whole(cli, tmp_path):
    """The result of the same run without an interruption."""
    path = tmp_path / "whole" / "result.json"
    path.parent.mkdir()
    assert cli(*LONG, "--output", path)[0] == 0
    assert os.listdir(path.parent) == ["result.json"]
    return without_seconds(path)


def test_interrupted_run_keeps_what_is_done_and_says_how_to_go_on(interrupted, out, partial):
    assert "8 of 171 rows are kept; add --resume" in interrupted
    assert partial.exists()
    assert not out.exists()


@pytest.mark.usefixtures("interrupted")
def test_resumed_run_does_the_rest_and_equals_an_uninterrupted_one(cli, whole, calls, out, partial):
    calls.clear()
    code, printed, err = cli(*LONG, "--output", out, "--resume")
    assert code == 0
    assert "resuming after 8 of 171 rows" in err
    assert sum(calls) == ROWS - 8
    assert without_seconds(out) == whole
    assert "146" in printed
    assert not partial.exists()


@pytest.mark.usefixtures("interrupted")
def test_run_may_be_interrupted_again_and_resumed_with_other_threads(cli, whole, calls, out):
    calls.clear()
    calls.stop[1] = KeyboardInterrupt
    assert cli(*LONG, "--output", out, "--resume")[0] == 130
    assert calls == [4]
    arguments = [*LONG[:-1], "2", "--output", out, "--resume"]
    code, _, err = cli(*arguments)
    assert code == 0
    assert "resuming after 12 of 171 rows" in err
    assert without_seconds(out) == whole


@pytest.mark.usefixtures("interrupted")
def test_kept_rows_are_not_overwritten_without_being_asked(refuses, calls, out, partial):
    before = partial.read_bytes()
    refuses(*LONG, "--output", out, words=[str(partial), "--resume", "delete"])
    assert calls == []
    assert partial.read_bytes() == before


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize(
    "change",
    [
        ["--budget", "0.031"],
        ["--norm", "1"],
        ["--engine", "search"],
        ["--timeout", "9"],
        ["--rows", "170"],
        ["--features", "0,1"],
        ["--bounds", "0,1"],
        ["--scale", "2"],
    ],
    ids=str,
)
def test_run_with_another_question_is_not_resumed(refuses, calls, out, partial, change):
    refuses(*LONG, *change, "--output", out, "--resume", words=[str(partial), "another run"])
    assert calls == []
    assert partial.exists()


@pytest.mark.usefixtures("interrupted")
def test_run_with_other_data_is_not_resumed(refuses, sample_folder, tmp_path, out):
    lines = (sample_folder / "sample_data.csv").read_text().splitlines()
    for name, line in (("x", lines[-1].replace("0.", "0.1", 1)), ("y", flip(lines[-1]))):
        changed = tmp_path / f"{name}.csv"
        changed.write_text("\n".join([*lines[:-1], line]))
        arguments = ["verify", "sample", changed, *LONG[2:], "--output", out, "--resume"]
        refuses(*arguments, words=["another run"])


def flip(line):
    return line[:-1] + str(1 - int(line[-1]))


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("damage", ["cut off", "changed"])
def test_block_that_was_being_written_is_done_again(cli, whole, calls, out, partial, damage):
    content = partial.read_bytes()
    partial.write_bytes(content[:-1] if damage == "cut off" else content[:-1] + b"\xff")
    calls.clear()
    code, _, err = cli(*LONG, "--output", out, "--resume")
    assert code == 0
    assert "resuming after 4 of 171 rows" in err
    assert sum(calls) == ROWS - 4
    assert without_seconds(out) == whole


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("head", ["something else\n", "[1, 2"])
def test_file_that_is_no_resume_file_is_left_alone(refuses, out, partial, head):
    partial.write_text(head)
    words = [str(partial), "not a resume file", "delete it"]
    refuses(*LONG, "--output", out, "--resume", words=words)
    assert partial.read_text() == head


@pytest.mark.parametrize("resume", [[], ["--resume"]])
def test_resume_file_of_a_run_that_was_killed_before_it_wrote_anything_is_no_obstacle(
    cli, whole, out, partial, resume
):
    partial.write_text("")
    assert cli(*LONG, "--output", out, *resume)[0] == 0
    assert without_seconds(out) == whole
    assert not partial.exists()


@pytest.mark.usefixtures("calls")
def test_result_that_cannot_be_written_is_not_lost(
    cli, refuses, whole, calls, out, partial, monkeypatch
):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pathlib.Path.write_text", fail)
        words = [f"{out}: No space left on device", "171 of 171 rows are kept", "--resume"]
        refuses(*LONG, "--output", out, words=words)
    assert sorted(os.listdir(out.parent)) == [partial.name, "whole"]
    calls.clear()
    assert cli(*LONG, "--output", out, "--resume")[0] == 0
    assert calls == []
    assert without_seconds(out) == whole


def test_resume_without_anything_to_resume_starts_at_the_beginning(cli, whole, out, partial):
    code, _, err = cli(*LONG, "--output", out, "--resume")
    assert code == 0
    assert "resuming" not in err
    assert without_seconds(out) == whole
    assert not partial.exists()


def test_resume_needs_the_output_it_began(refuses):
    refuses(*LONG, "--resume", words=["--resume", "--output"])


def test_run_with_swapped_feature_names_is_not_resumed(refuses, cli, calls, tmp_path):
    """An attacker that may change a feature by name may change another one then."""
    case = ensemble(stump(0, 0.5), stump(1, 0.5), stump(0, 0.6), n_features=2)
    text = lightgbm_text(case)
    names = re.search("feature_names=(\\S+) (\\S+)", text)
    (tmp_path / "model.txt").write_text(text)
    rows = "".join(f"{0.1 + i / 100},{0.9 - i / 100},1\n" for i in range(20))
    (tmp_path / "data.csv").write_text(rows)
    files = [tmp_path / "model.txt", tmp_path / "data.csv"]
    arguments = ["verify", *files, "--budget", "0.3", "--features", names[1], "--engine", "search"]
    arguments += ["--threads", "1", "--output", tmp_path / "named.json"]
    calls.clear()
    calls.stop[2] = KeyboardInterrupt
    assert cli(*arguments)[0] == 130
    swapped = text.replace(names[0], f"feature_names={names[2]} {names[1]}")
    assert swapped != text
    (tmp_path / "model.txt").write_text(swapped)
    refuses(*arguments, "--resume", words=["named.json.partial", "another run", "attacker, model"])
    (tmp_path / "model.txt").write_text(text)
    assert cli(*arguments, "--resume")[0] == 0


def test_second_run_on_an_output_is_refused_while_the_first_is_at_it(
    cli, refuses, whole, calls, out, partial, monkeypatch
):
    decide, tried = running.decide, []

    def meanwhile(*arguments):
        if not tried:
            tried.append(partial.read_bytes())
            for resume in ([], ["--resume"]):
                words = [str(partial), "in use by another process"]
                refuses(*LONG, "--output", out, *resume, words=words)
            tried.append(partial.read_bytes())
        return decide(*arguments)

    monkeypatch.setattr(running, "decide", meanwhile)
    assert cli(*LONG, "--output", out)[0] == 0
    assert tried[0] == tried[1]
    assert sum(calls) == ROWS
    assert without_seconds(out) == whole


def test_error_in_the_first_block_leaves_nothing_behind(cli, calls, tmp_path, out):
    calls.stop[0] = KeyboardInterrupt
    assert cli(*LONG, "--output", out)[0] == 130
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_run_that_was_killed_is_resumed(cli, whole, out, partial):
    program = (
        "import os, signal, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n"
        "import pytest\n"
        "from fours import in_fours\n"
        "from carvegbm.cli.app import run\n"
        "class Kill(BaseException):\n"
        "    def __init__(self): os.kill(os.getpid(), signal.SIGKILL)\n"
        "in_fours(pytest.MonkeyPatch()).stop[3] = Kill\n"
        f"run({[*LONG, '--output', str(out)]!r})\n"
    )
    code = subprocess.run([sys.executable, "-c", program], capture_output=True).returncode
    assert code == -signal.SIGKILL
    assert partial.exists()
    code, _, err = cli(*LONG, "--output", out, "--resume")
    assert code == 0
    assert "resuming after 12 of 171 rows" in err
    assert without_seconds(out) == whole


# ── outputs that cannot be ───────────────────────────────────────────────────────────────────


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX permissions")
def test_output_nobody_can_write_is_refused_before_the_work_begins(
    refuses, unwritable, monkeypatch
):
    monkeypatch.setattr(running, "decide", lambda *_: pytest.fail("the work has begun"))
    monkeypatch.setattr(cg, "attack", lambda *_, **__: pytest.fail("the work has begun"))
    monkeypatch.setattr(cg, "radius", lambda *_, **__: pytest.fail("the work has begun"))
    words = ["cannot write", str(unwritable)]
    refuses(*LONG, "--output", unwritable / "r.json", words=words)
    refuses(*LONG, "--witnesses", unwritable / "r.npz", words=words)
    refuses("attack", *LONG[1:], "--output", unwritable / "r.npz", words=words)
    refuses("radius", "sample", "--output", unwritable / "r.csv", words=words)
