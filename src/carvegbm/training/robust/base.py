"""What grounds share, whoever attacks: rows, what is trained on them, and who judges it."""

from __future__ import annotations

from functools import cached_property
from typing import Generic, Protocol, TypeVar

from carvegbm.training.dataset import Dataset
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.growing import GrowthSettings
from carvegbm.training.robust.judging import Judge
from carvegbm.training.robust.model import template_of

__all__ = ["GroundBase"]


class _Menu(Protocol):
    """What every menu settles."""

    @property
    def rounds(self) -> int:
        """Of every member."""

    @property
    def node_share(self) -> float:
        """Of the features: how many every split chooses from."""


M = TypeVar("M", bound=_Menu)


class GroundBase(Generic[M]):
    """Training and validation rows; no validation rows: None."""

    def __init__(
        self,
        boosting: Boosting,
        menu: M,
        train: Dataset,
        valid: Dataset | None,
        patience: int | None = None,
    ) -> None:
        self.train = train.dense()
        self.valid = valid
        self._blank = boosting.kind.blank()
        self._boosting = boosting
        self._menu = menu
        self._patience = None if valid is None else patience
        options = {**boosting.parameters, "feature_fraction_bynode": menu.node_share}
        self._growth = GrowthSettings.of(options)

    @property
    def _judge(self) -> Judge:
        assert self.valid is not None
        return Judge(self._boosting.attacker, self.valid, self._boosting.threads)

    @cached_property
    def _template(self) -> str:
        n_features = self.train.X.shape[1]
        return template_of(self._boosting.parameters, self._growth, n_features, self._menu.rounds)
