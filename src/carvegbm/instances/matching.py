"""Tables of files as a model takes them.

Comes in: a model and a `Table`, of a whole file or of some of its rows. Goes out: X with columns in
the model's order where names tell it, labels of categories as the model knows them, y of the kind
of the model's classes. A file cannot tell "1" from 1; a model can.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.instances.mixed import Mixed
from carvegbm.instances.sparse import NUMBERS_AT_ONCE, is_sparse
from carvegbm.instances.table import Table
from carvegbm.instances.tabular import Way

if TYPE_CHECKING:
    from carvegbm.ensemble import Ensemble

__all__ = ["Absent", "Matching", "with_absent"]

Absent = Literal["zero", "missing"]


@dataclass(frozen=True, eq=False)
class Matching:
    """The way from files of instances to rows of one model; it can be pickled.

    Attributes
    ----------
    ensemble : Ensemble
    label, zero_based
        As `carvegbm.load_table` takes them.
    absent : "zero", "missing" or None
        What a user says that files leave out; None where nobody said anything.
    """

    ensemble: Ensemble
    label: str | None = None
    zero_based: bool | None = None
    absent: Absent | None = None

    def way(self, path: str) -> Way:
        """How to read a file."""
        return Way(
            self.label,
            self.ensemble.n_features,
            self.zero_based,
            True,
            _Labelled(self.ensemble, path),
        )

    def absolute(self) -> Matching:
        """The same for a process elsewhere; `label` may name a file."""
        label = self.label
        if label is not None and label.endswith((".npy", ".npy.gz")) and os.path.isfile(label):
            return replace(self, label=os.path.abspath(label))
        return self

    def rows(self, table: Table, path: str) -> tuple[Any, npt.NDArray[Any]]:
        """X and y of a table that is in the file; X is dense if it is text and small."""
        table = table.ordered_as(self.ensemble.feature_names, path)
        X = table.X
        if is_sparse(X):
            is_small = X.shape[0] * X.shape[1] <= NUMBERS_AT_ONCE
            if table.absent_is_zero and is_small and self.ensemble.absent == "zero":
                X = X.toarray()
        elif self.absent is not None:
            raise DataError(f"{path} leaves nothing out, so --absent has no meaning; drop it")
        elif isinstance(X, Mixed):
            X = _with_known_labels(X, self.ensemble)
        return X, _comparable(table.y, self.ensemble.classes)


def with_absent(ensemble: Ensemble, absent: Absent) -> Ensemble:
    """The model that takes what a sparse X leaves out for that."""
    from carvegbm.ensemble import Ensemble, fields_of

    if absent == ensemble.absent:
        return ensemble
    return Ensemble(**{**fields_of(ensemble), "absent": absent})


@dataclass(frozen=True, eq=False)
class _Labelled:
    """Which features of a file with these names hold labels that are not codes."""

    ensemble: Ensemble
    path: str

    def __call__(self, names: Sequence[str] | None) -> Collection[int]:
        from carvegbm.instances.columns import order_of
        from carvegbm.trees.labels import names_of_codes

        features = names_of_codes(self.ensemble)
        order = None
        if features and names is not None and self.ensemble.feature_names is not None:
            try:
                order = order_of(names, self.ensemble.feature_names, self.path)
            except DataError:  # of which `ordered_as` tells, who knows what was taken for the label
                return range(len(names))
        return {feature if order is None else order[feature] for feature in features}


def _with_known_labels(X: Mixed, ensemble: Ensemble) -> Mixed:
    """Cells that stand for labels of the model as these."""
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


def _comparable(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Labels as strings where the model's classes are."""
    if classes.dtype.kind in "US" and y.dtype.kind not in "US":
        return y.astype(np.str_)
    return y
