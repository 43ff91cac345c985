"""The command reproduce, as a user types it."""

from __future__ import annotations

import json
import re

import pytest

from carvegbm import DataError
from carvegbm_experiments import datasets
from carvegbm_experiments.compute import kinds
from carvegbm_experiments.plan.cell import KINDS
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import PAPER, QUICK
from carvegbm_experiments.report import page


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CARVEGBM_DATA", raising=False)


@pytest.fixture(name="without_drawing")
def do_not_draw(monkeypatch):
    monkeypatch.setattr(page, "html", lambda _: "")


def test_quick_trains_verifies_and_draws_without_network(cli, tmp_path, monkeypatch):
    import socket

    def offline(*_, **__):
        raise AssertionError("the quick run went to the network")

    monkeypatch.setattr(socket, "create_connection", offline)
    code, out, err = cli("reproduce", "--quick", "--threads", 1)
    assert code == 0, err
    assert out == ""
    count = len(plan(QUICK))
    assert err.splitlines()[0].startswith(f"0 of {count} cells are there; about ")
    assert f"[{count}/{count}] " in err
    folder = tmp_path / "results-quick"
    cells = [json.loads(path.read_text()) for path in folder.glob("cells/*/*.json")]
    assert len(cells) == count
    assert {cell["kind"] for cell in cells} == set(KINDS)
    html = (folder / "index.html").read_text()
    assert "<svg" in html
    assert "<table" in html
    assert "Digits 3 vs 8" in (folder / "results.md").read_text()

    code, out, err = cli("reproduce", "--quick", "--threads", 1)
    assert code == 0
    assert err.splitlines()[0] == f"{count} of {count} cells are there"
    assert len(err.splitlines()) == 2


def test_list_shows_the_plan_and_does_nothing(cli, tmp_path):
    code, out, _ = cli("reproduce", "--list")
    assert code == 0
    first, *lines = out.splitlines()
    assert re.fullmatch(
        rf"0 of {len(plan(PAPER))} cells are there; about \d+ h \d+ min left", first
    )
    assert len(lines) == len(plan(PAPER))
    assert re.match(r"  to do +dataset fmnist +about 2\.0 s", lines[0])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_drawing")
def test_list_tells_what_is_there(cli):
    chosen = ("reproduce", "--quick", "--only", "dataset,plain", "-o", "here", "--threads", 1)
    assert cli(*chosen)[0] == 0
    code, out, _ = cli(
        "reproduce", "--quick", "--only", "plain,large-spread", "-o", "here", "--list"
    )
    assert code == 0
    there = [line for line in out.splitlines() if line.startswith("  there")]
    assert [line.split()[1] for line in there] == ["plain", "plain"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "cifar"], ["--only cifar", "fmnist, mnist, webspam", "speed-up"]),
        (["--quick", "--only", "fmnist"], ["--only fmnist", "digits, breast-cancer"]),
        (["--norms", "inf,7"], ["--norms 7", "inf, 0, 1, 2"]),
        (["--norms", ","], ["--norms", "inf, 0, 1, 2"]),
        (["--rows", "0"], ["--rows"]),
        (["--timeout", "0"], ["--timeout", "> 0"]),
        (["--timeout", "nan"], ["--timeout", "> 0"]),
        (["--timeout", "inf"], ["--timeout", "finite"]),
        (["--seed", "-1"], ["--seed"]),
        (["--seed", "2147483648"], ["--seed", "2147483647"]),
        (["--threads", "0"], ["--threads"]),
        (["--data", "nowhere"], ["--data nowhere", "no such folder"]),
        (["--output", "file"], ["file is a file"]),
    ],
)
def test_bad_input_is_one_line(refuses, tmp_path, arguments, words):
    (tmp_path / "file").write_text("")
    refuses("reproduce", *arguments, words=words)


def test_settings_reach_the_cells(cli):
    options = ["--only", "plain-robustness,digits", "--norms", "1", "--rows", 7, "--timeout", 0.5]
    code, out, _ = cli("reproduce", "--quick", *options, "--seed", 3, "--list")
    assert code == 0
    titles = [line.split("about")[0].split(maxsplit=2)[2].strip() for line in out.splitlines()[1:]]
    assert titles == ["plain digits", "plain-robustness digits norm 1 budget 0.2"]


@pytest.mark.usefixtures("without_drawing")
def test_rows_are_those_that_are_asked_for(cli, tmp_path):
    options = ["--only", "plain-robustness,digits", "--norms", "1", "--rows", 7, "--timeout", 0.5]
    assert cli("reproduce", "--quick", *options, "--threads", 1)[0] == 0
    (path,) = (tmp_path / "results-quick" / "cells" / "plain-robustness").iterdir()
    cell = json.loads(path.read_text())
    assert cell["result"]["rows"] == 7
    assert cell["configuration"]["timeout"] == 0.5


@pytest.mark.usefixtures("without_drawing")
def test_ctrl_c_keeps_what_is_finished(cli, tmp_path, monkeypatch):
    compute = kinds.compute

    def interrupted(cell, bench):
        if cell.kind == "plain":
            raise KeyboardInterrupt
        return compute(cell, bench)

    monkeypatch.setattr(kinds, "compute", interrupted)
    code, _, err = cli("reproduce", "--quick", "--only", "plain,dataset", "--threads", 1)
    assert code == 130
    kept = "2 of 4 cells are kept; give the same command again to continue"
    assert err.splitlines()[-1] == f"carvegbm: interrupted; {kept}"
    assert (tmp_path / "results-quick" / "index.html").exists()
    assert len(list(tmp_path.glob("results-quick/cells/*/*.json"))) == 2


@pytest.mark.usefixtures("without_drawing")
def test_data_that_is_not_to_be_had_is_one_line_and_the_run_goes_on(cli, monkeypatch, tmp_path):
    asked = []

    def load(name, *, folder, download, **_):
        asked.append((name, folder, download))
        if name == "mnist":
            return digits
        raise DataError(f"{name}: not in {folder}; get it")

    digits = datasets.load("digits")
    monkeypatch.setattr(datasets, "load", load)
    (tmp_path / "data").mkdir()
    code, _, err = cli("reproduce", "--only", "dataset", "--data", "data", "--threads", 1)
    assert code == 0
    assert "webspam: not in data; get it; 1 cell of webspam is left out" in err.splitlines()
    assert "] dataset mnist: " in err
    assert {(str(folder), download) for _, folder, download in asked} == {("data", True)}


@pytest.mark.usefixtures("without_drawing")
def test_real_data_is_found_in_the_folder(cli, shared_data, tmp_path):
    options = ["--only", "dataset,fmnist", "--data", shared_data, "--threads", 1]
    code, _, err = cli("reproduce", *options)
    assert code == 0, err
    (path,) = tmp_path.glob("results/cells/dataset/*.json")
    result = json.loads(path.read_text())["result"]
    assert (result["instances"], result["features"], result["test"]) == (14_000, 784, 4_200)
    assert result["classes"] == [["0", 0.5], ["3", 0.5]]


def test_choices_that_leave_nothing_are_named(cli, tmp_path):
    code, _, err = cli("reproduce", "--quick", "--only", "digits,speed-up", "--norms", "0")
    assert code == 2
    assert "--only digits,speed-up and --norms 0 have no cell in common" in err
    assert list(tmp_path.iterdir()) == []
