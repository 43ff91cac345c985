"""The page: one file, nothing loaded from elsewhere, every figure with its data, text escaped."""

from __future__ import annotations

import base64
import itertools
import re
import struct
import sys
import zlib
from collections import Counter
from typing import Any

import pytest

from carvegbm import CarveError
from carvegbm_experiments.plan.cell import KINDS
from carvegbm_experiments.report import page
from carvegbm_experiments.report.tables import chapters
from experiments.sample_cells import dataset, gallery, quick_cells, sample_cells, trained
from outlines import Outline, check_references, check_that_nothing_is_loaded


@pytest.fixture(scope="module")
def text() -> str:
    pytest.importorskip("matplotlib")
    return page.html(sample_cells())


@pytest.fixture(scope="module")
def outline(text: str) -> Outline:
    return Outline(text)


def test_the_page_says_what_it_is(text: str, outline: Outline) -> None:
    assert text.startswith("<!doctype html>")
    assert outline.all("html") == [{"lang": "en"}]
    assert "width=device-width, initial-scale=1" in [m.get("content") for m in outline.all("meta")]
    assert len(outline.all("title")) == 1
    levels = [level for level, _ in outline.headings]
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_nothing_is_loaded_from_elsewhere(text: str, outline: Outline) -> None:
    check_that_nothing_is_loaded(text, outline)


def test_ids_are_unique_and_everything_that_refers_to_one_finds_it(
    text: str, outline: Outline
) -> None:
    assert check_references(text, outline) > 40


def test_every_figure_is_labelled_and_followed_by_its_data(text: str) -> None:
    articles = re.findall(r"<article.*?</article>", text, re.S)
    # speed-up, curves, trade-offs by trial and by model, galleries
    assert len(articles) == 1 + 2 + 7 + 6 + 2
    for article in articles:
        images = re.findall(r"<svg[^>]*>", article)
        assert images
        assert all('role="img"' in image and 'aria-label="' in image for image in images)
        assert re.search(r"</figure>.*<details><summary>.*?<table", article, re.S)
    assert text.count("<figure") == sum(article.count("<figure") for article in articles)


def test_every_table_is_on_the_page_with_all_its_cells(outline: Outline) -> None:
    shown = Counter(outline.cells)
    every = chapters.tables(sample_cells())
    assert len(outline.all("table")) == len(every)
    wanted = Counter(cell for t in every for row in t.rows for cell in row[t.stub - 1 :])
    assert not wanted - shown


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cell_shows_on_the_page(kind: str, outline: Outline) -> None:
    without = Outline(page.html([cell for cell in sample_cells() if cell["kind"] != kind]))
    assert without.cells != outline.cells


def test_the_same_cells_make_the_same_page(text: str) -> None:
    assert page.html(list(reversed(sample_cells()))) == text


@pytest.mark.parametrize("count", [0, 1, 3, 20])
def test_a_run_that_has_just_begun_makes_a_sound_page(count: int) -> None:
    pytest.importorskip("matplotlib")
    Outline(page.html(sample_cells()[:count]))


@pytest.mark.parametrize("number", range(len(quick_cells())))
def test_a_single_cell_makes_a_sound_page(number: int) -> None:
    pytest.importorskip("matplotlib")
    found = Outline(page.html([quick_cells()[number]]))
    assert found.all("table")


def test_text_from_data_is_escaped() -> None:
    pytest.importorskip("matplotlib")
    nasty = '<script>alert("&")</script>'
    cells = [
        dataset("fmnist", nasty, 14_000),
        trained("large-spread", "fmnist", "inf", 0.01, 0.97, 0.9),
        gallery("fmnist", "inf", 0.015),
    ]
    cells[0]["machine"] = {**cells[0]["machine"], "cpu": nasty}
    cells[2]["result"]["images"][0]["label"] = nasty
    text = page.html(cells)
    assert "<script" not in text
    found = Outline(text)
    assert nasty in found.cells
    assert any(nasty in a.get("aria-label", "") for a in found.all("svg"))


def test_images_show_the_pixels_and_outline_those_that_changed() -> None:
    cell = gallery("fmnist", "0", 3, count=1)
    (image,) = cell["result"]["images"]
    pytest.importorskip("matplotlib")
    text = page.html([cell])
    original, attacked = (pixels(data) for data in re.findall(r"base64,([^\"]+)", text))
    assert original == image["original"]
    different = [i for i, (a, b) in enumerate(zip(original, attacked, strict=True)) if a != b]
    assert different == [index for index, _ in image["changed"]]
    corners = re.findall(r"M(\d+)\.1 (\d+)\.1", text)
    assert sorted(28 * int(row) + int(column) for column, row in corners) == different
    brighter = re.search(r'class="brighter" d="([^"]+)"', text)
    assert brighter is not None
    assert brighter[1].count("M") == sum(
        v > image["original"][i] / 255 for i, v in image["changed"]
    )


def test_a_pixel_that_moves_next_to_nothing_is_outlined_in_its_direction() -> None:
    pytest.importorskip("matplotlib")
    cell = gallery("fmnist", "inf", 0.015, count=1)
    (image,) = cell["result"]["images"]
    image["original"][0] = image["original"][1] = 0
    image["changed"] = [[0, 1e-35], [1, -5e-324]]
    text = page.html([cell])
    assert 'class="brighter" d="M0.1 0.1h' in text
    assert 'class="darker" d="M1.1 0.1h' in text


def test_classes_of_clothes_have_names() -> None:
    pytest.importorskip("matplotlib")
    text = page.html([gallery("fmnist", "inf", 0.015, count=1)])
    assert "T-shirt → dress" in text
    assert "Image 1: original, class T-shirt" in text


def pixels(data: str) -> list[int]:
    """Grey levels of a PNG of 28 x 28 without filters."""
    raw = base64.b64decode(data)
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    at, parts = 8, {}
    while at < len(raw):
        (size,) = struct.unpack(">I", raw[at : at + 4])
        name, body = raw[at + 4 : at + 8], raw[at + 8 : at + 8 + size]
        (check,) = struct.unpack(">I", raw[at + 8 + size : at + 12 + size])
        assert check == zlib.crc32(name + body)
        parts[name] = body
        at += 12 + size
    assert struct.unpack(">II", parts[b"IHDR"][:8]) == (28, 28)
    rows = zlib.decompress(parts[b"IDAT"])
    lines = [rows[29 * i : 29 * (i + 1)] for i in range(28)]
    assert all(line[0] == 0 for line in lines)
    return [level for line in lines for level in line[1:]]


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(CarveError, match=r"pip install 'carvegbm\[plot\]'"):
        page.html(sample_cells())


def test_data_that_are_no_images_have_a_table_only() -> None:
    pytest.importorskip("matplotlib")
    cell: dict[str, Any] = gallery("fmnist", "inf", 0.015)
    cell["result"]["image_shape"] = None
    found = Outline(page.html([cell]))
    assert not found.all("image")
    assert found.all("table")
