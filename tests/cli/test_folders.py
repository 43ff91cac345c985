"""Files that do not fit into memory: a run over many, into a folder, that can be resumed."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from carvegbm.scale import files
from carvegbm.scale.files import Part

BUDGET = ("--budget", "0.02")
COMMANDS = {
    "verify": ("verify", "sample", *BUDGET),
    "attack": ("attack", "sample", *BUDGET),
    "radius": ("radius", "sample", "--max-budget", "0.05"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sample in four files, uneven and of two formats; the working directory."""
    frame = pd.read_csv(data)
    cuts = [0, 40, 41, 100, 120]
    for i, (start, end) in enumerate(itertools.pairwise(cuts)):
        part = frame[start:end]
        if i == 3:
            part.to_parquet(tmp_path / f"part-{i}.parquet", row_group_size=7)
        else:
            part.to_csv(tmp_path / f"part-{i}.csv", index=False)
    frame[:120].to_csv(tmp_path / "whole.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answers(folder: Path) -> pd.DataFrame:
    """All files of a folder, as anybody reads it."""
    return pd.read_parquet(folder).drop(columns=["seconds"], errors="ignore")


def parts_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("_"))


@pytest.fixture
def stopping(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the run end with an error at its n-th file; returns the files that were begun."""
    answer, begun = files.answer_file, []

    def stop(at: int, error: BaseException | None) -> list[str]:
        begun.clear()

        def counted(question: Any, matching: Any, part: Part, **more: Any) -> Any:
            begun.append(part.path)
            if error is not None and len(begun) == at:
                raise error
            return answer(question, matching, part, **more)

        monkeypatch.setattr(files, "answer_file", counted)
        return begun

    return stop


# ── answers ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", COMMANDS)
def test_answers_are_those_of_the_whole_file(cli: Any, folder: Path, command: str) -> None:
    code, out, err = cli(*COMMANDS[command], "part-*", "--output", "answers/")
    assert code == 0, err
    assert err == "wrote answers\n"
    assert parts_of(folder / "answers") == [f"part-{i}.parquet" for i in range(4)]
    assert cli(*COMMANDS[command], "whole.csv", "--output", "whole.parquet")[0] == 0
    expected = pd.read_parquet("whole.parquet").drop(columns=["seconds"], errors="ignore")
    found = answers(folder / "answers")
    assert list(found)[: len(expected.columns)] == list(expected)
    pd.testing.assert_frame_equal(found[list(expected)], expected)
    assert out.startswith("40 trees, 120 instances in 4 files, norm inf")


@pytest.mark.parametrize("command", COMMANDS)
def test_the_table_is_that_of_the_whole_file(cli: Any, command: str) -> None:
    _, of_parts, _ = cli(*COMMANDS[command], "part-0.csv", "part-1.csv", "part-2.csv")
    pd.concat([pd.read_csv(f"part-{i}.csv") for i in range(3)]).to_csv("three.csv", index=False)
    _, of_whole, _ = cli(*COMMANDS[command], "three.csv")
    found, whole = (
        [line.split() for line in text.splitlines()[1:]] for text in (of_parts, of_whole)
    )
    # What needs all rows at once has no place in totals.
    rest = [line for line in whole if "median" not in line and "--max-budget" not in line]
    assert [line for line in found if "--max-budget" not in line] == rest


def test_witnesses_are_columns(cli: Any) -> None:
    assert cli(*COMMANDS["attack"], "part-*.csv", "-o", "answers/")[0] == 0
    assert cli(*COMMANDS["attack"], "part-0.csv", "-o", "one.npz")[0] == 0
    found, one = pd.read_parquet("answers/part-0.parquet"), np.load("one.npz")
    names = [name for name in found if name.startswith("witness ")]
    np.testing.assert_array_equal(found[names].to_numpy(), one["X"])
    assert found["success"].any()


def test_csv_is_that_of_one_file(cli: Any) -> None:
    run = ("radius", "sample", "part-0.csv", "part-3.parquet", "--output", "answers/")
    assert cli(*run, "--format", "csv")[0] == 0
    assert cli("radius", "sample", "part-3.parquet", "--output", "one.csv")[0] == 0
    assert Path("answers/part-3.csv").read_text() == Path("one.csv").read_text()


@pytest.mark.parametrize(
    "given", [["part-*"], ["."], ["part-0.csv", "part-[123].*"], ["**/part-*"]]
)
def test_ways_to_name_the_files(cli: Any, given: list[str]) -> None:
    Path("whole.csv").unlink()
    Path("_SUCCESS").touch()
    Path(".hidden").touch()
    code, out, err = cli(*COMMANDS["verify"], *given, "--json")
    assert code == 0, err
    document = json.loads(out)
    assert [Path(name).stem for name in document["data"]] == [f"part-{i}" for i in range(4)]
    assert document["instances"] == 120
    assert document["output"] == []
    assert "status" not in document


def test_one_file_into_a_folder(cli: Any, folder: Path) -> None:
    Path("there").mkdir()
    assert cli(*COMMANDS["verify"], "whole.csv", "--output", "there")[0] == 0
    assert parts_of(folder / "there") == ["whole.parquet"]
    assert cli(*COMMANDS["verify"], "--output", "of_sample/")[0] == 0
    assert parts_of(folder / "of_sample") == ["sample_data.parquet"]


def test_labels_beside_arrays_are_no_files_of_instances(cli: Any) -> None:
    frame = pd.read_csv("whole.csv")
    for i in range(2):
        some = frame[i * 10 : i * 10 + 10]
        Path("arrays").mkdir(exist_ok=True)
        np.save(f"arrays/X_{i}.npy", some.iloc[:, :-1].to_numpy())
        np.save(f"arrays/y_{i}.npy", some.iloc[:, -1].to_numpy())
    code, out, err = cli(*COMMANDS["verify"], "arrays", "--json")
    assert code == 0, err
    assert json.loads(out)["data"] == ["arrays/X_0.npy", "arrays/X_1.npy"]


def test_the_first_rows_of_all_files(cli: Any, folder: Path) -> None:
    arguments = (*COMMANDS["verify"], "--rows", "43")
    assert cli(*arguments, "part-*", "--output", "answers/")[0] == 0
    assert parts_of(folder / "answers") == [f"part-{i}.parquet" for i in range(3)]
    assert cli(*arguments, "whole.csv", "--output", "whole.parquet")[0] == 0
    expected = pd.read_parquet("whole.parquet").drop(columns="seconds")
    pd.testing.assert_frame_equal(answers(folder / "answers"), expected)


def test_an_empty_file_among_others(cli: Any, refuses: Any) -> None:
    pd.read_csv("part-0.csv")[:0].to_csv("part-9.csv", index=False)
    code, out, err = cli(*COMMANDS["verify"], "part-[09].csv", "--output", "answers/", "--json")
    assert code == 0, err
    assert json.loads(out)["instances"] == 40
    assert len(pd.read_parquet("answers/part-9.parquet")) == 0
    refuses(*COMMANDS["verify"], "part-9.csv", "-o", "none/", words=["there are no rows"])


# ── resuming ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("command", COMMANDS)
def test_an_interrupted_run_goes_on(cli: Any, folder: Path, command: str, stopping: Any) -> None:
    arguments = (*COMMANDS[command], "part-*", "--output", "answers/")
    stopping(3, KeyboardInterrupt())
    code, _, err = cli(*arguments)
    assert code == 130
    assert "2 of 4 files are kept; add --resume to continue" in err
    assert parts_of(folder / "answers") == ["part-0.parquet", "part-1.parquet"]
    begun = stopping(0, None)
    code, resumed, err = cli(*arguments, "--resume", "--json")
    assert code == 0, err
    assert begun == ["part-2.csv", "part-3.parquet"]
    assert "resuming after 2 of 4 files" in err
    begun = stopping(0, None)
    _, again, _ = cli(*arguments, "--resume", "--json")
    assert begun == []
    assert cli(*COMMANDS[command], "part-*", "--output", "fresh/")[0] == 0
    pd.testing.assert_frame_equal(answers(folder / "answers"), answers(folder / "fresh"))
    assert json.loads(again) == json.loads(resumed)
    _, fresh, _ = cli(*COMMANDS[command], "part-*", "--json")
    assert {**json.loads(fresh), "output": None} == {**json.loads(resumed), "output": None}


def test_an_error_keeps_what_is_finished(cli: Any) -> None:
    text = Path("part-2.csv").read_text().splitlines()
    Path("part-2.csv").write_text("\n".join([*text[:20], text[20][:-1] + "7", *text[21:]]))
    code, _, err = cli(*COMMANDS["verify"], "part-*", "--output", "answers/")
    assert code == 2
    assert err.startswith("carvegbm: part-2.csv row 19: unknown label 7; the model's classes")
    assert err.endswith("2 of 4 files are kept; add --resume to continue\n")
    Path("part-2.csv").write_text("\n".join(text))
    code, _, err = cli(*COMMANDS["verify"], "part-*", "--output", "answers/", "--resume")
    assert code == 0
    assert err == "resuming after 2 of 4 files\nwrote answers\n"


def test_an_interrupt_before_anything_is_finished_leaves_nothing(cli: Any, stopping: Any) -> None:
    stopping(1, KeyboardInterrupt())
    code, _, err = cli(*COMMANDS["verify"], "part-*", "--output", "answers/")
    assert (code, err) == (130, "carvegbm: interrupted\n")
    assert not Path("answers").exists()


def test_what_has_changed_is_answered_again(cli: Any, folder: Path, stopping: Any) -> None:
    arguments = (*COMMANDS["verify"], "part-*", "--output", "answers/")
    assert cli(*arguments)[0] == 0
    Path("answers/part-0.parquet").unlink()
    Path("answers/part-3.parquet").write_bytes(b"other")
    with open("part-1.csv", "a") as file:
        file.write(Path("part-0.csv").read_text().splitlines()[1] + "\n")
    Path("answers/.part-0.parquet.left").write_text("of a process that was killed")
    begun = stopping(0, None)
    code, out, err = cli(*arguments, "--resume", "--json")
    assert code == 0, err
    assert begun == ["part-0.csv", "part-1.csv", "part-3.parquet"]
    assert json.loads(out)["instances"] == 121 == len(answers(folder / "answers"))
    assert sorted(os.listdir("answers")) == [
        "_carvegbm.resume",
        *(f"part-{i}.parquet" for i in range(4)),
    ]


def test_no_answers_stay_about_what_a_file_was(cli: Any, folder: Path) -> None:
    run = (*COMMANDS["verify"], "part-*", "--output", "answers/")
    assert cli(*run)[0] == 0
    text = Path("part-1.csv").read_text()
    Path("part-1.csv").write_text(text.rstrip()[:-1] + "77\n")
    code, _, err = cli(*run, "--resume")
    assert code == 2
    assert "unknown label 77" in err
    assert err.endswith("3 of 4 files are kept; add --resume to continue\n")
    assert parts_of(folder / "answers") == [f"part-{i}.parquet" for i in (0, 2, 3)]
    Path("part-1.csv").unlink()
    assert cli(*run, "--resume")[0] == 0  # there are no answers about it
    Path("part-1.csv").write_text(text)
    assert cli(*run, "--resume")[0] == 0
    assert len(answers(folder / "answers")) == 120


def test_nothing_stays_if_all_that_was_finished_has_changed(cli: Any) -> None:
    run = (*COMMANDS["verify"], "part-0.csv", "--output", "answers/")
    assert cli(*run)[0] == 0
    text = Path("part-0.csv").read_text()
    Path("part-0.csv").write_text(text.rstrip()[:-1] + "77\n")
    assert cli(*run, "--resume")[0] == 2
    assert os.listdir("answers") == []
    Path("part-0.csv").write_text(text)
    assert cli(*run)[0] == 0


def test_a_resume_file_that_cannot_be_written_leaves_no_folder(
    refuses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from carvegbm.storage.resume import ResumeFile

    def full(self: ResumeFile, _data: Any) -> None:
        raise OSError(28, "No space left on device", str(self.path))

    monkeypatch.setattr(ResumeFile, "_write", full)
    run = (*COMMANDS["verify"], "part-*", "--output")
    refuses(*run, "answers/", words=["No space left on device"])
    assert not Path("answers").exists()
    Path("mine").mkdir()
    refuses(*run, "mine", words=["No space left on device"])
    assert os.listdir("mine") == []


def test_more_files_may_come(cli: Any, stopping: Any) -> None:
    assert cli(*COMMANDS["verify"], "part-[01].csv", "--output", "answers/")[0] == 0
    begun = stopping(0, None)
    assert cli(*COMMANDS["verify"], "part-*", "--output", "answers/", "--resume")[0] == 0
    assert begun == ["part-2.csv", "part-3.parquet"]


def test_nothing_to_resume(cli: Any) -> None:
    code, _, err = cli(*COMMANDS["verify"], "part-*", "--output", "answers/", "--resume")
    assert code == 0
    assert "there is nothing to resume; beginning with the first file" in err


# ── what is refused ──────────────────────────────────────────────────────────────────────────


def test_folders_of_other_runs(refuses: Any, cli: Any) -> None:
    run = (*COMMANDS["verify"], "part-*", "--output", "answers/")
    assert cli(*run)[0] == 0
    before = {path: path.read_bytes() for path in Path("answers").glob("part-*")}
    refuses(*run, words=["answers is not empty; add --resume"])
    for other, what in (
        (("--budget", "0.03"), "attacker"),
        (("--timeout", "3"), "settings"),
        (("--label", "-1"), "options of reading"),
        (("--format", "csv"), "--format"),
    ):
        refuses(*run, *other, "--resume", words=["belongs to another run", what])
    refuses("radius", *run[1:2], *run[4:], "--resume", words=["belongs to another run", "command"])
    other = (*run[:4], "part-0.csv", "--output", "answers/", "--resume")
    refuses(*other, words=["files that are not among DATA: part-1.parquet, …"])
    assert {path: path.read_bytes() for path in Path("answers").glob("part-*")} == before
    Path("mine").mkdir()
    Path("mine/notes.txt").touch()
    for more in ([], ["--resume"]):
        refuses(*run[:5], "--output", "mine", *more, words=["mine is not empty"])


def test_files_whose_records_are_damaged_are_answered_again(cli: Any, stopping: Any) -> None:
    run = (*COMMANDS["verify"], "part-*", "--output", "answers/", "--json")
    _, before, _ = cli(*run)
    records = Path("answers/_carvegbm.resume")
    content = records.read_bytes()
    place = content.rindex(b'"robust": ') + 10
    records.write_bytes(content[:place] + b"9" + content[place + 1 :])
    begun = stopping(0, None)
    _, after, _ = cli(*run, "--resume")
    assert begun == ["part-3.parquet"]
    assert json.loads(after) == json.loads(before)


def test_a_folder_in_use(refuses: Any, cli: Any) -> None:
    import fcntl

    run = (*COMMANDS["verify"], "part-*", "--output", "answers/")
    assert cli(*run)[0] == 0
    with open("answers/_carvegbm.resume", "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        refuses(*run, "--resume", words=["is in use by another process"])


def test_names_that_clash(refuses: Any) -> None:
    Path("other").mkdir()
    shutil.copy("part-0.csv", "other/part-0.csv")
    run = COMMANDS["verify"]
    words = ["part-0.csv and other/part-0.csv would both be written to answers/part-0.parquet"]
    refuses(*run, "part-0.csv", "other/part-0.csv", "--output", "answers/", words=words)
    refuses(*run, "part-0.csv", "part-*", words=["part-0.csv is given twice"])
    assert not Path("answers").exists()


@pytest.mark.parametrize("name", ["_a.csv", ".a.csv", "_a.csv.gz", ".a.parquet.b.csv"])
def test_names_that_readers_of_folders_leave_out(cli: Any, refuses: Any, name: str) -> None:
    Path("some").mkdir()
    pd.read_csv("part-0.csv").to_csv(f"some/{name}", index=False)
    shutil.copy("part-1.csv", "some")
    run = COMMANDS["verify"]
    begins = f"names that begin with {name[0]}; rename it"
    refuses(*run, f"some/{name}", "-o", "answers/", words=[f"some/{name}: its answers", begins])
    if name.startswith("_"):
        refuses(*run, "some/*", "-o", "answers/", words=[f"some/{name}: its answers", begins])
    assert not Path("answers").exists()
    assert cli(*run, f"some/{name}", "part-1.csv")[0] == 0  # totals leave nothing out
    assert cli(*run, "some", "-o", "answers/")[0] == 0
    assert parts_of(Path("answers")) == ["part-1.parquet"]


def test_answers_are_no_data(cli: Any, refuses: Any) -> None:
    assert cli(*COMMANDS["verify"], "part-*", "--output", "answers/")[0] == 0
    before = {path: path.read_bytes() for path in Path("answers").glob("part-*")}
    words = ["answers/part-0.parquet is among DATA, and would be overwritten"]
    refuses(*COMMANDS["verify"], "answers", "--output", "answers", "--resume", words=words)
    assert {path: path.read_bytes() for path in Path("answers").glob("part-*")} == before


def test_options_that_do_not_fit(refuses: Any) -> None:
    many = (*COMMANDS["verify"], "part-*")
    refuses(*many, "--output", "one.csv", words=["--output one.csv is one file", "one.csv/"])
    refuses(*many, "--witnesses", "w.npz", words=["--witnesses", "DATA"])
    refuses(*many, "--proof", "p", words=["--proof", "DATA"])
    refuses(*many, "--resume", words=["--resume", "give --output"])
    refuses(*many, "--format", "csv", words=["--format"])
    refuses(*many, "--no-label", words=["--no-label", "single DATA file"])
    refuses(*many, "--absent", "zero", words=["part-0.csv", "--absent"])
    refuses(*COMMANDS["radius"], "whole.csv", "--resume", words=["--resume", "FOLDER/"])
    refuses(*COMMANDS["verify"], "whole.csv", "--format", "csv", words=["--format", "FOLDER/"])
    refuses(*COMMANDS["verify"], "no-*", words=["no-*: no file has such a name"])
    refuses("verify", "model.txt", *BUDGET, "-o", "answers/", words=["DATA is missing"])
    assert not Path("answers").exists()


def test_parquet_without_pyarrow(refuses: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    words = ["pip install 'carvegbm[parquet]', or give --format csv"]
    refuses(*COMMANDS["verify"], "part-*.csv", "--output", "answers/", words=words)
