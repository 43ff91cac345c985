"""A team: what processes that train together can do together.

All members call the same methods in the same order. `ALONE` is the team of one process that has all
rows: nothing is sent.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from carvegbm.errors import CarveError

__all__ = ["ALONE", "Buffer", "Team", "TeamError"]

Buffer = bytes | bytearray | memoryview
Kind = TypeVar("Kind", bound=np.generic)

_SMALL = 1 << 16  # bytes that every member sends to all others rather than in pieces


class TeamError(CarveError):
    """A member left, or did not answer: the others cannot go on."""


class Team(ABC):
    """Members 0 … size - 1, of which this process is `rank`."""

    rank: int
    size: int

    @abstractmethod
    def exchange(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Send parts[r] to member r, and return what every member sent here, by rank.

        Raises `TeamError` where a member cannot be reached any more.
        """

    @property
    def is_alone(self) -> bool:
        """Whether there is nobody else."""
        return self.size == 1

    def gather(self, value: Any) -> list[Any]:
        """The values of all members, by rank."""
        if self.is_alone:
            return [value]
        packed = pickle.dumps(value, protocol=5)
        return [pickle.loads(part) for part in self.exchange([packed] * self.size)]

    def first(self, value: Any) -> Any:
        """The value of member 0."""
        return self.gather(value if self.rank == 0 else None)[0]

    def any(self, flag: bool) -> bool:
        """Whether it is so for any member."""
        return any(self.gather(bool(flag)))

    def sum(self, array: npt.NDArray[Kind]) -> npt.NDArray[Kind]:
        """The sum over all members of an array of one shape, added up in the order of ranks."""
        if self.is_alone:
            return array
        flat = np.ascontiguousarray(array).ravel()
        if flat.nbytes <= _SMALL:
            parts = self.exchange([flat.data.cast("B")] * self.size)
            return np.reshape(self._added(parts, flat.dtype), array.shape)
        pieces = np.array_split(flat, self.size)
        own = self._added(self.exchange([piece.data.cast("B") for piece in pieces]), flat.dtype)
        parts = self.exchange([own.data.cast("B")] * self.size)
        whole = np.concatenate([np.frombuffer(part, dtype=flat.dtype) for part in parts])
        return np.reshape(whole, array.shape)

    @staticmethod
    def _added(parts: Sequence[Buffer], kind: np.dtype[Any]) -> npt.NDArray[Any]:
        total: npt.NDArray[Any] = np.frombuffer(parts[0], dtype=kind).copy()
        for part in parts[1:]:
            total += np.frombuffer(part, dtype=kind)
        return total

    def join(self, array: npt.NDArray[np.int64]) -> None:
        """Replace every number of an array by its sum over all members."""
        array[:] = self.sum(array)

    def count(self, flags: npt.NDArray[np.bool_]) -> int:
        """How many flags are set, of all members together."""
        return sum(self.gather(int(np.count_nonzero(flags))))


class _Alone(Team):
    rank, size = 0, 1

    def exchange(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        return parts


ALONE: Team = _Alone()
"""The team of one process that has all rows."""
