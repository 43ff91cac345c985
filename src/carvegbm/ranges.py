"""Ranges: what an attacker can and cannot do to the raw score.

Comes in: a model, instances, an attacker, a limit. Goes out: the range of raw scores within reach,
or an answer per instance that is decided in exact arithmetic, or "unknown" where time ran out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import Decisions, EngineName, OnViolation, Settings, Task, decide
from carvegbm.errors import CarveError
from carvegbm.problem import Problem
from carvegbm.progress import Progress, showing
from carvegbm.results import Result, are_neighbours
from carvegbm.statuses import named

__all__ = [
    "Answers",
    "OutputRange",
    "answers",
    "output_range",
    "single_output",
    "small_neighbourhood",
    "stability",
]

Answers = npt.NDArray[np.str_]
""""holds" or "fails" per instance, as a theorem; "unknown" where time ran out, or where
`on_violation="unknown"` leaves an instance undecided."""


def output_range(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> OutputRange:
    """The lowest and the highest raw score the attacker can reach, per instance.

    For regression this is the range of outputs. Where time runs out, both ends are bounded from
    outside, by what no attack exceeds, and from inside, by what an attack reaches. The
    parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, task="regression")
    >>> found = cg.output_range(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1))
    >>> found.lowest.tolist(), found.highest.tolist(), found.exact.tolist()
    ([-1.0, 1.0], [1.0, 1.0], [True, True])
    """
    settings = Settings(engine, timeout, threads, on_violation)
    problem = single_output(Problem(model, attacker), "output_range")
    task, rows = Task(problem, settings, asks="range"), problem.instances(X)
    with showing(progress, len(rows), "measuring") as listen:
        found = decide(task, rows, listen)
    return OutputRange.of(found, problem)


@dataclass(frozen=True, eq=False, repr=False)
class OutputRange(Result):
    """The range of raw scores within reach, per instance; every bound is rounded outward.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.output_range(model, [[0.1], [0.45]], cg.Attacker("inf", 0.1))
    >>> found.lowest_lower.tolist(), found.highest_upper.tolist()
    ([-1.0, -1.0], [-1.0, 1.0])
    """

    lowest_lower: npt.NDArray[np.float64]
    """No attack reaches a raw score below this."""
    lowest_upper: npt.NDArray[np.float64]
    """An attack reaches a raw score this low."""
    highest_lower: npt.NDArray[np.float64]
    """An attack reaches a raw score this high."""
    highest_upper: npt.NDArray[np.float64]
    """No attack reaches a raw score above this."""
    attacker: Attacker

    @classmethod
    def of(cls, found: Decisions, problem: Problem) -> OutputRange:
        """What the engines found, as a result."""
        return cls(
            found["lowest_lower"],
            found["lowest_upper"],
            found["highest_lower"],
            found["highest_upper"],
            problem.attacker,
            iterations=problem.ensemble.iterations,
        )

    @property
    def exact(self) -> npt.NDArray[np.bool_]:
        """Where both ends are known to the last rounding: no double lies between their bounds."""
        return np.asarray(
            are_neighbours(self.lowest_lower, self.lowest_upper)
            & are_neighbours(self.highest_lower, self.highest_upper)
        )

    @property
    def lowest(self) -> npt.NDArray[np.float64]:
        """The lowest raw score within reach, rounded down; NaN where it is not known."""
        known = are_neighbours(self.lowest_lower, self.lowest_upper)
        return np.where(known, self.lowest_lower, np.nan)

    @property
    def highest(self) -> npt.NDArray[np.float64]:
        """The highest raw score within reach, rounded up; NaN where it is not known."""
        known = are_neighbours(self.highest_lower, self.highest_upper)
        return np.where(known, self.highest_upper, np.nan)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What is known per instance, by name."""
        return {
            "lowest": self.lowest,
            "lowest_lower": self.lowest_lower,
            "lowest_upper": self.lowest_upper,
            "highest": self.highest,
            "highest_lower": self.highest_lower,
            "highest_upper": self.highest_upper,
            "exact": self.exact,
        }

    def totals(self) -> dict[str, Any]:
        """Who attacks, and the number of instances."""
        return {"attacker": self.attacker.to_dict(), "instances": len(self)}

    def _text(self) -> str:
        known = int(np.count_nonzero(self.exact))
        return f"{len(self)} instances, {self.attacker}, {known} known exactly"

    def __repr__(self) -> str:
        return f"<OutputRange: {self._text()}{self._in_short}>"


