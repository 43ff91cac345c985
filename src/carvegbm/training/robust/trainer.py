"""What both robust trainers share: settings, growing with callbacks and time limit, the model."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.training.binning import BinMapper
from carvegbm.training.model import GBDTModel, GrownTree, header_of, stored_scores
from carvegbm.training.params import RobustSettings
from carvegbm.training.robust.booster import CodedRows, RobustTrees
from carvegbm.training.spec import FitResult, Params, StopReason, TrainSpec

__all__ = ["FEW_ROWS", "MANY_FEATURES", "PLAIN", "Growth", "RobustTrainer"]

Floats = npt.NDArray[np.float64]

FEW_ROWS = 2000
"""With fewer rows, configurations are compared by cross-validation."""

MANY_FEATURES = 100
"""With more features, thresholds are fewer and norms other than inf train at witnesses."""

PLAIN: Params = {"budget_share": 0.0}
"""Parameters of a plain model: grown as if there were no attacker, and not refitted."""

_HONOURED = (
    *("num_leaves", "learning_rate", "min_data_in_leaf", "min_sum_hessian_in_leaf"),
    *("min_gain_to_split", "lambda_l1", "lambda_l2", "feature_fraction", "max_depth"),
)


@dataclass
class Growth:
    """One member that is being grown.

    Attributes
    ----------
    booster : RobustBooster
    valid : CodedRows or None
        The validation rows.
    losses : list of float
        Of the validation rows, after every round; NaN unless they are watched.
    """

    booster: _core.RobustBooster
    valid: CodedRows | None = None
    losses: list[float] = field(default_factory=list)
    stopped_because: StopReason = "rounds"

    def round(self) -> bool:
        """Grow a tree per output; False if none has a split."""
        if not self.booster.round():
            return False
        self.losses.append(self.booster.loss)
        return True

    @property
    def trees(self) -> RobustTrees:
        """The trees so far."""
        trees = self.booster.trees
        values = np.concatenate([np.empty(0), *(np.asarray(tree.values) for tree in trees)])
        return RobustTrees(np.asarray(self.booster.bias), trees, values)

    @property
    def best_round(self) -> int:
        """The round with the smallest loss on the validation rows."""
        return int(np.argmin(self.losses)) + 1 if self.losses else 0


class RobustTrainer:
    """Base of the robust trainers."""

    finalists = 2
    center = 0.0
    """What coded trees leave out of every score: a regression's mean target, which float32 scores
    would lose precision to."""

    def __init__(self, spec: TrainSpec, settings: RobustSettings) -> None:
        self.spec = spec
        self.settings = settings
        self.task = spec.model.task
        self.n_outputs = spec.model.n_outputs
        self.seed = int(spec.params.get("seed", 0))

    def plain_params(self) -> Params:
        """Return the parameters of a plain model of the same size."""
        min_rows = int(self.spec.params["min_data_in_leaf"])
        return {**PLAIN, "n_members": 1, "ordered": False, "min_child_samples": min_rows}

    def growing_options(self, params: Params, seed: int, **others: Any) -> _core.BoostingOptions:
        """Return the parameters of the core's booster."""
        given = {name: self.spec.params[name] for name in _HONOURED if name in self.spec.params}
        given["max_depth"] = max(0, int(given.get("max_depth", -1)))
        if "min_child_samples" in params:
            given["min_data_in_leaf"] = params["min_child_samples"]
        if self.spec.params.get("bagging_freq", 0):
            others["bagging_fraction"] = self.spec.params.get("bagging_fraction", 1.0)
        return _core.BoostingOptions(
            **{**given, "ordered": bool(params.get("ordered", False)), "seed": seed, **others}
        )

    def start(self, booster: _core.RobustBooster, valid: CodedRows | None) -> Growth:
        """Return a member without trees, watched on the validation rows if anybody looks."""
        if valid is not None and self.spec.evaluation.sets:
            booster.watch(valid.rows, valid.targets, valid.weights)
        return Growth(booster, valid)

    def grow(self, growth: Growth, n_rounds: int) -> None:
        """Grow up to `n_rounds` rounds in all; callbacks, early stopping, deadline and Ctrl-C."""
        from lightgbm.callback import EarlyStopException

        patience = self.spec.evaluation.early_stopping_rounds
        try:
            while len(growth.losses) < n_rounds and growth.stopped_because == "rounds":
                if self.out_of_time():
                    growth.stopped_because = "time limit"
                    break
                self._call_back(growth, n_rounds, before=True)
                if not growth.round():
                    growth.stopped_because = "no thresholds left"
                    break
                self._call_back(growth, n_rounds, before=False)
                waited = len(growth.losses) - growth.best_round
                if patience is not None and growth.valid is not None and waited >= patience:
                    growth.stopped_because = "early stopping"
        except EarlyStopException:
            growth.stopped_because = "early stopping"
        except KeyboardInterrupt:
            growth.stopped_because = "interrupted"

    def kept(self, growth: Growth) -> RobustTrees:
        """Return the trees up to the best round where early stopping watches, else all."""
        if self.spec.evaluation.early_stopping_rounds is None or growth.valid is None:
            return growth.trees
        return growth.trees.first(growth.best_round * self.n_outputs)

    def out_of_time(self) -> bool:
        """Return whether the deadline has passed."""
        return self.spec.deadline is not None and time.monotonic() >= self.spec.deadline

    def _call_back(self, growth: Growth, end: int, *, before: bool) -> None:
        callbacks = self.spec.evaluation.callbacks
        if not callbacks:
            return
        from lightgbm.callback import CallbackEnv

        done = len(growth.losses) - (0 if before else 1)
        results = None
        if not before and growth.valid is not None:
            results = [(growth.valid.data.name, "worst_loss", growth.losses[-1], False)]
        for callback in sorted(callbacks, key=lambda c: getattr(c, "order", 0)):
            if bool(getattr(callback, "before_iteration", False)) is before:
                callback(CallbackEnv(self, dict(self.spec.params), done, 0, end, results))

    def result(
        self,
        trees: RobustTrees,
        bins: BinMapper,
        growth: Growth,
        margins: Floats | None,
        members: int,
    ) -> FitResult:
        """Convert coded trees to a model; `growth` of the first member says how training went."""
        trees = replace(trees, bias=trees.bias + self.center)
        scores = trees.leaf_scores()
        grown = [
            GrownTree.from_coded(tree, stored_scores(own), bins)
            for tree, own in zip(trees.trees, scores, strict=True)
        ] or [GrownTree.constant(float(bias), 0) for bias in trees.bias]
        rounds = -(-len(trees.trees) // (self.n_outputs * members))
        history, best_score = {}, None
        if growth.valid is not None and growth.losses and self.spec.evaluation.sets:
            history = {growth.valid.data.name: {"worst_loss": [*growth.losses]}}
            best_score = growth.losses[min(rounds, len(growth.losses)) - 1]
        return FitResult(
            GBDTModel(grown, self.spec.model, self._header(bins.n_features), bins),
            rounds,
            growth.stopped_because,
            best_score=best_score,
            evals_result=history,
            margins=margins,
        )

    def _header(self, n_features: int) -> str:
        names = (*_HONOURED, "bagging_fraction", "objective", "num_class", "seed")
        params = {name: self.spec.params[name] for name in names if name in self.spec.params}
        params["feature_fraction_bynode"] = self.settings.colsample_bynode or 0.5
        frequency = int(self.spec.params.get("bagging_freq", 0))
        return _header_of(tuple(params.items()), n_features, self.spec.n_rounds, frequency)


@lru_cache(maxsize=8)
def _header_of(params: tuple[tuple[str, Any], ...], *sizes: int) -> str:
    return header_of(dict(params), *sizes)
