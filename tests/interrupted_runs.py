"""Runs that are killed, interrupted, doubled, damaged and continued with other inputs, at random.

A case is a few attempts at one `verify --output FILE --resume`. Whatever happens to them, an
attempt ends with the result of an uninterrupted run, except for times, or with one line and another
exit code; one that is not disturbed, about the same question, never ends without the result.
`cli/test_resumed_runs.py` runs a sample of cases and `tools/campaigns.py interrupted` many.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from lightgbm_text import lightgbm_text
from plain_trees import ensemble, split, stump

# ── the processes: forked from one that has imported everything ──────────────────────────────

OURS = ("storage/resume.py", "storage/files.py", "shared/running.py")


class Attempt(NamedTuple):
    """One process: its arguments, and when and how it kills itself."""

    arguments: list[str]
    signal: int = 0
    after: int = 0
    """That many calls and returns in the files that write."""


class End(NamedTuple):
    """How a process ended, and how many calls and returns it made where it writes."""

    code: int
    err: str
    events: int


def serve() -> None:
    """Fork the processes of each line of standard input at the same time, and say how they end."""
    from carvegbm.cli.app import run

    with open(os.devnull, "w") as nowhere:
        sys.stdout, stdout = nowhere, sys.stdout
        run(["verify", "sample", "--budget", "0.03", "--rows", "8", "--threads", "1", "--json"])
    sys.stdout = stdout
    for line in sys.stdin:
        attempts = [Attempt(*given) for given in json.loads(line)]
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / str(i) for i in range(len(attempts))]
            started = []
            for attempt, file in zip(attempts, files, strict=True):
                started.append(os.fork())
                if started[-1] == 0:
                    _attempt(attempt, file)
            codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in started]
            ends = [
                (code, file.read_text(), int(count.read_text() or 0) if count.exists() else 0)
                for code, file in zip(codes, files, strict=True)
                for count in [file.with_suffix(".events")]
            ]
        print(json.dumps(ends), flush=True)


def _attempt(attempt: Attempt, file: Path) -> None:
    """Run the command in this process, which ends here."""
    from carvegbm.cli.app import run

    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    events = 0

    def count(frame: Any, _event: str, _argument: object) -> None:
        nonlocal events
        if frame.f_code.co_filename.endswith(OURS):
            events += 1
            if events == attempt.after:
                os.kill(os.getpid(), attempt.signal)

    code = 99
    try:
        sys.setprofile(count)
        code = run(attempt.arguments)
        sys.setprofile(None)
        file.with_suffix(".events").write_text(str(events))
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


class Runs:
    """The processes and the files they share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "result.json"
        self.partial = folder / "result.json.partial"
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        environment["PYTHONPATH"] = os.path.dirname(__file__)
        self._server = subprocess.Popen(
            [sys.executable, "-c", "import interrupted_runs; interrupted_runs.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.questions = write_questions(folder)
        self.inputs = set(os.listdir(folder))
        self.truth, self.events = {}, {}
        for name, question in self.questions.items():
            (end,) = self.start(Attempt([*question, "--output", str(self.out)]))
            assert (end.code, end.err) == (0, f"wrote {self.out}\n"), end
            self.truth[name], self.events[name] = self.result(), end.events
            self.out.unlink()

    def start(self, *attempts: Attempt) -> list[End]:
        """Run the attempts at the same time."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(attempts) + "\n")
        self._server.stdin.flush()
        return [End(*end) for end in json.loads(self._server.stdout.readline())]

    def result(self) -> dict[str, Any]:
        """What was written, without its times."""
        document: dict[str, Any] = json.loads(self.out.read_text())
        assert len(document.pop("seconds")) == document["instances"]
        return document

    def clear(self) -> None:
        """Remove all that runs leave."""
        for name in set(os.listdir(self.folder)) - self.inputs:
            (self.folder / name).unlink()

    def close(self) -> None:
        self._server.kill()
        self._server.communicate()


# ── the questions: one, and others that differ from it in one thing each ─────────────────────


def write_questions(folder: Path) -> dict[str, list[str]]:
    """Write models and data; the arguments of `verify` by what differs from the first."""
    trees = [
        split(0, 0.5, stump(1, 0.3), stump(2, 0.6)),
        split(1, 0.55, stump(0, 0.45), stump(2, 0.4)),
        stump(2, 0.52, -0.5, 0.75),
    ]
    text = lightgbm_text(ensemble(*trees, n_features=3))
    other = lightgbm_text(ensemble(*trees[:2], stump(2, 0.52, -0.5, 3.0), n_features=3))
    swapped = text.replace("Column_0 Column_1 Column_2", "Column_1 Column_0 Column_2")
    assert text not in (other, swapped)
    rng = random.Random(0)
    rows = [[round(rng.random(), 3) for _ in range(3)] + [i % 2] for i in range(40)]
    moved, relabelled = ([list(row) for row in rows] for _ in range(2))
    moved[-1][0] = round(1 - moved[-1][0], 3)
    relabelled[-1][3] = 1 - relabelled[-1][3]
    for name, content in (("model", text), ("other", other), ("swapped", swapped)):
        (folder / f"{name}.txt").write_text(content)
    for name, table in (("data", rows), ("moved", moved), ("relabelled", relabelled)):
        (folder / f"{name}.csv").write_text(
            "".join(",".join(map(str, row)) + "\n" for row in table)
        )

    def question(model: str = "model", data: str = "data", **options: str) -> list[str]:
        given = {"budget": "0.08", "features": "Column_0,Column_2", "threads": "1", **options}
        pairs = [part for name, value in given.items() for part in (f"--{name}", value)]
        return ["verify", str(folder / f"{model}.txt"), str(folder / f"{data}.csv"), *pairs]

    return {
        "the same": question(),
        "another model": question(model="other"),
        "swapped names": question(model="swapped"),
        "other data": question(data="moved"),
        "other labels": question(data="relabelled"),
        "fewer rows": question(rows="39"),
        "another budget": question(budget="0.09"),
        "another norm": question(norm="0", budget="1"),
        "other features": question(features="Column_0,Column_1"),
        "bounds": question(bounds="0,1"),
        "another engine": question(engine="search"),
        "another time limit": question(timeout="9"),
    }


# ── one case ─────────────────────────────────────────────────────────────────────────────────


def check(runs: Runs, seed: int) -> list[str]:
    """Make one case and check every step of it; what happened."""
    rng = random.Random(seed)
    runs.clear()
    happened = []
    owner: str | None = None  # whose resume file is there; "nobody" if it may be refused to all
    for _ in range(rng.randint(1, 5)):
        what = rng.choice([*HOW, "killed", "two", "damaged", "other"])
        asked = rng.choice(list(runs.questions)) if what == "other" else "the same"
        if what == "damaged":
            how = damage(runs.partial, rng) if owner is not None else None
            if how is not None:
                happened.append(f"damaged: {how}")
                owner = "nobody"
            continue
        may_refuse = owner not in (None, asked)
        if what == "two":
            happened.append(
                _check_two(runs, [_disturbed(runs, rng, asked) for _ in "12"], may_refuse)
            )
        else:
            how = rng.choice(["killed", "whole"]) if what == "other" else what
            attempt = _disturbed(runs, rng, asked, how)
            happened.append(f"{asked}, {how}: {_check_one(runs, asked, attempt, may_refuse)}")
        empty = not runs.partial.exists() or runs.partial.stat().st_size == 0
        owner = None if empty else owner or asked
    return [*happened, f"in the end: {_check_end(runs, owner not in (None, 'the same'))}"]


HOW = {
    "whole": 0,
    "killed": signal.SIGKILL,
    "terminated": signal.SIGTERM,
    "interrupted": signal.SIGINT,
}


def _plain(runs: Runs, asked: str) -> Attempt:
    return Attempt([*runs.questions[asked], "--output", str(runs.out), "--resume"])


def _disturbed(runs: Runs, rng: random.Random, asked: str, how: str | None = None) -> Attempt:
    """An attempt that may be killed or interrupted anywhere between its beginning and its end."""
    how = how or rng.choice([*HOW])
    number = HOW[how]
    return _plain(runs, asked)._replace(
        signal=int(number), after=rng.randint(1, runs.events[asked]) if number else 0
    )


def _check_one(runs: Runs, asked: str, attempt: Attempt, may_refuse: bool) -> str:
    kept = runs.partial.read_bytes() if runs.partial.exists() else b""
    before = runs.result() if runs.out.exists() else None
    (end,) = runs.start(attempt)
    _check_manners(runs, [end])
    if end.code == 0:
        assert runs.result() == runs.truth[asked]
        assert not runs.partial.exists()
        return "done"
    if end.code == 2:
        assert may_refuse, end.err
        assert runs.partial.read_bytes() == kept, "what was refused was changed"
        assert (runs.result() if runs.out.exists() else None) == before
        assert "delete it" in end.err
        return "refused"
    assert attempt.signal, end
    if runs.out.exists():  # it may have been killed after all was written
        assert runs.result() in (before, runs.truth[asked])
    return "cut off"


def _check_two(runs: Runs, attempts: list[Attempt], may_refuse: bool) -> str:
    ends = runs.start(*attempts)
    _check_manners(runs, ends)
    for attempt, end in zip(attempts, ends, strict=True):
        if end.code == 0:
            assert runs.result() == runs.truth["the same"]
        elif end.code == 2:
            assert "another process" in end.err or may_refuse, end
        else:
            assert attempt.signal, end
    undisturbed = [end for end, given in zip(ends, attempts, strict=True) if not given.signal]
    if len(undisturbed) == 2 and not may_refuse:
        assert 0 in [end.code for end in ends], ends
    return f"two at once: {sorted(end.code for end in ends)}"


def _check_manners(runs: Runs, ends: list[End]) -> None:
    """Exit codes, lines, and files that must not be there."""
    for end in ends:
        assert end.code in (0, 2, 130, -signal.SIGKILL, -signal.SIGTERM), end
        assert "Traceback" not in end.err, end.err
        if end.code == 2:
            assert end.err.count("\n") == 1, end.err
            assert end.err.startswith("carvegbm: ")
    left = set(os.listdir(runs.folder)) - runs.inputs - {runs.out.name, runs.partial.name}
    if any(end.code < 0 for end in ends):  # nobody cleans up after that
        for name in left:
            assert name.startswith(f".{runs.out.name}.")
            (runs.folder / name).unlink()
    else:
        assert not left


def _check_end(runs: Runs, may_refuse: bool) -> str:
    """An attempt that nothing disturbs gets the result, if need be without the resume file."""
    (end,) = runs.start(_plain(runs, "the same"))
    text = "done"
    if end.code == 2 and may_refuse:
        assert str(runs.partial) in end.err
        runs.partial.unlink()  # as the line says
        (end,) = runs.start(_plain(runs, "the same"))
        text = "done after the resume file was deleted"
    assert end.code == 0, end
    assert runs.result() == runs.truth["the same"]
    assert set(os.listdir(runs.folder)) - runs.inputs == {runs.out.name}
    return text


def damage(path: Path, rng: random.Random) -> str | None:
    """Change a file as crashes and people do; returns how, or None where nothing came of it."""
    data = path.read_bytes()
    how = rng.choice(["cut off", "a byte", "a line twice", "no line", "rubbish", "swapped lines"])
    lines = data.splitlines(keepends=True)
    i, j = (rng.randrange(len(lines)) for _ in range(2)) if lines else (0, 0)
    if how == "cut off":
        changed = data[: rng.randint(1, max(1, len(data)))]
    elif how == "a byte" and data:
        position = rng.randrange(len(data))
        flipped = data[position] ^ rng.randint(1, 255)
        changed = data[:position] + bytes([flipped]) + data[position + 1 :]
    elif how == "rubbish":
        changed = data + rng.randbytes(rng.randint(1, 50)) + rng.choice([b"", b"\n"])
    elif how == "a line twice":
        changed = b"".join([*lines[: i + 1], *lines[i:]])
    elif how == "no line":
        changed = b"".join([*lines[:i], *lines[i + 1 :]])
    else:
        if lines:
            lines[i], lines[j] = lines[j], lines[i]
        changed = b"".join(lines)
    if changed == data:
        return None
    path.write_bytes(changed)
    return how
