"""The results sections in the documentation come from the results folder."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from carvegbm.reproduce.store import Store
from conftest import REPOSITORY
from reproduce.sample_cells import sample_cells


@pytest.fixture
def tool() -> Any:
    path = REPOSITORY / "tools" / "results_section.py"
    if not path.is_file():
        pytest.skip("the tools are not in this distribution")
    specification = importlib.util.spec_from_file_location("results_section", path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    for name in ("README.md", "docs/results.md"):
        (tmp_path / name).write_text(
            "before\n<!-- results -->\nearlier words\n<!-- /results -->\nafter\n"
        )
    store = Store(tmp_path / "results")
    for cell in sample_cells():
        store.keep(cell["kind"], cell["configuration"], cell["result"], cell["seconds"])
    return tmp_path


def test_sections_are_written_between_their_markers_and_then_current(
    tool: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--folder", str(folder), "--check"]) == 1
    assert "README.md: out of date" in capsys.readouterr().out
    assert "earlier words" in (folder / "README.md").read_text()
    assert tool.main(["--folder", str(folder)]) == 0
    assert tool.main(["--folder", str(folder), "--check"]) == 0
    for name in ("README.md", "docs/results.md"):
        text = (folder / name).read_text("utf-8")
        assert text.startswith("before\n<!-- results -->\n")
        assert text.endswith("\n<!-- /results -->\nafter\n")
        assert "in 17 of 18 rows" in text
        assert "earlier words" not in text


def test_a_new_result_makes_the_sections_stale(tool: Any, folder: Path) -> None:
    assert tool.main(["--folder", str(folder)]) == 0
    cell = next(cell for cell in sample_cells() if cell["kind"] == "plain")
    result = {**cell["result"], "accuracy": 0.5}
    Store(folder / "results").keep("plain", cell["configuration"], result, 1.0)
    assert tool.main(["--folder", str(folder), "--check"]) == 1


def test_a_file_without_markers_is_named(
    tool: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("nothing here\n")
    assert tool.main(["--folder", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("results_section: README.md: ")
    assert error.count("\n") == 1
