"""From the words of the command line to a model, its instances and an attacker."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.cli.shared import options
from carvegbm.errors import DataError
from carvegbm.keeping.files import RESULTS, check_apart, check_output

if TYPE_CHECKING:
    from carvegbm.attacker import Attacker
    from carvegbm.ensemble import Ensemble

SAMPLE = "sample"
"""Given as MODEL or DATA: the model or the data that ship with the package."""

_FOLDER = Path(__file__).resolve().parents[2] / "data"


@dataclass(frozen=True)
class Inputs:
    """A model and the instances to judge it by."""

    model: Ensemble
    X: npt.NDArray[Any]
    y: npt.NDArray[Any]

    @property
    def title(self) -> str:
        """How many trees and instances there are."""
        trees, rows = self.model.n_trees, len(self.X)
        return f"{trees} tree{'s' * (trees != 1)}, {rows} instance{'s' * (rows != 1)}"


@dataclass(frozen=True)
class Reading:
    """How to read a model and its instances; the options of the same names."""

    label: str | None = None
    classes: str | None = None
    n_features: int | None = None
    zero_based: bool | None = None
    rows: int | None = None


def load_model(model: str, classes: str | None = None, n_features: int | None = None) -> Ensemble:
    """The model of that path, or the shipped one."""
    from carvegbm import load

    return load(_model_path(model), classes=options.names(classes), n_features=n_features)


def load_inputs(model: str, data: str | None, reading: Reading) -> Inputs:
    """The model and its instances, with columns in the model's order where names tell it."""
    from carvegbm.instances.tabular import load_table

    if data is None and model != SAMPLE:
        raise DataError("DATA is missing; give a file with instances and labels after MODEL")
    ensemble = load_model(model, reading.classes, reading.n_features)
    path = _data_path(data)
    table = load_table(
        path,
        label=reading.label,
        n_features=ensemble.n_features,
        zero_based=reading.zero_based,
    ).ordered_as(ensemble.feature_names, str(path))
    if reading.rows is not None:
        table = table.head(reading.rows)
    return Inputs(ensemble, table.X, _comparable(table.y, ensemble.classes))


def files_read(
    *,
    model: str | None = None,
    data: str | None = None,
    label: str | None = None,
    valid: str | None = None,
    scale: str | None = None,
    bounds: str | None = None,
) -> dict[str, str]:
    """The files that these arguments name, by what a user calls them."""
    from carvegbm.instances.tabular import files_of

    found = {}
    if model is not None:  # the commands that know the word sample
        found["MODEL"], data = str(_model_path(model)), str(_data_path(data))
    for name, path in (("DATA", data), ("--valid", valid)):
        for count, file in enumerate([] if path is None else files_of(path, label)):
            found[name if count == 0 else f"the labels of {name}"] = file
    limits = {"--scale": scale, "--bounds": bounds}
    return found | {
        name: path
        for name, path in limits.items()
        if path is not None and not options.is_numbers(path)
    }


def check_outputs(
    written: dict[str, Path | None], read: dict[str, str], suffixes: tuple[str, ...] = RESULTS
) -> None:
    """Refuse files that could not or must not be written, before the work begins."""
    for option, path in written.items():
        if path is not None:
            check_output(path, (".npz",) if option == "--witnesses" else suffixes)
    check_apart(written, read)


def _model_path(model: str) -> str | Path:
    return _FOLDER / "sample_model.txt" if model == SAMPLE else model


def _data_path(data: str | None) -> str | Path:
    return _FOLDER / "sample_data.csv" if data is None or data == SAMPLE else data


def load_attacker(
    norm: str,
    budget: float,
    *,
    scale: str | None,
    features: str | None,
    bounds: str | None,
) -> Attacker:
    """The attacker these options describe."""
    from carvegbm import Attacker

    return Attacker(
        norm=options.norm(norm),
        budget=budget,
        scale=options.scale(scale),
        features=options.features(features),
        bounds=options.bounds(bounds),
    )


def _comparable(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as strings where the model's classes are: a file cannot tell "1" from 1."""
    if classes.dtype.kind in "US" and y.dtype.kind not in "US":
        return y.astype(np.str_)
    return y
