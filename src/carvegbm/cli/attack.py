"""The command attack: a witness for every instance that can be flipped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from carvegbm.cli.shared import inputs, options, output

_EXAMPLE = "carvegbm attack model.txt data.csv --norm 2 --budget 0.05 --output attacked.npz"

WitnessFile = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the witnesses and their distances (.npz), or the distances alone (.json, "
        ".csv, .parquet).",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("attack", epilog=f"Example: {_EXAMPLE}")(attack)


def attack(
    model: options.Model,
    data: options.Data = None,
    *,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
    budget: options.Budget = None,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    zero_based: options.ZeroBased = None,
    absent: options.Absent = None,
    rows: options.RowCount = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    on_violation: options.OnViolation = None,
    threads: options.Threads = None,
    out: WitnessFile = None,
    json: options.Json = False,
) -> None:
    """Find for every instance a change within the budget that flips the model's answer.

    An attack succeeds wherever verify says fragile or broken; each comes with a witness.
    """
    import carvegbm
    from carvegbm.attack import FORMATS

    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    read = inputs.files_read(model=model, data=data, label=label, attacking=attacking)
    inputs.check_outputs({"--output": out}, read, FORMATS)
    against = attacking.attacker()
    reading = inputs.Reading(label, classes, n_features, zero_based, rows, absent)
    given = inputs.load_inputs(model, data, reading)
    found = carvegbm.attack(
        given.model,
        given.X,
        given.y,
        against,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    if out is not None:
        found.save(out)
    if json:
        output.print_json({"model": model, "data": data or model, **found.to_dict()})
        return
    hits, n = int(np.sum(found.success)), len(found)
    undecided = int(np.sum(found.status == "unknown"))
    stay = n - hits - undecided
    table = [("flipped", str(hits), output.share(hits, n))]
    table.append(("cannot be flipped", str(stay), output.share(stay, n)))
    if undecided:
        table.append(("unknown", str(undecided), output.share(undecided, n)))
    if hits:
        distance = found.distance[found.success]
        table.append(("smallest distance", output.number(distance.min()), ""))
        table.append(("median distance", output.number(float(np.median(distance))), ""))
    title = f"{given.title}, norm {against.norm}, budget {against.budget:g}"
    output.print_table(title, table, align="<>>")
    output.say_written(out)
