"""Verdicts on the first test rows: measured with one thread, or in blocks that are kept.

Comes in: a `Judge`, which is one engine, one model and what a cell asks of them. Goes out: seconds
and verdicts. An interrupted cell goes on after its last whole block; a time that is measured begins
anew.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import carvegbm as cg
from carvegbm.storage.identity import digest_of
from carvegbm_experiments import milp
from carvegbm_experiments.compute.models import Bench, attacker_of
from carvegbm_experiments.plan.cell import Cell

__all__ = ["Judge", "in_blocks"]

Columns = dict[str, list[Any]]

_BLOCK = 8  # rows per thread and block: enough to keep threads busy, few enough to keep often
_REPEATS = 7  # of a measurement that is short
_PATIENCE = 2.0  # seconds after which a measurement is not short


@dataclass(frozen=True, eq=False)
class Judge:
    """An engine that verifies a model against the attacker of a cell, in the cell's time."""

    cell: Cell
    bench: Bench
    model: cg.Ensemble
    engine: str
    threads: int = 1

    def verify(self, X: Any, y: Any) -> Any:
        """Verdicts on some rows: a `Verification`, or of the engine "milp" a `MilpVerification`."""
        setting = self.cell.configuration
        if self.engine == "milp":
            attacker, timeout = attacker_of(setting), setting["timeout"]
            return milp.verify(self.model, X, y, attacker, timeout=timeout)
        options: dict[str, Any] = {"engine": self.engine, "timeout": setting["timeout"]}
        options |= {"threads": self.threads, "progress": False}
        return cg.verify(self.model, X, y, attacker_of(setting), **options)

    def prepare(self) -> Any:
        """Verify one row: what is done once per model is no part of a measured time."""
        return self.verify(*self._rows(1))

    def measured(self) -> tuple[float, cg.Verification]:
        """How long the cell's rows take (the median, if it is short), and the verdicts."""
        X, y = self._rows()
        self.bench.detail(f"measuring {self.engine}")
        found = self.prepare()
        times: list[float] = []
        while len(times) < _REPEATS and sum(times) < _PATIENCE:
            started = time.perf_counter()
            found = self.verify(X, y)
            times.append(time.perf_counter() - started)
        return round(float(np.median(times)), 6), found

    def counted(self, name: str, rows: int | None = None) -> dict[str, Any]:
        """The verdicts in numbers, on the cell's rows or so many of them, kept under a name."""
        X, y = self._rows(rows)

        def block(start: int, stop: int) -> Columns:
            self.bench.detail(f"{name}, row {start} of {len(X)}")
            started = time.perf_counter()
            found = self.verify(X[start:stop], y[start:stop])
            return {
                "seconds": [time.perf_counter() - started],
                "status": found.status.tolist(),
                "right": found.right.tolist(),
                "engine": found.engine.tolist(),
            }

        about = (self.model, X, y)
        found = in_blocks(self.cell, self.bench, name, about, self.threads, block)
        statuses = Counter(found["status"])
        open_ = sum(
            status == "unknown" and right
            for status, right in zip(found["status"], found["right"], strict=True)
        )
        robust = statuses["robust"]
        return {
            "rows": len(X),
            "right": sum(found["right"]),
            "robustness": [robust / len(X), (robust + open_) / len(X)],
            "unknown": statuses["unknown"],
            "seconds": round(sum(found["seconds"]), 6),
            "engines": dict(sorted(Counter(name for name in found["engine"] if name).items())),
        }

    def _rows(self, limit: int | None = None) -> tuple[Any, Any]:
        setting = self.cell.configuration
        split, rows = self.bench.split(setting), setting["rows"]
        rows = rows if limit is None else min(limit, rows)
        return split.X_test[:rows], split.y_test[:rows]


def in_blocks(
    cell: Cell,
    bench: Bench,
    name: str,
    about: tuple[cg.Ensemble, Any, Any],
    threads: int,
    block: Callable[[int, int], Columns],
) -> Columns:
    """Columns for the rows of `about` (model, X, y), of which finished blocks are kept."""
    named, rows = f"{name}-{digest_of([cg.__version__, *about])[:16]}", len(about[1])
    size = _BLOCK * threads
    found, earlier = bench.store.by_rows(cell.kind, cell.configuration, named, rows, size, block)
    bench.earlier.rows += earlier
    return found
