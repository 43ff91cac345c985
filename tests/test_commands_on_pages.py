"""Every command on a page of the documentation runs, in a folder with the files it names.

Where running takes minutes or machines, the reason stands in NOT_RUN; `test_docs.py` still looks up
its options.
"""

from __future__ import annotations

import gzip
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

from carvegbm.cli.app import app, run
from conftest import REPOSITORY
from pages import PAGES, blocks

NOT_RUN = {
    r"carvegbm demo": "takes a minute; tests/cli runs it on fewer images",
    r"carvegbm reproduce(?! --list)": "takes minutes to hours; .ci/run does --quick",
}
PLACEHOLDERS = re.compile(r"\b(MODEL|DATA|PROOF|FILE|DIR|ADDRESS|P|K|N)\b")
"""Words that stand for something of the reader's: such a line shows a form, and is no command."""


def commands(page: Path) -> list[str]:
    """The commands in the blocks of a page, without what is only a form."""
    lines = [line for block in blocks(page, "") for line in block.splitlines()]
    given = [line for line in lines if re.match(r"carvegbm \w|python -m carvegbm_check ", line)]
    return [line for line in given if not PLACEHOLDERS.search(line.split("  ")[0])]


def reason(line: str) -> str | None:
    return next((why for form, why in NOT_RUN.items() if re.match(form, line)), None)


@pytest.fixture
def folder(sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, and the same rows in every file that the pages speak of."""
    shutil.copy(sample_folder / "sample_model.txt", tmp_path / "model.txt")
    lines = (sample_folder / "sample_data.csv").read_text("utf-8").splitlines(keepends=True)
    text = "".join(lines[:61])  # enough for every command, and quick to train on
    (tmp_path / "data").mkdir()
    for name in ("data.csv", "train.csv", "data/rows.csv"):
        (tmp_path / name).write_text(text, "utf-8")
    for day in ("day-1.csv.gz", "day-2.csv.gz"):
        (tmp_path / day).write_bytes(gzip.compress(text.encode()))
    try:
        import pandas as pd
        import pyarrow  # noqa: F401
    except ImportError:
        pass
    else:
        frame = pd.read_csv(tmp_path / "data.csv")
        frame.iloc[:30].to_parquet(tmp_path / "part-1.parquet")
        frame.iloc[30:].to_parquet(tmp_path / "part-2.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_line(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    words = shlex.split(line, comments=True)
    code = check(words[3:]) if words[0] == "python" else run(words[1:])
    shown = capsys.readouterr()
    assert code == 0, f"{line}\n{shown.err}"
    return shown.out


def check(arguments: list[str]) -> int:
    import carvegbm_check

    return carvegbm_check.main(arguments)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=lambda p: p.name)
@pytest.mark.usefixtures("folder")
def test_commands_on_a_page_run_one_after_the_other(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in commands(page):
        if reason(line) is None:
            if ".parquet" in line:
                pytest.importorskip("pyarrow")
            if "--attacker attacker.toml" in line and not Path("attacker.toml").exists():
                Path("attacker.toml").write_text('norm = "inf"\nbudget = 0.02\n', "utf-8")
            run_line(line, capsys)


@pytest.mark.usefixtures("folder")
def test_what_a_command_prints_is_what_the_page_says(capsys: pytest.CaptureFixture[str]) -> None:
    page = (REPOSITORY / "docs" / "getting-started.md").read_text("utf-8")
    said = page[page.index("The first prints") :]
    shown = re.findall(r"^```text\n(.*?)^```", said, re.M | re.S)[0]
    assert run_line("carvegbm verify sample --norm inf --budget 0.02", capsys) == shown


@pytest.mark.usefixtures("folder")
def test_a_text_right_below_a_command_is_what_it_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a block with several commands, the last one."""
    line = r"(?:carvegbm|python -m carvegbm_check) [^\n]+\n"
    form = re.compile(rf"^```\n((?:{line})+)```\n\n```text\n(.*?)^```", re.M | re.S)
    told = [pair for page in PAGES for pair in form.findall(page.read_text("utf-8"))]
    assert told
    for lines, shown in told:
        for line in lines.splitlines():
            printed = run_line(line, capsys)
        assert without_version(printed) == without_version(shown)


def without_version(text: str) -> str:
    return re.sub(r"written by carvegbm \S+", "written by carvegbm", text)


def test_the_guide_lists_every_command() -> None:
    first = blocks(REPOSITORY / "docs" / "command-line.md", "")[0]
    group: Any = typer.main.get_command(app)
    listed = {line.split()[1] for line in first.splitlines()}
    assert listed == {name for name, command in group.commands.items() if not command.hidden}


@pytest.mark.usefixtures("folder")
def test_a_command_that_fails_would_be_seen(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError, match=r"absent\.txt"):
        run_line("carvegbm verify absent.txt data.csv --budget 0.1", capsys)


def test_few_commands_are_not_run() -> None:
    lines = [line for page in PAGES for line in commands(page)]
    left_out = [line for line in lines if reason(line) is not None]
    assert len(lines) > 40
    assert len(left_out) < len(lines) / 4
    for form in NOT_RUN:
        assert any(re.match(form, line) for line in left_out), f"{form}: on no page any more"
