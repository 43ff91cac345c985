"""What robust training asks of a ground, whoever attacks; and which ground is for whom.

norm inf          `ground.py`: every feature is moved on its own; bounds, tree by tree
norms 0, 1, 2, …  `witness_ground.py`: features share a budget; witnesses
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isinf
from typing import Any, ClassVar, Protocol

from carvegbm.training.dataset import Dataset
from carvegbm.training.model import GBDTModel
from carvegbm.training.robust.boosting import Boosting
from carvegbm.training.robust.ground import Ground
from carvegbm.training.robust.growing import Grown
from carvegbm.training.robust.plan import menu_of
from carvegbm.training.robust.settings import RobustSettings
from carvegbm.training.robust.witness_ground import WitnessGround, witness_menu_of
from carvegbm.training.spec import StopReason

__all__ = ["SomeGround", "SomeMenu", "SomePlan", "ground_for", "menu_for"]


class SomePlan(Protocol):
    """How a model comes about: a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def members(self) -> int:
        """Models with seeds of their own, whose average the model is."""

    @property
    def rounds(self) -> int:
        """Of every member."""

    def parameters(self) -> dict[str, Any]:
        """By name, as a report has them."""


class SomeMenu(Protocol):
    """What may be tried; plans are for the ground of the same attacker."""

    def scouts(self) -> Iterator[Any]:
        """A small model of every way of growing."""

    def grown_as(self, scout: Any) -> Iterator[Any]:
        """All models that are grown in the way of a scout."""

    def small(self) -> Iterator[Any]:
        """All models that few rows allow for."""


class SomeGround(Protocol):
    """Training and validation rows, and models grown on them."""

    train: Dataset
    valid: Dataset | None

    def grow(self, plan: Any) -> Grown:
        """The model of a plan."""

    def unfinished(self, plan: Any) -> Grown | None:
        """What there is of the plan's first member; None: no tree."""

    def model(self, plan: Any, grown: Grown) -> GBDTModel:
        """As LightGBM takes it."""

    def measures(self, plan: Any, grown: Grown, model: GBDTModel) -> Mapping[str, float]:
        """What is proven of a model on the validation rows."""

    def history(self, plan: Any) -> tuple[list[float], StopReason]:
        """The loss of the validation rows after every round of the first member, and its end."""


def menu_for(boosting: Boosting, settings: RobustSettings, few_rows: bool) -> SomeMenu:
    """What to try against the attacker."""
    if isinf(boosting.attacker.norm):
        return menu_of(boosting, settings, few_rows)
    return witness_menu_of(boosting, settings, few_rows)


def ground_for(
    boosting: Boosting,
    menu: Any,
    train: Dataset,
    valid: Dataset | None,
    patience: int | None,
) -> SomeGround:
    """Where models of the menu are grown."""
    kind = Ground if isinf(boosting.attacker.norm) else WitnessGround
    return kind(boosting, menu, train, valid, patience)
