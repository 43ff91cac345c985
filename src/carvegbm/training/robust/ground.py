"""Ground: training and validation rows, and the models that are grown on them.

Comes in: rows and plans. Goes out: models, and what is proven of them on the validation rows. What
several plans have in common (thresholds, codes, grown trees) is found once.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.training.data import Labelled
from carvegbm.training.growing.boosting import Boosting, Reason
from carvegbm.training.growing.closing import ClosingRule
from carvegbm.training.growing.model import GrownModel
from carvegbm.training.growing.thresholds import Candidates
from carvegbm.training.inputs import blank_ensemble
from carvegbm.training.refitting.descent import Defence, DescentSettings, descend
from carvegbm.training.robust.candidates import Ends, find_ends
from carvegbm.training.robust.growing import CodedRows, Grower, Grown, GrowthSettings
from carvegbm.training.robust.judging import Judge
from carvegbm.training.robust.model import model_of, template_of
from carvegbm.training.robust.plan import Menu, Plan
from carvegbm.training.robust.targets import Bounds, Target, target_of

__all__ = ["Ground"]

Floats = npt.NDArray[np.float64]

_REFIT = DescentSettings(epochs=80, rate=0.02, falling=False, averaging=0.8)
_STAGE_REFIT = DescentSettings(
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
    """Rows at the thresholds that a quietness leaves."""

    candidates: Candidates
    train: CodedRows
    valid: CodedRows | None


@dataclass
class _Member:
    """A model on its way, with the loss of the validation rows after every round."""

    grower: Grower
    bounds: Bounds | None
    """Of the validation rows."""
    losses: list[float] = field(default_factory=list)
    reason: Reason = "rounds"

    def best_round(self, patience: int | None) -> int:
        """The number of rounds to keep, of those grown."""
        if patience is None or not self.losses:
            return len(self.losses)
        return int(np.argmin(self.losses)) + 1


class Ground:
    """Training and validation rows, and models grown on them; no validation rows: None."""

    def __init__(
        self,
        boosting: Boosting,
        menu: Menu,
        train: Labelled,
        valid: Labelled | None,
        patience: int | None = None,
    ) -> None:
        self.train = replace(train, X=np.ascontiguousarray(train.X))
        self.valid = valid
        self._boosting = boosting
        self._menu = menu
        self._patience = patience
        options = {**boosting.parameters, "feature_fraction_bynode": menu.node_share}
        self._growth = GrowthSettings.of(options)
        self._coded: dict[float | None, _Coded] = {}
        self._members: dict[tuple[Any, ...], _Member] = {}

    # ── models ───────────────────────────────────────────────────────────────────────────────

    def grow(self, plan: Plan) -> Grown:
        """The model of a plan."""
        refits = plan.pull is not None and self._menu.stage is None
        members = []
        for number in range(plan.members):
            grown = self._grow(plan, number)
            members.append(self._refitted(plan, grown) if refits else grown)
        return Grown.average(members)

    def unfinished(self, plan: Plan) -> Grown | None:
        """What there is of the plan's first member, as it was grown; None: no tree."""
        member = self._members.get(self._key(plan, 0))
        return member.grower.grown if member is not None and member.grower.grown.trees else None

    def model(self, plan: Plan, grown: Grown) -> GrownModel:
        """As LightGBM takes it."""
        candidates = self._codes(plan.quietness).candidates
        return model_of(grown, self._boosting.kind, self._template, candidates)

    def history(self, plan: Plan) -> tuple[list[float], Reason]:
        """The loss of the validation rows after every round of the first member, and its end."""
        member = self._members[self._key(plan, 0)]
        return member.losses, member.reason

    def measures(self, plan: Plan, grown: Grown, model: GrownModel) -> dict[str, float]:
        """What is proven of a model on the validation rows."""
        coded = self._codes(plan.quietness).valid
        assert self.valid is not None
        assert coded is not None
        margins = self._target(self.valid).margins(coded.bounds(grown))
        judge = Judge(self._boosting.attacker, self.valid, self._boosting.threads)
        return judge.measures(model.ensemble, margins)

    def _key(self, plan: Plan, number: int) -> tuple[Any, ...]:
        """What a member's trees depend on."""
        refits = plan.pull if self._menu.stage is not None else None
        return plan.quietness, plan.ordered, plan.least_rows, refits, number

    def _grow(self, plan: Plan, number: int) -> Grown:
        """A member, as many rounds of it as the plan says."""
        key = self._key(plan, number)
        coded, n_outputs = self._codes(plan.quietness), self._boosting.kind.n_outputs
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
        grower, stage = member.grower, self._menu.stage
        while len(member.losses) < plan.rounds and member.reason == "rounds":
            if not grower.round():
                member.reason = "no thresholds left"
                break
            done = len(member.losses) + 1
            if stage is not None and (done % stage == 0 or done == plan.rounds):
                grower.restart(self._refitted(plan, grower.grown))
                member.bounds = None if coded.valid is None else coded.valid.bounds(grower.grown)
            else:
                self._see(member, coded)
            member.losses.append(self._loss(member))
            waited = len(member.losses) - member.best_round(self._patience)
            if self._patience is not None and waited >= self._patience:
                member.reason = "early stopping"
        kept = min(plan.rounds, member.best_round(self._patience))
        return grower.grown.first(kept * n_outputs)

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
        outputs = np.repeat(grown.outputs, [len(values) for values in grown.values])
        own = np.arange(len(outputs)), outputs
        anchor = np.zeros_like(ensemble.scores)
        anchor[own] = grown.starts()
        staged = self._menu.stage is not None
        settings = replace(
            _STAGE_REFIT if staged else _REFIT,
            pull=plan.pull,
            anchor=anchor,
            seed=self._growth.seed,
            threads=self._boosting.threads,
        )
        valid = self.valid if staged else None
        defence = Defence(self._boosting.attacker, self.train, valid)
        descent = descend(ensemble, defence, settings)
        if descent.interrupted:
            raise KeyboardInterrupt
        return grown.with_scores(descent.scores[own])

    # ── what plans share ─────────────────────────────────────────────────────────────────────

    def _codes(self, quietness: float | None) -> _Coded:
        if quietness not in self._coded:
            boosting = self._boosting
            candidates = self._ends.choose(self._menu.thresholds, quietness)
            attacker, threads = boosting.attacker, boosting.threads
            train = CodedRows.of(self.train.X, candidates, attacker, threads)
            valid = None
            if self.valid is not None:
                valid = CodedRows.of(self.valid.X, candidates, attacker, threads)
            self._coded[quietness] = _Coded(candidates, train, valid)
        return self._coded[quietness]

    @cached_property
    def _ends(self) -> Ends:
        blank = blank_ensemble(self.train.X.shape[1])
        rule = ClosingRule.against(self._boosting.attacker, blank)
        return find_ends(self.train, rule, self._boosting.threads)

    @cached_property
    def _template(self) -> str:
        names = ("objective", "num_class")
        parameters = self._boosting.parameters
        objective = {name: parameters[name] for name in names if name in parameters}
        n_features = self.train.X.shape[1]
        return template_of(objective, self._growth, n_features, self._menu.rounds)

    def _target(self, rows: Labelled) -> Target:
        kind = self._boosting.kind
        return target_of(kind.task, rows, kind.n_outputs)

    def n_thresholds(self, plan: Plan) -> int:
        """How many thresholds the plan's trees may split at."""
        return sum(map(len, self._codes(plan.quietness).candidates.values))
