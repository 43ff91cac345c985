"""Locks: one process at a time, and none is kept out by a process that is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from carvegbm.keeping import locks
from carvegbm.keeping.locks import is_still_at, open_locked
from plain_trees import refused

HOLD = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from carvegbm.keeping.locks import open_locked\n"
    "file = open_locked(Path(sys.argv[1]))\n"
    "print('none' if file is None else 'held', flush=True)\n"
    "sys.stdin.read()\n"
)


@pytest.fixture
def holder(tmp_path):
    """A process that has the file until it is killed; what it says is in `said`."""
    processes = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path / "file")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        processes.append(process)
        process.said = process.stdout.readline().decode().strip()
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_file_of_another_process_is_not_given_and_not_touched(tmp_path, holder):
    assert holder().said == "held"
    (tmp_path / "file").write_text("theirs")
    assert open_locked(tmp_path / "file") is None
    assert holder().said == "none"
    assert (tmp_path / "file").read_text() == "theirs"


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_file_of_a_killed_process_is_free(tmp_path, holder):
    process = holder()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with open_locked(tmp_path / "file") as file:
        assert is_still_at(file, tmp_path / "file")
        assert holder().said == "none"


def test_file_that_is_closed_is_free_and_keeps_its_content(tmp_path):
    with open_locked(tmp_path / "file") as file:
        file.write(b"content")
        assert open_locked(tmp_path / "file") is None
    with open_locked(tmp_path / "file") as file:
        assert file.read() == b"content"


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open files")
@pytest.mark.parametrize("successor", [False, True])
def test_file_that_lost_its_name_while_it_was_opened_is_not_given(tmp_path, monkeypatch, successor):
    """Its holder removed it between our opening and our locking; another may have made a new one.

    To hold the old one would let two in.
    """
    path, lock, others = tmp_path / "file", locks._lock, []

    def late(descriptor, name):
        monkeypatch.setattr(locks, "_lock", lock)
        path.unlink()
        if successor:
            others.append(open_locked(path))
        return lock(descriptor, name)

    monkeypatch.setattr(locks, "_lock", late)
    file = open_locked(path)
    if successor:
        assert file is None
        others[0].close()
    else:
        assert is_still_at(file, path)
        file.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open files")
def test_file_knows_when_its_name_is_gone_or_given_to_another(tmp_path):
    with open_locked(tmp_path / "file") as file:
        (tmp_path / "file").unlink()
        assert not is_still_at(file, tmp_path / "file")
        (tmp_path / "file").write_text("")
        assert not is_still_at(file, tmp_path / "file")


@pytest.mark.skipif(os.name == "nt", reason="needs fcntl")
def test_file_system_without_locks_is_said(tmp_path, monkeypatch):
    import fcntl

    def unable(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", unable)
    with refused(str(tmp_path / "file"), "cannot be locked", "another"):
        open_locked(tmp_path / "file")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with refused("pipe is not a file", "delete it"):
        open_locked(tmp_path / "pipe")
    (tmp_path / "device").symlink_to(os.devnull)
    with refused("device is not a file", "delete it"):
        open_locked(tmp_path / "device")
