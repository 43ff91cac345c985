"""What the documentation says is true: its examples run, its commands and options exist."""

from __future__ import annotations

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from lightgbm import LGBMRegressor

import carvegbm
from carvegbm.cli.app import run
from carvegbm.data.files import load_table
from conftest import REPOSITORY
from pages import PAGES, blocks

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(carvegbm.__path__, "carvegbm.")
    if not module.name.endswith(("__main__", "._core"))
)
NEEDED = {
    "carvegbm.dask": "dask",
    "carvegbm.displays": "matplotlib",
    "carvegbm.spark": "pyspark",
}
"""What a package cannot be imported without, or its examples cannot run."""
NEEDED_ON_PAGES = {"plots.md": ["matplotlib"], "scale.md": ["distributed", "pyarrow"]}


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    for package, needed in NEEDED.items():
        if f"{name}.".startswith(f"{package}."):
            pytest.importorskip(needed)
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_on_a_page_runs(
    page: Path, sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for needed in NEEDED_ON_PAGES.get(page.name, []):
        pytest.importorskip(needed)
    shutil.copy(sample_folder / "sample_model.txt", tmp_path / "model.txt")
    table = load_table(sample_folder / "sample_data.csv")
    text = (sample_folder / "sample_data.csv").read_text()
    (tmp_path / "data.csv").write_text(text.replace("label\n", "outcome\n", 1))
    # One tree is large-spread whatever the budget.
    regressor = LGBMRegressor(n_estimators=1, num_leaves=4, verbose=-1).fit(table.X, table.X[:, 0])
    names = {"X": table.X, "y": table.y, "regressor": regressor, "cg": carvegbm}
    for part in ("train", "valid", "test"):
        names |= {f"X_{part}": np.maximum(table.X, 1e-9), f"y_{part}": table.y}
    monkeypatch.chdir(tmp_path)
    for code, said in with_outputs(page):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        if said:
            assert without_times(printed.getvalue()) == without_times(said)


def with_outputs(page: Path) -> list[tuple[str, str]]:
    """Every block of Python, and the block of text right after it, which is what it prints."""
    found = re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", page.read_text("utf-8"), re.M | re.S
    )
    assert len(found) == len(blocks(page, "python"))
    return found


def without_times(text: str) -> str:
    return re.sub(r"[\d.e-]+ s\b", "… s", text)


def test_pages_show_what_code_prints() -> None:
    shown = [said for page in PAGES for _, said in with_outputs(page) if said]
    assert len(shown) >= 4
    assert without_times("slowest 0.00011 s, 7") == without_times("slowest 9.4e-05 s, 7")
    assert without_times("146 rows") != without_times("147 rows")


def test_readme_opens_with_two_commands_of_one_line_each() -> None:
    first, second = blocks(REPOSITORY / "README.md", "")[:2]
    assert first.count("\n") == second.count("\n") == 1
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install ")
    assert first.endswith(" .venv/bin/carvegbm demo\n")
    assert second.endswith(" .venv/bin/pytest -n 2\n")


def test_commands_and_options_in_the_documentation_exist(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    seen = set()
    for page in PAGES:
        for command, rest in re.findall(r"^carvegbm (\w+)(.*)$", page.read_text("utf-8"), re.M):
            assert run([command, "--help-all"]) == 0, f"{page.name}: carvegbm {command}"
            shown = capsys.readouterr().out
            for option in re.findall(r"(--[\w-]+)", rest):
                assert option in shown, f"{page.name}: carvegbm {command} {option}"
            seen.add(command)
    assert seen >= {"verify", "attack", "radius", "spread", "info", "convert"}


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, REPOSITORY / "CONTRIBUTING.md", REPOSITORY / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).is_file(), f"{page.name}: {target}"
