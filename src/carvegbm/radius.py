"""Radius: the smallest budget that flips each instance; robustness at many budgets from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.attackers.options import LARGEST_BUDGET
from carvegbm.engines import Decisions, EngineName, Settings, Task, decide
from carvegbm.engines.query import Indices
from carvegbm.errors import CarveError
from carvegbm.problem import Problem, Rows
from carvegbm.progress import Progress, progress_bar, showing
from carvegbm.results import Result, describe_interval
from carvegbm.statuses import named
from carvegbm.totals import CurveTotals

if TYPE_CHECKING:
    from carvegbm.displays import RadiusDisplay, RobustnessCurveDisplay

__all__ = [
    "Curve",
    "Radius",
    "budgetless",
    "check_budgets",
    "radius",
    "radius_task",
    "robustness_curve",
]


def radius(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    norm: int | float | str | None = None,
    scale: Any = None,
    features: Any = None,
    bounds: Any = None,
    step: Any = None,
    categories: Any = None,
    one_hot: Any = None,
    max_budget: float | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    progress: Progress = None,
) -> Radius:
    """The smallest budget that flips each instance, exactly; 0 where it is wrong already.

    The radius r is the smallest double such that `verify` with budget r says "fragile" (an
    `Attacker` takes budgets from 1e-100 on; a smaller radius stands for itself). It is
    sought up to `max_budget`. The large-spread engine can tell up to the largest budget for which
    the ensemble is large-spread; beyond it, "auto" hands over to search, which has `timeout`
    seconds per instance. Where the radius is not found, `lower` and `upper` say what is known.
    `norm`, `scale`, `features`, `bounds`, `step`, `categories` and `one_hot` are those of
    `Attacker`; an `attacker` may be given in their place, whose budget has no part in it. The rest
    is as in `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.radius(model, [[0.75], [0.25]], [1, 1], norm=1).radius.tolist()
    [0.25, 0.0]
    """
    settings = Settings(engine, timeout, threads)
    kind = budgetless(
        attacker,
        y,
        norm=norm,
        scale=scale,
        features=features,
        bounds=bounds,
        step=step,
        categories=categories,
        one_hot=one_hot,
    )
    task = radius_task(Problem(model, kind), settings, max_budget)
    rows = task.problem.rows(X, y, threads)
    with showing(progress, len(rows), "measuring") as listen:
        found = decide(task, rows, listen)
    return Radius.of(found, task.problem, max_budget)


def radius_task(problem: Problem, settings: Settings, max_budget: float | None) -> Task:
    """The radii of a problem, whatever its budget, up to `max_budget`."""
    p, everything = problem.attacker.norm, _everything(problem)
    wanted = everything if max_budget is None else min(everything, Attacker(p, max_budget).budget)
    return Task(problem.with_budget(wanted), settings, asks="radius")


def _everything(problem: Problem) -> float:
    """A budget than which no larger one does more."""
    is_counted = problem.attacker.norm == 0
    return float(max(1, problem.ensemble.n_features)) if is_counted else LARGEST_BUDGET


@dataclass(frozen=True, eq=False)
class Radius(Result):
    """The smallest budget that flips each row, and bounds on it.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.radius(model, [[0.75], [1.5]], [1, 1], norm=1)
    >>> found.radius.tolist(), found.exact.tolist()
    ([0.25, 1.0], [True, True])
    """

    radius: npt.NDArray[np.float64]
    """The smallest budget that flips; infinite if none up to 1e100 does, NaN where it is not
    decided."""
    lower: npt.NDArray[np.float64]
    """lower <= radius"""
    upper: npt.NDArray[np.float64]
    """radius <= upper"""
    norm: int | float

    @classmethod
    def of(cls, found: Decisions, problem: Problem, max_budget: float | None) -> Radius:
        """What the engines found, sought up to `max_budget`, as a result."""
        p = problem.attacker.norm
        lower, upper = found["radius_lower"], found["radius_upper"]
        if max_budget is None or p == 0:
            # No budget flips these.
            lower[np.isinf(upper) & (lower > _everything(problem))] = math.inf
        radius = np.where(lower == upper, lower, np.nan)
        return cls(radius, lower, upper, p, iterations=problem.ensemble.iterations)

    @property
    def exact(self) -> npt.NDArray[np.bool_]:
        """Where the radius is known."""
        return ~np.isnan(self.radius)

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What is known per instance, by name."""
        return {"radius": self.radius, "lower": self.lower, "upper": self.upper}

    def totals(self) -> dict[str, Any]:
        """The norm, and the number of instances."""
        return {"norm": _plain_norm(self.norm), "instances": len(self)}

    def plot(
        self, ax: Any = None, *, bins: Any = None, name: str | None = None, **kwargs: Any
    ) -> RadiusDisplay:
        """Draw the radii, see `RadiusDisplay`."""
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


def robustness_curve(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    norm: int | float | str | None = None,
    budgets: float | Iterable[float],
    scale: Any = None,
    features: Any = None,
    bounds: Any = None,
    step: Any = None,
    categories: Any = None,
    one_hot: Any = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    progress: Progress = None,
) -> Curve:
    """Robustness at many budgets.

    Each row is verified at about log2(number of budgets) of them: it is robust at every smaller
    budget than one at which it is robust, and at no larger one than one that flips it. `timeout` is
    per row and verification. `engine="large-spread"` reads the curve from radii, as it verifies
    only budgets for which the ensemble is large-spread. The other parameters are those of `radius`;
    the budget of an `attacker` is ignored.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y = [[0.75], [1.5]], [1, 1]
    >>> cg.robustness_curve(model, X, y, norm="inf", budgets=[0.1, 0.5, 1.0]).lower.tolist()
    [1.0, 0.5, 0.0]
    """
    kind = budgetless(
        attacker,
        y,
        norm=norm,
        scale=scale,
        features=features,
        bounds=bounds,
        step=step,
        categories=categories,
        one_hot=one_hot,
    )
    checked = check_budgets(budgets, kind.norm)
    settings = Settings(engine, timeout, threads)
    problem = Problem(model, kind)
    if engine == "large-spread":
        radii = radius(
            problem.ensemble,
            X,
            y,
            kind,
            max_budget=max(checked),
            engine=engine,
            timeout=timeout,
            threads=threads,
            progress=progress,
        )
        return Curve.of_radii(radii, checked)
    rows = problem.rows(X, y, threads)
    ascending = sorted(set(checked))
    with progress_bar(progress, len(rows), "verifying") as tick:
        right, robust, possible = _bisected(problem, rows, ascending, settings, tick)
    places = [ascending.index(budget) for budget in checked]
    return Curve.of(
        CurveTotals(
            kind.norm,
            checked,
            len(rows),
            int(np.count_nonzero(right)),
            tuple(int(np.count_nonzero(robust > place)) for place in places),
            tuple(int(np.count_nonzero(possible > place)) for place in places),
            iterations=problem.ensemble.iterations,
        )
    )


def _bisected(
    problem: Problem,
    rows: Rows,
    budgets: list[float],
    settings: Settings,
    tick: Callable[[int], object] | None,
) -> tuple[npt.NDArray[np.bool_], Indices, Indices]:
    """Verify rows at ascending budgets: which are right, and per row two counts, robust, possible.

    A row is robust at budgets[:robust] and is flipped at budgets[possible:]; in between it is not
    decided. No row is verified twice at one budget.
    """
    right = np.concatenate(
        [
            part_of.unattacked(part, settings.threads).right
            for _, part_of, part in problem.dense(rows)
        ]
    )
    robust = np.zeros(len(rows), dtype=np.int64)
    possible = np.where(right, len(budgets), 0)
    open_ = [(0, len(budgets), np.flatnonzero(right))]
    verified, levels = 0, len(budgets).bit_length()

    def listen(_: Decisions, finished: Indices) -> None:
        nonlocal verified
        verified += len(finished)
        if tick is not None:
            tick(verified // levels)

    while open_:
        first, last, some = open_.pop()
        if first == last or len(some) == 0:
            continue
        middle = (first + last) // 2
        task = Task(problem.with_budget(budgets[middle]), settings)

        status = named(decide(task, rows.take(some), listen).status)
        stays, flips = status == "robust", status == "fragile"
        robust[some[stays]] = np.maximum(robust[some[stays]], middle + 1)
        possible[some[flips]] = np.minimum(possible[some[flips]], middle)
        open_.append((first, middle, some[~stays]))
        open_.append((middle + 1, last, some[~flips]))
    return right, robust, possible


def check_budgets(budgets: float | Iterable[float], norm: int | float) -> tuple[float, ...]:
    """The budgets of a curve: at least one."""
    given = budgets if isinstance(budgets, Iterable) else [budgets]
    checked = tuple(Attacker(norm, budget).budget for budget in given)
    if not checked:
        raise CarveError("budgets must name at least one budget")
    return checked


def budgetless(attacker: Attacker | None, y: Any, **ways: Any) -> Attacker:
    """The attacker whose budget is sought: the one given, or one that goes these ways."""
    given = {name: value for name, value in ways.items() if value is not None}
    if attacker is None and not isinstance(y, Attacker):
        if "norm" not in given:
            raise CarveError("norm is missing; give norm=…, or an Attacker after X and y")
        return Attacker(budget=0, **given)
    attacker = require_attacker(attacker, y)
    if given:
        name = next(iter(given))
        raise CarveError(f"{name} is given, and an attacker that has its own; drop one of them")
    return attacker.with_budget(0)


def _plain_norm(norm: int | float) -> int | str:
    return "inf" if math.isinf(norm) else int(norm)


@dataclass(frozen=True, eq=False)
class Curve(Result):
    """Robustness over budget: lower[i] <= robustness at budgets[i] <= upper[i].

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> curve = cg.robustness_curve(model, [[0.75], [1.5]], [1, 1], norm=1, budgets=[0.1, 0.5])
    >>> curve.accuracy, curve.lower.tolist()
    (1.0, [1.0, 0.5])
    """

    budgets: npt.NDArray[np.float64]
    lower: npt.NDArray[np.float64]
    upper: npt.NDArray[np.float64]
    accuracy: float
    norm: int | float

    @classmethod
    def of(cls, found: CurveTotals) -> Curve:
        """The shares that these counts are."""
        n = found.instances
        return cls(
            np.array(found.budgets),
            np.array(found.robust) / n,
            np.array(found.possible) / n,
            found.right / n,
            found.norm,
            iterations=found.iterations,
        )

    @classmethod
    def of_radii(cls, radii: Radius, budgets: tuple[float, ...]) -> Curve:
        """The shares of radii beyond each of the budgets."""
        return cls.of(CurveTotals.of(radii.columns(), radii.norm, budgets, radii.iterations))

    @property
    def robustness(self) -> npt.NDArray[np.float64]:
        """Intervals (lower, upper), a row per budget."""
        return np.column_stack([self.lower, self.upper])

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """What is known per budget, by name."""
        return {"budget": self.budgets, "lower": self.lower, "upper": self.upper}

    def totals(self) -> dict[str, Any]:
        """The norm, and the accuracy without an attack."""
        return {"norm": _plain_norm(self.norm), "accuracy": self.accuracy}

    def plot(
        self, ax: Any = None, *, name: str | None = None, **kwargs: Any
    ) -> RobustnessCurveDisplay:
        """Draw the curve, see `RobustnessCurveDisplay`."""
        from carvegbm.displays import RobustnessCurveDisplay

        return RobustnessCurveDisplay(self).plot(ax, name=name, **kwargs)

    def _text(self) -> str:
        lines = [f"robustness, norm {self.norm} (accuracy {self.accuracy:.4f})"]
        for budget, lower, upper in zip(self.budgets, self.lower, self.upper, strict=True):
            lines.append(f"  budget {budget:<10g} {describe_interval(lower, upper)}")
        return "\n".join(lines)
