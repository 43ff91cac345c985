"""Ask the solver, check its answer exactly, exclude what was no attack, and ask again."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.milp.instance import Clock, Instance
from carvegbm.milp.objective import Objective
from carvegbm.milp.program import INFEASIBLE, Program
from carvegbm.milp.reach import Literal, Reach, find_reach

__all__ = ["Answer", "Verdict", "solve", "verify_instance"]

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
class Verdict:
    """What is known about one instance."""

    status: str
    """"robust", "fragile", "vulnerable", "broken" or "unknown"."""
    lower: float
    """lower <= worst margin <= upper."""
    upper: float
    witness: npt.NDArray[np.float64] | None
    seconds: float


def solve(
    ensemble: Ensemble,
    x: npt.ArrayLike,
    objective: Objective,
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
    objective : Objective
    attacker : Attacker
    timeout : float
        In seconds.
    pruned : bool
        False for the nearest attack over all thresholds, the program of Kantchelian et al.

    Examples
    --------
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = Ensemble.from_trees([stump, stump], n_features=1, task="regression")
    >>> answer = solve(model, [0.75], Objective.lowest(), Attacker(1, 0.25), timeout=10)
    >>> answer.lower, answer.upper, answer.witness.tolist()
    (-2.0, -2.0, [0.5])
    """
    clock = Clock(timeout)
    instance = Instance(ensemble, x, attacker)
    return _solve(instance, objective, find_reach(instance, clock, pruned), clock)


def verify_instance(
    ensemble: Ensemble,
    x: npt.ArrayLike,
    label_index: int,
    attacker: Attacker,
    timeout: float,
    pruned: bool = True,
) -> Verdict:
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
    instance = Instance(ensemble, x, attacker)
    reach = find_reach(instance, clock, pruned)
    decision = instance.decision
    right = decision == label_index
    if ensemble.task == "binary":
        objectives = [Objective.binary(decision, ensemble.tie)]
    elif right:
        rivals = [rival for rival in range(ensemble.n_outputs) if rival != decision]
        objectives = [Objective.pair(decision, rival) for rival in rivals]
        if reach is not None:  # the most dangerous rival first
            objectives.sort(key=lambda pair: Program(pair, reach).bounds)
    else:
        objectives = [Objective.takeover(label_index, ensemble.n_outputs)]
    answers: list[Answer] = []
    for objective in objectives:
        answers.append(_solve(instance, objective, reach, clock))
        if answers[-1].flips:
            break
    best = answers[-1]
    if best.flips:
        status = "fragile" if right else "broken"
    elif all(answer.flips is False for answer in answers):
        status = "robust" if right else "vulnerable"
    else:
        status = "unknown"
    upper = min(answer.upper for answer in answers)
    # Rivals that were not looked at have no bound of their own.
    lower = min(a.lower for a in answers) if len(answers) == len(objectives) else -math.inf
    if not right:
        lower, upper = -upper, -lower
    return Verdict(status, lower, upper, best.witness, clock.seconds)


def _solve(instance: Instance, objective: Objective, reach: Reach | None, clock: Clock) -> Answer:
    """Ask the solver, check its answer, exclude what was no attack, and ask again."""
    started, decides = clock.seconds, objective.decides
    best, best_z = max(instance.values(objective, instance.x)), instance.x

    def answer(flips: bool | None, lower: Fraction | float) -> Answer:
        witness = best_z.copy() if flips or not decides else None
        return Answer(flips, float(lower), float(best), witness, clock.seconds - started)

    if decides and _wins(objective, instance.values(objective, instance.x)):
        return answer(True, -math.inf)
    if reach is None:
        return answer(None, -math.inf)
    if not decides and not reach.pruned:
        raise CarveError("the unpruned program asks for the nearest attack; use pruned=True")
    program = Program(objective, reach)
    lower: Fraction | float = max(program.bounds)
    if decides and not _wins(objective, program.bounds):
        return answer(False, lower)
    if not decides and lower == best:
        return answer(None, lower)
    targets = [Fraction(0)] * len(objective.terms) if decides else None
    excluded: list[list[Literal]] = []
    while clock.left > 0 and len(excluded) < _MOST_CUTS:
        try:
            result = program.run(targets, excluded)
        except TimeoutError:
            break
        if result is not None and result.status == INFEASIBLE:
            return answer(False, max(lower, Fraction(0))) if decides else answer(None, best)
        if result is None or result.x is None:
            break
        if program.too_far(result):
            return answer(False, max(lower, Fraction(0)))
        if targets is None:
            lower = max(lower, program.proven(result))
        box = program.box(result.x)
        if any(low >= high for low, high in box.values()):
            break
        z = instance.x.copy()
        moves = [cut for ends in box.values() if (cut := reach.cuts.crossed(*ends)) is not None]
        for cut in moves:
            z[reach.cuts.feature[cut]] = reach.cuts.value[cut]
        if not instance.affords(instance.price(f, float(z[f])) for f in _changed(instance.x, z)):
            excluded.append(_cover(reach, moves))
            continue
        values = instance.values(objective, z)
        if max(values) < best or (decides and _wins(objective, values)):
            best, best_z = max(values), z
        if decides and _wins(objective, values):
            return answer(True, lower)
        if not decides:
            targets = [best]
        excluded.append(
            [(low, False) for low, _ in box.values() if low >= 0]
            + [(high, True) for _, high in box.values() if high < sys.maxsize]
        )
    return answer(None, lower)


def _changed(x: npt.NDArray[np.float64], z: npt.NDArray[np.float64]) -> list[int]:
    """The features in which two instances differ."""
    return [int(f) for f in np.flatnonzero((x != z) & ~(np.isnan(x) & np.isnan(z)))]


def _wins(objective: Objective, values: list[Fraction]) -> bool:
    """Whether the attacker has won; values of which one is too large stay so if they grow."""
    return all(term.won(value) for term, value in zip(objective.terms, values, strict=True))


def _cover(reach: Reach, moves: list[int]) -> list[Literal]:
    """As few as possible of some moves that are together too expensive; others only add to it."""
    moves = sorted(moves, key=lambda cut: reach.cuts.price[cut])
    while not reach.instance.affords(reach.cuts.price[cut] for cut in moves[1:]):
        moves = moves[1:]
    return [(cut, not reach.cuts.home_left[cut]) for cut in moves]
