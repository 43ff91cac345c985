"""Files are whole or not there, and a path that cannot be written is refused at once."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest

from carvegbm.storage.files import (
    check_apart,
    check_output,
    finished_or_partial,
    naming,
    replacing,
    save_result,
)
from carvegbm.storage.resume import check_unfinished
from plain_trees import refused


def test_good_path_is_accepted_and_left_alone(tmp_path):
    (tmp_path / "a.json").write_text("earlier")
    assert check_output(str(tmp_path / "a.json")) == tmp_path / "a.json"
    assert (tmp_path / "a.json").read_text() == "earlier"
    assert os.listdir(tmp_path) == ["a.json"]


def test_paths_that_could_not_be_written_in_the_end_are_refused(tmp_path):
    with refused("a.txt", ".json, .csv or .parquet"):
        check_output(tmp_path / "a.txt")
    with refused("a.json", "end the name in .npz"):
        check_output(tmp_path / "a.json", (".npz",))
    with refused("there is no folder", str(tmp_path / "absent")):
        check_output(tmp_path / "absent" / "a.json")
    (tmp_path / "folder.csv").mkdir()
    with refused("folder.csv is a folder"):
        check_output(tmp_path / "folder.csv")
    (tmp_path / "file").write_text("")
    with refused("there is no folder"):
        check_output(tmp_path / "file" / "a.json")


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="needs /dev")
def test_device_is_not_replaced_by_a_file():
    with refused("/dev/null", "not a file"):
        check_output("/dev/null", None)


def test_folder_without_write_permission_is_refused(unwritable):
    with refused("cannot write", str(unwritable / "a.json")):
        check_output(unwritable / "a.json")
    with refused("cannot write", str(unwritable / "a.json")), replacing(unwritable / "a.json"):
        pytest.fail("there is nowhere to write")


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path, error):
    path = tmp_path / "a.json"
    path.write_text("earlier")

    def break_off():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        break_off()
    assert path.read_text() == "earlier"
    assert os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path, exists):
    folder, link = tmp_path / "folder", tmp_path / "a.json"
    folder.mkdir()
    if exists:
        (folder / "b.json").write_text("earlier")
    link.symlink_to(folder / "b.json")
    with replacing(check_output(link)) as temporary:
        temporary.write_text("later")
    assert link.is_symlink()
    assert (folder / "b.json").read_text() == "later"
    assert os.listdir(folder) == ["b.json"]
    link.unlink()
    link.symlink_to(tmp_path / "absent" / "b.json")
    with refused("there is no folder", str(tmp_path / "absent")):
        check_output(link)


@pytest.mark.parametrize(
    "content",
    [b"tree\nversion=v4\n", b'<!doctype html>\n<html lang="en">\n<head>', b'{"report": 1, ', b""],
)
def test_an_unfinished_result_is_removed_once_the_finished_one_is_written(tmp_path, content):
    unfinished = tmp_path / "m.txt.partial"
    unfinished.write_bytes(content)
    check_unfinished(tmp_path / "m.txt")
    with finished_or_partial(tmp_path / "m.txt", finished=True) as path:
        path.write_text("")
        assert unfinished.exists()
    assert not unfinished.exists()


def test_a_file_that_carvegbm_did_not_write_is_neither_removed_nor_replaced(tmp_path):
    precious = tmp_path / "m.txt.partial"
    precious.write_text("precious")
    with finished_or_partial(tmp_path / "m.txt", finished=True) as path:
        path.write_text("")
    assert precious.read_text() == "precious"
    with refused("m.txt.partial is not an unfinished result", "move it"):
        check_unfinished(tmp_path / "m.txt")


def test_file_is_as_readable_as_any_other(tmp_path):
    with replacing(tmp_path / "ours") as temporary:
        temporary.write_text("")
    (tmp_path / "another").write_text("")
    ours, another = (tmp_path / name for name in ("ours", "another"))
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(another.stat().st_mode)


def test_csv_numbers_its_rows_and_keeps_every_digit(tmp_path):
    columns = {"name": np.array(["a,b", 'c"d']), "value": np.array([0.1 + 0.2, 1e-300])}
    save_result(tmp_path / "a.csv", dict, columns)
    assert (tmp_path / "a.csv").read_text().splitlines() == [
        "instance,name,value",
        '0,"a,b",0.30000000000000004',
        '1,"c""d",1e-300',
    ]


# ── files that are read, and errors that name files ──────────────────────────────────────────


def test_output_that_is_read_or_written_twice_is_refused(tmp_path):
    data, other = tmp_path / "data.csv", tmp_path / "other.csv"
    data.write_text("")
    check_apart({"--output": other, "--witnesses": None}, {"DATA": data, "--scale": None})
    with refused("--output", "would overwrite DATA", str(data)):
        check_apart({"--output": data}, {"DATA": data})
    with refused("--output", "would overwrite DATA"):
        check_apart({"--output": str(tmp_path / "x" / ".." / "data.csv")}, {"DATA": data})
    with refused("--witnesses", "would overwrite --output"):
        check_apart({"--output": other, "--witnesses": str(other)}, {"DATA": data})


def test_links_are_followed_also_to_what_is_not_there_yet(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("")
    (tmp_path / "link.csv").symlink_to(data)
    (tmp_path / "folder").symlink_to(tmp_path)
    (tmp_path / "new.npz").symlink_to("new.json")
    os.link(data, tmp_path / "twin.csv")
    for name in ("link.csv", "folder/data.csv", "twin.csv"):
        with refused("would overwrite DATA"):
            check_apart({"--output": tmp_path / name}, {"DATA": data})
        with refused("would overwrite DATA"):
            check_apart({"--output": data}, {"DATA": tmp_path / name})
    with refused("would overwrite --output"):
        check_apart({"--output": tmp_path / "new.json", "--witnesses": tmp_path / "new.npz"}, {})


@pytest.mark.parametrize("named", [None, "temporary"])
def test_error_while_writing_names_the_file_and_not_its_temporary(tmp_path, named):
    path = tmp_path / "a.json"

    def fail():
        with replacing(path) as temporary:
            temporary.write_text("half")
            raise OSError(28, "No space left on device", *([str(temporary)] if named else []))

    with pytest.raises(OSError, match="No space left") as caught:
        fail()
    assert caught.value.filename == str(path)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "error",
    [OSError(2, "No such file", "other"), ConnectionResetError(104, "reset"), TimeoutError()],
    ids=repr,
)
def test_error_about_something_else_keeps_its_name(error):
    before = error.filename
    with pytest.raises(OSError) as caught, naming("a.json"):  # noqa: PT011
        raise error
    assert caught.value.filename == before
