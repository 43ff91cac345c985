"""What is measured on which data and how: the paper's evaluation, and a quick one.

Facts only; `planning` makes cells of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from carvegbm_experiments.plan.attackers import QUICK_STUDIES, STUDIES, Study
from carvegbm_experiments.plan.paper import MEASURES
from carvegbm_experiments.plan.robust import QUICK_ROWS, ROWS, Row

__all__ = ["NORMS", "PAPER", "QUICK", "Attackers", "Suite"]

NORMS = ("inf", "0", "1", "2")

Attackers = tuple[tuple[str, float], ...]
"""Norm and budget of each."""


@dataclass(frozen=True)
class Suite:
    """What is measured on which data, and how."""

    name: str
    attackers: Mapping[str, Attackers]
    """By data set: the attackers of Tables 2 and 3, for which everything is measured."""
    few: Mapping[str, Attackers]
    """By data set: attackers for which models are trained and verified, and no time is taken."""
    extras: Mapping[str, Attackers]
    """By data set: attackers beyond the paper's, against verifiable models only."""
    curves: Mapping[str, Attackers]
    galleries: Mapping[str, Attackers]
    speed_ups: Mapping[str, Attackers]
    robust: tuple[Row, ...]
    """Robust training beside the published results."""
    studies: tuple[Study, ...]
    """Attackers as people have them."""
    leaves: tuple[int, ...]
    certified_leaves: tuple[int, ...]
    quietness: tuple[float | None, ...]
    trees: int
    early_stopping: int
    rows: int
    """Test rows the general engines see."""
    timeout: float
    """Seconds they have for each."""
    curve_timeout: float
    speed_up_trees: tuple[int, ...]
    speed_up_leaves: int
    speed_up_rows: int
    speed_up_timeout: float
    milp_rows: int
    gallery_rows: int
    images: int = 6
    learning_rate: float = 0.1
    clean_loss: float = 0.01
    """Accuracy that certified training may give up."""
    extra_clean_loss: float = 0.04
    """For the attackers in `extras`: larger budgets cost more accuracy."""
    min_child_samples: int = 20

    @property
    def datasets(self) -> tuple[str, ...]:
        """All data sets of the paper's evaluation, its own first."""
        return (*self.attackers, *self.few)

    @property
    def names(self) -> tuple[str, ...]:
        """All data sets, those of the paper's evaluation first."""
        robust = (row.dataset for row in self.robust)
        studied = (study.dataset for study in self.studies)
        return tuple(dict.fromkeys((*self.datasets, *robust, *studied)))

    @property
    def norms(self) -> tuple[str, ...]:
        """All norms some cell is about."""
        groups = (self.attackers, self.few, self.extras)
        used = {norm for group in groups for list_ in group.values() for norm, _ in list_}
        used |= {row.norm for row in self.robust}
        used |= {norm for study in self.studies for norm, _ in study.attackers}
        return tuple(norm for norm in NORMS if norm in used)


def _papers(dataset: str) -> Attackers:
    """The attackers of the paper's Table 2."""
    return tuple(
        (norm, int(budget) if norm == "0" else budget)
        for name, norm, budget in MEASURES
        if name == dataset
    )


PAPER = Suite(
    name="paper",
    attackers={name: _papers(name) for name in ("fmnist", "mnist", "webspam")},
    few={
        "nsl-kdd": (("inf", 0.001), ("inf", 0.01)),
        "social-honeypot": (("inf", 0.0001), ("inf", 0.001)),
    },
    extras={
        "fmnist": (("2", 0.05), ("2", 0.1), ("inf", 0.03), ("inf", 0.05), ("inf", 0.1)),
        "mnist": (("2", 0.05), ("2", 0.1), ("inf", 0.1), ("inf", 0.2), ("inf", 0.3)),
    },
    curves={
        "fmnist": (("inf", 0.01), ("1", 0.1)),
        "mnist": (("inf", 0.02), ("1", 0.1)),
        "webspam": (("inf", 0.0006), ("1", 0.003)),
    },
    galleries={
        "fmnist": (("inf", 0.015), ("1", 0.15), ("0", 3)),
        "mnist": (("inf", 0.03), ("1", 0.15), ("0", 3)),
    },
    speed_ups={"fmnist": (("inf", 0.01), ("1", 0.1), ("0", 2))},
    robust=ROWS,
    studies=STUDIES,
    leaves=(16, 32, 64, 128, 256),
    certified_leaves=(8, 16),
    quietness=(0.03, 0.06, 0.12, 0.25, None),
    trees=500,
    early_stopping=50,
    rows=500,
    timeout=10.0,
    curve_timeout=2.0,
    speed_up_trees=(25, 50, 75, 100, 125),
    speed_up_leaves=32,
    speed_up_rows=500,
    speed_up_timeout=30.0,
    milp_rows=200,
    gallery_rows=300,
)
"""The paper's evaluation, and what it does not have."""

QUICK = Suite(
    name="quick",
    attackers={"digits": (("inf", 0.04), ("0", 1), ("1", 0.2))},
    few={"breast-cancer": (("inf", 0.01),)},
    extras={"digits": (("2", 0.1),)},
    curves={"digits": (("inf", 0.04),)},
    galleries={"digits": (("inf", 0.04), ("1", 0.2), ("0", 1))},
    speed_ups={"digits": (("inf", 0.04),)},
    robust=QUICK_ROWS,
    studies=QUICK_STUDIES,
    leaves=(4, 8),
    certified_leaves=(4, 8),
    quietness=(0.06, 0.25, None),
    trees=40,
    early_stopping=20,
    rows=100,
    timeout=2.0,
    curve_timeout=0.5,
    speed_up_trees=(5, 10, 20),
    speed_up_leaves=4,
    speed_up_rows=100,
    speed_up_timeout=2.0,
    milp_rows=10,
    gallery_rows=100,
    images=4,
    min_child_samples=5,
)
"""Every kind of cell on little data that comes with scikit-learn."""
