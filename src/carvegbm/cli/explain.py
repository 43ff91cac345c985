"""The command explain: one instance, its nearest witness, and what every tree has to do with it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from carvegbm.cli.shared import inputs, options, output
from carvegbm.errors import CarveError

_EXAMPLE = "carvegbm explain model.txt data.csv --row 17 --norm inf"

Row = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=options.whole,
        help="Which instance, counted from 0, as in results and errors; needed.",
    ),
]
Budget = Annotated[
    float | None,
    typer.Option(metavar="K", parser=options.number, help="Also the status against this budget."),
]
ShowTrees = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=options.whole,
        help="Show so many trees one by one, 20 by default, and the others in one line.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("explain", epilog=f"Example: {_EXAMPLE}")(explain)


def explain(
    model: options.Model,
    data: options.Data = None,
    *,
    row: Row = None,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
    budget: Budget = None,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    zero_based: options.ZeroBased = None,
    absent: options.Absent = None,
    trees: options.Trees = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    threads: options.Threads = None,
    show_trees: ShowTrees = None,
    json: options.Json = False,
) -> None:
    """Explain one instance: how far it is from a flip, and what flips it.

    Shows the margin, the radius, the nearest witness feature by feature (no change of which can be
    taken back), and what the leaf of every tree takes from the margin.
    """
    import carvegbm
    from carvegbm.explanation.text import TREES, blocks_of

    if row is None:
        raise CarveError("--row is missing; give --row N, counted from 0")
    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    against = attacking.attacker(needs_budget=False)
    reading = inputs.Reading(label, classes, n_features, zero_based, None, absent, trees)
    given = inputs.load_inputs(model, data, reading, [against])
    asked: dict[str, Any] = {"engine": engine, "timeout": timeout, "threads": threads}
    if "budget" in attacking.arguments(needs_budget=False):
        found = carvegbm.explain(given.model, given.X, given.y, against, row=row, **asked)
    else:
        ways = {name: way for name, way in against.arguments().items() if name != "budget"}
        found = carvegbm.explain(given.model, given.X, given.y, row=row, **ways, **asked)
    if json:
        output.print_json({"model": model, "data": data or model, **found.to_dict()})
        return
    most = TREES if show_trees is None else show_trees
    for number, block in enumerate(blocks_of(found, f" of {data or model}", most)):
        if number:
            output.say()
        output.print_table(block.title, block.rows, block.align)
        for note in block.notes:
            output.say(f"  {note}")
