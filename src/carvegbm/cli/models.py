"""The commands info, spread, convert and check."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from carvegbm.attackers.files import naming_file, read_document
from carvegbm.cli import inputs, options, output
from carvegbm.cli.options import Argument, Option, command
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output

_MODEL = (options.MODEL, options.ITERATIONS)


@command(_MODEL, options.CLASSES, options.JSON, example="carvegbm info model.txt")
def info(given: Any) -> None:
    """What a model is: task, size, classes, precision, spread."""
    import carvegbm

    ensemble = inputs.load_model(given)
    used = {int(f) for f in ensemble.nodes["feature"] if f >= 0}
    categories = {ensemble.feature_name(f): len(c) for f, c in ensemble.categories.items()}
    document = {
        "model": given.model,
        "task": ensemble.task,
        "classes": ensemble.classes,
        "trees": ensemble.n_trees,
        **output.iterations(ensemble),
        "leaves": ensemble.n_leaves,
        "features": ensemble.n_features,
        "features_used": len(used),
        **({"categorical": categories} if categories else {}),
        "feature_names": ensemble.feature_names,
        "base_score": ensemble.base_score,
        "threshold": ensemble.threshold,
        "average": ensemble.average,
        "input_precision": ensemble.input_precision,
        "spread": carvegbm.spread(ensemble),
    }
    if given.json:
        output.print_json(document)
        return
    rows = [
        (key.replace("_", " "), _shown(ensemble.iterations if key == "iterations" else value))
        for key, value in document.items()
        if key not in ("model", "feature_names")
    ]
    output.print_table(output.model_title(given.model, ensemble), rows)


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


@command(
    _MODEL,
    options.ATTACKER,
    options.JSON,
    example="carvegbm spread model.txt --norm inf --budget 0.01",
)
def spread(given: Any) -> None:
    """How far apart the thresholds of different trees are.

    The spread is the smallest distance between two thresholds of one feature in two trees. A
    model is large-spread for an attacker with a budget below half of it.
    """
    import carvegbm
    from carvegbm.attackers.spread import largest_budget

    against = inputs.attacker(given, needs_budget=False)
    ensemble = inputs.load_model(given)
    value = carvegbm.spread(ensemble)
    document: dict[str, Any] = {
        "model": given.model,
        **output.iterations(ensemble),
        "spread": value,
    }
    rows = [("spread", output.number(value))]
    if against.norm != 0:  # whose budget is a number of features
        if against.has_limits_of(carvegbm.Attacker(against.norm, 0)):
            rows.append(("large-spread for budgets below", output.number(value / 2)))
        else:
            largest = largest_budget(ensemble, against)
            rows.append(("large-spread for budgets up to", output.number(largest)))
    if "budget" in inputs.attacker_arguments(given, needs_budget=False):
        answer = bool(carvegbm.is_large_spread(ensemble, against))
        document |= {"norm": str(against.norm), "budget": against.budget, "large_spread": answer}
        what = f"large-spread for norm {against.norm}, budget {against.budget}"
        rows.append((what, "yes" if answer else "no"))
    if given.json:
        output.print_json(document)
    else:
        output.print_table(output.model_title(given.model, ensemble), rows)


@command(
    _MODEL,
    Argument("FILE.json", "The file to write, see docs/ensemble-json.md.", type=options.FILE),
    (options.CLASSES, options.N_FEATURES, options.JSON),
    example="carvegbm convert model.txt ensemble.json",
)
def convert(given: Any) -> None:
    """Write a model as JSON that other programs can check.

    Whatever library the model comes from, the file holds its trees and all that its verdicts depend
    on, in one documented format. It is a MODEL for every command.
    """
    check_output(given.file, (".json",))
    check_apart({"FILE": given.file}, {"MODEL": str(inputs.model_path(given.model))})
    ensemble = inputs.load_model(given)
    ensemble.save(given.file)
    if given.json:
        document = {"model": given.model, "file": str(given.file), "task": ensemble.task}
        counts = {"trees": ensemble.n_trees, "leaves": ensemble.n_leaves}
        output.print_json({**document, **counts, **output.iterations(ensemble)})
    else:
        trees = output.counted(ensemble.n_trees, "tree")
        leaves = f"{ensemble.n_leaves} {'leaf' if ensemble.n_leaves == 1 else 'leaves'}"
        output.say(f"{given.file}: {ensemble.task}, {trees}, {leaves}")


@command(
    Argument("PROOF", "The file that verify --proof wrote."),
    Argument("MODEL", "LightGBM text, XGBoost JSON, JSON of convert, or the word sample."),
    options.DATA,
    (options.LABEL, options.CLASSES, options.ITERATIONS, options.ZERO_BASED, options.ABSENT),
    Option(
        "--expect CLAIM",
        "What must be proved: norm=inf,budget=0.01,rows=all,features=all, or a TOML or JSON "
        "file with an attacker.",
        "Attacker",
    ),
    Option("--allow-trivial", "Accept an attacker that can change nothing.", "Attacker"),
    Option("--quiet", "Print the report without a line for every row.", "Output"),
    options.JSON,
    example="carvegbm check verdicts.proof model.txt data.csv --expect norm=inf,budget=0.01",
)
def check(given: Any) -> int:
    """Check proofs of verdicts.

    Proves every status in PROOF again for MODEL and DATA, with carvegbm_check.py, which shares no
    code with the rest of the package, and prints every restriction of the attacker.

    docs/command-line.md lists the exit codes.

    The checker reads CSV itself. Other DATA are read for it as verify does, and must have the
    content that PROOF names.
    """
    import carvegbm_check

    def read(path: str) -> Any:
        with naming_file(path):
            return read_document(path)

    try:
        report = carvegbm_check.check(
            given.proof,
            inputs.model_path(given.model),
            _rows(given),
            label=given.label,
            classes=options.labels(given.classes),
            trees=given.trees or "best",
            expect=given.expect,
            read_file=read,
            allow_trivial=given.allow_trivial,
            on_row=(lambda _: None) if given.quiet or given.json else click.echo,
        )
    except carvegbm_check.RefusedError as error:
        raise CarveError(str(error)) from None
    click.echo(json.dumps(report.document(), indent=1) if given.json else report)
    return report.exit_code


def _rows(given: Any) -> str | Path | tuple[list[list[float]], list[Any], str]:
    """Return the path of a CSV file; of other data the encoded rows, their labels and the path."""
    from carvegbm.data.files import is_csv
    from carvegbm.model.rows import checked_rows

    path = inputs.data_path(given.data)
    if given.data is None and given.model != inputs.SAMPLE:
        raise CarveError("DATA is missing; give the file with the instances that were verified")
    if is_csv(path):
        return path
    loaded = inputs.load_inputs(given)
    assert loaded.y is not None
    rows = checked_rows(loaded.model, loaded.X, False, 0).rows.tolist()
    return rows, loaded.y.tolist(), f"{path}, as carvegbm verify reads it"
