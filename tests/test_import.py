"""Importing the package is light; what is heavy comes when it is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("lightgbm", "xgboost", "sklearn", "scipy", "pandas", "pyarrow", "matplotlib")


def modules_after(code: str) -> set[str]:
    program = f"import sys\n{code}\nprint(*sorted(sys.modules), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_import_brings_no_heavy_library() -> None:
    loaded = modules_after("import carvegbm")
    assert "carvegbm" in loaded
    assert not loaded & {*HEAVY, "click", "rich"}


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["--version"]])
def test_help_brings_no_heavy_library(arguments: list[str]) -> None:
    loaded = modules_after(f"from carvegbm.cli.app import run\nassert run({arguments!r}) == 0")
    assert "click" in loaded
    assert not loaded & set(HEAVY)


def test_every_public_name_exists() -> None:
    import carvegbm

    missing = [name for name in carvegbm.__all__ if not hasattr(carvegbm, name)]
    assert missing == []


def test_verifying_a_model_file_needs_no_model_library() -> None:
    loaded = modules_after(
        "from carvegbm.cli.app import run\n"
        "assert run(['verify', 'sample', '--budget', '0.02', '--threads', '1']) == 0"
    )
    assert not loaded & {"lightgbm", "xgboost", "sklearn", "pandas"}
