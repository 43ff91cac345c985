"""Fit the leaf scores of fixed trees to worst cases.

With the trees fixed, the worst case of a row, or a bound on it, is a minimum of linear functions of
the leaf scores. These losses are therefore convex in the scores:

    classification  log(1 + sum over other classes c of exp(-m_c)), m_c the worst margin against c
    regression      the larger of (end - y)^2 over both ends of the range of outputs within reach

The mean loss is minimised over all leaves by Adam on subgradients. Of the averaged iterates, the
one that does best on the validation rows is kept, or the last one. Where no bound exists (norms
other than inf, and an ensemble that is not large-spread), the loss at witnesses takes its place: a
point within the budget per row, improved in every step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attackers.attacker import Attacker
from carvegbm.attackers.encoding import CoreEncoding
from carvegbm.attackers.spread import is_large_spread
from carvegbm.errors import CarveError
from carvegbm.model.ensemble import Ensemble
from carvegbm.progress import Progress, progress_bar
from carvegbm.training.dataset import Dataset

__all__ = ["Check", "LeafRefit", "RefitSettings", "needs_witnesses", "refit_leaves"]

Floats = npt.NDArray[np.float64]

_PASSED_ON = (
    *("steps", "rate", "batch", "shuffle", "averaging", "l2", "seed", "threads"),
    *("batch_passes", "point_passes"),
)
_MAX_MEMORY = 1 << 29  # bytes of leaves within reach that are kept; others are found anew


@dataclass(frozen=True)
class RefitSettings:
    """How to minimise the loss.

    Scores count by what they add to the raw score; for regression, in standard deviations of y.
    """

    steps: int = 120
    epochs: int | None = None  # in place of steps: passes over all rows
    rate: float = 0.01  # of the first step; it falls linearly to 0
    batch: int = 4096
    shuffle: bool = False  # new batches in every epoch
    averaging: float = 0.9  # weight of the past in the averaged iterate
    l2: float = 0.0  # l2 / 2 times the sum of squares of scores - anchor is added to the loss
    anchor: Floats | None = None
    patience: int | None = 30  # steps without a better iterate
    floor: float | None = None  # smallest acceptable accuracy on the validation rows
    seed: int = 0
    batch_passes: int = 2  # over the witnesses of a batch
    point_passes: int = 0  # over all witnesses in the end; 0: they are not returned
    threads: int = 0  # all cores
    progress: Progress = False


class Check(NamedTuple):
    """An iterate on the validation rows.

    `robustness` is the share of rows whose worst margin, or a lower bound on it, is >= 0; NaN for
    regression. `accuracy` is NaN without a floor.
    """

    step: int
    robustness: float
    accuracy: float
    loss: float


@dataclass(frozen=True)
class LeafRefit:
    """The best iterate and all checks; without validation rows the last iterate.

    `points` are witnesses at the new scores, if they are wanted; `proven` is set by `prove_refit`.
    """

    scores: Floats
    best: Check | None
    checks: list[Check]
    interrupted: bool
    points: Floats | None = None
    proven: Mapping[str, float] | None = None


def refit_leaves(
    ensemble: Ensemble,
    attacker: Attacker,
    train: Dataset,
    valid: Dataset | None,
    settings: RefitSettings,
    points: Floats | None = None,
) -> LeafRefit:
    """Return scores with better worst cases.

    The best iterate has at least the accuracy of the floor, if any does; then the most robust rows,
    then the smallest loss. An iterate with fewer robust rows than the first one is never taken.
    Without validation rows, the last one is. `points` are witnesses of the training rows to start
    from, where witnesses are needed.
    """
    is_regression = ensemble.task == "regression"
    if settings.anchor is not None and settings.anchor.shape != ensemble.scores.shape:
        raise CarveError(
            f"anchor must have the shape of the scores, {ensemble.scores.shape}, got "
            f"{settings.anchor.shape}"
        )
    encoding = CoreEncoding(ensemble, attacker.limits(ensemble))

    def encoded(rows: Dataset) -> tuple[npt.NDArray[Any], Floats]:
        X = np.ascontiguousarray(encoding.encode(rows.X))
        return X, np.ascontiguousarray(rows.y, dtype=np.float64)

    core_train = encoded(train)
    core_points = None
    if points is not None:
        core_points = np.array(encoding.encode(points), dtype=np.float64, order="C")
    options = _core.DescentOptions(
        epochs=settings.epochs or 0,
        patience=settings.patience or 0,
        floor=-inf if settings.floor is None else settings.floor,
        uses_witnesses=needs_witnesses(ensemble, attacker),
        unit=(float(np.std(train.y)) or 1.0) if is_regression else 1.0,
        steepness=ensemble.link_scale if ensemble.task == "binary" else 1.0,
        most_memory=_MAX_MEMORY,
        **{name: getattr(settings, name) for name in _PASSED_ON},
    )
    steps = settings.steps
    if settings.epochs is not None:
        steps = settings.epochs * max(1, -(-len(train) // settings.batch))
    with progress_bar(settings.progress, steps, "refitting") as show:
        scores, checks, best, interrupted = _core.descend(
            encoding.core_ensemble,
            encoding.core_attacker(attacker),
            core_train,
            train.weight,
            None if valid is None else encoded(valid),
            encoding.core_attacker(Attacker("inf", 0)),
            np.ascontiguousarray(ensemble.scores).ravel(),
            None if settings.anchor is None else np.ascontiguousarray(settings.anchor).ravel(),
            core_points,
            is_regression,
            options,
            show,
        )
    found = [Check(*check) for check in checks]
    worst = None
    if core_points is not None and settings.point_passes:
        worst = encoding.decode(core_points, core_train[0], train.X)
    return LeafRefit(
        np.asarray(scores).reshape(ensemble.scores.shape),
        found[best] if found else None,
        found,
        interrupted,
        worst,
    )


def needs_witnesses(ensemble: Ensemble, attacker: Attacker) -> bool:
    """Return whether there is no bound on worst cases to minimise."""
    return not isinf(attacker.norm) and not is_large_spread(ensemble, attacker)
