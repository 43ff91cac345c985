"""Results about budgets: the radius of every row, and robustness over budget."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.options import check_budget
from carvegbm.engines import Decisions
from carvegbm.errors import CarveError
from carvegbm.problem import Problem
from carvegbm.results import Result, describe_interval, plain_norm
from carvegbm.totals import CurveTotals

if TYPE_CHECKING:
    from carvegbm.displays import RadiusDisplay, RobustnessCurveDisplay

__all__ = ["Curve", "Radius", "check_budgets", "next_budget"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Radius(Result):
    """The smallest budget that flips each row.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.radius(model, [[0.75], [1.5]], [1, 1], cg.Attacker(1))
    >>> found.radius.tolist(), found.exact.tolist()
    ([0.25, 1.0], [True, True])
    """

    radius: Floats
    """The smallest budget that flips the row; infinite if none up to 1e100 does, NaN where it is
    not decided."""
    lower: Floats
    """lower <= radius"""
    upper: Floats
    """radius <= upper"""
    norm: int | float

    @classmethod
    def of(cls, found: Decisions, problem: Problem, max_budget: float | None = None) -> Radius:
        """Make the result of what the engines found in a search up to `max_budget`."""
        norm = problem.attacker.norm
        lower, upper = found["radius_lower"], found["radius_upper"]
        if max_budget is None or norm == 0:
            lower[np.isinf(upper) & (lower > problem.unlimited_budget)] = math.inf
        return cls.between(lower, upper, problem)

    @classmethod
    def between(cls, lower: Floats, upper: Floats, problem: Problem) -> Radius:
        """Make the result of lower and upper bounds."""
        radius = np.where(lower == upper, lower, np.nan)
        iterations = problem.ensemble.iterations
        return cls(radius, lower, upper, problem.attacker.norm, iterations=iterations)

    @property
    def exact(self) -> npt.NDArray[np.bool_]:
        """Where the radius is known."""
        return ~np.isnan(self.radius)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name."""
        return {"radius": self.radius, "lower": self.lower, "upper": self.upper}

    def totals(self) -> dict[str, Any]:
        """Return the norm and the number of rows."""
        return {"norm": plain_norm(self.norm), "instances": len(self)}

    def plot(
        self, ax: Any = None, *, bins: Any = None, name: str | None = None, **kwargs: Any
    ) -> RadiusDisplay:
        """Draw the radii; see `RadiusDisplay`."""
        from carvegbm.displays import RadiusDisplay

        return RadiusDisplay(self, bins=bins).plot(ax, name=name, **kwargs)

    def _text(self) -> str:
        known = self.radius[self.exact]
        undecided = len(self) - len(known)
        text = f"{len(self)} radii, norm {self.norm}"
        if len(known):
            text += (
                f": smallest {known.min():.6g}, median {np.median(known):.6g}, "
                f"largest {known.max():.6g}"
            )
        if undecided:
            text += f"; {undecided} not decided, at least {self.lower[~self.exact].min():.6g}"
        return text


def next_budget(norm: int | float, budget: float) -> float:
    """Return the smallest budget above this one: for norm 0, budgets are whole numbers."""
    return budget + 1 if norm == 0 else math.nextafter(budget, math.inf)


def check_budgets(budgets: float | Iterable[float], norm: int | float) -> tuple[float, ...]:
    """Return the budgets of a curve as floats; refuse an empty sequence."""
    given = budgets if isinstance(budgets, Iterable) else [budgets]
    checked = tuple(check_budget(norm, budget) for budget in given)
    if not checked:
        raise CarveError("budgets must contain at least one budget, got none")
    return checked


@dataclass(frozen=True, eq=False)
class Curve(Result):
    """Robustness over budget: lower[i] <= robustness at budgets[i] <= upper[i].

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = [[0.75], [1.5]], [1, 1]
    >>> curve = cg.robustness_curve(model, X, y, cg.Attacker(1), budgets=[0.1, 0.5])
    >>> curve.accuracy, curve.lower.tolist()
    (1.0, [1.0, 0.5])
    """

    budgets: Floats
    lower: Floats
    upper: Floats
    accuracy: float
    norm: int | float

    @classmethod
    def of(cls, found: CurveTotals) -> Curve:
        """Divide counts by the number of rows."""
        n = found.instances
        return cls(
            np.array(found.budget),
            np.array(found.robust) / n,
            np.array(found.possible) / n,
            found.right / n,
            found.norm,
            iterations=found.iterations,
        )

    @classmethod
    def of_radii(cls, radii: Radius, budgets: tuple[float, ...]) -> Curve:
        """Count the radii beyond each budget."""
        totals = CurveTotals.of(radii.columns(), radii.norm, budgets)
        return cls.of(replace(totals, iterations=radii.iterations))

    @property
    def robustness(self) -> Floats:
        """Intervals (lower, upper), one row per budget."""
        return np.column_stack([self.lower, self.upper])

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return the columns by name, with one value per budget."""
        return {"budget": self.budgets, "lower": self.lower, "upper": self.upper}

    def totals(self) -> dict[str, Any]:
        """Return the norm and the accuracy before any attack."""
        return {"norm": plain_norm(self.norm), "accuracy": self.accuracy}

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> RobustnessCurveDisplay:
        """Draw the curve; see `RobustnessCurveDisplay`."""
        from carvegbm.displays import RobustnessCurveDisplay

        return RobustnessCurveDisplay(self).plot(ax, name=name, **kwargs)

    def _text(self) -> str:
        lines = [f"robustness, norm {self.norm} (accuracy {self.accuracy:.4f})"]
        for budget, lower, upper in zip(self.budgets, self.lower, self.upper, strict=True):
            lines.append(f"  budget {budget:<10g} {describe_interval(lower, upper)}")
        return "\n".join(lines)
