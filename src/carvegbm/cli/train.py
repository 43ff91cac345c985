"""The command train: from a table of instances to a large-spread or robust model file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import typer

from carvegbm.cli.shared import inputs, options, output
from carvegbm.errors import CarveError, DataError
from carvegbm.storage.files import (
    check_apart,
    check_output,
    finished_or_partial,
    partial_path,
)
from carvegbm.storage.resume import check_unfinished

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.data.table import Table
    from carvegbm.training.report import TrainingReport

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, LIBSVM, .npz, .npy or Parquet file with labels.",
        show_default=False,
    ),
]
Valid = Annotated[
    str | None,
    typer.Option(
        metavar="DATA",
        help="Validation data; by default, if training needs them, a part of DATA is split off.",
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option(metavar="R", help="Weight of every tree; default 0.1, robust 0.15."),
]
EarlyStopping = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=options.integer,
        help="Stop after N rounds without a better validation metric.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", parser=options.integer, help="Seed of everything random.")
]
Parameter = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="Any parameter of LightGBM, with --robust of RobustClassifier; repeatable.",
    ),
]
ModelOut = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Model file to write; by default model.txt, if there is none yet.",
    ),
]
Categorical = Annotated[
    str | None,
    typer.Option(
        metavar="F,G",
        help="Columns that hold categories, texts or numbers, by name or position.",
    ),
]
Certified = Annotated[
    bool,
    typer.Option(
        "--certified",
        help="Large-spread and robust: no crowded thresholds, and refitted leaf scores.",
    ),
]
Robust = Annotated[
    bool,
    typer.Option(
        "--robust", help="Grow trees against the attacker, without the large-spread condition."
    ),
]
MaxCrowding = Annotated[
    str | None,
    typer.Option(
        metavar="T,…",
        help="Leave out thresholds with more than this share of a class's rows within the "
        "attacker's reach; several values, or none, to try. Of --robust and --certified.",
    ),
]
CleanLoss = Annotated[
    float | None,
    typer.Option(
        metavar="L",
        help="Accuracy that --robust and --certified may give up, compared with plain LightGBM or "
        "with the most accurate trial, if that is less; default certified 0.01, robust any; 1 for "
        "any.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Show every trial, not only the chosen one.")
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "train",
        epilog="Example: carvegbm train data.csv --norm inf --budget 0.01 --num-leaves 16 "
        "--trees 500 --early-stopping 50 -o model.txt",
    )(train)


def train(
    data: Data,
    *,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
    budget: options.Budget = None,
    num_leaves: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=options.integer,
            help="Leaves per tree, at most; default 31, robust 32.",
        ),
    ] = None,
    trees: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=options.integer,
            help="Rounds of boosting, at most; default 100, robust 120.",
        ),
    ] = None,
    learning_rate: LearningRate = None,
    valid: Valid = None,
    early_stopping: EarlyStopping = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="LightGBM's metric to watch, or robustness."),
    ] = None,
    task: Annotated[
        Literal["classification", "regression"], typer.Option(help="What the labels are.")
    ] = "classification",
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    robust: Robust = False,
    certified: Certified = False,
    max_crowding: MaxCrowding = None,
    clean_loss: CleanLoss = None,
    label: options.Label = None,
    zero_based: options.ZeroBased = None,
    categorical: Categorical = None,
    time_limit: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Of --robust: return the best model trained by then."),
    ] = None,
    param: Parameter = None,
    seed: Seed = 0,
    threads: options.Threads = None,
    out: ModelOut = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: options.Json = False,
) -> None:
    """Train a model for exact verification: large-spread with LightGBM, or robust.

    Large-spread: after every tree, thresholds too close to its own are closed to later trees, so
    that verification takes microseconds per row. --robust: trees are grown against the attacker,
    and the most robust of several configurations is kept. Either way the model file is an ordinary
    LightGBM model.
    """
    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    against = attacking.attacker()
    read = inputs.files_read(data=data, label=label, valid=valid, attacking=attacking)
    out = check_model_path(out, read)
    defence = defence_parameters(robust, certified, max_crowding, clean_loss)
    if time_limit is not None and not robust:
        raise CarveError(f"--time-limit {time_limit:g} has no meaning without --robust; drop it")
    validates = valid is not None or (not robust and (early_stopping is not None or certified))
    if metric is not None and robust:
        raise CarveError(f"--metric {metric} has no meaning with --robust; drop it")
    if metric is not None and not validates:
        raise CarveError(
            f"--metric {metric} needs validation data; add --valid DATA, or --early-stopping N to "
            "split a fifth off"
        )
    named: dict[str, Any] = {
        **dict.fromkeys(("scale", "features", "bounds")),
        **attacking.arguments(),
        "num_leaves": num_leaves,
        "n_estimators": trees,
        "learning_rate": learning_rate,
        "random_state": seed,
        "n_jobs": threads,
        "verbose": 0 if quiet or json else 2 if verbose else 1,
        **defence,
    }
    if robust:
        named["time_limit"] = time_limit
    model: Any = _estimator(task, robust)(**with_parameters(named, param))
    reading = Reading(label, zero_based, categorical)
    table = reading.table(data)
    held_out = None
    if validates:
        stratify = task == "classification"
        table, held_out = with_validation(table, valid, reading, seed, stratify)
    warn_if_unscaled(table, against)
    started = time.monotonic()
    model.fit(
        table.X,
        table.y,
        eval_set=None if held_out is None else [(held_out.X, held_out.y)],
        eval_metric=metric,
        early_stopping_rounds=early_stopping,
        feature_names=table.feature_names,
    )
    seconds = time.monotonic() - started
    finished = model.stopped_because_ != "interrupted"
    with finished_or_partial(out, finished) as written:
        model.save_model(written)
    kept = f"{written} holds the finished model"
    if not finished:
        kept = (
            f"{written} holds an unfinished model of "
            f"{output.counted(model.ensemble_.n_trees, 'tree')}; "
            f"{output.untouched(out)}; give the same command again to train from the start"
        )
    rows = output.counted(len(table.y), "row")
    title = f"trained on {rows} for norm {against.norm} and budget {against.budget:g}"
    try:
        document = _document(model, written, robust, held_out if finished else None)
        document["seconds"] = round(seconds, 3)
        if json:
            output.print_json(document)
        else:
            _show(model, written, title, document, verbose)
        if not finished:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise output.Interrupted(kept) from None


def _document(model: Any, path: Path, robust: bool, held_out: Table | None) -> dict[str, Any]:
    """Return what --json prints about the fitted model that was written to `path`."""
    report: TrainingReport | None = getattr(model, "training_report_", None)
    document = {"model": str(path), **describe(model, robust)}
    if robust and report is not None:  # the model may have been trained on these rows since
        document |= {f"validation {name}": v for name, v in report.chosen.measures.items()}
    elif held_out is not None:
        document |= judge(model, held_out)
    return document if report is None else {**document, "training report": report.to_dict()}


def _show(model: Any, path: Path, title: str, document: dict[str, Any], verbose: bool) -> None:
    """Print a summary of the fitted model, after its trials if `verbose`."""
    report: TrainingReport | None = getattr(model, "training_report_", None)
    if report is None:
        lines = [(key, shown(value)) for key, value in document.items() if key not in _LAST]
    else:
        if verbose:
            show_trials(report)
        lines = report.summary()
        if model.stopped_because_ in ("interrupted", "time limit"):
            lines.append(("stopped because", model.stopped_because_))
        if "spread" in document:
            lines.append(("spread", shown(document["spread"])))
    output.print_table(title, [*lines, *outcome(document["seconds"], path)], align="<<")
    if hasattr(model, "classes_"):
        say_classes(path, model.classes_)


_LAST = ("model", "seconds")  # shown last


def _estimator(task: str, robust: bool) -> Any:
    """The class to train."""
    from carvegbm.training import estimators

    family = "Robust" if robust else "LargeSpread"
    kind = "Classifier" if task == "classification" else "Regressor"
    return getattr(estimators, family + kind)


# ── shared with the command tune ─────────────────────────────────────────────────────────────


def check_model_path(given: Path | None, read: dict[str, str]) -> Path:
    """The path to write the model to; refused if it could not be written in the end, or is read.

    What stands at the default path is not replaced unasked.
    """
    path = Path("model.txt") if given is None else given
    if given is None and path.exists():
        raise CarveError(f"{path} is there already; name the file to write with -o")
    for name, written in (("--output", path), ("an unfinished --output", partial_path(path))):
        check_output(written, None)
        check_apart({name: written}, read)
    check_unfinished(path)
    return path


def defence_parameters(
    robust: bool, certified: bool, max_crowding: str | None, clean_loss: float | None
) -> dict[str, Any]:
    """What robust and certified training are told; their options are refused without them."""
    if robust and certified:
        raise CarveError("--robust and --certified exclude each other; give one of them")
    for option, given in (("--max-crowding", max_crowding), ("--clean-loss", clean_loss)):
        if given is not None and not (robust or certified):
            raise CarveError(f"{option} has no meaning without --certified or --robust")
    found: dict[str, Any] = {} if robust else {"certified": certified}
    if clean_loss is not None:
        found["clean_loss"] = clean_loss
    if max_crowding is not None:
        try:
            found["max_crowding"] = tuple(
                None if part.strip() == "none" else float(part) for part in max_crowding.split(",")
            )
        except ValueError:
            raise CarveError(
                f"--max-crowding {max_crowding}: write shares from 0 to 1, or none, separated by "
                "commas"
            ) from None
    return found


def with_parameters(named: dict[str, Any], given: Sequence[str] | None) -> dict[str, Any]:
    """`named` and every NAME=VALUE, as Python values: numbers, truth values, lists, else text.

    What is None was not said, and is left to the estimator.
    """
    found: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise CarveError(f"--param {text}: write NAME=VALUE")
        if name in named or name in found:
            how = "has an option of its own, see --help" if name in named else "is given twice"
            raise CarveError(f"--param {name} {how}")
        found[name] = _value(value)
    return {name: value for name, value in named.items() if value is not None} | found


def _value(text: str) -> Any:
    from json import JSONDecodeError, loads

    for attempt in (text, text.lower(), f"[{text}]" if "," in text else text):
        try:
            return loads(attempt)
        except JSONDecodeError:
            continue
    return text


@dataclass(frozen=True)
class Reading:
    """How files of instances are read."""

    label: str | None = None
    zero_based: bool | None = None
    categorical: str | None = None

    def table(self, path: str, n_features: int | None = None) -> Table:
        """The instances of a file; categories are kept as they are called there."""
        from carvegbm.data.files import load_table

        try:
            return load_table(
                path,
                label=self.label,
                zero_based=self.zero_based,
                n_features=n_features,
                sparse=True,
                categorical=options.features(self.categorical) or (),
            )
        except DataError as error:
            if not any(words in str(error) for words in ("is not a number", "must be numbers")):
                raise
            raise DataError(
                f"{error}; if the column holds categories, name it with --categorical"
            ) from None


def warn_if_unscaled(table: Table, attacker: Attacker) -> None:
    """Warn if the attacker has one budget for columns of very different ranges."""
    from carvegbm.data.rows import ObjectTable
    from carvegbm.training.validation import blank_ensemble

    X = table.X
    if isinstance(X, ObjectTable):
        columns = [values.dtype.kind == "f" for values in X.values]
        X = np.column_stack(
            [v if known else np.zeros(len(v)) for v, known in zip(X.values, columns, strict=True)]
        )
    inputs.warn_if_unscaled(blank_ensemble(X.shape[1], table.feature_names), X, [attacker])


def with_validation(
    table: Table, valid: str | None, reading: Reading, seed: int, stratify: bool = True
) -> tuple[Table, Table]:
    """Training and validation data: from a second file, or a fifth split off."""
    if valid is not None:
        held_out = reading.table(valid, table.X.shape[1])
        held_out = held_out.ordered_as(table.feature_names, valid)
        if held_out.X.shape[1] != table.X.shape[1]:
            raise DataError(
                f"{valid} has {held_out.X.shape[1]} features, the training data have "
                f"{table.X.shape[1]}; give data with the same columns"
            )
        return table, held_out
    from dataclasses import replace

    from carvegbm.training.validation import split_off

    rows, rest = split_off(np.asarray(table.y), seed, stratify)
    return (
        replace(table, X=table.X[rows], y=table.y[rows]),
        replace(table, X=table.X[rest], y=table.y[rest]),
    )


def show_trials(report: TrainingReport) -> None:
    """Print the trials of a report, and why one was chosen."""
    output.say("trials, measured on validation rows")
    for line in str(report).splitlines():
        output.say(f"  {line}".rstrip())
    output.say()


def outcome(seconds: float, path: Path) -> list[tuple[str, str]]:
    """Return the last lines of a summary."""
    return [("time", f"{seconds:.1f} s"), ("file", str(path))]


def describe(model: Any, robust: bool) -> dict[str, Any]:
    """Return the size of a fitted model, and its spread unless it is robust."""
    from carvegbm import spread

    return {
        "trees": model.ensemble_.n_trees,
        "leaves": model.ensemble_.n_leaves,
        "stopped because": model.stopped_because_,
        **({} if robust else {"spread": spread(model.ensemble_)}),
    }


def judge(model: Any, held_out: Table) -> dict[str, Any]:
    """How the model does on validation data."""
    score = model.score(held_out.X, held_out.y)
    if not hasattr(model, "classes_"):
        return {"validation R²": score}
    robust = model.robust_score(held_out.X, held_out.y)
    return {"validation accuracy": score, "validation robustness": robust}


def shown(value: Any) -> str:
    """A value as people read it."""
    return output.number(value) if isinstance(value, float) else str(value)


def say_classes(path: Path, classes: Any) -> None:
    """The model file does not hold labels: say how to name them later."""
    if classes.tolist() != list(range(len(classes))):
        listed = ",".join(str(label) for label in classes.tolist())
        output.note(f"{path} does not hold labels; name them: carvegbm verify --classes {listed}")
