"""The command attacker: a first attacker from data, as a file to edit."""

from __future__ import annotations

from typing import Any

from carvegbm.cli import inputs, options, output
from carvegbm.cli.options import command
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output, replacing

_NORM = options.NORM.variant(default=0, help="Norm to write: 0, 1, 2, …, inf.", show_default=True)
_BUDGET = options.BUDGET.variant(default=1.0, help="Budget to write.", show_default=True)


@command(
    options.TABLE,
    (_NORM, _BUDGET, options.LABEL, options.ZERO_BASED),
    options.output_file("File to write, .toml or .json; by default stdout."),
    options.JSON,
    example="carvegbm attacker data.csv -o attacker.toml",
)
def attacker(given: Any) -> None:
    """Write a first attacker for such data, to be edited and given to --attacker.

    It may change every feature within what is found in all rows: whole numbers and grey levels
    (steps), ranges (bounds), one-hot groups, categories.
    """
    from carvegbm import Attacker
    from carvegbm.attackers.suggest import read_table, suggest
    from carvegbm.data.csv import LABELS

    out = given.output
    if out is not None:
        check_output(out, (".toml", ".json"))
        check_apart({"--output": out}, inputs.files_read(given, given.data))
        if out.exists():
            raise CarveError(
                f"{out} is there already, maybe edited; delete it or give another name"
            )
    table = read_table(inputs.data_path(given.data), label=given.label, zero_based=given.zero_based)
    if given.label is None and table.label is not None and table.label.lower() not in LABELS:
        output.note(f"{table.label!r} is taken for the label; give --label if it is another")
    found = suggest(table.X, table.names, table.texts)
    arguments = found.arguments(table.names, given.norm, given.budget)
    made = Attacker(**arguments)
    if given.json:
        output.print_json(made.to_dict())
    if out is None:
        if not given.json:
            output.say(found.to_toml(arguments, given.data).rstrip("\n"))
        return
    with replacing(out) as temporary:
        if out.suffix == ".json":
            from json import dumps

            text = dumps(made.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        else:
            text = found.to_toml(arguments, given.data)
        temporary.write_text(text, encoding="utf-8")
    output.say_written(out)
