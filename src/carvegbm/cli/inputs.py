"""Load the model, the rows and the attacker that the options of a command describe."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from carvegbm.cli import options, output
from carvegbm.errors import CarveError, DataError
from carvegbm.storage.files import RESULTS, check_apart, check_output

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.data.table import Absent, FileSchema, Table
    from carvegbm.model.ensemble import Ensemble

SAMPLE = "sample"
"""Given as MODEL or DATA: the model or the data that ship with the package."""

FIRST_ROWS = 10_000
"""Rows to look at for warnings about all of them."""

_FOLDER = Path(__file__).resolve().parents[1] / "data"


# ── models and rows ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Inputs:
    """A model and the rows to judge it by; y is None if the rows have no labels."""

    model: Ensemble
    X: Any
    y: npt.NDArray[Any] | None

    @property
    def title(self) -> str:
        """How many trees and instances there are."""
        trees = output.counted(self.model.n_trees, "tree")
        return f"{trees}, {output.counted(self.X.shape[0], 'instance')}"


def load_model(given: Any) -> Ensemble:
    """Read the model that the options name, or the shipped one."""
    from carvegbm import load

    trees: Any = given.trees
    ensemble = load(
        model_path(given.model),
        classes=options.labels(getattr(given, "classes", None)),
        n_features=getattr(given, "n_features", None),
        iteration_range=int(trees) if trees and trees.isdecimal() else trees,
    )
    if ensemble.iterations is not None:
        output.note(f"{given.model} {ensemble.iterations.note}")
    return ensemble


def load_inputs(given: Any, against: Sequence[Attacker] = (), data: str | None = None) -> Inputs:
    """Read the model and its rows, with columns reordered by name if both have names.

    Warns if one of the attackers has one budget for columns of very different ranges.
    """
    from carvegbm.data.files import load_table

    data = data or given.data or None
    if data is None and given.model != SAMPLE:
        raise DataError("DATA is missing; give a file with instances and labels after MODEL")
    ensemble = load_model(given)
    path = str(data_path(data))
    schema = file_schema(given, ensemble)
    table = load_table(path, **vars(schema.read_options(path)))
    schema = replace(schema, ensemble=_as_read(ensemble, table, given.absent))
    if (rows := getattr(given, "rows", None)) is not None:
        table = table.head(rows)
    found = Inputs(schema.ensemble, *schema.rows(table, path))
    warn_if_unscaled(found.model, found.X, against)
    return found


def file_schema(given: Any, ensemble: Ensemble) -> FileSchema:
    """Return how files become rows of the model."""
    from carvegbm.data.table import FileSchema

    label: Any = given.label
    if getattr(given, "no_label", False):
        if label is not None:
            raise CarveError("--label and --no-label exclude each other; give one of them")
        label = False
    return FileSchema(ensemble, label, given.zero_based, given.absent)


def warn_if_unscaled(ensemble: Ensemble, X: Any, against: Sequence[Attacker]) -> None:
    """Warn if one of the attackers has one budget for columns of very different ranges."""
    from carvegbm.attackers import suggest
    from carvegbm.model.rows import checked_rows

    unscaled = [each for each in against if each.norm != 0 and each.scale is None]
    if unscaled:
        with suppress(CarveError):  # the query itself refuses these rows
            rows = checked_rows(ensemble, X[:FIRST_ROWS], False, 0, sparse=True).rows
            suggest.warn_if_unscaled(ensemble, unscaled[0].limits(ensemble), rows)


def _as_read(ensemble: Ensemble, table: Table, absent: Absent | None) -> Ensemble:
    """Return the model with the meaning of absent entries that the table has."""
    from carvegbm.data.sparse import is_sparse
    from carvegbm.data.table import with_absent

    if not is_sparse(table.X):
        return ensemble
    return with_absent(ensemble, absent or ("zero" if table.absent_is_zero else ensemble.absent))


def model_path(model: str) -> str | Path:
    """Return the path of a model, or of the shipped one."""
    return _FOLDER / "sample_model.txt" if model == SAMPLE else model


def data_path(data: str | None) -> str | Path:
    """Return the path of data, or of the shipped ones."""
    return _FOLDER / "sample_data.csv" if data is None or data == SAMPLE else data


# ── files that are read and written ──────────────────────────────────────────────────────────


def files_read(given: Any, data: str | None = None) -> dict[str, str]:
    """Return the files that options name, by what a user calls them."""
    from carvegbm.data.files import files_of

    found = {}
    if (model := getattr(given, "model", None)) is not None:
        found["MODEL"], data = str(model_path(model)), str(data_path(data))
    label = getattr(given, "label", None)
    for name, path in (("DATA", data), ("--valid", getattr(given, "valid", None))):
        for count, file in enumerate([] if path is None else files_of(path, label)):
            found[name if count == 0 else f"the labels of {name}"] = file
    files: Any = getattr(given, "attacker", None) or ()
    for file in files if isinstance(files, tuple) else (files,):
        found["--attacker"] = str(file)
    for option in ("scale", "bounds"):
        texts: Sequence[str] = getattr(given, option, ())
        if options.is_file(texts):
            found[f"--{option}"] = texts[0]
    return found


def check_outputs(
    written: dict[str, Path | None], read: dict[str, str], suffixes: tuple[str, ...] = RESULTS
) -> None:
    """Refuse files that could not or must not be written, before the work begins."""
    for option, path in written.items():
        if path is not None:
            check_output(path, (".npz",) if option == "--witnesses" else suffixes)
    check_apart(written, read)


# ── attackers ────────────────────────────────────────────────────────────────────────────────


def attacker_arguments(given: Any, *, needs_budget: bool = True) -> dict[str, Any]:
    """Return the arguments of `Attacker`.

    Options override norm and budget of the file. Other options that both of them give are refused.
    """
    from carvegbm.attackers.files import from_plain, naming_file, read_document

    found: dict[str, Any] = {"norm": "inf"}
    if given.attacker is not None:
        with naming_file(given.attacker):
            found |= from_plain(read_document(given.attacker))
    limits = {
        "scale": options.scale(given.scale, given.direction),
        "features": options.features(given.features),
        "bounds": options.bounds(given.bounds),
        "step": options.step(given.step),
    }
    for name, value in limits.items():
        if value is not None and name in found:
            option = "direction" if name == "scale" and not given.scale else name
            raise CarveError(
                f"--{option} is given, and {name} in {given.attacker}; drop one of them"
            )
    own = {"norm": given.norm, "budget": getattr(given, "budget", None), **limits}
    found |= {name: value for name, value in own.items() if value is not None}
    if needs_budget and "budget" not in found:
        where = "" if given.attacker is None else f", or write budget = K into {given.attacker}"
        raise CarveError(f"the attacker's budget is missing; give --budget K{where}")
    return found


def attacker(given: Any, *, needs_budget: bool = True) -> Attacker:
    """Return the attacker that options describe; without a budget, it has budget 0."""
    from carvegbm import Attacker
    from carvegbm.attackers.files import naming_file

    found = {"budget": 0, **attacker_arguments(given, needs_budget=needs_budget)}
    with nullcontext() if given.attacker is None else naming_file(given.attacker):
        return Attacker(**found)
