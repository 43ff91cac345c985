"""The command tune: train several models, choose one by accuracy or proven robustness."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from carvegbm.cli import train as training
from carvegbm.cli.shared import inputs, options, output
from carvegbm.errors import CarveError
from carvegbm.storage.files import finished_or_partial

if TYPE_CHECKING:
    from carvegbm.training.report import Trial


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(
        "tune",
        epilog="Example: carvegbm tune data.csv --norm inf --budget 0.01 --leaves 16,32,64 "
        "--criterion robustness -o model.txt",
    )(tune)


def tune(
    data: training.Data,
    *,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
    budget: options.Budget = None,
    leaves: Annotated[
        str | None,
        typer.Option(
            metavar="N,M,…",
            help="Leaves per tree to try; default 16,32,64,128,256, certified 8,16,32, robust "
            "8,16,32,64.",
        ),
    ] = None,
    criterion: Annotated[
        Literal["accuracy", "robustness"] | None,
        typer.Option(
            help="What to maximise on the validation data; default accuracy, with --robust and "
            "--certified robustness.",
            show_default=False,
        ),
    ] = None,
    robust: training.Robust = False,
    certified: training.Certified = False,
    max_crowding: training.MaxCrowding = None,
    clean_loss: training.CleanLoss = None,
    trees: Annotated[
        int | None,
        typer.Option(metavar="N", help="Rounds of boosting, at most; default 500, robust 120."),
    ] = None,
    learning_rate: training.LearningRate = None,
    valid: training.Valid = None,
    early_stopping: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Stop after N rounds without a better validation metric; default 50, robust: all "
            "rounds.",
        ),
    ] = None,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    zero_based: options.ZeroBased = None,
    categorical: training.Categorical = None,
    param: training.Parameter = None,
    seed: training.Seed = 0,
    threads: options.Threads = None,
    out: training.ModelOut = None,
    quiet: training.Quiet = False,
    verbose: training.Verbose = False,
    json: options.Json = False,
) -> None:
    """Train large-spread or robust models of several sizes and keep the best.

    Models are trained one after the other. Ctrl-C keeps the best finished one in FILE.partial.
    """
    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    against = attacking.attacker()  # refuses what is wrong with it, before the work begins
    read = inputs.files_read(data=data, label=label, valid=valid, attacking=attacking)
    out = training.check_model_path(out, read)
    defence = training.defence_parameters(robust, certified, max_crowding, clean_loss)
    from carvegbm.progress import is_shown, progress_bar
    from carvegbm.training import tuning

    reading = training.Reading(label, zero_based, categorical)
    table, held_out = training.with_validation(reading.table(data), valid, reading, seed)
    training.warn_if_unscaled(table, against)

    sizes: Sequence[int] | None = _leaves(leaves)
    if sizes is None and robust:
        sizes = tuning.ROBUST_LEAVES
    elif sizes is None:
        sizes = tuning.CERTIFIED_LEAVES if certified else tuning.LEAVES
    done = 0

    def report(trial: Trial) -> None:
        nonlocal done
        done += 1
        if tick is not None:
            tick(done)
        elif not quiet and not json:
            output.note(trial.line())

    named: dict[str, Any] = {
        **dict.fromkeys(("scale", "features", "bounds")),
        **attacking.arguments(),
        "grid": {"num_leaves": sizes},
        "n_estimators": trees,
        "learning_rate": learning_rate,
        "early_stopping_rounds": early_stopping,
        "random_state": seed,
        "n_jobs": threads,
        "robust": robust,
        **defence,
    }
    parameters = training.with_parameters(named, param)
    started = time.monotonic()
    progress = False if quiet or json or not is_shown() else None
    with progress_bar(progress, len(sizes) + 1, "tuning") as tick:
        result = tuning.tune(
            table.X,
            table.y,
            valid=(held_out.X, held_out.y),
            criterion=criterion,
            on_trial=report,
            feature_names=table.feature_names,
            **parameters,
        )
    seconds = time.monotonic() - started
    with finished_or_partial(out, not result.interrupted) as written:
        result.estimator.save_model(written)
    if json:
        document = {"model": str(written), **result.to_dict(), "seconds": round(seconds, 3)}
        output.print_json(document)
    else:
        if verbose:
            training.show_trials(result)
        lines = [*result.summary(), *training.outcome(seconds, written)]
        output.print_table(result.why, lines, align="<<")
        training.say_classes(written, result.estimator.classes_)
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
