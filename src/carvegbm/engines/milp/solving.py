"""Ask the solver, check its answer exactly, exclude what was no attack, and ask again."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.encoding import Bounds
from carvegbm.engines.milp.aim import Aim
from carvegbm.engines.milp.classes import Literal
from carvegbm.engines.milp.clock import Clock, OutOfTime
from carvegbm.engines.milp.exact import rounded_down
from carvegbm.engines.milp.highs import INFEASIBLE, SOLVED
from carvegbm.engines.milp.point import Point, Scene
from carvegbm.engines.milp.program import Program
from carvegbm.engines.milp.reach import Reach, find_reach
from carvegbm.engines.milp.worker import Solver
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.problem import Problem

__all__ = ["Answer", "Finding", "decide", "solve", "verify_instance"]

_MOST_CUTS = 500


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known about one objective."""

    flips: bool | None
    """True: the witness proves it. False: no attack exists. None: unknown, or not asked for."""
    lower: float
    """lower <= the least value of the objective in reach <= upper."""
    upper: float
    witness: npt.NDArray[np.float64] | None
    """An attack that flips the decision; where no decision is asked for, one that reaches upper."""
    seconds: float


@dataclass(frozen=True, eq=False)
class Finding:
    """What is known about one instance."""

    status: str
    """"robust", "fragile", "vulnerable", "broken" or "unknown"."""
    lower: float
    """lower <= worst margin <= upper."""
    upper: float
    witness: npt.NDArray[np.float64] | None
    seconds: float


class _Pursuit:
    """One instance, the time there is for it, and who solves its programs."""

    def __init__(self, instance: Point, clock: Clock, solver: Solver, pruned: bool) -> None:
        self.instance, self.clock, self.solver, self.pruned = instance, clock, solver, pruned

    @cached_property
    def reach(self) -> Reach:
        """What all objectives share; `OutOfTime` if there is no time to find it."""
        return find_reach(self.instance, self.clock, self.pruned)


def solve(
    ensemble: Ensemble,
    x: npt.ArrayLike,
    objective: Aim,
    attacker: Attacker,
    *,
    timeout: float,
    pruned: bool = True,
) -> Answer:
    """Find the attack that pushes an objective lowest, or prove that none pushes it far enough.

    Parameters
    ----------
    ensemble : Ensemble
    x : array (n_features,)
    objective : Aim
    attacker : Attacker
    timeout : float
        In seconds.
    pruned : bool
        False for the nearest attack over all thresholds, the program of Kantchelian et al.

    Examples
    --------
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = Ensemble.from_trees([stump, stump], n_features=1, task="regression")
    >>> answer = solve(model, [0.75], Aim.lowest(), Attacker(1, 0.25), timeout=10)
    >>> answer.lower, answer.upper, answer.witness.tolist()
    (-2.0, -2.0, [0.5])
    """
    if not objective.decides and not pruned:
        raise CarveError("the unpruned program asks for the nearest attack; use pruned=True")
    clock = Clock(timeout)
    one = _One(ensemble, x, attacker)
    with Solver() as solver:
        answer = _solve(_Pursuit(one.point, clock, solver, pruned), objective)
    return replace(answer, witness=one.given(answer.witness))


def verify_instance(
    ensemble: Ensemble,
    x: npt.ArrayLike,
    label_index: int,
    attacker: Attacker,
    timeout: float,
    pruned: bool = True,
) -> Finding:
    """Decide whether the attacker can flip the decision on one instance.

    Examples
    --------
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = Ensemble.from_trees([stump, stump], n_features=1)
    >>> verdict = verify_instance(model, [0.75], 1, Attacker(2, 0.25), timeout=10)
    >>> verdict.status, verdict.witness.tolist()
    ('fragile', [0.5])
    """
    clock = Clock(timeout)
    if ensemble.task == "regression":
        raise CarveError("a regression model decides nothing; ask solve for its lowest and highest")
    one = _One(ensemble, x, attacker)
    with Solver() as solver:
        found = _verdict(_Pursuit(one.point, clock, solver, pruned), label_index)
    return replace(found, witness=one.given(found.witness))


def decide(
    scene: Scene,
    x: npt.ArrayLike,
    label_index: int,
    timeout: float,
    solver: Solver,
    bounds: Bounds | None = None,
) -> Finding:
    """`verify_instance` for one of many instances, which are known to fit the scene.

    x, its bounds where rows have bounds of their own, and the witness are in the core's numbers.
    """
    clock = Clock(timeout, solver.stop)
    return _verdict(_Pursuit(Point(scene, x, bounds), clock, solver, pruned=True), label_index)


class _One:
    """A single instance, as users see it and as the core does."""

    def __init__(self, ensemble: Ensemble, x: npt.ArrayLike, attacker: Attacker) -> None:
        self._problem = Problem(ensemble, attacker)
        self._rows = self._problem.instances(np.asarray(x)[None])
        self.point = Point(Scene(self._problem), self._rows.X[0], self._rows.bounds_of(0))

    def given(self, z: npt.NDArray[np.float64] | None) -> npt.NDArray[np.float64] | None:
        """A witness as users see it."""
        return None if z is None else self._problem.witnesses(z[None], self._rows)[0]


