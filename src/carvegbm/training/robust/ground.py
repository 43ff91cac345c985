"""Ground: training and validation rows, and the models that are grown on them.

Comes in: rows and plans. Goes out: models, and what is proven of them on the validation rows. What
several plans have in common (thresholds, codes, grown trees) is found once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.training.binning import BinMapper, ReachBins, reach_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.leaf_refit import RefitProblem, RefitSettings, refit_leaves
from carvegbm.training.model import GBDTModel
from carvegbm.training.robust.base import GroundBase
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.growing import CodedRows, Grower, Grown
from carvegbm.training.robust.model import model_of
from carvegbm.training.robust.plan import Menu, Plan
from carvegbm.training.robust.targets import Bounds, Target, target_of
from carvegbm.training.spec import StopReason

__all__ = ["Ground"]

Floats = npt.NDArray[np.float64]

_REFIT = RefitSettings(epochs=80, rate=0.02, falling=False, averaging=0.8)
_STAGE_REFIT = RefitSettings(
    epochs=8,
    rate=0.01,
    falling=False,
    averaging=0.95,
    batch=2048,
    shuffle=True,
    check_every=None,
    loss_weight=1e-3,
    patience=None,
)


class _Coded(NamedTuple):
    """Rows at the thresholds that plans have in common."""

    candidates: BinMapper
    train: CodedRows
    """Against the part of the attacker's budget that trees are grown for."""
    valid: CodedRows | None
    """Against all of it."""


@dataclass
class _Member:
    """A model on its way, with the loss of the validation rows after every round."""

    grower: Grower
    bounds: Bounds | None
    """Of the validation rows."""
    losses: list[float] = field(default_factory=list)
    stages: list[Grown] = field(default_factory=list)
    """The model after every refit on the way."""
    proven: list[float] = field(default_factory=list)
    """Of every stage: the share of the validation rows that its bounds prove to be robust."""
    reason: StopReason = "rounds"

    def best_round(self, patience: int | None, stage: int | None = None) -> int:
        """The number of rounds to keep, of those grown: whole stages, where there are any."""
        if patience is None or not self.losses:
            return len(self.losses)
        step = stage or 1
        ends = self.losses[step - 1 :: step] or self.losses[-1:]
        return min(step * (int(np.argmin(ends)) + 1), len(self.losses))


