"""The mixed-integer program itself: its rows and columns, and what the solver may do to them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt

from carvegbm.engines.milp.aim import Aim
from carvegbm.engines.milp.classes import Literal
from carvegbm.engines.milp.cuts import Box
from carvegbm.engines.milp.exact import exact_sum
from carvegbm.engines.milp.highs import Solution
from carvegbm.engines.milp.reach import SMALLEST, Reach
from carvegbm.engines.milp.worker import Solver
from carvegbm.errors import CarveError

__all__ = ["Frame", "Program"]

_ROW_TOLERANCE = 1e-6
"""HiGHS accepts a point that violates a row, or a whole number, by this much."""
_DUAL_TOLERANCE = 1e-7
"""HiGHS accepts reduced costs of the wrong sign up to this: each column, of width 1, can make the
bound of a linear program too large by as much."""
_ANY_GAP = 1e30
"""As the gap to stop at: the first solution will do."""


class Frame:
    """All of the program but its objective: how cuts, leaves and costs hang together.

    The columns are the cuts that matter (1: z is left of it; of a class of states: z is in it),
    then the leaves (1: z falls into it), then, if the nearest attack in norm inf is asked for, the
    size of the largest move.
    """

    def __init__(self, reach: Reach) -> None:
        cuts, scene, clock = reach.cuts, reach.instance.scene, reach.clock
        self.used = sorted({c for some, _, _ in clock.watched(reach.groups) for c in some})
        self.column = {cut: column for column, cut in enumerate(self.used)}
        self.n_cuts, n_leaves = len(self.used), len(reach.rows)
        largest_move = not reach.pruned and math.isinf(scene.attacker.norm)
        self.n_columns = self.n_cuts + n_leaves + largest_move
        rows = _Rows()
        for column, (cut, following) in clock.watched(enumerate(pairwise(self.used))):
            feature = cuts.feature[cut]
            if feature == cuts.feature[following] and feature not in cuts.switches:
                rows.add([column, column + 1], [1, -1], upper=0)
        for switch in cuts.switches.values():  # z is in one class
            classes = [self.column[cut] for cut in switch.cuts.values() if cut in self.column]
            if len(classes) > 1:
                rows.add(classes, [1] * len(classes), upper=1)
        for start, end in clock.watched(pairwise([*reach.first, n_leaves])):
            leaves = range(self.n_cuts + start, self.n_cuts + end)
            rows.add(leaves, [1] * len(leaves), lower=1, upper=1)
        for some, side, members in clock.watched(reach.groups):
            columns = [*(self.column[c] for c in some), *(self.n_cuts + leaf for leaf in members)]
            signs = [-1 if side else 1] * len(some)
            rows.add(columns, [*signs, *[1] * len(members)], upper=1 - side)

        # Costs, in units of the largest there can be.
        norm = scene.attacker.norm
        largest = max((cuts.price[cut] for cut in self.used), default=Fraction(1))
        self.cost_unit = scene.capacity if reach.pruned and norm != 0 else Fraction(largest)
        slope, offset = self._slopes(reach)
        self.cost = np.zeros(self.n_columns)
        self.cost[: self.n_cuts] = slope
        self.cost_offset = float(offset.sum())
        if largest_move:
            self.cost, self.cost_offset = np.zeros(self.n_columns), 0.0
            self.cost[-1] = 1
            for _, group in groupby(range(self.n_cuts), lambda c: cuts.feature[self.used[c]]):
                one = list(group)
                coefficients = [*slope[one], -1]
                rows.add([*one, self.n_columns - 1], coefficients, upper=-offset[one].sum())
        elif reach.pruned and not math.isinf(norm):
            capacity = scene.attacker.budget if norm == 0 else 1 + 2 * _ROW_TOLERANCE
            moving = np.flatnonzero(slope).tolist()
            rows.add(moving, slope[moving], upper=capacity - self.cost_offset)
        clock.check()
        self.rows = rows.arrays()
        self.tolerance = 2 * _ROW_TOLERANCE + _DUAL_TOLERANCE * self.n_columns

    def _slopes(self, reach: Reach) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """cost = sum of offset + slope · cut: a cut costs what it adds to the one before it.

        Of a finite feature's cuts, z is left of one at most: there is none before it.
        """
        cuts = reach.cuts
        slope, offset = np.zeros(self.n_cuts), np.zeros(self.n_cuts)
        for column, cut in reach.clock.watched(enumerate(self.used)):
            home_left = cuts.home_left[cut]
            before = column - 1 if home_left else column + 1
            price = cuts.price[cut]
            if 0 <= before < self.n_cuts and cuts.feature[cut] not in cuts.switches:
                other = self.used[before]
                if (cuts.feature[other], cuts.home_left[other]) == (cuts.feature[cut], home_left):
                    price -= cuts.price[other]
            more = float(price / self.cost_unit)
            more = 0.0 if more < SMALLEST else more
            slope[column], offset[column] = (-more, more) if home_left else (more, 0.0)
        return slope, offset


_Matrix = tuple[npt.NDArray[np.float64], npt.NDArray[np.int32], npt.NDArray[np.int32]]
"""Compressed sparse rows: values, columns, ends of the rows."""
_Bounds = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class _Rows:
    """Collects the rows of a sparse matrix."""

    def __init__(self) -> None:
        self._columns: list[int] = []
        self._values: list[float] = []
        self._ends: list[int] = [0]
        self._lower: list[float] = []
        self._upper: list[float] = []

    def add(
        self,
        columns: Iterable[int],
        values: Iterable[float],
        *,
        lower: float = -math.inf,
        upper: float = math.inf,
    ) -> None:
        self._columns.extend(columns)
        self._values.extend(values)
        self._ends.append(len(self._columns))
        self._lower.append(lower)
        self._upper.append(upper)

    def arrays(self) -> tuple[_Matrix, _Bounds]:
        values = np.array(self._values, dtype=np.float64)
        columns, ends = (np.array(part, dtype=np.int32) for part in (self._columns, self._ends))
        return (values, columns, ends), (np.array(self._lower), np.array(self._upper))


class Program:
    """One objective over one reach.

    A term is a constant plus, over the trees, the gain of the leaf z falls into: its weight above
    the least of its tree, in units of the largest gain of all.

    Why "infeasible" can be trusted: all variables, gains and relative costs are at most 1, and a
    real attack, as a point of the program, satisfies the rows of whole numbers exactly, the cost
    row with 2 · 1e-6 to spare, and the score rows with 2 · 1e-6 + 1e-7 · columns. The solver may
    misjudge a row by 1e-6, and, by a reduced cost of the wrong sign of 1e-7 in each column, the
    bound of a linear program by 1e-7 · columns: less than what is to spare. The rounding of the
    numbers themselves is smaller by orders of magnitude, but where a weight is the difference of
    two large scores; that error is computed and added (`errors`).
    """

    def __init__(self, objective: Aim, reach: Reach) -> None:
        self.reach, instance = reach, reach.instance
        reach.clock.check()
        scores = instance.ensemble.scores[reach.rows]
        sizes = np.diff([*reach.first, len(reach.rows)])
        self.gains: list[npt.NDArray[np.float64]] = []
        self.units: list[Fraction] = []
        self.constants: list[Fraction] = []
        self.errors: list[Fraction] = []
        for term in objective.terms:
            weight = np.zeros(len(scores))
            with np.errstate(over="ignore", invalid="ignore"):
                weight += 0.0 if term.plus is None else scores[:, term.plus]
                weight -= 0.0 if term.minus is None else scores[:, term.minus]
                least = _by_tree(np.minimum, weight, reach.first)
                gain = weight - np.repeat(least, sizes)
            if not np.isfinite(gain).all():
                raise CarveError(
                    "the differences of leaf scores exceed the range of doubles; rescale the model"
                )
            unit = float(gain.max(initial=0.0)) or 1.0
            gain /= unit
            self.gains.append(np.where(gain < SMALLEST, 0.0, gain))
            self.units.append(Fraction(unit))
            constants = np.array(reach.constants, dtype=np.intp)
            self.constants.append(instance.total(term, constants) + exact_sum(least))
            # A difference of two scores is rounded, a single score is not.
            is_exact = term.plus is None or term.minus is None
            largest = _by_tree(np.maximum, np.abs(weight), reach.first)
            self.errors.append(Fraction(0 if is_exact else 2.0**-52 * float(largest.sum())))

    @property
    def bounds(self) -> list[Fraction]:
        """What no attack pushes the terms below: every tree at its least, regardless of others."""
        average = self.reach.instance.ensemble.average
        return [(c - e) / average for c, e in zip(self.constants, self.errors, strict=True)]

    def run(
        self, solver: Solver, targets: list[Fraction] | None, excluded: list[list[Literal]]
    ) -> Solution:
        """The solver's solution, or `OutOfTime`.

        Asks for any point at which no term exceeds its target (unpruned: for the nearest one), or
        without targets for the point at which the terms are least. Of the literals in a row of
        `excluded`, one must be false.
        """
        frame, instance, rows = self.reach.frame, self.reach.instance, _Rows()
        leaves = np.arange(frame.n_cuts, frame.n_cuts + len(self.reach.rows))
        objective = frame.cost.copy()
        if self.reach.pruned:
            objective = np.zeros(frame.n_columns)
            objective[leaves] = np.sum(self.gains, axis=0)
        for index, target in enumerate(targets or []):
            room = target * instance.ensemble.average - self.constants[index] + self.errors[index]
            room /= self.units[index]
            if room < len(self.reach.first):  # otherwise the row is never violated
                filled = np.flatnonzero(self.gains[index])
                most = float(room) + frame.tolerance
                rows.add(leaves[filled], self.gains[index][filled], upper=most)
        for literals in excluded:
            true = sum(side for _, side in literals)
            signs = [-1 if side else 1 for cuts, side in literals for _ in cuts]
            rows.add([frame.column[c] for cuts, _ in literals for c in cuts], signs, lower=1 - true)
        (values, columns, ends), (lower, upper) = frame.rows
        (more_values, more_columns, more_ends), (more_lower, more_upper) = rows.arrays()
        program = {
            "objective": objective,
            "whole": np.arange(frame.n_columns) < frame.n_cuts,
            "values": np.concatenate([values, more_values]),
            "columns": np.concatenate([columns, more_columns]),
            "ends": np.concatenate([ends, ends[-1] + more_ends[1:]]),
            "lower": np.concatenate([lower, more_lower]),
            "upper": np.concatenate([upper, more_upper]),
            "gap": _ANY_GAP if self.reach.pruned and targets is not None else 0.0,
        }
        return solver.run(program, self.reach.clock)

    def proven(self, solution: Solution) -> Fraction | float:
        """What no attack pushes the (one) term below, according to the solver's bound."""
        if not math.isfinite(solution.bound):
            return -math.inf
        sum_of_gains = Fraction(solution.bound - self.reach.frame.tolerance)
        total = self.constants[0] - self.errors[0] + self.units[0] * sum_of_gains
        return total / self.reach.instance.ensemble.average

    def too_far(self, solution: Solution) -> bool:
        """Whether even the nearest attack is out of reach, in the unpruned program."""
        if self.reach.pruned or not math.isfinite(solution.bound):
            return False
        frame = self.reach.frame
        cost = Fraction(solution.bound + frame.cost_offset - frame.tolerance)
        return cost * frame.cost_unit > self.reach.instance.scene.capacity

    def box(self, point: npt.NDArray[np.float64]) -> Box:
        """The intersection of the leaves of a point of the program, one of every tree."""
        reach, joint = self.reach, Box({}, {})
        taken = point[reach.frame.n_cuts :]
        for start, end in reach.clock.watched(pairwise([*reach.first, len(reach.rows)])):
            leaf = start + int(np.argmax(taken[start:end]))
            joint.narrow(reach.boxes[leaf])
        return joint


def _by_tree(
    what: np.ufunc, values: npt.NDArray[np.float64], first: list[int]
) -> npt.NDArray[np.float64]:
    """Reduce the values of the leaves to one per tree."""
    return np.asarray(what.reduceat(values, first)) if first else np.zeros(0)
