"""What commands write: never over what they read, and named where it cannot be written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from carvegbm import Ensemble
from carvegbm.cli.app import run
from carvegbm.data.files import load_table
from carvegbm.storage.resume import ResumeFile

SAMPLE = ["verify", "sample", "--norm", "inf", "--budget", "0.02", "--threads", "1"]


@pytest.fixture
def model(sample_folder: Path) -> str:
    return str(sample_folder / "sample_model.txt")


@pytest.fixture
def data(sample_folder: Path) -> str:
    return str(sample_folder / "sample_data.csv")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["info", "sample"], [*SAMPLE, "--json"]], ids=str)
def test_standard_output_that_is_full_is_named(arguments: list[str]) -> None:
    program = f"import sys; from carvegbm.cli.app import run; sys.exit(run({arguments!r}))"
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ended.returncode == 2
    assert ended.stderr == b"carvegbm: standard output: No space left on device\n"


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc")
def test_input_that_fails_while_it_is_read_is_named(refuses: Any, model: str, data: str) -> None:
    broken = "/proc/self/mem"  # opens, and cannot be read
    for arguments in (
        ["verify", model, broken, "--budget", "1"],
        ["verify", broken, data, "--budget", "1"],
        [*SAMPLE, "--scale", broken],
        [*SAMPLE, "--bounds", broken],
        ["train", broken, "--budget", "1"],
        ["tune", broken, "--budget", "1"],
    ):
        refuses(*arguments, words=[broken, "Input/output error"])


def test_names_from_files_do_not_steer_a_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steering = "\x1b]0;owned\x07\x9b2J"
    stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1.0}, "right": {"score": 1.0}}
    Ensemble.from_trees([stump], n_features=1, classes=["no", steering]).save(
        tmp_path / "model.json"
    )
    for more in ([], ["--json"]):
        assert run(["info", str(tmp_path / "model.json"), *more]) == 0
        shown = capsys.readouterr().out
        assert r"\u001b]0;owned\u0007\u009b2J" in shown
        assert not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert json.loads(shown)["classes"] == ["no", steering]
    assert run(["info", str(tmp_path / steering)]) == 2
    assert r"\u001b]0;owned\u0007\u009b2J: no such file" in capsys.readouterr().err


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.exists()}


@pytest.fixture
def own_files(model: str, data: str, tmp_path: Path) -> Path:
    """A folder with a model and data, some of them under several names."""
    shutil.copy(model, tmp_path / "model.json")
    shutil.copy(data, tmp_path / "data.csv")
    shutil.copy(data, tmp_path / "result.json.partial")
    table = load_table(data)
    np.savez(tmp_path / "data.npz", X=table.X, y=table.y)
    np.save(tmp_path / "X.npy", table.X)
    np.save(tmp_path / "y.npy", table.y)
    (tmp_path / "scale.csv").write_text("1\n" * 30)
    (tmp_path / "link.csv").symlink_to("data.csv")
    (tmp_path / "link.npz").symlink_to("new.json")
    os.link(tmp_path / "data.csv", tmp_path / "same.csv")
    return tmp_path


OVERWRITING = {
    "verify model.json data.csv -o data.csv": ["--output", "DATA", "data.csv"],
    "verify model.json data.csv -o ./data.csv": ["--output", "DATA"],
    "verify model.json data.csv -o link.csv": ["--output link.csv", "DATA data.csv"],
    "verify model.json link.csv -o data.csv": ["--output data.csv", "DATA link.csv"],
    "verify model.json data.csv -o same.csv": ["--output same.csv", "DATA data.csv"],
    "verify model.json data.csv -o model.json": ["--output", "MODEL model.json"],
    "verify model.json data.csv -o model.json --resume": ["--output", "MODEL model.json"],
    "verify model.json result.json.partial -o result.json": ["resume file of --output", "DATA"],
    "verify model.json data.npz --witnesses data.npz": ["--witnesses", "DATA data.npz"],
    "verify model.json data.csv -o new.json --witnesses link.npz": ["--witnesses", "--output"],
    "verify model.json data.csv -o scale.csv --scale scale.csv": ["--output", "--scale"],
    "attack model.json data.npz -o data.npz": ["--output", "DATA"],
    "radius model.json data.csv -o data.csv": ["--output", "DATA"],
    "radius model.json data.csv -o model.json": ["--output", "MODEL"],
    "train data.csv -o data.csv": ["--output", "DATA"],
    "train data.csv --valid same.csv -o link.csv": ["--output", "DATA"],
    "train data.npz --valid data.csv -o data.csv": ["--output", "--valid data.csv"],
    "train X.npy -o y.npy": ["--output", "the labels of DATA y.npy"],
    "train X.npy,y.npy -o y.npy": ["--output", "the labels of DATA y.npy"],
    "train data.csv --scale scale.csv -o scale.csv": ["--output", "--scale"],
    "tune data.csv -o data.csv": ["--output", "DATA"],
    "tune data.npz --valid data.csv -o data.csv": ["--output", "--valid"],
}


@pytest.mark.skipif(os.name == "nt", reason="needs links")
@pytest.mark.parametrize("command", OVERWRITING)
def test_output_that_is_an_input_is_refused_before_the_work_begins(
    refuses: Any, own_files: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(own_files)
    monkeypatch.setattr("carvegbm.data.files._read", lambda *_: pytest.fail("the work has begun"))
    before = files_in(own_files)
    budget = [] if command.startswith("radius") else ["--budget", "0.02"]
    refuses(*command.split(), *budget, words=["would overwrite", *OVERWRITING[command]])
    assert files_in(own_files) == before


def test_numbers_and_the_word_sample_are_no_files(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(data, "data.csv")
    options = ["--budget", "0.02", "--trees", "1", "--threads", "1", "-q"]
    assert cli("train", "data.csv", *options, "--scale", "1", "-o", "1")[0] == 0
    shutil.copy(data, "sample")
    code, _, err = cli("train", "sample", *options, "-o", "sample")
    assert (code, "would overwrite DATA sample" in err) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        "train data.csv --budget 0.02 --trees 1 -q -o out.json",
        "report sample --budget 0.02 -o out.json",
    ],
)
def test_the_resume_file_of_an_interrupted_run_is_not_overwritten_by_another_command(
    refuses: Any, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(data, "data.csv")
    with ResumeFile.open(Path("out.json.partial"), {"rows": 3}, resume=False):
        pass
    before = files_in(tmp_path)
    refuses(*command.split(), words=["out.json.partial holds an interrupted run", "delete it"])
    assert files_in(tmp_path) == before


def test_results_folder_is_not_that_of_the_data(refuses: Any, tmp_path: Path) -> None:
    words = ["--output", "would overwrite --data", str(tmp_path)]
    refuses("reproduce", "--quick", "--data", tmp_path, "--output", tmp_path, words=words)
    assert os.listdir(tmp_path) == []


WRITING = {
    "verify": ["verify", "sample", "--budget", "0.02", "-o", "out.json"],
    "witnesses": ["verify", "sample", "--budget", "0.02", "--witnesses", "out.npz"],
    "proof": ["verify", "sample", "--budget", "0.02", "--proof", "out.proof"],
    "attack": ["attack", "sample", "--budget", "0.02", "-o", "out.npz"],
    "radius": ["radius", "sample", "--norm", "inf", "-o", "out.json"],
    "report": ["report", "sample", "--budget", "0.02", "-o", "out.html"],
    "convert": ["convert", "sample", "out.json"],
    "train": ["train", "data.csv", "--budget", "0.02", "--trees", "2", "-q", "-o", "out.txt"],
    "tune": [
        *["tune", "data.csv", "--budget", "0.02", "--trees", "2", "--leaves", "3", "-q"],
        *["-o", "out.txt"],
    ],
}


@pytest.mark.parametrize("interrupted", [True, False])
@pytest.mark.parametrize("command", WRITING)
def test_command_that_is_cut_off_while_it_writes_leaves_what_was_there(
    cli: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    data: str,
    command: str,
    interrupted: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(data, "data.csv")
    out = Path(WRITING[command][-1])
    out.write_text("earlier")
    threads = [] if command == "convert" else ["--threads", "1"]
    replace = Path.replace

    def cut_off(path: Path, target: Any) -> Any:
        if Path(target).name == out.name:
            raise KeyboardInterrupt if interrupted else OSError(28, "No space left on device")
        return replace(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", cut_off)
        code, printed, err = cli(*WRITING[command], *threads)
    assert (code, printed) == (130 if interrupted else 2, "")
    assert interrupted or f"carvegbm: {out}: No space left on device" in err
    assert out.read_text() == "earlier"
    kept = {"out.json.partial"} if command == "verify" else set()
    assert set(os.listdir()) == {"data.csv", out.name} | kept
    again = [*WRITING[command], *threads, *(["--resume"] if command == "verify" else [])]
    assert cli(*again)[0] == 0
    assert out.read_bytes() != b"earlier"
    assert set(os.listdir()) == {"data.csv", out.name} | kept - {"out.json.partial"}


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_picture_appears_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    from carvegbm.cli.demo import draw

    figure = pytest.importorskip("matplotlib.figure")
    image = np.zeros(64)

    def fail(_: Any, path: Path, **__: Any) -> None:
        path.write_bytes(b"half")
        raise error

    path = tmp_path / "picture.png"
    path.write_text("earlier")
    with monkeypatch.context() as patched:
        patched.setattr(figure.Figure, "savefig", fail)
        with pytest.raises((KeyboardInterrupt, OSError)) as caught:
            draw(path, image, image + 1, 3, 8)
    assert getattr(caught.value, "filename", str(path)) == str(path)
    assert os.listdir(tmp_path) == ["picture.png"]
    assert path.read_text() == "earlier"
    assert draw(path, image, image + 1, 3, 8) == path
    assert path.read_bytes().startswith(b"\x89PNG")
