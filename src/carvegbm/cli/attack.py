"""The command attack: a witness for every instance that can be flipped."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from carvegbm.cli.shared import folders, inputs, options, output

_EXAMPLE = "carvegbm attack model.txt data.csv --norm 2 --budget 0.05 --output attacked.npz"

WitnessFile = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE|FOLDER/",
        help="Write the witnesses and their distances (.npz), or the distances alone (.json, "
        ".csv, .parquet); or a folder, with a file of both per file of DATA.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("attack", epilog=f"Example: {_EXAMPLE}")(attack)


def attack(
    model: options.Model,
    data: options.DataFiles = None,
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
    trees: options.Trees = None,
    rows: options.RowCount = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    on_violation: options.OnViolation = None,
    threads: options.Threads = None,
    out: WitnessFile = None,
    form: options.Form = None,
    resume: options.ResumeFolder = False,
    json: options.Json = False,
) -> None:
    """Find for every instance a change within the budget that flips the model's answer.

    An attack succeeds wherever verify says fragile or broken; each comes with a witness.
    """
    import carvegbm
    from carvegbm.attack import FORMATS

    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    reading = inputs.Reading(label, classes, n_features, zero_based, rows, absent, trees)
    if folders.is_by_parts(data or [], out):
        asked = folders.Asked(model, data or [], reading, out, form, resume, threads)
        _attack_parts(
            asked, attacking, json, engine=engine, timeout=timeout, on_violation=on_violation
        )
        return
    file, out_file = folders.one_file(data or [], out, resume=resume, form=form)
    read = inputs.files_read(model=model, data=file, label=label, attacking=attacking)
    inputs.check_outputs({"--output": out_file}, read, FORMATS)
    against = attacking.attacker()
    given = inputs.load_inputs(model, file, reading, [against])
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
    if out_file is not None:
        found.save(out_file)
    if json:
        output.print_json({"model": model, "data": file or model, **found.to_dict()})
        return
    hits, n = int(np.sum(found.success)), len(found)
    table = _table(hits, n, int(np.sum(found.status == "unknown")))
    if hits:
        distance = found.distance[found.success]
        table.append(("smallest distance", output.number(distance.min()), ""))
        table.append(("median distance", output.number(float(np.median(distance))), ""))
    title = f"{given.title}, norm {against.norm}, budget {against.budget:g}"
    output.print_table(title, table, align="<>>")
    output.say_written(out_file)


def _attack_parts(
    asked: folders.Asked, attacking: inputs.Attacking, json: bool, **settings: Any
) -> None:
    from carvegbm.scale.query import Query
    from carvegbm.verifier import Verifier

    against = attacking.attacker()
    found = asked.answers(lambda ensemble: Query("attack", Verifier(ensemble, against, **settings)))
    if json:
        found.print_json()
        return
    totals = found.totals
    table = _table(totals.successes, totals.instances, totals.unknown)
    if totals.successes:
        table.append(("smallest distance", output.number(totals.nearest), ""))
    title = f"{found.title}, norm {against.norm}, budget {against.budget:g}"
    output.print_table(title, table, align="<>>")
    output.say_written(found.folder)


def _table(hits: int, n: int, undecided: int) -> list[tuple[str, ...]]:
    stay = n - hits - undecided
    table: list[tuple[str, ...]] = [("flipped", str(hits), output.share(hits, n))]
    table.append(("cannot be flipped", str(stay), output.share(stay, n)))
    if undecided:
        table.append(("unknown", str(undecided), output.share(undecided, n)))
    return table
