"""The command check: proofs that verify wrote, by a checker that shares nothing with the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from carvegbm.cli.shared import inputs, options
from carvegbm.errors import CarveError

_EXAMPLE = "carvegbm check verdicts.proof model.txt data.csv"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("check", epilog=f"Example: {_EXAMPLE}")(check)


def check(
    proof: Annotated[
        str, typer.Argument(metavar="PROOF", help="The file that verify --proof wrote.")
    ],
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="LightGBM text, XGBoost JSON, JSON of convert, or the word sample.",
            show_default=False,
        ),
    ],
    data: options.Data = None,
    *,
    label: options.Label = None,
    classes: options.Classes = None,
    zero_based: options.ZeroBased = None,
    absent: options.Absent = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the summary only.")] = False,
) -> None:
    """Check proofs of verdicts.

    Every status in PROOF is proved again for MODEL and DATA by a program of one file,
    carvegbm_check.py, which uses nothing else of this package. The exit code is 0 if all of them
    are proved, 1 if one is not, 2 if the files are damaged or do not belong together.

    It reads CSV itself. Other DATA are read for it as verify does, and must have the content that
    PROOF names.
    """
    import carvegbm_check

    reading = inputs.Reading(label=label, classes=classes, zero_based=zero_based, absent=absent)
    try:
        report = carvegbm_check.check(
            proof,
            inputs.model_path(model),
            _instances(model, data, reading),
            label=label,
            classes=options.names(classes),
            told=(lambda _: None) if quiet else typer.echo,
        )
    except carvegbm_check.RefusedError as error:
        raise CarveError(str(error)) from None
    typer.echo(report)
    if not report.is_proved:
        raise typer.Exit(1)


def _instances(
    model: str, data: str | None, reading: inputs.Reading
) -> str | Path | tuple[list[list[float]], list[Any]]:
    """The path of a file that the checker reads; of another one the rows, in codes, and labels."""
    from carvegbm.instances.tabular import is_csv
    from carvegbm.trees.checking import checked_rows

    path = inputs.data_path(data)
    if data is None and model != inputs.SAMPLE:
        raise CarveError("DATA is missing; give the file with the instances that were verified")
    if is_csv(path):
        return path
    given = inputs.load_inputs(model, data, reading)
    return checked_rows(given.model, given.X, False, 0).rows.tolist(), given.y.tolist()
