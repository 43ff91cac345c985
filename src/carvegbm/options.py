"""The options of queries: type, limits, default and meaning of each, stated once.

`carvegbm.engines.Settings` checks its fields against this table. The functions for arrays, Dask and
Spark and the command line have the same names and defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from carvegbm.errors import CarveError, shown

__all__ = ["QUERY_OPTIONS", "EngineName", "Method", "OnViolation", "QueryOption"]

EngineName = Literal["auto", "large-spread", "search"]
OnViolation = Literal["raise", "unknown"]
Method = Literal["efficient", "basic"]

_KINDS: dict[type, Any] = {
    int: (int, np.integer),
    float: (int, float, np.integer, np.floating),
    bool: (bool, np.bool_),
    str: str,
}
_LARGEST_INT = 2**31 - 1


@dataclass(frozen=True)
class QueryOption:
    """One option; None is allowed iff it is the default.

    Numbers are at least `least`, or more than `above`, and at most `most`; texts are one of
    `choices`.
    """

    meaning: str
    kind: type
    default: Any = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    above: float | None = None
    most: float | None = None

    @property
    def rule(self) -> str:
        """Which values are allowed, as error messages put it."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind is bool:
            return "True or False"
        number = "a whole number " if self.kind is int else ""
        if self.above is not None:
            return f"{number}> {self.above:g}"
        return number + (f">= {self.least}" if self.most is None else f"{self.least}–{self.most}")

    def check(self, name: str, value: Any) -> Any:
        """Return a valid value as its plain type; raise `CarveError` for others.

        Examples
        --------
        >>> QUERY_OPTIONS["threads"].check("threads", np.int64(2))
        2
        >>> QUERY_OPTIONS["timeout"].check("timeout", -1)
        Traceback (most recent call last):
        carvegbm.errors.CarveError: timeout must be > 0, got -1
        """
        if value is None and self.default is None:
            return None
        if self._allows(value):
            try:
                return self.kind(value)
            except OverflowError:  # an int beyond the range of float
                return float("inf")
        raise CarveError(f"{name} must be {self.rule}, got {shown(value)}")

    def _allows(self, value: Any) -> bool:
        is_flag = isinstance(value, bool | np.bool_)
        if not isinstance(value, _KINDS[self.kind]) or is_flag != (self.kind is bool):
            return False
        if self.choices:
            return value in self.choices
        if self.kind is bool:
            return True
        most = self.most if self.most is not None else _LARGEST_INT
        if self.kind is float and self.most is None:
            most = float("inf")
        is_large = value > self.above if self.above is not None else value >= (self.least or 0)
        return bool(is_large and value <= most)


QUERY_OPTIONS = {
    "engine": QueryOption(
        "auto runs the large-spread algorithms on rows for which their condition holds, and the "
        "search on those that stay undecided",
        str,
        "auto",
        choices=("auto", "large-spread", "search"),
    ),
    "timeout": QueryOption(
        "seconds per row; what is undecided then is unknown", float, 10.0, above=0
    ),
    "threads": QueryOption("number of threads; all cores by default", int, least=1),
    "on_violation": QueryOption(
        "use only the large-spread engine; refuse ensembles that are not large-spread (raise), or "
        "leave rows undecided that violate the condition (unknown)",
        str,
        choices=("raise", "unknown"),
    ),
    "method": QueryOption(
        "large-spread engine: the paper's EV (efficient) or BV (basic)",
        str,
        "efficient",
        choices=("efficient", "basic"),
    ),
    "grid": QueryOption(
        "large-spread engine, norms 1, 2, …: round costs down and the budget up to multiples of "
        "10^-grid",
        int,
        least=0,
        most=300,
    ),
    "exact_margin": QueryOption("find the worst margin, not only its sign", bool, False),
    "max_budget": QueryOption("search radii up to this budget", float, least=0),
}