def _verdict(question: _Pursuit, label_index: int) -> Finding:
    instance, clock = question.instance, question.clock
    n_outputs, decision = instance.ensemble.n_outputs, instance.decision
    right = decision == label_index
    if instance.ensemble.task == "binary":
        objectives = [Aim.binary(decision, instance.ensemble.tie)]
    elif right:
        rivals = [rival for rival in range(n_outputs) if rival != decision]
        objectives = [Aim.pair(decision, rival) for rival in rivals]
        with suppress(OutOfTime):  # the most dangerous rival first
            objectives = sorted(objectives, key=lambda pair: Program(pair, question.reach).bounds)
    else:
        objectives = [Aim.takeover(label_index, n_outputs)]
    answers: list[Answer] = []
    for objective in objectives:
        answers.append(_solve(question, objective))
        if answers[-1].flips or clock.left <= 0:
            break
    best = answers[-1]
    all_looked_at = len(answers) == len(objectives)
    if best.flips:
        status = "fragile" if right else "broken"
    elif all_looked_at and all(answer.flips is False for answer in answers):
        status = "robust" if right else "vulnerable"
    else:
        status = "unknown"
    upper = min(answer.upper for answer in answers)
    # Rivals that were not looked at have no bound of their own.
    lower = min(answer.lower for answer in answers) if all_looked_at else -math.inf
    if not right:
        lower, upper = -upper, -lower
    return Finding(status, lower, upper, best.witness, clock.seconds)


def _solve(question: _Pursuit, objective: Aim) -> Answer:
    """What `_pursue` finds in the time there is; where that runs out, what it knows by then."""
    started, instance = question.clock.seconds, question.instance
    values = instance.values(objective, instance.x)
    known = _Known(values=values, z=instance.x)
    flips: bool | None = None
    if objective.decides and _wins(objective, values):
        flips = True
    else:
        with suppress(OutOfTime):
            flips = _pursue(question, objective, known)
    witness = known.z.copy() if flips or not objective.decides else None
    seconds = question.clock.seconds - started
    lower, upper = rounded_down(known.lower), -rounded_down(-max(known.values))
    return Answer(flips, lower, upper, witness, seconds)


@dataclass
class _Known:
    """What is proved about an objective so far."""

    values: list[Fraction]
    """Of the terms, at z."""
    z: npt.NDArray[np.float64]
    lower: Fraction | float = -math.inf


def _pursue(question: _Pursuit, objective: Aim, known: _Known) -> bool | None:
    """Ask the solver, check its answer, exclude what was no attack, and ask again.

    Returns whether the attacker wins, None if that is not found out or not asked for.
    """
    instance, reach, decides = question.instance, question.reach, objective.decides
    program = Program(objective, reach)
    known.lower = max(program.bounds)
    if decides and not _wins(objective, program.bounds):
        return False
    if not decides and known.lower == max(known.values):
        return None
    question.solver.prepare()
    targets = [Fraction(0)] * len(objective.terms) if decides else None
    excluded: list[list[Literal]] = []
    while len(excluded) < _MOST_CUTS:
        solution = program.run(question.solver, targets, excluded)
        if solution.status == INFEASIBLE:
            known.lower = max(known.lower, Fraction(0)) if decides else max(known.values)
            return False if decides else None
        if not solution.point:
            break
        if solution.status == SOLVED and program.too_far(solution):
            known.lower = max(known.lower, Fraction(0))
            return False
        if targets is None:
            known.lower = max(known.lower, program.proven(solution))
        box = program.box(np.frombuffer(solution.point))
        if box.is_empty:
            break
        z, moves = instance.x.copy(), reach.cuts.moves(box)
        for cut in moves:
            z[reach.cuts.feature[cut]] = reach.cuts.value[cut]
        if not instance.affords(instance.price(f, float(z[f])) for f in _changed(instance.x, z)):
            excluded.append(_cover(reach, moves))
            continue
        values = instance.values(objective, z)
        wins = decides and _wins(objective, values)
        if wins or max(values) < max(known.values):
            known.values, known.z = values, z
        if wins:
            return True
        if not decides:
            targets = [max(known.values)]
        excluded.append(reach.cuts.literals(box))
    return None


def _changed(x: npt.NDArray[np.float64], z: npt.NDArray[np.float64]) -> list[int]:
    """The features in which two instances differ."""
    return [int(f) for f in np.flatnonzero((x != z) & ~(np.isnan(x) & np.isnan(z)))]


def _wins(objective: Aim, values: list[Fraction]) -> bool:
    """Whether the attacker has won; values of which one is too large stay so if they grow."""
    return all(term.won(value) for term, value in zip(objective.terms, values, strict=True))


def _cover(reach: Reach, moves: list[int]) -> list[Literal]:
    """As few as possible of some moves that are together too expensive; others only add to it."""
    scene, price = reach.instance.scene, reach.cuts.price
    moves = sorted(moves, key=lambda cut: price[cut])
    if math.isinf(scene.attacker.norm):  # the dearest alone
        moves = moves[-1:]
    total = sum((price[cut] for cut in moves), Fraction(0))
    while (total := total - price[moves[0]]) > scene.capacity:
        moves = moves[1:]
    return [_crossing(reach, cut) for cut in moves]


def _crossing(reach: Reach, cut: int) -> Literal:
    """z costs at least as much as it does to cross the cut."""
    switch = reach.cuts.switches.get(reach.cuts.feature[cut])
    if switch is None:
        return (cut,), not reach.cuts.home_left[cut]
    return tuple(c for c in switch.cuts.values() if c in reach.frame.column), True
