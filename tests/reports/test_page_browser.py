"""The report's page in a real browser: silent, nothing sticks out, light and dark, on paper.

The checks themselves are tested beside the page of the evaluation, in tests/experiments.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from browsing import browse, colours, needs_browser, printed_pages, widths
from carvegbm.reports.page import html
from outlines import Outline
from reports.documents import plain
from reports.test_page import everything, images

pytestmark = needs_browser


@pytest.fixture(scope="module")
def text() -> str:
    made = everything()
    made["model"]["name"] = "a-long-name-" * 20
    made["distances"][0]["weak"][0]["name"] = "another_long_name_" * 30
    made["distances"][0]["witnesses"][0]["changes"][0]["name"] = "x" * 400
    return html(made)


def test_the_page_is_whole_and_the_console_silent(tmp_path: Path, text: str) -> None:
    document, console = browse(tmp_path, text, "--dump-dom")
    assert console == []
    assert document.count("<table") == len(Outline(text).tables)
    assert document.count("<svg") == text.count("<svg")


@pytest.mark.parametrize("width", [390, 1200])
def test_nothing_sticks_out_of_the_window(tmp_path: Path, text: str, width: int) -> None:
    contents, window, seen = widths(tmp_path, text, width)
    assert window == width
    assert contents <= window
    assert seen > 6  # the others are folded


def test_images_fit_a_phone(tmp_path: Path) -> None:
    contents, window, _ = widths(tmp_path, html(images()), 400)
    assert contents <= window


def test_the_page_follows_the_reader_into_the_dark(tmp_path: Path) -> None:
    shots = []
    for name, setting in (("light", 1), ("dark", 0)):
        shot = tmp_path / f"{name}.png"
        scheme = f"--blink-settings=preferredColorScheme={setting}"
        browse(tmp_path, html(plain()), f"--screenshot={shot}", "--window-size=400,600", scheme)
        assert len(colours(shot)) > 20
        shots.append(commonest(shot))
    light, dark = shots
    assert min(light) > 240
    assert max(dark) < 40


def commonest(shot: Path) -> bytes:
    """The colour of the paper."""
    return max(colours(shot).items(), key=lambda item: item[1])[0]


def test_the_page_prints_with_the_data_of_its_figures(tmp_path: Path, text: str) -> None:
    pages = printed_pages(tmp_path, text)
    assert 4 <= pages <= 40
    folded = text.replace("details::details-content", "details::absent")
    assert folded != text
    assert printed_pages(tmp_path, folded) < pages
