"""The command tune: train several models, choose one by accuracy or proven robustness."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from carvegbm.cli import train as training
from carvegbm.cli.shared import inputs, options, output
from carvegbm.errors import CarveError


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
        Literal["accuracy", "robustness", "tradeoff"] | None,
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
    weight: Annotated[
        float | None,
        typer.Option(metavar="W", help="Share of accuracy in the trade-off; default 0.5."),
    ] = None,
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
    optuna: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Let Optuna propose N trials within the leaves given."
        ),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Where finished trials are kept; by default FILE.tuning beside the model.",
        ),
    ] = None,
    seed: training.Seed = 0,
    threads: options.Threads = None,
    out: training.ModelOut = None,
    quiet: training.Quiet = False,
    json: options.Json = False,
) -> None:
    """Train large-spread or robust models of several sizes and keep the best.

    Trials are trained in parallel. An interrupted run goes on where it stopped when the same
    command is given again.
    """
    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    against = attacking.attacker()  # refuses what is wrong with it, before the work begins
    read = inputs.files_read(data=data, label=label, valid=valid, attacking=attacking)
    out = training.check_model_path(out, read)
    if weight is not None and criterion != "tradeoff":
        raise CarveError("--weight has no meaning without --criterion tradeoff")
    defence = training.defence_parameters(robust, certified, max_crowding, clean_loss)
    from carvegbm.training.tuning import TuningTrial
    from carvegbm.training.tuning import tune as search

    reading = training.Reading(label, zero_based, categorical)
    table, held_out = training.with_validation(reading.table(data), valid, reading, seed)
    training.warn_if_unscaled(table, against)

    work_folder = folder or out.with_name(out.name + ".tuning")
    finished = 0

    def report(trial: TuningTrial) -> None:
        nonlocal finished
        finished += 1
        if not quiet and not json:
            tried = ", ".join(
                f"{name} {'none' if value is None else value}"
                for name, value in trial.parameters.items()
            )
            output.note(
                f"{tried}: accuracy {trial.accuracy:.4f}, robustness {trial.robustness:.4f}, "
                f"{trial.trees} trees, {trial.seconds:.1f} s"
            )

    named: dict[str, Any] = {
        **dict.fromkeys(("scale", "features", "bounds")),
        **attacking.arguments(),
        "grid": None if leaves is None else {"num_leaves": _leaves(leaves)},
        "n_estimators": trees,
        "learning_rate": learning_rate,
        "early_stopping_rounds": early_stopping,
        "random_state": seed,
        "n_jobs": threads,
        "robust": robust,
        **defence,
    }
    try:
        result = search(
            table.X,
            table.y,
            valid=(held_out.X, held_out.y),
            criterion=criterion,
            weight=weight,
            folder=work_folder,
            search="grid" if optuna is None else "optuna",
            n_trials=optuna,
            on_trial=report,
            feature_names=table.feature_names,
            **training.with_parameters(named, param),
        )
    except KeyboardInterrupt:
        if not finished:
            raise
        raise output.Interrupted(
            f"{finished} finished trial{'s' * (finished > 1)} kept in {work_folder}; "
            f"{output.untouched(out)}; give the same command again to continue"
        ) from None
    finally:
        with suppress(OSError):
            work_folder.rmdir()  # only if nothing is in it
    result.estimator.save_model(out)
    if json:
        output.print_json({"model": str(out), **result.to_dict()})
        return
    title = f"{out}: best of {len(result.trials)} by {result.criterion}"
    rows: list[tuple[str, ...]] = result.rows()
    output.print_table(title, rows, align=">" * len(rows[0]))
    if not quiet and result.floor is not None and result.plain_accuracy is not None:
        most = max(trial.accuracy for trial in result.trials)
        loss = f", the most accurate trial {most:.4f}" if most < result.plain_accuracy else ""
        output.note(
            f"plain LightGBM has accuracy {result.plain_accuracy:.4f}{loss}; trials below "
            f"{result.floor:.4f} were not considered"
        )
    training.say_classes(out, result.estimator.classes_)


def _leaves(text: str) -> list[Any]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise CarveError(f"--leaves {text}: write whole numbers separated by commas") from None
