"""The result of `output_range`: the raw scores that the attacker can reach, per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import Decisions
from carvegbm.problem import Problem
from carvegbm.results import Result, are_neighbours

__all__ = ["OutputRange"]


@dataclass(frozen=True, eq=False, repr=False)
class OutputRange(Result):
    """Bounds of the lowest and highest raw score in reach, per row; rounded outward.

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
        """Make the result of what the engines found."""
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
        """Where both are known to the last rounding: no double lies between their bounds."""
        return np.asarray(
            are_neighbours(self.lowest_lower, self.lowest_upper)
            & are_neighbours(self.highest_lower, self.highest_upper)
        )

    @property
    def lowest(self) -> npt.NDArray[np.float64]:
        """The lowest raw score in reach, rounded down; NaN where it is not known."""
        known = are_neighbours(self.lowest_lower, self.lowest_upper)
        return np.where(known, self.lowest_lower, np.nan)

    @property
    def highest(self) -> npt.NDArray[np.float64]:
        """The highest raw score in reach, rounded up; NaN where it is not known."""
        known = are_neighbours(self.highest_lower, self.highest_upper)
        return np.where(known, self.highest_upper, np.nan)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
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
        """Return the attacker and the number of rows."""
        return {"attacker": self.attacker.to_dict(), "instances": len(self)}

    def _text(self) -> str:
        known = int(np.count_nonzero(self.exact))
        return f"{len(self)} instances, {self.attacker}, {known} known exactly"

    def __repr__(self) -> str:
        return f"<OutputRange: {self._text()}{self._in_short}>"
