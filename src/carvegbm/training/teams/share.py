"""A share of the rows: which of all rows a member of a team has.

Rows are numbered as one process with all of them would number them, whoever has them: chance
decides by these numbers, so that it decides alike however the rows are spread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from carvegbm.errors import DataError
from carvegbm.training.teams.exact import exact_sum
from carvegbm.training.teams.team import ALONE, Team

__all__ = ["Share", "counted_together"]

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """The rows that this member has.

    Attributes
    ----------
    team : Team
    positions : array
        Numbers of the member's rows among all rows, ascending.
    total : int
        How many rows all members have.
    """

    team: Team
    positions: Ints
    total: int

    @classmethod
    def alone(cls, n_rows: int) -> Share:
        """All rows, of a process that works alone."""
        return cls(ALONE, np.arange(n_rows, dtype=np.int64), n_rows)

    @classmethod
    def of_parts(cls, team: Team, lengths: Sequence[int], own: Sequence[int]) -> Share:
        """Rows that come in parts of these lengths, of which `own` are here, ascending."""
        starts = np.cumsum([0, *lengths], dtype=np.int64)
        ranges = [np.arange(starts[part], starts[part + 1]) for part in own]
        positions = np.concatenate([np.empty(0, dtype=np.int64), *ranges])
        return cls(team, positions, int(starts[-1]))

    def part(self, wanted: Ints) -> tuple[Ints, Share]:
        """Some of all rows, ascending: where they are among the own ones, and the share of them."""
        if self.team.is_alone:
            return wanted, Share.alone(len(wanted))
        places = np.searchsorted(wanted, self.positions)
        is_wanted = np.append(wanted, -1)[places] == self.positions
        local = np.flatnonzero(is_wanted)
        return local, Share(self.team, places[local].astype(np.int64), len(wanted))

    def followed_by(self, other: Share) -> Share:
        """The rows of both, first these and then the others."""
        positions = np.concatenate([self.positions, self.total + other.positions])
        return Share(self.team, positions, self.total + other.total)

    def require_rows_everywhere(self) -> None:
        """Refuse rows of which a member of the team has none: LightGBM trains on some only."""
        if self.team.any(len(self.positions) == 0):
            raise DataError(
                "a member of the team has no training rows; train with fewer workers, spread the "
                "rows more evenly, or give eval_set"
            )

    def everyone(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What all members have per row, in the order of all rows."""
        if self.team.is_alone:
            return values
        parts = self.team.gather((self.positions, values))
        whole = np.empty((self.total, *values.shape[1:]), dtype=values.dtype)
        for positions, own in parts:
            whole[positions] = own
        return whole

    def sum(self, values: npt.NDArray[np.float64]) -> float:
        """The sum over all rows of a number per own row, rounded once."""
        return float(sum(self.team.gather(exact_sum(values))))

    def mean(self, values: npt.NDArray[np.float64]) -> float:
        """The mean over all rows of a number per own row, rounded once."""
        return float(sum(self.team.gather(exact_sum(values))) / self.total)

    def weighted_mean(
        self, values: npt.NDArray[np.float64], weight: npt.NDArray[np.float64] | None
    ) -> float:
        """The mean over all rows of a number per own row, each as heavy as it is."""
        if weight is None:
            return self.mean(values)
        return self.sum(values * weight) / self.sum(weight)

    def largest(self, values: npt.NDArray[np.float64]) -> float:
        """The largest absolute value of a number per own row, over all rows."""
        found: list[float] = self.team.gather(float(np.abs(values).max(initial=0.0)))
        return max(found)

    def rate(self, flags: npt.NDArray[np.bool_]) -> float:
        """The share of all rows whose flag is set."""
        return self.team.count(flags) / self.total


def counted_together(
    parts: Sequence[tuple[npt.NDArray[Any], Ints]],
) -> tuple[npt.NDArray[Any], Ints]:
    """Different values, ascending, with how many rows have each, of all parts together."""
    values, places = np.unique(np.concatenate([own for own, _ in parts]), return_inverse=True)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, places, np.concatenate([own for _, own in parts]))
    return values, counts
