"""The command spread: how far apart thresholds are."""

from __future__ import annotations

from typing import Any

import typer

from carvegbm.cli.shared import inputs, options, output

_EXAMPLE = "carvegbm spread model.txt --norm inf --budget 0.01"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("spread", epilog=f"Example: {_EXAMPLE}")(spread)


def spread(
    model: options.Model,
    *,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
    budget: options.OptionalBudget = None,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    trees: options.Trees = None,
    json: options.Json = False,
) -> None:
    """How far apart the thresholds of different trees are.

    The spread is the smallest distance between two thresholds of one feature in two trees. A
    model is large-spread for an attacker with a budget below half of it.
    """
    import carvegbm
    from carvegbm.attackers.spread import largest_budget

    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    against = attacking.attacker(needs_budget=False)
    ensemble = inputs.Reading(trees=trees).load_model(model)
    value = carvegbm.spread(ensemble)
    document: dict[str, Any] = {"model": model, **output.iterations(ensemble), "spread": value}
    rows = [("spread", output.number(value))]
    if against.norm != 0:  # whose budget is a number of features
        if against.has_limits_of(carvegbm.Attacker(against.norm, 0)):
            rows.append(("large-spread for budgets below", output.number(value / 2)))
        else:
            largest = largest_budget(ensemble, against)
            rows.append(("large-spread for budgets up to", output.number(largest)))
    if "budget" in attacking.arguments(needs_budget=False):
        answer = bool(carvegbm.is_large_spread(ensemble, against))
        asked = {"norm": str(against.norm), "budget": against.budget}
        document |= {**asked, "large_spread": answer}
        what = f"large-spread for norm {against.norm}, budget {against.budget}"
        rows.append((what, "yes" if answer else "no"))
    if json:
        output.print_json(document)
    else:
        output.print_table(output.model_title(model, ensemble), rows)
