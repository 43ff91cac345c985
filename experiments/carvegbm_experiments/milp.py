"""Verify rows by a mixed-integer linear program: the published baseline, solved by HiGHS.

The program is that of Kantchelian et al. (2016), restricted to what the attacker can reach from a
row x. Variables:

- p[f, t] in {0, 1} per threshold t of feature f that the attacker can cross: 1 iff z[f] <= t;
- y[l] in [0, 1] per leaf l that may be reached: 1 iff z falls into it.

Constraints: p[f, t] <= p[f, u] for t < u; the leaves of a tree sum to 1; the leaves below a side of
a split sum to at most p, or 1 - p; the cost of the crossed thresholds is at most the budget; the
score changes the answer. For several rivals of a correct row there is one program per rival.

HiGHS computes in floating point, and accepts points that violate a constraint by 1e-6. Verdicts are
exact all the same:

- Constraints that hold fractional numbers are widened by more than HiGHS' tolerances, so every
  attack satisfies them with room to spare: "infeasible" means that there is none.
- A solution is turned into a row z whose cost and score are computed in rationals. If z is no
  attack, a constraint excludes its combination of p, and HiGHS is called again.

The module shares no code with the engines of carvegbm: it reads the nodes of an `Ensemble` and the
limits of an `Attacker`. Categorical features, steps and one-hot groups are not supported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm import Attacker, CarveError
from carvegbm.problem import Problem

__all__ = ["MilpVerification", "verify"]

Floats = npt.NDArray[np.float64]

_ROW_TOLERANCE = 1e-6
"""HiGHS accepts points that violate a constraint by this much."""
_DUAL_TOLERANCE = 1e-7
"""HiGHS accepts reduced costs of the wrong sign up to this; each column adds it to a bound."""
_SMALLEST = 1e-9
"""HiGHS drops smaller coefficients; rounding them down to 0 relaxes the program."""
_ANY_GAP = 1e30
"""Relative gap at which HiGHS stops: at the first solution."""
_MOST_CALLS = 100
"""Solutions that are no attacks before a row is left unknown."""
_INFEASIBLE = 2
"""Status of `scipy.optimize.milp`."""


@dataclass(frozen=True, eq=False)
class MilpVerification:
    """Statuses, whether each row is classified correctly, and seconds, per row."""

    status: npt.NDArray[np.str_]
    right: npt.NDArray[np.bool_]
    seconds: Floats

    @property
    def engine(self) -> npt.NDArray[np.str_]:
        """The name "milp" where the status is decided, else an empty text."""
        return np.where(self.status == "unknown", "", "milp")


class _Goal(NamedTuple):
    """The attacker wins iff score(higher) < score(lower), or they are equal and `wins_tie`.

    A score is that of a class; None stands for the decision threshold.
    """

    higher: int | None
    lower: int | None
    wins_tie: bool

    def is_met(self, scores: dict[int | None, Fraction]) -> bool:
        one, other = scores[self.higher], scores[self.lower]
        return one < other or (one == other and self.wins_tie)


class _Cut(NamedTuple):
    """A threshold the attacker can cross."""

    feature: int
    value: float  # nearest value on the other side of x
    is_left: bool  # whether x[feature] <= threshold
    price: Fraction


def verify(
    model: Any, X: npt.ArrayLike, y: npt.ArrayLike, attacker: Attacker, *, timeout: float = 10.0
) -> MilpVerification:
    """Decide for every row whether the attacker can change the model's answer.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : array (n, n_features)
    y : array (n,)
        Labels; the model's own classes.
    attacker : Attacker
    timeout : float
        Seconds per row; a row that takes longer is "unknown". HiGHS may overrun it.

    Examples
    --------
    >>> from carvegbm import Ensemble
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = Ensemble.from_trees([stump, stump], n_features=1)
    >>> verify(model, [[0.75], [0.9]], [1, 1], Attacker(2, 0.25)).status.tolist()
    ['fragile', 'robust']
    """
    problem = Problem(model, attacker)
    if problem.ensemble.categories or problem.limits.step or problem.limits.one_hot:
        raise CarveError("the MILP baseline takes no categorical features, steps or one-hot groups")
    if problem.ensemble.task == "regression":
        raise CarveError("the MILP baseline decides classifiers, not a regression model")
    baseline, rows = _Baseline(problem), problem.rows(X, y)
    assert rows.labels is not None
    statuses, right, seconds = [], [], []
    for row, (x, label) in enumerate(zip(np.asarray(rows.X), rows.labels.tolist(), strict=True)):
        started = time.perf_counter()
        is_right, flips = baseline.decide(row, x.astype(np.float64), label, started + timeout)
        names = ("robust", "fragile") if is_right else ("vulnerable", "broken")
        statuses.append("unknown" if flips is None else names[flips])
        right.append(is_right)
        seconds.append(time.perf_counter() - started)
    return MilpVerification(np.array(statuses, dtype=np.str_), np.array(right), np.array(seconds))


class _Baseline:
    """An ensemble and an attacker, prepared for many rows."""

    def __init__(self, problem: Problem) -> None:
        self.ensemble, self.limits = problem.ensemble, problem.limits
        self.norm = problem.attacker.norm
        self.exponent = 1 if self.norm in (0, math.inf) else int(self.norm)
        self.capacity = Fraction(problem.attacker.budget) ** self.exponent
        nodes = self.ensemble.nodes
        self.feature, self.threshold, self.left, self.right, self.missing = (
            np.ascontiguousarray(nodes[name])
            for name in ("feature", "threshold", "left", "right", "missing")
        )
        splits = self.feature >= 0
        self.cuts, which = np.unique(
            np.stack([self.feature[splits], self.threshold[splits]]), axis=1, return_inverse=True
        )  # ascending by feature, then threshold
        self.cut_of_node = np.full(len(nodes), -1)
        self.cut_of_node[splits] = which.ravel()
        self.precision: Any = np.dtype(self.ensemble.input_precision).type

    def decide(self, row: int, x: Floats, label: int, deadline: float) -> tuple[bool, bool | None]:
        """Whether x is classified correctly, and whether the attacker can change that (or None)."""
        decision = self.decision(self.scores(x))
        if len(self.ensemble.roots) == 0:
            return decision == label, False
        program = _Program(self, self.crossable(row, x), x, deadline)
        answers: list[bool | None] = []
        for goals in self.attacks(decision, label):
            answers.append(program.solve(goals))
            if answers[-1]:
                break
        return decision == label, True if True in answers else None if None in answers else False

    def attacks(self, decision: int, label: int) -> list[list[_Goal]]:
        """The attacker changes the answer iff all goals of one of these lists are met."""
        if self.ensemble.task == "binary":
            if decision:
                return [[_Goal(0, None, self.ensemble.tie != "positive")]]
            return [[_Goal(None, 0, self.ensemble.tie == "positive")]]
        others = [output for output in range(self.ensemble.n_outputs) if output != label]
        if decision == label:
            return [[_Goal(label, rival, rival < label)] for rival in others]
        return [[_Goal(rival, label, label < rival) for rival in others]]

    def side(self, nodes: npt.NDArray[np.int64], x: Floats) -> npt.NDArray[np.bool_]:
        """Whether these splits send x left."""
        value = x[self.feature[nodes]].astype(self.precision).astype(np.float64)
        is_left = value <= self.threshold[nodes]
        return np.asarray(np.where(np.isnan(value), self.missing[nodes] == 1, is_left))

    def scores(self, z: Floats) -> dict[int | None, Fraction]:
        """Exact scores of all classes, and the decision threshold, times `average`."""
        at = self.ensemble.roots.astype(np.int64)
        while len(open_ := np.flatnonzero(self.feature[at] >= 0)):
            node = at[open_]
            at[open_] = np.where(self.side(node, z), self.left[node], self.right[node])
        return self.sums(self.left[at])

    def sums(self, leaves: npt.NDArray[Any]) -> dict[int | None, Fraction]:
        """Sums over the base score and these rows of the leaf scores."""
        model = self.ensemble
        sums: dict[int | None, Fraction] = {None: Fraction(model.threshold) * model.average}
        for output, base in enumerate(model.base_score.tolist()):
            sums[output] = sum(map(Fraction, model.scores[leaves, output].tolist()), Fraction(base))
        return sums

    def decision(self, scores: dict[int | None, Fraction]) -> int:
        """The class decided for these scores."""
        if self.ensemble.task == "binary":
            is_tie, above = scores[0] == scores[None], scores[0] > scores[None]
            return int(above or (is_tie and self.ensemble.tie == "positive"))
        return max(range(self.ensemble.n_outputs), key=scores.__getitem__)

    def crossable(self, row: int, x: Floats) -> list[_Cut | None]:
        """Per threshold: what it takes to cross it, or None if the attacker cannot."""
        limits, features = self.limits, self.cuts[0].astype(np.int64)
        is_left = x[features].astype(self.precision).astype(np.float64) <= self.cuts[1]
        with np.errstate(over="ignore"):
            above = np.nextafter(self.cuts[1].astype(self.precision), self.precision(np.inf))
        value = np.where(is_left, above.astype(np.float64), self.cuts[1])
        can = np.isfinite(value) & np.isfinite(x[features])
        if len(limits.changeable):
            can &= limits.changeable[features] == 1
        if limits.lower.size:
            bounds = (limits.lower, limits.upper)
            lower, upper = (side[row] for side in bounds) if limits.by_row else bounds
            can &= (lower[features] <= value) & (value <= upper[features])
        found: list[_Cut | None] = [None] * len(features)
        for i in np.flatnonzero(can).tolist():
            feature, z = int(features[i]), float(value[i])
            price = self.price(feature, float(x[feature]), z)
            if price is not None and price <= self.capacity:
                found[i] = _Cut(feature, z, bool(is_left[i]), price)
        return found

    def price(self, feature: int, x: float, z: float) -> Fraction | None:
        """The cost of moving one feature; None if its scale forbids the direction."""
        limits, scale = self.limits, Fraction(1)
        if len(limits.scale):
            is_up = z > x and len(limits.scale_up) > 0
            scale = Fraction(float((limits.scale_up if is_up else limits.scale)[feature]))
        if scale == 0:
            return None
        if self.norm == 0:
            return Fraction(int(z != x))
        return Fraction(abs(Fraction(z) - Fraction(x)) / scale) ** self.exponent


class _Program:
    """The program of one row: the columns are the thresholds that can be crossed, then the leaves.

    Thresholds of one feature follow each other and ascend.
    """

    def __init__(
        self, baseline: _Baseline, crossable: list[_Cut | None], x: Floats, deadline: float
    ) -> None:
        self.baseline, self.x, self.deadline = baseline, x, deadline
        self.cuts = [cut for cut in crossable if cut is not None]
        self.column_of_cut = np.full(len(crossable) + 1, -1)  # the last one stands for no cut
        self.column_of_cut[[i for i, cut in enumerate(crossable) if cut]] = range(len(self.cuts))
        self.rows = _Rows()
        for column, (one, following) in enumerate(pairwise(self.cuts)):
            if one.feature == following.feature:
                self.rows.add([column, column + 1], [1, -1], upper=0)
        self.leaves: list[int] = []
        """Of every leaf in reach its row of the scores; those of a tree follow each other."""
        self.first: list[int] = []
        """Of every tree its first leaf."""
        self._add_trees()
        self._add_cost()
        self.n_columns = len(self.cuts) + len(self.leaves)
        self.tolerance = 2 * _ROW_TOLERANCE + _DUAL_TOLERANCE * self.n_columns

    def _add_trees(self) -> None:
        """One leaf per tree, and only if z is on the right side of the splits above it."""
        baseline, n_cuts = self.baseline, len(self.cuts)
        splits = baseline.side(np.arange(len(baseline.feature)), self.x)
        side_of_x = np.where(splits, baseline.left, baseline.right).tolist()
        cut = self.column_of_cut[baseline.cut_of_node].tolist()
        columns = baseline.feature, baseline.left, baseline.right
        feature, left, right = (column.tolist() for column in columns)
        for root in baseline.ensemble.roots.tolist():
            self.first.append(len(self.leaves))
            members: dict[tuple[int, bool], list[int]] = {}  # leaves that need p = 1, or p = 0
            stack: list[tuple[int, frozenset[tuple[int, bool]]]] = [(root, frozenset())]
            while stack:
                node, needs = stack.pop()
                while feature[node] >= 0 and cut[node] < 0:
                    node = side_of_x[node]
                if feature[node] < 0:
                    for need in needs:
                        members.setdefault(need, []).append(n_cuts + len(self.leaves))
                    self.leaves.append(left[node])
                    continue
                for child, is_left in ((left[node], True), (right[node], False)):
                    if (cut[node], not is_left) not in needs:
                        stack.append((child, needs | {(cut[node], is_left)}))
            leaves = range(n_cuts + self.first[-1], n_cuts + len(self.leaves))
            self.rows.add(leaves, [1] * len(leaves), lower=1, upper=1)
            for (column, is_left), below in members.items():
                signs = [-1 if is_left else 1, *[1] * len(below)]
                self.rows.add([column, *below], signs, upper=0 if is_left else 1)

    def _add_cost(self) -> None:
        """The cost, in units of the budget: each crossed threshold adds to the one before it."""
        if math.isinf(self.baseline.norm) or not self.cuts:
            return  # every threshold is affordable, so all of them together are
        slopes, offset = [], 0.0
        for column, cut in enumerate(self.cuts):
            nearer = column - 1 if cut.is_left else column + 1
            price = cut.price
            if 0 <= nearer < len(self.cuts):
                other = self.cuts[nearer]
                if (other.feature, other.is_left) == (cut.feature, cut.is_left):
                    price -= other.price
            more = float(price / self.baseline.capacity)
            more = 0.0 if more < _SMALLEST else more
            slopes.append(-more if cut.is_left else more)
            offset += more if cut.is_left else 0.0
        self.rows.add(range(len(slopes)), slopes, upper=1 + 2 * _ROW_TOLERANCE - offset)

    def solve(self, goals: list[_Goal]) -> bool | None:
        """Whether some z within the budget meets all goals; None if that is not found out."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        rows, gains = self.rows.copy(), np.zeros(self.n_columns)
        for goal in goals:
            gains[len(self.cuts) :] += self._add_goal(rows, goal)
        is_cut = np.arange(self.n_columns) < len(self.cuts)
        for _ in range(_MOST_CALLS):
            left = self.deadline - time.perf_counter()
            if left <= 0:
                return None
            found = milp(
                gains,
                integrality=is_cut,
                bounds=Bounds(0, 1),
                constraints=LinearConstraint(*rows.arrays(self.n_columns)),
                options={"time_limit": left, "mip_rel_gap": _ANY_GAP},
            )
            if found.status == _INFEASIBLE:
                return False
            if found.x is None:
                return None
            is_left = found.x[: len(self.cuts)] > 0.5
            if self._is_attack(is_left, goals):
                return True
            signs = np.where(is_left, -1, 1)  # at least one p is another
            rows.add(range(len(signs)), signs, lower=1 - int(is_left.sum()))
        return None

    def _add_goal(self, rows: _Rows, goal: _Goal) -> Floats:
        """Add "the goal is met" to the constraints; return the coefficients of the leaves.

        A leaf's coefficient is its weight above the least weight of its tree, in units of the
        largest such difference.
        """
        baseline, weight = self.baseline, np.zeros(len(self.leaves))
        with np.errstate(over="ignore", invalid="ignore"):
            for output, sign in ((goal.higher, 1), (goal.lower, -1)):
                if output is not None:
                    weight += sign * baseline.ensemble.scores[self.leaves, output]
            sizes = np.diff([*self.first, len(self.leaves)])
            least = np.minimum.reduceat(weight, self.first)
            gain = weight - np.repeat(least, sizes)
        if not np.isfinite(gain).all():
            raise CarveError("the differences of leaf scores exceed the range of doubles")
        unit = float(gain.max()) or 1.0
        sums = baseline.sums(np.array([], dtype=np.int64))
        constant = sums[goal.higher] - sums[goal.lower] + sum(map(Fraction, least.tolist()))
        # Rounding of the differences of scores: at most 2^-52 of the largest weight of each tree.
        largest = np.maximum.reduceat(np.abs(weight), self.first)
        error = Fraction(2.0**-52) * sum(map(Fraction, largest.tolist()))
        room = (error - constant) / Fraction(unit)
        gain = np.where(gain / unit < _SMALLEST, 0.0, gain / unit)
        if room < len(self.first):  # otherwise no choice of leaves violates the row
            most = float(room) + self.tolerance
            columns = len(self.cuts) + np.arange(len(gain))
            rows.add(columns, gain, upper=most)
        return gain

    def _is_attack(self, is_left: npt.NDArray[np.bool_], goals: list[_Goal]) -> bool:
        """Whether the nearest z in the cell is within the budget and meets all goals, exactly."""
        z = self.x.copy()
        prices: dict[int, Fraction] = {}
        for column in np.flatnonzero(is_left != [cut.is_left for cut in self.cuts]).tolist():
            cut = self.cuts[column]
            if cut.is_left or cut.feature not in prices:  # the farthest of those crossed
                z[cut.feature], prices[cut.feature] = cut.value, cut.price
        together = max if math.isinf(self.baseline.norm) else sum
        if together([Fraction(0), *prices.values()]) > self.baseline.capacity:
            return False
        scores = self.baseline.scores(z)
        return all(goal.is_met(scores) for goal in goals)


class _Rows:
    """Constraints lower <= A v <= upper, row by row."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        self.values: list[float] = []
        self.ends: list[int] = [0]
        self.lower: list[float] = []
        self.upper: list[float] = []

    def copy(self) -> _Rows:
        other = _Rows()
        vars(other).update({name: list(values) for name, values in vars(self).items()})
        return other

    def add(
        self,
        columns: Iterable[int],
        values: Iterable[float],
        *,
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        self.columns.extend(columns)
        self.values.extend(values)
        self.ends.append(len(self.columns))
        self.lower.append(lower)
        self.upper.append(upper)

    def arrays(self, n_columns: int) -> tuple[Any, Floats, Floats]:
        """A, lower and upper."""
        from scipy.sparse import csr_array

        shape = len(self.lower), n_columns
        matrix = csr_array((np.array(self.values, float), self.columns, self.ends), shape=shape)
        return matrix, np.array(self.lower), np.array(self.upper)
