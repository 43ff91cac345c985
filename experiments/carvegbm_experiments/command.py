"""The command `carvegbm reproduce`; carvegbm defines its options."""

from __future__ import annotations

import math
from pathlib import Path

from carvegbm import CarveError
from carvegbm.cli import output
from carvegbm.storage.files import check_apart
from carvegbm_experiments.plan.cell import Cell
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import PAPER, QUICK
from carvegbm_experiments.report.tables.table import long_duration as duration
from carvegbm_experiments.store.folder import Store

__all__ = ["run"]


def run(
    *,
    only: str | None,
    norms: str | None,
    rows: int | None,
    timeout: float | None,
    quick: bool,
    data: Path | None,
    out: Path | None,
    seed: int,
    threads: int | None,
    list_: bool,
) -> None:
    """Run the plan, or show it as a table if `list_`."""
    if timeout is not None and not 0 < timeout < math.inf:
        raise CarveError(f"--timeout must be > 0 and finite, in seconds per row, got {timeout:g}")
    suite = QUICK if quick else PAPER
    cells = plan(
        suite,
        only=_names(only),
        norms=_names(norms),
        rows=rows,
        timeout=timeout,
        seed=seed,
    )
    if not cells:
        raise CarveError(f"--only {only} and --norms {norms} have no cell in common; see --list")
    store = Store(out or Path("results-quick" if quick else "results"))
    if store.folder.exists() and not store.folder.is_dir():
        raise CarveError(f"{store.folder} is a file; give the name of a folder")
    if list_:
        _list(cells, store)
        return
    if data is not None and not data.is_dir():
        raise CarveError(f"--data {data}: no such folder")
    check_apart({"--output": store.folder}, {"--data": data})
    from carvegbm_experiments import running
    from carvegbm_experiments.compute.models import Bench

    bench = Bench(store, data=data, download=not quick, threads=threads)
    try:
        running.run(cells, store, bench, suite=suite.name, say=output.note)
    except KeyboardInterrupt as interruption:
        if not interruption.args:
            raise
        raise output.Interrupted(interruption.args[0]) from None


def _list(cells: list[Cell], store: Store) -> None:
    """The plan as a table: what is there, and how long the rest may take."""
    from carvegbm_experiments.running import Estimate, standing

    found = {cell.key: store.find(cell.kind, cell.configuration) for cell in cells}
    taken = {key: record["seconds"] for key, record in found.items() if record is not None}
    estimate = Estimate(cells, taken)
    left = [cell for cell in cells if cell.key not in taken]
    table = [
        (
            "there" if cell.key in taken else "to do",
            cell.title,
            duration(taken[cell.key])
            if cell.key in taken
            else f"about {duration(estimate.seconds(cell))}",
        )
        for cell in cells
    ]
    output.print_table(standing(cells, left, estimate), table, align="<<>")


def _names(text: str | None) -> list[str] | None:
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]
