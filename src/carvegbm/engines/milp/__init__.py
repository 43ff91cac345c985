"""The mixed-integer program: an independent second opinion on one instance, solved by HiGHS.

Comes in: an ensemble, one instance, an attacker. Goes out: a verdict with a witness or a bound.

A binary per threshold of the ensemble says whether z is left of it, a variable in [0, 1] per leaf
whether z falls into it. The states of a finite feature (categories, members of a one-hot group) are
sorted into classes that no split tells apart, and a binary per class but that of x says whether z
is in it. All numbers are those of the core: multiples of a step are whole.

*Pruned to reach* (the default), only what the attacker can afford to cross or to enter gets a
binary and only leaves it can afford to enter a variable, and the program asks for a z within the
budget whose score flips the decision. *Unpruned*, the program of Kantchelian et al. (2016), it asks
for the nearest z that flips the decision, over all thresholds, classes and leaves.

The solver computes in floating point and accepts points that violate a row by 1e-6, so it is only
trusted where that cannot matter:

- The program is a relaxation: costs are rounded down, and the rows that hold fractional numbers
  (cost, score) are widened by more than the solver's tolerances, see `program.Program`. An attack
  that exists satisfies every row with room to spare; "infeasible" therefore means that there is
  none.
- What the solver returns is turned into a concrete z, whose cost and score are computed in exact
  rationals. If z is no attack after all (it is too close to a boundary), a cut excludes it
  together with everything that costs as much, or that falls into the same leaves, and the program
  is solved again. Where that does not end in time, the answer is unknown.

`clock` keeps the time; `layout` and `classes` are the ensemble, `point` the instance; `cuts`,
`reach` and `program` build the program, `highs` solves it in a process of its own that `worker`
starts and, if need be, kills; `solving` asks and checks, and `parallel` does so for many instances.
"""

from carvegbm.engines.milp.aim import Aim, Term
from carvegbm.engines.milp.parallel import in_parallel
from carvegbm.engines.milp.point import Scene
from carvegbm.engines.milp.reach import ProgramTooLarge
from carvegbm.engines.milp.solving import Answer, Finding, decide, solve, verify_instance
from carvegbm.engines.milp.worker import Solver

__all__ = [
    "Aim",
    "Answer",
    "Finding",
    "ProgramTooLarge",
    "Scene",
    "Solver",
    "Term",
    "decide",
    "in_parallel",
    "solve",
    "verify_instance",
]
