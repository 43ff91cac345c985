"""Verify: a status for every instance, proved.

Comes in: a model, instances, labels, an attacker. Goes out: a `Verification`, which prints as a
table and saves to JSON, CSV or Parquet.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.engines import Decisions, EngineName, OnViolation, Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.problem import Problem
from carvegbm.progress import Progress, showing
from carvegbm.proofs.write import write_proof
from carvegbm.results import Result, are_neighbours
from carvegbm.statuses import named
from carvegbm.storage.files import check_apart, check_output
from carvegbm.totals import VerificationTotals

if TYPE_CHECKING:
    from carvegbm.displays import VerificationDisplay

__all__ = ["Verification", "verify"]


def verify(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    method: Literal["efficient", "basic"] = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
    proof: Any = None,
    progress: Progress = None,
) -> Verification:
    """Decide for every instance whether the attacker can flip the model's decision.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : array (n, n_features)
    y : array (n,), optional
        Labels; the model's own classes. Without them the model's own answers are right, and the
        question is whether the attacker can change them.
    attacker : Attacker
    engine : {"auto", "large-spread", "search"}
        The engine that decides. "auto" runs the large-spread algorithms on instances for which
        their condition holds, and the search on those that they leave undecided.
    timeout : float, default 10
        Seconds per instance; an instance not decided by then is "unknown".
    threads : int, optional
        All cores by default.
    method : {"efficient", "basic"}
        Large-spread engine: the paper's EV, which adds up adversarial gains, or its BV, which
        builds the best perturbation and predicts on it. They agree.
    grid : int, optional
        Large-spread engine: the paper's conservative mode for norms 1, 2, …: costs are rounded
        down and the budget up to multiples of 10^-grid. Never `robust` where the exact verdict is
        not; an alarm that is not backed by an attack is `unknown`.
    on_violation : {"raise", "unknown"}, optional
        Restrict "auto" to the large-spread engine, and say what to do with an ensemble that is
        not large-spread for the attacker: refuse it, or check the condition for every instance
        and leave those undecided for which it does not hold. `engine="large-spread"` raises.
    exact_margin : bool, default False
        Find the worst margin itself and not only its sign; takes longer. (The large-spread engine
        finds it in any case for norm inf, and for norm 0 in small trees; on a `grid` it does not.)
    proof : path, optional
        A file to write proofs of all statuses to, for `carvegbm_check` or anyone else to check.
        What cannot be proved within `timeout` seconds more is marked, and warned of.
    progress : bool or callable, optional
        A bar on a terminal by default; a callable gets the number of finished rows.

    Returns
    -------
    Verification

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> result.status.tolist()
    ['robust', 'fragile']
    """
    settings = Settings(
        engine, timeout, threads, on_violation, is_basic(method), grid, exact_margin
    )
    problem = Problem(model, require_attacker(attacker, y))
    target = None if proof is None else check_output(proof, None)
    if isinstance(model, str | os.PathLike):
        check_apart({"proof": target}, {"the model": model})
    asks_proof = target is not None
    task = Task(problem, settings, witness=asks_proof, any_witness=asks_proof)
    rows = problem.rows(X, y, threads)
    with showing(progress, len(rows), "verifying") as listen:
        found = decide(task, rows, listen)
    if target is not None:
        proved = write_proof(target, task, rows, found, own_labels=y is None)
        if proved.unproved:
            warnings.warn(proved.warning(target), stacklevel=2)
    return Verification.of(found, problem)


def is_basic(method: str) -> bool:
    """Whether the paper's BV is asked for, not its EV."""
    if method not in ("efficient", "basic"):
        raise CarveError(f"method must be 'efficient' or 'basic', got {method!r}")
    return method == "basic"


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """What was proved, per instance and in total.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> result.accuracy, result.robustness
    (1.0, (0.5, 0.5))
    >>> result.worst_margin.tolist()
    [1.0, -1.0]
    >>> result.counts["fragile"]
    1
    """

    status: npt.NDArray[np.str_]
    """"robust", "fragile", "vulnerable", "broken" or "unknown", per instance."""
    margin: npt.NDArray[np.float64]
    """How far the raw score is on the right side of the decision threshold."""
    worst_margin_lower: npt.NDArray[np.float64]
    """worst_margin_lower <= worst margin, rounded down"""
    worst_margin_upper: npt.NDArray[np.float64]
    """worst margin <= worst_margin_upper, rounded up"""
    right: npt.NDArray[np.bool_]
    """Whether the model's decision on the unchanged instance is the label."""
    engine: npt.NDArray[np.str_]
    """The engine that decided: "large-spread" or "search"; "" where none did."""
    seconds: npt.NDArray[np.float64]
    """Time taken by all engines together."""
    attacker: Attacker = field(repr=False)

    @classmethod
    def of(cls, found: Decisions, problem: Problem) -> Verification:
        """What the engines decided, as a result."""
        return cls(
            named(found.status),
            found["margin"],
            found["worst_lower"],
            found["worst_upper"],
            found["right"],
            found.engine,
            found.seconds,
            problem.attacker,
            iterations=problem.ensemble.iterations,
        )

    @classmethod
    def joined(cls, parts: Sequence[Verification]) -> Verification:
        """The verification of all instances of several, in their order."""
        names = [f.name for f in fields(cls) if f.name not in ("attacker", "iterations")]
        columns: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts]) for name in names
        }
        return replace(parts[0], **columns)

    @property
    def worst_margin(self) -> npt.NDArray[np.float64]:
        """The margin after the best attack, to the last rounding; NaN where it is not known.

        Known means that no double lies between the bounds; of the two this is the worse one. The
        best attack is the one that pushes hardest against the decision, that is, down where the
        instance is right, up where it is wrong.
        """
        lower, upper = self.worst_margin_lower, self.worst_margin_upper
        return np.where(are_neighbours(lower, upper), np.where(self.right, lower, upper), np.nan)

    @cached_property
    def _totals(self) -> VerificationTotals:
        return VerificationTotals.of(self.columns(), self.attacker)

    @property
    def accuracy(self) -> float:
        """Share of instances decided rightly, without an attack."""
        return self._totals.accuracy

    @property
    def robustness(self) -> tuple[float, float]:
        """Share of robust instances: the interval (lower, upper) of what is known about it."""
        return self._totals.robustness

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of instances by status."""
        return self._totals.counts

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What is known per instance, by name."""
        return {
            "status": self.status,
            "right": self.right,
            "margin": self.margin,
            "worst_margin": self.worst_margin,
            "worst_margin_lower": self.worst_margin_lower,
            "worst_margin_upper": self.worst_margin_upper,
            "engine": self.engine,
            "seconds": self.seconds,
        }

    def totals(self) -> dict[str, Any]:
        """Accuracy, robustness, and the number of instances by status."""
        return self._totals.to_dict()

    def summary(self) -> str:
        """Robustness in one line, in the paper's ± notation where instances are unknown."""
        return self._totals.summary()

    def decided_by(self) -> str:
        """Which engines decided and how long the slowest row took; "" if all was large-spread."""
        return self._totals.decided_by()

    def plot(
        self,
        ax: Any = None,
        *,
        y: npt.ArrayLike | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> VerificationDisplay:
        """Draw the shares of the statuses, see `VerificationDisplay`."""
        from carvegbm.displays import VerificationDisplay

        return VerificationDisplay(self, y=y).plot(ax, name=name, **kwargs)

    def __repr__(self) -> str:
        of = f"{len(self)} instances, {self.attacker}"
        return f"<Verification: {of}, {self.summary()}{self._in_short}>"

    def _text(self) -> str:
        return str(self._totals)
