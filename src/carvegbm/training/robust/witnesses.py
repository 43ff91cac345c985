"""Robust training against norms 0, 1, 2, …: trees for a smaller norm inf, refitted at witnesses.

Such an attacker moves some features far or many a little, so that no bound per tree is tight. Trees
are grown and refitted against norm inf with a share of the budget, which share suits the data being
found by trial; then the scores of all leaves are refitted once more on the loss at witnesses, which
every step improves. Trees are grown at the witnesses themselves, stage by stage, for norm 0, where
no such share exists, for few rows, and for many features: on images, the first way loses up to 35
points of proven robustness at large budgets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import numpy.typing as npt

from carvegbm import _core
from carvegbm.attackers.attacker import Attacker
from carvegbm.training.binning import BinMapper, crowding, even_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.leaf_refit import RefitSettings
from carvegbm.training.robust.booster import CodedRows, Coder, RobustTrees
from carvegbm.training.robust.bounds import BoundTrainer
from carvegbm.training.robust.trainer import FEW_ROWS, MANY_FEATURES, Growth, RobustTrainer
from carvegbm.training.spec import FitResult, Params, StopReason

__all__ = ["StagedWitnessTrainer", "WitnessTrainer"]

Floats = npt.NDArray[np.float64]

_RADII = (0.25, 0.5, 1.0, 0.125)  # shares of the budget
_REFIT = RefitSettings(rate=0.01, shuffle=True, averaging=0.97, batch=256, batch_passes=1)
_STAGE_REFIT = replace(_REFIT, rate=0.02)
_POINT_PASSES = 2  # over the witnesses that the next stage grows at
_STAGE_VISITS = 20_000  # of rows, in the refit of a stage
_STAGES = (120, 20)  # trees between refits: of many rows, and of few
_MIN_STEPS = 20  # per epoch, unless batches become smaller than this many rows
_MAX_BIN = 31
_NODE_SHARES = (0.5, 0.2)  # of the features, per split: of few features, and of many
_VISITS = 30_000  # of rows, in a refit at witnesses
_L2 = 1e-3


class WitnessTrainer(BoundTrainer):
    """Trainer for norms other than inf."""

    def search_space(self, n_rows: int) -> Sequence[Params]:  # noqa: ARG002
        """Return the configurations to compare, the default first."""
        settings = self.settings
        members = settings.n_members or 1
        min_rows = int(self.spec.params["min_data_in_leaf"])
        return [
            {
                "n_members": min(members, max(1, self.spec.n_rounds // 10)),
                "radius": radius,
                "max_crowding": crowding,
                "min_child_samples": min_rows,
            }
            for crowding in settings.max_crowding or (None,)
            for radius in _RADII
        ]

    def _finished(
        self,
        params: Params,
        trees: RobustTrees,
        bins: BinMapper,
        growth: Growth,
        coded: CodedRows,
    ) -> FitResult:
        members = int(params["n_members"])
        full = int(params["rounds"]) >= self.spec.n_rounds // members
        if "radius" in params and trees.trees and full:
            train = coded.data
            train = replace(train, y=train.y + self.center) if self.center else train
            n = len(train)
            settings = replace(
                _REFIT,
                epochs=max(1, round(_VISITS / n)),
                batch=max(1, min(_REFIT.batch, n // 10)),
                l2=_L2,
                seed=self.seed,
            )
            refitted, found = self.refit_at_witnesses(trees, bins, train, settings)
            if found.interrupted:
                growth.stopped_because = "interrupted"
            else:
                trees = refitted
        return self.result(trees, bins, growth, members)


class StagedWitnessTrainer(RobustTrainer):
    """Trainer for few rows, many features and norm 0: grows and refits at witnesses, in stages.

    Every leaf looks at one drawn threshold per feature: many small, scattered steps give an
    attacker less for its budget than few large ones.
    """

    def search_space(self, n_rows: int) -> Sequence[Params]:
        """Return the configurations to compare, the default first.

        "radius" is that of the attacker that splits account for, in budgets; in scales for norm 0.
        """
        few, settings = n_rows < FEW_ROWS, self.settings
        radii = (0.0,) if self.spec.attacker.norm == 0 else (1 / 32,) if few else (1 / 8, 1 / 32)
        members = settings.n_members or min(3 if few else 1, max(1, self.spec.n_rounds // 10))
        crowding = settings.max_crowding or (None,)
        strengths = settings.leaf_l2 or ((3e-3, 1e-2) if few else (3e-4,))
        return [
            {"n_members": members, "radius": radius, "max_crowding": crowded, "leaf_l2": strength}
            for radius, crowded, strength in product(radii, crowding, strengths)
        ]

    def fit_path(
        self,
        params: Params,
        train: Dataset,
        valid: Dataset | None,  # noqa: ARG002
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield the model after its first stage, with few rows half way, and at its end."""
        members = int(params["n_members"])
        n_rounds = int(params.get("rounds", max(1, self.spec.n_rounds // members)))
        stage = max(1, _STAGES[len(train) < FEW_ROWS] // self.n_outputs)
        grown = [_Member(self, params, train, number) for number in range(members)]
        ends, is_few = {n_rounds}, len(train) < FEW_ROWS
        if "rounds" not in params:
            ends.add(max(1, n_rounds // 2) if is_few else min(stage, n_rounds))
        done = 0
        for end in sorted(ends):
            while done < end and grown[0].stopped_because == "rounds":
                rounds = min(stage, end - done)
                for member in grown:
                    member.add_stage(rounds, is_last=done + rounds == n_rounds)
                done += rounds
            growth = Growth(grown[0].booster, stopped_because=grown[0].stopped_because)
            trees = RobustTrees.average([member.trees for member in grown])
            found = {**params, "rounds": end}
            result = self.result(trees, grown[0].bins, growth, members)
            is_scout = not is_few and end < n_rounds
            again = None if self.spec.attacker.norm == 0 else partial(self._fit_again, found)
            yield found, replace(result, is_scout=is_scout, refit_on=again)
            if grown[0].stopped_because != "rounds":
                return

    def _fit_again(self, params: Params, rows: Dataset) -> FitResult:
        return next(self.fit_path(params, rows, None))[1]


class _Member:
    """A model that is being grown, with a witness per row."""

    def __init__(
        self, trainer: StagedWitnessTrainer, params: Params, train: Dataset, number: int
    ) -> None:
        self.trainer, self.params, self.train = trainer, params, train
        self.seed = trainer.seed + number
        spec = trainer.spec
        radius = float(params["radius"])
        if spec.attacker.norm != 0:
            radius *= spec.attacker.budget
        nearby = spec.attacker.with_norm("inf", radius)
        self.bins = self._bins(nearby)
        self.coder = Coder(self.bins, nearby, spec.model.blank(), trainer.task, spec.threads)
        self.points: Floats = train.X.astype(np.float64)
        self.booster = self._booster(0)
        self.trees = RobustTrees(np.asarray(self.booster.bias))
        self.stopped_because: StopReason = "rounds"
        self._stage = 0

    def add_stage(self, n_rounds: int, *, is_last: bool) -> None:
        """Grow so many rounds at the witnesses, then refit all scores."""
        if self._stage > 0:
            self.booster = self._booster(1000 * self._stage)
            model = self.trainer.model_of(self.trees, self.bins)
            raw = model.ensemble.raw_score(self.points, threads=self.trainer.spec.threads)
            self.booster.set_scores(raw.ravel(), raw.ravel())
        growth = Growth(self.booster)
        self.trainer.grow(growth, n_rounds)
        if growth.stopped_because in ("interrupted", "time limit"):
            self.stopped_because = growth.stopped_because
        grown = RobustTrees.of(self.booster)
        if not grown.trees:
            if self.stopped_because == "rounds":
                self.stopped_because = "no thresholds left"
            return
        self.trees = RobustTrees(
            self.trees.bias,
            [*self.trees.trees, *grown.trees],
            np.concatenate([self.trees.values, grown.values]),
        )
        self._stage += 1
        if self.stopped_because == "rounds":
            self._refit(is_last)

    def _booster(self, seed: int) -> _core.RobustBooster:
        trainer = self.trainer
        options = trainer.growing_options(
            self.params,
            self.seed + seed,
            extra_trees=True,
            feature_fraction_bynode=trainer.settings.colsample_bynode
            or _NODE_SHARES[self.train.X.shape[1] > MANY_FEATURES],
        )
        rows = self.coder.code(replace(self.train, matrix=self.points, positions=None), self.seed)
        self._rows = rows  # the booster reads them
        return rows.booster(options, trainer.n_outputs)

    def _refit(self, is_last: bool) -> None:
        n = len(self.train)
        settings = replace(
            _STAGE_REFIT,
            epochs=min(5, max(1, round(_STAGE_VISITS / n))),
            batch=min(_REFIT.batch, max(_MIN_STEPS, n // _MIN_STEPS)),
            l2=float(self.params["leaf_l2"]),
            point_passes=0 if is_last else _POINT_PASSES,
            seed=self.seed + self._stage,
        )
        refitted, found = self.trainer.refit_at_witnesses(
            self.trees, self.bins, self.train, settings, self.points
        )
        if found.interrupted:
            self.stopped_because = "interrupted"
            return
        self.trees = refitted
        if found.points is not None:
            self.points = found.points

    def _bins(self, nearby: Attacker) -> BinMapper:
        spec, threads = self.trainer.spec, self.trainer.spec.threads
        most = self.trainer.settings.max_bin or _MAX_BIN
        bins = even_bins(self.train.X, most, threads, spec.exclusion_rule())
        limit = self.params["max_crowding"]
        if limit is None:
            return bins
        rule = ExclusionRule.against(nearby, spec.model.blank())
        crowded = crowding(bins, self.train, rule, threads)
        return bins.keep([share <= limit for share in crowded])
