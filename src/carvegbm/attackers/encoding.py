"""Convert a problem and its rows to what the C++ core sees, and witnesses back.

Rows in code space (see `Ensemble.check_data`) become core coordinates:

- A feature with a step becomes whole numbers: x = z(n) becomes n (`StepGrid`).
- A categorical feature becomes states: the position of a code among those of its feature.
- A one-hot group becomes states in the column of its first member: which member is 1. The columns
  of the others are 0 and ignored.
- Features that no split tests may hold anything, but a value that is no multiple of its step, or a
  group without exactly one 1, is refused all the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from carvegbm.attackers.limits import Limits
from carvegbm.data.sparse import Csr, row_of
from carvegbm.errors import DataError
from carvegbm.model.core import FINITE, StateSets, bits_of, core_of, state_sets, with_sets

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.attackers.attacker import Attacker
    from carvegbm.model.ensemble import Ensemble

__all__ = ["MOST_STEPS", "WHOLE", "Bounds", "CoreEncoding", "StepGrid"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Bounds = tuple[Floats, Floats]

WHOLE = 1
"""Kind of a feature in the core's `grid` whose values are whole numbers."""

MOST_STEPS = 2**50
"""Largest numerator times n of a grid: up to there all z(n) are different doubles."""

# Quotients of doubles are within one of the exact ones, and z(n) is within a step of n steps.
_STEP_SLACK = 3.0
_NUMBERS_AT_ONCE = 1 << 18


