"""Parts of a whole in threads: what several processes would do, in one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Join = Callable[[npt.NDArray[np.int64]], None]
T = TypeVar("T")


class Joining:
    """Adds up the arrays of as many threads as there are parts."""

    def __init__(self, parts: int) -> None:
        self._barrier = Barrier(parts)
        self._given: list[Any] = [None] * parts
        self.sizes: list[list[int]] = [[] for _ in range(parts)]

    def of(self, part: int) -> Join:
        def join(array: npt.NDArray[np.int64]) -> None:
            self.sizes[part].append(len(array))
            self._given[part] = array.copy()
            self._barrier.wait()
            array[:] = np.sum(self._given, axis=0)
            self._barrier.wait()

        return join

    def abort(self) -> None:
        """What the network does when a process is gone: the others' calls fail."""
        self._barrier.abort()


def in_parts(count: int, work: Callable[[int, Join], T]) -> list[T]:
    """work(part, join) of every part, all at once."""
    joining = Joining(count)

    def one(part: int) -> T:
        try:
            return work(part, joining.of(part))
        except BaseException:
            joining.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        found = list(pool.map(one, range(count)))
    assert all(sizes == joining.sizes[0] for sizes in joining.sizes)
    return found


def dealt(rng: np.random.Generator, rows: int, parts: int) -> Sequence[npt.NDArray[np.int64]]:
    """Which rows each part holds: any, in ascending order; often a part has none."""
    share = rng.dirichlet(np.full(parts, rng.choice([0.3, 1.0, 100.0])))
    of = rng.choice(parts, rows, p=share)
    return [np.flatnonzero(of == part) for part in range(parts)]
