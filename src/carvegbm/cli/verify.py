"""The commands verify, attack, radius and explain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from carvegbm.cli import folders, inputs, options, output
from carvegbm.cli.options import command
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output, partial_path

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.engines import Decisions
    from carvegbm.radius import Radius
    from carvegbm.totals import RadiusTotals, VerificationTotals
    from carvegbm.verification import Verification

_DATA = (*options.READING, options.NO_LABEL, options.ROWS)
_FOLDERS = (options.FORMAT, options.RESUME)
_LIMITS = (options.TIMEOUT, options.THREADS, options.ENGINE)


@command(
    options.MODEL,
    options.DATA_FILES,
    options.ATTACKER,
    _DATA,
    _LIMITS,
    (options.ON_VIOLATION, options.METHOD, options.GRID, options.EXACT_MARGIN),
    options.OUTPUT,
    _FOLDERS,
    (options.WITNESSES, options.PROOF, options.JSON),
    example="carvegbm verify model.txt data.csv --norm inf --budget 0.01 --output result.json",
)
def verify(given: Any) -> None:
    """Decide for every instance whether an attacker can change the model's answer.

    An instance is robust (right and stays right), fragile (right but can be flipped), vulnerable
    (wrong and stays wrong) or broken (wrong and can be flipped). The verdicts are exact.
    """
    if folders.is_by_parts(given):
        folders.refuse(given, "witnesses", "proof")
        _verify_files(given)
        return
    from carvegbm.attack import Attack
    from carvegbm.cli import running
    from carvegbm.engines import Settings
    from carvegbm.problem import Problem
    from carvegbm.proofs.write import write_proof
    from carvegbm.verification import Verification

    file, out_file = folders.one_file(given)
    witnesses, proof = given.witnesses, given.proof
    read = inputs.files_read(given, file)
    inputs.check_outputs({"--output": out_file, "--witnesses": witnesses}, read)
    if proof is not None:
        check_output(proof, None)
        check_apart({"--proof": proof}, {**read, "--output": out_file, "--witnesses": witnesses})
    if out_file is not None:
        check_apart(
            {"the resume file of --output": partial_path(out_file)},
            {**read, "--witnesses": witnesses, "--proof": proof},
        )
    if given.resume and out_file is None:
        raise CarveError("--resume continues a run that --output began; give --output as well")
    against = inputs.attacker(given)
    loaded = inputs.load_inputs(given, [against], file)
    settings = Settings(
        given.engine,
        given.timeout,
        given.threads,
        given.on_violation,
        given.method,
        given.grid,
        given.exact_margin,
    )
    problem = Problem(loaded.model, against)
    with_witnesses = witnesses is not None or proof is not None
    query = running.Query(
        problem, loaded.X, loaded.y, settings, with_witnesses, any_witness=witnesses is None
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

    running.verify(query, out=out_file, resume=given.resume, finish=finish)
    assert result is not None
    if given.json:
        output.print_json({"model": given.model, "data": file or given.model, **result.to_dict()})
        return
    _show_verdicts(loaded.title, against, result, len(result))
    output.say_written(out_file, witnesses, proof)


def _verify_files(given: Any) -> None:
    from carvegbm.scale.query import Query
    from carvegbm.verifier import Verifier

    against = inputs.attacker(given)
    settings = ("engine", "timeout", "on_violation", "method", "grid", "exact_margin")
    chosen = {name: getattr(given, name) for name in settings}
    found = folders.answer_files(
        given, lambda model: Query("verify", Verifier(model, against, **chosen))
    )
    if given.json:
        found.print_json()
        return
    _show_verdicts(found.title, against, found.totals, found.totals.instances)
    output.say_written(found.folder)


def _show_verdicts(
    title: str, against: Attacker, result: Verification | VerificationTotals, instances: int
) -> None:
    from carvegbm.statuses import MEANINGS

    table: list[tuple[str, ...]] = [
        (status, str(count), output.share(count, instances), MEANINGS[status])
        for status, count in result.counts.items()
        if status != "unknown" or count
    ]
    engines = result.decided_by()
    decided = f"decided by {engines}" if engines else ""
    table.append(("accuracy", "", f"{100 * result.accuracy:.1f} %", ""))
    table.append(("robustness", "", output.robustness(*result.robustness), decided))
    output.print_table(title + output.judged(against), table, align="<>><")
    if result.counts["unknown"]:
        output.note(result.summary())


@command(
    options.MODEL,
    options.DATA_FILES,
    options.ATTACKER,
    _DATA,
    _LIMITS,
    options.ON_VIOLATION,
    options.WITNESS_FILE,
    _FOLDERS,
    options.JSON,
    example="carvegbm attack model.txt data.csv --norm 2 --budget 0.05 --output attacked.npz",
)
def attack(given: Any) -> None:
    """Find for every instance a change within the budget that flips the model's answer.

    An attack succeeds wherever verify says fragile or broken; each comes with a witness.
    """
    import carvegbm
    from carvegbm.attack import FORMATS

    chosen = {name: getattr(given, name) for name in ("engine", "timeout", "on_violation")}
    if folders.is_by_parts(given):
        from carvegbm.scale.query import Query
        from carvegbm.verifier import Verifier

        against = inputs.attacker(given)
        answers = folders.answer_files(
            given, lambda model: Query("attack", Verifier(model, against, **chosen))
        )
        if given.json:
            answers.print_json()
            return
        totals = answers.totals
        distances = [("smallest", totals.nearest)] if totals.successes else []
        counts = (totals.successes, totals.instances, totals.unknown)
        _show_attacks(answers.title + output.judged(against), *counts, distances)
        output.say_written(answers.folder)
        return
    file, out_file = _one_file_without_resume(given, FORMATS)
    against = inputs.attacker(given)
    loaded = inputs.load_inputs(given, [against], file)
    found = carvegbm.attack(
        loaded.model, loaded.X, loaded.y, against, threads=given.threads, **chosen
    )
    if out_file is not None:
        found.save(out_file)
    if given.json:
        output.print_json({"model": given.model, "data": file or given.model, **found.to_dict()})
        return
    distance, distances = found.distance[found.success], []
    if len(distance):
        distances = [("smallest", distance.min()), ("median", float(np.median(distance)))]
    undecided = int(np.sum(found.status == "unknown"))
    title = loaded.title + output.judged(against)
    _show_attacks(title, len(distance), len(found), undecided, distances)
    output.say_written(out_file)


def _one_file_without_resume(
    given: Any, suffixes: tuple[str, ...] | None = None
) -> tuple[str | None, Path | None]:
    """Return DATA and --output of a run over one file that cannot be resumed."""
    if given.resume:
        raise CarveError("--resume needs --output FOLDER/")
    file, out_file = folders.one_file(given)
    read = inputs.files_read(given, file)
    inputs.check_outputs({"--output": out_file}, read, *([] if suffixes is None else [suffixes]))
    return file, out_file


def _show_attacks(
    title: str, hits: int, n: int, undecided: int, distances: list[tuple[str, float]]
) -> None:
    stay = n - hits - undecided
    table: list[tuple[str, ...]] = [("flipped", str(hits), output.share(hits, n))]
    table.append(("cannot be flipped", str(stay), output.share(stay, n)))
    if undecided:
        table.append(("unknown", str(undecided), output.share(undecided, n)))
    table += [(f"{name} distance", output.number(value), "") for name, value in distances]
    output.print_table(title, table, align="<>>")


@command(
    options.MODEL,
    options.DATA_FILES,
    (options.ATTACKER_FILE, options.NORM, *options.LIMITS, options.MAX_BUDGET),
    _DATA,
    _LIMITS,
    options.OUTPUT,
    _FOLDERS,
    options.JSON,
    example="carvegbm radius model.txt data.csv --norm 1 --output radius.csv",
)
def radius(given: Any) -> None:
    """Find for every instance the smallest budget that flips the model's answer.

    The radius is 0 where the answer is wrong already. It is exact; where time runs out, the bounds
    say what is known.
    """
    import carvegbm

    chosen = {name: getattr(given, name) for name in ("engine", "timeout", "max_budget")}
    if folders.is_by_parts(given):
        from carvegbm.scale.query import Query
        from carvegbm.verifier import Verifier

        against = inputs.attacker(given, needs_budget=False)
        most = chosen.pop("max_budget")
        found = folders.answer_files(
            given,
            lambda model: Query("radius", Verifier(model, against, **chosen), max_budget=most),
        )
        if given.json:
            found.print_json()
            return
        table = _table_of_totals(found.totals, given.max_budget)
        output.print_table(f"{found.title}, norm {found.totals.norm}", table)
        output.say_written(found.folder)
        return
    file, out_file = _one_file_without_resume(given)
    against = inputs.attacker(given, needs_budget=False)
    loaded = inputs.load_inputs(given, [against], file)
    result = carvegbm.radius(
        loaded.model, loaded.X, loaded.y, against, threads=given.threads, **chosen
    )
    if out_file is not None:
        result.save(out_file)
    if given.json:
        output.print_json({"model": given.model, "data": file or given.model, **result.to_dict()})
        return
    output.print_table(
        f"{loaded.title}, norm {result.norm}", _table_of_radii(result, given.max_budget)
    )
    output.say_written(out_file)


def _table_of_totals(totals: RadiusTotals, max_budget: float | None) -> list[tuple[str, ...]]:
    """Return the table of many files: without the median, which totals do not have."""
    table: list[tuple[str, ...]] = [("wrong already", str(totals.wrong))]
    if totals.wrong < totals.instances:
        smallest = min(totals.smallest, totals.undecided_from)
        bound = "≥ " if totals.undecided_from < totals.smallest else ""
        table.append(("smallest radius of the others", bound + output.number(smallest)))
        largest, bound = totals.largest, ""
        if totals.undecided:
            largest, bound = max(largest, totals.undecided_from), "≥ "
        table.append(("largest radius of the others", bound + output.number(largest)))
    if totals.undecided:
        what = "not decided" if max_budget is None else "not decided, or beyond --max-budget"
        table.append((what, str(totals.undecided)))
    return table


def _table_of_radii(result: Radius, max_budget: float | None) -> list[tuple[str, ...]]:
    # What is not decided lies beyond all that is, so that lower bounds are in the right order.
    right = np.flatnonzero(result.radius != 0)
    order = right[np.argsort(result.lower[right], kind="stable")]
    table: list[tuple[str, ...]] = [("wrong already", str(len(result) - len(right)))]
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
    return table


@command(
    options.MODEL,
    options.DATA,
    options.ROW,
    options.ATTACKER,
    options.READING,
    options.NO_LABEL,
    _LIMITS,
    options.SHOW_TREES,
    options.JSON,
    example="carvegbm explain model.txt data.csv --row 17 --norm inf",
)
def explain(given: Any) -> None:
    """Explain one instance: how far it is from a flip, and what flips it.

    Shows the margin, the radius, the nearest witness feature by feature (no change of which can be
    taken back), and what the leaf of every tree takes from the margin.
    """
    import carvegbm
    from carvegbm.explanation.text import TREES, blocks_of

    if given.row is None:
        raise CarveError("--row is missing; give --row N, counted from 0")
    against = inputs.attacker(given, needs_budget=False)
    loaded = inputs.load_inputs(given, [against])
    chosen = {name: getattr(given, name) for name in ("row", "engine", "timeout", "threads")}
    if "budget" in inputs.attacker_arguments(given, needs_budget=False):
        found = carvegbm.explain(loaded.model, loaded.X, loaded.y, against, **chosen)
    else:
        limits = {name: value for name, value in against.arguments().items() if name != "budget"}
        found = carvegbm.explain(loaded.model, loaded.X, loaded.y, **limits, **chosen)
    data = given.data or given.model
    if given.json:
        output.print_json({"model": given.model, "data": data, **found.to_dict()})
        return
    most = TREES if given.show_trees is None else given.show_trees
    for number, block in enumerate(blocks_of(found, f" of {data}", most)):
        if number:
            output.say()
        output.print_table(block.title, block.rows, block.align)
        for note in block.notes:
            output.say(f"  {note}")
