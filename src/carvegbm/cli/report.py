"""The command report: analyse a model, data and attackers on one page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from carvegbm.cli.shared import inputs, options, output
from carvegbm.errors import CarveError
from carvegbm.storage.files import check_apart, check_output, partial_path

if TYPE_CHECKING:
    from carvegbm.reports import Report

_EXAMPLE = "carvegbm report model.txt data.csv --norm inf --budget 0.02 -o report.html"

Norms = Annotated[
    list[str] | None,
    typer.Option(
        "--norm",
        metavar="P",
        help="Norm of an attacker: 0, 1, 2, …, inf; default inf. May be given several times, and "
        "--budget as often, or once for all.",
    ),
]
Budgets = Annotated[
    list[float] | None,
    typer.Option(
        "--budget",
        metavar="K",
        parser=options.number,
        help="Budget of an attacker; several times for several.",
    ),
]
AttackerFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--attacker",
        metavar="FILE",
        help="An attacker, as TOML or JSON; may be given several times.",
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write the page (.html), or the document that it is made of (.json); "
        "by default report.html, unless --json prints the document.",
        show_default=False,
    ),
]
Images = Annotated[
    str | None,
    typer.Option(metavar="HxW", help="Rows are grey images of that size, e.g. 28x28."),
]
Sample = Annotated[
    str,
    typer.Option(
        metavar="N|all",
        help="Analyse a random sample of this many rows if there are more.",
    ),
]
Seed = Annotated[
    int, typer.Option(metavar="N", parser=options.whole, help="Seed of what is drawn.")
]
Timeout = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", parser=options.number, help="Time limit per instance and question."
    ),
]
Proof = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Write proofs of all statuses, check them, and state the outcome on the page; needs "
        "all rows. For further attackers -2, -3, … is added to the name.",
    ),
]


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("report", epilog=f"Example: {_EXAMPLE}")(report)


def report(
    model: options.Model,
    data: options.Data = None,
    *,
    out: Output = None,
    attacker: AttackerFiles = None,
    norm: Norms = None,
    budget: Budgets = None,
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
    sample: Sample = "500",
    seed: Seed = 0,
    timeout: Timeout = 2.0,
    threads: options.Threads = None,
    images: Images = None,
    proof: Proof = None,
    json: options.Json = False,
) -> None:
    """Write a page that states what attackers can do to a model, and how this is known.

    The answer comes first, then how far rows are from being flipped, where the model is weak, what
    attacks look like, and what to do about it. The page is one file that needs no other file and
    no network. Ctrl-C ends the work early: an unfinished page, with the results so far, is then
    written to FILE.partial.
    """
    import carvegbm
    from carvegbm.reports import FORMATS

    if out is None and not json:
        out = Path("report.html")
    if out is not None:
        check_output(out, FORMATS)
    attacking = _attacking(attacker or [], norm or [], budget or [], scale, features, bounds)
    read = inputs.files_read(model=model, data=data, label=label)
    for each in attacking:
        check_apart({"--output": out, "--proof": proof}, {**read, **each.files()})
    against = [each.attacker() for each in attacking]
    reading = inputs.Reading(label, classes, n_features, zero_based, rows, absent, trees)
    most, size = _sample(sample), _size(images)
    given = inputs.load_inputs(model, data, reading, against)
    if proof is not None and most is not None and len(given.y) > most:
        raise CarveError(
            f"--proof needs every row, but --sample selects only {most} of {len(given.y)}; give "
            "--sample all, or fewer --rows"
        )
    found = carvegbm.report(
        given.model,
        given.X,
        given.y,
        against,
        out,
        images=size,
        model_name=model,
        data_name=data or model,
        sample=most,
        seed=seed,
        timeout=timeout,
        threads=threads,
        proof=proof,
        files={"model": read["MODEL"], "data": read["DATA"]},
    )
    if json:
        output.print_json(found.to_dict())
    else:
        _print(given.title, found)
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


def _attacking(
    files: list[Path],
    norms: list[str],
    budgets: list[float],
    scale: str | None,
    features: str | None,
    bounds: str | None,
) -> list[inputs.Attacking]:
    """The attackers: those of files, and those of norms and budgets, which come in pairs."""
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
    count = max(counts, default=1)
    pairs = [
        (
            norms[i] if i < len(norms) else norms[0] if norms else None,
            budgets[i] if i < len(budgets) else budgets[0] if budgets else None,
        )
        for i in range(count)
    ]
    limits = (scale, features, bounds)
    if len(files) > 1:
        return [inputs.Attacking(file, None, None, *limits) for file in files]
    file = files[0] if files else None
    return [inputs.Attacking(file, norm, budget, *limits) for norm, budget in pairs]


def _sample(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise CarveError(f"--sample must be a whole number of rows from 1 on, or all, got {text!r}")
    return int(text)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, cross, width = text.lower().partition("x")
    if not (cross and height.isdecimal() and width.isdecimal()):
        raise CarveError(f"--images must be HEIGHTxWIDTH, e.g. 28x28, got {text!r}")
    return int(height), int(width)
