"""The command info: what a model is."""

from __future__ import annotations

import math
from typing import Any

import typer

from carvegbm.cli.shared import inputs, options, output


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("info", epilog="Example: carvegbm info model.txt")(info)


def info(
    model: options.Model,
    *,
    classes: options.Classes = None,
    trees: options.Trees = None,
    json: options.Json = False,
) -> None:
    """What a model is: task, size, classes, precision, spread."""
    import carvegbm

    ensemble = inputs.Reading(classes=classes, trees=trees).load_model(model)
    used = sorted({int(f) for f in ensemble.nodes["feature"] if f >= 0})
    document = {
        "model": model,
        "task": ensemble.task,
        "classes": ensemble.classes,
        "trees": ensemble.n_trees,
        **output.iterations(ensemble),
        "leaves": ensemble.n_leaves,
        "features": ensemble.n_features,
        "features_used": len(used),
        **_categorical(ensemble),
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
        (key.replace("_", " "), _shown(ensemble.iterations if key == "iterations" else value))
        for key, value in document.items()
        if key not in ("model", "feature_names")
    ]
    output.print_table(output.model_title(model, ensemble), rows)


def _categorical(ensemble: Any) -> dict[str, dict[str, int]]:
    """The number of categories of every categorical feature, where there are some."""
    if not ensemble.categories:
        return {}
    named = {ensemble.feature_name(f): len(known) for f, known in ensemble.categories.items()}
    return {"categorical": named}


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return output.number(value) if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        value = [f"{name} ({count})" for name, count in value.items()]
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list):
        shown = [str(item) for item in value]
        return ", ".join(shown[:10]) + (", …" if len(shown) > 10 else "") if shown else "none"
    return str(value)