class Ground(GroundBase[Menu]):
    """Training and validation rows, and models grown on them; no validation rows: None."""

    def __init__(
        self,
        boosting: Boosting,
        menu: Menu,
        train: Dataset,
        valid: Dataset | None,
        patience: int | None = None,
    ) -> None:
        super().__init__(boosting, menu, train, valid, patience)
        self._coded: dict[tuple[float | None, float], _Coded] = {}
        self._ends: dict[float, ReachBins] = {}
        self._members: dict[tuple[Any, ...], _Member] = {}

    # ── models ───────────────────────────────────────────────────────────────────────────────

    def grow(self, plan: Plan) -> Grown:
        """The model of a plan."""
        refits = plan.leaf_l2 is not None and self._menu.stage is None
        members = []
        for number in range(plan.members):
            grown = self._grow(plan, number)
            members.append(self._refitted(plan, grown) if refits else grown)
        return Grown.average(members)

    def unfinished(self, plan: Plan) -> Grown | None:
        """What there is of the plan's first member, as it was grown; None: no tree."""
        member = self._members.get(self._key(plan, 0))
        return member.grower.grown if member is not None and member.grower.grown.trees else None

    def model(self, plan: Plan, grown: Grown) -> GBDTModel:
        """As LightGBM takes it."""
        candidates = self._codes(plan).candidates
        return model_of(grown, self._boosting.kind, self._template, candidates)

    def history(self, plan: Plan) -> tuple[list[float], StopReason]:
        """The loss of the validation rows after every round of the first member, and its end."""
        member = self._members[self._key(plan, 0)]
        is_whole = plan.rounds <= member.best_round(self._patience, self._menu.stage)
        return member.losses[: plan.rounds], "rounds" if is_whole else member.reason

    def measures(self, plan: Plan, grown: Grown, model: GBDTModel) -> dict[str, float]:
        """What is proven of a model on the validation rows."""
        coded = self._codes(plan).valid
        assert self.valid is not None
        assert coded is not None
        margins = self._target(self.valid).margins(coded.bounds(grown))
        return self._judge.measures(model.ensemble, margins)

    def _key(self, plan: Plan, number: int) -> tuple[Any, ...]:
        """What a member's trees depend on."""
        way = (plan.max_crowding, plan.ordered, plan.budget_share, plan.least_rows)
        return (*way, number) if self._menu.stage is None else (*way, number, plan.leaf_l2)

    def _grow(self, plan: Plan, number: int) -> Grown:
        """A member, as many rounds of it as the plan says."""
        key, coded = self._key(plan, number), self._codes(plan)
        if key not in self._members:
            settings = replace(
                self._growth,
                ordered=plan.ordered,
                min_data_in_leaf=plan.least_rows,
                seed=self._growth.seed + number,
            )
            grower = Grower(coded.train, self._target(self.train), settings)
            bounds = None if coded.valid is None else coded.valid.bounds(grower.grown)
            self._members[key] = _Member(grower, bounds)
        member = self._members[key]
        while len(member.losses) < plan.rounds and member.reason == "rounds":
            self._grow_round(plan, member, coded)
        n_outputs = self._boosting.kind.n_outputs
        if self._menu.stage is None:
            kept = min(plan.rounds, member.best_round(self._patience))
            return member.grower.grown.first(kept * n_outputs)
        return self._best_stage(member, plan.rounds * n_outputs)

    def _grow_round(self, plan: Plan, member: _Member, coded: _Coded) -> None:
        grower, stage = member.grower, self._menu.stage
        if grower.round():
            self._see(member, coded)
            member.losses.append(self._loss(member))
        else:
            member.reason = "no thresholds left"
        done = len(member.losses)
        if stage is not None:
            if done % stage != 0 and done != plan.rounds and member.reason == "rounds":
                return  # what comes before a refit says little
            self._end_stage(plan, member, coded)
        best = member.best_round(self._patience, stage)
        if self._patience is not None and done - best >= self._patience:
            member.reason = "early stopping"

    def _end_stage(self, plan: Plan, member: _Member, coded: _Coded) -> None:
        """Refit all trees so far, and go on from there."""
        refitted = self._refitted(plan, member.grower.grown)
        member.grower.restart(refitted)
        member.stages.append(refitted.first(len(refitted.trees)))
        if coded.valid is None or self.valid is None:
            return
        member.bounds = coded.valid.bounds(refitted)
        margins = self._target(self.valid).margins(member.bounds)
        member.proven.append(float(np.mean(margins > 0)))
        if member.losses:
            member.losses[-1] = self._loss(member)

    def _best_stage(self, member: _Member, most_trees: int) -> Grown:
        """The stage of which the bounds prove most on the validation rows; without these the last.

        Of equal ones the first; the first of all where none has so few trees.
        """
        able = [i for i, each in enumerate(member.stages) if len(each.trees) <= most_trees] or [0]
        best = max(able, key=lambda i: member.proven[i]) if member.proven else able[-1]
        return member.stages[best]

    def _see(self, member: _Member, coded: _Coded) -> None:
        """Add the trees of the last round to the bounds of the validation rows."""
        if member.bounds is None or coded.valid is None:
            return
        for tree, output, values in member.grower.grown.last(self._boosting.kind.n_outputs):
            coded.valid.add(member.bounds, tree, output, values)

    def _loss(self, member: _Member) -> float:
        if member.bounds is None or self.valid is None:
            return float("nan")
        return self._target(self.valid).loss(member.bounds)

    def _refitted(self, plan: Plan, grown: Grown) -> Grown:
        """The same trees with scores that suit them all."""
        if not grown.trees:
            return grown
        ensemble = self.model(plan, grown).ensemble
        staged = self._menu.stage is not None
        settings = replace(
            _STAGE_REFIT if staged else _REFIT,
            l2=plan.leaf_l2 or 0.0,
            anchor=grown.anchor(),
            seed=self._growth.seed,
            threads=self._boosting.threads,
        )
        valid = self.valid if staged else None
        defence = RefitProblem(self._attacker(plan), self.train, valid)
        descent = refit_leaves(ensemble, defence, settings)
        if descent.interrupted:
            raise KeyboardInterrupt
        return grown.with_scores(descent.scores[grown.own()])

    # ── what plans share ─────────────────────────────────────────────────────────────────────

    def _codes(self, plan: Plan) -> _Coded:
        key = plan.max_crowding, plan.budget_share
        if key not in self._coded:
            attacker, threads = self._attacker(plan), self._boosting.threads
            if plan.budget_share not in self._ends:
                rule = ExclusionRule.against(attacker, self._blank)
                self._ends[plan.budget_share] = reach_bins(self.train, rule, threads)
            ends = self._ends[plan.budget_share]
            candidates = ends.choose(self._menu.thresholds, plan.max_crowding)
            train = CodedRows.of(self.train.X, candidates, attacker, threads, self._blank)
            valid = None
            if self.valid is not None:
                full = self._boosting.attacker
                valid = CodedRows.of(self.valid.X, candidates, full, threads, self._blank)
            self._coded[key] = _Coded(candidates, train, valid)
        return self._coded[key]

    def _attacker(self, plan: Plan) -> Attacker:
        """The attacker that trees are grown and refitted against."""
        attacker = self._boosting.attacker
        return replace(attacker, budget=plan.budget_share * attacker.budget)

    def _target(self, rows: Dataset) -> Target:
        kind = self._boosting.kind
        return target_of(kind.task, rows, kind.n_outputs)
