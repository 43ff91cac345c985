"""Look at the built documentation site: links, and pages in a real browser.

    python tools/look_at_site.py build/site [--shots FOLDER]

Every link within the site must lead to a page, and to a place on it; nothing may be loaded from
another server. Then every page is opened in headless Chromium, as wide as a phone and as a desk:
the console must stay silent, and nothing may stick out sideways. Ends with 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

WIDTHS = (400, 1200)
PATIENCE = 300  # seconds for all pages
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = [
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--disable-dev-shm-usage", "--disable-extensions", "--hide-scrollbars"),
    *("--enable-logging=stderr", "--v=0"),
]
HARNESS = """<!doctype html><meta charset="utf-8"><title>looking</title>
<link rel="icon" href="data:,">
<iframe id="frame" style="height: 900px; border: 0"></iframe>
<script>
  const frame = document.getElementById("frame");
  const drawn = () => new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)));
  const loaded = page => new Promise(done => { frame.onload = done; frame.src = page; });
  const scrolls = (node, part) => {  // within something smaller that scrolls, or out of sight
    for (; node && node !== part && node.nodeType === 1; node = node.parentElement) {
      const style = frame.contentWindow.getComputedStyle(node);
      if (style.overflowX !== "visible" || style.position === "fixed") return true;
    }
    return false;
  };
  const blame = (part, edge) => {
    for (const node of part.querySelectorAll("*")) {
      const box = node.getBoundingClientRect();
      if (box.right > edge + 1 && box.width && !scrolls(node.parentElement, part))
        return `${node.tagName} ${node.className} "${node.textContent.trim().slice(0, 40)}"`;
    }
    return "?";
  };
  (async () => {
    const found = [];
    for (const page of PAGES) {
      frame.style.width = WIDTHS[0] + "px";
      await loaded(page);
      for (const width of WIDTHS) {
        frame.style.width = width + "px";
        await drawn();
        const root = frame.contentDocument.documentElement;
        // The theme lets the article scroll as a whole, which hides what is too wide for it.
        const parts = [root, ...root.querySelectorAll("main, article, .bd-article-container")];
        for (const part of parts) {
          if (part.scrollWidth <= part.clientWidth + (part === root ? 0 : 1)) continue;
          const edge = part.getBoundingClientRect().left + part.clientWidth;
          found.push({page, width, wide: part.scrollWidth, room: part.clientWidth,
                      blame: blame(part, edge)});
          break;
        }
      }
    }
    const told = JSON.stringify({found, looked: PAGES.length});
    await fetch("/__told__", {method: "POST", body: told});
  })();
</script>"""


class Page(HTMLParser):
    """What a page points to, what can be pointed at, and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.places |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in ("canonical",) and "href" in given:
            self.loads.append(given["href"])
        elif tag in ("img", "script", "iframe", "source") and "src" in given:
            self.loads.append(given["src"])


def pages_of(site: Path) -> list[str]:
    """Every page, by its path within the site."""
    folders = ("_static", "_downloads", "_sources")
    return sorted(
        path.relative_to(site).as_posix()
        for path in site.rglob("*.html")
        if path.relative_to(site).parts[0] not in folders
    )


def wrong_links(site: Path) -> Iterator[str]:
    """A line for every link within the site that leads nowhere, and everything from elsewhere."""
    pages = {name: Page((site / name).read_text("utf-8")) for name in pages_of(site)}
    for name, page in pages.items():
        for target in page.loads:
            if urlsplit(target).scheme in ("http", "https") or target.startswith("//"):
                yield f"{name}: loads {target} from another server"
        for target in [*page.links, *page.loads]:
            path, place = urldefrag(target)
            if urlsplit(target).scheme or target.startswith("//"):
                continue
            there = (site / name).parent / unquote(urlsplit(path).path) if path else site / name
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                yield f"{name}: {target} leads nowhere"
                continue
            known = pages.get(there.resolve().relative_to(site.resolve()).as_posix())
            if place and known is not None and unquote(place) not in known.places:
                yield f"{name}: there is no #{place} on {path or 'this page'}"


def in_browser(site: Path, pages: Sequence[str], widths: Sequence[int] = WIDTHS) -> Iterator[str]:
    """A line for everything that the console says or that sticks out of the window."""
    harness = HARNESS.replace("PAGES", json.dumps([f"/{page}" for page in pages]))
    told: dict[str, Any] = {}
    done = threading.Event()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path != "/__look__.html":
                super().do_GET()
                return
            body = harness.replace("WIDTHS", json.dumps(list(widths))).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            told.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()
            done.set()

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/__look__.html"
        console = _console(address, done, f"--window-size={max(widths) + 100},1000")
        server.shutdown()
    yield from console
    if told.get("looked") != len(pages):
        yield f"the browser did not get through the pages in {PATIENCE} s"
    for seen in told.get("found", []):
        name, at = seen["page"][1:], f"at {seen['width']} px"
        yield f"{name} {at}: {seen['wide']} px in {seen['room']}: {seen['blame']}"


def _console(address: str, done: threading.Event, *options: str) -> list[str]:
    """What the console said until `done`."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [BROWSER, *FLAGS, f"--user-data-dir={folder}/profile", *options, address],
                stdout=subprocess.DEVNULL,
                stderr=stream,
            )
            done.wait(PATIENCE)
            process.terminate()
            process.wait(30)
        text = log.read_text("utf-8", "replace")
    return _complaints(text)


def _complaints(log: str) -> list[str]:
    """What the console said, but for the theme's notes on what it does."""
    return [line for line in log.splitlines() if ":CONSOLE" in line and '"[PST]: ' not in line]


def opened_as_a_file(page: Path, *options: str) -> list[str]:
    """What the console says of a page that is opened from disk."""
    assert BROWSER is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [BROWSER, *FLAGS, f"--user-data-dir={folder}/profile", *options, page.as_uri()]
        ended = subprocess.run(
            command, capture_output=True, text=True, encoding="utf-8", timeout=30, check=True
        )
    return [f"{page.name}: {line}" for line in _complaints(ended.stderr)]


def _take_shots(site: Path, folder: Path) -> None:
    """The pages at the top of the site, as wide as everything is looked at."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(site.glob("*.html")):
        for width in WIDTHS:
            shot = (folder / f"{page.stem}-{width}.png").resolve()
            opened_as_a_file(page, f"--screenshot={shot}", f"--window-size={width},2400")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("site", type=Path)
    parser.add_argument("--shots", type=Path, help="folder for screenshots of the pages at the top")
    given = parser.parse_args()
    site = given.site.resolve()
    pages = pages_of(site)
    if not pages:
        print(f"{given.site}: no pages; build the site first", file=sys.stderr)
        return 1
    wrong = list(wrong_links(site))
    if BROWSER is None:
        wrong.append("no Chromium is installed")
    else:
        wrong += opened_as_a_file(site / "index.html", "--dump-dom")
        wrong += in_browser(site, pages)
    if BROWSER is not None and given.shots is not None:
        _take_shots(site, given.shots)
    for line in wrong:
        print(line)
    print(f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} px: {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
