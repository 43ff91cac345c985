"""The command radius: the smallest budget that flips each instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import typer

from carvegbm.cli.shared import folders, inputs, options, output

if TYPE_CHECKING:
    from carvegbm.radius import Radius
    from carvegbm.totals import RadiusTotals

_EXAMPLE = "carvegbm radius model.txt data.csv --norm 1 --output radius.csv"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("radius", epilog=f"Example: {_EXAMPLE}")(radius)


def radius(
    model: options.Model,
    data: options.DataFiles = None,
    *,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
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
    max_budget: options.MaxBudget = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    threads: options.Threads = None,
    out: options.Output = None,
    form: options.Form = None,
    resume: options.ResumeFolder = False,
    json: options.Json = False,
) -> None:
    """Find for every instance the smallest budget that flips the model's answer.

    The radius is 0 where the answer is wrong already. It is exact; where time runs out, the bounds
    say what is known.
    """
    import carvegbm

    attacking = inputs.Attacking(attacker, norm, None, scale, features, bounds)
    reading = inputs.Reading(label, classes, n_features, zero_based, rows, absent, trees)
    if folders.is_by_parts(data or [], out):
        asked = folders.Asked(model, data or [], reading, out, form, resume, threads)
        _measure_parts(
            asked, attacking, json, engine=engine, timeout=timeout, max_budget=max_budget
        )
        return
    file, out_file = folders.one_file(data or [], out, resume=resume, form=form)
    read = inputs.files_read(model=model, data=file, label=label, attacking=attacking)
    inputs.check_outputs({"--output": out_file}, read)
    against = attacking.attacker(needs_budget=False)
    given = inputs.load_inputs(model, file, reading, [against])
    result = carvegbm.radius(
        given.model,
        given.X,
        given.y,
        against,
        max_budget=max_budget,
        engine=engine,
        timeout=timeout,
        threads=threads,
    )
    if out_file is not None:
        result.save(out_file)
    if json:
        output.print_json({"model": model, "data": file or model, **result.to_dict()})
        return
    output.print_table(f"{given.title}, norm {result.norm}", _table(result, max_budget))
    output.say_written(out_file)


def _measure_parts(
    asked: folders.Asked,
    attacking: inputs.Attacking,
    json: bool,
    *,
    max_budget: float | None,
    **settings: Any,
) -> None:
    from carvegbm.scale.query import Query
    from carvegbm.verifier import Verifier

    against = attacking.attacker(needs_budget=False)
    found = asked.answers(
        lambda ensemble: Query(
            "radius", Verifier(ensemble, against, **settings), max_budget=max_budget
        )
    )
    if json:
        found.print_json()
        return
    title = f"{found.title}, norm {found.totals.norm}"
    output.print_table(title, _table_of_totals(found.totals, max_budget))
    output.say_written(found.folder)


def _table_of_totals(totals: RadiusTotals, max_budget: float | None) -> list[tuple[str, ...]]:
    """As for radii one by one, without what only all of them together tell: the median."""
    table: list[tuple[str, ...]] = [("wrong already", str(totals.wrong))]
    if totals.wrong < totals.instances:
        smallest = min(totals.smallest, totals.undecided_from)
        bound = "≥ " if totals.undecided_from < totals.smallest else ""
        table.append(("smallest radius of the others", bound + output.number(smallest)))
        largest = totals.largest
        bound = ""
        if totals.undecided:
            largest, bound = max(largest, totals.undecided_from), "≥ "
        table.append(("largest radius of the others", bound + output.number(largest)))
    if totals.undecided:
        what = "not decided" if max_budget is None else "not decided, or beyond --max-budget"
        table.append((what, str(totals.undecided)))
    return table


def _table(result: Radius, max_budget: float | None) -> list[tuple[str, ...]]:
    # What is not decided lies beyond all that is, so that lower bounds are in the right order.
    right = np.flatnonzero(result.radius != 0)
    order = right[np.argsort(result.lower[right], kind="stable")]
    table: list[tuple[str, ...]] = [("wrong already", str(len(result) - len(right)))]
    for name, share in (("smallest", 0.0), ("median", 0.5), ("largest", 1.0)):
        if len(order):
            at = order[int(share * (len(order) - 1))]
            bound = "" if result.exact[at] else "≥ "
            table.append((f"{name} radius of the others", bound + output.number(result.lower[at])))
    limit = np.inf if max_budget is None else max_budget
    beyond = ~result.exact & (result.lower > limit)
    for what, which in (("beyond --max-budget", beyond), ("not decided", ~result.exact & ~beyond)):
        if which.any():
            table.append((what, str(int(which.sum()))))
    return table
