"""Totals: what answers say of all their instances together, a few numbers each.

Comes in: the columns of an answer about some instances. Goes out: numbers that can be added to
those of other instances, so that nobody needs to have all of them in one place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import ENGINES
from carvegbm.errors import DataError
from carvegbm.model.ensemble import Iterations
from carvegbm.results import OfModel, describe_interval, plain_column
from carvegbm.statuses import MEANINGS, STATUSES

__all__ = [
    "AttackTotals",
    "Columns",
    "CurveTotals",
    "RadiusTotals",
    "RangeTotals",
    "Totals",
    "VerificationTotals",
    "added",
]

Columns = Mapping[str, npt.NDArray[Any]]
Some = TypeVar("Some", bound="Totals")


class Totals(OfModel, ABC):
    """What is known of some instances as a whole."""

    instances: int

    @abstractmethod
    def plus(self: Some, other: Some) -> Some:
        """The totals of both groups of instances together."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {**self._of_model(), **self._plain()}

    @abstractmethod
    def _plain(self) -> dict[str, Any]:
        """Return the totals as plain values."""


def added(parts: Iterable[Some]) -> Some:
    """The totals of all instances, of which some or none are in every part."""
    given = list(parts)
    whole = reduce(lambda one, other: one.plus(other), given) if given else None
    if whole is None or whole.instances == 0:
        raise DataError("there are no rows; every part is empty")
    return whole


