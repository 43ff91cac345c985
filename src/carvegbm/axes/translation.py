"""The translation of a problem: from what users see to what the C++ core sees, and back.

Comes in: an ensemble and an attacker's limits; then rows in code space, as `Ensemble.check_data`
returns them. Goes out: the core's ensemble and attacker, rows as they take them, and witnesses in
code space again.

- A feature with a step becomes whole numbers: which multiple of the step a value is.
- A categorical feature becomes states: the position of a code among those of its feature.
- A one-hot group becomes states in the column of its first member: which member is 1. The columns
  of the others are 0, and not looked at.
- Features that no split tests may hold anything, but an instance off the lattice, or a group that
  is none, is refused all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from carvegbm.axes.lattice import Lattice
from carvegbm.errors import DataError
from carvegbm.limits import Limits
from carvegbm.trees.core import FINITE, StateSets, bits_of, core_of, state_sets, with_sets

if TYPE_CHECKING:
    from carvegbm import _core
    from carvegbm.attacker import Attacker
    from carvegbm.ensemble import Ensemble

__all__ = ["WHOLE", "Bounds", "Translation"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.float64] | npt.NDArray[np.float32]
Bounds = tuple[Floats, Floats]

WHOLE = 1
"""In the core's grid: a feature whose values are whole numbers."""

_NUMBERS_AT_ONCE = 1 << 18


class Translation:
    """How the rows of a problem become those of the core.

    Parameters
    ----------
    ensemble : Ensemble
    limits : Limits
        The attacker's, for that ensemble.
    """

    def __init__(self, ensemble: Ensemble, limits: Limits) -> None:
        self.ensemble, self.limits = ensemble, limits
        is_float32 = ensemble.input_precision == "float32"
        known: dict[tuple[int, int], Lattice] = {}  # a Fraction takes long to hash
        self.lattices: dict[int, Lattice] = {}
        for feature, step in limits.step.items():
            key = step.numerator, step.denominator
            if key not in known:
                known[key] = Lattice(step, is_float32=is_float32)
            self.lattices[feature] = known[key]

    @property
    def is_identity(self) -> bool:
        """Whether rows are the core's as they are."""
        return not (self.lattices or self.limits.one_hot or self.ensemble.categories)

    @cached_property
    def by_lattice(self) -> list[tuple[Lattice, npt.NDArray[np.int64]]]:
        """Every lattice with its features, for what is asked of all of them at once."""
        features: dict[Lattice, list[int]] = {}
        for feature, lattice in self.lattices.items():
            features.setdefault(lattice, []).append(feature)
        return [(lattice, np.array(those)) for lattice, those in features.items()]

    # ── what the core holds ──────────────────────────────────────────────────────────────────

    @cached_property
    def core_ensemble(self) -> _core.Ensemble:
        """The ensemble, with thresholds and sets of its own where there are steps and groups."""
        if not self.lattices and not self.limits.one_hot:
            return self.ensemble.core
        return core_of(self.ensemble, self.sets)

    @cached_property
    def sets(self) -> StateSets:
        """The nodes, the grid and the sets of states that they ask for, as the core has them."""
        found = state_sets(self.ensemble)
        if not self.lattices and not self.limits.one_hot:
            return found
        nodes = found.nodes.copy()
        grid = found.grid if len(found.grid) else np.zeros(self.ensemble.n_features, np.uint8)
        for lattice, features in self.by_lattice:
            grid[features] = WHOLE
            here = np.isin(nodes["feature"], features)
            thresholds, which = np.unique(nodes["threshold"][here], return_inverse=True)
            nodes["threshold"][here] = lattice.last_left(thresholds)[which.ravel()]
        lists: list[list[int]] = []
        first = max(len(found.starts) - 1, 0)
        for group in self.limits.one_hot:
            grid[list(group)] = 0
            grid[group[0]] = FINITE
            for state, feature in enumerate(group):
                here = nodes["feature"] == feature
                numbers, which = np.unique(nodes["threshold"][here], return_inverse=True)
                nodes["threshold"][here] = first + len(lists) + which.ravel()
                nodes["feature"][here] = group[0]
                lists.extend(_going_left(threshold, state, len(group)) for threshold in numbers)
        return with_sets(StateSets(nodes, grid, found.starts, found.words), lists)

    def core_attacker(self, attacker: Attacker) -> _core.Attacker:
        """The attacker, whose limits are the translation's."""
        from carvegbm import _core

        limits, n = self.limits, self.ensemble.n_features
        numerator = denominator = np.array([])
        lower, upper = self.bounds
        if self.lattices:
            numerator, denominator = np.ones(n), np.ones(n)
            for lattice, features in self.by_lattice:
                numerator[features] = lattice.step.numerator
                denominator[features] = lattice.step.denominator
        states = _StateTable.of(self)
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
            state_starts=states.starts,
            state_words=states.words,
            column_starts=states.column_starts,
            state_columns=states.columns,
        )

    # ── rows ─────────────────────────────────────────────────────────────────────────────────

    def rows(self, X: Rows, first: int = 0) -> Rows:
        """Rows as the core takes them; the same object where nothing changes.

        In errors they are counted from `first`.
        """
        if self.is_identity:
            return X
        found: Rows = self.ensemble.states(X)
        if self.lattices or self.limits.one_hot:
            changed = np.array(found, dtype=np.float64, order="C")
            for part in _parts(X):
                for lattice, features in self.by_lattice:
                    n = lattice.numbers(X[part, features])
                    for row, place in np.argwhere(np.isinf(n))[:1].tolist():
                        row, feature = row + part.start, int(features[place])
                        raise self.off_lattice(row + first, feature, X[row, feature])
                    changed[part, features] = n
            for group in self.limits.one_hot:
                changed[:, group[0]] = self._hot(X, group, first)
                changed[:, list(group[1:])] = 0.0
            found = changed
        return found

    def on_lattice(self, X: Rows, rows: Rows) -> Rows:
        """X with the very multiples where there are steps: float32 may have rounded them."""
        if not self.lattices:
            return X
        exact = np.array(X, dtype=np.float64)
        for part in _parts(X):
            for lattice, features in self.by_lattice:
                numbers = np.asarray(rows[part, features], dtype=np.float64)
                exact[part, features] = lattice.doubles(numbers)
        return exact

    def off_lattice(self, row: int, feature: int, value: Any) -> DataError:
        """What to say of a value that is no multiple of its feature's step."""
        step = self.lattices[feature].step
        return DataError(
            f"X row {row}, {self.ensemble.feature_name(feature)}: value {value} is no multiple of "
            f"the attacker's step {step}"
            + (", or too large a one" if abs(value) > 1e9 * step else "")
            + "; round it, or leave out the step"
        )

    def _hot(self, X: Rows, group: tuple[int, ...], first: int) -> Floats:
        """Which member is 1."""
        members = X[:, list(group)]
        is_one = members == 1
        wrong = (is_one.sum(axis=1) != 1) | ((members != 0) & ~is_one).any(axis=1)
        for row in np.flatnonzero(wrong)[:1].tolist():
            names = ", ".join(map(self.ensemble.feature_name, group))
            raise DataError(
                f"X row {row + first}: of the one-hot group {names} exactly one must be 1 and the "
                f"others 0, got {', '.join(f'{value:g}' for value in members[row].tolist())}"
                + ("; write 0 for what is missing" if np.isnan(members[row]).any() else "")
            )
        return np.asarray(is_one.argmax(axis=1), dtype=np.float64)

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds that all rows share, as the core takes them; empty: there are none."""
        if self.limits.by_row or not len(self.limits.lower):
            return np.array([]), np.array([])
        lower, upper = self._bounds(self.limits.lower[None], self.limits.upper[None])
        return lower[0], upper[0]

    def bounds_of_rows(self) -> Bounds | None:
        """The bounds of every instance, where they have their own, as the core takes them."""
        if not self.limits.by_row:
            return None
        return self._bounds(self.limits.lower, self.limits.upper)

    def _bounds(self, lower: Floats, upper: Floats) -> Bounds:
        """Bounds in the core's numbers; of a one-hot group, 1 where a member may be 1."""
        if not self.lattices and not self.limits.one_hot:
            return np.ascontiguousarray(lower), np.ascontiguousarray(upper)
        low, high = lower.copy(), upper.copy()
        for part in _parts(lower):
            for lattice, features in self.by_lattice:
                ends = lattice.within(lower[part, features], upper[part, features])
                low[part, features], high[part, features] = ends
        for group in self.limits.one_hot:
            allowed = _allowed_members(lower[:, list(group)], upper[:, list(group)])
            low[:, list(group)], high[:, list(group)] = -math.inf, allowed
        return low, high

    def witnesses(self, found: Floats, rows: Rows, X: Rows) -> Floats:
        """Rows that the core found, in code space: what differs from `rows`, over X."""
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
        """The core's numbers of a feature, in code space."""
        if feature in self.lattices:
            return self.lattices[feature].witnesses(numbers)
        if feature in self.ensemble.categories:
            codes = np.array(list(self.ensemble.categories[feature]), dtype=np.float64)
            return codes[numbers.astype(np.int64)]
        return numbers

    def states(self, feature: int) -> list[int]:
        """The states that the attacker may change a finite feature to, in one row or other."""
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
        """The one-hot groups, by the feature whose column holds their state."""
        return {group[0]: group for group in self.limits.one_hot}


