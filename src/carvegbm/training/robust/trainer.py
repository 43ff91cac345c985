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
from carvegbm.training.dataset import Dataset
from carvegbm.training.evaluation import run_callbacks
from carvegbm.training.leaf_refit import LeafRefit, RefitSettings, refit_leaves
from carvegbm.training.model import GBDTModel, GrownTree, header_of, stored_scores
from carvegbm.training.params import RobustSettings
from carvegbm.training.robust.booster import CodedRows, RobustTrees
from carvegbm.training.spec import FitResult, Params, StopReason, TrainSpec

__all__ = ["FEW_ROWS", "MANY_FEATURES", "Growth", "RobustTrainer"]

Floats = npt.NDArray[np.float64]

FEW_ROWS = 2000
"""With fewer rows, configurations are compared by cross-validation."""

MANY_FEATURES = 100
"""With more features, thresholds are fewer and norms other than inf train at witnesses."""

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
        """Return the parameters of a plain model: no attacker, and no refit."""
        min_rows = int(self.spec.params["min_data_in_leaf"])
        return {
            "budget_share": 0.0,
            "n_members": 1,
            "ordered": False,
            "min_child_samples": min_rows,
        }

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

    def grow(self, growth: Growth, n_rounds: int) -> None:
        """Grow up to `n_rounds` rounds in all; callbacks, early stopping, deadline and Ctrl-C."""
        from lightgbm.callback import EarlyStopException

        deadline, patience = self.spec.deadline, self.spec.evaluation.early_stopping_rounds
        callbacks, params = self.spec.evaluation.callbacks, dict(self.spec.params)
        names = [] if growth.valid is None else [growth.valid.data.name]
        try:
            while len(growth.losses) < n_rounds and growth.stopped_because == "rounds":
                if deadline is not None and time.monotonic() >= deadline:
                    growth.stopped_because = "time limit"
                    break
                run_callbacks(callbacks, self, params, len(growth.losses), n_rounds, None)
                if not growth.round():
                    growth.stopped_because = "no thresholds left"
                    break
                results = [(name, "worst_loss", growth.losses[-1], False) for name in names]
                run_callbacks(callbacks, self, params, len(growth.losses) - 1, n_rounds, results)
                waited = len(growth.losses) - growth.best_round
                if patience is not None and growth.valid is not None and waited >= patience:
                    growth.stopped_because = "early stopping"
        except EarlyStopException:
            growth.stopped_because = "early stopping"
        except KeyboardInterrupt:
            growth.stopped_because = "interrupted"

    def kept(self, growth: Growth) -> RobustTrees:
        """Return the trees up to the best round where early stopping watches, else all."""
        trees = RobustTrees.of(growth.booster)
        if self.spec.evaluation.early_stopping_rounds is None or growth.valid is None:
            return trees
        return trees.first(growth.best_round * self.n_outputs)

    def result(
        self,
        trees: RobustTrees,
        bins: BinMapper,
        growth: Growth,
        members: int,
        margins: Floats | None = None,
    ) -> FitResult:
        """Convert coded trees to a model; `growth` of the first member says how training went."""
        rounds = -(-len(trees.trees) // (self.n_outputs * members))
        history, best_score = {}, None
        if growth.valid is not None and growth.losses and self.spec.evaluation.sets:
            history = {growth.valid.data.name: {"worst_loss": [*growth.losses]}}
            best_score = growth.losses[min(rounds, len(growth.losses)) - 1]
        return FitResult(
            self.model_of(trees, bins),
            rounds,
            growth.stopped_because,
            best_score=best_score,
            evals_result=history,
            margins=margins,
        )

    def refit_at_witnesses(
        self,
        trees: RobustTrees,
        bins: BinMapper,
        train: Dataset,
        settings: RefitSettings,
        points: Floats | None = None,
    ) -> tuple[RobustTrees, LeafRefit]:
        """Refit all scores on the loss at witnesses, with the bias for an anchor."""
        bias, outputs = replace(trees, bias=trees.bias + self.center).bias_parts()
        leaves = np.arange(len(bias)), outputs
        ensemble = self.model_of(trees, bins).ensemble
        anchor = np.zeros(ensemble.scores.shape)
        anchor[leaves] = bias
        settings = replace(settings, anchor=anchor, threads=self.spec.threads)
        found = refit_leaves(ensemble, self.spec.attacker, train, None, settings, points)
        return replace(trees, values=found.scores[leaves] - bias), found

    def model_of(self, trees: RobustTrees, bins: BinMapper) -> GBDTModel:
        """Convert coded trees to a model."""
        biased = replace(trees, bias=trees.bias + self.center)
        scores = trees.by_tree(trees.values + biased.bias_parts()[0])
        grown = [
            GrownTree.from_coded(tree, stored_scores(own), bins)
            for tree, own in zip(trees.trees, scores, strict=True)
        ] or [GrownTree.constant(float(bias), 0) for bias in biased.bias]
        names = (*_HONOURED, "bagging_fraction", "objective", "num_class", "seed")
        params = {name: self.spec.params[name] for name in names if name in self.spec.params}
        params["feature_fraction_bynode"] = self.settings.colsample_bynode or 0.5
        frequency = int(self.spec.params.get("bagging_freq", 0))
        header = _header_of(tuple(params.items()), bins.n_features, self.spec.n_rounds, frequency)
        return GBDTModel(grown, self.spec.model, header, bins)


@lru_cache(maxsize=8)
def _header_of(params: tuple[tuple[str, Any], ...], *sizes: int) -> str:
    return header_of(dict(params), *sizes)
