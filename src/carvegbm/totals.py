"""Totals: a few numbers about many rows, which can be merged with those of other rows."""

from __future__ import annotations

import math
from abc import ABC
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import reduce
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.attacker import Attacker
from carvegbm.engines import ENGINES
from carvegbm.errors import DataError
from carvegbm.results import OfModel, describe_interval, plain_norm
from carvegbm.statuses import MEANINGS, STATUSES

__all__ = ["AttackTotals", "Columns", "CurveTotals", "RadiusTotals", "RangeTotals", "Totals"]
__all__ += ["VerificationTotals", "merge_totals"]

Columns = Mapping[str, npt.NDArray[Any]]
T = TypeVar("T", bound="Totals")


def _add(one: Any, other: Any) -> Any:
    """Add numbers, the values of mappings, or the entries of tuples."""
    if isinstance(one, Mapping):
        return {name: value + other[name] for name, value in one.items()}
    if isinstance(one, tuple):
        return tuple(map(int.__add__, one, other))
    return one + other


def _merged(rule: Callable[[Any, Any], Any] = _add) -> Any:
    """A field that the totals of several groups of rows merge by `rule`; others are the same."""
    return field(metadata={"merge": rule})


class Totals(OfModel, ABC):
    """Base of all totals."""

    instances: int
    """Number of rows."""
    _PLAIN: ClassVar[tuple[str, ...]] = ()
    """What `to_dict` returns."""

    def plus(self: T, other: T) -> T:
        """Return the totals of both groups of rows together."""
        rules = {f.name: f.metadata["merge"] for f in fields(self) if "merge" in f.metadata}
        return replace(
            self,
            **{
                name: rule(getattr(self, name), getattr(other, name))
                for name, rule in rules.items()
            },
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON; infinity becomes None."""
        return {
            **self._of_model(),
            **{name: _plain(name, getattr(self, name)) for name in self._PLAIN},
        }


def _plain(name: str, value: Any) -> Any:
    if name == "norm":
        return plain_norm(value)
    if isinstance(value, Attacker):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def merge_totals(parts: Iterable[T]) -> T:
    """Return the totals of all rows; refuse parts without any row."""
    given = list(parts)
    if not any(part.instances for part in given):
        raise DataError("there are no rows; every part is empty")
    return reduce(lambda one, other: one.plus(other), given)


def _count(mask: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(mask))


@dataclass(frozen=True)
class VerificationTotals(Totals):
    """Numbers of rows by status, and what follows from them."""

    attacker: Attacker
    counts: Mapping[str, int] = _merged()
    """Number of rows by status."""
    right: int = _merged()
    """Rows with the right answer before any attack."""
    open: int = _merged()
    """Those of them with the status unknown."""
    engines: Mapping[str, int] = _merged()
    """Number of rows by the engine that decided them."""
    slowest: float = _merged(max)
    """The largest number of seconds for one row."""

    _PLAIN = ("attacker", "instances", "accuracy", "robustness", "counts")

    @classmethod
    def of(cls, columns: Columns, attacker: Attacker) -> VerificationTotals:
        """Summarise the columns of a `Verification`."""
        status, right = columns["status"], columns["right"].astype(bool)
        return cls(
            attacker,
            {name: _count(status == name) for name in STATUSES},
            _count(right),
            _count((status == "unknown") & right),
            {name: _count(columns["engine"] == name) for name in ENGINES[1:]},
            float(columns["seconds"].max(initial=0.0)),
        )

    @classmethod
    def by_label(
        cls, columns: Columns, labels: npt.NDArray[Any], attacker: Attacker
    ) -> dict[Any, VerificationTotals]:
        """Summarise the rows of each label, in the order of the labels."""
        found = {}
        for label in np.unique(labels):
            some = {name: column[labels == label] for name, column in columns.items()}
            found[label] = cls.of(some, attacker)
        return found

    @property
    def instances(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return sum(self.counts.values())

    @property
    def accuracy(self) -> float:
        """Share of rows with the right answer before any attack."""
        return self.right / self.instances

    @property
    def robustness(self) -> tuple[float, float]:
        """Share of robust rows as an interval (lower, upper), for unknown ones may be robust."""
        robust, n = self.counts["robust"], self.instances
        return robust / n, (robust + self.open) / n

    def summary(self) -> str:
        """Return robustness in one line, in the paper's ± notation if rows are unknown."""
        text = f"robustness {describe_interval(*self.robustness)}"
        if self.counts["unknown"]:
            text += f" ({self.counts['unknown']} unknown)"
        return text

    def decided_by(self) -> str:
        """Return which engines decided and the slowest time; "" if all was large-spread."""
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
    """Numbers of rows that can be flipped, and the distance of the nearest witness."""

    attacker: Attacker
    instances: int = _merged()
    successes: int = _merged()
    unknown: int = _merged()
    nearest: float = _merged(min)
    """The smallest distance of a witness; infinite without any."""

    _PLAIN = ("attacker", "instances", "successes")

    @classmethod
    def of(cls, columns: Columns, attacker: Attacker) -> AttackTotals:
        """Summarise the columns of an `Attack`."""
        success = columns["success"].astype(bool)
        nearest = float(columns["distance"][success].min(initial=np.inf))
        unknown = _count(columns["status"] == "unknown")
        return cls(attacker, len(success), _count(success), unknown, nearest)

    def _text(self) -> str:
        text = f"{self.successes} of {self.instances} instances can be flipped by {self.attacker}"
        return text + f"; {self.unknown} not decided" * (self.unknown > 0)


@dataclass(frozen=True)
class RadiusTotals(Totals):
    """Numbers of radii, and the smallest and the largest."""

    norm: int | float
    instances: int = _merged()
    wrong: int = _merged()
    """Rows of radius 0, for the model's answer is wrong already."""
    undecided: int = _merged()
    smallest: float = _merged(min)
    """The smallest known radius other than 0; infinite without any."""
    largest: float = _merged(max)
    """The largest known radius; -infinity without any."""
    undecided_from: float = _merged(min)
    """The smallest lower bound of an undecided radius; infinite without any."""

    _PLAIN = ("norm", "instances", "wrong", "undecided", "smallest", "largest", "undecided_from")

    @classmethod
    def of(cls, columns: Columns, norm: int | float) -> RadiusTotals:
        """Summarise the columns of a `Radius`."""
        radius = columns["radius"]
        known = radius[~np.isnan(radius)]
        return cls(
            norm,
            len(radius),
            _count(known == 0),
            len(radius) - len(known),
            float(known[known > 0].min(initial=np.inf)),
            float(known.max(initial=-np.inf)),
            float(columns["lower"][np.isnan(radius)].min(initial=np.inf)),
        )

    def _text(self) -> str:
        text = f"{self.instances} radii, norm {self.norm}: {self.wrong} are 0, wrong already"
        if self.largest > 0:
            text += f"; the others from {self.smallest:.6g} to {self.largest:.6g}"
        if self.undecided:
            text += f"; {self.undecided} not decided, at least {self.undecided_from:.6g}"
        return text


@dataclass(frozen=True)
class CurveTotals(Totals):
    """Numbers of rows that are robust at each of some budgets."""

    norm: int | float
    budget: tuple[float, ...]
    instances: int = _merged()
    right: int = _merged()
    robust: tuple[int, ...] = _merged()
    """Per budget, the rows that are robust."""
    possible: tuple[int, ...] = _merged()
    """Per budget, the rows that are not known to be flipped."""

    _PLAIN = ("norm", "instances", "right", "budget", "robust", "possible")

    @classmethod
    def of(cls, columns: Columns, norm: int | float, budgets: tuple[float, ...]) -> CurveTotals:
        """Count the radii beyond each budget; the columns are those of a `Radius`."""
        lower, upper = np.sort(columns["lower"]), np.sort(columns["upper"])
        robust, possible = (
            tuple((len(ends) - np.searchsorted(ends, budgets, side="right")).tolist())
            for ends in (lower, upper)
        )
        return cls(norm, budgets, len(lower), _count(upper > 0), robust, possible)


@dataclass(frozen=True)
class RangeTotals(Totals):
    """The lowest and the highest raw score in reach of any row."""

    attacker: Attacker
    instances: int = _merged()
    exact: int = _merged()
    lowest: float = _merged(min)
    """No attack on any row reaches a raw score below this."""
    highest: float = _merged(max)
    """No attack on any row reaches a raw score above this."""

    _PLAIN = ("attacker", "instances", "exact", "lowest", "highest")

    @classmethod
    def of(cls, columns: Columns, attacker: Attacker) -> RangeTotals:
        """Summarise the columns of an `OutputRange`."""
        lowest = float(columns["lowest_lower"].min(initial=np.inf))
        highest = float(columns["highest_upper"].max(initial=-np.inf))
        return cls(attacker, len(columns["exact"]), _count(columns["exact"]), lowest, highest)

    def _text(self) -> str:
        return (
            f"{self.instances} instances against {self.attacker}: raw scores from "
            f"{self.lowest:.6g} to {self.highest:.6g}, {self.exact} ranges known exactly"
        )
