"""Judging: what is proven of a model on validation rows, and which trial is the best.

Comes in: a model, rows, and bounds on what an attacker can do to them. Goes out: measures by name,
and trials in order. What the bounds leave open of a class, the verifier decides; numbers are judged
by the bounds, and where there are none by the range of outputs that is proven.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.ensemble import Ensemble
from carvegbm.training.dataset import Dataset
from carvegbm.training.report import Trial
from carvegbm.training.robust_refit import worst_errors
from carvegbm.verification import verify

__all__ = ["PROOF_SECONDS", "Judge", "is_better", "mean"]

Floats = npt.NDArray[np.float64]

PROOF_SECONDS = 1.0
"""For a row's proof; one that is not decided by then counts as not robust."""


@dataclass(frozen=True)
class Judge:
    """Proves what an attacker can do to rows."""

    attacker: Attacker
    rows: Dataset
    threads: int

    def measures(self, ensemble: Ensemble, margins: Floats | None = None) -> dict[str, float]:
        """Measures of a trial; `margins` are lower bounds on the rows' worst margins, if known.

        For numbers a margin is a distance, with a minus sign: of the worse end from what is wanted.
        """
        if ensemble.task == "regression":
            error = _root_mean(ensemble.raw_score(self.rows.X) - self.rows.y)
            if margins is None:
                squares = worst_errors(
                    ensemble,
                    self.rows,
                    self.attacker,
                    timeout=PROOF_SECONDS,
                    threads=self.threads,
                )
                return {"error": error, "worst error": float(np.sqrt(squares.mean()))}
            distances = np.abs(margins) + _rounding(ensemble)
            return {"error": error, "worst error": _root_mean(distances)}
        right = np.zeros(len(self.rows), dtype=bool)
        if len(self.rows):
            right = ensemble.decide(self.rows.X) == ensemble.classes[self.rows.y]
        robust = np.zeros_like(right)
        if margins is not None:
            robust = right & (margins > _rounding(ensemble))
        open_rows = np.flatnonzero(right & ~robust)
        if len(open_rows):
            labels = ensemble.classes[self.rows.y[open_rows]]
            proven = verify(
                ensemble,
                self.rows.X[open_rows],
                labels,
                self.attacker,
                timeout=PROOF_SECONDS,
                threads=self.threads,
                progress=False,
            )
            robust[open_rows] = proven.status == "robust"
        return {"accuracy": float(right.mean()), "robustness": float(robust.mean())}


def is_better(one: Trial, other: Trial) -> bool:
    """Whether one trial did better than another, at the attacker's best and then without it."""
    return _rank(one) > _rank(other)


def mean(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of every measure."""
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


def _rank(trial: Trial) -> tuple[float, ...]:
    if "worst error" in trial.measures:
        return -trial.measures["worst error"], -trial.measures["error"], -trial.leaves
    return trial.robustness, trial.accuracy, -trial.leaves


def _rounding(ensemble: Ensemble) -> float:
    """What rounding can do, at most, to a margin that is summed tree by tree."""
    return float(2 * (ensemble.n_trees + 2) * np.finfo(float).eps * ensemble.core.magnitude)


def _root_mean(distances: npt.NDArray[Any]) -> float:
    return float(np.sqrt(np.mean(np.square(distances))))
