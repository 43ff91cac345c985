"""The command report: a page, its document, and how it refuses."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

import carvegbm as cg
from carvegbm.data.files import load_table
from carvegbm.engines import decide


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_is_written_and_the_answer_printed(
    cli: Any, here: Path, model: str, data: str
) -> None:
    code, out, err = cli("report", "sample", "--budget", "0.02")
    assert (code, err) == (0, "wrote report.html\n")
    page = (here / "report.html").read_text("utf-8")
    assert page.startswith("<!doctype html>")
    table = load_table(data)
    result = cg.verify(model, table.X, table.y, cg.Attacker("inf", 0.02))
    for text in (f"{100 * result.accuracy:.1f}", f"{100 * result.robustness[0]:.1f}"):
        assert f"{text} %" in out
        assert text in page
    assert len(list(here.iterdir())) == 1


def test_json_is_the_document_of_the_page(cli: Any, here: Path, model: str, data: str) -> None:
    code, out, _ = cli("report", model, data, "--budget", "0.02", "--json", "-o", "page.html")
    assert code == 0
    document = json.loads(out)
    assert (here / "page.html").exists()
    table = load_table(data)
    expected = cg.report(model, table.X, table.y, cg.Attacker("inf", 0.02), progress=False)
    for part in ("rows", "attackers", "distances"):
        assert document[part] == json.loads(json.dumps(expected.to_dict()[part]))
    for what, path in (("model", model), ("data", data)):
        digest = subprocess.run(["sha256sum", path], capture_output=True, text=True, check=True)
        assert document[what]["file_sha256"] == digest.stdout.split()[0]


def test_json_alone_prints_and_writes_nothing_and_output_may_be_the_document(
    cli: Any, here: Path
) -> None:
    code, out, err = cli("report", "sample", "--budget", "0.02", "--rows", "9", "--json")
    assert (code, err, list(here.iterdir())) == (0, "", [])
    code, _, err = cli("report", "sample", "--budget", "0.02", "--rows", "9", "-o", "a.json")
    assert (code, err) == (0, "wrote a.json\n")
    printed, written = json.loads(out), json.loads((here / "a.json").read_text("utf-8"))
    assert printed["attackers"] == written["attackers"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("--norm 1 --budget 0.1 --budget 0.2", [(1, 0.1), (1, 0.2)]),
        ("--norm 1 --norm inf --budget 0.1", [(1, 0.1), ("inf", 0.1)]),
        ("--norm 0 --budget 1 --norm inf --budget 0.1", [(0, 1), ("inf", 0.1)]),
        ("--attacker one.toml --attacker two.toml", [(1, 0.5), ("inf", 0.01)]),
        ("--attacker one.toml --budget 0.1 --budget 0.2", [(1, 0.1), (1, 0.2)]),
    ],
)
def test_several_attackers_come_in_pairs_or_files(
    cli: Any, here: Path, options: str, expected: list[tuple[Any, float]]
) -> None:
    (here / "one.toml").write_text("norm = 1\nbudget = 0.5\n")
    (here / "two.toml").write_text('norm = "inf"\nbudget = 0.01\n')
    code, out, err = cli("report", "sample", *options.split(), "--rows", "5", "--json")
    assert code == 0, err
    found = [(entry["norm"], entry["budget"]) for entry in json.loads(out)["attackers"]]
    assert found == expected


def test_a_sample_is_drawn_and_said(cli: Any, here: Path) -> None:
    code, out, _ = cli("report", "sample", "--budget", "0.02", "--sample", "20", "--seed", "3")
    assert code == 0
    assert "171 instances, 20 of them drawn" in out
    assert "171" in (here / "report.html").read_text("utf-8")


@pytest.mark.usefixtures("here")
def test_proofs_stand_beside_the_page_and_can_be_checked(cli: Any, model: str, data: str) -> None:
    budgets = ("--budget", "0.02", "--budget", "0.05")
    code, _, err = cli("report", model, data, *budgets, "--sample", "all", "--proof", "a.proof")
    assert code == 0
    assert err.splitlines() == ["wrote report.html", "wrote a.proof", "wrote a-2.proof"]
    for name in ("a.proof", "a-2.proof"):
        assert cli("check", name, model, data, "--quiet")[0] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "the attacker's budget is missing; give --budget K"),
        ("--norm 1 --norm 2 --budget 1 --budget 2 --budget 3", "2 --norm and 3 --budget make no"),
        ("--attacker a --attacker b --budget 1", "--norm and --budget change one --attacker"),
        ("--budget 1 --sample 0", "--sample must be a whole number of rows from 1 on"),
        ("--budget 1 --images 28", "--images must be HEIGHTxWIDTH"),
        ("--budget 1 --images 2x2", "images of 2 x 2 have 4 pixels"),
        ("--budget 1 -o report.pdf", "end the name in .html or .json"),
        ("--budget 1 -o none/report.html", "there is no folder none"),
        ("--budget 1 --proof report.html", "would overwrite"),
        ("--budget 1 --proof p --sample 3", "give --sample all, or fewer --rows"),
        ("--budget -1", "budget must be >= 0, got -1"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_left(
    cli: Any, here: Path, options: str, message: str
) -> None:
    code, out, err = cli("report", "sample", *options.split())
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(here.iterdir()) == []


def test_neither_model_nor_data_is_overwritten(cli: Any, here: Path, model: str, data: str) -> None:
    (here / "data.html").write_bytes(Path(data).read_bytes())
    code, _, err = cli("report", model, "data.html", "--budget", "1", "-o", "data.html")
    assert code == 2
    assert "would overwrite DATA" in err
    assert (here / "data.html").read_bytes() == Path(data).read_bytes()


def test_ctrl_c_keeps_the_report_that_is_there_and_writes_an_unfinished_one_beside_it(
    cli: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: list[int] = []
    finished, unfinished = here / "report.html", here / "report.html.partial"
    finished.write_text("earlier")

    def pressed_when_some_rows_are_known(task: Any, rows: Any, listen: Any) -> Any:
        def told(found: Any, finished: Any) -> None:
            listen(found, finished[:3])
            known.extend(finished[:3])
            signal.raise_signal(signal.SIGINT)

        return decide(task, rows, told)

    command = ("report", "sample", "--budget", "0.02", "--json", "-o", "report.html")
    with monkeypatch.context() as patch:
        patch.setattr("carvegbm.reports.query.decide", pressed_when_some_rows_are_known)
        code, out, err = cli(*command)
    assert code == 130
    assert finished.read_text() == "earlier"
    last = err.splitlines()[-1]
    assert last.startswith("carvegbm: interrupted; report.html.partial holds an unfinished report")
    assert "report.html is unchanged" in last
    document = json.loads(out)
    (asked,) = document["attackers"]
    decided = {row for row, status in enumerate(asked["status"]) if status != "unknown"}
    assert document["interrupted"]
    assert decided == set(known) != set()
    assert "The work was cut short" in unfinished.read_text("utf-8")
    assert cli(*command)[0] == 0
    assert "The work was cut short" not in finished.read_text("utf-8")
    assert list(here.iterdir()) == [finished]
