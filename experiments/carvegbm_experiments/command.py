"""The options of `carvegbm reproduce`, and what becomes of them.

Comes in: what stands behind `carvegbm reproduce` on the command line. Goes out: the plan as a
table (`--list`), or a run. Errors are left to carvegbm, which makes one line and an exit code of
them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from carvegbm import CarveError
from carvegbm.cli.shared import options, output
from carvegbm.storage.files import check_apart
from carvegbm_experiments.plan.cell import Cell
from carvegbm_experiments.plan.planning import plan
from carvegbm_experiments.plan.suites import PAPER, QUICK
from carvegbm_experiments.report.tables.table import long_duration as duration
from carvegbm_experiments.store.folder import Store

__all__ = ["run"]

_app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run(arguments: Sequence[str], name: str) -> Any:
    """Do what the arguments say; `name` is what the user typed before them.

    Returns an exit code where the parser of the command line makes one, else None.
    """
    return _app(args=list(arguments), prog_name=name, standalone_mode=False)


@_app.command(
    epilog="Example: carvegbm reproduce --only fmnist --norms inf,1 --rows 500 --timeout 10"
)
def _reproduce(
    *,
    only: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Only these data sets and kinds of cells, separated by commas; --list has them.",
        ),
    ] = None,
    norms: Annotated[
        str | None, typer.Option(metavar="P,Q", help="Only these norms, e.g. inf,1.")
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Test rows for the general engines; 500 by default.",
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Time limit per row for the general engines in Tables 2 and 3; 10 by default.",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="A small run on built-in data, about a minute, no download."),
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the data sets; by default CARVEGBM_DATA, else they are downloaded.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Where results go: results by default, results-quick with --quick.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(metavar="N", min=0, max=2**31 - 1, help="Seed of splitting and training."),
    ] = 0,
    threads: options.Threads = None,
    list_: Annotated[
        bool, typer.Option("--list", help="Show what the run consists of, and do nothing.")
    ] = False,
) -> None:
    """Repeat the paper's evaluation on this machine: tables, figures, and a page that shows them.

    Trains and verifies, hours for everything. Finished results are kept: the same command goes on
    where an interrupted one stopped. Data that is not to be had is named and left out.
    """
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
