"""What the repository says of the results comes from the stored cells, all of which are found."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import PAPER
from carvegbm_experiments.store.folder import Store
from conftest import REPOSITORY
from experiments.sample_cells import sample_cells

NAMES = ("README.md", "experiments/results/results.md", "experiments/results/index.html")


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
    (tmp_path / "README.md").write_text(
        "before\n<!-- results -->\nearlier words\n<!-- /results -->\nafter\n"
    )
    store = Store(tmp_path / "experiments" / "results")
    for cell in sample_cells():
        store.keep(cell["kind"], cell["configuration"], cell["result"], cell["seconds"])
    return tmp_path


def test_all_is_written_from_the_cells_and_then_current(
    tool: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--folder", str(folder), "--check"]) == 1
    said = capsys.readouterr().out
    assert all(f"{name}: out of date" in said for name in NAMES)
    assert "earlier words" in (folder / "README.md").read_text()
    assert tool.main(["--folder", str(folder)]) == 0
    assert tool.main(["--folder", str(folder), "--check"]) == 0
    for name in NAMES:
        text = (folder / name).read_text("utf-8")
        assert "in 17 of 18 rows" in " ".join(text.split())
    readme = (folder / "README.md").read_text("utf-8")
    assert readme.startswith("before\n<!-- results -->\n")
    assert readme.endswith("\n<!-- /results -->\nafter\n")
    assert "earlier words" not in readme


def test_a_new_result_makes_them_stale(
    tool: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool.main(["--folder", str(folder)]) == 0
    capsys.readouterr()
    cell = next(cell for cell in sample_cells() if cell["kind"] == "plain-robustness")
    result = {**cell["result"], "unknown": 7}
    store = Store(folder / "experiments" / "results")
    store.keep(cell["kind"], cell["configuration"], result, 1.0)
    assert tool.main(["--folder", str(folder), "--check"]) == 1
    said = capsys.readouterr().out
    assert all(f"{name}: out of date" in said for name in NAMES)


def test_a_page_drawn_in_other_bytes_is_current_and_one_with_other_numbers_is_not(
    tool: Any, folder: Path
) -> None:
    assert tool.main(["--folder", str(folder)]) == 0
    page = folder / NAMES[2]
    text = page.read_text("utf-8")
    page.write_text(re.sub(r'(<svg id="[^>]*>).*?</svg>', r"\1</svg>", text, count=1, flags=re.S))
    assert page.read_text("utf-8") != text
    assert tool.main(["--folder", str(folder), "--check"]) == 0
    page.write_text(text.replace("13,866", "13,867"))
    assert page.read_text("utf-8") != text
    assert tool.main(["--folder", str(folder), "--check"]) == 1


def test_a_file_without_markers_is_named(
    tool: Any, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "README.md").write_text("nothing here\n")
    assert tool.main(["--folder", str(folder)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("results_section: README.md: ")
    assert error.count("\n") == 1


# ── the cells in the repository ──────────────────────────────────────────────────────────────


def test_what_the_repository_says_of_its_results_is_current(tool: Any) -> None:
    assert tool.main(["--check"]) == 0


def test_every_stored_cell_is_read_and_the_plan_asks_for_it() -> None:
    store = Store(REPOSITORY / "experiments" / "results")
    files = list(store.folder.glob("cells/*/*.json"))
    found = {(cell["kind"], str(cell["configuration"])) for cell in store.cells("paper")}
    assert len(found) == len(files) > 0
    asked = [cell for cell in plan(PAPER) if store.find(cell.kind, cell.configuration)]
    assert len(asked) == len(files)


def test_of_the_data_that_was_to_be_had_nothing_is_to_be_computed_again() -> None:
    store = Store(REPOSITORY / "experiments" / "results")
    left = [c for c in plan(PAPER) if store.find(c.kind, c.configuration) is None]
    assert {c.dataset for c in left if c.kind != "robust"} == {"webspam"}


def test_a_protocol_of_robust_training_is_computed_whole_or_not_at_all() -> None:
    store = Store(REPOSITORY / "experiments" / "results")
    cells = [cell for cell in plan(PAPER) if cell.kind == "robust"]
    begun = {c.configuration["protocol"] for c in cells if store.find(c.kind, c.configuration)}
    left = [c.title for c in cells if store.find(c.kind, c.configuration) is None]
    assert [title for title in left if any(f"({name})" in title for name in begun)] == []
