"""From the words of the command line to a model, its instances and an attacker."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from carvegbm.cli.shared import options, output
from carvegbm.errors import CarveError, DataError
from carvegbm.storage.files import RESULTS, check_apart, check_output

if TYPE_CHECKING:
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.data.table import Absent, Table
    from carvegbm.ensemble import Ensemble

SAMPLE = "sample"
"""Given as MODEL or DATA: the model or the data that ship with the package."""

FIRST_ROWS = 10_000
"""Rows to look at for warnings about all of them."""

_FOLDER = Path(__file__).resolve().parents[2] / "data"


@dataclass(frozen=True)
class Inputs:
    """A model and the instances to judge it by."""

    model: Ensemble
    X: Any
    y: npt.NDArray[Any]

    @property
    def title(self) -> str:
        """How many trees and instances there are."""
        trees = output.counted(self.model.n_trees, "tree")
        return f"{trees}, {output.counted(len(self.y), 'instance')}"


@dataclass(frozen=True)
class Reading:
    """How to read a model and its instances; the options of the same names."""

    label: str | None = None
    classes: str | None = None
    n_features: int | None = None
    zero_based: bool | None = None
    rows: int | None = None
    absent: Absent | None = None
    trees: str | None = None

    def load_model(self, model: str) -> Ensemble:
        """Read the model of that path, or the shipped one."""
        from carvegbm import load

        trees: Any = self.trees
        ensemble = load(
            model_path(model),
            classes=options.names(self.classes),
            n_features=self.n_features,
            iteration_range=int(trees) if trees and trees.isdecimal() else trees,
        )
        if ensemble.iterations is not None:
            output.note(f"{model} {ensemble.iterations.note}")
        return ensemble


def load_inputs(
    model: str, data: str | None, reading: Reading, against: Sequence[Attacker] = ()
) -> Inputs:
    """The model and its instances, with columns reordered by name if both have names.

    Warns if one of the attackers has one budget for columns of very different ranges.
    """
    from carvegbm.data.files import load_table
    from carvegbm.data.table import FileSchema

    if data is None and model != SAMPLE:
        raise DataError("DATA is missing; give a file with instances and labels after MODEL")
    ensemble = reading.load_model(model)
    path = str(data_path(data))
    matching = FileSchema(ensemble, reading.label, reading.zero_based, reading.absent)
    table = load_table(path, **vars(matching.read_options(path)))
    matching = replace(matching, ensemble=_as_read(ensemble, table, reading.absent))
    if reading.rows is not None:
        table = table.head(reading.rows)
    found = Inputs(matching.ensemble, *matching.rows(table, path))
    warn_if_unscaled(found.model, found.X, against)
    return found


def warn_if_unscaled(ensemble: Ensemble, X: Any, against: Sequence[Attacker]) -> None:
    """Warn if one of the attackers has one budget for columns of very different ranges."""
    from carvegbm.trees import plausibility
    from carvegbm.trees.checking import checked_rows

    unscaled = [each for each in against if each.norm != 0 and each.scale is None]
    if unscaled:
        with suppress(CarveError):  # the query itself refuses these rows
            rows = checked_rows(ensemble, X[:FIRST_ROWS], False, 0, sparse=True).rows
            plausibility.warn_if_unscaled(ensemble, unscaled[0].limits(ensemble), rows)


def _as_read(ensemble: Ensemble, table: Table, asked: Absent | None) -> Ensemble:
    """The model that takes what X leaves out for what it is."""
    from carvegbm.data.sparse import is_sparse
    from carvegbm.data.table import with_absent

    if not is_sparse(table.X):
        return ensemble
    return with_absent(ensemble, asked or ("zero" if table.absent_is_zero else ensemble.absent))


def files_read(
    *,
    model: str | None = None,
    data: str | None = None,
    label: str | None = None,
    valid: str | None = None,
    attacking: Attacking | None = None,
) -> dict[str, str]:
    """The files that these arguments name, by what a user calls them."""
    from carvegbm.data.files import files_of

    found = {}
    if model is not None:  # the commands that know the word sample
        found["MODEL"], data = str(model_path(model)), str(data_path(data))
    for name, path in (("DATA", data), ("--valid", valid)):
        for count, file in enumerate([] if path is None else files_of(path, label)):
            found[name if count == 0 else f"the labels of {name}"] = file
    attacking = attacking or Attacking()
    return found | {name: str(path) for name, path in attacking.files().items() if path is not None}


def check_outputs(
    written: dict[str, Path | None], read: dict[str, str], suffixes: tuple[str, ...] = RESULTS
) -> None:
    """Refuse files that could not or must not be written, before the work begins."""
    for option, path in written.items():
        if path is not None:
            check_output(path, (".npz",) if option == "--witnesses" else suffixes)
    check_apart(written, read)


def model_path(model: str) -> str | Path:
    """The model of that path, or the shipped one."""
    return _FOLDER / "sample_model.txt" if model == SAMPLE else model


def data_path(data: str | None) -> str | Path:
    """The data of that path, or the shipped ones."""
    return _FOLDER / "sample_data.csv" if data is None or data == SAMPLE else data


@dataclass(frozen=True)
class Attacking:
    """How to attack; the options of the same names, and the file that --attacker names."""

    file: Path | None = None
    norm: str | None = None
    budget: float | None = None
    scale: str | None = None
    features: str | None = None
    bounds: str | None = None

    def files(self) -> dict[str, Path | str | None]:
        """The files that these options name."""
        limits = {"--scale": self.scale, "--bounds": self.bounds}
        return {
            "--attacker": self.file,
            **{o: p for o, p in limits.items() if p is not None and not options.is_numbers(p)},
        }

    def arguments(self, *, needs_budget: bool = True) -> dict[str, Any]:
        """The arguments of `Attacker`.

        The command line overrides norm and budget of the file. What else both of them give is
        refused, because neither is plainly meant.
        """
        from carvegbm.attackers.files import from_plain, naming_file, read_document

        found: dict[str, Any] = {"norm": "inf"}
        if self.file is not None:
            with naming_file(self.file):
                found |= from_plain(read_document(self.file))
        limits = {
            "scale": options.scale(self.scale),
            "features": options.features(self.features),
            "bounds": options.bounds(self.bounds),
        }
        for name, value in limits.items():
            if value is not None and name in found:
                raise CarveError(f"--{name} is given, and {name} in {self.file}; drop one of them")
        own = {"norm": options.norm(self.norm), "budget": self.budget, **limits}
        found |= {name: value for name, value in own.items() if value is not None}
        if needs_budget and "budget" not in found:
            where = "" if self.file is None else f", or write budget = K into {self.file}"
            raise CarveError(f"the attacker's budget is missing; give --budget K{where}")
        return found

    def attacker(self, *, needs_budget: bool = True) -> Attacker:
        """The attacker these options describe; if they need not have a budget, it may be 0."""
        from carvegbm import Attacker
        from carvegbm.attackers.files import naming_file

        found = {"budget": 0, **self.arguments(needs_budget=needs_budget)}
        with nullcontext() if self.file is None else naming_file(self.file):
            return Attacker(**found)