def _parts(X: Rows) -> Iterator[slice]:
    """Rows one after the other, so many at a time that what is computed of them stays small."""
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, X.shape[1]))
    return (slice(start, start + at_once) for start in range(0, len(X), at_once))


def _going_left(threshold: float, state: int, count: int) -> list[int]:
    """The states of a group in which one member, `state`, goes left of a threshold."""
    return [s for s in range(count) if float(s == state) <= threshold]


def _allowed_members(lower: Floats, upper: Floats) -> npt.NDArray[np.bool_]:
    """Which members of a group may be 1 within the bounds, the others being 0."""
    may_be_0, may_be_1 = (lower <= 0) & (upper >= 0), (lower <= 1) & (upper >= 1)
    others = (~may_be_0).sum(axis=1, keepdims=True) - ~may_be_0
    return np.asarray(may_be_1 & (others == 0))


class _StateTable(NamedTuple):
    """What finite features may be changed to, as the core's attacker takes it."""

    starts: npt.NDArray[np.int64]
    words: npt.NDArray[np.uint64]
    column_starts: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int32]

    @classmethod
    def of(cls, translation: Translation) -> _StateTable:
        n = translation.ensemble.n_features
        finite = [*translation.limits.categories, *translation.groups]
        none: list[Any] = []
        if not finite:
            return cls(*(np.array(none, kind) for kind in ("i8", "u8", "i4", "i4")))
        words: list[npt.NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)] * n
        columns: list[tuple[int, ...]] = [()] * n
        for feature in finite:
            words[feature] = bits_of(translation.states(feature))
        if translation.limits.by_row:
            for feature, group in translation.groups.items():
                columns[feature] = group
        has_columns = any(columns)
        return cls(
            np.cumsum([0, *map(len, words)], dtype=np.int64),
            np.concatenate(words),
            np.cumsum([0, *map(len, columns)], dtype=np.int32)
            if has_columns
            else np.zeros(0, dtype=np.int32),
            np.array([column for group in columns for column in group], dtype=np.int32),
        )
