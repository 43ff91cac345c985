"""Commands about a model alone: spread, info and convert."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from carvegbm.cli import inputs, options, output

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

Converted = Annotated[
    Path,
    typer.Argument(
        metavar="FILE.json",
        help="The file to write, see docs/ensemble-json.md.",
        show_default=False,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("spread", epilog="Example: carvegbm spread model.txt --norm inf --budget 0.01")(
        spread
    )
    app.command("info", epilog="Example: carvegbm info model.txt")(info)
    app.command("convert", epilog="Example: carvegbm convert model.txt ensemble.json")(convert)


def spread(
    model: options.Model,
    *,
    norm: options.Norm = "inf",
    budget: options.OptionalBudget = None,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    json: options.Json = False,
) -> None:
    """How far apart the thresholds of different trees are.

    The spread is the smallest distance between two thresholds of one feature in two trees. A
    model is large-spread for an attacker with a budget below half of it.
    """
    import carvegbm
    from carvegbm.attacker import check_norm

    ensemble = inputs.load_model(model)
    value = carvegbm.spread(ensemble)
    document: dict[str, Any] = {"model": model, "spread": value}
    rows = [("spread", output.number(value))]
    if check_norm(options.norm(norm)) != 0:  # whose budget is a number of features
        rows.append(("large-spread for budgets below", output.number(value / 2)))
    if budget is not None:
        attacker = inputs.load_attacker(norm, budget, scale=scale, features=features, bounds=bounds)
        answer = bool(carvegbm.is_large_spread(ensemble, attacker))
        document |= {"norm": norm, "budget": budget, "large_spread": answer}
        rows.append((f"large-spread for norm {norm}, budget {budget}", "yes" if answer else "no"))
    if json:
        output.print_json(document)
    else:
        output.print_table(_title(model, ensemble), rows)


def info(
    model: options.Model,
    *,
    classes: options.Classes = None,
    json: options.Json = False,
) -> None:
    """What a model is: task, size, classes, precision, spread."""
    import carvegbm

    ensemble = inputs.load_model(model, classes)
    used = sorted({int(f) for f in ensemble.nodes["feature"] if f >= 0})
    document = {
        "model": model,
        "task": ensemble.task,
        "classes": ensemble.classes,
        "trees": ensemble.n_trees,
        "leaves": ensemble.n_leaves,
        "features": ensemble.n_features,
        "features_used": len(used),
        "feature_names": ensemble.feature_names,
        "base_score": ensemble.base_score,
        "threshold": ensemble.threshold,
        "average": ensemble.average,
        "input_precision": ensemble.input_precision,
        "spread": carvegbm.spread(ensemble),
    }
    if json:
        output.print_json(document)
        return
    rows = [
        (key.replace("_", " "), _shown(value))
        for key, value in document.items()
        if key not in ("model", "feature_names")
    ]
    output.print_table(_title(model, ensemble), rows)


def convert(
    model: options.Model,
    file: Converted,
    *,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    json: options.Json = False,
) -> None:
    """Write a model as JSON that other programs can check.

    Whatever library the model comes from, the file holds its trees and all that its verdicts depend
    on, in one documented format. It is a MODEL for every command.
    """
    from carvegbm.files import check_apart, check_output

    check_output(file, (".json",))
    check_apart({"FILE": file}, {"MODEL": inputs.files_read(model=model)["MODEL"]})
    ensemble = inputs.load_model(model, classes, n_features)
    ensemble.save(file)
    if json:
        document = {"model": model, "file": str(file), "task": ensemble.task}
        output.print_json(document | {"trees": ensemble.n_trees, "leaves": ensemble.n_leaves})
    else:
        output.say(f"{file}: {ensemble.task}, {ensemble.n_trees} trees, {ensemble.n_leaves} leaves")


def _title(model: str, ensemble: Ensemble) -> str:
    return f"{model}: {ensemble.task}, {ensemble.n_trees} trees, {ensemble.n_features} features"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return output.number(value) if math.isfinite(value) else str(value)
    if hasattr(value, "tolist"):
        shown = [str(item) for item in value.tolist()]
        return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "") if shown else "none"
    return str(value)
