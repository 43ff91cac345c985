"""The results folder: one JSON file per finished cell, models and unfinished rows beside it.

    cells/<kind>/<slug>-<key>.json     finished cells, small, worth keeping in a repository
    models/                            what later cells and later runs find again; may be deleted
    results.md, index.html             the report on the cells

A file is there whole or not at all. One that is damaged, of another format or not where its
configuration says counts as absent: its cell is computed again.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

from carvegbm import __version__
from carvegbm.storage.files import make_folder
from carvegbm.storage.resume import ResumeFile
from carvegbm_experiments.plan.cell import Configuration, key
from carvegbm_experiments.store.records import read_json, write_json, write_text

__all__ = ["FORMAT", "Store"]

FORMAT = 1
"""Of a cell's file."""

Columns = dict[str, list[Any]]


class Store:
    """The results folder.

    Parameters
    ----------
    folder : path
        Made when the first file is written.

    Examples
    --------
    >>> import tempfile
    >>> store = Store(tempfile.mkdtemp())
    >>> setting = {"suite": "quick", "dataset": "digits"}
    >>> _ = store.keep("plain", setting, {"accuracy": 0.97}, seconds=2.5)
    >>> store.find("plain", setting)["result"]
    {'accuracy': 0.97}
    """

    def __init__(self, folder: Any) -> None:
        self.folder = Path(folder)

    @property
    def models(self) -> Path:
        """The folder of trained models, which version control is told to leave out."""
        models = self.folder / "models"
        if not (models / ".gitignore").exists():
            write_text(models / ".gitignore", "*\n")
        return models

    def path(self, kind: str, configuration: Configuration) -> Path:
        """Where the cell is, or would be."""
        return self.folder / "cells" / kind / f"{_slug(configuration)}-{key(configuration)}.json"

    def find(self, kind: str, configuration: Configuration) -> dict[str, Any] | None:
        """The finished cell, or None."""
        return self._read(self.path(kind, configuration))

    def cells(self, suite: str | None = None) -> list[dict[str, Any]]:
        """All finished cells, of one suite where it is named."""
        found = (self._read(path) for path in sorted(self.folder.glob("cells/*/*.json")))
        return [
            cell
            for cell in found
            if cell is not None and suite in (None, cell["configuration"].get("suite"))
        ]

    def keep(
        self,
        kind: str,
        configuration: Configuration,
        result: Mapping[str, Any],
        seconds: float,
    ) -> dict[str, Any]:
        """Write a finished cell and drop its unfinished rows."""
        cell = {
            "format": FORMAT,
            "kind": kind,
            "configuration": dict(configuration),
            "result": dict(result),
            "seconds": round(seconds, 3),
            "version": __version__,
            "machine": {
                **_machine(),
                "finished": datetime.now(timezone.utc).isoformat("T", "seconds"),
            },
        }
        write_json(self.path(kind, configuration), cell)
        for rest in self.folder.glob(f"models/unfinished/{kind}-{key(configuration)}-*.blocks"):
            rest.unlink()
        return cell

    def write(self, name: str, text: str) -> Path:
        """Write a text file, never half of it."""
        path = self.folder / name
        write_text(path, text)
        return path

    def by_rows(
        self,
        kind: str,
        configuration: Configuration,
        name: str,
        rows: int,
        block: int,
        compute: Callable[[int, int], Columns],
    ) -> tuple[Columns, float]:
        """Compute columns for rows 0 … rows - 1 block by block, and keep finished blocks.

        `compute(start, stop)` returns lists by name. An interrupted computation is resumed after
        the last whole block when the same cell asks for the same `name` again; `name` must
        identify everything the columns depend on beside the configuration. The number returned is
        how many seconds the resumed blocks took.
        """
        path = self.models / "unfinished" / f"{kind}-{key(configuration)}-{name}.blocks"
        make_folder(path.parent)
        with ResumeFile.open(
            path, {"file": path.name}, resume=True, remedy="delete it"
        ) as resume_file:
            blocks = [json.loads(content) for content in resume_file.blocks()]
            earlier = sum(part["seconds"] for part in blocks)
            done = blocks[-1]["stop"] if blocks else 0
            while done < rows:
                stop = min(rows, done + block)
                started = time.monotonic()
                columns = compute(done, stop)
                seconds = round(time.monotonic() - started, 6)
                blocks.append({"stop": stop, "seconds": seconds, "columns": columns})
                resume_file.append(json.dumps(blocks[-1]).encode())
                done = stop
        joined: Columns = {}
        for part in blocks:
            for column, values in part["columns"].items():
                joined.setdefault(column, []).extend(values)
        return joined, earlier

    def _read(self, path: Path) -> dict[str, Any] | None:
        cell = read_json(path)
        try:
            whole = (
                cell is not None
                and cell["format"] == FORMAT
                and path == self.path(cell["kind"], cell["configuration"])
                and isinstance(cell["result"], dict)
                and isinstance(cell["seconds"], int | float)
            )
        except (KeyError, TypeError, AttributeError, ValueError):
            return None
        return cell if whole else None


def _slug(configuration: Configuration) -> str:
    """What people should see in a file's name; the key makes it unique."""
    names = (
        *("suite", "dataset", "protocol", "norm", "budget", "limits", "criterion", "model"),
        "trained",
    )
    parts = [str(configuration[name]) for name in names if configuration.get(name) is not None]
    text = "-".join(parts).lower()
    return "".join(c if c.isalnum() or c in "-." else "_" for c in text)


@cache
def _machine() -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "lightgbm": version("lightgbm"),
    }


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except (OSError, ValueError):
        pass
    return platform.processor() or platform.machine()
