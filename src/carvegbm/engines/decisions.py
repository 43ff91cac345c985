"""Decisions: what is known about every row, by name, whoever found it out.

A question fills some of the columns; all of them have an entry per row.

    status                     robust, fragile, …: a code, see `carvegbm.statuses`. Of a property
                               that holds or fails: robust or fragile. Of a number: unknown until
                               it is known exactly
    engine                     who decided: a position in ENGINES, 0 while nobody has
    seconds                    the time all engines together took
    right, margin              of the unchanged row
    worst_lower, worst_upper   worst_lower <= worst margin <= worst_upper; and in the same way
    radius_…, lowest_…, highest_…
    witness, distance          where one was asked for: the row that proves a flip, NaN elsewhere
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.statuses import UNKNOWN

if TYPE_CHECKING:
    from carvegbm import _core

__all__ = ["COLUMNS", "ENGINES", "Decisions"]

ENGINES = ("", "large-spread", "search", "milp")
"""In the order of the core's codes."""

COLUMNS = (
    "status",
    "engine",
    "seconds",
    "right",
    "margin",
    "worst_lower",
    "worst_upper",
    "witness",
    "distance",
    "radius_lower",
    "radius_upper",
    "lowest_lower",
    "lowest_upper",
    "highest_lower",
    "highest_upper",
)

Indices = npt.NDArray[np.int64]


class Decisions:
    """A table of what is known; see the module's docstring for its columns.

    Parameters
    ----------
    columns : mapping from names to arrays
        They are kept, not copied.
    """

    def __init__(self, columns: dict[str, npt.NDArray[Any]]) -> None:
        self.columns = columns

    @classmethod
    def of_core(cls, found: _core.Decisions) -> Decisions:
        """What the core found; its arrays, not copies of them."""
        columns = ((name, getattr(found, name)) for name in COLUMNS)
        return cls({name: column for name, column in columns if column is not None})

    def __len__(self) -> int:
        return len(self.columns["status"])

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    @property
    def status(self) -> npt.NDArray[np.uint8]:
        """The codes of the statuses."""
        return self.columns["status"]

    @property
    def seconds(self) -> npt.NDArray[np.float64]:
        """The time taken."""
        return self.columns["seconds"]

    @property
    def engine(self) -> npt.NDArray[np.str_]:
        """Who decided, by name; "" where nobody did."""
        return np.asarray(np.array(ENGINES)[self.columns["engine"]])

    def is_open(self, rows: Indices) -> npt.NDArray[np.bool_]:
        """Which of these rows are not decided."""
        return np.asarray(self.status[rows] == UNKNOWN)

    def take(self, rows: Indices | slice) -> Decisions:
        """What is known about some of the rows."""
        return Decisions({name: column[rows] for name, column in self.columns.items()})

    def add(self, rows: Indices, more: Decisions) -> None:
        """Add what another engine found about some rows, which were open, one each.

        Bounds are joined, times added up; the rest is taken over where it is a decision.
        """
        decided = more.status != UNKNOWN
        for name, column in self.columns.items():
            if name == "seconds":
                column[rows] += more[name]
            elif name.endswith("_lower"):
                column[rows] = np.fmax(column[rows], more[name])
            elif name.endswith("_upper"):
                column[rows] = np.fmin(column[rows], more[name])
            else:
                column[rows[decided]] = more[name][decided]
