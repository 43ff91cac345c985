"""From the words of the command line to a model, its instances and an attacker."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.cli.shared import options
from carvegbm.errors import CarveError, DataError
from carvegbm.keeping.files import RESULTS, check_apart, check_output

if TYPE_CHECKING:
    from carvegbm.attacker import Attacker
    from carvegbm.ensemble import Ensemble
    from carvegbm.instances.mixed import Mixed
    from carvegbm.instances.table import Table

SAMPLE = "sample"
"""Given as MODEL or DATA: the model or the data that ship with the package."""

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
        trees, rows = self.model.n_trees, len(self.y)
        return f"{trees} tree{'s' * (trees != 1)}, {rows} instance{'s' * (rows != 1)}"


@dataclass(frozen=True)
class Reading:
    """How to read a model and its instances; the options of the same names."""

    label: str | None = None
    classes: str | None = None
    n_features: int | None = None
    zero_based: bool | None = None
    rows: int | None = None
    absent: Literal["zero", "missing"] | None = None


def load_model(model: str, classes: str | None = None, n_features: int | None = None) -> Ensemble:
    """The model of that path, or the shipped one."""
    from carvegbm import load

    return load(model_path(model), classes=options.names(classes), n_features=n_features)


def load_inputs(model: str, data: str | None, reading: Reading) -> Inputs:
    """The model and its instances, with columns in the model's order where names tell it."""
    from carvegbm.instances.mixed import Mixed
    from carvegbm.instances.sparse import is_sparse
    from carvegbm.instances.tabular import load_table

    if data is None and model != SAMPLE:
        raise DataError("DATA is missing; give a file with instances and labels after MODEL")
    ensemble = load_model(model, reading.classes, reading.n_features)
    path = data_path(data)
    table = load_table(
        path,
        label=reading.label,
        n_features=ensemble.n_features,
        zero_based=reading.zero_based,
        sparse=True,
        categorical=partial(_labelled, ensemble, str(path)),
    ).ordered_as(ensemble.feature_names, str(path))
    if reading.rows is not None:
        table = table.head(reading.rows)
    X = table.X
    if is_sparse(X):
        ensemble, X = _with_absent(ensemble, table, reading.absent)
    elif reading.absent is not None:
        raise DataError(f"{path} leaves nothing out, so --absent has no meaning; drop it")
    elif isinstance(X, Mixed):
        X = _with_known_labels(X, ensemble)
    return Inputs(ensemble, X, _comparable(table.y, ensemble.classes))


def _with_absent(
    ensemble: Ensemble, table: Table, asked: Literal["zero", "missing"] | None
) -> tuple[Ensemble, Any]:
    """The model that takes what X leaves out for what it is; X, dense if it is text and small."""
    from carvegbm.ensemble import Ensemble, fields_of
    from carvegbm.instances.sparse import NUMBERS_AT_ONCE

    X, is_text = table.X, table.absent_is_zero
    absent = asked or ("zero" if is_text else ensemble.absent)
    if absent != ensemble.absent:
        ensemble = Ensemble(**{**fields_of(ensemble), "absent": absent})
    is_small = X.shape[0] * X.shape[1] <= NUMBERS_AT_ONCE
    return ensemble, X.toarray() if is_text and is_small and absent == "zero" else X


def _labelled(ensemble: Ensemble, path: str, names: Sequence[str] | None) -> Collection[int]:
    """Which features of a file with these names hold labels that are not codes."""
    from carvegbm.instances.columns import order_of
    from carvegbm.trees.labels import names_of_codes

    features = names_of_codes(ensemble)
    order = None
    if features and names is not None and ensemble.feature_names is not None:
        try:
            order = order_of(names, ensemble.feature_names, path)
        except DataError:  # of which `ordered_as` tells, who knows what was taken for the label
            return range(len(names))
    return {feature if order is None else order[feature] for feature in features}


def _with_known_labels(X: Mixed, ensemble: Ensemble) -> Mixed:
    """Cells that stand for labels of the model as these: a file cannot tell "1" from 1."""
    columns = list(X.values)
    for feature, labels in ensemble.categories.items():
        if columns[feature].dtype == object:
            known = {str(label): label for label in labels.values()}
            numbers = not any(isinstance(label, str) for label in labels.values())
            columns[feature] = np.array(
                [*(_as_label(cell, known, numbers) for cell in columns[feature]), None],
                dtype=object,
            )[:-1]
    return replace(X, values=tuple(columns))


def _as_label(cell: Any, known: Mapping[str, Any], are_numbers: bool) -> Any:
    if not isinstance(cell, str) or cell in known:
        return known.get(cell, cell) if isinstance(cell, str) else cell
    try:
        return float(cell) if are_numbers and "_" not in cell else cell
    except ValueError:
        return cell


def files_read(
    *,
    model: str | None = None,
    data: str | None = None,
    label: str | None = None,
    valid: str | None = None,
    attacking: Attacking | None = None,
) -> dict[str, str]:
    """The files that these arguments name, by what a user calls them."""
    from carvegbm.instances.tabular import files_of

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
        from carvegbm.attackers.files import arguments_in, naming

        found: dict[str, Any] = {"norm": "inf"}
        if self.file is not None:
            with naming(self.file):
                found |= arguments_in(self.file)
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
        from carvegbm.attackers.files import naming

        found = {"budget": 0, **self.arguments(needs_budget=needs_budget)}
        with nullcontext() if self.file is None else naming(self.file):
            return Attacker(**found)


def _comparable(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as strings where the model's classes are: a file cannot tell "1" from 1."""
    if classes.dtype.kind in "US" and y.dtype.kind not in "US":
        return y.astype(np.str_)
    return y
