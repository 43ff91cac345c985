"""The command radius: the smallest budget that flips each instance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import typer

from carvegbm.cli.shared import inputs, options, output

if TYPE_CHECKING:
    from carvegbm.radius import Radius

_EXAMPLE = "carvegbm radius model.txt data.csv --norm 1 --output radius.csv"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("radius", epilog=f"Example: {_EXAMPLE}")(radius)


def radius(
    model: options.Model,
    data: options.Data = None,
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
    rows: options.RowCount = None,
    max_budget: options.MaxBudget = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    threads: options.Threads = None,
    out: options.Output = None,
    json: options.Json = False,
) -> None:
    """Find for every instance the smallest budget that flips the model's answer.

    The radius is 0 where the answer is wrong already. It is exact; where time runs out, the bounds
    say what is known.
    """
    import carvegbm

    attacking = inputs.Attacking(attacker, norm, None, scale, features, bounds)
    read = inputs.files_read(model=model, data=data, label=label, attacking=attacking)
    inputs.check_outputs({"--output": out}, read)
    against = attacking.attacker(needs_budget=False)
    reading = inputs.Reading(label, classes, n_features, zero_based, rows, absent)
    given = inputs.load_inputs(model, data, reading)
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
    if out is not None:
        result.save(out)
    if json:
        output.print_json({"model": model, "data": data or model, **result.to_dict()})
        return
    output.print_table(f"{given.title}, norm {result.norm}", _table(result, max_budget))
    output.say_written(out)


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
