"""Properties beyond robustness: what else an attacker cannot do to the raw score.

All rest on `output_range`, the lowest and highest raw score within the attacker's reach.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attack import rounding_error
from carvegbm.attacker import Attacker
from carvegbm.engines import Engine, OnViolation, Settings, check_spread
from carvegbm.ensemble import Ensemble
from carvegbm.errors import CarveError
from carvegbm.instances import check_threads
from carvegbm.progress import Progress, progress_bar
from carvegbm.readers import load
from carvegbm.spread import is_large_spread

__all__ = ["high_confidence", "output_range", "small_neighbourhood", "stability"]

Answers = npt.NDArray[np.str_]
""""holds" or "fails" per instance; "unknown" where rounding is too coarse to tell, or where the
ensemble is not large-spread for the instance."""


def output_range(
    model: Any,
    X: npt.ArrayLike,
    attacker: Attacker,
    *,
    engine: Engine = "auto",
    timeout: float = 10.0,
    threads: int | None = None,
    on_violation: OnViolation | None = None,
    progress: Progress = None,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The lowest and the highest raw score the attacker can reach, per instance.

    For regression this is the range of outputs. Exact, but for instances on which the search ran
    out of time: there, no attack leaves the range, but not all of it may be reached. NaN where
    `on_violation="unknown"` leaves an instance undecided. milp does not measure ranges; the
    parameters are otherwise those of `verify`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, task="regression")
    >>> low, high = cg.output_range(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1))
    >>> low.tolist(), high.tolist()
    ([-1.0, 1.0], [1.0, 1.0])
    """
    ensemble = load(model)
    if ensemble.n_outputs != 1:
        raise CarveError(
            f"output_range needs a model with one output, this one has {ensemble.n_outputs}; "
            "use verify for multiclass models"
        )
    rows = ensemble.check_data(X)
    attacker.check_instances(ensemble, rows)
    settings = Settings(engine, timeout, threads, on_violation)
    if engine == "milp":
        raise CarveError("engine 'milp' does not measure ranges; use auto or search")
    from carvegbm import _core

    core, attacker_core = ensemble.core, attacker.core(ensemble)
    n_threads = check_threads(threads)
    with progress_bar(progress, len(rows), "measuring") as tick:
        if settings.only_large_spread or (engine == "auto" and is_large_spread(ensemble, attacker)):
            per_instance = check_spread(ensemble, attacker, on_violation)
            lowest, highest = _core.output_range(
                core, attacker_core, rows, per_instance, timeout, n_threads, tick
            )
        else:
            lowest, _, _, highest, _ = _core.search_output_range(
                core, attacker_core, rows, timeout, n_threads, tick
            )
    return lowest, highest


def stability(
    model: Any, X: npt.ArrayLike, attacker: Attacker, c: float, **options: Any
) -> Answers:
    """No attack changes the raw score by more than c. `options` are those of `output_range`.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.stability(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), c=0.5).tolist()
    ['fails', 'holds']
    """
    if not c >= 0:
        raise CarveError(f"c must be >= 0, got {c:g}")
    ensemble = load(model)
    lowest, highest = output_range(ensemble, X, attacker, **options)
    raw = ensemble.raw_score(X, threads=options.get("threads"))
    change = np.maximum(highest - raw, raw - lowest)
    return _compare(ensemble, c - change, at_zero="holds")


def small_neighbourhood(
    model: Any, X: npt.ArrayLike, attacker: Attacker, c: float, **options: Any
) -> Answers:
    """No attack changes the raw score by more than c times its L-infinity budget.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1)
    >>> cg.small_neighbourhood(model, [[0.45]], cg.Attacker("inf", 0.1), c=100).tolist()
    ['holds']
    """
    if not math.isinf(attacker.norm):
        raise CarveError(f"small_neighbourhood is defined for norm inf, got {attacker.norm}")
    return stability(model, X, attacker, c * attacker.budget, **options)


def high_confidence(
    model: Any, X: npt.ArrayLike, attacker: Attacker, q: float, **options: Any
) -> Answers:
    """An instance predicted with probability >= q cannot be flipped.

    Holds as well where the prediction is less confident than q. Binary models with a logistic
    link only.

    Examples
    --------
    >>> import carvegbm as cg
    >>> stump = {"feature": 0, "threshold": 0.5, "left": {"score": -1}, "right": {"score": 1}}
    >>> model = cg.Ensemble.from_trees([stump], n_features=1, link="logistic")
    >>> cg.high_confidence(model, [[0.45], [0.9]], cg.Attacker("inf", 0.1), q=0.7).tolist()
    ['fails', 'holds']
    """
    ensemble = load(model)
    if ensemble.task != "binary" or ensemble.link != "logistic":
        raise CarveError(
            f"high_confidence needs a binary model with a logistic link, got {ensemble!r} "
            f"with link {ensemble.link!r}"
        )
    if not 0.5 <= q < 1:
        raise CarveError(f"q must be a probability in [0.5, 1), got {q:g}")
    lowest, highest = output_range(ensemble, X, attacker, **options)
    raw = ensemble.raw_score(X, threads=options.get("threads"))
    confident = math.log(q / (1 - q)) / ensemble.link_scale
    positive = raw >= ensemble.threshold
    side = np.where(positive, raw, -raw)
    stays = _compare(
        ensemble,
        np.where(positive, lowest - ensemble.threshold, ensemble.threshold - highest),
        at_zero="unknown",
    )
    is_confident = _compare(ensemble, side - confident, at_zero="unknown")
    answers = np.where(is_confident == "fails", "holds", stays)
    return np.where((is_confident == "unknown") & (stays != "holds"), "unknown", answers)


def _compare(ensemble: Ensemble, slack: npt.NDArray[np.float64], at_zero: str) -> Answers:
    """Say "holds" where slack is surely >= 0, "fails" where it is surely < 0."""
    error = 4 * rounding_error(ensemble)
    answers = np.where(slack > error, "holds", np.where(slack < -error, "fails", "unknown"))
    if ensemble.n_trees <= 1:  # nothing is added up, so nothing was rounded
        answers = np.where(slack > 0, "holds", np.where(slack < 0, "fails", at_zero))
    return np.where(np.isnan(slack), "unknown", answers)
