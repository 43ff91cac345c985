"""The result of an attack: a witness for every row that can be flipped, checked exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.data.sparse import NUMBERS_AT_ONCE, Csr, csr_parts, is_sparse
from carvegbm.engines import Decisions
from carvegbm.engines.sparse import end_at_zero, witnesses_of
from carvegbm.errors import CarveError
from carvegbm.model.categories import as_given, named_codes, names_of_codes
from carvegbm.model.decision import class_indices, may_round_to_a_tie
from carvegbm.model.rows import SparseColumns
from carvegbm.problem import Problem, Rows
from carvegbm.results import Result
from carvegbm.statuses import flipped, named
from carvegbm.storage.files import RESULTS, check_output, replacing

if TYPE_CHECKING:
    from carvegbm.displays import AttackDisplay

__all__ = ["FORMATS", "Attack", "witness_names"]

FORMATS = (".npz", *RESULTS)
"""Suffixes of files that `Attack.save` can write."""


@dataclass(frozen=True, eq=False)
class Attack(Result):
    """A witness for every row that can be flipped.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.attack(model, [[0.1], [0.75]], [0, 1], cg.Attacker("inf", 0.25))
    >>> found.success.tolist(), found.distance.tolist()
    ([False, True], [nan, 0.25])
    >>> model.decide(found.witnesses[found.success]).tolist()
    [0]
    """

    success: npt.NDArray[np.bool_]
    """Whether the answer can be flipped: the row is fragile or broken."""
    witnesses: npt.NDArray[np.float64] | Csr
    """One witness per row; NaN if there is none. Columns are in the order of the model's features,
    see `feature_names`; categories are the numbers that the model takes in an array, see
    `categories`. For sparse rows: CSR in which every change is stored, and an empty row if there is
    no witness."""
    distance: npt.NDArray[np.float64]
    """The smallest budget that reaches the witness; NaN without one."""
    status: npt.NDArray[np.str_]
    """As in `Verification`."""
    borderline: npt.NDArray[np.bool_]
    """The witness is closer to the decision threshold than the source library's rounding, of the
    raw score or of its probability: it flips the exact sum, and the library's own label may
    differ."""
    labels: npt.NDArray[Any] = field(repr=False)
    """The right answers: y, or the model's own."""
    attacker: Attacker = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    """The columns of the witnesses, if the model names its features."""
    categories: Mapping[int, Mapping[int, Any]] = field(default_factory=dict, repr=False)
    """For categorical features whose witnesses hold codes: from code to label."""

    @classmethod
    def of(cls, found: Decisions, problem: Problem, rows: Rows) -> Attack:
        """Make the result of what the engines found, with witnesses."""
        ensemble, labels = problem.ensemble, rows.labels
        assert labels is not None
        status = named(found.status)
        success = flipped(status)
        borderline = np.zeros(len(rows), dtype=bool)
        witnesses = found["witness"]
        if rows.is_sparse:
            witnesses = witnesses_of(rows, witnesses)
        if success.any():
            z = witnesses[success]
            if not rows.is_sparse:
                some = rows.take(np.flatnonzero(success))
                z = problem.witnesses(z, some)
                witnesses[success] = as_given(ensemble, z, some.given, some.source)
            raw = ensemble.scores_of(z)
            kept = (class_indices(ensemble, raw) == labels[success]) == found["right"][success]
            borderline[success] = kept | may_round_to_a_tie(ensemble, raw)
            if rows.is_sparse:
                borderline[success] |= end_at_zero(z)
        return cls(
            success,
            witnesses,
            found["distance"],
            status,
            borderline,
            ensemble.classes[labels],
            problem.attacker,
            ensemble.feature_names,
            names_of_codes(ensemble),
            iterations=ensemble.iterations,
        )

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, without the witnesses."""
        return {
            "success": self.success,
            "distance": self.distance,
            "status": self.status,
            "borderline": self.borderline,
        }

    def totals(self) -> dict[str, Any]:
        """Return the attacker and how many rows can be flipped."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": len(self),
            "successes": int(np.count_nonzero(self.success)),
        }

    def to_frame(self) -> Any:
        """Return the columns and the witnesses as a pandas DataFrame, see `witness_columns`."""
        frame = super().to_frame()
        return frame.join(type(frame)(self.witness_columns()))

    def witness_columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the witnesses as columns "witness NAME", or "witness 7" without names.

        Categories are labels. Sparse witnesses have columns for the features that one of them
        stores; values that others do not store are NaN.
        """
        chosen, values = np.arange(self.witnesses.shape[1]), self.witnesses
        if is_sparse(values):
            chosen = np.unique(values.indices).astype(np.int64)
            if len(chosen) * len(self) > NUMBERS_AT_ONCE:
                raise CarveError(
                    f"{len(self)} witnesses in {len(chosen)} features are too many for a frame; "
                    "take rows of .witnesses"
                )
            values = SparseColumns(chosen, values.shape[1], np.nan).dense(values)
        found = {}
        names = witness_names(self.feature_names, chosen.tolist())
        for place, (feature, name) in enumerate(zip(chosen.tolist(), names, strict=True)):
            found[name] = values[:, place]
            if feature in self.categories:
                labels = named_codes(self.categories[feature], values[:, place])
                found[name] = np.array([*labels, None], dtype=object)[:-1]
        return found

    def save(self, path: Any) -> None:
        """Write a file by its suffix; the file is complete or not there.

        `.npz` holds the witnesses (as X; sparse ones as `scipy.sparse.load_npz` reads them), the
        labels (as y) and the columns; `.json`, `.csv` and `.parquet` hold only the columns.
        """
        target = check_output(path, FORMATS)
        if target.suffix != ".npz":
            super().save(target)
            return
        X = self.witnesses
        parts = csr_parts(X) if is_sparse(X) else {"X": X}
        named: dict[str, Any] = {}
        if self.feature_names is not None:
            named["feature_names"] = list(self.feature_names)
        if self.categories:
            names = {
                str(f): {str(c): name for c, name in of.items()}
                for f, of in self.categories.items()
            }
            named["categories"] = json.dumps(names)
        with replacing(target) as temporary, temporary.open("wb") as file:
            np.savez_compressed(
                file, allow_pickle=False, y=self.labels, **parts, **self.columns(), **named
            )

    def plot(
        self,
        X: Any,
        ax: Any = None,
        *,
        n_features: int = 15,
        name: str | None = None,
        **kwargs: Any,
    ) -> AttackDisplay:
        """Draw what the witnesses change in X, see `AttackDisplay`."""
        from carvegbm.displays import AttackDisplay

        return AttackDisplay(self, X, n_features=n_features).plot(ax, name=name, **kwargs)

    def _text(self) -> str:
        found = int(np.count_nonzero(self.success))
        return f"{found} of {len(self)} instances can be flipped by {self.attacker}"


def witness_names(names: Sequence[str] | None, features: Iterable[int]) -> list[str]:
    """Return the names of witness columns: "witness NAME", or "witness 7" without names."""
    return [f"witness {feature if names is None else names[feature]}" for feature in features]
