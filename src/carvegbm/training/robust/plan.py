"""Plans: which models robust training tries, where nothing else is said.

Comes in: what is to be trained, and what a user has settled. Goes out: `Plan`s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from carvegbm.training.growing.boosting import Boosting
from carvegbm.training.robust.settings import RobustSettings

__all__ = ["Menu", "Plan", "menu_of"]

_QUIETNESS = (0.35, None)
_PULLS = (1e-4, 1e-3, 3e-3)  # two classes, and numbers
_STAGED_PULLS = (5e-4,)
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
    quietness : float or None
        Largest crowding of a candidate threshold.
    ordered : bool
        Whether scores below a split agree with its orientation all the way down.
    least_rows : int
        Per leaf.
    members : int
        Models with seeds of their own; the model is their average.
    rounds : int
        Of every member.
    pull : float or None
        Of the refit towards zero; None: scores stay as they were grown.
    """

    quietness: float | None
    ordered: bool
    least_rows: int
    members: int
    rounds: int
    pull: float | None

    def parameters(self) -> dict[str, Any]:
        """By name, as a report has them."""
        return asdict(self)


@dataclass(frozen=True)
class Menu:
    """What may be tried."""

    quietness: tuple[float | None, ...]
    ordered: tuple[bool, ...]
    least_rows: tuple[int, ...]
    pulls: tuple[float | None, ...]
    members: int
    rounds: int
    stage: int | None
    """Rounds between refits of all trees so far; None: one refit, in the end."""
    thresholds: int
    """Per feature, at most."""
    node_share: float
    """Of the features: how many every split chooses from."""

    def scouts(self) -> Iterator[Plan]:
        """A small model of every way of growing: which one suits the data?"""
        for quietness, ordered, least_rows in self._ways():
            yield Plan(quietness, ordered, least_rows, 1, self.rounds, self._usual_pull)

    def grown_as(self, scout: Plan) -> Iterator[Plan]:
        """All models that are grown in the way of a scout."""
        way = (scout.quietness, scout.ordered, scout.least_rows)
        for pull in self.pulls:
            yield Plan(*way, self.members, self.rounds, pull)

    def small(self) -> Iterator[Plan]:
        """All models that few rows allow for: also smaller ones, and without a refit."""
        pulls = (None, self._usual_pull)
        sizes = sorted({max(1, self.rounds // part) for part in (4, 2, 1)})
        for way, rounds, pull in product(self._ways(), sizes, pulls):
            yield Plan(*way, self.members, rounds, pull)

    def _ways(self) -> Iterator[tuple[float | None, bool, int]]:
        return product(self.quietness, self.ordered, self.least_rows)

    @property
    def _usual_pull(self) -> float | None:
        return self.pulls[len(self.pulls) // 2]


def menu_of(boosting: Boosting, settings: RobustSettings, few_rows: bool) -> Menu:
    """What to try, by what is to be trained; a user's choice goes first."""
    many_classes = boosting.kind.n_outputs > 1
    many_features = boosting.data.X.shape[1] > _MANY_FEATURES
    members = settings.n_members
    if members is None:
        members = 1 if many_classes else max(1, min(_MEMBERS, boosting.n_rounds // _LEAST_ROUNDS))
    quietness: tuple[float | None, ...] = (None,) if few_rows else _QUIETNESS
    pulls: tuple[float | None, ...] = _STAGED_PULLS if many_classes else _PULLS
    least_rows: tuple[int, ...] = (int(boosting.parameters["min_data_in_leaf"]),)
    if few_rows and not settings.least_rows_given:
        least_rows = _FEW_LEAST_ROWS
    return Menu(
        quietness=quietness if settings.quietness is None else settings.quietness,
        ordered=(False,) if many_classes else (True,) if few_rows else (False, True),
        least_rows=least_rows,
        pulls=pulls if settings.pull is None else settings.pull,
        members=members,
        rounds=max(1, boosting.n_rounds // members),
        stage=_STAGE if many_classes else None,
        thresholds=settings.max_bin or _THRESHOLDS[many_features],
        node_share=settings.colsample_bynode or _NODE_SHARE,
    )
