"""Ground for attackers that share a budget among features: rows, and models grown at witnesses.

The counterpart of `ground.py` for norms 0, 1, 2, …; `RobustJob` asks both the same questions. Comes
in: rows and plans. Goes out: models, and what is proven of them on the validation rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

from carvegbm.training.binning import BinMapper, crowding, even_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.leaf_refit import PackedScores, WitnessBatches
from carvegbm.training.model import GBDTModel
from carvegbm.training.robust.base import GroundBase
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.growing import Grown
from carvegbm.training.robust.settings import RobustSettings
from carvegbm.training.robust.witness_growth import Scene, WitnessGrowth, WitnessPlan, nearby
from carvegbm.training.spec import StopReason

__all__ = ["WitnessGround", "WitnessMenu", "witness_menu_of"]

Floats = npt.NDArray[np.float64]

# Of many rows, and of few.
_RADII = ((1 / 8, 1 / 32), (1 / 32,))
_LEAF_L2S = ((3e-4,), (3e-3, 1e-2))
_MEMBERS = (1, 5)
_STAGES = (60, 20)  # trees
_LEAST_ROUNDS = 10  # of a member

_SCOUT_STAGES = 2
_MANY_FEATURES = 100
_THRESHOLDS = 31  # per feature
_NODE_SHARES = (0.5, 0.2)  # of the features, looked at per split: of few features, and of many


@dataclass(frozen=True)
class WitnessMenu:
    """What may be tried."""

    radii: tuple[float, ...]
    max_crowding: tuple[float | None, ...]
    leaf_l2s: tuple[float, ...]
    members: int
    rounds: int
    stage: int
    """Rounds between descents."""
    thresholds: int
    """Per feature, at most."""
    node_share: float
    """Of the features: how many every split chooses from."""

    def scouts(self) -> Iterator[WitnessPlan]:
        """A small model of every way of growing: which one suits the data?"""
        rounds = min(self.rounds, _SCOUT_STAGES * self.stage)
        for radius, max_crowding, leaf_l2 in self._ways():
            yield WitnessPlan(radius, max_crowding, 1, rounds, leaf_l2)

    def grown_as(self, scout: WitnessPlan) -> Iterator[WitnessPlan]:
        """Models that are grown in the way of a scout: half as long, or as it, and to the end."""
        for rounds in sorted({max(scout.rounds, self.rounds // 2), self.rounds}):
            yield replace(scout, members=self.members, rounds=rounds)

    def small(self) -> Iterator[WitnessPlan]:
        """All models that few rows allow for: also smaller ones."""
        sizes = sorted({max(1, self.rounds // 2), self.rounds})
        for (radius, max_crowding, leaf_l2), rounds in product(self._ways(), sizes):
            yield WitnessPlan(radius, max_crowding, self.members, rounds, leaf_l2)

    def _ways(self) -> Iterator[tuple[float, float | None, float]]:
        return product(self.radii, self.max_crowding, self.leaf_l2s)


def witness_menu_of(boosting: Boosting, settings: RobustSettings, few_rows: bool) -> WitnessMenu:
    """What to try, by what is to be trained; a user's choice goes first."""
    many_features = boosting.data.X.shape[1] > _MANY_FEATURES
    most = max(1, boosting.n_rounds // _LEAST_ROUNDS)
    members = settings.n_members or min(_MEMBERS[few_rows], most)
    return WitnessMenu(
        radii=(0.0,) if boosting.attacker.norm == 0 else _RADII[few_rows],
        max_crowding=settings.max_crowding or (None,),
        leaf_l2s=settings.leaf_l2 or _LEAF_L2S[few_rows],
        members=members,
        rounds=max(1, boosting.n_rounds // members),
        stage=max(1, _STAGES[few_rows] // boosting.kind.n_outputs),
        thresholds=settings.max_bin or _THRESHOLDS,
        node_share=settings.colsample_bynode or _NODE_SHARES[many_features],
    )


@dataclass
class _Member:
    """A model on its way, as it was after every stage."""

    growth: WitnessGrowth
    stages: list[Grown] = field(default_factory=list)
    rounds: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    """Of the validation rows at their witnesses, after every stage."""
    reason: StopReason = "rounds"


class WitnessGround(GroundBase[WitnessMenu]):
    """Training and validation rows, and models grown on them; no validation rows: None."""

    def __init__(
        self,
        boosting: Boosting,
        menu: WitnessMenu,
        train: Dataset,
        valid: Dataset | None,
        patience: int | None = None,
    ) -> None:
        super().__init__(boosting, menu, train, valid, patience)
        self._growth = replace(self._growth, extra_trees=True)
        self._scenes: dict[tuple[float, float | None], Scene] = {}
        self._members: dict[tuple[float, float | None, float, int], _Member] = {}

    def grow(self, plan: WitnessPlan) -> Grown:
        """The model of a plan."""
        return Grown.average([self._grow(plan, number) for number in range(plan.members)])

    def unfinished(self, plan: WitnessPlan) -> Grown | None:
        """What there is of the plan's first member; None: no tree."""
        member = self._members.get((plan.radius, plan.max_crowding, plan.leaf_l2, 0))
        return None if member is None or not member.growth.grown.trees else member.growth.grown

    def model(self, plan: WitnessPlan, grown: Grown) -> GBDTModel:
        """As LightGBM takes it."""
        return self._scene(plan).model(grown)

    def history(self, plan: WitnessPlan) -> tuple[list[float], StopReason]:
        """The loss of the validation rows after every round of the first member, and its end.

        A stage's rounds have the loss that the stage ends with.
        """
        member = self._members[(plan.radius, plan.max_crowding, plan.leaf_l2, 0)]
        counts = np.diff([0, *member.rounds])
        losses = [loss for loss, n in zip(member.losses, counts, strict=True) for _ in range(n)]
        return losses, member.reason

    def measures(
        self,
        plan: WitnessPlan,  # noqa: ARG002
        grown: Grown,  # noqa: ARG002
        model: GBDTModel,
    ) -> dict[str, float]:
        """What is proven of a model on the validation rows."""
        return self._judge.measures(model.ensemble)

    def _grow(self, plan: WitnessPlan, number: int) -> Grown:
        """A member, as many rounds of it as the plan says."""
        key = (plan.radius, plan.max_crowding, plan.leaf_l2, number)
        scene = self._scene(plan)
        if key not in self._members:
            seed = self._growth.seed + number
            self._members[key] = _Member(WitnessGrowth(scene, plan.leaf_l2, seed))
        member = self._members[key]
        done = member.rounds[-1] if member.rounds else 0
        while done < plan.rounds and member.reason == "rounds":
            rounds = min(self._menu.stage, plan.rounds - done)
            if not member.growth.stage(rounds):
                member.reason = "no thresholds left"
                break
            done += rounds
            member.rounds.append(done)
            member.stages.append(member.growth.grown)
            member.losses.append(self._loss(scene.model(member.growth.grown)))
            waited = done - member.rounds[int(np.argmin(member.losses))]
            if self._patience is not None and waited >= self._patience:
                member.reason = "early stopping"
        return self._kept(member, plan.rounds)

    def _kept(self, member: _Member, rounds: int) -> Grown:
        """The member after so many rounds, or after the best of its stages up to then."""
        if not member.stages:
            return member.growth.grown
        able = [i for i, done in enumerate(member.rounds) if done <= rounds] or [0]
        if self._patience is None:
            return member.stages[able[-1]]
        return member.stages[min(able, key=lambda i: member.losses[i])]

    def _loss(self, model: GBDTModel) -> float:
        if self.valid is None:
            return float("nan")
        ensemble = model.ensemble
        rows = WitnessBatches(ensemble, self._boosting.attacker, self.valid, self._boosting.threads)
        found = rows.outcomes(PackedScores(ensemble).pack(ensemble.scores), 1.0)
        return float(np.average(found["loss"], weights=self.valid.weight))

    def _scene(self, plan: WitnessPlan) -> Scene:
        key = (plan.radius, plan.max_crowding)
        if key not in self._scenes:
            candidates = self._candidates
            if plan.max_crowding is not None:
                crowded = self._crowding(plan.radius)
                candidates = candidates.keep([c <= plan.max_crowding for c in crowded])
            self._scenes[key] = Scene(
                self._boosting, self.train, candidates, plan.radius, self._growth, self._template
            )
        return self._scenes[key]

    def _crowding(self, radius: float) -> list[Floats]:
        rule = ExclusionRule.against(nearby(self._boosting.attacker, radius), self._blank)
        return crowding(self._candidates, self.train, rule, self._boosting.threads)

    @cached_property
    def _candidates(self) -> BinMapper:
        rule = self._boosting.closing_rule()
        most, threads = self._menu.thresholds, self._boosting.threads
        return even_bins(self.train.X, most, threads, rule)
