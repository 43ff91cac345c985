"""Pages in a real browser: headless Chromium, run as a program.

`browse` loads a page, `widths` measures it in a frame of any width, `colours` looks at a
screenshot, `printed_pages` counts those of a PDF. Tests that use them are marked `needs_browser`.
"""

from __future__ import annotations

import re
import shutil
import struct
import zlib
from collections import Counter
from pathlib import Path

import pytest

from child_processes import end_of_work

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")

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


def browse(folder: Path, text: str, *options: str) -> tuple[str, list[str]]:
    """The document after loading, and what the console and the network had to complain about."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    assert BROWSER is not None
    code, out, err = end_of_work(
        [
            BROWSER,
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *("--disable-dev-shm-usage", "--no-first-run", "--disable-extensions"),
            *("--enable-logging=stderr", "--v=0", "--virtual-time-budget=5000"),
            f"--user-data-dir={folder / 'profile'}",
            *options,
            path.as_uri(),
        ]
    )
    assert code == 0, err
    return out, [line for line in err.splitlines() if ":CONSOLE" in line]


def widths(folder: Path, text: str, width: int) -> tuple[int, int, int]:
    """Width of the contents, width of the window, number of visible tables."""
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    frame = MEASURE.format(width=width, page=quoted.replace("</script", "<\\/script"))
    document, console = browse(folder, frame, "--dump-dom", "--window-size=1000,2200")
    assert console == []
    found = re.search(r"<title>widths (\d+) of (\d+), tables (\d+)</title>", document)
    assert found is not None, document[:300]
    return int(found[1]), int(found[2]), int(found[3])


def colours(path: Path) -> Counter[bytes]:
    """The colours of an 8-bit RGB or RGBA screenshot, each with its number of pixels."""
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
    previous, found = bytearray(stride - 1), Counter[bytes]()
    for y in range(height):
        rule, line = lines[y * stride], bytearray(lines[y * stride + 1 : (y + 1) * stride])
        for x in range(len(line)):
            left = line[x - channels] if x >= channels else 0
            above = previous[x]
            corner = previous[x - channels] if x >= channels else 0
            line[x] = (line[x] + guess(rule, left, above, corner)) & 255
        found.update(bytes(line[x : x + 3]) for x in range(0, len(line), channels))
        previous = line
    return found


def guess(rule: int, left: int, above: int, corner: int) -> int:
    """PNG's five filters."""
    if rule < 4:
        return (0, left, above, (left + above) // 2)[rule]
    estimate = left + above - corner
    return min((left, above, corner), key=lambda value: abs(estimate - value))


def printed_pages(folder: Path, text: str) -> int:
    """How many pages of paper the page makes."""
    printed = folder / "page.pdf"
    browse(folder, text, f"--print-to-pdf={printed}")
    return len(re.findall(rb"/Type\s*/Page\b", printed.read_bytes()))
