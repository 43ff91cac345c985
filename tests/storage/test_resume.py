"""Resume files: whole blocks survive, one process holds the file, another run is refused."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from carvegbm.storage import resume as module
from carvegbm.storage.resume import ResumeFile, check_unfinished
from plain_trees import refused

IDENTITY = {"model": "a", "data": "b"}
BLOCKS = [b"", b"one", b"x" * 1000, bytes(range(256))]
HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from carvegbm.storage.resume import ResumeFile\n"
    "with ResumeFile.open(Path(sys.argv[1]), {'model': 'a', 'data': 'b'}, resume=True):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.partial"


def write(path, blocks=BLOCKS, resume=False):
    with ResumeFile.open(path, IDENTITY, resume=resume) as file:
        list(file.blocks())
        for block in blocks:
            file.append(block)


def read(path):
    with ResumeFile.open(path, IDENTITY, resume=True) as file:
        return list(file.blocks())


def test_blocks_come_back_in_their_order_and_others_follow_them(path):
    write(path, BLOCKS[:2])
    write(path, BLOCKS[2:], resume=True)
    assert read(path) == BLOCKS


@given(st.data())
def test_whatever_is_cut_off_or_changed_whole_blocks_before_it_survive(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("damaged") / "r"
    write(path)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    change = data.draw(st.sampled_from(["cut", "flip", "zeros"]))
    changed = {
        "cut": whole[:place],
        "flip": whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :],
        "zeros": whole[:place] + bytes(len(whole) - place),
    }[change]
    path.write_bytes(changed)
    first = whole.index(BLOCKS[1]) - 2 * 40  # where the first block begins
    if place < first and change != "cut":
        with refused(str(path), "delete it"):
            read(path)
        assert path.read_bytes() == changed
        return
    found = read(path)
    assert found == BLOCKS[: len(found)]
    ends = [first]
    for block in BLOCKS:
        ends.append(ends[-1] + 40 + len(block))
    assert len(found) >= sum(end <= place for end in ends[1:])
    write(path, BLOCKS[len(found) :], resume=True)
    assert path.read_bytes() == whole


def test_an_interrupted_run_is_not_overwritten(path):
    write(path)
    before = path.read_bytes()
    with refused(str(path), "interrupted run", "--resume"):
        write(path)
    assert path.read_bytes() == before


def test_another_run_is_refused_by_what_differs_and_left_alone(path):
    write(path)
    before = path.read_bytes()
    other = {"model": "a", "data": "c", "rows": 3}
    with (
        refused("another run", "(other data, rows)", "delete it"),
        ResumeFile.open(path, other, resume=True),
    ):
        pytest.fail("opened")
    assert path.read_bytes() == before
    path.write_text("precious")
    with refused("not a resume file"):
        read(path)
    assert path.read_text() == "precious"


def test_remove_leaves_a_file_that_took_the_name(tmp_path, path):
    with ResumeFile.open(path, IDENTITY, resume=False) as file:
        file.remove()
        assert os.listdir(tmp_path) == []
        path.write_text("another's")
        file.remove()
    assert path.read_text() == "another's"


# ── one process at a time ────────────────────────────────────────────────────────────────────


def test_a_file_in_use_is_refused_until_its_process_is_killed(path):
    write(path)
    before = path.read_bytes()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with refused(str(path), "in use by another process"):
            read(path)
        assert path.read_bytes() == before
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()
    assert read(path) == BLOCKS


@pytest.mark.parametrize("successor", [False, True])
def test_a_file_removed_between_opening_and_locking_is_not_held(path, monkeypatch, successor):
    """Holding the removed one would let two processes write."""
    lock, others = fcntl.flock, []

    def late(descriptor, operation):
        monkeypatch.setattr(fcntl, "flock", lock)
        path.unlink()
        if successor:
            others.append(module._locked(path))
            others[0].__enter__()
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    if successor:
        with refused("in use"):
            write(path)
        others[0].__exit__(None, None, None)
    else:
        write(path)
        assert read(path) == BLOCKS


def test_a_file_system_without_locks_is_refused(tmp_path, path, monkeypatch):
    def unable(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unable)
    with refused(str(path), "cannot be locked"):
        write(path)
    assert os.listdir(tmp_path) == []


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused("pipe is not a file", "delete it"):
        write(tmp_path / "pipe")


# ── a full disk ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("room", [0, 1, 100])
def test_a_block_that_does_not_fit_leaves_the_blocks_before_it(path, room):
    """`ulimit -f` in a process of its own: it is a limit on the file's size, in bytes here."""
    write(path, BLOCKS[:2])
    before = path.read_bytes()
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from carvegbm.storage.resume import ResumeFile\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "path, limit = Path(sys.argv[1]), int(sys.argv[2])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "with ResumeFile.open(path, {'model': 'a', 'data': 'b'}, resume=True) as file:\n"
        "    list(file.blocks())\n"
        "    try:\n"
        "        file.append(bytes(1000))\n"
        "    except OSError as error:\n"
        "        print(error.errno, error.filename)\n"
    )
    arguments = [sys.executable, "-c", program, str(path), str(len(before) + room)]
    said = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    assert said == f"{errno.EFBIG} {path}\n"
    assert path.read_bytes() == before
    assert read(path) == BLOCKS[:2]


def test_a_file_that_cannot_even_begin_is_not_left(tmp_path, path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ResumeFile, "_cut", full)
    with pytest.raises(OSError, match="No space left") as caught:
        write(path)
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []


def test_an_unfinished_result_does_not_replace_a_resume_file(tmp_path):
    output = tmp_path / "m.txt"
    write(Path(f"{output}.partial"), BLOCKS)
    with refused("m.txt.partial holds an interrupted run", "delete it"):
        check_unfinished(output)
