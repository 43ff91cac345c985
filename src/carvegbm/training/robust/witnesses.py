"""Robust training against norms 0, 1, 2, …: trees for a smaller norm inf, refitted at witnesses.

Such an attacker moves some features far or many a little, so that no bound per tree is tight. Trees
are grown and refitted against norm inf with a share of the budget, which share suits the data being
found by trial; then the scores of all leaves are refitted once more on the loss at witnesses, which
every step improves. For norm 0 no such share exists, and trees are grown without an attacker.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from carvegbm.attacker import Attacker
from carvegbm.training.binning import BinMapper
from carvegbm.training.leaf_refit import RefitProblem, RefitSettings, refit_leaves
from carvegbm.training.robust.booster import CodedRows, RobustTrees
from carvegbm.training.robust.bounds import BoundTrainer
from carvegbm.training.robust.trainer import FEW_ROWS, Growth
from carvegbm.training.spec import FitResult, Params

__all__ = ["WitnessTrainer"]

_RADII = (0.25, 0.5, 1.0, 0.125)  # shares of the budget
_REFIT = RefitSettings(rate=0.01, shuffle=True, averaging=0.97, batch=256)
_VISITS = (30_000, 5_000)  # of rows, in a refit at witnesses: of many rows, and of few
_L2 = 1e-3


class WitnessTrainer(BoundTrainer):
    """Trainer for norms other than inf."""

    def search_space(self, n_rows: int) -> Sequence[Params]:
        """Return the configurations to compare, the default first."""
        settings = self.settings
        members = settings.n_members or (3 if n_rows < FEW_ROWS and self.n_outputs == 1 else 1)
        min_rows = int(self.spec.params["min_data_in_leaf"])
        radii = (0.0,) if self.spec.attacker.norm == 0 else _RADII
        return [
            {
                "n_members": min(members, max(1, self.spec.n_rounds // 10)),
                "radius": radius,
                "max_crowding": crowding,
                "min_child_samples": min_rows,
            }
            for crowding in settings.max_crowding or (None,)
            for radius in radii
        ]

    def _growing_attacker(self, params: Params) -> Attacker:
        if "radius" not in params:
            return super()._growing_attacker(params)
        attacker = self.spec.attacker
        return attacker.with_norm("inf", float(params["radius"]) * attacker.budget)

    def _judging_attacker(self, params: Params) -> Attacker:
        return self._growing_attacker(params)

    def _grow_path(
        self, params: Params, growths: Sequence[Growth], coded: CodedRows
    ) -> Iterator[tuple[Params, RobustTrees]]:
        """Yield a small model and a full one, of the usual refit strength."""
        own = params
        if params.get("radius") == 0:
            own = {**params, "leaf_l2": None}
        elif "radius" in params and "leaf_l2" not in params and self.settings.leaf_l2 is None:
            own = {**params, "leaf_l2": self._strengths(params, len(coded.data))[0]}
        yield from super()._grow_path(own, growths, coded)

    def _finished(
        self,
        params: Params,
        trees: RobustTrees,
        bins: BinMapper,
        growth: Growth,
        coded: CodedRows,
    ) -> FitResult:
        members = int(params["n_members"])
        result = self.result(trees, bins, growth, None, members)
        full = int(params["rounds"]) >= self.spec.n_rounds // members
        if "radius" not in params or not trees.trees or not (full or len(coded.data) < FEW_ROWS):
            return result
        ensemble, train = result.model.ensemble, coded.data
        bias, leaves, outputs = trees.bias_parts()
        anchor = np.zeros(ensemble.scores.shape)
        anchor[leaves, outputs] = bias
        n = len(train)
        settings = replace(
            _REFIT,
            epochs=max(1, round(_VISITS[n < FEW_ROWS] / n)),
            batch=max(1, min(_REFIT.batch, n // 10)),
            l2=_L2,
            anchor=anchor,
            seed=self.seed,
            threads=self.spec.threads,
        )
        problem = RefitProblem(self.spec.attacker, train)
        refitted = refit_leaves(ensemble, problem, settings)
        if refitted.interrupted:
            growth.stopped_because = "interrupted"
            return replace(result, stopped_because="interrupted")
        values = refitted.scores[leaves, outputs] - bias
        return self.result(replace(trees, values=values), bins, growth, None, members)
