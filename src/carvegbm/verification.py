"""The result of a verification: a proven status per row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import Decisions
from carvegbm.problem import Problem
from carvegbm.results import Result, are_neighbours
from carvegbm.statuses import named
from carvegbm.totals import VerificationTotals

if TYPE_CHECKING:
    from carvegbm.displays import VerificationDisplay

__all__ = ["Verification"]


@dataclass(frozen=True, eq=False, repr=False)
class Verification(Result):
    """A proven status per row.

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
    """"robust", "fragile", "vulnerable", "broken" or "unknown"."""
    margin: npt.NDArray[np.float64]
    """How far the raw score is on the right side of the decision threshold."""
    worst_margin_lower: npt.NDArray[np.float64]
    """worst_margin_lower <= worst margin, rounded down"""
    worst_margin_upper: npt.NDArray[np.float64]
    """worst margin <= worst_margin_upper, rounded up"""
    right: npt.NDArray[np.bool_]
    """Whether the model's answer to the unchanged row is the label."""
    engine: npt.NDArray[np.str_]
    """The engine that decided: "large-spread" or "search"; "" where none did."""
    seconds: npt.NDArray[np.float64]
    """Time spent by all engines together."""
    attacker: Attacker = field(repr=False)

    @classmethod
    def of(cls, found: Decisions, problem: Problem) -> Verification:
        """Make the result of what the engines decided."""
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

    @property
    def worst_margin(self) -> npt.NDArray[np.float64]:
        """The margin after the best attack, to the last rounding; NaN where it is not known.

        It is known if no double lies between its bounds, and is then the worse of the
        two. The best attack lowers the margin of a right row and raises that of a wrong one.
        """
        lower, upper = self.worst_margin_lower, self.worst_margin_upper
        return np.where(are_neighbours(lower, upper), np.where(self.right, lower, upper), np.nan)

    @cached_property
    def _totals(self) -> VerificationTotals:
        return VerificationTotals.of(self.columns(), self.attacker)

    @property
    def accuracy(self) -> float:
        """Share of rows with the right answer before any attack."""
        return self._totals.accuracy

    @property
    def robustness(self) -> tuple[float, float]:
        """Share of robust rows as an interval (lower, upper), for unknown ones may be robust."""
        return self._totals.robustness

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of rows by status."""
        return self._totals.counts

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
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
        """Return attacker, accuracy, robustness, and the number of rows by status."""
        return self._totals.to_dict()

    def summary(self) -> str:
        """Return robustness in one line, in the paper's ± notation if rows are unknown."""
        return self._totals.summary()

    def decided_by(self) -> str:
        """Return which engines decided and the slowest time; "" if all was large-spread."""
        return self._totals.decided_by()

    def plot(
        self,
        ax: Any = None,
        *,
        y: npt.ArrayLike | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> VerificationDisplay:
        """Draw the shares of the statuses; see `VerificationDisplay`."""
        from carvegbm.displays import VerificationDisplay

        return VerificationDisplay(self, y=y).plot(ax, name=name, **kwargs)

    def __repr__(self) -> str:
        of = f"{len(self)} instances, {self.attacker}"
        return f"<Verification: {of}, {self.summary()}{self._in_short}>"

    def _text(self) -> str:
        return str(self._totals)
