"""How models do on validation rows: correct, robust or how wrong per row, bounded or verified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from carvegbm.model.ensemble import Ensemble
from carvegbm.queries import verify
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import worst_errors
from carvegbm.training.spec import FitResult, TrainSpec

__all__ = ["VERIFIED_ROWS", "Outcome", "in_drawn_order", "judge", "make_exact"]

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]

VERIFIED_ROWS = 600
"""With more validation rows, bounds take the place of verification where a model has bounds."""

_VERIFY_SECONDS = 0.5  # per row; a row that is not decided counts as not robust


@dataclass
class Outcome:
    """How a model does on every validation row, by weight.

    Attributes
    ----------
    clean, worst : array
        1 for a correct row and a row proven robust, else 0; of a regression, minus the squared
        errors without and with the attacker. `worst` is NaN for rows that were not judged, and a
        lower bound where it is not `exact`.
    """

    clean: Floats
    worst: Floats
    exact: Bools
    weight: Floats | None

    def measures(self, task: str) -> dict[str, float]:
        """Return accuracy and robustness, or the root mean squared errors of a regression."""
        clean, worst = (_mean(each, self.weight)[0] for each in (self.clean, self.worst))
        if task == "regression":
            return {"error": float(np.sqrt(-clean)), "worst error": float(np.sqrt(-worst))}
        return {"accuracy": clean, "robustness": worst}

    def gain(self, other: Outcome, rows: Ints | slice = slice(None)) -> tuple[float, float]:
        """How much more robust this is than another on these rows, and the standard error."""
        weight = None if self.weight is None else self.weight[rows]
        return _mean(self.worst[rows] - other.worst[rows], weight)

    @staticmethod
    def joined(parts: Sequence[Outcome]) -> Outcome:
        """Return the outcomes of several sets of rows."""
        weights = [part.weight for part in parts if part.weight is not None]
        return Outcome(
            np.concatenate([part.clean for part in parts]),
            np.concatenate([part.worst for part in parts]),
            np.concatenate([part.exact for part in parts]),
            np.concatenate(weights) if weights else None,
        )


def judge(result: FitResult, valid: Dataset, spec: TrainSpec, most: int | None) -> Outcome:
    """Judge by the bounds that training knows; verify at most so many rows where there are none."""
    ensemble, n = result.model.ensemble, len(valid)
    is_regression = spec.model.task == "regression"
    if is_regression:
        clean = -((ensemble.raw_score(valid.X, threads=spec.threads).reshape(-1) - valid.y) ** 2)
    else:
        decided = ensemble.decide(valid.X, threads=spec.threads)
        clean = (decided == ensemble.classes[valid.y]).astype(np.float64)
    found = Outcome(clean, np.full(n, np.nan), np.zeros(n, dtype=bool), valid.weight)
    if result.margins is None or (n <= VERIFIED_ROWS and not is_regression):
        make_exact(found, result, valid, spec, in_drawn_order(n)[:most])
    elif is_regression:
        found.worst = -((np.abs(result.margins) + _rounding(ensemble)) ** 2)
    else:
        robust = (clean > 0) & (result.margins > _rounding(ensemble))
        found.worst, found.exact = robust.astype(np.float64), robust | (clean == 0)
    return found


def make_exact(
    known: Outcome, result: FitResult, valid: Dataset, spec: TrainSpec, rows: Ints
) -> None:
    """Verify these rows where that is not done yet."""
    ensemble, attacker = result.model.ensemble, spec.attacker
    seconds, threads = _VERIFY_SECONDS, spec.threads
    rows = rows[~known.exact[rows]]
    known.exact[rows] = True
    if spec.model.task != "regression":
        known.worst[rows] = 0
        rows = rows[known.clean[rows] > 0]
    if len(rows) == 0:
        return
    X, y = valid.X[rows], valid.y[rows]
    if spec.model.task == "regression":
        known.worst[rows] = -worst_errors(
            ensemble, X, y, attacker, timeout=seconds, threads=threads
        )
        return
    labels = ensemble.classes[y]
    found = verify(ensemble, X, labels, attacker, timeout=seconds, threads=threads, progress=False)
    known.worst[rows] = found.status == "robust"


def in_drawn_order(n: int) -> Ints:
    """Return the positions of n validation rows in the order in which models are verified."""
    return np.random.default_rng(0).permutation(n)


def _mean(values: Floats, weight: Floats | None) -> tuple[float, float]:
    """Return the weighted mean of the values that are not NaN, and its standard error."""
    known = np.isfinite(values)
    own = np.ones(int(known.sum())) if weight is None else weight[known]
    if not own.sum() > 0:
        return 0.0, 0.0
    mean = float(np.average(values[known], weights=own))
    return mean, float(np.sqrt(np.sum((own * (values[known] - mean)) ** 2)) / own.sum())


def _rounding(ensemble: Ensemble) -> float:
    """Upper bound on the rounding error of a margin that is summed tree by tree."""
    return float(2 * (ensemble.n_trees + 2) * np.finfo(float).eps * ensemble.core.magnitude)