class StepGrid:
    """The multiples of one step, as a model of some input precision reads them.

    z(n) is the double nearest to n times the step, for whole numbers n with |n| <= `end`.

    Examples
    --------
    >>> pixels = StepGrid(Fraction(1, 255), is_float32=False)
    >>> pixels.indices(np.array([0.2, 1.0])).tolist(), pixels.last_left(np.array([0.5])).tolist()
    ([51.0, 255.0], [127.0])
    """

    def __init__(self, step: Fraction, *, is_float32: bool) -> None:
        self.step, self.is_float32 = step, is_float32
        self.end = MOST_STEPS // step.numerator
        """The largest n; -n is the smallest."""

    def doubles(self, n: Floats) -> Floats:
        """Return z(n): both factors are exact, and the division rounds once."""
        return n * self.step.numerator / self.step.denominator

    def values(self, n: Floats) -> Floats:
        """Return z(n), rounded to the model's input precision."""
        z = self.doubles(n)
        if not self.is_float32:
            return z
        with np.errstate(over="ignore"):
            return z.astype(np.float32).astype(np.float64)

    def indices(self, x: npt.NDArray[np.float64] | npt.NDArray[np.float32]) -> Floats:
        """Return the n of every x; infinite for an x that is no multiple; NaN stays.

        A multiple is z(n) and, if the model reads float32, z(n) rounded to float32.
        """
        values = np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            n = np.rint(values * self.step.denominator / self.step.numerator)
            near = np.clip(n, -self.end, self.end)
            is_multiple = (self.doubles(near) == values) | (
                self.is_float32 & (self.values(near) == values)
            )
        return np.where(np.isnan(values), np.nan, np.where(is_multiple & (near == n), n, np.inf))

    def displayed(self, n: Floats) -> Floats:
        """Return z(n) as the model reads it, unless float32 merges it with another multiple."""
        values = self.values(n)
        return np.where(self.indices(values) == n, values, self.doubles(n))

    def last_left(self, thresholds: Floats) -> Floats:
        """Return the largest n with z(n) <= threshold, as the model reads it; -end - 1 if none."""
        slack = np.inf if self.is_float32 else _STEP_SLACK  # float32 merges multiples, many far out
        return self._last(lambda n: self.values(n) <= thresholds, thresholds, slack)

    def within(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return the smallest and the largest n with lower <= z(n) <= upper."""
        return (
            self._last(lambda n: self.doubles(n) < lower, lower, _STEP_SLACK) + 1,
            self._last(lambda n: self.doubles(n) <= upper, upper, _STEP_SLACK),
        )

    def _last(
        self, is_before: Callable[[Floats], npt.NDArray[np.bool_]], about: Floats, slack: float
    ) -> Floats:
        """Return the largest n with is_before(n), by bisection; is_before holds up to some n.

        Search no further than `slack` from the multiples nearest to `about`.
        """
        ends = -self.end - 1.0, float(self.end)
        with np.errstate(over="ignore"):
            near = np.rint(about * self.step.denominator / self.step.numerator).clip(*ends)
        low, high = (near - slack).clip(*ends), (near + slack).clip(*ends)
        while (low < high).any():
            middle = np.ceil((low + high) / 2)
            before = is_before(middle)
            low, high = np.where(before, middle, low), np.where(before, high, middle - 1)
        return low


class CoreEncoding:
    """Encodes the rows of one problem.

    Parameters
    ----------
    ensemble : Ensemble
    limits : Limits
        The attacker's limits for that ensemble.
    """

    def __init__(self, ensemble: Ensemble, limits: Limits) -> None:
        self.ensemble, self.limits = ensemble, limits
        is_float32 = ensemble.input_precision == "float32"
        known: dict[tuple[int, int], StepGrid] = {}  # hashing a Fraction is slow
        self.grids: dict[int, StepGrid] = {}
        for feature, step in limits.step.items():
            key = step.numerator, step.denominator
            if key not in known:
                known[key] = StepGrid(step, is_float32=is_float32)
            self.grids[feature] = known[key]

    @property
    def is_identity(self) -> bool:
        """Whether core coordinates equal code space."""
        return not (self.grids or self.limits.one_hot or self.ensemble.categories)

    @cached_property
    def features_of_grid(self) -> list[tuple[StepGrid, npt.NDArray[np.int64]]]:
        """Every grid with its features."""
        features: dict[StepGrid, list[int]] = {}
        for feature, grid in self.grids.items():
            features.setdefault(grid, []).append(feature)
        return [(grid, np.array(those)) for grid, those in features.items()]

    # ── what the core holds ──────────────────────────────────────────────────────────────────

    @cached_property
    def core_ensemble(self) -> _core.Ensemble:
        """The ensemble; with steps or groups, its thresholds and sets are in core coordinates."""
        if not self.grids and not self.limits.one_hot:
            return self.ensemble.core
        return core_of(self.ensemble, self.sets)

    @cached_property
    def sets(self) -> StateSets:
        """Nodes, feature kinds and sets of states in core coordinates."""
        found = state_sets(self.ensemble)
        if not self.grids and not self.limits.one_hot:
            return found
        nodes = found.nodes.copy()
        kinds = found.grid if len(found.grid) else np.zeros(self.ensemble.n_features, np.uint8)
        for grid, features in self.features_of_grid:
            kinds[features] = WHOLE
            own = np.isin(nodes["feature"], features)
            thresholds, which = np.unique(nodes["threshold"][own], return_inverse=True)
            nodes["threshold"][own] = grid.last_left(thresholds)[which.ravel()]
        lists: list[list[int]] = []
        first = max(len(found.starts) - 1, 0)
        for group in self.limits.one_hot:
            kinds[list(group)] = 0
            kinds[group[0]] = FINITE
            for state, feature in enumerate(group):
                own = nodes["feature"] == feature
                numbers, which = np.unique(nodes["threshold"][own], return_inverse=True)
                nodes["threshold"][own] = first + len(lists) + which.ravel()
                nodes["feature"][own] = group[0]
                lists.extend(_going_left(threshold, state, len(group)) for threshold in numbers)
        return with_sets(StateSets(nodes, kinds, found.starts, found.words), lists)

    def core_attacker(self, attacker: Attacker) -> _core.Attacker:
        """The core's attacker; its limits are those of this encoding."""
        from carvegbm import _core

        limits, n = self.limits, self.ensemble.n_features
        numerator = denominator = np.array([])
        lower, upper = self.bounds
        if self.grids:
            numerator, denominator = np.ones(n), np.ones(n)
            for grid, features in self.features_of_grid:
                numerator[features] = grid.step.numerator
                denominator[features] = grid.step.denominator
        starts, words, column_starts, columns = self._state_table()
        return _core.Attacker(
            norm=-1 if math.isinf(attacker.norm) else int(attacker.norm),
            budget=attacker.budget,
            scale=limits.scale,
            changeable=limits.changeable,
            lower=lower,
            upper=upper,
            scale_up=limits.scale_up,
            step_numerator=numerator,
            step_denominator=denominator,
            state_starts=starts,
            state_words=words,
            column_starts=column_starts,
            state_columns=columns,
        )

    def _state_table(self) -> tuple[npt.NDArray[Any], ...]:
        """Return the allowed states per feature as bits, and the columns of groups with own bounds.

        Feature f has words[starts[f] : starts[f + 1]], and likewise columns.
        """
        n, finite = self.ensemble.n_features, [*self.limits.categories, *self.groups]
        words = [np.zeros(0, dtype=np.uint64)] * n
        columns: list[tuple[int, ...]] = [()] * n
        for feature in finite:
            words[feature] = bits_of(self.allowed_states(feature))
        if self.limits.by_row:
            for feature, group in self.groups.items():
                columns[feature] = group
        starts = np.cumsum([0, *map(len, words)], dtype=np.int64)
        column_starts = np.cumsum([0, *map(len, columns)], dtype=np.int32)
        return (
            starts if finite else starts[:0],
            np.concatenate([*words, np.zeros(0, dtype=np.uint64)]),
            column_starts if any(columns) else column_starts[:0],
            np.array([column for group in columns for column in group], dtype=np.int32),
        )

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def encode(self, X: Rows, first: int = 0) -> Rows:
        """Return core coordinates; X itself if nothing changes. Errors count rows from `first`."""
        if self.is_identity:
            return X
        found: Rows = self.ensemble.states(X)
        if self.grids or self.limits.one_hot:
            changed = np.array(found, dtype=np.float64, order="C")
            for part in _parts(X):
                for grid, features in self.features_of_grid:
                    n = grid.indices(X[part, features])
                    for row, place in np.argwhere(np.isinf(n))[:1].tolist():
                        row, feature = row + part.start, int(features[place])
                        raise self._off_grid(row + first, feature, X[row, feature])
                    changed[part, features] = n
            for group in self.limits.one_hot:
                changed[:, group[0]] = self._hot(X, group, first)
                changed[:, list(group[1:])] = 0.0
            found = changed
        return found

    def exact_rows(self, X: Rows | Csr, encoded: Rows | None = None) -> Any:
        """Return X with exact multiples in features with a step: float32 may have rounded them.

        `encoded` are the core coordinates of dense rows; sparse rows are checked here.
        """
        if not self.grids:
            return X
        if encoded is None:
            return self._exact_csr(X)
        exact = np.array(X, dtype=np.float64)
        for part in _parts(exact):
            for grid, features in self.features_of_grid:
                indices = np.asarray(encoded[part, features], dtype=np.float64)
                exact[part, features] = grid.doubles(indices)
        return exact

    def _exact_csr(self, csr: Csr) -> Csr:
        exact = csr.data.astype(np.float64)
        wrong = np.zeros(len(exact), dtype=bool)
        for grid, features in self.features_of_grid:
            entries = np.isin(csr.indices, features)
            indices = grid.indices(csr.data[entries])
            wrong[entries] = np.isinf(indices)
            exact[entries] = grid.doubles(indices)
        for entry in np.flatnonzero(wrong)[:1].tolist():
            feature = int(csr.indices[entry])
            raise self._off_grid(row_of(csr, entry), feature, csr.data[entry])
        return type(csr)((exact, csr.indices, csr.indptr), shape=csr.shape)

    def _off_grid(self, row: int, feature: int, value: Any) -> DataError:
        """Return the error for a value that is no multiple of its feature's step."""
        step = self.grids[feature].step
        return DataError(
            f"value {value} is no multiple of the attacker's step {step}"
            + (", or too large a one" if abs(value) > 1e9 * step else "")
            + "; round it, or leave out the step",
            row=row,
            column=self.ensemble.feature_name(feature),
        )

    def _hot(self, X: Rows, group: tuple[int, ...], first: int) -> Floats:
        """Return which member is 1."""
        members = X[:, list(group)]
        is_one = members == 1
        wrong = (is_one.sum(axis=1) != 1) | ((members != 0) & ~is_one).any(axis=1)
        for row in np.flatnonzero(wrong)[:1].tolist():
            names = ", ".join(map(self.ensemble.feature_name, group))
            raise DataError(
                f"of the one-hot group {names} exactly one must be 1 and the others 0, got "
                + ", ".join(f"{value:g}" for value in members[row].tolist())
                + ("; write 0 for what is missing" if np.isnan(members[row]).any() else ""),
                row=row + first,
            )
        return np.asarray(is_one.argmax(axis=1), dtype=np.float64)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds that all rows share, in core coordinates; empty if there are none."""
        if self.limits.by_row or not len(self.limits.lower):
            return np.array([]), np.array([])
        lower, upper = self._bounds(self.limits.lower[None], self.limits.upper[None])
        return lower[0], upper[0]

    def row_bounds(self) -> Bounds | None:
        """Return per-row bounds in core coordinates, or None if all rows share the limits."""
        if not self.limits.by_row:
            return None
        return self._bounds(self.limits.lower, self.limits.upper)

    def _bounds(self, lower: Floats, upper: Floats) -> Bounds:
        """Convert bounds; for a one-hot group, the upper bound is 1 where a member may be 1."""
        if not self.grids and not self.limits.one_hot:
            return np.ascontiguousarray(lower), np.ascontiguousarray(upper)
        low, high = lower.copy(), upper.copy()
        for part in _parts(lower):
            for grid, features in self.features_of_grid:
                ends = grid.within(lower[part, features], upper[part, features])
                low[part, features], high[part, features] = ends
        for group in self.limits.one_hot:
            allowed = _allowed_members(lower[:, list(group)], upper[:, list(group)])
            low[:, list(group)], high[:, list(group)] = -math.inf, allowed
        return low, high

    def decode(self, found: Floats, rows: Rows, X: Rows) -> Floats:
        """Convert witnesses to code space: X, changed where `found` differs from the rows."""
        if self.is_identity:
            return found
        z = np.array(X, dtype=np.float64)
        changed = (found != rows) & ~np.isnan(rows)
        for feature in np.flatnonzero(changed.any(axis=0)).tolist():
            which = changed[:, feature]
            z[which, feature] = self._values(feature, found[which, feature])
        for group in self.limits.one_hot:
            which = changed[:, group[0]]
            hot = found[which, group[0]].astype(np.int64)
            z[np.ix_(which, group)] = np.eye(len(group))[hot]
        return z

    def _values(self, feature: int, numbers: Floats) -> Floats:
        """Convert core coordinates of one feature to code space."""
        if feature in self.grids:
            return self.grids[feature].displayed(numbers)
        if feature in self.ensemble.categories:
            codes = np.array(list(self.ensemble.categories[feature]), dtype=np.float64)
            return codes[numbers.astype(np.int64)]
        return numbers

    def allowed_states(self, feature: int) -> list[int]:
        """Return the states that the attacker may change a finite feature to, in any row."""
        if feature in self.ensemble.categories:
            place = {code: state for state, code in enumerate(self.ensemble.categories[feature])}
            return [place[code] for code in self.limits.categories.get(feature, ())]
        group = self.groups[feature]
        if not len(self.limits.lower):
            return list(range(len(group)))
        lower, upper = (
            np.atleast_2d(end)[:, list(group)] for end in (self.limits.lower, self.limits.upper)
        )
        allowed = _allowed_members(lower, upper).any(axis=0)
        return [int(state) for state in np.flatnonzero(allowed)]

    @cached_property
    def groups(self) -> dict[int, tuple[int, ...]]:
        """The one-hot groups by their first feature, whose column holds their state."""
        return {group[0]: group for group in self.limits.one_hot}


def _parts(X: Rows) -> Iterator[slice]:
    """Yield slices of rows that bound the memory of temporary arrays."""
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, X.shape[1]))
    return (slice(start, start + at_once) for start in range(0, len(X), at_once))


def _going_left(threshold: float, state: int, count: int) -> list[int]:
    """Return the states of a group in which member `state` goes left at a threshold."""
    return [s for s in range(count) if float(s == state) <= threshold]


def _allowed_members(lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Return which members of a group may be 1 within the bounds while the others are 0."""
    may_be_0, may_be_1 = (lower <= 0) & (upper >= 0), (lower <= 1) & (upper >= 1)
    others = (~may_be_0).sum(axis=1, keepdims=True) - ~may_be_0
    return np.asarray(may_be_1 & (others == 0))
