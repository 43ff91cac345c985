"""The gallery: its pages run anywhere, leave nothing behind, and say the same in every run.

The site runs all of them, and fails with them; what it would not notice is here, by those that are
quick.
"""

from __future__ import annotations

import ast
import hashlib
import io
import runpy
import socket
import warnings
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from conftest import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("plot_*.py"))
QUICK = [path for path in EXAMPLES if path.stem in ("plot_audit", "plot_plain_model_and_attacks")]
"""Seconds each; the audit is the one that writes files."""


class Run(NamedTuple):
    """What an example printed, and its figures as hashes of their pixels."""

    printed: str
    figures: list[str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run an example in an empty folder, without a network and a screen."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    def refused(*_: Any) -> None:
        raise AssertionError("an example asks the network")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.chdir(tmp_path)

    def call(example: Path) -> Run:
        figures: list[str] = []

        def show() -> None:
            for number in plt.get_fignums():
                canvas: Any = plt.figure(number).canvas
                canvas.draw()
                figures.append(hashlib.sha256(canvas.buffer_rgba()).hexdigest())
            plt.close("all")

        monkeypatch.setattr(plt, "show", show)
        plt.close("all")  # what other tests left open
        with redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            runpy.run_path(str(example), run_name="__main__")
        assert plt.get_fignums() == [], "a figure is not shown"
        return Run(printed.getvalue(), figures)

    return call


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 6
    assert len(QUICK) == 2
    assert (REPOSITORY / "examples" / "GALLERY_HEADER.rst").is_file()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_has_a_title_and_says_what_it_does_not_show(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring is not None
    title, underline, empty, first = docstring.splitlines()[:4]
    assert underline == "=" * len(title)
    assert (empty, bool(first)) == ("", True)
    assert "does not show" in text or "cannot be said" in text


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_imports_public_names_only(example: Path) -> None:
    """A reader can do what it does; nothing of carvegbm but `import carvegbm as cg`."""
    for node in ast.walk(ast.parse(example.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert not (node.module or "").startswith("carvegbm")
        if isinstance(node, ast.Import):
            names = {name.name for name in node.names if name.name.startswith("carvegbm")}
            assert names <= {"carvegbm"}
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith(("_", "fetch_"))


@pytest.mark.slow
@pytest.mark.parametrize("example", QUICK, ids=lambda path: path.stem)
def test_an_example_says_the_same_twice_without_network_and_leaves_no_file(
    example: Path, run: Any, tmp_path: Path
) -> None:
    found = run(example)
    assert found.printed
    assert found.figures
    assert run(example) == found
    assert list(tmp_path.iterdir()) == []
