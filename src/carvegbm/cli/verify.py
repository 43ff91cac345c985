"""The command verify: a status for every instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from carvegbm.cli.shared import folders, inputs, options, output
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output, partial_path

if TYPE_CHECKING:
    from carvegbm.engines import Decisions
    from carvegbm.totals import VerificationTotals
    from carvegbm.verification import Verification

_EXAMPLE = "carvegbm verify model.txt data.csv --norm inf --budget 0.01 --output result.json"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("verify", epilog=f"Example: {_EXAMPLE}")(verify)


def verify(
    model: options.Model,
    data: options.DataFiles = None,
    *,
    attacker: options.AttackerFile = None,
    norm: options.Norm = None,
    budget: options.Budget = None,
    scale: options.Scale = None,
    features: options.Features = None,
    bounds: options.Bounds = None,
    label: options.Label = None,
    classes: options.Classes = None,
    n_features: options.NFeatures = None,
    zero_based: options.ZeroBased = None,
    absent: options.Absent = None,
    trees: options.Trees = None,
    rows: options.RowCount = None,
    method: options.Method = "efficient",
    grid: options.Grid = None,
    exact_margin: options.ExactMargin = False,
    engine: options.Engine = "auto",
    timeout: options.Timeout = 10.0,
    on_violation: options.OnViolation = None,
    threads: options.Threads = None,
    out: options.Output = None,
    form: options.Form = None,
    resume: options.Resume = False,
    witnesses: options.Witnesses = None,
    proof: options.Proof = None,
    json: options.Json = False,
) -> None:
    """Decide for every instance whether an attacker can change the model's answer.

    An instance is robust (right and stays right), fragile (right but can be flipped), vulnerable
    (wrong and stays wrong) or broken (wrong and can be flipped). The verdicts are exact.
    """
    from carvegbm.attack import Attack
    from carvegbm.cli.shared import running
    from carvegbm.engines import Settings
    from carvegbm.problem import Problem
    from carvegbm.proofs.write import write_proof
    from carvegbm.verification import Verification

    attacking = inputs.Attacking(attacker, norm, budget, scale, features, bounds)
    reading = inputs.Reading(label, classes, n_features, zero_based, rows, absent, trees)
    if folders.is_by_parts(data or [], out):
        folders.refuse(witnesses=witnesses, proof=proof)
        asked = folders.Asked(model, data or [], reading, out, form, resume, threads)
        _verify_parts(
            asked,
            attacking,
            json,
            engine=engine,
            timeout=timeout,
            on_violation=on_violation,
            method=method,
            grid=grid,
            exact_margin=exact_margin,
        )
        return
    file, out_file = folders.one_file(data or [], out, form=form)
    read = inputs.files_read(model=model, data=file, label=label, attacking=attacking)
    inputs.check_outputs({"--output": out_file, "--witnesses": witnesses}, read)
    if proof is not None:
        check_output(proof, None)
        check_apart({"--proof": proof}, {**read, "--output": out_file, "--witnesses": witnesses})
    if out_file is not None:
        check_apart(
            {"the resume file of --output": partial_path(out_file)},
            {**read, "--witnesses": witnesses, "--proof": proof},
        )
    if resume and out_file is None:
        raise CarveError("--resume continues a run that --output began; give --output as well")
    against = attacking.attacker()
    given = inputs.load_inputs(model, file, reading, [against])
    settings = Settings(engine, timeout, threads, on_violation, method, grid, exact_margin)
    problem = Problem(given.model, against)
    with_witnesses = witnesses is not None or proof is not None
    query = running.Query(
        problem, given.X, given.y, settings, with_witnesses, any_witness=witnesses is None
    )
    result: Verification | None = None

    def finish(found: Decisions) -> None:
        nonlocal result
        result = Verification.of(found, problem)
        if proof is not None:
            proved = write_proof(proof, query.task, query.rows, found)
            if proved.unproved:
                output.note(proved.warning(proof))
        if witnesses is not None:
            Attack.of(found, problem, query.rows).save(witnesses)
        if out_file is not None:
            result.save(out_file)

    running.verify(query, out=out_file, resume=resume, finish=finish)
    assert result is not None
    if json:
        output.print_json({"model": model, "data": file or model, **result.to_dict()})
        return
    title = f"{given.title}, norm {against.norm}, budget {against.budget:g}"
    output.print_table(title, _table(result, len(result)), align="<>><")
    if result.counts["unknown"]:
        output.note(result.summary())
    output.say_written(out_file, witnesses, proof)


def _verify_parts(
    asked: folders.Asked, attacking: inputs.Attacking, json: bool, **settings: Any
) -> None:
    from carvegbm.scale.query import Query
    from carvegbm.verifier import Verifier

    against = attacking.attacker()
    found = asked.answers(lambda ensemble: Query("verify", Verifier(ensemble, against, **settings)))
    if json:
        found.print_json()
        return
    title = f"{found.title}, norm {against.norm}, budget {against.budget:g}"
    output.print_table(title, _table(found.totals, found.totals.instances), align="<>><")
    if found.totals.counts["unknown"]:
        output.note(found.totals.summary())
    output.say_written(found.folder)


def _table(result: Verification | VerificationTotals, instances: int) -> list[tuple[str, ...]]:
    from carvegbm.statuses import MEANINGS

    table: list[tuple[str, ...]] = [
        (status, str(count), output.share(count, instances), MEANINGS[status])
        for status, count in result.counts.items()
        if status != "unknown" or count
    ]
    decided = result.decided_by()
    return [
        *table,
        ("accuracy", "", f"{100 * result.accuracy:.1f} %", ""),
        (
            "robustness",
            "",
            output.robustness(*result.robustness),
            f"decided by {decided}" if decided else "",
        ),
    ]
