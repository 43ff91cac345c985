"""The command attacker: a first attacker from data, as a file to edit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from carvegbm.cli.shared import inputs, options, output
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output, replacing

_EXAMPLE = "carvegbm attacker data.csv -o attacker.toml"

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, LIBSVM, .npz, .npy or Parquet file with labels, or the word sample.",
        show_default=False,
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="File to write, .toml or .json; by default stdout."
    ),
]
Norm = Annotated[str, typer.Option(metavar="P", help="Norm to write: 0, 1, 2, …, inf.")]
Budget = Annotated[float, typer.Option(metavar="K", parser=options.number, help="Budget to write.")]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("attacker", epilog=f"Example: {_EXAMPLE}")(attacker)


def attacker(
    data: Data,
    *,
    norm: Norm = "0",
    budget: Budget = 1.0,
    label: options.Label = None,
    zero_based: options.ZeroBased = None,
    out: File = None,
    json: options.Json = False,
) -> None:
    """Write a first attacker for such data, to be edited and given to --attacker.

    It may change every feature within what is found in all rows: whole numbers and grey levels
    (steps), ranges (bounds), one-hot groups, categories.
    """
    from carvegbm import Attacker
    from carvegbm.attackers.suggest import read_table, suggest
    from carvegbm.data.csv import LABELS

    if out is not None:
        check_output(out, (".toml", ".json"))
        check_apart({"--output": out}, inputs.files_read(data=data, label=label))
        if out.exists():
            raise CarveError(
                f"{out} is there already, maybe edited; delete it or give another name"
            )
    table = read_table(inputs.data_path(data), label=label, zero_based=zero_based)
    if label is None and table.label is not None and table.label.lower() not in LABELS:
        output.note(f"{table.label!r} is taken for the label; give --label if it is another")
    found = suggest(table.X, table.names, table.texts)
    arguments = found.arguments(table.names, options.norm(norm) or 0, budget)
    made = Attacker(**arguments)
    if json:
        output.print_json(made.to_dict())
    if out is None:
        if not json:
            output.say(found.to_toml(arguments, data).rstrip("\n"))
        return
    with replacing(out) as temporary:
        if out.suffix == ".json":
            from json import dumps

            text = dumps(made.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        else:
            text = found.to_toml(arguments, data)
        temporary.write_text(text, encoding="utf-8")
    output.say_written(out)
