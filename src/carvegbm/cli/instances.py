"""Commands about a model and its instances: verify, attack and radius."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer

from carvegbm.cli import inputs, options, output, running
from carvegbm.errors import CarveError
from carvegbm.files import RESULTS, check_apart, check_output, replacing

if TYPE_CHECKING:
    from carvegbm.attack import Attack
    from carvegbm.attacker import Attacker
    from carvegbm.verification import Verification

STATUSES = {
    "robust": "right, stays right",
    "fragile": "right, can be flipped",
    "vulnerable": "wrong, stays wrong",
    "broken": "wrong, can be flipped",
    "unknown": "not decided",
}
EXAMPLES = {
    "verify": "carvegbm verify model.txt data.csv --norm inf --budget 0.01 --output result.json",
    "attack": "carvegbm attack model.txt data.csv --norm 2 --budget 0.05 --output attacked.npz",
    "radius": "carvegbm radius model.txt data.csv --norm 1 --output radius.csv",
}


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    for command in (verify, attack, radius):
        name = command.__name__
        app.command(name, epilog=f"Example: {EXAMPLES[name]}")(command)


def verify(
    model: options.Model,
    data: options.Data = None,
    *,
    norm: options.Norm = "inf",
    budget: options.Budget,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    zero_based: options.ZeroBased = None,
    rows: options.Rows = None,
    method: options.Method = "efficient",
    grid: options.Grid = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    on_violation: options.OnViolation = None,
    threads: options.Threads = None,
    out: options.Output = None,
    resume: options.Resume = False,
    witnesses: options.Witnesses = None,
    json: options.Json = False,
) -> None:
    """Decide for every instance whether an attacker can change the model's answer.

    An instance is robust (right and stays right), fragile (right but can be flipped), vulnerable
    (wrong and stays wrong) or broken (wrong and can be flipped). The verdicts are exact.
    """
    import carvegbm
    from carvegbm.cli.journal import Question, journal_path

    read = inputs.files_read(model=model, data=data, label=label, scale=scale, bounds=bounds)
    _check_outputs({"--output": out, "--witnesses": witnesses}, read)
    if out is not None:
        check_apart(
            {"the journal of --output": journal_path(out)}, {**read, "--witnesses": witnesses}
        )
    if resume and out is None:
        raise CarveError("--resume continues a run that --output began; give --output as well")
    attacker = inputs.load_attacker(norm, budget, scale=scale, features=features, bounds=bounds)
    given = inputs.load_inputs(
        model,
        data,
        classes=classes,
        n_features=n_features,
        label=label,
        zero_based=zero_based,
        rows=rows,
    )
    settings: dict[str, Any] = {
        "engine": engine,
        "timeout": timeout,
        "method": method,
        "grid": grid,
        "on_violation": on_violation,
    }

    def save_witnesses(result: Verification) -> None:
        if witnesses is None:
            return
        # Only what can be flipped needs another look.
        flipped = np.flatnonzero(np.isin(result.status, ["fragile", "broken"]))
        arrays = _no_attack(given.X.shape)
        if len(flipped):
            found = carvegbm.attack(
                given.model,
                given.X[flipped],
                given.y[flipped],
                attacker,
                engine=engine,
                timeout=timeout,
                threads=threads,
                on_violation=on_violation,
            )
            for name, values in _arrays(found).items():
                arrays[name][flipped] = values
        _save_attack(witnesses, arrays, given)

    result = running.verify(
        Question(given.model, given.X, given.y, attacker, settings),
        threads=threads,
        out=out,
        resume=resume,
        finish=save_witnesses,
    )
    if json:
        output.print_json({"model": model, "data": data or model, **result.to_dict()})
        return
    counts = result.counts
    n = len(result)
    table = [
        (status, str(counts[status]), output.share(counts[status], n), meaning)
        for status, meaning in STATUSES.items()
        if status != "unknown" or counts[status]
    ]
    table.append(("accuracy", "", f"{100 * result.accuracy:.1f} %", ""))
    lower, upper = result.robustness
    robustness = f"{50 * (lower + upper):.1f}"
    if lower != upper:
        robustness += f" ± {50 * (upper - lower):.1f}"
    table.append(("robustness", "", f"{robustness} %", _decided_by(result)))
    output.print_table(_title(given, attacker), table, align="<>><")
    if counts["unknown"]:
        output.note(result.summary())
    _say_written(out, witnesses)


def attack(
    model: options.Model,
    data: options.Data = None,
    *,
    norm: options.Norm = "inf",
    budget: options.Budget,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    zero_based: options.ZeroBased = None,
    rows: options.Rows = None,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    on_violation: options.OnViolation = None,
    threads: options.Threads = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.npz",
            help="Write the attacked instances and their distances.",
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Find for every instance a change within the budget that flips the model's answer.

    An attack succeeds wherever verify says fragile or broken; each comes with its instance.
    """
    import carvegbm

    read = inputs.files_read(model=model, data=data, label=label, scale=scale, bounds=bounds)
    _check_outputs({"--output": out}, read, (".npz",))
    attacker = inputs.load_attacker(norm, budget, scale=scale, features=features, bounds=bounds)
    given = inputs.load_inputs(
        model,
        data,
        classes=classes,
        n_features=n_features,
        label=label,
        zero_based=zero_based,
        rows=rows,
    )
    found = carvegbm.attack(
        given.model,
        given.X,
        given.y,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    if out is not None:
        _save_attack(out, _arrays(found), given)
    if json:
        output.print_json({"model": model, "data": data or model, **found.to_dict()})
        return
    hits, n = int(np.sum(found.success)), len(found)
    undecided = int(np.sum(found.status == "unknown"))
    stay = n - hits - undecided
    table = [("flipped", str(hits), output.share(hits, n))]
    table.append(("cannot be flipped", str(stay), output.share(stay, n)))
    if undecided:
        table.append(("unknown", str(undecided), output.share(undecided, n)))
    if hits:
        distance = found.distance[found.success]
        table.append(("smallest distance", output.number(distance.min()), ""))
        table.append(("median distance", output.number(float(np.median(distance))), ""))
    output.print_table(_title(given, attacker), table, align="<>>")
    _say_written(out)


def radius(
    model: options.Model,
    data: options.Data = None,
    *,
    norm: options.Norm = "inf",
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    zero_based: options.ZeroBased = None,
    rows: options.Rows = None,
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

    read = inputs.files_read(model=model, data=data, label=label, scale=scale, bounds=bounds)
    _check_outputs({"--output": out}, read)
    given = inputs.load_inputs(
        model,
        data,
        classes=classes,
        n_features=n_features,
        label=label,
        zero_based=zero_based,
        rows=rows,
    )
    result = carvegbm.radius(
        given.model,
        given.X,
        given.y,
        norm=options.norm(norm),
        scale=options.scale(scale),
        features=options.features(features),
        bounds=options.bounds(bounds),
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
    # What is not decided lies beyond all that is, so that lower bounds are in the right order.
    right = np.flatnonzero(result.radius != 0)
    order = right[np.argsort(result.lower[right], kind="stable")]
    table = [("wrong already", str(len(result) - len(right)))]
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
    output.print_table(f"{_shape(given)}, norm {norm}", table)
    _say_written(out)


def _decided_by(result: Verification) -> str:
    """Which engines decided, and how long the slowest instance took, where that is of interest."""
    engines, counts = np.unique(result.engine[result.engine != ""], return_counts=True)
    if engines.tolist() in ([], ["large-spread"]):
        return ""
    by_engine = ", ".join(f"{name} {count}" for name, count in zip(engines, counts, strict=True))
    return f"decided by {by_engine}; slowest {result.seconds.max():.2g} s"


def _check_outputs(
    written: dict[str, Path | None], read: dict[str, str], suffixes: tuple[str, ...] = RESULTS
) -> None:
    """Refuse files that could not or must not be written, before the work begins."""
    for option, path in written.items():
        if path is not None:
            check_output(path, (".npz",) if option == "--witnesses" else suffixes)
    check_apart(written, read)


def _shape(given: inputs.Inputs) -> str:
    trees, rows = given.model.n_trees, len(given.X)
    return f"{trees} tree{'s' * (trees != 1)}, {rows} instance{'s' * (rows != 1)}"


def _title(given: inputs.Inputs, attacker: Attacker) -> str:
    return f"{_shape(given)}, norm {attacker.norm}, budget {attacker.budget:g}"


def _arrays(found: Attack) -> dict[str, npt.NDArray[Any]]:
    return {
        "X": found.examples,
        "success": found.success,
        "distance": found.distance,
        "borderline": found.borderline,
    }


def _no_attack(shape: tuple[int, ...]) -> dict[str, npt.NDArray[Any]]:
    n = shape[0]
    return {
        "X": np.full(shape, np.nan),
        "success": np.zeros(n, dtype=bool),
        "distance": np.full(n, np.nan),
        "borderline": np.zeros(n, dtype=bool),
    }


def _save_attack(path: Path, arrays: dict[str, npt.NDArray[Any]], given: inputs.Inputs) -> None:
    named = (
        {} if given.model.feature_names is None else {"feature_names": given.model.feature_names}
    )
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, y=given.y, **arrays, **named)


def _say_written(*paths: Path | None) -> None:
    for path in paths:
        if path is not None:
            output.note(f"wrote {path}")
