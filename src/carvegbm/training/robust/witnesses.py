"""Robust training against norms 0, 1, 2, …: trees grown and refitted at witnesses.

Such an attacker moves some features far or many a little, so that no bound per tree is tight. Every
row is trained on where the attacker has put it, stage by stage:

    grow   trees on the rows' witnesses, by the grower for norm inf with a small radius: what one
           feature may still be moved by. Every leaf looks at one drawn threshold per feature: many
           small, scattered steps give an attacker less for its budget than few large ones.
    refit  the scores of all trees so far on the loss at witnesses, which every step takes further
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from carvegbm.attacker import Attacker
from carvegbm.training.binning import BinMapper, crowding, even_bins
from carvegbm.training.dataset import Dataset
from carvegbm.training.large_spread.exclusion import ExclusionRule
from carvegbm.training.leaf_refit import RefitSettings, WitnessBatches, refit_leaves
from carvegbm.training.robust.booster import Coder, RobustTrees
from carvegbm.training.robust.trainer import FEW_ROWS, Growth, RobustTrainer
from carvegbm.training.spec import FitResult, Params

__all__ = ["WitnessTrainer"]

Floats = npt.NDArray[np.float64]

_REFIT = RefitSettings(epochs=5, rate=0.02, batch=256, shuffle=True, averaging=0.97)
_MIN_STEPS = 20  # per epoch, unless batches become smaller than this many rows
_VISITS = 100_000  # of rows, in the refit of a stage
_MAX_BIN = 31
_MANY_FEATURES = 100
_NODE_SHARES = (0.5, 0.2)  # of the features, per split: of few features, and of many


class WitnessTrainer(RobustTrainer):
    """Trainer for norms other than inf."""

    n_first = None

    def search_space(self, n_rows: int) -> Sequence[Params]:
        """Return the configurations to compare, the default first.

        "radius" is that of the attacker that splits account for, in budgets; in scales for norm 0.
        """
        few, settings = n_rows < FEW_ROWS, self.settings
        radii = (0.0,) if self.spec.attacker.norm == 0 else (1 / 32,) if few else (1 / 8, 1 / 32)
        members = settings.n_members or min(5 if few else 1, max(1, self.spec.n_rounds // 10))
        strengths = settings.leaf_l2 or ((3e-3, 1e-2) if few else (3e-4,))
        return [
            {"n_members": members, "radius": radius, "max_crowding": crowded, "leaf_l2": strength}
            for radius, crowded, strength in product(
                radii, settings.max_crowding or (None,), strengths
            )
        ]

    def full_params(self, params: Params) -> Params | None:
        """No configuration stands for a larger one."""
        return None

    def fit_path(
        self, params: Params, train: Dataset, valid: Dataset | None
    ) -> Iterator[tuple[Params, FitResult]]:
        """Yield the model half way and at the end of its rounds."""
        members = int(params["n_members"])
        n_rounds = int(params.get("rounds", max(1, self.spec.n_rounds // members)))
        stage = max(1, (20 if len(train) < FEW_ROWS else 60) // self.n_outputs)
        bins = self._bins(train, params)
        growing = [
            _Member(self, params, bins, train, self.seed + number) for number in range(members)
        ]
        ends = [n_rounds] if "rounds" in params else sorted({max(1, n_rounds // 2), n_rounds})
        done = 0
        for end in ends:
            while done < end and self._goes_on(growing):
                rounds = min(stage, end - done)
                for member in growing:
                    member.grow_stage(rounds)
                done += rounds
            found = {**params, "rounds": end}
            trees = RobustTrees.average([member.trees for member in growing])
            yield found, self.result(trees, bins, growing[0].growth, None, found)
            if growing[0].growth.stopped_because != "rounds":
                return
