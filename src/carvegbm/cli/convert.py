"""The command convert: any model as a documented JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from carvegbm.cli.shared import inputs, options, output

Converted = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.json",
        help="The file to write, see docs/ensemble-json.md.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("convert", epilog="Example: carvegbm convert model.txt ensemble.json")(convert)


def convert(
    model: options.Model,
    file: Converted,
    *,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    trees: options.Trees = None,
    json: options.Json = False,
) -> None:
    """Write a model as JSON that other programs can check.

    Whatever library the model comes from, the file holds its trees and all that its verdicts depend
    on, in one documented format. It is a MODEL for every command.
    """
    from carvegbm.storage.files import check_apart, check_output

    check_output(file, (".json",))
    check_apart({"FILE": file}, {"MODEL": inputs.files_read(model=model)["MODEL"]})
    reading = inputs.Reading(classes=classes, n_features=n_features, trees=trees)
    ensemble = reading.load_model(model)
    ensemble.save(file)
    if json:
        document = {"model": model, "file": str(file), "task": ensemble.task}
        counts = {"trees": ensemble.n_trees, "leaves": ensemble.n_leaves}
        output.print_json({**document, **counts, **output.iterations(ensemble)})
    else:
        trees = output.counted(ensemble.n_trees, "tree")
        leaves = f"{ensemble.n_leaves} {'leaf' if ensemble.n_leaves == 1 else 'leaves'}"
        output.say(f"{file}: {ensemble.task}, {trees}, {leaves}")
