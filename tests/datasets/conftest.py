"""A machine without data and without network, and a local server in its place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from carvegbm.datasets.catalogue import CATALOGUE


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache; no data folder is named; the local server is asked without a proxy."""
    monkeypatch.delenv("CARVEGBM_DATA", raising=False)
    monkeypatch.setenv("CARVEGBM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    return tmp_path / "cache"


@pytest.fixture
def catalogued(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change what the catalogue says about a dataset."""

    def change(name: str, **facts: Any) -> None:
        monkeypatch.setitem(CATALOGUE, name, replace(CATALOGUE[name], **facts))

    return change


@dataclass
class Server:
    """What a local server has (path: content), what of it it sends, and what it was asked."""

    address: str
    has: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    breaks_off_after: int | None = None


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            state.asked.append(path)
            if path not in state.has:
                self.send_error(404)
                return
            content = state.has[path]
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: state.breaks_off_after])

        def log_message(self, *_: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{running.server_address[1]}")
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    running.shutdown()
    thread.join()
    running.server_close()
