"""How many of a model's boosting iterations an ensemble uses."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from carvegbm.errors import ModelError, shown

__all__ = ["IterationRange", "Iterations", "checked_range", "refuse_range"]

IterationRange = int | Literal["best", "all"] | None
"""A number of iterations from the first one, "best" on the validation data, or "all".

None means those that the source's own `predict` uses.
"""


class Iterations(NamedTuple):
    """The boosting iterations of a model, of which an ensemble uses the first `used`."""

    used: int
    total: int
    best: int | None = None
    """Number of iterations that scored best on the validation data; None if it is not known."""

    @classmethod
    def chosen(cls, requested: IterationRange, total: int, best: int | None = None) -> Iterations:
        """Choose from `total` iterations; "best" is all of them if `best` is None."""
        if isinstance(requested, int):
            if requested > total:
                raise ModelError(
                    f"has {total} iterations; iteration_range (--trees) must be 'all', 'best' or "
                    f"1 to {total}, got {requested}"
                )
            return cls(requested, total, best)
        return cls(total if requested == "all" or best is None else min(best, total), total, best)

    @property
    def is_plain(self) -> bool:
        """Whether all iterations are used, and nothing suggests otherwise."""
        return self.used == self.total and (self.best is None or self.best >= self.total)

    def __str__(self) -> str:
        best = "" if self.best is None else f" (the best are the first {self.best})"
        return f"{self.used} of {self.total} iterations{best}"

    @property
    def note(self) -> str:
        """One line about the iterations that are used, and how to choose others."""
        return f"uses {self}; choose with iteration_range= or --trees all|best|N"


def checked_range(given: Any) -> IterationRange:
    """Check `iteration_range`: None, "best", "all", N, or (0, N)."""
    requested = given
    if isinstance(requested, tuple | list) and len(requested) == 2 and requested[0] == 0:
        requested = requested[1]
    if requested is None or (isinstance(requested, str) and requested in ("best", "all")):
        return requested  # type: ignore[return-value]
    is_whole = isinstance(requested, int | np.integer) and not isinstance(requested, bool)
    if not is_whole or requested < 1:
        raise ModelError(
            "iteration_range must be 'best', 'all', a whole number N >= 1, or (0, N), "
            f"got {shown(given)}"
        )
    return int(requested)


def refuse_range(requested: IterationRange) -> None:
    """Refuse a choice of iterations for a model that stores none."""
    if requested not in (None, "best"):
        raise ModelError(
            f"has no iterations to choose from; leave out iteration_range (--trees) {requested}"
        )
