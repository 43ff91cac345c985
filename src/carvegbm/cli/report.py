"""The command report: analyse a model, data and attackers on one page."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from carvegbm.cli import inputs, options, output
from carvegbm.cli.options import Option, command
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output, partial_path

if TYPE_CHECKING:
    from carvegbm.reports import Report

_OUTPUT = options.output_file(
    "Where to write the page (.html), or the document that it is made of (.json); by default "
    "report.html, unless --json prints the document."
)
_PROOF = options.PROOF.variant(
    help="Write proofs of all statuses, check them, and state the outcome on the page; needs all "
    "rows. For further attackers -2, -3, … is added to the name."
)


@command(
    options.MODEL,
    options.DATA,
    options.ATTACKER_FILE.variant(
        multiple=True, help="An attacker, as TOML or JSON; may be given several times."
    ),
    options.NORM.variant(
        multiple=True,
        help="Norm of an attacker: 0, 1, 2, …, inf; default inf. May be given several times, and "
        "--budget as often, or once for all.",
    ),
    options.BUDGET.variant(
        multiple=True, help="Budget of an attacker; may be given several times."
    ),
    options.LIMITS,
    options.READING,
    (options.ROWS, options.SAMPLE, options.IMAGES),
    Option(
        "--seed N",
        "Seed of the random sample.",
        "Data",
        type=options.Whole(min=0),
        default=0,
        rare=True,
    ),
    (options.REPORT_TIMEOUT, options.THREADS),
    (_OUTPUT, _PROOF, options.JSON),
    example="carvegbm report model.txt data.csv --norm inf --budget 0.02 -o report.html",
)
def report(given: Any) -> None:
    """Write a page that states what attackers can do to a model, and how this is known.

    The answer comes first, then how far rows are from being flipped, where the model is weak, what
    attacks look like, and what to do about it. The page is one file that needs no other file and
    no network. Ctrl-C ends the work early: an unfinished page, with the results so far, is then
    written to FILE.partial.
    """
    import carvegbm
    from carvegbm.reports import FORMATS

    out, proof = given.output, given.proof
    if out is None and not given.json:
        out = Path("report.html")
    if out is not None:
        check_output(out, FORMATS)
    read = inputs.files_read(given, given.data)
    for file in given.attacker:
        check_apart({"--output": out, "--proof": proof}, {**read, "--attacker": str(file)})
    check_apart({"--output": out, "--proof": proof}, read)
    against = [inputs.attacker(each) for each in _attackers(given)]
    most = None if given.sample == "all" else int(given.sample)
    loaded = inputs.load_inputs(given, against)
    rows = loaded.X.shape[0]
    if proof is not None and most is not None and rows > most:
        raise CarveError(
            f"--proof needs every row, but --sample selects only {most} of {rows}; give "
            "--sample all, or fewer --rows"
        )
    height, _, width = (given.images or "").lower().partition("x")
    found = carvegbm.report(
        loaded.model,
        loaded.X,
        loaded.y,
        against,
        out,
        images=(int(height), int(width)) if given.images else None,
        model_name=given.model,
        data_name=given.data or given.model,
        sample=most,
        seed=given.seed,
        timeout=given.timeout,
        threads=given.threads,
        proof=proof,
        files={"model": read["MODEL"], "data": read["DATA"]},
    )
    if given.json:
        output.print_json(found.to_dict())
    else:
        _print(loaded.title, found)
    proofs = [entry["proof"] for entry in found.document["attackers"] if entry["proof"]]
    folder = None if proof is None else proof.parent
    written = [] if folder is None else [folder / entry["file"] for entry in proofs]
    if not found.interrupted:
        output.say_written(out, *written)
        return
    output.say_written(*written)
    missing = "rows that were not decided in time are unknown"
    if out is None:
        raise output.Interrupted(f"in the document, {missing}")
    raise output.Interrupted(
        f"{partial_path(out)} holds an unfinished report, in which {missing}; "
        f"{output.untouched(out)}; give the same command again to start over"
    )


def _print(title: str, found: Report) -> None:
    """The answer in a line per attacker."""
    table = []
    for result in found.verifications:
        who = f"norm {result.attacker.norm}, budget {result.attacker.budget:g}"
        table.append(
            (
                who,
                f"accuracy {100 * result.accuracy:.1f} %",
                f"robust {output.robustness(*result.robustness)}",
            )
        )
    judged, rows = (found.document["data"][name] for name in ("judged", "rows"))
    drawn = f", {judged} of them drawn" if judged < rows else ""
    output.print_table(title + drawn, table, align="<>>")


def _attackers(given: Any) -> list[Any]:
    """Return the options of one attacker each; norms and budgets come in pairs."""
    files, norms, budgets = given.attacker, given.norm, given.budget
    if len(files) > 1 and (norms or budgets):
        raise CarveError(
            "--norm and --budget change one --attacker, and there are "
            f"{len(files)}; write norm and budget into the files"
        )
    counts = {len(norms), len(budgets)} - {0, 1}
    if len(counts) > 1:
        raise CarveError(
            f"{len(norms)} --norm and {len(budgets)} --budget make no pairs, the first with the "
            "first and so on; give as many of one as of the other, or one for all"
        )
    count = max(counts | {len(files)}, default=1) or 1

    def one_of(values: tuple[Any, ...], at: int) -> Any:
        return values[at if len(values) > 1 else 0] if values else None

    return [
        SimpleNamespace(
            **{
                **vars(given),
                "attacker": one_of(files, at),
                "norm": one_of(norms, at),
                "budget": one_of(budgets, at),
            }
        )
        for at in range(count)
    ]
