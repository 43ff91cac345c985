"""The page in a real browser: tables are there, the console is silent, nothing sticks out.

Headless Chromium is run as a program. Every check is also run on a page with the defect it looks
for, so that a check that sees nothing cannot pass.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import PHONE, browse, colours, needs_browser, printed_pages, widths
from carvegbm_experiments.report import page
from carvegbm_experiments.report.tables.chapters import tables
from experiments.sample_cells import quick_cells, sample_cells

pytestmark = needs_browser


@pytest.fixture(scope="module")
def text() -> str:
    pytest.importorskip("matplotlib")
    return page.html(sample_cells())


def test_the_page_shows_its_tables_and_the_console_is_silent(tmp_path: Path, text: str) -> None:
    document, console = browse(tmp_path, text, "--dump-dom")
    assert console == []
    assert document.count("<table") == len(tables(sample_cells()))
    assert "Table 2: accuracy and robustness" in document


def test_an_error_on_a_page_would_be_seen(tmp_path: Path) -> None:
    broken = "<!doctype html><title>x</title><script>console.error('a mistake')</script>"
    _, console = browse(tmp_path, broken, "--dump-dom")
    assert any("a mistake" in line for line in console)
    _, console = browse(tmp_path, broken.replace("console.error('a mistake')", "absent()"))
    assert any("absent is not defined" in line for line in console)


@pytest.mark.parametrize("width", [PHONE, 768, 1280])
def test_nothing_sticks_out_of_the_window(tmp_path: Path, text: str, width: int) -> None:
    contents, window, seen = widths(tmp_path, text, width)
    assert window == width
    assert contents <= window
    assert seen >= 6  # the others are folded


def test_a_quick_page_fits_a_phone_too(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    contents, window, _ = widths(tmp_path, page.html(quick_cells()), PHONE)
    assert contents <= window


def test_what_sticks_out_would_be_seen(tmp_path: Path, text: str) -> None:
    loose = text.replace("overflow-x: auto", "overflow-x: visible")
    assert loose != text
    contents, window, _ = widths(tmp_path, loose, PHONE)
    assert contents > window


@pytest.mark.parametrize("size", ["375,800", "1280,800"])
def test_a_screenshot_is_not_blank(tmp_path: Path, text: str, size: str) -> None:
    shot = tmp_path / "shot.png"
    browse(tmp_path, text, f"--screenshot={shot}", f"--window-size={size}")
    assert len(colours(shot)) > 20


def test_a_blank_screenshot_would_be_seen(tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    browse(tmp_path, "<!doctype html>", f"--screenshot={shot}", "--window-size=400,300")
    assert len(colours(shot)) == 1


def test_the_page_prints_with_the_data_of_its_figures(tmp_path: Path, text: str) -> None:
    pages = printed_pages(tmp_path, text)
    assert 5 <= pages <= 60
    folded = text.replace("details::details-content", "details::absent")
    assert folded != text
    assert printed_pages(tmp_path, folded) < pages - 3
