"""The experiments are a package of their own: carvegbm works without them."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import re
import subprocess
import sys
from importlib import metadata
from pathlib import PurePosixPath

import pytest

import carvegbm_experiments
from conftest import REPOSITORY

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(carvegbm_experiments.__path__, "carvegbm_experiments.")
)
PAGES = [REPOSITORY / "experiments" / name for name in ("README.md", "results/results.md")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_on_a_page_lead_somewhere(page) -> None:
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8"))
    assert targets
    assert [target for target in targets if not (page.parent / target).exists()] == []


def installed(name: str) -> set[str]:
    """The files of an installed distribution, as its wheel had them."""
    return {PurePosixPath(file).as_posix() for file in metadata.files(name) or ()}


def test_the_wheel_of_carvegbm_has_nothing_of_the_experiments() -> None:
    files = installed("carvegbm")
    assert any(file.startswith("carvegbm/_core") for file in files)
    ours = re.compile(r"^experiments/|carvegbm_experiments|/reproduce/|/cells/")
    assert [file for file in files if ours.search(file)] == []
    style = REPOSITORY / "experiments" / "carvegbm_experiments" / "report" / "page.css"
    assert style.is_file()  # … and it would be missed were it nowhere
    assert not [file for file in files if file.endswith(style.name)]


def test_the_experiments_bring_their_style_and_neither_results_nor_tests() -> None:
    files = installed("carvegbm-experiments")
    roots = {file.partition("/")[0] for file in files}
    if "carvegbm_experiments" not in roots:
        pytest.skip("they are used where they lie")
    assert "carvegbm_experiments/report/page.css" in files
    assert "carvegbm_experiments/py.typed" in files
    assert roots - {"carvegbm_experiments"} == {r for r in roots if r.endswith(".dist-info")}
    assert not [file for file in files if file.endswith(".json") and "/cells/" in file]


def test_carvegbm_imports_the_experiments_in_their_command_only() -> None:
    sources = sorted((REPOSITORY / "src" / "carvegbm").rglob("*.py"))
    naming = [path.name for path in sources if "carvegbm_experiments" in path.read_text("utf-8")]
    assert naming == ["reproduce.py"]


def run(arguments: list[str], before: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, and on its last line the modules it imported."""
    code = (
        f"import sys\n{before}\nfrom carvegbm.cli.app import run\ncode = run({arguments!r})\n"
        "print(*sys.modules)\nraise SystemExit(code)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


ABSENT = """
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name == "carvegbm_experiments":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


@pytest.mark.parametrize("arguments", [[], ["--quick"], ["--list", "-o", "x"]])
def test_without_the_experiments_one_line_names_the_remedy(arguments: list[str]) -> None:
    done = run(["reproduce", *arguments], ABSENT)
    assert done.returncode == 2
    assert done.stderr.startswith("carvegbm: reproduce needs the experiments")
    assert done.stderr.endswith("pip install ./experiments\n")
    assert done.stderr.count("\n") == 1


def test_help_of_the_command_needs_no_experiments() -> None:
    done = run(["reproduce", "--help"], ABSENT)
    assert (done.returncode, done.stderr) == (0, "")
    assert "--quick" in done.stdout


@pytest.mark.parametrize("before", ["", ABSENT], ids=["installed", "not installed"])
def test_help_lists_the_command_and_imports_nothing_of_it(before: str) -> None:
    done = run(["--help"], before)
    assert done.returncode == 0
    *shown, modules = done.stdout.splitlines()
    assert any("reproduce" in line for line in shown)
    assert "carvegbm_experiments.command" not in modules.split()


def test_a_part_that_is_missing_inside_the_experiments_is_not_called_absent() -> None:
    done = run(["reproduce", "--list"], "sys.modules['carvegbm_experiments.plan.cell'] = None")
    assert "pip install ./experiments" not in done.stderr
    assert "carvegbm_experiments.plan.cell" in done.stderr
