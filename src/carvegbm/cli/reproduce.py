"""The command reproduce: the paper's evaluation, and what it does not have, as a page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carvegbm.cli import options, output
from carvegbm.errors import CarveError
from carvegbm.files import check_apart

if TYPE_CHECKING:
    from carvegbm.reproduce.plan import Cell
    from carvegbm.reproduce.store import Store


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "reproduce",
        epilog="Example: carvegbm reproduce --only fmnist --norms inf,1 --rows 500 --timeout 10",
    )(reproduce)


def reproduce(
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
    from carvegbm.reproduce import plan
    from carvegbm.reproduce.store import Store

    if timeout is not None and not 0 < timeout < math.inf:
        raise CarveError(f"--timeout must be > 0 and finite, in seconds per row, got {timeout:g}")
    suite = plan.QUICK if quick else plan.PAPER
    cells = plan.plan(
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
    from carvegbm.reproduce.models import Bench
    from carvegbm.reproduce.running import run

    bench = Bench(store, data=data, download=not quick, threads=threads)
    run(cells, store, bench, suite=suite.name, say=output.note)


def _list(cells: list[Cell], store: Store) -> None:
    """The plan as a table: what is there, and how long the rest may take."""
    from carvegbm.reproduce.running import Estimate, standing
    from carvegbm.reproduce.table import long_duration as duration

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
