"""The page in a real browser: tables are there, the console is silent, nothing sticks out.

Headless Chromium is run as a program. Every check is also run on a page with the defect it looks
for, so that a check that sees nothing cannot pass.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from carvegbm_experiments.report import page
from carvegbm_experiments.report.tables.chapters import tables
from experiments.sample_cells import quick_cells, sample_cells

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

PHONE = 375
# Runs inside a frame as wide as a phone, since a window cannot always be made so narrow.
MEASURE = """<!doctype html><title>measuring</title>
<iframe id="frame" style="width: {width}px; height: 2000px; border: 0"></iframe>
<script>
  const frame = document.getElementById("frame");
  frame.onload = () => {{
    const root = frame.contentDocument.documentElement;
    const seen = [...root.querySelectorAll("table")].filter(t => t.getClientRects().length).length;
    document.title = `widths ${{root.scrollWidth}} of ${{root.clientWidth}}, tables ${{seen}}`;
  }};
  frame.srcdoc = {page};
</script>"""


@pytest.fixture(scope="module")
def text() -> str:
    pytest.importorskip("matplotlib")
    return page.html(sample_cells())


def browse(folder: Path, text: str, *options: str) -> tuple[str, list[str]]:
    """The document after loading, and what the console and the network had to complain about."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    assert BROWSER is not None
    done = subprocess.run(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"),
            *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"),
            f"--user-data-dir={folder / 'profile'}",
            *options,
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return done.stdout, console


def widths(folder: Path, text: str, width: int) -> tuple[int, int, int]:
    """Width of the contents, width of the window, number of visible tables."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    frame = MEASURE.format(width=width, page=quoted.replace("</script", "<\\/script"))
    document, console = browse(folder, frame, "--dump-dom", "--window-size=1000,2200")
    assert console == []
    found = re.search(r"<title>widths (\d+) of (\d+), tables (\d+)</title>", document)
    assert found is not None, document[:300]
    return int(found[1]), int(found[2]), int(found[3])


def colours(path: Path) -> int:
    """How many different colours the pixels of an 8-bit RGB or RGBA screenshot have."""
    raw = path.read_bytes()
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    width, height, depth, kind = struct.unpack(">IIBB", raw[16:26])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    at, data = 8, b""
    while at < len(raw):
        (size,) = struct.unpack(">I", raw[at : at + 4])
        if raw[at + 4 : at + 8] == b"IDAT":
            data += raw[at + 8 : at + 8 + size]
        at += 12 + size
    lines, stride = zlib.decompress(data), 1 + width * channels
    previous, found = bytearray(stride - 1), set()
    for y in range(height):
        rule, line = lines[y * stride], bytearray(lines[y * stride + 1 : (y + 1) * stride])
        for x in range(len(line)):
            left = line[x - channels] if x >= channels else 0
            above = previous[x]
            corner = previous[x - channels] if x >= channels else 0
            line[x] = (line[x] + guess(rule, left, above, corner)) & 255
        found |= {bytes(line[x : x + 3]) for x in range(0, len(line), channels)}
        previous = line
    return len(found)


def guess(rule: int, left: int, above: int, corner: int) -> int:
    """PNG's five filters."""
    if rule < 4:
        return (0, left, above, (left + above) // 2)[rule]
    estimate = left + above - corner
    return min((left, above, corner), key=lambda value: abs(estimate - value))


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
    assert colours(shot) > 20


def test_a_blank_screenshot_would_be_seen(tmp_path: Path) -> None:
    shot = tmp_path / "shot.png"
    browse(tmp_path, "<!doctype html>", f"--screenshot={shot}", "--window-size=400,300")
    assert colours(shot) == 1


def test_the_page_prints_with_the_data_of_its_figures(tmp_path: Path, text: str) -> None:
    printed = tmp_path / "page.pdf"
    browse(tmp_path, text, f"--print-to-pdf={printed}")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes()))
    assert 5 <= pages <= 60
    folded = text.replace("details::details-content", "details::absent")
    assert folded != text
    browse(tmp_path, folded, f"--print-to-pdf={printed}")
    assert len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes())) < pages - 3