@dataclass(frozen=True)
class VerificationTotals(Totals):
    """Statuses counted."""

    attacker: Attacker
    counts: Mapping[str, int]
    """Number of instances by status."""
    right: int
    """Instances that are decided rightly without an attack."""
    open: int
    """Those of them whose status is unknown."""
    engines: Mapping[str, int]
    """Number of instances by the engine that decided."""
    slowest: float
    """Seconds that the slowest instance took."""

    @classmethod
    def of(cls, columns: Columns, attacker: Attacker) -> VerificationTotals:
        """Of a `Verification`'s columns."""
        status, right = columns["status"], columns["right"].astype(bool)
        return cls(
            attacker,
            {name: int(np.count_nonzero(status == name)) for name in STATUSES},
            int(np.count_nonzero(right)),
            int(np.count_nonzero((status == "unknown") & right)),
            {name: int(np.count_nonzero(columns["engine"] == name)) for name in ENGINES[1:]},
            float(columns["seconds"].max(initial=0.0)),
        )

    @classmethod
    def by_label(
        cls, columns: Columns, labels: npt.NDArray[Any], attacker: Attacker
    ) -> dict[Any, VerificationTotals]:
        """Of the instances of each label, in the order of the labels."""
        found = {}
        for label in np.unique(labels):
            some = {name: column[labels == label] for name, column in columns.items()}
            found[label] = cls.of(some, attacker)
        return found

    def plus(self, other: VerificationTotals) -> VerificationTotals:
        """The totals of both groups of instances together."""
        return replace(
            self,
            counts={name: count + other.counts[name] for name, count in self.counts.items()},
            right=self.right + other.right,
            open=self.open + other.open,
            engines={name: count + other.engines[name] for name, count in self.engines.items()},
            slowest=max(self.slowest, other.slowest),
        )

    @property
    def instances(self) -> int:  # type: ignore[override]
        """How many there are."""
        return sum(self.counts.values())

    @property
    def accuracy(self) -> float:
        """Share of instances decided rightly, without an attack."""
        return self.right / self.instances

    @property
    def robustness(self) -> tuple[float, float]:
        """Share of robust instances: the interval (lower, upper) of what is known about it."""
        robust, n = self.counts["robust"], self.instances
        return robust / n, (robust + self.open) / n

    def _plain(self) -> dict[str, Any]:
        """Accuracy, robustness, and the number of instances by status."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": self.instances,
            "accuracy": self.accuracy,
            "robustness": list(self.robustness),
            "counts": dict(self.counts),
        }

    def summary(self) -> str:
        """Robustness in one line, in the paper's ± notation where instances are unknown."""
        text = f"robustness {describe_interval(*self.robustness)}"
        if self.counts["unknown"]:
            text += f" ({self.counts['unknown']} unknown)"
        return text

    def decided_by(self) -> str:
        """Which engines decided and how long the slowest row took; "" if all was large-spread."""
        if not any(self.engines[name] for name in ENGINES[2:]):
            return ""
        by_engine = ", ".join(f"{name} {count}" for name, count in self.engines.items() if count)
        return f"{by_engine}; slowest {self.slowest:.2g} s"

    def _text(self) -> str:
        lines = [
            f"{self.instances} instances against {self.attacker}",
            f"  accuracy    {self.accuracy:.4f}",
            "  " + self.summary().replace("robustness ", "robustness  "),
        ]
        lines += [
            f"  {name:<11} {count:>7}   {MEANINGS[name]}"
            for name, count in self.counts.items()
            if count or name != "unknown"
        ]
        if decided := self.decided_by():
            lines.append(f"  decided by  {decided}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from carvegbm.displays.notebook import verification_html

        return verification_html(self)


@dataclass(frozen=True)
class AttackTotals(Totals):
    """Flips counted."""

    attacker: Attacker
    instances: int
    successes: int
    unknown: int
    nearest: float
    """The smallest distance of a witness; infinite where there is none."""

    @classmethod
    def of(cls, columns: Columns, attacker: Attacker) -> AttackTotals:
        """Of an `Attack`'s columns."""
        success = columns["success"].astype(bool)
        return cls(
            attacker,
            len(success),
            int(np.count_nonzero(success)),
            int(np.count_nonzero(columns["status"] == "unknown")),
            float(columns["distance"][success].min(initial=np.inf)),
        )

    def plus(self, other: AttackTotals) -> AttackTotals:
        """The totals of both groups of instances together."""
        return replace(
            self,
            instances=self.instances + other.instances,
            successes=self.successes + other.successes,
            unknown=self.unknown + other.unknown,
            nearest=min(self.nearest, other.nearest),
        )

    def _plain(self) -> dict[str, Any]:
        """Who attacks, and how many instances can be flipped."""
        return {
            "attacker": self.attacker.to_dict(),
            "instances": self.instances,
            "successes": self.successes,
        }

    def _text(self) -> str:
        text = f"{self.successes} of {self.instances} instances can be flipped by {self.attacker}"
        return text + f"; {self.unknown} not decided" * (self.unknown > 0)


@dataclass(frozen=True)
class RadiusTotals(Totals):
    """Radii counted, and the ends of their range."""

    norm: int | float
    instances: int
    wrong: int
    """Instances of radius 0: they are wrong already."""
    undecided: int
    smallest: float
    """Of the radii other than 0 that are known; infinite where there is none."""
    largest: float
    """Of the radii that are known; -infinity where there is none."""
    open_from: float
    """No undecided radius is smaller; infinite where there is none."""

    @classmethod
    def of(cls, columns: Columns, norm: int | float) -> RadiusTotals:
        """Of a `Radius`'s columns."""
        radius = columns["radius"]
        known = radius[~np.isnan(radius)]
        return cls(
            norm,
            len(radius),
            int(np.count_nonzero(known == 0)),
            len(radius) - len(known),
            float(known[known > 0].min(initial=np.inf)),
            float(known.max(initial=-np.inf)),
            float(columns["lower"][np.isnan(radius)].min(initial=np.inf)),
        )

    def plus(self, other: RadiusTotals) -> RadiusTotals:
        """The totals of both groups of instances together."""
        return replace(
            self,
            instances=self.instances + other.instances,
            wrong=self.wrong + other.wrong,
            undecided=self.undecided + other.undecided,
            smallest=min(self.smallest, other.smallest),
            largest=max(self.largest, other.largest),
            open_from=min(self.open_from, other.open_from),
        )

    def _plain(self) -> dict[str, Any]:
        """The norm, the number of instances, and the ends of what is known."""
        ends = np.array([self.smallest, self.largest, self.open_from])
        smallest, largest, open_from = plain_column(ends)
        return {
            "norm": "inf" if np.isinf(self.norm) else int(self.norm),
            "instances": self.instances,
            "wrong": self.wrong,
            "undecided": self.undecided,
            "smallest": smallest,
            "largest": largest,
            "undecided_from": open_from,
        }

    def _text(self) -> str:
        text = f"{self.instances} radii, norm {self.norm}: {self.wrong} are 0, wrong already"
        if self.largest > 0:
            text += f"; the others from {self.smallest:.6g} to {self.largest:.6g}"
        if self.undecided:
            text += f"; {self.undecided} not decided, at least {self.open_from:.6g}"
        return text


@dataclass(frozen=True)
class CurveTotals(Totals):
    """Radii beyond each of some budgets counted."""

    norm: int | float
    budgets: tuple[float, ...]
    instances: int
    right: int
    robust: tuple[int, ...]
    """Per budget, the instances that are robust."""
    possible: tuple[int, ...]
    """Per budget, those that may be."""

    @classmethod
    def of(
        cls,
        columns: Columns,
        norm: int | float,
        budgets: tuple[float, ...],
        iterations: Iterations | None = None,
    ) -> CurveTotals:
        """Of a `Radius`'s columns."""
        lower, upper = np.sort(columns["lower"]), np.sort(columns["upper"])
        robust, possible = (
            tuple((len(ends) - np.searchsorted(ends, budgets, side="right")).tolist())
            for ends in (lower, upper)
        )
        right = int(np.count_nonzero(upper > 0))
        counts = (len(lower), right, robust, possible)
        return cls(norm, budgets, *counts, iterations=iterations)

    def plus(self, other: CurveTotals) -> CurveTotals:
        """The totals of both groups of instances together."""
        return replace(
            self,
            instances=self.instances + other.instances,
            right=self.right + other.right,
            robust=tuple(map(int.__add__, self.robust, other.robust)),
            possible=tuple(map(int.__add__, self.possible, other.possible)),
        )

    def _plain(self) -> dict[str, Any]:
        """The counts, as they are."""
        return {
            "norm": "inf" if np.isinf(self.norm) else int(self.norm),
            "instances": self.instances,
            "right": self.right,
            "budget": list(self.budgets),
            "robust": list(self.robust),
            "possible": list(self.possible),
        }


@dataclass(frozen=True)
class RangeTotals(Totals):
    """Ranges of raw scores, and the ends of them all."""

    attacker: Attacker
    instances: int
    exact: int
    lowest: float
    """No attack on any instance reaches a raw score below this."""
    highest: float
    """Or above this."""

    @classmethod
    def of(cls, columns: Columns, attacker: Attacker) -> RangeTotals:
        """Of an `OutputRange`'s columns."""
        return cls(
            attacker,
            len(columns["exact"]),
            int(np.count_nonzero(columns["exact"])),
            float(columns["lowest_lower"].min(initial=np.inf)),
            float(columns["highest_upper"].max(initial=-np.inf)),
        )

    def plus(self, other: RangeTotals) -> RangeTotals:
        """The totals of both groups of instances together."""
        return replace(
            self,
            instances=self.instances + other.instances,
            exact=self.exact + other.exact,
            lowest=min(self.lowest, other.lowest),
            highest=max(self.highest, other.highest),
        )

    def _plain(self) -> dict[str, Any]:
        """Who attacks, how many instances, and the ends of all ranges."""
        lowest, highest = plain_column(np.array([self.lowest, self.highest]))
        return {
            "attacker": self.attacker.to_dict(),
            "instances": self.instances,
            "exact": self.exact,
            "lowest": lowest,
            "highest": highest,
        }

    def _text(self) -> str:
        return (
            f"{self.instances} instances against {self.attacker}: raw scores from "
            f"{self.lowest:.6g} to {self.highest:.6g}, {self.exact} ranges known exactly"
        )
