"""The command check: check a file of proofs with the independent checker, `carvegbm_check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from carvegbm.attackers.files import naming_file, read_document
from carvegbm.cli.shared import inputs, options
from carvegbm.errors import CarveError

_EXAMPLE = "carvegbm check verdicts.proof model.txt data.csv --expect norm=inf,budget=0.01"


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
    trees: options.Trees = None,
    zero_based: options.ZeroBased = None,
    absent: options.Absent = None,
    expect: Annotated[
        str | None,
        typer.Option(
            metavar="CLAIM",
            help="What must be proved: norm=inf,budget=0.01,rows=all,features=all, or a TOML or "
            "JSON file with an attacker.",
        ),
    ] = None,
    allow_trivial: Annotated[
        bool, typer.Option("--allow-trivial", help="Accept an attacker that can change nothing.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print the report without a line for every row.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as JSON.")] = False,
) -> None:
    """Check proofs of verdicts.

    Proves every status in PROOF again for MODEL and DATA, with carvegbm_check.py, which shares no
    code with the rest of the package, and prints every restriction of the attacker.

    docs/command-line.md lists the exit codes.

    The checker reads CSV itself. Other DATA are read for it as verify does, and must have the
    content that PROOF names.
    """
    import carvegbm_check

    reading = inputs.Reading(label, classes, None, zero_based, None, absent, trees)
    try:
        report = carvegbm_check.check(
            proof,
            inputs.model_path(model),
            _rows(model, data, reading),
            label=label,
            classes=options.names(classes),
            trees=trees or "best",
            expect=expect,
            read_file=_read,
            allow_trivial=allow_trivial,
            on_row=(lambda _: None) if quiet or as_json else typer.echo,
        )
    except carvegbm_check.RefusedError as error:
        raise CarveError(str(error)) from None
    typer.echo(json.dumps(report.document(), indent=1) if as_json else report)
    if report.exit_code:
        raise typer.Exit(report.exit_code)


def _read(path: str) -> Any:
    """The TOML or JSON document with an expectation."""
    with naming_file(path):
        return read_document(path)


def _rows(
    model: str, data: str | None, reading: inputs.Reading
) -> str | Path | tuple[list[list[float]], list[Any], str]:
    """The path of a CSV file; of other data the encoded rows, their labels and where from."""
    from carvegbm.data.files import is_csv
    from carvegbm.model.rows import checked_rows

    path = inputs.data_path(data)
    if data is None and model != inputs.SAMPLE:
        raise CarveError("DATA is missing; give the file with the instances that were verified")
    if is_csv(path):
        return path
    given = inputs.load_inputs(model, data, reading)
    rows = checked_rows(given.model, given.X, False, 0).rows.tolist()
    return rows, given.y.tolist(), f"{path}, as carvegbm verify reads it"
