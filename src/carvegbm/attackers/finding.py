"""A first attacker, found in data: what values are there, for a user to edit.

Comes in: columns of numbers, and columns of texts. Goes out: `Found`, what is true of every row:
steps, ranges, one-hot groups and categories by position. Missing values say nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Found", "find"]

_STEPS = (Fraction(1), Fraction(1, 255))
"""Steps that are looked for: whole numbers, and grey levels of images from 0 to 1."""

_ROWS_PER_MEMBER = 10
"""In fewer rows, columns without telling names may sum to 1 by chance."""

_VALUES_AT_ONCE = 1 << 22
_LARGEST_WHOLE = 1 << 50
"""Multiples of a step are exact in doubles up to here."""


@dataclass(frozen=True)
class Found:
    """What holds in all rows, by position of the feature."""

    n_features: int
    range: dict[int, tuple[float, float]] = field(default_factory=dict)
    """Lowest and highest value of a numeric feature."""
    step: dict[int, Fraction] = field(default_factory=dict)
    one_hot: list[list[int]] = field(default_factory=list)
    categories: dict[int, list[str]] = field(default_factory=dict)

    def by_feature(self) -> dict[str, dict[int, Any]]:
        """The limits that an `Attacker` takes, by option; members of groups need none."""
        grouped = {feature for group in self.one_hot for feature in group}
        return {
            "step": {f: step for f, step in self.step.items() if f not in grouped},
            "bounds": {f: ends for f, ends in self.range.items() if f not in grouped},
            "categories": dict(self.categories),
        }


def find(
    X: npt.NDArray[Any],
    names: Sequence[str] | None = None,
    texts: Mapping[int, Sequence[str | None]] | None = None,
) -> Found:
    """What holds in all rows of X; `texts` are the columns that hold texts instead of numbers.

    Examples
    --------
    >>> X = np.array([[1.0, 0.0, 3.0], [0.0, 1.0, 7.5]])
    >>> found = find(X, ["home_own", "home_rent", "age"])
    >>> found.one_hot, found.range[2], found.step
    ([[0, 1]], (3.0, 7.5), {0: Fraction(1, 1), 1: Fraction(1, 1)})
    """
    texts = texts or {}
    n = X.shape[1]
    columns = _Columns(n)
    for rows in _blocks(X):
        columns.look_at(rows)
    numeric = [f for f in range(n) if f not in texts and columns.has_numbers(f)]
    binary = np.array([f for f in numeric if columns.is_binary[f]], dtype=np.int64)
    return Found(
        n,
        {f: (float(columns.lowest[f]) + 0.0, float(columns.highest[f]) + 0.0) for f in numeric},
        {f: step for f in numeric if (step := columns.step(f)) is not None},
        _groups(X, binary, names),
        {
            f: sorted({label for label in labels if label is not None})
            for f, labels in texts.items()
        },
    )


def _blocks(X: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Rows one after the other, so many at a time that what is computed of them fits."""
    at_once = max(1, _VALUES_AT_ONCE // max(1, X.shape[1]))
    for start in range(0, len(X), at_once):
        yield np.asarray(X[start : start + at_once])


class _Columns:
    """What is true of all values of each column so far."""

    def __init__(self, n: int) -> None:
        self.lowest, self.highest = np.full(n, np.inf), np.full(n, -np.inf)
        self.is_binary = np.ones(n, dtype=bool)
        self._on = {step: np.ones(n, dtype=bool) for step in _STEPS}

    def look_at(self, rows: npt.NDArray[Any]) -> None:
        missing = np.isnan(rows)
        self.lowest = np.minimum(self.lowest, np.where(missing, np.inf, rows).min(axis=0))
        self.highest = np.maximum(self.highest, np.where(missing, -np.inf, rows).max(axis=0))
        self.is_binary &= ((rows == 0) | (rows == 1)).all(axis=0)
        for step, on in self._on.items():
            on &= (missing | _are_multiples(rows, step)).all(axis=0)

    def has_numbers(self, feature: int) -> bool:
        return bool(self.lowest[feature] < np.inf and self.highest[feature] > -np.inf)

    def step(self, feature: int) -> Fraction | None:
        return next((step for step, on in self._on.items() if on[feature]), None)


def _are_multiples(rows: npt.NDArray[Any], step: Fraction) -> npt.NDArray[np.bool_]:
    """Where a value is the number nearest to a whole multiple of the step, in its own precision."""
    with np.errstate(over="ignore", invalid="ignore"):
        times = np.rint(rows.astype(np.float64) * step.denominator / step.numerator)
        nearest = (times * step.numerator / step.denominator).astype(rows.dtype)
        small = np.abs(times * step.numerator) <= _LARGEST_WHOLE
    return np.asarray((nearest == rows) & small)


# ── one-hot groups ───────────────────────────────────────────────────────────────────────────


def _groups(
    X: npt.NDArray[Any], binary: npt.NDArray[np.int64], names: Sequence[str] | None
) -> list[list[int]]:
    """Groups of columns that are 0 or 1 and sum to 1 in every row, none of them in two.

    First those whose names begin alike, then neighbours whose names say nothing.
    """
    if len(binary) < 2:
        return []
    ones = np.concatenate([rows[:, binary] == 1 for rows in _blocks(X)])
    places = range(len(binary))
    free = set(places)
    found: list[list[int]] = []

    def claim(group: list[int]) -> None:
        free.difference_update(group)
        found.append([int(binary[place]) for place in group])

    for group in _called_alike([names[f] for f in binary] if names else []):
        members = [place for place in group if place in free]
        if len(members) == len(group) and _is_one_hot(ones[:, members]):
            claim(members)
    for start in places:
        run = _run_from(start, ones, binary, free)
        if run is not None:
            claim(run)
    return sorted(found)


def _is_one_hot(ones: npt.NDArray[np.bool_]) -> bool:
    """Whether exactly one is true in every row, and two columns at least are true somewhere."""
    is_group = (np.count_nonzero(ones, axis=1) == 1).all()
    return bool(is_group and np.count_nonzero(ones.any(axis=0)) >= 2)


def _called_alike(names: Sequence[str]) -> list[list[int]]:
    """Places of names with the same beginning, the longest beginnings first.

    Beginnings end before a number at the end, or after one of _ - = . : / or a space.
    """
    alike: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        ends = {match.end() for match in re.finditer(r"[_\-=.:/\s]+", name)}
        ends |= {match.start() for match in re.finditer(r"[0-9]+$", name)}
        for end in ends - {0, len(name)}:
            alike.setdefault(name[:end], []).append(place)
    groups = [(beginning, places) for beginning, places in alike.items() if len(places) >= 2]
    return [places for _, places in sorted(groups, key=lambda pair: -len(pair[0]))]


def _run_from(
    start: int, ones: npt.NDArray[np.bool_], binary: npt.NDArray[np.int64], free: set[int]
) -> list[int] | None:
    """Neighbours from this column on of which exactly one is true in every row, if there are."""
    taken = np.zeros(len(ones), dtype=bool)
    run: list[int] = []
    for place in range(start, len(binary)):
        is_neighbour = not run or binary[place] == binary[place - 1] + 1
        column = ones[:, place]
        if place not in free or not is_neighbour or not column.any() or (taken & column).any():
            return None
        run.append(place)
        taken = taken | column
        if taken.all():
            return run if len(run) >= 2 and len(ones) >= _ROWS_PER_MEMBER * len(run) else None
    return None
