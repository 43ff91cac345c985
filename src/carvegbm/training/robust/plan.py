"""Plans: which models robust training tries, where nothing else is said.

Comes in: what is to be trained, and what a user has settled. Goes out: `Plan`s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.settings import RobustSettings

__all__ = ["Menu", "Plan", "menu_of"]

_MAX_CROWDING = (None,)
_STAGED_MAX_CROWDING = (0.35,)
_BUDGET_SHARES = (1.0, 0.75)
_LEAF_L2S = (1e-4, 1e-3, 3e-3)  # two classes, and numbers
_STAGED_LEAF_L2S = (5e-4,)
_NODE_SHARE = 0.5  # of the features, looked at per split
_MANY_FEATURES = 100
_THRESHOLDS = (255, 31)  # per feature: of few features, and of many
_MEMBERS = 3
_LEAST_ROUNDS = 10  # of a member
_STAGE = 4  # rounds
_FEW_LEAST_ROWS = (5, 20)  # per leaf, where rows are few


@dataclass(frozen=True)
class Plan:
    """How a model comes about.

    Attributes
    ----------
    max_crowding : float or None
        Largest crowding of a candidate threshold.
    ordered : bool
        Whether scores below a split agree with its orientation all the way down.
    budget_share : float
        Of the attacker's budget: how much of it trees are grown and refitted for. Trees are
        attacked one by one there, as if each could have an attack of its own, which an attacker
        cannot do: a little less can be enough, and leaves more room for accuracy.
    least_rows : int
        Per leaf.
    members : int
        Models with seeds of their own; the model is their average.
    rounds : int
        Of every member.
    leaf_l2 : float or None
        Of the refit towards zero; None: scores stay as they were grown.
    """

    max_crowding: float | None
    ordered: bool
    budget_share: float
    least_rows: int
    members: int
    rounds: int
    leaf_l2: float | None

    def parameters(self) -> dict[str, Any]:
        """By name, as a report has them."""
        return asdict(self)


@dataclass(frozen=True)
class Menu:
    """What may be tried."""

    max_crowding: tuple[float | None, ...]
    ordered: tuple[bool, ...]
    budget_shares: tuple[float, ...]
    least_rows: tuple[int, ...]
    leaf_l2s: tuple[float, ...]
    members: int
    rounds: int
    stage: int | None
    """Rounds between refits of all trees so far; None: one refit, in the end."""
    thresholds: int
    """Per feature, at most."""
    node_share: float
    """Of the features: how many every split chooses from."""

    def scouts(self) -> Iterator[Plan]:
        """Models of one member, in every way of growing: which one suits the data?"""
        if self.stage is not None:
            for way in self._ways():
                yield Plan(*way, 1, self.rounds, self._usual_leaf_l2)
            return
        small = max(1, self.rounds // 4)
        for way in self._ways():
            yield Plan(*way, 1, small, None)
            yield Plan(*way, 1, self.rounds, None)
            yield Plan(*way, 1, self.rounds, self._usual_leaf_l2)

    def grown_as(self, scout: Plan) -> Iterator[Plan]:
        """All models that are grown in the way of a scout."""
        unfitted = () if self.stage is not None else (None,)
        for leaf_l2 in (*unfitted, *self.leaf_l2s):
            yield replace(scout, members=self.members, leaf_l2=leaf_l2)

    def small(self) -> Iterator[Plan]:
        """All models that few rows allow for: also smaller ones, and without a refit."""
        unfitted = () if self.stage is not None else (None,)
        sizes = sorted({max(1, self.rounds // part) for part in (4, 2, 1)})
        for way, rounds, leaf_l2 in product(self._ways(), sizes, (*unfitted, self._usual_leaf_l2)):
            yield Plan(*way, self.members, rounds, leaf_l2)

    def _ways(self) -> Iterator[tuple[float | None, bool, float, int]]:
        return product(self.max_crowding, self.ordered, self.budget_shares, self.least_rows)

    @property
    def _usual_leaf_l2(self) -> float:
        return self.leaf_l2s[len(self.leaf_l2s) // 2]


def menu_of(boosting: Boosting, settings: RobustSettings, few_rows: bool) -> Menu:
    """What to try, by what is to be trained; a user's choice goes first."""
    staged, numbers = boosting.kind.n_outputs > 1, boosting.kind.task == "regression"
    many_features = boosting.data.X.shape[1] > _MANY_FEATURES
    members = settings.n_members
    if members is None:
        members = 1 if staged else max(1, min(_MEMBERS, boosting.n_rounds // _LEAST_ROUNDS))
    max_crowding = _STAGED_MAX_CROWDING if staged and not few_rows else _MAX_CROWDING
    leaf_l2s = _STAGED_LEAF_L2S if staged else _LEAF_L2S
    least_rows: tuple[int, ...] = (int(boosting.parameters["min_data_in_leaf"]),)
    if few_rows and not settings.least_rows_given:
        least_rows = _FEW_LEAST_ROWS
    return Menu(
        max_crowding=max_crowding if settings.max_crowding is None else settings.max_crowding,
        ordered=(False,) if staged else (True,) if few_rows else (False, True),
        budget_shares=(1.0,) if staged or few_rows or numbers else _BUDGET_SHARES,
        least_rows=least_rows,
        leaf_l2s=leaf_l2s if settings.leaf_l2 is None else settings.leaf_l2,
        members=members,
        rounds=max(1, boosting.n_rounds // members),
        stage=_STAGE if staged else None,
        thresholds=settings.max_bin or _THRESHOLDS[many_features],
        node_share=settings.colsample_bynode or _NODE_SHARE,
    )
