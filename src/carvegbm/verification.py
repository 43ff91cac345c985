"""Verify: a status for every instance, proved.

Comes in: a model, instances, labels, an attacker. Goes out: a `Verification`, which prints as a
table and saves to JSON, CSV or Parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker, require_attacker
from carvegbm.engines import STATUSES, Engine, OnViolation, Settings, decide
from carvegbm.errors import CarveError
from carvegbm.progress import Progress, progress_bar
from carvegbm.readers import load

__all__ = [
    "STATUSES",
    "Verification",
    "are_neighbours",
    "describe_interval",
    "plain_column",
    "verify",
]

_MEANINGS = {
    "robust": "right, and stays right",
    "fragile": "right, but can be flipped",
    "vulnerable": "wrong, and stays wrong",
    "broken": "wrong, and can be flipped",
    "unknown": "not decided",
}


def verify(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike,
    attacker: Attacker,
    *,
    engine: Engine = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    method: Literal["efficient", "basic"] = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
    progress: Progress = None,
) -> Verification:
    """Decide for every instance whether the attacker can flip the model's decision.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : array (n, n_features)
    y : array (n,)
        Labels; the model's own classes.
    attacker : Attacker
    engine : {"auto", "large-spread", "search", "milp"}
        Who decides. "auto": the large-spread algorithms where the condition holds for the
        instance, else search for a slice of the time limit, else milp for the rest.
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
        Let search find the worst margin itself and not only its sign; takes longer. (The
        large-spread engine finds it unless it runs out of time, or works on a `grid`.)
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
    if method not in ("efficient", "basic"):
        raise CarveError(f"method must be 'efficient' or 'basic', got {method!r}")
    require_attacker(attacker)
    settings = Settings(
        engine, timeout, threads, on_violation, method == "basic", grid, exact_margin
    )
    ensemble = load(model)
    rows = ensemble.check_data(X)
    labels = ensemble.check_labels(y, len(rows))
    attacker.check_instances(ensemble, rows)
    with progress_bar(progress, len(rows), "verifying") as tick:
        found = decide(ensemble, attacker, rows, labels, settings, witness=False, tick=tick)
    return Verification(
        np.array(STATUSES)[found.status],
        found.margin,
        found.worst_lower,
        found.worst_upper,
        found.right,
        found.engine,
        found.seconds,
        attacker,
    )


@dataclass(frozen=True, eq=False, repr=False)
class Verification:
    """What was proved, per instance and in total."""

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
    """The engine that decided: "large-spread", "search" or "milp"; "" where none did."""
    seconds: npt.NDArray[np.float64]
    """Time taken; the large-spread engine's total is shared out evenly."""
    attacker: Attacker = field(repr=False)

    @classmethod
    def joined(cls, parts: Sequence[Verification]) -> Verification:
        """The verification of all instances of several, in their order."""
        names = [f.name for f in fields(cls) if f.name != "attacker"]
        columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
        return cls(**columns, attacker=parts[0].attacker)

    def __len__(self) -> int:
        return len(self.status)

    @property
    def worst_margin(self) -> npt.NDArray[np.float64]:
        """The margin after the best attack, to the last rounding; NaN where it is not known.

        Known means that no double lies between the bounds; of the two this is the worse one. The
        best attack is the one that pushes hardest against the decision, that is, down where the
        instance is right, up where it is wrong.
        """
        lower, upper = self.worst_margin_lower, self.worst_margin_upper
        return np.where(are_neighbours(lower, upper), np.where(self.right, lower, upper), np.nan)

    @property
    def accuracy(self) -> float:
        """Share of instances decided rightly, without an attack."""
        return float(np.mean(self.right))

    @property
    def robustness(self) -> tuple[float, float]:
        """Share of robust instances: the interval (lower, upper) of what is known about it."""
        robust = int(np.count_nonzero(self.status == "robust"))
        open_ = int(np.count_nonzero((self.status == "unknown") & self.right))
        return robust / len(self), (robust + open_) / len(self)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of instances by status."""
        return {name: int(np.count_nonzero(self.status == name)) for name in STATUSES}

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

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; NaN and infinity become None."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": len(self),
            "accuracy": self.accuracy,
            "robustness": list(self.robustness),
            "counts": self.counts,
            **{name: plain_column(column) for name, column in self.columns().items()},
        }

    def save(self, path: Any) -> None:
        """Write to a file, as JSON, CSV or Parquet by its suffix; never half a file."""
        from carvegbm.files import save_result

        save_result(path, self.to_dict, self.columns())

    def summary(self) -> str:
        """Robustness in one line, in the paper's ± notation where instances are unknown."""
        text = f"robustness {describe_interval(*self.robustness)}"
        if self.counts["unknown"]:
            text += f" ({self.counts['unknown']} unknown)"
        return text

    def __repr__(self) -> str:
        return f"<Verification: {len(self)} instances, {self.attacker!r}, {self.summary()}>"

    def __str__(self) -> str:
        lines = [
            f"{len(self)} instances against {self.attacker!r}",
            f"  accuracy    {self.accuracy:.4f}",
            "  " + self.summary().replace("robustness ", "robustness  "),
        ]
        lines += [
            f"  {name:<11} {count:>7}   {_MEANINGS[name]}"
            for name, count in self.counts.items()
            if count or name != "unknown"
        ]
        engines, decided = np.unique(self.engine[self.engine != ""], return_counts=True)
        if len(engines) and engines.tolist() != ["large-spread"]:
            by_engine = ", ".join(
                f"{name} {count}" for name, count in zip(engines, decided, strict=True)
            )
            lines.append(f"  decided by  {by_engine}; slowest {self.seconds.max():.3g} s")
        return "\n".join(lines)


def are_neighbours(
    lower: npt.NDArray[np.float64], upper: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Whether no double lies strictly between lower and upper: what they bound is known."""
    return np.asarray(np.isfinite(lower) & (upper <= np.nextafter(lower, np.inf)))


def describe_interval(lower: float, upper: float) -> str:
    """An interval as its middle ± half its width, or as one number where it is one."""
    if lower == upper:
        return f"{lower:.4f}"
    return f"{(lower + upper) / 2:.4f} ± {(upper - lower) / 2:.4f}"


def plain_column(column: npt.NDArray[Any]) -> list[Any]:
    """A column as JSON can hold it; NaN and infinity become None."""
    if column.dtype.kind != "f":
        return list(column.tolist())
    return [
        value if finite else None
        for value, finite in zip(column.tolist(), np.isfinite(column), strict=True)
    ]
