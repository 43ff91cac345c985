"""How many of a model's boosting iterations an ensemble uses."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from carvegbm.errors import ModelError, shown

__all__ = ["IterationRange", "Iterations", "checked_range", "refuse_range"]

IterationRange = int | Literal["best", "all"] | None
"""The first so many iterations, the best on the validation data, or all.

None: those that the `predict` of what is read uses.
"""


class Iterations(NamedTuple):
    """The boosting iterations of a model, of which an ensemble uses the first `used`."""

    used: int
    total: int
    best: int | None = None
    """How many were best on the validation data, if the model says so."""

    @classmethod
    def chosen(cls, asked: IterationRange, total: int, best: int | None = None) -> Iterations:
        """Choose from `total` iterations; "best" is all of them if `best` is None."""
        if isinstance(asked, int):
            if asked > total:
                raise ModelError(
                    f"has {total} iterations, so that iteration_range (--trees) must be 'all', "
                    f"'best' or 1 to {total}, got {asked}"
                )
            return cls(asked, total, best)
        return cls(total if asked == "all" or best is None else min(best, total), total, best)

    @property
    def is_plain(self) -> bool:
        """Whether all iterations are used, and nothing suggests otherwise."""
        return self.used == self.total and (self.best is None or self.best >= self.total)

    def __str__(self) -> str:
        best = "" if self.best is None else f" (the best are the first {self.best})"
        return f"{self.used} of {self.total} iterations{best}"

    @property
    def note(self) -> str:
        """One line for everyone who reads a result."""
        return f"uses {self}; choose with iteration_range= or --trees all|best|N"


def checked_range(given: Any) -> IterationRange:
    """Check `iteration_range`: None, "best", "all", N, or (0, N)."""
    asked = given
    if isinstance(asked, tuple | list) and len(asked) == 2 and asked[0] == 0:
        asked = asked[1]
    if asked is None or (isinstance(asked, str) and asked in ("best", "all")):
        return asked  # type: ignore[return-value]
    is_whole = isinstance(asked, int | np.integer) and not isinstance(asked, bool)
    if not is_whole or asked < 1:
        raise ModelError(
            "iteration_range must be 'best', 'all', a number of iterations from 1 on, or (0, N), "
            f"got {shown(given)}"
        )
    return int(asked)


def refuse_range(asked: IterationRange) -> None:
    """Refuse a choice of iterations in a model that has none."""
    if asked not in (None, "best"):
        raise ModelError(
            f"has no iterations to choose from; leave out iteration_range (--trees) {asked}"
        )
