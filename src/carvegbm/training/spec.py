"""The common interface of the training methods: what to train, what came of it, and the trainer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import Evaluation
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.model import GBDTModel, ModelSpec

__all__ = ["FitResult", "Params", "StopReason", "TrainSpec", "Trainer"]

Params = Mapping[str, Any]
StopReason = Literal["rounds", "early stopping", "no thresholds left", "time limit", "interrupted"]


@dataclass(frozen=True)
class TrainSpec:
    """What to train, against whom and how.

    The attacker has features by position. `params` are LightGBM's under main names, with the
    objective. The first evaluation set, if any, serves as validation rows. Training stops when
    `time.monotonic()` reaches `deadline`. `log` receives one line per trial.
    """

    attacker: Attacker
    model: ModelSpec
    params: Params
    n_rounds: int
    evaluation: Evaluation = field(default_factory=Evaluation)
    threads: int = 1
    verbose: int = 0
    deadline: float | None = None
    log: Callable[[str], None] = lambda _: None

    def exclusion_rule(self) -> ExclusionRule:
        """Return which thresholds exclude each other in a large-spread ensemble."""
        return ExclusionRule.against(self.attacker, self.model.blank())


@dataclass(frozen=True)
class FitResult:
    """A fitted model.

    Attributes
    ----------
    model : GBDTModel
    best_iteration : int
        Number of rounds kept; 0 for a constant model.
    stopped_because : StopReason
    best_score : float, optional
        The first metric on the first evaluation set after these rounds.
    evals_result : dict
        Every metric after every round, by evaluation set.
    n_open_thresholds : int, optional
        Candidate thresholds that large-spread training left open.
    is_scout : bool
        A fit of few rounds that only serves to compare configurations.
    margins : array, optional
        Lower bound on the worst margin of every validation row, if the trainer knows one. Of a
        regression, minus an upper bound on the distance of the worse end from the target.
    refit_on : callable, optional
        Fits the same configuration to the rows it is given.
    """

    model: GBDTModel
    best_iteration: int
    stopped_because: StopReason
    best_score: float | None = None
    evals_result: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    n_open_thresholds: int | None = None
    is_scout: bool = False
    margins: npt.NDArray[np.float64] | None = None
    refit_on: Callable[[Dataset], FitResult] | None = None


class Trainer(Protocol):
    """A training method."""

    spec: TrainSpec
    finalists: int
    """How many configurations are fitted beyond the first model of their path."""

    def search_space(self, n_rows: int) -> Sequence[Params]:
        """Return the parameters to try on `n_rows` training rows, the default first."""

    def fit_path(
        self, params: Params, train: Dataset, valid: Dataset | None
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield the models of one fit with the parameters of each: scouts, full and refitted."""
