"""Queries about rows: one function each, which prepares a `Verifier` and asks it once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from carvegbm.attack import Attack
from carvegbm.attackers.attacker import Attacker, require_attacker
from carvegbm.options import EngineName, Method, OnViolation
from carvegbm.progress import Progress
from carvegbm.properties import Answers
from carvegbm.radius import Curve, Radius
from carvegbm.ranges import OutputRange
from carvegbm.verification import Verification
from carvegbm.verifier import Verifier

__all__ = [
    "attack",
    "high_confidence",
    "output_range",
    "radius",
    "robustness_curve",
    "small_neighbourhood",
    "stability",
    "verify",
]


def verify(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    method: Method = "efficient",
    grid: int | None = None,
    on_violation: OnViolation | None = None,
    exact_margin: bool = False,
    proof: Any = None,
    progress: Progress = None,
) -> Verification:
    """Decide for every row whether the attacker can flip the model's answer.

    Parameters
    ----------
    model : Ensemble, path, Booster or fitted estimator
    X : array (n, n_features)
    y : array (n,), optional
        Labels, which must be the model's classes. Without them the model's own answers are right,
        and the question is whether the attacker can change them.
    attacker : Attacker
    engine : {"auto", "large-spread", "search"}
        The engine that decides. "auto" runs the large-spread algorithms on rows for which their
        condition holds, and the search on rows that they leave undecided.
    timeout : float, default 10
        Seconds per row; a row that is not decided by then is "unknown".
    threads : int, optional
        All cores by default.
    method : {"efficient", "basic"}
        Large-spread engine: the paper's EV, which adds up adversarial gains, or its BV, which
        builds the best perturbation and predicts on it. They agree.
    grid : int, optional
        Large-spread engine: the paper's conservative mode for norms 1, 2, …: costs are rounded
        down and the budget up to multiples of 10^-grid. A row that is not robust is never called
        `robust`; an alarm without an attack that proves it is `unknown`.
    on_violation : {"raise", "unknown"}, optional
        Use only the large-spread engine. If the ensemble is not large-spread for the attacker,
        refuse it ("raise", as `engine="large-spread"` does), or check the condition for every row
        and leave those undecided that violate it ("unknown").
    exact_margin : bool, default False
        Find the worst margin, not only its sign; takes longer. (The large-spread engine finds it
        in any case for norm inf, and for norm 0 in small trees; with a `grid` it does not.)
    proof : path, optional
        Write proofs of all statuses to this file; `carvegbm_check` checks them. Statuses that
        cannot be proved within another `timeout` seconds are marked, with a warning.
    progress : bool or callable, optional
        By default a bar on a terminal; a callable gets the number of finished rows.

    Returns
    -------
    Verification

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> result = cg.verify(model, [[0.1], [0.45]], [0, 0], cg.Attacker("inf", 0.1))
    >>> result.status.tolist()
    ['robust', 'fragile']
    """
    verifier = Verifier(
        model,
        require_attacker(attacker, y),
        engine=engine,
        timeout=timeout,
        threads=threads,
        method=method,
        grid=grid,
        on_violation=on_violation,
        exact_margin=exact_margin,
    )
    return verifier.verify(X, y, proof=proof, progress=progress)


def attack(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> Attack:
    """Find a witness for every row: a change within the budget that flips the model's answer.

    If there is a witness, one is found, unless the status is "unknown". The parameters are those of
    `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> found = cg.attack(model, [[0.1], [0.75]], [0, 1], cg.Attacker("inf", 0.25))
    >>> found.success.tolist(), found.witnesses.tolist(), found.distance.tolist()
    ([False, True], [[nan], [0.5]], [nan, 0.25])
    """
    verifier = Verifier(
        model,
        require_attacker(attacker, y),
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return verifier.attack(X, y, progress=progress)


def radius(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    max_budget: float | None = None,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    progress: Progress = None,
) -> Radius:
    """Find the smallest budget that flips each row, exactly; 0 if its answer is wrong already.

    The radius r is the smallest double such that `verify` with budget r says "fragile" (budgets of
    an `Attacker` start at 1e-100; smaller radii are returned all the same). Radii are searched up
    to `max_budget`; where the radius is not found, `lower` and `upper` are proven bounds. The
    large-spread engine finds radii up to the largest budget for which the ensemble is large-spread;
    beyond it, "auto" runs the search.

    The other parameters are those of `verify`. The budget of the attacker is ignored.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.radius(model, [[0.75], [0.25]], [1, 1], cg.Attacker(norm=1)).radius.tolist()
    [0.25, 0.0]
    """
    verifier = Verifier(
        model, require_attacker(attacker, y), engine=engine, timeout=timeout, threads=threads
    )
    return verifier.radius(X, y, max_budget=max_budget, progress=progress)


def robustness_curve(
    model: Any,
    X: npt.ArrayLike,
    y: npt.ArrayLike | None = None,
    attacker: Attacker | None = None,
    *,
    budgets: float | Iterable[float],
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    progress: Progress = None,
) -> Curve:
    """Find the robustness at each of some budgets, in fewer steps than one `verify` per budget.

    A row is verified at about log2(number of budgets) of them; `timeout` is for each of these
    verifications. `engine="large-spread"` reads the curve from radii instead.

    The other parameters are those of `verify`. The budget of the attacker is ignored.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> X, y, attacker = [[0.75], [1.5]], [1, 1], cg.Attacker("inf")
    >>> cg.robustness_curve(model, X, y, attacker, budgets=[0.1, 0.5, 1.0]).lower.tolist()
    [1.0, 0.5, 0.0]
    """
    verifier = Verifier(
        model, require_attacker(attacker, y), engine=engine, timeout=timeout, threads=threads
    )
    return verifier.robustness_curve(X, y, budgets=budgets, progress=progress)


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
    """Find the lowest and the highest raw score that the attacker can reach, per row.

    For regression this is the range of predictions. If time runs out, both ends have an outer bound
    that no attack exceeds, and an inner bound that an attack reaches. The parameters are those of
    `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, task="regression")
    >>> found = cg.output_range(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1))
    >>> found.lowest.tolist(), found.highest.tolist(), found.exact.tolist()
    ([-1.0, 1.0], [1.0, 1.0], [True, True])
    """
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return verifier.output_range(X, progress=progress)


def stability(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    c: float,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> Answers:
    """Decide for every row whether no attack changes the raw score by more than c, exactly.

    The other parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.stability(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), c=0.5).tolist()
    ['fails', 'holds']
    """
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return verifier.stability(X, c, progress=progress)


def small_neighbourhood(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    c: float,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> Answers:
    """Decide whether no attack of norm inf changes the raw score by more than c · budget, exactly.

    The product is not rounded. The other parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.small_neighbourhood(model, [[0.45]], cg.Attacker("inf", 0.1), c=100).tolist()
    ['holds']
    """
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return verifier.small_neighbourhood(X, c, progress=progress)


def high_confidence(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    q: float,
    *,
    engine: EngineName = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> Answers:
    """Decide whether answers that the model gives with probability >= q cannot be flipped, exactly.

    The property holds for rows with a smaller probability. For binary models with a logistic link;
    the probability is that of the exact raw score. The other parameters are those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, link="logistic")
    >>> cg.high_confidence(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), q=0.7).tolist()
    ['fails', 'holds']
    """
    verifier = Verifier(
        model,
        attacker,
        engine=engine,
        timeout=timeout,
        threads=threads,
        on_violation=on_violation,
    )
    return verifier.high_confidence(X, q, progress=progress)