def stability(
    model: Any, X: npt.ArrayLike, attacker: Attacker, c: float, **options: Any
) -> Answers:
    """No attack changes the raw score by more than c; decided exactly.

    `options` are those of `output_range`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.stability(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), c=0.5).tolist()
    ['fails', 'holds']
    """
    return _stays_within("stability", Problem(model, attacker), X, _limit(c), options)


def small_neighbourhood(
    model: Any, X: npt.ArrayLike, attacker: Attacker, c: float, **options: Any
) -> Answers:
    """No attack changes the raw score by more than c times its L-infinity budget.

    Decided exactly: the product is not rounded. `options` are those of `output_range`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.small_neighbourhood(model, [[0.45]], cg.Attacker("inf", 0.1), c=100).tolist()
    ['holds']
    """
    problem = Problem(model, attacker)
    if not math.isinf(attacker.norm):
        raise CarveError(f"small_neighbourhood is defined for norm inf, got {attacker.norm}")
    limit = _limit(c) * Fraction(attacker.budget)
    return _stays_within("small_neighbourhood", problem, X, limit, options)


def property_settings(
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> tuple[Settings, Progress]:
    """The options of properties; others are refused, as those of any function."""
    return Settings(engine, timeout, threads, on_violation), progress


def answers(status: npt.NDArray[np.uint8]) -> Answers:
    """A property holds where it is robust, and fails where it is fragile."""
    of = {"robust": "holds", "fragile": "fails", "unknown": "unknown"}
    return np.array([of[name] for name in named(status).tolist()], dtype="<U7")


def _stays_within(
    what: str, problem: Problem, X: npt.ArrayLike, limit: Fraction, options: dict[str, Any]
) -> Answers:
    """Whether no attack changes the raw score by more than the limit, exactly."""
    settings, progress = property_settings(**options)
    ensemble = single_output(problem, what).ensemble
    # Two sums of one leaf per tree differ by no more than twice their magnitude, which is rounded:
    # with four times it, the core's whole numbers know all limits that matter.
    most = 4 * Fraction(float(ensemble.core.magnitude))
    total = np.array(_as_doubles(min(limit * ensemble.average, most)))
    task, rows = Task(problem, settings, asks="within", limit=total), problem.instances(X)
    with showing(progress, len(rows), "verifying") as listen:
        return answers(decide(task, rows, listen).status)


def _limit(c: Any) -> Fraction:
    """A number >= 0 as the rational it is; one beyond all doubles is more than any change."""
    most = Fraction(float(np.finfo(np.float64).max))
    try:
        if isinstance(c, str | bytes):
            raise TypeError
        if isinstance(c, Rational):  # a whole number, or a fraction, as it is
            number = Fraction(int(c.numerator), int(c.denominator))  # NumPy's overflow
        else:
            number = most if float(c) == math.inf else Fraction(float(c))
    except (TypeError, ValueError, OverflowError):
        number = Fraction(-1)
    if number < 0:
        raise CarveError(f"c must be a number >= 0, got {c!r}")
    return min(number, most)


def _as_doubles(number: Fraction) -> list[float]:
    """Doubles whose sum is the number, or the largest multiple of 2^-1074 below it.

    Sums of scores are such multiples: a limit in between says no more than the one below.
    """
    units = number.numerator * 2**1074 // number.denominator
    parts = []
    while units:
        length = max(units.bit_length() - 53, 0)
        part = units >> length << length
        parts.append(float(Fraction(part, 2**1074)))
        units -= part
    return parts or [0.0]


def single_output(problem: Problem, what: str) -> Problem:
    """The problem, unless its model has several outputs."""
    outputs = problem.ensemble.n_outputs
    if outputs != 1:
        raise CarveError(
            f"{what} needs a model with one output, this one has {outputs}, one score per class; "
            "use verify"
        )
    return problem
