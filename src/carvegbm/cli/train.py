"""The commands train and tune: from labelled rows to a large-spread or robust model file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from carvegbm.cli import inputs, options, output
from carvegbm.cli.options import Option, command
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
    from carvegbm.training.report import TrainingReport, Trial

_ROBUST = Option(
    "--robust", "Grow trees against the attacker, without the large-spread condition.", "Training"
)
_CERTIFIED = Option(
    "--certified",
    "Large-spread and robust: no crowded thresholds, and refitted leaf scores.",
    "Training",
)
_TREES = Option(
    "--trees N",
    "Rounds of boosting, at most; default 100, robust 120.",
    "Training",
    type=options.Whole(),
)
_TREES_OF_TUNE = _TREES.variant(
    rare=True, help="Rounds of boosting, at most; default 500, robust 120."
)
_VALID = Option(
    "--valid DATA",
    "Validation data; by default, if training needs them, a part of DATA is split off.",
    "Data",
    rare=True,
)
_EARLY_STOPPING = Option(
    "--early-stopping N",
    "Stop after N rounds without a better validation metric; tune: default 50, robust: all rounds.",
    "Training",
    type=options.Whole(),
    rare=True,
)
_DEFENCE = (
    _ROBUST,
    _CERTIFIED,
    Option(
        "--max-crowding T,…",
        "With --robust or --certified: leave out thresholds with more than this share of a "
        "class's rows within the attacker's reach; several values, or none, to try.",
        "Training",
        rare=True,
    ),
    Option(
        "--clean-loss L",
        "Accuracy that --robust and --certified may give up, compared with plain LightGBM or "
        "with the most accurate trial, if that is less; default certified 0.01, robust any; 1 "
        "for any.",
        "Training",
        type=float,
        rare=True,
    ),
)
_SHARED = (
    _VALID,
    options.LABEL,
    options.ZERO_BASED,
    Option(
        "--categorical F,G",
        "Columns that hold categories, texts or numbers, by name or position.",
        "Data",
        rare=True,
    ),
    *_DEFENCE,
    Option(
        "--learning-rate R",
        "Weight of every tree; default 0.1, robust 0.15.",
        "Training",
        type=float,
        rare=True,
    ),
    _EARLY_STOPPING,
    Option(
        "-p, --param NAME=VALUE",
        "Any parameter of LightGBM, with --robust of RobustClassifier; may be repeated.",
        "Training",
        multiple=True,
        rare=True,
    ),
    Option(
        "--seed N",
        "Seed of everything random.",
        "Training",
        type=options.Whole(),
        default=0,
        rare=True,
    ),
    options.THREADS,
    options.output_file("Model file to write; by default model.txt, if there is none yet."),
    Option("-q, --quiet", "No progress.", "Output", rare=True),
    Option("-v, --verbose", "Show every trial, not only the chosen one.", "Output", rare=True),
    options.JSON.variant(rare=True),
)


@command(
    options.TABLE,
    options.ATTACKER,
    Option(
        "--num-leaves N",
        "Leaves per tree, at most; default 31, robust 32.",
        "Training",
        type=options.Whole(),
    ),
    _TREES,
    Option("--metric NAME", "LightGBM's metric to watch, or robustness.", "Training", rare=True),
    Option(
        "--task NAME",
        "classification or regression: what the labels are.",
        "Training",
        type=click.Choice(["classification", "regression"]),
        default="classification",
        rare=True,
    ),
    Option(
        "--time-limit SECONDS",
        "With --robust: return the best model trained by then.",
        "Training",
        type=float,
        rare=True,
    ),
    *_SHARED,
    example="carvegbm train data.csv --norm inf --budget 0.01 --num-leaves 16 --trees 500 "
    "--early-stopping 50 -o model.txt",
)
def train(given: Any) -> None:
    """Train a model for exact verification: large-spread with LightGBM, or robust.

    Large-spread: after every tree, thresholds too close to its own are closed to later trees, so
    that verification takes microseconds per row. --robust: trees are grown against the attacker,
    and the most robust of several configurations is kept. Either way the model file is an ordinary
    LightGBM model.
    """
    against = inputs.attacker(given)
    out = _model_path(given.output, inputs.files_read(given, given.data))
    defence = _defence(given)
    robust, metric = given.robust, given.metric
    if given.time_limit is not None and not robust:
        raise CarveError(
            f"--time-limit {given.time_limit:g} has no meaning without --robust; drop it"
        )
    stopping = given.early_stopping
    validates = given.valid is not None or (
        not robust and (stopping is not None or given.certified)
    )
    if metric is not None and robust:
        raise CarveError(f"--metric {metric} has no meaning with --robust; drop it")
    if metric is not None and not validates:
        raise CarveError(
            f"--metric {metric} needs validation data; add --valid DATA, or --early-stopping N to "
            "split a fifth off"
        )
    named: dict[str, Any] = {
        **_shared_parameters(given),
        "num_leaves": given.num_leaves,
        "verbose": 0 if given.quiet or given.json else 2 if given.verbose else 1,
        **defence,
    }
    if robust:
        named["time_limit"] = given.time_limit
    model: Any = _estimator(given.task, robust)(**_with_parameters(named, given.param))
    reading = _Reading(given.label, given.zero_based, given.categorical)
    table = reading.table(given.data)
    held_out = None
    if validates:
        stratify = given.task == "classification"
        table, held_out = _with_validation(table, given.valid, reading, given.seed, stratify)
    _warn_if_unscaled(table, against)
    started = time.monotonic()
    model.fit(
        table.X,
        table.y,
        eval_set=None if held_out is None else [(held_out.X, held_out.y)],
        eval_metric=metric,
        early_stopping_rounds=stopping,
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
        if given.json:
            output.print_json(document)
        else:
            _show(model, written, title, document, given.verbose)
        if not finished:
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        raise output.Interrupted(kept) from None


def _document(model: Any, path: Path, robust: bool, held_out: Table | None) -> dict[str, Any]:
    """Return what --json prints about the fitted model that was written to `path`."""
    report: TrainingReport | None = getattr(model, "training_report_", None)
    document = {"model": str(path), **_describe(model, robust)}
    if robust and report is not None:  # the model may have been trained on these rows since
        document |= {f"validation {name}": v for name, v in report.chosen.measures.items()}
    elif held_out is not None:
        document |= _judge(model, held_out)
    return document if report is None else {**document, "training report": report.to_dict()}


def _show(model: Any, path: Path, title: str, document: dict[str, Any], verbose: bool) -> None:
    """Print a summary of the fitted model, after its trials if `verbose`."""
    report: TrainingReport | None = getattr(model, "training_report_", None)
    if report is None:
        lines = [(key, _shown(value)) for key, value in document.items() if key not in _LAST]
    else:
        if verbose:
            _show_trials(report)
        lines = report.summary()
        if model.stopped_because_ in ("interrupted", "time limit"):
            lines.append(("stopped because", model.stopped_because_))
        if "spread" in document:
            lines.append(("spread", _shown(document["spread"])))
    output.print_table(title, [*lines, *_outcome(document["seconds"], path)], align="<<")
    if hasattr(model, "classes_"):
        _say_classes(path, model.classes_)


_LAST = ("model", "seconds")  # shown last


def _estimator(task: str, robust: bool) -> Any:
    """The class to train."""
    from carvegbm.training import estimators

    family = "Robust" if robust else "LargeSpread"
    kind = "Classifier" if task == "classification" else "Regressor"
    return getattr(estimators, family + kind)


@command(
    options.TABLE,
    options.ATTACKER,
    Option(
        "--leaves N,M,…",
        "Leaves per tree to try; default 16,32,64,128,256, certified 8,16,32, robust 8,16,32,64.",
        "Training",
    ),
    Option(
        "--criterion NAME",
        "What to maximise on the validation data, accuracy or robustness; default accuracy, "
        "with --robust and --certified robustness.",
        "Training",
        type=click.Choice(["accuracy", "robustness"]),
    ),
    _TREES_OF_TUNE,
    *_SHARED,
    example="carvegbm tune data.csv --norm inf --budget 0.01 --leaves 16,32,64 "
    "--criterion robustness -o model.txt",
)
def tune(given: Any) -> None:
    """Train large-spread or robust models of several sizes and keep the best.

    Models are trained one after the other. Ctrl-C keeps the best finished one in FILE.partial.
    """
    against = inputs.attacker(given)
    out = _model_path(given.output, inputs.files_read(given, given.data))
    defence = _defence(given)
    robust = given.robust
    from carvegbm.progress import is_shown, progress_bar
    from carvegbm.training import tuning

    reading = _Reading(given.label, given.zero_based, given.categorical)
    table, held_out = _with_validation(reading.table(given.data), given.valid, reading, given.seed)
    _warn_if_unscaled(table, against)

    sizes: Sequence[int] | None = _leaves(given.leaves)
    if sizes is None and robust:
        sizes = tuning.ROBUST_LEAVES
    elif sizes is None:
        sizes = tuning.CERTIFIED_LEAVES if given.certified else tuning.LEAVES
    done = 0

    def report(trial: Trial) -> None:
        nonlocal done
        done += 1
        if tick is not None:
            tick(done)
        elif not given.quiet and not given.json:
            columns = ", ".join(f"{name} {value}" for name, value in trial.columns().items())
            output.note(columns)

    named = {
        **_shared_parameters(given),
        "grid": {"num_leaves": sizes},
        "early_stopping_rounds": given.early_stopping,
        "robust": robust,
        **defence,
    }
    parameters = _with_parameters(named, given.param)
    started = time.monotonic()
    progress = False if given.quiet or given.json or not is_shown() else None
    with progress_bar(progress, len(sizes) + 1, "tuning") as tick:
        result = tuning.tune(
            table.X,
            table.y,
            valid=(held_out.X, held_out.y),
            criterion=given.criterion,
            on_trial=report,
            feature_names=table.feature_names,
            **parameters,
        )
    seconds = time.monotonic() - started
    with finished_or_partial(out, not result.interrupted) as written:
        result.estimator.save_model(written)
    if given.json:
        document = {"model": str(written), **result.to_dict(), "seconds": round(seconds, 3)}
        output.print_json(document)
    else:
        if given.verbose:
            _show_trials(result)
        lines = [*result.summary(), *_outcome(seconds, written)]
        output.print_table(result.why, lines, align="<<")
        _say_classes(written, result.estimator.classes_)
    if result.interrupted:
        raise output.Interrupted(
            f"{written} holds the best of {output.counted(len(result.trials), 'finished model')}; "
            f"{output.untouched(out)}"
        )


def _leaves(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise CarveError(f"--leaves {text}: write whole numbers separated by commas") from None


# ── shared by both commands ──────────────────────────────────────────────────────────────────


def _model_path(given: Path | None, read: dict[str, str]) -> Path:
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


def _shared_parameters(given: Any) -> dict[str, Any]:
    """Return parameters that both commands have options for."""
    return {
        **dict.fromkeys(("scale", "features", "bounds")),
        **inputs.attacker_arguments(given),
        "n_estimators": given.trees,
        "learning_rate": given.learning_rate,
        "random_state": given.seed,
        "n_jobs": given.threads,
    }


def _defence(given: Any) -> dict[str, Any]:
    """Return the parameters of robust and certified training; refuse them without either."""
    robust, certified = given.robust, given.certified
    max_crowding, clean_loss = given.max_crowding, given.clean_loss
    if robust and certified:
        raise CarveError("--robust and --certified exclude each other; give one of them")
    for option, value in (("--max-crowding", max_crowding), ("--clean-loss", clean_loss)):
        if value is not None and not (robust or certified):
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


def _with_parameters(named: dict[str, Any], given: Sequence[str] | None) -> dict[str, Any]:
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
class _Reading:
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


def _warn_if_unscaled(table: Table, attacker: Attacker) -> None:
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


def _with_validation(
    table: Table, valid: str | None, reading: _Reading, seed: int, stratify: bool = True
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


def _show_trials(report: TrainingReport) -> None:
    """Print the trials of a report, and why one was chosen."""
    output.say("trials, measured on validation rows")
    for line in str(report).splitlines():
        output.say(f"  {line}".rstrip())
    output.say()


def _outcome(seconds: float, path: Path) -> list[tuple[str, str]]:
    """Return the last lines of a summary."""
    return [("time", f"{seconds:.1f} s"), ("file", str(path))]


def _describe(model: Any, robust: bool) -> dict[str, Any]:
    """Return the size of a fitted model, and its spread unless it is robust."""
    from carvegbm import spread

    return {
        "trees": model.ensemble_.n_trees,
        "leaves": model.ensemble_.n_leaves,
        "stopped because": model.stopped_because_,
        **({} if robust else {"spread": spread(model.ensemble_)}),
    }


def _judge(model: Any, held_out: Table) -> dict[str, Any]:
    """How the model does on validation data."""
    score = model.score(held_out.X, held_out.y)
    if not hasattr(model, "classes_"):
        return {"validation R²": score}
    robust = model.robust_score(held_out.X, held_out.y)
    return {"validation accuracy": score, "validation robustness": robust}


def _shown(value: Any) -> str:
    """A value as people read it."""
    return output.number(value) if isinstance(value, float) else str(value)


def _say_classes(path: Path, classes: Any) -> None:
    """The model file does not hold labels: say how to name them later."""
    if classes.tolist() != list(range(len(classes))):
        listed = ",".join(str(label) for label in classes.tolist())
        output.note(f"{path} does not hold labels; name them: carvegbm verify --classes {listed}")
