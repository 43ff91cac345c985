"""The command reproduce: the paper's evaluation, which the package in experiments/ contains."""

from __future__ import annotations

from typing import Any

from carvegbm.cli import options
from carvegbm.cli.options import COUNT, Option, command
from carvegbm.errors import CarveError


@command(
    Option(
        "--only NAMES",
        "Only these data sets and kinds of cells, separated by commas; --list has them.",
        "Data",
    ),
    Option("--norms P,Q", "Only these norms, e.g. inf,1.", "Attacker"),
    Option("--rows N", "Test rows for the general engines; 500 by default.", "Data", type=COUNT),
    Option(
        "--timeout SECONDS",
        "Time limit per row for the general engines in Tables 2 and 3; 10 by default.",
        "Engine",
        type=float,
    ),
    Option("--quick", "A small run on built-in data, about a minute, no download.", "Data"),
    Option(
        "--data DIR",
        "Folder of the data sets; by default CARVEGBM_DATA, else they are downloaded.",
        "Data",
        type=options.FILE,
    ),
    Option(
        "-o, --output DIR",
        "Where results go: results by default, results-quick with --quick.",
        "Output",
        type=options.FILE,
    ),
    Option(
        "--seed N",
        "Seed of splitting and training.",
        "Training",
        type=options.Whole(0, 2**31 - 1),
        default=0,
    ),
    options.THREADS,
    Option("--list", "Show what the run consists of, and do nothing.", "Output"),
    example="carvegbm reproduce --only fmnist --norms inf,1 --rows 500 --timeout 10",
)
def reproduce(given: Any) -> None:
    """Repeat the paper's evaluation on this machine: tables, figures, and a page that shows them.

    Trains and verifies, hours for everything. Finished results are kept: the same command goes on
    where an interrupted one stopped. Data that is not to be had is named and left out. Needs the
    experiments: pip install ./experiments in a copy of carvegbm's repository.
    """
    try:
        from carvegbm_experiments.command import run
    except ModuleNotFoundError as error:
        if error.name != "carvegbm_experiments":
            raise
        raise CarveError(
            "reproduce needs the experiments, which are not installed; in a copy of carvegbm's "
            "repository: pip install ./experiments"
        ) from None
    run(
        only=given.only,
        norms=given.norms,
        rows=given.rows,
        timeout=given.timeout,
        quick=given.quick,
        data=given.data,
        out=given.output,
        seed=given.seed,
        threads=given.threads,
        list_=given.list,
    )
