"""Attack: a witness for every instance that can be flipped, checked exactly."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.data.sparse import NUMBERS_AT_ONCE, Csr, csr_parts, is_sparse
from carvegbm.engines import Decisions, EngineName, OnViolation, Settings, Task, decide
from carvegbm.engines.sparse import end_at_zero, witnesses_of
from carvegbm.errors import CarveError
from carvegbm.model.categories import as_given, named_codes, names_of_codes
from carvegbm.model.decision import class_indices, may_round_to_a_tie
from carvegbm.model.rows import SparseColumns
from carvegbm.problem import Problem, Rows
from carvegbm.progress import Progress, showing
from carvegbm.results import Result
from carvegbm.statuses import flipped, named
from carvegbm.storage.files import RESULTS, check_output, replacing

if TYPE_CHECKING:
    from carvegbm.displays import AttackDisplay

__all__ = ["FORMATS", "Attack", "attack", "witness_names"]

FORMATS = (".npz", *RESULTS)
"""What `Attack.save` can write."""


def attack(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> Attack:
    """Find, for every instance, a witness within the budget that flips the model's decision.

    Where there is one, it is found; where none is found, there is none (or the status is
    "unknown"). The parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.attack(model, [[0.1], [0.75]], [0, 1], cg.Attacker("inf", 0.25))
    >>> found.success.tolist(), found.witnesses.tolist(), found.distance.tolist()
    ([False, True], [[nan], [0.5]], [nan, 0.25])
    """
    settings = Settings(engine, timeout, threads, on_violation)
    problem = Problem(model, require_attacker(attacker, y))
    task, rows = Task(problem, settings, witness=True), problem.rows(X, y, threads)
    with showing(progress, len(rows), "attacking") as listen:
        found = decide(task, rows, listen)
    return Attack.of(found, problem, rows)


@dataclass(frozen=True, eq=False)
class Attack(Result):
    """What the attacker can do, per instance.

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
    """The decision can be flipped: the instance is fragile, or broken."""
    witnesses: npt.NDArray[np.float64] | Csr
    """A row per instance; NaN where there is no witness. Columns stand in the order of the
    model's features, whatever that of a frame was; see `feature_names`. Categories are the numbers
    that the model takes in an array, see `categories`. Of instances that were sparse: CSR, every
    change stored, and a row without entries where there is no witness."""
    distance: npt.NDArray[np.float64]
    """The smallest budget that affords the witness; NaN where there is none."""
    status: npt.NDArray[np.str_]
    """As `verify` gives it."""
    borderline: npt.NDArray[np.bool_]
    """The witness is closer to the decision threshold than the source library's rounding, of the
    raw score or of its probability: it flips the exact sum, and the library's own label may
    differ."""
    labels: npt.NDArray[Any] = field(repr=False)
    """What the decisions are judged by."""
    attacker: Attacker = field(repr=False)
    feature_names: tuple[str, ...] | None = field(default=None, repr=False)
    """The columns of the witnesses, where the model names its features."""
    categories: Mapping[int, Mapping[int, Any]] = field(default_factory=dict, repr=False)
    """Categorical features whose witnesses hold codes: the labels that these stand for."""

    @classmethod
    def of(cls, found: Decisions, problem: Problem, rows: Rows) -> Attack:
        """What the engines found, with witnesses, as a result."""
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
        """What is known per instance, by name; the witnesses are in `witnesses`."""
        return {
            "success": self.success,
            "distance": self.distance,
            "status": self.status,
            "borderline": self.borderline,
        }

    def totals(self) -> dict[str, Any]:
        """Who attacks, and how many instances can be flipped."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": len(self),
            "successes": int(np.count_nonzero(self.success)),
        }

    def to_frame(self) -> Any:
        """The columns as a pandas DataFrame, and after them those of the witnesses.

        The latter are called "witness NAME" by their feature, or "witness 7" where it has no name.
        Categories go by their labels. Of sparse witnesses, the features are there that one of them
        stores; what another leaves out is NaN.
        """
        frame = super().to_frame()
        return frame.join(type(frame)(self.witness_columns()))

    def witness_columns(self) -> dict[str, npt.NDArray[Any]]:
        """The witnesses feature by feature, as `to_frame` names them."""
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
        """Write to a file by its suffix; never half a file.

        `.npz` holds the witnesses (as X; sparse ones as `scipy.sparse.load_npz` reads them), the
        labels (as y) and the columns; `.json`, `.csv` and `.parquet` hold the columns alone.
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
            told = {
                str(f): {str(c): name for c, name in of.items()}
                for f, of in self.categories.items()
            }
            named["categories"] = json.dumps(told)
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
    """What the columns of witnesses are called: "witness NAME", or "witness 7" without a name."""
    return [f"witness {feature if names is None else names[feature]}" for feature in features]
