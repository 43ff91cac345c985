"""Growth at witnesses: an ensemble against an attacker that shares its budget among features.

An attacker of norm 0, 1, 2, … moves some features far or many a little; no split on its own knows
which. So the rows are trained on where the attacker has put them:

    grow     trees on the rows' witnesses, by the grower whose splits see an attacker of norm inf,
             of a small radius: what a single feature may still be moved by. Every leaf looks at
             one drawn threshold per feature: steps that are many, small and scattered give an
             attacker less for its budget than few large ones.
    refit    all scores of all trees so far on the loss of worst cases, with witnesses that are
             taken further in every step
    repeat   with the witnesses against the model as it is now

Comes in: a `Scene`: rows, an attacker, thresholds. Goes out: `Grown`, after every stage.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.training.binning import BinMapper
from carvegbm.training.dataset import Dataset
from carvegbm.training.leaf_refit import RefitProblem, RefitSettings, WitnessBatches, refit_leaves
from carvegbm.training.model import GBDTModel
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.growing import CodedRows, Grower, Grown, GrowthSettings
from carvegbm.training.robust.model import model_of
from carvegbm.training.robust.targets import Bounds, Target, target_of

__all__ = ["Scene", "WitnessGrowth", "WitnessPlan", "nearby"]

Floats = npt.NDArray[np.float64]

_DESCENT = RefitSettings(epochs=5, rate=0.02, batch=256, shuffle=True, averaging=0.97)
_STEPS = 20  # per epoch, at least, unless batches become smaller than this many rows
_VISITS = 100_000  # of rows, in the descent of a stage


@dataclass(frozen=True)
class WitnessPlan:
    """How a model comes about.

    Attributes
    ----------
    radius : float
        Of the attacker that splits see, in budgets; for norm 0, in scales.
    max_crowding : float or None
        Largest crowding of a candidate threshold.
    members : int
        Models with seeds of their own; the model is their average.
    rounds : int
        Of every member.
    leaf_l2 : float
        Of the descent towards zero.
    """

    radius: float
    max_crowding: float | None
    members: int
    rounds: int
    leaf_l2: float

    def parameters(self) -> dict[str, Any]:
        """By name, as a report has them."""
        return asdict(self)


@dataclass(frozen=True)
class Scene:
    """What members of one kind share.

    Attributes
    ----------
    boosting : Boosting
        What is trained, and against whom.
    rows : Dataset
    candidates : BinMapper
    radius : float
        See `WitnessPlan`.
    settings : GrowthSettings
    template : str
        See `template_of`.
    """

    boosting: Boosting
    rows: Dataset
    candidates: BinMapper
    radius: float
    settings: GrowthSettings
    template: str

    @cached_property
    def nearby(self) -> Attacker:
        """Whom the splits see."""
        return nearby(self.boosting.attacker, self.radius)

    @cached_property
    def target(self) -> Target:
        """What growing leans on."""
        kind = self.boosting.kind
        return target_of(kind.task, self.rows, kind.n_outputs)

    def model(self, grown: Grown) -> GBDTModel:
        """As LightGBM takes it."""
        return model_of(grown, self.boosting.kind, self.template, self.candidates)


def nearby(attacker: Attacker, radius: float) -> Attacker:
    """An attacker of norm inf that reaches so many budgets, or scales for norm 0, per feature."""
    return attacker.with_norm("inf", radius if attacker.norm == 0 else radius * attacker.budget)


class WitnessGrowth:
    """A member on its way, stage after stage.

    Attributes
    ----------
    grown : Grown
        The trees so far, with the scores of the last descent.
    """

    def __init__(self, scene: Scene, leaf_l2: float, seed: int) -> None:
        self._scene = scene
        self._leaf_l2 = leaf_l2
        self._seed = seed
        self._stage = 0
        self._points: Floats = scene.rows.X.astype(np.float64)
        self.grown = Grown(scene.target.start())

    def stage(self, rounds: int) -> bool:
        """Grow so many rounds, then refit_leaves; False if no tree has a split."""
        if not self._grow(rounds):
            return False
        self._descend()
        self._stage += 1
        return True

    def _grow(self, rounds: int) -> bool:
        """Trees at the witnesses, where the scores are those of the model there."""
        scene, threads = self._scene, self._scene.boosting.threads
        rows = CodedRows.of(
            self._points,
            scene.candidates,
            scene.nearby,
            threads,
            scene.boosting.kind.blank(),
        )
        settings = replace(scene.settings, seed=self._seed + 1000 * self._stage)
        grower = Grower(rows, scene.target, settings, Grown(self.grown.bias))
        if self.grown.trees:
            ensemble = scene.model(self.grown).ensemble
            raw = ensemble.raw_score(self._points, threads=threads)
            raw = raw.reshape(len(rows), scene.boosting.kind.n_outputs)
            grower.bounds = Bounds(raw, raw.copy())
        for _ in range(rounds):
            grower.round()  # one that draws no threshold of use leaves no tree, the next one may
        new = grower.grown
        if not new.trees:
            return False
        self.grown = Grown(
            self.grown.bias,
            self.grown.trees + new.trees,
            self.grown.outputs + new.outputs,
            self.grown.values + new.values,
        )
        return True

    def _descend(self) -> None:
        """Scores that suit the worst cases, and the witnesses against them."""
        boosting, rows, grown = self._scene.boosting, self._scene.rows, self.grown
        ensemble, n_rows = self._scene.model(grown).ensemble, len(rows)
        settings = replace(
            _DESCENT,
            epochs=min(_DESCENT.epochs or 1, max(1, _VISITS // n_rows)),
            batch=min(_DESCENT.batch, max(_STEPS, n_rows // _STEPS)),
            l2=self._leaf_l2,
            anchor=grown.anchor(),
            threads=boosting.threads,
        )
        batches = WitnessBatches(
            ensemble,
            boosting.attacker,
            rows,
            boosting.threads,
            size=settings.batch,
            order=np.random.default_rng([self._seed, self._stage]),
            points=self._points,
        )
        descent = refit_leaves(ensemble, RefitProblem(boosting.attacker, rows), settings, batches)
        if descent.interrupted:
            raise KeyboardInterrupt
        scores = descent.scores[grown.own()] - grown.starts()
        self.grown = replace(grown.with_scores(scores), bias=grown.bias)
        self._points = batches.worst_points(descent.scores)
